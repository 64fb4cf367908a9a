#include "commit/snapshot.hpp"

#include "base/assert.hpp"
#include "commit/line_snapshot.hpp"
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

Result<std::unique_ptr<Snapshot>> make_snapshot(track::Tracker& tracker, track::Mutators& mutators,
                                                const region::Region& region, u64 unit_bytes) {
  PERDURA_ASSERT(track::kind_of(tracker.kind()).sees_first && region.aliases() == 0);
  if (tracker.window() != nullptr)
    return std::unique_ptr<Snapshot>(
        std::make_unique<LineSnapshot>(tracker, mutators, region.base(), unit_bytes));
  PERDURA_ASSIGN(auto made, UnitSnapshot::create(tracker, region, unit_bytes));
  return std::unique_ptr<Snapshot>(std::move(made));
}

}  // namespace perdura::commit
