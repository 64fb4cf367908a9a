// Which blocks operations have allocated or given back since the last durable version.
//
// A transaction is durable by itself: after a crash it is repeated on the last durable version.
// That is right only if what it was given was free there, and what it stores to, points to or gives
// back was there. What operations did since is in memory alone, so a store with transactions notes
// it:
//
//   a free block with a note       the version may still have it: no transaction may get it
//   an allocated block with one    the version does not have it: a transaction that uses it waits
//                                  for a version that does (model/transaction)
//   units that were given back     the same as a free block, but nobody gets them, so that what a
//                                  unit is used for never changes behind the version's back
//
// What transactions did needs no note: they are repeated in the order of their commits.
//
// Notes belong to an epoch: to the running one while mutators make them, to the captured one from
// the cut until its version is durable. Then they go.
#pragma once

#include <atomic>
#include <memory>

#include "base/mapping.hpp"
#include "heap/size_classes.hpp"

namespace perdura::heap {

/// Notes are made by any thread. What says "under the units' lock" is not thread-safe otherwise.
class Unversioned {
 public:
  static Result<std::unique_ptr<Unversioned>> create(u64 units_max);

  /// False: there are no notes.
  bool any() const {
    return epochs_[0].any.load(std::memory_order_relaxed) ||
           epochs_[1].any.load(std::memory_order_relaxed);
  }

  /// By an operation: before it gives the block out, or anybody else can get it. The slab begins at
  /// `unit`.
  void note_block(u64 unit, u32 index) {
    Epoch& epoch = running();
    set(epoch.blocks.as<u64>()[unit * kWordsOfUnit + index / 64], u64{1} << index % 64);
    set(epoch.slabs.as<u64>()[unit / 64], u64{1} << unit % 64);
    set_any(epoch);
  }
  bool has_block(u64 unit, u32 index) const {
    return (word(unit, index / 64) >> index % 64 & 1) != 0;
  }
  /// Of 64 blocks of a slab, those with a note.
  u64 word(u64 unit, u32 word) const {
    return load(epochs_[0].blocks.as<u64>()[unit * kWordsOfUnit + word]) |
           load(epochs_[1].blocks.as<u64>()[unit * kWordsOfUnit + word]);
  }

  /// A large block that an operation allocates.
  void note_large(u64 unit, u64 count);
  bool has_large(u64 unit) const {
    return is_set(epochs_[0].large, unit) || is_set(epochs_[1].large, unit);
  }

  // --- under the units' lock
  /// An operation gives back a large block.
  void hold_units(u64 unit, u64 count);
  /// An empty slab is given back. True: some of its blocks have notes, so its units are held.
  bool hold_slab(u64 unit, u64 count);
  /// Give all held units to `release(unit)`, since an operation needs them; no transaction may
  /// commit before there is a version without them, so notes about them are not needed. False: none
  /// is held.
  template <class Release>
  bool reclaim(u64 units_end, Release&& release);
  /// After begin_epoch(): the captured epoch ended, its version durable or not. `release(unit)`
  /// each unit that is held no more.
  template <class Release>
  void settle(bool durable, u64 units_end, Release&& release);

  /// While mutators stand still: the running epoch is captured, and another one runs. Under the
  /// units' lock.
  void begin_epoch(u64 units_end);

  /// From now on no transaction may commit before the next version is durable.
  void require_version() {
    required_.fetch_or(bit_of(running()), std::memory_order_acq_rel);
    set_any(running());
  }
  /// Each transaction looks here, those that only read as well.
  bool version_required() const { return required_.load(std::memory_order_acquire) != 0; }

 private:
  static constexpr u64 kWordsOfUnit = format::kUnitBytes / 16 / 64;

  struct Epoch {
    Mapping blocks;  ///< a bit for each block, kWordsOfUnit words for each first unit of a slab
    Mapping slabs;   ///< a bit for each unit: a slab that begins there has notes
    Mapping large;   ///< a bit for each unit of a large block
    Mapping held;    ///< a bit for each unit that was given back
    std::atomic<bool> any{false};
  };

  Unversioned() = default;
  static u64 load(const u64& word) {
    return std::atomic_ref(const_cast<u64&>(word)).load(std::memory_order_relaxed);
  }
  static bool is_set(const Mapping& bits, u64 unit) {
    return (load(bits.as<u64>()[unit / 64]) >> unit % 64 & 1) != 0;
  }
  static void set(u64& word, u64 bits) {
    // Most are set already. The fence of the exchange lets nobody see the block before its note.
    if ((load(word) & bits) != bits)
      std::atomic_ref(word).fetch_or(bits, std::memory_order_seq_cst);
  }
  static void set_any(Epoch& epoch) {
    if (!epoch.any.load(std::memory_order_relaxed))
      epoch.any.store(true, std::memory_order_seq_cst);
  }
  template <class Visit>
  static void for_each(const Mapping& bits, u64 units_end, Visit&& visit);
  static void clear_blocks(Epoch& epoch, u64 unit);
  void clear(Epoch& epoch, u64 units_end);
  void merge(Epoch& from, Epoch& into, u64 units_end);
  Epoch& running() { return epochs_[running_.load(std::memory_order_relaxed)]; }
  Epoch& captured() { return epochs_[1 - running_.load(std::memory_order_relaxed)]; }
  u32 bit_of(const Epoch& epoch) const { return &epoch == &epochs_[0] ? 1 : 2; }

  Epoch epochs_[2];
  std::atomic<u32> running_{0};   ///< changes while mutators stand still
  std::atomic<u32> required_{0};  ///< bits of the epochs that a version is to have first
};

template <class Visit>
void Unversioned::for_each(const Mapping& bits, u64 units_end, Visit&& visit) {
  const u64* const words = bits.as<u64>();
  for (u64 at = 0; at * 64 < units_end; ++at)
    for (u64 left = load(words[at]); left != 0; left &= left - 1)
      visit(at * 64 + static_cast<u64>(std::countr_zero(left)));
}

template <class Release>
bool Unversioned::reclaim(u64 units_end, Release&& release) {
  bool found = false;
  for (Epoch& epoch : epochs_)
    for_each(epoch.held, units_end, [&](u64 unit) {
      epoch.held.as<u64>()[unit / 64] &= ~(u64{1} << unit % 64);
      for (Epoch& each : epochs_) clear_blocks(each, unit);
      release(unit);
      found = true;
    });
  if (found) require_version();
  return found;
}

template <class Release>
void Unversioned::settle(bool durable, u64 units_end, Release&& release) {
  Epoch& epoch = captured();
  if (!durable || !epoch.any.load(std::memory_order_relaxed)) return;
  for_each(epoch.held, units_end, [&](u64 unit) {
    if (!is_set(running().held, unit)) release(unit);
  });
  clear(epoch, units_end);
}

}  // namespace perdura::heap
