// Keys, found by a hash: hash_map (hash_map.hpp) without values.
#pragma once

#include <functional>
#include <initializer_list>
#include <iterator>
#include <utility>

#include <perdura/structures/hash_table.hpp>

namespace perdura::structures {

template <class Key, class Hash = hash<Key>, class Equal = std::equal_to<>>
class hash_set {
  using Table = detail::HashTable<Key, detail::Nothing, Hash, Equal>;
  using Slot = typename Table::Slot;
  using Look = perdura::detail::Look;
  using Step = perdura::detail::Step;
  template <class K>
  using Argument = typename Table::template Argument<K>;

 public:
  using key_type = Key;
  using value_type = Key;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using hasher = Hash;
  using key_equal = Equal;

  class const_iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using iterator_concept = std::forward_iterator_tag;
    using value_type = Key;
    using difference_type = std::ptrdiff_t;
    using reference = std::conditional_t<Plain<Key>, const Key, const Key&>;
    using pointer = const Key*;

    const_iterator() = default;
    reference operator*() const {
      const Look look(table_);
      const Slot& slot = table_->slots(look)[at_];
      if constexpr (Plain<Key>) return look.load(slot.key);
      else return slot.key;
    }
    pointer operator->() const
      requires(!Plain<Key>)
    {
      return &**this;
    }
    const_iterator& operator++() {
      at_ = table_->next(at_ + 1);
      return *this;
    }
    const_iterator operator++(int) {
      const_iterator before = *this;
      ++*this;
      return before;
    }
    friend bool operator==(const const_iterator& a, const const_iterator& b) {
      return a.at_ == b.at_;
    }

   private:
    friend class hash_set;
    const_iterator(const Table* table, std::size_t at) : table_(table), at_(at) {}
    const Table* table_ = nullptr;
    std::size_t at_ = 0;
  };
  using iterator = const_iterator;

  hash_set() {}  // NOLINT: where it is defaulted, hash_set() stores zeros first, past a transaction
  hash_set(std::initializer_list<Key> keys) {
    for (const Key& key : keys) insert(key);
  }
  hash_set(const hash_set& other) { copy(other); }
  hash_set(hash_set&& other) { take(other); }  // NOLINT: as hash_map's
  hash_set& operator=(const hash_set& other) {
    if (this != &other) {
      const Step step(this);
      table_.replace(step, [&] { copy(other); });
    }
    return *this;
  }
  hash_set& operator=(hash_set&& other) {  // NOLINT: as hash_map's
    if (this != &other) take(other);
    return *this;
  }

  size_type size() const { return table_.size(); }
  bool empty() const { return size() == 0; }
  size_type capacity() const { return table_.capacity(); }
  const_iterator begin() const { return {&table_, table_.next(0)}; }
  const_iterator end() const { return {&table_, table_.capacity()}; }
  const_iterator cbegin() const { return begin(); }
  const_iterator cend() const { return end(); }

  template <class K = Key>
  const_iterator find(const Argument<K>& key) const {
    const std::size_t at = table_.find(key);
    return at == Table::kNone ? end() : const_iterator{&table_, at};
  }
  template <class K = Key>
  bool contains(const Argument<K>& key) const {
    return table_.find(key) != Table::kNone;
  }
  template <class K = Key>
  size_type count(const Argument<K>& key) const {
    return contains(key) ? 1 : 0;
  }

  template <class K = Key>
  std::pair<iterator, bool> insert(const Argument<K>& key) {
    const Step step(this);
    const auto place = table_.find_or_insert(
        step, key, [&](Slot& slot) { detail::construct_member(step, slot.key, key); });
    return {iterator(&table_, place.at), place.is_new};
  }
  template <class K = Key>
  std::pair<iterator, bool> emplace(const Argument<K>& key) {
    return insert(key);
  }
  template <class K = Key>
  size_type erase(const Argument<K>& key) {
    const Step step(this);
    const std::size_t at = table_.find(key);
    if (at == Table::kNone) return 0;
    table_.erase(step, at);
    return 1;
  }
  iterator erase(const_iterator position) {
    const Step step(this);
    table_.erase(step, position.at_);
    return {&table_, table_.next(position.at_)};
  }
  void clear() { table_.clear(Step(this)); }
  void reserve(size_type count) { table_.reserve(Step(this), count); }
  void swap(hash_set& other) {  // NOLINT: memory may be wanted where they lie in different ones
    const Step step(this);
    if (step.shares_memory(&other)) return table_.exchange(step, other.table_);
    perdura::detail::exchange_by_copies(*this, other);
  }
  friend void swap(hash_set& a, hash_set& b) { a.swap(b); }  // NOLINT: as above

  friend bool operator==(const hash_set& a, const hash_set& b) {
    if (a.size() != b.size()) return false;
    for (const auto& key : a)
      if (!b.contains(key)) return false;
    return true;
  }

 private:
  void copy(const hash_set& other) {
    const Step step(this);
    reserve(other.size());
    for (const auto& key : other) insert(key);
  }
  void take(hash_set& other) {
    const Step step(this);
    if (step.shares_memory(&other)) return table_.take(step, other.table_);
    table_.replace(step, [&] { copy(other); });
    other.clear();
  }

  Table table_;
};

}  // namespace perdura::structures

/// A root knows them.
template <class Key, class Hash, class Equal>
struct perdura::detail::ContentsOf<perdura::structures::hash_set<Key, Hash, Equal>> {
  using type = ContainedElsewhere<Key>;
};
template <class Key, class Hash, class Equal>
struct perdura::detail::OwnParts<perdura::structures::hash_set<Key, Hash, Equal>>
    : OwnParts<
          perdura::structures::detail::HashTable<Key, structures::detail::Nothing, Hash, Equal>> {
  static_assert(
      sizeof(structures::hash_set<Key, Hash, Equal>) ==
      sizeof(structures::detail::HashTable<Key, structures::detail::Nothing, Hash, Equal>));
};
template <class Key, class Hash, class Equal>
inline constexpr bool perdura::kReportsItself<perdura::structures::hash_set<Key, Hash, Equal>> =
    true;
