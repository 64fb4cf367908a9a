// Checkpoints where the program's data are consistent, instead of at any time.
#include <time.h>

#include "preload/instrument.hpp"
#include "preload/sampler.hpp"
#include "store/runtime.hpp"

namespace perdura::preload {
namespace {

constexpr u64 kNotPolled = 0;
constexpr u64 kUnderWay = ~u64{0};
/// When the next checkpoint is due.
constinit std::atomic<u64> due_ns{kNotPolled};

// Some milliseconds behind, and a few nanoseconds' work.
u64 coarse_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<u64>(now.tv_sec) * 1'000'000'000 + static_cast<u64>(now.tv_nsec);
}

__attribute__((noinline)) int poll_slow(u64 now_ns, u64 due) {
  if (!due_ns.compare_exchange_strong(due, kUnderWay)) return 0;  // another thread's turn
  const InLibrary in_library;
  // Of a program that reports: a checkpoint in the background may wait for what it has begun.
  opened->runtime->mutators().leave_polled();
  if (due == kNotPolled) {
    opened->runtime->checkpointer().every(std::chrono::milliseconds{0});
    due_ns = now_ns + poll_interval_ns;
    return 0;
  }
  const Result<u64> version = opened->runtime->checkpoint();
  due_ns = coarse_ns() + poll_interval_ns;
  if (version) return 1;
  say(version.failure().message);
  return -static_cast<int>(version.failure().code);
}

}  // namespace
}  // namespace perdura::preload

extern "C" __attribute__((visibility("default"))) int perdura_malloc_poll() {
  using namespace perdura::preload;
  if (opened->heap == nullptr) return 0;
  if (sampler != nullptr) {
    sampler->poll(coarse_ns());
    return 0;
  }
  if (poll_interval_ns == 0) return 0;
  const perdura::u64 now_ns = coarse_ns();
  const perdura::u64 due = due_ns.load(std::memory_order_relaxed);
  if (now_ns < due) [[likely]]
    return 0;
  return poll_slow(now_ns, due);
}
