#include "store/operation_watch.hpp"

#include <sys/mman.h>

#include <algorithm>

namespace perdura::store {
namespace {

bool set_closed(std::byte* address, u64 length, bool closed) noexcept {
  return ::mprotect(address, length, closed ? PROT_READ : PROT_READ | PROT_WRITE) == 0;
}

}  // namespace

Result<std::unique_ptr<OperationWatch>> OperationWatch::create(track::Mutators& mutators,
                                                               std::byte* base, u64 bytes) {
  std::unique_ptr<OperationWatch> watch(new OperationWatch(mutators));
  // Others may say of a page that was closed and opened before that its access can be tried again.
  PERDURA_ASSIGN(
      region::FaultWatch made,
      region::FaultWatch::create(base, base + bytes, *watch, region::FaultWatch::Turn::kFirst));
  watch->watch_.emplace(std::move(made));
  mutators.watch_leaves(watch.get());
  return watch;
}

OperationWatch::~OperationWatch() {
  mutators_.watch_leaves(nullptr);
  for (size_t i = 0, count = part_count_.load(); i < count; ++i)
    set_closed(parts_[i].address, parts_[i].length, false);
}

// It is listed first: what is closed must be opened by the handler.
void OperationWatch::watch(std::byte* address, u64 length) noexcept {
  const size_t count = part_count_.load(std::memory_order_relaxed);
  Part* const last = count == 0 ? nullptr : &parts_[count - 1];
  if (last != nullptr && last->address + last->length == address) {
    last->length.fetch_add(length, std::memory_order_release);
  } else {
    if (count == kPartsMax) return;
    parts_[count].address = address;
    parts_[count].length = length;
    part_count_.store(count + 1, std::memory_order_release);
  }
  set_closed(address, length, true);
}

bool OperationWatch::is_watched(const std::byte* page) const noexcept {
  for (size_t i = 0, count = part_count_.load(std::memory_order_acquire); i < count; ++i)
    if (page >= parts_[i].address && page < parts_[i].address + parts_[i].length) return true;
  return false;
}

bool OperationWatch::is_inside() const noexcept {
  const detail::ThreadKey key = mutators_.key();
  const detail::ThreadEntry& entry = detail::thread_entries[key.index];
  return entry.id == key.id && entry.mutator->depth.load(std::memory_order_relaxed) != 0;
}

bool OperationWatch::on_fault(const region::Fault& fault) noexcept {
  std::byte* const page = reinterpret_cast<std::byte*>(
      round_down(reinterpret_cast<std::uintptr_t>(fault.address), kPageBytes));
  if (!fault.is_store || fault.is_bus || !is_watched(page)) return false;
  if (!is_inside()) stores_.note_place(fault);
  if (!set_closed(page, kPageBytes, false)) return false;
  note_open(page);
  return true;
}

// A page that is open and not noted would stay so: it is noted when it is open, by whoever opened
// it, and whoever closes it has taken the note before.
void OperationWatch::note_open(std::byte* page) noexcept {
  for (auto& each : open_) {
    std::byte* none = nullptr;
    if (each.compare_exchange_strong(none, page)) return;
  }
  std::byte* const other = open_[next_open_.fetch_add(1) % kOpenMax].exchange(page);
  if (other != nullptr && other != page) set_closed(other, kPageBytes, true);
}

void OperationWatch::on_leave() noexcept {
  for (auto& each : open_) {
    if (each.load(std::memory_order_relaxed) == nullptr) continue;
    if (std::byte* const page = each.exchange(nullptr)) set_closed(page, kPageBytes, true);
  }
}

std::vector<OperationWatch::Store> OperationWatch::take() {
  const std::lock_guard lock(mutex_);
  const u64 count = stores_.count();
  if (count == taken_) return {};
  std::vector<Store> found;
  u64 seen = 0;
  stores_.for_each([&](const std::byte* address, const Place& place) {
    ++seen;
    if (std::ranges::find(told_, place) != told_.end()) return false;
    told_.push_back(place);
    found.push_back({address, place});
    return false;
  });
  if (seen >= count) taken_ = count;  // none is being noted
  return found;
}

}  // namespace perdura::store
