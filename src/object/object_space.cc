#include "object/object_space.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "base/assert.hpp"

namespace perdura::object {

using format::Extent;
using format::ExtentKind;

namespace {

constexpr u64 kGrowBytesMin = 4 * kMiB;

}  // namespace

void ObjectSpace::read() {
  free_.clear();
  const std::vector<Extent> extents = volume_.extents(ExtentKind::kObjects, region_);
  for (const Extent& extent : extents) {
    reserve();
    give_back(extent.medium_offset, extent.length);
  }
}

void ObjectSpace::reserve() { spare_.emplace(next_spare_++, 0); }

// The first that fits, or the end of the last one.
Result<u64> ObjectSpace::place_for(u64 bytes, bool moves) const {
  const auto fits = [&](const auto& each) { return each.second >= bytes; };
  if (moves) {
    const auto found = std::ranges::find_if(free_, fits);
    if (found != free_.end()) return found->first;
  } else {
    const auto found = std::find_if(free_.rbegin(), free_.rend(), fits);
    if (found != free_.rend()) return found->first + found->second - bytes;
  }
  u64 all = 0, largest = 0;
  for (const auto& [place, length] : free_) all += length, largest = std::max(largest, length);
  return Failure{Code::kNoSpace,
                 "'" + volume_.name() + "' has no " + std::to_string(bytes) +
                     " bytes left in one piece for an object: of those that are its objects' " +
                     std::to_string(all) + " are free, the largest piece has " +
                     std::to_string(largest) + "; remove some, or give it more space"};
}

Result<u64> ObjectSpace::allocate(u64 bytes, bool moves) {
  bytes = pages_bytes(bytes);
  Result<u64> place = place_for(bytes, moves);
  if (!place) {
    if (Status grown = grow(bytes); !grown) {
      if (grown.failure().code != Code::kNoSpace) return grown.failure();
      return Failure{Code::kNoSpace, place.failure().message + ". " + grown.failure().message};
    }
    place = place_for(bytes, moves);
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
  reserve();
  Result<Extent> made = volume_.allocate_objects(region_, ExtentKind::kObjects, wanted);
  if (!made && made.failure().code == Code::kNoSpace && wanted != bytes)
    made = volume_.allocate_objects(region_, ExtentKind::kObjects, bytes);
  if (!made) {
    spare_.erase(spare_.begin());
    return made.failure();
  }
  give_back(made->medium_offset, made->length);
  return {};
}

bool ObjectSpace::take(u64 place, u64 bytes) {
  bytes = pages_bytes(bytes);
  const auto after = free_.upper_bound(place);
  if (after == free_.begin()) return false;
  const auto found = std::prev(after);
  const auto [begin, length] = *found;
  if (place - begin > length || bytes > length - (place - begin)) return false;
  const u64 left = length - (place - begin) - bytes;
  if (place == begin && left == 0) {
    Pieces::node_type piece = free_.extract(found);
    piece.key() = next_spare_++;
    spare_.insert(std::move(piece));
    return true;
  }
  reserve();
  if (left != 0) free_.emplace(place + bytes, left);
  if (place != begin) found->second = place - begin;
  else free_.erase(found);
  return true;
}

void ObjectSpace::give_back(u64 place, u64 bytes) noexcept {
  PERDURA_ASSERT(!spare_.empty());
  Pieces::node_type piece = spare_.extract(spare_.begin());
  bytes = pages_bytes(bytes);
  auto after = free_.lower_bound(place);
  PERDURA_ASSERT(after == free_.end() || after->first >= place + bytes);
  if (after != free_.end() && after->first == place + bytes) {
    bytes += after->second;
    after = free_.erase(after);
  }
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    PERDURA_ASSERT(before->first + before->second <= place);
    if (before->first + before->second == place) {
      before->second += bytes;
      return;
    }
  }
  piece.key() = place;
  piece.mapped() = bytes;
  free_.insert(std::move(piece));
}

}  // namespace perdura::object
