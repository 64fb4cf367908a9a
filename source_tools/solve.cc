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

constexpr int kPendingMax = 64;    ///< calls by pointers from parameters, of one function
constexpr int kDepthOfCalls = 12;  ///< by which a pointer to a function is handed through

struct Body;

/// A call by a pointer that the caller hands over.
struct Pending {
  const Body* origin;
  Id call;
  Targets callee;
  std::vector<Targets> arguments;
  bool operator==(const Pending&) const = default;
  auto operator<=>(const Pending& other) const {
    return std::tie(origin, call, callee, arguments) <=>
           std::tie(other.origin, other.call, other.callee, other.arguments);
  }
};

/// What all bodies of a function do to what its parameters lead to.
struct Summary {
  Targets read;
  Targets written;
  Targets returned;
  std::set<std::pair<std::uint32_t, std::uint32_t>> stored;       ///< where, and what
  std::set<std::pair<std::uint32_t, std::string>> reinterpreted;  ///< where, and as what
  std::set<Pending> pending;
  bool too_many_pending = false;
  bool operator==(const Summary&) const = default;
};

struct Body {
  const Function* function;
  std::vector<Targets> values;
  std::unordered_map<std::uint32_t, Targets> content;
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
  /// What is that many pointers behind them.
  Targets behind(Body& body, Targets targets, unsigned depth) {
    for (unsigned i = 0; i < depth && !targets.empty(); ++i) targets = content_of(body, targets);
    if (depth == Target::kDepthMax)
      while (targets.add(content_of(body, targets))) continue;
    return targets;
  }
  Targets poroots_of(const Body& body, const Targets& objects) {
    Targets all;
    for (const std::uint32_t code : objects) {
      const Target target = Target::of(code);
      switch (target.kind) {
        case Target::kParameter:
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
  /// What a target of a called function is for who calls it with these.
  Targets seen_by_caller(Body& body, Target target, const std::vector<Targets>& arguments) {
    Targets all;
    if (!target.is_symbolic()) {
      all.add(target);
      return all;
    }
    const Id parameter = target.parameter();
    if (parameter >= arguments.size()) {  // of a function that was declared otherwise
      all.add(lost);
      return all;
    }
    const Targets reached = behind(body, arguments[parameter], target.depth());
    return target.kind == Target::kPoroot ? poroots_of(body, reached) : reached;
  }
  Targets seen_by_caller(Body& body, const Targets& targets,
                         const std::vector<Targets>& arguments) {
    Targets all;
    for (const std::uint32_t each : targets)
      all.add(seen_by_caller(body, Target::of(each), arguments));
    return all;
  }

  bool put(Body& body, const Targets& places, const Targets& what) {
    bool changed = false;
    for (const std::uint32_t each : places) {
      const Target place = Target::of(each);
      if (place.kind == Target::kLocal || place.is_symbolic())
        changed |= body.content[each].add(what);
    }
    return changed;
  }
  /// Where other types' values may have been stored, pointers are not to be trusted.
  bool doubt(Body& body, const Targets& places, const std::string& type) {
    bool changed = false;
    for (const std::uint32_t each : places) {
      const Target place = Target::of(each);
      if (place.kind != Target::kLocal || place.index == Target::kElsewhere) continue;
      const Local& local = body.function->locals[place.index];
      if (local.has_pointers && local.type != type)
        changed |= body.content[each].add(reinterpreted);
    }
    return changed;
  }

  std::vector<Targets> arguments_of(const Body& body, const Call& call) const {
    std::vector<Targets> arguments;
    for (const Id each : call.arguments)
      arguments.push_back(each == kNone ? Targets() : body.values[each]);
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
  };
  void visit_pointer(Body& body, const Targets& pointer, const std::vector<Targets>& arguments,
                     const Pending* through, const Body* origin, Id call, const Visitor& visitor,
                     int depth) {
    if (pointer.empty()) visitor.missing(Kind::kIndirect, "a function by a pointer", through);
    Targets symbolic;
    for (const std::uint32_t code : pointer) {
      const Target target = Target::of(code);
      if (target.kind == Target::kFunction) {
        visit_function(body, program.function_keys[target.index], arguments, through, visitor,
                       depth);
      } else if (target.is_symbolic()) {
        symbolic.add(target);
      } else if (target.kind == Target::kOutside) {
        const Outside& outside = program.outsides[target.index];
        visitor.missing(outside.kind == Kind::kVirtual ? Kind::kVirtual : Kind::kIndirect,
                        outside.name, through);
      } else if (target.kind != Target::kTold) {
        visitor.missing(Kind::kIndirect, "a function by a pointer", through);
      }
    }
    if (!symbolic.empty()) visitor.pending({origin, call, std::move(symbolic), arguments});
  }
  void visit_function(Body& body, const std::string& key, const std::vector<Targets>& arguments,
                      const Pending* through, const Visitor& visitor, int depth) {
    const auto at = bodies.find(key);
    if (at == bodies.end()) {
      visitor.missing(Kind::kNoSource, key, through);
      return;
    }
    visitor.direct(key, arguments, through);
    const Summary& summary = summaries[key];
    if (summary.too_many_pending || (depth >= kDepthOfCalls && !summary.pending.empty())) {
      visitor.missing(Kind::kIndirect, "a function by a pointer", through);
      return;
    }
    for (const Pending& each : summary.pending) {
      const Targets callee = seen_by_caller(body, each.callee, arguments);
      std::vector<Targets> given;
      for (const Targets& argument : each.arguments)
        given.push_back(seen_by_caller(body, argument, arguments));
      if (callee.empty()) continue;  // null: it is not called
      visit_pointer(body, callee, given, &each, each.origin, each.call, visitor, depth + 1);
    }
  }
  void visit_call(Body& body, Id id, const Visitor& visitor) {
    const Call& call = body.function->calls[id];
    const std::vector<Targets> arguments = arguments_of(body, call);
    if (call.pointer == kNone) {
      if (!bodies.contains(call.callee)) visitor.missing(Kind::kNoSource, call.name, nullptr);
      else visit_function(body, call.callee, arguments, nullptr, visitor, 0);
    } else {
      visit_pointer(body, body.values[call.pointer], arguments, nullptr, &body, id, visitor, 0);
    }
  }

  bool apply_call(Body& body, Id id, std::vector<Pending>& pending) {
    const Call& call = body.function->calls[id];
    bool changed = false;
    Targets answer;
    const auto take_result = [&](const Targets& what, const Pending* through) {
      // What a function by a pointer of the caller's answers, the function itself cannot know.
      if (through == nullptr) answer.add(what);
    };
    Visitor visitor;
    visitor.direct = [&](const std::string& key, const std::vector<Targets>& arguments,
                         const Pending* through) {
      users[key].insert(&body);
      const Summary& summary = summaries[key];
      for (const auto& [where, what] : summary.stored) {
        changed |= put(body, seen_by_caller(body, Target::of(where), arguments),
                       seen_by_caller(body, Target::of(what), arguments));
      }
      for (const auto& [where, type] : summary.reinterpreted)
        changed |= doubt(body, seen_by_caller(body, Target::of(where), arguments), type);
      take_result(seen_by_caller(body, summary.returned, arguments), through);
    };
    visitor.missing = [&](Kind, const std::string&, const Pending* through) {
      Targets told;
      told.add(Target{Target::kTold, 0});
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
            changed |= body.content[code].add(doubtful);
        }
      }
      if (each.origin == &body && each.call == id) answer.add(doubtful);
      pending.push_back(std::move(each));
    };
    visit_call(body, id, visitor);
    if (call.result != kNone) changed |= body.values[call.result].add(answer);
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
  static void add_symbolic(Targets& to, const Targets& from) {
    for (const std::uint32_t each : from)
      if (Target::of(each).is_symbolic()) to.add(Target::of(each));
  }

  void solve(Body& body, Summary& summary) {
    const Function& function = *body.function;
    body.values.resize(function.values);
    std::vector<Pending> pending;
    bool changed = true;
    while (changed) {
      changed = false;
      pending.clear();
      for (const Fact& fact : function.facts) {
        switch (fact.what) {
          case Fact::kCopy:
            changed |= body.values[fact.to].add(Targets(body.values[fact.from]));
            break;
          case Fact::kAddress:
            changed |= body.values[fact.to].add(fact.target);
            break;
          case Fact::kLoad:
          case Fact::kContent:
            if (fact.from != kNone)
              changed |= body.values[fact.to].add(content_of(body, body.values[fact.from]));
            break;
          case Fact::kStore:
            if (fact.to != kNone)
              changed |= put(body, body.values[fact.to], Targets(body.values[fact.from]));
            break;
          case Fact::kLoadPoroot:
            if (fact.from != kNone)
              changed |= body.values[fact.to].add(poroots_of(body, body.values[fact.from]));
            break;
          case Fact::kReinterpret:
            if (fact.to != kNone) changed |= doubt(body, body.values[fact.to], fact.name);
            break;
          case Fact::kCall:
            changed |= apply_call(body, fact.call, pending);
            break;
          case Fact::kRead:
          case Fact::kWrite:
          case Fact::kReturn:
          case Fact::kReason:
            break;
        }
      }
    }
    summarize(body, summary, pending);
  }

  void summarize(Body& body, Summary& summary, const std::vector<Pending>& pending) {
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
          for (const std::uint32_t each : at(fact.to))
            if (Target::of(each).is_symbolic()) summary.reinterpreted.emplace(each, fact.name);
          break;
        case Fact::kReturn:
          summary.returned.add(exported(at(fact.from)));
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
      for (const std::uint32_t each : what)
        summary.stored.emplace(where, exported(Target::of(each)).code());
    }
    for (const Pending& each : pending) {
      Pending out = each;
      for (Targets& argument : out.arguments) argument = exported(argument);
      summary.pending.insert(std::move(out));
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
      add_symbolic(summary.read, seen_by_caller(body, called.read, arguments));
      add_symbolic(summary.written, seen_by_caller(body, called.written, arguments));
      for (const auto& [where, type] : called.reinterpreted)
        for (const std::uint32_t each : seen_by_caller(body, Target::of(where), arguments))
          if (Target::of(each).is_symbolic()) summary.reinterpreted.emplace(each, type);
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
    std::deque<std::string> work;
    std::set<std::string> waiting;
    for (std::string& key : in_order()) {
      waiting.insert(key);
      work.push_back(std::move(key));
    }
    while (!work.empty()) {
      const std::string key = std::move(work.front());
      work.pop_front();
      waiting.erase(key);
      Summary summary = summaries[key];
      for (Body& body : bodies[key]) solve(body, summary);
      if (summary == summaries[key]) continue;
      summaries[key] = std::move(summary);
      for (const Body* user : users[key]) {
        const std::string& caller = user->function->key;
        if (waiting.insert(caller).second) work.push_back(caller);
      }
    }
  }

  // --- reasons

  /// What is asked of a body: its own reasons, and those that what is at a target makes.
  struct Question {
    enum About { kOwn, kThrows, kTarget, kStores } about;
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
    std::map<std::tuple<Place, Kind, std::string>, std::size_t> found;
    std::vector<Reason> reasons;
  };

  void ask(Search& search, Question question, std::size_t from, Place call, std::string callee) {
    if (!search.known.insert(question).second) return;
    search.nodes.push_back({std::move(question), from, call, std::move(callee)});
  }

  void tell(Search& search, std::size_t node, Kind kind, std::string name, Place at) {
    Reason reason;
    reason.kind = kind;
    reason.name = std::move(name);
    reason.innermost = at;
    for (std::size_t i = node; search.nodes[i].from != i; i = search.nodes[i].from) {
      reason.calls.insert(reason.calls.begin(), search.nodes[i].call);
      reason.callees.insert(reason.callees.begin(), search.nodes[i].callee);
    }
    reason.at = at;
    const auto is_own = [&](Place place) {
      return place.file != kNone && !program.is_system[place.file];
    };
    for (std::size_t i = reason.calls.size(); i-- > 0 && !is_own(reason.at);)
      reason.at = reason.calls[i];
    Place line = reason.at;
    line.column = 0;
    if (search.found.emplace(std::tuple(line, kind, std::string()), search.reasons.size()).second)
      search.reasons.push_back(std::move(reason));
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
          } else if (writes && target.kind == Target::kConstant) {
            tell(search, index, Kind::kGlobal, "a constant", fact.place);
          } else if (target.kind == Target::kFunction) {
            tell(search, index, Kind::kUnknownPointer, "", fact.place);
          }
        }
        break;
      case Question::kThrows:
        break;
      case Question::kTarget:
        if (places.contains(Target::of(question.target)))
          tell(search, index, question.kind, question.name, fact.place);
        break;
      case Question::kStores:
        if (fact.what == Fact::kStore && places.contains(Target::of(question.target)) &&
            has_address(body.values[fact.from]))
          tell(search, index, Kind::kKeepsAddress, "", fact.place);
        break;
    }
  }
  /// Besides what was an address in the object already.
  bool has_address(const Targets& values) const {
    return std::ranges::any_of(values, [&](std::uint32_t code) {
      const Target target = Target::of(code);
      return code != kept.code() && target.kind != Target::kTold;
    });
  }

  void answer_call(Search& search, std::size_t index, const Question& question, Body& body,
                   const Fact& fact) {
    const bool guarded = body.function->calls[fact.call].guarded;
    const auto place_of = [&](const Pending* through) {
      if (through == nullptr) return fact.place;
      for (const Fact& each : through->origin->function->facts)
        if (each.what == Fact::kCall && each.call == through->call) return each.place;
      return fact.place;
    };
    Visitor visitor;
    visitor.missing = [&](Kind kind, const std::string& name, const Pending* through) {
      if (question.about == Question::kOwn) tell(search, index, kind, name, place_of(through));
    };
    // Of a method that is called with it, nobody can know it: judge() asks for these.
    visitor.pending = [](Pending) {};
    visitor.direct = [&](const std::string& key, const std::vector<Targets>& arguments,
                         const Pending* through) {
      const Place place = place_of(through);
      const std::string& callee = bodies[key].front().function->name;
      const Summary& summary = summaries[key];
      switch (question.about) {
        case Question::kOwn:
          ask(search, {.about = Question::kOwn, .key = key}, index, place, callee);
          for (const Targets* accessed : {&summary.read, &summary.written}) {
            for (const std::uint32_t code : *accessed) {
              for (const std::uint32_t seen : seen_by_caller(body, Target::of(code), arguments)) {
                const Target target = Target::of(seen);
                if (target.kind == Target::kOutside) {
                  const Outside& outside = program.outsides[target.index];
                  ask(search, {Question::kTarget, key, code, outside.kind, outside.name}, index,
                      place, callee);
                } else if (target.kind == Target::kConstant && accessed == &summary.written) {
                  ask(search, {Question::kTarget, key, code, Kind::kGlobal, "a constant"}, index,
                      place, callee);
                }
              }
            }
          }
          break;
        case Question::kThrows:
          if (!guarded) ask(search, {.about = Question::kThrows, .key = key}, index, place, callee);
          break;
        case Question::kTarget:
        case Question::kStores:
          for (const Targets* accessed : {&summary.read, &summary.written}) {
            for (const std::uint32_t code : *accessed) {
              if (!seen_by_caller(body, Target::of(code), arguments)
                       .contains(Target::of(question.target)))
                continue;
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

  Judgement judge(const Method& method) {
    Judgement judgement;
    Search search;
    const auto start = [&](Question question) {
      if (!search.known.insert(question).second) return;
      const std::size_t index = search.nodes.size();
      search.nodes.push_back({std::move(question), index, method.place, ""});
    };
    start({.about = Question::kOwn, .key = ""});  // of the method itself, whatever its body is
    if (method.returns) tell(search, 0, Kind::kReturns, "", method.place);
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
          if (copied) continue;
          const std::string name =
              parameter < method.parameters.size() ? method.parameters[parameter].name : "";
          start({Question::kTarget, method.key, code, Kind::kArgument, name});
        }
      }
      for (const Pending& each : summary.pending) {
        for (const Fact& fact : each.origin->function->facts) {
          if (fact.what != Fact::kCall || fact.call != each.call) continue;
          tell(search, 0, Kind::kIndirect, "a function by a pointer", fact.place);
        }
      }
    }
    for (std::size_t i = 0; i < search.nodes.size(); ++i) answer(search, i);
    judgement.reasons = std::move(search.reasons);
    std::ranges::sort(judgement.reasons, [](const Reason& a, const Reason& b) {
      return std::tie(a.at, a.kind) < std::tie(b.at, b.kind);
    });
    if (judgement.reasons.empty()) {
      judgement.verdict = Verdict::kDeferrable;
    } else if (method.is_const && judgement.reasons.size() == 1 &&
               judgement.reasons[0].kind == Kind::kReturns && !judgement.changes_object) {
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
Judgement Solver::judge(const Method& method) { return parts_->judge(method); }

}  // namespace perdura::source
