// Objects that get the layout which their type has now: each is made anew, and all pointers to it
// are mended. In one operation: a version has all of them as they were, or none.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <vector>

#include <perdura/detail/conversion.hpp>

#include "heap/heap.hpp"

namespace perdura::heap {

/// Once, inside an operation of the mutator, while nobody else uses the heap.
class Migration {
 public:
  Migration(Heap& heap, detail::Mutator& mutator) : heap_(heap), mutator_(mutator) {}
  ~Migration();
  Migration(const Migration&) = delete;

  /// How many blocks of such objects there were. Without success the store is as before, also where
  /// a function of a conversion throws.
  Result<u64> run(std::span<const detail::Conversion> conversions);

 private:
  /// A type that is converted.
  struct Type {
    const detail::Conversion* conversion;
    u32 former_number;  ///< 0: the store has no such type with a record
    u32 number = 0;     ///< the new layout's, which may be the same
    Layout now;
  };
  /// What was allocated for a block.
  struct Moved {
    std::byte* was;
    std::byte* now;
    u64 count;  ///< of objects
    const Type* type;
  };
  /// An entry of the list that gets another's name.
  struct Renamed {
    u32 former;
    u32 now;
  };

  void add(const detail::Conversion& conversion);
  Status look_at(const detail::Conversion& conversion);
  Status require_holders() const;
  Status prepare_names();
  Status make_objects();
  Status mend(bool check);
  Status mend_word(u64* word, bool maybe, bool check);
  Result<u64> place_now(const Moved& moved, u64 offset) const;
  Status mend_roots();
  Status mend_container_roots();
  const Moved* moved_at(u64 address) const;
  u32 number_of_class(const Layout& entry) const;
  Failure refuse_holder(const std::string& name, const Layout& changed) const;
  bool converts(std::string_view class_name) const;

  Heap& heap_;
  detail::Mutator& mutator_;
  std::deque<detail::Conversion> conversions_;  ///< those of blocks of containers among them
  std::vector<const detail::Conversion*> containers_;
  std::vector<Type> types_;
  std::vector<Layout> entries_;  ///< of members that differ
  std::vector<Renamed> renamed_;
  std::vector<Moved> moved_;  ///< by address
  bool done_ = false;
};

}  // namespace perdura::heap
