#include "commit/capture.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "base/assert.hpp"
#include "base/line_mask.hpp"

namespace perdura::commit {

using log::kPieceLines;

// Lines of the region on their way to the log, written a piece at a time while the next piece is
// fetched. They are found by the hundred and then gathered one piece after another: most of the
// time goes into waiting for them, and while the dirty map is looked through nothing is fetched.
class PieceStream {
 public:
  PieceStream(log::VersionWriter& writer, const std::byte* base) : writer_(writer), base_(base) {}

  /// With a window: a line that a mutator copied aside is left out and goes to `aside` instead.
  PieceStream(log::VersionWriter& writer, const std::byte* base, track::Window& window,
              std::vector<u64>& aside)
      : writer_(writer), base_(base), window_(&window), aside_(&aside) {}

  /// Lines of a page, at least one; pages ascend. False when the log failed.
  bool add_page(u64 page, u64 mask) {
    if (mask == ~u64{0} && begin_ == end_) {
      const u64 before = std::exchange(page_, page);
      return before == kNone || write_page(before, base_ + page * kPageBytes);
    }
    if (page_ != kNone && !write_page(std::exchange(page_, kNone), nullptr)) return false;
    for (; mask != 0; mask &= mask - 1)
      lines_[end_++] = address(page * kLinesPerPage + static_cast<u64>(std::countr_zero(mask)));
    return end_ <= kFull || write_batch();
  }
  /// A line, in any order; a stream has lines or pages.
  bool add_line(u64 line) {
    lines_[end_++] = address(line);
    return end_ <= kFull || write_batch();
  }
  /// Write what is left.
  bool finish() {
    if (page_ != kNone && !write_page(std::exchange(page_, kNone), nullptr)) return false;
    return write_down_to(0);
  }

 private:
  static constexpr u64 kNone = ~u64{0};
  static constexpr u64 kFull = 16 * kPieceLines;  ///< another page must have room behind

  const std::byte* address(u64 line) const { return base_ + line * kLineBytes; }
  u64 number(const std::byte* line) const { return static_cast<u64>(line - base_) / kLineBytes; }

  bool write_page(u64 page, const std::byte* ahead);
  /// Keeps a piece back, to be fetched with those found next.
  bool write_batch() {
    const bool written = write_down_to(kPieceLines);
    std::copy(&lines_[begin_], &lines_[end_], lines_.data());
    end_ -= std::exchange(begin_, 0);
    return written;
  }
  bool write_down_to(u64 lines_left) {
    while (end_ - begin_ > lines_left)
      if (!write_piece(std::min(end_ - begin_, kPieceLines))) return false;
    if (begin_ == end_) begin_ = end_ = 0;
    return true;
  }
  bool write_piece(u64 count);
  bool page_marked(u64 page) const {
    bool any = false;
    for (u64 i = 0; i < kLinesPerPage; ++i) any |= window_->marked(page * kLinesPerPage + i);
    return any;
  }
  bool leave_out_marked(u64 count);

  log::VersionWriter& writer_;
  const std::byte* const base_;
  track::Window* window_ = nullptr;
  std::vector<u64>* aside_ = nullptr;
  u64 begin_ = 0;
  u64 end_ = 0;
  std::array<const std::byte*, kFull + kLinesPerPage> lines_;  ///< from begin_ to end_
  u64 page_ = kNone;  ///< a whole page that is ahead of all in lines_
  alignas(kLineBytes) std::array<std::byte, format::kLogPieceBytes> calm_;
};

// When a line of it was copied aside, the others go the way of single lines, and so do later pages
// until those are written: lines are published in their order.
bool PieceStream::write_page(u64 page, const std::byte* ahead) {
  const u64 first = page * kLinesPerPage;
  if (track::kRacingReadsAllowed && begin_ == end_) {
    if (!writer_.make_room()) return false;
    const u64 sum = writer_.write({.page = base_ + page * kPageBytes, .page_ahead = ahead});
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (window_ == nullptr || !window_->any_mark() || !page_marked(page)) {
      if (window_ != nullptr) window_->publish(first + kLinesPerPage);
      writer_.keep_run(first, kLinesPerPage, sum);
      return true;
    }
  }
  for (u64 i = 0; i < kLinesPerPage; ++i) lines_[end_++] = address(first + i);
  return end_ <= kFull || write_batch();
}

// The first `count` lines. They stay in the stream, less those copied aside, when there are any.
bool PieceStream::write_piece(u64 count) {
  if (!writer_.make_room()) return false;
  std::span<const std::byte* const> lines(&lines_[begin_], count);
  const std::span<const std::byte* const> ahead(lines.end(),
                                                std::min(end_ - begin_ - count, kPieceLines));
  std::array<u64, kPieceLines> numbers;
  for (u64 i = 0; i < count; ++i) numbers[i] = number(lines[i]);
  std::array<const std::byte*, kPieceLines> calm;
  if constexpr (!track::kRacingReadsAllowed) {
    for (u64 i = 0; i < count; ++i) {
      track::copy_racing_line(&calm_[i * kLineBytes], lines[i]);
      calm[i] = &calm_[i * kLineBytes];
    }
    lines = {calm.data(), count};
  }
  const u64 sum = writer_.write({.lines = lines, .ahead = ahead});
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (window_ != nullptr && window_->any_mark() && leave_out_marked(count)) return true;
  if (window_ != nullptr) window_->publish(numbers[count - 1] + 1);
  writer_.keep({numbers.data(), count}, sum);
  begin_ += count;
  return true;
}

// Of the first `count` lines, take the marked ones out of the stream; false when there are none.
// Their copies are waited for here: once a line behind them is published other mutators take them
// for captured and store to them.
bool PieceStream::leave_out_marked(u64 count) {
  u64 kept = begin_ + count;
  for (u64 i = begin_ + count; i-- > begin_;) {
    const u64 line = number(lines_[i]);
    if (!window_->marked(line)) {
      lines_[--kept] = lines_[i];
      continue;
    }
    window_->await_copy(line);
    aside_->push_back(line);
  }
  return std::exchange(begin_, kept) != kept;
}

bool write_lines(std::span<const u64> numbers, std::span<const std::byte* const> data,
                 log::VersionWriter& writer) {
  for (size_t at = 0; at < numbers.size(); at += kPieceLines) {
    const size_t count = std::min<size_t>(kPieceLines, numbers.size() - at);
    if (!writer.make_room()) return false;
    const u64 sum = writer.write({.lines = data.subspan(at, count)});
    writer.keep(numbers.subspan(at, count), sum);
  }
  return true;
}

namespace {

// Lines that a mutator copied first. An arena also holds copies of lines outside the change set,
// and of lines that were captured before their mark: those are not in `aside`.
bool take_side_copies(std::vector<u64>& aside, const std::vector<track::MutatorSlot*>& mutators,
                      log::VersionWriter& writer) {
  std::sort(aside.begin(), aside.end());
  std::vector<const std::byte*> copies(aside.size());
  for (const track::MutatorSlot* mutator : mutators) {
    const track::SideArena& arena = *mutator->side;
    for (u64 i = 0, count = arena.count(); i < count; ++i) {
      const auto found = std::lower_bound(aside.begin(), aside.end(), arena.line(i));
      if (found == aside.end() || *found != arena.line(i)) continue;
      const std::byte*& copy = copies[static_cast<size_t>(found - aside.begin())];
      if (copy == nullptr) copy = arena.data(i);
    }
  }
  for (const std::byte* copy : copies) PERDURA_ASSERT(copy != nullptr);
  return write_lines(aside, copies, writer);
}

}  // namespace

u64 Trimmer::changed(const std::byte* page_bytes, u64 page, u64 mask) {
  const u64 at = seen_++ % (kSamplePages + kSkipPages);
  if (at == 0) sampled_lines_ = changed_lines_ = 0;
  // Comparing costs about as much as copying: it pays where at least a quarter is left out.
  if (at >= kSamplePages && changed_lines_ * 4 > sampled_lines_ * 3) return mask;
  const format::Extent* extent = home_.find(page * kPageBytes);
  if (extent == nullptr) return mask;
  const std::byte* old =
      medium_.direct(region::HomeMap::page_place(*extent, page * kPageBytes), kPageBytes);
  const u64 different = different_lines(page_bytes, old, mask);
  sampled_lines_ += static_cast<u64>(std::popcount(mask));
  changed_lines_ += static_cast<u64>(std::popcount(different));
  return different;
}

Status capture_in_background(const track::DirtyMap& changes, const std::byte* base,
                             track::Window& window, track::Mutators& mutators,
                             log::VersionWriter& writer, const std::function<void()>& close_window,
                             u64* side_copies) {
  std::vector<u64> aside;
  PieceStream stream(writer, base, window, aside);
  bool good = true;
  changes.for_each_page([&](u64 page, u64 mask) { good = good && stream.add_page(page, mask); });
  good = good && stream.finish();
  close_window();
  *side_copies += aside.size();
  // Only now: threads that began during the capture have copied lines aside as well.
  if (good && !aside.empty()) good = take_side_copies(aside, mutators.snapshot(), writer);
  return good ? Status{} : writer.finish();
}

void StoppedCapture::help() noexcept {
  log::VersionWriter* writer = nullptr;
  Status captured = guarded([&] { return capture_pieces(writer); });
  if (!captured && writer != nullptr) writer->abandon();
  fail(std::move(captured));
  if (writer != nullptr) input_.give_writer(writer);
}

// `writer` is taken with the first piece, if there is one.
Status StoppedCapture::capture_pieces(log::VersionWriter*& writer) {
  std::optional<PieceStream> stream;
  std::optional<Trimmer> trimmer;
  const u64 groups = input_.changes->groups();
  const u64 pieces =
      input_.lists.empty() ? (groups + kGroupsPerPiece - 1) / kGroupsPerPiece : input_.lists.size();
  for (;;) {
    const u64 piece = next_piece_.fetch_add(1, std::memory_order_relaxed);
    if (piece >= pieces) break;
    if (writer == nullptr) {
      writer = input_.take_writer();
      writer->begin(*input_.version);
      stream.emplace(*writer, input_.base);
      if (input_.home != nullptr) trimmer.emplace(*input_.medium, *input_.home);
    }
    // A failure of the log sticks; finish() returns it.
    const bool good = input_.lists.empty()
                          ? capture_piece(*stream, trimmer ? &*trimmer : nullptr, piece)
                          : capture_list(*stream, piece);
    if (!good) break;
  }
  if (writer == nullptr) return {};
  stream->finish();
  return writer->finish();
}

bool StoppedCapture::capture_piece(PieceStream& stream, Trimmer* trimmer, u64 piece) {
  const u64 begin = piece * kGroupsPerPiece;
  const u64 end = std::min(begin + kGroupsPerPiece, input_.changes->groups());
  bool good = true;
  for (u64 group = begin; group < end; ++group)
    input_.changes->visit_group(group, [&](u64 page, u64 mask) {
      if (trimmer != nullptr) mask = trimmer->changed(input_.base + page * kPageBytes, page, mask);
      if (mask != 0) good = good && stream.add_page(page, mask);
    });
  return good;
}

bool StoppedCapture::capture_list(PieceStream& stream, u64 index) {
  const auto [begin, end] = input_.lists[index];
  for (const u64* line = begin; line != end; ++line)
    if (!stream.add_line(*line)) return false;
  return true;
}

void StoppedCapture::fail(Status status) {
  std::lock_guard lock(mutex_);
  if (status_ && !status) status_ = std::move(status);
}

}  // namespace perdura::commit
