#include "store/open_stores.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <type_traits>

#include "base/assert.hpp"
#include "base/mutant.hpp"
#include "base/process.hpp"
#include "store/runtime.hpp"

namespace perdura {
namespace {

using detail::Runtime;

/// Claimed and freed under the lock, and read without: `runtime` is set last and taken away first.
struct Slot {
  std::atomic<Runtime*> runtime{nullptr};
  std::atomic<std::byte*> base{nullptr};
  std::atomic<u64> bytes{0};
  std::atomic<u64> generation{0};  ///< of the process that opened it

  bool is_inherited() const { return forked_since(generation.load(std::memory_order_relaxed)); }
  bool holds(const void* address) const {
    const std::byte* const begin = base.load(std::memory_order_relaxed);
    return begin != nullptr && static_cast<u64>(static_cast<const std::byte*>(address) - begin) <
                                   bytes.load(std::memory_order_relaxed);
  }
};

// Needs no memory to be made, and is never destroyed: stores may be closed after static
// destruction.
using Slots = std::array<Slot, detail::kOpenStoresMax>;
static_assert(std::is_trivially_destructible_v<Slots>);
constinit Slots slots;
constinit std::atomic<size_t> slots_end{0};  // those from here on were never used

/// Each store of the process; in a forked child also those of its parent.
template <class Visit>
void for_each_open(Visit&& visit) noexcept {
  for (size_t i = 0, end = slots_end.load(std::memory_order_acquire); i < end; ++i)
    if (Runtime* const runtime = slots[i].runtime.load(std::memory_order_acquire))
      visit(slots[i], *runtime);
}

/// A child's store may lie where one of its parent does, and comes first. Where there is none, the
/// parent's is found, so that whoever uses it is told whose it is.
template <class Takes>
Runtime* find_open(Takes&& takes) noexcept {
  Runtime* inherited = nullptr;
  for (size_t i = 0, end = slots_end.load(std::memory_order_acquire); i < end; ++i) {
    if (!takes(slots[i])) continue;
    Runtime* const runtime = slots[i].runtime.load(std::memory_order_acquire);
    if (runtime == nullptr) continue;
    if (!slots[i].is_inherited()) [[likely]]
      return runtime;
    inherited = runtime;
  }
  return inherited;
}

/// A free one, else one of a parent's store, which the parent goes on with. Under the lock.
size_t choose_slot() {
  size_t inherited = slots.size();
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].runtime.load() == nullptr) return i;
    if (slots[i].is_inherited()) inherited = i;
  }
  PERDURA_ASSERT(inherited != slots.size());  // Mutators refuses more stores than there are slots
  return inherited;
}

}  // namespace

namespace store {

void add_open_store(Runtime& runtime) {
  std::lock_guard lock(process_mutex(ProcessMutex::kOpenStores));
  const size_t chosen = choose_slot();
  Slot& slot = slots[chosen];
  slot.runtime = nullptr;
  slot.bytes = runtime.region().reserved_bytes();
  slot.base = runtime.region().base();
  slot.generation = process_generation();
  slot.runtime = &runtime;
  detail::stores_opened.fetch_add(1, std::memory_order_release);
  if (chosen >= slots_end) slots_end = chosen + 1;
}

void remove_open_store(Runtime& runtime) {
  std::lock_guard lock(process_mutex(ProcessMutex::kOpenStores));
  for (Slot& slot : slots) {
    if (slot.runtime != &runtime) continue;
    slot.runtime = nullptr;
    slot.base = nullptr;
    slot.bytes = 0;
  }
  detail::stores_opened.fetch_add(1, std::memory_order_release);
}

void add_open_ranges(std::vector<format::RegionRecord>& ranges) {
  std::lock_guard lock(process_mutex(ProcessMutex::kOpenStores));
  for (const Slot& slot : slots) {
    if (slot.runtime.load() == nullptr) continue;
    format::RegionRecord& range = ranges.emplace_back();
    range.address = reinterpret_cast<std::uintptr_t>(slot.base.load());
    range.limit_bytes = slot.bytes;
  }
}

std::string find_open_store(u64 store_id, const std::string& but) {
  std::lock_guard lock(process_mutex(ProcessMutex::kOpenStores));
  for (const Slot& slot : slots) {
    Runtime* const runtime = slot.runtime.load();
    if (runtime == nullptr || slot.is_inherited()) continue;
    if (runtime->volume().store_id() == store_id && runtime->name() != but) return runtime->name();
  }
  return {};
}

}  // namespace store

namespace detail {

constinit std::atomic<std::uint64_t> stores_opened{1};

namespace {

/// Between the regions of open stores.
struct Gap {
  std::uintptr_t begin = 0;
  std::uintptr_t bytes = 0;
  u64 opened = 0;  ///< as of FoundStore

  bool holds(const void* address) const noexcept {
    return reinterpret_cast<std::uintptr_t>(address) - begin < bytes &&
           opened == stores_opened.load(std::memory_order_acquire);
  }
};
/// Where this thread has last looked for a store in vain.
__attribute__((tls_model("initial-exec"))) constinit thread_local Gap found_gap;

/// The largest one with this address.
void note_gap(const void* address, u64 opened) noexcept {
  const auto place = reinterpret_cast<std::uintptr_t>(address);
  std::uintptr_t begin = 0;
  std::uintptr_t end = ~std::uintptr_t{0};
  for (const Slot& slot : slots) {
    const auto base = reinterpret_cast<std::uintptr_t>(slot.base.load(std::memory_order_relaxed));
    if (base == 0) continue;
    if (base > place) end = std::min(end, base);
    else begin = std::max(begin, base + slot.bytes.load(std::memory_order_relaxed));
  }
  found_gap = {begin, end - begin, opened};
}

[[gnu::noinline]] Mutator* find_mutator_anew(const void* address) {
  const u64 opened = stores_opened.load(std::memory_order_acquire);
  Runtime* const runtime = runtime_holding(address);
  if (runtime == nullptr) {
    note_gap(address, opened);
    return nullptr;
  }
  value_or_throw(runtime->usable());
  (void)runtime->mutators().this_thread();
  return find_reader(address);
}

}  // namespace

// A leaf, without stores of its own: in ordinary memory each call of a container comes here.
Mutator* find_mutator(const void* address) {
  if (found_gap.holds(address)) return nullptr;
  return find_mutator_anew(address);
}

Mutator* find_reader(const void* address) noexcept {
  const u64 opened = stores_opened.load(std::memory_order_acquire);
  Runtime* const runtime = runtime_holding(address);
  if (runtime == nullptr) return nullptr;
  const ThreadKey key = runtime->mutators().key();
  const ThreadEntry& entry = thread_entries[key.index];
  const region::Region& region = runtime->region();
  found_store = {reinterpret_cast<std::uintptr_t>(region.base()), region.reserved_bytes(), opened,
                 entry.id == key.id ? entry.mutator : nullptr};
  return found_store.mutator;
}

Runtime* runtime_at(const void* base) noexcept {
  return find_open(
      [&](const Slot& slot) { return slot.base.load(std::memory_order_relaxed) == base; });
}

Runtime* runtime_of_mutators(u64 id) noexcept {
  return find_open([&](const Slot& slot) {
    Runtime* const runtime = slot.runtime.load(std::memory_order_acquire);
    return runtime != nullptr && runtime->mutators().key().id == id;
  });
}

Runtime* runtime_holding(const void* address) noexcept {
  return find_open([&](const Slot& slot) { return slot.holds(address); });
}

Runtime* only_or_current_runtime() noexcept {
  struct Found {
    Runtime* last = nullptr;
    size_t count = 0;
    void add(Runtime& runtime) {
      last = &runtime;
      ++count;
    }
  };
  Found ours;
  Found current;
  Found inherited;
  for_each_open([&](const Slot& slot, Runtime& runtime) {
    if (runtime.is_container() && !is_mutant("container_allocators")) return;
    if (slot.is_inherited()) return inherited.add(runtime);
    ours.add(runtime);
    if (runtime.mutators().in_operation()) current.add(runtime);
  });
  if (current.count == 1) return current.last;
  if (current.count != 0) return nullptr;
  // Without a store of its own a child is told whose the only one is.
  const Found& all = ours.count != 0 ? ours : inherited;
  return all.count == 1 ? all.last : nullptr;
}

bool has_open_stores() noexcept {
  bool found = false;
  for_each_open([&](const Slot&, const Runtime& runtime) { found |= !runtime.is_container(); });
  return found;
}

}  // namespace detail
}  // namespace perdura
