// perdura versions, perdura rollback: the versions that a store keeps, and going back to one.
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
    if (region.record.chunk_bytes == 0) {
      fmt::print("{}: a redo log keeps the newest version alone\n", description.durable_version);
      continue;
    }
    for (const store::VersionDescription& version : region.versions)
      fmt::print("{}: {}, {} of {}, {} written{}\n", version.number, time_text(version.time_ns),
                 count_text(version.changed_chunks, "changed chunk"),
                 bytes_text(region.record.chunk_bytes), bytes_text(version.written_bytes),
                 version.origin == 0 ? "" : fmt::format(", goes back to {}", version.origin));
  }
}

}  // namespace

int versions(const Arguments& arguments) {
  const auto description = store::outline(arguments.store, arguments.medium);
  if (!description) return complain(description.failure());
  if (arguments.json) fmt::print("{}\n", dump(versions_json(*description)));
  else print_versions(*description);
  return kGood;
}

int rollback(const Arguments& arguments) {
  const Result<u64> made = [&] {
    ProgressLine line;
    return store::roll_back(arguments.store, arguments.version, arguments.medium, std::ref(line));
  }();
  if (!made) return complain(made.failure());
  if (arguments.json) fmt::print("{}\n", dump({{"version", *made}, {"origin", arguments.version}}));
  else fmt::print("version {} has the content of version {}\n", *made, arguments.version);
  return kGood;
}

}  // namespace perdura::tools
