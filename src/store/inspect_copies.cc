// A region in two copies, looked at.
#include "store/home_check.hpp"
#include "store/inspection.hpp"
#include "store/pinned.hpp"

namespace perdura::store {
namespace {

class CopyInspection final : public Inspection {
 public:
  using Inspection::Inspection;

  RegionDescription outline() const override {
    RegionDescription region;
    region.record = record_;
    region.replayed_version = volume_.replayed_version(record_.region);
    region.copy = format::copy_of(region.replayed_version);
    region.extents = home(*region.copy).extents();
    for (const format::Extent& extent : region.extents) {
      region.backed_bytes += extent.length;
      region.home_bytes += 2 * format::home_bytes(extent.length);
    }
    return region;
  }

  Status read_versions() override {
    PERDURA_ASSIGN(newest_, pin_copy(volume_, record_));
    return {};
  }

  void describe_versions(RegionDescription& region) const override {
    region.durable_version = region.replayed_version = newest_;
    region.copy = format::copy_of(newest_);
  }

  // Of the older copy nothing can be said: it is whatever an attempt has left.
  void check(const Status& read, CheckReport& report, const Progress& progress) override {
    if (!read) return add_damage(report, "home", read.failure().message, record_.name);
    check_home(volume_, record_, home(format::copy_of(newest_)), {}, report, progress);
  }

 private:
  u64 durable_version() const override { return newest_; }

  region::HomeMap home(u64 copy) const {
    std::vector<format::Extent> extents =
        volume_.extents(format::ExtentKind::kCopies, record_.region);
    for (format::Extent& extent : extents) extent = format::home_in_copy(extent, copy);
    return region::HomeMap(std::move(extents));
  }

  Result<std::unique_ptr<region::Region>> map_newest(const format::RegionRecord& record) override {
    return region::Region::map_copy(volume_, record, format::copy_of(newest_));
  }

  u64 newest_ = 0;  ///< pinned
};

}  // namespace

std::unique_ptr<Inspection> inspection_of_copies(region::Volume& volume,
                                                 const format::RegionRecord& record) {
  return std::make_unique<CopyInspection>(volume, record);
}

}  // namespace perdura::store
