// Where the pointers of a type are, in a form that needs no type record: nested values and arrays
// resolved to runs of pointers at equal distances. What a store keeps of each type.
#pragma once

#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include <perdura/type.h>

#include "base/result.hpp"
#include "format/heap_format.hpp"

namespace perdura::heap {

struct Layout {
  std::string name;
  std::string text;  ///< of the record, for people
  u64 fingerprint = 0;
  u32 size = 0;
  u32 alignment = 0;
  u32 tail_offset = 0;
  u32 tail_stride = 0;
  std::vector<format::PointerRun> runs;
  std::vector<format::PointerRun> tail_runs;  ///< of an element of the flexible array
  std::vector<format::PointerTag> tags;
  /// Two runs have a word in common: members of a union that count at the same time.
  bool shares_words = false;

  /// kInvalidArgument says what is wrong with a record.
  static Result<Layout> of(const perdura_type& type);

  /// Of everything that says where pointers are, and of the name.
  u64 compute_fingerprint() const;
  /// What is impossible about it, or "": it was read from a medium.
  std::string problem() const;
  /// Of one without a problem.
  void find_shared_words();

  /// visit(word, maybe) of each pointer in a block of `bytes` bytes, once of each: an array of
  /// objects, or one that ends with a flexible array.
  template <class Visit>
  void for_each_pointer(std::byte* block, u64 bytes, bool flexible, Visit&& visit) const {
    for_each_pointer(block, bytes, flexible, 0, bytes, visit);
  }
  /// The same; objects that lie outside of [from, to) in the block may be left out.
  template <class Visit>
  void for_each_pointer(std::byte* block, u64 bytes, bool flexible, u64 from, u64 to,
                        Visit&& visit) const {
    if (!flexible) {
      visit_array(runs, size, block, bytes, from, to, visit);
      return;
    }
    if (bytes < size) return;  // forged: the heap gives none out
    visit_runs(runs, block, visit);
    if (tail_stride != 0 && bytes > tail_offset)
      visit_array(tail_runs, tail_stride, block + tail_offset, bytes - tail_offset,
                  from > tail_offset ? from - tail_offset : 0,
                  to > tail_offset ? to - tail_offset : 0, visit);
  }
  bool has_pointers() const { return !runs.empty() || !tail_runs.empty(); }
  /// The first run with the word at an offset in a block, whatever tags say now; or nullptr.
  const format::PointerRun* run_at(u64 offset, bool flexible) const;

 private:
  template <class Visit>
  void visit_array(const std::vector<format::PointerRun>& all, u64 stride, std::byte* first,
                   u64 bytes, u64 from, u64 to, Visit& visit) const {
    if (all.empty()) return;
    for (u64 at = from / stride * stride; at < to && at + stride <= bytes; at += stride)
      visit_runs(all, first + at, visit);
  }

  template <class Visit>
  void visit_runs(const std::vector<format::PointerRun>& all, std::byte* object,
                  Visit& visit) const {
    for (const format::PointerRun& run : all)
      for (u64 i = 0; i < run.count; ++i)
        if ((run.tag_count == 0 || tags_fit(run, object, i)) &&
            (!shares_words || !was_visited(all, run, object, i))) [[likely]]
          visit(reinterpret_cast<u64*>(object + run.offset + i * run.stride), run.maybe != 0);
  }

  /// Whether a run before this one has visited its word.
  bool was_visited(const std::vector<format::PointerRun>& all, const format::PointerRun& run,
                   const std::byte* object, u64 index) const {
    const u64 at = run.offset + index * run.stride;
    for (const format::PointerRun* before = all.data(); before != &run; ++before) {
      const u64 from = at - before->offset;  // beyond all of them when it wraps
      const u64 i = before->stride != 0 ? from / before->stride : from;
      if (i < before->count && i * before->stride == from &&
          (before->tag_count == 0 || tags_fit(*before, object, i)))
        return true;
    }
    return false;
  }

  bool tags_fit(const format::PointerRun& run, const std::byte* object, u64 index) const {
    for (u32 i = run.first_tag; i < run.first_tag + run.tag_count; ++i) {
      const format::PointerTag& tag = tags[i];
      u64 value = 0;
      std::memcpy(&value, object + tag.offset + index * tag.stride,
                  tag.bytes & ~format::kTagDiffers);
      if ((value == tag.value) == ((tag.bytes & format::kTagDiffers) != 0)) return false;
    }
    return true;
  }
};

/// The layouts of blocks' tags, of which neighbours mostly have the same. One thread's.
class Layouts {
 public:
  explicit Layouts(const std::deque<Layout>& types) : types_(types) {}
  /// nullptr: a plain block, or one of no known type.
  const Layout* of(u16 tag) const {
    if (tag != tag_) {
      tag_ = tag;
      layout_ = tag / 2 != 0 && tag / 2 <= types_.size() ? &types_[tag / 2 - 1] : nullptr;
    }
    return layout_;
  }

 private:
  const std::deque<Layout>& types_;  ///< by their numbers, from 1
  mutable u16 tag_ = 0;
  mutable const Layout* layout_ = nullptr;
};

}  // namespace perdura::heap
