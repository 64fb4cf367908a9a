// perdura compact, identity: giving a store's space back, and telling copies of a store apart.
#include "store/compact.hpp"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "commands.hpp"
#include "json.hpp"
#include "progress.hpp"
#include "store/identity.hpp"
#include "text.hpp"

namespace perdura::tools {
namespace {

using store::Compaction;

void print_compaction(const Compaction& done, bool dry_run) {
  // Gaps may have taken none before.
  fmt::print("{} {} at the end; {} of gaps {} no space; {} of the store's space were ended logs\n",
             dry_run ? "would give back:" : "given back:", bytes_text(done.end_bytes),
             bytes_text(done.gap_bytes), dry_run ? "would take" : "take",
             bytes_text(done.log_bytes));
  fmt::print("length: {}, was {}\n", bytes_text(done.bytes_after), bytes_text(done.bytes_before));
  fmt::print("takes up {}{}, was {}\n", dry_run ? "at most " : "", bytes_text(done.occupied_after),
             bytes_text(done.occupied_before));
  for (const std::string& kept : done.kept) fmt::print("kept: {}\n", printable(kept));
}

nlohmann::ordered_json to_json(const Compaction& done, bool dry_run) {
  return {{"dry_run", dry_run},
          {"bytes_before", done.bytes_before},
          {"bytes_after", done.bytes_after},
          {"occupied_before", done.occupied_before},
          {"occupied_after", done.occupied_after},
          {"log_bytes", done.log_bytes},
          {"end_bytes", done.end_bytes},
          {"gap_bytes", done.gap_bytes},
          {"kept", done.kept}};
}

}  // namespace

int compact(const Arguments& arguments) {
  const Result<Compaction> done = [&] {
    ProgressLine line;
    return store::compact(arguments.store, arguments.medium, arguments.dry_run, std::ref(line));
  }();
  if (!done) return complain(done.failure());
  if (arguments.json) fmt::print("{}\n", dump(to_json(*done, arguments.dry_run)));
  else print_compaction(*done, arguments.dry_run);
  return kGood;
}

namespace {

int renew_identity(const Arguments& arguments) {
  const Result<store::Uuid> uuid = store::renew_identity(arguments.store, arguments.medium);
  if (!uuid) return complain(uuid.failure());
  u8 bytes[sizeof(store::Uuid)];
  std::ranges::copy(*uuid, bytes);
  if (arguments.json) fmt::print("{}\n", dump({{"uuid", uuid_text(bytes)}}));
  else fmt::print("'{}' is {} from now on\n", printable(arguments.store), uuid_text(bytes));
  return kGood;
}

}  // namespace

int identity(const Arguments& arguments) {
  if (arguments.renew) return renew_identity(arguments);
  const auto description = store::outline(arguments.store, arguments.medium);
  if (!description) return complain(description.failure());
  const std::string uuid = uuid_text(description->superblock.uuid);
  nlohmann::ordered_json json = {
      {"store", description->name}, {"uuid", uuid}, {"regions", nlohmann::ordered_json::array()}};
  if (!arguments.json) fmt::print("UUID {}\n", uuid);
  for (const store::RegionDescription& region : description->regions) {
    const std::string address = fmt::format("{:#x}", region.record.address);
    const u64 reserved = format::reserved_bytes(region.record);
    if (!arguments.json)
      fmt::print("region '{}' at {}, {} of addresses\n", printable(region.name()), address,
                 bytes_text(reserved));
    json["regions"].push_back(
        {{"name", region.name()}, {"address", address}, {"reserved_bytes", reserved}});
  }
  if (arguments.json) fmt::print("{}\n", dump(json));
  return kGood;
}

}  // namespace perdura::tools
