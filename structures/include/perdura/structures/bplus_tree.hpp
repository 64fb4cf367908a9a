// An ordered index: a B+-tree of 512-byte nodes (bplus_node.hpp) with 64-bit keys and 8-byte
// values, usually pointers.
//
//   BPlusTree { root, size, level }          24 bytes, all the state there is: it can be a root of
//        |                                   a store, or a member of an object in its heap
//        v
//      inner ──────────┬───────────┐
//        v             v           v
//      leaf ── next ─▶ leaf ─────▶ leaf ──▶ null
//
// Whatever changes the tree takes an environment (memory.hpp) as its first argument, and reports
// exactly the byte ranges it is about to store to. A failed allocation leaves the tree as it was.
//
// Invariants, besides the node's
//  1. root is null exactly when size is 0; level is the root's.
//  2. No node is empty: a leaf has at least one key, an inner node at least two children. Erasing
//     merges a node that falls below kCountMin with a sibling, or refills it from one.
//  3. Following next from the leftmost leaf visits all keys in ascending order.
//
// Readers may run at the same time as each other, not as a writer.
#pragma once

#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <type_traits>

#include <perdura/structures/bplus_node.hpp>
#include <perdura/structures/memory.hpp>

namespace perdura::structures {

template <class Value>
class BPlusTree {
  static_assert(sizeof(Value) == 8 && std::is_trivially_copyable_v<Value>);
  using Node = detail::Node;
  using u16 = detail::u16;
  using u64 = detail::u64;

 public:
  BPlusTree() = default;
  BPlusTree(const BPlusTree&) = delete;
  BPlusTree& operator=(const BPlusTree&) = delete;

  u64 size() const { return size_; }
  unsigned height() const { return root_ == nullptr ? 0 : level_ + 1; }

  std::optional<Value> find(u64 key) const {
    if (root_ == nullptr) [[unlikely]]
      return std::nullopt;
    const auto [leaf, position] = detail::locate(root_, level_, key);
    if (!holds(leaf, position, key)) return std::nullopt;
    return value_at(leaf, position);
  }

  /// False, and no change, when the key is there already.
  template <class Env>
  bool insert(Env&& env, u64 key, Value value) {
    if (root_ == nullptr) {
      insert_first(env, key, value);
      return true;
    }
    Path path;
    if (descend(path, key)) return false;
    insert_on_path(env, path, {key, std::bit_cast<u64>(value)});
    set(env, size_, size_ + 1);
    return true;
  }

  /// Give the key another value. False when it is not there.
  template <class Env>
  bool assign(Env&& env, u64 key, Value value) {
    if (root_ == nullptr) return false;
    const auto [leaf, position] = detail::locate(root_, level_, key);
    if (!holds(leaf, position, key)) return false;
    set(env, leaf->slots[position], std::bit_cast<u64>(value));
    return true;
  }

  /// The value the key had; none when it was not there.
  template <class Env>
  std::optional<Value> erase(Env&& env, u64 key) {
    if (root_ == nullptr) return std::nullopt;
    Path path;
    if (!descend(path, key)) return std::nullopt;
    const Value value = value_at(path.node[0], path.index[0]);
    remove_slot(env, path.node[0], path.index[0]);
    set(env, size_, size_ - 1);
    for (unsigned level = 0; level < level_ && path.node[level]->count < kCountMin; ++level)
      join(env, path, level);
    shrink_root(env);
    return value;
  }

  template <class Env>
  void clear(Env&& env) {
    if (root_ == nullptr) return;
    free_below(env, root_);
    set(env, root_, static_cast<Node*>(nullptr));
    set(env, size_, u64{0});
    set(env, level_, 0u);
  }

  /// A position in key order. Any change of the tree invalidates it.
  class Cursor {
   public:
    explicit operator bool() const { return leaf_ != nullptr; }
    u64 key() const { return leaf_->keys[position_]; }
    Value value() const { return value_at(leaf_, position_); }
    void next() {
      if (++position_ >= leaf_->count) enter(leaf_->next());
    }

   private:
    friend class BPlusTree;
    Cursor() = default;
    Cursor(const Node* leaf, std::size_t position) : leaf_(leaf), position_(position) {
      if (position >= leaf->count) {
        enter(leaf->next());
      } else {
        prefetch_next();
      }
    }
    void enter(const Node* leaf) {
      leaf_ = leaf;
      position_ = 0;
      if (leaf != nullptr) prefetch_next();
    }
    void prefetch_next() const {
      if (const Node* next = leaf_->next()) {
        detail::prefetch_keys(next);
        detail::prefetch_slots(next);
      }
    }
    const Node* leaf_ = nullptr;
    std::size_t position_ = 0;
  };

  /// The first key that is not less than `key`; a false cursor when there is none.
  Cursor lower_bound(u64 key) const {
    if (root_ == nullptr) return Cursor();
    const auto [leaf, position] = detail::locate(root_, level_, key);
    return Cursor(leaf, position);
  }

  /// visit(key, value) for at most `limit` keys from `from` on, in order. How many there were.
  template <class Visit>
  u64 scan(u64 from, u64 limit, Visit&& visit) const {
    u64 visited = 0;
    for (Cursor at = lower_bound(from); at && visited < limit; at.next(), ++visited)
      visit(at.key(), at.value());
    return visited;
  }

  /// Check every invariant. Empty when they hold, else the first thing wrong.
  std::string verify() const {
    if (root_ == nullptr) return size_ == 0 && level_ == 0 ? "" : "an empty tree has a size";
    Checker checker;
    checker.walk(root_, level_, nullptr, nullptr);
    if (checker.problem.empty() && checker.last_leaf->next() != nullptr)
      checker.problem = "the last leaf has a successor";
    if (checker.problem.empty() && checker.keys != size_) checker.problem = "the size is wrong";
    return checker.problem;
  }

 private:
  static constexpr unsigned kLevelsMax = 16;  // 16^16 keys at the least
  static constexpr unsigned kCountMin = 8;
  /// Siblings merge when the result leaves room, so that the next insertion does not split it.
  static constexpr unsigned kMergeMax = 24;

  /// The way from the root to a leaf: per level the node, and the index of the child taken (of the
  /// key, in the leaf).
  struct Path {
    Node* node[kLevelsMax];
    unsigned index[kLevelsMax];
  };

  static Value value_at(const Node* leaf, std::size_t position) {
    return std::bit_cast<Value>(leaf->slots[position]);
  }
  static bool holds(const Node* leaf, std::size_t position, u64 key) {
    return position < leaf->count && leaf->keys[position] == key;
  }

  template <class Env, class T>
  static void set(Env& env, T& place, T value) {
    env.touch(&place, sizeof(T));
    place = value;
  }

  /// Whether the key is there.
  bool descend(Path& path, u64 key) const {
    Node* node = root_;
    for (unsigned level = level_;; --level) {
      const auto index = static_cast<unsigned>(detail::locate(node, 0, key).position);
      path.node[level] = node;
      path.index[level] = index;
      if (level == 0) return holds(node, index, key);
      node = node->child(index);
    }
  }

  template <class Env>
  static Node* allocate_node(Env& env, unsigned level) {
    auto* node = static_cast<Node*>(env.allocate(sizeof(Node), alignof(Node)));
    node->level = static_cast<u16>(level);
    node->reserved = 0;
    node->slots[Node::kNextLeaf] = 0;
    return node;
  }

  template <class Env>
  void insert_first(Env& env, u64 key, Value value) {
    Node* leaf = allocate_node(env, 0);
    const u64 slot = std::bit_cast<u64>(value);
    fill(leaf, &key, 1, &slot, 1);
    set(env, root_, leaf);
    set(env, size_, u64{1});
  }

  /// Contents of a node nobody sees yet.
  static void fill(Node* node, const u64* keys, unsigned count, const u64* slots, unsigned used) {
    std::memcpy(node->keys, keys, count * sizeof(u64));
    std::memset(node->keys + count, 0xff, (Node::kKeys - count) * sizeof(u64));
    std::memcpy(node->slots, slots, used * sizeof(u64));
    node->count = static_cast<u16>(count);
  }

  /// In an inner node the child belonging to a key's right side stands one slot further.
  static unsigned slot_shift(const Node* node) { return node->level == 0 ? 0 : 1; }
  static unsigned slots_used(const Node* node) { return node->count + slot_shift(node); }

  // --- insertion ------------------------------------------------------------------------------

  /// What a node takes in: a leaf a key with its value; an inner node the key that bounds the child
  /// it has at that position, and the child after it.
  struct Entry {
    u64 key;
    u64 slot;
  };

  /// Make room at `position` of a node that is not full.
  template <class Env>
  static void insert_entry(Env& env, Node* node, unsigned position, Entry entry) {
    const unsigned count = node->count, first = position + slot_shift(node);
    const unsigned keys_moved = count - position, slots_moved = slots_used(node) - first;
    env.touch(node->keys + position, (keys_moved + 1) * sizeof(u64));
    env.touch(&node->count, sizeof(node->count));
    env.touch(node->slots + first, (slots_moved + 1) * sizeof(u64));
    std::memmove(node->keys + position + 1, node->keys + position, keys_moved * sizeof(u64));
    std::memmove(node->slots + first + 1, node->slots + first, slots_moved * sizeof(u64));
    node->keys[position] = entry.key;
    node->slots[first] = entry.slot;
    node->count = static_cast<u16>(count + 1);
  }

  /// The nodes a splitting insertion needs, allocated before it changes anything.
  template <class Env>
  class Spares {
   public:
    Spares(Env& env, const Path& path, unsigned root_level) : env_(env) {
      try {
        unsigned level = 0;
        while (level <= root_level && path.node[level]->count == Node::kKeys) add(level++);
        if (level > root_level) add(level);  // the root splits: a new one above it
      } catch (...) {
        while (count_ != 0) env_.deallocate(nodes_[--count_]);
        throw;
      }
    }
    Node* on_level(unsigned level) const { return nodes_[level]; }

   private:
    void add(unsigned level) {
      nodes_[count_] = allocate_node(env_, level);
      ++count_;
    }
    Env& env_;
    Node* nodes_[kLevelsMax + 1];
    unsigned count_ = 0;
  };

  template <class Env>
  void insert_on_path(Env& env, const Path& path, Entry entry) {
    const unsigned root_level = level_;
    const Spares<Env> spares(env, path, root_level);
    // Keys that arrive in order leave full nodes behind.
    const bool at_end = path.node[0]->next() == nullptr && path.index[0] == path.node[0]->count;
    for (unsigned level = 0; level <= root_level; ++level) {
      Node* node = path.node[level];
      if (node->count < Node::kKeys) {
        insert_entry(env, node, path.index[level], entry);
        return;
      }
      Node* right = spares.on_level(level);
      const unsigned left_max = Node::kKeys - slot_shift(node);
      const unsigned left = at_end ? left_max : (Node::kKeys + 1) / 2;
      entry = {split(env, node, path.index[level], entry, left, right), Node::slot_of(right)};
    }
    Node* root = spares.on_level(root_level + 1);
    const u64 children[] = {Node::slot_of(root_), entry.slot};
    fill(root, &entry.key, 1, children, 2);
    set(env, root_, root);
    set(env, level_, level_ + 1);
  }

  /// Insert into a full node that keeps `left` keys; the rest goes to `right`. Returns the key that
  /// bounds the lower part: from an inner node it moves up.
  template <class Env>
  static u64 split(Env& env, Node* node, unsigned position, Entry entry, unsigned left,
                   Node* right) {
    constexpr unsigned kTotal = Node::kKeys + 1;
    const unsigned shift = slot_shift(node), first = position + shift;
    u64 keys[kTotal], slots[kTotal + 1];
    std::memcpy(keys, node->keys, position * sizeof(u64));
    keys[position] = entry.key;
    std::memcpy(keys + position + 1, node->keys + position, (Node::kKeys - position) * sizeof(u64));
    std::memcpy(slots, node->slots, first * sizeof(u64));
    slots[first] = entry.slot;
    std::memcpy(slots + first + 1, node->slots + first,
                (Node::kKeys + shift - first) * sizeof(u64));

    const unsigned moved = left + shift;
    fill(right, keys + moved, kTotal - moved, slots + moved, kTotal + shift - moved);
    keep_left(env, node, position, left, keys, slots);
    if (shift == 0) {
      right->slots[Node::kNextLeaf] = node->slots[Node::kNextLeaf];
      set(env, node->slots[Node::kNextLeaf], Node::slot_of(right));
    }
    return shift == 0 ? keys[left - 1] : keys[left];
  }

  /// Cut a full node down to its lower part, in which only what is at or after `position` moved.
  template <class Env>
  static void keep_left(Env& env, Node* node, unsigned position, unsigned left, const u64* keys,
                        const u64* slots) {
    if (left == Node::kKeys) return;
    const unsigned from = position < left ? position : left;
    env.touch(node->keys + from, (Node::kKeys - from) * sizeof(u64));
    std::memcpy(node->keys + from, keys + from, (left - from) * sizeof(u64));
    std::memset(node->keys + left, 0xff, (Node::kKeys - left) * sizeof(u64));
    const unsigned shift = slot_shift(node), first = position + shift, used = left + shift;
    if (first < used) {
      env.touch(node->slots + first, (used - first) * sizeof(u64));
      std::memcpy(node->slots + first, slots + first, (used - first) * sizeof(u64));
    }
    set(env, node->count, static_cast<u16>(left));
  }

  // --- removal --------------------------------------------------------------------------------

  /// Remove the key at `position`, and the value with it, or the child after it.
  template <class Env>
  static void remove_slot(Env& env, Node* node, unsigned position) {
    const unsigned count = node->count, first = position + slot_shift(node);
    const unsigned keys_moved = count - position - 1, slots_moved = slots_used(node) - first - 1;
    env.touch(node->keys + position, (keys_moved + 1) * sizeof(u64));
    env.touch(&node->count, sizeof(node->count));
    if (slots_moved != 0) env.touch(node->slots + first, slots_moved * sizeof(u64));
    std::memmove(node->keys + position, node->keys + position + 1, keys_moved * sizeof(u64));
    std::memmove(node->slots + first, node->slots + first + 1, slots_moved * sizeof(u64));
    node->keys[count - 1] = Node::kUnusedKey;
    node->count = static_cast<u16>(count - 1);
  }

  /// Bring the node on `level` of the path back to kCountMin keys, by a sibling's help.
  template <class Env>
  static void join(Env& env, const Path& path, unsigned level) {
    Node* parent = path.node[level + 1];
    const unsigned index = path.index[level + 1];
    const unsigned left_index = index == 0 ? 0 : index - 1;
    Node* left = parent->child(left_index);
    Node* right = parent->child(left_index + 1);
    const unsigned shift = slot_shift(left);  // an inner node also takes the key between them
    if (left->count + right->count + shift <= kMergeMax) {
      merge(env, left, right, parent->keys[left_index]);
      remove_slot(env, parent, left_index);
      env.deallocate(right);
    } else {
      set(env, parent->keys[left_index], share(env, left, right, parent->keys[left_index]));
    }
  }

  template <class Env>
  static void merge(Env& env, Node* left, const Node* right, u64 bound) {
    Row row(left, bound, right);
    row.store(env, left, 0, row.keys_total, left->count);
    if (left->level == 0) set(env, left->slots[Node::kNextLeaf], right->slots[Node::kNextLeaf]);
  }

  /// Spread the keys of both evenly; returns the key that bounds the left one.
  template <class Env>
  static u64 share(Env& env, Node* left, Node* right, u64 bound) {
    Row row(left, bound, right);
    const unsigned shift = slot_shift(left), count = (row.keys_total - shift) / 2;
    const unsigned unchanged = left->count < count ? left->count : count;
    row.store(env, left, 0, count, unchanged);
    row.store(env, right, count + shift, row.keys_total - count - shift, 0);
    return shift == 0 ? row.keys[count - 1] : row.keys[count];
  }

  /// The keys and slots of two siblings side by side, on the stack.
  struct Row {
    Row(const Node* left, u64 bound, const Node* right) {
      const unsigned shift = slot_shift(left), middle = left->count + shift;
      std::memcpy(keys, left->keys, left->count * sizeof(u64));
      if (shift == 1) keys[left->count] = bound;
      std::memcpy(keys + middle, right->keys, right->count * sizeof(u64));
      std::memcpy(slots, left->slots, slots_used(left) * sizeof(u64));
      std::memcpy(slots + slots_used(left), right->slots, slots_used(right) * sizeof(u64));
      keys_total = middle + right->count;
    }

    /// Give `node` the `count` keys from `first` on, of which it has the first `unchanged` already.
    template <class Env>
    void store(Env& env, Node* node, unsigned first, unsigned count, unsigned unchanged) const {
      const unsigned shift = slot_shift(node), key_end = count < node->count ? node->count : count;
      // With nothing unchanged, an inner node's first child changes too.
      const unsigned slot_begin = unchanged == 0 ? 0 : unchanged + shift, slot_end = count + shift;
      if (key_end > unchanged) {
        env.touch(node->keys + unchanged, (key_end - unchanged) * sizeof(u64));
        std::memcpy(node->keys + unchanged, keys + first + unchanged,
                    (count - unchanged) * sizeof(u64));
        std::memset(node->keys + count, 0xff, (key_end - count) * sizeof(u64));
      }
      if (slot_end > slot_begin) {
        env.touch(node->slots + slot_begin, (slot_end - slot_begin) * sizeof(u64));
        std::memcpy(node->slots + slot_begin, slots + first + slot_begin,
                    (slot_end - slot_begin) * sizeof(u64));
      }
      set(env, node->count, static_cast<u16>(count));
    }

    u64 keys[2 * Node::kKeys + 1];
    u64 slots[2 * Node::kKeys + 2];
    unsigned keys_total;
  };

  /// A root with a single child gives way to it; an empty leaf to nothing.
  template <class Env>
  void shrink_root(Env& env) {
    if (root_->count != 0) return;
    Node* old = root_;
    set(env, root_, level_ == 0 ? nullptr : old->child(0));
    if (level_ != 0) set(env, level_, level_ - 1);
    env.deallocate(old);
  }

  template <class Env>
  static void free_below(Env& env, Node* node) {
    if (node->level != 0)
      for (unsigned i = 0; i <= node->count; ++i) free_below(env, node->child(i));
    env.deallocate(node);
  }

  // --- verification -----------------------------------------------------------------------------

  struct Checker {
    std::string problem;
    const Node* last_leaf = nullptr;
    u64 keys = 0;

    /// Every key of the subtree is above *low and at most *high, where given.
    void walk(const Node* node, u64 level, const u64* low, const u64* high) {
      const char* wrong = check(node, level, low, high);
      if (wrong != nullptr && problem.empty())
        problem = std::string(wrong) + " on level " + std::to_string(level);
      if (!problem.empty()) return;
      if (level == 0) {
        last_leaf = node;
        keys += node->count;
        return;
      }
      for (unsigned i = 0; i <= node->count && problem.empty(); ++i)
        walk(node->child(i), level - 1, i == 0 ? low : &node->keys[i - 1],
             i == node->count ? high : &node->keys[i]);
    }

    const char* check(const Node* node, u64 level, const u64* low, const u64* high) const {
      if (node == nullptr) return "a child is missing";
      if (node->level != level) return "a node's level is wrong";
      if (node->count == 0 || node->count > Node::kKeys) return "a node's count is wrong";
      for (unsigned i = 0; i < node->count; ++i) {
        if (i != 0 && node->keys[i] <= node->keys[i - 1]) return "keys do not ascend";
        if (low != nullptr && node->keys[i] <= *low) return "a key is below its node's range";
        if (high != nullptr && node->keys[i] > *high) return "a key is above its node's range";
      }
      for (unsigned i = node->count; i < Node::kKeys; ++i)
        if (node->keys[i] != Node::kUnusedKey) return "an unused key is not ~0";
      if (level == 0 && last_leaf != nullptr && last_leaf->next() != node)
        return "the chain of leaves is broken";
      return nullptr;
    }
  };

  Node* root_ = nullptr;
  u64 size_ = 0;
  unsigned level_ = 0;
  [[maybe_unused]] unsigned reserved_ = 0;  ///< padding would hold anything, and be kept with it
};

static_assert(std::is_trivially_destructible_v<BPlusTree<void*>>);
static_assert(std::is_standard_layout_v<BPlusTree<void*>> && sizeof(BPlusTree<void*>) == 24);

}  // namespace perdura::structures
