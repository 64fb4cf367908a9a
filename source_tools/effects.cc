// What targets are for who calls, and whom a call may call.
#include "effects.hpp"

#include <algorithm>

namespace perdura::source {
namespace {

constexpr int kPointersMax = 16;  ///< to functions, that are looked at for one call

}  // namespace

Effects::Effects(Program& with) : program(with) {
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

Targets Effects::content_of(SolvedBody& body, Target target) {
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

Targets Effects::seen_as_number(SolvedBody& body, const Targets& places, bool bytes) {
  Targets all;
  for (const std::uint32_t code : places) {
    const Target target = Target::of(code);
    if (target.kind != Target::kLocal || target.index == Target::kElsewhere) continue;
    const Local& local = body.function->locals[target.index];
    const Targets there = content_of(body, target);
    const bool is_number = !local.has_pointers || (bytes ? !local.has_bytes : local.is_pointer) ||
                           (!bytes && there.contains(reinterpreted));
    if (!local.is_object && is_number) all.add(there);
  }
  return all;
}

Targets Effects::content_of(SolvedBody& body, const Targets& targets) {
  Targets all;
  for (const std::uint32_t each : targets) all.add(content_of(body, Target::of(each)));
  return all;
}

void Effects::close(SolvedBody& body, Targets& targets) {
  std::vector<std::uint32_t> work(targets.begin(), targets.end());
  while (!work.empty()) {
    const Targets next = content_of(body, Target::of(work.back()));
    work.pop_back();
    for (const std::uint32_t each : next)
      if (targets.add(Target::of(each))) work.push_back(each);
  }
}

Targets Effects::poroots_of(const SolvedBody& body, const Targets& objects) {
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

const Targets& Effects::Caller::sees(Target target) {
  const auto [at, is_new] = seen_.emplace(target.code(), Targets());
  if (is_new) at->second = find(target);
  return at->second;
}

Targets Effects::Caller::sees(const Targets& targets) {
  Targets all;
  for (const std::uint32_t each : targets) all.add(sees(Target::of(each)));
  return all;
}

Targets Effects::Caller::find(Target target) {
  Targets all;
  if (!target.is_symbolic()) {
    all.add(target);
    return all;
  }
  const Id parameter = target.parameter();
  if (parameter >= arguments_.size()) {  // of a function that was declared otherwise
    all.add(effects_.lost);
    return all;
  }
  if (target.kind == Target::kPoroot)
    return effects_.poroots_of(body_, sees(Target::behind(parameter, target.depth())));
  const unsigned depth = target.depth();
  if (depth == 0 && target.kind != Target::kCaptured) return arguments_[parameter];
  if (target.kind == Target::kCaptured) {
    const unsigned steps = target.steps();
    if (steps == 0) return variables_of(sees(Target::behind(parameter, depth)));
    all = effects_.content_of(body_, sees(Target::captured(parameter, depth, steps - 1)));
    if (steps == Target::kDepthMax) effects_.close(body_, all);
    return all;
  }
  all = effects_.content_of(body_, sees(Target::behind(parameter, depth - 1)));
  if (depth == Target::kDepthMax) effects_.close(body_, all);
  return all;
}

Targets Effects::Caller::variables_of(const Targets& content) const {
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

Targets Effects::single(Target target) {
  Targets one;
  one.add(target);
  return one;
}

std::vector<Targets> Effects::arguments_of(const SolvedBody& body, const Call& call) const {
  std::vector<Targets> arguments;
  for (const Id each : call.arguments)
    arguments.push_back(each == kNone ? single({Target::kTold, Target::kNull}) : body.values[each]);
  return arguments;
}

Leads Effects::leads_of(const Function& function, Id parameter) {
  return parameter < function.leads.size() ? function.leads[parameter] : Leads::kAnywhere;
}

bool Effects::is_data(const Function& function, Target target) {
  if (target.kind == Target::kParameter)
    return leads_of(function, target.index) != Leads::kAnywhere;
  return target.kind == Target::kLocal || target.kind == Target::kConstant;
}

void Effects::visit_pointer(SolvedBody& body, const Targets& pointer,
                            const std::vector<Targets>& arguments, const Pending* through,
                            const SolvedBody* origin, Id call, Visitor& visitor) {
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

void Effects::visit_function(SolvedBody& body, const std::string& key,
                             const std::vector<Targets>& arguments, const Pending* through,
                             Visitor& visitor) {
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

void Effects::visit_call(SolvedBody& body, Id id, Visitor& visitor) {
  const Call& call = body.function->calls[id];
  const std::vector<Targets> arguments = arguments_of(body, call);
  if (call.pointer == kNone) {
    if (bodies.contains(call.callee))
      visit_function(body, call.callee, arguments, nullptr, visitor);
    else if (!call.has_model) visitor.missing(Kind::kNoSource, call.name, nullptr);
  } else {
    visit_pointer(body, body.values[call.pointer], arguments, nullptr, &body, id, visitor);
  }
}

}  // namespace perdura::source
