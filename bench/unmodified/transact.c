#include "transact.h"

#include <stdlib.h>
#include <string.h>

void transact_insert(struct transact_list* list, uint64_t key) {
  __transaction_atomic {
    struct transact_node* const node = malloc(sizeof *node);
    node->next = list->first;
    node->key = key;
    node->value = key;
    memset(node->rest, 0, sizeof node->rest);
    list->first = node;
  }
}

void transact_transfer(int64_t* from, int64_t* to) {
  __transaction_atomic {
    *from -= 1;
    *to += 1;
  }
}
