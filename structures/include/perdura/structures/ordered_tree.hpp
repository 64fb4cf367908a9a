// What ordered_map and ordered_set have in common: a B+-tree.
//
//   head { root, size, height }             height: levels of inner nodes above the leaves
//      |
//      v
//    inner ─────────┬──────────┐            keys[count], children[count + 1]
//      v            v          v
//    leaf ◀─ prev, next ─▶ leaf ◀──▶ leaf   order, links and count in a line; keys; values
//
// The elements of a leaf lie in any order. `order` says which slot has the first one, the second
// one, and behind those that are used which slots are free. So what is inserted moves no other
// element: an insertion stores an element, the leaf's first line and the line of the size. One slot
// of each leaf is free between two calls: what is inserted is constructed there before a leaf that
// is full then is split, since it may be made of an element that the split moves.
//
// Invariants
//  1. root is null exactly when size is 0.
//  2. A leaf has one element at the least, and a free slot. An inner node has one child at the
//     least. Keys of both ascend strictly.
//  3. The keys below children[i] are not above keys[i], and above keys[i - 1]. An inner node's keys
//     are its own copies, and stay when the element that they came from is erased.
//  4. Following next from the leftmost leaf visits all in order, and prev the other way.
//
// A node of which less than a quarter is used becomes one with its neighbour where three quarters
// of one have room for both. So erasing wants no memory. What is inserted behind the last element
// begins a new leaf, so that what comes in order fills each one.
//
// Whatever changes the tree reports exactly what it stores to. In a transaction all of it is loaded
// and stored by that.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <perdura/detail/step.hpp>
#include <perdura/structures/common.hpp>
#include <perdura/structures/reference.hpp>

namespace perdura::structures::detail {

constexpr std::size_t kTreeLine = 64;

/// Of a leaf: a block of one of the heap's sizes, four of which come to a doubling, that has up to
/// 32 elements.
constexpr std::size_t leaf_slots(std::size_t element_bytes) {
  const std::size_t most = std::min<std::size_t>(kTreeLine + 32 * element_bytes, 16 * 1024);
  const std::size_t quarter = std::bit_floor(most) / 4;
  return std::max<std::size_t>(4, (most / quarter * quarter - kTreeLine) / element_bytes);
}

template <class Value, std::size_t kSlots>
struct LeafValues {
  Value values[kSlots];
};
template <std::size_t kSlots>
struct LeafValues<Nothing, kSlots> {};

template <class Value>
constexpr std::size_t kValueBytes = sizeof(Value);
template <>
inline constexpr std::size_t kValueBytes<Nothing> = 0;

struct TreeOrder {
  alignas(std::uint64_t) std::uint8_t slots[32];
};
template <class Key, class Value>
struct alignas(kTreeLine) TreeLeaf {
  static constexpr std::size_t kSlots = leaf_slots(sizeof(Key) + kValueBytes<Value>);
  TreeLeaf() = delete;
  TreeOrder order;
  void* next;
  void* prev;
  std::uint64_t count;
  std::uint64_t unused;
  Key keys[kSlots];
  [[no_unique_address]] LeafValues<Value, kSlots> rest;
};
template <class Key>
struct alignas(kTreeLine) TreeInner {
  static constexpr std::size_t kKeys = std::clamp<std::size_t>(512 / sizeof(Key), 7, 31);
  TreeInner() = delete;
  Key keys[kKeys];
  std::uint64_t count;
  void* children[kKeys + 1];
};

template <class Key, class Value, class Compare>
class OrderedTree {
  static_assert(Storable<Key> && Storable<Value>, PERDURA_STORABLE_SENTENCE);
  static_assert(kMayHold<Key> && kMayHold<Value>);
  static constexpr bool kHasValues = !std::is_same_v<Value, Nothing>;

 public:
  using Order = TreeOrder;
  using Leaf = TreeLeaf<Key, Value>;
  using Inner = TreeInner<Key>;
  static constexpr std::size_t kSlots = leaf_slots(sizeof(Key) + kValueBytes<Value>);
  static constexpr std::size_t kKeys = std::clamp<std::size_t>(512 / sizeof(Key), 7, 31);
  template <class K>
  using Argument = typename KeyArgument<Transparent<Compare>>::template type<K, Key>;

  /// An element: the leaf, and the how manieth of it. No leaf: behind the last one.
  struct Place {
    Leaf* leaf = nullptr;
    std::size_t position = 0;
    friend bool operator==(const Place&, const Place&) = default;
  };

  OrderedTree() {
    const Step step(this);
    step.store(head_, Head{});
  }
  OrderedTree(const OrderedTree&) = delete;
  OrderedTree& operator=(const OrderedTree&) = delete;
  ~OrderedTree() noexcept(false) {
    const Step step(this);
    perdura::detail::destroy_by([&] { release(step); });
  }

  std::size_t size() const { return Look(this).load(head_.size); }

  static Key& key_at(const Look& look, Place place) {
    return place.leaf->keys[slot_of(look, place)];
  }
  static auto& value_at(const Look& look, Place place) {
    return place.leaf->rest.values[slot_of(look, place)];
  }

  Place first() const { return edge(Look(this), false); }
  Place last() const { return edge(Look(this), true); }
  Place next(Place place) const {
    const Look look(this);
    return normal(look, {place.leaf, place.position + 1});
  }
  /// Of what is behind the last one, the last one.
  Place previous(Place place) const {
    const Look look(this);
    if (place.leaf == nullptr) return edge(look, true);
    if (place.position != 0) return {place.leaf, place.position - 1};
    Leaf* const before = to_leaf(look.load(place.leaf->prev));
    return {before, before == nullptr ? 0 : look.load(before->count) - 1};
  }

  template <class K>
  Place find(const K& key) const {
    const Look look(this);
    return look.in_transaction() ? find_by<true>(look, key) : find_by<false>(look, key);
  }
  /// The first one that is not below a key, or, the other one, above it.
  template <class K>
  Place lower_bound(const K& key) const {
    const Look look(this);
    return normal(look, look.in_transaction() ? locate<true>(look, key) : locate<false>(look, key));
  }
  template <class K>
  Place upper_bound(const K& key) const {
    const Place place = lower_bound(key);
    const Look look(this);
    if (place.leaf == nullptr || is_less(key, load_key(look, key_at(look, place)))) return place;
    return next(place);
  }

  struct Inserted {
    Place place;
    bool is_new;
  };
  /// The place of a key; where there is none, what `construct(key, value)`, of a set
  /// `construct(key)`, puts into a new one. Where that throws, the tree has what it had.
  template <class K, class Construct>
  Inserted find_or_insert(const Step& step, const K& key, Construct&& construct) {
    Path path;
    if (!descend(step, path, key)) return {insert_first(step, construct), true};
    if (path.place.position < step.load(path.place.leaf->count) &&
        !is_less(key, load_key(step, key_at(step, path.place))))
      return {path.place, false};
    return {insert(step, path, construct), true};
  }

  template <class K>
  bool erase_key(const Step& step, const K& key) {
    Path path;
    if (!descend(step, path, key)) return false;
    if (path.place.position >= step.load(path.place.leaf->count) ||
        is_less(key, load_key(step, key_at(step, path.place))))
      return false;
    erase(step, path);
    return true;
  }
  /// The one behind it.
  Place erase(const Step& step, Place place) {
    Path path;
    descend(step, path, load_key(step, key_at(step, place)));
    return erase(step, path);
  }

  void clear(const Step& step) {
    release(step);
    step.store(head_, Head{});
  }
  /// What the other one has, which is empty then; both in the same memory.
  void take(const Step& step, OrderedTree& other) {
    clear(step);
    exchange(step, other);
  }
  void exchange(const Step& step, OrderedTree& other) { exchange_heads(step, head_, other.head_); }
  template <class Fill>
  void replace(const Step& step, Fill&& fill) {
    replace_contents(step, head_, [&] { release(step); }, fill);
  }

  /// Checks every invariant. "" when they hold, else the first thing that is wrong.
  std::string verify() const {
    const Look look(this);
    Checker checker(look);
    const Head head = look.load(head_);
    if (head.root == nullptr) return head.size == 0 && head.height == 0 ? "" : "no root, a size";
    checker.walk(head.root, head.height, nullptr, nullptr);
    if (!checker.problem.empty()) return checker.problem;
    if (look.load(checker.last->next) != nullptr) return "the last leaf has a next one";
    return checker.elements == head.size ? "" : "the size is wrong";
  }

 private:
  struct Head {
    void* root = nullptr;
    std::uint64_t size = 0;
    std::uint64_t height = 0;
  };
  // A level more wants three splits of the one below it, and a program makes less than 2^63.
  static constexpr std::size_t kHeightMax = 40;
  static constexpr std::size_t kLeafAlignment = alignof(Leaf);
  static constexpr std::size_t kInnerAlignment = alignof(Inner);

  /// From the root to an element, or to where it belongs; [0] is the leaf's parent.
  struct Path {
    Inner* node[kHeightMax];
    std::size_t index[kHeightMax];
    std::size_t height;
    Place place;
  };

  static Leaf* to_leaf(void* node) { return static_cast<Leaf*>(node); }
  static Inner* to_inner(void* node) { return static_cast<Inner*>(node); }

  template <bool kInTransaction, class T>
  static T load(const Look& look, const T& field) {
    if constexpr (kInTransaction) return look.load(field);
    else return field;
  }
  static std::size_t slot_of(const Look& look, Place place) {
    return look.load(place.leaf->order.slots[place.position]);
  }
  /// A plain one is copied.
  static decltype(auto) load_key(const Look& look, const Key& key) { return load_value(look, key); }
  template <class A, class B>
  static bool is_less(const A& a, const B& b) {
    return Compare{}(a, b);
  }
  template <bool kInTransaction, class K>
  static bool key_is_less(const Look& look, const Key& key, const K& than) {
    if constexpr (Plain<Key>) return Compare{}(load<kInTransaction>(look, key), than);
    else return Compare{}(key, than);
  }

  // --- search -----------------------------------------------------------------------------------

  /// How many of `count` are below `key`; `less(i)` of the one at i. Without a branch on a key,
  /// where comparing has none.
  template <class Less>
  static std::size_t count_less(std::size_t count, Less&& less) {
    if (count == 0) return 0;
    std::size_t base = 0;
    while (count > 1) {
      const std::size_t half = count / 2;
      base += half & (std::size_t{0} - std::size_t{less(base + half - 1)});
      count -= half;
    }
    return base + std::size_t{less(base)};
  }
  template <bool kInTransaction, class K>
  static std::size_t child_index(const Look& look, const Inner* node, const K& key) {
    return count_less(load<kInTransaction>(look, node->count), [&](std::size_t i) {
      return key_is_less<kInTransaction>(look, node->keys[i], key);
    });
  }
  template <bool kInTransaction, class K>
  static std::size_t position_in(const Look& look, const Leaf* leaf, const K& key) {
    const std::size_t count = load<kInTransaction>(look, leaf->count);
    const auto search = [&](const Order& order) {
      return count_less(count, [&](std::size_t i) {
        return key_is_less<kInTransaction>(look, leaf->keys[order.slots[i]], key);
      });
    };
    if constexpr (kInTransaction) return search(look.load(leaf->order));
    else return search(leaf->order);
  }
  /// What a search in it reads, at once.
  static void prefetch(const void* leaf) {
    constexpr std::size_t kLines =
        std::min<std::size_t>(1 + (kSlots * sizeof(Key) + kTreeLine - 1) / kTreeLine, 8);
    const auto* line = static_cast<const std::byte*>(leaf);
    for (std::size_t i = 0; i < kLines; ++i) __builtin_prefetch(line + i * kTreeLine);
  }

  /// The first one of the leaf that is not below a key, or the end of that leaf.
  template <bool kInTransaction, class K>
  Place locate(const Look& look, const K& key) const {
    void* node = load<kInTransaction>(look, head_.root);
    if (node == nullptr) return {};
    for (std::size_t level = load<kInTransaction>(look, head_.height); level != 0; --level) {
      const Inner* const inner = to_inner(node);
      node = load<kInTransaction>(look,
                                  inner->children[child_index<kInTransaction>(look, inner, key)]);
      if (level == 1) prefetch(node);
    }
    return {to_leaf(node), position_in<kInTransaction>(look, to_leaf(node), key)};
  }
  template <bool kInTransaction, class K>
  Place find_by(const Look& look, const K& key) const {
    const Place place = locate<kInTransaction>(look, key);
    if (place.leaf == nullptr || place.position >= load<kInTransaction>(look, place.leaf->count))
      return {};
    const auto slot = load<kInTransaction>(look, place.leaf->order.slots[place.position]);
    if constexpr (Plain<Key>) {
      if (is_less(key, load<kInTransaction>(look, place.leaf->keys[slot]))) return {};
    } else {
      if (is_less(key, place.leaf->keys[slot])) return {};
    }
    return place;
  }
  /// The end of a leaf is the beginning of the next one.
  static Place normal(const Look& look, Place place) {
    if (place.leaf == nullptr || place.position < look.load(place.leaf->count)) return place;
    return {to_leaf(look.load(place.leaf->next)), 0};
  }
  Place edge(const Look& look, bool last) const {
    void* node = look.load(head_.root);
    if (node == nullptr) return {};
    for (std::size_t level = look.load(head_.height); level != 0; --level)
      node = look.load(to_inner(node)->children[last ? look.load(to_inner(node)->count) : 0]);
    return {to_leaf(node), last ? look.load(to_leaf(node)->count) - 1 : 0};
  }

  /// False: there is no leaf.
  template <class K>
  bool descend(const Look& look, Path& path, const K& key) const {
    return look.in_transaction() ? descend_by<true>(look, path, key)
                                 : descend_by<false>(look, path, key);
  }
  template <bool kInTransaction, class K>
  bool descend_by(const Look& look, Path& path, const K& key) const {
    void* node = load<kInTransaction>(look, head_.root);
    if (node == nullptr) return false;
    path.height = load<kInTransaction>(look, head_.height);
    for (std::size_t level = path.height; level-- != 0;) {
      Inner* const inner = to_inner(node);
      path.node[level] = inner;
      path.index[level] = child_index<kInTransaction>(look, inner, key);
      node = load<kInTransaction>(look, inner->children[path.index[level]]);
      if (level == 0) prefetch(node);
    }
    path.place = {to_leaf(node), position_in<kInTransaction>(look, to_leaf(node), key)};
    return true;
  }

  // --- insertion --------------------------------------------------------------------------------

  /// Where elements hold pointers it is zero.
  static Leaf* allocate_leaf(const Step& step) {
    if constexpr (perdura::detail::RecordedElement<Leaf>)
      if (step.is_in_store())
        return to_leaf(step.allocate_block(
            perdura::detail::record_of<Leaf>(),
            perdura::detail::holds_pointers<Key>() || perdura::detail::holds_pointers<Value>()));
    return to_leaf(step.allocate(sizeof(Leaf), kLeafAlignment));
  }
  static void free_leaf(const Step& step, Leaf* leaf) { step.deallocate(leaf, kLeafAlignment); }
  static void free_inner(const Step& step, Inner* node) { step.deallocate(node, kInnerAlignment); }

  template <class Construct>
  static void construct_in(const Step& step, Leaf* leaf, std::size_t slot, Construct& construct) {
    if (!step.in_transaction()) step.touch(leaf->keys + slot, sizeof(Key));
    if constexpr (kHasValues) {
      if (!step.in_transaction()) step.touch(leaf->rest.values + slot, sizeof(Value));
      construct(leaf->keys[slot], leaf->rest.values[slot]);
    } else {
      construct(leaf->keys[slot]);
    }
  }
  static void destroy_in(Leaf* leaf, std::size_t slot) {
    destroy_member(leaf->keys[slot]);
    if constexpr (kHasValues) destroy_member(leaf->rest.values[slot]);
  }
  /// In a slot that is free from now on.
  static void forget_in(const Step& step, Leaf* leaf, std::size_t slot) {
    step.forget(leaf->keys[slot]);
    if constexpr (kHasValues) step.forget(leaf->rest.values[slot]);
  }
  static void relocate_element(const Step& step, Leaf* to, std::size_t slot, const Leaf* from,
                               std::size_t from_slot) {
    relocate(step, to->keys[slot], from->keys[from_slot]);
    if constexpr (kHasValues) relocate(step, to->rest.values[slot], from->rest.values[from_slot]);
  }
  /// To a new leaf.
  static void load_element(const Step& step, Leaf* to, std::size_t slot, const Leaf* from,
                           std::size_t from_slot) {
    step.copy_to_new(to->keys + slot, from->keys + from_slot, sizeof(Key));
    if constexpr (kHasValues)
      step.copy_to_new(to->rest.values + slot, from->rest.values + from_slot, sizeof(Value));
  }
  static void set_order(const Step& step, Leaf* leaf, const Order& order, std::size_t count) {
    step.store(leaf->order, order);
    step.store(leaf->count, count);
  }
  static Order identity() {
    Order order{};
    for (std::size_t i = 0; i < sizeof order.slots; ++i)
      order.slots[i] = static_cast<std::uint8_t>(i);
    return order;
  }
  static void initialize(const Step& step, Leaf* leaf, std::size_t count, void* prev, void* next) {
    step.initialize(leaf->order, identity());
    step.initialize(leaf->count, count);
    step.initialize(leaf->prev, prev);
    step.initialize(leaf->next, next);
  }

  template <class Construct>
  Place insert_first(const Step& step, Construct& construct) {
    Leaf* const leaf = allocate_leaf(step);
    perdura::detail::undone_by([&] { construct_in(step, leaf, 0, construct); },
                               [&] { free_leaf(step, leaf); });
    initialize(step, leaf, 1, nullptr, nullptr);
    step.store(head_, Head{leaf, 1, 0});
    return {leaf, 0};
  }

  template <class Construct>
  Place insert(const Step& step, const Path& path, Construct& construct) {
    const auto [leaf, position] = path.place;
    const std::size_t count = step.load(leaf->count);
    Order order = step.load(leaf->order);
    const std::uint8_t slot = order.slots[count];
    if (count + 1 == kSlots) return insert_and_split(step, path, construct);
    construct_in(step, leaf, slot, construct);
    std::memmove(order.slots + position + 1, order.slots + position, count - position);
    order.slots[position] = slot;
    set_order(step, leaf, order, count + 1);
    step.store(head_.size, step.load(head_.size) + 1);
    return path.place;
  }

  /// What splits want. Where they come to nothing it is given back.
  struct NewNodes {
    Leaf* leaf = nullptr;
    Inner* inner[kHeightMax + 1];
    std::size_t count = 0;
  };
  static void allocate_nodes(const Step& step, const Path& path, NewNodes& nodes) {
    nodes.leaf = allocate_leaf(step);
    std::size_t level = 0;
    for (; level < path.height && step.load(path.node[level]->count) == kKeys; ++level)
      add_inner(step, nodes);
    if (level == path.height) add_inner(step, nodes);
  }
  static void add_inner(const Step& step, NewNodes& nodes) {
    nodes.inner[nodes.count] = step.allocate_elements<Inner>(sizeof(Inner), kInnerAlignment);
    ++nodes.count;
  }
  static void free_nodes(const Step& step, NewNodes& nodes) {
    if (nodes.leaf != nullptr) free_leaf(step, nodes.leaf);
    for (std::size_t i = 0; i < nodes.count; ++i) free_inner(step, nodes.inner[i]);
  }

  /// A key as bytes, on its way to an inner node.
  struct KeyBytes {
    alignas(Key) std::byte bytes[sizeof(Key)];
  };

  template <class Construct>
  Place insert_and_split(const Step& step, const Path& path, Construct& construct) {
    const auto [leaf, position] = path.place;
    Order order = step.load(leaf->order);
    const std::uint8_t slot = order.slots[kSlots - 1];
    std::memmove(order.slots + position + 1, order.slots + position, kSlots - 1 - position);
    order.slots[position] = slot;
    void* const next = step.load(leaf->next);
    const bool is_last = next == nullptr && position == kSlots - 1;
    const std::size_t left = is_last ? kSlots - 1 : kSlots / 2;

    // All that may fail comes first.
    NewNodes nodes;
    KeyBytes bound;
    bool is_made = false;
    perdura::detail::undone_by(
        [&] {
          allocate_nodes(step, path, nodes);
          construct_in(step, leaf, slot, construct);
          is_made = true;
          make_bound(step, leaf->keys[order.slots[left - 1]], nodes.leaf, bound);
        },
        [&] {
          if (is_made) destroy_in(leaf, slot), forget_in(step, leaf, slot);
          free_nodes(step, nodes);
        });

    Leaf* const right = nodes.leaf;
    for (std::size_t i = left; i < kSlots; ++i)
      load_element(step, right, i - left, leaf, order.slots[i]);
    for (std::size_t i = left; i < kSlots; ++i) forget_in(step, leaf, order.slots[i]);
    initialize(step, right, kSlots - left, leaf, next);
    if (next != nullptr) step.store(to_leaf(next)->prev, right);
    step.store(leaf->next, right);
    set_order(step, leaf, order, left);
    step.store(head_.size, step.load(head_.size) + 1);
    insert_child(step, path, nodes, bound, right, is_last);
    if (position < left) return path.place;
    return {right, position - left};
  }

  /// A copy of a key, in the store's memory: it is made where the new leaf has a free slot.
  static void make_bound(const Step& step, const Key& key, Leaf* leaf, KeyBytes& bound) {
    if constexpr (!Plain<Key>) {
      ::new (static_cast<void*>(leaf->keys + kSlots - 1)) Key(key);
      step.load_bytes(leaf->keys + kSlots - 1, bound.bytes, sizeof(Key));
      step.forget(leaf->keys[kSlots - 1]);
    } else {
      step.load_bytes(&key, bound.bytes, sizeof(Key));
    }
  }

  /// On each level behind the child of the path, until a node has room.
  void insert_child(const Step& step, const Path& path, const NewNodes& nodes, KeyBytes bound,
                    void* child, bool is_last) {
    std::size_t level = 0;
    for (; level < path.height; ++level) {
      Inner* const node = path.node[level];
      const std::size_t count = step.load(node->count);
      const std::size_t index = path.index[level];
      if (count != kKeys) return insert_in(step, node, count, index, bound, child);
      split_inner(step, node, nodes.inner[level], index, bound, child, is_last && index == count);
      child = nodes.inner[level];
    }
    Inner* const root = nodes.inner[level];
    step.initialize_bytes(root->keys, bound.bytes, sizeof(Key));
    step.initialize(root->count, 1);
    step.initialize(root->children[0], step.load(head_.root));
    step.initialize(root->children[1], child);
    step.store(head_.root, root);
    step.store(head_.height, path.height + 1);
  }
  static void insert_in(const Step& step, Inner* node, std::size_t count, std::size_t index,
                        const KeyBytes& bound, void* child) {
    if (index != count) {
      step.move_bytes(static_cast<void*>(node->keys + index + 1), node->keys + index,
                      (count - index) * sizeof(Key));
      step.move_bytes(node->children + index + 2, node->children + index + 1,
                      (count - index) * sizeof(void*));
    }
    step.store_bytes(static_cast<void*>(node->keys + index), bound.bytes, sizeof(Key));
    step.store(node->children[index + 1], child);
    step.store(node->count, count + 1);
  }
  /// A full one and a child more become two; `bound` is what is between them then.
  static void split_inner(const Step& step, Inner* left, Inner* right, std::size_t index,
                          KeyBytes& bound, void* child, bool is_last) {
    Row row;
    row.add_keys(step, left->keys, index);
    row.add_key(bound);
    row.add_keys(step, left->keys + index, kKeys - index);
    row.add_children(step, left->children, index + 1);
    row.add_child(child);
    row.add_children(step, left->children + index + 1, kKeys - index);
    const std::size_t middle = is_last ? kKeys - 1 : kKeys / 2;
    bound = row.keys[middle];
    const std::size_t rest = kKeys - middle;
    step.initialize_bytes(right->keys, row.keys + middle + 1, rest * sizeof(Key));
    step.initialize_bytes(right->children, row.children + middle + 1, (rest + 1) * sizeof(void*));
    step.initialize(right->count, rest);
    if (index < middle) {
      step.store_bytes(static_cast<void*>(left->keys + index), row.keys + index,
                       (middle - index) * sizeof(Key));
      step.store_bytes(left->children + index + 1, row.children + index + 1,
                       (middle - index) * sizeof(void*));
    }
    for (std::size_t i = middle; i < kKeys; ++i) {
      step.forget(left->keys[i]);
      step.forget(left->children[i + 1]);
    }
    step.store(left->count, middle);
  }
  /// The keys and children of a node and one more, or of two nodes.
  struct Row {
    KeyBytes keys[kKeys + 1];
    void* children[kKeys + 2];
    std::size_t key_count = 0;
    std::size_t child_count = 0;

    void add_keys(const Step& step, const Key* from, std::size_t count) {
      if (count != 0) step.load_bytes(from, keys + key_count, count * sizeof(Key));
      key_count += count;
    }
    void add_key(const KeyBytes& key) { keys[key_count++] = key; }
    void add_children(const Step& step, void* const* from, std::size_t count) {
      if (count != 0) step.load_bytes(from, children + child_count, count * sizeof(void*));
      child_count += count;
    }
    void add_child(void* child) { children[child_count++] = child; }
  };

  // --- erasing ----------------------------------------------------------------------------------

  Place erase(const Step& step, const Path& path) {
    const auto [leaf, position] = path.place;
    const std::size_t count = step.load(leaf->count) - 1;
    Order order = step.load(leaf->order);
    const std::uint8_t slot = order.slots[position];
    destroy_in(leaf, slot);
    forget_in(step, leaf, slot);
    step.store(head_.size, step.load(head_.size) - 1);
    if (count == 0) return remove_leaf(step, path);
    std::memmove(order.slots + position, order.slots + position + 1, count - position);
    order.slots[count] = slot;
    set_order(step, leaf, order, count);
    if (count < kSlots / 4 && path.height != 0) return normal(step, merge_leaf(step, path));
    return normal(step, path.place);
  }

  Place remove_leaf(const Step& step, const Path& path) {
    Leaf* const leaf = path.place.leaf;
    Leaf* const next = to_leaf(step.load(leaf->next));
    unlink(step, leaf);
    if (path.height == 0) step.store(head_, Head{});
    else remove_child(step, path, 0, path.index[0], true);
    free_leaf(step, leaf);
    return {next, 0};
  }
  static void unlink(const Step& step, Leaf* leaf) {
    Leaf* const next = to_leaf(step.load(leaf->next));
    Leaf* const prev = to_leaf(step.load(leaf->prev));
    if (next != nullptr) step.store(next->prev, prev);
    if (prev != nullptr) step.store(prev->next, next);
  }

  /// With a neighbour, where both have room in one. Where the element of the path is then.
  Place merge_leaf(const Step& step, const Path& path) {
    const auto [leaf, position] = path.place;
    Inner* const parent = path.node[0];
    const std::size_t index = path.index[0];
    const std::size_t count = step.load(leaf->count);
    const auto fits = [&](Leaf* other) {
      return count + step.load(other->count) <= kSlots * 3 / 4;
    };
    if (index < step.load(parent->count)) {
      Leaf* const right = to_leaf(step.load(parent->children[index + 1]));
      if (fits(right)) {
        merge(step, path, leaf, right, index + 1);
        return path.place;
      }
    }
    if (index == 0) return path.place;
    Leaf* const left = to_leaf(step.load(parent->children[index - 1]));
    if (!fits(left)) return path.place;
    const std::size_t before = step.load(left->count);
    merge(step, path, left, leaf, index);
    return {left, before + position};
  }
  void merge(const Step& step, const Path& path, Leaf* left, Leaf* right, std::size_t right_index) {
    const std::size_t count = step.load(left->count);
    const std::size_t added = step.load(right->count);
    const Order order = step.load(left->order);
    const Order right_order = step.load(right->order);
    for (std::size_t i = 0; i < added; ++i)
      relocate_element(step, left, order.slots[count + i], right, right_order.slots[i]);
    step.store(left->count, count + added);
    unlink(step, right);
    remove_child(step, path, 0, right_index, true);
    free_leaf(step, right);
  }

  /// From the node of the path on a level. With it goes the key before it, which is destroyed
  /// unless it has moved.
  void remove_child(const Step& step, const Path& path, std::size_t level, std::size_t child,
                    bool destroys_key) {
    Inner* const node = path.node[level];
    const std::size_t count = step.load(node->count);
    const bool is_root = level + 1 == path.height;
    if (count == 0) {
      if (is_root) step.store(head_, Head{});
      else remove_child(step, path, level + 1, path.index[level + 1], true);
      return free_inner(step, node);
    }
    const std::size_t key = child == 0 ? 0 : child - 1;
    if (destroys_key) destroy_member(node->keys[key]);
    if (key + 1 != count)
      step.move_bytes(static_cast<void*>(node->keys + key), node->keys + key + 1,
                      (count - key - 1) * sizeof(Key));
    if (child != count)
      step.move_bytes(node->children + child, node->children + child + 1,
                      (count - child) * sizeof(void*));
    step.forget(node->keys[count - 1]);
    step.forget(node->children[count]);
    step.store(node->count, count - 1);
    if (is_root) shrink_root(step);
    else if (count - 1 < kKeys / 4) merge_inner(step, path, level);
  }
  /// One with a single child gives way to it.
  void shrink_root(const Step& step) {
    std::size_t height = step.load(head_.height);
    while (height != 0) {
      Inner* const root = to_inner(step.load(head_.root));
      if (step.load(root->count) != 0) return;
      step.store(head_.root, step.load(root->children[0]));
      step.store(head_.height, --height);
      free_inner(step, root);
    }
  }
  void merge_inner(const Step& step, const Path& path, std::size_t level) {
    Inner* const node = path.node[level];
    Inner* const parent = path.node[level + 1];
    const std::size_t index = path.index[level + 1];
    const auto fits = [&](void* other) {
      return step.load(node->count) + step.load(to_inner(other)->count) + 1 <= kKeys * 3 / 4;
    };
    for (const std::size_t left : {index, index - 1}) {
      if (left >= step.load(parent->count)) continue;  // the first one has none before it
      void* const of_left = step.load(parent->children[left]);
      void* const of_right = step.load(parent->children[left + 1]);
      if (!fits(of_left == node ? of_right : of_left)) continue;
      join(step, to_inner(of_left), parent->keys[left], to_inner(of_right));
      remove_child(step, path, level + 1, left + 1, false);
      return free_inner(step, to_inner(of_right));
    }
  }
  static void join(const Step& step, Inner* left, const Key& between, const Inner* right) {
    Row row;
    row.add_keys(step, &between, 1);
    const std::size_t added = step.load(right->count);
    row.add_keys(step, right->keys, added);
    row.add_children(step, right->children, added + 1);
    const std::size_t count = step.load(left->count);
    step.store_bytes(static_cast<void*>(left->keys + count), row.keys, (added + 1) * sizeof(Key));
    step.store_bytes(left->children + count + 1, row.children, (added + 1) * sizeof(void*));
    step.store(left->count, count + added + 1);
  }

  /// All nodes, and what is in them.
  void release(const Step& step) {
    const Head head = step.load(head_);
    if (head.root != nullptr) release(step, head.root, head.height);
  }
  static void release(const Step& step, void* node, std::size_t height) {
    if (height == 0) {
      Leaf* const leaf = to_leaf(node);
      if constexpr (!Plain<Key> || !Plain<Value>) {
        const Order order = step.load(leaf->order);
        for (std::size_t i = 0, count = step.load(leaf->count); i < count; ++i)
          destroy_in(leaf, order.slots[i]);
      }
      return free_leaf(step, leaf);
    }
    Inner* const inner = to_inner(node);
    const std::size_t count = step.load(inner->count);
    for (std::size_t i = 0; i <= count; ++i) {
      release(step, step.load(inner->children[i]), height - 1);
      if (i != count) destroy_member(inner->keys[i]);
    }
    free_inner(step, inner);
  }

  // --- verification -----------------------------------------------------------------------------

  struct Checker {
    explicit Checker(const Look& of) : look(of) {}
    const Look& look;
    std::string problem;
    Leaf* last = nullptr;
    std::size_t elements = 0;

    /// Every key of the subtree is above *low and not above *high, where given.
    void walk(void* node, std::size_t height, const Key* low, const Key* high) {
      const char* const wrong = height == 0 ? check_leaf(to_leaf(node), low, high)
                                            : check_inner(to_inner(node), low, high);
      if (wrong != nullptr) problem = wrong;
      if (!problem.empty()) return;
      if (height == 0) {
        last = to_leaf(node);
        elements += look.load(last->count);
        return;
      }
      const Inner* const inner = to_inner(node);
      const std::size_t count = look.load(inner->count);
      for (std::size_t i = 0; i <= count && problem.empty(); ++i)
        walk(look.load(inner->children[i]), height - 1, i == 0 ? low : inner->keys + i - 1,
             i == count ? high : inner->keys + i);
    }
    bool less(const Key& a, const Key& b) const {
      return is_less(load_key(look, a), load_key(look, b));
    }
    const char* check_key(const Key& key, const Key* before, const Key* low,
                          const Key* high) const {
      if (before != nullptr && !less(*before, key)) return "keys do not ascend";
      if (low != nullptr && !less(*low, key)) return "a key is not above its node's range";
      if (high != nullptr && less(*high, key)) return "a key is above its node's range";
      return nullptr;
    }
    const char* check_leaf(Leaf* leaf, const Key* low, const Key* high) const {
      const std::size_t count = look.load(leaf->count);
      const Order order = look.load(leaf->order);
      if (count == 0 || count >= kSlots) return "a leaf's count is wrong";
      if (to_leaf(look.load(leaf->prev)) != last) return "a leaf's prev is wrong";
      if (last != nullptr && look.load(last->next) != leaf) return "a leaf's next is wrong";
      std::uint64_t seen = 0;
      for (std::size_t i = 0; i < kSlots; ++i) seen |= std::uint64_t{1} << order.slots[i];
      if (seen != (std::uint64_t{1} << kSlots) - 1) return "a leaf's order is not one of its slots";
      for (std::size_t i = 0; i < count; ++i) {
        const Key* const before = i == 0 ? nullptr : leaf->keys + order.slots[i - 1];
        if (const char* wrong = check_key(leaf->keys[order.slots[i]], before, low, high))
          return wrong;
      }
      return nullptr;
    }
    const char* check_inner(const Inner* node, const Key* low, const Key* high) const {
      const std::size_t count = look.load(node->count);
      if (count > kKeys) return "an inner node's count is wrong";
      for (std::size_t i = 0; i < count; ++i)
        if (const char* wrong =
                check_key(node->keys[i], i == 0 ? nullptr : node->keys + i - 1, low, high))
          return wrong;
      return nullptr;
    }
  };

  static_assert(kSlots <= sizeof(Order::slots));
  friend struct perdura::detail::OwnParts<OrderedTree>;
  Head head_;
};

/// What the iterators of a map and of a set have in common.
template <class Iterator, class Tree>
class TreeIterator {
 public:
  // What they give is no reference, as vector<bool>'s is none; std::prev and others ask for this.
  using iterator_category = std::bidirectional_iterator_tag;
  using difference_type = std::ptrdiff_t;

  Iterator& operator++() {
    place_ = tree_->next(place_);
    return static_cast<Iterator&>(*this);
  }
  Iterator operator++(int) {
    Iterator before = static_cast<Iterator&>(*this);
    ++*this;
    return before;
  }
  Iterator& operator--() {
    place_ = tree_->previous(place_);
    return static_cast<Iterator&>(*this);
  }
  Iterator operator--(int) {
    Iterator before = static_cast<Iterator&>(*this);
    --*this;
    return before;
  }
  friend bool operator==(const Iterator& a, const Iterator& b) { return a.place_ == b.place_; }

 protected:
  TreeIterator() = default;
  TreeIterator(const Tree* tree, typename Tree::Place place) : tree_(tree), place_(place) {}
  const Tree* tree_ = nullptr;
  typename Tree::Place place_;
};

}  // namespace perdura::structures::detail

template <class Key, class Value, class Compare>
struct perdura::detail::OwnParts<perdura::structures::detail::OrderedTree<Key, Value, Compare>> {
  using Tree = structures::detail::OrderedTree<Key, Value, Compare>;
  static constexpr bool kKnown = true;
  static constexpr bool kHasMembers = false;
  static std::vector<Part> parts() {
    return {part_of<void*>("root", offsetof(Tree, head_) + offsetof(typename Tree::Head, root))};
  }
};
template <class Key, class Value>
struct perdura::detail::OwnParts<perdura::structures::detail::TreeLeaf<Key, Value>> {
  using Leaf = structures::detail::TreeLeaf<Key, Value>;
  static constexpr bool kKnown = find_pointers<Key>() && find_pointers<Value>();
  static constexpr bool kHasMembers = true;
  static std::vector<Part> parts() {
    std::vector<Part> all{part_of<void*>("next", offsetof(Leaf, next)),
                          part_of<void*>("prev", offsetof(Leaf, prev)),
                          part_of<Key[Leaf::kSlots]>("keys", offsetof(Leaf, keys))};
    if constexpr (!std::is_same_v<Value, structures::detail::Nothing>)
      all.push_back(part_of<Value[Leaf::kSlots]>("values", offsetof(Leaf, rest)));
    return all;
  }
};
/// A child behind the last one is zero, and those that are there are nodes.
template <class Key>
struct perdura::detail::OwnParts<perdura::structures::detail::TreeInner<Key>> {
  using Inner = structures::detail::TreeInner<Key>;
  static constexpr bool kKnown = find_pointers<Key>();
  static constexpr bool kHasMembers = true;
  static std::vector<Part> parts() {
    return {part_of<Key[Inner::kKeys]>("keys", offsetof(Inner, keys)),
            part_of<void * [Inner::kKeys + 1]>("children", offsetof(Inner, children))};
  }
};
