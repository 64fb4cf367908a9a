/* Perdura: a program's own memory, durable. Stores in C; containers are in perdura/container.h.
 *
 * Functions that can fail return 0 or a negative perdura_code; perdura_last_error() then gives a
 * sentence that names the place and the remedy, valid until the thread's next failing call.
 * All functions may be called from any thread. */
#ifndef PERDURA_H
#define PERDURA_H

#include <stddef.h>
#include <stdint.h>

#include <perdura/type.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct perdura_store perdura_store;

/* What a call hands over grows at its end from version to version: these calls are inline, and say
 * how large it was when the program was compiled. For programs from before there is a function of
 * the same name in the library, which takes it as it was first. */
#ifndef PERDURA_SIZED
#define PERDURA_SIZED static inline
#endif

/* Negated return values; the meaning of each is in perdura/error.hpp. */
enum perdura_code {
  PERDURA_OK = 0,
  PERDURA_INVALID_ARGUMENT = 1,
  PERDURA_NOT_FOUND = 2,
  PERDURA_TYPE_MISMATCH = 3,
  PERDURA_LOCKED = 4,
  PERDURA_IO = 5,
  PERDURA_NO_SPACE = 6,
  PERDURA_NO_MEMORY = 7,
  PERDURA_FOREIGN = 8,
  PERDURA_INCOMPATIBLE = 9,
  PERDURA_CORRUPT = 10,
  PERDURA_ADDRESS_TAKEN = 11,
  PERDURA_FORKED = 12,
  PERDURA_UNSUPPORTED = 13,
  PERDURA_MISUSE = 14
};

enum perdura_tracking {
  PERDURA_TRACK_AUTOMATIC = 0,
  PERDURA_TRACK_REPORTED = 1,
  PERDURA_TRACK_BITMAP = 2,
  PERDURA_TRACK_USERFAULT = 3,
  PERDURA_TRACK_SIGBUS = 4,
  PERDURA_TRACK_PROTECT = 5,
  PERDURA_TRACK_COMPILED = 6
};

enum perdura_engine {
  PERDURA_ENGINE_REDO_LOG = 0,
  PERDURA_ENGINE_REMAP = 1,
  PERDURA_ENGINE_DUAL_COPY = 2
};

enum perdura_capture {
  PERDURA_CAPTURE_AUTOMATIC = 0,
  PERDURA_CAPTURE_STOPPED = 1,
  PERDURA_CAPTURE_BACKGROUND = 2
};

enum perdura_verify {
  PERDURA_VERIFY_BACKGROUND = 0,
  PERDURA_VERIFY_BEFORE_USE = 1,
  PERDURA_VERIFY_NEVER = 2
};

enum perdura_on_damage { PERDURA_DAMAGE_ENDS = 0, PERDURA_DAMAGE_IS_AN_ERROR = 1 };

enum perdura_event_kind {
  PERDURA_EVENT_CHECKPOINT_FAILED = 0,
  PERDURA_EVENT_CHECKPOINT_LATE = 1,
  PERDURA_EVENT_MEDIUM_SLOW = 2,
  PERDURA_EVENT_DAMAGE = 3,
  PERDURA_EVENT_OTHER_TRACKER = 4,
  PERDURA_EVENT_UNREPORTED_PARTS = 5,
  PERDURA_EVENT_OPERATIONS_WAITED_FOR = 6,
  PERDURA_EVENT_SHARED = 7,
  PERDURA_EVENT_OUTSIDE_OPERATION = 8,
  PERDURA_EVENT_DRAIN_FAILED = 9
};

/* What no call returns; what each kind means, and what a listener may do, is in perdura/event.hpp.
 * It and its texts are valid during the call. Later versions may add fields at the end. */
typedef struct perdura_event {
  enum perdura_event_kind kind;
  int code; /* a perdura_code; PERDURA_OK where nothing failed */
  const char* store;
  const char* message;
  uint64_t durable_version;
} perdura_event;
typedef void (*perdura_event_listener)(const perdura_event* event, void* user);

/* For fields of which 0 takes a default that is another number: none at all. */
#define PERDURA_NO_OVER_PROVISIONING UINT32_MAX
#define PERDURA_NO_BACKGROUND_VERIFICATION UINT64_MAX
#define PERDURA_NO_DRAIN_WAIT UINT32_MAX

/* Zero-initialise it; a zero field takes the default of perdura/options.hpp. Fields are only ever
 * added at the end, and a program may run with a library of another version: perdura_open hands
 * over the size that it was compiled with. */
typedef struct perdura_options {
  int must_exist; /* 1: do not create the store */
  enum perdura_tracking tracking;
  uint64_t region_limit_bytes;
  uint64_t region_address;
  uint64_t log_limit_bytes;
  uint32_t aliases;
  uint32_t chunk_bytes;
  enum perdura_engine engine;
  uint32_t versions_kept;
  uint32_t over_provisioning;
  uint64_t version;
  enum perdura_capture capture;
  const char* region;
  enum perdura_verify verify;
  int confirm_versions; /* 1: see perdura/options.hpp */
  int read_only;        /* 1: see perdura/options.hpp */
  enum perdura_on_damage on_damage;
  /* Since version 2 of it. 1 says no to what is the default. */
  uint32_t granule_bytes;
  uint64_t log_segment_bytes;
  uint64_t verify_bytes_per_second; /* or PERDURA_NO_BACKGROUND_VERIFICATION */
  int whole_chunks;
  int no_compare;
  int verify_reports;
  int no_lazy_recovery;
  int no_huge_pages;
  int allow_network_filesystem;
  perdura_event_listener on_event; /* NULL: events are lines on stderr */
  void* on_event_user;
  int strict;        /* 1: see perdura/options.hpp */
  const char* drain; /* NULL: none */
  uint64_t drain_bytes_per_second;
  uint32_t drain_wait_ms; /* or PERDURA_NO_DRAIN_WAIT */
} perdura_options;

/* Fails with PERDURA_UNSUPPORTED where the program sets an option that this library is too old to
 * know. */
int perdura_open_sized(const char* uri, const perdura_options* options, size_t options_bytes,
                       perdura_store** store);
/* options may be NULL. On success *store must be closed with perdura_close. */
PERDURA_SIZED int perdura_open(const char* uri, const perdura_options* options,
                               perdura_store** store) {
  return perdura_open_sized(uri, options, sizeof(perdura_options), store);
}
/* Takes a last checkpoint. The store is gone afterwards, whatever is returned. */
int perdura_close(perdura_store* store);

/* Removes a region with all that it holds; nobody may have the store open to write, nor the region
 * to read. */
int perdura_region_remove(const char* uri, const char* region);

/* NULL when there is no space. perdura_alloc aligns to 16 bytes. */
void* perdura_alloc(perdura_store* store, size_t size);
void* perdura_aligned_alloc(perdura_store* store, size_t alignment, size_t size);
void* perdura_realloc(perdura_store* store, void* block, size_t size);
/* Zeroed: `count` objects of a type with a record, or one of `bytes` bytes that ends with a
 * flexible array. A store that holds nothing else can be opened at another address. Fails with
 * PERDURA_TYPE_MISMATCH when the store knows another layout of the type, or other members where
 * the record says all of them (PERDURA_STRUCT), and names both. perdura_realloc keeps the type. */
void* perdura_alloc_typed(perdura_store* store, const perdura_type* type, size_t count);
void* perdura_alloc_flexible(perdura_store* store, const perdura_type* type, size_t bytes);
/* Fails as these do; adds nothing to the store. */
int perdura_type_expect(perdura_store* store, const perdura_type* type);
int perdura_free(perdura_store* store, void* block);
size_t perdura_usable_size(perdura_store* store, const void* block);

/* A named entry point. Setting NULL removes it; getting an absent one gives NULL. */
int perdura_root_set(perdura_store* store, const char* name, void* object);
void* perdura_root_get(perdura_store* store, const char* name);
/* The same of a root that is an object of a type. Fails with PERDURA_TYPE_MISMATCH where the object
 * is of another one, and where the store knows other members of it, or of a type in it, than the
 * record says (PERDURA_STRUCT): the sentence has both. C++ finds the root with the type of the same
 * name, and the other way round. */
int perdura_root_set_typed(perdura_store* store, const char* name, void* object,
                           const perdura_type* type);
void* perdura_root_get_typed(perdura_store* store, const char* name, const perdura_type* type);

/* --- types that change (docs/evolution.md) -----------------------------------------------------*/

/* How objects of a type are made of what they were. Both records say all members: that of the type
 * now with PERDURA_STRUCT, the former one with PERDURA_STRUCT_AS and the name of the type now.
 * Zero- initialise it: fields are only ever added at the end. */
typedef struct perdura_conversion {
  const perdura_type* former;
  const perdura_type* now;
  /* Fills a new object of what it was; both have pointers to objects as they were. What is not 0
   * ends the conversion of all. NULL: members of the same names get what they had, of numbers the
   * value, of longer arrays the first elements. */
  int (*convert)(const void* was, void* object, void* user);
  void* user;
  const void* defaults; /* what each new object is at first; NULL: zero */
} perdura_conversion;

/* Make each object of the types anew, and mend all pointers to them, as Store::migrate does
 * (perdura/store.hpp): in one operation, so that a crash before the next version leaves all of them
 * as they were; and so does a failure. *converted, which may be NULL: how many blocks there were; 0
 * where the store has the new members already. Types that are members of each other are converted
 * in one call. No other thread may use the store meanwhile. */
int perdura_migrate_sized(perdura_store* store, const perdura_conversion* conversions, size_t count,
                          size_t conversion_bytes, uint64_t* converted);
PERDURA_SIZED int perdura_migrate(perdura_store* store, const perdura_conversion* conversions,
                                  size_t count, uint64_t* converted) {
  return perdura_migrate_sized(store, conversions, count, sizeof(perdura_conversion), converted);
}
/* Of one type, without a function. defaults may be NULL. */
PERDURA_SIZED int perdura_evolve(perdura_store* store, const perdura_type* former,
                                 const perdura_type* now, const void* defaults,
                                 uint64_t* converted) {
  perdura_conversion one;
  one.former = former;
  one.now = now;
  one.convert = NULL;
  one.user = NULL;
  one.defaults = defaults;
  return perdura_migrate(store, &one, 1, converted);
}

/* Report a store before it happens; needed with PERDURA_TRACK_REPORTED and _BITMAP. */
void perdura_touch(perdura_store* store, const void* address, size_t length);

/* One consistent step: no checkpoint falls between begin and end, which are called in the same
 * thread. They nest. An end too many ends nothing: perdura_last_code says PERDURA_MISUSE. */
int perdura_operation_begin(perdura_store* store);
void perdura_operation_end(perdura_store* store);

/* Durable when it returns 0. version may be NULL. */
int perdura_checkpoint(perdura_store* store, uint64_t* version);
/* The object of a root alone, with its name; see perdura/store.hpp. version may be NULL. */
int perdura_checkpoint_root(perdura_store* store, const char* name, uint64_t* version);
int perdura_checkpoint_async(perdura_store* store, uint64_t* version);
int perdura_wait(perdura_store* store, uint64_t version);
/* Every `milliseconds` in the background; 0 stops. */
int perdura_checkpoint_every(perdura_store* store, uint32_t milliseconds);
uint64_t perdura_durable_version(perdura_store* store);
/* The newest version that the second place has (perdura_options.drain); 0: none. */
uint64_t perdura_drained_version(perdura_store* store);

/* Add the newest durable version to a backup of the store at `uri`, sending what it does not have
 * (docs/backup.md). bytes_per_second: read at most; 0: as fast as it goes. version, which may be
 * NULL: of this store, which the backup has from then on. Not inside an operation. */
int perdura_backup(perdura_store* store, const char* uri, uint64_t bytes_per_second,
                   uint64_t* version);

/* A snapshot of a store's counters; what each means is in perdura/options.hpp (Statistics). Times
 * are nanoseconds. Fields are only ever added at the end; those that the library does not know are
 * 0. */
typedef struct perdura_statistics {
  uint64_t durable_version;
  uint64_t replayed_version;
  uint64_t checkpoints;
  uint64_t failed_checkpoints;
  uint64_t checkpoint_ns;
  uint64_t changed_bytes;
  uint64_t log_bytes;
  uint64_t log_live_bytes;
  uint64_t log_capacity_bytes;
  uint64_t log_limit_bytes;
  uint64_t log_waits;
  uint64_t home_bytes;
  uint64_t side_copies;
  uint64_t region_backed_bytes;
  uint64_t pause_count;
  uint64_t pause_p99_ns;
  uint64_t pause_max_ns;
  uint64_t verified_bytes;
  uint64_t damaged_pages;
  uint64_t recovery_ns;
  uint64_t unreported;
  enum perdura_tracking tracking;
  uint32_t aliases;
  uint64_t confirmed_version;
  uint64_t pinned_version;
  /* Since version 2 of it. */
  uint64_t late_checkpoints;
  uint64_t stop_waits;
  uint64_t stop_wait_ns;
  uint64_t log_wait_ns;
  uint64_t checkpoint_waits;
  uint64_t checkpoint_wait_ns;
  uint64_t group_waits;
  uint64_t group_wait_ns;
  uint64_t events;
  uint64_t untyped_allocations;
  uint64_t drained_version;
  uint64_t drained_versions;
  uint64_t drain_skipped;
  uint64_t drain_read_bytes;
  uint64_t drain_bytes;
  uint64_t drain_failures;
} perdura_statistics;
int perdura_get_statistics_sized(perdura_store* store, perdura_statistics* statistics,
                                 size_t statistics_bytes);
PERDURA_SIZED int perdura_get_statistics(perdura_store* store, perdura_statistics* statistics) {
  return perdura_get_statistics_sized(store, statistics, sizeof(perdura_statistics));
}
int perdura_reset_statistics(perdura_store* store);

/* What the heap holds, proven by walking all of its metadata. Other threads must not allocate
 * meanwhile. Fields are only ever added at the end. */
typedef struct perdura_heap_audit {
  int clean;
  uint64_t live_blocks;
  uint64_t live_bytes; /* by usable size */
  uint64_t free_bytes; /* in slabs and free runs */
  uint64_t slabs;
  uint64_t large_blocks;
  uint64_t largest_free_bytes;
  uint64_t roots;
  uint64_t types;    /* that blocks have or had */
  char problem[512]; /* "" when clean; else the first thing wrong, with its address */
} perdura_heap_audit;
/* Returns 0 also of a heap that is not clean. */
int perdura_audit_sized(perdura_store* store, perdura_heap_audit* audit, size_t audit_bytes);
PERDURA_SIZED int perdura_audit(perdura_store* store, perdura_heap_audit* audit) {
  return perdura_audit_sized(store, audit, sizeof(perdura_heap_audit));
}

/* The sentence of this thread's last failure; never NULL. */
const char* perdura_last_error(void);
/* Its perdura_code, for functions that return a pointer; 0 before any. */
int perdura_last_code(void);

#ifdef __cplusplus
}
#endif

#endif
