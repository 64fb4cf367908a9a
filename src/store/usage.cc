#include "store/usage.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "heap/members.hpp"
#include "store/heap_view.hpp"

namespace perdura::store {
namespace {

using format::Extent;
using format::ExtentKind;
using format::UnitEntry;
using format::UnitKind;

/// Follows typed pointers from one root after the other. Each block is visited once, by a bit for
/// each place at which one can begin.
class Reach {
 public:
  Reach(const HeapView& view, u64 bytes, const Progress& progress)
      : view_(view), bytes_(bytes), seen_((bytes / kPlaceBytes + 63) / 64), progress_(progress) {}

  HeapUsage::Root from(const RootDescription& root) {
    HeapUsage::Root reached{.name = root.name};
    add(root.offset, reached);
    while (!pending_.empty()) {
      const HeapView::Object object = pending_.back();
      pending_.pop_back();
      view_.for_each_pointer(object, [&](const u64* word, bool) {
        if (const auto target = view_.target_of(*word)) add(*target, reached);
      });
    }
    return reached;
  }

 private:
  static constexpr u64 kPlaceBytes = 16;  // blocks begin at multiples of it

  void add(u64 offset, HeapUsage::Root& reached) {
    const auto object = view_.find(offset);
    if (!object || object->offset >= bytes_) return;
    u64& word = seen_[object->offset / kPlaceBytes / 64];
    const u64 bit = u64{1} << object->offset / kPlaceBytes % 64;
    if ((word & bit) != 0) return;
    word |= bit;
    ++reached.blocks;
    reached.bytes += object->bytes;
    done_ += object->bytes;
    progress_("following pointers", std::min(done_, bytes_), bytes_);
    if (object->type != nullptr) pending_.push_back(*object);
    else ++reached.untyped_blocks;
  }

  const HeapView& view_;
  const u64 bytes_;  ///< of the region, from its beginning, in which blocks may be
  std::vector<u64> seen_;
  const Progress& progress_;
  std::vector<HeapView::Object> pending_;
  u64 done_ = 0;
};

std::vector<HeapUsage::Blocks> count_kinds(const heap::Heap& heap) {
  std::map<std::pair<u32, u64>, HeapUsage::Blocks> found;  // by number of the type, size without
  const std::deque<heap::Layout>& types = heap.types().layouts();
  heap.blocks().for_each_block([&](const std::byte*, u64 bytes, u16 tag) {
    const bool typed = tag / 2 != 0 && tag / 2 <= types.size();
    const u64 size = typed || bytes > heap::kSmallMax ? 0 : bytes;
    const u32 number = typed ? u32{tag} / 2 : 0;
    HeapUsage::Blocks& kind = found[{number, size}];
    if (typed) kind.type = heap::readable_name(types[number - 1].name);
    kind.block_bytes = size;
    ++kind.blocks;
    kind.bytes += bytes;
  });
  std::vector<HeapUsage::Blocks> kinds;
  for (auto& [key, kind] : found) kinds.push_back(std::move(kind));
  std::ranges::sort(kinds, [](const HeapUsage::Blocks& a, const HeapUsage::Blocks& b) {
    return std::tie(b.bytes, a.type, a.block_bytes) < std::tie(a.bytes, b.type, b.block_bytes);
  });
  return kinds;
}

// Of a home image only what is used of the unit table is there. Chunks are from the beginning on.
u64 backed_until(u64 offset, const RegionDescription& region) {
  u64 bytes = 0;
  for (const Extent& extent : region.extents) {
    if (!format::has_homes(extent.kind)) return std::min(offset, region.backed_bytes);
    bytes += std::min(extent.length, offset - std::min(offset, extent.region_offset));
  }
  return bytes;
}

void count_units(const heap::Units& units, const RegionDescription& region, HeapUsage& usage) {
  usage.table_bytes = backed_until(units.header().data_begin, region);
  u64 used = 0;
  u64 next = 0;  // the unit behind the last one that is in use
  const auto free_until = [&](u64 unit) {
    if (unit != next) ++usage.free_runs;
  };
  units.for_each([&](u64 unit, const UnitEntry& entry) {
    free_until(unit);
    next = unit + entry.units;
    used += entry.units;
    if (entry.kind != UnitKind::kSlab) return true;
    heap::Slab& slab = *units.slab_at(unit);
    const heap::ClassInfo& info = heap::kClassInfo[entry.size_class];
    u64 usable = 0;
    u64 live = 0;
    for (u32 word = 0; word < info.words; ++word) {
      usable += static_cast<u64>(std::popcount(heap::usable_bits(info, word)));
      live += static_cast<u64>(std::popcount(slab.live(info, word)));
    }
    usage.free_block_bytes += (usable - live) * info.block_bytes;
    usage.slab_rest_bytes += entry.units * format::kUnitBytes - usable * info.block_bytes;
    return true;
  });
  free_until(units.units_end());
  usage.free_run_bytes = (units.units_end() - used) * format::kUnitBytes;
  const u64 ever_used = usage.table_bytes + units.units_end() * format::kUnitBytes;
  usage.unused_bytes = region.backed_bytes - std::min(ever_used, region.backed_bytes);
}

}  // namespace

u64 HeapUsage::total_bytes() const {
  u64 total = table_bytes + slab_rest_bytes + free_block_bytes + free_run_bytes + unused_bytes;
  for (const Blocks& kind : kinds) total += kind.bytes;
  return total;
}

Result<HeapUsage> usage_of(heap::Heap& heap, const region::Region& region,
                           const RegionDescription& description, const Progress& progress) {
  PERDURA_ASSIGN(const HeapView view, HeapView::of(heap, region, description.record));
  HeapUsage usage;
  usage.kinds = count_kinds(heap);
  const heap::Units& units = heap.blocks().units();
  count_units(units, description, usage);
  u64 live_blocks = 0;
  u64 live_bytes = 0;
  for (const HeapUsage::Blocks& kind : usage.kinds) {
    live_blocks += kind.blocks;
    live_bytes += kind.bytes;
  }
  Reach reach(view, units.header().data_begin + units.units_end() * format::kUnitBytes, progress);
  for (const RootDescription& root : description.roots) {
    const HeapUsage::Root& reached = usage.roots.emplace_back(reach.from(root));
    live_blocks -= reached.blocks;
    live_bytes -= reached.bytes;
  }
  usage.unreached_blocks = live_blocks;
  usage.unreached_bytes = live_bytes;
  return usage;
}

namespace {

/// By the directory and the superblock, as they are at one moment.
class SpaceCount {
 public:
  explicit SpaceCount(Description& description) : description_(description) {}

  void add(const char* purpose, const std::string& region, u64 bytes) {
    if (bytes != 0) description_.space.push_back({purpose, region, bytes});
  }

  void add_region(const region::Volume& volume, const RegionDescription& region) {
    const std::string name = region.name();
    const auto bytes_of = [&](ExtentKind kind) {
      u64 bytes = 0;
      for (const Extent& extent : volume.extents(kind, region.record.region))
        bytes += format::extent_bytes(extent);
      return bytes;
    };
    const auto images_of = [&](ExtentKind kind) {
      u64 bytes = 0;
      for (const Extent& extent : volume.extents(kind, region.record.region))
        bytes += extent.length;
      return bytes;
    };
    const u64 home = images_of(ExtentKind::kHome);
    add("home image", name, home);
    add("checksums of its pages", name, bytes_of(ExtentKind::kHome) - home);
    const u64 copy = images_of(ExtentKind::kCopies);
    add("home image in the newest copy", name, copy);
    add("home image in the older copy", name, copy);
    add("checksums of the pages of both", name, bytes_of(ExtentKind::kCopies) - 2 * copy);
    const u64 log = bytes_of(ExtentKind::kLog);
    const u64 live =
        region.log ? std::min(region.log->live_segments * volume.segment_bytes(), log) : 0;
    add("log of versions that are not home yet", name, live);
    add("log that is free", name, log - live);
    const u64 chunks = bytes_of(ExtentKind::kChunks);
    const u64 free = std::min(region.free_bytes, chunks);
    add("chunks and maps of the kept versions", name, chunks - free);
    add("chunks that are free", name, free);
    add("version records", name, bytes_of(ExtentKind::kVersions));
    add("heads of objects", name, bytes_of(ExtentKind::kObjectHeads));
    add("copies, logs and archives of objects", name, bytes_of(ExtentKind::kObjects));
  }

  /// What is left of the store's bytes is free in it.
  void add_rest(u64 store_bytes, u64 medium_bytes) {
    u64 counted = 0;
    for (const SpaceUsage& each : description_.space) counted += each.bytes;
    store_bytes = std::max(store_bytes, counted);
    add("free in the store", "", store_bytes - counted);
    add("behind the store's end", "", medium_bytes - std::min(store_bytes, medium_bytes));
  }

 private:
  Description& description_;
};

}  // namespace

void describe_space(region::Volume& volume, Description& description) {
  SpaceCount count(description);
  const u64 store_bytes = volume.superblock().medium_bytes;
  description.medium_bytes = std::max(volume.medium().geometry().size, store_bytes);
  count.add("superblocks, owner and directories", "",
            std::min(format::kDataBegin, description.medium_bytes));
  for (const RegionDescription& region : description.regions) count.add_region(volume, region);
  count.add_rest(store_bytes, description.medium_bytes);
}

}  // namespace perdura::store
