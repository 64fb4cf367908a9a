#include "rewrite.hpp"

#include <clang/Format/Format.h>
#include <clang/Tooling/Core/Replacement.h>
#include <llvm/Support/Error.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace perdura::source {
namespace {

/// In order, and each once. What is put in at a place comes before what is replaced from there on.
Edits ordered(Edits edits) {
  std::ranges::stable_sort(edits, [](const Edit& a, const Edit& b) {
    if (a.begin != b.begin) return a.begin < b.begin;
    return (a.begin == a.end) > (b.begin == b.end);
  });
  Edits once;
  for (Edit& each : edits)
    if (once.empty() || !(once.back() == each)) once.push_back(std::move(each));
  return once;
}

/// Whether most lines end with CR LF, as the formatter decides it.
bool has_crlf(const std::string& text) {
  long balance = 0;
  for (std::size_t at = text.find('\n'); at != text.npos; at = text.find('\n', at + 1))
    balance += at > 0 && text[at - 1] == '\r' ? 1 : -1;
  return balance > 0;
}

/// What is put in ends its lines as the file does.
Edits with_crlf(Edits edits) {
  for (Edit& each : edits)
    for (std::size_t at = each.text.find('\n'); at != each.text.npos;
         at = each.text.find('\n', at + 1))
      if (at == 0 || each.text[at - 1] != '\r') each.text.insert(at++, 1, '\r');
  return edits;
}

}  // namespace

std::string Spot::text() const {
  return file + ":" + std::to_string(line) + ":" + std::to_string(column);
}

std::string edited(const std::string& text, const Edits& edits, unsigned begin, unsigned end) {
  std::string result;
  unsigned at = begin;
  for (const Edit& each : ordered(edits)) {
    if (each.begin < at || each.end > end) continue;
    result.append(text, at, each.begin - at);
    result += each.text;
    at = each.end;
  }
  result.append(text, at, end - at);
  return result;
}

std::string edited_and_formatted(const std::string& path, const std::string& text,
                                 const Edits& written, bool formats,
                                 std::vector<std::string>& wrong) {
  using namespace clang;
  const Edits edits = has_crlf(text) ? with_crlf(written) : written;
  const auto size = static_cast<unsigned>(text.size());
  std::string result = edited(text, edits, 0, size);
  if (!formats) return result;
  std::vector<tooling::Range> ranges;
  long moved = 0;
  unsigned at = 0;
  for (const Edit& each : ordered(edits)) {
    if (each.begin < at) continue;
    ranges.emplace_back(static_cast<unsigned>(each.begin + moved),
                        static_cast<unsigned>(each.text.size()));
    moved += static_cast<long>(each.text.size()) - (each.end - each.begin);
    at = each.end;
  }
  llvm::Expected<format::FormatStyle> style = format::getStyle("file", path, "Google", text);
  if (!style) {
    wrong.push_back("'" + path + "' cannot be formatted: " + llvm::toString(style.takeError()));
    return result;
  }
  style->SortIncludes = format::FormatStyle::SI_Never;
  const tooling::Replacements changes = format::reformat(*style, result, ranges, path);
  llvm::Expected<std::string> formatted = tooling::applyAllReplacements(result, changes);
  if (!formatted) {
    wrong.push_back("'" + path + "' cannot be formatted: " + llvm::toString(formatted.takeError()));
    return result;
  }
  return *formatted;
}

std::string text_of_file(const std::string& path, std::vector<std::string>& wrong) {
  std::ifstream input(path, std::ios::binary);
  std::ostringstream text;
  text << input.rdbuf();
  if (!input) wrong.push_back("'" + path + "' cannot be read");
  return text.str();
}

}  // namespace perdura::source
