#include "model/transaction/outside_memory.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/assert.hpp"
#include "base/spin.hpp"
#include "model/transaction/pieces.hpp"
#include "model/transaction/transaction_context.hpp"

namespace perdura::detail::itm {
namespace {

constexpr size_t kRecords = size_t{1} << 18;
constexpr size_t kStripeBytes = size_t{1} << kStripeShift;
constexpr int kSpins = 64;  ///< for a record that another transaction owns

constinit std::array<OwnershipRecord, kRecords> records{};
alignas(64) constinit std::atomic<u64> clock{0};
alignas(64) constinit std::atomic<u32> stopped{0};  ///< the number of a thread that runs alone
constinit std::atomic<OutsideMemory*> all{nullptr};
constinit std::atomic<u32> numbers{0};

OwnershipRecord& record_of(std::uintptr_t place) {
  return records[(place >> kStripeShift) % kRecords];
}

/// Of a place within its stripe.
size_t left_in_stripe(std::uintptr_t place) { return kStripeBytes - place % kStripeBytes; }

// In pieces that nobody sees halves of.
void copy_from_shared(std::byte* to, const std::byte* from, size_t length) {
  for_each_piece(
      reinterpret_cast<std::uintptr_t>(from), length,
      [&]<class Piece>(Piece piece, std::uintptr_t at, size_t done) {
        piece = std::atomic_ref(*reinterpret_cast<Piece*>(at)).load(std::memory_order_acquire);
        std::memcpy(to + done, &piece, sizeof piece);
      });
}

void copy_to_shared(std::byte* to, const std::byte* from, size_t length) {
  for_each_piece(
      reinterpret_cast<std::uintptr_t>(to), length,
      [&]<class Piece>(Piece piece, std::uintptr_t at, size_t done) {
        std::memcpy(&piece, from + done, sizeof piece);
        std::atomic_ref(*reinterpret_cast<Piece*>(at)).store(piece, std::memory_order_release);
      });
}

}  // namespace

void OutsideMemory::add() {
  number_ = numbers.fetch_add(1, std::memory_order_relaxed) + 1;
  PERDURA_ASSERT(number_ < u32{1} << (64 - kNumberShift));
  next_ = all.load(std::memory_order_relaxed);
  while (!all.compare_exchange_weak(next_, this, std::memory_order_release)) {
  }
}

// First `active_`: whoever commits from here on waits for it, and what was committed before is in
// the snapshot. One that wants to be alone sees it, or is seen here.
bool OutsideMemory::join() {
  active_.store(clock.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
  if (!alone_ && stopped.load(std::memory_order_seq_cst) != 0) [[unlikely]] {
    active_.store(0, std::memory_order_release);
    return false;
  }
  joined_ = true;
  snapshot_ = clock.load(std::memory_order_seq_cst);
  return validate_durable();
}

bool OutsideMemory::validate_durable() const { return durable_ == nullptr || durable_->validate(); }

bool OutsideMemory::extend() {
  const u64 now = clock.load(std::memory_order_acquire);
  if (!validate() || !validate_durable()) return false;
  snapshot_ = now;
  active_.store(now + 1, std::memory_order_release);
  return true;
}

u64 OutsideMemory::version_of_own(u64 record) const {
  constexpr u64 kIndexMask = (u64{1} << (kNumberShift - 1)) - 1;
  return owned_[record >> 1 & kIndexMask].version;
}

bool OutsideMemory::validate() const {
  return std::ranges::all_of(reads_, [&](const TransactionRead& read) {
    const u64 now = read.record->load(std::memory_order_acquire);
    if (now == read.version) return true;
    return (now & kOwned) != 0 && is_own(now) && version_of_own(now) == read.version;
  });
}

bool OutsideMemory::read_piece(std::byte* to, const std::byte* from, size_t length) {
  OwnershipRecord& record = record_of(reinterpret_cast<std::uintptr_t>(from));
  for (int spins = 0;;) {
    const u64 before = record.load(std::memory_order_acquire);
    if ((before & kOwned) != 0) {
      if (is_own(before)) {
        std::memcpy(to, from, length);
        return true;
      }
      if (++spins == kSpins) return false;
      _mm_pause();
      continue;
    }
    copy_from_shared(to, from, length);
    if (record.load(std::memory_order_relaxed) != before) continue;
    if (before >> 1 > snapshot_) {
      if (!extend()) return false;
      continue;
    }
    // Loops read the same word again and again.
    if (reads_.empty() || reads_.back().record != &record) reads_.push_back({&record, before});
    return true;
  }
}

bool OutsideMemory::read(void* to, const void* from, size_t length) {
  if (!joined_ && !join()) return false;
  auto* into = static_cast<std::byte*>(to);
  const auto* place = static_cast<const std::byte*>(from);
  while (length != 0) {
    const size_t here = std::min(length, left_in_stripe(reinterpret_cast<std::uintptr_t>(place)));
    if (!read_piece(into, place, here)) return false;
    into += here;
    place += here;
    length -= here;
  }
  return true;
}

bool OutsideMemory::own(OwnershipRecord& record) {
  for (int spins = 0;;) {
    u64 before = record.load(std::memory_order_acquire);
    if ((before & kOwned) != 0) {
      if (is_own(before)) return true;
      if (++spins == kSpins) return false;
      _mm_pause();
      continue;
    }
    if (before >> 1 > snapshot_) {
      if (!extend()) return false;
      continue;
    }
    const u64 own = u64{number_} << kNumberShift | owned_.size() << 1 | kOwned;
    owned_.push_back({&record, before});
    if (record.compare_exchange_strong(before, own, std::memory_order_acq_rel)) return true;
    owned_.pop_back();
  }
}

bool OutsideMemory::write(void* to, const void* from, size_t length) {
  if (!joined_ && !join()) return false;
  const auto begin = reinterpret_cast<std::uintptr_t>(to);
  for (size_t done = 0; done < length; done += left_in_stripe(begin + done))
    if (!own(record_of(begin + done))) return false;
  note(to, length, Of::kAny);
  copy_to_shared(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), length);
  return true;
}

void OutsideMemory::note(const void* place, size_t length, Of of) {
  const auto* const begin = static_cast<const std::byte*>(place);
  undo_.push_back({const_cast<void*>(place), length, bytes_.size(), of});
  bytes_.insert(bytes_.end(), begin, begin + length);
}

void OutsideMemory::undo(size_t length, std::uintptr_t frames_end) {
  for (; undo_.size() > length; undo_.pop_back()) {
    const Undo& each = undo_.back();
    if (each.of == Of::kAny || reinterpret_cast<std::uintptr_t>(each.place) >= frames_end)
      copy_to_shared(static_cast<std::byte*>(each.place), bytes_.data() + each.at, each.length);
    bytes_.resize(each.at);
  }
}

// The time of a commit, or of what undoes one: who has read what was there meanwhile finds it
// newer.
bool OutsideMemory::prepare() {
  if (!has_written()) return validate();
  commit_time_ = clock.fetch_add(1, std::memory_order_acq_rel) + 1;
  return commit_time_ == snapshot_ + 1 || validate();
}

void OutsideMemory::release() {
  if (has_written()) {
    if (commit_time_ == 0) commit_time_ = clock.fetch_add(1, std::memory_order_acq_rel) + 1;
    for (const Owned& each : owned_)
      each.record->store(commit_time_ << 1, std::memory_order_release);
  }
  owned_.clear();
  reads_.clear();
  undo_.clear();
  bytes_.clear();
}

void OutsideMemory::leave() {
  durable_ = nullptr;
  joined_ = false;
  active_.store(0, std::memory_order_release);
  if (!alone_) return;
  alone_ = false;
  stopped.store(0, std::memory_order_release);
}

void OutsideMemory::await_others() {
  if (commit_time_ == 0) commit_time_ = clock.fetch_add(1, std::memory_order_acq_rel) + 1;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (const OutsideMemory* each = all.load(std::memory_order_acquire); each != nullptr;
       each = each->next_)
    await_soon([&] {
      const u64 active = each->active_.load(std::memory_order_acquire);
      return active == 0 || active > commit_time_;
    });
}

void OutsideMemory::stop_others() {
  await_soon([&] {
    u32 nobody = 0;
    return stopped.compare_exchange_strong(nobody, number_, std::memory_order_seq_cst);
  });
  alone_ = true;
  for (const OutsideMemory* each = all.load(std::memory_order_acquire); each != nullptr;
       each = each->next_)
    await_soon([&] { return each->active_.load(std::memory_order_seq_cst) == 0; });
}

void OutsideMemory::await_stopped() {
  await_soon([] { return stopped.load(std::memory_order_acquire) == 0; });
}

void OutsideMemory::forget_others(OutsideMemory* own) {
  for (OwnershipRecord& record : records) record.store(0, std::memory_order_relaxed);
  clock = 0;
  stopped = 0;
  for (OutsideMemory* each = all.load(); each != nullptr; each = each->next_) each->active_ = 0;
  if (own == nullptr) return;
  own->release();
  own->leave();
}

}  // namespace perdura::detail::itm
