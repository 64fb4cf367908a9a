// The two copies of an object on the medium, and its head, which says which of them is resilient.
//
//   write the older copy ─ barrier ─ write the head's older slot ─ barrier
//
// Of the older copy only those lines are written that it may lack: what changed since the newest
// checkpoint, what had changed in that one, and what attempts that failed have written. Where that
// is not known it is compared with the image; on block media the whole of it is written.
//
// The other slot names the other copy, as it was a checkpoint earlier; the log has what that lacks.
// Where the resilient copy is damaged the object is made from those.
//
// An object that comes home from the overflow store gets one copy here, and both slots name it: the
// copy there, which is the same, stands in for the other one until the next checkpoint.
//
// Invariants:
//  - The copy that the newest head names, and the log from the older one's checkpoint on, are never
//    written.
//  - A head is written when the copy that it names is durable. So an object comes to another place,
//    in the overflow store as well, in one step: the new copy, then the head that names it.
//  - What stands in for a copy is nobody else's until a head that does without it is durable.
//  - It is written over a whole one, or over nothing: with a part of one, which an earlier failure
//    left, a part of it could be whole.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/aligned_buffer.hpp"
#include "format/object_format.hpp"
#include "media/medium.hpp"
#include "object/newest_head.hpp"
#include "object/object_archive.hpp"
#include "object/object_changes.hpp"
#include "object/object_table.hpp"
#include "object/overflow_store.hpp"

namespace perdura::object {

class ObjectCopies {
 public:
  /// `medium` outlives it. `entry`: as it was read; of an object that is new its head is what it
  /// shall be, with the sequence of what was there before.
  /// `overflow`: where the copy may be, if there is such a store; outlives it.
  ObjectCopies(media::LinearMedium& medium, const ObjectTable::Entry& entry,
               OverflowStore* overflow = nullptr);
  /// The same of a head that is known already, or is set, where others see it. `place`, `skipped`:
  /// of the entry.
  ObjectCopies(media::LinearMedium& medium, u64 place, u64 skipped, NewestHead& head,
               OverflowStore* overflow);

  /// What its copy holds: `pages` has whole pages, which begin with the image. Where that does not
  /// fit its checksum what stands in for the other one does; kCorrupt where neither does.
  Status load(std::span<std::byte> pages);
  /// What stands in for the other copy, if there is such a one: kCorrupt where it does not fit.
  Status check_stand_in();
  /// What load() has found is that.
  bool is_from_stand_in() const { return is_from_stand_in_; }

  /// The image is as it was when the entries before `checkpoint` were done; `changes`: in what it
  /// may be unlike the resilient copy. Entries that follow are of this session. Where it fails the
  /// resilient copy is what it was; it may be tried again, with these changes among others.
  Status write(std::span<const std::byte> image, const ObjectChanges& changes, u64 checkpoint,
               u64 session);
  /// `next` is the head with two places that nobody has, of which the first becomes the resilient
  /// copy, and perhaps another size and place of the log. If it says that the copy that there is
  /// now stands in for the second one it does, if it is the same. Where it fails the newest head
  /// may be either.
  /// `wear`: of its places before that.
  Status move(const format::ObjectHead& next, const format::ObjectWear& wear,
              std::span<const std::byte> image, u64 checkpoint, u64 session);
  /// A log that is written in the overflow store, with all that a copy there lacks.
  struct LogThere {
    u64 place = 0;  ///< 0: none is; it lacks nothing
    u64 end = 0;    ///< the index behind its last entry
  };
  /// To a place in the overflow store, where the object has one copy. Where it fails and no slot is
  /// unclear it is as it was.
  Status move_out(u64 place, const LogThere& log, std::span<const std::byte> image, u64 checkpoint,
                  u64 session);
  /// The other slot says the same as the newest one, and nothing of what was before.
  Status repeat_head();
  /// In both slots, where no checkpoint comes to say so: its functions have been renamed.
  Status write_heads();
  /// There is no such object any more, and its space is free. Both slots say so, if they can.
  Status remove();
  /// The head is written to another place in the table from now on, which has none: it is there
  /// after the next write(). Until that which it leaves is removed, by what this returns, nothing
  /// else is written to what either names.
  ObjectCopies move_head(const ObjectTable::Entry& to);
  /// As it is by now, where nobody else has the head.
  ObjectTable::Entry entry() const;

  /// No slot holds a part of a head, nor one that could not be written and is there all the same:
  /// what such a one would name may be written. write() and the others do so themselves.
  Status clear_next_head();
  /// What heads from the next one on say of the archive; durable before that is written.
  void set_archive_end(const ObjectArchive::End& end) { archive_end_ = end; }

  /// What heads from the next one on say of free space; durable with those.
  void set_free_places(std::span<const format::ObjectFreePlace> places);

  const format::ObjectHead& head() const { return newest_->get(); }
  u8 unclear() const { return newest_->unclear; }
  u64 skipped() const { return skipped_; }
  /// The head names other functions from the next checkpoint on.
  void rename_functions(u64 place, u64 bytes, u64 checksum);
  /// Heads from the next one on say so of the session's entries.
  void set_build(const format::ObjectBuild& build) { newest_->build = build; }
  const format::ObjectBuild& build() const { return newest_->build; }
  /// Somebody else may have written to the copies, and in vain.
  void forget_written() { target_ = Target::kNothing; }
  /// Of copies, that were written since it was made.
  u64 written_bytes() const { return written_bytes_; }

 private:
  /// What is known of the copy that is written next.
  enum class Target : u8 {
    kNothing,  ///< all of it is written
    kDurable,  ///< what is there is durable, or found to be, and may be what is wanted
    kKnown,    ///< it is what the resilient one is, but for lacking_
  };
  class Writer;

  Status load_from(media::LinearMedium& medium, u64 place, std::span<std::byte> pages,
                   std::vector<u64>& sums) const;
  Status write_both(format::ObjectHead next, format::ObjectWear wear,
                    std::span<const std::byte> image, const ObjectChanges* changes, u64 checkpoint,
                    u64 session);
  Status write_copy(const format::ObjectHead& next, std::span<const std::byte> image,
                    const ObjectChanges* changes);
  Status replace_head(const format::ObjectHead& next, const format::ObjectWear& wear);
  Status write_head(const format::ObjectSlot& slot);
  format::ObjectFreePlaces places_said(u64 sequence) const;

  media::LinearMedium& medium_;
  OverflowStore* const overflow_;  ///< nullptr: there is none
  u64 head_place_;
  u64 skipped_;  ///< sequences that no head at the place had
  const u64 write_bytes_;
  std::unique_ptr<NewestHead> own_;  ///< where nobody else has it
  NewestHead* const newest_;
  ObjectArchive::End archive_end_;
  format::ObjectFreePlaces free_places_{};
  AlignedBuffer buffer_;
  std::unique_ptr<media::WriteQueue> queue_;  ///< NVM, once something was written

  bool is_from_stand_in_ = false;
  Target target_ = Target::kNothing;
  LineSet lacking_;                ///< of kKnown
  std::vector<u64> page_sums_[2];  ///< of both copies; empty where it is not known
  u64 written_bytes_ = 0;
};

}  // namespace perdura::object
