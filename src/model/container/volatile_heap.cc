#include "model/container/volatile_heap.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <bit>

#include "heap/known_types.hpp"

namespace perdura::detail {

using track::InOperation;

namespace {

constexpr u64 kBytesMax = u64{1} << 40;
constexpr u64 kBytesMin = 16 * kMiB;

/// As much address space as there is; half of what the process may have, where that is limited.
u64 address_space() {
  u64 bytes = kBytesMax;
  for (const auto resource : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit limit{};
    if (::getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
      bytes = std::min(bytes, std::bit_floor(std::max<u64>(limit.rlim_cur / 2, kBytesMin)));
  }
  return bytes;
}

std::unique_ptr<region::Region> reserve() {
  for (u64 bytes = address_space();; bytes /= 2) {
    auto region = region::Region::map_volatile(bytes);
    if (region) return std::move(*region);
    if (bytes <= kBytesMin) throw_failure(std::move(region).failure());
  }
}

}  // namespace

VolatileHeap& VolatileHeap::instance() {
  static constinit MadeOnce<VolatileHeap> heap;
  return heap.get([] {
    return value_or_throw(guarded([]() -> Result<VolatileHeap*> { return new VolatileHeap; }));
  });
}

Status VolatileHeap::usable() const {
  if (!forked_since(process_generation_)) return {};
  return Failure{Code::kForked,
                 "this process was forked from one that had used containers: the heap of volatile "
                 "objects is its parent's, and it can open no container; fork before the first one "
                 "is used, or execute another program"};
}

VolatileHeap::VolatileHeap()
    : region_(reserve()),
      mutators_(value_or_throw(track::Mutators::create(
          this,
          [](Mutator& mutator) noexcept {
            const InOperation operation(mutator);
            static_cast<VolatileHeap*>(mutator.runtime)->heap().release_cache(mutator);
          }))),
      heap_(*region_, "volatile objects") {
  Mutator& mutator = mutators_->this_thread();
  const InOperation operation(mutator);
  value_or_throw(heap_.format(mutator));
  // What is of further types is of this one when there are as many as there can be.
  tag_of_words_ =
      heap::block_tag(value_or_throw(heap_.types().number_of(mutator, heap::kWords)), false);
  existing_.store(this, std::memory_order_release);
}

void VolatileHeap::pin(const void* object) {
  const InOperation operation(mutators_->this_thread());
  std::lock_guard lock(mutex_);
  ++pinned_[object];
  said_ = true;
}

bool VolatileHeap::unpin(const void* object) {
  const InOperation operation(mutators_->this_thread());
  std::lock_guard lock(mutex_);
  const auto pinned = pinned_.find(object);
  if (pinned == pinned_.end()) return false;
  if (--pinned->second == 0) pinned_.erase(pinned);
  return true;
}

void VolatileHeap::exclude(const void* word) {
  const InOperation operation(mutators_->this_thread());
  std::lock_guard lock(mutex_);
  excluded_.insert(static_cast<const std::byte*>(word));
  said_ = true;
}

void VolatileHeap::refer(void** pointer) {
  const InOperation operation(mutators_->this_thread());
  std::lock_guard lock(mutex_);
  references_.insert(pointer);
}

// Also by a destructor in a forked child, where the parent's objects do not move.
void VolatileHeap::forget(void** pointer) {
  if (forked_since(process_generation_)) return;
  const InOperation operation(mutators_->this_thread());
  std::lock_guard lock(mutex_);
  references_.erase(pointer);
}

VolatileHeap::Said VolatileHeap::take(const void* object, u64 bytes) noexcept {
  Said said;
  if (!said_.load(std::memory_order_relaxed)) return said;
  std::lock_guard lock(mutex_);
  said.of = static_cast<const std::byte*>(object);
  said.pin = pinned_.extract(object);
  for (auto at = excluded_.lower_bound(said.of); at != excluded_.end() && *at < said.of + bytes;)
    said.words.insert(excluded_.extract(at++));
  return said;
}

void VolatileHeap::give(Said said, const void* object, u64 bytes) noexcept {
  if (said.of == nullptr) return;
  std::lock_guard lock(mutex_);
  if (!said.pin.empty()) {
    said.pin.key() = object;
    pinned_.insert(std::move(said.pin));
  }
  while (!said.words.empty()) {
    auto word = said.words.extract(said.words.begin());
    const auto offset = static_cast<u64>(word.value() - said.of);
    if (offset >= bytes) continue;
    word.value() = static_cast<const std::byte*>(object) + offset;
    excluded_.insert(std::move(word));
  }
}

}  // namespace perdura::detail
