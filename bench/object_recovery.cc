// Figure 16 of the benchmark `object`: opening after a kill, and running a program again.
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

// --- running a program again ---------------------------------------------------------------------

constexpr std::uint64_t kCallsAnAnswer = 1000;
constexpr ObjectOptions kAllCalls{.history = ObjectHistory::kAll};

/// The same calls in each run, most of them deferred. Returns what the answers come to.
std::uint64_t run_program(Objects& objects, std::uint64_t calls) {
  auto object = objects.object<Unmerged>("object", kAllCalls);
  std::uint64_t answers = 0;
  for (std::uint64_t i = 1; i <= calls; ++i) {
    if (i % kCallsAnAnswer != 0) object.defer<&Matrix::all_inc>(1);
    else answers += static_cast<std::uint64_t>(object.call<&Matrix::all_inc_told>(1));
  }
  return answers;
}
void check_answers(std::uint64_t answers, std::uint64_t calls) {
  std::uint64_t expected = 0;
  for (std::uint64_t i = kCallsAnAnswer; i <= calls; i += kCallsAnAnswer) expected += i;
  if (answers != expected)
    throw std::runtime_error(
        fmt::format("perdura: answers come to {}, not to {}", answers, expected));
}
void check_matrix(const std::string& uri, std::uint64_t calls) {
  Objects objects = Objects::open(uri);
  check_cells("perdura, run again",
              objects.object<Unmerged>("object", kAllCalls).read<&Matrix::all>(), {calls, calls});
}

int run_recorded(const ChildArguments& arguments) {
  pin_thread(kMutatorCpu);
  Objects objects = Objects::open(arguments.at(0));
  run_program(objects, kCallsBeforeKill);
  std::puts("called");
  std::fflush(stdout);
  for (;;) pause();
}
const ChildRegistration kRunRecorded("object-run-recorded", run_recorded);

/// Seconds until a killed process's program has come to where it was.
double run_again_s(Context& context) {
  const std::string uri = context.uri(Place::kMemory, "killed");
  {
    ChildProcess child("object-run-recorded", {uri});
    child.read_line();
    child.kill();
  }
  std::uint64_t answers = 0;
  std::optional<Objects> objects;
  const double seconds = timed_s([&] {
    objects.emplace(Objects::open(uri));
    answers = run_program(*objects, kCallsBeforeKill);
  });
  objects.reset();
  check_answers(answers, kCallsBeforeKill);
  check_matrix(uri, kCallsBeforeKill);
  context.remove(uri);
  return seconds;
}

Measured compare_program(Context& context) {
  NativeObject<Matrix> memory;
  CountedMatrix native(memory);
  const Paired pair = paired(
      context.scale(9, 5), [&] { return run_again_s(context); },
      [&] { return native.run(1, kCallsBeforeKill) * kCallsBeforeKill; });
  native.check("native");
  return {pair.ratio, {{"run_again_ms", pair.subject * 1e3}, {"native_ms", pair.base * 1e3}}};
}

/// ms in which a million recorded calls are called again; `opens`: with opening, which reads them.
Measured check_recorded(Context& context, bool opens) {
  constexpr std::uint64_t kRecorded = 1'000'000;
  const std::string uri = context.uri(Place::kMemory, "recorded");
  {
    Objects objects = Objects::open(uri);
    check_answers(run_program(objects, kRecorded), kRecorded);
    objects.close();
  }
  std::vector<double> opening_ms, calling_ms;
  for (int i = 0; i < context.scale(9, 5); ++i) {
    std::optional<Objects> objects;
    opening_ms.push_back(1e3 * timed_s([&] {
                           objects.emplace(Objects::open(uri));
                           (void)objects->object<Unmerged>("object", kAllCalls);
                         }));
    std::uint64_t answers = 0;
    calling_ms.push_back(1e3 * timed_s([&] { answers = run_program(*objects, kRecorded); }));
    check_answers(answers, kRecorded);
    objects->close();
  }
  check_matrix(uri, kRecorded);
  context.remove(uri);
  const double opening = median(opening_ms);
  const double calling = median(calling_ms);
  return {opens ? opening + calling : calling, {{"opening_ms", opening}, {"calling_ms", calling}}};
}

}  // namespace

void measure_recovery(Context& context) {
  context.measure("recover_object", "ratio", Reach::at_most(0.03),
                  [&] { return compare_recovery(context); });
  context.measure("recover_program", "ratio", Reach::at_most(0.10),
                  [&] { return compare_program(context); });
  context.measure("check_ms", "ms", Reach::at_most(7.5),
                  [&] { return check_recorded(context, false); });
  context.measure("check_archived_ms", "ms", Reach::at_most(30),
                  [&] { return check_recorded(context, true); });
}

}  // namespace perdura::bench
