// Elements that are added and taken at both ends, which report what is stored to them: with
// std::deque's interface, in a store or elsewhere, each call an operation by itself or a part of
// what the thread is in, also a transaction.
//
//   auto& jobs = store.root<perdura::structures::deque<string>>("jobs");
//   jobs.push_back("next");
//   jobs.pop_front();
//
//   deque { map, map_capacity, first, size, block_log }
//            |
//            v
//   map    [block*][block*] … [block*]     2^n, a ring: blocks of elements that are there, else
//   null block  [T][T] … [T]                    2^block_log
//
// Element i is at position first + i of the ring. A block has elements of one end alone: the ring
// is made larger before both ends would meet in one.
//
// What differs from the standard's:
//  - elements that are copied as bytes are got and changed through a Reference (reference.hpp).
//    Those that report themselves are got by reference;
//  - iterators are places counted from the first element: what adds or takes elements in front of
//    one changes what it refers to. References stay valid as the standard's do.
#pragma once

#include <algorithm>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include <perdura/detail/conversion.hpp>
#include <perdura/detail/step.hpp>
#include <perdura/structures/common.hpp>
#include <perdura/structures/reference.hpp>

namespace perdura::structures {

template <class T>
class deque {
  static_assert(Storable<T>, PERDURA_STORABLE_SENTENCE);
  using Look = perdura::detail::Look;
  using Step = perdura::detail::Step;

 public:
  using value_type = T;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using reference = detail::ReferenceTo<T>;
  using const_reference = detail::ConstReferenceTo<T>;

  template <bool kConst>
  class Iterator {
   public:
    // What they give may be no reference, as vector<bool>'s is none; algorithms ask for this.
    using iterator_category = std::random_access_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using reference = std::conditional_t<kConst, const_reference, deque::reference>;
    using pointer = detail::ElementPointer<T, kConst>;

    Iterator() = default;
    template <bool kOther>
      requires(kConst && !kOther)
    Iterator(const Iterator<kOther>& other)  // NOLINT: as the standard's
        : deque_(other.deque_), at_(other.at_) {}

    reference operator*() const { return reference(deque_->place(at_)); }
    pointer operator->() const { return pointer(deque_->place(at_)); }
    reference operator[](difference_type by) const { return *(*this + by); }
    Iterator& operator+=(difference_type by) {
      at_ += static_cast<size_type>(by);
      return *this;
    }
    Iterator& operator-=(difference_type by) { return *this += -by; }
    Iterator& operator++() { return *this += 1; }
    Iterator& operator--() { return *this += -1; }
    Iterator operator++(int) { return std::exchange(*this, *this + 1); }
    Iterator operator--(int) { return std::exchange(*this, *this - 1); }
    friend Iterator operator+(Iterator a, difference_type by) { return a += by; }
    friend Iterator operator+(difference_type by, Iterator a) { return a += by; }
    friend Iterator operator-(Iterator a, difference_type by) { return a -= by; }
    friend difference_type operator-(const Iterator& a, const Iterator& b) {
      return static_cast<difference_type>(a.at_ - b.at_);
    }
    friend bool operator==(const Iterator& a, const Iterator& b) { return a.at_ == b.at_; }
    friend auto operator<=>(const Iterator& a, const Iterator& b) { return a.at_ <=> b.at_; }

   private:
    friend class deque;
    friend class Iterator<true>;
    Iterator(const deque* of, size_type at) : deque_(of), at_(at) {}
    const deque* deque_ = nullptr;
    size_type at_ = 0;
  };
  using iterator = Iterator<false>;
  using const_iterator = Iterator<true>;
  using reverse_iterator = std::reverse_iterator<iterator>;
  using const_reverse_iterator = std::reverse_iterator<const_iterator>;

  deque() {
    const Step step(this);
    step.store(head_, Head{});
  }
  // Where these throw, the one that they delegate to is destroyed.
  explicit deque(size_type count) : deque() { resize(count); }
  deque(size_type count, const T& value) : deque() { insert(end(), count, value); }
  deque(std::initializer_list<T> values) : deque() { insert(end(), values.begin(), values.end()); }
  template <std::input_iterator First>
  deque(First first, First last) : deque() {
    insert(end(), first, last);
  }
  deque(const deque& other) : deque() { copy(other); }
  /// Takes the blocks over where both lie in the same memory. Else it copies, and empties `other`.
  deque(deque&& other) : deque() { take(other); }  // NOLINT: memory may be wanted
  ~deque() noexcept(false) {
    const Step step(this);
    perdura::detail::destroy_by([&] { release(step); });
  }
  deque& operator=(const deque& other) {
    if (this != &other) replace([&] { copy(other); });
    return *this;
  }
  deque& operator=(deque&& other) {  // NOLINT: as above
    if (this != &other) take(other);
    return *this;
  }
  deque& operator=(std::initializer_list<T> values) {
    assign(values.begin(), values.end());
    return *this;
  }
  void assign(size_type count, const T& value) {
    replace([&, copy = T(value)] { insert(end(), count, copy); });  // it may lie here
  }
  template <std::input_iterator First>
  void assign(First first, First last) {
    replace([&] { insert(end(), first, last); });
  }
  void assign(std::initializer_list<T> values) { assign(values.begin(), values.end()); }

  size_type size() const { return Look(this).load(head_.size); }
  bool empty() const { return size() == 0; }
  static size_type max_size() { return static_cast<size_type>(-1) / 2 / sizeof(T); }
  iterator begin() { return {this, 0}; }
  iterator end() { return {this, size()}; }
  const_iterator begin() const { return {this, 0}; }
  const_iterator end() const { return {this, size()}; }
  const_iterator cbegin() const { return begin(); }
  const_iterator cend() const { return end(); }
  reverse_iterator rbegin() { return reverse_iterator(end()); }
  reverse_iterator rend() { return reverse_iterator(begin()); }
  const_reverse_iterator rbegin() const { return const_reverse_iterator(end()); }
  const_reverse_iterator rend() const { return const_reverse_iterator(begin()); }
  const_reverse_iterator crbegin() const { return rbegin(); }
  const_reverse_iterator crend() const { return rend(); }

  reference operator[](size_type at) { return reference(place(at)); }
  const_reference operator[](size_type at) const { return const_reference(place(at)); }
  /// Throw std::out_of_range.
  reference at(size_type at) { return reference(checked(at)); }
  const_reference at(size_type at) const { return const_reference(checked(at)); }
  reference front() { return (*this)[0]; }
  const_reference front() const { return (*this)[0]; }
  reference back() { return (*this)[size() - 1]; }
  const_reference back() const { return (*this)[size() - 1]; }

  void push_back(const T& value) { emplace_back(value); }
  void push_back(T&& value) { emplace_back(std::move(value)); }
  void push_front(const T& value) { emplace_front(value); }
  void push_front(T&& value) { emplace_front(std::move(value)); }
  template <class... Args>
  reference emplace_back(Args&&... args) {
    const Step step(this);
    Head head = step.load(head_);
    if (make_room(step, head, head.first)) step.store(head_, head);
    T& made = add(step, head, head.first + head.size, std::forward<Args>(args)...);
    step.store(head_.size, head.size + 1);
    return reference(made);
  }
  template <class... Args>
  reference emplace_front(Args&&... args) {
    const Step step(this);
    Head head = step.load(head_);
    if (make_room(step, head, head.first - 1)) step.store(head_, head);
    T& made = add(step, head, head.first - 1, std::forward<Args>(args)...);
    step.store(head_.first, head.first - 1);
    step.store(head_.size, head.size + 1);
    return reference(made);
  }
  void pop_back() {
    const Step step(this);
    const Head head = step.load(head_);
    drop(step, head, head.first + head.size - 1);
    if (ends_block(head, head.first + head.size - 1) || head.size == 1)
      give_back(step, head, head.first + head.size - 1);
    step.store(head_.size, head.size - 1);
  }
  void pop_front() {
    const Step step(this);
    const Head head = step.load(head_);
    drop(step, head, head.first);
    if (ends_block(head, head.first + 1) || head.size == 1) give_back(step, head, head.first);
    step.store(head_.first, head.first + 1);
    step.store(head_.size, head.size - 1);
  }

  /// Moves those between it and the nearer end.
  template <class... Args>
  iterator emplace(const_iterator before, Args&&... args) {
    const Step step(this);
    const size_type at = before.at_;
    const size_type size = this->size();
    const bool in_front = at < size / 2;
    if (in_front) emplace_front(std::forward<Args>(args)...);
    else emplace_back(std::forward<Args>(args)...);
    Moved moved(*this, step, in_front ? 0 : size);
    if (in_front)
      for (size_type i = 0; i < at; ++i) move(step, i + 1, i);
    else
      for (size_type i = size; i > at; --i) move(step, i - 1, i);
    moved.put(at);
    return {this, at};
  }
  iterator insert(const_iterator before, const T& value) { return emplace(before, value); }
  iterator insert(const_iterator before, T&& value) { return emplace(before, std::move(value)); }
  /// All of them, or where it throws none. The first one that is new, or `before`.
  iterator insert(const_iterator before, size_type count, const T& value) {
    const T copy = value;  // NOLINT(performance-unnecessary-copy-initialization): it may move
    return insert_all(before, [&](auto&& add) {
      for (size_type i = 0; i < count; ++i) add(copy);
    });
  }
  template <std::input_iterator First>
  iterator insert(const_iterator before, First first, First last) {
    return insert_all(before, [&](auto&& add) {
      for (; first != last; ++first) add(*first);
    });
  }
  iterator insert(const_iterator before, std::initializer_list<T> values) {
    return insert(before, values.begin(), values.end());
  }
  /// The one behind it, or behind the last of them.
  iterator erase(const_iterator position) { return erase(position, position + 1); }
  iterator erase(const_iterator first, const_iterator last) {
    const Step step(this);
    const size_type at = first.at_;
    const auto count = static_cast<size_type>(last - first);
    const size_type size = this->size();
    if (count == 0) return {this, at};
    for (size_type i = at; i < at + count; ++i) detail::destroy_member(place(i));
    if (at < size - at - count) {
      for (size_type i = at; i > 0; --i) move(step, i - 1, i + count - 1);
      leave(step, count, true);
    } else {
      for (size_type i = at + count; i < size; ++i) move(step, i, i - count);
      leave(step, count, false);
    }
    return {this, at};
  }
  void clear() {
    const Step step(this);
    release(step);
    step.store(head_, Head{});
  }
  void resize(size_type count) {
    resize_by(count, [&] { emplace_back(); });
  }
  void resize(size_type count, const T& value) {
    const T copy = value;  // NOLINT(performance-unnecessary-copy-initialization): it may go
    resize_by(count, [&] { emplace_back(copy); });
  }
  /// Blocks are given back when their last element goes; of the map what is not wanted.
  void shrink_to_fit() {
    const Step step(this);
    Head head = step.load(head_);
    if (head.size == 0) return clear();
    size_type wanted = kMapMin;
    while (wanted < blocks_for(head, head.first, head.size)) wanted *= 2;
    if (wanted >= head.map_capacity) return;
    rebuild_map(step, head, wanted);
    step.store(head_, head);
  }
  void swap(deque& other) {  // NOLINT: memory may be wanted where they lie in different ones
    const Step step(this);
    if (step.shares_memory(&other)) return detail::exchange_heads(step, head_, other.head_);
    perdura::detail::exchange_by_copies(*this, other);
  }
  friend void swap(deque& a, deque& b) { a.swap(b); }  // NOLINT: as above

  /// What the function says of each before anything changes. How many were erased.
  template <class Predicate>
  friend size_type erase_if(deque& from, Predicate predicate) {
    const Step step(&from);
    std::vector<bool> goes;
    for (size_type i = 0; i < from.size(); ++i)
      goes.push_back(predicate(detail::load_value(step, std::as_const(from.place(i)))));
    size_type kept = 0;
    for (size_type i = 0; i < goes.size(); ++i) {
      if (goes[i]) detail::destroy_member(from.place(i));
      else if (kept++ != i) from.move(step, i, kept - 1);
    }
    from.leave(step, goes.size() - kept, false);
    return goes.size() - kept;
  }

  friend bool operator==(const deque& a, const deque& b) {
    if (a.size() != b.size()) return false;
    for (size_type i = 0; i < a.size(); ++i)
      if (!(a[i] == b[i])) return false;
    return true;
  }
  friend std::weak_ordering operator<=>(const deque& a, const deque& b) {
    return detail::compare_elements(a, b);
  }

 private:
  friend struct perdura::detail::OwnParts<deque>;
  static constexpr size_type kAlignment = std::max<size_type>(16, alignof(T));
  static constexpr size_type kBlockLog =
      static_cast<size_type>(std::bit_width(std::max<size_type>(512 / sizeof(T), 1))) - 1;
  static constexpr size_type kMapMin = 8;

  struct Head {
    T** map = nullptr;
    std::uint64_t map_capacity = 0;
    std::uint64_t first = 0;  ///< counts on at the ring's end
    std::uint64_t size = 0;
    std::uint64_t block_log = kBlockLog;  ///< of the blocks that are there
  };

  static T*& block_place(const Head& head, std::uint64_t position) {
    return head.map[(position >> head.block_log) & (head.map_capacity - 1)];
  }
  static std::uint64_t offset_in(const Head& head, std::uint64_t position) {
    return position & ((std::uint64_t{1} << head.block_log) - 1);
  }
  static bool ends_block(const Head& head, std::uint64_t position) {
    return offset_in(head, position) == 0;
  }
  static size_type blocks_for(const Head& head, std::uint64_t first, std::uint64_t count) {
    return (offset_in(head, first) + count + (std::uint64_t{1} << head.block_log) - 1) >>
           head.block_log;
  }
  static size_type block_bytes(const Head& head) { return sizeof(T) << head.block_log; }

  T& place(size_type at) const {
    const Look look(this);
    Head head;
    head.map = look.load(head_.map);
    head.map_capacity = look.load(head_.map_capacity);
    head.block_log = look.load(head_.block_log);
    const std::uint64_t position = look.load(head_.first) + at;
    return look.load(block_place(head, position))[offset_in(head, position)];
  }
  T& checked(size_type at) const {
    if (at >= size()) throw std::out_of_range("perdura::structures::deque::at");
    return place(at);
  }

  /// For one element more, the first one at `first`. Whether the head is another one then.
  static bool make_room(const Step& step, Head& head, std::uint64_t first) {
    if (blocks_for(head, first, head.size + 1) <= head.map_capacity) [[likely]]
      return false;
    if (head.map_capacity > max_size() / sizeof(T*) / 2)
      throw std::length_error("perdura::structures::deque");
    rebuild_map(step, head, head.map_capacity == 0 ? kMapMin : 2 * head.map_capacity);
    return true;
  }
  /// Positions of elements stay what they are.
  static void rebuild_map(const Step& step, Head& head, size_type capacity) {
    Head made = head;
    made.map_capacity = capacity;
    made.map = step.allocate_elements<T*>(capacity * sizeof(T*), kMapAlignment);
    for (size_type i = 0; i < capacity; ++i) made.map[i] = nullptr;
    const size_type blocks = head.size == 0 ? 0 : blocks_for(head, head.first, head.size);
    for (size_type i = 0; i < blocks; ++i) {
      const std::uint64_t position = head.first + (i << head.block_log);
      block_place(made, position) = step.load(block_place(head, position));
    }
    if (head.map != nullptr) step.deallocate(head.map, kMapAlignment);
    head = made;
  }
  static constexpr size_type kMapAlignment = 16;

  template <class... Args>
  static T& add(const Step& step, const Head& head, std::uint64_t position, Args&&... args) {
    T*& block = block_place(head, position);
    T* elements = step.load(block);
    const bool is_new = elements == nullptr;
    if (is_new) elements = step.allocate_elements<T>(block_bytes(head), kAlignment);
    T& made = elements[offset_in(head, position)];
    perdura::detail::undone_by(
        [&] {
          if (!is_new && Plain<T> && !step.in_transaction()) step.touch(&made, sizeof made);
          detail::construct_member(step, made, std::forward<Args>(args)...);
        },
        [&] {
          if (is_new) step.deallocate(elements, kAlignment);
        });
    if (is_new) step.store(block, elements);
    return made;
  }
  static T& element(const Step& step, const Head& head, std::uint64_t position) {
    return step.load(block_place(head, position))[offset_in(head, position)];
  }
  static void drop(const Step& step, const Head& head, std::uint64_t position) {
    T& gone = element(step, head, position);
    detail::destroy_member(gone);
    step.forget(gone);
  }
  /// The block of a position at which there is no element any more.
  static void give_back(const Step& step, const Head& head, std::uint64_t position) {
    T*& block = block_place(head, position);
    T* const elements = step.load(block);
    step.store(block, nullptr);
    step.deallocate(elements, kAlignment);
  }

  /// The bytes of an element, on their way.
  class Moved {
   public:
    Moved(deque& of, const Step& step, size_type from) : of_(of), step_(step) {
      step.load_bytes(&of.place(from), bytes_, sizeof bytes_);
    }
    void put(size_type to) { step_.store_bytes(bytes_of(of_.place(to)), bytes_, sizeof bytes_); }

   private:
    deque& of_;
    const Step& step_;
    alignas(T) std::byte bytes_[sizeof(T)];
  };
  static void* bytes_of(T& place) { return static_cast<void*>(std::addressof(place)); }
  void move(const Step& step, size_type from, size_type to) {
    detail::relocate(step, place(to), place(from));
  }
  /// Those at an end are elements no more: they have moved, or are destroyed.
  void leave(const Step& step, size_type count, bool in_front) {
    for (size_type i = 0; i < count; ++i) {
      const Head head = step.load(head_);
      const std::uint64_t position = in_front ? head.first : head.first + head.size - 1;
      step.forget(element(step, head, position));
      if (ends_block(head, in_front ? position + 1 : position) || head.size == 1)
        give_back(step, head, position);
      if (in_front) step.store(head_.first, head.first + 1);
      step.store(head_.size, head.size - 1);
    }
  }

  /// What `fill(add)` adds, in its order.
  template <class Fill>
  iterator insert_all(const_iterator before, Fill&& fill) {
    const Step step(this);
    const size_type at = before.at_;
    const size_type size = this->size();
    const bool in_front = at < size / 2;
    size_type count = 0;
    perdura::detail::undone_by(
        [&] {
          fill([&](const auto& value) {
            if (in_front) add_copy<true>(value);
            else add_copy<false>(value);
            ++count;
          });
        },
        [&] {
          for (; count != 0; --count) in_front ? pop_front() : pop_back();
        });
    if (count == 0) return {this, at};
    // In front the new ones are in the other order, before those that were there.
    const size_type begin = in_front ? 0 : at;
    const size_type moving = in_front ? count + at : count + size - at;
    const std::unique_ptr<std::byte[]> bytes(new std::byte[moving * sizeof(T)]);
    for (size_type i = 0; i < moving; ++i)
      step.load_bytes(&place(begin + i), bytes.get() + i * sizeof(T), sizeof(T));
    const auto put = [&](size_type from, size_type to) {
      step.store_bytes(bytes_of(place(to)), bytes.get() + from * sizeof(T), sizeof(T));
    };
    for (size_type i = 0; i < count; ++i)
      put(in_front ? count - 1 - i : moving - count + i, at + i);
    for (size_type i = 0; i < moving - count; ++i)
      put(in_front ? count + i : i, in_front ? i : at + count + i);
    return {this, at};
  }
  template <bool kInFront, class Value>
  void add_copy(const Value& value) {
    const auto add = [&](const auto& each) {
      if constexpr (kInFront) emplace_front(each);
      else emplace_back(each);
    };
    if constexpr (requires { value.get(); }) add(value.get());
    else add(value);
  }
  template <class Add>
  void resize_by(size_type count, Add&& add) {
    const Step step(this);
    const size_type before = size();
    for (size_type i = count; i < before; ++i) pop_back();
    perdura::detail::undone_by(
        [&] {
          for (size_type i = before; i < count; ++i) add();
        },
        [&] {
          while (size() > before) pop_back();
        });
  }
  template <class Fill>
  void replace(Fill&& fill) {
    const Step step(this);
    detail::replace_contents(step, head_, [&] { release(step); }, fill);
  }
  void copy(const deque& other) { insert(end(), other.begin(), other.end()); }
  void take(deque& other) {
    const Step step(this);
    if (step.shares_memory(&other)) {
      clear();
      return detail::exchange_heads(step, head_, other.head_);
    }
    replace([&] { copy(other); });
    other.clear();
  }
  void release(const Step& step) {
    const Head head = step.load(head_);
    if (head.map == nullptr) return;
    if constexpr (!Plain<T>)
      for (std::uint64_t i = 0; i < head.size; ++i)
        detail::destroy_member(element(step, head, head.first + i));
    const size_type blocks = head.size == 0 ? 0 : blocks_for(head, head.first, head.size);
    for (size_type i = 0; i < blocks; ++i)
      step.deallocate(step.load(block_place(head, head.first + (i << head.block_log))), kAlignment);
    step.deallocate(head.map, kMapAlignment);
  }

  Head head_;
};

/// How many were erased.
template <class T, class Value>
std::size_t erase(deque<T>& from, const Value& value) {
  return erase_if(from, [&](const T& each) { return each == value; });
}

}  // namespace perdura::structures

/// A root knows them.
template <class T>
struct perdura::detail::ContentsOf<perdura::structures::deque<T>> {
  using type = ContainedElsewhere<T>;
};
template <class T>
struct perdura::FormerOf<perdura::structures::deque<T>> {
  using now = structures::deque<typename FormerOf<T>::now>;
};
/// Its blocks are arrays of T, zero where there is no element and a T holds pointers.
template <class T>
struct perdura::detail::OwnParts<perdura::structures::deque<T>> {
  static constexpr bool kKnown = true;
  static constexpr bool kHasMembers = false;
  static std::vector<Part> parts() {
    using Deque = structures::deque<T>;
    return {part_of<void*>("map", offsetof(Deque, head_) + offsetof(typename Deque::Head, map))};
  }
};
template <class Old, class New>
  requires(!std::is_same_v<Old, New>)
struct perdura::detail::ElementConversions<perdura::structures::deque<Old>,
                                           perdura::structures::deque<New>>
    : ArrayElementConversions<Old, New> {};
template <class T>
inline constexpr bool perdura::kReportsItself<perdura::structures::deque<T>> = true;
