#include "object/object_copies.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "base/checksum.hpp"
#include "base/line_mask.hpp"
#include "object/object_build.hpp"
#include "object/object_owner.hpp"
#include "object/object_table.hpp"
#include "object/place_wear.hpp"

namespace perdura::object {
namespace {

using format::ObjectHead;
using format::ObjectWear;

// An object in an overflow store has no archive, and its head says there where its log ends.
ObjectArchive::End archive_end_of(const ObjectHead& head) {
  return {head.archive_used, head.archive_lines == 0 ? head.identity : head.archive_sum};
}

constexpr u64 kPieceBytes = kMiB;  ///< of block media: what is written quickly

u64 pages_of(u64 image_bytes) { return (image_bytes + kPageBytes - 1) / kPageBytes; }
u64 bytes_of_page(u64 image_bytes, u64 page) {
  return std::min(image_bytes - page * kPageBytes, kPageBytes);
}
u64 sum_of(const std::vector<u64>& page_sums) {
  return checksum(page_sums.data(), page_sums.size() * sizeof(u64));
}

/// Whether pages are likely to be what they shall become. Comparing costs about as much as writing:
/// it pays where a quarter of them is left out. Some are looked at from time to time.
class EqualPages {
 public:
  bool are_likely() {
    const u64 at = seen_++ % (kSamplePages + kSkipPages);
    if (at == 0) sampled_ = equal_ = 0;
    return at < kSamplePages || equal_ * 4 >= sampled_;
  }
  bool note(bool is_equal) {
    ++sampled_;
    equal_ += is_equal ? 1 : 0;
    return is_equal;
  }

 private:
  static constexpr u64 kSamplePages = 16;
  static constexpr u64 kSkipPages = 240;
  u64 seen_ = 0;
  u64 sampled_ = 0;
  u64 equal_ = 0;
};

}  // namespace

ObjectCopies::ObjectCopies(media::LinearMedium& medium, u64 place, u64 skipped, NewestHead& head,
                           OverflowStore* overflow)
    : medium_(medium),
      overflow_(overflow),
      head_place_(place),
      skipped_(skipped),
      write_bytes_(medium.geometry().write_bytes),
      newest_(&head),
      archive_end_(archive_end_of(this->head())),
      buffer_(kPieceBytes) {}

ObjectCopies::ObjectCopies(media::LinearMedium& medium, const ObjectTable::Entry& entry,
                           OverflowStore* overflow)
    : medium_(medium),
      overflow_(overflow),
      head_place_(entry.place),
      skipped_(entry.skipped),
      write_bytes_(medium.geometry().write_bytes),
      own_(std::make_unique<NewestHead>()),
      newest_(own_.get()),
      archive_end_(archive_end_of(entry.head)),
      buffer_(kPieceBytes) {
  newest_->set({entry.head, {}, entry.wear, {}});
  newest_->unclear = entry.unclear;
  newest_->build = entry.build;
}

void ObjectCopies::rename_functions(u64 place, u64 bytes, u64 checksum) {
  format::ObjectSlot next = newest_->slot();
  next.head.functions_place = place;
  next.head.functions_bytes = bytes;
  next.head.functions_checksum = checksum;
  newest_->set(next);
}

Status ObjectCopies::load(std::span<std::byte> pages) {
  const u64 bytes = format::object_image_bytes(head());
  PERDURA_ASSERT(pages.size() >= bytes && pages.size() <= pages_bytes(bytes));
  const bool is_out = is_in_overflow(head());
  if (is_out && overflow_ == nullptr)
    return Failure{Code::kUnsupported, "object '" + std::string(head().name) + "' of '" +
                                           medium_.name() +
                                           "' is in an overflow store, which is not open; open the "
                                           "objects with that"};
  std::vector<u64> sums(pages_of(bytes));
  Status found =
      load_from(is_out ? overflow_->medium() : medium_, resilient_place(head()), pages, sums);
  const u64 stand_in = overflow_ != nullptr ? format::stand_in_place(head()) : 0;
  if (!found && found.failure().code == Code::kCorrupt && stand_in != 0)
    is_from_stand_in_ = bool(load_from(overflow_->medium(), stand_in, pages, sums));
  if (is_from_stand_in_) return {};  // of the copies here nothing is known, so both are written
  PERDURA_TRY(std::move(found));
  target_ = is_out ? Target::kNothing : Target::kDurable;
  if (!is_out) page_sums_[head().copy] = std::move(sums);
  return {};
}

Status ObjectCopies::check_stand_in() {
  const u64 stand_in = overflow_ != nullptr ? format::stand_in_place(head()) : 0;
  if (stand_in == 0) return {};
  const u64 bytes = format::object_image_bytes(head());
  AlignedBuffer image(std::max<u64>(bytes, 1));
  std::vector<u64> sums(pages_of(bytes));
  return load_from(overflow_->medium(), stand_in, image.span(), sums);
}

Status ObjectCopies::load_from(media::LinearMedium& medium, u64 place, std::span<std::byte> pages,
                               std::vector<u64>& sums) const {
  const u64 bytes = format::object_image_bytes(head());
  PERDURA_TRY(medium.load_pages(place, pages));
  const bool whole = medium.whole(
      place, pages.data(), bytes, PERDURA_SITE("object copy"), [&](const std::byte* at) {
        for (u64 page = 0; page < sums.size(); ++page)
          sums[page] = checksum(at + page * kPageBytes, bytes_of_page(bytes, page));
        return sum_of(sums) == head().copy_checksum;
      });
  if (whole) return {};
  return Failure{Code::kCorrupt, "the resilient copy of an object of '" + medium.name() +
                                     "' (medium offset " + std::to_string(place) +
                                     ") does not fit its checksum; restore the store from a copy"};
}

Status ObjectCopies::write(std::span<const std::byte> image, const ObjectChanges& changes,
                           u64 checkpoint, u64 session) {
  ObjectHead next = head();
  next.copy = head().copy ^ 1;
  format::set_stand_in(next, 0);
  ObjectWear wear = newest_->slot().wear;
  wear.log_lines += checkpoint - head().checkpoint;
  return write_both(next, wear, image, &changes, checkpoint, session);
}

Status ObjectCopies::move(const ObjectHead& next, const ObjectWear& wear,
                          std::span<const std::byte> image, u64 checkpoint, u64 session) {
  for (const u64 place : next.copy_place)
    PERDURA_ASSERT(is_in_overflow(head()) ||
                   (place != head().copy_place[0] && place != head().copy_place[1]));
  ObjectHead first = next;
  first.copy = 0;
  return write_both(first, wear, image, nullptr, checkpoint, session);
}

// Both slots say so: the places that the other one named are given to others.
Status ObjectCopies::move_out(u64 place, const LogThere& log, std::span<const std::byte> image,
                              u64 checkpoint, u64 session) {
  PERDURA_ASSERT(overflow_ != nullptr);
  ObjectHead next = head();
  ++next.sequence;
  next.session = session;
  next.checkpoint = checkpoint;
  next.copy = format::kObjectInOverflow;
  next.copy_place[0] = place;
  next.copy_place[1] = overflow_->id();
  format::set_overflow_log(next, log.place, log.end);
  format::set_stand_in(next, 0);
  PERDURA_TRY(clear_next_head());
  std::vector<u64> sums;
  PERDURA_TRY(overflow_->write(place, image, sums));
  next.copy_checksum = sum_of(sums);
  written_bytes_ += image.size();
  PERDURA_TRY(replace_head(next, {}));
  target_ = Target::kNothing;
  page_sums_[0].clear();
  page_sums_[1].clear();
  return repeat_head();
}

// The copy and then the head that names it. `changes`: nullptr where both copies are new.
Status ObjectCopies::write_both(ObjectHead next, ObjectWear wear, std::span<const std::byte> image,
                                const ObjectChanges* changes, u64 checkpoint, u64 session) {
  PERDURA_ASSERT(checkpoint >= head().checkpoint &&
                 image.size() == format::object_image_bytes(next));
  next.sequence = head().sequence + 1;
  next.session = session;
  next.checkpoint = checkpoint;
  next.archive_used = archive_end_.used;
  next.archive_sum = archive_end_.sum;
  const bool are_known = changes != nullptr && changes->are_known();
  const bool other_is_new = changes == nullptr || page_sums_[head().copy].empty();
  if (changes != nullptr && lacking_.pages() != changes->lines().pages()) {
    PERDURA_ASSERT(target_ != Target::kKnown);
    lacking_ = LineSet(changes->are_kept() ? image.size() : 0);
  }
  PERDURA_TRY(clear_next_head());
  PERDURA_TRY(write_copy(next, image, changes));
  next.copy_checksum = sum_of(page_sums_[next.copy]);
  if (next.copy_checksum != head().copy_checksum) format::set_stand_in(next, 0);
  // Barrier: the copy is durable before the head names it, and so are names of functions that were
  // written before.
  PERDURA_TRY(medium_.barrier(PERDURA_SITE("object copy")));
  ++wear.copy_writes[next.copy];
  PERDURA_TRY(replace_head(next, wear));
  if (other_is_new) target_ = Target::kNothing;
  else target_ = are_known ? Target::kKnown : Target::kDurable;
  if (target_ != Target::kKnown) return {};
  lacking_.clear();
  lacking_.add_all_of(changes->lines());
  return {};
}

Status ObjectCopies::repeat_head() {
  PERDURA_TRY(clear_next_head());
  ObjectHead next = head();
  ++next.sequence;
  return replace_head(next, newest_->slot().wear);
}

Status ObjectCopies::write_heads() {
  // Barrier: names of functions are durable before a head names their place.
  PERDURA_TRY(medium_.barrier(PERDURA_SITE("object functions")));
  PERDURA_TRY(repeat_head());
  return repeat_head();
}

Status ObjectCopies::remove() {
  PERDURA_TRY(clear_next_head());
  ObjectHead next = head();
  ++next.sequence;
  next.log_lines = 0;
  PERDURA_TRY(replace_head(next, {}));
  (void)repeat_head();  // it has gone, whether another head says so or not
  return {};
}

// The versions of its checkpoints go on: so its sequence does, and that place's, whichever has come
// further.
ObjectCopies ObjectCopies::move_head(const ObjectTable::Entry& to) {
  ObjectCopies left(medium_, entry());
  format::ObjectSlot slot = newest_->slot();
  slot.head.sequence = std::max(slot.head.sequence, to.head.sequence);
  head_place_ = to.place;
  skipped_ = slot.head.sequence - to.head_writes();
  newest_->set(slot);
  newest_->unclear = to.unclear;
  return left;
}

ObjectTable::Entry ObjectCopies::entry() const {
  return {.place = head_place_,
          .head = head(),
          .unclear = unclear(),
          .owner = newest_->slot().owner,
          .wear = newest_->slot().wear,
          .build = newest_->build,
          .skipped = skipped_};
}

Status ObjectCopies::replace_head(const ObjectHead& next, const ObjectWear& wear) {
  const auto slot = static_cast<u8>(1U << next.sequence % 2);
  const format::ObjectSlot written{next, owner_of(next), wear, {}};
  newest_->unclear |= slot;
  PERDURA_TRY(write_head(written));
  // Barrier: the head is durable before what it does not need is written again: the log before its
  // checkpoint, the other copy, all of an object that was removed.
  PERDURA_TRY(medium_.barrier(PERDURA_SITE("object head")));
  newest_->set(written);
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

/// Pages of an image on their way to a copy, in rising order. On NVM each goes straight to its
/// place when the next one is known, which is fetched meanwhile, and is summed in the registers
/// that it passes through where all of it is written; on block media it goes through the buffer,
/// with its neighbours.
class ObjectCopies::Writer {
 public:
  Writer(ObjectCopies& copies, u64 place, std::span<const std::byte> image, std::vector<u64>& sums)
      : copies_(copies), place_(place), image_(image), sums_(sums) {}

  /// The lines of a page that `mask` has, not none. `sum`: that of the page, where it is known.
  Status write(u64 page, u64 mask, const u64* sum = nullptr) {
    if (sum != nullptr) sums_[page] = *sum;
    const Held next{.page = page, .mask = mask, .sums = sum == nullptr};
    if (copies_.queue_ == nullptr) return add_page(page, next.sums);
    const Held before = std::exchange(held_, next);
    return before.mask == 0 ? Status{} : write_lines(before, image_.data() + page * kPageBytes);
  }
  Status finish() {
    if (copies_.queue_ == nullptr) return flush();
    if (held_.mask != 0) PERDURA_TRY(write_lines(held_, nullptr));
    return copies_.queue_->drain();
  }

 private:
  /// A page on NVM that is written when the next one is known.
  struct Held {
    u64 page;
    u64 mask;  ///< 0: there is none
    bool sums;
  };

  Status write_lines(const Held& held, const std::byte* ahead);
  Status submit(u64 begin, u64 end);
  Status add_page(u64 page, bool sums);
  Status flush();

  ObjectCopies& copies_;
  const u64 place_;
  const std::span<const std::byte> image_;
  std::vector<u64>& sums_;
  Held held_{};
  u64 first_page_ = 0;  ///< of what is in the buffer
  u64 pages_ = 0;
};

// `ahead`: the page that is written next, which may be the image's last one.
Status ObjectCopies::Writer::write_lines(const Held& held, const std::byte* ahead) {
  const auto& [page, mask, sums] = held;
  const u64 offset = page * kPageBytes;
  const u64 bytes = bytes_of_page(image_.size(), page);
  const std::byte* const at = image_.data() + offset;
  if (mask == kAllLines && bytes == kPageBytes) {
    copies_.written_bytes_ += kPageBytes;
    PERDURA_ASSIGN(const u64 sum, copies_.queue_->submit_gathered(place_ + offset,
                                                                  {.page = at, .page_ahead = ahead},
                                                                  PERDURA_SITE("object copy")));
    if (sums) sums_[page] = sum;
    return {};
  }
  if (sums) sums_[page] = checksum(at, bytes);
  return for_each_run(mask, [&](u64 first, u64 count) -> Status {
    const u64 begin = offset + first * kLineBytes;
    if (begin >= image_.size()) return {};
    return submit(begin, std::min<u64>(begin + count * kLineBytes, image_.size()));
  });
}

// The image's last line may be part of one: zeros follow it.
Status ObjectCopies::Writer::submit(u64 begin, u64 end) {
  copies_.written_bytes_ += round_up(end - begin, kLineBytes);
  const u64 whole = round_down(end - begin, kLineBytes);
  if (whole != 0)
    PERDURA_TRY(copies_.queue_->submit(place_ + begin, image_.subspan(begin, whole),
                                       PERDURA_SITE("object copy")));
  if (begin + whole == end) return {};
  alignas(kLineBytes) std::byte line[kLineBytes] = {};
  std::memcpy(line, image_.data() + begin + whole, end - begin - whole);
  return copies_.queue_->submit(place_ + begin + whole, line, PERDURA_SITE("object copy"));
}

Status ObjectCopies::Writer::add_page(u64 page, bool sums) {
  if (pages_ != 0 && (page != first_page_ + pages_ || pages_ * kPageBytes == kPieceBytes))
    PERDURA_TRY(flush());
  if (pages_ == 0) first_page_ = page;
  const u64 bytes = bytes_of_page(image_.size(), page);
  std::byte* const to = copies_.buffer_.data() + pages_++ * kPageBytes;
  std::memcpy(to, image_.data() + page * kPageBytes, bytes);
  std::memset(to + bytes, 0, kPageBytes - bytes);
  if (sums) sums_[page] = checksum(to, bytes);
  return {};
}

Status ObjectCopies::Writer::flush() {
  if (pages_ == 0) return {};
  const u64 bytes = std::exchange(pages_, 0) * kPageBytes;
  copies_.written_bytes_ += bytes;
  return copies_.medium_.write(place_ + first_page_ * kPageBytes, copies_.buffer_.first(bytes),
                               PERDURA_SITE("object copy"));
}

// Where it fails, what was written is among what the copy lacks the next time, or all of it is
// written: it may read right and be in flight still.
Status ObjectCopies::write_copy(const ObjectHead& next, std::span<const std::byte> image,
                                const ObjectChanges* changes) {
  const bool is_nvm = write_bytes_ == kLineBytes;
  if (is_nvm && queue_ == nullptr) queue_ = medium_.queue();
  const u64 place = next.copy_place[next.copy];
  std::vector<u64>& sums = page_sums_[next.copy];
  const bool by_lines = target_ == Target::kKnown && changes != nullptr && changes->are_known();
  const bool compares = !by_lines && target_ != Target::kNothing && changes != nullptr && is_nvm;
  if (!by_lines) target_ = Target::kNothing;
  else lacking_.add_all_of(changes->lines());
  const bool are_summed = sums.size() == pages_of(image.size());
  sums.resize(pages_of(image.size()));
  PERDURA_ASSERT(are_summed || !by_lines);

  Writer writer(*this, place, image, sums);
  if (by_lines) {
    const std::vector<u64>& known = page_sums_[head().copy];
    PERDURA_TRY(lacking_.for_each_page([&](u64 page, u64 mask) {
      const bool is_changed = changes->lines().of_page(page) != 0;
      return writer.write(page, mask, is_changed ? nullptr : &known[page]);
    }));
    return writer.finish();
  }
  EqualPages equal;
  for (u64 page = 0; page < sums.size(); ++page) {
    const u64 offset = page * kPageBytes;
    const u64 bytes = bytes_of_page(image.size(), page);
    const auto is_equal = [&] {
      return medium_.whole(place + offset, medium_.view(place + offset), bytes,
                           PERDURA_SITE("page of the older object copy"), [&](const std::byte* at) {
                             return std::memcmp(image.data() + offset, at, bytes) == 0;
                           });
    };
    if (!compares || !equal.are_likely() || !equal.note(is_equal()))
      PERDURA_TRY(writer.write(page, kAllLines));
    else if (!are_summed) sums[page] = checksum(image.data() + offset, bytes);
  }
  return writer.finish();
}

// Who has the object, how worn its places are and which build writes go with the head: all of it is
// whole when the barrier behind it is done. So nothing is appended in a session before its build is
// durable.
Status ObjectCopies::write_head(const format::ObjectSlot& slot) {
  format::ObjectSlot summed = slot;
  summed.head.checksum = head_checksum(summed.head);
  if (slot.head.log_lines != 0) sum(summed.wear, slot.head.sequence);
  summed.build = build_behind(slot.head, newest_->build);
  u64 bytes = sizeof summed;
  format::ObjectFreePlaces places = places_said(slot.head.sequence);
  if (places.count != 0) bytes += sum(places, slot.head.sequence);
  const u64 whole = round_up(bytes, write_bytes_);
  std::memset(buffer_.data(), 0, whole);
  std::memcpy(buffer_.data(), &summed, sizeof summed);
  std::memcpy(buffer_.data() + sizeof summed, &places, bytes - sizeof summed);
  return medium_.write(head_place_ + slot.head.sequence % 2 * format::kObjectHeadBytes,
                       buffer_.first(whole), PERDURA_SITE("object head"));
}

// Those that were written most come first.
format::ObjectFreePlaces ObjectCopies::places_said(u64 sequence) const {
  format::ObjectFreePlaces said{};
  if (skipped_ != 0)
    said.places[said.count++] = {head_place_, format::kObjectHeadsBytes, sequence - skipped_};
  const u64 room = format::kObjectFreePlacesMax - said.count;
  const u64 count = std::min(free_places_.count, room);
  std::copy_n(free_places_.places, count, said.places + said.count);
  said.count += count;
  return said;
}

void ObjectCopies::set_free_places(std::span<const format::ObjectFreePlace> places) {
  free_places_ = {};
  free_places_.count = std::min<u64>(places.size(), format::kObjectFreePlacesMax);
  std::copy_n(places.begin(), free_places_.count, free_places_.places);
}

}  // namespace perdura::object
