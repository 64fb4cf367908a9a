// What a directory may hold of a region, by the engine that makes its versions. The only place in
// this layer that knows the engines; a new one is a line of the table.
#pragma once

#include "format/format.hpp"

namespace perdura::region {

struct EngineRules {
  u64 feature;  ///< incompatible, of a store that has such a region; 0: none
  /// What the engine keeps in the region's record is possible.
  bool (*record_fits)(const format::RegionRecord& record);
  /// Such an extent may be the region's.
  bool (*extent_fits)(const format::RegionRecord& record, const format::Extent& extent);
  bool needs_bytes;  ///< it is possible on a linear medium alone
  bool has_objects;  ///< it holds no heap
  bool is_overflow;  ///< it holds nothing but what another store says
  /// Of the space for version records with which the region is made; 0: it has none.
  u64 (*version_records_bytes)(const format::RegionRecord& record);
};

/// No record fits those of an engine that is not known.
const EngineRules& engine_rules(const format::RegionRecord& record);

/// A record of format version 2 says its engine from now on. False: it is not one of version 2.
bool name_engine(format::RegionRecord& record);

/// Of a region of objects: which overflow store it has is noted.
bool has_overflow_mark(const format::RegionRecord& record);
/// That store may be its overflow store, as far as is noted.
bool may_overflow_to(const format::RegionRecord& record, u64 store_id);

}  // namespace perdura::region
