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

/* Zero-initialise it; a zero field takes the default of perdura/options.hpp. */
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
} perdura_options;

/* options may be NULL. On success *store must be closed with perdura_close. */
int perdura_open(const char* uri, const perdura_options* options, perdura_store** store);
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
 * PERDURA_TYPE_MISMATCH when the store knows another layout of the type, and names both.
 * perdura_realloc keeps the type. */
void* perdura_alloc_typed(perdura_store* store, const perdura_type* type, size_t count);
void* perdura_alloc_flexible(perdura_store* store, const perdura_type* type, size_t bytes);
/* Fails as these do; adds nothing to the store. */
int perdura_type_expect(perdura_store* store, const perdura_type* type);
int perdura_free(perdura_store* store, void* block);
size_t perdura_usable_size(perdura_store* store, const void* block);

/* A named entry point. Setting NULL removes it; getting an absent one gives NULL. */
int perdura_root_set(perdura_store* store, const char* name, void* object);
void* perdura_root_get(perdura_store* store, const char* name);

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

/* A snapshot of a store's counters; what each means is in perdura/options.hpp (Statistics). Times
 * are nanoseconds. failed_checkpoints is how a program learns that perdura_checkpoint_every fails;
 * the first of each kind is also said on stderr. */
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
} perdura_statistics;
int perdura_get_statistics(perdura_store* store, perdura_statistics* statistics);

/* The sentence of this thread's last failure; never NULL. */
const char* perdura_last_error(void);
/* Its perdura_code, for functions that return a pointer; 0 before any. */
int perdura_last_code(void);

#ifdef __cplusplus
}
#endif

#endif
