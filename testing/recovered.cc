#include "recovered.hpp"

#include "store/recovery.hpp"

namespace perdura::testing {
namespace {

Status run(Execution& execution, u64 segment_bytes, u64 log_limit, Recovered& recovered) {
  PERDURA_ASSIGN(recovered.volume, store::open_volume(execution.medium(), true, segment_bytes));
  if (recovered.volume->regions().empty()) return {};
  PERDURA_ASSIGN(store::Recovery recovery, store::recover(*recovered.volume, log_limit));
  recovered.version = recovery.durable_version;
  const format::RegionRecord region = recovered.volume->regions().front();
  PERDURA_ASSIGN(recovered.home, region::HomeMap::of(*recovered.volume, region));
  recovered.unreplayed = std::move(recovery.unreplayed);
  if (recovered.unreplayed.versions.empty()) return {};
  PERDURA_ASSIGN(commit::LineIndex index, commit::LineIndex::create(region.limit_bytes));
  recovered.index.emplace(std::move(index));
  return recovered.index->add(recovered.unreplayed);
}

}  // namespace

Recovered recover(Execution& execution, u64 segment_bytes, u64 log_limit) {
  Recovered recovered;
  if (const Status status = run(execution, segment_bytes, log_limit, recovered); !status)
    recovered.problem = "recovery fails: " + status.failure().message;
  return recovered;
}

}  // namespace perdura::testing
