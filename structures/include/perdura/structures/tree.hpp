// A binary search tree of keys in arrays, as the state of an object whose calls are logged
// (docs/objects.md): SIMPO's Tree (Table 3), whose insertElement, deleteElement, balance and
// searchElement are insert_element, delete_element, balance and search_element.
//
//   a link is a node's number and 1; 0 is none
//
//   root_ ──▶ keys_[i], left_[i], right_[i]       free_ ──▶ left_[i] ──▶ …    nodes that were used
//                                                  used_: those behind never were
//
// It becomes balanced when balance() says so, and not otherwise: keys that come in order make it as
// deep as they are many. An insertion that finds it full is dropped, and counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <type_traits>

#include <perdura/objects.hpp>

namespace perdura::structures {

/// `Compare` has no state of its own, throws nothing, and is the same in each run of the program.
template <class Key, std::size_t Capacity, class Compare = std::less<Key>>
  requires std::is_trivially_copyable_v<Key> && std::is_empty_v<Compare> && (Capacity != 0) &&
           (Capacity < std::numeric_limits<std::uint32_t>::max())
class Tree {
  using Link = std::uint32_t;

 public:
  static constexpr std::size_t kCapacity = Capacity;

  // --- deferrable
  /// Changes nothing where the key is there.
  void insert_element(Key key) noexcept {
    Link& at = find(*this, key);
    if (at != 0) return;
    const Link node = take_node();
    if (node == 0) return void(++dropped_);
    keys_[node - 1] = key;
    left(node) = right(node) = 0;
    at = node;
    ++size_;
  }
  /// Changes nothing where it is not.
  void delete_element(Key key) noexcept {
    Link& at = find(*this, key);
    const Link node = at;
    if (node == 0) return;
    if (left(node) == 0) {
      at = right(node);
    } else if (right(node) == 0) {
      at = left(node);
    } else {
      const Link next = take_least(right(node));
      left(next) = left(node);
      right(next) = right(node);
      at = next;
    }
    left(node) = free_;
    free_ = node;
    --size_;
  }
  /// As flat as so many keys can be, in no memory but the tree's (Day, 1976).
  void balance() noexcept {
    for (Link* at = &root_; *at != 0;) {
      if (left(*at) == 0) at = &right(*at);
      else rotate_right(*at);
    }
    for (Link count = size_ / 2; count != 0; count /= 2) rotate_every_other(count);
  }
  void clear() noexcept { root_ = free_ = used_ = size_ = dropped_ = 0; }

  // --- reads
  bool search_element(Key key) const noexcept { return find(*this, key) != 0; }
  /// How many keys are above it; nothing where it is not there.
  std::optional<std::uint32_t> depth(Key key) const noexcept {
    std::uint32_t steps = 0;
    for (Link at = root_; at != 0; ++steps) {
      const Key& here = keys_[at - 1];
      if (Compare{}(key, here)) at = left_[at - 1];
      else if (Compare{}(here, key)) at = right_[at - 1];
      else return steps;
    }
    return std::nullopt;
  }
  std::uint32_t size() const noexcept { return size_; }
  /// How many found it full since it was cleared.
  std::uint32_t dropped() const noexcept { return dropped_; }

 private:
  Link& left(Link node) noexcept { return left_[node - 1]; }
  Link& right(Link node) noexcept { return right_[node - 1]; }
  /// The link that leads to the key, or would: then it is 0.
  template <class Self>
  static auto& find(Self& self, const Key& key) noexcept {
    auto* at = &self.root_;
    while (*at != 0) {
      const Key& here = self.keys_[*at - 1];
      if (Compare{}(key, here)) at = &self.left_[*at - 1];
      else if (Compare{}(here, key)) at = &self.right_[*at - 1];
      else break;
    }
    return *at;
  }
  Link take_node() noexcept {
    if (free_ == 0) return used_ == Capacity ? 0 : ++used_;
    const Link node = free_;
    free_ = left(node);
    return node;
  }
  /// Out of the tree below `from`, which is not empty.
  Link take_least(Link& from) noexcept {
    Link* at = &from;
    while (left(*at) != 0) at = &left(*at);
    const Link node = *at;
    *at = right(node);
    return node;
  }
  void rotate_right(Link& at) noexcept {
    const Link child = left(at);
    left(at) = right(child);
    right(child) = at;
    at = child;
  }
  void rotate_left(Link& at) noexcept {
    const Link child = right(at);
    right(at) = left(child);
    left(child) = at;
    at = child;
  }
  void rotate_every_other(Link count) noexcept {
    Link* at = &root_;
    for (Link i = 0; i < count; ++i) {
      rotate_left(*at);
      at = &right(*at);
    }
  }

  Link root_;
  Link free_;
  Link used_;
  std::uint32_t size_;
  std::uint32_t dropped_;
  Link left_[Capacity];
  Link right_[Capacity];
  Key keys_[Capacity];
};

}  // namespace perdura::structures

template <class Key, std::size_t Capacity, class Compare>
struct perdura::Methods<perdura::structures::Tree<Key, Capacity, Compare>>
    : perdura::MethodList<
          perdura::Deferrable<&perdura::structures::Tree<Key, Capacity, Compare>::insert_element>,
          perdura::Deferrable<&perdura::structures::Tree<Key, Capacity, Compare>::delete_element>,
          perdura::Deferrable<&perdura::structures::Tree<Key, Capacity, Compare>::balance>,
          perdura::Deferrable<&perdura::structures::Tree<Key, Capacity, Compare>::clear>> {};
