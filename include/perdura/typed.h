/* Types of ordinary allocations: what code calls that is compiled with --perdura-types
 * (docs/types.md), and what a program may say for it.
 *
 * With perdura-clang --perdura-types each malloc, calloc, realloc, strdup and new whose type the
 * compiler sees makes a volatile object of a container (perdura/container.h) with a type record.
 * Such an object is ordinary memory until a point finds it reachable; free and delete take it
 * back, wherever it is then. Other compilers skip the annotations below. */
#ifndef PERDURA_TYPED_H
#define PERDURA_TYPED_H

#include <stddef.h>

#include <perdura/type.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- annotations -------------------------------------------------------------------------------*/

#ifdef __clang__
#define PERDURA_ANNOTATE(text) __attribute__((annotate(text)))
#else
#define PERDURA_ANNOTATE(text)
#endif

/* Of a member of a union: it counts while the member `tag` beside the union is `value`, an
 * enumerator or a number; or while it is another one. */
#define PERDURA_COUNTS_WHEN(tag, value) PERDURA_ANNOTATE("perdura_when:" #tag "=" #value)
#define PERDURA_COUNTS_UNLESS(tag, value) PERDURA_ANNOTATE("perdura_unless:" #tag "=" #value)
/* Of a member: each word of it may be a pointer, as of an integer that holds one at times. */
#define PERDURA_MAY_POINT PERDURA_ANNOTATE("perdura_maybe")
/* Of a member: it is no pointer, whatever its type says. */
#define PERDURA_NO_POINTER PERDURA_ANNOTATE("perdura_plain")
/* Of a structure, before its name: stores know it by this name. */
#define PERDURA_NAMED(name) PERDURA_ANNOTATE("perdura_name:" name)
/* Of a function of the program that gives out memory: what it returns has the type that its
 * caller gives it, and what malloc gives it in its body is for that. */
#define PERDURA_ALLOCATOR PERDURA_ANNOTATE("perdura_allocator")

/* The record of a type, in code that is compiled with --perdura-types; elsewhere it does not link.
 */
#define PERDURA_RECORD(type) perdura_record_of((type*)0)
const perdura_type* perdura_record_of(const void* null_pointer);

/* --- what the compiler makes of allocations ----------------------------------------------------*/

enum perdura_shape {
  PERDURA_SHAPE_OBJECTS = 0,  /* one object, or as many as have room */
  PERDURA_SHAPE_FLEXIBLE = 1, /* one, and behind it what the last slot says, or no pointers */
};

/* As the functions without `typed`. Where memory of the type cannot be had for another reason than
 * that there is none, as when the program has two types of one name, its words may be pointers. */
void* perdura_typed_malloc(size_t bytes, const perdura_type* type, unsigned shape);
void* perdura_typed_calloc(size_t count, size_t bytes, const perdura_type* type, unsigned shape);
/* An object that held no pointers, or was of the same structure, has this type then; one of another
 * type with pointers has words that may be pointers. NULL, of what is an object already: it keeps
 * its type. */
void* perdura_typed_realloc(void* object, size_t bytes, const perdura_type* type, unsigned shape);
char* perdura_typed_strdup(const char* text);
char* perdura_typed_strndup(const char* text, size_t length_max);
/* operator new: throws std::bad_alloc. */
void* perdura_typed_new(size_t bytes, const perdura_type* type, unsigned shape);
void* perdura_typed_new_nothrow(size_t bytes, const perdura_type* type, unsigned shape);
/* What malloc gives an allocator of the program: its words may be pointers, until it is tagged. */
void* perdura_typed_raw_malloc(size_t bytes);
void* perdura_typed_raw_calloc(size_t count, size_t bytes);
void* perdura_typed_raw_realloc(void* object, size_t bytes);
/* An object of the type begins at `place`, which an allocator of the program has returned for so
 * many bytes: the block that holds it has the type from there on, and words that may be pointers
 * before it. A block that is larger than that keeps what it is: it has other objects as well. */
void* perdura_typed_tag(void* place, size_t bytes, const perdura_type* type, unsigned shape);

/* For the functions of the C library that take back what others gave out, which a program
 * compiled so replaces. */
int perdura_typed_holds(const void* object);
void perdura_typed_free(void* object);
size_t perdura_typed_usable_size(const void* object);

/* SoftPM's functions, with the type of what *root points to. */
int perdura_typed_pCAlloc(int magic, int bytes, void** root, const perdura_type* type);
int perdura_typed_pCOpen(int magic, int bytes, void** root, const perdura_type* type);
int perdura_typed_pCRestore(int magic, void** root, const perdura_type* type);

/* An allocation whose type the compiler did not see. */
typedef struct perdura_untyped_site {
  const char* place;  /* FILE:LINE:COLUMN */
  const char* call;   /* what is called there */
  unsigned long made; /* how often; roughly, where several threads allocate there at once */
} perdura_untyped_site;

/* A file that was compiled so tells what it has when it is loaded, and when it is unloaded. */
typedef struct perdura_typed_part {
  const perdura_type* const* types;
  size_t type_count;
  perdura_untyped_site* sites;
  size_t site_count;
  struct perdura_typed_part* next; /* the library's */
} perdura_typed_part;
void perdura_typed_begin(perdura_typed_part* part);
void perdura_typed_end(perdura_typed_part* part);

/* --- what the compiler adds with --perdura-audit -----------------------------------------------
 * `where` is FILE:LINE:COLUMN in FUNCTION. Each slot of a type that no record names is told once.
 */

/* Before a pointer is stored to `place`. */
void perdura_audit_pointer(const void* place, const void* value, const char* where);
/* Before an integer of 8 bytes is: it is a pointer where it leads into an object. */
void perdura_audit_integer(const void* place, uint64_t value, const char* where);
/* Before `bytes` bytes are copied, each word of which is such an integer; or after they were stored
 * to where both places are. */
void perdura_audit_words(const void* to, const void* from, size_t bytes, const char* where);
/* After an object was made; `fresh`: nothing was stored to it yet, and then numbers are zero as
 * pointers are, so that what the memory held before is taken for none. */
void perdura_audit_made(void* object, int fresh, const char* where);

/* --- where objects are -------------------------------------------------------------------------*/

/* From here on, what this thread allocates with a type is in the container that holds `object`, and
 * no point moves it: for programs that hash addresses, or keep pointers where points do not look,
 * as on their stacks. Such an object is in the next version also when nothing leads to it: the
 * program frees it. NULL: what is allocated is volatile again; so it is when that container is
 * closed, which must not happen while another thread allocates near it. -PERDURA_NOT_FOUND for what
 * is in no open container. */
int perdura_allocate_near(const void* object);

/* --- what a program may ask --------------------------------------------------------------------*/

/* How often sites without a type allocated so far: what they gave out is in no version. */
unsigned long perdura_untyped_allocations(void);
/* visit(site, argument) of each of them that did. */
void perdura_for_each_untyped_site(void (*visit)(const perdura_untyped_site*, void*),
                                   void* argument);

/* Of a program that is compiled with --perdura-audit: how many slots that no record names were
 * stored to so far. */
unsigned long perdura_audit_findings(void);

/* All words of volatile objects that lead into one. */
typedef struct perdura_audit_census {
  unsigned long named;   /* a record says that there is a pointer */
  unsigned long maybe;   /* or that there may be one */
  unsigned long missed;  /* no record names the word */
  unsigned long objects; /* volatile ones, with and without such words */
} perdura_audit_census;
/* visit(made, type, census, argument) for each place that made objects, of those that it made; what
 * was made elsewhere has made "". Objects stand still meanwhile: outside of operations. Returns 0,
 * or -1 where there are none, or they are a parent process's. */
int perdura_audit_take_census(void (*visit)(const char* made, const char* type,
                                            const perdura_audit_census*, void*),
                              void* argument);

#ifdef __cplusplus
}
#endif

#endif
