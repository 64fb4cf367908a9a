// perdura refactor, from sources to changed files.
#include "refactor.hpp"

#include <algorithm>
#include <mutex>

#include <clang/Lex/Lexer.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace perdura::source {

void make(const std::map<std::string, Edits>& edits, Refactored& result) {
  result.before.clear();
  for (const auto& [file, each] : edits) {
    if (each.empty() || !result.refusals.empty()) continue;
    const std::string text = text_of_file(file, result.wrong);
    std::string after = edited_and_formatted(file, text, each, true, result.wrong);
    if (after == text) continue;
    result.before[file] = text;
    result.after[file] = std::move(after);
  }
}

namespace {

/// Reads a file line by line, for the place of another #include.
class IncludePlace {
 public:
  explicit IncludePlace(const std::string& text)
      : text_(text), behind_(text.starts_with("\xEF\xBB\xBF") ? 3 : 0), last_(behind_) {}

  void add(std::size_t begin, std::size_t end, bool begins_line) {
    if (begins_line) end_line();
    const std::string token = text_.substr(begin, end - begin);
    if (line_.empty()) begin_ = begin;
    if (line_.empty() || line_[0] != "#") braces_ += (token == "{") - (token == "}");
    line_.push_back(token);
    last_ = end;
  }
  unsigned behind() const { return static_cast<unsigned>(behind_); }

 private:
  void end_line() {
    if (line_.empty()) return;
    const std::string what = line_.size() > 1 && line_[0] == "#" ? line_[1] : "";
    const bool is_comment = line_.size() == 1 && line_[0].starts_with("/");
    bool is_place = false;
    if (is_comment) {
      is_place = !has_code_ && (comment_end_ == 0 || begin_ == comment_end_);
      comment_end_ = behind_line();
    } else if (what == "include" || what == "import" ||
               (what == "pragma" && line_.back() == "once")) {
      is_place = braces_ == 0 && std::ranges::find(conditions_, true) == conditions_.end();
    } else if (what == "define") {
      is_place = !has_code_;
    } else if (what.starts_with("if")) {
      // What a file begins with may be around all of it, and then is no condition.
      conditions_.push_back(has_code_ || what != "ifndef");
    } else if (what == "endif" && !conditions_.empty()) {
      is_place = !conditions_.back();  // it was around what is before
      conditions_.pop_back();
    }
    if (is_place) behind_ = behind_line();
    has_code_ |= !is_comment && what != "define" && what != "ifndef";
    line_.clear();
  }
  std::size_t behind_line() const {
    const std::size_t end = text_.find('\n', last_ - 1);
    return end == std::string::npos ? text_.size() : end + 1;
  }

  const std::string& text_;
  std::size_t behind_;
  std::size_t begin_ = 0;        ///< of the line
  std::size_t last_;             ///< behind its last token
  std::size_t comment_end_ = 0;  ///< of the comment that the file begins with
  int braces_ = 0;               ///< that are open
  bool has_code_ = false;
  std::vector<bool> conditions_;  ///< that are open; false: around all of the file
  std::vector<std::string> line_;
};

}  // namespace

unsigned behind_includes(const std::string& text, unsigned limit) {
  clang::LangOptions language;
  language.CPlusPlus = language.CPlusPlus11 = language.LineComment = true;
  clang::Lexer lexer(clang::SourceLocation(), language, text.data(), text.data(),
                     text.data() + text.size());
  lexer.SetCommentRetentionState(true);
  IncludePlace place(text);
  while (true) {
    clang::Token token;
    lexer.LexFromRawLexer(token);
    const auto end = static_cast<std::size_t>(lexer.getBufferLocation() - text.data());
    if (token.is(clang::tok::eof) || end > limit) return place.behind();
    place.add(end - token.getLength(), end, token.isAtStartOfLine());
  }
}

Refactored refactor(const Sources& sources, const RefactorOptions& options) {
  Refactored result;
  Judged judged;
  judged.private_too = true;
  Directives directives;
  std::mutex mutex;
  std::map<std::size_t, Model> units;  // joined in their order, whichever is ready first
  const Classification found =
      classify(sources, judged, directives, [&](clang::ASTContext& context, std::size_t number) {
        Model unit = extract_model(context);
        const std::lock_guard lock(mutex);
        units.emplace(number, std::move(unit));
      });
  result.wrong = found.wrong;
  if (!result.wrong.empty()) return result;
  Model model;
  for (auto& [number, unit] : units) model.join(std::move(unit));
  result.files = found.program.files;
  result.refusals = found.objections;
  const Verdicts verdicts = by_place(found);
  const std::map<std::string, Edits> edits = edits_of(model, verdicts, directives, options, result);
  make(edits, result);
  return result;
}

std::string refactored_as_json(const Refactored& refactored) {
  using nlohmann::ordered_json;
  const auto place = [](const Spot& at) {
    return ordered_json{{"file", at.file}, {"line", at.line}, {"column", at.column}};
  };
  ordered_json methods = ordered_json::array();
  for (const Refactored::Done& each : refactored.done)
    methods.push_back({{"class", each.owner},
                       {"method", each.method},
                       {"verdict", each.verdict},
                       {"function", each.function},
                       {"context", each.context},
                       {"wrapper", each.wrapper},
                       {"at", place(each.at)}});
  ordered_json callers = ordered_json::array();
  for (const Caller& each : refactored.callers) callers.push_back(place(each.at));
  ordered_json files = ordered_json::array();
  for (const auto& [file, text] : refactored.after) files.push_back(file);
  return ordered_json{{"methods", std::move(methods)},
                      {"callers", std::move(callers)},
                      {"threads", refactored.threads},
                      {"files", std::move(files)},
                      {"refusals", refactored.refusals}}
             .dump(2, ' ', false, ordered_json::error_handler_t::replace) +
         "\n";
}

}  // namespace perdura::source
