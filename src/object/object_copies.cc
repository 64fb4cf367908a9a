#include "object/object_copies.hpp"

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"
#include "base/checksum.hpp"
#include "object/object_table.hpp"

namespace perdura::object {
namespace {

using format::ObjectHead;

// What the caches hold between the two; of block media what is written quickly.
constexpr u64 kPieceBytesOfNvm = 256 * kKiB;
constexpr u64 kPieceBytes = kMiB;

}  // namespace

ObjectCopies::ObjectCopies(media::LinearMedium& medium, u64 head_place, NewestHead& head)
    : medium_(medium),
      head_place_(head_place),
      write_bytes_(medium.geometry().write_bytes),
      newest_(&head),
      buffer_(kPieceBytes) {}

ObjectCopies::ObjectCopies(media::LinearMedium& medium, u64 head_place, const ObjectHead& head,
                           u8 unclear)
    : medium_(medium),
      head_place_(head_place),
      write_bytes_(medium.geometry().write_bytes),
      own_(std::make_unique<NewestHead>()),
      newest_(own_.get()),
      buffer_(kPieceBytes) {
  newest_->set(head);
  newest_->unclear = unclear;
}

void ObjectCopies::rename_functions(u64 place, u64 bytes, u64 checksum) {
  ObjectHead next = head();
  next.functions_place = place;
  next.functions_bytes = bytes;
  next.functions_checksum = checksum;
  newest_->set(next);
}

Status ObjectCopies::load(std::span<std::byte> pages) const {
  const u64 bytes = format::object_image_bytes(head());
  PERDURA_ASSERT(pages.size() >= bytes && pages.size() <= pages_bytes(bytes));
  const u64 place = head().copy_place[head().copy];
  PERDURA_TRY(medium_.load_pages(place, pages));
  const bool whole = medium_.whole(
      place, pages.data(), bytes, PERDURA_SITE("object copy"),
      [&](const std::byte* at) { return checksum(at, bytes) == head().copy_checksum; });
  if (whole) return {};
  return Failure{Code::kCorrupt, "the resilient copy of an object of '" + medium_.name() +
                                     "' (medium offset " + std::to_string(place) +
                                     ") does not fit its checksum; restore the store from a copy"};
}

Status ObjectCopies::write(std::span<const std::byte> image, u64 checkpoint, u64 session) {
  ObjectHead next = head();
  next.copy = head().copy ^ 1;
  return write_both(next, image, checkpoint, session);
}

Status ObjectCopies::resize(const ObjectHead& next, std::span<const std::byte> image,
                            u64 checkpoint, u64 session) {
  for (const u64 place : next.copy_place)
    PERDURA_ASSERT(place != head().copy_place[0] && place != head().copy_place[1]);
  ObjectHead first = next;
  first.copy = 0;
  return write_both(first, image, checkpoint, session);
}

// The copy and then the head that names it.
Status ObjectCopies::write_both(ObjectHead next, std::span<const std::byte> image, u64 checkpoint,
                                u64 session) {
  PERDURA_ASSERT(checkpoint >= head().checkpoint &&
                 image.size() == format::object_image_bytes(next));
  next.sequence = head().sequence + 1;
  next.session = session;
  next.checkpoint = checkpoint;
  PERDURA_TRY(clear_next_head());
  PERDURA_ASSIGN(next.copy_checksum, write_copy(next.copy_place[next.copy], image));
  // Barrier: the copy is durable before the head names it, and so are names of functions that were
  // written before.
  PERDURA_TRY(medium_.barrier(PERDURA_SITE("object copy")));
  return replace_head(next);
}

Status ObjectCopies::repeat_head() {
  PERDURA_TRY(clear_next_head());
  ObjectHead next = head();
  ++next.sequence;
  return replace_head(next);
}

Status ObjectCopies::remove() {
  PERDURA_TRY(clear_next_head());
  ObjectHead next = head();
  ++next.sequence;
  next.log_lines = 0;
  PERDURA_TRY(replace_head(next));
  (void)repeat_head();  // it has gone, whether another head says so or not
  return {};
}

Status ObjectCopies::replace_head(const ObjectHead& next) {
  const auto slot = static_cast<u8>(1U << next.sequence % 2);
  newest_->unclear |= slot;
  PERDURA_TRY(write_head(next));
  // Barrier: the head is durable before what it does not need is written again: the log before its
  // checkpoint, the other copy, all of an object that was removed.
  PERDURA_TRY(medium_.barrier(PERDURA_SITE("object head")));
  newest_->set(next);
  newest_->unclear &= static_cast<u8>(~slot);
  return {};
}

Status ObjectCopies::clear_next_head() {
  const u64 slot = (head().sequence + 1) % 2;
  if ((unclear() >> slot & 1) == 0) return {};
  std::memset(buffer_.data(), 0, format::kObjectHeadBytes);
  PERDURA_TRY(medium_.write(head_place_ + slot * format::kObjectHeadBytes,
                            buffer_.first(format::kObjectHeadBytes),
                            PERDURA_SITE("cleared object head")));
  // Barrier: no head names the copy that is written next, nor is there a part of one that a part of
  // the next head could make whole.
  PERDURA_TRY(medium_.barrier(PERDURA_SITE("cleared object head")));
  newest_->unclear &= static_cast<u8>(~(1 << slot));
  return {};
}

// In pieces that are summed and written one after the other: of a large one that is one pass
// through memory instead of two. What is no whole unit of the medium, and on block media what is
// not aligned, goes through the buffer.
Result<u64> ObjectCopies::write_copy(u64 place, std::span<const std::byte> image) {
  const bool in_pieces = image.size() > kPieceBytesOfNvm;
  if (in_pieces && !sum_) sum_.emplace();
  else if (sum_) sum_->begin();
  const bool is_nvm = write_bytes_ == kLineBytes;
  const u64 direct = is_nvm ? round_down(image.size(), kLineBytes) : 0;
  const u64 piece_bytes = is_nvm ? kPieceBytesOfNvm : kPieceBytes;
  for (u64 at = 0; at < image.size();) {
    const bool is_direct = at < direct;
    const u64 here = std::min<u64>((is_direct ? direct : image.size()) - at, piece_bytes);
    media::Bytes piece = image.subspan(at, here);
    if (in_pieces) sum_->add(piece.data(), here);
    if (!is_direct) {
      const u64 whole = round_up(here, write_bytes_);
      std::memcpy(buffer_.data(), piece.data(), here);
      std::memset(buffer_.data() + here, 0, whole - here);
      piece = buffer_.first(whole);
    }
    PERDURA_TRY(medium_.write(place + at, piece, PERDURA_SITE("object copy")));
    at += here;
  }
  return in_pieces ? sum_->sum() : checksum(image.data(), image.size());
}

Status ObjectCopies::write_head(const ObjectHead& head) {
  ObjectHead summed = head;
  summed.checksum = head_checksum(summed);
  const u64 whole = round_up(sizeof summed, write_bytes_);
  std::memset(buffer_.data(), 0, whole);
  std::memcpy(buffer_.data(), &summed, sizeof summed);
  return medium_.write(head_place_ + head.sequence % 2 * format::kObjectHeadBytes,
                       buffer_.first(whole), PERDURA_SITE("object head"));
}

}  // namespace perdura::object
