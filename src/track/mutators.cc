#include "track/mutators.hpp"

#include <immintrin.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/assert.hpp"
#include "base/clock.hpp"

namespace perdura::track {
namespace {

std::atomic<u64> fork_generation{1};

long membarrier(int command) { return ::syscall(SYS_membarrier, command, 0, 0); }

// The mutators' side of the gate has no fence when the kernel can fence every thread for us.
bool asymmetric_fences() {
#if defined(__SANITIZE_THREAD__)
  return false;
#else
  static const bool available = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
  return available;
#endif
}

// Of threads that are on their way. It takes nanoseconds, or one of them has lost its processor.
void await_zero(const std::atomic<u32>& threads) {
  for (int spins = 0; threads.load(std::memory_order_seq_cst) != 0; ++spins) {
    if (spins < 2000) _mm_pause();
    else ::sched_yield();
  }
}

}  // namespace

/// All open stores of the process: index in the thread tables → registry of its threads.
struct Mutators::Registry {
  std::mutex mutex;
  std::array<Mutators*, detail::kOpenStoresMax> open{};
  u64 next_id = 1;

  Registry() {
    // In a child only the forking thread exists, and the stores are the parent's. Another thread of
    // the parent may have held the mutex, which the end of a thread takes.
    ::pthread_atfork(nullptr, nullptr, [] {
      ::new (&registry().mutex) std::mutex;
      fork_generation.fetch_add(1, std::memory_order_relaxed);
      for (detail::ThreadEntry& entry : detail::thread_entries) entry = {};
    });
  }
};

Mutators::Registry& Mutators::registry() {
  // Never destroyed: threads may end after static destruction.
  static auto* instance = new Registry;
  return *instance;
}

u64 process_generation() { return fork_generation.load(std::memory_order_relaxed); }
bool forked_since(u64 generation) { return generation != process_generation(); }

Result<std::unique_ptr<Mutators>> Mutators::create(void* runtime, OnExit on_exit) {
  Registry& all = registry();  // first: the destructor needs it
  // Now, since the kernel takes ten milliseconds for it once a process has threads.
  asymmetric_fences();
  std::unique_ptr<Mutators> mutators(new Mutators);
  mutators->runtime_ = runtime;
  mutators->on_exit_ = on_exit;
  mutators->process_generation_ = process_generation();
  std::lock_guard lock(all.mutex);
  for (size_t i = 0; i < detail::kOpenStoresMax; ++i) {
    if (all.open[i] != nullptr) continue;
    all.open[i] = mutators.get();
    mutators->key_ = {all.next_id++, i};
    return mutators;
  }
  return Failure{Code::kNoMemory, "a process can have " + std::to_string(detail::kOpenStoresMax) +
                                      " stores open at once; close one first"};
}

void Mutators::detach() {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  if (all.open[key_.index] == this) all.open[key_.index] = nullptr;
}

/// Gives a thread's mutators back when the thread ends.
struct Mutators::Reaper {
  void arm() {}
  ~Reaper() {
    Registry& all = registry();
    std::lock_guard lock(all.mutex);
    for (size_t i = 0; i < detail::kOpenStoresMax; ++i) {
      detail::ThreadEntry& entry = detail::thread_entries[i];
      Mutators* mutators = all.open[i];
      if (entry.mutator != nullptr && mutators != nullptr && mutators->key_.id == entry.id)
        mutators->abandon(*entry.mutator);
      entry = {};
    }
  }
};

void Mutators::abandon(detail::Mutator& mutator) {
  if (on_exit_ != nullptr) on_exit_(mutator);
  std::lock_guard lock(mutex_);
  mutator.depth.store(0, std::memory_order_release);
  static_cast<MutatorSlot&>(mutator).abandoned = true;
}

detail::Mutator& Mutators::register_thread() {
  return *value_or_throw(guarded([this] { return try_register_thread(); }));
}

Result<detail::Mutator*> Mutators::try_register_thread() {
  if (forked_since(process_generation_))
    return Failure{Code::kForked,
                   "a store belongs to the parent process; a forked child cannot use it: open "
                   "stores after fork"};
  MutatorSlot* slot = nullptr;
  {
    std::lock_guard lock(mutex_);
    for (const auto& each : mutators_) {
      if (!each->abandoned) continue;
      each->abandoned = false;
      slot = each.get();
      break;
    }
  }
  if (slot == nullptr) {
    auto made = std::make_unique<MutatorSlot>();
    made->closed = open_flags();
    made->ignores_reports = sink_ == nullptr;
    made->registry = this;
    made->runtime = runtime_;
    PERDURA_ASSIGN(made->buffers,
                   Mapping::anonymous(2 * MutatorSlot::kBufferEntries * sizeof(u64)));
    PERDURA_ASSIGN(SideArena side, SideArena::create());
    made->side.emplace(std::move(side));
    made->collected = made->cursor = made->begin();
    slot = made.get();
    std::lock_guard lock(mutex_);
    mutators_.push_back(std::move(made));
  }
  static thread_local Reaper reaper;
  reaper.arm();
  detail::thread_entries[key_.index] = {key_.id, slot};
  return slot;
}

// Flags that let operations through; any of them leads to enter_slow.
u32 Mutators::open_flags() const {
  return asymmetric_fences() && !before_operation_ ? 0 : detail::Mutator::kFence;
}

void Mutators::before_operations(std::function<void()> call) {
  std::lock_guard lock(mutex_);
  before_operation_ = std::move(call);
  set_closed(open_flags());
}

u64 Mutators::stop() {
  mutex_.lock();
  // Whoever waited for the end of the last stop begins an operation before this one: where stops
  // follow each other faster than threads wake up, they would never come to anything else.
  await_zero(waiting_);
  const u64 begin = now_ns();
  stop_.store(1, std::memory_order_seq_cst);
  set_closed(open_flags() | detail::Mutator::kStop);
  // The quick one needs memory in the kernel; the slow one cannot fail.
  if (asymmetric_fences() && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0)
    PERDURA_ASSERT(membarrier(MEMBARRIER_CMD_GLOBAL) == 0);
  for (const auto& mutator : mutators_) await_zero(mutator->depth);
  return begin;
}

void Mutators::share(SharedWork& work) {
  work_.store(&work, std::memory_order_release);
  stop_.store(2, std::memory_order_release);
  stop_.notify_all();
  work.help();
  // Late comers find the work done; those inside must leave before it is destroyed.
  work_.store(nullptr, std::memory_order_seq_cst);
  await_zero(helpers_);
}

void Mutators::resume() {
  set_closed(open_flags());
  stop_.store(0, std::memory_order_release);
  stop_.notify_all();
  mutex_.unlock();
}

void Mutators::set_closed(u32 flags) {
  for (const auto& mutator : mutators_) mutator->closed.store(flags, std::memory_order_seq_cst);
}

std::vector<MutatorSlot*> Mutators::snapshot() {
  std::lock_guard lock(mutex_);
  std::vector<MutatorSlot*> all;
  all.reserve(mutators_.size());
  for (const auto& each : mutators_) all.push_back(each.get());
  return all;
}

void Mutators::wait_or_help() noexcept {
  // A short stop ends while we spin; a futex wait costs several microseconds.
  for (int spins = 0; spins < 2000; ++spins) {
    if (stop_.load(std::memory_order_acquire) == 0) return;
    if (work_.load(std::memory_order_relaxed) != nullptr) break;
    _mm_pause();
  }
  helpers_.fetch_add(1, std::memory_order_seq_cst);
  if (SharedWork* work = work_.load(std::memory_order_seq_cst)) work->help();
  helpers_.fetch_sub(1, std::memory_order_seq_cst);
  const u32 stop = stop_.load(std::memory_order_acquire);
  if (stop != 0 && work_.load(std::memory_order_relaxed) == nullptr) stop_.wait(stop);
}

}  // namespace perdura::track

namespace perdura::detail {

using track::Mutators;
using track::MutatorSlot;

// Leaves errno alone, as the quick path does: whoever allocates need not expect a wait.
void enter_slow(Mutator& mutator) noexcept {
  const int saved_errno = errno;
  auto& mutators = *static_cast<Mutators*>(mutator.registry);
  if (mutators.before_operation_) {
    static thread_local bool inside = false;  // what is called may begin operations
    if (!std::exchange(inside, true)) {
      mutator.depth.store(0, std::memory_order_release);
      mutators.before_operation_();
      mutator.depth.store(1, std::memory_order_seq_cst);
      inside = false;
    }
  }
  bool waiting = false;
  for (;;) {
    // Without membarrier our store to `depth` must be visible before we read `stop_`.
    mutator.depth.fetch_add(0, std::memory_order_seq_cst);
    if (mutators.stop_.load(std::memory_order_seq_cst) == 0) break;
    mutator.depth.store(0, std::memory_order_release);
    if (!std::exchange(waiting, true)) mutators.waiting_.fetch_add(1, std::memory_order_seq_cst);
    while (mutators.stop_.load(std::memory_order_acquire) != 0) mutators.wait_or_help();
    mutator.depth.store(1, std::memory_order_seq_cst);
  }
  if (waiting) mutators.waiting_.fetch_sub(1, std::memory_order_release);
  errno = saved_errno;
}

void report_slow(Mutator& mutator, const void* address, std::size_t length) noexcept {
  auto& mutators = *static_cast<Mutators*>(mutator.registry);
  mutators.sink_->report(static_cast<MutatorSlot&>(mutator), address, length);
}

}  // namespace perdura::detail
