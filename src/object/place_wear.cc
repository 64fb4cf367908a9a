#include "object/place_wear.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/checksum.hpp"
#include "object/object_space.hpp"

namespace perdura::object {

using format::ObjectFreePlace;
using format::ObjectFreePlaces;
using format::ObjectHead;
using format::ObjectWear;

namespace {

constexpr u64 kMix = 0x9e3779b97f4a7c15;
constexpr u64 kPlacesBegin = offsetof(ObjectFreePlaces, places);

u64 checksum_of(const ObjectWear& wear, u64 sequence) {
  return checksum(wear.copy_writes, sizeof wear - sizeof wear.checksum) + kMix * sequence;
}

u64 bytes_of(const ObjectFreePlaces& places) {
  return kPlacesBegin + places.count * sizeof(ObjectFreePlace);
}

u64 checksum_of(const ObjectFreePlaces& places, u64 sequence) {
  return checksum(&places.count, bytes_of(places) - sizeof places.checksum) + kMix * sequence;
}

u64 filled(const ObjectHead& head, const ObjectWear& wear) {
  return head.log_lines == 0 ? 0 : wear.log_lines / head.log_lines;
}

}  // namespace

u64 PlaceWear::at(u64 place) const {
  const auto after = writes_.upper_bound(place);
  return after == writes_.begin() ? 0 : std::prev(after)->second;
}

void PlaceWear::split(u64 place) { writes_.emplace(place, at(place)); }

void PlaceWear::note(u64 place, u64 bytes, u64 writes) {
  if (writes == 0) return;
  const u64 end = place + pages_bytes(bytes);
  split(place);
  split(end);
  for (auto each = writes_.find(place); each->first != end;) {
    each->second = std::max(each->second, writes);
    const bool same = each != writes_.begin() && std::prev(each)->second == each->second;
    each = same ? writes_.erase(each) : std::next(each);
  }
}

void PlaceWear::note(const ObjectHead& head, const ObjectWear& wear) {
  if (head.log_lines == 0 || is_in_overflow(head)) return;
  for (size_t i = 0; i < std::size(wear.copy_writes); ++i)
    note(head.copy_place[i], format::object_image_bytes(head), wear.copy_writes[i]);
  note(head.log_place, head.log_lines * kLineBytes, filled(head, wear));
}

u64 PlaceWear::of(u64 place, u64 bytes) const {
  u64 most = at(place);
  const u64 end = place + pages_bytes(bytes);
  for (auto each = writes_.upper_bound(place); each != writes_.end() && each->first < end; ++each)
    most = std::max(most, each->second);
  return most;
}

ObjectWear PlaceWear::of(const ObjectHead& head) const {
  ObjectWear wear{};
  for (size_t i = 0; i < std::size(wear.copy_writes); ++i)
    wear.copy_writes[i] = of(head.copy_place[i], format::object_image_bytes(head));
  wear.log_lines = of(head.log_place, head.log_lines * kLineBytes) * head.log_lines;
  return wear;
}

// What is best begins where free space does, or where what was written more often ends.
std::optional<u64> PlaceWear::least_worn(const FreeSpace& free, u64 bytes) const {
  bytes = pages_bytes(bytes);
  std::optional<u64> best;
  u64 least = 0;
  const auto look = [&](u64 place) {
    const u64 writes = of(place, bytes);
    if (best && writes >= least) return;
    best = place;
    least = writes;
  };
  for (const auto& [begin, length] : free) {
    if (length < bytes) continue;
    look(begin);
    const u64 last = begin + length - bytes;
    for (auto each = writes_.upper_bound(begin); each != writes_.end() && each->first <= last;
         ++each)
      look(each->first);
  }
  return best;
}

// Both are in the order of places: each is gone through once, however many pieces there are.
std::vector<ObjectFreePlace> PlaceWear::worn(const FreeSpace& free) const {
  std::vector<ObjectFreePlace> found;
  auto next = writes_.begin();
  for (const auto& [begin, length] : free) {
    const u64 end = begin + length;
    while (next != writes_.end() && next->first <= begin) ++next;
    for (u64 place = begin; place < end;) {
      const u64 writes = next == writes_.begin() ? 0 : std::prev(next)->second;
      const u64 until = next == writes_.end() ? end : std::min(next->first, end);
      if (writes != 0) found.push_back({place, until - place, writes});
      if (until < end) ++next;
      place = until;
    }
  }
  const size_t kept = std::min<size_t>(found.size(), format::kObjectFreePlacesMax);
  std::ranges::partial_sort(found, found.begin() + static_cast<std::ptrdiff_t>(kept),
                            std::greater(), &ObjectFreePlace::writes);
  found.resize(kept);
  return found;
}

u64 most_writes(const ObjectHead& head, const ObjectWear& wear) {
  return std::max({wear.copy_writes[0], wear.copy_writes[1], filled(head, wear)});
}

void sum(ObjectWear& wear, u64 sequence) { wear.checksum = checksum_of(wear, sequence); }

ObjectWear wear_found(const ObjectHead& head, const ObjectWear& behind) {
  const bool is_of_head =
      head.log_lines != 0 && behind.checksum == checksum_of(behind, head.sequence);
  return is_of_head ? behind : ObjectWear{};
}

u64 sum(ObjectFreePlaces& places, u64 sequence) {
  places.checksum = checksum_of(places, sequence);
  return bytes_of(places);
}

std::vector<ObjectFreePlace> free_places_found(const ObjectHead& head,
                                               const ObjectFreePlaces& behind) {
  if (behind.count == 0 || behind.count > format::kObjectFreePlacesMax ||
      behind.checksum != checksum_of(behind, head.sequence))
    return {};
  std::vector<ObjectFreePlace> found(behind.places, behind.places + behind.count);
  std::erase_if(found, [](const ObjectFreePlace& each) {
    return each.place % kPageBytes != 0 || each.bytes % kPageBytes != 0 || each.bytes == 0 ||
           each.place + each.bytes < each.place;
  });
  return found;
}

}  // namespace perdura::object
