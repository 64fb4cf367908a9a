#include "json.hpp"

#include <fmt/format.h>

#include "text.hpp"

namespace perdura::tools {
namespace {

using Json = nlohmann::ordered_json;

std::string hex(u64 value) { return fmt::format("{:#x}", value); }

Json version_json(const store::VersionDescription& version) {
  return {{"version", version.number},
          {"time_ns", version.time_ns},
          {"origin", version.origin == 0 ? Json() : Json(version.origin)},
          {"changed_chunks", version.changed_chunks},
          {"written_bytes", version.written_bytes},
          {"backed_bytes", version.backed_bytes}};
}

Json region_versions_json(const store::RegionDescription& region) {
  Json versions = Json::array();
  for (const store::VersionDescription& version : region.versions)
    versions.push_back(version_json(version));
  return versions;
}

Json region_json(const store::RegionDescription& region) {
  Json extents = Json::array();
  for (const format::Extent& extent : region.extents)
    extents.push_back({{"region_offset", extent.region_offset},
                       {"length", extent.length},
                       {"medium_offset", extent.medium_offset}});
  return {{"id", region.record.region},
          {"name", fixed_text(region.record.name)},
          {"address", hex(region.record.address)},
          {"limit_bytes", region.record.limit_bytes},
          {"aliases", region.record.aliases},
          {"chunk_bytes", region.record.chunk_bytes},
          {"versions_kept", region.record.versions_kept},
          {"free_bytes", region.free_bytes},
          {"versions", region_versions_json(region)},
          {"backed_bytes", region.backed_bytes},
          {"home_bytes", region.home_bytes},
          {"replayed_version", region.replayed_version},
          {"extents", std::move(extents)}};
}

Json heap_json(const HeapAudit& heap) {
  return {{"clean", heap.clean},
          {"problem", heap.problem},
          {"live_blocks", heap.live_blocks},
          {"live_bytes", heap.live_bytes},
          {"free_bytes", heap.free_bytes},
          {"slabs", heap.slabs},
          {"large_blocks", heap.large_blocks},
          {"largest_free_bytes", heap.largest_free_bytes},
          {"roots", heap.roots}};
}

}  // namespace

Json to_json(const store::Description& description) {
  const format::Superblock& superblock = description.superblock;
  Json json = {{"store", description.name},
               {"uuid", uuid_text(superblock.uuid)},
               {"format_version", superblock.format_version},
               {"architecture", fixed_text(superblock.architecture)},
               {"compatible_features", hex(superblock.compatible_features)},
               {"incompatible_features", hex(superblock.incompatible_features)},
               {"clean", superblock.clean != 0},
               {"session", superblock.session},
               {"durable_version", description.durable_version},
               {"replayed_version",
                description.regions.empty() ? 0 : description.regions.front().replayed_version},
               {"medium_bytes", description.medium_bytes},
               {"log",
                {{"segments", description.log.segments},
                 {"capacity_bytes", description.log.capacity_bytes},
                 {"live_segments", description.log.live_segments},
                 {"live_versions", description.log.live_versions},
                 {"live_bytes", description.log.live_bytes},
                 {"live_generation", superblock.live_generation}}},
               {"regions", Json::array()},
               {"heap", nullptr},
               {"types", Json::array()},
               {"roots", Json::array()},
               {"container", nullptr}};
  for (const store::RegionDescription& region : description.regions)
    json["regions"].push_back(region_json(region));
  if (description.heap) json["heap"] = heap_json(*description.heap);
  for (const store::TypeDescription& type : description.types)
    json["types"].push_back({{"name", type.name}, {"layout", type.layout}});
  for (const store::RootDescription& root : description.roots)
    json["roots"].push_back(
        {{"name", root.name}, {"offset", root.offset}, {"fingerprint", hex(root.fingerprint)}});
  if (const auto& container = description.container) {
    json["container"] = {{"marked_pages", container->marked_pages},
                         {"shadows", container->shadows},
                         {"shadow_bytes", container->shadow_bytes},
                         {"modules", Json::array()}};
    for (const auto& module : container->modules)
      json["container"]["modules"].push_back(
          {{"name", module.name}, {"build_id", module.build_id}, {"symbols", module.symbols}});
  }
  return json;
}

Json to_json(const store::CheckReport& report) {
  Json findings = Json::array();
  Json notes = Json::array();
  for (const store::Finding& finding : report.findings) {
    Json json = {{"part", finding.part}, {"message", finding.message}};
    if (finding.region_offset) json["region_offset"] = *finding.region_offset;
    if (finding.medium_offset) json["medium_offset"] = *finding.medium_offset;
    const bool damage = finding.severity == store::Finding::Severity::kDamage;
    (damage ? findings : notes).push_back(std::move(json));
  }
  Json json = {{"store", report.name},
               {"damaged", report.damaged()},
               {"findings", std::move(findings)},
               {"notes", std::move(notes)},
               {"log_blocks", report.log_blocks},
               {"home_pages", report.home_pages},
               {"pending_pages", report.pending_pages},
               {"chunks", report.chunks},
               {"durable_version", nullptr},
               {"clean", nullptr},
               {"heap", nullptr}};
  if (const auto& description = report.description) {
    json["durable_version"] = description->durable_version;
    json["clean"] = description->superblock.clean != 0;
    if (description->heap) json["heap"] = heap_json(*description->heap);
  }
  return json;
}

Json versions_json(const store::Description& description) {
  Json json = {{"store", description.name},
               {"durable_version", description.durable_version},
               {"versions", Json::array()}};
  if (!description.regions.empty())
    json["versions"] = region_versions_json(description.regions.front());
  return json;
}

std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace perdura::tools
