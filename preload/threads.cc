// Threads that Perdura starts are marked as its own, and leave the program's signals alone.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

#include <cerrno>
#include <memory>

#include "preload/instrument.hpp"

namespace perdura::preload {
namespace {

using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);

struct Start {
  void* (*function)(void*);
  void* argument;
};

void* run(void* start) {
  this_thread.phase = Phase::kLibrary;
  const Start mine = *static_cast<Start*>(start);
  delete static_cast<Start*>(start);
  return mine.function(mine.argument);
}

/// Blocks the signals that are sent to a process: a handler of the program's must run in a thread
/// of the program's, which it may want to leave by a jump. Faults are still delivered.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) ::sigdelset(&all, fault);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

int create_own(Create create, pthread_t* thread, const pthread_attr_t* attributes, Start start) {
  std::unique_ptr<Start> copy(new (std::nothrow) Start(start));
  if (!copy) return EAGAIN;
  const SignalsBlocked blocked;  // a thread inherits that
  const int error_number = create(thread, attributes, run, copy.get());
  if (error_number == 0) copy.release();
  return error_number;
}

}  // namespace
}  // namespace perdura::preload

extern "C" __attribute__((visibility("default"))) int pthread_create(
    pthread_t* thread, const pthread_attr_t* attributes, void* (*function)(void*), void* argument) {
  using namespace perdura::preload;
  static const auto create = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "pthread_create"));
  if (this_thread.phase == Phase::kLibrary)
    return create_own(create, thread, attributes, {function, argument});
  return create(thread, attributes, function, argument);
}
