// Threads of the library, and short work that several threads share.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "base/bits.hpp"
#include "base/result.hpp"

namespace perdura {

/// While it lives this thread, and each thread that it starts for good, takes no signals but faults
/// of its own. Signals are for the program's threads: one of ours, which blocks none, would take
/// what the program waits for with sigwait, or be in the way of its handlers.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    ::sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS})
      ::sigdelset(&all, fault);
    ::pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~NoSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;

 private:
  sigset_t before_;
};

/// While it lives this thread is not cancelled (pthread_cancel). Calls of the library hold locks
/// and gates while they wait, and what they wait in must not throw.
class NotCancelled {
 public:
  NotCancelled() { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NotCancelled() { ::pthread_setcancelstate(before_, nullptr); }
  NotCancelled(const NotCancelled&) = delete;

 private:
  int before_ = 0;
};

/// Calls `work()` in up to `wanted` threads at once, this one among them, and waits for all. There
/// are no more than processors, and fewer where the system refuses them: each call must go on until
/// nothing is left to do. `work` must not throw.
template <class Work>
void share_among_threads(u64 wanted, const Work& work) {
  constexpr u64 kThreadsMax = 8;
  const u64 count = std::min<u64>({wanted, kThreadsMax, std::thread::hardware_concurrency()});
  std::vector<std::jthread> others;
  const Status started = guarded([&]() -> Status {
    const NoSignals no_signals;
    while (others.size() + 1 < count) others.emplace_back([&work] { work(); });
    return {};
  });
  (void)started;  // those that did start, and this one, do it all
  work();
}

}  // namespace perdura
