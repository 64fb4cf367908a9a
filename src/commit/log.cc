#include "commit/log.hpp"

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"
#include "base/checksum.hpp"

namespace perdura::commit {
namespace {

using format::LogBlockHeader;

// Blocks on NVM are staged in the second-level cache; on block media they are large enough for the
// disk. Four of the larger ones fill a segment exactly.
constexpr u64 kNvmBlockBytes = 64 * kKiB;
constexpr u64 kFileBlockBytes = 256 * kKiB;
static_assert(format::kSegmentBytes % kFileBlockBytes == 0);

constexpr u64 kGrowthBytesMax = 16 * kMiB;

u64 runs_max(u64 block_bytes) {
  return (block_bytes - sizeof(LogBlockHeader)) / (kLineBytes + sizeof(u64)) + 1;
}

}  // namespace

Log::Log(region::Volume& volume, u64 limit_bytes) : volume_(volume), limit_bytes_(limit_bytes) {
  for (const format::Extent& extent : volume.extents(format::ExtentKind::kLog))
    for (u64 at = 0; at + format::kSegmentBytes <= extent.length; at += format::kSegmentBytes)
      segments_.push_back(Segment{.offset = extent.medium_offset + at});
  next_generation_ = std::max<u64>(1, volume.superblock().live_generation);
}

void Log::adopt(u64 offset, u64 generation, u64 version_max) {
  std::lock_guard lock(mutex_);
  next_generation_ = std::max(next_generation_, generation + 1);
  for (Segment& segment : segments_) {
    if (segment.offset != offset) continue;
    segment.generation = generation;
    segment.version_max = std::max(segment.version_max, version_max);
    segment.live = version_max != 0;
  }
}

Result<Log::Place> Log::take(u64 version) {
  std::lock_guard lock(mutex_);
  for (int attempt = 0; attempt < 2; ++attempt) {
    for (Segment& segment : segments_) {
      if (segment.live || segment.owned) continue;
      segment.generation = next_generation_++;
      segment.version_max = version;
      segment.live = segment.owned = true;
      return Place{segment.offset, segment.generation,
                   static_cast<u32>(&segment - segments_.data())};
    }
    if (attempt == 0) PERDURA_TRY(grow());
  }
  return Failure{Code::kNoSpace, "no log segment is free"};
}

// By half, so that a growing store asks rarely, and one segment where space is short.
Status Log::grow() {
  const u64 capacity = segments_.size() * format::kSegmentBytes;
  u64 length = std::clamp<u64>(round_up(capacity / 2, format::kSegmentBytes), format::kSegmentBytes,
                               kGrowthBytesMax);
  auto extent = volume_.allocate_log(length);
  if (!extent && extent.failure().code == Code::kNoSpace && length > format::kSegmentBytes) {
    length = format::kSegmentBytes;
    extent = volume_.allocate_log(length);
  }
  if (!extent) return extent.failure();
  for (u64 at = 0; at < length; at += format::kSegmentBytes)
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

Status Log::retire(u64 replayed) {
  std::lock_guard lock(mutex_);
  for (Segment& segment : segments_)
    if (segment.live && !segment.owned && segment.version_max <= replayed) segment.live = false;
  return give_back();
}

// Only the youngest segments leave: a place held by a writer is an index.
Status Log::give_back() {
  while (segments_.size() * format::kSegmentBytes > limit_bytes_ && !segments_.back().live &&
         !segments_.back().owned) {
    u64 begin = segments_.back().offset;
    u64 length = format::kSegmentBytes;
    segments_.pop_back();
    // Neighbours leave together: each removal writes the directory.
    while (segments_.size() * format::kSegmentBytes > limit_bytes_ && !segments_.back().live &&
           !segments_.back().owned && segments_.back().offset + format::kSegmentBytes == begin) {
      begin -= format::kSegmentBytes;
      length += format::kSegmentBytes;
      segments_.pop_back();
    }
    PERDURA_TRY(volume_.release_log(begin, length));
  }
  return {};
}

u64 Log::capacity_bytes() const {
  std::lock_guard lock(mutex_);
  return segments_.size() * format::kSegmentBytes;
}

u64 block_checksum(const LogBlockHeader* header) {
  const auto* bytes = reinterpret_cast<const std::byte*>(header);
  return checksum(bytes + sizeof header->checksum,
                  sizeof *header - sizeof header->checksum + header->run_count * sizeof(u64));
}

u64 block_identity(const LogBlockHeader& header) {
  const u64 fields[] = {header.store_id, header.generation, header.version, header.ticket};
  return checksum(fields, sizeof fields);
}

LogWriter::LogWriter(Log& log, region::Volume& volume)
    : log_(log),
      medium_(volume.medium()),
      store_id_(volume.store_id()),
      write_bytes_(medium_.geometry().write_bytes),
      block_bytes_max_(medium_.geometry().byte_addressable ? kNvmBlockBytes : kFileBlockBytes),
      index_bytes_(
          round_up(sizeof(LogBlockHeader) + runs_max(block_bytes_max_) * sizeof(u64), kPageBytes)),
      // NVM writes are done when submit returns; one buffer stays hot.
      buffer_count_(medium_.geometry().byte_addressable ? 1 : kBuffers),
      queue_(medium_.queue()),
      buffers_((index_bytes_ + block_bytes_max_) * buffer_count_),
      runs_(std::make_unique<u64[]>(runs_max(block_bytes_max_) + kLinesPerPage)) {
  reset_block();
}

LogWriter::~LogWriter() {
  if (has_segment_) log_.release(segment_.index);
}

void LogWriter::begin(VersionInProgress& version) {
  version_ = &version;
  failure_ = {};
  reset_block();
}

void LogWriter::reset_block() {
  data_ = buffers_.data() + buffer_ * (index_bytes_ + block_bytes_max_) + index_bytes_;
  data_bytes_ = 0;
  run_count_ = 0;
  run_next_ = ~u64{0};
}

void LogWriter::abandon() {
  const Status drained = queue_->drain();
  (void)drained;  // the version has failed already, with an earlier reason
  if (has_segment_) log_.release(segment_.index);
  has_segment_ = false;
  version_ = nullptr;
  reset_block();
}

Status LogWriter::place(u32 block_bytes) {
  if (!has_segment_ || segment_used_ + block_bytes > format::kSegmentBytes) {
    if (has_segment_) log_.release(segment_.index);
    has_segment_ = false;
    PERDURA_ASSIGN(segment_, log_.take(version_->number));
    has_segment_ = true;
    segment_used_ = 0;
  } else {
    log_.note_version(segment_.index, version_->number);
  }
  return {};
}

bool LogWriter::flush(u32 flags) {
  if (!failure_) return false;
  u64 data_offset = round_up(sizeof(LogBlockHeader) + run_count_ * sizeof(u64), kLineBytes);
  std::byte* start = data_ - round_up(data_offset, write_bytes_);
  if (data_offset + data_bytes_ <= write_bytes_) {
    // A small version is one write unit.
    std::memmove(start + data_offset, data_, data_bytes_);
  } else {
    data_offset = static_cast<u64>(data_ - start);
  }
  const u64 block_bytes = round_up(data_offset + data_bytes_, write_bytes_);
  std::byte* const data = start + data_offset;

  auto* header = new (start) LogBlockHeader{};
  header->magic = format::kLogBlockMagic;
  header->flags = flags;
  header->store_id = store_id_;
  header->version = version_->number;
  header->ticket = version_->ticket;
  header->sequence = version_->blocks_begun.fetch_add(1, std::memory_order_relaxed);
  header->region = version_->region;
  header->run_count = static_cast<u32>(run_count_);
  header->data_offset = static_cast<u32>(data_offset);
  header->data_bytes = static_cast<u32>(data_bytes_);
  header->block_bytes = static_cast<u32>(block_bytes);
  std::byte* const runs_end = start + sizeof *header + run_count_ * sizeof(u64);
  if (run_count_ != 0) std::memcpy(start + sizeof *header, runs_.get(), run_count_ * sizeof(u64));
  std::memset(runs_end, 0, static_cast<size_t>(data - runs_end));
  std::memset(data + data_bytes_, 0, block_bytes - data_offset - data_bytes_);

  if (Status placed = place(header->block_bytes); !placed) {
    failure_ = placed;
    return false;
  }
  header->generation = segment_.generation;
  header->identity = block_identity(*header);
  header->data_checksum = checksum(data, data_bytes_);
  {
    std::lock_guard lock(version_->mutex);
    if ((flags & format::kLogCommit) != 0) {
      header->block_count = header->sequence + 1;
      header->chain = version_->chain;
    }
    header->checksum = block_checksum(header);
    version_->chain += header->checksum + header->data_checksum;
    version_->line_count += data_bytes_ / kLineBytes;
    version_->log_bytes += block_bytes;
    version_->blocks.push_back(BlockRef{segment_.offset + segment_used_, header->run_count,
                                        header->data_offset, header->data_bytes,
                                        header->block_bytes});
  }
  const media::Bytes block(start, block_bytes);
  const u64 offset = segment_.offset + segment_used_;
  segment_used_ += block_bytes;
  // A lone small block is written at once: a round through the queue would only add latency.
  Status written = (flags & format::kLogCommit) != 0 && header->sequence == 0
                       ? medium_.write(offset, block, PERDURA_SITE("log commit block"))
                       : queue_->submit(offset, block, PERDURA_SITE("log block"));
  buffer_ = (buffer_ + 1) % buffer_count_;
  if (written && buffer_count_ > 1) written = queue_->drain(buffer_count_ - 1);
  if (!written) failure_ = written;
  reset_block();
  return static_cast<bool>(written);
}

Status LogWriter::finish() {
  if (run_count_ != 0 && !flush(0)) return failure_;
  PERDURA_TRY(failure_);
  return queue_->drain();
}

Status LogWriter::finish_with_commit() {
  if (!flush(format::kLogCommit)) return failure_;
  return queue_->drain();
}

}  // namespace perdura::commit
