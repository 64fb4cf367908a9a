// perdura copy, backup, restore: stores from one medium to another.
#include "store/backup.hpp"

#include <functional>

#include <fmt/format.h>

#include "commands.hpp"
#include "json.hpp"
#include "progress.hpp"
#include "text.hpp"

namespace perdura::tools {
namespace {

using store::Copied;
using store::CopiedRegion;

void print_copied(const Copied& copied) {
  for (const CopiedRegion& region : copied.regions) {
    if (!region.is_new) {
      fmt::print("region '{}': version {} is there already, as version {}\n",
                 printable(region.name), region.source_version, region.version);
      continue;
    }
    fmt::print(
        "region '{}': version {} is there, as version {}; {} read of {}, {} differed, {} "
        "sent\n",
        printable(region.name), region.source_version, region.version,
        bytes_text(region.read_bytes), bytes_text(region.region_bytes),
        bytes_text(region.changed_bytes), bytes_text(region.sent_bytes));
  }
}

nlohmann::ordered_json to_json(const Copied& copied) {
  nlohmann::ordered_json json = {
      {"from", copied.from}, {"to", copied.to}, {"regions", nlohmann::ordered_json::array()}};
  for (const CopiedRegion& region : copied.regions)
    json["regions"].push_back({{"name", region.name},
                               {"source_version", region.source_version},
                               {"version", region.version},
                               {"is_new", region.is_new},
                               {"region_bytes", region.region_bytes},
                               {"read_bytes", region.read_bytes},
                               {"changed_bytes", region.changed_bytes},
                               {"sent_bytes", region.sent_bytes}});
  return json;
}

using Call = Result<Copied> (*)(std::string_view from, std::string_view to,
                                const store::CopyOptions& options);

int copy_by(Call call, const CopyArguments& arguments) {
  const Result<Copied> copied = [&] {
    ProgressLine line;
    store::CopyOptions options;
    options.from = options.to = arguments.medium;
    options.region = arguments.region;
    options.version = arguments.version;
    options.bytes_per_second = arguments.bytes_per_second;
    options.versions_kept = arguments.versions_kept;
    options.adopts = arguments.adopts;
    options.engine = arguments.engine;
    options.progress = std::ref(line);
    return call(arguments.from, arguments.to, options);
  }();
  if (!copied) return complain(copied.failure());
  if (arguments.json) fmt::print("{}\n", dump(to_json(*copied)));
  else print_copied(*copied);
  return kGood;
}

}  // namespace

int copy(const CopyArguments& arguments) { return copy_by(store::copy, arguments); }
int backup(const CopyArguments& arguments) { return copy_by(store::back_up, arguments); }
int restore(const CopyArguments& arguments) { return copy_by(store::restore, arguments); }

}  // namespace perdura::tools
