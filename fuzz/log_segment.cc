// Goal: whatever the log's segments hold, reading the log finds the versions that are whole,
// refuses a hole, and never reads out of bounds. Method: the input is a list of blocks to lay into
// the segments of a formatted medium, what is wrong with each, and fields to overwrite. All
// checksums are made to fit afterwards, unless the damage is that they do not. A model that knows
// the blocks, and not their bytes, says which versions are to be found. Overwritten fields are
// beyond the model: then only the rules that hold for every log are checked.
#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "base/checksum.hpp"
#include "commit/replay.hpp"
#include "log/reader.hpp"
#include "region/volume.hpp"
#include "support/target.hpp"

namespace perdura::fuzz {
namespace {

using format::LogBlockHeader;

constexpr u32 kRegion = 1;
constexpr u64 kRegionBytes = kMiB;
constexpr size_t kSegments = 2;
constexpr u64 kReplayed = 3;
constexpr u64 kLiveGeneration = 5;
constexpr size_t kOpsMax = 64;

enum class Damage : u8 {
  kNone,
  kHeader,    ///< a bit of the header
  kData,      ///< a bit of the data
  kRuns,      ///< a bit of the runs
  kTorn,      ///< the end of the block was never written
  kMissing,   ///< nor was any of it
  kLongRuns,  ///< the runs tell of more lines than there are data
  kCount,     ///< the commit block counts another block
  kChain,     ///< and sums another checksum
  kKinds,
};

/// One step of the input.
struct Op {
  u8 kind;  ///< 255: overwrite a field; else a block
  u8 segment;
  u8 version;
  u8 ticket;
  u8 flags;  ///< 1: commit, 2: another region, 4: the next generation, 8: a stale generation
  u8 runs;
  u8 damage;
  u8 value;
};

/// A block as the model knows it.
struct Block {
  Op op;
  u64 place = 0;
  LogBlockHeader header{};
  Damage damage = Damage::kNone;

  bool commits() const { return (header.flags & format::kLogCommit) != 0; }
  bool readable() const { return damage != Damage::kHeader && damage != Damage::kMissing; }
  bool whole() const {
    return readable() && damage != Damage::kData && damage != Damage::kRuns &&
           damage != Damage::kTorn && damage != Damage::kLongRuns;
  }
};

/// An empty log of kSegments segments, and where they are.
struct Formatted {
  Bytes image;
  std::array<u64, kSegments> segments;
  u64 segment_bytes;
  u64 store_id;
};

template <class T>
T take(Result<T> result) {
  if (!result) finding("preparing: " + result.failure().message);
  return std::move(*result);
}
void take(const Status& status) {
  if (!status) finding("preparing: " + status.failure().message);
}

std::unique_ptr<region::Volume> open_volume(const std::string& uri) {
  media::OpenedMedium opened = take(media::open_medium(uri, {.create = false}));
  return take(region::Volume::open(std::move(opened.medium)));
}

Formatted make_formatted() {
  MemoryFile file;
  file.resize(kPageBytes);
  Formatted made;
  {
    media::OpenedMedium opened = take(media::open_medium("emu:" + file.path(), {}));
    auto volume = take(region::Volume::create(std::move(opened.medium), format::kSegmentBytesMax));
    format::RegionRecord record{};
    record.engine = format::EngineId::kRedoLog;
    record.region = kRegion;
    record.name[0] = 'r';
    record.address = kRegionAddress;
    record.limit_bytes = kRegionBytes;
    take(volume->add_region(record));
    made.segment_bytes = volume->superblock().segment_bytes;
    const auto extent = take(volume->allocate_log(kRegion, kSegments * made.segment_bytes));
    take(volume->allocate_home(kRegion, 0, kRegionBytes));
    take(volume->set_replayed(kRegion, kReplayed, kLiveGeneration));
    for (size_t i = 0; i < kSegments; ++i)
      made.segments[i] = extent.medium_offset + i * made.segment_bytes;
    made.store_id = volume->store_id();
  }
  made.image = file.read();
  return made;
}

const Formatted& formatted() {
  static const Formatted made = make_formatted();
  return made;
}

/// A log made from an input, in an image of the medium.
class LogBuilder {
 public:
  LogBuilder() : image_(formatted().image) { places_.fill(0); }

  void build(Input& input, u64 write_bytes) {
    write_bytes_ = write_bytes;
    std::vector<Op> fields;
    for (size_t i = 0; i < kOpsMax && !input.empty(); ++i) {
      const Op op = input.take<Op>();
      if (op.kind == 255) fields.push_back(op);
      else lay(op);
    }
    // A commit block sums all others that are there when it is written.
    for (Block& block : blocks_)
      if (!block.commits()) seal(block);
    for (Block& block : blocks_)
      if (block.commits()) seal_commit(block);
    for (const Op& field : fields) overwrite(field);
    for (const Block& block : blocks_) damage(block);
  }

  const Bytes& image() const { return image_; }
  bool exact() const { return exact_; }

  /// The versions to be found; nothing when the log is to be refused.
  std::optional<std::vector<const Block*>> expected() const {
    std::map<u64, std::vector<const Block*>> found;
    for (size_t segment = 0; segment < kSegments; ++segment) {
      u64 generation = 0;
      // A segment that begins with nothing, or with a block of an earlier use, is over.
      const auto begin =
          image_.begin() + static_cast<std::ptrdiff_t>(formatted().segments[segment]);
      constexpr std::ptrdiff_t kHeadBytes = 2 * kPageBytes;
      if (std::all_of(begin, begin + kHeadBytes, [](std::byte b) { return b == std::byte{}; }))
        continue;
      for (const Block& block : blocks_) {
        if (block.op.segment != segment) continue;
        const bool first = block.place == formatted().segments[segment];
        if (first && block.readable() && block.header.generation < kLiveGeneration) break;
        if (!block.readable()) continue;
        if (generation == 0) generation = block.header.generation;
        if (block.header.generation != generation) continue;
        if (block.header.region == kRegion && block.header.version > kReplayed)
          found[block.header.version].push_back(&block);
      }
    }
    std::vector<const Block*> commits;
    u64 next = kReplayed + 1;
    for (; found.contains(next); ++next) {
      const Block* commit = newest_whole(found[next]);
      if (commit == nullptr) break;
      commits.push_back(commit);
    }
    if (!found.empty() && found.rbegin()->first > next) return std::nullopt;
    return commits;
  }

 private:
  // The commit block of the version's last attempt that is whole.
  static const Block* newest_whole(const std::vector<const Block*>& blocks) {
    const Block* newest = nullptr;
    for (const Block* commit : blocks) {
      if (!commit->commits()) continue;
      u32 count = 0;
      u64 chain = 0;
      bool whole = true;
      for (const Block* block : blocks) {
        if (block->header.ticket != commit->header.ticket) continue;
        ++count;
        whole = whole && block->whole();
        if (block != commit) chain += block->header.checksum;
      }
      if (whole && count == commit->header.block_count && chain == commit->header.chain &&
          (newest == nullptr || commit->header.ticket > newest->header.ticket))
        newest = commit;
    }
    return newest;
  }

  void lay(Op op) {
    op.segment %= kSegments;
    u64& used = places_[op.segment];
    Block block{.op = op, .place = formatted().segments[op.segment] + used};
    block.damage = static_cast<Damage>(op.damage % static_cast<u8>(Damage::kKinds));
    LogBlockHeader& header = block.header;
    header.store_id = formatted().store_id;
    header.generation =
        (op.flags & 8) != 0 ? kLiveGeneration - 1 : kLiveGeneration + ((op.flags & 4) != 0 ? 1 : 0);
    header.version = kReplayed + op.version % 5;
    header.ticket = op.ticket % 4;
    header.magic = format::kLogBlockMagic;
    header.flags = op.flags & format::kLogCommit;
    header.region = kRegion + ((op.flags & 2) != 0 ? 1 : 0);
    header.place = block.place;
    for (const Block& other : blocks_)
      if (other.header.version == header.version && other.header.ticket == header.ticket)
        ++header.sequence;
    std::vector<u64> runs;
    u64 lines = 0;
    for (u64 i = 0; i < op.runs % 6; ++i) {
      const u64 count = 1 + (op.value + i) % 40;
      runs.push_back(format::make_run((op.value * 37 + i * 64) % 16000, count));
      lines += count;
    }
    header.run_count = static_cast<u32>(runs.size());
    header.data_bytes = static_cast<u32>(lines * kLineBytes);
    const u64 bytes = sizeof header + header.data_bytes + runs.size() * sizeof(u64);
    header.block_bytes = static_cast<u32>(round_up(bytes, write_bytes_));
    if (used + header.block_bytes > formatted().segment_bytes) return;
    if (runs.empty() && (block.damage == Damage::kRuns || block.damage == Damage::kLongRuns ||
                         block.damage == Damage::kData || block.damage == Damage::kTorn))
      block.damage = Damage::kNone;
    if (block.damage == Damage::kLongRuns) runs.back() += u64{1} << format::kRunCountShift;
    for (u64 i = 0; i < header.data_bytes; ++i)
      image_[block.place + sizeof header + i] = static_cast<std::byte>(op.value + i % 251 + 1);
    for (size_t i = 0; i < runs.size(); ++i)
      store(image_, block.place + sizeof header + header.data_bytes + i * sizeof(u64), runs[i]);
    used += header.block_bytes;
    blocks_.push_back(block);
  }

  // Sums that fit.
  void seal(Block& block) {
    const std::byte* data = image_.data() + block.place + sizeof block.header;
    block.header.data_checksum =
        pieces_checksum(data, block.header.data_bytes, format::kLogPieceBytes);
    block.header.runs_checksum =
        checksum(data + block.header.data_bytes, block.header.run_count * sizeof(u64));
    block.header.checksum = log::header_checksum(block.header);
    store(image_, block.place, block.header);
  }

  void seal_commit(Block& commit) {
    for (const Block& other : blocks_) {
      if (other.header.version != commit.header.version ||
          other.header.ticket != commit.header.ticket)
        continue;
      ++commit.header.block_count;
      if (&other != &commit) commit.header.chain += other.header.checksum;
    }
    if (commit.damage == Damage::kCount) ++commit.header.block_count;
    if (commit.damage == Damage::kChain) ++commit.header.chain;
    seal(commit);
  }

  // A field of a header, or of what follows it, with sums that fit again where they can.
  void overwrite(const Op& op) {
    if (blocks_.empty()) return;
    exact_ = false;
    const u64 place = blocks_[op.segment % blocks_.size()].place;
    u32 value = 0;
    std::memcpy(&value, &op.ticket, sizeof value);
    store(image_, place + round_down(op.version, sizeof value), value);
    auto header = load<LogBlockHeader>(image_, place);
    const u64 room = image_.size() - place - sizeof header;
    const u64 runs_bytes = u64{header.run_count} * sizeof(u64);
    if (header.data_bytes + runs_bytes <= room && header.data_bytes <= formatted().segment_bytes) {
      const std::byte* data = image_.data() + place + sizeof header;
      header.data_checksum = pieces_checksum(data, header.data_bytes, format::kLogPieceBytes);
      header.runs_checksum = checksum(data + header.data_bytes, runs_bytes);
    }
    header.checksum = log::header_checksum(header);
    store(image_, place, header);
  }

  void damage(const Block& block) {
    const auto flip = [this](u64 place, u64 bit) {
      image_[place + bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    };
    const u64 data = block.place + sizeof block.header;
    const u64 runs = data + block.header.data_bytes;
    const u64 end = block.place + block.header.block_bytes;
    const auto zero = [this](u64 from, u64 to) {
      std::fill(image_.begin() + static_cast<std::ptrdiff_t>(from),
                image_.begin() + static_cast<std::ptrdiff_t>(to), std::byte{});
    };
    const u64 draw = u64{block.op.value} * 2654435761;
    switch (block.damage) {
      case Damage::kHeader:
        flip(block.place, draw % (sizeof block.header * 8));
        break;
      case Damage::kData:
        flip(data, draw % (u64{block.header.data_bytes} * 8));
        break;
      case Damage::kRuns:
        flip(runs, draw % (u64{block.header.run_count} * 64));
        break;
      case Damage::kTorn:
        zero(data + block.header.data_bytes / 2, end);
        break;
      case Damage::kMissing:
        zero(block.place, end);
        break;
      default:
        break;
    }
  }

  u64 write_bytes_ = kLineBytes;
  Bytes image_;
  std::array<u64, kSegments> places_;
  std::vector<Block> blocks_;
  bool exact_ = true;
};

// What holds for every version that was found, whatever the log is.
void check_version(media::Medium& medium, const Bytes& image, const log::LoggedVersion& version) {
  require(!version.blocks.empty(), "a version has blocks");
  const auto first = load<LogBlockHeader>(image, version.blocks.front().offset);
  const LogBlockHeader* commit = nullptr;
  std::vector<LogBlockHeader> headers;
  headers.reserve(version.blocks.size());
  u64 sums = 0;
  for (const log::BlockRef& block : version.blocks) {
    const Formatted& log = formatted();
    require(block.offset >= log.segments[0] &&
                block.offset + block.block_bytes <= log.segments[0] + kSegments * log.segment_bytes,
            "a block lies in the log");
    headers.push_back(load<LogBlockHeader>(image, block.offset));
    const LogBlockHeader& header = headers.back();
    require(header.checksum == log::header_checksum(header), "its header is whole");
    require(log::block_fits(medium, block.offset, image.data() + block.offset),
            "its data and runs are whole");
    require(header.data_bytes == block.data_bytes && header.run_count == block.run_count,
            "it is described as it is");
    require(header.version == version.number && header.ticket == first.ticket &&
                header.region == kRegion && header.store_id == log.store_id,
            "it belongs to this attempt at the version");
    u64 lines = 0;
    for (u32 i = 0; i < header.run_count; ++i)
      lines += format::run_count(
          load<u64>(image, block.offset + sizeof header + header.data_bytes + i * sizeof(u64)));
    require(lines * kLineBytes == header.data_bytes, "its runs tell of the lines it holds");
    sums += header.checksum;
  }
  for (const LogBlockHeader& header : headers)
    if ((header.flags & format::kLogCommit) != 0 && header.block_count == headers.size() &&
        header.chain == sums - header.checksum)
      commit = &header;
  require(commit != nullptr, "a commit block counts and sums the version's blocks");
}

void check(media::Medium& medium, const LogBuilder& log, const Result<log::Recovered>& result) {
  const auto expected = log.expected();
  if (!result) {
    require(result.failure().code == Code::kCorrupt, "a log is refused as damaged");
    require(!result.failure().message.empty(), "a refusal says why");
    require(!log.exact() || !expected, "a log without a hole is read");
    return;
  }
  require(!log.exact() || expected.has_value(), "a log with a hole is refused");
  u64 next = kReplayed;
  for (const log::LoggedVersion& version : result->versions) {
    require(version.number == ++next, "versions are consecutive");
    check_version(medium, log.image(), version);
  }
  if (!log.exact()) return;
  require(expected->size() == result->versions.size(), "every whole version is found");
  for (size_t i = 0; i < expected->size(); ++i) {
    const auto header =
        load<LogBlockHeader>(log.image(), result->versions[i].blocks.front().offset);
    require(header.ticket == (*expected)[i]->header.ticket, "the last attempt counts");
  }
}

}  // namespace
}  // namespace perdura::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace perdura;
  using namespace perdura::fuzz;
  static MemoryFile file;
  Input input(data, size);
  const bool nvm = (input.take<u8>() & 1) == 0;
  LogBuilder log;
  log.build(input, nvm ? kLineBytes : kPageBytes);
  file.write(log.image());
  const auto volume = open_volume((nvm ? "emu:" : "file:") + file.path());
  log::Space segments(*volume, kRegion, 0);
  const auto result = log::read(*volume, kRegion, kReplayed, segments);
  check(volume->medium(), log, result);
  if (!result) return 0;
  commit::LineIndex index = take(commit::LineIndex::create(kRegionBytes));
  if (!index.add(*result)) return 0;
  index.lines().for_each_page([&](u64 page, u64) {
    index.for_each_line(page, [](u64, const std::byte* bytes) {
      std::byte copy[kLineBytes];
      std::memcpy(copy, bytes, sizeof copy);
      volatile std::byte last = copy[kLineBytes - 1];
      (void)last;
    });
  });
  return 0;
}
