#include "directives.hpp"

#include <clang/Lex/Lexer.h>
#include <llvm/ADT/StringExtras.h>
#include <llvm/Support/MemoryBuffer.h>

#include <optional>
#include <set>
#include <utility>

namespace perdura::source {
namespace {

using namespace llvm;

/// A file whose text is in memory.
class Text : public vfs::File {
 public:
  Text(vfs::Status status, std::string text) : status_(std::move(status)), text_(std::move(text)) {}
  ErrorOr<vfs::Status> status() override { return status_; }
  ErrorOr<std::unique_ptr<MemoryBuffer>> getBuffer(const Twine& name, int64_t, bool,
                                                   bool) override {
    return MemoryBuffer::getMemBufferCopy(text_, name);
  }
  std::error_code close() override { return {}; }

 private:
  vfs::Status status_;
  std::string text_;
};

class Filter : public vfs::ProxyFileSystem {
 public:
  Filter(IntrusiveRefCntPtr<vfs::FileSystem> under, Directives& directives)
      : ProxyFileSystem(std::move(under)), directives_(directives) {}

  ErrorOr<std::unique_ptr<vfs::File>> openFileForRead(const Twine& path) override {
    auto file = ProxyFileSystem::openFileForRead(path);
    if (!file) return file;
    auto status = (*file)->status();
    auto buffer = (*file)->getBuffer(path);
    if (!status || !buffer) return ProxyFileSystem::openFileForRead(path);
    const StringRef text = (*buffer)->getBuffer();
    std::string real = path.str();
    SmallString<256> found;
    if (!getRealPath(path, found)) real = found.str().str();
    std::string cleared =
        text.contains("begin") || text.contains("end") ? directives_.take(real, text) : text.str();
    return std::unique_ptr<vfs::File>(new Text(*status, std::move(cleared)));
  }

 private:
  Directives& directives_;
};

/// The words of a line that is a directive of some kind: "begin", "defer".
std::vector<StringRef> words_of(StringRef line) {
  std::vector<StringRef> words;
  line = line.take_front(std::min(line.find("//"), line.find("/*"))).trim();
  if (!line.consume_front("#")) return words;
  while (!line.empty()) {
    const auto [word, rest] = llvm::getToken(line, " \t\v\f\r");
    if (!word.empty()) words.push_back(word);
    line = rest;
  }
  return words;
}

bool begins(const std::vector<StringRef>& words) { return !words.empty() && words[0] == "begin"; }
bool ends(const std::vector<StringRef>& words) { return words.size() == 1 && words[0] == "end"; }

/// Offsets of each # that begins a line, and is not in a comment or a text of several lines.
std::set<std::size_t> hashes_of(StringRef text) {
  std::set<std::size_t> found;
  clang::LangOptions options;
  options.CPlusPlus = options.CPlusPlus11 = options.LineComment = options.RawStringLiterals = true;
  options.CPlusPlus14 = true;            // 1'000
  const std::string ended = text.str();  // the lexer wants a null behind it
  clang::Lexer lexer(clang::SourceLocation(), options, ended.data(), ended.data(),
                     ended.data() + ended.size());
  clang::Token token;
  for (bool more = true; more;) {
    more = !lexer.LexFromRawLexer(token) && token.isNot(clang::tok::eof);
    if (token.is(clang::tok::hash) && token.isAtStartOfLine())
      found.insert(lexer.getCurrentBufferOffset() - token.getLength());
  }
  return found;
}

}  // namespace

std::string Directives::take(const std::string& path, StringRef text) {
  std::string cleared = text.str();
  std::vector<Region> regions;
  std::vector<DirectiveError> errors;
  Region open{Verdict::kNothing, 0, 0};
  std::optional<std::set<std::size_t>> hashes;
  unsigned number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    ++number;
    std::size_t end = text.find('\n', begin);
    if (end == StringRef::npos) end = text.size();
    std::vector<StringRef> words = words_of(text.slice(begin, end));
    if (begins(words) || ends(words)) {
      if (!hashes) hashes = hashes_of(text);
      if (!hashes->contains(text.find('#', begin))) words.clear();
    }
    if (begins(words)) {
      const bool defer = words.size() == 2 && words[1] == "defer";
      if (!defer && (words.size() != 2 || words[1] != "inst"))
        errors.push_back({path, number, "a directive is '#begin defer' or '#begin inst'"});
      if (open.verdict != Verdict::kNothing)
        errors.push_back({path, number,
                          "the one of line " + std::to_string(open.first) +
                              " has no '#end' before this: add one"});
      open = {defer ? Verdict::kDeferrable : Verdict::kInstant, number, 0};
    } else if (ends(words)) {
      if (open.verdict == Verdict::kNothing)
        errors.push_back({path, number, "'#end' without a '#begin' before it: remove it"});
      open.last = number;
      if (open.verdict != Verdict::kNothing) regions.push_back(open);
      open.verdict = Verdict::kNothing;
    }
    if (begins(words) || ends(words))
      for (std::size_t i = begin; i < end; ++i) cleared[i] = ' ';
    begin = end + 1;
  }
  if (open.verdict != Verdict::kNothing)
    errors.push_back({path, open.first, "no '#end' follows: add one behind the declarations"});
  const std::lock_guard lock(mutex_);
  regions_[path] = std::move(regions);
  errors_[path] = std::move(errors);
  return cleared;
}

Region Directives::of(const std::string& path, unsigned line) const {
  const std::lock_guard lock(mutex_);
  const auto at = regions_.find(path);
  if (at != regions_.end())
    for (const Region& each : at->second)
      if (each.first <= line && line <= each.last) return each;
  return {Verdict::kNothing, 0, 0};
}

std::vector<DirectiveError> Directives::errors() const {
  const std::lock_guard lock(mutex_);
  std::vector<DirectiveError> all;
  for (const auto& [path, errors] : errors_) all.insert(all.end(), errors.begin(), errors.end());
  return all;
}

IntrusiveRefCntPtr<vfs::FileSystem> without_directives(IntrusiveRefCntPtr<vfs::FileSystem> under,
                                                       Directives& directives) {
  return IntrusiveRefCntPtr<vfs::FileSystem>(new Filter(std::move(under), directives));
}

}  // namespace perdura::source
