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
          {"source", version.source.version == 0 ? Json()
                                                 : Json({{"uuid", uuid_text(version.source.uuid)},
                                                         {"version", version.source.version}})},
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

Json log_json(const store::LogDescription& log) {
  return {{"segments", log.segments},           {"capacity_bytes", log.capacity_bytes},
          {"live_segments", log.live_segments}, {"live_versions", log.live_versions},
          {"live_bytes", log.live_bytes},       {"live_generation", log.live_generation},
          {"transactions", log.transactions}};
}

Json container_json(const store::ContainerDescription& container) {
  Json json = {{"marked_pages", container.marked_pages},
               {"shadows", container.shadows},
               {"shadow_bytes", container.shadow_bytes},
               {"modules", Json::array()}};
  for (const auto& module : container.modules)
    json["modules"].push_back(
        {{"name", module.name}, {"build_id", module.build_id}, {"symbols", module.symbols}});
  return json;
}

const char* history_text(format::ObjectHistory history) {
  switch (history) {
    case format::ObjectHistory::kNone:
      return "none";
    case format::ObjectHistory::kLast:
      return "last";
    case format::ObjectHistory::kAll:
      return "all";
  }
  return "unknown";
}

Json content_json(const store::ObjectDescription::Content& content) {
  Json json = {{"tail", content.tail},
               {"new_entries", content.new_entries},
               {"resilient_entries", content.resilient_entries},
               {"archived_calls", content.archived_calls},
               {"functions", content.functions},
               {"callers", Json::array()}};
  for (const store::ObjectDescription::Caller& caller : content.callers)
    json["callers"].push_back({{"potid", caller.potid}, {"calls", caller.calls}});
  return json;
}

Json objects_json(const std::vector<store::ObjectDescription>& objects) {
  Json json = Json::array();
  for (const store::ObjectDescription& object : objects)
    json.push_back({{"name", object.name},
                    {"type", object.type},
                    {"bytes", object.bytes},
                    {"log_bytes", object.log_bytes},
                    {"copy", object.copy},
                    {"copy_bytes", object.copy_bytes},
                    {"overflow_store", hex(object.overflow_store)},
                    {"overflow_place", object.overflow_place},
                    {"stand_in_place", object.stand_in_place},
                    {"owner_pid", object.owner_pid},
                    {"owner_lives", object.owner_lives},
                    {"copy_writes", object.copy_writes},
                    {"log_writes", object.log_writes},
                    {"head_writes", object.head_writes},
                    {"checkpoint", object.checkpoint},
                    {"history", history_text(object.history)},
                    {"callers_max", object.callers_max},
                    {"archive_bytes", object.archive_bytes},
                    {"archive_used_bytes", object.archive_used_bytes},
                    {"content", object.content ? content_json(*object.content) : Json()}});
  return json;
}

Json overflow_json(const store::OverflowDescription& overflow) {
  if (!overflow.is_known) return Json::object();
  return {{"store", uuid_text(overflow.uuid)}, {"region", overflow.region}};
}

Json usage_json(const store::HeapUsage& usage) {
  Json json = {{"total_bytes", usage.total_bytes()},
               {"kinds", Json::array()},
               {"free_block_bytes", usage.free_block_bytes},
               {"free_run_bytes", usage.free_run_bytes},
               {"free_runs", usage.free_runs},
               {"unused_bytes", usage.unused_bytes},
               {"slab_rest_bytes", usage.slab_rest_bytes},
               {"table_bytes", usage.table_bytes},
               {"roots", Json::array()},
               {"unreached_blocks", usage.unreached_blocks},
               {"unreached_bytes", usage.unreached_bytes}};
  for (const store::HeapUsage::Blocks& kind : usage.kinds)
    json["kinds"].push_back({{"type", kind.type.empty() ? Json() : Json(kind.type)},
                             {"block_bytes", kind.block_bytes},
                             {"blocks", kind.blocks},
                             {"bytes", kind.bytes}});
  for (const store::HeapUsage::Root& root : usage.roots)
    json["roots"].push_back({{"name", root.name},
                             {"blocks", root.blocks},
                             {"bytes", root.bytes},
                             {"untyped_blocks", root.untyped_blocks}});
  return json;
}

Json region_json(const store::RegionDescription& region) {
  Json json = {{"id", region.record.region},
               {"name", region.name()},
               {"address", hex(region.record.address)},
               {"limit_bytes", region.record.limit_bytes},
               {"aliases", region.record.aliases},
               {"chunk_bytes", region.record.chunk_bytes},
               {"versions_kept", region.record.versions_kept},
               {"is_unfinished", region.is_unfinished},
               {"durable_version", region.durable_version},
               {"replayed_version", region.replayed_version},
               {"versions", region_versions_json(region)},
               {"free_bytes", region.free_bytes},
               {"backed_bytes", region.backed_bytes},
               {"home_bytes", region.home_bytes},
               {"extents", Json::array()},
               {"log", region.log ? log_json(*region.log) : Json()},
               {"copy", region.copy ? Json(*region.copy) : Json()},
               {"heap", region.heap ? heap_json(*region.heap) : Json()},
               {"types", Json::array()},
               {"roots", Json::array()},
               {"container", region.container ? container_json(*region.container) : Json()},
               {"objects", region.objects ? objects_json(*region.objects) : Json()},
               {"overflow", region.overflow ? overflow_json(*region.overflow) : Json()}};
  for (const format::Extent& extent : region.extents)
    json["extents"].push_back({{"region_offset", extent.region_offset},
                               {"length", extent.length},
                               {"medium_offset", extent.medium_offset}});
  for (const store::TypeDescription& type : region.types)
    json["types"].push_back({{"name", type.name}, {"layout", type.layout}});
  for (const store::RootDescription& root : region.roots)
    json["roots"].push_back({{"name", root.name},
                             {"offset", root.offset},
                             {"type", root.type.empty() ? Json() : Json(root.type)},
                             {"fingerprint", hex(root.fingerprint)}});
  if (region.usage) json["usage"] = usage_json(*region.usage);
  return json;
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
               {"being_written", description.is_being_written},
               {"session", superblock.session},
               {"medium_bytes", description.medium_bytes},
               {"regions", Json::array()}};
  for (const store::RegionDescription& region : description.regions)
    json["regions"].push_back(region_json(region));
  if (!description.space.empty()) json["space"] = Json::array();
  for (const store::SpaceUsage& part : description.space)
    json["space"].push_back({{"purpose", part.purpose},
                             {"region", part.region.empty() ? Json() : Json(part.region)},
                             {"bytes", part.bytes}});
  return json;
}

Json to_json(const store::CheckReport& report) {
  Json findings = Json::array();
  Json notes = Json::array();
  for (const store::Finding& finding : report.findings) {
    Json json = {{"part", finding.part}, {"message", finding.message}};
    if (!finding.region.empty()) json["region"] = finding.region;
    if (finding.region_offset) json["region_offset"] = *finding.region_offset;
    if (finding.medium_offset) json["medium_offset"] = *finding.medium_offset;
    const bool damage = finding.severity == store::Finding::Severity::kDamage;
    (damage ? findings : notes).push_back(std::move(json));
  }
  Json json = {{"store", report.name},
               {"damaged", report.damaged()},
               {"incomplete", report.incomplete()},
               {"findings", std::move(findings)},
               {"notes", std::move(notes)},
               {"log_blocks", report.log_blocks},
               {"home_pages", report.home_pages},
               {"pending_pages", report.pending_pages},
               {"chunks", report.chunks},
               {"clean", nullptr},
               {"regions", Json::array()}};
  if (const auto& description = report.description) {
    json["clean"] = description->superblock.clean != 0;
    for (const store::RegionDescription& region : description->regions)
      json["regions"].push_back({{"name", region.name()},
                                 {"durable_version", region.durable_version},
                                 {"heap", region.heap ? heap_json(*region.heap) : Json()}});
  }
  return json;
}

Json versions_json(const store::Description& description) {
  Json json = {{"store", description.name}, {"regions", Json::array()}};
  for (const store::RegionDescription& region : description.regions)
    json["regions"].push_back({{"name", region.name()},
                               {"durable_version", region.durable_version},
                               {"versions", region_versions_json(region)}});
  return json;
}

std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace perdura::tools
