// Page faults of the program, answered by the library: SIGSEGV and SIGBUS at watched addresses.
//
// The handlers are installed at first use, in front of those the program had; faults elsewhere go
// on to them. A program that installs its own handler later must call the one it replaced.
#pragma once

#include <cstddef>

#include "base/result.hpp"

namespace perdura::region {

/// Called in the faulting thread, in a signal handler: only async-signal-safe work.
class FaultHandler {
 public:
  virtual ~FaultHandler() = default;
  /// True: the access can be tried again. False: it was none of ours.
  virtual bool on_fault(std::byte* address) noexcept = 0;
};

/// Watches [begin, end) from construction to destruction.
class FaultWatch {
 public:
  static Result<FaultWatch> create(std::byte* begin, std::byte* end, FaultHandler& handler);
  FaultWatch(FaultWatch&& other) noexcept;
  FaultWatch& operator=(FaultWatch&&) = delete;
  ~FaultWatch();

 private:
  explicit FaultWatch(size_t slot) : slot_(slot) {}
  size_t slot_;
};

}  // namespace perdura::region
