// How many calls each thread of a program has made of an object, by the identifier that the program
// gives it (potid), and what the last one was answered. It is part of what a checkpoint writes, so
// after a crash a program knows which of its calls have happened.
#pragma once

#include <atomic>
#include <span>

#include "base/result.hpp"
#include "format/object_format.hpp"

namespace perdura::object {

/// The records of an image that has callers.
inline std::span<format::ObjectCaller> callers_of(std::span<std::byte> image,
                                                  const format::ObjectHead& head) {
  return {reinterpret_cast<format::ObjectCaller*>(image.data() + round_up(head.bytes, kLineBytes)),
          head.callers};
}

class CallHistory {
 public:
  /// Both outlive it, as many of each, a power of two: zeros where nothing was called.
  CallHistory(std::span<format::ObjectCaller> records, std::span<std::atomic<u64>> admitted);

  /// What a program calls as `potid` can be noted. In any thread, before it is logged; false where
  /// as many others have called as there are records.
  bool admit(u32 potid);

  // --- by whoever executes

  /// The records are elsewhere from now on, as many as before.
  void move_to(std::span<format::ObjectCaller> records);

  /// Those of which there are records are admitted, when these have been read. False where they are
  /// none that this wrote: one is there twice, or where it would not be found.
  [[nodiscard]] bool admit_recorded();
  /// One that was admitted, or was found in the log of those that were.
  void note(u32 potid, u64 calls, std::span<const std::byte> answer);
  /// nullptr: it has not called.
  const format::ObjectCaller* of(u32 potid) const;

 private:
  u64 place(u32 potid, u64 step) const {
    return (potid * 0x9e3779b1u + step) & (admitted_.size() - 1);
  }
  format::ObjectCaller* find(u32 potid) const;

  std::span<format::ObjectCaller> records_;
  std::span<std::atomic<u64>> admitted_;  ///< one more than each; 0: another one can have it
};

}  // namespace perdura::object
