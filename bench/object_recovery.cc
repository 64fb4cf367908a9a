// Figures 16 and 17 of the benchmark `object`: opening after a kill, and many large objects.
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "child.hpp"
#include "object_matrix.hpp"
#include "object_parts.hpp"

namespace perdura::bench {

/// 4 MiB. Its constructor keeps its zeros out of the program's file.
struct LargeMatrix {
  static constexpr std::size_t kCells = kMiB;
  std::int32_t cells[kCells];

  LargeMatrix() noexcept { std::memset(cells, 0, sizeof cells); }
  void all_inc(std::int32_t by) noexcept {
    for (std::int32_t& cell : cells) cell += by;
  }
  /// Its cells' value; nothing where they differ.
  std::optional<std::int32_t> value() const noexcept {
    for (const std::int32_t cell : cells)
      if (cell != cells[0]) return std::nullopt;
    return cells[0];
  }
};
struct LargeUnmerged : LargeMatrix {};
struct LargeMerged : LargeMatrix {};

}  // namespace perdura::bench

template <>
struct perdura::Methods<perdura::bench::LargeUnmerged>
    : perdura::MethodList<perdura::Deferrable<&perdura::bench::LargeMatrix::all_inc>> {};
template <>
struct perdura::Methods<perdura::bench::LargeMerged>
    : perdura::MethodList<perdura::Deferrable<&perdura::bench::LargeMatrix::all_inc,
                                              &perdura::bench::Matrix::join, perdura::kCommutes>> {
};

namespace perdura::bench {
namespace {

// --- opening after a kill ------------------------------------------------------------------------

constexpr std::uint64_t kCallsBeforeKill = 640'000;

/// Calls, says so, and waits for its end: a store's URI.
int run_object(const ChildArguments& arguments) {
  pin_thread(kMutatorCpu);
  Objects objects = Objects::open(arguments.at(0));
  auto object = objects.object<Unmerged>("object");
  for (std::uint64_t i = 0; i < kCallsBeforeKill; ++i) object.defer<&Matrix::all_inc>(1);
  std::puts("called");
  std::fflush(stdout);
  for (;;) pause();
}
const ChildRegistration kRun("object-run", run_object);

/// Seconds until a killed process's object answers. `lost`: calls that were not durable.
double recover_s(Context& context, std::uint64_t& lost) {
  const std::string uri = context.uri(Place::kMemory, "killed");
  {
    ChildProcess child("object-run", {uri});
    child.read_line();
    child.kill();
  }
  Matrix found{};
  std::optional<Objects> objects;
  const double seconds = timed_s([&] {
    objects.emplace(Objects::open(uri));
    found = objects->object<Unmerged>("object").read<&Matrix::all>();
  });
  objects.reset();
  const auto calls = static_cast<std::uint64_t>(found.cells[0][0]);
  check_cells("perdura, after a kill", found, {calls, calls});
  // So many calls may wait, and a call more that makes them run.
  constexpr std::uint64_t kLostMax = 513;
  if (calls > kCallsBeforeKill || calls + kLostMax < kCallsBeforeKill)
    throw std::runtime_error(fmt::format("{} of {} calls are left", calls, kCallsBeforeKill));
  lost = kCallsBeforeKill - calls;
  context.remove(uri);
  return seconds;
}

Measured compare_recovery(Context& context) {
  NativeObject<Matrix> memory;
  CountedMatrix native(memory);
  std::uint64_t lost = 0;
  const Paired pair = paired(
      context.scale(9, 5), [&] { return recover_s(context, lost); },
      [&] { return native.run(1, kCallsBeforeKill) * kCallsBeforeKill; });
  native.check("native");
  return {pair.ratio,
          {{"recover_ms", pair.subject * 1e3}, {"native_ms", pair.base * 1e3}, {"lost", lost}}};
}

// --- many large objects --------------------------------------------------------------------------

constexpr int kPoolThreads = 2;

/// Natively, in memory, and in two copies on the medium.
std::size_t objects_that_fit() {
  struct sysinfo system{};
  sysinfo(&system);
  const std::size_t each = 5 * sizeof(LargeMatrix);
  return std::clamp<std::size_t>(system.freeram * system.mem_unit / each, 8, 192);
}

/// Seconds a call of increase(object) at random, counted by object.
template <class Increase, class Sync>
double pool_s(std::vector<std::atomic<std::uint64_t>>& calls, std::uint64_t count,
              const Increase& increase, const Sync& sync) {
  static std::uint64_t seed = 0;
  seed += kPoolThreads;
  return seconds_a_call(kPoolThreads, count, [&](int thread, std::uint64_t each) {
    Random random(seed + static_cast<std::uint64_t>(thread));
    for (std::uint64_t i = 0; i < each; ++i) {
      const std::size_t object = random.below(calls.size());
      increase(object);
      calls[object].fetch_add(1, std::memory_order_relaxed);
    }
    for (auto object = static_cast<std::size_t>(thread); object < calls.size();
         object += kPoolThreads)
      sync(object);
  });
}

void check_pool(const char* side, const std::vector<std::atomic<std::uint64_t>>& calls,
                const std::function<std::optional<std::int32_t>(std::size_t)>& value) {
  for (std::size_t i = 0; i < calls.size(); ++i)
    if (value(i) != static_cast<std::int32_t>(calls[i]))
      throw std::runtime_error(
          fmt::format("{}: object {} is not its {} calls", side, i, calls[i].load()));
}

template <class State>
Measured compare_pool(Context& context) {
  const std::size_t count = objects_that_fit();
  const std::string uri = context.uri(Place::kMemory, "pool");
  std::vector<std::unique_ptr<NativeObject<LargeMatrix>>> native;
  for (std::size_t i = 0; i < count; ++i)
    native.push_back(std::make_unique<NativeObject<LargeMatrix>>());
  std::vector<std::atomic<std::uint64_t>> native_calls(count), calls(count);
  const auto open_all = [&](Objects& objects) {
    std::vector<Object<State>> all;
    for (std::size_t i = 0; i < count; ++i)
      all.push_back(objects.object<State>(std::to_string(i), {.log_bytes = 1 << 16}));
    return all;
  };
  Paired pair;
  {
    Objects objects = Objects::open(uri);
    std::vector<Object<State>> all = open_all(objects);
    const std::uint64_t calls_a_round = count * context.scale<std::uint64_t>(16, 4);
    pair = paired(
        context.scale(7, 3),
        [&] {
          return pool_s(
              calls, calls_a_round,
              [&](std::size_t i) { all[i].template defer<&LargeMatrix::all_inc>(1); },
              [&](std::size_t i) { all[i].sync(); });
        },
        [&] {
          return pool_s(
              native_calls, calls_a_round,
              [&](std::size_t i) { native[i]->template defer<&LargeMatrix::all_inc>(1); },
              [](std::size_t) {});
        });
    objects.close();
  }
  check_pool("native", native_calls,
             [&](std::size_t i) { return native[i]->template read<&LargeMatrix::value>(); });
  Objects objects = Objects::open(uri);
  const std::vector<Object<State>> all = open_all(objects);
  check_pool("perdura", calls,
             [&](std::size_t i) { return all[i].template read<&LargeMatrix::value>(); });
  objects.close();
  context.remove(uri);
  return {1 / pair.ratio,
          {{"throughput", 1 / pair.ratio},
           {"objects", count},
           {"subject_us", pair.subject * 1e6},
           {"base_us", pair.base * 1e6}}};
}

}  // namespace

void measure_recovery(Context& context) {
  context.measure("recover_object", "ratio", Reach::at_most(0.03),
                  [&] { return compare_recovery(context); });
}

void measure_pools(Context& context) {
  context.measure("pool", "ratio", Reach::at_least(0.95),
                  [&] { return compare_pool<LargeUnmerged>(context); });
  context.measure("pool_merged", "ratio", Reach::at_least(1.4),
                  [&] { return compare_pool<LargeMerged>(context); });
}

}  // namespace perdura::bench
