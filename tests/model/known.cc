#include "known.hpp"

#include <map>

#include "support/files.hpp"

#include <perdura/perdura.hpp>

namespace perdura::model {

const std::vector<KnownFault>& known_faults() {
  static const std::vector<KnownFault> all;
  return all;
}

bool is_left_out(const Program& program, const Session& session, std::string_view kind) {
  for (const KnownFault& fault : known_faults())
    if (fault.meets(program, session, kind)) return true;
  return false;
}

bool is_supported(Tracking tracking) {
  static std::map<Tracking, bool> known;
  const auto found = known.find(tracking);
  if (found != known.end()) return found->second;
  const test::TempDir folder(test::TempDir::kMemory);
  Options options;
  options.region_limit_bytes = 16 * kMiB;
  options.tracking = tracking;
  try {
    Store::open(folder.path("probe.pd"), options).close();
    return known[tracking] = true;
  } catch (const Error& error) {
    return known[tracking] = false;
  }
}

}  // namespace perdura::model
