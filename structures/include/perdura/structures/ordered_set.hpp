// Keys in order: ordered_map (ordered_map.hpp) without values.
#pragma once

#include <compare>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <string>
#include <utility>

#include <perdura/structures/ordered_tree.hpp>

namespace perdura::structures {

template <class Key, class Compare = std::less<>>
class ordered_set {
  using Tree = detail::OrderedTree<Key, detail::Nothing, Compare>;
  using Place = typename Tree::Place;
  using Look = perdura::detail::Look;
  using Step = perdura::detail::Step;
  template <class K>
  using Argument = typename Tree::template Argument<K>;

 public:
  using key_type = Key;
  using value_type = Key;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using key_compare = Compare;

  class const_iterator : public detail::TreeIterator<const_iterator, Tree> {
    using Base = detail::TreeIterator<const_iterator, Tree>;

   public:
    using value_type = Key;
    using reference = std::conditional_t<Plain<Key>, const Key, const Key&>;
    using pointer = const Key*;

    const_iterator() = default;
    reference operator*() const {
      const Look look(this->tree_);
      return detail::load_value(look, std::as_const(Tree::key_at(look, this->place_)));
    }
    pointer operator->() const
      requires(!Plain<Key>)
    {
      return &**this;
    }

   private:
    friend class ordered_set;
    const_iterator(const Tree* tree, Place place) : Base(tree, place) {}
  };
  using iterator = const_iterator;
  using const_reverse_iterator = std::reverse_iterator<const_iterator>;
  using reverse_iterator = const_reverse_iterator;

  ordered_set() {}  // NOLINT: where it is defaulted it stores zeros first, past a transaction
  ordered_set(std::initializer_list<Key> keys) { insert(keys); }
  template <std::input_iterator First>
  ordered_set(First first, First last) {
    insert(first, last);
  }
  ordered_set(const ordered_set& other) { copy(other); }
  ordered_set(ordered_set&& other) { take(other); }  // NOLINT: as ordered_map's
  ordered_set& operator=(const ordered_set& other) {
    if (this != &other) {
      const Step step(this);
      tree_.replace(step, [&] { copy(other); });
    }
    return *this;
  }
  ordered_set& operator=(ordered_set&& other) {  // NOLINT: as ordered_map's
    if (this != &other) take(other);
    return *this;
  }
  ordered_set& operator=(std::initializer_list<Key> keys) {
    const Step step(this);
    tree_.replace(step, [&] { insert(keys); });
    return *this;
  }

  size_type size() const { return tree_.size(); }
  bool empty() const { return size() == 0; }
  key_compare key_comp() const { return Compare{}; }
  const_iterator begin() const { return {&tree_, tree_.first()}; }
  const_iterator end() const { return {&tree_, Place{}}; }
  const_iterator cbegin() const { return begin(); }
  const_iterator cend() const { return end(); }
  const_reverse_iterator rbegin() const { return const_reverse_iterator(end()); }
  const_reverse_iterator rend() const { return const_reverse_iterator(begin()); }

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
  const_iterator lower_bound(const Argument<K>& key) const {
    return {&tree_, tree_.lower_bound(key)};
  }
  template <class K = Key>
  const_iterator upper_bound(const Argument<K>& key) const {
    return {&tree_, tree_.upper_bound(key)};
  }
  template <class K = Key>
  std::pair<const_iterator, const_iterator> equal_range(const Argument<K>& key) const {
    return {lower_bound<K>(key), upper_bound<K>(key)};
  }

  template <class K = Key>
  std::pair<iterator, bool> insert(const Argument<K>& key) {
    const Step step(this);
    const auto made = tree_.find_or_insert(
        step, key, [&](Key& place) { detail::construct_member(step, place, key); });
    return {iterator(&tree_, made.place), made.is_new};
  }
  template <class K = Key>
  std::pair<iterator, bool> emplace(const Argument<K>& key) {
    return insert<K>(key);
  }
  /// Where it throws, the first ones are in.
  template <std::input_iterator First>
  void insert(First first, First last) {
    const Step step(this);
    for (; first != last; ++first) insert(*first);
  }
  void insert(std::initializer_list<Key> keys) { insert(keys.begin(), keys.end()); }
  template <class K = Key>
  size_type erase(const Argument<K>& key) {
    return tree_.erase_key(Step(this), key) ? 1 : 0;
  }
  iterator erase(const_iterator position) {
    return {&tree_, tree_.erase(Step(this), position.place_)};
  }
  iterator erase(const_iterator first, const_iterator last) {
    const Step step(this);
    for (auto left = std::distance(first, last); left != 0; --left) first = erase(first);
    return first;
  }
  void clear() { tree_.clear(Step(this)); }
  void swap(ordered_set& other) {  // NOLINT: memory may be wanted where they lie in different ones
    const Step step(this);
    if (step.shares_memory(&other)) return tree_.exchange(step, other.tree_);
    perdura::detail::exchange_by_copies(*this, other);
  }
  friend void swap(ordered_set& a, ordered_set& b) { a.swap(b); }  // NOLINT: as above

  friend bool operator==(const ordered_set& a, const ordered_set& b) {
    if (a.size() != b.size()) return false;
    for (auto of_a = a.begin(), of_b = b.begin(); of_a != a.end(); ++of_a, ++of_b)
      if (!(*of_a == *of_b)) return false;
    return true;
  }
  friend std::weak_ordering operator<=>(const ordered_set& a, const ordered_set& b)
    requires requires(const Key& key) { key < key; }
  {
    return detail::compare_ranges(a, b,
                                  [](const auto& mine, const auto& other) { return mine < other; });
  }
  /// Checks the tree itself. "" when all is well, else the first thing that is wrong.
  std::string verify() const { return tree_.verify(); }

 private:
  void copy(const ordered_set& other) {
    const Step step(this);
    insert(other.begin(), other.end());
  }
  void take(ordered_set& other) {
    const Step step(this);
    if (step.shares_memory(&other)) return tree_.take(step, other.tree_);
    tree_.replace(step, [&] { copy(other); });
    other.clear();
  }

  Tree tree_;
};

}  // namespace perdura::structures

/// A root knows them.
template <class Key, class Compare>
struct perdura::detail::ContentsOf<perdura::structures::ordered_set<Key, Compare>> {
  using type = ContainedElsewhere<Key>;
};
template <class Key, class Compare>
struct perdura::detail::OwnParts<perdura::structures::ordered_set<Key, Compare>>
    : OwnParts<
          perdura::structures::detail::OrderedTree<Key, structures::detail::Nothing, Compare>> {
  static_assert(sizeof(structures::ordered_set<Key, Compare>) ==
                sizeof(structures::detail::OrderedTree<Key, structures::detail::Nothing, Compare>));
};
template <class Key, class Compare>
inline constexpr bool perdura::kReportsItself<perdura::structures::ordered_set<Key, Compare>> =
    true;
