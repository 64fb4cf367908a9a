// The C++ library's own functions that store to nodes of containers, as code calls them that is
// compiled to report its stores (compiler/pass/library_calls.inc): all else of its containers is
// templates, which are compiled with the program.
//
// Trees are balanced here, since which nodes that stores to is only known when it is done. What is
// stored is what the library's functions would: both work on trees that the other one has made.
#include <perdura/compiled.h>

#include <algorithm>
#include <list>
#include <map>
#include <unordered_map>
#include <utility>

namespace {

using Node = std::_Rb_tree_node_base;
using ListNode = std::__detail::_List_node_base;
using RehashPolicy = std::__detail::_Prime_rehash_policy;

template <class T>
void set(T& place, T value) {
  perdura_report(&place, sizeof place);
  place = value;
}

bool is_red(const Node* node) { return node != nullptr && node->_M_color == std::_S_red; }

/// One child of a node, the left or the right one.
Node*& child(Node* node, bool left) { return left ? node->_M_left : node->_M_right; }

/// What points to the node from above.
Node*& link_to(Node* node, Node& header) {
  if (header._M_parent == node) return header._M_parent;
  return child(node->_M_parent, node->_M_parent->_M_left == node);
}

/// `to` takes its place; `to` may be none.
void put_in_place_of(Node* node, Node* to, Node& header) {
  set(link_to(node, header), to);
  if (to != nullptr) set(to->_M_parent, node->_M_parent);
}

/// Its other child takes its place, and it becomes that one's child on the side `left`.
void rotate(Node* node, bool left, Node& header) {
  Node* const up = child(node, !left);
  Node* const across = child(up, left);
  set(child(node, !left), across);
  if (across != nullptr) set(across->_M_parent, node);
  put_in_place_of(node, up, header);
  set(child(up, left), node);
  set(node->_M_parent, up);
}

/// The tree has one black node too few on the way through `node`, which may be none.
void add_black(Node* node, Node* parent, Node& header) {
  while (node != header._M_parent && !is_red(node)) {
    const bool left = parent->_M_left == node;
    Node* sibling = child(parent, !left);
    if (is_red(sibling)) {
      set(sibling->_M_color, std::_S_black);
      set(parent->_M_color, std::_S_red);
      rotate(parent, left, header);
      sibling = child(parent, !left);
    }
    if (!is_red(sibling->_M_left) && !is_red(sibling->_M_right)) {
      set(sibling->_M_color, std::_S_red);
      node = parent;
      parent = parent->_M_parent;
      continue;
    }
    if (!is_red(child(sibling, !left))) {
      set(child(sibling, left)->_M_color, std::_S_black);
      set(sibling->_M_color, std::_S_red);
      rotate(sibling, !left, header);
      sibling = child(parent, !left);
    }
    set(sibling->_M_color, parent->_M_color);
    set(parent->_M_color, std::_S_black);
    set(child(sibling, !left)->_M_color, std::_S_black);
    rotate(parent, left, header);
    return;
  }
  if (is_red(node)) set(node->_M_color, std::_S_black);
}

void report(ListNode* node) { perdura_report(node, sizeof *node); }

/// A node and those beside it.
void report_around(ListNode* node) {
  report(node->_M_prev);
  report(node);
  report(node->_M_next);
}

}  // namespace

#define PERDURA_IN_PLACE_OF(name) asm("__perdura_" #name) __attribute__((visibility("default")))

// --- trees

void insert_and_balance(bool left, Node* node, Node* parent, Node& header)
    PERDURA_IN_PLACE_OF(_ZSt29_Rb_tree_insert_and_rebalancebPSt18_Rb_tree_node_baseS0_RS_);
Node* take_out_and_balance(Node* node, Node& header)
    PERDURA_IN_PLACE_OF(_ZSt28_Rb_tree_rebalance_for_erasePSt18_Rb_tree_node_baseRS_);

void insert_and_balance(bool left, Node* node, Node* parent, Node& header) {
  perdura_report(node, sizeof *node);
  node->_M_parent = parent;
  node->_M_left = node->_M_right = nullptr;
  node->_M_color = std::_S_red;
  const bool is_first = parent == &header;
  if (is_first) {
    set(header._M_parent, node);
    set(header._M_left, node);
    set(header._M_right, node);
  } else {
    set(child(parent, left), node);
    if (left && parent == header._M_left) set(header._M_left, node);
    if (!left && parent == header._M_right) set(header._M_right, node);
  }
  while (node != header._M_parent && is_red(node->_M_parent)) {
    Node* up = node->_M_parent;
    Node* const top = up->_M_parent;
    const bool up_is_left = top->_M_left == up;
    Node* const uncle = child(top, !up_is_left);
    if (is_red(uncle)) {
      set(up->_M_color, std::_S_black);
      set(uncle->_M_color, std::_S_black);
      set(top->_M_color, std::_S_red);
      node = top;
      continue;
    }
    if (child(up, !up_is_left) == node) {
      rotate(up, up_is_left, header);
      std::swap(node, up);
    }
    set(up->_M_color, std::_S_black);
    set(top->_M_color, std::_S_red);
    rotate(top, !up_is_left, header);
  }
  if (is_red(header._M_parent)) set(header._M_parent->_M_color, std::_S_black);
}

Node* take_out_and_balance(Node* node, Node& header) {
  Node* below = nullptr;   // takes the place of what is taken out of the shape of the tree
  Node* parent = nullptr;  // of that
  auto color = node->_M_color;
  if (node->_M_left == nullptr || node->_M_right == nullptr) {
    below = node->_M_left != nullptr ? node->_M_left : node->_M_right;
    parent = node->_M_parent;
    // With one child it is its neighbour's, which is the first or last one then.
    const auto end_of = [&](Node* (*furthest)(Node*)) {
      return below != nullptr ? furthest(below) : parent;
    };
    if (header._M_left == node) set(header._M_left, end_of(Node::_S_minimum));
    if (header._M_right == node) set(header._M_right, end_of(Node::_S_maximum));
    put_in_place_of(node, below, header);
  } else {
    Node* const next = Node::_S_minimum(node->_M_right);
    color = next->_M_color;
    below = next->_M_right;
    parent = next;
    if (next != node->_M_right) {
      parent = next->_M_parent;
      put_in_place_of(next, below, header);
      set(next->_M_right, node->_M_right);
      set(next->_M_right->_M_parent, next);
    }
    put_in_place_of(node, next, header);
    set(next->_M_left, node->_M_left);
    set(next->_M_left->_M_parent, next);
    set(next->_M_color, node->_M_color);
  }
  if (color == std::_S_black) add_black(below, parent, header);
  return node;
}

// --- lists

void hook(ListNode* node, ListNode* before)
    PERDURA_IN_PLACE_OF(_ZNSt8__detail15_List_node_base7_M_hookEPS0_);
void unhook(ListNode* node) PERDURA_IN_PLACE_OF(_ZNSt8__detail15_List_node_base9_M_unhookEv);
void transfer(ListNode* before, ListNode* first, ListNode* last)
    PERDURA_IN_PLACE_OF(_ZNSt8__detail15_List_node_base11_M_transferEPS0_S1_);
void reverse(ListNode* list) PERDURA_IN_PLACE_OF(_ZNSt8__detail15_List_node_base10_M_reverseEv);
void swap_lists(ListNode& one, ListNode& other)
    PERDURA_IN_PLACE_OF(_ZNSt8__detail15_List_node_base4swapERS0_S1_);

void hook(ListNode* node, ListNode* before) {
  report(node);
  report(before);
  report(before->_M_prev);
  node->_M_hook(before);
}
void unhook(ListNode* node) {
  report(node->_M_prev);
  report(node->_M_next);
  node->_M_unhook();
}
void transfer(ListNode* before, ListNode* first, ListNode* last) {
  for (ListNode* const each : {before, first, last}) {
    report(each);
    report(each->_M_prev);
  }
  before->_M_transfer(first, last);
}
void reverse(ListNode* list) {
  ListNode* each = list;
  do {
    report(each);
    each = each->_M_next;
  } while (each != list);
  list->_M_reverse();
}
void swap_lists(ListNode& one, ListNode& other) {
  report_around(&one);
  report_around(&other);
  ListNode::swap(one, other);
}

// --- hash tables

std::pair<bool, std::size_t> need_rehash(RehashPolicy* policy, std::size_t buckets,
                                         std::size_t elements, std::size_t more)
    PERDURA_IN_PLACE_OF(_ZNKSt8__detail20_Prime_rehash_policy14_M_need_rehashEmmm);
std::size_t next_buckets(RehashPolicy* policy, std::size_t least)
    PERDURA_IN_PLACE_OF(_ZNKSt8__detail20_Prime_rehash_policy11_M_next_bktEm);

std::pair<bool, std::size_t> need_rehash(RehashPolicy* policy, std::size_t buckets,
                                         std::size_t elements, std::size_t more) {
  perdura_report(policy, sizeof *policy);
  return policy->_M_need_rehash(buckets, elements, more);
}
std::size_t next_buckets(RehashPolicy* policy, std::size_t least) {
  perdura_report(policy, sizeof *policy);
  return policy->_M_next_bkt(least);
}
