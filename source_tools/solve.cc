#include "solve.hpp"

#include <algorithm>
#include <deque>
#include <set>
#include <tuple>
#include <utility>

#include "effects.hpp"

namespace perdura::source {

/// The search for reasons, from a method along the calls that reach what is outside.
struct Solver::Parts : Effects {
  using Effects::Effects;

  /// What is asked of a body: its own reasons, and those that what is at a target makes.
  struct Question {
    enum About { kOwn, kThrows, kTarget, kWrites, kStores, kNumbers, kBytes, kValues } about;
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

  /// Questions of earlier searches from which nothing was told: what they ask of bodies is the same
  /// for whoever asks.
  std::set<Question> answered;

  void ask(Search& search, Question question, std::size_t from, Place call, std::string callee) {
    if (answered.contains(question) || !search.known.insert(question).second) return;
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
    for (SolvedBody& body : at->second) {
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

  void answer_access(Search& search, std::size_t index, const Question& question, SolvedBody& body,
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
        if (fact.what == Fact::kRead && fact.name != kReadCopied &&
            has_placed_address(body, seen_as_number(body, places, fact.name == kReadBytes)))
          tell(search, index, Kind::kAddressAsNumber, "", fact.place);
        break;
      case Question::kNumbers:
      case Question::kBytes:
        if (fact.what == Fact::kRead && places.contains(Target::of(question.target)) &&
            (question.about == Question::kBytes ? fact.name == kReadBytes
                                                : fact.name != kReadCopied))
          tell(search, index, Kind::kAddressAsNumber, "", fact.place);
        break;
      case Question::kValues:
        if (fact.what == Fact::kRead && fact.name != kReadCopied &&
            seen_as_number(body, places, fact.name == kReadBytes)
                .contains(Target::of(question.target)))
          tell(search, index, Kind::kAddressAsNumber, "", fact.place);
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
  /// Which each run of the program has at another place: of a variable, of the object, of what has
  /// static storage. What a number is that was handed over is not known to be none.
  bool has_placed_address(const SolvedBody& body, const Targets& values) const {
    return std::ranges::any_of(values, [&](std::uint32_t code) {
      const Target target = Target::of(code);
      switch (target.kind) {
        case Target::kLocal:
        case Target::kPoroot:
        case Target::kFunction:
        case Target::kConstant:
          return true;
        case Target::kParameter:
          return target.parameter() == 0 && body.function->has_this;
        case Target::kOutside: {
          const Kind kind = program.outsides[target.index].kind;
          return kind == Kind::kGlobal || kind == Kind::kThreadLocal;
        }
        default:
          return false;
      }
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

  void answer_call(Search& search, std::size_t index, const Question& question, SolvedBody& body,
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
      // The same of what the target is to the other one.
      const auto pass_on = [&](const Targets& accessed) {
        for (const std::uint32_t code : accessed) {
          if (!caller.sees(Target::of(code)).contains(Target::of(question.target))) continue;
          Question next = question;
          next.key = key;
          next.target = code;
          ask(search, std::move(next), index, place, callee);
        }
      };
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
          for (const std::uint32_t code : summary.numbers) {
            const bool bytes = summary.bytes.contains(Target::of(code));
            const Targets& places = caller.sees(Target::of(code));
            if (has_placed_address(body, seen_as_number(body, places, false)))
              ask(search, {.about = Question::kNumbers, .key = key, .target = code}, index, place,
                  callee);
            else if (bytes && has_placed_address(body, seen_as_number(body, places, true)))
              ask(search, {.about = Question::kBytes, .key = key, .target = code}, index, place,
                  callee);
          }
          for (const std::uint32_t code : summary.values)
            if (has_placed_address(body, caller.sees(Target::of(code))))
              ask(search, {.about = Question::kValues, .key = key, .target = code}, index, place,
                  callee);
          break;
        case Question::kThrows:
          if (!guarded) ask(search, {.about = Question::kThrows, .key = key}, index, place, callee);
          break;
        case Question::kNumbers:
          pass_on(summary.numbers);
          break;
        case Question::kBytes:
          pass_on(summary.bytes);
          break;
        case Question::kValues:
          pass_on(summary.values);
          break;
        case Question::kStores:
          // Bytes that have an address of this function's, and that the other one copies there.
          for (const auto& [where, what] : summary.stored) {
            if (!caller.sees(Target::of(where)).contains(Target::of(question.target))) continue;
            for (const std::uint32_t code : what) {
              const Target::Class kind = Target::of(code).kind;
              if ((kind == Target::kReach || kind == Target::kCaptured) &&
                  has_address(caller.sees(Target::of(code)), true))
                tell(search, index, Kind::kKeepsAddress, "", place);
            }
          }
          [[fallthrough]];
        case Question::kTarget:
          pass_on(summary.read);
          [[fallthrough]];
        case Question::kWrites:
          pass_on(summary.written);
          break;
      }
    };
    visit_call(body, fact.call, visitor);
  }

  /// Functions that a method gets from its caller.
  void tell_pending(Search& search, SolvedBody& body) {
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
      // What a reference leads to is elsewhere when the call is executed again.
      for (const std::uint32_t code : summary.values) {
        const Target target = Target::of(code);
        const std::size_t parameter = target.parameter() - (has_this ? 1 : 0);
        if (target.kind == Target::kParameter && (target.parameter() != 0 || !has_this) &&
            parameter < method.parameters.size() && method.parameters[parameter].is_reference)
          start({.about = Question::kValues, .key = method.key, .target = code});
      }
      for (SolvedBody& body : at->second) tell_pending(search, body);
    }
    // Of a read, that it returns something is the one reason: two are enough to know it is none.
    const std::size_t enough = std::max(most, std::size_t{2});
    for (std::size_t i = 0;
         i < search.nodes.size() && (most == 0 || search.reasons.size() < enough); ++i)
      answer(search, i);
    judgement.reasons = std::move(search.reasons);
    const bool returns_alone =
        judgement.reasons.size() == 1 && judgement.reasons[0].kind == Kind::kReturns;
    if (judgement.reasons.empty() || returns_alone) answered.merge(search.known);
    if (most != 0 && judgement.reasons.size() > most) judgement.reasons.resize(most);
    std::ranges::sort(judgement.reasons, [](const Reason& a, const Reason& b) {
      return std::tie(a.at, a.kind) < std::tie(b.at, b.kind);
    });
    if (judgement.reasons.empty()) {
      judgement.verdict = Verdict::kDeferrable;
    } else if (method.is_const && returns_alone && !judgement.changes_object &&
               !method.answers_address) {
      judgement.verdict = Verdict::kRead;
    }
    return judgement;
  }
};

Solver::Solver(Program& program) : parts_(std::make_unique<Parts>(program)) {}
Solver::~Solver() = default;
Judgement Solver::judge(const Method& method, std::size_t most) {
  return parts_->judge(method, most);
}

}  // namespace perdura::source
