/* Containers (SoftPM) from C: what can be reached from one root object becomes durable at each
 * persistence point. perdura/container.hpp says what that means.
 *
 *   PERDURA_DEFINE_TYPE(node_type, struct node, PERDURA_POINTER(struct node, next));
 *   PERDURA_DEFINE_TYPE(list_type, struct list, PERDURA_POINTER(struct list, first));
 *
 *   perdura_container_open("list.pd", NULL, &container);
 *   struct list* list = perdura_container_root(container, &list_type);
 *   struct node* node = perdura_new(&node_type, 1);
 *   node->next = list->first;
 *   list->first = node;
 *   perdura_container_point(container, NULL);
 *
 * Functions that can fail return 0 or a negative perdura_code, or NULL; perdura_last_error() then
 * gives a sentence. All may be called from any thread. */
#ifndef PERDURA_CONTAINER_H
#define PERDURA_CONTAINER_H

#include <perdura/perdura.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Objects; volatile until a point finds them reachable. Zeroed. `type` must be static. */
void* perdura_new(const perdura_type* type, size_t count);
void* perdura_new_flexible(const perdura_type* type, size_t bytes);
/* Of objects in containers as well. The object may move; what is new of it is zero. */
void* perdura_renew(void* object, size_t bytes);
int perdura_delete(void* object);

/* A volatile object stays where it is until it was unpinned as often; until then no version has
 * it. */
int perdura_pin(const void* object);
int perdura_unpin(const void* object);
/* A pointer that is no part of an object: it changes when the object that it leads to moves. */
int perdura_refer(void** pointer);
int perdura_forget(void** pointer);

typedef struct perdura_container perdura_container;

/* As perdura_open_sized. */
int perdura_container_open_sized(const char* uri, const perdura_options* options,
                                 size_t options_bytes, perdura_container** container);
/* options may be NULL. On success *container must be closed. */
PERDURA_SIZED int perdura_container_open(const char* uri, const perdura_options* options,
                                         perdura_container** container) {
  return perdura_container_open_sized(uri, options, sizeof(perdura_options), container);
}
/* The root, zeroed the first time. */
void* perdura_container_root(perdura_container* container, const perdura_type* type);
/* Durable when it returns 0. version may be NULL. */
int perdura_container_point(perdura_container* container, uint64_t* version);
/* Returns when it is fixed what the version holds. */
int perdura_container_point_async(perdura_container* container, uint64_t* version);
/* Waits for the points so far; fails as the first of them since the last call did. */
int perdura_container_sync(perdura_container* container);
/* Every `milliseconds` in the background; 0 stops. */
int perdura_container_point_every(perdura_container* container, uint32_t milliseconds);
/* Points do not follow this pointer, a word of an object. */
int perdura_container_exclude(perdura_container* container, const void* pointer);
/* With `warn` not 0: tell, once of each other container, that points find objects of it
 * (PERDURA_EVENT_SHARED).
 * What is shared is one object while the program runs, and one in each container after it. */
int perdura_container_warn_of_sharing(perdura_container* container, int warn);
/* One consistent step of a thread, while other threads take points. They nest. An end too many ends
 * nothing: perdura_last_code says PERDURA_MISUSE. */
int perdura_container_begin(perdura_container* container);
void perdura_container_end(perdura_container* container);
/* Takes a last point. The container is gone afterwards, whatever is returned. */
int perdura_container_close(perdura_container* container);
/* Closes without a last point. */
void perdura_container_discard(perdura_container* container);

#ifdef __cplusplus
}
#endif

#endif
