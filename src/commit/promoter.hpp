// Parts of a reopened region, from small pages that view the home image to huge pages.
//
// A region opens in milliseconds because its pages are views that load when they are touched. But
// small pages cost a program with much memory a tenth of its time and more, in page walks. So the
// parts that it changes, and of which it has private pages anyway, are moved one at a time (the
// promotion of superpages; Navarro et al., OSDI 2002). What is only read stays a view, which the
// system can drop and load again. New space has huge pages from the start.
//
// While a chunk moves, mutators stand still and the chunk is read-only: any other thread that
// stores to it, to a lock word perhaps, waits in a fault handler. So nothing stored is lost,
// whether it was reported or not.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "region/faults.hpp"
#include "region/region.hpp"
#include "track/dirty_map.hpp"
#include "track/mutators.hpp"
#include "track/tracker.hpp"

namespace perdura::commit {

/// Thread-safe, but for promote_next.
class Promoter final : public region::FaultHandler {
 public:
  /// All of `region` is views, of which some are `closed` until they are touched. Does nothing for
  /// a region without huge pages.
  Promoter(region::Region& region, track::Mutators& mutators, track::ClosedParts* closed);

  /// The chunks with `changes` are to be promoted.
  void note(const track::DirtyMap& changes);
  bool pending() const;
  /// While pending(), promote a chunk that was noted; how long it stopped the mutators, ns, if it
  /// did. From one thread.
  std::optional<u64> promote_next();

  bool on_fault(const region::Fault& fault) noexcept override;

 private:
  enum State : u8 { kNotView, kView, kWaiting, kMoving, kMoved };

  region::Region& region_;
  track::Mutators& mutators_;
  track::ClosedParts* const closed_;
  std::vector<std::atomic<u8>> states_;  ///< of chunks; none where there is nothing to do
  std::optional<region::FaultWatch> watch_;
  mutable std::mutex mutex_;
  u64 views_ = 0;  ///< chunks that were not noted yet
  std::deque<u64> waiting_;
};

}  // namespace perdura::commit
