#include "commit/log.hpp"

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"
#include "base/checksum.hpp"
#include "media/summed_copy.hpp"

namespace perdura::commit {
namespace {

using format::LogBlockHeader;

// Large enough for a disk; four fill the largest segment exactly.
constexpr u64 kBlockBytes = 256 * kKiB;
static_assert(format::kSegmentBytesMax % kBlockBytes == 0);

constexpr u64 kGrowthBytesMax = 16 * kMiB;
constexpr u64 kBlockBytesMin = 8 * kKiB;  ///< less at the end of a segment is left unused

static_assert(format::kLogPieceBytes == kPageBytes);
static_assert(kBlockBytes <= 512 * format::kLogPieceBytes);

// No more runs than lines fit a block.
u64 runs_max(u64 block_bytes) { return block_bytes / (kLineBytes + sizeof(u64)) + kLinesPerPage; }

// That blocks surely hold where no two lines follow each other (LogWriter::fits_piece).
u64 lines_of_segment(u64 segment_bytes) {
  constexpr u64 kPieceBytes = format::kLogPieceBytes + LogWriter::kPieceLines * sizeof(u64);
  const u64 block_bytes = std::min(kBlockBytes, segment_bytes);
  const u64 pieces = (block_bytes - sizeof(LogBlockHeader)) / kPieceBytes;
  return segment_bytes / block_bytes * pieces * LogWriter::kPieceLines;
}
// Of these the last piece, which may have few, and the commit block with what may be left unused
// before it take so many away.
constexpr u64 kLinesOfEnd = 4 * LogWriter::kPieceLines;
static_assert(3 * format::kLogPieceBytes >= kBlockBytesMin + kPageBytes);

}  // namespace

Log::Log(region::Volume& volume, u32 region, u64 limit_bytes)
    : volume_(volume),
      region_(region),
      limit_bytes_(limit_bytes),
      segment_bytes_(volume.segment_bytes()),
      session_(volume.superblock().session),
      lines_of_segment_(lines_of_segment(segment_bytes_)),
      kept_for_versions_(std::clamp<u64>(limit_bytes / volume.segment_bytes() / 4, 1, 2)) {
  for (const format::Extent& extent : volume.extents(format::ExtentKind::kLog, region))
    for (u64 at = 0; at + segment_bytes_ <= extent.length; at += segment_bytes_)
      segments_.push_back(Segment{.offset = extent.medium_offset + at});
  next_generation_ = std::max<u64>(1, volume.state(region).live_generation);
}

void Log::adopt(u64 offset, u64 generation, u64 version_max) {
  std::lock_guard lock(mutex_);
  next_generation_ = std::max(next_generation_, generation + 1);
  for (Segment& segment : segments_) {
    if (segment.offset != offset) continue;
    PERDURA_ASSERT(!segment.owned);
    segment.generation = generation;
    segment.version_max = std::max(segment.version_max, version_max);
    segment.live = version_max != 0;
    segment.has_transactions = version_max == kHeld;
    has_transactions_ = has_transactions_ || segment.has_transactions;
  }
}

void Log::free_held(u64 version) {
  std::lock_guard lock(mutex_);
  for (Segment& segment : segments_)
    if (segment.version_max == kHeld) segment.version_max = version;
}

// Whoever reads them before they are used again finds the same, and takes it for the same.
void Log::free_torn(u64 durable, u64 replayed) {
  std::lock_guard lock(mutex_);
  for (Segment& segment : segments_) {
    PERDURA_ASSERT(!segment.owned || segment.has_transactions);
    if (segment.has_transactions || segment.version_max <= durable) continue;
    segment.version_max = durable;  // of which it may have blocks as well
    segment.live = segment.live && durable > replayed && segment.version_min <= durable;
  }
}

u64 Log::free_segments() const {
  return static_cast<u64>(std::count_if(segments_.begin(), segments_.end(),
                                        [](const Segment& each) { return !each.live; }));
}

u64 Log::lines_in(u64 segments) const {
  const u64 lines = segments * lines_of_segment_;
  return lines - std::min(lines, kLinesOfEnd);
}

u64 Log::segments_for(u64 lines) const {
  return (lines + kLinesOfEnd + lines_of_segment_ - 1) / lines_of_segment_;
}

bool Log::fits(u64 lines) const {
  std::lock_guard lock(mutex_);
  return segments_for(lines) <= free_segments();
}

Status Log::make_room(u64 lines) {
  std::unique_lock lock(mutex_);
  PERDURA_TRY(have_free(lock, segments_for(lines)));
  is_short_ = false;
  return {};
}

Status Log::reserve(u64 lines) {
  std::unique_lock lock(mutex_);
  const u64 wanted = std::max(kept_for_versions_, segments_for(lines));
  has_transactions_ = true;
  PERDURA_TRY(have_free(lock, wanted));
  kept_for_versions_ = std::max(kept_for_versions_, wanted);
  reserved_lines_ = lines_in(kept_for_versions_);
  return {};
}

void Log::on_shortage(std::function<bool()> relieve) {
  std::lock_guard lock(mutex_);
  relieve_ = std::move(relieve);
}

// Not under the lock: what brings versions home gives their segments back.
Status Log::have_free(std::unique_lock<std::mutex>& lock, u64 segments) {
  bool relieved = false;
  while (free_segments() < segments) {
    Status grown = grow();
    is_short_ = !grown && grown.failure().code == Code::kNoSpace;
    if (grown) continue;
    if (!is_short_ || relieved || !relieve_) return grown;
    relieved = true;
    const std::function<bool()> relieve = relieve_;
    lock.unlock();
    const bool any = relieve();
    lock.lock();
    if (!any) return grown;
  }
  return {};
}

Result<Log::Place> Log::take_for_transactions(u64 version) { return take(version, true); }

Result<Log::Place> Log::take(u64 version, bool for_transactions) {
  std::unique_lock lock(mutex_);
  has_transactions_ = has_transactions_ || for_transactions;
  // More may be kept by the time that there is space.
  const auto wanted = [&] { return 1 + (for_transactions ? kept_for_versions_ : 0); };
  do {
    PERDURA_TRY(have_free(lock, wanted()));
  } while (free_segments() < wanted());
  const auto segment = std::find_if(segments_.begin(), segments_.end(),
                                    [](const Segment& each) { return !each.live; });
  segment->generation = next_generation_++;
  segment->version_max = segment->version_min = version;
  segment->live = segment->owned = true;
  segment->has_transactions = for_transactions;
  return Place{segment->offset, segment->generation, static_cast<u32>(segment - segments_.begin())};
}

// By half, so that a growing store asks rarely, and one segment where space is short. At least one
// is free then.
Status Log::grow() {
  const u64 capacity = segments_.size() * segment_bytes_;
  u64 length =
      std::clamp<u64>(round_up(capacity / 2, segment_bytes_), segment_bytes_, kGrowthBytesMax);
  segments_.reserve(segments_.size() + length / segment_bytes_);
  auto extent = volume_.allocate_log(region_, length);
  if (!extent && extent.failure().code == Code::kNoSpace && length > segment_bytes_) {
    length = segment_bytes_;
    extent = volume_.allocate_log(region_, length);
  }
  if (!extent) return extent.failure();
  for (u64 at = 0; at < length; at += segment_bytes_)
    segments_.push_back(Segment{.offset = extent->medium_offset + at});
  return {};
}

void Log::note_version(u32 index, u64 version) {
  std::lock_guard lock(mutex_);
  segments_[index].version_max = version;
}

void Log::release(u32 index) {
  std::lock_guard lock(mutex_);
  segments_[index].owned = false;
}

u64 Log::live_generation_after(u64 replayed) const {
  std::lock_guard lock(mutex_);
  u64 lowest = next_generation_;
  for (const Segment& segment : segments_)
    if (segment.owned || (segment.live && segment.version_max > replayed))
      lowest = std::min(lowest, segment.generation);
  return lowest;
}

u64 Log::live_generation_at_end() const {
  std::lock_guard lock(mutex_);
  return next_generation_;
}

void Log::retire(u64 replayed) {
  std::lock_guard lock(mutex_);
  for (Segment& segment : segments_)
    if (segment.live && !segment.owned && segment.version_max <= replayed) segment.live = false;
  give_back();
}

// Only the youngest segments leave: a place held by a writer is an index. What is kept for versions
// stays, since on a full medium it may not be had again; recovery, which does not know how much of
// it the transactions need that it found, gives nothing back before it has repeated them. A failure
// may have reached the medium all the same, so these segments are not used again; where they are
// still in the directory the next opening finds them.
void Log::give_back() {
  const bool recovers = std::any_of(segments_.begin(), segments_.end(), [](const Segment& each) {
    return each.live && each.version_max == kHeld;
  });
  if (recovers) return;
  u64 free = free_segments();
  const u64 kept = has_transactions_ ? kept_for_versions_ : 0;
  const auto leaves = [&] {
    return segments_.size() * segment_bytes_ > limit_bytes_ && !segments_.back().live &&
           free > kept;
  };
  while (leaves()) {
    u64 begin = segments_.back().offset;
    u64 length = segment_bytes_;
    segments_.pop_back();
    --free;
    // Neighbours leave together: each removal writes the directory.
    while (leaves() && segments_.back().offset + segment_bytes_ == begin) {
      begin -= segment_bytes_;
      length += segment_bytes_;
      segments_.pop_back();
      --free;
    }
    if (!guarded([&] { return volume_.release_log(begin, length); })) return;
  }
}

u64 Log::capacity_bytes() const {
  std::lock_guard lock(mutex_);
  return segments_.size() * segment_bytes_;
}

u64 Log::transaction_bytes(u64 version) const {
  std::lock_guard lock(mutex_);
  const auto count = std::count_if(segments_.begin(), segments_.end(), [&](const Segment& each) {
    return each.live && !each.owned && each.has_transactions && each.version_max <= version;
  });
  return static_cast<u64>(count) * segment_bytes_;
}

u64 header_checksum(const LogBlockHeader& header) {
  return checksum(reinterpret_cast<const std::byte*>(&header) + sizeof header.checksum,
                  sizeof header - sizeof header.checksum);
}

LogWriter::LogWriter(Log& log, region::Volume& volume)
    : log_(log),
      medium_(volume.medium()),
      store_id_(volume.store_id()),
      segment_bytes_(volume.segment_bytes()),
      block_bytes_max_(std::min(kBlockBytes, segment_bytes_)),
      write_bytes_(medium_.geometry().write_bytes),
      in_place_(medium_.geometry().byte_addressable),
      buffers_(in_place_ ? block_bytes_max_ : block_bytes_max_ * kBuffers),
      queue_(medium_.queue()),
      runs_(std::make_unique<u64[]>(runs_max(block_bytes_max_))),
      sums_(std::make_unique<u64[]>(block_bytes_max_ / format::kLogPieceBytes + 1)) {}

LogWriter::~LogWriter() { leave_segment(); }

void LogWriter::leave_segment() {
  if (has_segment_) log_.release(segment_.index);
  has_segment_ = false;
}

void LogWriter::begin(VersionInProgress& version) {
  version_ = &version;
  failure_ = {};
  close_block();
}

void LogWriter::close_block() {
  block_limit_ = 0;
  data_bytes_ = run_count_ = sum_count_ = 0;
  run_next_ = ~u64{0};
}

void LogWriter::abandon() {
  const Status drained = guarded([this] { return queue_->drain(); });
  (void)drained;  // the version has failed already, with an earlier reason
  leave_segment();
  version_ = nullptr;
  close_block();
}

bool LogWriter::fail(const Status& status) {
  if (failure_ && !status) failure_ = status;
  return static_cast<bool>(failure_);
}

// Choose the block's place: behind the last one, or in a new segment.
bool LogWriter::open_block() {
  PERDURA_ASSERT(static_cast<bool>(failure_));
  if (segment_bytes_ - segment_used_ < kBlockBytesMin) leave_segment();
  if (has_segment_) {
    log_.note_version(segment_.index, version_->number);
  } else {
    const Result<Log::Place> place = log_.take(version_->number);
    if (!place) return fail(place.failure());
    segment_ = *place;
    has_segment_ = true;
    segment_used_ = 0;
  }
  block_limit_ = std::min(block_bytes_max_, segment_bytes_ - segment_used_);
  if (!in_place_) staging_ = buffers_.data() + buffer_ * block_bytes_max_ + sizeof(LogBlockHeader);
  return true;
}

bool LogWriter::make_room_slow() {
  if (!failure_) return false;
  if (block_limit_ == 0) return open_block();
  return flush(0) && open_block();
}

u64 LogWriter::write(const media::Gather& gather) {
  if (!in_place_) return media::gather_summed(staging_ + data_bytes_, gather);
  const Result<u64> sum =
      queue_->submit_gathered(data_place() + data_bytes_, gather, PERDURA_SITE("log piece"));
  if (sum) return *sum;
  fail(sum.failure());
  return 0;
}

void LogWriter::keep(std::span<const u64> lines, u64 sum) {
  u64* last = &runs_[run_count_] - 1;
  u64 next = run_next_;
  for (const u64 line : lines) {
    if (line == next && format::run_count(*last) < format::kRunCountMax) {
      *last += u64{1} << format::kRunCountShift;
    } else {
      *++last = format::make_run(line, 1);
    }
    next = line + 1;
  }
  run_count_ = static_cast<u64>(last + 1 - runs_.get());
  run_next_ = next;
  data_bytes_ += lines.size() * kLineBytes;
  sums_[sum_count_++] = sum;
}

void LogWriter::keep_run(u64 first_line, u64 count, u64 sum) {
  if (first_line == run_next_ &&
      format::run_count(runs_[run_count_ - 1]) + count <= format::kRunCountMax) {
    runs_[run_count_ - 1] += count << format::kRunCountShift;
  } else {
    runs_[run_count_++] = format::make_run(first_line, count);
  }
  run_next_ = first_line + count;
  data_bytes_ += count * kLineBytes;
  sums_[sum_count_++] = sum;
}

bool LogWriter::flush(u32 flags) {
  if (block_limit_ == 0 && !open_block()) return false;
  const u64 runs_bytes = run_count_ * sizeof(u64);
  const u64 used = sizeof(LogBlockHeader) + data_bytes_ + runs_bytes;

  alignas(kLineBytes) LogBlockHeader header{};
  header.data_checksum = checksum(sums_.get(), sum_count_ * sizeof(u64));
  header.runs_checksum = checksum(runs_.get(), runs_bytes);
  header.store_id = store_id_;
  header.generation = segment_.generation;
  header.version = version_->number;
  header.ticket = version_->ticket;
  header.magic = format::kLogBlockMagic;
  header.flags = flags;
  header.region = version_->region;
  header.sequence = version_->blocks_begun.fetch_add(1, std::memory_order_relaxed);
  header.run_count = static_cast<u32>(run_count_);
  header.data_bytes = static_cast<u32>(data_bytes_);
  header.block_bytes = static_cast<u32>(round_up(used, write_bytes_));
  const u64 offset = segment_.offset + segment_used_;
  header.place = offset;
  header.session = log_.session();
  {
    std::lock_guard lock(version_->mutex);
    if ((flags & format::kLogCommit) != 0) {
      header.block_count = header.sequence + 1;
      header.chain = version_->chain;
    }
    header.checksum = header_checksum(header);
    version_->chain += header.checksum;
    version_->line_count += data_bytes_ / kLineBytes;
    version_->log_bytes += header.block_bytes;
    version_->blocks.push_back(
        BlockRef{offset, header.run_count, header.data_bytes, header.block_bytes});
  }
  // The end of the block, from the runs on; on block media the whole of it is in one buffer.
  std::byte* const tail = in_place_ ? buffers_.data() : staging_ + data_bytes_;
  if (runs_bytes != 0) std::memcpy(tail, runs_.get(), runs_bytes);
  std::memset(tail + runs_bytes, 0, header.block_bytes - used);
  const u64 tail_bytes = runs_bytes + header.block_bytes - used;
  Status written;
  if (in_place_) {
    if (tail_bytes != 0)
      written =
          queue_->submit(data_place() + data_bytes_, {tail, tail_bytes}, PERDURA_SITE("log runs"));
    if (written)
      written = queue_->submit(offset, std::as_bytes(std::span(&header, 1)),
                               PERDURA_SITE("log block header"));
  } else {
    std::byte* const start = staging_ - sizeof header;
    std::memcpy(start, &header, sizeof header);
    const media::Bytes block(start, header.block_bytes);
    // A lone small block is written at once: a round through the queue would only add latency.
    written = (flags & format::kLogCommit) != 0 && header.sequence == 0
                  ? medium_.write(offset, block, PERDURA_SITE("log commit block"))
                  : queue_->submit(offset, block, PERDURA_SITE("log block"));
    buffer_ = (buffer_ + 1) % kBuffers;
    if (written) written = queue_->drain(kBuffers - 1);
  }
  segment_used_ += header.block_bytes;
  close_block();
  return fail(written);
}

Status LogWriter::finish() {
  if (failure_ && run_count_ != 0) flush(0);
  if (!failure_) return failure_;
  return queue_->drain();
}

Status LogWriter::finish_with_commit() {
  if (!failure_ || !flush(format::kLogCommit)) return failure_;
  return queue_->drain();
}

}  // namespace perdura::commit
