#include "store/home_check.hpp"

#include <algorithm>
#include <cstring>

#include "base/aligned_buffer.hpp"
#include "base/checksum.hpp"

namespace perdura::store {
namespace {

class HomeCheck {
 public:
  HomeCheck(region::Volume& volume, const format::RegionRecord& region, const region::HomeMap& home,
            const HalfReplayed& half_replayed, CheckReport& report, const Progress& progress)
      : region_(region),
        home_(home),
        medium_(volume.medium()),
        half_replayed_(half_replayed),
        report_(report),
        progress_(progress) {}

  void run() {
    for (const format::Extent& extent : home_.extents()) total_ += extent.length;
    for (const format::Extent& extent : home_.extents()) check_extent(extent);
    progress_("verifying the home image", total_, total_);
  }

 private:
  void check_extent(const format::Extent& extent) {
    AlignedBuffer table(format::table_bytes(extent.length));
    const u64 table_place = extent.medium_offset + extent.length;
    if (Status read = medium_.read(table_place, table.span()); !read) {
      done_ += extent.length;
      return add(read.failure().message, table_place, extent.region_offset);
    }
    AlignedBuffer pages(std::min<u64>(kMiB, extent.length));
    for (u64 at = 0; at < extent.length; at += pages.size()) {
      progress_("verifying the home image", done_, total_);
      const u64 length = std::min<u64>(pages.size(), extent.length - at);
      done_ += length;
      if (Status read = medium_.read(extent.medium_offset + at, pages.first(length)); !read) {
        add(read.failure().message, extent.medium_offset + at, extent.region_offset + at);
        continue;
      }
      for (u64 page = 0; page < length; page += kPageBytes)
        check_page(extent, at + page, pages.data() + page, table.data());
    }
  }

  void check_page(const format::Extent& extent, u64 at, const std::byte* page,
                  const std::byte* table) {
    const u64 offset = extent.region_offset + at;
    u64 expected = 0;
    std::memcpy(&expected, table + at / kPageBytes * sizeof expected, sizeof expected);
    if (page_checksum(page, offset / kLineBytes) == expected) {
      ++report_.home_pages;
      return;
    }
    const track::DirtyMap* const in_log = half_replayed_.in_log;
    const bool condemned = expected == format::kCondemnedPage;
    if (!condemned && in_log != nullptr && in_log->has_page(offset / kPageBytes)) {
      ++report_.pending_pages;
      return;
    }
    const u64 place = region::HomeMap::page_place(extent, offset);
    std::string message =
        "the page at region offset " + std::to_string(offset) + " (medium offset " +
        std::to_string(place) + ") " +
        (condemned ? "was found damaged, and is condemned" : "does not fit its checksum") +
        " (medium offset " + std::to_string(region::HomeMap::checksum_place(extent, offset)) + ")";
    if (!condemned && half_replayed_.log_is_damaged)
      message += ", or was half replayed: the log that would tell is damaged";
    add(std::move(message), place, offset);
  }

  void add(std::string message, u64 medium_offset, u64 region_offset) {
    report_.findings.push_back({Finding::Severity::kDamage, "home", std::move(message),
                                region_.name, medium_offset, region_offset});
  }

  const format::RegionRecord& region_;
  const region::HomeMap& home_;
  media::Medium& medium_;
  const HalfReplayed half_replayed_;
  CheckReport& report_;
  const Progress& progress_;
  u64 done_ = 0;
  u64 total_ = 0;
};

}  // namespace

void check_home(region::Volume& volume, const format::RegionRecord& region,
                const region::HomeMap& home, const HalfReplayed& half_replayed, CheckReport& report,
                const Progress& progress) {
  HomeCheck(volume, region, home, half_replayed, report, progress).run();
}

}  // namespace perdura::store
