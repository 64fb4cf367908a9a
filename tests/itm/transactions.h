/* What transactions.c, wide.c and exceptions.cc do in transactions, for itm_test.cc. */
#ifndef PERDURA_TESTS_ITM_TRANSACTIONS_H
#define PERDURA_TESTS_ITM_TRANSACTIONS_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define PERDURA_COMPLEX __complex__
#else
#define PERDURA_COMPLEX _Complex
#endif

/* A field of each type that GCC has calls for, and bytes beside the small ones. */
struct fields {
  uint8_t before1, u1, after1;
  uint16_t u2, after2;
  uint32_t u4, after4;
  uint64_t u8;
  float f, after_f;
  double d;
  long double e;
  PERDURA_COMPLEX float cf;
  PERDURA_COMPLEX double cd;
  PERDURA_COMPLEX long double ce;
  __m64 m64;
  __m128 m128;
  char bytes[13];
};

struct node {
  struct node* next;
  uint64_t key;
  uint64_t words[6];
};

/* In a store. Each has lines of its own, so that threads meet where they are meant to. */
#define ITM_LINE __attribute__((aligned(64)))
struct root {
  struct fields fields ITM_LINE;
  struct node* head ITM_LINE;
  uint64_t count ITM_LINE;
  uint64_t words[64] ITM_LINE;
  int64_t accounts[64] ITM_LINE;
};

/* Outside of stores. */
extern struct fields itm_fields;
extern struct node* itm_head;
extern uint64_t itm_count;
extern int64_t itm_accounts[64];

/* Called in bodies, but no part of them: may run transactions in other threads. */
extern void (*itm_in_body)(void);

void itm_store(uint64_t* word, uint64_t value);
uint64_t itm_add(uint64_t* word, uint64_t value);
void itm_copy_fields(struct fields* to, const struct fields* from);
void itm_copy_packed(void* to, const void* from);
void itm_memcpy(void* to, const void* from, size_t length);
void itm_memmove(void* to, const void* from, size_t length);
void itm_memset(void* to, int value, size_t length);

/* Both the list and its count. */
struct node* itm_push(struct node** head, uint64_t* count, uint64_t key);
void itm_pop(struct node** head, uint64_t* count);
/* 1: the store has no room. */
int itm_push_large(struct node** head, size_t size);
void itm_push_cleared(struct node** head, uint64_t* count);

/* What is 0 afterwards where all was undone. */
int itm_cancel(struct root* root);
/* Cancels what is inside, or all of it; or nothing. */
enum itm_cancels { kItmNone, kItmInner, kItmOuter };
void itm_nested(struct root* root, enum itm_cancels cancels);
/* Adds 1, what is inside 10, and then 100. */
void itm_nested_word(uint64_t* word, int cancels);
void itm_nested_blocks(struct root* root, int cancels);
/* How often its body ran; its locals are as if that were once. */
int itm_begin_again(struct root* root);
void itm_transfer(int64_t* from, int64_t* to, int64_t amount);
int64_t itm_sum(const int64_t* some, const int64_t* others, size_t count);
/* Stores 1 where both are 0. */
void itm_store_if_none(uint64_t* to, const uint64_t* other);
struct node* itm_take(struct node** head);
void itm_use_first(struct node** head);

/* By pointer: 1 more. */
extern uint64_t (*itm_by_pointer)(uint64_t);
uint64_t itm_call(uint64_t* word);
void itm_point_to_one_more(void);

/* What cannot be undone. */
void itm_relaxed_whole(void);
void itm_relaxed_middle(uint64_t* word);
void itm_relaxed_pointer(uint64_t* word);
/* A relaxed one that can. */
void itm_relaxed_add(uint64_t* word);

/* Of the transaction's calls by their names. */
extern int itm_committed, itm_undone;
/* Adds 2, and what it reads. */
void itm_actions(uint64_t* word, const uint64_t* read, int cancels);
/* Counts, in transactions of its own, how often it was undone, and how often what is inside was. */
void itm_undo_transaction(uint64_t* word, uint64_t* undone, int cancels);
void itm_numbers(uint64_t* outer, uint64_t* inner, uint32_t* how, int cancels);

/* wide.c: 32 bytes, which are aligned so. */
void itm_copy_wide(void* to, const void* from);

/* exceptions.cc */
struct node* itm_new(struct node** head);
void itm_delete(struct node** head);
enum { kItmArray = 100 };
void itm_new_array(uint64_t** array);
void itm_delete_array(uint64_t** array);
/* Throws `value` out of the transaction. */
void itm_throw(uint64_t* word, int value);
/* Throws and catches inside. Returns what was caught. */
int itm_catch(uint64_t* word, int value);
/* Of a std::runtime_error: how long what it says is. */
size_t itm_catch_standard(uint64_t* word);
void itm_throw_standard(uint64_t* word);
/* Cancels in a handler. */
void itm_cancel_in_handler(uint64_t* word);
/* What the handler gets is not where the exception lies. */
void itm_cancel_in_handler_of_pointer(uint64_t* word);
void itm_cancel_in_handler_of_base(uint64_t* word);
/* Calls itm_in_body in a handler; and in a destructor that an exception passes, which adds to
 * word[8]. */
int itm_begin_again_in_handler(uint64_t* word);
int itm_begin_again_in_destructor(uint64_t* word);
/* In a handler, past a destructor that adds to word[16], and another one outside, to word[8]. */
int itm_throw_again(uint64_t* word);
/* What its caller has caught, out of the transaction; reads word[8] before itm_in_body. */
void itm_throw_again_out(uint64_t* word);

#ifdef __cplusplus
}
#endif

#endif
