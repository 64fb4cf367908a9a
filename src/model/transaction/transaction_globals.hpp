// What the transactions of a store have in common: the clock, the records of ownership, and what is
// known to be durable. Each thread's context works on it; Transactions has it.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <set>

#include <perdura/detail/stm.hpp>
#include <perdura/transaction.hpp>

#include "base/mapping.hpp"
#include "format/transaction_format.hpp"
#include "log/record_stream.hpp"
#include "store/runtime.hpp"

namespace perdura::detail {

/// What the library needs memory for; a body's own want of it is the body's.
template <class Call>
auto with_memory(Call&& call) -> decltype(call()) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    throw Error(Code::kNoMemory, "out of memory");
  }
}

/// Thread-safe.
class TransactionGlobals {
 public:
  explicit TransactionGlobals(Runtime& runtime) : runtime_(runtime) {}
  /// Before the first transaction: there is a version with the state that their records need.
  Status begin();

  Runtime& runtime() const { return runtime_; }

  /// The time of the last commit.
  u64 now() const { return clock_.load(std::memory_order_acquire); }
  /// The time of a commit, later than all before it.
  u64 take_time() { return clock_.fetch_add(1, std::memory_order_acq_rel) + 1; }

  OwnershipRecord* records() const { return records_.as<OwnershipRecord>(); }
  u64 record_mask() const { return kRecords - 1; }

  Durability durability() const { return durability_.load(std::memory_order_relaxed); }
  void set_durability(Durability durability) { durability_ = durability; }
  Logging logging() const { return logging_.load(std::memory_order_relaxed); }
  void set_logging(Logging logging) { logging_ = logging; }

  /// Where the region says how far the records of a stream are in it.
  format::TransactionState::Slot& slot(u16 stream) { return state_->slots[stream]; }
  /// Block media: of all threads. nullptr: byte-addressable media, where they have their own.
  log::RecordStream* stream() { return stream_ ? &*stream_ : nullptr; }
  const log::RecordStream* stream() const { return stream_ ? &*stream_ : nullptr; }
  /// Of a stream's records between two versions, bytes.
  u64 log_share() const { return log_share_.load(std::memory_order_relaxed); }
  void set_log_share(u64 bytes) { log_share_ = bytes; }

  /// A version has what was committed until then.
  u64 in_version() const { return in_version_.load(); }
  /// There is one epoch at a time that is settled.
  void note_in_version(u64 time) noexcept {
    if (in_version_.load(std::memory_order_relaxed) < time)
      in_version_.store(time, std::memory_order_release);
  }
  /// Whether versions know a type, so that a record can say its number.
  bool is_durable(const perdura_type& type);
  /// Throws.
  void note_durable(const perdura_type& type);

 private:
  static constexpr u64 kRecords = u64{1} << 18;

  Runtime& runtime_;
  Mapping records_;
  alignas(64) std::atomic<u64> clock_{0};
  alignas(64) std::atomic<Durability> durability_{Durability::kNonTemporal};
  std::atomic<Logging> logging_{Logging::kRedo};
  format::TransactionState* state_ = nullptr;
  std::optional<log::RecordStream> stream_;
  std::atomic<u64> in_version_{0};
  std::atomic<u64> log_share_{0};
  std::mutex types_mutex_;
  std::set<const perdura_type*> types_;
};

}  // namespace perdura::detail
