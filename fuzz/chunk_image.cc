// Goal: whatever the medium of a store in chunks holds, checking, describing and opening it,
// opening an older version and going back to one end with a sentence or with a store that works;
// nothing crashes, hangs, leaks or reads out of bounds. Method: the input chooses one of three
// stores, made here, and overwrites fields of its structures: superblocks, directory, version
// records, map nodes, chunks. Then all checksums are made to fit again, from the chunks up, so that
// maps lead to wrong places with sums that fit; the input may exempt any of them.
#include "commit/version_map.hpp"
#include "format/heap_format.hpp"
#include "format/remap_format.hpp"
#include "store/versions.hpp"
#include "support/heads.hpp"
#include "support/opened.hpp"
#include "support/patch.hpp"

namespace perdura::fuzz {
namespace {

using format::ChunkEntry;
using format::kNodeBytes;
using format::VersionRecord;

constexpr u32 kChunkBytes = 4096;
constexpr u32 kKept = 3;

/// Bits of Head::how.
enum How : u8 {
  kBlockMedium = 1,
  kPageTracker = 2,
  kDrop = 4,
  kNoCheck = 8,
  kNoDescription = 16,
  kNoOpening = 32,
  kOlder = 64,  ///< open an older version first
  kRollBack = 128,
};

/// Bits of Head::unsummed.
enum Sum : u8 { kSumMap = 1, kSumRecords = 2, kSumDirectory = 4, kSumSuperblocks = 8 };

/// An entry of a map: where it is, and what it leads to.
struct Link {
  u64 entry;
  u32 level;
  u64 length;
};

/// A store's bytes as a run begins, and where its structures are.
struct Base {
  Bytes image;
  Heads heads;
  u64 newest = 0;            ///< version
  std::vector<u64> records;  ///< both copies of all
  std::vector<Link> links;   ///< chunks first
  std::vector<Area> areas;
  std::vector<u64> values;  ///< that mean something
};

// --- the stores ----------------------------------------------------------------------------------

Options options(u8 how) {
  Options chosen = small_store((how & kPageTracker) != 0);
  chosen.engine = Engine::kRemap;
  chosen.chunk_bytes = kChunkBytes;
  chosen.versions_kept = kKept;
  chosen.over_provisioning = 0;
  chosen.lazy_recovery = false;  // touching a damaged chunk ends the program
  return chosen;
}

enum class Kind { kSmall, kWithNodes, kRolledBack };
constexpr size_t kKinds = 3;

Bytes make_store(Kind kind) {
  MemoryFile file;
  file.resize(kPageBytes);
  const std::string uri = "file:" + file.path();
  Bytes crashed;
  u64 version = 0;
  {
    Store store = Store::open(uri, options(0));
    for (int i = 0; i < 40; ++i) {
      void* block = store.allocate(static_cast<size_t>(16 + i * 90));
      fill(store, block, 16, i);
      if (i % 10 == 1) {
        store.set_root("root " + std::to_string(i), block);
        version = store.checkpoint();
      } else if (i % 3 == 0) {
        store.deallocate(block);
      }
    }
    if (kind == Kind::kWithNodes) {
      auto* const large = static_cast<std::byte*>(store.allocate(kMiB));
      for (u64 at = 0; at < kMiB; at += kMiB / 8) fill(store, large + at, 8, 1);
      store.checkpoint();
      fill(store, large, 8, 2);
      store.checkpoint();
    }
    crashed = file.read();
    store.close();
  }
  if (kind != Kind::kRolledBack) return crashed;
  const auto rolled = store::roll_back(uri, {}, version - 1, {});
  require(static_cast<bool>(rolled), "a store rolls back");
  return file.read();
}

void find_links(Base& base, u64 first_entry, u64 entries, u32 level) {
  for (u64 i = 0; i < entries; ++i) {
    const u64 at = first_entry + i * sizeof(ChunkEntry);
    const auto entry = load<ChunkEntry>(base.image, at);
    if (entry.place == 0) continue;
    base.links.push_back({at, level, level == 0 ? kChunkBytes : kNodeBytes});
    base.values.push_back(entry.place);
    if (level != 0) find_links(base, entry.place, format::kNodeEntries, level - 1);
  }
}

Base make_base(Kind kind) {
  Base base;
  base.image = make_store(kind);
  base.heads = read_heads(base.image);
  const format::RegionRecord& region = base.heads.regions.front();
  for (const format::Extent& extent : base.heads.extents) {
    base.values.push_back(extent.medium_offset);
    if (extent.kind != format::ExtentKind::kVersions) continue;
    for (u64 at = 0; at < extent.length; at += format::kVersionRecordBytes) {
      const u64 place = extent.medium_offset + at;
      const auto record = load<VersionRecord>(base.image, place);
      if (record.magic != format::kVersionMagic) continue;
      base.records.push_back(place);
      if (record.version + region.versions_kept <= base.newest) continue;
      find_links(base, place + offsetof(VersionRecord, top), format::kTopEntries, record.levels);
      base.newest = std::max(base.newest, record.version);
    }
  }
  std::sort(base.links.begin(), base.links.end(), [](const Link& a, const Link& b) {
    return std::tie(a.level, a.entry) < std::tie(b.level, b.entry);
  });
  std::vector<u64> tops;    // the entries of records
  std::vector<u64> chunks;  // of the newest version, in the region's order
  std::vector<u64> nodes;
  for (const u64 record : base.records) tops.push_back(record + offsetof(VersionRecord, top));
  for (const Link& link : base.links)
    (link.level == 0 ? chunks : nodes).push_back(load<ChunkEntry>(base.image, link.entry).place);
  for (const u64 value : {u64{0}, u64{1}, u64{kPageBytes}, format::kDataBegin, kRegionBytes,
                          u64{1} << 47, u64{1} << 56, u64{1} << 63, ~u64{0}, ~u64{0} - 4095})
    base.values.push_back(value);
  require(base.records.size() >= 4 && !chunks.empty(), "the store keeps versions");
  require(kind != Kind::kWithNodes || !nodes.empty(), "its map has nodes");
  const u64 heap = chunks.front();
  const u64 units = heap + format::kUnitTableOffset % kChunkBytes;
  base.areas = head_areas(base.heads);
  base.areas.insert(base.areas.end(), {{base.records, offsetof(VersionRecord, reserved)},
                                       {tops, sizeof(VersionRecord::top)},
                                       {nodes, kNodeBytes},
                                       {{heap}, sizeof(format::HeapHeader)},
                                       {{units}, 512},
                                       {chunks, kChunkBytes},
                                       {{0}, base.image.size()}});  // any byte of the medium
  return base;
}

const Base& base_of(u8 store) {
  static const std::array<Base, kKinds> bases = {
      make_base(Kind::kSmall), make_base(Kind::kWithNodes), make_base(Kind::kRolledBack)};
  return bases[store % kKinds];
}

// --- patches -------------------------------------------------------------------------------------

/// An image to be changed, and then summed again.
struct Image {
  const Base& base;
  Bytes bytes = base.image;

  void apply(const Patch& patch) {
    const Area& area = base.areas[patch.area % base.areas.size()];
    if (!area.places.empty()) change(bytes, area.place_of(patch), patch, base.values);
  }
  void sum(u8 unsummed);
};

// What an entry leads to now, wherever that is.
void Image::sum(u8 unsummed) {
  for (const Link& link : base.links) {
    if ((unsummed & kSumMap) != 0) break;
    auto entry = load<ChunkEntry>(bytes, link.entry);
    if (entry.place >= bytes.size() || bytes.size() - entry.place < link.length) continue;
    if (entry.place != 0) entry.checksum = checksum(bytes.data() + entry.place, link.length);
    store(bytes, link.entry, entry);
  }
  for (const u64 place : base.records) {
    if ((unsummed & kSumRecords) != 0) break;
    constexpr size_t kFrom = sizeof(VersionRecord::checksum);
    store(bytes, place, checksum(bytes.data() + place + kFrom, sizeof(VersionRecord) - kFrom));
  }
  sum_heads(bytes, (unsummed & kSumDirectory) == 0, (unsummed & kSumSuperblocks) == 0);
}

// --- the run -------------------------------------------------------------------------------------

void open_older(const std::string& uri, u8 how, u64 version) {
  try {
    Options chosen = options(how);
    chosen.version = version;
    Store store = Store::open(uri, chosen);
    use(store);
    finding("an older version takes a checkpoint");
  } catch (const Error& error) {
    require(*error.what() != '\0', "a refusal says why");
  }
}

}  // namespace
}  // namespace perdura::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace perdura;
  using namespace perdura::fuzz;
  static MemoryFile file;
  Input input(data, size);
  const auto head = input.take<Head>();
  const Base& base = base_of(head.store);
  const Bytes bytes = patched(Image{base}, head, input);
  file.write(bytes);
  const std::string uri = ((head.how & kBlockMedium) != 0 ? "file:" : "emu:") + file.path();
  if (!bytes.empty()) {
    look(uri, {(head.how & kNoCheck) == 0, (head.how & kNoDescription) == 0});
    if ((head.how & kOlder) != 0) open_older(uri, head.how, base.newest - 1);
    require(file.holds(bytes), "looking at a store changes nothing");
  }
  if ((head.how & kRollBack) != 0) {
    const auto made = store::roll_back(uri, {}, base.newest - 1, {});
    if (!made) require(!made.failure().message.empty(), "a refusal says why");
  }
  if ((head.how & kNoOpening) == 0)
    open_and_use(uri, options(head.how), {(head.how & kDrop) != 0, true});
  return 0;
}

#ifdef PERDURA_LIBFUZZER
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  using namespace perdura::fuzz;
  return mutate({data, size, max_size}, base_of(0).areas.size(), seed);
}
#endif
