// The units of a heap: runs of 64 KiB that slabs and large blocks are made of.
//
// What is allocated is in the region's unit table and rolls back with the data. Which runs are free
// is derived from it when the first one is wanted after opening.
#pragma once

#include <atomic>
#include <bit>
#include <string>

#include <perdura/detail/mutator.hpp>

#include "base/mapping.hpp"
#include "base/result.hpp"
#include "format/heap_format.hpp"
#include "heap/slab.hpp"
#include "region/region.hpp"

namespace perdura::heap {

/// Store to a field of the heap's structures that other threads may be looking at.
template <class T>
void store_reported(detail::Mutator& mutator, T& field, T value) {
  detail::report(mutator, &field, sizeof(T));
  std::atomic_ref<T>(field).store(value, std::memory_order_relaxed);
}

/// Not thread-safe: the heap's lock guards it.
class Units {
 public:
  explicit Units(region::Region& region) : region_(region), base_(region.base()) {}

  /// Lay out an empty heap in a region with nothing backed.
  Status format(detail::Mutator& mutator);
  /// Check the header of an existing one.
  Status attach(const std::string& store_name);

  format::HeapHeader& header() const { return *reinterpret_cast<format::HeapHeader*>(base_); }
  format::UnitEntry* table() const {
    return reinterpret_cast<format::UnitEntry*>(base_ + format::kUnitTableOffset);
  }
  /// An entry, while other threads may change it.
  format::UnitEntry entry(u64 unit) const {
    return std::bit_cast<format::UnitEntry>(
        std::atomic_ref(word(unit)).load(std::memory_order_acquire));
  }
  void set_entry(detail::Mutator& mutator, u64 unit, format::UnitEntry entry) {
    detail::report(mutator, &table()[unit], sizeof entry);
    std::atomic_ref(word(unit)).store(std::bit_cast<u64>(entry), std::memory_order_release);
  }
  u64 units_max() const { return units_max_; }
  u64 units_end() const {
    return std::atomic_ref(header().units_end).load(std::memory_order_relaxed);
  }

  std::byte* address(u64 unit) const { return data_ + unit * format::kUnitBytes; }
  /// Of a slab's first unit.
  Slab* slab_at(u64 unit) const { return reinterpret_cast<Slab*>(address(unit)); }
  /// The unit that holds an address, or ~0.
  u64 unit_of(const void* address) const {
    const u64 offset = static_cast<u64>(static_cast<const std::byte*>(address) - data_);
    const u64 unit = offset / format::kUnitBytes;
    return unit < units_end() ? unit : ~u64{0};
  }

  struct Run {
    u64 first;
    bool is_untouched;  ///< ordinary memory that nobody had before: it is zero
  };
  /// `count` free units, the first at a multiple of `alignment_units`. Their table entries are
  /// still kFree.
  Result<Run> allocate(detail::Mutator& mutator, u64 count, u64 alignment_units);
  /// Units that are free and at this place.
  Status claim(detail::Mutator& mutator, u64 first, u64 count);
  void release(u64 first, u64 count);
  u64 largest_free() const;
  /// Whether a unit is part of a slab or large block; true where that is not known yet.
  bool may_be_used(u64 unit) const { return !loaded_ || used(unit); }
  /// What is wrong with the unit table; "" when every unit has one owner.
  std::string problem() const;
  /// Once, of a sound table: which units are free.
  Status load();

  /// Of a sound table, visit the first unit of every slab and large block: visit(unit, entry).
  /// False stops.
  template <class Visit>
  bool for_each(Visit&& visit) const {
    for (u64 unit = 0; unit < header().units_end;) {
      const format::UnitEntry entry = this->entry(unit);
      const bool head =
          entry.kind == format::UnitKind::kSlab || entry.kind == format::UnitKind::kLarge;
      if (head && !visit(unit, entry)) return false;
      unit += head ? entry.units : 1;
    }
    return true;
  }

 private:
  u64& word(u64 unit) const { return reinterpret_cast<u64&>(table()[unit]); }
  u64 find_free(u64 count, u64 alignment_units, u64 from, u64 end) const;
  Status extend(detail::Mutator& mutator, u64 units_end);
  Status back(u64 units_end);
  Status back_exactly(u64 units_end);
  u64& used_word(u64 unit) const { return used_.as<u64>()[unit / 64]; }
  bool used(u64 unit) const { return (used_word(unit) >> unit % 64 & 1) != 0; }
  void mark(u64 first, u64 count, bool value);

  region::Region& region_;
  std::byte* const base_;  ///< the region's
  std::byte* data_ = nullptr;
  u64 units_max_ = 0;
  u64 backed_end_ = 0;    ///< units below it have space on the medium
  u64 table_backed_ = 0;  ///< bytes
  bool loaded_ = false;
  Mapping used_;            ///< a bit a unit, for as many as there may ever be
  u64 hint_ = 0;            ///< no free unit lies below it
  u64 untouched_from_ = 0;  ///< no unit from here on was given out by allocate()
};

}  // namespace perdura::heap
