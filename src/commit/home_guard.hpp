// Keeps damage to the home image from becoming valid data.
//
// A damaged page would fit a new checksum once lines of it are brought home, or it would be taken
// for one that a crash left half replayed. So a page is verified before the first version since the
// store was opened that has lines of it; and where it is damaged it is condemned: its checksum
// gives way to a value that says so (docs/format/home.md), which is durable before there is the
// version. The version is made all the same: nothing that the program stored is lost, and the page
// stays damaged for whoever looks at it.
//
//   page at home    unknown --- verified for a version --------------------> known
//                      |                                                       ^
//                      +--- found damaged --- condemned ------------------------+
//
// Who verified it before, for its first use or in the background, says nothing of it now: as long
// as the program has not stored to it the system may read it again from where it has rotted since.
// Once it has, the page is memory of the program's own.
//
// Lock order: writing() before Volume's mutex; mutex_ is a leaf.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "commit/engine.hpp"
#include "commit/page_set.hpp"
#include "region/region.hpp"
#include "track/dirty_map.hpp"

namespace perdura::commit {

class HomeGuard {
 public:
  /// Where the value goes that says that a page is condemned.
  enum class Condemns {
    kAtHome,       ///< to the home image, durable before there is the version
    kWithVersion,  ///< who writes the version writes it with it, for all in condemned()
  };

  /// Of a region that has just been mapped: what it has by now is its home image, which may be
  /// damaged. A crash may have left pages with lines of `recovered`, if any, half written: nothing
  /// can be said of them. All of these outlive the guard.
  static Result<std::unique_ptr<HomeGuard>> create(region::Volume& volume,
                                                   const region::Region& region,
                                                   const track::DirtyMap* recovered,
                                                   Condemns condemns = Condemns::kAtHome);

  /// The page is damaged and reads as zeros: nothing of it is to be in a version. Before the
  /// program can see it; in any thread, perhaps in a signal handler.
  void withhold(u64 page) noexcept { withheld_.add(page); }
  const PageSet& withheld() const { return withheld_; }
  bool knows(u64 page) const noexcept { return known_.contains(page); }
  /// What before_version() has found damaged.
  const PageSet& condemned() const { return condemned_; }
  /// The page is damaged, as `what` says: the program is told of it, once.
  void note(u64 page, std::string what);
  /// The page is damaged and condemned, and a version has changes in it.
  void note_in_version(u64 page);
  /// So many bytes were compared with their checksums beside the work.
  void scrubbed(u64 bytes);
  bool may_be_half_replayed(u64 page) const {
    return recovered_ != nullptr && recovered_->has_page(page);
  }

  /// Before a version with these changes is durable. Mutators may run. Where it fails there must be
  /// no such version.
  Status before_version(const track::DirtyMap& changes);
  /// The same for lines in any order.
  Status before_version(std::span<const u64> lines);

  /// Who writes home pages and their checksums holds it: one thread at a time.
  std::unique_lock<std::mutex> writing() { return std::unique_lock(writing_); }

  Findings findings() const;

 private:
  HomeGuard(region::Volume& volume, const region::Region& region, const track::DirtyMap* recovered,
            Condemns condemns, PageSet known, PageSet withheld, PageSet condemned)
      : volume_(volume),
        events_(region.events()),
        home_(region.home()),
        recovered_(recovered),
        condemns_(condemns),
        known_(std::move(known)),
        withheld_(std::move(withheld)),
        condemned_(std::move(condemned)) {}

  bool add(u64 page, std::string what);
  void tell_condemned(const std::vector<u64>& pages);
  bool is_unknown(u64 page) noexcept;
  void learn(u64 page) noexcept { known_.add(page); }
  Status verify(const std::vector<u64>& pages);
  Status condemn(const std::vector<u64>& pages);

  region::Volume& volume_;
  Events& events_;
  const std::shared_ptr<const region::HomeMap> home_;
  const track::DirtyMap* const recovered_;
  const Condemns condemns_;
  PageSet known_;
  PageSet withheld_;
  PageSet condemned_;
  std::mutex writing_;
  mutable std::mutex mutex_;
  Findings findings_;
  std::set<u64> noted_;  ///< pages
};

/// Of a page that was found damaged, to `findings`, which names the first thousand.
void note_damage(Findings& findings, u64 region_offset, std::string what);

/// The home page at `region_offset` is not what was written there.
Failure page_damaged(const region::Volume& volume, u64 region_offset);

}  // namespace perdura::commit
