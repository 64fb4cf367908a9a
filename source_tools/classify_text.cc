// perdura classify: for people, with the lines that are meant.
#include <fstream>
#include <map>

#include <fmt/format.h>

#include "classify.hpp"

namespace perdura::source {
namespace {

class Lines {
 public:
  /// Without what it begins with; "" where the file is not there.
  std::string line(const std::string& file, unsigned number) {
    auto [at, is_new] = files_.emplace(file, std::vector<std::string>());
    if (is_new) {
      std::ifstream input(file);
      for (std::string each; std::getline(input, each);) at->second.push_back(each);
    }
    if (number == 0 || number > at->second.size()) return "";
    const std::string& text = at->second[number - 1];
    const std::size_t begin = text.find_first_not_of(" \t");
    return begin == std::string::npos ? "" : text.substr(begin);
  }

 private:
  std::map<std::string, std::vector<std::string>> files_;
};

void add_place(std::string& text, const Program& program, Lines& lines, Place place,
               const std::string& before) {
  if (place.file == kNone) return;
  text += fmt::format("{}{}:{}:  {}\n", before, program.files[place.file], place.line,
                      lines.line(program.files[place.file], place.line));
}

}  // namespace

std::string as_text(const Classification& found, bool all_lines) {
  const Program& program = found.program;
  Lines lines;
  std::string text;
  std::string owner;
  std::size_t counts[4] = {};
  for (const Classified& each : found.methods) {
    const Judgement& judgement = each.judgement;
    ++counts[static_cast<int>(judgement.verdict)];
    if (each.method.owner != owner) {
      owner = each.method.owner;
      text += fmt::format("{}{}\n", text.empty() ? "" : "\n", owner);
    }
    text += fmt::format("  {:<10}  {}\n", name_of(judgement.verdict), each.method.signature);
    if (judgement.verdict != Verdict::kInstant) continue;
    for (const Reason& reason : judgement.reasons) {
      text += fmt::format("      {}\n", sentence(reason));
      add_place(text, program, lines, reason.at, "        ");
      if (reason.kind == Kind::kReturns) continue;
      for (std::size_t i = 0; i < reason.calls.size(); ++i)
        add_place(text, program, lines, reason.calls[i],
                  fmt::format("          calls {} at ", reason.callees[i]));
      if (reason.innermost != reason.at)
        add_place(text, program, lines, reason.innermost, "          and there it is ");
      if (all_lines) text += fmt::format("          {}\n", remedy(reason.kind));
    }
  }
  if (found.methods.empty()) {
    return "There is no method to classify: no class derives from POBase, and no state has "
           "perdura::Methods; name others with --class.\n";
  }
  text += fmt::format(
      "\n{} methods: {} deferrable, {} instant, {} of them reads\n", found.methods.size(),
      counts[static_cast<int>(Verdict::kDeferrable)],
      counts[static_cast<int>(Verdict::kInstant)] + counts[static_cast<int>(Verdict::kRead)],
      counts[static_cast<int>(Verdict::kRead)]);
  return text;
}

}  // namespace perdura::source
