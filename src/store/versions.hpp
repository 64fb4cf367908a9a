// The versions that a store in chunks keeps, and going back to one of them.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "media/medium.hpp"
#include "region/volume.hpp"
#include "store/inspect.hpp"

namespace perdura::store {

/// Make a kept version the newest one: a new version with its content, which is verified first.
/// Nothing else is lost: versions go when newer ones take their place, as ever. Returns its number.
/// The store must not be open. `region` is a name, or "" for the first one.
Result<u64> roll_back(std::string_view uri, std::string_view region, u64 version,
                      const media::MediumOptions& options, const Progress& progress = no_progress);
Result<u64> roll_back(std::unique_ptr<media::Medium> medium, std::string_view region, u64 version,
                      const Progress& progress = no_progress);

/// Remove a region with all that it holds. The store must not be open.
Status remove_region(std::string_view uri, std::string_view region,
                     const media::MediumOptions& options);
Status remove_region(std::unique_ptr<media::Medium> medium, std::string_view region);

/// Where the copies of objects are that are away.
struct OverflowStoreOf {
  std::string_view uri = {};  ///< "": it is not said
  bool is_lost = false;       ///< nobody has it any more
};
/// Remove an object from a region of objects: the one that is named, or else the only one that has
/// an object of this name. Its space is free for others. The store must not be open. Returns
/// whether the object was away, and so has left space in the overflow store: kMisuse where that is
/// not said, or another one is.
Result<bool> remove_object(std::string_view uri, std::string_view region, std::string_view name,
                           const media::MediumOptions& options,
                           const OverflowStoreOf& overflow = {});

/// The same of a region in chunks, in a session of the volume. Its chunks are shared with it.
Result<u64> roll_chunks_back(region::Volume& volume, const format::RegionRecord& region,
                             u64 version, const Progress& progress);

/// As EngineKind::take_back.
Status take_chunks_back(region::Volume& volume, const format::RegionRecord& region, u64 version);

}  // namespace perdura::store
