#include "commit/capture.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/assert.hpp"

namespace perdura::commit {
namespace {

// Pages are visited in batches so that their lines can be fetched ahead.
constexpr size_t kBatchPages = 32;

struct PageMask {
  u64 page;
  u64 mask;
};

void prefetch_lines(const std::byte* base, const PageMask& entry) {
  const std::byte* page = base + entry.page * kPageBytes;
  // The hardware follows sequential lines by itself.
  if (std::popcount(entry.mask) > 8) return;
  for (u64 bits = entry.mask; bits != 0; bits &= bits - 1)
    __builtin_prefetch(page + static_cast<u64>(std::countr_zero(bits)) * kLineBytes);
}

// Calls take(page, mask) for every page of the set, some pages after its lines were prefetched.
template <class Take>
void for_each_page_prefetched(const track::DirtyMap& changes, const std::byte* base,
                              u64 group_begin, u64 group_end, Take&& take) {
  PageMask ring[kBatchPages];
  size_t filled = 0;
  size_t next = 0;
  const auto visit = [&](u64 page, u64 mask) {
    if (filled == kBatchPages) {
      take(ring[next].page, ring[next].mask);
    } else {
      ++filled;
    }
    ring[next] = {page, mask};
    prefetch_lines(base, ring[next]);
    next = (next + 1) % kBatchPages;
  };
  for (u64 group = group_begin; group < group_end; ++group) changes.visit_group(group, visit);
  const size_t first = filled == kBatchPages ? next : 0;
  for (size_t i = 0; i < filled; ++i) {
    const PageMask& entry = ring[(first + i) % kBatchPages];
    take(entry.page, entry.mask);
  }
}

// Copies the lines of `mask`, runs of neighbours at once.
void append_lines(LogWriter& writer, const std::byte* page_bytes, u64 page, u64 mask) {
  if (mask == ~u64{0} && writer.takes_pages()) {
    writer.append_page(page * kLinesPerPage, writer.write_page(page_bytes));
    return;
  }
  while (mask != 0) {
    const auto first = static_cast<unsigned>(std::countr_zero(mask));
    const auto count = static_cast<unsigned>(std::countr_one(mask >> first));
    std::memcpy(writer.cursor(), page_bytes + first * kLineBytes, count * kLineBytes);
    writer.append(page * kLinesPerPage + first, count);
    mask &= ~bit_range(first, count);
  }
}

class BackgroundCapture {
 public:
  BackgroundCapture(const std::byte* base, track::Window& window, LogWriter& writer)
      : base_(base), window_(window), writer_(writer) {}

  // False when the log failed.
  bool take(u64 page, u64 mask) {
    if (!writer_.make_room()) return false;
    const std::byte* bytes = base_ + page * kPageBytes;
    if (mask == ~u64{0} && take_page(page, bytes)) {
      window_.publish((page + 1) * kLinesPerPage);
      return true;
    }
    for (u64 bits = mask; bits != 0; bits &= bits - 1) {
      const u64 line = page * kLinesPerPage + static_cast<u64>(std::countr_zero(bits));
      track::copy_racing_line(writer_.cursor(), base_ + line * kLineBytes);
      if (window_.marked(line)) {
        aside_.push_back(line);
      } else {
        writer_.append(line, 1);
      }
    }
    window_.publish((page + 1) * kLinesPerPage);
    return true;
  }

  // False when a mutator copied a line of it aside meanwhile.
  bool take_page(u64 page, const std::byte* bytes) {
    if (track::kRacingReadsAllowed && writer_.takes_pages()) {
      const u64 sum = writer_.write_page(bytes);
      std::atomic_signal_fence(std::memory_order_seq_cst);
      if (window_.page_marked(page)) return false;
      writer_.append_page(page * kLinesPerPage, sum);
      return true;
    }
    track::copy_racing_page(writer_.cursor(), bytes);
    if (window_.page_marked(page)) return false;
    writer_.append(page * kLinesPerPage, kLinesPerPage);
    return true;
  }

  // Lines that a mutator copied first. An arena also holds copies of lines outside the change set,
  // and of lines that were captured before their mark: those are not in aside_.
  bool take_side_copies(const std::vector<track::MutatorSlot*>& mutators) {
    for (u64 line : aside_) window_.await_copy(line);
    std::vector<bool> taken(aside_.size());
    for (const track::MutatorSlot* mutator : mutators) {
      const track::SideArena& arena = *mutator->side;
      for (u64 i = 0, count = arena.count(); i < count; ++i) {
        const u64 line = arena.line(i);
        const auto found = std::lower_bound(aside_.begin(), aside_.end(), line);
        if (found == aside_.end() || *found != line) continue;
        const auto index = static_cast<size_t>(found - aside_.begin());
        if (taken[index]) continue;
        taken[index] = true;
        if (!writer_.make_room()) return false;
        std::memcpy(writer_.cursor(), arena.data(i), kLineBytes);
        writer_.append(line, 1);
      }
    }
    for (const bool each : taken) PERDURA_ASSERT(each);
    return true;
  }

  u64 aside() const { return aside_.size(); }

 private:
  const std::byte* base_;
  track::Window& window_;
  LogWriter& writer_;
  std::vector<u64> aside_;  ///< ascending
};

}  // namespace

u64 Trimmer::changed(const std::byte* page_bytes, u64 page, u64 mask) {
  const u64 at = seen_++ % (kSamplePages + kSkipPages);
  if (at == 0) sampled_lines_ = changed_lines_ = 0;
  // Comparing costs about as much as copying: it pays where at least a quarter is left out.
  if (at >= kSamplePages && changed_lines_ * 4 > sampled_lines_ * 3) return mask;
  const format::Extent* extent = home_.find(page * kPageBytes);
  if (extent == nullptr) return mask;
  const std::byte* old = medium_.direct(region::HomeMap::page_place(*extent, page * kPageBytes));
  u64 different = 0;
  for (u64 bits = mask; bits != 0; bits &= bits - 1) {
    const auto line = static_cast<u64>(std::countr_zero(bits));
    if (std::memcmp(page_bytes + line * kLineBytes, old + line * kLineBytes, kLineBytes) != 0)
      different |= u64{1} << line;
  }
  sampled_lines_ += static_cast<u64>(std::popcount(mask));
  changed_lines_ += static_cast<u64>(std::popcount(different));
  return different;
}

Status capture_in_background(const track::DirtyMap& changes, const std::byte* base,
                             track::Window& window, track::Mutators& mutators, LogWriter& writer,
                             const std::function<void()>& close_window, u64* side_copies) {
  BackgroundCapture capture(base, window, writer);
  bool good = true;
  for_each_page_prefetched(changes, base, 0, changes.groups(),
                           [&](u64 page, u64 mask) { good = good && capture.take(page, mask); });
  close_window();
  *side_copies += capture.aside();
  // Only now: threads that began during the capture have copied lines aside as well.
  if (good) good = capture.take_side_copies(mutators.snapshot());
  return good ? Status{} : writer.finish();
}

void StoppedCapture::help() noexcept {
  LogWriter* writer = nullptr;
  Trimmer* trimmer = nullptr;
  std::unique_ptr<Trimmer> own_trimmer;
  const u64 groups = input_.changes->groups();
  const u64 pieces =
      input_.lists.empty() ? (groups + kGroupsPerPiece - 1) / kGroupsPerPiece : input_.lists.size();
  for (;;) {
    const u64 piece = next_piece_.fetch_add(1, std::memory_order_relaxed);
    if (piece >= pieces) break;
    if (writer == nullptr) {
      writer = input_.take_writer();
      writer->begin(*input_.version);
      if (input_.home != nullptr) {
        own_trimmer = std::make_unique<Trimmer>(*input_.medium, *input_.home);
        trimmer = own_trimmer.get();
      }
    }
    if (input_.lists.empty()) capture_piece(*writer, trimmer, piece);
    else capture_list(*writer, piece);
  }
  if (writer == nullptr) return;
  const Status finished = writer->finish();
  if (!finished) writer->abandon();
  fail(finished);
  input_.give_writer(writer);
}

void StoppedCapture::capture_piece(LogWriter& writer, Trimmer* trimmer, u64 piece) {
  const u64 begin = piece * kGroupsPerPiece;
  const u64 end = std::min(begin + kGroupsPerPiece, input_.changes->groups());
  for_each_page_prefetched(*input_.changes, input_.base, begin, end, [&](u64 page, u64 mask) {
    if (!writer.make_room()) return;  // the failure sticks; finish() returns it
    const std::byte* bytes = input_.base + page * kPageBytes;
    append_lines(writer, bytes, page,
                 trimmer != nullptr ? trimmer->changed(bytes, page, mask) : mask);
  });
}

void StoppedCapture::capture_list(LogWriter& writer, u64 index) {
  const auto [begin, end] = input_.lists[index];
  for (const u64* line = begin; line != end; ++line) {
    if (line + kBatchPages < end) __builtin_prefetch(input_.base + line[kBatchPages] * kLineBytes);
    if (!writer.make_room()) return;
    std::memcpy(writer.cursor(), input_.base + *line * kLineBytes, kLineBytes);
    writer.append(*line, 1);
  }
}

void StoppedCapture::fail(const Status& status) {
  std::lock_guard lock(mutex_);
  if (status_ && !status) status_ = status;
}

}  // namespace perdura::commit
