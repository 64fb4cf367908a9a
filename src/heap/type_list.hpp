// What a store knows of types: a list in the region, of a block for each type, and an index of it
// in memory. A type's number is its place in the list, from 1.
#pragma once

#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "heap/block_map.hpp"
#include "heap/layout.hpp"
#include "heap/members.hpp"

namespace perdura::heap {

class Heap;

/// Thread-safe but for what says otherwise. A type that it knows stays where it is.
class TypeList {
 public:
  /// Its nodes are blocks of the heap.
  explicit TypeList(Heap& heap);

  /// The list as it is in the region, loaded or not.
  Result<std::vector<Layout>> read() const;
  /// The same; what is wrong with it, or "".
  std::string problem(std::vector<Layout>& types) const;

  /// Once after opening. Calls below do it that return a status or a result.
  Status load();
  /// Of a list that is loaded, by number - 1; while it gets no more.
  const std::deque<Layout>& layouts() const { return layouts_; }
  /// The type of a block with this tag; nullptr: there is none.
  Result<const Layout*> find(u32 tag);
  /// The number of a type, which the store learns if it does not know it. kTypeMismatch when it
  /// knows another layout of the type. Inside an operation of the mutator.
  Result<u32> number_of(detail::Mutator& mutator, const perdura_type& type);
  Result<u32> number_of(detail::Mutator& mutator, const Layout& layout);
  /// Of an object that comes from another heap. That of kWords, with `as_words`, where the program
  /// has several types of that name, and this heap knows another one of these; or where this heap
  /// knows as many types as it can.
  Result<u32> number_of_moved(detail::Mutator& mutator, const Layout& layout, bool& as_words);
  /// kTypeMismatch when the store knows another layout of the type.
  Status expect(const perdura_type& type);
  /// The same of what a type is made of, its members and theirs, as far as the store knows it.
  Status expect_members(const detail::TypeDescription& type);
  /// And the store learns what it does not know. Inside an operation of the mutator.
  Status learn_members(detail::Mutator& mutator, const detail::TypeDescription& type);
  /// The same of what a record says, or is known beside it.
  Status learn_members(detail::Mutator& mutator, const perdura_type& type);
  /// The same of all types that the program is known to have: it takes objects of the store for
  /// what its own records say. Of several records of one name one is enough.
  Status expect_known();

  // --- types that change their layout (Migration), while nobody else uses the heap. Inside an
  // operation of the mutator.
  /// The number of the type of this name, 0: the store does not know it.
  Result<u32> number_named(std::string_view name);
  /// The number of this layout under a name that is nobody's, as long as the one that it has.
  Result<u32> number_of_spare(detail::Mutator& mutator, const Layout& layout);
  /// Types with names of one length have each other's from now on.
  void exchange_names(detail::Mutator& mutator, u32 a, u32 b) noexcept;

  /// visit(offset) of each node of a list that is loaded, while it gets no more.
  template <class Visit>
  void for_each_node(Visit&& visit) const {
    for (u64 at = blocks_.units().header().types; at != 0; at = node_at(at).next) visit(at);
  }

 private:
  const format::TypeNode& node_at(u64 offset) const {
    return *reinterpret_cast<const format::TypeNode*>(blocks_.region().base() + offset);
  }
  Failure other_layout(const Layout& stored, const Layout& wanted) const;
  Failure other_members(const Layout& stored, const Layout& wanted) const;

  // With mutex_ held.
  Status load_list();
  u32 find_name(std::string_view name) const;
  bool is_of_program(const Layout& known) const;
  Result<u32> known_number(const Layout& layout);
  Result<u32> learn(detail::Mutator& mutator, const Layout& layout);
  Status add(detail::Mutator& mutator, const Layout& type, u32 number);
  /// The entries of these that the store does not know.
  Result<std::vector<Layout>> compare_members(const std::vector<Class>& classes);
  Status learn_entries(detail::Mutator& mutator, const std::vector<Class>& classes);

  Heap& heap_;
  const BlockMap& blocks_;
  std::mutex mutex_;
  bool loaded_ = false;
  std::deque<Layout> layouts_;                       ///< by number - 1
  std::unordered_map<std::string_view, u32> names_;  ///< of layouts_, to numbers
  std::unordered_map<const perdura_type*, u32> numbers_;
  std::unordered_set<const detail::TypeDescription*> known_members_;
};

}  // namespace perdura::heap
