#include "heap/units.hpp"

#include <algorithm>
#include <bit>

#include "heap/size_classes.hpp"

namespace perdura::heap {
namespace {

using format::data_begin_for;
using format::HeapHeader;
using format::kUnitBytes;
using format::UnitEntry;
using format::UnitKind;

// Space on the medium grows by a quarter, so that its pieces stay few.
constexpr u64 kGrowthUnitsMin = 4;
constexpr u64 kGrowthUnitsMax = 4 * kGiB / kUnitBytes;

/// The first unit from `unit` on whose address is as aligned as that many units are.
u64 aligned_from(const std::byte* data, u64 unit, u64 alignment_units) {
  const u64 before = reinterpret_cast<std::uintptr_t>(data) / kUnitBytes;
  return round_up(before + unit, alignment_units) - before;
}

}  // namespace

Status Units::format(detail::Mutator& mutator) {
  const u64 limit = region_.limit();
  PERDURA_TRY(region_.back(0, 2 * kPageBytes));
  // Before the first version nothing is home. A heap that lost its versions is not a new one.
  if (!is_zero(region_.base(), std::min(region_.home()->backed_until(0), data_begin_for(limit))))
    return Failure{Code::kCorrupt,
                   "the home image holds a heap, but neither the superblock nor the log knows of a "
                   "version of it; restore the store from a copy"};
  HeapHeader& header = this->header();
  detail::report(mutator, &header, sizeof header);
  header = HeapHeader{.magic = format::kHeapMagic,
                      .version = format::kHeapVersion,
                      .reserved0 = 0,
                      .limit_bytes = limit,
                      .data_begin = data_begin_for(limit),
                      .units_end = 0,
                      .roots = 0,
                      .root_count = 0,
                      .types = 0,
                      .address = reinterpret_cast<std::uintptr_t>(region_.base()),
                      .type_count = 0,
                      .group = 0,
                      .reserved = {}};
  return attach("the new store");
}

Status Units::attach(const std::string& store_name) {
  const auto home = region_.home();
  const auto unbacked = [&](u64 offset) {
    return Failure{Code::kCorrupt, "the heap of '" + store_name + "' needs region offset " +
                                       std::to_string(offset) +
                                       ", which has no place on the medium; restore the store from "
                                       "a copy"};
  };
  const u64 table_end = home->backed_until(0);
  if (table_end < format::kUnitTableOffset) return unbacked(table_end);
  const HeapHeader& header = this->header();
  if (header.magic != format::kHeapMagic || header.version != format::kHeapVersion ||
      header.limit_bytes != region_.limit() || header.data_begin != data_begin_for(region_.limit()))
    return Failure{Code::kCorrupt, "the heap header of '" + store_name +
                                       "' is damaged; restore the store from a copy"};
  data_ = region_.base() + header.data_begin;
  units_max_ = (region_.limit() - header.data_begin) / kUnitBytes;
  if (header.units_end > units_max_)
    return Failure{Code::kCorrupt, "the heap of '" + store_name +
                                       "' claims more units than its "
                                       "region can hold; restore the store from a copy"};
  table_backed_ = std::min(table_end, header.data_begin) - format::kUnitTableOffset;
  if (header.units_end * sizeof(UnitEntry) > table_backed_) return unbacked(table_end);
  const u64 data_end = home->backed_until(header.data_begin);
  backed_end_ = (data_end - header.data_begin) / kUnitBytes;
  if (header.units_end > backed_end_) return unbacked(data_end);
  return {};
}

std::string Units::problem() const {
  const u64 end = units_end();
  const auto wrong = [](u64 unit, const char* what) {
    return "unit " + std::to_string(unit) + ": " + what;
  };
  for (u64 unit = 0; unit < end;) {
    const UnitEntry entry = this->entry(unit);
    if (entry.kind == UnitKind::kFree) {
      ++unit;
      continue;
    }
    const bool slab = entry.kind == UnitKind::kSlab;
    if (!slab && entry.kind != UnitKind::kLarge)
      return wrong(unit, "belongs to nothing that begins before it");
    if (entry.units == 0 || entry.units > end - unit)
      return wrong(unit, "reaches beyond the end of the heap");
    if (slab && (entry.size_class >= kClasses || entry.units != kClassInfo[entry.size_class].units))
      return wrong(unit, "a slab of an unknown size class");
    for (u32 i = 1; i < entry.units; ++i) {
      const UnitEntry tail = this->entry(unit + i);
      const bool good =
          slab ? tail.kind == UnitKind::kSlabTail && tail.units == i : tail.kind == UnitKind::kFree;
      if (!good) return wrong(unit + i, "has two owners");
    }
    unit += entry.units;
  }
  const u64 backed = std::min(table_backed_ / sizeof(UnitEntry), units_max_);
  for (u64 unit = end; unit < backed; ++unit)
    if (std::bit_cast<u64>(this->entry(unit)) != 0)
      return wrong(unit, "was never used, and is not blank");
  return {};
}

Status Units::load() {
  if (loaded_) return {};
  PERDURA_ASSIGN(used_, Mapping::anonymous((units_max_ / 64 + 1) * sizeof(u64)));
  for_each([this](u64 unit, const UnitEntry& entry) {
    mark(unit, entry.units, true);
    return true;
  });
  loaded_ = true;
  return {};
}

void Units::mark(u64 first, u64 count, bool value) {
  while (count != 0) {
    const auto bit = static_cast<unsigned>(first % 64);
    const auto here = static_cast<unsigned>(std::min<u64>(count, 64 - bit));
    const u64 mask = bit_range(bit, here);
    if (value) used_word(first) |= mask;
    else used_word(first) &= ~mask;
    first += here;
    count -= here;
  }
}

// First fit in [from, end); ~0 when there is none.
u64 Units::find_free(u64 count, u64 alignment_units, u64 from, u64 end) const {
  u64 start = aligned_from(data_, from, alignment_units);
  while (start + count <= end) {
    u64 unit = start;
    while (unit < start + count && !used(unit)) {
      // Whole free words at once.
      if (unit % 64 == 0 && used_word(unit) == 0) unit += 64;
      else ++unit;
    }
    if (unit >= start + count) return start;
    while (unit < end && used(unit)) {
      if (unit % 64 == 0 && used_word(unit) == ~u64{0}) unit += 64;
      else ++unit;
    }
    start = aligned_from(data_, unit, alignment_units);
  }
  return ~u64{0};
}

Result<Units::Run> Units::allocate(detail::Mutator& mutator, u64 count, u64 alignment_units) {
  HeapHeader& header = this->header();
  u64 first = find_free(count, alignment_units, hint_, header.units_end);
  if (first == ~u64{0}) {
    // Extend: from the free units at the end, if any.
    u64 from = header.units_end;
    while (from > hint_ && !used(from - 1)) --from;
    first = aligned_from(data_, from, alignment_units);
    if (first + count > units_max_)
      return Failure{Code::kNoSpace, "the region is full: its limit of " +
                                         std::to_string(region_.limit()) +
                                         " bytes was set when the store was created; free objects, "
                                         "or move to a store with a larger region_limit_bytes"};
    PERDURA_TRY(extend(mutator, first + count));
  }
  mark(first, count, true);
  if (first == hint_) hint_ = first + count;
  const bool is_untouched = region_.is_volatile() && first >= untouched_from_;
  untouched_from_ = std::max(untouched_from_, first + count);
  return Run{first, is_untouched};
}

Status Units::extend(detail::Mutator& mutator, u64 units_end) {
  PERDURA_TRY(back(units_end));
  HeapHeader& header = this->header();
  if (units_end > header.units_end) store_reported(mutator, header.units_end, units_end);
  return {};
}

Status Units::claim(detail::Mutator& mutator, u64 first, u64 count) {
  if (count > units_max_ || first > units_max_ - count)
    return Failure{Code::kCorrupt, "a block lies beyond the region's limit"};
  PERDURA_TRY(extend(mutator, first + count));
  mark(first, count, true);
  return {};
}

void Units::release(u64 first, u64 count) {
  if (!loaded_) return;  // load() will find them free in the table
  mark(first, count, false);
  hint_ = std::min(hint_, first);
}

// Give units below `units_end`, and some more, space on the medium.
Status Units::back(u64 units_end) {
  if (units_end <= backed_end_) return {};
  // Ordinary memory takes up nothing until it is stored to, and comes in huge pages then.
  const u64 growth_min = region_.is_volatile() ? region::kHugeBytes / kUnitBytes : kGrowthUnitsMin;
  const u64 least = std::clamp<u64>(units_max_ / 16, 1, growth_min);
  const u64 growth = std::clamp(backed_end_ / 4, least, kGrowthUnitsMax);
  u64 target = std::max(units_end, backed_end_ + growth);
  // Pieces that are large end where a huge page does.
  if (growth * kUnitBytes >= region::kHugeBytes) {
    const u64 begin = header().data_begin;
    target = (round_up(begin + target * kUnitBytes, region::kHugeBytes) - begin) / kUnitBytes;
  }
  target = std::min(target, units_max_);
  Status backed = back_exactly(target);
  if (!backed && backed.failure().code == Code::kNoSpace && target > units_end)
    backed = back_exactly(units_end);
  return backed;
}

// The table first: a unit without an entry must not exist.
Status Units::back_exactly(u64 units_end) {
  const u64 wanted = round_up(units_end * sizeof(UnitEntry), kPageBytes);
  if (wanted > table_backed_) {
    const u64 table_max = round_up(units_max_ * sizeof(UnitEntry), kPageBytes);
    const u64 target = std::min(table_max, std::max(wanted, table_backed_ * 2));
    PERDURA_TRY(region_.back(format::kUnitTableOffset + table_backed_, target - table_backed_));
    table_backed_ = target;
  }
  PERDURA_TRY(region_.back(header().data_begin + backed_end_ * kUnitBytes,
                           (units_end - backed_end_) * kUnitBytes));
  backed_end_ = units_end;
  return {};
}

u64 Units::largest_free() const {
  u64 largest = 0;
  u64 run_begin = 0;
  for_each([&](u64 unit, const UnitEntry& entry) {
    largest = std::max(largest, unit - run_begin);
    run_begin = unit + entry.units;
    return true;
  });
  return std::max(largest, units_max_ - run_begin);
}

}  // namespace perdura::heap
