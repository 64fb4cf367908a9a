// Keys and values, in the order of the keys, in a store or elsewhere: with std::map's interface,
// each call an operation by itself or a part of what the thread is in, reporting what it stores to,
// and in transactions a part of them.
//
//   auto& prices = store.root<ordered_map<string, double>>("prices");
//   prices["tea"] = 2.5;
//   for (auto it = prices.lower_bound("t"); it != prices.end(); ++it) …
//
// What differs from the standard's:
//  - values that are copied as bytes are got and changed through a Reference (reference.hpp), as
//    in hash_map. Values that report themselves are got by reference;
//  - it is a B+-tree (ordered_tree.hpp): what inserts or erases may move elements. It invalidates
//    iterators, references and pointers, as it does in Abseil's btree_map; so there are no node
//    handles, and neither extract() nor merge(). `map[a] = map[b].get()`, and of values that are
//    got by reference `map.insert_or_assign(a, map.at(b))`;
//  - the default order finds strings by whatever converts to a string_view.
// Readers may run at the same time as each other, not as a writer; in transactions all may.
#pragma once

#include <compare>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include <perdura/structures/ordered_tree.hpp>

namespace perdura::structures {

template <class Key, class Value, class Compare = std::less<>>
class ordered_map {
  using Tree = detail::OrderedTree<Key, Value, Compare>;
  using Place = typename Tree::Place;
  using Look = perdura::detail::Look;
  using Step = perdura::detail::Step;
  using References = detail::MapReferences<Key, Value>;
  template <class K>
  using Argument = typename Tree::template Argument<K>;

 public:
  using key_type = Key;
  using mapped_type = Value;
  using value_type = std::pair<const Key, Value>;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using key_compare = Compare;
  /// Of a value.
  using mapped_reference = typename References::template Mapped<false>;
  using const_mapped_reference = typename References::template Mapped<true>;

  template <bool kConst>
  class Iterator : public detail::TreeIterator<Iterator<kConst>, Tree> {
    using Base = detail::TreeIterator<Iterator, Tree>;
    using Mapped = typename References::template Mapped<kConst>;

   public:
    using value_type = ordered_map::value_type;
    using reference = typename References::template Element<kConst>;
    using pointer = detail::Arrow<reference>;

    Iterator() = default;
    template <bool kOther>
      requires(kConst && !kOther)
    Iterator(const Iterator<kOther>& other)  // NOLINT: as the standard's
        : Base(other.tree_, other.place_) {}

    reference operator*() const {
      const Look look(this->tree_);
      const Key& key = Tree::key_at(look, this->place_);
      return reference(detail::load_value(look, key), Mapped(Tree::value_at(look, this->place_)));
    }
    pointer operator->() const { return pointer(**this); }

   private:
    friend class ordered_map;
    friend class Iterator<true>;
    Iterator(const Tree* tree, Place place) : Base(tree, place) {}
  };
  using iterator = Iterator<false>;
  using const_iterator = Iterator<true>;
  using reverse_iterator = std::reverse_iterator<iterator>;
  using const_reverse_iterator = std::reverse_iterator<const_iterator>;

  ordered_map() {}  // NOLINT: where it is defaulted it stores zeros first, past a transaction
  ordered_map(std::initializer_list<std::pair<Key, Value>> values) { insert(values); }
  template <std::input_iterator First>
  ordered_map(First first, First last) {
    insert(first, last);
  }
  ordered_map(const ordered_map& other) { copy(other); }
  /// Takes the tree over where both lie in the same memory. Else it copies, and empties `other`.
  ordered_map(ordered_map&& other) { take(other); }  // NOLINT: memory may be wanted
  ordered_map& operator=(const ordered_map& other) {
    if (this != &other) {
      const Step step(this);
      tree_.replace(step, [&] { copy(other); });
    }
    return *this;
  }
  ordered_map& operator=(ordered_map&& other) {  // NOLINT: as above
    if (this != &other) take(other);
    return *this;
  }
  ordered_map& operator=(std::initializer_list<std::pair<Key, Value>> values) {
    const Step step(this);
    tree_.replace(step, [&] { insert(values); });
    return *this;
  }

  size_type size() const { return tree_.size(); }
  bool empty() const { return size() == 0; }
  key_compare key_comp() const { return Compare{}; }

  iterator begin() { return {&tree_, tree_.first()}; }
  iterator end() { return {&tree_, Place{}}; }
  const_iterator begin() const { return {&tree_, tree_.first()}; }
  const_iterator end() const { return {&tree_, Place{}}; }
  const_iterator cbegin() const { return begin(); }
  const_iterator cend() const { return end(); }
  reverse_iterator rbegin() { return reverse_iterator(end()); }
  reverse_iterator rend() { return reverse_iterator(begin()); }
  const_reverse_iterator rbegin() const { return const_reverse_iterator(end()); }
  const_reverse_iterator rend() const { return const_reverse_iterator(begin()); }
  const_reverse_iterator crbegin() const { return rbegin(); }
  const_reverse_iterator crend() const { return rend(); }

  // Where the order is transparent, by whatever it takes.
  template <class K = Key>
  iterator find(const Argument<K>& key) {
    return {&tree_, tree_.find(key)};
  }
  template <class K = Key>
  const_iterator find(const Argument<K>& key) const {
    return {&tree_, tree_.find(key)};
  }
  template <class K = Key>
  bool contains(const Argument<K>& key) const {
    return tree_.find(key).leaf != nullptr;
  }
  template <class K = Key>
  size_type count(const Argument<K>& key) const {
    return contains(key) ? 1 : 0;
  }
  template <class K = Key>
  iterator lower_bound(const Argument<K>& key) {
    return {&tree_, tree_.lower_bound(key)};
  }
  template <class K = Key>
  const_iterator lower_bound(const Argument<K>& key) const {
    return {&tree_, tree_.lower_bound(key)};
  }
  template <class K = Key>
  iterator upper_bound(const Argument<K>& key) {
    return {&tree_, tree_.upper_bound(key)};
  }
  template <class K = Key>
  const_iterator upper_bound(const Argument<K>& key) const {
    return {&tree_, tree_.upper_bound(key)};
  }
  template <class K = Key>
  std::pair<iterator, iterator> equal_range(const Argument<K>& key) {
    return {lower_bound<K>(key), upper_bound<K>(key)};
  }
  template <class K = Key>
  std::pair<const_iterator, const_iterator> equal_range(const Argument<K>& key) const {
    return {lower_bound<K>(key), upper_bound<K>(key)};
  }
  /// Throw std::out_of_range.
  template <class K = Key>
  mapped_reference at(const Argument<K>& key) {
    return mapped_reference(value_of(key));
  }
  template <class K = Key>
  const_mapped_reference at(const Argument<K>& key) const {
    return const_mapped_reference(value_of(key));
  }

  template <class K = Key>
  mapped_reference operator[](const Argument<K>& key) {
    const Step step(this);
    return mapped_reference(Tree::value_at(step, emplace_in(step, key).place));
  }

  template <class K = Key, class... Args>
  std::pair<iterator, bool> try_emplace(const Argument<K>& key, Args&&... args) {
    const Step step(this);
    const auto made = emplace_in(step, key, std::forward<Args>(args)...);
    return {iterator(&tree_, made.place), made.is_new};
  }
  template <class K = Key, class V = Value>
  std::pair<iterator, bool> insert_or_assign(const Argument<K>& key, V&& value) {
    const Step step(this);
    const auto made = emplace_in(step, key, std::forward<V>(value));
    if (!made.is_new) {
      Value& place = Tree::value_at(step, made.place);
      if constexpr (Plain<Value>) step.store(place, Value(std::forward<V>(value)));
      else place = std::forward<V>(value);
    }
    return {iterator(&tree_, made.place), made.is_new};
  }
  template <class K = Key, class V = Value>
  std::pair<iterator, bool> emplace(const Argument<K>& key, V&& value) {
    return try_emplace<K>(key, std::forward<V>(value));
  }
  template <class K, class V>
  std::pair<iterator, bool> insert(const std::pair<K, V>& value) {
    return try_emplace(value.first, value.second);
  }
  /// Where it throws, the first ones are in.
  template <class First>
  void insert(First first, First last) {
    const Step step(this);
    for (; first != last; ++first) {
      const auto& [key, value] = *first;
      if constexpr (requires { value.get(); }) try_emplace(key, value.get());
      else try_emplace(key, value);
    }
  }
  void insert(std::initializer_list<std::pair<Key, Value>> values) {
    insert(values.begin(), values.end());
  }

  template <class K = Key>
  size_type erase(const Argument<K>& key) {
    return tree_.erase_key(Step(this), key) ? 1 : 0;
  }
  /// The one behind it, or behind the last of them.
  iterator erase(const_iterator position) {
    return {&tree_, tree_.erase(Step(this), position.place_)};
  }
  iterator erase(iterator position) { return erase(const_iterator(position)); }
  iterator erase(const_iterator first, const_iterator last) {
    const Step step(this);
    iterator at(&tree_, first.place_);
    for (auto left = std::distance(first, last); left != 0; --left) at = erase(at);
    return at;
  }
  void clear() { tree_.clear(Step(this)); }
  void swap(ordered_map& other) {  // NOLINT: memory may be wanted where they lie in different ones
    const Step step(this);
    if (step.shares_memory(&other)) return tree_.exchange(step, other.tree_);
    perdura::detail::exchange_by_copies(*this, other);
  }
  friend void swap(ordered_map& a, ordered_map& b) { a.swap(b); }  // NOLINT: as above

  friend bool operator==(const ordered_map& a, const ordered_map& b) {
    if (a.size() != b.size()) return false;
    for (auto of_a = a.begin(), of_b = b.begin(); of_a != a.end(); ++of_a, ++of_b) {
      const auto mine = *of_a;
      const auto other = *of_b;
      if (!(mine.first == other.first) || !(mine.second == other.second)) return false;
    }
    return true;
  }
  /// Of values that are ordered by `<`: key by key, and the value behind each.
  friend std::weak_ordering operator<=>(const ordered_map& a, const ordered_map& b)
    requires requires(const Key& key, const Value& value) {
      key < key;
      value < value;
    }
  {
    return detail::compare_ranges(a, b, [](const auto& mine, const auto& other) {
      if (mine.first < other.first) return true;
      if (other.first < mine.first) return false;
      if constexpr (Plain<Value>) return mine.second.get() < other.second.get();
      else return mine.second < other.second;
    });
  }

  /// Checks the tree itself. "" when all is well, else the first thing that is wrong.
  std::string verify() const { return tree_.verify(); }

 private:
  template <class K>
  Value& value_of(const K& key) const {
    const Place place = tree_.find(key);
    if (place.leaf == nullptr) throw std::out_of_range("perdura::structures::ordered_map::at");
    return Tree::value_at(Look(this), place);
  }

  template <class K, class... Args>
  typename Tree::Inserted emplace_in(const Step& step, const K& key, Args&&... args) {
    return tree_.find_or_insert(step, key, [&](Key& key_place, Value& value_place) {
      detail::construct_member(step, key_place, key);
      try {
        detail::construct_member(step, value_place, std::forward<Args>(args)...);
      } catch (...) {
        detail::destroy_member(key_place);
        throw;
      }
    });
  }

  void copy(const ordered_map& other) {
    const Step step(this);
    insert(other.begin(), other.end());
  }
  void take(ordered_map& other) {
    const Step step(this);
    if (step.shares_memory(&other)) return tree_.take(step, other.tree_);
    tree_.replace(step, [&] { copy(other); });
    other.clear();
  }

  Tree tree_;
};

/// Erases what a function says, which is called once of each: the keys and values as iterators give
/// them. One operation. How many there were.
template <class Key, class Value, class Compare, class Predicate>
std::size_t erase_if(ordered_map<Key, Value, Compare>& map, Predicate predicate) {
  const perdura::detail::Step step(&map);
  const std::size_t before = map.size();
  for (auto it = map.begin(); it != map.end();) {
    if (predicate(*it)) it = map.erase(it);
    else ++it;
  }
  return before - map.size();
}

}  // namespace perdura::structures

/// A root knows them.
template <class Key, class Value, class Compare>
struct perdura::detail::ContentsOf<perdura::structures::ordered_map<Key, Value, Compare>> {
  using type = ContainedElsewhere<std::pair<Key, Value>>;
};
template <class Key, class Value, class Compare>
struct perdura::detail::OwnParts<perdura::structures::ordered_map<Key, Value, Compare>>
    : OwnParts<perdura::structures::detail::OrderedTree<Key, Value, Compare>> {
  static_assert(sizeof(structures::ordered_map<Key, Value, Compare>) ==
                sizeof(structures::detail::OrderedTree<Key, Value, Compare>));
};
template <class Key, class Value, class Compare>
struct perdura::FormerOf<perdura::structures::ordered_map<Key, Value, Compare>> {
  using now = structures::ordered_map<Key, typename FormerOf<Value>::now, Compare>;
};
template <class Key, class Value, class Compare>
inline constexpr bool
    perdura::kReportsItself<perdura::structures::ordered_map<Key, Value, Compare>> = true;
