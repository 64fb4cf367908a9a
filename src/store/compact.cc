#include "store/compact.hpp"

#include <algorithm>

#include "region/volume.hpp"
#include "store/recovery.hpp"

namespace perdura::store {
namespace {

using format::Extent;
using format::ExtentKind;
using format::RegionRecord;

constexpr u64 kGapAtOnce = 256 * kMiB;  // between two reports of progress

struct Range {
  u64 offset;
  u64 length;
};

/// What can be given back of a store, by what is durable of its metadata.
struct Plan {
  std::vector<u32> ended_logs;  ///< of regions with these numbers
  u64 log_bytes = 0;
  u64 end = 0;  ///< behind the last extent that stays
  std::vector<Range> gaps;
  std::vector<std::string> kept;

  u64 gap_bytes() const {
    u64 bytes = 0;
    for (const Range& gap : gaps) bytes += gap.length;
    return bytes;
  }
};

/// Whether the next opening of the region looks at nothing of its log. In the superblock as the
/// last session has left it.
bool log_has_ended(const format::Superblock& superblock, u32 region) {
  return superblock.clean == 1 && superblock.ended_logs_session == superblock.session &&
         (superblock.ended_logs >> (region - 1) & 1) != 0 && superblock.confirmed[region - 1] == 0;
}

Plan plan_of(const region::Volume& volume, const format::Superblock& superblock) {
  Plan plan;
  std::vector<Extent> extents = volume.extents();
  for (const RegionRecord& record : volume.regions()) {
    u64 log = 0;
    for (const Extent& extent : extents)
      if (extent.kind == ExtentKind::kLog && extent.region == record.region) log += extent.length;
    if (log == 0) continue;
    if (!log_has_ended(superblock, record.region)) {
      plan.kept.push_back(std::to_string(log) + " bytes of the log of region '" +
                          std::string(record.name) +
                          "', which its next opening reads; open the store and close it in order, "
                          "and compact it again");
      continue;
    }
    plan.ended_logs.push_back(record.region);
    plan.log_bytes += log;
  }
  std::erase_if(extents, [&](const Extent& each) {
    return each.kind == ExtentKind::kLog && std::ranges::count(plan.ended_logs, each.region) != 0;
  });
  plan.end = format::kDataBegin;
  for (const Extent& extent : extents) {
    if (extent.medium_offset > plan.end)
      plan.gaps.push_back({plan.end, extent.medium_offset - plan.end});
    plan.end = format::extent_end(extent);
  }
  return plan;
}

Compaction begin_report(const media::Medium& medium, const Plan& plan) {
  Compaction report;
  report.bytes_before = medium.geometry().size;
  report.occupied_before = medium.occupied_bytes();
  report.log_bytes = plan.log_bytes;
  report.kept = plan.kept;
  return report;
}

Status refuse_readers(const media::Medium& medium) {
  if (!medium.has_readers()) return {};
  return Failure{Code::kLocked, "'" + medium.name() +
                                    "' is open to be read, and what is given back might be what "
                                    "is being read; close it there first"};
}

Status refuse_servers(const media::Medium& medium) {
  if (!medium.geometry().objects) return {};
  return Failure{Code::kUnsupported, "'" + medium.name() +
                                         "' is on a server, which has no space of what nothing "
                                         "needs; there is nothing to compact"};
}

/// Gaps take no space any more, where the file system can do that.
Status give_back_gaps(media::Medium& medium, const Plan& plan, Compaction& report,
                      const Progress& progress) {
  const u64 total = plan.gap_bytes();
  for (const Range& gap : plan.gaps) {
    for (u64 done = 0; done < gap.length; done += kGapAtOnce) {
      progress("giving gaps back", report.gap_bytes, total);
      const u64 length = std::min(kGapAtOnce, gap.length - done);
      const Status given = medium.give_back(gap.offset + done, length);
      if (!given && given.failure().code == Code::kUnsupported) {
        report.kept.push_back(std::to_string(total - report.gap_bytes) +
                              " bytes between the store's extents: " + given.failure().message);
        return {};
      }
      PERDURA_TRY(given);
      report.gap_bytes += length;
    }
  }
  return {};
}

/// In a session of the volume.
Result<Compaction> give_back(region::Volume& volume, const Plan& plan, const Progress& progress) {
  media::Medium& medium = volume.medium();
  Compaction report = begin_report(medium, plan);
  // Barriers in both, of both superblocks: from here on nothing durable says that anything is in
  // what goes below.
  PERDURA_TRY(volume.release_logs(plan.ended_logs));
  PERDURA_TRY(volume.end_at_last_extent());
  // Who opens it to be read from here on sees that; who did before is seen here.
  PERDURA_TRY(refuse_readers(medium));
  PERDURA_TRY(medium.shrink(plan.end));
  report.end_bytes = report.bytes_before - medium.geometry().size;
  PERDURA_TRY(give_back_gaps(medium, plan, report, progress));
  return report;
}

Result<Compaction> try_compact(std::unique_ptr<media::Medium> medium, const Progress& progress) {
  PERDURA_TRY(refuse_servers(*medium));
  PERDURA_TRY(refuse_readers(*medium));
  PERDURA_ASSIGN(const bool blank, region::Volume::is_blank(*medium));
  if (blank)
    return Failure{Code::kNotFound, "'" + medium->name() + "' holds no store: it is empty"};
  PERDURA_ASSIGN(const auto volume, region::Volume::open(std::move(medium)));
  const format::Superblock as_left = volume->superblock();
  const Plan plan = plan_of(*volume, as_left);
  PERDURA_TRY(volume->begin_session());
  Result<Compaction> report = give_back(*volume, plan, progress);
  // One that was not closed in order is as it was: its next opening recovers it.
  const Status ended = as_left.clean == 1 ? volume->end_session() : Status{};
  if (!report) return report;
  PERDURA_TRY(ended);
  report->bytes_after = volume->medium().geometry().size;
  report->occupied_after = volume->medium().occupied_bytes();
  return report;
}

Result<Compaction> try_plan(std::string_view uri, media::MediumOptions options) {
  options.create = false;
  options.read_only = true;
  PERDURA_ASSIGN(media::OpenedMedium opened, media::open_medium(uri, options));
  PERDURA_TRY(refuse_servers(*opened.medium));
  PERDURA_ASSIGN(const auto volume, open_volume_to_read(std::move(opened.medium)));
  const Plan plan = plan_of(*volume, volume->superblock());
  Compaction report = begin_report(volume->medium(), plan);
  report.bytes_after = std::min(plan.end, report.bytes_before);
  report.end_bytes = report.bytes_before - report.bytes_after;
  report.gap_bytes = plan.gap_bytes();
  report.occupied_after = std::min(report.occupied_before, report.bytes_after - report.gap_bytes);
  return report;
}

}  // namespace

Result<Compaction> compact(std::string_view uri, const media::MediumOptions& options, bool dry_run,
                           const Progress& progress) {
  return guarded([&]() -> Result<Compaction> {
    if (dry_run) return try_plan(uri, options);
    PERDURA_ASSIGN(auto medium, open_existing(uri, options));
    return try_compact(std::move(medium), progress);
  });
}

Result<Compaction> compact(std::unique_ptr<media::Medium> medium, const Progress& progress) {
  return guarded([&] { return try_compact(std::move(medium), progress); });
}

}  // namespace perdura::store
