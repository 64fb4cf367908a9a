#include "recovered.hpp"

#include "base/aligned_buffer.hpp"
#include "store/shared_volume.hpp"

namespace perdura::testing {
namespace {

Status run(Execution& execution, const Options& options, Recovered& recovered) {
  PERDURA_ASSIGN(recovered.volume,
                 store::open_volume(execution.medium(), true, options.log_segment_bytes));
  const auto found = store::find_region(*recovered.volume, options.region);
  if (!found) return {};
  // Of one to which a copy was not completed nobody sees anything.
  if (recovered.volume->is_unfinished(found->region)) return {};
  const format::RegionRecord& region = recovered.region = *found;
  if (region.engine == format::EngineId::kRemap) {
    PERDURA_ASSIGN(recovered.chunks, store::recover_chunks(*recovered.volume, region, 0));
    recovered.version = recovered.chunks->durable_version();
    return {};
  }
  if (region.engine == format::EngineId::kCopies) {
    recovered.version = recovered.volume->replayed_version(region.region);
    PERDURA_ASSIGN(recovered.home, region::HomeMap::of_copy(*recovered.volume, region,
                                                            format::copy_of(recovered.version)));
    return {};
  }
  PERDURA_ASSIGN(store::Recovery recovery,
                 store::recover(*recovered.volume, region, options.log_limit_bytes));
  recovered.version = recovery.log.durable_version;
  PERDURA_ASSIGN(recovered.home, region::HomeMap::of(*recovered.volume, region));
  recovered.log = std::move(recovery.log);
  if (recovered.log.versions.empty()) return {};
  PERDURA_ASSIGN(commit::LineIndex index, commit::LineIndex::create(region.limit_bytes));
  recovered.index.emplace(std::move(index));
  return recovered.index->add(recovered.log);
}

}  // namespace

Recovered recover(Execution& execution, const Options& options) {
  Recovered recovered;
  if (const Status status = run(execution, options, recovered); !status)
    recovered.problem = "recovery fails: " + status.failure().message;
  return recovered;
}

std::string load_chunks(const Recovered& recovered) {
  if (!recovered.chunks) return {};
  const region::ChunkSpace& space = *recovered.chunks->space;
  commit::MapReader reader(*recovered.volume, space);
  AlignedBuffer buffer(space.chunk_bytes());
  const std::vector<format::ChunkEntry>& entries = recovered.chunks->versions.map.level(0);
  for (u64 index = 0; index < entries.size(); ++index) {
    if (entries[index].place == 0) continue;
    const Status read = reader.read_chunk(index, entries[index], buffer.span());
    if (!read) return read.failure().message;
  }
  return {};
}

}  // namespace perdura::testing
