// perdura refactor: classes as they are written become classes whose calls are logged.
//
//   sources ── refactor_extract.cc, refactor_body.cc ── Model ── refactor_generate.cc ── Edits
//
// Each translation unit is parsed by itself, and what it says of a class is joined with what the
// others do: a method is often defined in another unit than those that call it. The model has
// offsets in files and no syntax trees, so that the edits are the same whichever unit they are of.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "classify.hpp"
#include "rewrite.hpp"

namespace perdura::source {

/// What cannot be done, and where.
struct Refusal {
  Spot at;
  std::string text;
  auto operator<=>(const Refusal&) const = default;
};

/// What is said of a call of another object, behind the method's name.
inline constexpr const char* kNoOtherObject =
    " of another object, and no object is called by a persistent function: hand over what it says "
    "as an argument";

/// A call of a method of the class or of one that it derives from on its own object, within the
/// class.
struct InnerCall {
  std::string callee;  ///< the key of a method
  unsigned begin;      ///< of what says who is called: this->f
  unsigned name;       ///< of f in there
  unsigned end;
  unsigned open;   ///< behind the parenthesis
  unsigned close;  ///< before it
  std::size_t arguments;
  bool converts;          ///< an argument, as braces perhaps would not
  std::string comments;   ///< from `begin` to `end`
  bool asks_noexcept;     ///< of a method that is, in the operand of noexcept
  bool is_evaluated;      ///< not in the operand of sizeof and the like
  bool of_const;          ///< within a const method
  std::string refused{};  ///< why no context can be made of the arguments
  Spot at;
};

/// What stands in the braces of a method.
struct Body {
  std::string file;
  unsigned begin = 0;  ///< of the brace
  unsigned end = 0;    ///< behind the other one
  bool uses_root = false;
  std::vector<unsigned> roots;  ///< offsets of uses of poroot that are evaluated
  Edits edits;                  ///< that are needed in any case where it becomes a static function
  std::vector<InnerCall> calls;
  struct Use {
    std::size_t parameter;
    unsigned begin;
    unsigned end;
    bool changes;
  };
  std::vector<Use> uses;
  struct Unresolved {
    std::string name;
    Spot at;
  };
  /// [this] of a lambda, which becomes [poroot] or, where nothing in there needs that, goes.
  struct Capture {
    unsigned begin, end;
    unsigned without_begin, without_end;  ///< with a comma
    unsigned lambda_begin, lambda_end;    ///< of its braces
  };
  std::vector<Capture> captures;
  std::vector<Unresolved> unresolved;  ///< methods that depend on the arguments of a template
  std::set<std::string> words;
  std::set<std::string> locals;              ///< names of variables and types in there
  std::vector<Refusal> refusals;             ///< where it becomes one
  std::vector<Refusal> refusals_if_renamed;  ///< where that has another name than the method
};

struct Argument {
  std::string name;      ///< "": it has none
  unsigned name_at = 0;  ///< where it would be
  std::string type;      ///< of a member that holds it
  bool is_const = false;
  std::string otherwise;  ///< its default, as it is written
  Spot at;
  std::string refused;  ///< why it cannot be logged; "": it can
};

/// A definition that is not in the class.
struct OuterDefinition {
  Spot at;
  unsigned name_begin, name_end;
  unsigned open, close;         ///< within the parentheses
  std::optional<Edit> nothing;  ///< (void): takes that out
  unsigned tail_end;            ///< where the body begins
  std::vector<Argument> arguments;
  std::string comments;       ///< between the parentheses
  std::vector<Edit> dropped;  ///< const and the like, behind them
};

struct ModelMethod {
  std::string name;
  std::string signature;
  Spot at;                      ///< of its name in the class
  unsigned begin;               ///< of the declaration in the class, with attributes
  unsigned specifiers;          ///< behind these
  unsigned end;                 ///< behind its semicolon or brace
  unsigned open, close;         ///< within the parentheses
  std::optional<Edit> nothing;  ///< (void): takes that out
  unsigned tail_end;            ///< behind the last of const, noexcept, override
  bool is_written = true;       ///< all of it, so that what follows is known
  bool is_public = false;
  bool is_const = false;
  bool is_virtual = false;  ///< and not final
  bool is_template_pattern = false;
  bool returns = false;
  std::string attributes;  ///< "[[nodiscard]] "
  std::string before;      ///< "virtual "
  std::string result;      ///< the type
  std::string noexcept_text;
  std::string after;          ///< " override"
  std::string comments;       ///< in the declaration, that would be lost
  std::vector<Edit> dropped;  ///< const and the like, which no static function has
  std::vector<Argument> arguments;
  std::vector<Refusal> refusals;         ///< where it is called later
  std::vector<Refusal> static_refusals;  ///< where it becomes a static function
  struct Overridden {
    std::string key;
    std::string name;
  };
  std::vector<Overridden> overrides;
  std::vector<std::string> twins;  ///< keys of those that may be called alike, but for const
  std::optional<OuterDefinition> outer;
  std::optional<Body> body;
};

struct ModelClass {
  std::string name;
  Spot at;
  unsigned open = 0;                ///< behind the brace
  unsigned close = 0;               ///< before it
  std::optional<unsigned> section;  ///< behind the colon of a private section that is the last
  bool functions_only = true;       ///< in that section
  std::set<std::string> names;      ///< of members that stay, and of types
  std::set<std::string> words;      ///< all that stands in the braces
  /// What names may mean in the class by bases that are not in the model, and classes around.
  std::set<std::string> names_outside;
  std::map<std::string, ModelMethod> methods;  ///< by key, which has their place
  std::map<unsigned, Body> others;             ///< constructors and destructors, by offset
  std::vector<Refusal> refusals;
  std::vector<std::string> bases;  ///< places of classes that it derives from
};

/// A use from elsewhere: a call, or a using-declaration.
struct Caller {
  std::string callee;
  Spot at;
  unsigned begin = 0, end = 0;  ///< of the name
  std::string refused;
  bool in_class = false;  ///< it is changed with the class in any case
  std::string within;     ///< the key of the method of a class of objects that it is in
  std::string signature;  ///< of that method
  auto operator<=>(const Caller&) const = default;
};

/// The name of a member of an unknown class that is asked for where no instance of a template shows
/// which class that is: in a concept, a constraint, the arguments of a partial specialization.
struct Mention {
  std::string name;
  Spot at;
  auto operator<=>(const Mention&) const = default;
};

struct ThreadStart {
  Spot at;
  unsigned name_end = 0;
  unsigned close = 0;
  bool is_known = false;    ///< pthread_create_simpo is declared there
  bool in_a_macro = false;  ///< and so cannot be changed
  std::string within{};     ///< the key of the method of a class of objects that it is in
  auto operator<=>(const ThreadStart&) const = default;
};

struct Model {
  std::map<std::string, ModelClass> classes;  ///< by place
  std::set<Caller> callers;
  /// Files and offsets of calls in templates that are of other classes' methods in some instance.
  std::set<std::pair<std::string, unsigned>> others;
  std::set<Mention> mentions;
  std::set<ThreadStart> threads;
  /// Beside those of classes and methods: with the key of a class or a method that only then is a
  /// matter where that is refactored, or none.
  std::set<std::pair<std::string, Refusal>> refusals;
  /// Of what is declared in namespaces and of macros, as far as names that are made for methods
  /// could be the same: these would hide them.
  std::set<std::string> names;

  void join(Model&& unit);
};

/// What a unit has of classes that derive from POBase.
Model extract_model(clang::ASTContext& context);

struct RefactorOptions {
  bool callers = false;
};

struct Refactored {
  std::vector<std::string> wrong;             ///< sentences: does not compile
  std::vector<std::string> refusals;          ///< sentences with their places
  std::vector<std::string> files;             ///< of places in judgements
  std::map<std::string, std::string> before;  ///< files that change
  std::map<std::string, std::string> after;
  struct Done {
    std::string owner, method, function, context, wrapper, verdict;
    Spot at;
  };
  std::vector<Done> done;
  std::vector<Caller> callers;  ///< that were rewritten, or with no `callers` would have to be
  std::size_t threads = 0;
};

Refactored refactor(const Sources& sources, const RefactorOptions& options);

/// perdura::Methods of these states; of none named: of those whose methods have attributes.
Refactored write_methods(const Sources& sources, const std::vector<std::string>& classes);

/// Makes the files of the edits, if nothing is refused.
void make(const std::map<std::string, Edits>& edits, Refactored& result);

/// Where another line may include something: behind the last one that does before `limit`, in any
/// case and outside of braces; else behind what a file begins with.
unsigned behind_includes(const std::string& text, unsigned limit);

/// What each method is, by the place of its definition.
using Verdicts = std::map<std::string, const Classified*>;

/// The edits of all files. `done` is filled.
std::map<std::string, Edits> edits_of(const Model& model, const Verdicts& verdicts,
                                      const Directives& directives, const RefactorOptions& options,
                                      Refactored& result);

std::string refactored_as_json(const Refactored& refactored);

}  // namespace perdura::source
