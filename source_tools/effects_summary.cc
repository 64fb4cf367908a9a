// The analysis itself: facts and calls applied to a body, and its summary, until nothing changes.
#include "effects.hpp"

#include <algorithm>

namespace perdura::source {
namespace {

constexpr int kPendingMax = 4;  ///< calls by pointers from parameters, of one function
/// Targets of a class that a function tells its callers apart; of more they know the kind alone.
constexpr int kToldApart = 6;
constexpr int kConstantsToldApart =
    16;  ///< and functions, among which a program chooses by a number

}  // namespace

bool Effects::grow(SolvedBody& body, Targets& targets, const Targets& what) {
  if (&targets == &what || !targets.add(what)) return false;
  ++body.changes;
  return true;
}

bool Effects::put(SolvedBody& body, const Targets& places, const Targets& what) {
  bool changed = false;
  for (const std::uint32_t each : places) {
    const Target place = Target::of(each);
    if (place.kind == Target::kLocal || place.is_symbolic())
      changed |= grow(body, body.content[each], what);
  }
  return changed;
}

bool Effects::is_of_bytes(const SolvedBody& body, const Fact& fact) {
  return fact.from != kNone && std::ranges::all_of(body.values[fact.from], [](std::uint32_t code) {
           const Target target = Target::of(code);
           return target.kind == Target::kPoroot || target.kind == Target::kOutside ||
                  target.kind == Target::kTold;
         });
}

bool Effects::doubt(SolvedBody& body, const Targets& places, const std::string& type) {
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

bool Effects::apply_call(SolvedBody& body, Id id, std::vector<Pending>& pending) {
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
    users_[key].insert(&body);
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

Target Effects::exported(Target target) {
  if (target.kind == Target::kLocal) return {Target::kLocal, Target::kElsewhere};
  return target;
}

Targets Effects::exported(const Targets& targets) {
  Targets all;
  for (const std::uint32_t each : targets) all.add(exported(Target::of(each)));
  return all;
}

void Effects::limit(Targets& targets) {
  std::map<std::pair<Target::Class, Kind>, int> counts;
  const auto class_of = [&](Target target) {
    return std::pair(target.kind, target.kind == Target::kOutside
                                      ? program.outsides[target.index].kind
                                      : Kind::kUnsupported);
  };
  const auto most = [](Target target) {
    return target.kind == Target::kOutside ? kToldApart : kConstantsToldApart;
  };
  bool many = false;
  for (const std::uint32_t each : targets) {
    const Target target = Target::of(each);
    if (target.kind == Target::kOutside || target.kind == Target::kConstant ||
        target.kind == Target::kFunction)
      many |= ++counts[class_of(target)] > most(target);
  }
  if (!many) return;
  Targets fewer;
  for (const std::uint32_t each : targets) {
    const Target target = Target::of(each);
    const auto at = counts.find(class_of(target));
    if (at == counts.end() || at->second <= most(target)) {
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

void Effects::add_type(Summary& summary, std::uint32_t where, const std::string& type) {
  std::set<std::string>& types = summary.reinterpreted[where];
  if (types.contains("")) return;
  types.insert(type);
  if (types.size() > kToldApart || type.empty()) types = {""};
}

void Effects::add_symbolic(Targets& to, const Targets& from) {
  for (const std::uint32_t each : from)
    if (Target::of(each).is_symbolic()) to.add(Target::of(each));
}

void Effects::solve(SolvedBody& body, Summary& summary) {
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
          if (fact.to != kNone) changed |= put(body, body.values[fact.to], body.values[fact.from]);
          break;
        case Fact::kLoadPoroot:
          if (fact.from != kNone)
            changed |= grow(body, body.values[fact.to], poroots_of(body, body.values[fact.from]));
          break;
        case Fact::kReinterpret:
          if (!is_of_bytes(body, fact)) changed |= doubt(body, body.values[fact.to], fact.name);
          break;
        case Fact::kCall: {
          SolvedBody::Applied& applied = body.applied[fact.call];
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

void Effects::summarize(SolvedBody& body, Summary& summary) {
  for (const Fact& fact : body.function->facts) {
    const auto at = [&](Id value) -> const Targets& {
      static const Targets kEmpty;
      return value == kNone ? kEmpty : body.values[value];
    };
    switch (fact.what) {
      case Fact::kRead:
        if (fact.name != kReadCopied) {
          const bool bytes = fact.name == kReadBytes;
          add_symbolic(summary.numbers, at(fact.from));
          if (bytes) add_symbolic(summary.bytes, at(fact.from));
          add_symbolic(summary.values, seen_as_number(body, at(fact.from), bytes));
        }
        [[fallthrough]];
      case Fact::kLoad:
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
  for (const SolvedBody::Applied& applied : body.applied) {
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

void Effects::summarize_call(SolvedBody& body, Id id, Summary& summary) {
  Visitor visitor;
  visitor.direct = [&](const std::string& key, const std::vector<Targets>& arguments,
                       const Pending*) {
    const Summary& called = summaries[key];
    Caller caller(*this, body, arguments);
    add_symbolic(summary.read, caller.sees(called.read));
    add_symbolic(summary.written, caller.sees(called.written));
    add_symbolic(summary.numbers, caller.sees(called.numbers));
    add_symbolic(summary.bytes, caller.sees(called.bytes));
    add_symbolic(summary.values, caller.sees(called.values));
    for (const auto& [where, types] : called.reinterpreted)
      for (const std::uint32_t each : caller.sees(Target::of(where)))
        if (Target::of(each).is_symbolic())
          for (const std::string& type : types) add_type(summary, each, type);
  };
  visitor.missing = [](Kind, const std::string&, const Pending*) {};
  visitor.pending = [](Pending) {};
  visit_call(body, id, visitor);
}

std::vector<std::string> Effects::in_order() const {
  std::vector<std::string> order;
  std::set<std::string> seen;
  struct Step {
    const std::string* key;
    std::vector<const std::string*> callees;
    std::size_t next = 0;
  };
  const auto step_of = [&](const std::string& key) {
    Step step{&key, {}, 0};
    for (const SolvedBody& body : bodies.at(key))
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

void Effects::solve_all() {
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
    for (SolvedBody& body : bodies[key]) solve(body, summary);
    if (summary == summaries[key]) continue;
    summaries[key] = std::move(summary);
    for (const SolvedBody* user : users_[key]) work.insert(positions.at(user->function->key));
  }
}

}  // namespace perdura::source
