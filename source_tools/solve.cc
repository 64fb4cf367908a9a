#include "solve.hpp"

#include <algorithm>
#include <cassert>
#include <deque>
#include <functional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace perdura::source {

bool Targets::add(Target target) {
  const std::uint32_t code = target.code();
  const auto at = std::ranges::lower_bound(codes_, code);
  if (at != codes_.end() && *at == code) return false;
  codes_.insert(at, code);
  return true;
}

bool Targets::add(const Targets& others) {
  if (std::ranges::includes(codes_, others.codes_)) return false;
  std::vector<std::uint32_t> both;
  both.reserve(codes_.size() + others.codes_.size());
  std::ranges::set_union(codes_, others.codes_, std::back_inserter(both));
  codes_ = std::move(both);
  return true;
}

bool Targets::contains(Target target) const {
  return std::ranges::binary_search(codes_, target.code());
}

namespace {

constexpr int kPendingMax = 4;  ///< calls by pointers from parameters, of one function
/// Targets of a class that a function tells its callers apart; of more they know the kind alone.
constexpr int kToldApart = 6;
constexpr int kPointersMax = 16;  ///< to functions, that are looked at for one call

struct Body;

/// A call by a pointer that the caller hands over.
struct Pending {
  const Body* origin;
  Id call;
  Targets callee;
  std::vector<Targets> arguments;
  bool operator==(const Pending&) const = default;
};

/// What all bodies of a function do to what its parameters lead to.
struct Summary {
  Targets read;
  Targets written;
  Targets returned;
  std::map<std::uint32_t, Targets> stored;                       ///< where, and what
  std::map<std::uint32_t, std::set<std::string>> reinterpreted;  ///< where, and as what
  std::map<std::pair<const Body*, Id>, Pending> pending;         ///< by where it is called
  bool too_many_pending = false;
  bool operator==(const Summary&) const = default;
};

struct Body {
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

}  // namespace

struct Solver::Parts {
  explicit Parts(Program& with) : program(with) {
    kept = {Target::kOutside, program.outside({Kind::kKeptPointer, "", {}})};
    lost = {Target::kOutside, program.outside({Kind::kUnknownPointer, "", {}})};
    reinterpreted = {Target::kOutside, program.outside({Kind::kUnknownPointer,
                                                        "a pointer whose bytes are "
                                                        "seen as something else",
                                                        {}})};
    another = {Target::kOutside, program.outside({Kind::kMember, "another object", {}})};
    for (auto& [key, functions] : program.functions)
      for (const Function& each : functions) bodies[key].push_back({&each, {}, {}});
    solve_all();
  }

  // --- the analysis

  Targets content_of(Body& body, Target target) {
    Targets all;
    const auto at = body.content.find(target.code());
    if (at != body.content.end()) all = at->second;
    switch (target.kind) {
      case Target::kParameter:
      case Target::kReach:
        all.add(Target::behind(target.parameter(), target.depth() + 1));
        break;
      case Target::kCaptured:
        all.add(Target::captured(target.parameter(), target.depth(), target.steps() + 1));
        break;
      case Target::kPoroot:
        all.add(kept);
        break;
      case Target::kConstant:
        for (const Target each : program.constants[target.index].content) all.add(each);
        break;
      case Target::kOutside:
      case Target::kTold:
        all.add(target);
        break;
      case Target::kLocal:
        if (target.index == Target::kElsewhere) all.add(lost);
        break;
      case Target::kFunction:
        break;
    }
    return all;
  }
  Targets content_of(Body& body, const Targets& targets) {
    Targets all;
    for (const std::uint32_t each : targets) all.add(content_of(body, Target::of(each)));
    return all;
  }
  /// Adds what can be reached from them.
  void close(Body& body, Targets& targets) {
    std::vector<std::uint32_t> work(targets.begin(), targets.end());
    while (!work.empty()) {
      const Targets next = content_of(body, Target::of(work.back()));
      work.pop_back();
      for (const std::uint32_t each : next)
        if (targets.add(Target::of(each))) work.push_back(each);
    }
  }
  Targets poroots_of(const Body& body, const Targets& objects) {
    Targets all;
    for (const std::uint32_t code : objects) {
      const Target target = Target::of(code);
      switch (target.kind) {
        case Target::kParameter:
        case Target::kCaptured:
        case Target::kReach:
          all.add(Target::poroot_behind(target.parameter(), target.depth()));
          break;
        case Target::kLocal:
          if (target.index != Target::kElsewhere && body.function->locals[target.index].is_object)
            all.add(another);
          break;
        case Target::kPoroot:
          all.add(kept);
          break;
        case Target::kOutside:
        case Target::kTold:
          all.add(target);
          break;
        case Target::kConstant:
        case Target::kFunction:
          break;
      }
    }
    return all;
  }
  /// What targets of a called function are for who calls it with these.
  class Caller {
   public:
    Caller(Parts& parts, Body& body, const std::vector<Targets>& arguments)
        : parts_(parts), body_(body), arguments_(arguments) {}

    const Targets& sees(Target target) {
      const auto [at, is_new] = seen_.emplace(target.code(), Targets());
      if (is_new) at->second = find(target);
      return at->second;
    }
    Targets sees(const Targets& targets) {
      Targets all;
      for (const std::uint32_t each : targets) all.add(sees(Target::of(each)));
      return all;
    }

   private:
    Targets find(Target target) {
      Targets all;
      if (!target.is_symbolic()) {
        all.add(target);
        return all;
      }
      const Id parameter = target.parameter();
      if (parameter >= arguments_.size()) {  // of a function that was declared otherwise
        all.add(parts_.lost);
        return all;
      }
      if (target.kind == Target::kPoroot)
        return parts_.poroots_of(body_, sees(Target::behind(parameter, target.depth())));
      const unsigned depth = target.depth();
      if (depth == 0 && target.kind != Target::kCaptured) return arguments_[parameter];
      if (target.kind == Target::kCaptured) {
        const unsigned steps = target.steps();
        if (steps == 0) return variables_of(sees(Target::behind(parameter, depth)));
        all = parts_.content_of(body_, sees(Target::captured(parameter, depth, steps - 1)));
        if (steps == Target::kDepthMax) parts_.close(body_, all);
        return all;
      }
      all = parts_.content_of(body_, sees(Target::behind(parameter, depth - 1)));
      if (depth == Target::kDepthMax) parts_.close(body_, all);
      return all;
    }

    /// Of what a closure has, variables of whoever made it, and of closures around that.
    Targets variables_of(const Targets& content) const {
      Targets all;
      for (const std::uint32_t code : content) {
        const Target target = Target::of(code);
        const bool is_this = code == Target::behind(0, 0).code() && body_.function->has_this;
        if (target.kind == Target::kLocal || target.kind == Target::kCaptured ||
            target.kind == Target::kTold || (is_this && body_.function->is_of_closure)) {
          all.add(target);
        } else if ((target.kind == Target::kParameter && !is_this) ||
                   target.kind == Target::kReach) {  // the closure is handed on
          all.add(Target::captured(target.parameter(), target.depth(), 0));
        }
      }
      return all;
    }

    Parts& parts_;
    Body& body_;
    const std::vector<Targets>& arguments_;
    std::unordered_map<std::uint32_t, Targets> seen_;
  };

  static bool grow(Body& body, Targets& targets, const Targets& what) {
    if (&targets == &what || !targets.add(what)) return false;
    ++body.changes;
    return true;
  }
  static Targets single(Target target) {
    Targets one;
    one.add(target);
    return one;
  }

  bool put(Body& body, const Targets& places, const Targets& what) {
    bool changed = false;
    for (const std::uint32_t each : places) {
      const Target place = Target::of(each);
      if (place.kind == Target::kLocal || place.is_symbolic())
        changed |= grow(body, body.content[each], what);
    }
    return changed;
  }
  /// Bytes of the object, or from outside: pointers among them are what these are.
  static bool is_of_bytes(const Body& body, const Fact& fact) {
    return fact.from != kNone &&
           std::ranges::all_of(body.values[fact.from], [](std::uint32_t code) {
             const Target target = Target::of(code);
             return target.kind == Target::kPoroot || target.kind == Target::kOutside ||
                    target.kind == Target::kTold;
           });
  }
  /// Where other types' values may have been stored, pointers are not to be trusted.
  bool doubt(Body& body, const Targets& places, const std::string& type) {
    bool changed = false;
    for (const std::uint32_t each : places) {
      const Target place = Target::of(each);
      if (place.kind != Target::kLocal || place.index == Target::kElsewhere) continue;
      const Local& local = body.function->locals[place.index];
      if (local.has_pointers && local.type != type)
        changed |= grow(body, body.content[each], single(reinterpreted));
    }
    return changed;
  }

  std::vector<Targets> arguments_of(const Body& body, const Call& call) const {
    std::vector<Targets> arguments;
    for (const Id each : call.arguments)
      arguments.push_back(each == kNone ? single({Target::kTold, Target::kNull})
                                        : body.values[each]);
    return arguments;
  }

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
  static Leads leads_of(const Function& function, Id parameter) {
    return parameter < function.leads.size() ? function.leads[parameter] : Leads::kAnywhere;
  }
  /// Never the address of a function.
  static bool is_data(const Function& function, Target target) {
    if (target.kind == Target::kParameter)
      return leads_of(function, target.index) != Leads::kAnywhere;
    return target.kind == Target::kLocal || target.kind == Target::kConstant;
  }
  void visit_pointer(Body& body, const Targets& pointer, const std::vector<Targets>& arguments,
                     const Pending* through, const Body* origin, Id call, Visitor& visitor) {
    if (++visitor.pointers > kPointersMax)
      return visitor.missing(Kind::kIndirect, "a function by a pointer", through);
    if (pointer.empty()) visitor.missing(Kind::kIndirect, "a function by a pointer", through);
    const bool is_function = std::ranges::any_of(
        pointer, [&](std::uint32_t code) { return !is_data(*body.function, Target::of(code)); });
    Targets symbolic;
    for (const std::uint32_t code : pointer) {
      const Target target = Target::of(code);
      // It is none that is called: data that is kept beside the pointer.
      if (is_function && is_data(*body.function, target)) continue;
      if (target.kind == Target::kFunction) {
        visit_function(body, program.function_keys[target.index], arguments, through, visitor);
      } else if (target.kind == Target::kParameter ||
                 (target.kind == Target::kReach && target.depth() == 1 &&
                  leads_of(*body.function, target.parameter()) == Leads::kByReference)) {
        symbolic.add(target);  // handed over, or in the closure
      } else if (target.kind == Target::kOutside) {
        const Outside& outside = program.outsides[target.index];
        visitor.missing(outside.kind == Kind::kVirtual ? Kind::kVirtual : Kind::kIndirect,
                        outside.name, through);
      } else if (target.kind == Target::kReach || target.kind == Target::kCaptured ||
                 target.kind == Target::kPoroot) {
        visitor.missing(Kind::kIndirect, "a function by a pointer", through);
      } else if (target.kind != Target::kTold) {
        visitor.missing(Kind::kIndirect, "a function by a pointer", through);
      }
    }
    if (!symbolic.empty()) visitor.pending({origin, call, std::move(symbolic), arguments});
  }
  void visit_function(Body& body, const std::string& key, const std::vector<Targets>& arguments,
                      const Pending* through, Visitor& visitor) {
    const auto at = bodies.find(key);
    if (at == bodies.end()) {
      visitor.missing(Kind::kNoSource, key, through);
      return;
    }
    visitor.direct(key, arguments, through);
    const Summary& summary = summaries[key];
    if (summary.too_many_pending) {
      visitor.missing(Kind::kIndirect, "a function by a pointer", through);
      return;
    }
    Caller caller(*this, body, arguments);
    for (const auto& [where, each] : summary.pending) {
      const Targets callee = caller.sees(each.callee);
      std::vector<Targets> given;
      for (const Targets& argument : each.arguments) given.push_back(caller.sees(argument));
      visit_pointer(body, callee, given, &each, each.origin, each.call, visitor);
    }
  }
  void visit_call(Body& body, Id id, Visitor& visitor) {
    const Call& call = body.function->calls[id];
    const std::vector<Targets> arguments = arguments_of(body, call);
    if (call.pointer == kNone) {
      if (!bodies.contains(call.callee)) visitor.missing(Kind::kNoSource, call.name, nullptr);
      else visit_function(body, call.callee, arguments, nullptr, visitor);
    } else {
      visit_pointer(body, body.values[call.pointer], arguments, nullptr, &body, id, visitor);
    }
  }

  bool apply_call(Body& body, Id id, std::vector<Pending>& pending) {
    const Call& call = body.function->calls[id];
    bool changed = false;
    Targets answer;
    bool is_told = false;
    const auto take_result = [&](const Targets& what, const Pending* through) {
      // What a function by a pointer of the caller's answers, the function itself cannot know.
      if (through == nullptr) answer.add(what);
    };
    Visitor visitor;
    visitor.direct = [&](const std::string& key, const std::vector<Targets>& arguments,
                         const Pending* through) {
      users[key].insert(&body);
      const Summary& summary = summaries[key];
      Caller caller(*this, body, arguments);
      for (const auto& [where, what] : summary.stored)
        changed |= put(body, caller.sees(Target::of(where)), caller.sees(what));
      for (const auto& [where, types] : summary.reinterpreted)
        for (const std::string& type : types)
          changed |= doubt(body, caller.sees(Target::of(where)), type);
      take_result(caller.sees(summary.returned), through);
    };
    visitor.missing = [&](Kind, const std::string&, const Pending* through) {
      const Targets told = single({Target::kTold, 0});
      if (!std::exchange(is_told, true))
        for (const Targets& each : arguments_of(body, call)) changed |= put(body, each, told);
      take_result(told, through);
    };
    visitor.pending = [&](Pending each) {
      // Which function that is, and what it does to these locals, is not known here.
      Targets doubtful;
      doubtful.add(lost);
      for (const Targets& argument : each.arguments) {
        for (const std::uint32_t code : argument) {
          const Target target = Target::of(code);
          if (target.kind != Target::kLocal || target.index == Target::kElsewhere) continue;
          if (body.function->locals[target.index].has_pointers)
            changed |= grow(body, body.content[code], doubtful);
        }
      }
      if (each.origin == &body && each.call == id) answer.add(doubtful);
      pending.push_back(std::move(each));
    };
    visit_call(body, id, visitor);
    if (call.result != kNone) changed |= grow(body, body.values[call.result], answer);
    return changed;
  }

  /// A target of this function for who calls it.
  static Target exported(Target target) {
    if (target.kind == Target::kLocal) return {Target::kLocal, Target::kElsewhere};
    return target;
  }
  static Targets exported(const Targets& targets) {
    Targets all;
    for (const std::uint32_t each : targets) all.add(exported(Target::of(each)));
    return all;
  }
  /// Those of which there are many become one of their kind.
  void limit(Targets& targets) {
    std::map<std::pair<Target::Class, Kind>, int> counts;
    const auto class_of = [&](Target target) {
      return std::pair(target.kind, target.kind == Target::kOutside
                                        ? program.outsides[target.index].kind
                                        : Kind::kUnsupported);
    };
    bool many = false;
    for (const std::uint32_t each : targets) {
      const Target target = Target::of(each);
      if (target.kind == Target::kOutside || target.kind == Target::kConstant ||
          target.kind == Target::kFunction)
        many |= ++counts[class_of(target)] > kToldApart;
    }
    if (!many) return;
    Targets fewer;
    for (const std::uint32_t each : targets) {
      const Target target = Target::of(each);
      const auto at = counts.find(class_of(target));
      if (at == counts.end() || at->second <= kToldApart) {
        fewer.add(target);
      } else {
        const Kind kind = target.kind == Target::kOutside    ? at->first.second
                          : target.kind == Target::kFunction ? Kind::kIndirect
                                                             : Kind::kUnknownPointer;
        fewer.add({Target::kOutside, program.outside({kind, kSeveral, {}})});
      }
    }
    targets = std::move(fewer);
  }
  /// Of several types it may be any.
  static void add_type(Summary& summary, std::uint32_t where, const std::string& type) {
    std::set<std::string>& types = summary.reinterpreted[where];
    if (types.contains("")) return;
    types.insert(type);
    if (types.size() > kToldApart || type.empty()) types = {""};
  }
  static void add_symbolic(Targets& to, const Targets& from) {
    for (const std::uint32_t each : from)
      if (Target::of(each).is_symbolic()) to.add(Target::of(each));
  }

  void solve(Body& body, Summary& summary) {
    const Function& function = *body.function;
    body.values.resize(function.values);
    body.applied.assign(function.calls.size(), {});
    bool changed = true;
    while (changed) {
      changed = false;
      for (const Fact& fact : function.facts) {
        switch (fact.what) {
          case Fact::kCopy:
            changed |= grow(body, body.values[fact.to], body.values[fact.from]);
            break;
          case Fact::kAddress:
            changed |= grow(body, body.values[fact.to], single(fact.target));
            break;
          case Fact::kLoad:
          case Fact::kContent:
            if (fact.from != kNone)
              changed |= grow(body, body.values[fact.to], content_of(body, body.values[fact.from]));
            break;
          case Fact::kStore:
            if (fact.to != kNone)
              changed |= put(body, body.values[fact.to], body.values[fact.from]);
            break;
          case Fact::kLoadPoroot:
            if (fact.from != kNone)
              changed |= grow(body, body.values[fact.to], poroots_of(body, body.values[fact.from]));
            break;
          case Fact::kReinterpret:
            if (!is_of_bytes(body, fact)) changed |= doubt(body, body.values[fact.to], fact.name);
            break;
          case Fact::kCall: {
            Body::Applied& applied = body.applied[fact.call];
            if (applied.changes == body.changes) break;
            applied.pending.clear();
            applied.changes = body.changes;
            changed |= apply_call(body, fact.call, applied.pending);
            break;
          }
          case Fact::kRead:
          case Fact::kWrite:
          case Fact::kReturn:
          case Fact::kReason:
            break;
        }
      }
    }
    summarize(body, summary);
  }

  void summarize(Body& body, Summary& summary) {
    for (const Fact& fact : body.function->facts) {
      const auto at = [&](Id value) -> const Targets& {
        static const Targets kEmpty;
        return value == kNone ? kEmpty : body.values[value];
      };
      switch (fact.what) {
        case Fact::kLoad:
        case Fact::kRead:
          add_symbolic(summary.read, at(fact.from));
          break;
        case Fact::kStore:
        case Fact::kWrite:
          add_symbolic(summary.written, at(fact.to));
          break;
        case Fact::kReinterpret:
          if (is_of_bytes(body, fact)) break;
          for (const std::uint32_t each : at(fact.to))
            if (Target::of(each).is_symbolic()) add_type(summary, each, fact.name);
          break;
        case Fact::kReturn:
          summary.returned.add(exported(at(fact.from)));
          limit(summary.returned);
          break;
        case Fact::kCall:
          summarize_call(body, fact.call, summary);
          break;
        default:
          break;
      }
    }
    for (const auto& [where, what] : body.content) {
      if (!Target::of(where).is_symbolic()) continue;
      Targets& stored = summary.stored[where];
      stored.add(exported(what));
      limit(stored);
    }
    for (const Body::Applied& applied : body.applied) {
      for (const Pending& each : applied.pending) {
        Pending& out =
            summary.pending
                .try_emplace({each.origin, each.call}, Pending{each.origin, each.call, {}, {}})
                .first->second;
        out.callee.add(each.callee);
        out.arguments.resize(std::max(out.arguments.size(), each.arguments.size()));
        for (std::size_t i = 0; i < each.arguments.size(); ++i) {
          out.arguments[i].add(exported(each.arguments[i]));
          limit(out.arguments[i]);
        }
      }
    }
    if (summary.pending.size() > kPendingMax) {
      summary.pending.clear();
      summary.too_many_pending = true;
    }
  }
  void summarize_call(Body& body, Id id, Summary& summary) {
    Visitor visitor;
    visitor.direct = [&](const std::string& key, const std::vector<Targets>& arguments,
                         const Pending*) {
      const Summary& called = summaries[key];
      Caller caller(*this, body, arguments);
      add_symbolic(summary.read, caller.sees(called.read));
      add_symbolic(summary.written, caller.sees(called.written));
      for (const auto& [where, types] : called.reinterpreted)
        for (const std::uint32_t each : caller.sees(Target::of(where)))
          if (Target::of(each).is_symbolic())
            for (const std::string& type : types) add_type(summary, each, type);
    };
    visitor.missing = [](Kind, const std::string&, const Pending*) {};
    visitor.pending = [](Pending) {};
    visit_call(body, id, visitor);
  }

  /// Who is called before who calls, where nobody calls himself.
  std::vector<std::string> in_order() const {
    std::vector<std::string> order;
    std::set<std::string> seen;
    struct Step {
      const std::string* key;
      std::vector<const std::string*> callees;
      std::size_t next = 0;
    };
    const auto step_of = [&](const std::string& key) {
      Step step{&key, {}, 0};
      for (const Body& body : bodies.at(key))
        for (const Call& call : body.function->calls)
          if (call.pointer == kNone && bodies.contains(call.callee))
            step.callees.push_back(&call.callee);
      return step;
    };
    for (const auto& [key, all] : bodies) {
      if (!seen.insert(key).second) continue;
      std::vector<Step> stack;
      stack.push_back(step_of(key));
      while (!stack.empty()) {
        Step& top = stack.back();
        if (top.next == top.callees.size()) {
          order.push_back(*top.key);
          stack.pop_back();
          continue;
        }
        const std::string& next = *top.callees[top.next++];
        if (seen.insert(next).second) stack.push_back(step_of(bodies.find(next)->first));
      }
    }
    return order;
  }

  void solve_all() {
    const std::vector<std::string> order = in_order();
    std::map<std::string_view, std::size_t> positions;
    std::set<std::size_t> work;  // those that are called first
    for (std::size_t i = 0; i < order.size(); ++i) {
      positions.emplace(order[i], i);
      work.insert(i);
    }
    while (!work.empty()) {
      const std::string& key = order[*work.begin()];
      work.erase(work.begin());
      Summary summary = summaries[key];
      for (Body& body : bodies[key]) solve(body, summary);
      if (summary == summaries[key]) continue;
      summaries[key] = std::move(summary);
      for (const Body* user : users[key]) work.insert(positions.at(user->function->key));
    }
  }

  // --- reasons

  /// What is asked of a body: its own reasons, and those that what is at a target makes.
  struct Question {
    enum About { kOwn, kThrows, kTarget, kWrites, kStores } about;
    std::string key;
    std::uint32_t target = 0;
    Kind kind = Kind::kUnsupported;  ///< that accesses to the target are
    std::string name{};
    auto operator<=>(const Question&) const = default;
  };
  struct Node {
    Question question;
    std::size_t from;  ///< the node that led here; itself for the first ones
    Place call;
    std::string callee;
  };

  struct Search {
    std::deque<Node> nodes;
    std::set<Question> known;
    std::set<std::pair<Place, Kind>> found;  ///< a line, and the kind
    std::vector<Reason> reasons;
  };

  void ask(Search& search, Question question, std::size_t from, Place call, std::string callee) {
    if (!search.known.insert(question).second) return;
    search.nodes.push_back({std::move(question), from, call, std::move(callee)});
  }

  /// `before`: where what is at `at` was called, in the node's function.
  void tell(Search& search, std::size_t node, Kind kind, std::string name, Place at,
            Place before = {}) {
    Reason reason;
    reason.kind = kind;
    reason.name = std::move(name);
    reason.innermost = at;
    for (std::size_t i = node; search.nodes[i].from != i; i = search.nodes[i].from) {
      reason.calls.insert(reason.calls.begin(), search.nodes[i].call);
      reason.callees.insert(reason.callees.begin(), search.nodes[i].callee);
    }
    const auto is_own = [&](Place place) {
      return place.file != kNone && !program.is_system[place.file];
    };
    reason.at = is_own(at) || before.file == kNone ? at : before;
    for (std::size_t i = reason.calls.size(); i-- > 0 && !is_own(reason.at);)
      reason.at = reason.calls[i];
    Place line = reason.at;
    line.column = 0;
    if (search.found.emplace(line, kind).second) search.reasons.push_back(std::move(reason));
  }

  void answer(Search& search, std::size_t index) {
    const Question question = search.nodes[index].question;
    const auto at = bodies.find(question.key);
    if (at == bodies.end()) return;
    for (Body& body : at->second) {
      for (const Fact& fact : body.function->facts) {
        if (fact.what == Fact::kReason) {
          const bool throws = fact.kind == Kind::kThrows;
          if (question.about == (throws ? Question::kThrows : Question::kOwn))
            tell(search, index, fact.kind, fact.name, fact.place);
        } else if (fact.what == Fact::kCall) {
          answer_call(search, index, question, body, fact);
        } else {
          answer_access(search, index, question, body, fact);
        }
      }
    }
  }

  void answer_access(Search& search, std::size_t index, const Question& question, Body& body,
                     const Fact& fact) {
    const bool reads = fact.what == Fact::kLoad || fact.what == Fact::kRead;
    const bool writes = fact.what == Fact::kStore || fact.what == Fact::kWrite;
    if ((!reads && !writes) || fact.place.file == kNone) return;
    const Id value = reads ? fact.from : fact.to;
    if (value == kNone) return;
    const Targets& places = body.values[value];
    switch (question.about) {
      case Question::kOwn:
        if (places.empty()) tell(search, index, Kind::kUnknownPointer, "", fact.place);
        for (const std::uint32_t code : places) {
          const Target target = Target::of(code);
          if (target.kind == Target::kOutside) {
            const Outside& outside = program.outsides[target.index];
            tell(search, index, outside.kind, outside.name, fact.place);
          } else if (target.kind == Target::kFunction && has_no_data(places)) {
            tell(search, index, Kind::kUnknownPointer, "", fact.place);
          } else if (writes && has_no_variable(places)) {
            tell(search, index, Kind::kGlobal, kConstantName, fact.place);
          }
        }
        break;
      case Question::kThrows:
        break;
      case Question::kWrites:
        if (reads) break;
        [[fallthrough]];
      case Question::kTarget:
        if (places.contains(Target::of(question.target)))
          tell(search, index, question.kind, question.name, fact.place);
        break;
      case Question::kStores:
        if (fact.what == Fact::kStore && places.contains(Target::of(question.target)) &&
            has_address(body.values[fact.from], !fact.name.empty()))
          tell(search, index, Kind::kKeepsAddress, "", fact.place);
        break;
    }
  }
  /// No program reads a function or changes a constant: where others are among the targets, these
  /// are what is kept beside the pointer.
  static bool has_no_data(const Targets& places) {
    return std::ranges::all_of(
        places, [](std::uint32_t code) { return Target::of(code).kind == Target::kFunction; });
  }
  static bool has_no_variable(const Targets& places) {
    return std::ranges::all_of(places, [](std::uint32_t code) {
      const Target::Class kind = Target::of(code).kind;
      return kind == Target::kFunction || kind == Target::kConstant;
    });
  }
  /// Besides what was an address in the object already.
  bool has_address(const Targets& values, bool bytes) const {
    return std::ranges::any_of(values, [&](std::uint32_t code) {
      const Target target = Target::of(code);
      if (bytes && (target.kind == Target::kReach || target.kind == Target::kCaptured))
        return false;
      return code != kept.code() && target.kind != Target::kTold;
    });
  }

  void answer_call(Search& search, std::size_t index, const Question& question, Body& body,
                   const Fact& fact) {
    const bool guarded = body.function->calls[fact.call].guarded;
    const auto place_through = [&](const Pending* through) {
      return through == nullptr ? fact.place : place_of(*through);
    };
    Visitor visitor;
    visitor.missing = [&](Kind kind, const std::string& name, const Pending* through) {
      if (question.about == Question::kOwn)
        tell(search, index, kind, name, place_through(through), fact.place);
    };
    // Of a method that is called with it, nobody can know it: judge() asks for these.
    visitor.pending = [](Pending) {};
    visitor.direct = [&](const std::string& key, const std::vector<Targets>& arguments,
                         const Pending*) {
      const Place place = fact.place;  // of one by a pointer, where that was handed over
      const std::string& callee = bodies[key].front().function->name;
      const Summary& summary = summaries[key];
      Caller caller(*this, body, arguments);
      switch (question.about) {
        case Question::kOwn:
          ask(search, {.about = Question::kOwn, .key = key}, index, place, callee);
          for (const Targets* accessed : {&summary.read, &summary.written}) {
            for (const std::uint32_t code : *accessed) {
              const Targets& places = caller.sees(Target::of(code));
              if (has_no_data(places))
                ask(search, {Question::kTarget, key, code, Kind::kUnknownPointer, ""}, index, place,
                    callee);
              else if (accessed == &summary.written && has_no_variable(places))
                ask(search, {Question::kWrites, key, code, Kind::kGlobal, kConstantName}, index,
                    place, callee);
              for (const std::uint32_t seen : places) {
                const Target target = Target::of(seen);
                if (target.kind != Target::kOutside) continue;
                const Outside& outside = program.outsides[target.index];
                ask(search, {Question::kTarget, key, code, outside.kind, outside.name}, index,
                    place, callee);
              }
            }
          }
          break;
        case Question::kThrows:
          if (!guarded) ask(search, {.about = Question::kThrows, .key = key}, index, place, callee);
          break;
        case Question::kTarget:
        case Question::kWrites:
        case Question::kStores:
          for (const Targets* accessed : {&summary.read, &summary.written}) {
            if (question.about == Question::kWrites && accessed == &summary.read) continue;
            for (const std::uint32_t code : *accessed) {
              if (!caller.sees(Target::of(code)).contains(Target::of(question.target))) continue;
              Question next = question;
              next.key = key;
              next.target = code;
              ask(search, std::move(next), index, place, callee);
            }
          }
          break;
      }
    };
    visit_call(body, fact.call, visitor);
  }

  /// Functions that a method gets from its caller.
  void tell_pending(Search& search, Body& body) {
    for (const Fact& fact : body.function->facts) {
      if (fact.what != Fact::kCall) continue;
      Visitor visitor;
      visitor.direct = [](const std::string&, const std::vector<Targets>&, const Pending*) {};
      visitor.missing = [](Kind, const std::string&, const Pending*) {};
      visitor.pending = [&](const Pending& pending) {
        tell(search, 0, Kind::kIndirect, "", place_of(pending), fact.place);
      };
      visit_call(body, fact.call, visitor);
    }
  }
  static Place place_of(const Pending& pending) {
    for (const Fact& each : pending.origin->function->facts)
      if (each.what == Fact::kCall && each.call == pending.call) return each.place;
    return {};
  }

  Judgement judge(const Method& method, std::size_t most) {
    Judgement judgement;
    Search search;
    const auto start = [&](Question question) {
      if (!search.known.insert(question).second) return;
      const std::size_t index = search.nodes.size();
      search.nodes.push_back({std::move(question), index, method.place, ""});
    };
    start({.about = Question::kOwn, .key = ""});  // of the method itself, whatever its body is
    if (method.returns) tell(search, 0, Kind::kReturns, "", method.place);
    if (method.is_variadic)
      tell(search, 0, Kind::kUnsupported, "any number of arguments", method.place);
    const auto at = bodies.find(method.key);
    if (at == bodies.end()) {
      tell(search, 0, Kind::kNoSource, method.signature, method.place);
    } else {
      start({.about = Question::kOwn, .key = method.key});
      start({.about = Question::kThrows, .key = method.key});
      const Summary& summary = summaries[method.key];
      const bool has_this = !method.owner.empty();
      for (const Targets* accessed : {&summary.read, &summary.written}) {
        for (const std::uint32_t code : *accessed) {
          const Target target = Target::of(code);
          const bool of_object =
              target.kind == Target::kPoroot
                  ? method.of_memory && target.parameter() == 0 && target.depth() == 0
                  : !method.of_memory && target.parameter() == 0 && target.depth() == 0;
          if (of_object) {
            if (accessed == &summary.written) judgement.changes_object = true;
            start({.about = Question::kStores, .key = method.key, .target = code});
            continue;
          }
          if (target.parameter() == 0) {
            const Kind kind = method.of_memory ? Kind::kMember : Kind::kKeptPointer;
            start({Question::kTarget, method.key, code, kind, ""});
            continue;
          }
          const std::size_t parameter = target.parameter() - (has_this ? 1 : 0);
          const bool copied = parameter < method.parameters.size() &&
                              method.parameters[parameter].is_copied && target.depth() == 0 &&
                              target.kind == Target::kParameter;
          if (copied && (accessed == &summary.read || method.parameters[parameter].is_owned))
            continue;
          const std::string name =
              parameter < method.parameters.size() ? method.parameters[parameter].name : "";
          start({Question::kTarget, method.key, code, Kind::kArgument, name});
        }
      }
      for (Body& body : at->second) tell_pending(search, body);
    }
    for (std::size_t i = 0; i < search.nodes.size() && (most == 0 || search.reasons.size() < most);
         ++i)
      answer(search, i);
    judgement.reasons = std::move(search.reasons);
    std::ranges::sort(judgement.reasons, [](const Reason& a, const Reason& b) {
      return std::tie(a.at, a.kind) < std::tie(b.at, b.kind);
    });
    if (judgement.reasons.empty()) {
      judgement.verdict = Verdict::kDeferrable;
    } else if (method.is_const && judgement.reasons.size() == 1 &&
               judgement.reasons[0].kind == Kind::kReturns && !judgement.changes_object &&
               !method.answers_address) {
      judgement.verdict = Verdict::kRead;
    }
    return judgement;
  }

  Program& program;
  Target kept;
  Target lost;
  Target reinterpreted;
  Target another;
  std::map<std::string, std::vector<Body>, std::less<>> bodies;
  std::map<std::string, Summary, std::less<>> summaries;
  std::map<std::string, std::set<const Body*>, std::less<>> users;
};

Solver::Solver(Program& program) : parts_(std::make_unique<Parts>(program)) {}
Solver::~Solver() = default;
Judgement Solver::judge(const Method& method, std::size_t most) {
  return parts_->judge(method, most);
}

}  // namespace perdura::source
