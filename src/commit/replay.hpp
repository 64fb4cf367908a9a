// Bringing the home image up to date from committed versions, with its page checksums.
//
// NVM: line by line in log order; a page's checksum is the sum of its lines', so a line is
// exchanged without reading the rest of the page.
// Block media: the newest copy of each line wins, pages are written once, in address order.
//
// A crash at any moment leaves a home image that is a mix of versions: recovery replays the same
// log again, and recomputes the checksums of the pages it touches.
//
// A condemned page gets its lines, and stays condemned: nothing tells a page of which all lines
// were written by the program from one that a page tracker copied as it was.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "log/reader.hpp"
#include "log/space.hpp"
#include "log/version_writer.hpp"
#include "region/region.hpp"
#include "track/dirty_map.hpp"
#include "track/mutators.hpp"

namespace perdura::commit {

/// For each line of a region, the newest copy in a set of blocks: a chain of entries per page,
/// newest first, so that its size follows the log and not the pages it is spread over.
class LineIndex {
 public:
  static Result<LineIndex> create(u64 region_bytes);

  /// Verified blocks in the order of their versions; later ones win. `image` holds them.
  Status add(const log::Image& image, const log::BlockRef& block);
  /// All of a log, whose image must outlive what for_each_line() is asked.
  Status add(const log::Recovered& log);
  void clear();
  /// Free what for_each_line() needs.
  void keep_only_lines();

  const track::DirtyMap& lines() const { return lines_; }
  bool empty() const { return entries_.size() == 1; }

  /// Call `patch(line_in_page, bytes)` for the newest copy of each line of a page.
  template <class Patch>
  void for_each_line(u64 page, Patch&& patch) const {
    u64 missing = lines_.page_mask(page);
    for (u64 at = heads_.as<u64>()[page]; missing != 0; at = entries_[at].next()) {
      const Entry& entry = entries_[at];
      const u64 bit = u64{1} << entry.line_in_page();
      if ((missing & bit) == 0) continue;
      patch(entry.line_in_page(), entry.bytes);
      missing &= ~bit;
    }
  }

 private:
  struct Entry {
    const std::byte* bytes;
    u64 packed;  ///< next * kLinesPerPage + line_in_page: a log may have more than 2^32 lines
    u64 next() const { return packed / kLinesPerPage; }
    u64 line_in_page() const { return packed % kLinesPerPage; }
  };
  LineIndex(track::DirtyMap lines, Mapping heads)
      : lines_(std::move(lines)), heads_(std::move(heads)), entries_(1) {}
  track::DirtyMap lines_;
  Mapping heads_;  ///< of each page with lines: its newest entry
  std::vector<Entry> entries_;
};

/// Writes versions home. The caller makes the result durable and retires the log. It may be used
/// again where that succeeded, and then takes less time: the memory that it needs is there.
class Replay {
 public:
  /// `mutators`: of a program that uses the region meanwhile; nullptr: there is none.
  Replay(region::Volume& volume, u64 region_bytes, const track::Mutators* mutators = nullptr);

  /// `after_crash`: home pages may be half replayed, so their checksums are computed anew.
  /// Otherwise a page that does not fit its checksum is damage, and does not get one that fits: on
  /// block media it is condemned.
  Status run(std::shared_ptr<const region::HomeMap> home,
             std::span<const log::LoggedVersion> versions, bool after_crash);
  /// That were written by the last run(), and pages that were found damaged; they are condemned
  /// durably.
  u64 home_bytes() const { return home_bytes_; }
  const std::vector<u64>& damaged() const { return damaged_; }

 private:
  struct TableLine;

  Status bring_home(std::span<const log::LoggedVersion> versions);
  void let_stops_pass() noexcept;
  void prefetch(const format::Extent& extent, u64 run) const;
  Status replay_nvm(const log::BlockRef& block);
  Status recompute_pages();
  Status replay_blocks(std::span<const log::BlockRef> blocks);
  Status write_windows(const LineIndex& index);
  Status verify_window(const LineIndex& index, u64 first_page, u64 pages, std::byte* memory,
                       u64 table_place);
  Status write_window(const LineIndex& index, const format::Extent& extent, u64 first_page);

  region::Volume& volume_;
  media::LinearMedium& medium_;
  const u64 region_bytes_;
  const track::Mutators* const mutators_;
  bool has_waited_ = false;  ///< as long as it waits for one stop
  std::shared_ptr<const region::HomeMap> home_;
  std::unique_ptr<track::DirtyMap> touched_;  ///< NVM: pages to recompute
  std::unique_ptr<LineIndex> index_;          ///< block media
  std::optional<log::Image> image_;           ///< block media: the log
  AlignedBuffer buffers_[2];                  ///< block media: a window of pages and its table page
  /// After the buffers: it waits for the writes of a replay that failed before these go.
  std::unique_ptr<media::WriteQueue> queue_;
  bool after_crash_ = false;
  int buffer_ = 0;
  size_t pending_[2] = {0, 0};  ///< writes that each buffer has in flight
  u64 home_bytes_ = 0;
  std::vector<u64> damaged_;
};

}  // namespace perdura::commit
