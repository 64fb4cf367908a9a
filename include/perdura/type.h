/* Type records: where the pointers of a type are.
 *
 * A record is data, a table with a slot for each member that may hold a pointer; a member without a
 * slot holds none. Programs in C write it with the macros below, programs in C++ with PERDURA_TYPE
 * (perdura/type.hpp), and a compiler can write the same table.
 *
 *   struct node {
 *     struct node* next;
 *     int kind;
 *     union { char* text; long number; } value;
 *   };
 *   PERDURA_DEFINE_TYPE(node_type, struct node,
 *                       PERDURA_POINTER(struct node, next),
 *                       PERDURA_POINTER_WHEN(struct node, value.text, kind, TEXT));
 *
 * In C a record can say all members, each once. A store keeps these, tells a program that has
 * others, and can convert the objects (perdura_migrate; docs/evolution.md):
 *
 *   struct account { int32_t number; int64_t cents; char name[16]; struct account* next; };
 *   PERDURA_STRUCT(account_type, struct account,
 *                  PERDURA_MEMBER(struct account, number), PERDURA_MEMBER(struct account, cents),
 *                  PERDURA_MEMBER(struct account, name), PERDURA_MEMBER(struct account, next));
 *
 * A record must live as long as the stores that use it: it is meant to be static. */
#ifndef PERDURA_TYPE_H
#define PERDURA_TYPE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum perdura_slot_kind {
  PERDURA_SLOT_POINTER = 1, /* a null pointer, or one to the beginning of something or into it */
  PERDURA_SLOT_MAYBE = 2,   /* a word that is a pointer if it points into the store */
  PERDURA_SLOT_VALUE = 3,   /* a value of another type */
  /* Of records that say all members; of these the slots below hold no pointers. */
  PERDURA_SLOT_ALL_MEMBERS = 4, /* of no member: the first slot of such a record */
  PERDURA_SLOT_OPAQUE = 5,      /* known by the name and the size of its type alone */
  PERDURA_SLOT_BOOL = 16,
  PERDURA_SLOT_CHAR = 17,
  PERDURA_SLOT_INT8 = 18,
  PERDURA_SLOT_INT16 = 19,
  PERDURA_SLOT_INT32 = 20,
  PERDURA_SLOT_INT64 = 21,
  PERDURA_SLOT_INT128 = 22,
  PERDURA_SLOT_UINT8 = 23,
  PERDURA_SLOT_UINT16 = 24,
  PERDURA_SLOT_UINT32 = 25,
  PERDURA_SLOT_UINT64 = 26,
  PERDURA_SLOT_UINT128 = 27,
  PERDURA_SLOT_FLOAT32 = 28,
  PERDURA_SLOT_FLOAT64 = 29,
  PERDURA_SLOT_LONG_DOUBLE = 30
};

#define PERDURA_TAG_DIFFERS 0x80000000u
#define PERDURA_ROWS_OF_ROWS 0xffffffffu

struct perdura_type;

/* Of a member, or of all elements of a member that is an array. */
typedef struct perdura_slot {
  const char* member;
  uint32_t kind;                    /* enum perdura_slot_kind */
  uint32_t offset;                  /* in bytes */
  uint32_t bytes;                   /* of all elements; 0: a flexible array, in the last slot */
  const struct perdura_type* value; /* of a PERDURA_SLOT_VALUE or _OPAQUE */
  /* The slot counts while the unsigned integer of tag_bytes (1, 2, 4 or 8) at tag_offset is
   * tag_value; with PERDURA_TAG_DIFFERS added to tag_bytes while it is another one. tag_bytes 0:
   * always; then tag_offset is how many bytes an element of the member has, or 0 where it is no
   * array, in records that say all members. */
  uint32_t tag_offset;
  uint32_t tag_bytes;
  uint64_t tag_value;
} perdura_slot;

typedef struct perdura_type {
  const char* name; /* 1 to 255 bytes; a store knows the type by it */
  uint32_t size;
  uint32_t alignment;
  uint32_t slot_count;
  const perdura_slot* slots;
} perdura_type;

/* --- slots; `member` may be an array, or a member of a member ----------------------------------*/

#define PERDURA_POINTER(type, member)                                                              \
  {#member, PERDURA_SLOT_POINTER, PERDURA_PLACE(type, member), NULL, PERDURA_ROW(type, member), 0, \
   0}
#define PERDURA_MAYBE(type, member) \
  {#member, PERDURA_SLOT_MAYBE, PERDURA_PLACE(type, member), NULL, PERDURA_ROW(type, member), 0, 0}
#define PERDURA_VALUE(type, member, value_type) \
  {#member,                                     \
   PERDURA_SLOT_VALUE,                          \
   PERDURA_PLACE(type, member),                 \
   &(value_type),                               \
   PERDURA_ROW(type, member),                   \
   0,                                           \
   0}

/* Members of a union: each counts while the member `tag` is `tag_value`. */
#define PERDURA_POINTER_WHEN(type, member, tag, tag_value)         \
  {#member, PERDURA_SLOT_POINTER,     PERDURA_PLACE(type, member), \
   NULL,    PERDURA_PLACE(type, tag), (uint64_t)(tag_value)}
#define PERDURA_VALUE_WHEN(type, member, value_type, tag, tag_value)     \
  {#member,       PERDURA_SLOT_VALUE,       PERDURA_PLACE(type, member), \
   &(value_type), PERDURA_PLACE(type, tag), (uint64_t)(tag_value)}
/* Each counts while the member `tag` is anything but `tag_value`. */
#define PERDURA_POINTER_UNLESS(type, member, tag, tag_value)      \
  {#member,                                                       \
   PERDURA_SLOT_POINTER,                                          \
   PERDURA_PLACE(type, member),                                   \
   NULL,                                                          \
   PERDURA_UINT32(offsetof(type, tag)),                           \
   PERDURA_UINT32(sizeof(((type*)0)->tag)) | PERDURA_TAG_DIFFERS, \
   (uint64_t)(tag_value)}

/* A flexible array member, the last slot. One of characters or numbers needs none. */
#define PERDURA_FLEXIBLE_POINTERS(type, member) \
  {#member, PERDURA_SLOT_POINTER, PERDURA_UINT32(offsetof(type, member)), 0, NULL, 0, 0, 0}
#define PERDURA_FLEXIBLE_VALUES(type, member, value_type) \
  {#member, PERDURA_SLOT_VALUE, PERDURA_UINT32(offsetof(type, member)), 0, &(value_type), 0, 0, 0}

#define PERDURA_PLACE(type, member) \
  PERDURA_UINT32(offsetof(type, member)), PERDURA_UINT32(sizeof(((type*)0)->member))
/* A constant of up to 32 bits; where it has more the array has no size, and nothing compiles. */
#define PERDURA_UINT32(value) \
  ((uint32_t)(value) + 0 * (uint32_t)sizeof(char[(value) >> 32 ? -1 : 1]))

#ifdef __cplusplus
#define PERDURA_ROW(type, member) 0
#else
/* --- records that say all members ---------------------------------------------------------------
 * Slots of these are the ones above and these two. Members of a union, and of members, may have
 * slots for their pointers beside the slot of the member that they are in: PERDURA_OPAQUE(struct
 * node, value, union value) beside PERDURA_POINTER_WHEN(struct node, value.text, kind, TEXT). */

/* A number, a pointer, or an array of these, of up to two dimensions; of others it does not
 * compile. In C an enumeration is a number. */
#define PERDURA_MEMBER(type, member)       \
  {#member,                                \
   PERDURA_KIND(PERDURA_OF(type, member)), \
   PERDURA_PLACE(type, member),            \
   NULL,                                   \
   PERDURA_ROW(type, member),              \
   0,                                      \
   0}
/* A union, or what else is compared by its size and the name of its type alone; an enumeration that
 * C++ programs know by its name. */
#define PERDURA_OPAQUE(type, member, member_type)                                                  \
  {#member,                                                                                        \
   PERDURA_SLOT_OPAQUE,                                                                            \
   PERDURA_PLACE(type, member),                                                                    \
   &(const perdura_type){#member_type, PERDURA_UINT32(sizeof(member_type)), _Alignof(member_type), \
                         0, NULL},                                                                 \
   PERDURA_ROW(type, member),                                                                      \
   0,                                                                                              \
   0 * sizeof(char[sizeof(((type*)0)->member) % sizeof(member_type) ? -1 : 1])}

/* static const perdura_type NAME, of TYPE with all its members. The store knows it by the name of
 * the structure, as C++ does: of `struct account` and of C++'s `account` it is the same. At the
 * file's level only. */
#define PERDURA_STRUCT(name, type, ...) PERDURA_STRUCT_AS(name, type, type, __VA_ARGS__)
/* The same of a structure that the store knows by another name: of what a type was formerly, by
 * that of the type now; of a structure that C++ has in a namespace, by bank::account. */
#define PERDURA_STRUCT_AS(name, type, known_as, ...)                                               \
  static const perdura_slot name##_slots[] = {{"", PERDURA_SLOT_ALL_MEMBERS, 0, 0, NULL, 0, 0, 0}, \
                                              __VA_ARGS__};                                        \
  static const perdura_type name = {#known_as, PERDURA_UINT32(sizeof(type)), _Alignof(type),       \
                                    sizeof(name##_slots) / sizeof(perdura_slot), name##_slots}

__extension__ typedef __int128 perdura_int128;
__extension__ typedef unsigned __int128 perdura_uint128;
#define PERDURA_OF(type, member) (((type*)0)->member)
#define PERDURA_IS_ARRAY(place) \
  (!__builtin_types_compatible_p(__typeof__(place), __typeof__(((void)0, place))))
/* The place of the first element of an array; another place is itself. */
#define PERDURA_FIRST(place) (*(__builtin_choose_expr(PERDURA_IS_ARRAY(place), (place), &(place))))
/* Bytes of an element of a member that is an array; 0: it is none; of one of more than two
 * dimensions PERDURA_ROWS_OF_ROWS, which records that say all members refuse. */
#define PERDURA_ROW(type, member)                                             \
  (!PERDURA_IS_ARRAY(PERDURA_OF(type, member)) ? 0                            \
   : PERDURA_IS_ARRAY(PERDURA_FIRST(PERDURA_FIRST(PERDURA_OF(type, member)))) \
       ? PERDURA_ROWS_OF_ROWS                                                 \
       : PERDURA_UINT32(sizeof(PERDURA_FIRST(PERDURA_OF(type, member)))))
#define PERDURA_KIND(place) PERDURA_KNOWN(PERDURA_KIND_OF(PERDURA_FIRST(PERDURA_FIRST(place))))
/* Of what has no kind the array has no size, and nothing compiles. */
#define PERDURA_KNOWN(kind) ((uint32_t)(kind) + 0 * (uint32_t)sizeof(char[(kind) ? 1 : -1]))
/* 5: a pointer, for the compiler; to it an array is one as well. */
#define PERDURA_KIND_OF(place)                                                 \
  _Generic((place),                                                            \
      _Bool: PERDURA_SLOT_BOOL,                                                \
      char: PERDURA_SLOT_CHAR,                                                 \
      signed char: PERDURA_SLOT_INT8,                                          \
      short: PERDURA_SLOT_INT16,                                               \
      int: PERDURA_SLOT_INT32,                                                 \
      long: PERDURA_SLOT_INT64,                                                \
      long long: PERDURA_SLOT_INT64,                                           \
      perdura_int128: PERDURA_SLOT_INT128,                                     \
      unsigned char: PERDURA_SLOT_UINT8,                                       \
      unsigned short: PERDURA_SLOT_UINT16,                                     \
      unsigned: PERDURA_SLOT_UINT32,                                           \
      unsigned long: PERDURA_SLOT_UINT64,                                      \
      unsigned long long: PERDURA_SLOT_UINT64,                                 \
      perdura_uint128: PERDURA_SLOT_UINT128,                                   \
      float: PERDURA_SLOT_FLOAT32,                                             \
      double: PERDURA_SLOT_FLOAT64,                                            \
      long double: PERDURA_SLOT_LONG_DOUBLE,                                   \
      default: __builtin_classify_type(place) == 5 && !PERDURA_IS_ARRAY(place) \
          ? PERDURA_SLOT_POINTER                                               \
          : 0)

/* static const perdura_type NAME, of TYPE with these slots. */
#define PERDURA_DEFINE_TYPE(name, type, ...)                                             \
  static const perdura_slot name##_slots[] = {__VA_ARGS__};                              \
  static const perdura_type name = {#type, PERDURA_UINT32(sizeof(type)), _Alignof(type), \
                                    sizeof(name##_slots) / sizeof(perdura_slot), name##_slots}
/* The same of a type that holds no pointers. */
#define PERDURA_DEFINE_PLAIN_TYPE(name, type) \
  static const perdura_type name = {#type, PERDURA_UINT32(sizeof(type)), _Alignof(type), 0, NULL}
#endif

#ifdef __cplusplus
}
#endif

#endif
