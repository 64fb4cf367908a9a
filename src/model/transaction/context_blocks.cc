// What a transaction does with blocks: those that it allocates, those that it gives back when it
// commits, and objects that it destroys then.
#include <algorithm>
#include <cstring>
#include <utility>

#include "heap/members.hpp"
#include "heap/size_classes.hpp"
#include "model/transaction/transaction_context.hpp"

namespace perdura::detail {

using Why = TransactionAgain::Why;

namespace {

/// What the heap does for a thread meanwhile is a transaction's.
class ByTransaction {
 public:
  explicit ByTransaction(Mutator& mutator) : mutator_(mutator) { mutator_.by_transaction = true; }
  ~ByTransaction() { mutator_.by_transaction = false; }
  ByTransaction(const ByTransaction&) = delete;

 private:
  Mutator& mutator_;
};

}  // namespace

// What operations have given back is there for a transaction once a version has it. Where others
// took all of it again meanwhile, the transaction runs alone and gets room as an operation does,
// and a version takes the place of its record.
template <class Allocate>
Result<void*> TransactionContext::allocate_block(Allocate&& allocate) {
  heap::Heap& heap = globals_.runtime().heap();
  if (!alone || !heap.version_required()) {
    // Before and after: a version that ends meanwhile has it all, an operation that runs meanwhile
    // may have taken all.
    const bool had_unversioned = heap.has_unversioned();
    Result<void*> allocated = [&] {
      const ByTransaction by_transaction(*mutator);
      return allocate(heap);
    }();
    if (allocated || allocated.failure().code != Code::kNoSpace ||
        !(had_unversioned || heap.has_unversioned()))
      return allocated;
    if (!alone) throw TransactionAgain{this, Why::kNeedsVersion};
  }
  heap.release_kept(*mutator);
  Result<void*> allocated = allocate(heap);
  if (allocated) heap.require_version();
  return allocated;
}

template <class Allocate>
void* TransactionContext::add_fresh(u64 bytes, Allocate&& allocate) {
  check_use();
  changed_ = beyond_words_ = true;
  with_memory([&] {
    if (fresh_.size() == fresh_.capacity()) fresh_.reserve(2 * fresh_.size() + 8);
    if (fresh_places_.size() == fresh_places_.capacity())
      fresh_places_.reserve(2 * fresh_places_.size() + 8);
    make_room_for_freed();
  });
  void* const block = value_or_throw(allocate_block(allocate));
  const auto begin = reinterpret_cast<std::uintptr_t>(block);
  const u64 length = round_up(bytes, sizeof(u64));
  fresh_places_.insert(std::lower_bound(fresh_places_.begin(), fresh_places_.end(), begin),
                       {begin, begin + length, fresh_.size()});
  fresh_.push_back({static_cast<std::byte*>(block), length, false});
  return block;
}

void* TransactionContext::allocate(u64 size, u64 alignment) {
  return add_fresh(std::max<u64>(size, 1),
                   [&](heap::Heap& heap) { return heap.allocate(*mutator, size, alignment); });
}

void* TransactionContext::allocate(const perdura_type& type, u64 count) {
  if (!globals_.is_durable(type)) {
    if (irrevocable)
      throw Error(Code::kMisuse, "an irrevocable transaction makes the first object of " +
                                     heap::readable_name(type.name) +
                                     "; make one in a transaction before it");
    needed = &type;
    throw TransactionAgain{this, Why::kNeedsType};
  }
  return add_fresh(type.size * std::max<u64>(count, 1),
                   [&](heap::Heap& heap) { return heap.allocate_typed(*mutator, type, count); });
}

void* TransactionContext::allocate_array(const perdura_type& type, u64 bytes) {
  if (&type != durable_type_) {
    if (!globals_.is_durable(type)) {
      if (irrevocable) {
        void* const block = allocate(bytes, type.alignment);
        std::memset(block, 0, bytes);
        return block;
      }
      needed = &type;
      throw TransactionAgain{this, Why::kNeedsType};
    }
    durable_type_ = &type;
  }
  return add_fresh(
      bytes, [&](heap::Heap& heap) { return heap.allocate_array(*mutator, type, bytes, true); });
}

void TransactionContext::free_fresh(size_t from) {
  const ByTransaction by_transaction(*mutator);
  for (size_t i = from; i < fresh_.size(); ++i)
    value_or_throw(globals_.runtime().heap().deallocate(*mutator, fresh_[i].block));
  fresh_.resize(from);
  std::erase_if(fresh_places_, [&](const FreshPlace& place) { return place.index >= from; });
}

namespace {

Error given_back_twice() { return {Code::kMisuse, "a transaction gives a block back twice"}; }

/// Of a block, which begins at a multiple of its size.
u64 stripes_of(u64 bytes) { return ((bytes - 1) >> kStripeShift) + 1; }

}  // namespace

// From its commit on, who has read a pointer to it earlier finds that it is gone. Who gives it back
// as well finds that when it owns what the other one owned: only then it is known whether the block
// is still there.
void TransactionContext::give_back(void* block) {
  if (block == nullptr) return;
  check_use();
  changed_ = beyond_words_ = true;
  if (const size_t fresh = fresh_at(block);
      fresh != kNotFresh && fresh_[fresh].block == static_cast<std::byte*>(block)) {
    if (std::exchange(fresh_[fresh].given_back, true)) throw given_back_twice();
    return freed_.push_back(block);
  }
  const heap::Heap& heap = globals_.runtime().heap();
  auto usable = heap.usable(block);
  // Another transaction may have given it back since this one has read where it is.
  if (!usable && !validate()) throw TransactionAgain{this, Why::kMetOthers};
  const u64 bytes = value_or_throw(std::move(usable)).bytes;
  with_memory([&] { note_freed(block); });
  // A body that catches what is thrown here still has the block.
  try {
    own_block(block, bytes);
    value_or_throw(heap.usable(block));
  } catch (...) {
    forget_freed(freed_.size() - 1);
    throw;
  }
}

// By a destructor, of a block that is older than the transaction: it may meet others, and must not
// say so by an exception. What is destroyed while others run is as young as the transaction, so all
// of it is undone when the destructor has returned.
void TransactionContext::deallocate(void* block) {
  if (!destroying_ || block == nullptr || fresh_at(block) != kNotFresh) return give_back(block);
  if (!alone) wants_alone = true;
  else if (parts_ == 0) give_back_destroyed(block);
  else give_back(block);
}

// A destructor must not fail, and what it has destroyed cannot be kept: so where the system refuses
// memory, the block itself has the note of it. Nobody else runs and may have read a pointer to it,
// so that it is not owned then does no harm; who waits for a change of it has lost it anyhow.
void TransactionContext::give_back_destroyed(void* block) {
  check_use();
  changed_ = beyond_words_ = true;
  const u64 bytes = value_or_throw(globals_.runtime().heap().usable(block)).bytes;
  try {
    make_room_for_writes(stripes_of(bytes));
    note_freed(block);
  } catch (const std::bad_alloc&) {
    return link_freed(block);
  }
  own_block(block, bytes);
}

static_assert(heap::kClassInfo[0].block_bytes >= 2 * sizeof(u64), "LinkedFreed lies in any block");

namespace {

u64 mark_of(const void* block) {
  return reinterpret_cast<std::uintptr_t>(block) * 0x9e3779b97f4a7c15 ^ 0x6c696e6b65642e2e;
}

}  // namespace

void TransactionContext::link_freed(void* block) {
  if (old_freed_.contains(block) || is_linked(block)) throw given_back_twice();
  report(*mutator, block, sizeof(LinkedFreed));
  linked_freed_ = ::new (block) LinkedFreed{linked_freed_, mark_of(block)};
}

// What a block holds may look like a link by chance.
bool TransactionContext::is_linked(const void* block) const {
  if (linked_freed_ == nullptr) return false;
  if (static_cast<const LinkedFreed*>(block)->mark != mark_of(block)) return false;
  const LinkedFreed* each = linked_freed_;
  while (each != nullptr && each != block) each = each->before;
  return each != nullptr;
}

// That is not fresh.
void TransactionContext::note_freed(void* block) {
  if (is_linked(block)) throw given_back_twice();
  make_room_for_freed();
  if (!old_freed_.insert(block).second) throw given_back_twice();
  freed_.push_back(block);
}

void TransactionContext::own_block(void* block, u64 bytes) {
  auto* const begin = static_cast<std::byte*>(block);
  for (u64 i = 0; i < stripes_of(bytes); ++i) own(record_of(begin + (i << kStripeShift)), nullptr);
}

// For one more, and all that are fresh or are going to be with the next one.
void TransactionContext::make_room_for_freed() {
  const size_t wanted = freed_.size() + fresh_.size() + 2;
  if (freed_.capacity() < wanted) freed_.reserve(2 * wanted);
}

// Of an object that this transaction made, or destroys. The code of any other one stores to it
// behind the transaction's back.
void TransactionContext::deallocate_of_object(void* block) {
  if (block != nullptr && !destroying_ && fresh_at(block) == kNotFresh)
    throw Error(Code::kMisuse,
                "an object of '" + globals_.runtime().name() +
                    "' that a transaction has not made, such as a container, gives memory back in "
                    "its body, which could not be undone; destroy it with tx.destroy() and make "
                    "another one, or change it in an operation");
  deallocate(block);
}

// While others stand still, so that what is destroyed when the transaction commits is not destroyed
// for nothing: it meets nobody any more.
void TransactionContext::destroy_at_commit(void* object, void (*destructor)(void* object)) {
  check_use();
  beyond_words_ = true;
  if (fresh_at(object) == kNotFresh) run_alone();
  with_memory([&] { destroyed_.push_back({object, destructor}); });
  try {
    give_back(object);
  } catch (...) {
    destroyed_.pop_back();
    throw;
  }
}

// A destructor may have more objects destroyed, if the system has memory for the list.
void TransactionContext::run_destructors() {
  destroying_ = !destroyed_.empty();
  for (size_t i = 0; i < destroyed_.size(); ++i) {
    const Destroyed each = destroyed_[i];
    each.destructor(each.object);
    if (wants_alone) run_alone();
  }
}

void TransactionContext::forget_freed(size_t from) {
  for (; freed_.size() > from; freed_.pop_back()) {
    if (const size_t fresh = fresh_at(freed_.back()); fresh != kNotFresh)
      fresh_[fresh].given_back = false;
    else old_freed_.erase(freed_.back());
  }
}

// Before the records are released: who then owns them sees that the blocks are gone. An operation
// that gives one back in this very moment is wrong, and changes nothing: it is given back.
void TransactionContext::give_freed_back() {
  const ByTransaction by_transaction(*mutator);
  for (void* const block : freed_) (void)globals_.runtime().heap().deallocate(*mutator, block);
}

// While nobody else runs. First: what it stores may lie in these blocks, over their links.
void TransactionContext::give_linked_back() {
  const ByTransaction by_transaction(*mutator);
  while (linked_freed_ != nullptr) {
    LinkedFreed* const block = std::exchange(linked_freed_, linked_freed_->before);
    (void)globals_.runtime().heap().deallocate(*mutator, block);
  }
}

}  // namespace perdura::detail
