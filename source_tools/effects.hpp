// What the functions of a program do to what their parameters lead to: of each a summary, in terms
// of its parameters, found by going over all of them until nothing changes any more.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "targets.hpp"

namespace perdura::source {

struct SolvedBody;

/// A call by a pointer that the caller hands over.
struct Pending {
  const SolvedBody* origin;
  Id call;
  Targets callee;
  std::vector<Targets> arguments;
  bool operator==(const Pending&) const = default;
};

/// What all bodies of a function do to what its parameters lead to.
struct Summary {
  Targets read;
  Targets written;
  Targets numbers;  ///< that are read as numbers: what is there is no address
  Targets bytes;    ///< of these, by single bytes
  Targets values;   ///< what is read as a number where no pointer is declared
  Targets returned;
  std::map<std::uint32_t, Targets> stored;                       ///< where, and what
  std::map<std::uint32_t, std::set<std::string>> reinterpreted;  ///< where, and as what
  std::map<std::pair<const SolvedBody*, Id>, Pending> pending;   ///< by where it is called
  bool too_many_pending = false;
  bool operator==(const Summary&) const = default;
};

struct SolvedBody {
  const Function* function;
  std::vector<Targets> values{};
  std::unordered_map<std::uint32_t, Targets> content{};
  std::uint64_t changes = 0;  ///< of these
  struct Applied {
    std::uint64_t changes = ~std::uint64_t{0};  ///< of the body, when it was applied
    std::vector<Pending> pending{};
  };
  std::vector<Applied> applied{};  ///< by call
};

class Effects {
 public:
  /// Solves the whole program.
  explicit Effects(Program& with);

  /// What targets of a called function are for who calls it with these.
  class Caller {
   public:
    Caller(Effects& effects, SolvedBody& body, const std::vector<Targets>& arguments)
        : effects_(effects), body_(body), arguments_(arguments) {}
    const Targets& sees(Target target);
    Targets sees(const Targets& targets);

   private:
    Targets find(Target target);
    /// Of what a closure has, variables of whoever made it, and of closures around that.
    Targets variables_of(const Targets& content) const;

    Effects& effects_;
    SolvedBody& body_;
    const std::vector<Targets>& arguments_;
    std::unordered_map<std::uint32_t, Targets> seen_;
  };

  /// Whom a call may call: `direct` for each function that is there, `missing` for whoever is not
  /// known or has no source, `pending` for what the caller of this function knows.
  struct Visitor {
    std::function<void(const std::string& key, const std::vector<Targets>& arguments,
                       const Pending* through)>
        direct;
    std::function<void(Kind kind, const std::string& name, const Pending* through)> missing;
    std::function<void(Pending pending)> pending;
    int pointers = 0;  ///< that were looked at
  };
  void visit_call(SolvedBody& body, Id id, Visitor& visitor);

  /// What is read there as a number, or as single bytes: where pointers among it would lead.
  Targets seen_as_number(SolvedBody& body, const Targets& places, bool bytes);

  /// Where the pointers lead that are there.
  Targets content_of(SolvedBody& body, Target target);

  Program& program;
  Target kept;           ///< where a pointer leads that is in the object
  Target lost;           ///< where one leads of which nothing is known
  Target reinterpreted;  ///< the same, since its bytes were another type's
  Target another;        ///< the memory of another object
  std::map<std::string, std::vector<SolvedBody>, std::less<>> bodies;
  std::map<std::string, Summary, std::less<>> summaries;

 private:
  // --- what targets are

  Targets content_of(SolvedBody& body, const Targets& targets);
  /// Adds what can be reached from them.
  void close(SolvedBody& body, Targets& targets);
  Targets poroots_of(const SolvedBody& body, const Targets& objects);
  std::vector<Targets> arguments_of(const SolvedBody& body, const Call& call) const;
  static Leads leads_of(const Function& function, Id parameter);
  /// Never the address of a function.
  static bool is_data(const Function& function, Target target);
  void visit_pointer(SolvedBody& body, const Targets& pointer,
                     const std::vector<Targets>& arguments, const Pending* through,
                     const SolvedBody* origin, Id call, Visitor& visitor);
  void visit_function(SolvedBody& body, const std::string& key,
                      const std::vector<Targets>& arguments, const Pending* through,
                      Visitor& visitor);

  // --- one body. True: something has changed

  static bool grow(SolvedBody& body, Targets& targets, const Targets& what);
  static Targets single(Target target);
  bool put(SolvedBody& body, const Targets& places, const Targets& what);
  /// Bytes of the object, or from outside: pointers among them are what these are.
  static bool is_of_bytes(const SolvedBody& body, const Fact& fact);
  /// Where other types' values may have been stored, pointers are not to be trusted.
  bool doubt(SolvedBody& body, const Targets& places, const std::string& type);
  bool apply_call(SolvedBody& body, Id id, std::vector<Pending>& pending);
  void solve(SolvedBody& body, Summary& summary);

  // --- summaries

  /// A target of this function for who calls it.
  static Target exported(Target target);
  static Targets exported(const Targets& targets);
  /// Those of which there are many become one of their kind.
  void limit(Targets& targets);
  /// Of several types it may be any.
  static void add_type(Summary& summary, std::uint32_t where, const std::string& type);
  static void add_symbolic(Targets& to, const Targets& from);
  void summarize(SolvedBody& body, Summary& summary);
  void summarize_call(SolvedBody& body, Id id, Summary& summary);

  // --- all of them

  /// Who is called before who calls, where nobody calls himself.
  std::vector<std::string> in_order() const;
  void solve_all();

  std::map<std::string, std::set<const SolvedBody*>, std::less<>> users_;  ///< by who is called
};

}  // namespace perdura::source
