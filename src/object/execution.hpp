// Who executes the calls of an object: one thread at a time, whom those who wait for their answers
// help where it has work for several, or else leave the processor to.
#pragma once

#include <immintrin.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>

#include "base/bits.hpp"
#include "base/futex.hpp"
#include "base/robust_mutex.hpp"
#include "base/spin.hpp"

namespace perdura::object {

/// A lock that is let go of without a fence, and is waited for with a condition of the waiter's.
/// Lies in memory that processes may share; then it is a robust mutex besides.
class Execution {
 public:
  using Clock = std::chrono::steady_clock;
  /// Before anybody uses it: threads of several processes will.
  void share() {
    mutex_.make();
    whose_ = Waiters::kOfAll;
  }
  bool try_begin() {
    if (whose_ == Waiters::kOfAll) [[unlikely]]
      return try_begin_among_processes();
    if (is_taken() || executing_.exchange(true, std::memory_order_acquire)) {
      if (!wanted_.load(std::memory_order_relaxed)) wanted_.store(true, std::memory_order_relaxed);
      return false;
    }
    if (turn_.load(std::memory_order_relaxed) == 0) [[likely]]
      return true;
    const bool is_own = !is_anothers_turn();
    if (is_own) turn_.store(0, std::memory_order_relaxed);
    else end();  // it was given away just now, and who has it may have come in vain
    return is_own;
  }
  /// Of whoever executes: whether another thread has wanted to since this was asked last, and so
  /// may be there to help.
  bool was_wanted() {
    if (!wanted_.load(std::memory_order_relaxed)) return false;
    wanted_.store(false, std::memory_order_relaxed);
    return true;
  }
  void end() {
    executing_.store(false, std::memory_order_release);
    if (whose_ == Waiters::kOfAll) [[unlikely]]
      mutex_.unlock();
    notify();
    notify_room();  // or nobody executes to make any
  }
  /// Of whoever executes: one who did so has died in the middle, and what it has left is not
  /// mended.
  bool is_broken() const { return broken_; }
  void note_mended() { broken_ = false; }
  /// By whoever executes: nobody but `thread`, which waits for it, executes next.
  void give_turn(pthread_t thread) { turn_.store(thread, std::memory_order_relaxed); }
  bool is_given() const { return turn_.load(std::memory_order_relaxed) != 0; }
  /// Something has changed that others may wait for.
  void notify() {
    if (answers_.sleeping.load(std::memory_order_relaxed) != 0) [[unlikely]]
      futex_wake_all(answers_.changes, whose_);
  }
  /// There is room in the log again. Not all who wait for it are woken at once: one of them may
  /// fill it before the others run.
  void notify_room() {
    if (room_.sleeping.load(std::memory_order_relaxed) != 0) [[unlikely]]
      futex_wake(room_.changes, whose_);
  }

  /// Of a thread that waits: one call each time that it found nothing to do. Looks whether
  /// `holds()` for a while, longer each time: whoever executes goes on meanwhile with what is in
  /// its caches. Then lets others run who may have lost the processor; then sleeps until the next
  /// notify(), some milliseconds at most.
  class Wait {
   public:
    /// `awake`: until then it does not sleep.
    explicit Wait(Execution& execution, Clock::time_point awake = {})
        : execution_(execution), awake_(awake) {}
    template <class Condition>
    void pause(Condition&& holds) {
      if (!spins(holds))
        execution_.sleep_unless(holds, execution_.answers_, std::chrono::milliseconds(20));
    }
    template <class Condition>
    void pause_for_room(Condition&& holds) {
      if (!spins(holds))
        execution_.sleep_unless(holds, execution_.room_, std::chrono::milliseconds(10));
    }

   private:
    static constexpr u32 kSpins = 9;
    static constexpr u32 kYields = 14;
    template <class Condition>
    bool spins(Condition& holds) {
      if (turns_ >= kYields && !is_awake()) return false;
      if (turns_ < kYields) ++turns_;
      if (turns_ < kSpins)
        for (u32 i = 0; i < 1u << turns_ && !holds(); ++i) _mm_pause();
      else ::sched_yield();
      return true;
    }
    bool is_awake() const { return awake_ != Clock::time_point{} && Clock::now() < awake_; }

    Execution& execution_;
    const Clock::time_point awake_;
    u32 turns_ = 0;
  };

 private:
  struct Sleepers {
    std::atomic<u32> sleeping{0};
    std::atomic<u32> changes{0};
  };

  // Who notifies may not see that somebody is about to sleep, who may not see what has changed: for
  // the nanoseconds that a store takes to others. That costs the time.
  template <class Condition>
  void sleep_unless(Condition&& holds, Sleepers& sleepers, std::chrono::nanoseconds time) {
    sleepers.sleeping.fetch_add(1, std::memory_order_relaxed);
    const u32 seen = sleepers.changes.load(std::memory_order_acquire);
    if (!holds() && (executing_.load(std::memory_order_acquire) || is_anothers_turn()))
      futex_wait(sleepers.changes, seen, time, whose_);
    sleepers.sleeping.fetch_sub(1, std::memory_order_relaxed);
  }
  // The mutex alone says who executes: `executing_`, of one who died, may say it for ever, and only
  // keeps others from asking all the time. Who dies while it sleeps is counted for ever, which
  // costs a call of the system where there is news.
  bool try_begin_among_processes() {
    const Locked locked = mutex_.try_lock();
    if (locked == Locked::kNo) {
      if (!wanted_.load(std::memory_order_relaxed)) wanted_.store(true, std::memory_order_relaxed);
      return false;
    }
    if (locked == Locked::kOwnerDied) broken_ = true;
    executing_.store(true, std::memory_order_relaxed);
    return true;
  }
  bool is_anothers_turn() const {
    const pthread_t thread = turn_.load(std::memory_order_relaxed);
    return thread != 0 && thread != ::pthread_self();
  }
  bool is_taken() const { return executing_.load(std::memory_order_relaxed) || is_anothers_turn(); }

  std::atomic<bool> executing_{false};
  std::atomic<bool> wanted_{false};
  std::atomic<pthread_t> turn_{0};  ///< 0: anybody's
  Waiters whose_ = Waiters::kOfProcess;
  bool broken_ = false;  ///< of whoever executes
  RobustMutex mutex_;    ///< of several processes
  Sleepers answers_;
  Sleepers room_;
};

/// Pieces of work that whoever executes shares with those who wait.
class Crew {
 public:
  /// Calls work(i) once for each i below `count`, in this thread and in at most `helpers` others
  /// that look for work just now: it is done before one that sleeps were awake.
  template <class Work>
  void share(u32 count, u32 helpers, const Work& work);
  bool has_work() const { return work_.load(std::memory_order_relaxed) != nullptr; }
  /// In a thread that waits. Whether there was anything.
  bool help();

 private:
  struct Shared {
    void (*run)(const void* work, u32 i);
    const void* work;
    u32 count;
  };
  void take(const Shared& work) {
    for (u32 i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < work.count;)
      work.run(work.work, i);
  }

  std::atomic<const Shared*> work_{nullptr};
  std::atomic<u32> inside_{0};  ///< threads that may look at the work
  std::atomic<u32> next_{0};
  std::atomic<u32> more_{0};  ///< helpers that may come
};

// The work lies in this thread's stack: nobody is let in any more, then those inside leave.
template <class Work>
void Crew::share(u32 count, u32 helpers, const Work& work) {
  const Shared shared{[](const void* all, u32 i) { (*static_cast<const Work*>(all))(i); }, &work,
                      count};
  next_.store(0, std::memory_order_relaxed);
  more_.store(helpers, std::memory_order_relaxed);
  work_.store(&shared, std::memory_order_seq_cst);
  take(shared);
  work_.store(nullptr, std::memory_order_seq_cst);
  await_soon([&] { return inside_.load(std::memory_order_seq_cst) == 0; });
}

}  // namespace perdura::object
