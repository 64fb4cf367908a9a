// How often places of a region's space were written: of those that objects have, what their heads
// say; of those that are free, what the objects were told that had them, or that left them.
//
//   place  0        a        b        c
//          [ 0     )[ 17    )[ 3      )[ 0 ...
//
// Numbers only grow, so of several that are said of a place the highest counts, in whatever order
// they are found.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "format/object_format.hpp"

namespace perdura::object {

/// By place: bytes of free space (ObjectSpace).
using FreeSpace = std::map<u64, u64>;

/// Not thread-safe.
class PlaceWear {
 public:
  /// All of it was written so often, or more often.
  void note(u64 place, u64 bytes, u64 writes);
  void note(const format::ObjectHead& head, const format::ObjectWear& wear);
  /// What was written most often of it.
  u64 of(u64 place, u64 bytes) const;
  /// Of an object's places.
  format::ObjectWear of(const format::ObjectHead& head) const;
  /// Where in free space so many bytes were written least often; nothing: it has no such piece.
  std::optional<u64> least_worn(const FreeSpace& free, u64 bytes) const;
  /// Of free space what was written most often, as many as a head has room for.
  std::vector<format::ObjectFreePlace> worn(const FreeSpace& free) const;

 private:
  /// Of the place on, up to the next one; before the first one 0.
  std::map<u64, u64> writes_;

  u64 at(u64 place) const;
  void split(u64 place);
};

/// The most that a place of the object was written; of its log how often the circle was filled.
u64 most_writes(const format::ObjectHead& head, const format::ObjectWear& wear);

/// As it lies behind a head; and what was found there, zeros where it is torn or of another head.
void sum(format::ObjectWear& wear, u64 sequence);
format::ObjectWear wear_found(const format::ObjectHead& head, const format::ObjectWear& behind);
/// The same of free places; so many bytes of it are written.
u64 sum(format::ObjectFreePlaces& places, u64 sequence);
std::vector<format::ObjectFreePlace> free_places_found(const format::ObjectHead& head,
                                                       const format::ObjectFreePlaces& behind);

}  // namespace perdura::object
