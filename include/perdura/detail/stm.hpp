// The hot path of transactions: loads and stores of words under ownership records.
//
// Word-based, in the style of TinySTM (Felber et al., PPoPP 2008): a global clock, ownership
// records for stripes of memory, locks taken at the first store, new values kept aside until
// commit or old ones until abort, snapshots that are extended when a newer value is read.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace perdura::detail {

class TransactionThread;

/// Thrown through a transaction's function, to begin it again. Not an error of the program's.
struct TransactionAgain {
  enum class Why {
    kMetOthers,
    kWaits,         ///< until something that it has read changes
    kNeedsType,     ///< a version is to know a type first
    kLogFailed,     ///< a version is to have what the log has lost
    kNeedsVersion,  ///< a version is to have first what operations did to the heap
  };
  const TransactionThread* thread;  ///< whose transaction; those inside it, of other stores, end
  Why why;
};

/// How far a transaction was when a part of it began, which is undone where it throws.
struct TransactionSavepoint {
  std::size_t writes;       ///< words that it stores
  std::size_t overwritten;  ///< by parts
  std::size_t allocated;
  std::size_t given_back;
  std::size_t destroyed;
  std::size_t direct_from;
};

/// An ownership record: the time of the last commit that stored to a stripe, times two; or one more
/// than the address of a TransactionWrite of the transaction that is about to store to it.
using OwnershipRecord = std::atomic<std::uint64_t>;
constexpr std::uint64_t kOwned = 1;
constexpr unsigned kStripeShift = 5;  ///< a record for 32 bytes

struct TransactionRead {
  OwnershipRecord* record;
  std::uint64_t version;
};

/// A word that a transaction stores, or some bytes of it: the others may be stored to by whoever
/// has them. They stay where they are until it ends.
struct TransactionWrite {
  std::uint64_t* word;  ///< nullptr: none, the record is owned for what lies there
  std::uint64_t value;  ///< that it will have; in place: that it had; 0 outside of the mask
  std::uint64_t mask;   ///< of the bytes that are stored
  OwnershipRecord* record;
  std::uint64_t version;   ///< of the record before it was owned
  TransactionWrite* next;  ///< another word of the same record's
  class TransactionThread* owner;
};

/// What a thread's transactions are made of. Of that thread alone, but for `owner` above.
class TransactionThread {
 public:
  /// Of 1, 2, 4 or 8 bytes, aligned to as many. In line: by a call two loads that miss the caches
  /// take 50 ns longer, a third of a short transaction.
  template <class Word>
  [[gnu::always_inline]] Word load(const Word* word) {
    OwnershipRecord& record = record_of(word);
    for (;;) {
      const std::uint64_t before = record.load(std::memory_order_acquire);
      if ((before & kOwned) != 0) [[unlikely]] {
        if (is_own(before)) return own_value(before, word);
        wait_or_restart(record, before);
        continue;
      }
      const Word value = value_of(word);
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

  /// The bytes of a word that are in the mask; `value` is 0 outside of it.
  void store(std::uint64_t* word, std::uint64_t value, std::uint64_t mask = ~std::uint64_t{0});
  /// Of 1, 2 or 4 bytes, aligned to as many.
  template <class Part>
  void store_part(Part* part, Part value) {
    const auto place = reinterpret_cast<std::uintptr_t>(part);
    const unsigned shift = place % sizeof(std::uint64_t) * 8;
    store(reinterpret_cast<std::uint64_t*>(place - shift / 8), std::uint64_t{value} << shift,
          std::uint64_t{std::numeric_limits<Part>::max()} << shift);
  }

  OwnershipRecord& record_of(const void* place) const {
    return records_[reinterpret_cast<std::uintptr_t>(place) >> kStripeShift & record_mask_];
  }

 protected:
  template <class Word>
  static Word value_of(const Word* word) {
    return std::atomic_ref(*const_cast<Word*>(word)).load(std::memory_order_acquire);
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
  /// What is in memory under what the transaction stores over it.
  template <class Word>
  Word own_value(std::uint64_t record, const Word* part) const {
    const Word value = value_of(part);
    if (in_place_) return value;
    const auto place = reinterpret_cast<std::uintptr_t>(part);
    const unsigned shift = place % sizeof(std::uint64_t) * 8;
    const TransactionWrite* const own =
        own_write(record, reinterpret_cast<const std::uint64_t*>(place - shift / 8));
    if (own == nullptr) return value;
    return static_cast<Word>((value & ~(own->mask >> shift)) | own->value >> shift);
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
