// Typed objects that are in no container: one heap of ordinary memory in a process.
#pragma once

#include <mutex>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "heap/heap.hpp"
#include "track/mutators.hpp"

namespace perdura::detail {

class VolatileHeap {
 public:
  /// Made by the first call; never destroyed.
  static VolatileHeap& instance();

  heap::Heap& heap() { return *heap_; }
  track::Mutators& mutators() { return *mutators_; }
  bool contains(const void* address) const { return region_->contains(address); }

  // --- what the program said of objects; under mutex()

  std::mutex& mutex() { return mutex_; }
  /// How often each is pinned.
  std::unordered_map<const void*, u64>& pinned() { return pinned_; }
  std::unordered_set<void**>& references() { return references_; }
  /// Words of objects, volatile ones or in containers, that are not followed.
  std::set<const std::byte*>& excluded() { return excluded_; }
  /// Whether there may be any.
  bool has_excluded() const { return has_excluded_.load(std::memory_order_relaxed); }
  void exclude(const void* word);
  /// Of an object that moves, or ends (`to` nullptr).
  void move_excluded(const void* from, void* to, u64 bytes) noexcept;

 private:
  VolatileHeap();

  std::unique_ptr<region::Region> region_;
  std::unique_ptr<track::Mutators> mutators_;
  std::unique_ptr<heap::Heap> heap_;
  std::mutex mutex_;
  std::unordered_map<const void*, u64> pinned_;
  std::unordered_set<void**> references_;
  std::set<const std::byte*> excluded_;
  std::atomic<bool> has_excluded_{false};
};

}  // namespace perdura::detail
