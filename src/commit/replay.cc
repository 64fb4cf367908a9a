#include "commit/replay.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "base/assert.hpp"
#include "base/checksum.hpp"
#include "base/clock.hpp"
#include "base/spin.hpp"

namespace perdura::commit {
namespace {

using format::Extent;
using region::HomeMap;

// One page of the checksum table covers this many pages.
constexpr u64 kWindowPages = kPageBytes / sizeof(u64);
constexpr u64 kWindowBytes = kWindowPages * kPageBytes;
constexpr u64 kBatchBytes = 128 * kMiB;  ///< of log, loaded at once
constexpr u64 kKeptBytes = 32 * kMiB;    ///< of it: the index of more is given back
constexpr u64 kStopNsMax = 20'000'000;
constexpr u64 kPrefetchRuns = 16;
constexpr u64 kPrefetchLines = 4;
constexpr u64 kReadGapBytes = 64 * kKiB;

// In the checksum of a page, `length` bytes from `line` on. Where they are the whole page the old
// ones do not matter.
void exchange_lines(u64& sum, const std::byte* data, const std::byte* old, u64 line, u64 length) {
  if (sum == format::kCondemnedPage) return;
  if (length == kPageBytes) {
    sum = page_checksum(data, line);
    return;
  }
  for (u64 at = 0; at < length; at += kLineBytes, ++line)
    sum += line_checksum(data + at, line) - line_checksum(old + at, line);
}

bool is_condemned(const std::byte* sum) {
  return std::memcmp(sum, &format::kCondemnedPage, sizeof format::kCondemnedPage) == 0;
}

Failure outside(const std::string& name, u64 line) {
  return Failure{Code::kCorrupt, "the log of '" + name + "' changes region offset " +
                                     std::to_string(line * kLineBytes) +
                                     ", which has no place on the medium; restore the store from "
                                     "a copy"};
}

}  // namespace

Result<LineIndex> LineIndex::create(u64 region_bytes) {
  PERDURA_ASSIGN(track::DirtyMap lines, track::DirtyMap::create(region_bytes));
  PERDURA_ASSIGN(Mapping heads, Mapping::anonymous(region_bytes / kPageBytes * sizeof(u64)));
  return LineIndex(std::move(lines), std::move(heads));
}

Status LineIndex::add(const log::Image& image, const log::BlockRef& block) {
  const std::byte* bytes = image.at(block.offset);
  const u64* runs = log::block_runs(bytes, block.data_bytes);
  const std::byte* data = log::block_data(bytes);
  const u64 lines_max = heads_.length() / sizeof(u64) * kLinesPerPage;
  u64* const heads = heads_.as<u64>();
  for (u32 i = 0; i < block.run_count; ++i) {
    if (i + kPrefetchRuns < block.run_count) {
      const u64 ahead = format::run_first(runs[i + kPrefetchRuns]);
      if (ahead < lines_max) {
        lines_.prefetch(ahead);
        __builtin_prefetch(&heads[ahead / kLinesPerPage], 1);
      }
    }
    const u64 first = format::run_first(runs[i]);
    const u64 count = format::run_count(runs[i]);
    if (first + count > lines_max) return outside("the store", first);
    lines_.add(first, count);
    for (u64 line = first; line < first + count; ++line, data += kLineBytes) {
      u64& head = heads[line / kLinesPerPage];
      entries_.push_back({data, head * kLinesPerPage + line % kLinesPerPage});
      head = entries_.size() - 1;
    }
  }
  return {};
}

Status LineIndex::add(const log::Recovered& log) {
  u64 lines = 0;
  for (const log::LoggedVersion& version : log.versions)
    for (const log::BlockRef& block : version.blocks) lines += block.data_bytes / kLineBytes;
  entries_.reserve(entries_.size() + lines);
  for (const log::LoggedVersion& version : log.versions)
    for (const log::BlockRef& block : version.blocks) PERDURA_TRY(add(*log.image, block));
  return {};
}

void LineIndex::keep_only_lines() {
  entries_ = {};
  heads_ = {};
}

void LineIndex::clear() {
  lines_.clear();
  entries_.resize(1);
}

Replay::Replay(region::Volume& volume, u64 region_bytes, const track::Mutators* mutators)
    : volume_(volume),
      medium_(volume.linear()),
      region_bytes_(region_bytes),
      mutators_(mutators),
      queue_(medium_.queue()) {}

Status Replay::run(std::shared_ptr<const HomeMap> home,
                   std::span<const log::LoggedVersion> versions, bool after_crash) {
  after_crash_ = after_crash;
  home_ = std::move(home);
  home_bytes_ = 0;
  damaged_.clear();
  Status done = bring_home(versions);
  home_.reset();
  return done;
}

Status Replay::bring_home(std::span<const log::LoggedVersion> versions) {
  if (medium_.geometry().byte_addressable) {
    if (after_crash_) {
      PERDURA_ASSIGN(track::DirtyMap touched, track::DirtyMap::create(region_bytes_));
      touched_ = std::make_unique<track::DirtyMap>(std::move(touched));
    }
    for (const log::LoggedVersion& version : versions)
      for (const log::BlockRef& block : version.blocks) PERDURA_TRY(replay_nvm(block));
    if (after_crash_) PERDURA_TRY(recompute_pages());
    return queue_->drain();
  }
  std::vector<log::BlockRef> batch;
  u64 batch_bytes = 0;
  for (const log::LoggedVersion& version : versions) {
    for (const log::BlockRef& block : version.blocks) {
      batch.push_back(block);
      batch_bytes += block.block_bytes;
      if (batch_bytes < kBatchBytes) continue;
      PERDURA_TRY(replay_blocks(batch));
      batch.clear();
      batch_bytes = 0;
    }
  }
  return batch.empty() ? Status{} : replay_blocks(batch);
}

// While the program stands still who copies its changes aside needs the processors, and the program
// is there again in some milliseconds. A stop that takes longer waits for an operation, and that
// perhaps for log which this replay frees.
void Replay::let_stops_pass() noexcept {
  if (mutators_ == nullptr) return;
  if (!mutators_->is_stopping()) {
    has_waited_ = false;
    return;
  }
  if (std::exchange(has_waited_, true)) return;
  for (const u64 begin = now_ns(); mutators_->is_stopping() && now_ns() - begin < kStopNsMax;)
    give_way();
}

/// 64 bytes of checksum table, written when the next ones are wanted.
struct Replay::TableLine {
  alignas(kLineBytes) u64 sums[kLineBytes / sizeof(u64)];
  u64 place = ~u64{0};

  Status move_to(Replay& replay, u64 wanted) {
    if (wanted == place) return {};
    PERDURA_TRY(flush(replay));
    place = wanted;
    std::memcpy(sums, replay.medium_.direct(place, sizeof sums), sizeof sums);
    return {};
  }
  Status flush(Replay& replay) const {
    if (place == ~u64{0}) return {};
    replay.home_bytes_ += sizeof sums;
    return replay.queue_->submit(place, std::as_bytes(std::span(sums)),
                                 PERDURA_SITE("page checksums"));
  }
};

// A run's first lines at home, and their checksum, where `extent` holds them.
void Replay::prefetch(const Extent& extent, u64 run) const {
  const u64 offset = format::run_first(run) * kLineBytes;
  if (offset - extent.region_offset >= extent.length) return;
  __builtin_prefetch(medium_.view(HomeMap::checksum_place(extent, round_down(offset, kPageBytes))));
  const std::byte* const lines = medium_.view(HomeMap::page_place(extent, offset));
  for (u64 i = 0; i < std::min(format::run_count(run), kPrefetchLines); ++i)
    __builtin_prefetch(lines + i * kLineBytes);
}

Status Replay::replay_nvm(const log::BlockRef& block) {
  let_stops_pass();
  const std::byte* bytes = medium_.view(block.offset);  // found whole when it was read or written
  const u64* runs = log::block_runs(bytes, block.data_bytes);
  const std::byte* data = log::block_data(bytes);
  const Extent* extent = nullptr;
  const auto locate = [&](u64 offset) {
    if (extent == nullptr || offset - extent->region_offset >= extent->length)
      extent = home_->find(offset);
    return extent != nullptr;
  };
  TableLine table;
  for (u32 i = 0; i < block.run_count; ++i) {
    if (i + kPrefetchRuns < block.run_count && extent != nullptr)
      prefetch(*extent, runs[i + kPrefetchRuns]);
    const u64 first = format::run_first(runs[i]);
    const u64 end = first + format::run_count(runs[i]);
    for (u64 line = first; line < end;) {
      const u64 offset = line * kLineBytes;
      if (!locate(offset)) return outside(volume_.name(), line);
      const u64 page_end = std::min(end, round_down(line, kLinesPerPage) + kLinesPerPage);
      const u64 length = (page_end - line) * kLineBytes;
      const u64 place = HomeMap::page_place(*extent, offset);
      if (after_crash_) {
        touched_->add(line, 1);
      } else {
        const u64 sum_place = HomeMap::checksum_place(*extent, round_down(offset, kPageBytes));
        PERDURA_TRY(table.move_to(*this, round_down(sum_place, kLineBytes)));
        u64& sum = table.sums[sum_place % kLineBytes / sizeof(u64)];
        exchange_lines(sum, data, medium_.direct(place, length), line, length);
      }
      PERDURA_TRY(queue_->submit(place, {data, length}, PERDURA_SITE("home line")));
      home_bytes_ += length;
      data += length;
      line = page_end;
    }
  }
  return table.flush(*this);
}

// Sums of pages that are not in the log are kept, and so are those of condemned pages; other sums
// may be torn, so nobody looks at them.
Status Replay::recompute_pages() {
  constexpr u64 kSums = kLineBytes / sizeof(u64);
  Status status;
  u64 done = 0;  // pages below it
  touched_->for_each_page([&](u64 page, u64) {
    if (!status || page < done) return;
    const Extent& extent = *home_->find(page * kPageBytes);
    const u64 place = round_down(HomeMap::checksum_place(extent, page * kPageBytes), kLineBytes);
    alignas(kLineBytes) u64 sums[kSums];
    const u64 first =
        page - (HomeMap::checksum_place(extent, page * kPageBytes) - place) / sizeof(u64);
    for (u64 i = 0; i < kSums; ++i) {
      const u64 each = first + i;
      const u64 offset = each * kPageBytes;
      const u64 sum_place = place + i * sizeof(u64);
      if (offset < extent.region_offset + extent.length && touched_->has_page(each) &&
          !medium_.whole(
              sum_place, medium_.view(sum_place), sizeof(u64), PERDURA_SITE("condemned page"),
              [](const std::byte* sum) { return is_condemned(sum); })) {
        sums[i] = page_checksum(medium_.direct(HomeMap::page_place(extent, offset), kPageBytes),
                                each * kLinesPerPage);
      } else {
        std::memcpy(&sums[i], medium_.direct(sum_place, sizeof(u64)), sizeof(u64));
      }
    }
    // The next extent has a line of its own for pages that follow at once.
    done = std::min(first + kSums, (extent.region_offset + extent.length) / kPageBytes);
    home_bytes_ += sizeof sums;
    status =
        queue_->submit(place, std::as_bytes(std::span(sums)), PERDURA_SITE("recovered checksums"));
  });
  touched_->clear();
  return status;
}

Status Replay::replay_blocks(std::span<const log::BlockRef> blocks) {
  if (!index_) {
    PERDURA_ASSIGN(LineIndex index, LineIndex::create(region_bytes_));
    index_ = std::make_unique<LineIndex>(std::move(index));
  }
  std::vector<u64> segments;
  for (const log::BlockRef& block : blocks) segments.push_back(volume_.segment_of(block.offset));
  std::sort(segments.begin(), segments.end());
  segments.erase(std::unique(segments.begin(), segments.end()), segments.end());
  if (!image_) image_.emplace(volume_);
  PERDURA_TRY(image_->load(segments));
  index_->clear();
  for (const log::BlockRef& block : blocks) {
    let_stops_pass();
    if (!log::block_fits(medium_, block.offset, image_->at(block.offset)))
      return Failure{Code::kCorrupt, "the log block at offset " + std::to_string(block.offset) +
                                         " of '" + volume_.name() +
                                         "' does not fit its checksum any more"};
    PERDURA_TRY(index_->add(*image_, block));
  }
  Status done = write_windows(*index_);
  index_->clear();
  if (image_->memory_bytes() > kKeptBytes) index_.reset();
  image_->let_go();
  return done;
}

Status Replay::write_windows(const LineIndex& index) {
  for (AlignedBuffer& buffer : buffers_)
    if (buffer.size() == 0) buffer = AlignedBuffer(kWindowBytes + kPageBytes);
  // Windows in address order: those pages of an extent that one page of its table covers.
  std::vector<std::pair<const Extent*, u64>> windows;
  Status status;
  index.lines().for_each_page([&](u64 page, u64) {
    const Extent* extent = home_->find(page * kPageBytes);
    if (extent == nullptr) {
      if (status) status = outside(volume_.name(), page * kLinesPerPage);
      return;
    }
    const u64 extent_page = extent->region_offset / kPageBytes;
    const u64 first = extent_page + round_down(page - extent_page, kWindowPages);
    if (windows.empty() || windows.back() != std::pair{extent, first})
      windows.emplace_back(extent, first);
  });
  PERDURA_TRY(status);
  for (const auto& [extent, first_page] : windows)
    PERDURA_TRY(write_window(index, *extent, first_page));
  return queue_->drain();
}

// Pages of which a part stays must be whole, or their damage would get a fitting checksum: `memory`
// holds them, and their checksums behind the window.
Status Replay::verify_window(const LineIndex& index, u64 first_page, u64 pages, std::byte* memory,
                             u64 table_place) {
  std::byte* const table = memory + kWindowBytes;
  const size_t before = damaged_.size();
  for (u64 i = 0; i < pages; ++i) {
    const u64 mask = index.lines().page_mask(first_page + i);
    std::byte* const sum = table + i * sizeof(u64);
    if (mask == 0 || mask == ~u64{0} || is_condemned(sum)) continue;
    let_stops_pass();
    const u64 found = page_checksum(memory + i * kPageBytes, (first_page + i) * kLinesPerPage);
    if (std::memcmp(sum, &found, sizeof found) == 0) continue;
    std::memcpy(sum, &format::kCondemnedPage, sizeof format::kCondemnedPage);
    damaged_.push_back(first_page + i);
  }
  if (damaged_.size() == before) return {};
  PERDURA_TRY(medium_.write(table_place, {table, kPageBytes}, PERDURA_SITE("condemned pages")));
  // Barrier: that they are condemned is durable before the pages change, and before anybody is
  // told. Else a damaged page that a crash leaves half written would count as half replayed.
  return medium_.barrier(PERDURA_SITE("condemned by the replay"));
}

// Read what is not replaced as a whole, patch, and write the changed pages and their checksums.
Status Replay::write_window(const LineIndex& index, const Extent& extent, u64 first_page) {
  const u64 pages =
      std::min(kWindowPages, (extent.region_offset + extent.length) / kPageBytes - first_page);
  AlignedBuffer& buffer = buffers_[buffer_];
  buffer_ ^= 1;
  // The other window's writes may still be in flight; those of this buffer may not.
  PERDURA_TRY(queue_->drain(pending_[buffer_]));
  std::byte* const memory = buffer.data();
  std::byte* const table = memory + kWindowBytes;
  const u64 place = HomeMap::page_place(extent, first_page * kPageBytes);
  const u64 table_place =
      round_down(HomeMap::checksum_place(extent, first_page * kPageBytes), kPageBytes);

  std::vector<media::ReadRequest> reads{{table_place, {table, kPageBytes}}};
  for (u64 i = 0; i < pages; ++i) {
    const u64 mask = index.lines().page_mask(first_page + i);
    if (mask == 0 || mask == ~u64{0}) continue;
    const u64 at = i * kPageBytes;
    // One read for neighbours, and across small gaps.
    media::ReadRequest& last = reads.back();
    const u64 last_end = last.offset + last.into.size();
    if (reads.size() > 1 && place + at - last_end <= kReadGapBytes)
      last.into = {last.into.data(), place + at + kPageBytes - last.offset};
    else reads.push_back({place + at, {memory + at, kPageBytes}});
  }
  PERDURA_TRY(medium_.read_all(reads));

  if (!after_crash_) PERDURA_TRY(verify_window(index, first_page, pages, memory, table_place));
  size_t submitted = 0;
  for (u64 i = 0; i < pages;) {
    const u64 begin = i;
    for (; i < pages && index.lines().page_mask(first_page + i) != 0; ++i) {
      std::byte* const page = memory + i * kPageBytes;
      let_stops_pass();
      index.for_each_line(first_page + i, [page](u64 line, const std::byte* bytes) {
        std::memcpy(page + line * kLineBytes, bytes, kLineBytes);
      });
      if (is_condemned(table + i * sizeof(u64))) continue;
      const u64 sum = page_checksum(page, (first_page + i) * kLinesPerPage);
      std::memcpy(table + i * sizeof(u64), &sum, sizeof sum);
    }
    if (i == begin) {
      ++i;
      continue;
    }
    const u64 length = (i - begin) * kPageBytes;
    PERDURA_TRY(queue_->submit(place + begin * kPageBytes, {memory + begin * kPageBytes, length},
                               PERDURA_SITE("home pages")));
    home_bytes_ += length;
    ++submitted;
  }
  PERDURA_TRY(queue_->submit(table_place, {table, kPageBytes}, PERDURA_SITE("page checksums")));
  home_bytes_ += kPageBytes;
  pending_[buffer_ ^ 1] = submitted + 1;
  return {};
}

}  // namespace perdura::commit
