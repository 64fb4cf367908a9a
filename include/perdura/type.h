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
  PERDURA_SLOT_VALUE = 3    /* a value of another type */
};

#define PERDURA_TAG_DIFFERS 0x80000000u

struct perdura_type;

/* Of a member, or of all elements of a member that is an array. */
typedef struct perdura_slot {
  const char* member;
  uint32_t kind;                    /* enum perdura_slot_kind */
  uint32_t offset;                  /* in bytes */
  uint32_t bytes;                   /* of all elements; 0: a flexible array, in the last slot */
  const struct perdura_type* value; /* of a PERDURA_SLOT_VALUE */
  /* The slot counts while the unsigned integer of tag_bytes (1, 2, 4 or 8) at tag_offset is
   * tag_value; with PERDURA_TAG_DIFFERS added to tag_bytes while it is another one. tag_bytes 0:
   * always. */
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

#define PERDURA_POINTER(type, member) \
  {#member, PERDURA_SLOT_POINTER, PERDURA_PLACE(type, member), NULL, 0, 0, 0}
#define PERDURA_MAYBE(type, member) \
  {#member, PERDURA_SLOT_MAYBE, PERDURA_PLACE(type, member), NULL, 0, 0, 0}
#define PERDURA_VALUE(type, member, value_type) \
  {#member, PERDURA_SLOT_VALUE, PERDURA_PLACE(type, member), &(value_type), 0, 0, 0}

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

#ifndef __cplusplus
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
