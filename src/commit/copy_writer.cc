#include "commit/copy_writer.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/assert.hpp"
#include "base/checksum.hpp"

namespace perdura::commit {

using format::Extent;
using region::HomeMap;

CopyWriter::CopyWriter(media::LinearMedium& medium, WriteBuffers* buffers)
    : PageSink(buffers != nullptr),
      medium_(medium),
      buffers_(buffers),
      queue_(buffers == nullptr ? medium.queue() : nullptr) {}

void CopyWriter::begin(const CopyVersion& version) {
  version_ = version;
  trimmer_.reset();
  if (version.compare && buffers_ == nullptr) trimmer_.emplace(medium_, *version.newest);
  newest_ = older_ = nullptr;
  old_sums_.clear();
  bytes_ = 0;
}

// What changes is accessible, and so has its places.
const Extent& CopyWriter::extent(const HomeMap& copy, const Extent*& last, u64 page) {
  const u64 offset = page * kPageBytes;
  if (last == nullptr || offset - last->region_offset >= last->length) last = copy.find(offset);
  PERDURA_ASSERT(last != nullptr);
  return *last;
}

// Where all of it changed what the newest copy has is not wanted.
void CopyWriter::fetch(u64 page, u64 mask) noexcept {
  __builtin_prefetch(&version_.copies->sum(page), 1);
  if (mask == kAllLines || buffers_ != nullptr) return;
  const std::byte* const newest = medium_.direct(
      HomeMap::page_place(extent(*version_.newest, newest_, page), page * kPageBytes), kPageBytes);
  prefetch_lines(newest, mask);
}

// Lines of a page that is as the version has it. Nothing that was stored to a damaged page that
// reads as zeros.
Status CopyWriter::take(u64 page, u64 mask, const std::byte* bytes) {
  const PageSet& withheld = version_.guard->withheld();
  if (!withheld.empty() && withheld.contains(page)) return {};
  if (whole_pages()) mask = kAllLines;
  else if (trimmer_) mask = trimmer_->changed(bytes, page, mask);
  if (mask == 0) return {};
  // Before it is there, in part.
  version_.lacking->add_mask(page, mask);
  version_.changed->add_mask(page, mask);
  bytes_ += static_cast<u64>(std::popcount(mask)) * kLineBytes;
  return mask == kAllLines ? write_page(page, bytes) : write_lines(page, mask, bytes);
}

// What was written before is not to come behind what is written now.
Status CopyWriter::take_again(u64 page, const std::byte* bytes) {
  PERDURA_TRY(drain());
  return take(page, kAllLines, bytes);
}

Status CopyWriter::write_page(u64 page, const std::byte* bytes) {
  const u64 place = HomeMap::page_place(extent(*version_.older, older_, page), page * kPageBytes);
  change_sum(page, page_checksum(bytes, page * kLinesPerPage));
  if (buffers_ == nullptr)
    return queue_->submit(place, {bytes, kPageBytes}, PERDURA_SITE("lines of the older copy"));
  PERDURA_ASSIGN(std::byte* const to, buffers_->room(place, kPageBytes));
  std::memcpy(to, bytes, kPageBytes);
  return {};
}

// Where lines stay they have what the newest copy has, so the checksum follows from that one's: it
// is not made of what happens to be in the older copy, and damage there does not fit.
Status CopyWriter::write_lines(u64 page, u64 mask, const std::byte* bytes) {
  const u64 offset = page * kPageBytes;
  const u64 line = page * kLinesPerPage;
  const u64 place = HomeMap::page_place(extent(*version_.older, older_, page), offset);
  const std::byte* const newest = medium_.direct(
      HomeMap::page_place(extent(*version_.newest, newest_, page), offset), kPageBytes);
  u64 sum = version_.copies->sum(page);
  for (u64 bits = mask; bits != 0; bits &= bits - 1) {
    const auto i = static_cast<u64>(std::countr_zero(bits));
    sum += line_checksum(bytes + i * kLineBytes, line + i) -
           line_checksum(newest + i * kLineBytes, line + i);
  }
  change_sum(page, sum);
  return for_each_run(mask, [&](u64 first, u64 count) {
    return queue_->submit(place + first * kLineBytes,
                          {bytes + first * kLineBytes, count * kLineBytes},
                          PERDURA_SITE("lines of the older copy"));
  });
}

// It can be undone before it is done.
void CopyWriter::change_sum(u64 page, u64 sum) {
  u64& at = version_.copies->sum(page);
  if (at == format::kCondemnedPage || at == sum) return;
  old_sums_.push_back({page, at});
  at = sum;
}

void CopyWriter::undo_sums() noexcept {
  for (auto each = old_sums_.rbegin(); each != old_sums_.rend(); ++each)
    version_.copies->sum(each->page) = each->sum;
  old_sums_.clear();
}

Status CopyWriter::drain() { return buffers_ != nullptr ? buffers_->flush() : queue_->drain(); }

void CopyWriter::abandon() noexcept {
  if (queue_ == nullptr) return;
  const Status drained = guarded([this] { return queue_->drain(); });
  (void)drained;  // the version has failed already
}

void StoppedCopy::help() noexcept {
  CopyWriter* writer = nullptr;
  Status written = guarded([&] { return write_pieces(writer); });
  if (written) return;
  if (writer != nullptr) writer->abandon();
  std::lock_guard lock(mutex_);
  if (status_) status_ = std::move(written);
}

// `writer` is taken with the first piece, if there is one. Pieces are whole groups of the change
// set: what is kept of their pages no two threads store to.
Status StoppedCopy::write_pieces(CopyWriter*& writer) {
  const u64 groups = input_.changes->groups();
  const u64 pieces = (groups + kGroupsPerPiece - 1) / kGroupsPerPiece;
  PagesAhead ahead;
  const auto use = [&](const PageLines& each) {
    return writer->take(each.page, each.mask, input_.base + each.page * kPageBytes);
  };
  for (;;) {
    const u64 piece = next_piece_.fetch_add(1, std::memory_order_relaxed);
    if (piece >= pieces) break;
    if (writer == nullptr) writer = input_.take_writer();
    const u64 end = std::min((piece + 1) * kGroupsPerPiece, groups);
    Status status;
    for (u64 group = piece * kGroupsPerPiece; group < end; ++group)
      input_.changes->visit_group(group, [&](u64 page, u64 mask) {
        if (!status) return;
        writer->fetch(page, mask);
        prefetch_lines(input_.base + page * kPageBytes, mask);
        status = ahead.add({page, mask}, use);
      });
    PERDURA_TRY(status);
  }
  if (writer == nullptr) return {};
  PERDURA_TRY(ahead.use_rest(use));
  return writer->drain();
}

}  // namespace perdura::commit
