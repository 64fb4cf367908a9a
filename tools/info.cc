// perdura info: what a store holds, and what takes its space.
#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "commands.hpp"
#include "json.hpp"
#include "object/function_name.hpp"
#include "progress.hpp"
#include "store/inspect.hpp"
#include "store/published.hpp"
#include "text.hpp"

namespace perdura::tools {
namespace {

using store::Description;
using store::RegionDescription;

std::string state_text(const Description& description) {
  u64 live_versions = 0;
  for (const RegionDescription& region : description.regions)
    if (region.log) live_versions += region.log->live_versions;
  if (description.is_being_written)
    return fmt::format("open in a process that writes to it; {} in the log",
                       count_text(live_versions, "version"));
  const bool clean = description.superblock.clean != 0;
  if (clean && live_versions == 0) return "closed in order";
  const char* const state = clean ? "closed in order" : "not closed in order";
  if (live_versions == 0) return fmt::format("{}; nothing to recover", state);
  return fmt::format("{}; the next opening recovers {} from the log", state,
                     count_text(live_versions, "version"));
}

void print_identity(const Description& description) {
  const format::Superblock& superblock = description.superblock;
  line("store", description.name);
  line("UUID", uuid_text(superblock.uuid));
  line("format", fmt::format("version {}, {}, features {:#x} compatible and {:#x} incompatible",
                             superblock.format_version, fixed_text(superblock.architecture),
                             superblock.compatible_features, superblock.incompatible_features));
  line("state", state_text(description));
  line("opened", count_text(superblock.session, "time"));
  line("medium", bytes_text(description.medium_bytes));
}

std::string aliases_text(u64 aliases) {
  if (aliases == 0) return {};
  return fmt::format(", {} {}", aliases, aliases == 1 ? "alias" : "aliases");
}

// Of a region with a log, whose home image may be behind.
void print_log(const RegionDescription& region, const store::LogDescription& log) {
  line("versions", fmt::format("{} durable, {} in the home image", region.durable_version,
                               region.replayed_version));
  line("log",
       fmt::format("{} in {}; live: {}, {} in {}", bytes_text(log.capacity_bytes),
                   count_text(log.segments, "segment"), count_text(log.live_versions, "version"),
                   bytes_text(log.live_bytes), count_text(log.live_segments, "segment")));
  if (log.transactions != 0)
    line("transactions", fmt::format("{} in the log", count_text(log.transactions, "record")));
}

void print_chunks(const RegionDescription& region) {
  line("versions", fmt::format("{} durable, {} of {} kept", region.durable_version,
                               region.versions.size(), region.record.versions_kept));
  line("chunks", fmt::format("of {}; {} free", bytes_text(region.record.chunk_bytes),
                             bytes_text(region.free_bytes)));
}

void print_space(const RegionDescription& region) {
  line("region",
       fmt::format("{} '{}' at {:#x}, limit {}{}; {} backed in {}, {} on the medium",
                   region.record.region, printable(region.name()), region.record.address,
                   bytes_text(region.record.limit_bytes), aliases_text(region.record.aliases),
                   bytes_text(region.backed_bytes), count_text(region.extents.size(), "extent"),
                   bytes_text(region.home_bytes)));
  if (region.is_unfinished) line("versions", "none yet: a copy to it was not completed");
  else if (region.log) print_log(region, *region.log);
  else if (region.copy)
    line("versions",
         fmt::format("{} durable, in copy {} of two", region.durable_version, *region.copy + 1));
  else if (!region.objects && !region.overflow) print_chunks(region);
}

void print_object_content(const store::ObjectDescription& object) {
  if (!object.content) return;
  const store::ObjectDescription::Content& content = *object.content;
  fmt::print("    log: checkpoint {}, tail {}; entries: {} new, {} resilient\n", object.checkpoint,
             content.tail, content.new_entries, content.resilient_entries);
  if (object.archive_bytes != 0)
    fmt::print("    archive: {} in {} of {}\n", count_text(content.archived_calls, "call"),
               bytes_text(object.archive_used_bytes), bytes_text(object.archive_bytes));
  for (const store::ObjectDescription::Caller& caller : content.callers)
    fmt::print("    caller {}: {}\n", caller.potid, count_text(caller.calls, "call"));
  for (const std::string& function : content.functions)
    fmt::print("    function {}\n", printable(object::function_text(function)));
}

void print_objects(const std::vector<store::ObjectDescription>& objects) {
  line("objects", std::to_string(objects.size()));
  for (const store::ObjectDescription& object : objects) {
    const std::string copies =
        object.overflow_store != 0
            ? fmt::format("its copy of {} is in overflow store {:016x}, at medium offset {}",
                          bytes_text(object.copy_bytes), object.overflow_store,
                          object.overflow_place)
            : fmt::format("copy {} of two, of {} each, is resilient{}", object.copy + 1,
                          bytes_text(object.copy_bytes),
                          object.stand_in_place != 0
                              ? ", for the other one its copy in the overflow store stands in"
                              : "");
    fmt::print("  {:<24} {} of {}, log of {}; {}\n", printable(object.name),
               bytes_text(object.bytes), printable(object::type_text(object.type)),
               bytes_text(object.log_bytes), copies);
    if (object.owner_pid != 0)
      fmt::print("    owner: process {}, which {}\n", object.owner_pid,
                 object.owner_lives ? "is running" : "has ended");
    fmt::print("    written: copies {} and {} times, log {}, head {}\n", object.copy_writes[0],
               object.copy_writes[1], object.log_writes, object.head_writes);
    print_object_content(object);
  }
}

// By its block's type record, and by the fingerprint with which it was set.
std::string root_type_text(const store::RootDescription& root) {
  if (root.type.empty())
    return root.fingerprint == 0 ? "untyped" : fmt::format("type {:#x}", root.fingerprint);
  const std::string type = fmt::format("type '{}'", printable(root.type));
  return root.fingerprint == 0 ? type : fmt::format("{} ({:#x})", type, root.fingerprint);
}

void print_heap(const RegionDescription& description) {
  if (!description.heap) return line("heap", "none yet: no version was made durable");
  const HeapAudit& heap = *description.heap;
  if (!heap.clean) return line("heap", "damaged: " + heap.problem);
  line("heap", fmt::format("{} with {}; {} free in {} and free units; {}; room for a block of {}",
                           count_text(heap.live_blocks, "live block"), bytes_text(heap.live_bytes),
                           bytes_text(heap.free_bytes), count_text(heap.slabs, "slab"),
                           count_text(heap.large_blocks, "large block"),
                           bytes_text(heap.largest_free_bytes)));
  if (!description.types.empty()) {
    line("types", std::to_string(description.types.size()));
    for (const store::TypeDescription& type : description.types)
      fmt::print("  {:<24} {}\n", printable(type.name), printable(type.layout));
  }
  line("roots", std::to_string(description.roots.size()));
  for (const store::RootDescription& root : description.roots)
    fmt::print("  {:<24} region offset {:#x}, {}\n", printable(root.name), root.offset,
               root_type_text(root));
}

void print_container(const store::ContainerDescription& container) {
  line("container", fmt::format("pointers lead out of it in {}, to {}",
                                count_text(container.marked_pages, "page"),
                                count_text(container.modules.size(), "module")));
  if (container.shadows != 0)
    line("shadows",
         fmt::format("{} of other containers, with {}", count_text(container.shadows, "object"),
                     bytes_text(container.shadow_bytes)));
  for (const auto& module : container.modules)
    fmt::print("  {:<24} build {}, {}\n", printable(module.name), module.build_id,
               count_text(module.symbols, "symbol"));
}

void print_overflow(const store::OverflowDescription& overflow) {
  line("overflow", overflow.is_known
                       ? fmt::format("an overflow store, with copies of objects of region {} of "
                                     "store {}",
                                     overflow.region, uuid_text(overflow.uuid))
                       : "an overflow store, which does not say of which store");
}

void print_region(const RegionDescription& region) {
  print_space(region);
  if (region.overflow) return print_overflow(*region.overflow);
  if (region.objects) return print_objects(*region.objects);
  print_heap(region);
  if (region.container) print_container(*region.container);
}

std::string kind_text(const store::HeapUsage::Blocks& kind) {
  if (!kind.type.empty()) return printable(kind.type);
  if (kind.block_bytes == 0) return "untyped, large blocks";
  return fmt::format("untyped, of {}", bytes_text(kind.block_bytes));
}

void print_part(const std::string& what, u64 bytes, const std::string& more = {}) {
  if (bytes != 0) fmt::print("  {:<44} {:>14}{}\n", what, bytes_text(bytes), more);
}

void print_roots(const store::HeapUsage& usage) {
  for (const store::HeapUsage::Root& root : usage.roots)
    fmt::print("  {:<44} {:>14} in {}{}\n", fmt::format("reached from '{}'", printable(root.name)),
               bytes_text(root.bytes), count_text(root.blocks, "block"),
               root.untyped_blocks == 0
                   ? ""
                   : fmt::format(", {} without a type, behind which nothing is found",
                                 root.untyped_blocks));
  print_part("reached from no root by typed pointers", usage.unreached_bytes,
             fmt::format(" in {}", count_text(usage.unreached_blocks, "block")));
}

void print_heap_usage(const RegionDescription& region, const store::HeapUsage& usage) {
  fmt::print("heap of '{}', {}\n", printable(region.name()), bytes_text(usage.total_bytes()));
  for (const store::HeapUsage::Blocks& kind : usage.kinds)
    print_part(kind_text(kind), kind.bytes,
               fmt::format(" in {}", count_text(kind.blocks, "block")));
  print_part("free in slabs", usage.free_block_bytes);
  print_part("free runs of units", usage.free_run_bytes,
             fmt::format(" in {}", count_text(usage.free_runs, "run")));
  print_part("never used", usage.unused_bytes);
  print_part("headers of slabs, and what no block fits in", usage.slab_rest_bytes);
  print_part("header and unit table", usage.table_bytes);
  print_roots(usage);
}

void print_usage(const Description& description) {
  fmt::print("medium, {}\n", bytes_text(description.medium_bytes));
  for (const store::SpaceUsage& part : description.space)
    print_part(part.region.empty() ? part.purpose
                                   : fmt::format("'{}': {}", printable(part.region), part.purpose),
               part.bytes);
  for (const RegionDescription& region : description.regions)
    if (region.usage) print_heap_usage(region, *region.usage);
}

/// Allocations whose type the compiler did not see, of the process that writes to the store: those
/// that it publishes; of one that publishes nothing none.
u64 find_untyped(const Arguments& arguments) {
  const auto owner = store::find_owner(arguments.store, arguments.medium);
  if (!owner) return 0;
  const auto views = store::PublishedView::find(owner->pid, owner->uuid, owner->occupant);
  if (!views) return 0;
  u64 untyped = 0;  // all regions of a process say the same
  for (const store::PublishedView& view : *views)
    if (const auto counters = view.read())
      untyped = std::max(untyped, counters->value("untyped_allocations"));
  return untyped;
}

Result<Description> look_at(const Arguments& arguments) {
  if (!arguments.usage) return store::describe(arguments.store, arguments.medium);
  ProgressLine line;
  return store::describe_usage(arguments.store, arguments.medium, std::ref(line));
}

}  // namespace

int info(const Arguments& arguments) {
  const Result<Description> description = look_at(arguments);
  if (!description) return complain(description.failure());
  const u64 untyped = description->is_being_written ? find_untyped(arguments) : 0;
  if (arguments.json) {
    auto json = to_json(*description);
    json["untyped_allocations"] = untyped;
    fmt::print("{}\n", dump(json));
  } else {
    print_identity(*description);
    if (untyped != 0)
      line("untyped",
           count_text(untyped, "allocation") + " without a type, in the process that writes to it");
    for (const RegionDescription& region : description->regions) print_region(region);
    if (arguments.usage) print_usage(*description);
  }
  for (const RegionDescription& region : description->regions)
    if (region.heap && !region.heap->clean) return kDamaged;
  return kGood;
}

}  // namespace perdura::tools
