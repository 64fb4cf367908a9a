#include "region/engine_rules.hpp"

#include <bit>

#include "format/object_format.hpp"
#include "format/remap_format.hpp"

namespace perdura::region {
namespace {

using format::EngineId;
using format::Extent;
using format::ExtentKind;
using format::RegionRecord;

constexpr EngineRules kRedoLog{
    .feature = 0,
    .record_fits =
        [](const RegionRecord& record) {
          return record.chunk_bytes == 0 && record.versions_kept == 0;
        },
    .extent_fits =
        [](const RegionRecord&, const Extent& extent) {
          return extent.kind == ExtentKind::kLog || extent.kind == ExtentKind::kHome;
        },
    .needs_bytes = true,
    .has_objects = false,
    .is_overflow = false,
    .version_records_bytes = [](const RegionRecord&) { return u64{0}; },
};

constexpr EngineRules kRemap{
    .feature = format::kFeatureRemap,
    .record_fits =
        [](const RegionRecord& record) {
          return std::has_single_bit(record.chunk_bytes) &&
                 record.chunk_bytes >= format::kChunkBytesMin &&
                 record.chunk_bytes <= format::kChunkBytesMax && record.versions_kept != 0 &&
                 record.versions_kept <= format::kVersionsKeptMax;
        },
    .extent_fits =
        [](const RegionRecord& record, const Extent& extent) {
          return extent.kind == ExtentKind::kVersions
                     ? extent.length == format::version_records_bytes(record)
                     : extent.kind == ExtentKind::kChunks &&
                           is_aligned(extent.medium_offset | extent.length, record.chunk_bytes);
        },
    .needs_bytes = false,
    .has_objects = false,
    .is_overflow = false,
    .version_records_bytes = format::version_records_bytes,
};

/// Regions of objects, by what they are to overflow stores.
constexpr EngineRules objects_rules(u64 feature, bool is_overflow) {
  return {
      .feature = format::kFeatureObjects | feature,
      .record_fits =
          [](const RegionRecord& record) {
            const bool has_mark = record.engine == EngineId::kObjectsOverflowing;
            return (record.chunk_bytes == 0 || has_mark) && record.versions_kept == 0 &&
                   record.aliases == 0;
          },
      .extent_fits =
          [](const RegionRecord&, const Extent& extent) {
            return extent.kind == ExtentKind::kObjects ||
                   (extent.kind == ExtentKind::kObjectHeads &&
                    extent.length % (2 * format::kObjectHeadBytes) == 0);
          },
      .needs_bytes = true,
      .has_objects = true,
      .is_overflow = is_overflow,
      .version_records_bytes = [](const RegionRecord&) { return u64{0}; },
  };
}
constexpr EngineRules kObjects = objects_rules(0, false);
constexpr EngineRules kObjectsOverflowing = objects_rules(format::kFeatureOverflow, false);
constexpr EngineRules kOverflow = objects_rules(format::kFeatureOverflow, true);

constexpr EngineRules kCopies{
    .feature = format::kFeatureCopies,
    .record_fits =
        [](const RegionRecord& record) {
          return record.chunk_bytes == 0 && record.versions_kept == 0;
        },
    .extent_fits = [](const RegionRecord&,
                      const Extent& extent) { return extent.kind == ExtentKind::kCopies; },
    .needs_bytes = true,
    .has_objects = false,
    .is_overflow = false,
    .version_records_bytes = [](const RegionRecord&) { return u64{0}; },
};

constexpr EngineRules kUnknown{
    .feature = 0,
    .record_fits = [](const RegionRecord&) { return false; },
    .extent_fits = [](const RegionRecord&, const Extent&) { return false; },
    .needs_bytes = false,
    .has_objects = false,
    .is_overflow = false,
    .version_records_bytes = [](const RegionRecord&) { return u64{0}; },
};

constexpr const EngineRules& rules_of(EngineId engine) {
  switch (engine) {
    case EngineId::kRedoLog:
      return kRedoLog;
    case EngineId::kRemap:
      return kRemap;
    case EngineId::kObjects:
      return kObjects;
    case EngineId::kObjectsOverflowing:
      return kObjectsOverflowing;
    case EngineId::kOverflow:
      return kOverflow;
    case EngineId::kCopies:
      return kCopies;
    case EngineId::kUnsaid:
      break;
  }
  return kUnknown;
}

constexpr u64 features_of_engines() {
  u64 features = 0;
  for (u16 id = 0; id < 64; ++id) features |= rules_of(static_cast<EngineId>(id)).feature;
  return features;
}
static_assert((features_of_engines() | format::kFeatureAliases | format::kFeatureUnfinished) ==
              format::kKnownIncompatible);

}  // namespace

const EngineRules& engine_rules(const RegionRecord& record) { return rules_of(record.engine); }

// Version 2 had a versions_kept of twice the size where the engine is now.
bool name_engine(RegionRecord& record) {
  if (record.engine != EngineId::kUnsaid) return false;
  record.engine = record.chunk_bytes == 0 ? EngineId::kRedoLog : EngineId::kRemap;
  return true;
}

bool has_overflow_mark(const RegionRecord& record) { return record.chunk_bytes != 0; }
bool may_overflow_to(const RegionRecord& record, u64 store_id) {
  return !has_overflow_mark(record) || record.chunk_bytes == format::overflow_mark(store_id);
}

}  // namespace perdura::region
