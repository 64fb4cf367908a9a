/* The part in C of members_of_c_test: records that say all members. */
#include "unit/members_of_c.h"

#include <string.h>

PERDURA_STRUCT(place_type, struct place, PERDURA_MEMBER(struct place, x),
               PERDURA_MEMBER(struct place, y));
/* Not in the order of the members, which is nobody's concern. */
PERDURA_STRUCT(part_type, struct part, PERDURA_MEMBER(struct part, is_used),
               PERDURA_MEMBER(struct part, small), PERDURA_MEMBER(struct part, bytes),
               PERDURA_MEMBER(struct part, precise), PERDURA_MEMBER(struct part, next),
               PERDURA_MEMBER(struct part, text), PERDURA_MEMBER(struct part, number),
               PERDURA_MEMBER(struct part, mark), PERDURA_MEMBER(struct part, name),
               PERDURA_MEMBER(struct part, matrix), PERDURA_MEMBER(struct part, table),
               PERDURA_VALUE(struct part, at, place_type),
               PERDURA_VALUE(struct part, corners, place_type),
               PERDURA_OPAQUE(struct part, color, enum color));
PERDURA_STRUCT(holder_type, struct holder, PERDURA_MEMBER(struct holder, kind),
               PERDURA_OPAQUE(struct holder, value, union value),
               PERDURA_POINTER_WHEN(struct holder, value.text, kind, GREEN),
               PERDURA_VALUE(struct holder, at, place_type));
struct bank_account {
  int64_t cents;
};
PERDURA_STRUCT_AS(account_of_bank, struct bank_account, bank::account,
                  PERDURA_MEMBER(struct bank_account, cents));
const perdura_type* const c_holder = &holder_type;
const perdura_type* const c_account_of_bank = &account_of_bank;
const perdura_type* const c_place = &place_type;
const perdura_type* const c_part = &part_type;

struct three {
  long a;
  long b;
  long c;
};
PERDURA_STRUCT(forgotten, struct three, PERDURA_MEMBER(struct three, a),
               PERDURA_MEMBER(struct three, c));
PERDURA_STRUCT(twice, struct three, PERDURA_MEMBER(struct three, a),
               PERDURA_MEMBER(struct three, a), PERDURA_MEMBER(struct three, b),
               PERDURA_MEMBER(struct three, c));
PERDURA_STRUCT(too_late, struct three, PERDURA_MEMBER(struct three, a),
               PERDURA_MEMBER(struct three, b));
typedef struct three* three_pointer;
PERDURA_STRUCT_AS(nameless, struct three, const struct three, PERDURA_MEMBER(struct three, a),
                  PERDURA_MEMBER(struct three, b), PERDURA_MEMBER(struct three, c));
PERDURA_STRUCT(wrong_size, struct three, PERDURA_MEMBER(struct three, a),
               PERDURA_MEMBER(struct three, b), {"c", PERDURA_SLOT_INT64, 16, 12, NULL, 0, 0, 0});
const perdura_type* const c_wrong[5] = {&forgotten, &twice, &too_late, &nameless, &wrong_size};

/* --- two builds
 * ---------------------------------------------------------------------------------*/

struct coin_v1 {
  short cents;
};
struct account_v1 {
  struct account_v1* next;
  int number;
  int gone;
  int* to_number;
  char name[8];
  float rate;
  struct coin_v1 coins[2][2];
};
PERDURA_STRUCT_AS(coin_v1_type, struct coin_v1, struct coin, PERDURA_MEMBER(struct coin_v1, cents));
PERDURA_STRUCT_AS(account_v1_type, struct account_v1, struct account,
                  PERDURA_MEMBER(struct account_v1, next),
                  PERDURA_MEMBER(struct account_v1, number),
                  PERDURA_MEMBER(struct account_v1, gone),
                  PERDURA_MEMBER(struct account_v1, to_number),
                  PERDURA_MEMBER(struct account_v1, name), PERDURA_MEMBER(struct account_v1, rate),
                  PERDURA_VALUE(struct account_v1, coins, coin_v1_type));

struct coin {
  int64_t cents;
  int year;
};
struct account {
  char name[16];
  double rate;
  long limit;
  struct coin coins[3][4];
  int number;
  int* to_number;
  struct account* next;
};
PERDURA_STRUCT(coin_type, struct coin, PERDURA_MEMBER(struct coin, cents),
               PERDURA_MEMBER(struct coin, year));
PERDURA_STRUCT(account_type, struct account, PERDURA_MEMBER(struct account, name),
               PERDURA_MEMBER(struct account, rate), PERDURA_MEMBER(struct account, limit),
               PERDURA_VALUE(struct account, coins, coin_type),
               PERDURA_MEMBER(struct account, number), PERDURA_MEMBER(struct account, to_number),
               PERDURA_MEMBER(struct account, next));

int c_accounts_make(perdura_store* store, int count) {
  struct account_v1* next = NULL;
  int result = perdura_operation_begin(store);
  for (int i = count; result == 0 && i-- > 0;) {
    struct account_v1* made = perdura_alloc_typed(store, &account_v1_type, 1);
    if (made == NULL) {
      result = -1;
      break;
    }
    made->next = next;
    made->number = i;
    made->to_number = next != NULL ? &next->number : NULL;
    memcpy(made->name, "account", 8);
    made->rate = 0.5F;
    made->coins[0][0].cents = (short)-i;
    made->coins[1][1].cents = (short)i;
    next = made;
  }
  if (result == 0) result = perdura_root_set_typed(store, "accounts", next, &account_v1_type);
  perdura_operation_end(store);
  return result;
}

int c_accounts_evolve(perdura_store* store, uint64_t* converted) {
  const struct account defaults = {.limit = 1000};
  const perdura_conversion conversions[] = {
      {.former = &account_v1_type, .now = &account_type, .defaults = &defaults},
      {.former = &coin_v1_type, .now = &coin_type}};
  return perdura_migrate(store, conversions, 2, converted);
}

static int are_v1(const struct account_v1* each, int count) {
  for (int i = 0; i < count; ++i, each = each->next)
    if (each == NULL || each->number != i || strcmp(each->name, "account") != 0 ||
        each->coins[0][0].cents != -i || each->coins[1][1].cents != i ||
        each->to_number != (each->next != NULL ? &each->next->number : NULL))
      return 0;
  return each == NULL;
}
static int are_v2(const struct account* each, int count) {
  for (int i = 0; i < count; ++i, each = each->next)
    if (each == NULL || each->number != i || strcmp(each->name, "account") != 0 ||
        each->limit != 1000 || each->rate != 0.5 || each->coins[0][0].cents != -i ||
        each->coins[1][1].cents != i || each->coins[0][2].cents != 0 ||
        each->coins[2][3].cents != 0 || each->coins[0][0].year != 0 ||
        each->to_number != (each->next != NULL ? &each->next->number : NULL))
      return 0;
  return each == NULL;
}

int c_accounts_look(perdura_store* store, int count) {
  if (perdura_root_get(store, "accounts") == NULL) return 0;
  const struct account_v1* v1 = perdura_root_get_typed(store, "accounts", &account_v1_type);
  if (v1 != NULL) return are_v1(v1, count) ? 1 : -1;
  if (perdura_last_code() != PERDURA_TYPE_MISMATCH) return -1;
  const struct account* now = perdura_root_get_typed(store, "accounts", &account_type);
  return now != NULL && are_v2(now, count) ? 2 : -1;
}
