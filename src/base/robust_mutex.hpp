// A mutex in memory that processes share: where a thread ends that holds it, killed with its
// process or not, the next one gets it and is told.
#pragma once

#include <pthread.h>

#include <cerrno>

#include "base/assert.hpp"

namespace perdura {

/// Whether a lock was taken, and in what state whoever had it has left what it guards.
enum class Locked {
  kNo,
  kYes,
  kOwnerDied,  ///< it is taken, and what it guards may be changed in part
};

/// Lies where it is and is never moved; make() comes first, once. Memory with a mutex that nobody
/// holds may go at any time.
class RobustMutex {
 public:
  void make() {
    pthread_mutexattr_t how;
    ::pthread_mutexattr_init(&how);
    ::pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED);
    ::pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST);
    const int made = ::pthread_mutex_init(&mutex_, &how);
    PERDURA_ASSERT(made == 0);
    ::pthread_mutexattr_destroy(&how);
  }
  Locked try_lock() { return taken(::pthread_mutex_trylock(&mutex_)); }
  Locked lock() { return taken(::pthread_mutex_lock(&mutex_)); }
  /// By the thread that has it.
  void unlock() { ::pthread_mutex_unlock(&mutex_); }

 private:
  // Who dies while mending what the last one left leaves it to the next in the same way.
  Locked taken(int error_number) {
    if (error_number == 0) return Locked::kYes;
    if (error_number == EOWNERDEAD) {
      ::pthread_mutex_consistent(&mutex_);
      return Locked::kOwnerDied;
    }
    PERDURA_ASSERT(error_number == EBUSY);
    return Locked::kNo;
  }

  pthread_mutex_t mutex_;
};

}  // namespace perdura
