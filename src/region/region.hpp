// Working memory: a range of address space, the same in every run, whose backed parts are private,
// lazily loaded views of a home image on the medium.
//
//   base                                                              base + limit
//    | backed extent | reserved .......... | backed extent | reserved ......... |
//
// Stores go to private copies of pages and never reach the medium by themselves. Space that is new
// in this run needs no view: it is zero, and anonymous memory, in huge pages where the tracker does
// not find stores by page. So is what promote() moved there.
//
// A region in chunks has no home image: chunks of kept versions stay where they are, and a version
// is put together from many places. All of it is anonymous memory, which its opener loads.
//
// With aliases the memory is a file of its own, loaded when the region is mapped, and the same
// pages lie side by side several times. The program gets each object at an address in one of the
// aliases, by the part of the page in which the object starts (FGCK §3.2.2); the library uses the
// first mapping, which no page tracker watches.
//
// A volatile region has no home image: all of it is new.
//
//   base             base + stride    base + 2 stride
//    | the library's  | alias 0        | alias 1        |     two aliases, for halves of pages
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/events.hpp"
#include "base/mapping.hpp"
#include "base/unique_fd.hpp"
#include "region/backing.hpp"
#include "region/home_map.hpp"
#include "region/volume.hpp"

namespace perdura::region {

/// What one entry of the page tables can map at once.
constexpr u64 kHugeBytes = 2 * kMiB;

class Region {
 public:
  /// Called with a part that became accessible. `anonymous`: no part of it views a home image.
  using Backed = std::function<Status(std::byte* address, u64 length, bool anonymous)>;

  /// Where a new region of `limit_bytes` goes: a window that libraries, sanitizers and other
  /// runtimes leave free, and none of the `others`. Where there it is searched from follows from
  /// `identity`, so that those of several stores, made in processes that know nothing of each
  /// other, are rarely the same; 0: from the beginning.
  static Result<u64> choose_address(u64 limit_bytes,
                                    const std::vector<format::RegionRecord>& others = {},
                                    u64 identity = 0);

  /// Reserve the recorded range and map what is backed.
  static Result<std::unique_ptr<Region>> map(Volume& volume, const format::RegionRecord& record);
  /// The same of a region in two copies, of which this one has the newest version.
  static Result<std::unique_ptr<Region>> map_copy(Volume& volume,
                                                  const format::RegionRecord& record, u64 copy);
  /// The same of a region in chunks: its first `backed_bytes` are zero, and for the caller to load.
  static Result<std::unique_ptr<Region>> map_chunks(Volume& volume,
                                                    const format::RegionRecord& record,
                                                    ChunkSpace& space, u64 backed_bytes);
  /// Of `limit_bytes`, anywhere but where stores go. kNoMemory: a smaller one may fit.
  static Result<std::unique_ptr<Region>> map_volatile(u64 limit_bytes);

  u32 id() const { return record_.region; }
  /// Ordinary memory, by map_volatile: zero where nobody has stored anything.
  bool is_volatile() const { return volume_ == nullptr; }
  std::byte* base() const { return base_; }
  u64 limit() const { return record_.limit_bytes; }
  /// Address space it takes up from `base` on, with its aliases.
  u64 reserved_bytes() const { return range_.length(); }
  bool contains(const void* address) const {
    return static_cast<u64>(static_cast<const std::byte*>(address) - base_) < reserved_bytes() &&
           offset_of(address) < record_.limit_bytes;
  }
  /// In the region, of an address in any alias.
  u64 offset_of(const void* address) const {
    return static_cast<u64>(static_cast<const std::byte*>(address) - base_) & offset_mask_;
  }

  u32 aliases() const { return record_.aliases; }
  u64 alias_stride() const { return stride_; }
  std::byte* alias(u64 number) const { return base_ + (number + 1) * stride_; }
  /// The alias in which the program sees an object that starts at `offset`.
  u64 alias_of(u64 offset) const { return offset >> part_shift_ & (record_.aliases - 1); }
  /// The address that the program gets for an object that starts at `place`, seen from `base`.
  template <class T>
  T* shown(T* place) const {
    const auto number = reinterpret_cast<std::uintptr_t>(place) >> part_shift_ & part_mask_;
    return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(place) + (number + 1) * stride_);
  }

  /// Make [offset, offset + length) accessible, zero where it is new. Thread-safe.
  Status back(u64 offset, u64 length);
  /// To be told of backed parts: of those that exist now, and of each later one.
  Status on_backed(Backed backed);

  std::shared_ptr<const HomeMap> home() const;

  /// Before it is loaded: who is told of damage.
  void set_events(Events& events) { events_ = &events; }
  Events& events() const { return *events_; }

  /// From now on new space gets huge pages, where the system has them.
  void use_huge_pages() { huge_pages_ = true; }
  bool has_huge_pages() const { return huge_pages_; }
  /// What was backed when it was mapped are views of a home image.
  bool has_views() const { return backing_->has_home() && record_.aliases == 0; }
  /// A forked child has nothing of it, not even its addresses: they are free for stores of its own.
  void hide_from_children();
  /// From now on a forked child gets a copy of new space.
  void let_children_inherit() { inherited_ = true; }
  /// Of the chunk of kHugeBytes at `offset`: load its pages and take memory for it, a huge page
  /// where the system has one. Fails where a part of the chunk is not backed, or without memory.
  Result<Mapping> prepare_huge(u64 offset) const;
  /// Copy the chunk to that page by `copy(to, from)`, and put it in the chunk's place. Mutators
  /// stand still; other threads may read the chunk meanwhile, and their stores to it fault.
  void promote(u64 offset, Mapping page, void (*copy)(std::byte* to, const std::byte* from));
  /// Let the program store to a chunk that promote() was called for. For fault handlers.
  bool reopen(u64 offset) noexcept;

 private:
  Region(Volume* volume, format::RegionRecord record, std::unique_ptr<Backing> backing,
         Mapping range, UniqueFd memory);

  static Result<std::unique_ptr<Region>> map(Volume& volume, const format::RegionRecord& record,
                                             std::unique_ptr<Backing> backing);
  Status map_extent(const format::Extent& extent);
  Status map_new(const format::Extent& extent);
  Status map_aliases(const format::Extent& extent);
  Status load(const format::Extent& extent);

  std::string name() const { return volume_ != nullptr ? volume_->name() : "volatile objects"; }

  Volume* const volume_;  ///< nullptr: volatile
  const std::unique_ptr<Backing> backing_;
  const format::RegionRecord record_;
  Mapping range_;
  std::byte* const base_;
  const UniqueFd memory_;  ///< with aliases: what they map
  // Without aliases these make shown() and offset_of() do nothing.
  const u64 stride_;
  const u64 offset_mask_;
  const unsigned part_shift_;
  const u64 part_mask_;
  Events* events_ = &Events::nobody();
  bool huge_pages_ = false;
  bool inherited_ = false;
  Backed backed_;
  mutable std::mutex mutex_;  ///< home_, growth
  std::shared_ptr<const HomeMap> home_;
};

}  // namespace perdura::region
