// Typed objects that are in no container: one heap of ordinary memory in a process.
#pragma once

#include <mutex>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/process.hpp"
#include "heap/heap.hpp"
#include "track/mutators.hpp"

namespace perdura::detail {

class VolatileHeap {
 public:
  /// Made by the first call; never destroyed.
  static VolatileHeap& instance();
  /// nullptr: nobody has made it yet.
  static VolatileHeap* existing() noexcept { return existing_.load(std::memory_order_acquire); }

  /// kForked in a child of the process that made it.
  Status usable() const;
  bool is_inherited() const noexcept { return forked_since(process_generation_); }

  heap::Heap& heap() { return heap_; }
  /// Of a block whose words may be pointers (heap::kWords).
  u16 tag_of_words() const noexcept { return tag_of_words_; }
  track::Mutators& mutators() { return *mutators_; }
  bool contains(const void* address) const { return region_->contains(address); }

  // --- what the program says of objects, in operations of its threads

  void pin(const void* object);
  /// False when it is not pinned.
  bool unpin(const void* object);
  /// Of a word of an object, a volatile one or one in a container.
  void exclude(const void* word);
  void refer(void** pointer);
  void forget(void** pointer);
  /// What was said of an object: its pins, and words in it that are excluded.
  struct Said {
    std::unordered_map<const void*, u64>::node_type pin;
    std::set<const std::byte*> words;
    const std::byte* of = nullptr;
  };
  /// Before the program moves an object or ends it, since another one, of another thread, may have
  /// its place at once.
  Said take(const void* object, u64 bytes) noexcept;
  /// Of the place where it is now, with `bytes` there.
  void give(Said said, const void* object, u64 bytes) noexcept;
  /// Whether anything was said of any object.
  bool has_said() const noexcept { return said_.load(std::memory_order_relaxed); }

  // --- while mutators stand still

  bool is_pinned(const void* object) const { return pinned_.contains(object); }
  bool is_excluded(const void* word) const {
    return excluded_.contains(static_cast<const std::byte*>(word));
  }
  const std::unordered_set<void**>& references() const { return references_; }

 private:
  VolatileHeap();

  static inline constinit std::atomic<VolatileHeap*> existing_{nullptr};
  const u64 process_generation_ = process_generation();
  std::unique_ptr<region::Region> region_;
  std::unique_ptr<track::Mutators> mutators_;
  heap::Heap heap_;
  u16 tag_of_words_ = 0;
  std::mutex mutex_;                             ///< between operations; what follows
  std::unordered_map<const void*, u64> pinned_;  ///< how often each is
  std::unordered_set<void**> references_;
  std::set<const std::byte*> excluded_;
  std::atomic<bool> said_{false};  ///< anything of any object
};

}  // namespace perdura::detail
