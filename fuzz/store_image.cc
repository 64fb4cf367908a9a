// Goal: whatever a store's medium holds, checking, describing and opening it end with a sentence or
// with a store that works; nothing crashes, hangs, leaks or reads out of bounds.
// Method: the input chooses one of five stores, made here, and overwrites fields of its
// structures: superblocks, directory, log blocks, transactions, heap metadata, in both copies where
// there are two. Then all checksums
// are made to fit again, so that what reads them meets hostile structures and not only wrong sums;
// the input may exempt any of them.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <perdura/transaction.hpp>

#include "base/checksum.hpp"
#include "format/format.hpp"
#include "format/heap_format.hpp"
#include "log/block.hpp"
#include "log/record.hpp"
#include "log/space.hpp"
#include "region/region.hpp"
#include "support/heads.hpp"
#include "support/opened.hpp"
#include "support/patch.hpp"

namespace perdura::fuzz {
namespace {

using format::Extent;
using format::ExtentKind;
using format::LogBlockHeader;
using format::RecordHeader;
using format::RecordHeaderV3;

/// Bits of Head::how.
enum How : u8 {
  kBlockMedium = 1,
  kEagerRecovery = 2,
  kPageTracker = 4,
  kDrop = 8,
  kNoCheck = 16,
  kNoDescription = 32,
  kNoOpening = 64,
  kNoReopening = 128,
};

/// Bits of Head::unsummed.
enum Sum : u8 {
  kSumPages = 1,
  kSumLogBodies = 2,
  kSumLogHeaders = 4,
  kSumLogChains = 8,
  kSumDirectory = 16,
  kSumSuperblocks = 32,
  kSumTransactions = 64,
};

constexpr u64 kValues[] = {0,
                           1,
                           kLineBytes,
                           kPageBytes,
                           format::kDataBegin,
                           kMiB,
                           kRegionBytes,
                           kRegionBytes - kPageBytes,
                           kRegionAddress,
                           u64{1} << 44,
                           u64{1} << 47,
                           u64{1} << 63,
                           ~u64{0},
                           ~u64{0} - 1,
                           ~u64{0} - kPageBytes + 1,
                           ~u64{0} - kRegionBytes + 1};

/// A store's bytes as a run begins, and where its structures are.
struct Base {
  Bytes image;
  Heads heads;
  std::vector<u64> blocks;  ///< medium offsets of the log's blocks, those of one segment in order
  std::map<u64, u64> records;  ///< of transactions, by medium offset: of their segment
  std::vector<Area> areas;

  /// Where a place of the region is on the medium; of two copies the newest one first.
  std::vector<Extent> homes(u64 region_offset) const {
    for (const Extent& extent : heads.extents) {
      if (region_offset - extent.region_offset >= extent.length) continue;
      if (extent.kind == ExtentKind::kHome) return {extent};
      if (extent.kind != ExtentKind::kCopies) continue;
      const u64 newest = format::copy_of(heads.superblock.regions[0].replayed_version);
      return {format::home_in_copy(extent, newest), format::home_in_copy(extent, newest ^ 1)};
    }
    return {};
  }
};

// --- the stores ----------------------------------------------------------------------------------

Options options(u8 how) {
  Options chosen = small_store((how & kPageTracker) != 0);
  chosen.lazy_recovery = (how & kEagerRecovery) == 0;
  return chosen;
}

enum class Kind { kClosed, kCrashed, kCrashedWithMuch, kTransactions, kCopies };
constexpr size_t kKinds = 5;
/// Of Head::store: from here on the last kind, else one of the others.
constexpr u8 kFirstOfCopies = 224;

struct Link {
  Link* next;
  u64 number;
};

// Behind the last version: blocks of several sizes, values, blocks that are given back.
void transact(Store& store) {
  auto& first = store.root<Link>("links");
  for (u64 i = 0; i < 12; ++i)
    atomically(store, [&](Transaction& tx) {
      Link* const old = tx.read(first.next);
      if (i % 4 == 3) {
        tx.write(first.next, tx.read(old->next));
        tx.deallocate(old);
        return;
      }
      auto* const link = static_cast<Link*>(tx.allocate(i == 6 ? 90'000 : sizeof(Link) << i));
      link->next = old;
      link->number = i;
      tx.write(first.next, link);
      tx.write(first.number, i);
    });
}

// Its log holds several versions and, if there is much, more pages than are patched at once.
Bytes make_store(Kind kind) {
  MemoryFile file;
  file.resize(kPageBytes);
  const std::string uri = "file:" + file.path();
  {
    Options made = options(0);
    if (kind == Kind::kCopies) made.engine = Engine::kDualCopy;
    Store store = Store::open(uri, made);
    for (int i = 0; i < 40; ++i) {
      void* block = store.allocate(static_cast<size_t>(16 + i * 90));
      fill(store, block, 16, i);
      if (i % 10 == 1) store.set_root("root " + std::to_string(i), block);
      else if (i % 3 == 0) store.deallocate(block);
    }
    store.set_root("large", store.allocate(kind == Kind::kCrashedWithMuch ? 400 * kKiB : kMiB / 8));
    store.close();
  }
  if (kind == Kind::kClosed) return file.read();
  Store store = Store::open(uri, options(0));
  auto* const large = static_cast<std::byte*>(store.get_root("large"));
  if (kind == Kind::kCrashedWithMuch)
    for (u64 page = 0; page < 400 * kKiB; page += kPageBytes) fill(store, large + page, 8, 1);
  store.checkpoint();
  for (int version = 0; version < 3; ++version) {
    fill(store, large + version * 5000, 300, version);
    store.set_root("root", store.allocate(32));
    store.checkpoint();
  }
  if (kind == Kind::kTransactions) transact(store);
  Bytes image = file.read();
  store.close();
  return image;
}

void find_log_blocks(Base& base, const Extent& extent, u64 segment_bytes) {
  for (u64 segment = 0; segment < extent.length; segment += segment_bytes) {
    u64 used = 0;
    while (used + sizeof(LogBlockHeader) <= segment_bytes) {
      const u64 place = extent.medium_offset + segment + used;
      const auto header = load<LogBlockHeader>(base.image, place);
      if (header.magic != format::kLogBlockMagic) break;
      base.blocks.push_back(place);
      used += header.block_bytes;
    }
  }
}

void find_transactions(Base& base) {
  for (const u64 segment : base.blocks) {
    const auto header = load<LogBlockHeader>(base.image, segment);
    if ((header.flags & format::kLogTransactions) == 0) continue;
    for (u64 at = sizeof header; at + sizeof(RecordHeader) <= header.block_bytes;) {
      const auto record = load<RecordHeader>(base.image, segment + at);
      if (record.bytes != 0) base.records[segment + at] = segment;
      at += std::max(round_up(record.bytes, kLineBytes), kLineBytes);
    }
  }
}

/// Region offsets.
struct HeapPlaces {
  std::vector<u64> slabs;
  std::vector<u64> roots;
};

// Units and roots do not move between the first close and the crash, but for the last root.
HeapPlaces find_heap(const Base& base) {
  const auto bytes_at = [&](u64 offset) {
    const std::vector<Extent> homes = base.homes(offset);
    require(!homes.empty(), "the heap has a home");
    return region::HomeMap::page_place(homes.front(), offset);
  };
  HeapPlaces found;
  const auto header = load<format::HeapHeader>(base.image, bytes_at(0));
  for (u64 unit = 0; unit < header.units_end; ++unit) {
    const auto entry = load<format::UnitEntry>(
        base.image, bytes_at(format::kUnitTableOffset + unit * sizeof(format::UnitEntry)));
    if (entry.kind == format::UnitKind::kSlab)
      found.slabs.push_back(header.data_begin + unit * format::kUnitBytes);
  }
  for (u64 at = header.roots; at != 0;) {
    found.roots.push_back(at);
    at = load<format::RootNode>(base.image, bytes_at(at)).next;
  }
  return found;
}

Base make_base(Kind kind) {
  Base base;
  base.image = make_store(kind);
  base.heads = read_heads(base.image);
  for (const Extent& extent : base.heads.extents)
    if (extent.kind == ExtentKind::kLog)
      find_log_blocks(base, extent, base.heads.superblock.segment_bytes);
  std::vector<u64> runs;  // of each block
  for (const u64 block : base.blocks)
    runs.push_back(block + sizeof(LogBlockHeader) +
                   load<LogBlockHeader>(base.image, block).data_bytes);
  const HeapPlaces heap = find_heap(base);
  require(!heap.slabs.empty() && !heap.roots.empty(), "the store has slabs and roots");
  require(kind == Kind::kClosed || kind == Kind::kCopies || base.blocks.size() >= 3,
          "its log has blocks");
  find_transactions(base);
  require((kind == Kind::kTransactions) == (base.records.size() >= 12), "it has transactions");
  base.areas = head_areas(base.heads);
  base.areas.insert(
      base.areas.end(),
      {{{format::kOwnerOffset}, 128},
       {base.blocks, sizeof(LogBlockHeader)},
       {.places = runs, .bytes = 64 * sizeof(u64), .step = sizeof(u64)},
       {.places = {0}, .bytes = sizeof(format::HeapHeader), .in_region = true},
       {.places = {format::kUnitTableOffset}, .bytes = 512, .in_region = true},
       {.places = heap.slabs, .bytes = 1200, .in_region = true},
       {.places = heap.roots, .bytes = sizeof(format::RootNode) + 8, .in_region = true},
       {.places = {0}, .bytes = u64{1} << 32, .in_region = true},  // most of it is nowhere
       {{0}, base.image.size()}});                                 // any byte of the medium
  std::vector<u64> records;
  for (const auto& [record, segment] : base.records) records.push_back(record);
  // Most of it is in the first ones: heads and entries.
  if (!records.empty()) base.areas.push_back({records, 128, sizeof(u32)});
  return base;
}

const Base& base_of(u8 store) {
  static const std::array<Base, kKinds> bases = {
      make_base(Kind::kClosed), make_base(Kind::kCrashed), make_base(Kind::kCrashedWithMuch),
      make_base(Kind::kTransactions), make_base(Kind::kCopies)};
  return bases[store >= kFirstOfCopies ? kKinds - 1 : store % (kKinds - 1)];
}

// --- patches -------------------------------------------------------------------------------------

/// An image to be changed, and then summed again.
struct Image {
  const Base& base;
  Bytes bytes = base.image;
  std::set<u64> pages{};  ///< region offsets of changed pages

  void apply(const Patch& patch);
  void change_region(u64 offset, const Patch& patch);
  void sum(u8 unsummed);
  void sum_pages();
  void sum_log(u8 unsummed);
  void sum_chains();
  void sum_transactions();
};

// At home and wherever the log holds that place.
void Image::change_region(u64 offset, const Patch& patch) {
  const std::vector<Extent> homes = base.homes(offset);
  if (homes.empty()) return;
  for (const Extent& home : homes)
    change(bytes, region::HomeMap::page_place(home, offset), patch, kValues);
  pages.insert(round_down(offset, kPageBytes));
  for (const u64 block : base.blocks) {
    const auto header = load<LogBlockHeader>(base.image, block);
    u64 data = block + sizeof header;
    for (u32 i = 0; i < header.run_count; ++i) {
      const u64 run =
          load<u64>(base.image, block + sizeof header + header.data_bytes + i * sizeof(u64));
      const u64 begin = format::run_first(run) * kLineBytes;
      const u64 length = format::run_count(run) * kLineBytes;
      if (offset - begin < length) change(bytes, data + (offset - begin), patch, kValues);
      data += length;
    }
  }
}

void Image::apply(const Patch& patch) {
  const Area& area = base.areas[patch.area % base.areas.size()];
  if (area.places.empty()) return;
  if (area.in_region) change_region(area.place_of(patch), patch);
  else change(bytes, area.place_of(patch), patch, kValues);
}

// --- sums ----------------------------------------------------------------------------------------

void Image::sum_pages() {
  for (const u64 page : pages)
    for (const Extent& home : base.homes(page))
      store(
          bytes, region::HomeMap::checksum_place(home, page),
          page_checksum(bytes.data() + region::HomeMap::page_place(home, page), page / kLineBytes));
}

void Image::sum_log(u8 unsummed) {
  for (const u64 block : base.blocks) {
    auto header = load<LogBlockHeader>(bytes, block);
    const u64 room = std::min<u64>(bytes.size() - block, kMiB) - sizeof header;
    const u64 runs_bytes = u64{header.run_count} * sizeof(u64);
    if ((unsummed & kSumLogBodies) == 0 && header.data_bytes + runs_bytes <= room) {
      const std::byte* data = bytes.data() + block + sizeof header;
      header.data_checksum = pieces_checksum(data, header.data_bytes, format::kLogPieceBytes);
      header.runs_checksum = checksum(data + header.data_bytes, runs_bytes);
    }
    if ((unsummed & kSumLogHeaders) == 0) header.checksum = log::header_checksum(header);
    store(bytes, block, header);
  }
}

void Image::sum_chains() {
  for (const u64 place : base.blocks) {
    auto commit = load<LogBlockHeader>(bytes, place);
    if ((commit.flags & format::kLogCommit) == 0) continue;
    commit.chain = 0;
    for (const u64 block : base.blocks) {
      const auto header = load<LogBlockHeader>(bytes, block);
      if (block != place && header.version == commit.version && header.session == commit.session &&
          header.ticket == commit.ticket)
        commit.chain += header.checksum;
    }
    commit.checksum = log::header_checksum(commit);
    store(bytes, place, commit);
  }
}

void Image::sum_transactions() {
  for (const auto& [place, segment] : base.records) {
    const auto header = load<LogBlockHeader>(bytes, segment);
    const u64 length = header.records == format::kRecordLayout
                           ? load<RecordHeader>(bytes, place).bytes
                           : load<RecordHeaderV3>(bytes, place).bytes;
    if (length < sizeof(RecordHeader) || length > bytes.size() - place) continue;
    store(bytes, place,
          log::record_checksum(bytes.data() + place, length, place,
                               {header.session, header.generation}));
  }
}

void Image::sum(u8 unsummed) {
  if ((unsummed & kSumPages) == 0) sum_pages();
  sum_log(unsummed);
  if ((unsummed & kSumLogChains) == 0) sum_chains();
  if ((unsummed & kSumTransactions) == 0) sum_transactions();
  sum_heads(bytes, (unsummed & kSumDirectory) == 0, (unsummed & kSumSuperblocks) == 0);
}

}  // namespace
}  // namespace perdura::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace perdura;
  using namespace perdura::fuzz;
  static MemoryFile file;
  Input input(data, size);
  const auto head = input.take<Head>();
  const Bytes bytes = patched(Image{base_of(head.store)}, head, input);
  file.write(bytes);
  const std::string uri = ((head.how & kBlockMedium) != 0 ? "file:" : "emu:") + file.path();
  if (!bytes.empty()) {
    look(uri, {(head.how & kNoCheck) == 0, (head.how & kNoDescription) == 0});
    require(file.holds(bytes), "looking at a store changes nothing");
  }
  if ((head.how & kNoOpening) == 0)
    open_and_use(uri, options(head.how), {(head.how & kDrop) != 0, (head.how & kNoReopening) == 0});
  return 0;
}

#ifdef PERDURA_LIBFUZZER
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  using namespace perdura::fuzz;
  return mutate({data, size, max_size}, base_of(kKinds - 2).areas.size(), seed);
}
#endif
