// What changed in an object's image since its last checkpoint, as its methods say it.
//
//   a method that reports      object_changed(first, bytes), before or after its stores
//   any other method           anything of the image may have changed
//
// Calls of different domains report at once; whoever executes looks when they are done.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <span>
#include <vector>

#include "base/bits.hpp"
#include "base/result.hpp"

namespace perdura::object {

class ObjectChanges;
namespace detail {
/// Where methods that this thread runs report to.
extern constinit thread_local ObjectChanges* reported_to;
}  // namespace detail

/// Lines of an image: a word of 64 for each page, and a bit for each word that is not 0.
class LineSet {
 public:
  LineSet() = default;
  explicit LineSet(u64 image_bytes)
      : words_((image_bytes + kPageBytes - 1) / kPageBytes), summary_((words_.size() + 63) / 64) {}

  u64 pages() const { return words_.size(); }
  /// A bit for each line of the page.
  u64 of_page(u64 page) const { return words_[page].load(std::memory_order_relaxed); }
  /// Lines with a byte of [begin, end), which is not empty; from several threads at once.
  void add(u64 begin, u64 end) noexcept {
    const u64 last = (end - 1) / kLineBytes;
    for (u64 line = begin / kLineBytes; line <= last;) {
      const auto bit = static_cast<unsigned>(line % kLinesPerPage);
      const u64 count = std::min<u64>(last - line + 1, kLinesPerPage - bit);
      add_mask(line / kLinesPerPage, bit_range(bit, static_cast<unsigned>(count)));
      line += count;
    }
  }

  // --- of one thread
  /// Calls visit(page, lines) for each page that has any, in rising order, until that fails.
  template <class Visit>
  Status for_each_page(Visit&& visit) const {
    for (u64 i = 0; i < summary_.size(); ++i)
      for (u64 bits = summary_[i].load(std::memory_order_relaxed); bits != 0; bits &= bits - 1) {
        const u64 page = i * 64 + static_cast<u64>(std::countr_zero(bits));
        PERDURA_TRY(visit(page, of_page(page)));
      }
    return {};
  }
  void add_all_of(const LineSet& other) noexcept {
    (void)other.for_each_page([this](u64 page, u64 mask) {
      add_mask(page, mask);
      return Status{};
    });
  }
  void clear() noexcept {
    (void)for_each_page([this](u64 page, u64) {
      words_[page].store(0, std::memory_order_relaxed);
      return Status{};
    });
    for (std::atomic<u64>& each : summary_) each.store(0, std::memory_order_relaxed);
  }

 private:
  void add_mask(u64 page, u64 mask) noexcept {
    std::atomic<u64>& word = words_[page];
    if ((word.load(std::memory_order_relaxed) & mask) == mask) return;
    if (word.fetch_or(mask, std::memory_order_relaxed) == 0)
      summary_[page / 64].fetch_or(u64{1} << page % 64, std::memory_order_relaxed);
  }

  std::vector<std::atomic<u64>> words_;
  std::vector<std::atomic<u64>> summary_;
};

class ObjectChanges {
 public:
  /// `image` outlives it. `kept`: some method reports; else only whether anything ran is known.
  ObjectChanges(std::span<std::byte> image, bool kept)
      : image_(image), lines_(kept ? image.size() : 0), is_kept_(kept) {}

  /// Whether lines() says all that changed.
  bool are_known() const { return !whole_.load(std::memory_order_relaxed); }
  bool are_kept() const { return is_kept_; }
  const LineSet& lines() const { return lines_; }

  // --- in methods, from several threads at once
  /// Bytes of the image; of others nothing is noted.
  void note(const void* first, u64 bytes) noexcept {
    const u64 begin = static_cast<u64>(static_cast<const std::byte*>(first) - image_.data());
    if (begin >= image_.size() || bytes == 0) return;
    if (is_kept_) lines_.add(begin, begin + std::min<u64>(bytes, image_.size() - begin));
    else note_all();
  }
  void note_all() noexcept {
    if (are_known()) whole_.store(true, std::memory_order_relaxed);
  }

  /// From the method of an object that this thread runs; else nothing is noted.
  static void report(const void* first, u64 bytes) noexcept {
    if (detail::reported_to != nullptr) detail::reported_to->note(first, bytes);
  }

  // --- by whoever executes
  /// A checkpoint has them.
  void clear() noexcept {
    lines_.clear();
    whole_.store(false, std::memory_order_relaxed);
  }
  /// What lines() takes for an image of this size.
  LineSet lines_for(u64 image_bytes) const { return LineSet(is_kept_ ? image_bytes : 0); }
  /// The image is elsewhere, of another size, for which `lines` are; anything of it may have
  /// changed.
  void move_to(std::span<std::byte> image, LineSet&& lines) noexcept {
    lines_ = std::move(lines);
    image_ = image;
    note_all();
  }

 private:
  std::span<std::byte> image_;
  LineSet lines_;
  const bool is_kept_;
  std::atomic<bool> whole_{true};
};

}  // namespace perdura::object
