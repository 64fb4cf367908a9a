#include "log/reader.hpp"

#include <algorithm>
#include <cstring>
#include <future>
#include <map>
#include <optional>

#include "base/assert.hpp"
#include "base/checksum.hpp"
#include "base/mutant.hpp"
#include "base/threads.hpp"
#include "format/transaction_format.hpp"
#include "log/record.hpp"
#include "region/region.hpp"

namespace perdura::log {
namespace {

using format::LogBlockHeader;
using format::RecordHeader;
using format::RecordHeaderV3;

constexpr size_t kSegmentsAtOnce = 16;
// What is looked at of each segment first. More than a page, so that a page lost there hides only
// itself.
constexpr u64 kHeadBytes = 2 * kPageBytes;
static_assert(kHeadBytes <= format::kSegmentBytesMin);

struct FoundBlock {
  BlockRef ref;
  LogBlockHeader header;
  bool whole = false;
};

// A header of ours, written at this place, whose checksum fits.
bool header_fits(const std::byte* bytes, u64 store_id, u64 place) {
  const auto* header = reinterpret_cast<const LogBlockHeader*>(bytes);
  return header->magic == format::kLogBlockMagic && header->store_id == store_id &&
         header->place == place && header->checksum == header_checksum(*header);
}

/// The segments of a region, and the versions whose blocks they hold.
class Scanner {
 public:
  Scanner(region::Volume& volume, u32 region, u64 replayed, Space& space)
      : volume_(volume),
        segment_bytes_(volume.segment_bytes()),
        region_(region),
        replayed_(replayed),
        space_(space),
        medium_(volume.linear()),
        store_id_(volume.store_id()) {}

  Status find_live_segments() {
    const u64 live_generation = volume_.state(region_).live_generation;
    std::vector<u64> all;
    for (const format::Extent& extent : volume_.extents(format::ExtentKind::kLog, region_))
      for (u64 at = 0; at + segment_bytes_ <= extent.length; at += segment_bytes_)
        all.push_back(extent.medium_offset + at);
    AlignedBuffer heads(std::max<u64>(all.size(), 1) * kHeadBytes);
    std::vector<media::ReadRequest> requests;
    requests.reserve(all.size());
    for (size_t i = 0; i < all.size(); ++i)
      requests.push_back({all[i], heads.span().subspan(i * kHeadBytes, kHeadBytes)});
    PERDURA_TRY(medium_.load(requests));
    for (size_t i = 0; i < all.size(); ++i) {
      const std::byte* head = heads.data() + i * kHeadBytes;
      // Skip only what is surely not needed; a damaged head is read in full.
      if (!is_stale(all[i], head, live_generation) && !is_blank(all[i], head))
        offsets_.push_back(all[i]);
    }
    return {};
  }

  bool is_stale(u64 offset, const std::byte* head, u64 live_generation) {
    return medium_.whole(offset, head, sizeof(LogBlockHeader), PERDURA_SITE("segment head"),
                         [&](const std::byte* at) { return header_fits(at, store_id_, offset); }) &&
           reinterpret_cast<const LogBlockHeader*>(head)->generation < live_generation;
  }

  bool is_blank(u64 offset, const std::byte* head) {
    return medium_.whole(offset, head, kHeadBytes, PERDURA_SITE("blank segment"),
                         [](const std::byte* at) { return is_zero(at, kHeadBytes); });
  }

  const std::vector<u64>& record_segments() const { return record_segments_; }

  Status scan(Image& image) {
    return image.load(offsets_, [&](u64 offset) { scan_segment(offset, image.at(offset)); });
  }

  /// Those that are whole, up to the first that is not.
  std::vector<LoggedVersion> versions() {
    std::vector<LoggedVersion> recovered;
    u64 next = replayed_ + 1;
    for (auto it = blocks_.find(next); it != blocks_.end(); it = blocks_.find(++next)) {
      LoggedVersion version;
      if (!assemble(it->second, version)) break;
      version.number = next;
      recovered.push_back(std::move(version));
    }
    return recovered;
  }

  /// The last version of which there is anything: each before it was durable when that was written.
  u64 newest_begun() const { return blocks_.empty() ? replayed_ : blocks_.rbegin()->first; }

  /// What was durable cannot be missing behind `newest`. `begun`: no block of a later version than
  /// that is proof of one.
  Status check_complete(u64 newest, u64 begun) const {
    const u64 next = newest + 1;
    // A later version is written only after the barrier of the one before: a hole is damage.
    for (const auto& [number, blocks] : blocks_) {
      if (number <= next || next >= begun) continue;
      const FoundBlock& later = blocks.front();
      return Failure{Code::kCorrupt, "the log of '" + volume_.name() + "' is damaged: version " +
                                         std::to_string(next) + " is not whole" + damage_of(next) +
                                         ", but version " + std::to_string(number) +
                                         " was written after it (offset " +
                                         std::to_string(later.ref.offset) +
                                         "); restore the store from a copy"};
    }
    return check_confirmed(newest);
  }

 private:
  // More than once was durable cannot be missing, whatever a crash did.
  Status check_confirmed(u64 newest) const {
    const u64 known = volume_.confirmed_version(region_);
    if (known <= newest) return {};
    return Failure{Code::kCorrupt, "the log of '" + volume_.name() + "' is damaged: version " +
                                       std::to_string(known) + " was durable, and version " +
                                       std::to_string(newest + 1) + " is not whole" +
                                       damage_of(newest + 1) + "; restore the store from a copy"};
  }

  // Where to look for what a version lacks.
  std::string damage_of(u64 version) const {
    if (const auto found = blocks_.find(version); found != blocks_.end())
      for (const FoundBlock& block : found->second)
        if (!block.whole)
          return " (a block of it at offset " + std::to_string(block.ref.offset) +
                 " does not fit its checksum)";
    if (!damage_.empty()) return damage_;
    const auto extents = volume_.extents(format::ExtentKind::kLog, region_);
    return extents.empty()
               ? " (the log has no segments any more; see the directory)"
               : " (the log, from offset " + std::to_string(extents.front().medium_offset) +
                     " on, lacks blocks of it)";
  }

  void scan_segment(u64 offset, const std::byte* segment) {
    u64 generation = 0;
    u64 version_max = 0;
    const auto visit = [&](u64 used, const LogBlockHeader* header) {
      if (header == nullptr || (generation != 0 && header->generation != generation)) {
        // Normally the end. Going on costs little and finds what follows a damaged block.
        if (header == nullptr && damage_.empty()) note_damage(offset + used, segment + used);
        return false;
      }
      generation = header->generation;
      if ((header->flags & format::kLogTransactions) != 0 && used == 0 &&
          header->region == region_) {
        record_segments_.push_back(offset);
        version_max = Space::kHeld;
      }
      if (header->region == region_ && header->version > replayed_) {
        FoundBlock found{.ref = {.offset = offset + used,
                                 .run_count = header->run_count,
                                 .data_bytes = header->data_bytes,
                                 .block_bytes = header->block_bytes},
                         .header = *header};
        found.whole = block_fits(medium_, offset + used, segment + used);
        version_max = std::max(version_max, header->version);
        blocks_[header->version].push_back(found);
      }
      return true;
    };
    for_each_block(medium_, offset, {segment, segment_bytes_}, store_id_, visit);
    if (generation != 0) space_.adopt(offset, generation, version_max);
  }

  void note_damage(u64 offset, const std::byte* bytes) {
    u32 magic = 0;
    std::memcpy(&magic, bytes + offsetof(LogBlockHeader, magic), sizeof magic);
    if (magic == format::kLogBlockMagic)
      damage_ = " (a block at offset " + std::to_string(offset) + " does not fit its checksum)";
  }

  // Each session numbers its attempts anew.
  static std::pair<u64, u64> attempt_of(const LogBlockHeader& header) {
    return {header.session, header.ticket};
  }

  // The blocks of one version, of which only those of the attempt of a commit block count. The
  // youngest attempt first: one that was reported as failed may be whole all the same, and the one
  // that was acknowledged came after it.
  static bool assemble(std::vector<FoundBlock>& blocks, LoggedVersion& version) {
    std::sort(blocks.begin(), blocks.end(), [](const FoundBlock& a, const FoundBlock& b) {
      return std::pair(attempt_of(b.header), a.header.sequence) <
             std::pair(attempt_of(a.header), b.header.sequence);
    });
    for (const FoundBlock& commit : blocks) {
      if ((commit.header.flags & format::kLogCommit) == 0) continue;
      u64 chain = 0;
      u32 count = 0;
      bool whole = true;
      version.blocks.clear();
      version.log_bytes = 0;
      for (const FoundBlock& block : blocks) {
        if (attempt_of(block.header) != attempt_of(commit.header)) continue;
        whole = whole && block.whole;
        ++count;
        if (&block != &commit) chain += block.header.checksum;
        version.blocks.push_back(block.ref);
        version.log_bytes += block.ref.block_bytes;
      }
      if (whole && count == commit.header.block_count && chain == commit.header.chain) return true;
    }
    return false;
  }

  region::Volume& volume_;
  const u64 segment_bytes_;
  const u32 region_;
  const u64 replayed_;
  Space& space_;
  media::LinearMedium& medium_;
  const u64 store_id_;
  std::vector<u64> offsets_;
  std::map<u64, std::vector<FoundBlock>> blocks_;
  std::string damage_;
  std::vector<u64> record_segments_;
};

/// The records of a segment.
class RecordReader {
 public:
  RecordReader(region::Volume& volume, u64 offset, const std::byte* segment)
      : volume_(volume),
        medium_(volume.linear()),
        offset_(offset),
        segment_(segment),
        header_(*reinterpret_cast<const LogBlockHeader*>(segment)),
        layout_(layout_of(header_)),
        header_bytes_(header_bytes_of(layout_)) {}

  // They follow each other by sequence. A failure may leave records that were written together with
  // holes between them: those behind the first hole never were. One that was written when the hole
  // was durable counts: whoever repeats it misses those before it, unless a version has them. (So
  // it is where power failed while the next use of the segment began, and what arrived is not its
  // beginning: of the last use, which counts no more, records are left with a hole.)
  void read(std::vector<FoundRecord>& into, std::vector<FoundRecord>& dead) {
    u64 next = header_.ticket;
    for (u64 used = sizeof(LogBlockHeader); used + header_bytes_ <= volume_.segment_bytes();) {
      const std::optional<Header> record = record_at(used);
      if (!record) {
        used += kLineBytes;
        continue;
      }
      const u64 place = offset_ + used;
      const u64 sequence = record->sequence;
      const bool hole_was_durable =
          record->behind != format::kBehindMax && sequence > next + record->behind;
      const bool counts = sequence == next || hole_was_durable;
      FoundRecord& found = (counts ? into : dead)
                               .emplace_back(FoundRecord{.segment = offset_,
                                                         .offset = place,
                                                         .bytes = record->bytes,
                                                         .time = record->time,
                                                         .slot = record->stream,
                                                         .sequence = sequence,
                                                         .durable_version = record->durable_version,
                                                         .entries = {}});
      if (counts) {
        const auto* const words = reinterpret_cast<const u64*>(segment_ + used + header_bytes_);
        found.entries.assign(words, words + (record->bytes - header_bytes_) / sizeof(u64));
        next = sequence + 1;
      }
      used += round_up(record->bytes, kLineBytes);
    }
  }

 private:
  /// What the header of a record says in each layout.
  struct Header {
    u64 time;
    u32 stream;
    u64 sequence;
    u64 behind;
    u64 durable_version;
    u64 bytes;
  };
  enum class Layout { kV2, kV3, kV4 };

  static Layout layout_of(const LogBlockHeader& segment) {
    if (segment.records == format::kRecordLayout) return Layout::kV4;
    return segment.session == 0 ? Layout::kV2 : Layout::kV3;
  }
  static u64 header_bytes_of(Layout layout) {
    if (layout == Layout::kV4) return sizeof(RecordHeader);
    return layout == Layout::kV3 ? sizeof(RecordHeaderV3) : format::kRecordBytesV2;
  }

  Header header_at(const std::byte* at) const {
    if (layout_ == Layout::kV4) {
      const auto& record = *reinterpret_cast<const RecordHeader*>(at);
      return {record.time,   header_.stream,         header_.ticket + record.number,
              record.behind, record.durable_version, record.bytes};
    }
    const auto& record = *reinterpret_cast<const RecordHeaderV3*>(at);
    const bool is_v2 = layout_ == Layout::kV2;
    return {record.time,
            record.slot,
            is_v2 ? format::sequence_v2(record.sequence) : record.sequence,
            record.behind,
            is_v2 ? 0 : record.durable_version,
            record.bytes};
  }

  std::optional<Header> record_at(u64 used) {
    const std::byte* const at = segment_ + used;
    const u64 place = offset_ + used;
    const u64 left = volume_.segment_bytes() - used;
    // How long it is says the record itself: first that, then all of it.
    const u64 bytes = header_at(at).bytes;
    if (bytes < header_bytes_ || bytes > left || bytes % sizeof(u64) != 0) return {};
    const bool whole = medium_.whole(
        place, at, bytes, PERDURA_SITE("transaction record"), [&](const std::byte* content) {
          const Header found = header_at(content);
          return found.bytes == bytes &&
                 reinterpret_cast<const RecordHeader*>(content)->checksum ==
                     record_checksum(content, bytes, place,
                                     {header_.session, header_.generation}) &&
                 found.stream < format::kTransactionSlots && found.time <= format::kCounterMax;
        });
    if (!whole) return {};
    return header_at(at);
  }

  region::Volume& volume_;
  media::LinearMedium& medium_;
  const u64 offset_;
  const std::byte* const segment_;
  const LogBlockHeader& header_;
  const Layout layout_;
  const u64 header_bytes_;
};

}  // namespace

Image::Image(region::Volume& volume, Where where)
    : medium_(volume.linear()),
      segment_bytes_(volume.segment_bytes()),
      in_place_(medium_.geometry().byte_addressable && where == Where::kAsTheMediumHasIt) {}

Status Image::load(const std::vector<u64>& offsets, const std::function<void(u64 offset)>& visit) {
  if (in_place_) {
    for (u64 offset : offsets) visit(offset);
    return {};
  }
  segments_.clear();
  if (offsets.empty()) return {};
  std::vector<media::ReadRequest> requests;
  // One range, so that the kernel can back it with large pages, or in one go with small ones.
  if (memory_.length() < offsets.size() * segment_bytes_) {
    memory_ = {};
    PERDURA_ASSIGN(memory_, Mapping::anonymous(offsets.size() * segment_bytes_));
    ::madvise(memory_.as(), memory_.length(),
              memory_.length() < region::kHugeBytes ? MADV_POPULATE_WRITE : MADV_HUGEPAGE);
  }
  for (u64 offset : offsets) {
    std::byte* const bytes = memory_.as() + segments_.size() * segment_bytes_;
    segments_.push_back({offset, bytes});
    requests.push_back({offset, {bytes, segment_bytes_}});
  }
  std::sort(segments_.begin(), segments_.end(),
            [](const Loaded& a, const Loaded& b) { return a.offset < b.offset; });
  // A group is read while the one before it is visited; the first has nothing to wait for.
  const auto read = [&](size_t begin) {
    const size_t end = std::min(begin + kSegmentsAtOnce, requests.size());
    const NoSignals no_signals;
    // Where the system refuses a thread, get() reads.
    return std::async(
        begin == 0 ? std::launch::deferred : std::launch::async | std::launch::deferred,
        [this, group = std::span(requests).subspan(begin, end - begin)] {
          return medium_.load(group);
        });
  };
  std::future<Status> reading = read(0);
  for (size_t begin = 0; begin < requests.size(); begin += kSegmentsAtOnce) {
    PERDURA_TRY(reading.get());
    const size_t next = begin + kSegmentsAtOnce;
    if (next < requests.size()) reading = read(next);
    for (size_t i = begin; i < std::min(next, offsets.size()); ++i) visit(offsets[i]);
  }
  return {};
}

void Image::let_go() noexcept {
  segments_.clear();
  if (memory_.length() != 0) ::madvise(memory_.as(), memory_.length(), MADV_FREE);
}

const std::byte* Image::at(u64 offset) const {
  if (in_place_) return medium_.view(offset);
  const auto after =
      std::upper_bound(segments_.begin(), segments_.end(), offset,
                       [](u64 value, const Loaded& loaded) { return value < loaded.offset; });
  PERDURA_ASSERT(after != segments_.begin());
  const Loaded& segment = *(after - 1);
  PERDURA_ASSERT(offset - segment.offset < segment_bytes_);
  return segment.bytes + (offset - segment.offset);
}

const LogBlockHeader* header_at(media::Medium& medium, u64 segment_offset, const std::byte* segment,
                                u64 segment_bytes, u64 used, u64 store_id) {
  if (used + sizeof(LogBlockHeader) > segment_bytes) return nullptr;
  const std::byte* const at = segment + used;
  const u64 place = segment_offset + used;
  if (!medium.whole(place, at, sizeof(LogBlockHeader), PERDURA_SITE("log block header"),
                    [&](const std::byte* bytes) { return header_fits(bytes, store_id, place); }))
    return nullptr;
  // The checksum says that we wrote it; the bounds, that the reader may follow it.
  const auto* header = reinterpret_cast<const LogBlockHeader*>(at);
  const u64 bytes = sizeof *header + u64{header->data_bytes} + u64{header->run_count} * sizeof(u64);
  const bool sane = header->version <= format::kCounterMax &&
                    header->generation <= format::kCounterMax && header->generation != 0 &&
                    header->block_bytes <= segment_bytes - used && bytes <= header->block_bytes &&
                    header->block_bytes % kLineBytes == 0 && header->data_bytes % kLineBytes == 0;
  return sane ? header : nullptr;
}

bool block_fits(media::Medium& medium, u64 offset, const std::byte* block) {
  const auto& header = *reinterpret_cast<const LogBlockHeader*>(block);
  const u64 runs_bytes = header.run_count * sizeof(u64);
  if (!medium.whole(offset + sizeof header, block_data(block), header.data_bytes + runs_bytes,
                    PERDURA_SITE("log block"), [&](const std::byte* data) {
                      return pieces_checksum(data, header.data_bytes, format::kLogPieceBytes) ==
                                 header.data_checksum &&
                             checksum(data + header.data_bytes, runs_bytes) == header.runs_checksum;
                    }))
    return false;
  // Who follows the runs relies on it that the data are as long.
  const u64* runs = block_runs(block, header.data_bytes);
  u64 lines = 0;
  for (u32 i = 0; i < header.run_count; ++i) lines += format::run_count(runs[i]);
  return lines * kLineBytes == header.data_bytes;
}

namespace {

/// Only damage makes a version go that was durable when a record was made.
bool relies_on_later(const FoundRecord& record, u64 durable_version) {
  if (is_mutant("versions_of_16_bits"))
    return static_cast<std::int16_t>(record.durable_version - durable_version) > 0;
  return record.durable_version > durable_version;
}

/// What a log holds, in one look at it.
class Look {
 public:
  Look(region::Volume& volume, u32 region, u64 replayed, Space& space)
      : volume_(volume), replayed_(replayed), scanner_(volume, region, replayed, space) {}

  Status find(Image::Where where) {
    found_.image = std::make_unique<Image>(volume_, where);
    PERDURA_TRY(scanner_.find_live_segments());
    PERDURA_TRY(scanner_.scan(*found_.image));
    found_.versions = scanner_.versions();
    found_.durable_version = replayed_ + found_.versions.size();
    for (const u64 offset : scanner_.record_segments())
      RecordReader(volume_, offset, found_.image->at(offset))
          .read(found_.records, found_.dead_records);
    std::ranges::sort(found_.records, {}, &FoundRecord::time);
    return {};
  }

  /// Whether all is there that was durable. `begun`: versions before that, of which a look before
  /// this one knew.
  Status check(u64 begun) const {
    PERDURA_TRY(scanner_.check_complete(found_.durable_version, begun));
    for (const FoundRecord& each : found_.records)
      if (relies_on_later(each, found_.durable_version)) return lacks_version(each);
    return {};
  }

  /// The last version of which there is anything: each before it was durable when that was written.
  u64 newest_begun() const { return scanner_.newest_begun(); }
  Recovered& found() { return found_; }

 private:
  Failure lacks_version(const FoundRecord& record) const {
    return {Code::kCorrupt, "the log of '" + volume_.name() +
                                "' is damaged: the transaction at offset " +
                                std::to_string(record.offset) + " relies on a later version than " +
                                std::to_string(found_.durable_version) +
                                ", the last one that is whole; restore the store from a copy"};
  }

  region::Volume& volume_;
  const u64 replayed_;
  Scanner scanner_;
  Recovered found_;
};

}  // namespace

Result<Recovered> read(region::Volume& volume, u32 region, u64 replayed, Space& space,
                       Image::Where where) {
  Look look(volume, region, replayed, space);
  PERDURA_TRY(look.find(where));
  PERDURA_TRY(look.check(format::kCounterMax));
  return std::move(look.found());
}

namespace {

/// Of a log that somebody may append to: looks at it, each as a whole, until two of them say
/// enough.
///
/// A look takes time, and sees what was appended behind it, but not what was appended where it had
/// been before. So a version that a look misses is damage only where the look before knew of a
/// later one; and a record that a look is the first to see may rely on one that it misses. Records
/// rely on earlier ones alone, by their times: those before the first new one rely on none that is
/// missing, since the look before has seen them all. They are to be all that the first look saw:
/// then nothing is missing that was durable when it began.
class LogOfWriter {
 public:
  LogOfWriter(region::Volume& volume, u32 region, u64 replayed)
      : volume_(volume), region_(region), replayed_(replayed) {}

  Result<Recovered> read() {
    for (int looks = 0; looks < kLooksMax; ++looks) {
      const bool is_written = volume_.medium().has_writer();
      Space space(volume_, region_, 0);  // gives nothing out
      Look look(volume_, region_, replayed_, space);
      PERDURA_TRY(look.find(Image::Where::kInMemory));
      PERDURA_ASSIGN(const bool enough, is_enough(look, is_written));
      if (enough) return std::move(look.found());
    }
    return Failure{
        Code::kLocked,
        "'" + volume_.name() + "' is written to so fast that its log could not be read; try again"};
  }

 private:
  static constexpr int kLooksMax = 100;

  Result<bool> is_enough(Look& look, bool is_written) {
    std::vector<FoundRecord>& records = look.found().records;
    if (!is_written) {
      PERDURA_TRY(look.check(format::kCounterMax));
      return true;
    }
    const bool is_first = !begun_;
    const u64 first_new = is_first || records.empty() ? kNone : first_new_time(records);
    if (is_first) newest_at_first_ = records.empty() ? 0 : records.back().time;
    std::vector<u64> times;
    times.reserve(records.size());
    for (const FoundRecord& each : records) times.push_back(each.time);
    std::erase_if(records, [&](const FoundRecord& each) { return each.time >= first_new; });
    const Status complete = look.check(begun_.value_or(format::kCounterMax));
    const bool enough = complete && (times.empty() || (!is_first && first_new > newest_at_first_));
    if (!complete && !is_first) return complete.failure();
    times_ = std::move(times);
    begun_ = look.newest_begun();
    return enough;
  }

  /// Of the records that the look before has not seen, the first one's; kNone: it has seen them
  /// all.
  u64 first_new_time(const std::vector<FoundRecord>& records) const {
    const auto differ = std::ranges::mismatch(records, times_, {}, &FoundRecord::time);
    return differ.in1 == records.end() ? kNone : differ.in1->time;
  }

  static constexpr u64 kNone = ~u64{0};
  region::Volume& volume_;
  const u32 region_;
  const u64 replayed_;
  std::optional<u64> begun_;  ///< what the look before knew; none: this is the first one
  std::vector<u64> times_;    ///< of the records that it saw, in rising order
  u64 newest_at_first_ = 0;
};

}  // namespace

Result<Recovered> read_beside_writer(region::Volume& volume, u32 region, u64 replayed) {
  return LogOfWriter(volume, region, replayed).read();
}

}  // namespace perdura::log
