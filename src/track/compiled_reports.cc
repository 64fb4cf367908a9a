#include "track/compiled_reports.hpp"

#include <fmt/format.h>

#include <atomic>
#include <bit>

#include "base/assert.hpp"
#include "track/compiled_parts.hpp"

namespace {

/// Of no store: what is compared with its cursor always leads to the library.
constinit perdura::detail::Mutator no_mutator;

}  // namespace

thread_local constinit perdura::track::ThreadReports perdura_thread_reports{.mutator = &no_mutator};

namespace perdura::track {

void ThreadReports::begin_polled(MutatorSlot& slot) {
  PERDURA_ASSERT(slot.depth.load(std::memory_order_relaxed) == 0);
  detail::enter(slot);
  if (is_polled(slot)) return;  // what is called before operations has stored to it, and not polled
  slot.next_polled = polled;
  polled = &slot;
}

void ThreadReports::end_polled(MutatorSlot& slot) {
  if (slot.depth.load(std::memory_order_relaxed) == 1 && remove_polled(slot)) detail::leave(slot);
}

void ThreadReports::forget(MutatorSlot& slot) {
  remove_polled(slot);
  if (mutator != &slot) return;
  mutator = &no_mutator;
  bytes = 0;
}

void ThreadReports::forget_elsewhere(const MutatorSlot& slot) {
  if (std::atomic_ref(mutator).load(std::memory_order_relaxed) == &slot)
    std::atomic_ref(bytes).store(0, std::memory_order_relaxed);
}

bool ThreadReports::is_polled(const MutatorSlot& slot) const {
  const MutatorSlot* each = polled;
  while (each != nullptr && each != &slot) each = each->next_polled;
  return each != nullptr;
}

bool ThreadReports::remove_polled(MutatorSlot& slot) {
  MutatorSlot** place = &polled;
  while (*place != nullptr && *place != &slot) place = &(*place)->next_polled;
  if (*place == nullptr) return false;
  *place = slot.next_polled;
  return true;
}

void ThreadReports::forget_all() { *this = {.mutator = &no_mutator}; }

Status check_compiled(const std::byte* base, u64 bytes) {
  const u64 looked_at = compiled_windows();
  if (looked_at == 0)
    return Failure{Code::kUnsupported,
                   "no part of this program reports its stores by itself; compile all of it with "
                   "perdura-clang or perdura-clang++, or open the store with another tracker"};
  if (!std::has_single_bit(looked_at))
    return Failure{Code::kUnsupported,
                   "some parts of this program are compiled with -fsanitize=thread and others are "
                   "not, whose reports are of other addresses; compile all of them alike"};
  const auto window = static_cast<u64>(std::countr_zero(looked_at));
  const auto first = reinterpret_cast<std::uintptr_t>(base);
  if (first >> kCompiledWindowShift == window &&
      (first + bytes - 1) >> kCompiledWindowShift == window)
    return {};
  return Failure{
      Code::kUnsupported,
      fmt::format("the region is at {:#x}, and compiled reports are of addresses from "
                  "{:#x} to {:#x}; make the store anew without region_address, or open "
                  "it with another tracker",
                  first, window << kCompiledWindowShift, (window + 1) << kCompiledWindowShift)};
}

}  // namespace perdura::track
