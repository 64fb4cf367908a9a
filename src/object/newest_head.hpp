// The newest head of an object that is open, in memory, with what is written with it.
#pragma once

#include <array>
#include <atomic>

#include "format/object_format.hpp"

namespace perdura::object {

/// The newest head of an object. It is exchanged at once: who dies while writing one leaves the
/// other.
class NewestHead {
 public:
  /// Of whoever executes.
  void set(const format::ObjectSlot& slot) {
    const u64 next = times_.load(std::memory_order_relaxed) + 1;
    slots_[next % 2] = slot;
    times_.store(next, std::memory_order_release);
  }
  const format::ObjectHead& get() const { return newest().head; }
  const format::ObjectSlot& slot() const { return newest(); }
  /// By anybody, at any time.
  format::ObjectSlot copy() const {
    for (;;) {
      const u64 before = times_.load(std::memory_order_acquire);
      const format::ObjectSlot slot = slots_[before % 2];
      std::atomic_thread_fence(std::memory_order_acquire);
      if (times_.load(std::memory_order_relaxed) == before) return slot;
    }
  }
  format::ObjectBuild build{};  ///< of its session: what is written behind heads
  u8 unclear = 0;               ///< slots on the medium of which it is not known what they hold

 private:
  const format::ObjectSlot& newest() const {
    return slots_[times_.load(std::memory_order_acquire) % 2];
  }

  std::array<format::ObjectSlot, 2> slots_{};
  std::atomic<u64> times_{0};
};

}  // namespace perdura::object
