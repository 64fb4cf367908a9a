// The blocks of a transaction, for those parts of the library that allocate and do not know it.
#pragma once

#include <perdura/detail/mutator.hpp>
#include <perdura/type.hpp>

#include "base/bits.hpp"

namespace perdura {
class Transaction;
}

namespace perdura::store {

/// Of a thread that is in a transaction's body (Mutator::in_transaction): all that it allocates
/// from the store and gives back to it is part of the transaction. Throws.
class TransactionBlocks {
 public:
  virtual void* allocate(u64 size, u64 alignment) = 0;
  virtual void* allocate(const perdura_type& type, u64 count) = 0;
  /// Zeroed, as many objects as have room in `bytes` bytes. Without their type where the
  /// transaction cannot begin again and no version knows it yet.
  virtual void* allocate_array(const perdura_type& type, u64 bytes) = 0;
  virtual void deallocate(void* block) = 0;
  /// By an object that has the block for its own, when it grows or ends.
  virtual void deallocate_of_object(void* block) = 0;
  virtual Transaction& running() noexcept = 0;
  /// The thread ends in the body: undo it. The operation that it is goes on.
  virtual void abandon() noexcept = 0;

 protected:
  ~TransactionBlocks() = default;
};

inline TransactionBlocks& blocks_of(detail::Mutator& mutator) {
  return *static_cast<TransactionBlocks*>(mutator.transactions);
}

}  // namespace perdura::store
