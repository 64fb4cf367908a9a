#include "commit/snapshot.hpp"

#include "base/assert.hpp"
#include "commit/line_snapshot.hpp"
#include "commit/staged_snapshot.hpp"
#include "commit/unit_snapshot.hpp"
#include "track/kinds.hpp"

namespace perdura::commit {

std::vector<u64> units_of(const track::DirtyMap& changes, u64 unit_bytes) {
  const u64 pages = unit_bytes / kPageBytes;
  std::vector<u64> units;
  changes.for_each_page([&](u64 page, u64) {
    if (units.empty() || units.back() != page / pages) units.push_back(page / pages);
  });
  return units;
}

Result<std::unique_ptr<Snapshot>> make_snapshot(Aside aside, track::Tracker& tracker,
                                                track::Mutators& mutators,
                                                const region::Region& region, u64 unit_bytes,
                                                bool compares) {
  const track::Kind& kind = track::kind_of(tracker.kind());
  PERDURA_ASSERT(region.aliases() == 0);
  if (aside == Aside::kAtOpening) {
    PERDURA_ASSERT(!kind.is_reported);
    // Where there is no address space for copies, pages are written whole.
    std::unique_ptr<LastPages> last_pages;
    if (compares)
      if (auto made = LastPages::create(region.limit())) last_pages = std::move(*made);
    PERDURA_ASSIGN(auto staged, StagedSnapshot::create(tracker, mutators, region.base(), unit_bytes,
                                                       0, std::move(last_pages)));
    return std::unique_ptr<Snapshot>(std::move(staged));
  }
  PERDURA_ASSERT(kind.sees_first);
  if (tracker.window() != nullptr)
    return std::unique_ptr<Snapshot>(
        std::make_unique<LineSnapshot>(tracker, mutators, region.base(), unit_bytes));
  PERDURA_ASSIGN(auto made, UnitSnapshot::create(tracker, region, unit_bytes));
  return std::unique_ptr<Snapshot>(std::move(made));
}

}  // namespace perdura::commit
