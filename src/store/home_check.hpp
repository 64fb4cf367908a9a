// Every page of a home image compared with its table of checksums, for a report.
#pragma once

#include "region/home_map.hpp"
#include "region/volume.hpp"
#include "store/inspect.hpp"
#include "track/dirty_map.hpp"

namespace perdura::store {

/// What explains a page that does not fit.
struct HalfReplayed {
  const track::DirtyMap* in_log = nullptr;  ///< lines that the log changes; nullptr: none
  bool log_is_damaged = false;              ///< nobody knows which
};
void check_home(region::Volume& volume, const format::RegionRecord& region,
                const region::HomeMap& home, const HalfReplayed& half_replayed, CheckReport& report,
                const Progress& progress);

}  // namespace perdura::store
