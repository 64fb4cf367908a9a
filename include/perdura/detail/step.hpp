// What containers are made of that report their own stores, and take part in transactions: each of
// their calls is a step. Where the container lies says what that means:
//
//   in an open store             an operation, or a part of the one that the thread is in
//   there, in a transaction      a part of that: each load and store goes through it
//   elsewhere                    nothing; memory is malloc's
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <type_traits>

#include <perdura/detail/description.hpp>
#include <perdura/detail/mutator.hpp>
#include <perdura/transaction.hpp>

namespace perdura::detail {

/// Each an operation of its own. Throw kNoSpace, kMisuse.
void* allocate_in(Mutator& mutator, std::size_t size, std::size_t alignment);
void deallocate_in(Mutator& mutator, void* block);
/// As many objects of a type as have room in `bytes` bytes. Where it need not be zeroed it may have
/// whatever was there before.
void* allocate_in(Mutator& mutator, const perdura_type& type, std::size_t bytes, bool zeroed);
/// The one whose body the thread is in.
Transaction& transaction_of(Mutator& mutator) noexcept;
[[noreturn]] void throw_in_transaction(const char* what);

/// Of a call that only reads: no operation is needed for that. At most until the call returns.
// Here and in Step what is called often is a part of its caller, so that both pointers stay in
// registers.
class Look {
 public:
  [[gnu::always_inline]] explicit Look(const void* object)
      : Look(running_transactions != 0 ? reader_holding(object) : nullptr) {}
  Look(const Look&) = delete;

  bool in_transaction() const { return transaction_ != nullptr; }
  template <class T>
  [[gnu::always_inline]] T load(const T& field) const {
    return transaction_ != nullptr ? transaction_->read(field) : field;
  }
  /// `length` bytes of a block, at most up to its end in whole words.
  void load_bytes(const void* from, void* to, std::size_t length) const {
    if (transaction_ == nullptr) std::memcpy(to, from, length);
    else load_words(from, to, length);
  }

 protected:
  [[gnu::always_inline]] explicit Look(Mutator* mutator)
      : mutator_(mutator),
        transaction_(running_transactions != 0 && mutator != nullptr && mutator->in_transaction
                         ? &transaction_of(*mutator)
                         : nullptr) {}

  void load_words(const void* from, void* to, std::size_t length) const {
    auto place = reinterpret_cast<std::uintptr_t>(from);
    auto* into = static_cast<std::byte*>(to);
    while (length != 0) {
      const std::size_t within = place % sizeof(std::uint64_t);
      const std::uint64_t word =
          transaction_->read(*reinterpret_cast<const std::uint64_t*>(place - within));
      const std::size_t taken = length < sizeof word - within ? length : sizeof word - within;
      std::memcpy(into, reinterpret_cast<const std::byte*>(&word) + within, taken);
      place += taken;
      into += taken;
      length -= taken;
    }
  }

  Mutator* const mutator_;
  Transaction* const transaction_;
};

/// Of a call that changes the object.
class Step : public Look {
 public:
  [[gnu::always_inline]] explicit Step(const void* object) : Look(mutator_holding(object)) {
    if (is_operation()) enter(*mutator_);
  }
  [[gnu::always_inline]] ~Step() {
    if (is_operation()) leave(*mutator_);
  }

  /// Stores to what was there before the step.
  template <class T>
  [[gnu::always_inline]] void store(T& field, const std::type_identity_t<T>& value) const {
    if (transaction_ != nullptr) return transaction_->write(field, value);
    if (mutator_ != nullptr) report_lines_of(*mutator_, field);
    field = value;
  }
  /// The same of bytes, from elsewhere.
  void store_bytes(void* to, const void* from, std::size_t length) const {
    if (transaction_ != nullptr) return store_words(to, from, length);
    touch(to, length);
    std::memcpy(to, from, length);
  }
  /// The same, where both may overlap.
  void move_bytes(void* to, const void* from, std::size_t length) const {
    if (transaction_ == nullptr) {
      touch(to, length);
      std::memmove(to, from, length);
      return;
    }
    const std::unique_ptr<std::byte[]> bytes(new std::byte[length]);
    load_words(from, bytes.get(), length);
    store_words(to, bytes.get(), length);
  }
  /// Not in a transaction, before other stores there.
  void touch(const void* place, std::size_t length) const {
    if (mutator_ != nullptr) report_lines(*mutator_, place, length);
  }
  /// To a block that the step has allocated. Another transaction may still read what lay there
  /// before, until it finds that it is to begin again: so a transaction stores it by the word.
  void initialize_bytes(void* to, const void* from, std::size_t length) const {
    if (transaction_ != nullptr) initialize_words(to, from, length);
    else if (length != 0) std::memcpy(to, from, length);
  }
  template <class T>
  void initialize(T& field, const std::type_identity_t<T>& value) const {
    initialize_bytes(&field, &value, sizeof field);
  }
  /// The same with bytes that others may store to.
  void copy_to_new(void* to, const void* from, std::size_t length) const {
    if (transaction_ == nullptr) return initialize_bytes(to, from, length);
    std::byte piece[256];
    for (std::size_t done = 0; done < length; done += sizeof piece) {
      const std::size_t bytes = length - done < sizeof piece ? length - done : sizeof piece;
      load_words(static_cast<const std::byte*>(from) + done, piece, bytes);
      initialize_words(static_cast<std::byte*>(to) + done, piece, bytes);
    }
  }
  /// Not in a transaction what it returns may be stored to as it is until the step ends; in one by
  /// the functions above.
  void* allocate(std::size_t size, std::size_t alignment) const {
    if (mutator_ != nullptr) return allocate_in(*mutator_, size, alignment);
    return ::operator new(size, std::align_val_t{alignment});
  }
  /// The same of places for elements, which the store knows where it can. Where they hold pointers
  /// they are zero.
  template <class T>
  T* allocate_elements(std::size_t bytes, std::size_t alignment) const {
    if constexpr (RecordedElement<T>)
      if (mutator_ != nullptr) {
        const perdura_type& type = element_record<T>();
        const bool zeroed = type.slot_count != 0;
        if (!zeroed || type.size % sizeof(void*) == 0)
          return static_cast<T*>(allocate_in(*mutator_, type, bytes, zeroed));
      }
    return static_cast<T*>(allocate(bytes, alignment));
  }
  /// The same of one block of a type; zeroed, or not.
  void* allocate_block(const perdura_type& type, bool zeroed) const {
    if (mutator_ != nullptr) return allocate_in(*mutator_, type, type.size, zeroed);
    return allocate(type.size, type.alignment);
  }
  /// What was an element here is none any more.
  template <class T>
  void forget(T& place) const {
    if (mutator_ == nullptr || !holds_pointers<T>()) return;
    static constexpr std::byte kZeros[sizeof(T)] = {};
    store_bytes(static_cast<void*>(std::addressof(place)), kZeros, sizeof(T));
  }
  void deallocate(void* block, std::size_t alignment) const {
    if (mutator_ != nullptr) deallocate_in(*mutator_, block);
    else ::operator delete(block, std::align_val_t{alignment});
  }
  bool is_in_store() const { return mutator_ != nullptr; }
  /// Whether memory that the other object has allocated can be this one's.
  bool shares_memory(const void* other) const { return mutator_holding(other) == mutator_; }

 private:
  void store_words(void* to, const void* from, std::size_t length) const {
    by_words(to, from, length,
             [this](auto* place, auto value) { transaction_->write(*place, value); });
  }
  static void initialize_words(void* to, const void* from, std::size_t length) {
    by_words(to, from, length,
             [](auto* place, auto value) { __atomic_store_n(place, value, __ATOMIC_RELAXED); });
  }
  /// Calls store(place, value) for each aligned word of what goes to `to`, and each byte beside.
  template <class Store>
  static void by_words(void* to, const void* from, std::size_t length, Store&& store) {
    auto* into = static_cast<std::uint8_t*>(to);
    const auto* bytes = static_cast<const std::uint8_t*>(from);
    while (length != 0) {
      std::uint64_t word;
      const bool whole =
          length >= sizeof word && reinterpret_cast<std::uintptr_t>(into) % sizeof word == 0;
      const std::size_t taken = whole ? sizeof word : 1;
      if (whole) {
        std::memcpy(&word, bytes, sizeof word);
        store(reinterpret_cast<std::uint64_t*>(into), word);
      } else {
        store(into, *bytes);
      }
      into += taken;
      bytes += taken;
      length -= taken;
    }
  }

  bool is_operation() const { return mutator_ != nullptr && transaction_ == nullptr; }
};

/// What `change()` does; where it throws, `undo()` as well. A transaction that begins again has
/// nothing to undo by itself.
template <class Change, class Undo>
void undone_by(Change&& change, Undo&& undo) {
  try {
    change();
  } catch (const TransactionAgain&) {
    throw;
  } catch (...) {
    undo();
    throw;
  }
}

/// A destructor's work. In a transaction it may meet others, as all that it does: then that begins
/// again, by what is under way already where something is.
template <class Release>
void destroy_by(Release&& release) {
  try {
    release();
  } catch (const TransactionAgain&) {
    if (std::uncaught_exceptions() == 0) throw;
  }
}

/// For containers in different memory. Where one has no room for what the other has, both are as
/// they were.
template <class Container>
void exchange_by_copies(Container& a, Container& b) {
  const Step step_of_a(&a);
  const Step step_of_b(&b);
  const Container of_a(a);
  a = b;
  try {
    b = of_a;
  } catch (...) {
    a = of_a;
    throw;
  }
}

}  // namespace perdura::detail
