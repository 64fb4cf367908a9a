#include "store/store_watch.hpp"

#include <sys/mman.h>

#include <algorithm>

namespace perdura::store {
namespace {

std::byte* page_of(const std::byte* address) {
  return reinterpret_cast<std::byte*>(
      round_down(reinterpret_cast<std::uintptr_t>(address), kPageBytes));
}

void set_closed(std::byte* page, bool closed) noexcept {
  ::mprotect(page, kPageBytes, closed ? PROT_READ : PROT_READ | PROT_WRITE);
}

}  // namespace

Result<std::unique_ptr<StoreWatch>> StoreWatch::create(std::byte* base, u64 bytes) {
  PERDURA_TRY(region::allow_steps());
  std::unique_ptr<StoreWatch> watch(new StoreWatch);
  PERDURA_ASSIGN(region::FaultWatch made, region::FaultWatch::create(base, base + bytes, *watch));
  watch->watch_.emplace(std::move(made));
  return watch;
}

StoreWatch::~StoreWatch() {
  for (size_t i = 0; i < page_count_.load(); ++i) set_closed(pages_[i], false);
}

bool StoreWatch::is_watched(const std::byte* page) const noexcept {
  const auto end = pages_.begin() + page_count_.load(std::memory_order_acquire);
  return std::find(pages_.begin(), end, page) != end;
}

void StoreWatch::watch(const std::byte* line) {
  std::byte* const page = page_of(line);
  const size_t count = page_count_.load(std::memory_order_relaxed);
  if (count == kPagesMax || is_watched(page)) return;
  pages_[count] = page;
  page_count_.store(count + 1, std::memory_order_release);
  set_closed(page, true);
}

std::vector<Place> StoreWatch::stores_to(const std::byte* line) const {
  std::vector<Place> found;
  stores_.for_each([&](const std::byte* address, const Place& place) {
    if (static_cast<u64>(address - line) < kLineBytes &&
        std::ranges::find(found, place) == found.end())
      found.push_back(place);
    return false;
  });
  return found;
}

bool StoreWatch::on_fault(const region::Fault& fault) noexcept {
  std::byte* const page = page_of(fault.address);
  if (!fault.is_store || fault.is_bus || !is_watched(page)) return false;
  stores_.note(fault);
  set_closed(page, false);
  region::step_over(*this, page);
  return true;
}

void StoreWatch::after_access(std::byte* page) noexcept { set_closed(page, true); }

}  // namespace perdura::store
