/* The records that the plugin makes of types in C are those that perdura/type.h's macros would say:
 * each type has one written by hand beside it. */
#include <stdatomic.h>
#include <stdbool.h>

#include <perdura/typed.h>

#include "same_record.h"

#define P(member) PERDURA_POINTER(T, member)
#define M(member) PERDURA_MAYBE(T, member)
#define V(member, type) PERDURA_VALUE(T, member, type)
#define COMPARE(name, ...)                               \
  do {                                                   \
    PERDURA_DEFINE_TYPE(expected, T, __VA_ARGS__);       \
    compare_records(name, &expected, PERDURA_RECORD(T)); \
  } while (0)
#define COMPARE_PLAIN(name)                              \
  do {                                                   \
    PERDURA_DEFINE_PLAIN_TYPE(expected, T);              \
    compare_records(name, &expected, PERDURA_RECORD(T)); \
  } while (0)

struct plain {
  int a;
  char b[13];
  double c;
};
struct node {
  struct node* next;
  int number;
};
struct pair {
  void* first;
  const char* second;
};
struct numbers {
  long a;
  size_t b;
  unsigned long long c;
};
struct integers {
  uintptr_t maybe;
  intptr_t also;
  long not_one;
};
struct functions {
  int (*call)(int);
  void (**calls)(void);
};
struct row {
  char* texts[5];
  short count;
};
struct grid {
  void* cells[3][4];
};
struct nested {
  int before;
  struct node inner;
  struct pair others;
};
struct nested_rows {
  struct nested rows[4];
  struct plain none[2];
};
struct anonymous {
  int kind;
  struct {
    char* text;
    struct {
      void* deep;
      int n;
    };
  };
};
struct anonymous_array {
  struct {
    char* key;
    int value;
  } entries[6];
};
struct bits {
  unsigned a : 3, b : 5;
  void* p;
  unsigned long c : 40;
  void* q;
};
struct flexible_pointers {
  int count;
  void* items[];
};
struct flexible_text {
  struct node* next;
  int length;
  char text[];
};
struct flexible_structs {
  size_t count;
  struct pair pairs[];
};
struct flexible_rows {
  size_t count;
  char* rows[][2];
};
struct zero_length {
  void* head;
  void* items[0];
};
struct old_tail {
  void* head;
  char text[1];
};
struct atomics {
  _Atomic(struct node*) head;
  _Atomic int n;
  _Atomic(void*) others[2];
};
struct volatiles {
  void* volatile v;
  const struct node* const c;
  char* restrict r;
};
struct wide {
  _Alignas(64) void* p;
  char rest[3];
};
struct packed_numbers {
  char a;
  int b;
} __attribute__((packed));
struct packed_aligned {
  void* a;
  int b;
  int c;
  void* d;
} __attribute__((packed));
struct enums {
  enum { kRed, kBlue } colour;
  enum { kBig = 1ul << 40 } big;
  void* p;
};
struct booleans {
  bool a, b;
  void* p;
};
struct long_double {
  long double x;
  void* p;
};
struct int128 {
  __int128 x;
  void* p;
};
struct vectors {
  float v __attribute__((vector_size(32)));
  void* p;
};
struct complex_number {
  _Complex double z;
  void* p;
};
union all_pointers {
  void* a;
  struct node* b;
  char* c;
};
struct union_of_pointers {
  int kind;
  union all_pointers u;
};
union some {
  char* text;
  long number;
  double real;
};
struct union_of_some {
  int kind;
  union some value;
};
struct anonymous_union {
  int kind;
  union {
    char* text;
    long number;
  };
  void* after;
};
struct union_of_numbers {
  union {
    long a;
    double b;
    char c[16];
  } u;
  void* p;
};
struct union_of_structs {
  union {
    struct pair p;
    struct {
      long a;
      void* b;
    } q;
  } u;
};
struct small_first {
  union {
    char c;
    void* p;
  } u;
};
struct bytes_beside {
  union {
    void* p;
    char bytes[24];
  } u;
};
struct bytes_beside_numbers {
  union {
    char bytes[16];
    long number;
  } u;
};
struct bytes_aligned {
  union {
    _Alignas(8) char bytes[16];
    long number;
  } u;
};
struct text_beside {
  int kind;
  union {
    void* p PERDURA_COUNTS_WHEN(kind, 1);
    char text[16] PERDURA_COUNTS_WHEN(kind, 2);
  } u;
};
enum kind { kText, kNumber, kNode };
struct tagged {
  enum kind kind;
  union {
    char* text PERDURA_COUNTS_WHEN(kind, kText);
    long number;
    struct node node PERDURA_COUNTS_WHEN(kind, kNode);
  } value;
};
struct tagged_otherwise {
  unsigned char kind;
  union {
    void* p PERDURA_COUNTS_UNLESS(kind, 7);
    double d;
  };
};
struct tagged_rows {
  struct tagged rows[3];
};
struct annotated {
  unsigned long word PERDURA_MAY_POINT;
  void* raw PERDURA_NO_POINTER;
  void* p;
};
struct annotated_bytes {
  char odd;
  char bytes[31] PERDURA_MAY_POINT;
};
struct PERDURA_NAMED("bank::account") account {
  void* owner;
};
typedef struct {
  void* p;
  int n;
} typedefed;
typedef void* handle;
struct handles {
  handle a;
  handle b[2];
};
struct opaque;
struct of_opaque {
  struct opaque* p;
  struct opaque** q;
};
struct list_head {
  struct list_head *next, *prev;
};
struct embedded {
  int id;
  struct list_head link;
  struct list_head children[2];
};
struct empty_inside {
  struct {
  } none;
  void* p;
};

int main(void) {
#define T struct plain
  COMPARE_PLAIN("plain");
#undef T
#define T struct node
  COMPARE("node", P(next));
  PERDURA_DEFINE_TYPE(node_type, struct node, PERDURA_POINTER(struct node, next));
#undef T
#define T struct pair
  COMPARE("pair", P(first), P(second));
  PERDURA_DEFINE_TYPE(pair_type, T, P(first), P(second));
#undef T
#define T struct numbers
  COMPARE_PLAIN("numbers");
#undef T
#define T struct integers
  COMPARE("integers", M(maybe), M(also));
#undef T
#define T struct functions
  COMPARE("functions", P(call), P(calls));
#undef T
#define T struct row
  COMPARE("row", P(texts));
#undef T
#define T struct grid
  COMPARE("grid", P(cells));
#undef T
#define T struct nested
  COMPARE("nested", V(inner, node_type), V(others, pair_type));
  PERDURA_DEFINE_TYPE(nested_type, T, V(inner, node_type), V(others, pair_type));
#undef T
#define T struct nested_rows
  COMPARE("nested_rows", V(rows, nested_type));
#undef T
#define T struct anonymous
  COMPARE("anonymous", P(text), P(deep));
#undef T
#define T struct anonymous_array
  COMPARE("anonymous_array", P(entries[0].key), P(entries[1].key), P(entries[2].key),
          P(entries[3].key), P(entries[4].key), P(entries[5].key));
#undef T
#define T struct bits
  COMPARE("bits", P(p), P(q));
#undef T
#define T struct flexible_pointers
  COMPARE("flexible_pointers", PERDURA_FLEXIBLE_POINTERS(T, items));
#undef T
#define T struct flexible_text
  COMPARE("flexible_text", P(next));
#undef T
#define T struct flexible_structs
  COMPARE("flexible_structs", PERDURA_FLEXIBLE_VALUES(T, pairs, pair_type));
#undef T
#define T struct flexible_rows
  COMPARE("flexible_rows", PERDURA_FLEXIBLE_POINTERS(T, rows));
#undef T
#define T struct zero_length
  COMPARE("zero_length", P(head), PERDURA_FLEXIBLE_POINTERS(T, items));
#undef T
#define T struct old_tail
  COMPARE("old_tail", P(head));
#undef T
#define T struct atomics
  COMPARE("atomics", P(head), P(others));
#undef T
#define T struct volatiles
  COMPARE("volatiles", P(v), P(c), P(r));
#undef T
#define T struct wide
  COMPARE("wide", P(p));
#undef T
#define T struct packed_numbers
  COMPARE_PLAIN("packed_numbers");
#undef T
#define T struct packed_aligned
  COMPARE("packed_aligned", P(a), P(d));
#undef T
#define T struct enums
  COMPARE("enums", P(p));
#undef T
#define T struct booleans
  COMPARE("booleans", P(p));
#undef T
#define T struct long_double
  COMPARE("long_double", P(p));
#undef T
#define T struct int128
  COMPARE("int128", P(p));
#undef T
#define T struct vectors
  COMPARE("vectors", P(p));
#undef T
#define T struct complex_number
  COMPARE("complex_number", P(p));
#undef T
#define T union all_pointers
  COMPARE("all_pointers", P(a));
#undef T
#define T struct union_of_pointers
  COMPARE("union_of_pointers", P(u.a));
#undef T
#define T union some
  COMPARE("some", M(text));
#undef T
#define T struct union_of_some
  COMPARE("union_of_some", M(value.text));
#undef T
#define T struct anonymous_union
  COMPARE("anonymous_union", M(text), P(after));
#undef T
#define T struct union_of_numbers
  COMPARE("union_of_numbers", P(p));
#undef T
#define T struct union_of_structs
  COMPARE("union_of_structs", M(u.p.first), P(u.p.second));
#undef T
#define T struct small_first
  COMPARE("small_first", M(u.p));
#undef T
#define T struct bytes_beside
  do {
    static const perdura_slot slots[] = {{"u", PERDURA_SLOT_MAYBE, 0, 24, NULL, 0, 0, 0}};
    static const perdura_type expected = {"bytes_beside", 24, 8, 1, slots};
    compare_records("bytes_beside", &expected, PERDURA_RECORD(T));
  } while (0);
#undef T
#define T struct bytes_beside_numbers
  COMPARE_PLAIN("bytes_beside_numbers");
#undef T
#define T struct bytes_aligned
  do {
    static const perdura_slot slots[] = {{"u", PERDURA_SLOT_MAYBE, 0, 16, NULL, 0, 0, 0}};
    static const perdura_type expected = {"bytes_aligned", 16, 8, 1, slots};
    compare_records("bytes_aligned", &expected, PERDURA_RECORD(T));
  } while (0);
#undef T
#define T struct text_beside
  COMPARE("text_beside", PERDURA_POINTER_WHEN(T, u.p, kind, 1));
#undef T
#define T uintptr_t
  do {
    static const perdura_slot slots[] = {{"word", PERDURA_SLOT_MAYBE, 0, 8, NULL, 0, 0, 0}};
    static const perdura_type expected = {"words", 8, 8, 1, slots};
    compare_records("words", &expected, PERDURA_RECORD(T));
  } while (0);
#undef T
#define T struct tagged
  COMPARE("tagged", PERDURA_POINTER_WHEN(T, value.text, kind, kText),
          PERDURA_POINTER_WHEN(T, value.node.next, kind, kNode));
  PERDURA_DEFINE_TYPE(tagged_type, T, PERDURA_POINTER_WHEN(T, value.text, kind, kText),
                      PERDURA_POINTER_WHEN(T, value.node.next, kind, kNode));
#undef T
#define T struct tagged_otherwise
  COMPARE("tagged_otherwise", PERDURA_POINTER_UNLESS(T, p, kind, 7));
#undef T
#define T struct tagged_rows
  COMPARE("tagged_rows", V(rows, tagged_type));
#undef T
#define T struct annotated
  COMPARE("annotated", M(word), P(p));
#undef T
#define T struct annotated_bytes
  do {
    static const perdura_slot slots[] = {{"bytes", PERDURA_SLOT_MAYBE, 8, 24, NULL, 0, 0, 0}};
    static const perdura_type expected = {"annotated_bytes", 32, 1, 1, slots};
    compare_records("annotated_bytes", &expected, PERDURA_RECORD(T));
  } while (0);
#undef T
#define T struct account
  COMPARE("bank::account", P(owner));
#undef T
#define T typedefed
  COMPARE("typedefed", P(p));
#undef T
#define T handle
  do {
    static const perdura_slot slots[] = {{"value", PERDURA_SLOT_POINTER, 0, 8, NULL, 0, 0, 0}};
    static const perdura_type expected = {"pointer", 8, 8, 1, slots};
    compare_records("pointer", &expected, PERDURA_RECORD(T));
  } while (0);
#undef T
#define T struct handles
  COMPARE("handles", P(a), P(b));
#undef T
#define T struct of_opaque
  COMPARE("of_opaque", P(p), P(q));
#undef T
#define T struct list_head
  COMPARE("list_head", P(next), P(prev));
  PERDURA_DEFINE_TYPE(list_head_type, T, P(next), P(prev));
#undef T
#define T struct embedded
  COMPARE("embedded", V(link, list_head_type), V(children, list_head_type));
#undef T
#define T struct empty_inside
  COMPARE("empty_inside", P(p));
#undef T
#define T double
  COMPARE_PLAIN("double");
#undef T
  return records_result(55);
}
