// perdura versions, rollback, remove: the versions that a store keeps, going back to one, and
// removing a region with all of them, or an object.
#include "store/versions.hpp"

#include <ctime>
#include <functional>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "commands.hpp"
#include "json.hpp"
#include "progress.hpp"
#include "text.hpp"

namespace perdura::tools {
namespace {

std::string time_text(u64 time_ns) {
  const auto seconds = static_cast<std::time_t>(time_ns / 1'000'000'000);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}.{:03} UTC", fmt::gmtime(seconds),
                     time_ns / 1'000'000 % 1000);
}

void print_versions(const store::Description& description) {
  for (const store::RegionDescription& region : description.regions) {
    if (description.regions.size() > 1) fmt::print("region '{}'\n", printable(region.name()));
    if (region.is_unfinished)
      fmt::print("none yet: a copy to region '{}' was not completed\n", printable(region.name()));
    else if (region.log)
      fmt::print("{}: a redo log keeps the newest version alone\n", region.durable_version);
    else if (region.copy)
      fmt::print("{}: a region in two copies keeps the newest version alone\n",
                 region.durable_version);
    for (const store::VersionDescription& version : region.versions)
      fmt::print("{}: {}, {} of {}, {} written{}{}\n", version.number, time_text(version.time_ns),
                 count_text(version.changed_chunks, "changed chunk"),
                 bytes_text(region.record.chunk_bytes), bytes_text(version.written_bytes),
                 version.origin == 0 ? "" : fmt::format(", goes back to {}", version.origin),
                 version.source.version == 0
                     ? ""
                     : fmt::format(", is version {} of {}", version.source.version,
                                   uuid_text(version.source.uuid)));
  }
}

}  // namespace

int versions(const Arguments& arguments) {
  auto description = store::outline(arguments.store, arguments.medium);
  if (!description) return complain(description.failure());
  if (const std::string& wanted = arguments.region; !wanted.empty()) {
    std::erase_if(description->regions, [&](const auto& each) { return each.name() != wanted; });
    if (description->regions.empty())
      return complain({Code::kNotFound, fmt::format("'{}' has no region '{}'; `perdura info` "
                                                    "names those that it has",
                                                    arguments.store, wanted)});
  }
  if (arguments.json) fmt::print("{}\n", dump(versions_json(*description)));
  else print_versions(*description);
  return kGood;
}

int rollback(const Arguments& arguments) {
  const Result<u64> made = [&] {
    ProgressLine line;
    return store::roll_back(arguments.store, arguments.region, arguments.version, arguments.medium,
                            std::ref(line));
  }();
  if (!made) return complain(made.failure());
  if (arguments.json) fmt::print("{}\n", dump({{"version", *made}, {"origin", arguments.version}}));
  else fmt::print("version {} has the content of version {}\n", *made, arguments.version);
  return kGood;
}

namespace {

int remove_object(const Arguments& arguments) {
  const Result<bool> was_away =
      store::remove_object(arguments.store, arguments.region, arguments.object, arguments.medium,
                           {arguments.overflow, arguments.overflow_lost});
  if (!was_away) return complain(was_away.failure());
  if (arguments.json)
    fmt::print("{}\n",
               dump({{"removed_object", arguments.object}, {"was_in_overflow", *was_away}}));
  else
    fmt::print("object '{}' is removed{}\n", printable(arguments.object),
               *was_away ? ", which was in the overflow store" : "");
  return kGood;
}

}  // namespace

int remove(const Arguments& arguments) {
  if (!arguments.object.empty()) return remove_object(arguments);
  const Status removed = store::remove_region(arguments.store, arguments.region, arguments.medium);
  if (!removed) return complain(removed.failure());
  if (arguments.json) fmt::print("{}\n", dump({{"removed", arguments.region}}));
  else fmt::print("region '{}' is removed\n", printable(arguments.region));
  return kGood;
}

}  // namespace perdura::tools
