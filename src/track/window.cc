#include "track/window.hpp"

#include <algorithm>
#include <cstring>

#include "base/spin.hpp"

namespace perdura::track {

Result<SideArena> SideArena::create() {
  PERDURA_ASSIGN(Mapping memory, Mapping::anonymous(kEntries * sizeof(Entry)));
  return SideArena(std::move(memory));
}

void SideArena::add(u64 line, const std::byte* from) {
  const u64 index = count_.load(std::memory_order_relaxed);
  Entry& entry = memory_.as<Entry>()[index];
  copy_racing_line(entry.data, from);
  entry.line = line;
  count_.store(index + 1, std::memory_order_release);
}

Result<Window> Window::create(std::byte* region_base, u64 region_bytes) {
  PERDURA_ASSIGN(Mapping marks, Mapping::anonymous(region_bytes / kLineBytes));
  return Window(region_base, std::move(marks));
}

void Window::open() {
  if (number_ == kLastNumber) {
    // Memory that the program has locked (mlockall) cannot be dropped.
    if (::madvise(marks_.as<void>(), marks_.length(), MADV_DONTNEED) != 0)
      std::memset(marks_.as<void>(), 0, marks_.length());
    number_ = 0;
  }
  ++number_;
  any_mark_.store(false, std::memory_order_relaxed);
  publish(0);
}

void Window::copy_aside(SideArena& arena, u64 first, u64 count) {
  for (u64 line = first; line < first + count; ++line) {
    if (line < scanned_.load(std::memory_order_acquire)) continue;
    Mark& mark = marks()[line];
    u8 seen = mark.load(std::memory_order_acquire);
    if (seen < copying()) {
      // A full arena means that the capture is far behind: wait for it to pass this line.
      while (arena.full() && line >= scanned_.load(std::memory_order_acquire)) give_way();
      if (line < scanned_.load(std::memory_order_acquire)) continue;
      if (!any_mark()) any_mark_.store(true, std::memory_order_release);
      if (mark.compare_exchange_strong(seen, copying(), std::memory_order_acq_rel)) {
        arena.add(line, base_ + line * kLineBytes);
        mark.store(done(), std::memory_order_release);
        continue;
      }
    }
    // Another mutator copies this line: its copy must be complete before ours stores.
    await_copy(line);
  }
}

void Window::await_copy(u64 line) const {
  await_soon([&] { return marks()[line].load(std::memory_order_acquire) == done(); });
}

#if defined(PERDURA_THREAD_SANITIZER)
__attribute__((no_sanitize("thread"), noinline)) static void copy_words(u64* to, const u64* from,
                                                                        u64 words) {
  const volatile u64* source = from;
  for (u64 i = 0; i < words; ++i) to[i] = source[i];
}
void copy_racing_line(std::byte* to, const std::byte* from) {
  copy_words(reinterpret_cast<u64*>(to), reinterpret_cast<const u64*>(from), kLineBytes / 8);
}
#endif

}  // namespace perdura::track
