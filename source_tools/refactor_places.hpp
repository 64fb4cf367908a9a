// Where nodes of a syntax tree are in the text of files.
#pragma once

#include <clang/AST/ASTContext.h>
#include <clang/AST/DeclCXX.h>
#include <clang/Basic/SourceManager.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "refactor.hpp"

namespace perdura::source {

struct Token {
  unsigned begin;
  unsigned end;
  std::string text;
  bool is_comment;
  bool begins_line;
};

class Places {
 public:
  explicit Places(clang::ASTContext& context)
      : context_(context), sources_(context.getSourceManager()) {}

  clang::ASTContext& context() const { return context_; }
  Spot spot(clang::SourceLocation location) const;
  bool is_system(clang::SourceLocation location) const;
  /// Offsets from the first to behind the last token; nothing where a macro's text is in between.
  std::optional<std::pair<unsigned, unsigned>> range(clang::SourceRange range) const;
  /// Of what stands in an argument of a macro: where that is used in the macro.
  clang::SourceLocation body_of_macro(clang::SourceLocation location) const;
  /// Whether it is in an argument of a macro that makes text of one, or pastes it to something.
  bool makes_text(clang::SourceLocation location) const;
  /// The text of the file in which it is.
  llvm::StringRef text(clang::SourceLocation location) const;
  std::vector<Token> tokens(clang::SourceLocation in, unsigned begin, unsigned end) const;
  /// Those in between, each so that something can follow it: a text that takes the place of all
  /// this begins with them.
  std::string comments(clang::SourceLocation in, unsigned begin, unsigned end) const;
  /// Why values of the type cannot be logged, and what to write instead; "": they can.
  std::string why_not_logged(clang::QualType type, const std::string& name,
                             bool references = false) const;

 private:
  clang::ASTContext& context_;
  clang::SourceManager& sources_;
};

/// Without parentheses, conversions and *, as in (*this).f().
const clang::Expr* object_of(const clang::Expr* expression);
/// Whether it derives from POBase.
bool is_persistent_class(const clang::CXXRecordDecl* record);
/// Whether an expression that calls the method, and nothing that throws, is noexcept.
bool is_noexcept(const clang::CXXMethodDecl* method);
/// Of a method, by the place where its class has it.
std::string place_key(const Places& places, const clang::CXXMethodDecl* method);
/// The method of the template that it is an instance of, or itself.
const clang::CXXMethodDecl* as_written(const clang::CXXMethodDecl* method);

/// What a method's, constructor's or destructor's braces have.
Body body_of(const Places& places, const clang::FunctionDecl* definition);

}  // namespace perdura::source
