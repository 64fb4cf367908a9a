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

constexpr u64 kRegionAddress = 0x552000000000;
constexpr u64 kRegionBytes = 16 * kMiB;
constexpr u32 kChunkBytes = 4096;
constexpr u32 kKept = 3;
constexpr size_t kPatchesMax = 64;

/// How an input begins.
struct Head {
  u8 store;       ///< which of the stores
  u8 how;         ///< bits of How
  u8 unsummed;    ///< bits of Sum
  u8 truncation;  ///< pages that the end of the medium lacks
};

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

/// Sums that are left as they are.
enum Sum : u8 { kSumMap = 1, kSumRecords = 2, kSumDirectory = 4, kSumSuperblocks = 8 };

/// What a patch changes.
enum class Area : u8 {
  kSuperblock,  ///< the newest
  kOlderSuperblock,
  kDirectory,
  kRecord,  ///< but for its entries
  kTop,     ///< an entry of a record
  kNode,    ///< an entry of a map node
  kHeapHeader,
  kUnits,
  kChunk,
  kMedium,  ///< any byte
  kAreas,
};

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
  std::vector<u64> nodes;
  std::vector<Link> links;  ///< chunks first
  std::vector<u64> chunks;  ///< of the newest version, in the region's order
  std::vector<u64> values;  ///< that mean something
};

// --- the stores ----------------------------------------------------------------------------------

Options options(u8 how) {
  Options chosen;
  chosen.engine = Engine::kRemap;
  chosen.chunk_bytes = kChunkBytes;
  chosen.versions_kept = kKept;
  chosen.over_provisioning = 0;
  chosen.tracking = (how & kPageTracker) != 0 ? Tracking::kProtect : Tracking::kReported;
  chosen.region_limit_bytes = kRegionBytes;
  chosen.region_address = kRegionAddress;
  chosen.lazy_recovery = false;  // touching a damaged chunk ends the program
  chosen.huge_pages = false;
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
      if (i % 3 == 0) store.deallocate(block);
      if (i % 10 == 1) {
        store.set_root("root " + std::to_string(i), block);
        version = store.checkpoint();
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
  const auto rolled = store::roll_back(uri, version - 1, {}, [](const char*, u64, u64) {});
  require(static_cast<bool>(rolled), "a store rolls back");
  return file.read();
}

void find_links(Base& base, u64 first_entry, u64 entries, u32 level, std::vector<Link>& found) {
  for (u64 i = 0; i < entries; ++i) {
    const u64 at = first_entry + i * sizeof(ChunkEntry);
    const auto entry = load<ChunkEntry>(base.image, at);
    if (entry.place == 0) continue;
    found.push_back({at, level, level == 0 ? kChunkBytes : kNodeBytes});
    base.values.push_back(entry.place);
    if (level == 0) continue;
    base.nodes.push_back(entry.place);
    find_links(base, entry.place, format::kNodeEntries, level - 1, found);
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
      find_links(base, place + offsetof(VersionRecord, top), format::kTopEntries, record.levels,
                 base.links);
      base.newest = std::max(base.newest, record.version);
    }
  }
  std::sort(base.links.begin(), base.links.end(), [](const Link& a, const Link& b) {
    return std::tie(a.level, a.entry) < std::tie(b.level, b.entry);
  });
  for (const Link& link : base.links)
    if (link.level == 0) base.chunks.push_back(load<ChunkEntry>(base.image, link.entry).place);
  for (const u64 value : {u64{0}, u64{1}, u64{kPageBytes}, format::kDataBegin, kRegionBytes,
                          u64{1} << 47, u64{1} << 56, u64{1} << 63, ~u64{0}, ~u64{0} - 4095})
    base.values.push_back(value);
  require(base.records.size() >= 4 && !base.chunks.empty(), "the store keeps versions");
  require(kind != Kind::kWithNodes || !base.nodes.empty(), "its map has nodes");
  return base;
}

const Base& base_of(u8 store) {
  static const std::array<Base, kKinds> bases = {
      make_base(Kind::kSmall), make_base(Kind::kWithNodes), make_base(Kind::kRolledBack)};
  return bases[store % kKinds];
}

// --- patches -------------------------------------------------------------------------------------

/// An image to be changed, and then summed again.
class Image {
 public:
  explicit Image(const Base& base) : base_(base), bytes_(base.image) {}

  void apply(const Patch& patch);
  void sum(u8 unsummed);
  const Bytes& bytes() const { return bytes_; }

 private:
  void change(u64 place, const Patch& patch) {
    const size_t width = size_t{1} << (patch.width & 3);
    if (place + width > bytes_.size()) return;
    fuzz::change(bytes_.data() + place, width, patch.how, patch.value, base_.values);
  }

  const Base& base_;
  Bytes bytes_;
};

void Image::apply(const Patch& patch) {
  const auto one_of = [&](const std::vector<u64>& places) {
    return places[patch.item % places.size()];
  };
  const u64 offset = patch.offset;
  const u32 newest = base_.heads.newest;
  const format::Superblock& superblock = base_.heads.superblock;
  switch (static_cast<Area>(patch.area % static_cast<u8>(Area::kAreas))) {
    case Area::kSuperblock:
      return change(format::kSuperblockOffset[newest] + offset % 256, patch);
    case Area::kOlderSuperblock:
      return change(format::kSuperblockOffset[newest ^ 1] + offset % 256, patch);
    case Area::kDirectory:
      return change(format::kDirectoryOffset[superblock.directory_slot] +
                        offset % (superblock.directory_bytes + sizeof(format::Extent)),
                    patch);
    case Area::kRecord:
      return change(one_of(base_.records) + offset % offsetof(VersionRecord, reserved), patch);
    case Area::kTop:
      return change(one_of(base_.records) + offsetof(VersionRecord, top) +
                        offset % sizeof(VersionRecord::top),
                    patch);
    case Area::kNode:
      if (!base_.nodes.empty()) change(one_of(base_.nodes) + offset % kNodeBytes, patch);
      return;
    case Area::kHeapHeader:
      return change(base_.chunks.front() + offset % sizeof(format::HeapHeader), patch);
    case Area::kUnits:
      return change(base_.chunks.front() + format::kUnitTableOffset % kChunkBytes + offset % 512,
                    patch);
    case Area::kChunk:
      return change(one_of(base_.chunks) + offset % kChunkBytes, patch);
    default:
      return change(offset % bytes_.size(), patch);
  }
}

// What an entry leads to now, wherever that is.
void Image::sum(u8 unsummed) {
  for (const Link& link : base_.links) {
    if ((unsummed & kSumMap) != 0) break;
    auto entry = load<ChunkEntry>(bytes_, link.entry);
    if (entry.place >= bytes_.size() || bytes_.size() - entry.place < link.length) continue;
    if (entry.place != 0) entry.checksum = checksum(bytes_.data() + entry.place, link.length);
    store(bytes_, link.entry, entry);
  }
  for (const u64 place : base_.records) {
    if ((unsummed & kSumRecords) != 0) break;
    constexpr size_t kFrom = sizeof(VersionRecord::checksum);
    store(bytes_, place, checksum(bytes_.data() + place + kFrom, sizeof(VersionRecord) - kFrom));
  }
  sum_heads(bytes_, kRegionAddress, (unsummed & kSumDirectory) == 0,
            (unsummed & kSumSuperblocks) == 0);
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
  Image image(base);
  for (size_t i = 0; i < kPatchesMax && !input.empty(); ++i) image.apply(input.take<Patch>());
  image.sum(head.unsummed);
  const std::span<const std::byte> bytes(image.bytes());
  const auto kept =
      bytes.first(bytes.size() - std::min<u64>(head.truncation * kPageBytes, bytes.size()));
  file.write(kept);
  const std::string uri = ((head.how & kBlockMedium) != 0 ? "file:" : "emu:") + file.path();
  if (!kept.empty()) {
    look(uri, {(head.how & kNoCheck) == 0, (head.how & kNoDescription) == 0});
    if ((head.how & kOlder) != 0) open_older(uri, head.how, base.newest - 1);
    require(file.holds(kept), "looking at a store changes nothing");
  }
  if ((head.how & kRollBack) != 0) {
    const auto made = store::roll_back(uri, base.newest - 1, {}, [](const char*, u64, u64) {});
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
  if (size > offsetof(Head, truncation)) data[offsetof(Head, truncation)] &= 1;
  return mutate<Head>({data, size, max_size}, static_cast<unsigned>(Area::kAreas), kPatchesMax,
                      seed);
}
#endif
