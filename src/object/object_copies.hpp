// The two copies of an object on the medium, and its head, which says which of them is resilient.
//
//   write the older copy ─ barrier ─ write the head's older slot ─ barrier
//
// The other slot names the other copy, as it was a checkpoint earlier; the log has what that lacks.
// Where the resilient copy is damaged the object is made from those.
//
// Invariants:
//  - The copy that the newest head names, and the log from the older one's checkpoint on, are never
//    written.
//  - A head is written when the copy that it names is durable.
//  - It is written over a whole one, or over nothing: with a part of one, which an earlier failure
//    left, a part of it could be whole.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "base/aligned_buffer.hpp"
#include "base/checksum_of_pieces.hpp"
#include "format/object_format.hpp"
#include "media/medium.hpp"
#include "object/newest_head.hpp"

namespace perdura::object {

class ObjectCopies {
 public:
  /// `medium` outlives it. `head_place`: of both slots. `head`: the newest whole one; of an object
  /// that is new what it shall be, with the sequence of what was there before. `unclear`: a bit for
  /// each slot that may hold a part of a head.
  ObjectCopies(media::LinearMedium& medium, u64 head_place, const format::ObjectHead& head,
               u8 unclear);
  /// The same of a head that is known already, or is set, where others see it.
  ObjectCopies(media::LinearMedium& medium, u64 head_place, NewestHead& head);

  /// What its copy holds: `pages` has whole pages, which begin with the image. kCorrupt where that
  /// does not fit its checksum.
  Status load(std::span<std::byte> pages) const;

  /// The image is as it was when the entries before `checkpoint` were done. Entries that follow are
  /// of this session. Where it fails the resilient copy is what it was; it may be tried again.
  Status write(std::span<const std::byte> image, u64 checkpoint, u64 session);
  /// `next` is the head with another size and two places that nobody has, of which the first
  /// becomes the resilient copy. Where it fails the newest head may be either.
  Status resize(const format::ObjectHead& next, std::span<const std::byte> image, u64 checkpoint,
                u64 session);
  /// The other slot says the same as the newest one, and nothing of what was before.
  Status repeat_head();
  /// There is no such object any more, and its space is free. Both slots say so, if they can.
  Status remove();

  const format::ObjectHead& head() const { return newest_->get(); }
  u8 unclear() const { return newest_->unclear; }
  /// The head names other functions from the next checkpoint on.
  void rename_functions(u64 place, u64 bytes, u64 checksum);

 private:
  Status clear_next_head();
  /// Returns its checksum.
  Result<u64> write_copy(u64 place, std::span<const std::byte> image);
  Status write_both(format::ObjectHead next, std::span<const std::byte> image, u64 checkpoint,
                    u64 session);
  Status replace_head(const format::ObjectHead& next);
  Status write_head(const format::ObjectHead& head);

  media::LinearMedium& medium_;
  const u64 head_place_;
  const u64 write_bytes_;
  std::unique_ptr<NewestHead> own_;  ///< where nobody else has it
  NewestHead* const newest_;
  AlignedBuffer buffer_;
  std::optional<ChecksumOfPieces> sum_;  ///< of an image of several pieces
};

}  // namespace perdura::object
