// The snapshot of a tracker that learns of stores when they have happened: while the mutators stand
// still all that changed is copied aside, by them as well, at the speed of memory. What is slow,
// the checksums and the medium, comes when they run again.
//
// Where pages are compared (commit/last_pages.hpp) one that has a copy of its last version is
// brought up to date there, line by line, and needs no other place.
//
// Memory for it is taken as far as change sets need it, up to an eighth of what the process may
// use, and given back when later ones need less. A change set that does not fit is captured while
// they stand still.
#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "base/mapping.hpp"
#include "commit/last_pages.hpp"
#include "commit/snapshot.hpp"

namespace perdura::commit {

class StagedSnapshot final : public Snapshot, private track::SharedWork {
 public:
  /// `memory_max`: bytes that it may take; 0: an eighth of memory_limit(). `last_pages`: compares
  /// with them, by units of a page, or nullptr.
  static Result<std::unique_ptr<StagedSnapshot>> create(
      track::Tracker& tracker, track::Mutators& mutators, const std::byte* base, u64 unit_bytes,
      u64 memory_max = 0, std::unique_ptr<LastPages> last_pages = nullptr);

  Result<bool> open() override;
  Status write_lines(const track::DirtyMap& changes, log::VersionWriter& writer,
                     Trimmer* trimmer) override;
  Status write_units(std::span<const u64> units, const Take& take) override;
  bool keeps_units() const override { return true; }
  Status write_pages(const track::DirtyMap& changes, PageSink& sink) override;
  void close() noexcept override;
  void forget() noexcept override;
  u64 side_copies() const override { return 0; }
  /// Memory that it has taken and keeps.
  u64 held_bytes() const { return ready_; }

 private:
  StagedSnapshot(track::Tracker& tracker, track::Mutators& mutators, const std::byte* base,
                 u64 unit_bytes, Mapping memory, std::unique_ptr<LastPages> last_pages)
      : tracker_(tracker),
        mutators_(mutators),
        base_(base),
        unit_bytes_(unit_bytes),
        memory_(std::move(memory)),
        last_pages_(std::move(last_pages)) {}

  /// A unit that changed.
  struct Unit {
    u64 number;
    std::byte* bytes;  ///< as it is at the cut, when it is staged
    u64 changed;       ///< of a page that was compared: the lines that differed, else all
    bool has_copy;     ///< that is the copy of its last version
  };

  void help() noexcept override;
  void list_units(const track::DirtyMap& changes);
  bool stage(Unit* begin, Unit* end) noexcept;
  bool have_memory(u64 begin, u64 end) const noexcept;
  template <class Visit>
  Status for_each_page(const track::DirtyMap& changes, Visit&& visit) const;

  track::Tracker& tracker_;
  track::Mutators& mutators_;
  const std::byte* const base_;
  const u64 unit_bytes_;
  const Mapping memory_;
  u64 ready_ = 0;   ///< of the memory, from its beginning: it is there
  u64 needed_ = 0;  ///< by the last change sets
  const std::unique_ptr<LastPages> last_pages_;
  const track::DirtyMap* changes_ = nullptr;
  std::vector<Unit> listed_;  ///< in rising order, as those lie that have no copy
  u64 staged_bytes_ = 0;      ///< of these
  std::atomic<u64> next_{0};
  std::atomic<bool> lacks_memory_{false};
};

}  // namespace perdura::commit
