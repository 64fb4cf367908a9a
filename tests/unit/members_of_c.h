/* What a program in C and one in C++ know of the same structures (members_of_c_test). */
#ifndef PERDURA_TESTS_MEMBERS_OF_C_H
#define PERDURA_TESTS_MEMBERS_OF_C_H

#include <stdbool.h>
#include <stdint.h>

#include <perdura/perdura.h>

#ifdef __cplusplus
extern "C" {
#endif

enum color { RED, GREEN, BLUE };

struct place {
  float x;
  float y;
};
struct part {
  struct part* next;
  const char* text;
  int number;
  unsigned long long mark;
  char name[16];
  double matrix[2][3];
  struct part* table[2][2];
  struct place at;
  struct place corners[4];
  enum color color;
  bool is_used;
  short small;
  unsigned char bytes[3];
  long double precise;
};

/* The same, with what is wrong of each: in the order of the enumeration. */
enum wrong { FORGOTTEN, TWICE, TOO_LATE, NAMELESS_TYPE, WRONG_SIZE };

union value {
  const char* text;
  long number;
};
struct holder {
  enum color kind;
  union value value;
  struct place at;
};

extern const perdura_type* const c_holder;
extern const perdura_type* const c_account_of_bank; /* of C++'s bank::account */
extern const perdura_type* const c_place;
extern const perdura_type* const c_part;
extern const perdura_type* const c_wrong[5];

/* A list of accounts that all have pointers into their neighbours, as of two builds. */
int c_accounts_make(perdura_store* store, int count);
int c_accounts_evolve(perdura_store* store, uint64_t* converted);
/* Which build's accounts they are: 1 or 2; 0: there are none, -1: wrong in any way. */
int c_accounts_look(perdura_store* store, int count);

#ifdef __cplusplus
}
#endif

#endif
