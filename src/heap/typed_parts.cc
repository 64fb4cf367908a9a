// What is compiled with --perdura-types says what it has when it is loaded (perdura/typed.h): the
// types of its objects, and its allocations without one, which count themselves.
#include <perdura/typed.h>

#include <atomic>
#include <mutex>

#include "base/process.hpp"
#include "heap/known_types.hpp"

namespace perdura {
namespace {

struct Parts {
  perdura_typed_part* first;
  unsigned long of_ended;  ///< allocations by sites of parts that were unloaded
};
constinit Parts parts{nullptr, 0};
std::mutex& parts_mutex() { return process_mutex(ProcessMutex::kTypedParts); }

unsigned long made_by(const perdura_typed_part& part) {
  unsigned long made = 0;
  for (size_t i = 0; i < part.site_count; ++i)
    made += std::atomic_ref(part.sites[i].made).load(std::memory_order_relaxed);
  return made;
}

}  // namespace

void heap::for_each_typed_type(const std::function<void(const perdura_type&)>& visit) {
  std::lock_guard lock(parts_mutex());
  for (const perdura_typed_part* part = parts.first; part != nullptr; part = part->next)
    for (size_t i = 0; i < part->type_count; ++i) visit(*part->types[i]);
}

extern "C" {

void perdura_typed_begin(perdura_typed_part* part) {
  std::lock_guard lock(parts_mutex());
  part->next = parts.first;
  parts.first = part;
}

void perdura_typed_end(perdura_typed_part* part) {
  std::lock_guard lock(parts_mutex());
  for (perdura_typed_part** at = &parts.first; *at != nullptr; at = &(*at)->next) {
    if (*at != part) continue;
    *at = part->next;
    parts.of_ended += made_by(*part);
    return;
  }
}

unsigned long perdura_untyped_allocations(void) {
  std::lock_guard lock(parts_mutex());
  unsigned long made = parts.of_ended;
  for (const perdura_typed_part* part = parts.first; part != nullptr; part = part->next)
    made += made_by(*part);
  return made;
}

void perdura_for_each_untyped_site(void (*visit)(const perdura_untyped_site*, void*),
                                   void* argument) {
  const perdura_typed_part* part = nullptr;
  {
    std::lock_guard lock(parts_mutex());
    part = parts.first;
  }
  for (; part != nullptr; part = part->next)
    for (size_t i = 0; i < part->site_count; ++i)
      if (part->sites[i].made != 0) visit(&part->sites[i], argument);
}

}  // extern "C"

}  // namespace perdura
