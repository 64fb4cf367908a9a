// The hot path of a mutator: entering and leaving operations, reporting stores.
//
// A mutator is a (thread, store) pair. Entering an operation and reporting a store touch the
// mutator's own cache line and its report buffer, nothing else. The checkpointer writes `closed`
// and then makes every mutator's view of it current with membarrier(2), so the mutator's side needs
// no fence. Where membarrier is missing, and under ThreadSanitizer, the mutator fences instead.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <perdura/detail/sanitizers.hpp>

namespace perdura::detail {

struct alignas(64) Mutator {
  static constexpr std::uint32_t kStop = 1;     ///< operations wait
  static constexpr std::uint32_t kFence = 2;    ///< no membarrier: this thread fences
  static constexpr std::uint32_t kWatched = 4;  ///< the ends of operations are told (leave_slow)

  std::atomic<std::uint32_t> depth{0};   ///< nesting of operations; written by the owner alone
  std::atomic<std::uint32_t> closed{0};  ///< of these; written by the checkpointer
  std::uint64_t* cursor = nullptr;       ///< next free entry of the report buffer
  /// Reports are appended below it and take the slow path from here on: the end of the buffer, or
  /// nullptr while there is more to do than to append. Written by the owner, or while it is
  /// stopped.
  std::uint64_t* limit = nullptr;
  bool ignores_reports = false;  ///< the tracker needs none
  bool in_transaction = false;   ///< what it allocates and gives back is its transaction's
  bool by_transaction = false;   ///< what the heap does for it now is one's: a crash leaves it done
  void* heap_cache = nullptr;    ///< heap::ThreadCache
  void* runtime = nullptr;       ///< the store
  void* registry = nullptr;      ///< track::Mutators
  void* transactions = nullptr;  ///< store::TransactionBlocks
};

static_assert(sizeof(Mutator) == 64);  // what each operation and allocation looks at is one line

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

/// How many stores' transactions the thread is in: the bodies of these, one within the other.
__attribute__((tls_model(
    "initial-exec"))) inline constinit thread_local std::uint32_t running_transactions = 0;

/// The open store in which this thread last found something by an address.
struct FoundStore {
  std::uintptr_t base = 0;
  std::uintptr_t bytes = 0;
  std::uint64_t opened = 0;    ///< as often had stores been opened and closed
  Mutator* mutator = nullptr;  ///< or the thread had none there

  bool holds(const void* address) const noexcept;
};
__attribute__((tls_model("initial-exec"))) inline constinit thread_local FoundStore found_store;
extern std::atomic<std::uint64_t> stores_opened;  ///< or closed
inline bool FoundStore::holds(const void* address) const noexcept {
  return reinterpret_cast<std::uintptr_t>(address) - base < bytes &&
         opened == stores_opened.load(std::memory_order_acquire);
}
/// The slow paths of what follows.
Mutator* find_mutator(const void* address);
Mutator* find_reader(const void* address) noexcept;

/// This thread's mutator of the open store whose region holds an address; nullptr: none does. The
/// first one of a thread is made. Throws kForked in a child, kNoMemory.
[[gnu::always_inline]] inline Mutator* mutator_holding(const void* address) {
  const FoundStore& found = found_store;
  if (found.holds(address) && found.mutator != nullptr) [[likely]]
    return found.mutator;
  return find_mutator(address);
}
/// The same for who only reads: nullptr also where the thread has none yet.
inline Mutator* reader_holding(const void* address) noexcept {
  const FoundStore& found = found_store;
  if (found.holds(address)) [[likely]]
    return found.mutator;
  return find_reader(address);
}

/// A report is address | length << 48: region addresses are below 2^47 and lengths below 2^16.
constexpr unsigned kReportLengthShift = 48;
constexpr std::size_t kReportLengthMax = 0xffff;
constexpr std::uintptr_t kReportLine = 64;

void enter_slow(Mutator& mutator) noexcept;
void leave_slow(Mutator& mutator) noexcept;
void report_slow(Mutator& mutator, const void* address, std::size_t length) noexcept;

/// Outside of operations.
[[gnu::always_inline]] inline void enter_outermost(Mutator& mutator) noexcept {
#if defined(PERDURA_THREAD_SANITIZER)
  mutator.depth.exchange(1, std::memory_order_seq_cst);
#else
  mutator.depth.store(1, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
  if (mutator.closed.load(std::memory_order_acquire) != 0) [[unlikely]]
    enter_slow(mutator);
}

[[gnu::always_inline]] inline void enter(Mutator& mutator) noexcept {
  const std::uint32_t depth = mutator.depth.load(std::memory_order_relaxed);
  if (depth == 0) [[likely]]
    enter_outermost(mutator);
  else mutator.depth.store(depth + 1, std::memory_order_relaxed);
}

[[gnu::always_inline]] inline void leave(Mutator& mutator) noexcept {
  if ((mutator.closed.load(std::memory_order_relaxed) & Mutator::kWatched) != 0) [[unlikely]]
    leave_slow(mutator);
  mutator.depth.store(mutator.depth.load(std::memory_order_relaxed) - 1, std::memory_order_release);
}

/// With room in the buffer. The checkpointer reads what lies before the cursor at any time.
[[gnu::always_inline]] inline void append_report(Mutator& mutator, const void* address,
                                                 std::size_t length) noexcept {
  *mutator.cursor = reinterpret_cast<std::uintptr_t>(address) | static_cast<std::uint64_t>(length)
                                                                    << kReportLengthShift;
  std::atomic_ref(mutator.cursor).store(mutator.cursor + 1, std::memory_order_release);
}

/// Report that [address, address + length) is about to be stored to. Call it before the store.
inline void report(Mutator& mutator, const void* address, std::size_t length) noexcept {
  if (mutator.cursor >= mutator.limit || length > kReportLengthMax) [[unlikely]] {
    if (!mutator.ignores_reports) report_slow(mutator, address, length);
    return;
  }
  append_report(mutator, address, length);
}

/// As many of the last reports report_lines looks at. Before the first report of a buffer are as
/// many zeros.
constexpr std::size_t kLastReports = 3;

/// With room in the buffer, and of whole lines. Not again what the last reports say: they are of
/// the same epoch, since `limit` is nullptr after each cut; and while lines are copied aside, which
/// each report must see, it stays that.
[[gnu::always_inline]] inline void append_lines(Mutator& mutator, std::uintptr_t begin,
                                                std::size_t bytes) noexcept {
  const std::uint64_t entry = begin | static_cast<std::uint64_t>(bytes) << kReportLengthShift;
  for (std::size_t i = 1; i <= kLastReports; ++i)
    if (mutator.cursor[-static_cast<std::ptrdiff_t>(i)] == entry) return;
  append_report(mutator, reinterpret_cast<const void*>(begin), bytes);
}

/// The same of the whole lines, for who comes to the same ones again and again, as containers come
/// to their size: they are not reported again behind the last reports of the epoch.
inline void report_lines(Mutator& mutator, const void* address, std::size_t length) {
  const std::uintptr_t place = reinterpret_cast<std::uintptr_t>(address);
  const std::uintptr_t begin = place & ~(kReportLine - 1);
  const std::size_t bytes = ((place + length + kReportLine - 1) & ~(kReportLine - 1)) - begin;
  if (mutator.cursor >= mutator.limit || bytes > kReportLengthMax) [[unlikely]]
    return report(mutator, address, length);
  append_lines(mutator, begin, bytes);
}
/// The same of a value.
template <class T>
[[gnu::always_inline]] inline void report_lines_of(Mutator& mutator, const T& value) {
  if constexpr (sizeof(T) <= alignof(T) && sizeof(T) <= kReportLine) {  // in one of them
    if (mutator.cursor >= mutator.limit) [[unlikely]]
      return report(mutator, &value, sizeof value);
    append_lines(mutator, reinterpret_cast<std::uintptr_t>(&value) & ~(kReportLine - 1),
                 kReportLine);
  } else {
    report_lines(mutator, &value, sizeof value);
  }
}

}  // namespace perdura::detail
