#include "log/version_writer.hpp"

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"
#include "base/checksum.hpp"
#include "media/summed_copy.hpp"

namespace perdura::log {
namespace {

using format::LogBlockHeader;

// No more runs than lines fit a block.
u64 runs_max(u64 block_bytes) { return block_bytes / (kLineBytes + sizeof(u64)) + kLinesPerPage; }

}  // namespace

VersionWriter::VersionWriter(Space& space, region::Volume& volume, u32 region)
    : medium_(volume.medium()),
      block_bytes_max_(std::min(kBlockBytes, volume.segment_bytes())),
      write_bytes_(medium_.geometry().write_bytes),
      in_place_(medium_.geometry().byte_addressable),
      buffers_(in_place_ ? block_bytes_max_ : block_bytes_max_ * kBuffers),
      queue_(medium_.queue()),
      runs_(std::make_unique<u64[]>(runs_max(block_bytes_max_))),
      sums_(std::make_unique<u64[]>(block_bytes_max_ / format::kLogPieceBytes + 1)),
      segment_(space, volume, region) {}

void VersionWriter::begin(VersionInProgress& version) {
  version_ = &version;
  failure_ = {};
  close_block();
}

void VersionWriter::close_block() {
  block_limit_ = 0;
  data_bytes_ = run_count_ = sum_count_ = 0;
  run_next_ = ~u64{0};
}

void VersionWriter::abandon() {
  const Status drained = guarded([this] { return queue_->drain(); });
  (void)drained;  // the version has failed already, with an earlier reason
  leave_segment();
  version_ = nullptr;
  close_block();
}

bool VersionWriter::fail(const Status& status) {
  if (failure_ && !status) failure_ = status;
  return static_cast<bool>(failure_);
}

// Choose the block's place: behind the last one, or in a new segment.
bool VersionWriter::open_block() {
  PERDURA_ASSERT(static_cast<bool>(failure_));
  if (segment_.left() >= kBlockBytesMin) {
    segment_.note(version_->number);
  } else if (const Status taken = segment_.take(Content::kVersions, version_->number); !taken) {
    return fail(taken);
  }
  block_limit_ = std::min(block_bytes_max_, segment_.left());
  if (!in_place_) staging_ = buffers_.data() + buffer_ * block_bytes_max_ + sizeof(LogBlockHeader);
  return true;
}

bool VersionWriter::make_room_slow() {
  if (!failure_) return false;
  if (block_limit_ == 0) return open_block();
  return flush(0) && open_block();
}

u64 VersionWriter::write(const media::Gather& gather) {
  if (!in_place_) return media::gather_summed(staging_ + data_bytes_, gather);
  const Result<u64> sum =
      queue_->submit_gathered(data_place() + data_bytes_, gather, PERDURA_SITE("log piece"));
  if (sum) return *sum;
  fail(sum.failure());
  return 0;
}

void VersionWriter::keep(std::span<const u64> lines, u64 sum) {
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

void VersionWriter::keep_run(u64 first_line, u64 count, u64 sum) {
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

bool VersionWriter::flush(u32 flags) {
  if (block_limit_ == 0 && !open_block()) return false;
  const u64 runs_bytes = run_count_ * sizeof(u64);
  const u64 used = sizeof(LogBlockHeader) + data_bytes_ + runs_bytes;

  alignas(kLineBytes) LogBlockHeader header{};
  header.data_checksum = checksum(sums_.get(), sum_count_ * sizeof(u64));
  header.runs_checksum = checksum(runs_.get(), runs_bytes);
  segment_.stamp(header);
  header.version = version_->number;
  header.ticket = version_->ticket;
  header.flags = flags;
  header.sequence = version_->blocks_begun.fetch_add(1, std::memory_order_relaxed);
  header.run_count = static_cast<u32>(run_count_);
  header.data_bytes = static_cast<u32>(data_bytes_);
  header.block_bytes = static_cast<u32>(round_up(used, write_bytes_));
  const u64 offset = header.place;
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
  segment_.advance(header.block_bytes);
  close_block();
  return fail(written);
}

Status VersionWriter::finish() {
  if (failure_ && run_count_ != 0) flush(0);
  if (!failure_) return failure_;
  return queue_->drain();
}

Status VersionWriter::finish_with_commit() {
  if (!failure_ || !flush(format::kLogCommit)) return failure_;
  return queue_->drain();
}

}  // namespace perdura::log
