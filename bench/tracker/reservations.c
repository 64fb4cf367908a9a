// A travel agency, in the style of STAMP's vacation: tables of cars, flights, rooms and customers,
// red-black trees of small nodes. A transaction looks at some resources and reserves the dearest,
// or lets a customer go with all that was reserved, or changes what there is.
//
// tracker-reservations ROWS TRANSACTIONS CHECKPOINTS: so many rows a table
#include <stdlib.h>

#include "program.h"

enum {
  kResources = 3,        ///< tables of cars, flights and rooms
  kQueries = 10,         ///< of a transaction
  kReservePercent = 80,  ///< of transactions; of the rest, half release and half change
  kRowsPerStep = 8       ///< inserted at the beginning, before there are transactions
};

// --- a red-black tree ------------------------------------------------------------------------

struct node {
  struct node* parent;
  struct node* child[2];
  uint32_t key;
  uint32_t red;
  void* value;
};

struct table {
  struct node* root;
  uint64_t rows;
};

static int side_of(const struct node* node) { return node->parent->child[1] == node; }

static int is_red(const struct node* node) { return node != NULL && node->red != 0; }

static void replace(struct table* table, struct node* old, struct node* by) {
  if (old->parent == NULL) table->root = by;
  else old->parent->child[side_of(old)] = by;
  if (by != NULL) by->parent = old->parent;
}

/// The child on the other side goes up.
static void rotate(struct table* table, struct node* node, int side) {
  struct node* up = node->child[!side];
  struct node* moved = up->child[side];
  replace(table, node, up);
  node->child[!side] = moved;
  if (moved != NULL) moved->parent = node;
  up->child[side] = node;
  node->parent = up;
}

static struct node* find(const struct table* table, uint32_t key) {
  struct node* node = table->root;
  while (node != NULL && node->key != key) node = node->child[key > node->key];
  return node;
}

static void balance_inserted(struct table* table, struct node* node) {
  while (is_red(node->parent)) {
    struct node* parent = node->parent;
    struct node* grandparent = parent->parent;
    const int side = side_of(parent);
    struct node* uncle = grandparent->child[!side];
    if (is_red(uncle)) {
      parent->red = uncle->red = 0;
      grandparent->red = 1;
      node = grandparent;
      continue;
    }
    if (side_of(node) != side) {
      rotate(table, parent, side);
      parent = node;
    }
    parent->red = 0;
    grandparent->red = 1;
    rotate(table, grandparent, !side);
    break;
  }
  table->root->red = 0;
}

/// The key is new.
static void insert(struct table* table, uint32_t key, void* value) {
  struct node* parent = NULL;
  struct node** place = &table->root;
  while (*place != NULL) {
    parent = *place;
    place = &parent->child[key > parent->key];
  }
  struct node* node = allocate(sizeof(struct node));
  *node = (struct node){.parent = parent, .key = key, .red = 1, .value = value};
  *place = node;
  ++table->rows;
  balance_inserted(table, node);
}

/// The subtree on a side of `parent` lacks a black node.
static void balance_erased(struct table* table, struct node* parent, int side) {
  while (parent != NULL) {
    struct node* node = parent->child[side];
    if (is_red(node)) {
      node->red = 0;
      return;
    }
    struct node* sibling = parent->child[!side];
    if (is_red(sibling)) {
      sibling->red = 0;
      parent->red = 1;
      rotate(table, parent, side);
      sibling = parent->child[!side];
    }
    if (is_red(sibling->child[0]) || is_red(sibling->child[1])) {
      if (!is_red(sibling->child[!side])) {
        sibling->child[side]->red = 0;
        sibling->red = 1;
        rotate(table, sibling, !side);
        sibling = parent->child[!side];
      }
      sibling->red = parent->red;
      parent->red = 0;
      sibling->child[!side]->red = 0;
      rotate(table, parent, side);
      return;
    }
    sibling->red = 1;
    node = parent;
    if (is_red(node)) {
      node->red = 0;
      return;
    }
    parent = node->parent;
    if (parent != NULL) side = side_of(node);
  }
}

static void erase(struct table* table, struct node* node) {
  if (node->child[0] != NULL && node->child[1] != NULL) {
    struct node* next = node->child[1];
    while (next->child[0] != NULL) next = next->child[0];
    node->key = next->key;
    node->value = next->value;
    node = next;
  }
  struct node* parent = node->parent;
  const int side = parent != NULL && side_of(node);
  struct node* child = node->child[node->child[0] == NULL];
  replace(table, node, child);
  const int was_red = is_red(node);
  free(node);
  --table->rows;
  if (was_red) return;
  if (is_red(child)) child->red = 0;
  else balance_erased(table, parent, side);
}

// --- the agency ------------------------------------------------------------------------------

struct resource {
  uint64_t used, free, total, price;
};

struct reservation {
  struct reservation* next;
  uint32_t table, key;
  uint64_t price;
};

struct customer {
  uint64_t paid;
  struct reservation* reservations;
};

struct agency {
  struct random_numbers random;
  uint32_t keys;
  struct table resources[kResources];
  struct table customers;
};

static uint64_t new_price(struct agency* agency) {
  return 50 + 10 * random_below(&agency->random, 5);
}

static void add_resource(struct agency* agency, struct table* table, uint32_t key) {
  struct node* node = find(table, key);
  const uint64_t more = 100 * (1 + random_below(&agency->random, 5));
  if (node == NULL) {
    struct resource* made = allocate(sizeof(struct resource));
    *made = (struct resource){0, more, more, new_price(agency)};
    insert(table, key, made);
    return;
  }
  struct resource* resource = node->value;
  resource->free += more;
  resource->total += more;
  resource->price = new_price(agency);
}

static void remove_resource(struct table* table, uint32_t key) {
  struct node* node = find(table, key);
  if (node == NULL || ((struct resource*)node->value)->used != 0) return;
  free(node->value);
  erase(table, node);
}

static struct customer* customer_of(struct agency* agency, uint32_t key) {
  struct node* node = find(&agency->customers, key);
  if (node != NULL) return node->value;
  struct customer* made = allocate(sizeof(struct customer));
  *made = (struct customer){0, NULL};
  insert(&agency->customers, key, made);
  return made;
}

static uint32_t any_key(struct agency* agency) {
  return (uint32_t)random_below(&agency->random, agency->keys);
}

/// Of some resources, the dearest of each kind that is free.
static void reserve(struct agency* agency) {
  struct resource* best[kResources] = {NULL};
  uint32_t best_key[kResources] = {0};
  for (int i = 0; i < kQueries; ++i) {
    const uint64_t table = random_below(&agency->random, kResources);
    const uint32_t key = any_key(agency);
    const struct node* node = find(&agency->resources[table], key);
    if (node == NULL) continue;
    struct resource* resource = node->value;
    if (resource->free == 0) continue;
    if (best[table] != NULL && best[table]->price >= resource->price) continue;
    best[table] = resource;
    best_key[table] = key;
  }
  struct customer* customer = customer_of(agency, any_key(agency));
  for (uint32_t table = 0; table < kResources; ++table) {
    if (best[table] == NULL) continue;
    --best[table]->free;
    ++best[table]->used;
    struct reservation* made = allocate(sizeof(struct reservation));
    *made =
        (struct reservation){customer->reservations, table, best_key[table], best[table]->price};
    customer->reservations = made;
    customer->paid += made->price;
  }
}

static void release(struct agency* agency) {
  struct node* node = find(&agency->customers, any_key(agency));
  if (node == NULL) return;
  struct customer* customer = node->value;
  while (customer->reservations != NULL) {
    struct reservation* reservation = customer->reservations;
    struct resource* resource =
        find(&agency->resources[reservation->table], reservation->key)->value;
    ++resource->free;
    --resource->used;
    customer->reservations = reservation->next;
    free(reservation);
  }
  free(customer);
  erase(&agency->customers, node);
}

static void change(struct agency* agency) {
  for (int i = 0; i < kQueries; ++i) {
    struct table* table = &agency->resources[random_below(&agency->random, kResources)];
    const uint32_t key = any_key(agency);
    if (random_below(&agency->random, 2) == 0) add_resource(agency, table, key);
    else remove_resource(table, key);
  }
}

static void transact(struct agency* agency) {
  const uint64_t kind = random_below(&agency->random, 100);
  if (kind < kReservePercent) reserve(agency);
  else if (kind % 2 == 0) release(agency);
  else change(agency);
}

/// Every key once, in random order.
static void add_row(struct agency* agency, const uint32_t* order, uint64_t row) {
  const uint32_t key = order[row / (kResources + 1)];
  const uint64_t table = row % (kResources + 1);
  if (table < kResources) add_resource(agency, &agency->resources[table], key);
  else customer_of(agency, key);
}

static uint32_t* shuffled(struct random_numbers* random, uint32_t count) {
  uint32_t* order = allocate(count * sizeof(uint32_t));
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t other = random_below(random, (uint64_t)i + 1);
    order[i] = order[other];
    order[other] = i;
  }
  return order;
}

/// In order, and the number of black nodes above the leaves; fails where the tree is not one.
static uint64_t sum_of(const struct node* node, int is_customer, unsigned* black) {
  if (node == NULL) {
    *black = 0;
    return 0;
  }
  unsigned left = 0, right = 0;
  uint64_t sum = sum_of(node->child[0], is_customer, &left);
  sum = mixed(sum, node->key);
  if (is_customer) {
    const struct customer* customer = node->value;
    sum = mixed(sum, customer->paid);
    for (const struct reservation* each = customer->reservations; each; each = each->next)
      sum = mixed(sum, each->key + each->price);
  } else {
    const struct resource* resource = node->value;
    sum = mixed(sum, resource->used * 3 + resource->free * 5 + resource->price);
  }
  sum = mixed(sum, sum_of(node->child[1], is_customer, &right));
  if (left != right || (node->red != 0 && is_red(node->parent))) fail("a tree is out of balance");
  *black = left + (node->red == 0);
  return sum;
}

int main(int argc, char** argv) {
  if (argc != 4) fail("tracker-reservations ROWS TRANSACTIONS CHECKPOINTS");
  const uint64_t keys = number(argv[1]), transactions = number(argv[2]);
  if (keys == 0 || keys > 1u << 31) fail("a table has 1 to 2147483648 rows");
  const uint64_t rows = keys * (kResources + 1);
  struct run run = begin_run((rows + kRowsPerStep - 1) / kRowsPerStep + transactions, argv[3]);
  struct agency agency = {.random = random_from(5), .keys = (uint32_t)keys};
  uint32_t* order = shuffled(&agency.random, agency.keys);
  uint64_t row = 0;
  do {
    if (row == rows) {
      transact(&agency);
      continue;
    }
    for (int i = 0; i < kRowsPerStep && row < rows; ++i) add_row(&agency, order, row++);
  } while (step_done(&run));
  const struct times times = end_run(&run);

  unsigned black = 0;
  uint64_t sum = sum_of(agency.customers.root, 1, &black);
  for (int i = 0; i < kResources; ++i)
    sum = mixed(sum, sum_of(agency.resources[i].root, 0, &black));
  free(order);
  print_result(times, sum);
  return 0;
}
