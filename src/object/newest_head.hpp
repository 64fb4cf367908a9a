// The newest head of an object that is open, in memory, with what is written with it.
#pragma once

#include <array>
#include <atomic>
#include <bit>

#include "format/object_format.hpp"

namespace perdura::object {

/// The newest head of an object. It is exchanged at once: who dies while writing one leaves the
/// other.
class NewestHead {
 public:
  /// Of whoever executes.
  void set(const format::ObjectSlot& slot) {
    const u64 next = times_.load(std::memory_order_relaxed) + 1;
    // Whoever sees a word of this one sees that the one before has been exchanged.
    std::atomic_thread_fence(std::memory_order_release);
    const auto words = std::bit_cast<Words>(slot);
    for (size_t i = 0; i < words.size(); ++i)
      word(next, i).store(words[i], std::memory_order_relaxed);
    times_.store(next, std::memory_order_release);
  }
  const format::ObjectHead& get() const { return newest().head; }
  const format::ObjectSlot& slot() const { return newest(); }
  /// By anybody, at any time.
  format::ObjectSlot copy() const {
    for (;;) {
      const u64 before = times_.load(std::memory_order_acquire);
      Words words;
      for (size_t i = 0; i < words.size(); ++i)
        words[i] = word(before, i).load(std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_acquire);
      if (times_.load(std::memory_order_relaxed) == before)
        return std::bit_cast<format::ObjectSlot>(words);
    }
  }
  format::ObjectBuild build{};  ///< of its session: what is written behind heads
  u8 unclear = 0;               ///< slots on the medium of which it is not known what they hold

 private:
  using Words = std::array<u64, sizeof(format::ObjectSlot) / sizeof(u64)>;

  std::atomic_ref<u64> word(u64 time, size_t index) const {
    return std::atomic_ref(reinterpret_cast<u64*>(&slots_[time % 2])[index]);
  }
  const format::ObjectSlot& newest() const {
    return slots_[times_.load(std::memory_order_acquire) % 2];
  }

  mutable std::array<format::ObjectSlot, 2> slots_{};
  std::atomic<u64> times_{0};
};

}  // namespace perdura::object
