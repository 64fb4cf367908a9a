// A set of 64 B lines of a region: one bit a line, one word a page, one summary bit a page.
//
//   summary  1 bit a page     ....1.......1......
//                                 |       |
//   words    64 bits a page   [lines of page 4] [lines of page 12]
//
// Memory is reserved for the whole region and takes up RAM where the region changes.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>

#include "base/bits.hpp"
#include "base/mapping.hpp"

namespace perdura::track {

class DirtyMap {
 public:
  static Result<DirtyMap> create(u64 region_bytes);

  /// Add `count` lines. Only this thread uses the map.
  void add(u64 first_line, u64 count) { add_with<false>(first_line, count); }
  /// Add from several threads at once.
  void add_shared(u64 first_line, u64 count) { add_with<true>(first_line, count); }
  /// Add the lines of a page that `mask` has. Only this thread uses the map.
  void add_mask(u64 page, u64 mask) {
    if (mask != 0) or_word<false>(page, mask);
  }
  /// Add one line from several threads; true for the one that added it first.
  bool add_first(u64 line);
  /// Take one line out, from several threads; true for the one that did.
  bool take(u64 line);

  /// Everything of `other`, while other threads add.
  void merge(const DirtyMap& other) {
    other.for_each_page([this](u64 page, u64 mask) { or_word<true>(page, mask); });
  }
  /// Forget everything. Only this thread uses the map.
  void clear();
  bool empty() const;
  bool contains(u64 line) const {
    return (words()[line / kLinesPerPage].load(std::memory_order_acquire) >> line % kLinesPerPage &
            1) != 0;
  }

  /// With lines in the set.
  u64 pages() const;
  u64 page_mask(u64 page) const { return words()[page].load(std::memory_order_relaxed); }
  bool has_page(u64 page) const { return page_mask(page) != 0; }

  /// Call `visit(page, mask)` for every page with lines in the set, in ascending order.
  template <class Visit>
  void for_each_page(Visit&& visit) const {
    const u64 end = summary_end_.load(std::memory_order_relaxed);
    for (u64 i = 0; i < end; ++i) {
      if (i + kGroupsAhead < end && has_group(i + kGroupsAhead)) prefetch_group(i + kGroupsAhead);
      visit_group(i, visit);
    }
  }
  /// The same for pages [group * 64, group * 64 + 64).
  template <class Visit>
  void visit_group(u64 group, Visit&& visit) const {
    for (u64 bits = summary()[group].load(std::memory_order_relaxed); bits != 0; bits &= bits - 1) {
      const u64 page = group * 64 + static_cast<u64>(std::countr_zero(bits));
      if (const u64 mask = words()[page].load(std::memory_order_relaxed); mask != 0)
        visit(page, mask);
    }
  }
  static constexpr u64 kGroupBytes = 64 * kPageBytes;
  bool has_group(u64 group) const { return summary()[group].load(std::memory_order_relaxed) != 0; }
  /// Groups that visit_group may be called for.
  u64 groups() const { return summary_end_.load(std::memory_order_relaxed); }

  void prefetch(u64 line) const { __builtin_prefetch(&words()[line / kLinesPerPage], 1); }

  DirtyMap(DirtyMap&& other) noexcept
      : words_(std::move(other.words_)),
        summary_(std::move(other.summary_)),
        summary_end_(other.summary_end_.load()) {}

 private:
  using Word = std::atomic<u64>;
  static_assert(Word::is_always_lock_free && sizeof(Word) == sizeof(u64));

  DirtyMap(Mapping words, Mapping summary)
      : words_(std::move(words)), summary_(std::move(summary)) {}
  Word* words() const { return words_.as<Word>(); }
  Word* summary() const { return summary_.as<Word>(); }

  template <bool kShared>
  void add_with(u64 first_line, u64 count) {
    while (count != 0) {
      const auto bit = static_cast<unsigned>(first_line % kLinesPerPage);
      const u64 here = std::min<u64>(count, kLinesPerPage - bit);
      or_word<kShared>(first_line / kLinesPerPage, bit_range(bit, static_cast<unsigned>(here)));
      first_line += here;
      count -= here;
    }
  }

  template <bool kShared>
  void or_word(u64 page, u64 mask) {
    Word& word = words()[page];
    if (or_into<kShared>(word, mask) == 0) summarise<kShared>(page);
  }

  template <bool kShared>
  void summarise(u64 page) {
    const u64 group = page / 64;
    or_into<kShared>(summary()[group], u64{1} << page % 64);
    u64 end = summary_end_.load(std::memory_order_relaxed);
    while (end <= group && !summary_end_.compare_exchange_weak(end, group + 1)) {
    }
  }

  template <bool kShared>
  static u64 or_into(Word& word, u64 mask) {
    if constexpr (kShared) return word.fetch_or(mask, std::memory_order_acq_rel);
    const u64 old = word.load(std::memory_order_relaxed);
    word.store(old | mask, std::memory_order_relaxed);
    return old;
  }

  // What a visitor does in between leaves the processor's own prefetching no chance.
  static constexpr u64 kGroupsAhead = 2;
  void prefetch_group(u64 group) const {
    for (u64 page = group * 64; page < group * 64 + 64; page += kLineBytes / sizeof(Word))
      __builtin_prefetch(&words()[page]);
  }

  Mapping words_;
  Mapping summary_;
  std::atomic<u64> summary_end_{0};  ///< groups beyond it are empty
};

}  // namespace perdura::track
