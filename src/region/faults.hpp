// Page faults of the program, answered by the library: SIGSEGV and SIGBUS at watched addresses; and
// the traps behind an instruction that such an answer may ask for (SIGTRAP).
//
// The handlers are installed at first use, that of traps where somebody asks for them, in front of
// those the program had; faults elsewhere go on to them, and so does a fault that repeats although
// it was answered. A program that installs its own handler later must call the one it replaced.
//
// A thread that has one of these signals blocked is killed by a fault, whatever handler there is.
// So the program cannot block them: pthread_sigmask and sigprocmask are defined here, in front of
// the C library's, and leave them out (as collectors do that find stores by faults).
#pragma once

#include <cstddef>

#include "base/result.hpp"

namespace perdura::region {

struct Fault {
  std::byte* address;
  bool is_store;  ///< or the system does not say what it was
  bool is_bus;    ///< SIGBUS: userfaultfd's, or there is nothing behind the page. Else SIGSEGV
  const void* instruction = nullptr;  ///< that accesses it; none, where the library does
};

/// Called in the faulting thread, in a signal handler that nothing interrupts: only
/// async-signal-safe work, on a stack of a few KiB.
class FaultHandler {
 public:
  virtual ~FaultHandler() = default;
  /// True: the access can be tried again. False: it was none of ours.
  virtual bool on_fault(const Fault& fault) noexcept = 0;
  /// What step_over() was asked for, as on_fault() is called.
  virtual void after_access(std::byte*) noexcept {}
};

/// Before the first step_over() of the process, which takes its traps from then on.
Status allow_steps();
/// For on_fault(), which lets an access through and wants to see the next one:
/// after_access(address) is called when the instruction has run, by the processor's trap behind it
/// (SIGTRAP).
void step_over(FaultHandler& handler, std::byte* address) noexcept;

/// For a handler that refuses the access: it has said why, and nothing else needs to.
void refusal_is_told() noexcept;

/// Watches [begin, end) from construction to destruction.
class FaultWatch {
 public:
  enum class Turn { kFirst, kLast };  ///< is asked before, or after, those of the other kind
  static Result<FaultWatch> create(std::byte* begin, std::byte* end, FaultHandler& handler,
                                   Turn turn = Turn::kLast);
  FaultWatch(FaultWatch&& other) noexcept;
  FaultWatch& operator=(FaultWatch&&) = delete;
  ~FaultWatch();

 private:
  explicit FaultWatch(size_t slot) : slot_(slot) {}
  size_t slot_;
};

/// This thread may have had the signals blocked since before the program began, by whoever
/// executed it: from now on they arrive.
void let_faults_through() noexcept;

}  // namespace perdura::region
