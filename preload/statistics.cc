#include <fstream>

#include <nlohmann/json.hpp>

#include "preload/instrument.hpp"
#include "store/runtime.hpp"

namespace perdura::preload {
namespace {

nlohmann::ordered_json to_json(const Statistics& statistics) {
  return {{"tracking", name_of(statistics.tracking)},
          {"aliases", statistics.aliases},
          {"durable_version", statistics.durable_version},
          {"replayed_version", statistics.replayed_version},
          {"checkpoints", statistics.checkpoints},
          {"failed_checkpoints", statistics.failed_checkpoints},
          {"checkpoint_ns", statistics.checkpoint_ns},
          {"changed_bytes", statistics.changed_bytes},
          {"log_bytes", statistics.log_bytes},
          {"log_live_bytes", statistics.log_live_bytes},
          {"log_capacity_bytes", statistics.log_capacity_bytes},
          {"log_limit_bytes", statistics.log_limit_bytes},
          {"log_waits", statistics.log_waits},
          {"home_bytes", statistics.home_bytes},
          {"region_backed_bytes", statistics.region_backed_bytes},
          {"pause_count", statistics.pause_count},
          {"pause_p99_ns", statistics.pause_p99_ns},
          {"pause_max_ns", statistics.pause_max_ns}};
}

}  // namespace

void write_statistics(const detail::Runtime& runtime, const Usage& usage,
                      const std::string& path) noexcept {
  try {
    nlohmann::ordered_json json = to_json(runtime.statistics());
    json["refused_blocks"] = refused_blocks.load(std::memory_order_relaxed);
    json["run_ns"] = usage.run_ns;
    json["page_faults"] = usage.page_faults;
    std::ofstream file(path);
    file << json.dump(2) << "\n";
    file.close();
    if (!file) say("cannot write the statistics to '" + path + "'");
  } catch (const std::exception& error) {
    say("cannot write the statistics to '" + path + "': " + error.what());
  }
}

}  // namespace perdura::preload
