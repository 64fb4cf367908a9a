// The hot path of transactions: loads and stores of words under ownership records.
//
// Word-based, in the style of TinySTM (Felber et al., PPoPP 2008): a global clock, ownership
// records for stripes of memory, locks taken at the first store, new values kept aside until
// commit or old ones until abort, snapshots that are extended when a newer value is read.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace perdura::detail {

/// Thrown through a transaction's function, to begin it again. Not an error of the program's.
struct TransactionRestart {};
/// The same, once something that it has read changes.
struct TransactionRetry {};

/// An ownership record: the time of the last commit that stored to a stripe, times two; or one more
/// than the address of a TransactionWrite of the transaction that is about to store to it.
using OwnershipRecord = std::atomic<std::uint64_t>;
constexpr std::uint64_t kOwned = 1;
constexpr unsigned kStripeShift = 5;  ///< a record for 32 bytes

struct TransactionRead {
  OwnershipRecord* record;
  std::uint64_t version;
};

/// A word that a transaction stores. They stay where they are until it ends.
struct TransactionWrite {
  std::uint64_t* word;
  std::uint64_t value;  ///< that it will have; in place: that it had
  OwnershipRecord* record;
  std::uint64_t version;   ///< of the record before it was owned
  TransactionWrite* next;  ///< another word of the same record's
  class TransactionThread* owner;
};

/// What a thread's transactions are made of. Of that thread alone, but for `owner` above.
class TransactionThread {
 public:
  std::uint64_t load(const std::uint64_t* word) {
    OwnershipRecord& record = record_of(word);
    for (;;) {
      const std::uint64_t before = record.load(std::memory_order_acquire);
      if ((before & kOwned) != 0) [[unlikely]] {
        if (is_own(before)) return own_value(before, word);
        wait_or_restart(record, before);
        continue;
      }
      const std::uint64_t value = value_of(word);
      if (record.load(std::memory_order_relaxed) != before) [[unlikely]]
        continue;
      if (before >> 1 > snapshot_) [[unlikely]] {
        extend();
        continue;
      }
      if (reads_end_ == reads_limit_) [[unlikely]]
        grow_reads();
      *reads_end_++ = {&record, before};
      return value;
    }
  }

  void store(std::uint64_t* word, std::uint64_t value);

  OwnershipRecord& record_of(const void* place) const {
    return records_[reinterpret_cast<std::uintptr_t>(place) >> kStripeShift & record_mask_];
  }

 protected:
  static std::uint64_t value_of(const std::uint64_t* word) {
    return std::atomic_ref(*const_cast<std::uint64_t*>(word)).load(std::memory_order_acquire);
  }
  static TransactionWrite* write_of(std::uint64_t record) {
    return reinterpret_cast<TransactionWrite*>(record & ~kOwned);
  }
  bool is_own(std::uint64_t record) const { return write_of(record)->owner == this; }
  /// Of a record that is its own.
  static TransactionWrite* own_write(std::uint64_t record, const std::uint64_t* word) {
    for (TransactionWrite* write = write_of(record); write != nullptr; write = write->next)
      if (write->word == word) return write;
    return nullptr;
  }
  std::uint64_t own_value(std::uint64_t record, const std::uint64_t* word) const {
    const TransactionWrite* const own = in_place_ ? nullptr : own_write(record, word);
    return own != nullptr ? own->value : value_of(word);
  }

  void wait_or_restart(OwnershipRecord& record, std::uint64_t owned);
  void extend();
  void grow_reads();

  OwnershipRecord* records_ = nullptr;
  std::uint64_t record_mask_ = 0;
  std::uint64_t snapshot_ = 0;  ///< all that was read is as it was at this time
  TransactionRead* reads_begin_ = nullptr;
  TransactionRead* reads_end_ = nullptr;
  TransactionRead* reads_limit_ = nullptr;  ///< of the space; of what was read when it has ended
  bool in_place_ = false;  ///< its stores are in memory, and what was there is in its writes
};

}  // namespace perdura::detail
