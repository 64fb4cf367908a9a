// Pages as the last version has them, of those that change again and again.
//
// A tracker of pages knows of a page that it was stored to, and most programs change a line or two
// of it. On NVM the others are found by the home image, which can be read in place and is at the
// last version. On block media it is neither: so the library keeps copies, and of a page that has
// one the lines that differ are written.
//
//   page    never changed --> changed once --> changed again: copied <--> compared, and the copy
//                                  ^                              |       brought up to date
//                                  +-- its copy is for another ---+
//
// Who brings a copy up to date forgets them all if that version does not come to be, or if another
// one was written meanwhile in another way.
#pragma once

#include <memory>

#include "base/bits.hpp"
#include "base/mapping.hpp"
#include "base/result.hpp"

namespace perdura::commit {

class LastPages {
 public:
  /// Of a region of so many bytes. `memory_max`: bytes that copies may take; 0: a sixteenth of
  /// memory_limit().
  static Result<std::unique_ptr<LastPages>> create(u64 region_bytes, u64 memory_max = 0);

  /// The copy of a page that has changed, or nullptr.
  std::byte* find(u64 page) noexcept;
  /// A page that has none, and is this in the version that is written. It has one from now on if
  /// it was offered before.
  void offer(u64 page, const std::byte* bytes) noexcept;
  void forget() noexcept;

  u64 copies() const { return used_; }

 private:
  /// Of a page: what is known, or the number of its copy.
  using Place = u32;
  static constexpr Place kNeverChanged = 0;
  static constexpr Place kChangedOnce = 1;
  static constexpr Place kFirstCopy = 2;
  struct Copy {
    u64 page;
    bool is_recent;  ///< changed since the hand came by
  };

  LastPages(Mapping places, Mapping bytes, Mapping copies)
      : places_(std::move(places)), bytes_(std::move(bytes)), copies_(std::move(copies)) {}

  Place& place(u64 page) const { return places_.as<Place>()[page]; }
  Copy& copy(u64 i) const { return copies_.as<Copy>()[i]; }
  std::byte* bytes_of(u64 i) const { return bytes_.as<std::byte>() + i * kPageBytes; }
  bool take_memory() noexcept;
  u64 give_up_one() noexcept;

  const Mapping places_;  ///< of each page of the region a Place
  const Mapping bytes_;   ///< the copies
  const Mapping copies_;  ///< of each a Copy
  u64 ready_ = 0;         ///< so many of them have memory
  u64 used_ = 0;
  u64 hand_ = 0;  ///< of a clock
};

}  // namespace perdura::commit
