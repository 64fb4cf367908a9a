// The region as it was at a cut, while mutators go on: what they are about to store to is copied
// aside before, and what is copied aside is captured instead.
//
//   open                        mutators stand still; the tracker has cut
//   write_lines, _units, _pages mutators run; one of them, once, by the engine
//   close                       nothing is copied aside any more
//   forget                      no version came of it, or one was made without a snapshot
//
// Three kinds. With a window (trackers of reported stores) mutators copy lines, and everything that
// is not marked is read where it is. With a guard (trackers of pages) handlers of faults copy whole
// units, and what nobody has stored to yet is kept from stores while it is read. Staged (any
// tracker of pages) all that changed is copied when it is opened.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "log/version_writer.hpp"
#include "region/region.hpp"
#include "track/dirty_map.hpp"
#include "track/mutators.hpp"
#include "track/tracker.hpp"

namespace perdura::commit {

class Trimmer;

/// Gets pages of a snapshot, in one thread.
class PageSink {
 public:
  /// `whole_pages`: it looks at all of a page's bytes, and not at its lines alone.
  explicit PageSink(bool whole_pages) : whole_pages_(whole_pages) {}
  virtual ~PageSink() = default;

  bool whole_pages() const { return whole_pages_; }
  /// Lines of this page come soon.
  virtual void fetch(u64 page, u64 mask) noexcept = 0;
  /// The lines of a page that `mask` has; the bytes are its own until it returns.
  virtual Status take(u64 page, u64 mask, const std::byte* bytes) = 0;
  /// What it was given of the whole of this page last was stored to meanwhile, and does not count.
  virtual Status take_again(u64 page, const std::byte* bytes) = 0;

 private:
  const bool whole_pages_;
};

class Snapshot {
 public:
  virtual ~Snapshot() = default;

  /// Nothing is copied aside when this fails, or is false: there is no room for what changed, which
  /// is to be captured while mutators stand still.
  virtual Result<bool> open() = 0;

  /// The lines that `changes` has, to a log; those that `trimmer` leaves out are not written.
  virtual Status write_lines(const track::DirtyMap& changes, log::VersionWriter& writer,
                             Trimmer* trimmer) = 0;

  /// Gets a unit, by its number in the region; the bytes are its own until it returns.
  using Take = std::function<Status(u64 unit, const std::byte* bytes)>;
  /// Each of `units`, in any order: of which the change set has a line. The first failure ends it.
  virtual Status write_units(std::span<const u64> units, const Take& take) = 0;

  /// The bytes that write_units gives stay as they are until close(), not only until it returns.
  virtual bool keeps_units() const { return false; }

  /// The lines that `changes` has, page by page, in any order. The first failure ends it.
  virtual Status write_pages(const track::DirtyMap& changes, PageSink& sink) = 0;

  /// Also after a failure, and more than once.
  virtual void close() noexcept = 0;

  /// The last version is not what the last snapshot was, nor one that it knows.
  virtual void forget() noexcept {}

  /// Lines or units of the last one that were captured from copies.
  virtual u64 side_copies() const = 0;
};

/// The units of which `changes` has a line, in rising order.
std::vector<u64> units_of(const track::DirtyMap& changes, u64 unit_bytes);

/// How what is stored to is copied aside.
enum class Aside : u8 {
  kBeforeStores,  ///< by a tracker that sees stores first
  kAtOpening,     ///< all of it, of a tracker of pages: staged
};
/// The tracker outlives it as the others do, and the region has no aliases. A unit is a power of
/// two, at least a page. `compares`: what is staged is compared with the last version, page by
/// page.
Result<std::unique_ptr<Snapshot>> make_snapshot(Aside aside, track::Tracker& tracker,
                                                track::Mutators& mutators,
                                                const region::Region& region, u64 unit_bytes,
                                                bool compares);

}  // namespace perdura::commit
