// Objects that get the layout which their type has now: each is made anew, and all pointers to it
// are mended. In one operation: a version has all of them as they were, or none.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <perdura/detail/conversion.hpp>

#include "heap/heap.hpp"
#include "heap/pointees.hpp"

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
    std::vector<Class> former_classes;  ///< it and those in it, if its members are known
    std::vector<Class> now_classes;
    bool begins_elsewhere;  ///< what its objects begin with lies elsewhere in the new ones
  };
  /// What was allocated for a block.
  struct Moved {
    std::byte* was;
    std::byte* now;
    u64 count;  ///< of objects
    const Type* type;
  };
  /// Where a pointer lies, in objects of a type; nullptr: that is not known.
  struct Place {
    const std::string* type = nullptr;
    u64 offset = 0;
  };
  /// A pointer, and what it is to be.
  struct Word {
    u64* place;
    u64 value;
  };
  /// A root, and what it is to be.
  struct Root {
    std::string name;
    std::byte* object;
    u64 fingerprint;
  };
  /// An entry of the list that gets another's name.
  struct Renamed {
    u32 former;
    u32 now;
  };

  void add(const detail::Conversion& conversion);
  Status choose(std::span<const detail::Conversion> conversions, size_t first);
  Status look_at(const detail::Conversion& conversion);
  std::unordered_map<std::string, std::string> find_holders() const;
  Status require_holders() const;
  Failure refuse_holder(const std::string& name, const std::string& changed) const;
  Status prepare_names();
  Status make_objects();
  Status find_words();
  Status find_word(u64* word, bool maybe, const Place& place_of_word);
  Status find_roots();
  Status set_roots();
  const detail::Conversion* container_at(const Roots::Root& root) const;
  void mend_words() noexcept;
  Result<u64> place_now(const Moved& moved, u64 offset, const Place& from) const;
  const std::string& type_name_now(u16 tag, const Layout& layout) const;
  const Moved* moved_at(u64 address) const;
  bool converts(std::string_view class_name) const;

  Heap& heap_;
  detail::Mutator& mutator_;
  std::vector<detail::Conversion> conversions_;  ///< those of blocks of containers among them
  std::vector<detail::Conversion> containers_;
  std::vector<Type> types_;
  std::vector<Layout> entries_;  ///< of members that differ
  std::vector<Renamed> renamed_;
  std::vector<Layout> new_members_;  ///< entries of all classes of the new layouts
  std::optional<Pointees> pointees_;
  std::vector<Moved> moved_;  ///< by address
  std::vector<Word> words_;
  std::vector<Root> roots_;
  bool done_ = false;
};

}  // namespace perdura::heap
