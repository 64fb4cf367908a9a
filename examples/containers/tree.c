/* A red-black tree with parent pointers (Cormen et al., Introduction to Algorithms, chapter 13).
 * NULL is black. */
#include "structure.h"

#include <stdlib.h>

struct node {
  struct node* child[2]; /* smaller, larger */
  struct node* parent;
  bool red;
  struct record record;
};

struct tree {
  struct node* top;
};

static bool is_red(const struct node* node) { return node != NULL && node->red; }
static int side_of(const struct node* node) { return node->parent->child[1] == node; }

/* Puts `other` in the place of `node` under its parent. */
static void replace(struct tree* tree, const struct node* node, struct node* other) {
  if (node->parent == NULL) tree->top = other;
  else node->parent->child[side_of(node)] = other;
  if (other != NULL) other->parent = node->parent;
}

/* The child on the other side comes up, and `node` goes down to `side`. */
static void rotate(struct tree* tree, struct node* node, int side) {
  struct node* up = node->child[!side];
  replace(tree, node, up);
  node->child[!side] = up->child[side];
  if (up->child[side] != NULL) up->child[side]->parent = node;
  up->child[side] = node;
  node->parent = up;
}

static struct node* find_node(const struct tree* tree, uint64_t key) {
  struct node* node = tree->top;
  while (node != NULL && node->record.key != key) node = node->child[key > node->record.key];
  return node;
}

static struct record* find(const void* root, uint64_t key) {
  struct node* node = find_node(root, key);
  return node != NULL ? &node->record : NULL;
}

static void repair_insert(struct tree* tree, struct node* node) {
  while (is_red(node->parent)) {
    struct node* grandparent = node->parent->parent;
    const int side = side_of(node->parent);
    struct node* uncle = grandparent->child[!side];
    if (is_red(uncle)) {
      node->parent->red = uncle->red = false;
      grandparent->red = true;
      node = grandparent;
      continue;
    }
    if (side_of(node) != side) {
      node = node->parent;
      rotate(tree, node, side);
    }
    node->parent->red = false;
    grandparent->red = true;
    rotate(tree, grandparent, !side);
  }
  tree->top->red = false;
}

static struct record* insert(void* root, uint64_t key) {
  struct tree* tree = root;
  struct node* parent = NULL;
  struct node** place = &tree->top;
  while (*place != NULL) {
    parent = *place;
    if (parent->record.key == key) return &parent->record;
    place = &parent->child[key > parent->record.key];
  }
  struct node* node = calloc(1, sizeof(struct node));
  if (node == NULL) return NULL;
  node->record.key = key;
  node->parent = parent;
  node->red = true;
  *place = node;
  repair_insert(tree, node);
  return &node->record;
}

/* Below `parent` on `side` a black node is missing. */
static void repair_erase(struct tree* tree, struct node* parent, int side) {
  while (parent != NULL && !is_red(parent->child[side])) {
    struct node* sibling = parent->child[!side];
    if (sibling->red) {
      sibling->red = false;
      parent->red = true;
      rotate(tree, parent, side);
      sibling = parent->child[!side];
    }
    if (!is_red(sibling->child[0]) && !is_red(sibling->child[1])) {
      sibling->red = true;
      if (parent->red || parent->parent == NULL) {
        parent->red = false;
        return;
      }
      side = side_of(parent);
      parent = parent->parent;
      continue;
    }
    if (!is_red(sibling->child[!side])) {
      sibling->child[side]->red = false;
      sibling->red = true;
      rotate(tree, sibling, !side);
      sibling = parent->child[!side];
    }
    sibling->red = parent->red;
    parent->red = sibling->child[!side]->red = false;
    rotate(tree, parent, side);
    return;
  }
  struct node* node = parent != NULL ? parent->child[side] : tree->top;
  if (node != NULL) node->red = false;
}

static bool erase(void* root, uint64_t key) {
  struct tree* tree = root;
  struct node* node = find_node(tree, key);
  if (node == NULL) return false;
  if (node->child[0] != NULL && node->child[1] != NULL) {
    struct node* next = node->child[1];
    while (next->child[0] != NULL) next = next->child[0];
    node->record = next->record;
    node = next;
  }
  struct node* child = node->child[node->child[0] == NULL];
  struct node* parent = node->parent;
  const int side = parent != NULL ? side_of(node) : 0;
  replace(tree, node, child);
  if (!node->red) repair_erase(tree, parent, side);
  free(node);
  return true;
}

static void for_each(const void* root, void (*visit)(const struct record*, void*), void* argument) {
  const struct tree* tree = root;
  const struct node* node = tree->top;
  while (node != NULL && node->child[0] != NULL) node = node->child[0];
  while (node != NULL) {
    visit(&node->record, argument);
    if (node->child[1] != NULL) {
      for (node = node->child[1]; node->child[0] != NULL;) node = node->child[0];
    } else {
      while (node->parent != NULL && side_of(node) == 1) node = node->parent;
      node = node->parent;
    }
  }
}

const struct structure tree_structure = {"tree",  sizeof(struct tree), insert, find, erase,
                                         for_each};
