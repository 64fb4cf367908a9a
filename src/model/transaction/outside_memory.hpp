// Memory outside of stores, in transactions that the compiler writes (itm.hpp): globals, the heap,
// the stack. Isolated and undone like a store's, and never logged, since no crash leaves it.
//
// One table of records of ownership and one clock for the process, since such memory is no store's.
// Stores are made in place, and what was there is kept until the transaction ends: code that the
// compiler did not instrument finds its own stores.
//
// A transaction that reads here and in a store sees both as of one moment: when either snapshot is
// extended, all that was read is checked (`durable`). Invariants:
//   - nothing is joined before its first access, and what has joined leaves before its thread waits
//     for others;
//   - a commit that stored here returns when no transaction is left that began before it, so what
//     it took out of a shared structure is its thread's alone.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include <perdura/detail/stm.hpp>

#include "base/bits.hpp"

namespace perdura::detail {
class TransactionContext;
}

namespace perdura::detail::itm {

/// Of a thread. Is never destroyed once it is added: others look here.
class OutsideMemory {
 public:
  /// Whose a place is: a function's that the transaction has called, or anybody's.
  enum class Of { kFrame, kAny };

  OutsideMemory() = default;
  OutsideMemory(const OutsideMemory&) = delete;
  /// From now on others wait for it.
  void add();
  void begin() { commit_time_ = 0; }

  // --- false: the transaction is to begin again
  [[nodiscard]] bool read(void* to, const void* from, size_t length);
  [[nodiscard]] bool write(void* to, const void* from, size_t length);
  /// Before a commit: all that was read is as it was.
  [[nodiscard]] bool prepare();
  [[nodiscard]] bool validate() const;

  /// Of a place that no other thread uses.
  void note(const void* place, size_t length, Of of);
  bool has_written() const { return !owned_.empty(); }
  size_t undo_length() const { return undo_.size(); }
  /// Back to when undo_length() was that. Frames that lie below an address are gone: nothing is put
  /// back there, where those of who undoes it may be.
  void undo(size_t length, std::uintptr_t frames_end);

  /// After the commit of all; or after undo(0).
  void release();
  /// It has ended.
  void leave();
  /// After leave(): until no transaction is left that may still use what this one took away.
  void await_others();

  /// Instead of beginning beside others: until leave() nobody else uses this memory.
  void stop_others();
  /// Where one runs so: until it has ended.
  static void await_stopped();

  /// The transaction of a store that it is part of.
  void set_durable(const TransactionContext* durable) { durable_ = durable; }
  u32 number() const { return number_; }
  /// In a forked child, where there is no other thread.
  static void forget_others(OutsideMemory* own);

 private:
  struct Owned {
    OwnershipRecord* record;
    u64 version;  ///< before
  };
  struct Undo {
    void* place;
    size_t length;
    size_t at;  ///< in bytes_
    Of of;
  };
  bool join();
  bool extend();
  /// What was read in the store.
  bool validate_durable() const;
  [[nodiscard]] bool read_piece(std::byte* to, const std::byte* from, size_t length);
  [[nodiscard]] bool own(OwnershipRecord& record);
  bool is_own(u64 record) const { return record >> kNumberShift == number_; }
  u64 version_of_own(u64 record) const;

  /// Of a record: kOwned, the index among what its thread owns, the thread's number. For that there
  /// are 23 bits, and Linux has no more than 2^22 threads at once; those that end give theirs back.
  static constexpr unsigned kNumberShift = 41;

  std::vector<TransactionRead> reads_;
  std::vector<Owned> owned_;
  std::vector<Undo> undo_;
  std::vector<std::byte> bytes_;
  const TransactionContext* durable_ = nullptr;
  u64 snapshot_ = 0;
  u64 commit_time_ = 0;
  u32 number_ = 0;
  bool joined_ = false;
  bool alone_ = false;
  OutsideMemory* next_ = nullptr;  ///< of those of all threads
  /// 1 more than its snapshot; 0: it uses nothing of this memory.
  alignas(64) std::atomic<u64> active_{0};
};

}  // namespace perdura::detail::itm
