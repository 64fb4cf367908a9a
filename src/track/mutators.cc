#include "track/mutators.hpp"

#include <fcntl.h>
#include <immintrin.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/assert.hpp"
#include "base/asymmetric_fence.hpp"
#include "base/clock.hpp"
#include "base/futex.hpp"
#include "base/mutant.hpp"
#include "base/process.hpp"
#include "base/spin.hpp"
#include "base/threads.hpp"
#include "base/unique_fd.hpp"
#include "region/faults.hpp"
#include "track/compiled_parts.hpp"
#include "track/compiled_reports.hpp"

namespace perdura::track {
namespace {

std::atomic<u64> next_id{1};  // of a store

constexpr u64 kLongWaitNs = 2'000'000'000;

// "" where there is no such thread any more.
void read_thread_name(int thread, char (&name)[32]) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/comm", thread);
  const UniqueFd file(::open(path, O_RDONLY | O_CLOEXEC));
  const ssize_t got = file ? ::read(file.get(), name, sizeof name - 1) : 0;
  name[std::max<ssize_t>(got, 1) - 1] = '\0';  // instead of the end of its line
}

// Of threads that are on their way.
void await_zero(const std::atomic<u32>& threads) {
  await_soon([&] { return threads.load(std::memory_order_seq_cst) == 0; });
}

}  // namespace

/// All open stores of the process: index in the thread tables → registry of its threads.
struct Mutators::Registry {
  std::mutex mutex;
  std::array<Mutators*, detail::kOpenStoresMax> open{};
  ::pthread_key_t key{};
  bool has_key = false;

  Registry() {
    has_key = ::pthread_key_create(&key, [](void*) { reap(); }) == 0;
  }

  /// Of this thread.
  Status reap_at_end() const {
    if (has_key && ::pthread_setspecific(key, this) == 0) return {};
    return Failure{Code::kNoMemory, "the system has no room for another key of threads"};
  }
};

// Never destroyed: threads may end after static destruction. In a child the stores are the
// parent's, and another thread of that may have held the mutex, for as long as it took to end.
Mutators::Registry& Mutators::registry() {
  static constinit PerProcess<Registry> registry;
  return registry.get();
}

Result<std::unique_ptr<Mutators>> Mutators::create(void* runtime, OnExit on_exit) {
  Registry& all = registry();  // first: the destructor needs it
  // Now, since the kernel takes ten milliseconds for it once a process has threads.
  asymmetric_fences();
  at_fork_in_child([]() noexcept {
    for (detail::ThreadEntry& entry : detail::thread_entries) entry = {};
    detail::found_store = {};
    perdura_thread_reports.forget_all();
  });
  std::unique_ptr<Mutators> mutators(new Mutators);
  mutators->runtime_ = runtime;
  mutators->on_exit_ = on_exit;
  mutators->process_generation_ = process_generation();
  std::lock_guard lock(all.mutex);
  for (size_t i = 0; i < detail::kOpenStoresMax; ++i) {
    if (all.open[i] != nullptr) continue;
    all.open[i] = mutators.get();
    mutators->key_ = {next_id.fetch_add(1, std::memory_order_relaxed), i};
    return mutators;
  }
  return Failure{Code::kNoMemory, "a process can have " + std::to_string(detail::kOpenStoresMax) +
                                      " stores open at once; close one first"};
}

Mutators::~Mutators() { detach(); }

bool Mutators::leave_polled() {
  auto& mutator = static_cast<MutatorSlot&>(this_thread());
  if (mutator.reports != nullptr) mutator.reports->end_polled(mutator);
  return mutator.depth.load(std::memory_order_relaxed) == 0;
}

void Mutators::detach() {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  if (all.open[key_.index] != this) return;
  all.open[key_.index] = nullptr;
  // Of threads that end from now on nobody tells: what they have may be gone before we are.
  // Those of the store's own threads, which may still be at work, report nothing: not written.
  for (const auto& each : mutators_)
    if (each->reports != nullptr) std::exchange(each->reports, nullptr)->forget_elsewhere(*each);
}

// Gives a thread's mutators back when the thread ends. By a key of POSIX and not by the destructor
// of a thread_local: others' thread_locals may use stores when they are destroyed, and some of them
// are destroyed after ours. Keys come after all of these, and come again where one is set anew.
void Mutators::reap() {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  detail::found_store = {};
  for (size_t i = 0; i < detail::kOpenStoresMax; ++i) {
    detail::ThreadEntry& entry = detail::thread_entries[i];
    Mutators* mutators = all.open[i];
    if (entry.mutator != nullptr && mutators != nullptr && mutators->key_.id == entry.id)
      mutators->abandon(static_cast<MutatorSlot&>(*entry.mutator));
    entry = {};
  }
}

// Does not wait at the gate: a thread inside an operation may be waiting for the end of this one,
// and others for the registry's lock, which this one holds. Where the gate is closed whoever opens
// it releases the mutator, or the next thread takes it as it is.
void Mutators::abandon(MutatorSlot& mutator) {
  if (ThreadReports* const reports = std::exchange(mutator.reports, nullptr))
    reports->forget(mutator);
  while (!release(mutator)) {
    if (is_mutant("ends_wait_at_gate")) continue;
    mutator.use.store(MutatorSlot::Use::kEnded, std::memory_order_release);
    ended_.store(true, std::memory_order_release);
    return;
  }
}

bool Mutators::release(MutatorSlot& mutator) {
  const bool inside = mutator.depth.load(std::memory_order_relaxed) != 0;
  if (!inside && before_operation_) before_operation_();
  if (!inside && !try_enter(mutator)) return false;
  // Also of a thread that has ended: meanwhile this one is in the operation of that mutator.
  detail::ThreadEntry& entry = detail::thread_entries[key_.index];
  const detail::ThreadEntry own = std::exchange(entry, {key_.id, &mutator});
  if (on_exit_ != nullptr) on_exit_(mutator);
  entry = own;
  if (leave_watch_ != nullptr) leave_watch_->on_leave();
  mutator.depth.store(0, std::memory_order_release);
  mutator.use.store(MutatorSlot::Use::kFree, std::memory_order_release);
  return true;
}

// Where stop() does not see that we are inside, we see that it has begun.
bool Mutators::try_enter(detail::Mutator& mutator) {
  mutator.depth.store(1, std::memory_order_seq_cst);
  if (stop_.load(std::memory_order_seq_cst) == 0) return true;
  mutator.depth.store(0, std::memory_order_release);
  return false;
}

MutatorSlot* Mutators::take_ended() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return nullptr;  // the next to open the gate looks again
  for (const auto& each : mutators_) {
    if (each->use.load(std::memory_order_acquire) != MutatorSlot::Use::kEnded) continue;
    each->use.store(MutatorSlot::Use::kReleasing, std::memory_order_relaxed);
    return each.get();
  }
  ended_.store(false, std::memory_order_relaxed);
  return nullptr;
}

void Mutators::release_ended() {
  if (!ended_.load(std::memory_order_acquire)) return;
  while (MutatorSlot* const ended = take_ended()) {
    if (release(*ended)) continue;
    ended->use.store(MutatorSlot::Use::kEnded, std::memory_order_release);
    return;
  }
}

detail::Mutator& Mutators::register_thread() {
  return *value_or_throw(guarded([this] { return try_register_thread(); }));
}

// Address space, which programs may be short of.
Status MutatorSlot::give_memory() {
  const u64 entries = ignores_reports ? detail::kLastReports : 2 * kBufferEntries;
  PERDURA_ASSIGN(buffers, Mapping::anonymous(entries * sizeof(u64)));
  side.emplace();
  if (!ignores_reports) {
    PERDURA_ASSIGN(SideArena arena, SideArena::create());
    side.emplace(std::move(arena));
  }
  collected = cursor = begin();
  return {};
}

Result<detail::Mutator*> Mutators::try_register_thread() {
  if (forked_since(process_generation_))
    return Failure{Code::kForked,
                   "a store belongs to the parent process; a forked child cannot use it: open "
                   "stores after fork"};
  PERDURA_TRY(registry().reap_at_end());
  MutatorSlot* slot = nullptr;
  if (is_stopping()) note_kept_out();  // the list is locked
  {
    std::lock_guard lock(mutex_);
    for (const auto& each : mutators_) {
      const auto use = each->use.load(std::memory_order_acquire);
      if (use != MutatorSlot::Use::kFree && use != MutatorSlot::Use::kEnded) continue;
      each->use.store(MutatorSlot::Use::kThread, std::memory_order_relaxed);
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
    PERDURA_TRY(made->give_memory());
    slot = made.get();
    std::lock_guard lock(mutex_);
    // Of the store's own threads, one may still register while another thread closes the store.
    std::lock_guard detaching(registry().mutex);
    mutators_.push_back(std::move(made));
  }
  slot->thread.store(::gettid(), std::memory_order_relaxed);
  region::let_faults_through();
  detail::thread_entries[key_.index] = {key_.id, slot};
  detail::found_store = {};  // without it, perhaps
  return slot;
}

// Flags that let operations through; any of them leads to enter_slow.
u32 Mutators::open_flags() const {
  const u32 watched = leave_watch_ != nullptr ? detail::Mutator::kWatched : 0;
  return watched | (asymmetric_fences() && !before_operation_ ? 0 : detail::Mutator::kFence);
}

void Mutators::watch_leaves(LeaveWatch* watch) {
  std::lock_guard lock(mutex_);
  leave_watch_ = watch;
  set_closed(open_flags());
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
  kept_out_since_.store(kNobody, std::memory_order_relaxed);
  stop_.store(1, std::memory_order_seq_cst);
  set_closed(open_flags() | detail::Mutator::kStop);
  heavy_fence();
  await_operations();
  return std::min(now_ns(), kept_out_since_.load(std::memory_order_relaxed));
}

// The first that is kept out says so; those inside go on until then.
void Mutators::note_kept_out() noexcept {
  u64 nobody = kNobody;
  if (kept_out_since_.load(std::memory_order_relaxed) == nobody)
    kept_out_since_.compare_exchange_strong(nobody, now_ns(), std::memory_order_relaxed);
}

// Operations are short, or one of their threads has lost its processor, or waits for something.
void Mutators::await_operations() const {
  const u64 begin = now_ns();
  bool told = false;
  for (const auto& mutator : mutators_) {
    for (int spins = 0; mutator->depth.load(std::memory_order_seq_cst) != 0; ++spins) {
      if (spins < 2000) {
        _mm_pause();
        continue;
      }
      const u64 waited_ns = now_ns() - begin;
      if (waited_ns < kLongWaitNs / 10) {
        give_way();
        continue;
      }
      const timespec pause{0, 1'000'000};
      ::nanosleep(&pause, nullptr);
      if (waited_ns >= kLongWaitNs && !std::exchange(told, true)) tell_long_wait(waited_ns);
    }
  }
}

// Takes no memory, of which a waiting thread may be the owner.
void Mutators::tell_long_wait(u64 waited_ns) const noexcept {
  char line[1024];
  size_t used = 0;
  const auto add = [&](const char* format, auto... values) {
    const int length = std::snprintf(line + used, sizeof line - used, format, values...);
    used = std::min(used + static_cast<size_t>(std::max(length, 0)), sizeof line - 1);
  };
  add("a checkpoint of '%.200s' has waited %llu s for operations to end, of", name_.c_str(),
      static_cast<unsigned long long>(waited_ns / 1'000'000'000));
  const char* separator = "";
  for (const auto& mutator : mutators_) {
    const int thread = mutator->thread.load(std::memory_order_relaxed);
    if (mutator->depth.load(std::memory_order_relaxed) == 0 || used > sizeof line / 2) continue;
    char name[32] = "";
    read_thread_name(thread, name);
    add("%s thread %d (%s)", std::exchange(separator, ","), thread, name);
  }
  add("; see where they wait: for a lock, for another thread, or to begin an operation on another "
      "store (docs/api.md, \"Threads\")%s",
      program_reports() ? "; compiled stores outside of operations begin one, which ends where the "
                          "thread calls perdura_poll() (docs/compiler.md)"
                        : "");
  events_->tell(EventKind::kOperationsWaitedFor, Code::kOk, {line, used});
}

void Mutators::share(SharedWork& work) {
  work_.store(&work, std::memory_order_seq_cst);
  tell(2);
  work.help();
  // Late comers find the work done; those inside must leave before it is destroyed.
  work_.store(nullptr, std::memory_order_seq_cst);
  await_zero(helpers_);
}

u64 Mutators::resume() {
  set_closed(open_flags());
  const u64 end = now_ns();
  tell(0);
  mutex_.unlock();
  release_ended();
  return end;
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

// Who waits sees that, or is seen to sleep.
void Mutators::tell(u32 stop) {
  stop_.store(stop, std::memory_order_seq_cst);
  told_.fetch_add(1, std::memory_order_seq_cst);
  if (sleeping_.load(std::memory_order_seq_cst) != 0) futex_wake_all(told_);
}

// It does not yield, as std::atomic's wait() does: whoever yields is back after other threads'
// slices, when the stop may have been over for milliseconds.
void Mutators::wait_or_help() noexcept {
  // A short stop ends while we spin; a futex wait costs several microseconds.
  for (int spins = 0; spins < 2000; ++spins) {
    if (stop_.load(std::memory_order_acquire) == 0) return;
    if (work_.load(std::memory_order_relaxed) != nullptr) break;
    _mm_pause();
  }
  help_and_sleep([this] { return stop_.load(std::memory_order_seq_cst) != 0; });
}

// Sleeps while `waits`, until there is something else to help with: what was told before the work
// was looked for says whether it has come since, perhaps to where the last one was.
template <class Waits>
void Mutators::help_and_sleep(Waits&& waits) noexcept {
  const u32 told = told_.load(std::memory_order_seq_cst);
  helpers_.fetch_add(1, std::memory_order_seq_cst);
  if (SharedWork* const work = work_.load(std::memory_order_seq_cst)) work->help();
  helpers_.fetch_sub(1, std::memory_order_seq_cst);
  // Those who still are at it need the processor.
  sleeping_.fetch_add(1, std::memory_order_seq_cst);
  if (waits()) futex_wait(told_, told, std::chrono::hours(1));
  sleeping_.fetch_sub(1, std::memory_order_relaxed);
}

Mutators::Helpers::Helpers(Mutators& mutators, u64 wanted) noexcept : mutators_(mutators) {
  const u64 processors = std::max(std::thread::hardware_concurrency(), 1u);
  const u64 count = std::min({wanted, kHelpersMax, processors - 1});
  const Status started = guarded([&]() -> Status {
    const NoSignals no_signals;
    while (threads_.size() < count) {
      threads_.emplace_back([this] {
        const auto waits = [this] { return !dismissed_.load(std::memory_order_seq_cst); };
        while (waits()) mutators_.help_and_sleep(waits);
      });
      ::pthread_setname_np(threads_.back().native_handle(), "perdura-help");
    }
    return {};
  });
  (void)started;  // the others do it all
}

Mutators::Helpers::~Helpers() {
  dismissed_.store(true, std::memory_order_seq_cst);
  if (!threads_.empty()) futex_wake_all(mutators_.told_);
}

}  // namespace perdura::track

namespace perdura::detail {

using track::LeaveWatch;
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
  u64 begin_ns = 0;
  for (;;) {
    // Without membarrier our store to `depth` must be visible before we read `stop_`.
    mutator.depth.fetch_add(0, std::memory_order_seq_cst);
    if (mutators.stop_.load(std::memory_order_seq_cst) == 0) break;
    mutator.depth.store(0, std::memory_order_release);
    if (!std::exchange(waiting, true)) {
      mutators.waiting_.fetch_add(1, std::memory_order_seq_cst);
      begin_ns = now_ns();
    }
    mutators.note_kept_out();
    while (mutators.stop_.load(std::memory_order_acquire) != 0) mutators.wait_or_help();
    mutator.depth.store(1, std::memory_order_seq_cst);
  }
  if (waiting) {
    mutators.waiting_.fetch_sub(1, std::memory_order_release);
    mutators.waits_.fetch_add(1, std::memory_order_relaxed);
    mutators.wait_ns_.fetch_add(now_ns() - begin_ns, std::memory_order_relaxed);
  }
  errno = saved_errno;
}

void leave_slow(Mutator& mutator) noexcept {
  LeaveWatch* const watch = static_cast<Mutators*>(mutator.registry)->leave_watch_;
  if (watch != nullptr && mutator.depth.load(std::memory_order_relaxed) == 1) watch->on_leave();
}

void report_slow(Mutator& mutator, const void* address, std::size_t length) noexcept {
  auto& mutators = *static_cast<Mutators*>(mutator.registry);
  mutators.sink_->report(static_cast<MutatorSlot&>(mutator), address, length);
}

}  // namespace perdura::detail
