// The objects of a region: where each is on the medium, and which space is nobody's.
//
// Invariants:
//  - Space is given to an object after the head of the one that had it before says so no more, and
//    is free where no whole head names it: so nothing can leak, in the overflow store neither.
//  - What only stands in for a copy is an object's where no copy has the space: the newest head may
//    be an older one again, the newest being damaged, and that space another one's since.
//  - Of two places with heads of the same object (one was moving when the process ended) that with
//    the higher sequence counts. The other one is stale: it is removed before anything is written
//    to what it names.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/object_format.hpp"
#include "object/object_space.hpp"
#include "object/overflow_store.hpp"
#include "object/place_wear.hpp"

namespace perdura::object {

/// Not thread-safe.
class ObjectTable {
 public:
  /// `volume` outlives it. `bytes_max`: of the objects' space; 0: what the medium has.
  ObjectTable(region::Volume& volume, u32 region, u64 bytes_max = 0)
      : volume_(volume), region_(region), space_(volume, region, bytes_max) {}

  struct Range {
    u64 place;
    u64 bytes;
  };
  /// An object that is open: what counts of it is in memory, and its head on the medium changes.
  struct Live {
    format::ObjectSlot slot;
    Range kept;  ///< that it has as well; of no bytes: nothing
  };
  /// By the place of its slots; nothing: it is not open.
  using FindLive = std::function<std::optional<Live>(u64 place)>;

  /// Reads the heads. kCorrupt where two of them name the same space, or what is not the region's.
  Status read(const FindLive& find_live = {});
  /// After that, before anything else is written: no head is stale any more.
  Status remove_stale();
  /// After that: what of its space is theirs is so from now on; else what is elsewhere is nobody's
  /// matter here. It outlives the table. kCorrupt as above.
  Status have_overflow(OverflowStore& overflow);

  struct Entry {
    u64 place = 0;  ///< of its two slots on the medium
    format::ObjectHead head{};
    format::ObjectHead older{};   ///< the other slot's; all zeros where that is not whole
    u8 unclear = 0;               ///< a bit for each slot that may hold something else
    format::ObjectOwner owner{};  ///< who wrote the head; zeros where nobody knows
    format::ObjectWear wear{};    ///< of its places, as it was written with the head
    format::ObjectBuild build{};  ///< whose the entries of the head's session are
    u64 skipped = 0;              ///< sequences that no head at the place had

    /// How often heads were written at the place.
    u64 head_writes() const { return head.sequence - skipped; }
  };
  /// What the two slots say that were read from a place: `slots` has both.
  static Entry entry_of(media::Medium& medium, u64 place, std::byte* slots);
  /// nullptr: there is none of this name.
  const Entry* find(std::string_view name) const;
  const std::vector<Entry>& all() const { return objects_; }

  /// A place in the table for an object that is new: `head` has its sequence and identity.
  Result<Entry> new_entry();
  /// The place of the table that nobody has and where heads were written least, for an object that
  /// moves there; nothing: each was written more often than `writes_max`. The last head that has
  /// the highest identity stays: what comes to have one goes on from there.
  std::optional<Entry> take_unused(u64 writes_max);
  /// Of the last heads of places that nobody has, those whose object has no other place. Of one
  /// that moved while it was read there is another such head when it is read again.
  struct Gone {
    u64 place, identity, sequence;
    bool operator==(const Gone&) const = default;
  };
  std::vector<Gone> gone() const;
  /// It is not made after all: nothing has been written to its place, nor to what its head names.
  void give_up(const Entry& entry) noexcept;
  /// The region's own; the heads say what of it is free.
  ObjectSpace& space() { return space_; }
  /// How often places of it were written, as far as heads say.
  PlaceWear& wear() { return wear_; }

  /// It has been made (of new_entry()), or changed; or what it had before and has no more is
  /// nobody's; or it was removed, and what its head before named is free. None needs memory.
  void note(const Entry& entry) noexcept;
  void note_moved(const format::ObjectHead& before, const Entry& entry) noexcept;
  /// The same, and its head has come to another place; at `left` there is none any more.
  void note_head_moved(const format::ObjectHead& before, const Entry& entry,
                       const Entry& left) noexcept;
  void note_removed(const Entry& entry, const Entry& left) noexcept;

 private:
  /// Some, in memory of their own: to give them back needs none.
  class Ranges {
   public:
    void add(u64 place, u64 bytes) { ranges_[count_++] = {place, bytes}; }
    const Range* begin() const { return ranges_.data(); }
    const Range* end() const { return ranges_.data() + count_; }

   private:
    std::array<Range, 5> ranges_;
    size_t count_ = 0;
  };
  static Ranges ranges_of(const format::ObjectHead& head);
  Ranges overflow_ranges_of(const format::ObjectHead& head) const;
  Status claim_all(const std::vector<Entry>& found);
  Status claim(const Entry& entry);
  void claim_stand_ins();
  void note_wear(const Entry& entry, const std::byte* slots);
  Entry take(std::vector<Entry>::iterator unused);
  void add_unused(const Entry& last);
  void reserve();
  Failure damaged(u64 place, const char* what) const;

  region::Volume& volume_;
  const u32 region_;
  std::vector<Entry> objects_;
  std::vector<Entry> unused_;  ///< places in the table, with what the last head there leaves
  std::vector<Entry> stale_;
  ObjectSpace space_;
  PlaceWear wear_;
  OverflowStore* overflow_ = nullptr;
  u64 next_identity_ = 1;
};

/// Whether the bytes at a slot's place are a whole head.
bool head_fits(const format::ObjectHead& head, u64 slot);
u64 head_checksum(const format::ObjectHead& head);

}  // namespace perdura::object
