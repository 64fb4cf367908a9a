#include "explorer.hpp"

#include <algorithm>
#include <cmath>
#include <random>

namespace perdura::testing {
namespace {

constexpr u64 kPairsMax = 2048;

double log10_sum(double a, double b) {
  if (a < b) std::swap(a, b);
  return a + std::log10(1 + std::pow(10.0, b - a));
}

/// The states that stand for one with too many: each gives an atom's option.
class Samples {
 public:
  Samples(u64 atoms, u64 random, u64 seed) : atoms_(atoms), random_samples_(random), seed_(seed) {
    const u64 all = atoms * (atoms - 1) / 2;
    pairs_ = std::min(all, kPairsMax);
  }
  u64 count() const { return 2 + 2 * atoms_ + pairs_ + random_samples_; }

  template <class Use>
  auto with(u64 number, Use&& use) const {
    std::mt19937_64 random(seed_ ^ number * 0x9e3779b97f4a7c15);
    const u64 a = random() % atoms_;
    const u64 b = random() % atoms_;
    return use([this, number, a, b, &random](u64 atom, u32 options) -> u32 {
      const u32 newest = options - 1;
      u64 n = number;
      if (n == 0) return 0;
      if (n == 1) return newest;
      n -= 2;
      if (n < atoms_) return atom == n ? 0 : newest;
      n -= atoms_;
      if (n < atoms_) return atom == n ? newest : 0;
      n -= atoms_;
      if (n < pairs_) return atom == a || atom == b ? 0 : newest;
      return static_cast<u32>(random() % options);
    });
  }

 private:
  u64 atoms_;
  u64 pairs_ = 0;
  u64 random_samples_;
  u64 seed_;
};

}  // namespace

u64 acknowledged_by(std::span<const Acknowledgement> all, size_t calls) {
  u64 version = 0;
  for (const Acknowledgement& each : all)
    if (each.calls <= calls) version = std::max(version, each.version);
  return version;
}

void Coverage::add(const Coverage& other) {
  executions += other.executions;
  states += other.states;
  sampled_states += other.sampled_states;
  inner_left_out += other.inner_left_out;
  log10_contents = log10_sum(log10_contents, other.log10_contents);
}

bool Explorer::explore(CrashState& state, size_t call) {
  CrashPoint point{.call = call};
  return explore_exactly(state, point, 1);
}

bool Explorer::explore_killed(CrashState& state, size_t call) {
  CrashPoint point{.call = call, .killed = true};
  CrashState killed = state.killed();
  return explore_exactly(killed, point, 1);
}

bool Explorer::run(Execution& execution, const Choices& choices, CrashPoint& point) {
  const Outcome outcome = recover_(execution, point.call);
  coverage_.executions += outcome.recoveries;
  if (outcome.problem.empty()) return true;
  if (problem_) return false;  // found inside this recovery, further down
  point.choices.push_back(choices.taken());
  problem_ = Problem{outcome.problem, point};
  point.choices.pop_back();
  return false;
}

bool Explorer::explore_exactly(CrashState& state, CrashPoint& point, int depth) {
  ++coverage_.states;
  coverage_.log10_contents = log10_sum(coverage_.log10_contents, state.log10_states());
  Choices choices;
  std::unordered_set<u64> seen;
  u64 barrier = 0;
  u64 inner_executions = 0;
  bool good = true;
  // Executions with the same choices so far came to this barrier in the same state.
  const auto at_barrier = [&](Execution& execution) {
    ++barrier;
    if (depth == options_.depth || !good || !choices.differs() ||
        !seen.insert(execution.digest()).second)
      return;
    if (inner_executions >= options_.inner_executions_max ||
        (seen.size() > options_.inner_max && seen.size() % options_.inner_step != 0)) {
      ++coverage_.inner_left_out;
      return;
    }
    const u64 before = coverage_.executions;
    point.choices.push_back(choices.taken());
    point.barrier = barrier;
    execution.with_crash_state(
        [&](CrashState& inner) { good = explore_exactly(inner, point, depth + 1); });
    inner_executions += coverage_.executions - before;
    point.choices.pop_back();
    point.barrier = 0;
  };
  std::optional<Execution> execution;
  execution.emplace(Execution::InPlace{state}, geometry_, choices, options_.mutation, at_barrier,
                    options_.passed);
  for (u64 runs = 0; good; ++runs) {
    if (depth > 1 && runs == options_.inner_distinguishable_max) {
      ++coverage_.inner_left_out;
      break;
    }
    if (runs == options_.distinguishable_max) {
      execution.reset();  // the state has its image back
      return sample(state, point);
    }
    execution->reset();
    barrier = 0;
    good = run(*execution, choices, point) && good;
    if (!choices.advance()) break;
  }
  return good;
}

bool Explorer::sample(const CrashState& state, CrashPoint& point) {
  ++coverage_.sampled_states;
  const Samples samples(state.undecided(), options_.samples, options_.seed);
  for (u64 i = 0; i < samples.count(); ++i) {
    CrashState decided = samples.with(i, [&](const auto& choose) { return state.decided(choose); });
    Choices choices;
    Execution execution(Execution::InPlace{decided}, geometry_, choices, options_.mutation, {});
    point.sample = i + 1;
    if (!run(execution, choices, point)) return false;
    point.sample = 0;
  }
  return true;
}

Outcome Explorer::replay(const CrashState& at, const CrashPoint& point) {
  const CrashState state = point.killed ? at.killed() : at;
  if (point.sample != 0 && point.choices.size() < 2) {
    const Samples samples(state.undecided(), options_.samples, options_.seed);
    const CrashState decided =
        samples.with(point.sample - 1, [&](const auto& choose) { return state.decided(choose); });
    Choices choices;
    Execution execution(decided, geometry_, choices, options_.mutation, {});
    return recover_(execution, point.call);
  }
  Choices choices;
  choices.set(point.choices.front());
  std::optional<CrashState> inner;
  u64 barrier = 0;
  Execution execution(state, geometry_, choices, options_.mutation, [&](Execution& here) {
    if (++barrier == point.barrier) inner = here.crash_state();
  });
  const Outcome outcome = recover_(execution, point.call);
  if (point.choices.size() < 2 || !inner) return outcome;
  CrashPoint rest{.call = point.call, .choices = {point.choices.back()}, .sample = point.sample};
  return replay(*inner, rest);
}

}  // namespace perdura::testing
