// The hot path of a mutator: entering and leaving operations, reporting stores.
//
// A mutator is a (thread, store) pair. Entering an operation writes the mutator's own cache line
// and reads the gate's; nothing is shared between mutators. The checkpointer closes the gate and
// then makes every mutator's view of it current with membarrier(2), so the mutator's side needs no
// fence. Where membarrier is missing, and under ThreadSanitizer, the mutator fences instead.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace perdura::detail {

/// Read by every mutator at every operation and report; written a few times a checkpoint.
struct alignas(64) Gate {
  static constexpr std::uint32_t kWindowOpen = 1;  ///< a background capture is under way
  static constexpr std::uint32_t kBitmapMode = 2;  ///< Tracking::kBitmap
  static constexpr std::uint32_t kIgnore = 4;      ///< the tracker needs no reports

  std::atomic<std::uint32_t> closed{0};        ///< operations wait while not 0
  std::atomic<std::uint32_t> report_flags{0};  ///< 0: reports are appended, nothing else
  std::atomic<std::uint32_t> fence_needed{0};  ///< no membarrier: mutators fence
};

struct alignas(64) Mutator {
  std::atomic<std::uint32_t> active{0};  ///< 1 inside an operation; written by the owner alone
  std::uint32_t depth = 0;               ///< nesting of operations
  Gate* gate = nullptr;
  std::uint64_t* cursor = nullptr;  ///< next free entry of the report buffer
  std::uint64_t* end = nullptr;     ///< the cursor never rests here
  void* registry = nullptr;         ///< track::Mutators
  void* heap_cache = nullptr;       ///< heap::ThreadCache
  void* runtime = nullptr;          ///< the store
};

/// A thread's mutators, by the index of the store among the process's open ones. The id tells a
/// store from an earlier one with the same index.
struct ThreadEntry {
  std::uint64_t id = 0;
  Mutator* mutator = nullptr;
};
constexpr std::size_t kOpenStoresMax = 64;
__attribute__((tls_model(
    "initial-exec"))) inline constinit thread_local ThreadEntry thread_entries[kOpenStoresMax];

/// What a store needs to find a thread's mutator.
struct ThreadKey {
  std::uint64_t id = 0;
  std::size_t index = 0;
};

/// A report is address | length << 48: region addresses are below 2^47 and lengths below 2^16.
constexpr unsigned kReportLengthShift = 48;
constexpr std::size_t kReportLengthMax = 0xffff;

void enter_slow(Mutator& mutator) noexcept;
void report_slow(Mutator& mutator, const void* address, std::size_t length) noexcept;
void report_buffer_full(Mutator& mutator) noexcept;

inline void enter(Mutator& mutator) noexcept {
  if (mutator.depth++ != 0) return;
#if defined(__SANITIZE_THREAD__)
  mutator.active.exchange(1, std::memory_order_seq_cst);
  if (mutator.gate->closed.load(std::memory_order_seq_cst) != 0) enter_slow(mutator);
#else
  mutator.active.store(1, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const Gate& gate = *mutator.gate;
  if ((gate.closed.load(std::memory_order_acquire) |
       gate.fence_needed.load(std::memory_order_relaxed)) != 0) [[unlikely]]
    enter_slow(mutator);
#endif
}

inline void leave(Mutator& mutator) noexcept {
  if (--mutator.depth == 0) mutator.active.store(0, std::memory_order_release);
}

/// Report that [address, address + length) is about to be stored to. Call it before the store.
inline void report(Mutator& mutator, const void* address, std::size_t length) noexcept {
  const std::uint32_t flags = mutator.gate->report_flags.load(std::memory_order_acquire);
  if (flags != 0 || length > kReportLengthMax) [[unlikely]] {
    if ((flags & Gate::kIgnore) == 0) report_slow(mutator, address, length);
    return;
  }
  *mutator.cursor++ = reinterpret_cast<std::uintptr_t>(address) | static_cast<std::uint64_t>(length)
                                                                      << kReportLengthShift;
  if (mutator.cursor == mutator.end) [[unlikely]]
    report_buffer_full(mutator);
}

}  // namespace perdura::detail
