// A thread's transactions: loads, stores, and parts that are undone by themselves.
#include <algorithm>
#include <cstring>

#include "model/transaction/pieces.hpp"
#include "model/transaction/transaction_context.hpp"

namespace perdura::detail {
namespace {

using Why = TransactionAgain::Why;

constexpr int kSpins = 64;  ///< for a record that another transaction owns

}  // namespace

// --- loads and stores ----------------------------------------------------------------------------

void TransactionContext::wait_for_owner(const OwnershipRecord& record, u64 owned) const {
  check_use();
  for (int i = 0; i < kSpins; ++i) {
    if (record.load(std::memory_order_relaxed) != owned) return;
    __builtin_ia32_pause();
  }
  throw TransactionAgain{this, Why::kMetOthers};
}

void TransactionContext::extend_snapshot() {
  check_use();
  const u64 now = globals_.now();
  if (!validate()) throw TransactionAgain{this, Why::kMetOthers};
  snapshot_ = now;
}

void TransactionContext::make_room_for_read() {
  check_use();
  const auto count = static_cast<size_t>(reads_end_ - reads_begin_);
  auto larger = with_memory([&] { return std::make_unique<TransactionRead[]>(2 * count); });
  std::copy(reads_begin_, reads_end_, larger.get());
  reads_ = std::move(larger);
  reads_begin_ = reads_.get();
  reads_end_ = reads_begin_ + count;
  reads_limit_ = reads_space_end_ = reads_begin_ + 2 * count;
}

[[gnu::always_inline]] inline void TransactionContext::store_word(u64* word, u64 value, u64 mask) {
  check_use();
  if (beyond_words_) [[unlikely]]
    if (const size_t fresh = fresh_at(word); fresh != kNotFresh)
      return store_fresh(fresh, word, value, mask);
  if (!globals_.runtime().region().contains(word))
    throw Error(Code::kMisuse, "a transaction stores to what is not in '" +
                                   globals_.runtime().name() +
                                   "'; such memory is the program's, and is not undone");
  const bool in_part = parts_ != 0;
  if (in_part) [[unlikely]]
    make_room_in_part();
  TransactionWrite& write = *own(record_of(word), word);
  if (in_part) [[unlikely]]
    overwritten_.push_back({&write, word, value_in(write), write.mask, mask});
  change(write, value, mask);
}

void TransactionThread::wait_or_restart(OwnershipRecord& record, std::uint64_t owned) {
  context_of(*this).wait_for_owner(record, owned);
}

void TransactionThread::extend() { context_of(*this).extend_snapshot(); }

void TransactionThread::grow_reads() { context_of(*this).make_room_for_read(); }

void TransactionThread::store(std::uint64_t* word, std::uint64_t value, std::uint64_t mask) {
  context_of(*this).store_word(word, value, mask);
}

void TransactionContext::refuse_use() const {
  throw Error(Code::kMisuse,
              in_body ? "a transaction is used in another thread; each thread has transactions of "
                        "its own"
                      : "a transaction is used after it has ended; use it in its body alone");
}

u64 TransactionContext::value_in(const TransactionWrite& write) const {
  return in_place_ ? value_of(write.word) : write.value;
}

void TransactionContext::change(TransactionWrite& write, u64 value, u64 mask) const {
  if (in_place_) {
    write.value |= value_of(write.word) & mask & ~write.mask;
    put(write.word, value, mask);
  } else {
    write.value = (write.value & ~mask) | value;
  }
  write.mask |= mask;
}

namespace {

constexpr u64 kAll = ~u64{0};

[[gnu::noinline]] void store_fields(u64* word, u64 value, u64 mask) {
  const auto store_at = [&]<class Part>(unsigned at, Part part) {
    auto* const place = reinterpret_cast<Part*>(reinterpret_cast<std::byte*>(word) + at);
    std::atomic_ref(*place).store(part, std::memory_order_release);
    return static_cast<unsigned>(sizeof part);
  };
  for (unsigned at = 0; at < sizeof *word;) {
    const u64 left = mask >> 8 * at;
    const u64 bytes = value >> 8 * at;
    if (at % 4 == 0 && static_cast<u32>(left) == static_cast<u32>(kAll))
      at += store_at(at, static_cast<u32>(bytes));
    else if (at % 2 == 0 && static_cast<u16>(left) == static_cast<u16>(kAll))
      at += store_at(at, static_cast<u16>(bytes));
    else if (static_cast<u8>(left) != 0) at += store_at(at, static_cast<u8>(bytes));
    else ++at;
  }
}

/// With one store for each field that lies in the mask, so that nobody sees half of one, and none
/// to what lies beside it.
inline void store_masked(u64* word, u64 value, u64 mask) {
  if (mask == kAll) [[likely]]
    std::atomic_ref(*word).store(value, std::memory_order_release);
  else store_fields(word, value, mask);
}

}  // namespace

// Whoever sees the value sees that its record is owned, or has been released since.
void TransactionContext::put(u64* word, u64 value, u64 mask) const {
  report(*mutator, word, sizeof *word);
  store_masked(word, value, mask);
}

// The transaction's write of a word, or of none. Its record is owned from here on.
TransactionWrite* TransactionContext::own(OwnershipRecord& record, u64* word) {
  for (;;) {
    u64 before = record.load(std::memory_order_acquire);
    if ((before & kOwned) != 0) {
      if (!is_own(before)) {
        wait_for_owner(record, before);
        continue;
      }
      if (word == nullptr) return write_of(before);
      if (TransactionWrite* const own = own_write(before, word)) return own;
      TransactionWrite& first = *write_of(before);
      TransactionWrite& added = add_write(word, record, first.version);
      added.next = first.next;
      return first.next = &added;
    }
    if (before >> 1 > snapshot_) {
      extend_snapshot();
      continue;
    }
    TransactionWrite& added = add_write(word, record, before);
    if (record.compare_exchange_strong(before, reinterpret_cast<std::uintptr_t>(&added) | kOwned,
                                       std::memory_order_acq_rel))
      return &added;
    --write_count_;
  }
}

// Others look whose a write is while it is made anew: that never changes.
TransactionWrite& TransactionContext::add_write(u64* word, OwnershipRecord& record, u64 version) {
  changed_ = true;
  if (write_count_ == writes_.size() * kWritesInBlock)
    with_memory([&] { make_room_for_writes(1); });
  TransactionWrite& added = write_at(write_count_++);
  added.word = word;
  added.value = added.mask = 0;
  added.record = &record;
  added.version = version;
  added.next = nullptr;
  return added;
}

void TransactionContext::make_room_for_writes(size_t count) {
  while (writes_.size() * kWritesInBlock < write_count_ + count) {
    writes_.push_back(std::make_unique<WriteBlock>());
    for (TransactionWrite& each : *writes_.back()) each.owner = this;
  }
}

void TransactionContext::make_room_for_bytes(u64 count) {
  check_use();
  // At either end up to three pieces smaller than a word.
  const size_t pieces = count / sizeof(u64) + 6;
  with_memory([&] { make_room_for_writes(pieces); });
  if (parts_ != 0) make_room_in_part(pieces);
}

void TransactionContext::load_bytes(const void* from, void* to, size_t length) {
  for_each_piece(reinterpret_cast<std::uintptr_t>(from), length,
                 [&]<class Piece>(Piece piece, std::uintptr_t at, size_t done) {
                   piece = load(reinterpret_cast<const Piece*>(at));
                   std::memcpy(static_cast<std::byte*>(to) + done, &piece, sizeof piece);
                 });
}

void TransactionContext::store_bytes(void* to, const void* from, size_t length) {
  make_room_for_bytes(length);
  for_each_piece(reinterpret_cast<std::uintptr_t>(to), length,
                 [&]<class Piece>(Piece piece, std::uintptr_t at, size_t done) {
                   std::memcpy(&piece, static_cast<const std::byte*>(from) + done, sizeof piece);
                   if constexpr (sizeof piece == 8) store(reinterpret_cast<Piece*>(at), piece);
                   else store_part(reinterpret_cast<Piece*>(at), piece);
                 });
}

size_t TransactionContext::fresh_at(const void* place) const {
  const auto address = reinterpret_cast<std::uintptr_t>(place);
  const auto found = std::lower_bound(fresh_places_.begin(), fresh_places_.end(), address);
  return found != fresh_places_.end() && found->begin <= address ? found->index : kNotFresh;
}

// Nobody else sees it. What was there matters to a part that began after the block was made.
void TransactionContext::store_fresh(size_t index, u64* word, u64 value, u64 mask) {
  if (index < direct_from_) {
    make_room_in_part();
    overwritten_.push_back({nullptr, word, *word, 0, mask});
  }
  store_masked(word, value, mask);
}

// --- parts ---------------------------------------------------------------------------------------

// Before anything is changed: without memory nothing is.
void TransactionContext::make_room_in_part(size_t count) {
  const size_t wanted = overwritten_.size() + count;
  if (wanted <= overwritten_.capacity()) return;
  with_memory([&] { overwritten_.reserve(2 * wanted + 16); });
}

TransactionSavepoint TransactionContext::save() {
  check_use();
  const TransactionSavepoint savepoint{write_count_,  overwritten_.size(), fresh_.size(),
                                       freed_.size(), destroyed_.size(),   direct_from_};
  direct_from_ = fresh_.size();
  ++parts_;
  beyond_words_ = true;
  return savepoint;
}

void TransactionContext::keep(const TransactionSavepoint& savepoint) {
  direct_from_ = savepoint.direct_from;
  if (--parts_ == 0) overwritten_.clear();
}

// What it owns since then stays its own: others that wait for it lose nothing but time.
void TransactionContext::undo(const TransactionSavepoint& savepoint) {
  for (; overwritten_.size() > savepoint.overwritten; overwritten_.pop_back())
    put_back(overwritten_.back());
  for (size_t i = write_count_; i-- > savepoint.writes;) drop(write_at(i));
  forget_freed(savepoint.given_back);
  destroyed_.resize(savepoint.destroyed);
  free_fresh(savepoint.allocated);
  keep(savepoint);
}

void TransactionContext::put_back(const Overwritten& each) const {
  if (each.write == nullptr) return store_masked(each.word, each.value, each.stored);
  TransactionWrite& write = *each.write;
  write.mask = each.mask;
  if (in_place_) {
    put(each.word, each.value, each.stored);
    write.value &= each.mask;
  } else {
    write.value = each.value;
  }
}

// It stores nothing, and owns its record.
void TransactionContext::drop(TransactionWrite& write) const {
  if (in_place_ && write.word != nullptr) put(write.word, write.value, write.mask);
  write.word = nullptr;
}

}  // namespace perdura::detail
