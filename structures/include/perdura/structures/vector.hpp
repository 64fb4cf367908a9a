// Elements one behind the other, which report what is stored to them: with std::vector's interface,
// in a store or elsewhere, each call an operation by itself or a part of what the thread is in,
// also a transaction.
//
//   auto& prices = store.root<perdura::structures::vector<double>>("prices");
//   prices.push_back(2.5);
//   prices[0] = 3;                              // a Reference (reference.hpp)
//   for (double each : prices) …                // reads memory
//   for (double& each : prices.change(0, 10)) each *= 2;   // reported together, before
//
// What differs from the standard's: elements that are copied as bytes are changed through a
// Reference or by change(), and iterators to them are constant. Those that report themselves are
// got by reference, and iterators are as the standard's.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <perdura/detail/conversion.hpp>
#include <perdura/detail/step.hpp>
#include <perdura/structures/reference.hpp>

namespace perdura::structures {

template <class T>
class vector {
  static_assert(Storable<T>, PERDURA_STORABLE_SENTENCE);
  static_assert(detail::kMayHold<T>);
  using Look = perdura::detail::Look;
  using Step = perdura::detail::Step;

 public:
  using value_type = T;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using reference = std::conditional_t<Plain<T>, Reference<T>, T&>;
  using const_reference = std::conditional_t<Plain<T>, ConstReference<T>, const T&>;
  using const_iterator = const T*;
  using iterator = std::conditional_t<Plain<T>, const T*, T*>;

  vector() {
    const Step step(this);
    set(step, {});
  }
  // Where these throw, the one that they delegate to is destroyed.
  explicit vector(size_type count) : vector() { resize(count); }
  vector(size_type count, const T& value) : vector() { assign(count, value); }
  vector(std::initializer_list<T> values) : vector() { append(values.begin(), values.end()); }
  template <std::input_iterator First>
  vector(First first, First last) : vector() {
    append(first, last);
  }
  vector(const vector& other) : vector() { copy(other); }
  /// Takes the block over where both lie in the same memory. Else it copies, and empties `other`.
  vector(vector&& other) : vector() { take(other); }  // NOLINT: memory may be wanted
  ~vector() noexcept(false) {
    const Step step(this);
    perdura::detail::destroy_by([&] { release(step); });
  }
  vector& operator=(const vector& other) {
    if (this != &other) {
      const Step step(this);
      replace(step, [&] { copy(other); });
    }
    return *this;
  }
  vector& operator=(vector&& other) {  // NOLINT: as above
    if (this != &other) take(other);
    return *this;
  }
  vector& operator=(std::initializer_list<T> values) {
    const Step step(this);
    replace(step, [&] { append(values.begin(), values.end()); });
    return *this;
  }
  void assign(size_type count, const T& value) {
    const T copy = value;  // NOLINT(performance-unnecessary-copy-initialization): it may lie here
    const Step step(this);
    replace(step, [&] {
      reserve(count);
      for (size_type i = 0; i < count; ++i) push_back(copy);
    });
  }

  size_type size() const { return Look(this).load(size_); }
  size_type capacity() const { return Look(this).load(capacity_); }
  bool empty() const { return size() == 0; }

  reference operator[](size_type at) { return reference(place(at)); }
  const_reference operator[](size_type at) const { return const_reference(place(at)); }
  /// Throw std::out_of_range.
  reference at(size_type at) { return reference(checked(at)); }
  const_reference at(size_type at) const { return const_reference(checked(at)); }
  reference front() { return (*this)[0]; }
  const_reference front() const { return (*this)[0]; }
  reference back() { return (*this)[size() - 1]; }
  const_reference back() const { return (*this)[size() - 1]; }

  // Memory as it is, which is not for transactions: kMisuse.
  const T* data() const {
    const Look look(this);
    if (look.in_transaction()) perdura::detail::throw_in_transaction("data");
    return data_;
  }
  iterator begin() { return iterator(const_cast<T*>(std::as_const(*this).begin())); }
  iterator end() { return iterator(const_cast<T*>(std::as_const(*this).end())); }
  const_iterator begin() const { return data(); }
  const_iterator end() const { return data() + size_; }
  const_iterator cbegin() const { return begin(); }
  const_iterator cend() const { return end(); }
  operator std::span<const T>() const { return {data(), size()}; }  // NOLINT: as std's

  /// Elements to be stored to as they are, until the operation that the thread is in ends; inside
  /// one, and not in a transaction.
  std::span<T> change(size_type first, size_type count)
    requires Plain<T>
  {
    const Step step(this);
    if (step.in_transaction()) perdura::detail::throw_in_transaction("change");
    if (first > size_ || count > size_ - first)
      throw std::out_of_range("perdura::structures::vector::change");
    step.touch(data_ + first, count * sizeof(T));
    return {data_ + first, count};
  }

  void push_back(const T& value) { emplace_back(value); }
  template <class... Args>
  reference emplace_back(Args&&... args) {
    const Step step(this);
    const size_type size = step.load(size_);
    if (size != step.load(capacity_)) [[likely]] {
      construct(step, step.load(data_)[size], std::forward<Args>(args)...);
    } else {
      // The arguments may lie in what is given back.
      T made(std::forward<Args>(args)...);
      grow(step, size + 1);
      construct(step, step.load(data_)[size], std::move(made));
    }
    step.store(size_, size + 1);
    return reference(step.load(data_)[size]);
  }
  template <class First>
  void append(First first, First last) {
    const Step step(this);
    const size_type before = step.load(size_);
    perdura::detail::undone_by(
        [&] {
          if constexpr (std::forward_iterator<First>)
            reserve(before + static_cast<size_type>(std::distance(first, last)));
          for (; first != last; ++first) emplace_back(*first);
        },
        [&] { resize_down(step, before); });
  }
  void pop_back() {
    const Step step(this);
    const size_type last = step.load(size_) - 1;
    destroy(place(last));
    step.forget(place(last));
    step.store(size_, last);
  }
  void clear() {
    const Step step(this);
    resize_down(step, 0);
  }
  void resize(size_type count) {
    const Step step(this);
    const size_type size = step.load(size_);
    if (count < size) return resize_down(step, count);
    if (count > step.load(capacity_)) grow(step, count);
    perdura::detail::undone_by(
        [&] {
          for (size_type i = size; i < count; ++i) {
            construct(step, place(i));
            step.store(size_, i + 1);
          }
        },
        [&] { resize_down(step, size); });
  }
  void reserve(size_type count) {
    const Step step(this);
    if (count > step.load(capacity_)) rebuild(step, count);
  }
  void shrink_to_fit() {
    const Step step(this);
    const size_type size = step.load(size_);
    if (size == 0) release(step), set(step, {});
    else if (size != step.load(capacity_)) rebuild(step, size);
  }
  /// Before the element at a position. Where it throws, nothing was inserted.
  void insert(size_type at, const T& value) {
    const Step step(this);
    const size_type size = step.load(size_);
    if (at > size) throw std::out_of_range("perdura::structures::vector::insert");
    T made(value);
    if (size == step.load(capacity_)) grow(step, size + 1);
    // A new last element, of bytes alone: what is constructed before the others move up can throw.
    alignas(T) std::byte moved[sizeof(T)];
    construct(step, place(size), std::move(made));
    step.load_bytes(&place(size), moved, sizeof moved);
    step.move_bytes(&place(at) + 1, &place(at), (size - at) * sizeof(T));
    step.store_bytes(&place(at), moved, sizeof moved);
    step.store(size_, size + 1);
  }
  void erase(size_type at) { erase(at, 1); }
  void erase(size_type first, size_type count) {
    const Step step(this);
    const size_type size = step.load(size_);
    if (first > size || count > size - first)
      throw std::out_of_range("perdura::structures::vector::erase");
    if (count == 0) return;
    for (size_type i = first; i < first + count; ++i) destroy(place(i));
    step.move_bytes(&place(first), &place(first) + count, (size - first - count) * sizeof(T));
    forget_from(step, size - count, size);
    step.store(size_, size - count);
  }
  void swap(vector& other) {  // NOLINT: memory may be wanted where they lie in different ones
    const Step step(this);
    if (step.shares_memory(&other)) return exchange(step, other);
    perdura::detail::exchange_by_copies(*this, other);
  }
  friend void swap(vector& a, vector& b) { a.swap(b); }  // NOLINT: as above

  friend bool operator==(const vector& a, const vector& b) {
    if (a.size() != b.size()) return false;
    for (size_type i = 0; i < a.size(); ++i)
      if (!(a[i] == b[i])) return false;
    return true;
  }

 private:
  friend struct perdura::detail::OwnParts<vector>;
  struct Fields {
    T* data = nullptr;
    size_type size = 0;
    size_type capacity = 0;
  };
  Fields fields(const Look& look) const {
    return {look.load(data_), look.load(size_), look.load(capacity_)};
  }
  void set(const Step& step, const Fields& fields) {
    step.store(data_, fields.data);
    step.store(size_, fields.size);
    step.store(capacity_, fields.capacity);
  }
  void exchange(const Step& step, vector& other) {
    const Fields mine = fields(step);
    set(step, other.fields(step));
    other.set(step, mine);
  }
  /// What `fill()` puts into it, which is empty then. Where that throws it is as it was.
  template <class Fill>
  void replace(const Step& step, Fill&& fill) {
    const Fields before = fields(step);
    set(step, {});
    perdura::detail::undone_by(fill, [&] {
      release(step);
      set(step, before);
    });
    const Fields after = fields(step);
    set(step, before);
    release(step);
    set(step, after);
  }
  void resize_down(const Step& step, size_type count) {
    destroy_from(step, count);
    forget_from(step, count, step.load(size_));
    step.store(size_, count);
  }
  /// Of another one, which may be in another memory: in a transaction as it is for that.
  void copy(const vector& other) {
    const Step step(this);
    const Look look(&other);
    const Fields from = other.fields(look);
    const size_type before = step.load(size_);
    perdura::detail::undone_by(
        [&] {
          reserve(before + from.size);
          for (size_type i = 0; i < from.size; ++i) {
            if constexpr (Plain<T>) emplace_back(look.load(from.data[i]));
            else emplace_back(std::as_const(from.data[i]));
          }
        },
        [&] { resize_down(step, before); });
  }

  static constexpr size_type kAlignment = std::max<size_type>(16, alignof(T));

  T& place(size_type at) const { return Look(this).load(data_)[at]; }
  T& checked(size_type at) const {
    if (at >= size()) throw std::out_of_range("perdura::structures::vector::at");
    return place(at);
  }

  /// Where there is none yet.
  template <class... Args>
  static void construct(const Step& step, T& place, Args&&... args) {
    if constexpr (Plain<T>) {
      step.store(place, T(std::forward<Args>(args)...));
    } else {
      ::new (static_cast<void*>(std::addressof(place))) T(std::forward<Args>(args)...);
    }
  }
  static void destroy(T& place) {
    if constexpr (!Plain<T>) std::destroy_at(std::addressof(place));
  }
  void destroy_from(const Step& step, size_type first) {
    if constexpr (!Plain<T>)
      for (size_type i = first, size = step.load(size_); i < size; ++i) destroy(place(i));
  }
  void forget_from(const Step& step, size_type first, size_type last) {
    if (perdura::detail::holds_pointers<T>())
      for (size_type i = first; i < last; ++i) step.forget(place(i));
  }
  void grow(const Step& step, size_type count) {
    rebuild(step, std::max({count, 2 * step.load(capacity_), 64 / sizeof(T) + 1}));
  }
  void rebuild(const Step& step, size_type capacity) {
    if (capacity > static_cast<size_type>(-1) / 2 / sizeof(T))
      throw std::length_error("perdura::structures::vector");
    T* const before = step.load(data_);
    T* const block = step.allocate_elements<T>(capacity * sizeof(T), kAlignment);
    if (const size_type size = step.load(size_); size != 0)
      step.copy_to_new(block, before, size * sizeof(T));
    step.store(data_, block);
    step.store(capacity_, capacity);
    if (before != nullptr) step.deallocate(before, kAlignment);
  }
  void release(const Step& step) {
    T* const block = step.load(data_);
    if (block == nullptr) return;
    destroy_from(step, 0);
    step.deallocate(block, kAlignment);
  }
  void take(vector& other) {
    const Step step(this);
    if (step.shares_memory(&other)) {
      release(step);
      set(step, {});
      exchange(step, other);
    } else {
      replace(step, [&] { copy(other); });
      other.clear();
    }
  }

  T* data_;
  size_type size_;
  size_type capacity_;
};

}  // namespace perdura::structures

/// A root knows them.
template <class T>
struct perdura::detail::ContentsOf<perdura::structures::vector<T>> {
  using type = ContainedElsewhere<T>;
};
template <class T>
struct perdura::FormerOf<perdura::structures::vector<T>> {
  using now = structures::vector<typename FormerOf<T>::now>;
};
/// Its block is an array of T, zero behind the elements where a T holds pointers.
template <class T>
struct perdura::detail::OwnParts<perdura::structures::vector<T>> {
  static constexpr bool kKnown = true;
  static constexpr bool kHasMembers = false;
  static std::vector<Part> parts() {
    return {part_of<T*>("data", offsetof(structures::vector<T>, data_))};
  }
};
template <class Old, class New>
  requires(!std::is_same_v<Old, New>)
struct perdura::detail::ElementConversions<perdura::structures::vector<Old>,
                                           perdura::structures::vector<New>>
    : ArrayElementConversions<Old, New> {};
template <class T>
inline constexpr bool perdura::kReportsItself<perdura::structures::vector<T>> = true;
