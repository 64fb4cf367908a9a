// Numbers that a program need not choose: of the place in its code that asks for one, which is the
// same in the next run wherever that is loaded, and of how often it was asked for there.
//
//   number = of (whose thread, [module, offset in it] of each frame of the stack, how often before)
//
// Frames of the C and C++ libraries and of this one say nothing of the program, and change when
// those are updated: they do not count.
#pragma once

#include <mutex>
#include <unordered_map>

#include "base/bits.hpp"
#include "base/result.hpp"

namespace perdura::detail {

/// Thread-safe. Of one kind of numbers.
class StackIdentities {
 public:
  /// A negative number for the code that `returns_to` is in: the function that it is the return
  /// address of asks, on this thread's stack, for the thread whose own number is `parent`. The
  /// first time, the second time and so on have one each. kMisuse where another place has the same.
  Result<int> next(const void* returns_to, u32 parent);

 private:
  std::mutex mutex_;
  std::unordered_map<u64, u64> times_;  ///< by what the stack comes to
  std::unordered_map<int, u64> given_;  ///< by number: of what it was made
};

}  // namespace perdura::detail
