#include "object/object_space.hpp"

#include <algorithm>
#include <iterator>

#include "base/assert.hpp"

namespace perdura::object {

using format::Extent;
using format::ExtentKind;

namespace {

constexpr u64 kGrowBytesMin = 4 * kMiB;

}  // namespace

void ObjectSpace::read() {
  free_.clear();
  for (const Extent& extent : volume_.extents(ExtentKind::kObjects, region_))
    give_back(extent.medium_offset, extent.length);
}

// First fit.
Result<u64> ObjectSpace::place_for(u64 bytes) const {
  const auto found =
      std::ranges::find_if(free_, [&](const auto& each) { return each.second >= bytes; });
  if (found != free_.end()) return found->first;
  return Failure{Code::kNoSpace,
                 "'" + volume_.name() + "' has no " + std::to_string(bytes) +
                     " bytes left in one piece for an object; remove some, or give it more "
                     "space"};
}

Result<u64> ObjectSpace::allocate(u64 bytes) {
  bytes = pages_bytes(bytes);
  Result<u64> place = place_for(bytes);
  if (!place) {
    PERDURA_TRY(grow(bytes));
    place = place_for(bytes);
  }
  if (!place) return place;
  const bool taken = take(*place, bytes);
  PERDURA_ASSERT(taken);
  return place;
}

// More than what is asked for, so that the directory stays short; or no more than that, where there
// is little left.
Status ObjectSpace::grow(u64 bytes) {
  u64 has = 0;
  for (const Extent& extent : volume_.extents(ExtentKind::kObjects, region_)) has += extent.length;
  const u64 left = round_down(bytes_max_ - std::min(bytes_max_, has), kPageBytes);
  if (left < bytes) return {};
  const u64 wanted = std::min(std::max(bytes, kGrowBytesMin), left);
  Result<Extent> made = volume_.allocate_objects(region_, ExtentKind::kObjects, wanted);
  if (!made && made.failure().code == Code::kNoSpace && wanted != bytes)
    made = volume_.allocate_objects(region_, ExtentKind::kObjects, bytes);
  if (!made) return made.failure();
  give_back(made->medium_offset, made->length);
  return {};
}

bool ObjectSpace::take(u64 place, u64 bytes) {
  bytes = pages_bytes(bytes);
  auto after = free_.upper_bound(place);
  if (after == free_.begin()) return false;
  const auto [begin, length] = *std::prev(after);
  if (place - begin > length || bytes > length - (place - begin)) return false;
  free_.erase(begin);
  if (place != begin) free_.emplace(begin, place - begin);
  if (const u64 left = length - (place - begin) - bytes; left != 0)
    free_.emplace(place + bytes, left);
  return true;
}

void ObjectSpace::give_back(u64 place, u64 bytes) {
  bytes = pages_bytes(bytes);
  auto after = free_.lower_bound(place);
  if (after != free_.end() && after->first == place + bytes) {
    bytes += after->second;
    after = free_.erase(after);
  }
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == place) {
      before->second += bytes;
      return;
    }
  }
  free_.emplace(place, bytes);
}

}  // namespace perdura::object
