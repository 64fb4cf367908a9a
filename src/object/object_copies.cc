#include "object/object_copies.hpp"

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"
#include "base/checksum.hpp"
#include "object/object_table.hpp"

namespace perdura::object {
namespace {

using format::ObjectHead;

constexpr u64 kBufferBytes = kMiB;

}  // namespace

ObjectCopies::ObjectCopies(media::LinearMedium& medium, u64 head_place, const ObjectHead& head,
                           u8 unclear)
    : medium_(medium),
      head_place_(head_place),
      write_bytes_(medium.geometry().write_bytes),
      head_(head),
      unclear_(unclear),
      buffer_(kBufferBytes) {}

Status ObjectCopies::load(std::span<std::byte> pages) const {
  const u64 bytes = format::object_image_bytes(head_);
  PERDURA_ASSERT(pages.size() >= bytes && pages.size() <= pages_bytes(bytes));
  const u64 place = head_.copy_place[head_.copy];
  PERDURA_TRY(medium_.load_pages(place, pages));
  const bool whole = medium_.whole(
      place, pages.data(), bytes, PERDURA_SITE("object copy"),
      [&](const std::byte* at) { return checksum(at, bytes) == head_.copy_checksum; });
  if (whole) return {};
  return Failure{Code::kCorrupt, "the resilient copy of an object of '" + medium_.name() +
                                     "' (medium offset " + std::to_string(place) +
                                     ") does not fit its checksum; restore the store from a copy"};
}

Status ObjectCopies::write(std::span<const std::byte> image, u64 checkpoint, u64 session) {
  ObjectHead next = head_;
  next.copy = head_.copy ^ 1;
  return write_both(next, image, checkpoint, session);
}

Status ObjectCopies::resize(const ObjectHead& next, std::span<const std::byte> image,
                            u64 checkpoint, u64 session) {
  for (const u64 place : next.copy_place)
    PERDURA_ASSERT(place != head_.copy_place[0] && place != head_.copy_place[1]);
  ObjectHead first = next;
  first.copy = 0;
  return write_both(first, image, checkpoint, session);
}

// The copy and then the head that names it.
Status ObjectCopies::write_both(ObjectHead next, std::span<const std::byte> image, u64 checkpoint,
                                u64 session) {
  PERDURA_ASSERT(checkpoint >= head_.checkpoint &&
                 image.size() == format::object_image_bytes(next));
  next.sequence = head_.sequence + 1;
  next.session = session;
  next.checkpoint = checkpoint;
  next.copy_checksum = checksum(image.data(), image.size());
  PERDURA_TRY(clear_next_head());
  PERDURA_TRY(write_copy(next.copy_place[next.copy], image));
  // Barrier: the copy is durable before the head names it, and so are names of functions that were
  // written before.
  PERDURA_TRY(medium_.barrier(PERDURA_SITE("object copy")));
  return replace_head(next);
}

Status ObjectCopies::repeat_head() {
  PERDURA_TRY(clear_next_head());
  ObjectHead next = head_;
  ++next.sequence;
  return replace_head(next);
}

Status ObjectCopies::remove() {
  PERDURA_TRY(clear_next_head());
  ObjectHead next = head_;
  ++next.sequence;
  next.log_lines = 0;
  PERDURA_TRY(replace_head(next));
  (void)repeat_head();  // it has gone, whether another head says so or not
  return {};
}

Status ObjectCopies::replace_head(const ObjectHead& next) {
  const u8 slot = u8{1} << next.sequence % 2;
  unclear_ |= slot;
  PERDURA_TRY(write_head(next));
  // Barrier: the head is durable before what it does not need is written again: the log before its
  // checkpoint, the other copy, all of an object that was removed.
  PERDURA_TRY(medium_.barrier(PERDURA_SITE("object head")));
  unclear_ &= static_cast<u8>(~slot);
  head_ = next;
  return {};
}

Status ObjectCopies::clear_next_head() {
  const u64 slot = (head_.sequence + 1) % 2;
  if ((unclear_ >> slot & 1) == 0) return {};
  std::memset(buffer_.data(), 0, format::kObjectHeadBytes);
  PERDURA_TRY(medium_.write(head_place_ + slot * format::kObjectHeadBytes,
                            buffer_.first(format::kObjectHeadBytes),
                            PERDURA_SITE("cleared object head")));
  // Barrier: no head names the copy that is written next, nor is there a part of one that a part of
  // the next head could make whole.
  PERDURA_TRY(medium_.barrier(PERDURA_SITE("cleared object head")));
  unclear_ &= static_cast<u8>(~(1 << slot));
  return {};
}

// What is no whole unit of the medium, and on block media what is not aligned, goes through the
// buffer.
Status ObjectCopies::write_copy(u64 place, std::span<const std::byte> image) {
  const u64 direct = write_bytes_ == kLineBytes ? round_down(image.size(), kLineBytes) : 0;
  if (direct != 0)
    PERDURA_TRY(medium_.write(place, image.first(direct), PERDURA_SITE("object copy")));
  for (u64 at = direct; at < image.size();) {
    const u64 here = std::min<u64>(image.size() - at, kBufferBytes);
    const u64 whole = round_up(here, write_bytes_);
    std::memcpy(buffer_.data(), image.data() + at, here);
    std::memset(buffer_.data() + here, 0, whole - here);
    PERDURA_TRY(medium_.write(place + at, buffer_.first(whole), PERDURA_SITE("object copy")));
    at += here;
  }
  return {};
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
