// A heap's named entry points: a list in the region, of a block for each root, and an index of it
// in memory.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "heap/block_map.hpp"

namespace perdura::heap {

class Heap;

/// Thread-safe. What changes roots is inside an operation of the mutator.
class Roots {
 public:
  /// Its nodes are blocks of the heap.
  explicit Roots(Heap& heap);

  Result<void*> get(std::string_view name, u64 fingerprint) const;
  /// Also of a root with the fingerprint `earlier`, which gets the other one.
  Result<void*> get(detail::Mutator& mutator, std::string_view name, u64 fingerprint, u64 earlier);
  Status set(detail::Mutator& mutator, std::string_view name, void* object, u64 fingerprint);
  /// The object of the root of this name; `object` becomes it where there is none. Of several
  /// threads that ask at once each gets the same.
  Result<void*> get_or_set(detail::Mutator& mutator, std::string_view name, void* object,
                           u64 fingerprint);
  /// Counts changes of roots.
  u64 changes() const { return changes_.load(std::memory_order_acquire); }

  struct Root {
    std::string name;
    const void* object;
    u64 fingerprint;
  };
  std::vector<Root> all() const;

  // --- a root that becomes durable by itself (RootSelection)
  /// Where a root is in the list. Volatile.
  struct Place {
    u64 node = 0;
    u64 before = 0;        ///< the node before it, 0: none
    bool durable = false;  ///< known to be in the last version, with its object
  };
  /// What `work` says of the root of this name, while nobody changes roots. kNotFound: there is
  /// none.
  Status look_at(std::string_view name, const std::function<Status(const Place&)>& work) const;
  /// The last version has this root now, with its object. (Who removes it meanwhile changes it.)
  void note_durable(std::string_view name) noexcept;
  format::RootNode& node_at(u64 offset) const {
    return *reinterpret_cast<format::RootNode*>(blocks_.region().base() + offset);
  }

  // --- the list, while nobody changes it
  /// What is wrong with it, or ""; counts its nodes.
  std::string problem(u64& count) const;
  /// The same of what the roots of a list without a problem lead to.
  std::string problem_of_objects() const;
  /// visit(offset) of each node of a list without a problem.
  template <class Visit>
  void for_each_node(Visit&& visit) const {
    for (u64 at = blocks_.units().header().roots; at != 0; at = node_at(at).next) visit(at);
  }

 private:
  struct NameHash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const { return std::hash<std::string_view>{}(name); }
  };
  /// Looking up a name takes no memory.
  using Index = std::unordered_map<std::string, Place, NameHash, std::equal_to<>>;

  // With mutex_ held.
  Status load() const;
  const format::RootNode* find(std::string_view name) const;
  Result<void*> look_up(std::string_view name, u64 fingerprint) const;
  Status put(detail::Mutator& mutator, std::string_view name, void* object, u64 fingerprint);
  Status add(detail::Mutator& mutator, std::string_view name, void* object, u64 fingerprint);
  Status remove(detail::Mutator& mutator, Index::iterator root);
  Place& place_of_node(u64 node);

  Heap& heap_;
  const BlockMap& blocks_;
  mutable std::mutex mutex_;
  mutable bool loaded_ = false;  ///< the list was checked
  mutable Index index_;
  std::atomic<u64> changes_{0};
};

}  // namespace perdura::heap
