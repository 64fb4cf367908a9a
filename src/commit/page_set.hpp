// A set of pages of a region: one bit a page, added to by any thread, also in a signal handler.
#pragma once

#include <atomic>

#include "base/mapping.hpp"
#include "track/dirty_map.hpp"

namespace perdura::commit {

class PageSet {
 public:
  static Result<PageSet> create(u64 region_bytes);

  /// Whether it was not in the set; of several threads that add a page one is told so.
  bool add(u64 page) noexcept {
    word(0).store(1, std::memory_order_release);
    const u64 bit = u64{1} << page % 64;
    return (word(1 + page / 64).fetch_or(bit, std::memory_order_acq_rel) & bit) == 0;
  }
  bool contains(u64 page) const noexcept {
    return (word(1 + page / 64).load(std::memory_order_acquire) >> page % 64 & 1) != 0;
  }
  /// Never true again once a page was added.
  bool empty() const noexcept { return word(0).load(std::memory_order_acquire) == 0; }

  /// The lines of `changes`, a set of the same region, that are in none of these pages.
  Result<track::DirtyMap> leave_out_of(const track::DirtyMap& changes) const;

 private:
  PageSet(Mapping words, u64 region_bytes)
      : words_(std::move(words)), region_bytes_(region_bytes) {}
  /// The first says whether there is any page.
  std::atomic<u64>& word(u64 index) const noexcept { return words_.as<std::atomic<u64>>()[index]; }

  Mapping words_;
  u64 region_bytes_;
};

}  // namespace perdura::commit
