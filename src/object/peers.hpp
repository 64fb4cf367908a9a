// The processes that have an object open at once, as it sees them.
#pragma once

#include <string_view>

#include "base/bits.hpp"
#include "base/result.hpp"

namespace perdura::object {

constexpr u32 kProcessesMax = 64;  ///< that share a store

/// Thread-safe.
class Peers {
 public:
  virtual ~Peers() = default;
  /// The place of this process among them, which is another one's when it has gone.
  virtual u32 self() const = 0;
  /// A number that no other process has that shares the memory or did.
  virtual u64 life() const = 0;
  /// Whether the process with such a number is there. Where the system does not say, it is.
  virtual bool lives(u64 life) const = 0;
  /// Somebody of each of them looks after what waits in its objects.
  virtual void call_all() = 0;
  /// Nobody may rely any more on what one of them writes. The first reason counts.
  virtual void fail(const Failure& why) = 0;
  virtual Status require_sound() const = 0;
};

}  // namespace perdura::object
