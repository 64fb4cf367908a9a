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

ObjectCopies::ObjectCopies(media::LinearMedium& medium, u64 head_place, const ObjectHead& head)
    : medium_(medium),
      head_place_(head_place),
      write_bytes_(medium.geometry().write_bytes),
      head_(head),
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
  PERDURA_ASSERT(checkpoint >= head_.checkpoint &&
                 image.size() == format::object_image_bytes(head_));
  ObjectHead next = head_;
  ++next.sequence;
  next.session = session;
  next.checkpoint = checkpoint;
  next.copy = head_.copy ^ 1;
  next.copy_checksum = checksum(image.data(), image.size());
  if (head_unknown_) {
    PERDURA_TRY(clear_head(next.sequence % 2));
    // Barrier: no head names the copy that is written now.
    PERDURA_TRY(medium_.barrier(PERDURA_SITE("cleared object head")));
    head_unknown_ = false;
  }
  PERDURA_TRY(write_copy(next.copy, image));
  // Barrier: the copy is durable before the head names it.
  PERDURA_TRY(medium_.barrier(PERDURA_SITE("object copy")));
  return replace_head(next);
}

Status ObjectCopies::repeat_head() {
  ObjectHead next = head_;
  ++next.sequence;
  return replace_head(next);
}

Status ObjectCopies::remove() {
  ObjectHead next = head_;
  ++next.sequence;
  next.log_lines = 0;
  return replace_head(next);
}

Status ObjectCopies::replace_head(const ObjectHead& next) {
  head_unknown_ = true;
  PERDURA_TRY(write_head(next));
  // Barrier: the head is durable before what it does not need is written again: the log before its
  // checkpoint, the other copy, all of an object that was removed.
  PERDURA_TRY(medium_.barrier(PERDURA_SITE("object head")));
  head_unknown_ = false;
  head_ = next;
  return {};
}

Status ObjectCopies::clear_head(u64 slot) {
  std::memset(buffer_.data(), 0, kPageBytes);
  return medium_.write(head_place_ + slot * format::kObjectHeadBytes,
                       buffer_.first(format::kObjectHeadBytes),
                       PERDURA_SITE("cleared object head"));
}

Status ObjectCopies::write_copy(u64 copy, std::span<const std::byte> image) {
  for (u64 at = 0; at < image.size();) {
    const u64 here = std::min<u64>(image.size() - at, kBufferBytes);
    const u64 whole = round_up(here, write_bytes_);
    std::memcpy(buffer_.data(), image.data() + at, here);
    std::memset(buffer_.data() + here, 0, whole - here);
    PERDURA_TRY(medium_.write(head_.copy_place[copy] + at, buffer_.first(whole),
                              PERDURA_SITE("object copy")));
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
