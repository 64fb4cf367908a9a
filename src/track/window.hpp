// Copy on write for a capture in the background.
//
// While a window is open the capturer walks the change set upwards and copies each line to the
// log, and a mutator about to store to a line that is not captured yet first copies it aside. The
// captured state is then exactly that of the moment the window opened.
//
// Per line there is a mark: the window's number and whether the side copy is complete.
//
//   mutator                                  capturer
//   line < scanned? nothing to do            load the line
//   any_mark := true
//   mark := copying (atomic; one wins)       load any_mark, and the mark
//   copy the line to its side arena          mark of this window: discard, await its done,
//   mark := done (release)                     take the side copy later
//   store                                    else: append the line to the log
//                                            scanned := next line (release)
//
// Why the capturer's load is good when it sees no mark: x86 keeps loads in order and stores in
// order, so a store of the mutator that the load had seen would have been preceded by a mark that
// the later load sees. Why it waits for `done` before `scanned` passes the line: from then on other
// mutators store to it without a look at its mark, and the side copy would hold what they stored.
// The loads of a line that a mutator is storing to race with it and their result is discarded; both
// sides of that race are in window.cc and commit/capture.cc, nowhere else.
// Windows open while all mutators stand still, so no operation spans two of them.
#pragma once

#include <atomic>
#include <cstring>

#include <perdura/detail/sanitizers.hpp>

#include "base/bits.hpp"
#include "base/mapping.hpp"

namespace perdura::track {

/// Side copies of one mutator: written by it, read by the capturer up to `count`.
class SideArena {
 public:
  static Result<SideArena> create();
  /// Without memory, and never added to.
  SideArena() = default;

  u64 count() const { return count_.load(std::memory_order_acquire); }
  u64 line(u64 index) const { return memory_.as<Entry>()[index].line; }
  const std::byte* data(u64 index) const { return memory_.as<Entry>()[index].data; }
  bool full() const { return count_.load(std::memory_order_relaxed) == kEntries; }
  void add(u64 line, const std::byte* from);
  void clear() { count_.store(0, std::memory_order_relaxed); }

  SideArena(SideArena&& other) noexcept : memory_(std::move(other.memory_)) {}

 private:
  static constexpr u64 kEntries = 512 * 1024;
  struct Entry {
    alignas(8) std::byte data[kLineBytes];
    u64 line;
  };
  explicit SideArena(Mapping memory) : memory_(std::move(memory)) {}
  Mapping memory_;
  std::atomic<u64> count_{0};
};

class Window {
 public:
  static Result<Window> create(std::byte* region_base, u64 region_bytes);
  Window(Window&& other) noexcept
      : base_(other.base_), marks_(std::move(other.marks_)), number_(other.number_) {}

  // --- with all mutators stopped
  void open();

  // --- mutators
  /// Before a store to lines [first, first + count).
  void copy_aside(SideArena& arena, u64 first, u64 count);

  // --- the capturer
  /// A side copy of some line exists or is being made. Load the lines first. While no mutator has
  /// marked any, the marks themselves, a line of them for each page, need not be read.
  bool any_mark() const { return any_mark_.load(std::memory_order_relaxed); }
  /// The same of one line; a mark of this window is larger than any of an earlier one.
  bool marked(u64 line) const { return marks()[line].load(std::memory_order_relaxed) >= copying(); }
  /// Lines below `line` are captured.
  void publish(u64 line) { scanned_.store(line, std::memory_order_release); }
  /// Of a marked line: wait until its side copy is in some arena.
  void await_copy(u64 line) const;
  /// Everything is captured: mutators need not copy any more.
  void finish() { publish(~u64{0}); }

 private:
  using Mark = std::atomic<u8>;
  static constexpr u8 kLastNumber = 127;

  Window(std::byte* base, Mapping marks) : base_(base), marks_(std::move(marks)) {}
  Mark* marks() const { return marks_.as<Mark>(); }
  // Marks of earlier windows are smaller; both numbers restart from clear marks.
  u8 copying() const { return static_cast<u8>(number_ * 2); }
  u8 done() const { return static_cast<u8>(number_ * 2 + 1); }

  std::byte* base_;
  Mapping marks_;
  u8 number_ = 0;
  std::atomic<u64> scanned_{~u64{0}};
  std::atomic<bool> any_mark_{false};  ///< set before the first mark of a window
};

/// Whether racing memory may be read by code that a sanitizer watches.
#if defined(PERDURA_THREAD_SANITIZER)
constexpr bool kRacingReadsAllowed = false;
#else
constexpr bool kRacingReadsAllowed = true;
#endif

/// Copies a line that mutators may be storing to: the result is used only when no mark
/// appeared. Kept out of ThreadSanitizer's sight for that reason.
#if defined(PERDURA_THREAD_SANITIZER)
void copy_racing_line(std::byte* to, const std::byte* from);
#else
inline void copy_racing_line(std::byte* to, const std::byte* from) {
  std::memcpy(to, from, kLineBytes);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}
#endif

/// The same of more lines.
inline void copy_racing(std::byte* to, const std::byte* from, u64 length) {
  if constexpr (kRacingReadsAllowed) std::memcpy(to, from, length);
  else
    for (u64 at = 0; at < length; at += kLineBytes) copy_racing_line(to + at, from + at);
}

}  // namespace perdura::track
