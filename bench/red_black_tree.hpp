// A red-black tree whose fields are read and written in transactions (Cormen et al., Introduction
// to Algorithms, ch. 13): what transactional memories are compared with.
#pragma once

#include <cstdint>
#include <stdexcept>

#include <perdura/transaction.hpp>

namespace perdura::bench {

class RedBlackTree {
 public:
  /// In the store, before any other use.
  void begin(Transaction& tx) {
    Node* const none = tx.make<Node>(Node{nullptr, nullptr, nullptr, 0, kBlack});
    tx.write(none_, none);
    tx.write(root_, none);
  }

  bool contains(Transaction& tx, std::uint64_t key) {
    Node* const none = tx.read(none_);
    for (Node* node = tx.read(root_); node != none;) {
      const std::uint64_t here = tx.read(node->key);
      if (here == key) return true;
      node = tx.read(key < here ? node->left : node->right);
    }
    return false;
  }

  /// False: it is there.
  bool insert(Transaction& tx, std::uint64_t key) {
    Node* const none = tx.read(none_);
    Node* parent = none;
    for (Node* node = tx.read(root_); node != none;) {
      parent = node;
      const std::uint64_t here = tx.read(node->key);
      if (here == key) return false;
      node = tx.read(key < here ? node->left : node->right);
    }
    Node* const added = tx.make<Node>(Node{none, none, parent, key, kRed});
    if (parent == none) tx.write(root_, added);
    else tx.write(key < tx.read(parent->key) ? parent->left : parent->right, added);
    mend_insertion(tx, added);
    return true;
  }

  /// False: it is not there.
  bool erase(Transaction& tx, std::uint64_t key) {
    Node* const none = tx.read(none_);
    Node* node = tx.read(root_);
    while (node != none && tx.read(node->key) != key)
      node = tx.read(key < tx.read(node->key) ? node->left : node->right);
    if (node == none) return false;
    std::uint64_t removed_color = tx.read(node->color);
    Node* below;
    Node* above;  // below it, when it has its place
    if (tx.read(node->left) == none || tx.read(node->right) == none) {
      below = tx.read(tx.read(node->left) == none ? node->right : node->left);
      above = tx.read(node->parent);
      put_in_place(tx, node, below);
    } else {
      Node* next = tx.read(node->right);
      while (tx.read(next->left) != none) next = tx.read(next->left);
      removed_color = tx.read(next->color);
      below = tx.read(next->right);
      above = next;
      if (tx.read(next->parent) != node) {
        above = tx.read(next->parent);
        put_in_place(tx, next, below);
        tx.write(next->right, tx.read(node->right));
        tx.write(tx.read(next->right)->parent, next);
      }
      put_in_place(tx, node, next);
      tx.write(next->left, tx.read(node->left));
      tx.write(tx.read(next->left)->parent, next);
      tx.write(next->color, tx.read(node->color));
    }
    if (removed_color == kBlack) mend_removal(tx, below, above);
    tx.destroy(node);
    return true;
  }

  /// While no transaction runs: how many keys; throws when it is no red-black tree.
  std::uint64_t count() const {
    std::uint64_t keys = 0;
    black_height(root_, 0, ~std::uint64_t{0}, keys);
    return keys;
  }

 private:
  static constexpr std::uint64_t kRed = 0;
  static constexpr std::uint64_t kBlack = 1;
  struct Node {
    Node* left;
    Node* right;
    Node* parent;
    std::uint64_t key;
    std::uint64_t color;
  };
  using Side = Node* Node::*;

  void put_in_place(Transaction& tx, Node* old, Node* other) {
    Node* const parent = tx.read(old->parent);
    if (parent == tx.read(none_)) tx.write(root_, other);
    else tx.write(old == tx.read(parent->left) ? parent->left : parent->right, other);
    // All branches share the leaf: who stores to it meets everybody.
    if (other != tx.read(none_)) tx.write(other->parent, parent);
  }

  /// Its child on the other side takes its place.
  void rotate(Transaction& tx, Node* node, Side side) {
    const Side other = side == &Node::left ? &Node::right : &Node::left;
    Node* const up = tx.read(node->*other);
    Node* const between = tx.read(up->*side);
    tx.write(node->*other, between);
    if (between != tx.read(none_)) tx.write(between->parent, node);
    put_in_place(tx, node, up);
    tx.write(up->*side, node);
    tx.write(node->parent, up);
  }

  void mend_insertion(Transaction& tx, Node* node) {
    for (;;) {
      Node* const parent = tx.read(node->parent);
      if (tx.read(parent->color) == kBlack) break;
      Node* const above = tx.read(parent->parent);
      const Side side = parent == tx.read(above->left) ? &Node::left : &Node::right;
      const Side other = side == &Node::left ? &Node::right : &Node::left;
      Node* const uncle = tx.read(above->*other);
      if (tx.read(uncle->color) == kRed) {
        tx.write(parent->color, kBlack);
        tx.write(uncle->color, kBlack);
        tx.write(above->color, kRed);
        node = above;
        continue;
      }
      if (node == tx.read(parent->*other)) {
        node = parent;
        rotate(tx, node, side);
      }
      tx.write(tx.read(node->parent)->color, kBlack);
      tx.write(above->color, kRed);
      rotate(tx, above, other);
    }
    Node* const root = tx.read(root_);
    if (tx.read(root->color) == kRed) tx.write(root->color, kBlack);
  }

  void mend_removal(Transaction& tx, Node* node, Node* parent) {
    for (; node != tx.read(root_) && tx.read(node->color) == kBlack;
         parent = tx.read(node->parent)) {
      const Side side = node == tx.read(parent->left) ? &Node::left : &Node::right;
      const Side other = side == &Node::left ? &Node::right : &Node::left;
      Node* beside = tx.read(parent->*other);
      if (tx.read(beside->color) == kRed) {
        tx.write(beside->color, kBlack);
        tx.write(parent->color, kRed);
        rotate(tx, parent, side);
        beside = tx.read(parent->*other);
      }
      if (tx.read(tx.read(beside->left)->color) == kBlack &&
          tx.read(tx.read(beside->right)->color) == kBlack) {
        tx.write(beside->color, kRed);
        node = parent;
        continue;
      }
      if (tx.read(tx.read(beside->*other)->color) == kBlack) {
        tx.write(tx.read(beside->*side)->color, kBlack);
        tx.write(beside->color, kRed);
        rotate(tx, beside, other);
        beside = tx.read(parent->*other);
      }
      tx.write(beside->color, tx.read(parent->color));
      tx.write(parent->color, kBlack);
      tx.write(tx.read(beside->*other)->color, kBlack);
      rotate(tx, parent, side);
      break;
    }
    if (tx.read(node->color) == kRed) tx.write(node->color, kBlack);
  }

  std::uint64_t black_height(const Node* node, std::uint64_t from, std::uint64_t to,
                             std::uint64_t& keys) const {
    if (node == none_) return 1;
    ++keys;
    const bool ordered = node->key >= from && node->key < to;
    const bool red_below_red =
        node->color == kRed && (node->left->color == kRed || node->right->color == kRed);
    const std::uint64_t left = black_height(node->left, from, node->key, keys);
    const std::uint64_t right = black_height(node->right, node->key + 1, to, keys);
    if (!ordered || red_below_red || left != right)
      throw std::runtime_error("the tree is no red-black tree any more");
    return left + node->color;
  }

  Node* root_;
  Node* none_;  ///< the leaf that all branches end in
};

}  // namespace perdura::bench
