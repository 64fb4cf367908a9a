// The threads that use a store: their registration, and stopping them between operations.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <perdura/detail/mutator.hpp>

#include "base/events.hpp"
#include "base/mapping.hpp"
#include "base/result.hpp"
#include "track/window.hpp"

namespace perdura::track {

struct ThreadReports;

/// A mutator with its memory. Outlives its thread: the next new thread takes it over.
struct MutatorSlot : detail::Mutator {
  /// An epoch of 64 ms at 30 million reports a second; takes up memory as far as it is used.
  static constexpr u64 kBufferEntries = 2 * 1024 * 1024;

  /// In an operation that a store has begun: the next one of its thread (ThreadReports). First, for
  /// perdura_report_store to find.
  MutatorSlot* next_polled = nullptr;
  Mapping buffers;  ///< two report buffers; one is filled while the other is collected
  int filling = 0;
  /// Reports before it are in the epoch's change set already.
  std::atomic<u64*> collected{nullptr};
  std::optional<SideArena> side;
  enum class Use : u8 {
    kThread,     ///< by the thread that has it
    kEnded,      ///< its thread has ended, and could not give back what it owned of the heap
    kReleasing,  ///< by whoever does that for it
    kFree,
  };
  std::atomic<Use> use{Use::kThread};  ///< from kEnded and kFree on under the mutex of the list
  std::atomic<int> thread{0};          ///< the system's number of the last one that had it
  ThreadReports* reports = nullptr;    ///< its thread's, where compiled code has reported to it

  /// Once, with ignores_reports as it stays.
  Status give_memory();
  u64* buffer(int which) const { return buffers.as<u64>() + which * kBufferEntries; }
  /// What is before it is no report, for who looks at the last ones (detail::report_lines).
  u64* begin() const { return buffer(filling) + detail::kLastReports; }
  u64* end() const { return buffer(filling) + kBufferEntries; }
};

/// An operation of a mutator, as long as it lives.
class InOperation {
 public:
  explicit InOperation(detail::Mutator& mutator) : mutator_(mutator) { detail::enter(mutator_); }
  ~InOperation() { detail::leave(mutator_); }
  InOperation(const InOperation&) = delete;

 private:
  detail::Mutator& mutator_;
};

/// Receives what the inline part of detail::report does not do itself.
class ReportSink {
 public:
  virtual ~ReportSink() = default;
  virtual void report(MutatorSlot& mutator, const void* address, u64 length) noexcept = 0;
};

/// Is told of the ends of operations.
class LeaveWatch {
 public:
  virtual ~LeaveWatch() = default;
  /// The thread is about to leave its outermost one. By any thread, several at once.
  virtual void on_leave() noexcept = 0;
};

/// Work that stopped mutators do instead of waiting.
class SharedWork {
 public:
  virtual ~SharedWork() = default;
  /// Take part until nothing is left; several threads at once.
  virtual void help() noexcept = 0;
};

class Mutators {
 public:
  /// While it lives, threads of its own take part in what is shared, as stopped mutators do. To
  /// start one takes memory, which nobody can have while mutators stand still: so it is made
  /// before. Fewer threads, or none, where the system refuses them.
  class Helpers {
   public:
    Helpers(Mutators& mutators, u64 wanted) noexcept;
    ~Helpers();
    Helpers(const Helpers&) = delete;

   private:
    Mutators& mutators_;
    std::atomic<bool> dismissed_{false};
    std::vector<std::jthread> threads_;
  };

  /// `runtime` is handed to each mutator; `on_exit` runs in a thread that ends.
  using OnExit = void (*)(detail::Mutator& mutator) noexcept;
  static Result<std::unique_ptr<Mutators>> create(void* runtime, OnExit on_exit);
  ~Mutators();
  /// Threads that end from now on do not look here any more.
  void detach();
  Mutators(const Mutators&) = delete;
  Mutators& operator=(const Mutators&) = delete;

  /// This thread's mutator, registered on first use. Throws when the process is a forked child.
  detail::Mutator& this_thread() {
    const detail::ThreadEntry& entry = detail::thread_entries[key_.index];
    if (entry.id == key_.id) [[likely]]
      return *entry.mutator;
    return register_thread();
  }
  bool in_operation() { return this_thread().depth.load(std::memory_order_relaxed) != 0; }
  /// For what is called outside of operations: ends one that compiled stores have begun. Whether
  /// the thread is in none then.
  bool leave_polled();

  detail::ThreadKey key() const { return key_; }
  /// Before any stop: what messages call the store.
  void set_name(std::string name) { name_ = std::move(name); }
  /// Before any stop: who is told of long waits.
  void set_events(Events& events) { events_ = &events; }
  /// Operations that waited for a stop, and how long all of them did.
  struct StopWaits {
    u64 count;
    u64 ns;
  };
  StopWaits waits() const {
    return {waits_.load(std::memory_order_relaxed), wait_ns_.load(std::memory_order_relaxed)};
  }
  void reset_waits() { waits_ = wait_ns_ = 0; }

  /// Before the first thread registers: who takes reports; nullptr when nobody needs any.
  void set_sink(ReportSink* sink) { sink_ = sink; }

  /// While no other thread uses the store: who is told from now on when an operation ends. Each one
  /// takes longer then.
  void watch_leaves(LeaveWatch* watch);

  /// For tests, while no other thread uses the store: from now on `call` runs in each thread that
  /// is about to begin an outermost operation, outside of it.
  void before_operations(std::function<void()> call);

  /// Wait until no mutator is inside an operation and keep them out. Returns since when one of them
  /// has been kept from going on, ns: those inside an operation are not. A wait of seconds is an
  /// event, with the threads that are waited for.
  u64 stop();
  /// While stopped: let waiting mutators take part in `work`, and take part.
  void share(SharedWork& work);
  /// Returns when mutators could go on, ns: those that sleep are woken behind that.
  u64 resume();
  /// By any thread: there is a stop now, or one waits for operations.
  bool is_stopping() const noexcept { return stop_.load(std::memory_order_relaxed) != 0; }

  /// While stopped or in a thread that owns the list by stop().
  const std::vector<std::unique_ptr<MutatorSlot>>& all() const { return mutators_; }
  /// A copy of the list, for reading side arenas while mutators run.
  std::vector<MutatorSlot*> snapshot();

 private:
  friend void detail::enter_slow(detail::Mutator&) noexcept;
  friend void detail::leave_slow(detail::Mutator&) noexcept;
  friend void detail::report_slow(detail::Mutator&, const void*, std::size_t) noexcept;

  static constexpr u64 kHelpersMax = 7;
  static constexpr u64 kNobody = ~u64{0};

  struct Registry;
  static Registry& registry();
  static void reap();

  Mutators() = default;
  detail::Mutator& register_thread();
  Result<detail::Mutator*> try_register_thread();
  void abandon(MutatorSlot& mutator);
  bool release(MutatorSlot& mutator);
  MutatorSlot* take_ended();
  void release_ended();
  bool try_enter(detail::Mutator& mutator);
  void await_operations() const;
  void tell_long_wait(u64 waited_ns) const noexcept;
  void note_kept_out() noexcept;
  void wait_or_help() noexcept;
  template <class Waits>
  void help_and_sleep(Waits&& waits) noexcept;
  void tell(u32 stop);
  u32 open_flags() const;
  void set_closed(u32 flags);

  detail::ThreadKey key_;
  std::string name_;
  Events* events_ = &Events::nobody();
  std::atomic<u64> waits_{0};
  std::atomic<u64> wait_ns_{0};
  void* runtime_ = nullptr;
  u64 process_generation_ = 0;
  OnExit on_exit_ = nullptr;
  ReportSink* sink_ = nullptr;
  LeaveWatch* leave_watch_ = nullptr;
  std::function<void()> before_operation_;
  std::atomic<u32> stop_{0};  ///< 1 while mutators stand still, 2 when there is work to share
  std::atomic<u32> told_{0};  ///< changes behind stop_, for those who sleep: they look again
  std::atomic<u32> sleeping_{0};
  std::atomic<SharedWork*> work_{nullptr};
  std::atomic<u32> helpers_{0};
  std::atomic<bool> ended_{false};  ///< some mutator is kEnded
  std::atomic<u32> waiting_{0};     ///< mutators that a stop keeps from the operation they begin
  std::atomic<u64> kept_out_since_{kNobody};  ///< by this stop, or the last one
  std::mutex mutex_;                          ///< the list; held from stop() to resume()
  std::vector<std::unique_ptr<MutatorSlot>> mutators_;
};

}  // namespace perdura::track
