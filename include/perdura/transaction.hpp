// Durable transactions (OpF-STM): a step that happens as a whole, alone, and survives a crash.
//
//   perdura::atomically(store, [&](perdura::Transaction& tx) {
//     Node* node = tx.make<Node>();
//     tx.write(node->next, tx.read(list.head));
//     tx.write(list.head, node);
//   });
//
// Between transactions of a store each sees the others' steps whole or not at all. When atomically
// returns, the step is durable, as Durability says.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include <perdura/detail/stm.hpp>
#include <perdura/field.hpp>
#include <perdura/store.hpp>

namespace perdura {

namespace detail {
class TransactionContext;
}

/// How a transaction becomes durable before atomically returns (docs/transactions.md). What flushes
/// is the instruction that the medium was opened with: `emu:PATH?flush=clflush` is the paper's.
enum class Durability {
  kNonTemporal,  ///< a record, written past the caches, and one fence (NTP, §4.3)
  /// Soon, in the order of commits: durable_commit says how far. What is not written by
  /// instructions, a disk, is not waited for; on other media it is kNonTemporal.
  kRelaxed,
  kLazyBulk,  ///< a record, flushed; then the mark that makes it count, flushed (LBP, §4.2)
  kPerWrite,  ///< each word of the record flushed by itself (the paper's baseline, Figure 3)
  kNone,      ///< with the store's next checkpoint (NP)
};

/// What is kept of a transaction's stores until it ends (§3.1). Its record is the same.
enum class Logging {
  kRedo,  ///< what is new: memory changes when it commits
  kUndo,  ///< what was there: memory changes at once, and is put back if it fails
};

class Transaction {
 public:
  Transaction(const Transaction&) = delete;

  /// What a field holds in this transaction. Trivially copyable types, of any size: no byte beside
  /// the field is stored to.
  template <class T>
  T read(const T& field) {
    static_assert(std::is_trivially_copyable_v<T>);
    if constexpr (!std::is_void_v<WordOf<T>>) {
      return std::bit_cast<T>(thread_.load(reinterpret_cast<const WordOf<T>*>(&field)));
    } else {
      T value;
      load_bytes(&field, &value, sizeof value);
      return value;
    }
  }
  /// Holds it from here on in this transaction, and for others when it has ended.
  template <class T>
  void write(T& field, const std::type_identity_t<T>& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    using Word = WordOf<T>;
    if constexpr (std::is_same_v<Word, std::uint64_t>) {
      thread_.store(reinterpret_cast<Word*>(&field), std::bit_cast<Word>(value));
    } else if constexpr (!std::is_void_v<Word>) {
      thread_.store_part(reinterpret_cast<Word*>(&field), std::bit_cast<Word>(value));
    } else {
      store_bytes(&field, &value, sizeof value);
    }
  }

  /// The same of fields that report their stores: here they need not.
  template <class T>
  T read(const Field<T>& field) {
    return read(field.get());
  }
  template <class T>
  void write(Field<T>& field, const std::type_identity_t<T>& value) {
    write(const_cast<T&>(field.get()), value);
  }

  /// A block of the store. It is there when the transaction ends, and never was if it fails. Until
  /// then it may be stored to without write().
  void* allocate(std::size_t size, std::size_t alignment = 16);
  /// Zeroed space for `count` objects of a type with a record.
  void* allocate(const perdura_type& type, std::size_t count = 1);
  /// It is gone when the transaction ends.
  void deallocate(void* block);
  /// A new object, which is typed if T has a record, by PERDURA_TYPE or by its members: of each
  /// type the first one takes a checkpoint. What its constructor allocates from the store, such as
  /// a container's elements, is part of the transaction as well, and so it is where the body
  /// changes the new object afterwards.
  template <class T, class... Args>
  T* make(Args&&... args) {
    perdura::detail::require_durable<T>();
    void* block;
    if constexpr (detail::HasOwnParts<T>) block = allocate_array(detail::record_of<T>(), sizeof(T));
    else if constexpr (detail::Recorded<T>) block = allocate(detail::record_of<T>());
    else block = allocate(sizeof(T), alignof(T));
    try {
      return ::new (block) T{std::forward<Args>(args)...};
    } catch (...) {
      deallocate(block);
      throw;
    }
  }
  /// It is destroyed, and gone with all that its destructor gives back, when the transaction ends;
  /// until then it may be read. A transaction that destroys an object with a destructor of its own
  /// runs alone: the body may begin again here.
  template <class T>
  void destroy(T* object) {
    if (object == nullptr) return;
    if constexpr (std::is_trivially_destructible_v<T>) deallocate(object);
    else destroy_at_commit(object, [](void* each) { static_cast<T*>(each)->~T(); });
  }

  /// Undo the transaction, and begin it again when something that it has read is changed by another
  /// one: what it needs is not there yet.
  [[noreturn]] void retry();
  /// From here on it is not begun again, so that it may do what cannot be undone: it runs alone.
  /// Call it first: the body may begin again here. After it retry() is misuse, and so is the first
  /// object of a type; what the body throws undoes its stores, and nothing else. Until it ends no
  /// other operation of the store begins, so it must not wait for one.
  void irrevocable();
  /// What `first(transaction)` does; where that retries, it is undone, and done is what
  /// `second(transaction)` does. What `first` throws undoes it as well, and is thrown.
  template <class First, class Second>
  void or_else(First&& first, Second&& second) {
    const detail::TransactionSavepoint savepoint = save();
    try {
      first(*this);
      return keep(savepoint);
    } catch (const detail::TransactionAgain& again) {
      undo(savepoint);
      if (again.thread != &thread_ || again.why != detail::TransactionAgain::Why::kWaits) throw;
    } catch (...) {
      undo(savepoint);
      throw;
    }
    second(*this);
  }

 private:
  friend class detail::TransactionContext;
  /// What a field is loaded and stored as at once; void: in several pieces.
  template <class T>
  static constexpr auto word_of() {
    constexpr std::size_t kBytes = sizeof(T);  // NOLINT(bugprone-sizeof-expression): of a pointer
    if constexpr (alignof(T) < kBytes) return;
    else if constexpr (kBytes == 8) return std::uint64_t{};
    else if constexpr (kBytes == 4) return std::uint32_t{};
    else if constexpr (kBytes == 2) return std::uint16_t{};
    else if constexpr (kBytes == 1) return std::uint8_t{};
  }
  template <class T>
  using WordOf = decltype(word_of<T>());
  detail::TransactionSavepoint save();
  void keep(const detail::TransactionSavepoint& savepoint);
  void undo(const detail::TransactionSavepoint& savepoint);
  explicit Transaction(detail::TransactionThread& thread) : thread_(thread) {}
  void* allocate_array(const perdura_type& type, std::size_t bytes);
  void destroy_at_commit(void* object, void (*destructor)(void* object));
  void load_bytes(const void* from, void* to, std::size_t length);
  void store_bytes(void* to, const void* from, std::size_t length);

  detail::TransactionThread& thread_;
};

namespace detail {
struct TransactionBody {
  void (*run)(void* context, Transaction& transaction);
  /// Of a run that is undone after it has returned, while its blocks are there; nullptr: no value.
  void (*drop_value)(void* context);
};
void run_transaction(Store& store, TransactionBody body, void* context);
}  // namespace detail

/// Runs `body(transaction)`, again where it met others, until it ends. What it throws undoes the
/// transaction and is thrown. Inside a transaction of the same store it is part of that, and what
/// it throws undoes that part. Inside one of another store it is by itself: it is durable when it
/// returns, and happens again where the other one is begun again. Must not be called inside an
/// operation. Returns what body returns in the run that commits; what it throws outlives the blocks
/// that the body has allocated, so it must not hold one.
template <class Body>
auto atomically(Store& store, Body&& body) {
  using Value = std::invoke_result_t<Body&, Transaction&>;
  if constexpr (std::is_void_v<Value>) {
    detail::run_transaction(store,
                            {[](void* context, Transaction& tx) {
                               (*static_cast<std::remove_reference_t<Body>*>(context))(tx);
                             },
                             nullptr},
                            const_cast<void*>(static_cast<const void*>(std::addressof(body))));
  } else {
    struct Call {
      std::remove_reference_t<Body>& body;
      std::optional<Value> value;
    } call{body, {}};
    detail::run_transaction(store,
                            {[](void* context, Transaction& tx) {
                               auto& mine = *static_cast<Call*>(context);
                               mine.value.emplace(mine.body(tx));
                             },
                             [](void* context) { static_cast<Call*>(context)->value.reset(); }},
                            &call);
    return *std::move(call.value);
  }
}

/// How the transactions of a store that follow become durable. Takes a checkpoint; while none runs.
void set_durability(Store& store, Durability durability);
/// What they keep; while none runs.
void set_logging(Store& store, Logging logging);

/// The number of this thread's last transaction that changed something; 0: none did, or that of a
/// thread that has ended since. Numbers of a store grow in the order of its commits.
std::uint64_t last_commit(Store& store);
/// All commits up to this number that have returned are durable. With kNone that is what versions
/// hold.
std::uint64_t durable_commit(Store& store);
/// Until it is. With kNone it takes a checkpoint. kInvalidArgument for a number that is none yet.
void wait_for_commit(Store& store, std::uint64_t commit);

}  // namespace perdura
