/* Plain C that GCC compiles with -fgnu-tm, for itm_test.cc. */
#include "transactions.h"

#include <stdlib.h>
#include <string.h>

struct fields itm_fields ITM_LINE;
struct node* itm_head ITM_LINE;
uint64_t itm_count ITM_LINE;
int64_t itm_accounts[64] ITM_LINE;
void (*itm_in_body)(void);
uint64_t (*itm_by_pointer)(uint64_t);
int itm_committed, itm_undone;

__attribute__((transaction_pure, noinline)) static void in_body(void) {
  if (itm_in_body != NULL) itm_in_body();
}

void itm_store(uint64_t* word, uint64_t value) {
  __transaction_atomic { *word = value; }
}

uint64_t itm_add(uint64_t* word, uint64_t value) {
  uint64_t result;
  __transaction_atomic {
    result = *word + value;
    in_body();
    *word = result;
  }
  return result;
}

/* Twice, so that it loads what it has stored. */
void itm_copy_fields(struct fields* to, const struct fields* from) {
  __transaction_atomic {
    to->u1 = from->u1;
    to->u2 = from->u2;
    to->u4 = from->u4;
    to->u8 = from->u8;
    to->f = from->f;
    to->d = from->d;
    to->e = from->e;
    to->cf = from->cf;
    to->cd = from->cd;
    to->ce = from->ce;
    to->m64 = from->m64;
    to->m128 = from->m128;
    in_body();
    to->u1 ^= 1;
    to->u2 ^= 1;
    to->u4 ^= 1;
    to->u8 ^= 1;
    to->f += 1;
    to->d += 1;
    to->e += 1;
    to->cf += 1;
    to->cd += 1;
    to->ce += 1;
    to->m64 = _mm_xor_si64(to->m64, _mm_set1_pi8(1));
    to->m128 = _mm_add_ps(to->m128, _mm_set1_ps(1));
  }
}

struct __attribute__((packed)) packed {
  char one;
  uint16_t two;
  uint32_t four;
  uint64_t eight;
  double number;
};

void itm_copy_packed(void* to, const void* from) {
  struct packed* const target = to;
  const struct packed* const source = from;
  __transaction_atomic {
    target->two = source->two;
    target->four = source->four;
    target->eight = source->eight;
    target->number = source->number;
  }
}

void itm_memcpy(void* to, const void* from, size_t length) {
  __transaction_atomic { memcpy(to, from, length); }
}

void itm_memmove(void* to, const void* from, size_t length) {
  __transaction_atomic { memmove(to, from, length); }
}

void itm_memset(void* to, int value, size_t length) {
  __transaction_atomic { memset(to, value, length); }
}

struct node* itm_push(struct node** head, uint64_t* count, uint64_t key) {
  struct node* made;
  __transaction_atomic {
    made = malloc(sizeof *made);
    made->key = key;
    for (int i = 0; i < 6; ++i) made->words[i] = key;
    made->next = *head;
    *head = made;
    *count += 1;
  }
  return made;
}

void itm_pop(struct node** head, uint64_t* count) {
  __transaction_atomic {
    struct node* const first = *head;
    *head = first->next;
    *count -= 1;
    free(first);
  }
}

int itm_push_large(struct node** head, size_t size) {
  int refused = 0;
  __transaction_atomic {
    struct node* const made = malloc(size);
    if (made == NULL) refused = 1;
    else *head = made;
  }
  return refused;
}

void itm_push_cleared(struct node** head, uint64_t* count) {
  __transaction_atomic {
    struct node* const made = calloc(1, sizeof *made);
    made->next = *head;
    *head = made;
    *count += 1;
  }
}

int itm_cancel(struct root* root) {
  int local = 0;
  uint64_t array[4] = {1, 2, 3, 4};
  __transaction_atomic {
    root->count = 99;
    itm_count = 99;
    local = 99;
    for (int i = 0; i < 4; ++i) array[i] = root->words[i] + 99;
    struct node* const made = malloc(sizeof *made);
    made->next = root->head;
    root->head = made;
    free(made->next);
    memset(root->words, 99, sizeof root->words);
    memset(itm_accounts, 99, sizeof itm_accounts);
    in_body();
    __transaction_cancel;
  }
  return local != 0 || array[0] != 1 || array[3] != 4;
}

__attribute__((noinline, transaction_safe)) static void fill(uint64_t* words, uint64_t value) {
  for (int i = 0; i < 512; ++i) words[i] = value;
}

/* Its frame is gone when the transaction that has called it is cancelled, and that of who cancels
 * it lies there. */
__attribute__((noinline, transaction_safe)) static void add_by_frame(uint64_t* word) {
  uint64_t own[512];
  fill(own, *word + 1);
  *word = own[*word % 512];
}

void itm_nested(struct root* root, enum itm_cancels cancels) {
  __transaction_atomic [[outer]] {
    root->words[0] += 1;
    itm_count += 1;
    __transaction_atomic {
      add_by_frame(&root->words[1]);
      root->words[0] += 10;
      itm_count += 10;
      __transaction_atomic { root->words[2] += 1; }
      if (cancels == kItmInner) __transaction_cancel;
      if (cancels == kItmOuter) __transaction_cancel [[outer]];
    }
    root->words[3] += 1;
  }
}

void itm_nested_word(uint64_t* word, int cancels) {
  __transaction_atomic {
    *word += 1;
    __transaction_atomic {
      *word += 10;
      if (cancels) __transaction_cancel;
    }
    *word += 100;
  }
}

void itm_nested_blocks(struct root* root, int cancels) {
  __transaction_atomic {
    struct node* const kept = malloc(sizeof *kept);
    kept->key = 1;
    kept->next = NULL;
    root->head = kept;
    __transaction_atomic {
      struct node* const made = malloc(sizeof *made);
      kept->key = 2;
      made->key = 3;
      made->next = NULL;
      root->head->next = made;
      if (cancels) __transaction_cancel;
    }
  }
}

__attribute__((noinline, transaction_safe)) static uint64_t sum_of(const uint64_t* words) {
  uint64_t own[8];
  for (int i = 0; i < 8; ++i) own[i] = words[i] + 1;
  uint64_t sum = 0;
  for (int i = 0; i < 8; ++i) sum += own[(i * 3) % 8];
  return sum;
}

int itm_begin_again(struct root* root) {
  int runs = 0, again = 0;
  uint64_t local[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  double number = 1.5;
  __transaction_atomic {
    again += 1;
    for (int i = 0; i < 8; ++i) local[i] += root->words[i];
    number += (double)root->words[0];
    itm_count += 1;
    struct node* const made = malloc(sizeof *made);
    made->next = root->head;
    root->head = made;
    root->words[63] = sum_of(root->words) + sum_of(local);
    in_body();
    root->count += 1;
    runs = again;
  }
  for (int i = 0; i < 8; ++i)
    if (local[i] != (uint64_t)i + 1 + (i == 0 ? root->words[0] : 0)) return -1;
  return number == 1.5 + (double)root->words[0] ? runs : -2;
}

void itm_transfer(int64_t* from, int64_t* to, int64_t amount) {
  __transaction_atomic {
    *from -= amount;
    *to += amount;
  }
}

/* It ends the program where it sees half of a transfer, also when it is going to begin again. */
__attribute__((transaction_pure, noinline)) static void expect_nothing(int64_t sum) {
  if (sum != 0) abort();
}

int64_t itm_sum(const int64_t* some, const int64_t* others, size_t count) {
  int64_t sum = 0;
  __transaction_atomic {
    for (size_t i = 0; i < count; ++i) sum += some[i] + others[count - 1 - i];
    expect_nothing(sum);
  }
  return sum;
}

void itm_store_if_none(uint64_t* to, const uint64_t* other) {
  __transaction_atomic {
    if (*to == 0 && *other == 0) *to = 1;
  }
}

struct node* itm_take(struct node** head) {
  struct node* first;
  __transaction_atomic {
    first = *head;
    if (first != NULL) *head = NULL;
  }
  return first;
}

void itm_use_first(struct node** head) {
  __transaction_atomic {
    struct node* const first = *head;
    if (first != NULL) {
      in_body();
      for (int i = 0; i < 6; ++i) first->words[i] += 1;
    }
  }
}

__attribute__((transaction_safe)) static uint64_t one_more(uint64_t value) { return value + 1; }

void itm_point_to_one_more(void) { itm_by_pointer = (uint64_t (*)(uint64_t))one_more; }

uint64_t itm_call(uint64_t* word) {
  uint64_t result;
  __transaction_relaxed {
    result = itm_by_pointer(*word);
    *word = result;
  }
  return result;
}

/* In another file as far as GCC knows. */
__attribute__((noinline)) static void unsafe(void) { __asm__ volatile("nop"); }

void itm_relaxed_whole(void) {
  __transaction_relaxed { unsafe(); }
}

void itm_relaxed_middle(uint64_t* word) {
  __transaction_relaxed {
    *word += 1;
    if (*word != 0) unsafe();
    *word += 1;
  }
}

static uint64_t (*volatile unknown)(uint64_t);
__attribute__((noinline)) static uint64_t not_instrumented(uint64_t value) {
  unsafe();
  return value;
}

void itm_relaxed_pointer(uint64_t* word) {
  unknown = not_instrumented;
  itm_by_pointer = unknown;
  itm_call(word);
}

void itm_relaxed_add(uint64_t* word) {
  __transaction_relaxed { *word += 1; }
}

void _ITM_addUserCommitAction(void (*)(void*), uint64_t, void*) __attribute__((transaction_pure));
void _ITM_addUserUndoAction(void (*)(void*), void*) __attribute__((transaction_pure));
uint64_t _ITM_getTransactionId(void) __attribute__((transaction_pure));
uint32_t _ITM_inTransaction(void) __attribute__((transaction_pure));

static void count_up(void* counter) { *(int*)counter += 1; }

void itm_actions(uint64_t* word, const uint64_t* read, int cancels) {
  __transaction_atomic {
    *word += 1 + *read;
    _ITM_addUserCommitAction(count_up, 1, &itm_committed);
    _ITM_addUserUndoAction(count_up, &itm_undone);
    in_body();
    *word += 1;
    if (cancels) __transaction_cancel;
  }
}

static void add_one(void* word) { itm_add(word, 1); }

void itm_undo_transaction(uint64_t* word, uint64_t* undone, int cancels) {
  __transaction_atomic {
    const uint64_t before = *word;
    _ITM_addUserUndoAction(count_up, &itm_undone);
    _ITM_addUserUndoAction(add_one, undone);
    in_body();
    *word = before + 1;
    __transaction_atomic {
      *word += 10;
      _ITM_addUserUndoAction(add_one, undone + 1);
      if (cancels == kItmInner) __transaction_cancel;
    }
    *word += 100;
    if (cancels == kItmOuter) __transaction_cancel;
  }
}

void itm_numbers(uint64_t* outer, uint64_t* inner, uint32_t* how, int cancels) {
  uint64_t after;
  __transaction_atomic {
    *outer = _ITM_getTransactionId();
    *how = _ITM_inTransaction();
    __transaction_atomic {
      *inner = _ITM_getTransactionId();
      if (cancels) __transaction_cancel;
    }
    after = _ITM_getTransactionId();
  }
  if (after != *outer) *outer = 0;
}
