// A region in chunks, looked at.
#include <unordered_set>

#include "base/aligned_buffer.hpp"
#include "commit/remap_engine.hpp"
#include "commit/version_map.hpp"
#include "store/chunk_loader.hpp"
#include "store/inspection.hpp"
#include "store/pinned.hpp"

namespace perdura::store {
namespace {

using commit::FoundVersion;
using commit::RecordState;
using format::ChunkEntry;
using format::VersionRecord;

VersionDescription describe_version(const VersionRecord& record) {
  return {.number = record.version,
          .time_ns = record.time_ns,
          .origin = record.origin,
          .changed_chunks = record.changed_chunks,
          .written_bytes = record.changed_bytes,
          .backed_bytes = record.backed_bytes,
          .source = record.source};
}

class ChunkInspection final : public Inspection {
 public:
  using Inspection::Inspection;

  RegionDescription outline() const override {
    RegionDescription region;
    region.record = record_;
    region.replayed_version = volume_.replayed_version(record_.region);
    region.extents = volume_.extents(format::ExtentKind::kChunks, record_.region);
    for (const format::Extent& extent : region.extents) region.home_bytes += extent.length;
    return region;
  }

  Status read_versions() override {
    const bool was_written = volume_.medium().has_writer();
    const region::Volume::State before = volume_.state();
    PERDURA_ASSIGN(versions_, pin_versions(volume_, record_, 0));
    const bool written = was_written || volume_.medium().has_writer();
    PERDURA_TRY(volume_.look_again());
    newest_was_settled_ = !written && volume_.state() == before;
    space_ = std::make_unique<region::ChunkSpace>(volume_, record_, 0, true);
    if (commit::recover_versions(volume_, record_, versions_, *space_))
      free_bytes_ = space_->free_bytes();
    return {};
  }

  void describe_versions(RegionDescription& region) const override {
    region.durable_version = durable_version();
    for (const FoundVersion& each : versions_)
      region.versions.push_back(describe_version(each.record));
    if (!versions_.empty()) region.backed_bytes = versions_.back().record.backed_bytes;
    region.free_bytes = free_bytes_;
  }

  void check(const Status& read, CheckReport& report, const Progress& progress) override {
    if (!read) return add_damage(report, "versions", read.failure().message, record_.name);
    check_versions(report, progress);
  }

 private:
  u64 durable_version() const override {
    return versions_.empty() ? 0 : versions_.back().record.version;
  }

  Result<std::unique_ptr<region::Region>> map_newest(const format::RegionRecord& record) override {
    const VersionRecord& newest = versions_.back().record;
    PERDURA_ASSIGN(auto region,
                   region::Region::map_chunks(volume_, record, *space_, newest.backed_bytes));
    PERDURA_ASSIGN(const commit::VersionMap map, commit::MapReader(volume_, *space_).read(newest));
    PERDURA_TRY(ChunkLoader(volume_, *space_, *region, map.level(0), nullptr).load_all());
    return region;
  }

  void check_versions(CheckReport& report, const Progress& progress) {
    const auto records = commit::version_records(volume_, record_);
    if (!records || versions_.empty()) return;  // they were read
    commit::MapReader reader(volume_, *space_);
    AlignedBuffer buffer(record_.chunk_bytes);
    std::unordered_set<u64> seen;
    const u64 total = space_->total_bytes();
    u64 done = 0;
    // The newest one first: what others share with it is seen once.
    for (auto version = versions_.rbegin(); version != versions_.rend(); ++version) {
      check_copies(*version, records->medium_offset, report);
      const std::string number = "version " + std::to_string(version->record.version) + ": ";
      const auto visit = [&](u32 level, u64 index, const ChunkEntry& entry) -> Result<bool> {
        if (!seen.insert(entry.place).second) return false;
        if (level != 0) return true;
        progress("verifying the chunks", done, total);
        done += record_.chunk_bytes;
        const Status whole = reader.read_chunk(index, entry, buffer.first(record_.chunk_bytes));
        if (whole) ++report.chunks;
        else
          report.findings.push_back({Finding::Severity::kDamage, "chunks",
                                     number + whole.failure().message, record_.name, entry.place,
                                     index * record_.chunk_bytes});
        return true;
      };
      const Status walked = reader.walk(version->record, visit);
      if (!walked) add_damage(report, "map", number + walked.failure().message, record_.name);
    }
    progress("verifying the chunks", total, total);
  }

  // Beside a writer the newest record that was found may have been half written when it was read;
  // those before it are durable by then.
  void check_copies(const FoundVersion& version, u64 records, CheckReport& report) const {
    if (!newest_was_settled_ && &version == &versions_.back()) return;
    const u64 number = version.record.version;
    for (u64 copy = 0; copy < 2; ++copy) {
      if (version.copies[copy] == RecordState::kWhole) continue;
      const u64 place = records + format::version_record_offset(record_, number, copy);
      report.findings.push_back(
          {Finding::Severity::kNote, "versions",
           "copy " + std::to_string(copy + 1) + " of the record of version " +
               std::to_string(number) + " does not fit its checksum (medium offset " +
               std::to_string(place) +
               "); the other copy is used, and a power failure while they were written explains "
               "it",
           record_.name, place, std::nullopt});
    }
  }

  std::vector<FoundVersion> versions_;
  bool newest_was_settled_ = false;  ///< nobody wrote while they were read
  std::unique_ptr<region::ChunkSpace> space_;
  u64 free_bytes_ = 0;  ///< that no kept version uses
};

}  // namespace

std::unique_ptr<Inspection> inspection_of_chunks(region::Volume& volume,
                                                 const format::RegionRecord& record) {
  return std::make_unique<ChunkInspection>(volume, record);
}

}  // namespace perdura::store
