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
  void pin(const void* object);
  /// How often each is pinned.
  std::unordered_map<const void*, u64>& pinned() { return pinned_; }
  /// Of a word of an object, a volatile one or one in a container.
  void exclude(const void* word);
  bool is_excluded(const void* word) const {
    return excluded_.contains(static_cast<const std::byte*>(word));
  }
  std::unordered_set<void**>& references() { return references_; }
  /// An object is elsewhere, or has ended (`to` nullptr). What was said of its words goes with it.
  void move_words(const void* from, void* to, u64 bytes) noexcept;

  /// The same of an object that the program moved or ended. Takes the mutex.
  void object_moved(const void* from, void* to, u64 bytes) noexcept;

 private:
  VolatileHeap();

  std::unique_ptr<region::Region> region_;
  std::unique_ptr<track::Mutators> mutators_;
  std::unique_ptr<heap::Heap> heap_;
  std::mutex mutex_;
  std::unordered_map<const void*, u64> pinned_;
  std::unordered_set<void**> references_;
  std::set<const std::byte*> excluded_;
  std::atomic<bool> said_{false};  ///< anything of any object
};

}  // namespace perdura::detail
