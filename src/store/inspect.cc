#include "store/inspect.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "region/volume.hpp"
#include "store/inspection.hpp"
#include "store/look_inside.hpp"
#include "store/recovery.hpp"
#include "store/shared_volume.hpp"
#include "store/storage.hpp"
#include "store/usage.hpp"

namespace perdura::store {
namespace {

Result<std::unique_ptr<media::Medium>> open_for_reading(std::string_view uri,
                                                        media::MediumOptions options) {
  options.create = false;
  options.read_only = true;
  PERDURA_ASSIGN(media::OpenedMedium opened, media::open_medium(uri, options));
  return std::move(opened.medium);
}

/// Without its regions.
Description describe_volume(region::Volume& volume) {
  Description description;
  description.name = volume.name();
  description.superblock = volume.superblock();
  description.medium_bytes = volume.medium().geometry().size;
  description.is_being_written = volume.medium().has_writer();
  return description;
}

/// A region that somebody else has removed since the directory was read is none of the store's.
template <class Outcome>
bool was_removed(const Outcome& read) {
  return !read && read.failure().code == Code::kNotFound;
}

Result<RegionDescription> check_region(Inspection& inspection, CheckReport& report,
                                       const Progress& progress) {
  RegionDescription description = inspection.outline();
  const Status read = inspection.read_versions();
  // Nor is it damage where somebody else leaves no time to read it.
  if (was_removed(read) || (!read && read.failure().code == Code::kLocked)) return read.failure();
  if (read) inspection.describe_versions(description);
  inspection.check(read, report, progress);
  // Without its versions a region is in no state that the heap could be audited in.
  if (!read) return description;
  const std::string name = description.name();
  if (Status heap = inspection.read_heap(description); !heap)
    add_damage(report, inspection.damaged_part(), heap.failure().message, name);
  else if (description.heap && !description.heap->clean)
    add_damage(report, "heap", "the heap's metadata is damaged: " + description.heap->problem,
               name);
  return description;
}

}  // namespace

void add_damage(CheckReport& report, const char* part, const std::string& message,
                const std::string& region) {
  report.findings.push_back(
      {Finding::Severity::kDamage, part, message, region, std::nullopt, std::nullopt});
}

bool Inspection::is_as_it_was_read(CheckReport& report, size_t before) {
  PERDURA_ASSERT(!was_written_);
  if (volume_.medium().has_writer()) {
    report.findings.resize(before);
    return false;
  }
  if (const Status head = volume_.look_again(); !head) {
    add_damage(report, "superblock", head.failure().message);
    return false;
  }
  if (volume_.state() == state_) return true;
  report.findings.resize(before);
  return false;
}

bool CheckReport::incomplete() const {
  return description && std::ranges::any_of(description->regions,
                                            [](const auto& each) { return each.is_unfinished; });
}

bool CheckReport::damaged() const {
  return std::any_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.severity == Finding::Severity::kDamage;
  });
}

namespace {

enum class Depth { kOutline, kHeap, kUsage };

Result<Description> try_describe(std::string_view uri, const media::MediumOptions& options,
                                 Depth depth, const Progress& progress = no_progress) {
  PERDURA_ASSIGN(auto medium, open_for_reading(uri, options));
  PERDURA_ASSIGN(const auto volume, open_volume_to_read(std::move(medium)));
  Description description = describe_volume(*volume);
  for (const format::RegionRecord& record : volume->regions()) {
    const auto inspection = engine_kind(record).inspection(*volume, record);
    RegionDescription region = inspection->outline();
    region.is_unfinished = volume->is_unfinished(record.region);
    if (region.is_unfinished) {
      description.regions.push_back(std::move(region));
      continue;
    }
    const Status read = inspection->read_versions();
    if (was_removed(read)) continue;
    PERDURA_TRY(read);
    inspection->describe_versions(region);
    Inspection::HeapVisit visit;
    if (depth == Depth::kUsage)
      visit = [&](heap::Heap& heap, const region::Region& mapped) -> Status {
        PERDURA_ASSIGN(region.usage, usage_of(heap, mapped, region, progress));
        return {};
      };
    if (depth != Depth::kOutline) PERDURA_TRY(inspection->read_heap(region, visit));
    description.regions.push_back(std::move(region));
  }
  if (depth == Depth::kUsage) describe_space(*volume, description);
  return description;
}

Result<CheckReport> try_check(std::string_view uri, const media::MediumOptions& options,
                              const Progress& progress, std::string_view overflow_uri) {
  std::unique_ptr<region::Volume> overflow;
  if (!overflow_uri.empty()) {
    PERDURA_ASSIGN(auto there, open_for_reading(overflow_uri, options));
    PERDURA_ASSIGN(overflow, open_volume_to_read(std::move(there)));
  }
  CheckReport report;
  auto opened = open_for_reading(uri, options);
  if (!opened) {
    if (opened.failure().code != Code::kCorrupt) return opened.failure();
    report.name = uri;
    add_damage(report, "superblock", opened.failure().message);
    return report;
  }
  std::unique_ptr<media::Medium> medium = std::move(*opened);
  report.name = medium->name();
  if (Status head = check_head(*medium, report); !head)
    add_damage(report, "superblock", head.failure().message);
  const auto volume = open_volume_to_read(std::move(medium));
  if (!volume) {
    const Failure& failure = volume.failure();
    if (failure.code != Code::kCorrupt && failure.code != Code::kIo) return failure;
    add_damage(report, "superblock", failure.message);
    return report;
  }
  report.description = describe_volume(**volume);
  bool is_own = overflow == nullptr;
  for (const format::RegionRecord& record : (*volume)->regions()) {
    const auto inspection = engine_kind(record).inspection(**volume, record);
    if (const Status finished = (*volume)->check_finished(record); !finished) {
      report.findings.push_back({Finding::Severity::kNote, "copy", finished.failure().message,
                                 record.name, std::nullopt, std::nullopt});
      auto& unfinished = report.description->regions.emplace_back(inspection->outline());
      unfinished.is_unfinished = true;
      continue;
    }
    if (overflow && inspection->have_overflow(*overflow)) is_own = true;
    auto region = check_region(*inspection, report, progress);
    if (was_removed(region)) continue;
    PERDURA_TRY(region);
    report.description->regions.push_back(std::move(*region));
  }
  if (is_own) return report;
  return Failure{Code::kMisuse, "'" + overflow->name() + "' is not the overflow store of '" +
                                    report.name +
                                    "', or does not say so any more; name the one that is"};
}

// Chunks are verified when they are loaded.
std::unordered_set<u64> find_damaged_pages(Inspection& inspection, const Status& read,
                                           const RegionDescription& region,
                                           const Progress& progress) {
  std::unordered_set<u64> pages;
  if (!region.versions.empty()) return pages;
  CheckReport report;
  inspection.check(read, report, progress);
  for (const Finding& finding : report.findings)
    if (finding.region_offset) pages.insert(round_down(*finding.region_offset, kPageBytes));
  return pages;
}

Result<Description> try_look_inside(std::string_view uri, const media::MediumOptions& options,
                                    std::string_view name, const Progress& progress,
                                    const std::function<Status(const HeapSight&)>& visit) {
  PERDURA_ASSIGN(auto medium, open_for_reading(uri, options));
  PERDURA_ASSIGN(const auto volume, open_volume_to_read(std::move(medium)));
  Description description = describe_volume(*volume);
  if (!name.empty()) PERDURA_TRY(find_region(*volume, name));
  for (const format::RegionRecord& record : volume->regions()) {
    const auto inspection = engine_kind(record).inspection(*volume, record);
    RegionDescription region = inspection->outline();
    if (!name.empty() && region.name() != name) continue;
    PERDURA_TRY(volume->check_finished(record));
    const Status read = inspection->read_versions();
    if (was_removed(read)) continue;
    PERDURA_TRY(read);
    inspection->describe_versions(region);
    const auto look = [&](heap::Heap& heap, const region::Region& mapped) -> Status {
      const auto damaged = find_damaged_pages(*inspection, read, region, progress);
      PERDURA_ASSIGN(const HeapView view, HeapView::of(heap, mapped, record));
      return visit({region, view, damaged});
    };
    PERDURA_TRY(inspection->read_heap(region, look));
    description.regions.push_back(std::move(region));
  }
  return description;
}

}  // namespace

bool HeapSight::is_damaged(const HeapView::Object& object) const {
  if (damaged_pages.empty()) return false;
  for (u64 page = round_down(object.offset, kPageBytes); page < object.offset + object.bytes;
       page += kPageBytes)
    if (damaged_pages.contains(page)) return true;
  return false;
}

Result<Description> look_inside(std::string_view uri, const media::MediumOptions& options,
                                std::string_view region, const Progress& progress,
                                const std::function<Status(const HeapSight&)>& visit) {
  return guarded([&] { return try_look_inside(uri, options, region, progress, visit); });
}

Result<Description> describe(std::string_view uri, const media::MediumOptions& options) {
  return guarded([&] { return try_describe(uri, options, Depth::kHeap); });
}

Result<Description> describe_usage(std::string_view uri, const media::MediumOptions& options,
                                   const Progress& progress) {
  return guarded([&] { return try_describe(uri, options, Depth::kUsage, progress); });
}

Result<Description> outline(std::string_view uri, const media::MediumOptions& options) {
  return guarded([&] { return try_describe(uri, options, Depth::kOutline); });
}

Result<CheckReport> check(std::string_view uri, const media::MediumOptions& options,
                          const Progress& progress, std::string_view overflow) {
  return guarded([&] { return try_check(uri, options, progress, overflow); });
}

}  // namespace perdura::store
