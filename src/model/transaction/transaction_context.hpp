// The transactions of a thread on one store: what one has read, is about to store, has allocated
// and gives back, from its beginning until it has committed or is undone.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_set>
#include <vector>

#include <perdura/transaction.hpp>

#include "log/record.hpp"
#include "model/transaction/transaction_globals.hpp"
#include "store/transaction_blocks.hpp"

namespace perdura::detail {

/// A stream of records with a part of the log's limit. On byte-addressable media each thread has
/// one, or shares one where the limit allows fewer segments than there are threads; on block media
/// all share one, whose writer is TransactionGlobals::stream(). In lines of its own, since each
/// commit stores to it.
class alignas(2 * kLineBytes) RecordStream {
 public:
  explicit RecordStream(u16 slot) : slot(slot) {}

  /// The order of records is that of their times, so these are taken with the lock. A thread that
  /// is alone needs none.
  std::unique_lock<std::mutex> lock() {
    std::unique_lock lock(mutex_, std::defer_lock);
    if (is_shared_.load(std::memory_order_relaxed)) lock.lock();
    return lock;
  }
  bool is_shared() const { return is_shared_.load(std::memory_order_relaxed); }
  /// While the store's mutators stand still: from now on several threads commit by it.
  void share() { is_shared_.store(true, std::memory_order_relaxed); }

  /// With the lock.
  void add_logged(u64 bytes) { logged_.store(logged() + bytes, std::memory_order_relaxed); }
  /// Bytes, since a thread of it had part in making a version.
  u64 logged() const { return logged_.load(std::memory_order_relaxed); }
  u64 take_logged() { return logged_.exchange(0, std::memory_order_relaxed); }
  void give_back_logged(u64 bytes) { logged_.fetch_add(bytes, std::memory_order_relaxed); }

  const u16 slot;                           ///< of the state, and its records' name
  std::optional<log::RecordWriter> writer;  ///< byte-addressable media

 private:
  std::mutex mutex_;
  std::atomic<bool> is_shared_{false};
  std::atomic<u64> logged_{0};
};

/// A thread's transactions on one store.
class TransactionContext final : public TransactionThread, public store::TransactionBlocks {
 public:
  explicit TransactionContext(TransactionGlobals& globals);

  // --- for Transactions
  /// Instead of an operation: all operations have ended, and none begins before let_others_go_on().
  void stop_others();
  void let_others_go_on();
  void begin();
  Status commit();
  /// Or allocated or given back: it is to have a part in the log.
  bool has_changed() const { return changed_; }
  /// In a child that was forked in its body, and does not have the store's memory: there is nothing
  /// to undo, and commit() looks whose store it is.
  void leave_to_parent() {
    forget();
    changed_ = beyond_words_ = true;
  }
  u64 waits_for() const { return waits_for_; }
  /// All that it has read is as it was at this time, in the store's order of commits.
  u64 snapshot() const { return snapshot_; }
  /// Whether all of that is so still.
  bool validate() const;
  /// It is used no more, unless it begins again.
  void end() {
    set_in_body(false);
    // A load without room for it takes the slow path, which says that it has ended.
    reads_limit_ = reads_end_;
  }
  /// Undo; what others wait for is theirs.
  void roll_back();
  Transaction& running() noexcept override { return transaction; }
  void abandon() noexcept override;
  /// Until something that it read changes, after roll_back.
  void wait_for_change() const;
  bool in_body = false;
  bool alone = false;
  bool wants_alone = false;  ///< where it begins again
  bool irrevocable = false;
  /// It has committed without a record: the next version makes it durable.
  bool needs_version = false;
  /// It is not durable yet: it needs a version, or waits.
  bool unfinished = false;
  /// Before its next one it needs a stream, or relief of its stream.
  bool needs_stream = true;
  Mutator* mutator = nullptr;
  TransactionContext* outer = nullptr;   ///< of another store, whose body this one's is inside
  const perdura_type* needed = nullptr;  ///< by the attempt that has ended
  Transaction transaction{*this};
  u64 last_commit() const { return last_commit_; }
  /// Where its records go; nullptr: it had none yet.
  RecordStream* stream() const { return stream_; }
  void set_stream(RecordStream& stream) { stream_ = &stream; }

  // --- for TransactionThread: what its loads and stores do not do in line
  /// A record that another transaction owns: until that has changed, or this one begins again.
  void wait_for_owner(const OwnershipRecord& record, u64 owned) const;
  /// The snapshot is as of now, or this one begins again.
  void extend_snapshot();
  void make_room_for_read();
  void store_word(u64* word, u64 value, u64 mask);

  // --- for Transaction
  void* allocate(u64 size, u64 alignment) override;
  void* allocate(const perdura_type& type, u64 count) override;
  void* allocate_array(const perdura_type& type, u64 bytes) override;
  /// A part begins, which ends with the one or the other of these.
  TransactionSavepoint save();
  void keep(const TransactionSavepoint& savepoint);
  void undo(const TransactionSavepoint& savepoint);
  void deallocate(void* block) override;
  void deallocate_of_object(void* block) override;
  void load_bytes(const void* from, void* to, size_t length);
  /// The system refuses memory for all of it, or for none.
  void store_bytes(void* to, const void* from, size_t length);
  void destroy_at_commit(void* object, void (*destructor)(void* object));
  [[noreturn]] void retry();
  void be_irrevocable();

 private:
  void set_in_body(bool is_in);
  struct Fresh {
    std::byte* block;
    u64 bytes;  ///< asked for
    bool given_back;
  };
  struct Destroyed {
    void* object;
    void (*destructor)(void* object);
  };
  /// In a block that a destructor gives back where there is no memory to note it.
  struct LinkedFreed {
    LinkedFreed* before;
    u64 mark;  ///< most others have another word there
  };
  struct FreshPlace {
    std::uintptr_t begin;
    std::uintptr_t end;
    size_t index;
    bool operator<(std::uintptr_t place) const { return end <= place; }
  };
  /// What a part of the transaction stored over: of a word that is written, or in a fresh block.
  struct Overwritten {
    TransactionWrite* write;  ///< or nullptr
    u64* word;
    u64 value;
    u64 mask;    ///< of the write
    u64 stored;  ///< the bytes that were stored over
  };
  static constexpr size_t kWritesInBlock = 64;
  using WriteBlock = std::array<TransactionWrite, kWritesInBlock>;

  /// In its body, and in its thread.
  void check_use() const;
  [[noreturn]] void refuse_use() const;
  /// Which of the blocks that this transaction allocated holds a place; kNotFresh: none.
  static constexpr size_t kNotFresh = ~size_t{0};
  size_t fresh_at(const void* place) const;
  void store_fresh(size_t index, u64* word, u64 value, u64 mask);
  /// In a part, for the next stores.
  void make_room_in_part(size_t count = 1);
  u64 value_in(const TransactionWrite& write) const;
  void change(TransactionWrite& write, u64 value, u64 mask) const;
  void put_back(const Overwritten& each) const;
  void drop(TransactionWrite& write) const;
  void add_read(OwnershipRecord& record, u64 version);
  static bool leads(const TransactionWrite& write);
  void put(u64* word, u64 value, u64 mask) const;
  /// Nothing that it meets from here on may keep it from committing.
  bool has_to_commit() const { return alone && (irrevocable || destroying_); }
  Result<u64> make_record(Durability durability);
  Status reserve_version() const;
  Result<u64> append_record(bool wait);
  Result<u64> write_record(log::RecordWriter::Steps steps);
  u64 take_time();
  void wait_for(u64 position);
  void add_logged();
  void note(format::TransactionState::Slot& slot, u64 time);
  void note_time(u64 time);
  void finish(u64 time);
  void give_freed_back();
  void release(u64 time);
  void forget();
  Status add_entries();
  template <class Allocate>
  Result<void*> allocate_block(Allocate&& allocate);
  bool relies_on_operations() const;
  Status commit_surely(Durability durability);
  Status commit_reads(Durability durability);
  Status commit_without_record();
  void rely_on_version();
  bool relies_on_operations(const u64* words, u64 count) const;
  u64 newest_read() const;
  TransactionWrite* own(OwnershipRecord& record, u64* word);
  TransactionWrite& add_write(u64* word, OwnershipRecord& record, u64 version);
  void make_room_for_writes(size_t count);
  void make_room_for_bytes(u64 count);
  TransactionWrite& write_at(size_t i) const {
    return (*writes_[i / kWritesInBlock])[i % kWritesInBlock];
  }
  template <class Allocate>
  void* add_fresh(u64 bytes, Allocate&& allocate);
  void free_fresh(size_t from);
  void make_room_for_freed();
  void give_back(void* block);
  void give_back_destroyed(void* block);
  void link_freed(void* block);
  bool is_linked(const void* block) const;
  void give_linked_back();
  void put_values() const;
  /// Of those that are given back.
  template <class Visit>
  void for_each_freed(Visit&& visit) const {
    for (const void* const block : freed_) visit(block);
    for (const LinkedFreed* each = linked_freed_; each != nullptr; each = each->before) visit(each);
  }
  void note_freed(void* block);
  void own_block(void* block, u64 bytes);
  void run_destructors();
  void run_alone();
  void forget_freed(size_t from);

  TransactionGlobals& globals_;
  std::unique_ptr<TransactionRead[]> reads_;
  TransactionRead* reads_space_end_;
  std::vector<std::unique_ptr<WriteBlock>> writes_;
  size_t write_count_ = 0;
  std::vector<Fresh> fresh_;
  std::vector<FreshPlace> fresh_places_;  ///< the same, by address
  std::vector<Overwritten> overwritten_;  ///< by the parts that have begun
  size_t parts_ = 0;
  size_t direct_from_ = 0;  ///< the fresh ones that the innermost part made
  /// With room for the fresh ones: what gives these back cannot fail.
  std::vector<void*> freed_;
  std::unordered_set<const void*> old_freed_;  ///< those of them that are not fresh
  LinkedFreed* linked_freed_ = nullptr;        ///< the last of more that are not fresh
  std::vector<Destroyed> destroyed_;           ///< when it commits
  bool destroying_ = false;                    ///< has begun
  log::RecordBuilder record_;
  RecordStream* stream_ = nullptr;
  bool changed_ = false;
  const perdura_type* durable_type_ = nullptr;  ///< the one that was asked about last
  /// It has allocated, given back or destroyed something, has had parts, or is irrevocable.
  bool beyond_words_ = false;
  u64 last_commit_ = 0;
  u64 waits_for_ = 0;  ///< in the stream
};

/// Each thread's transactions have one.
inline TransactionContext& context_of(TransactionThread& thread) {
  return static_cast<TransactionContext&>(thread);
}

// --- what each transaction does ------------------------------------------------------------------

inline void TransactionContext::check_use() const {
  if (!in_body || &globals_.runtime().mutators().this_thread() != mutator) [[unlikely]]
    refuse_use();
}

inline void TransactionContext::begin() {
  snapshot_ = globals_.now();
  reads_end_ = reads_begin_;
  reads_limit_ = reads_space_end_;
  in_place_ = globals_.logging() == Logging::kUndo;
  set_in_body(true);
}

// By the thread that runs it, whose count it is. It may end more than once, when it is over
// already.
inline void TransactionContext::set_in_body(bool is_in) {
  if (in_body != is_in) running_transactions += is_in ? 1u : ~0u;
  in_body = mutator->in_transaction = is_in;
}

}  // namespace perdura::detail
