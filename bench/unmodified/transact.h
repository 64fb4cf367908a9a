// Transactions of a list and of accounts, in plain C that GCC compiles with -fgnu-tm.
#ifndef TRANSACT_H
#define TRANSACT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct transact_node {
  struct transact_node* next;
  uint64_t key, value;
  uint64_t rest[5];
};
struct transact_list {
  struct transact_node* first;
};

void transact_insert(struct transact_list* list, uint64_t key);
void transact_transfer(int64_t* from, int64_t* to);

#ifdef __cplusplus
}
#endif

#endif
