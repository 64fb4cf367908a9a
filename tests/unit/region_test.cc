// Goal: no part of a region has two places on the medium, whatever failed when it got one.
// Method: on a real volume the medium refuses to map what was just allocated; the next attempt asks
// for less, and a later one for more. The extents of the directory must not overlap, and what was
// written through the last one must be what opening maps.
#include <gtest/gtest.h>

#include "media/fault.hpp"
#include "region/region.hpp"
#include "support/files.hpp"
#include "support/log_volume.hpp"

namespace perdura::test {
namespace {

constexpr u64 kLimit = 16 * kMiB;

TEST(Region, SpaceThatCouldNotBeMappedIsTakenByTheNextAttempt) {
  const TempDir folder(TempDir::kMemory);
  media::FaultPlan plan;
  const auto volume = open_volume(
      "file:" + folder.path("state.pd"),
      [&](std::unique_ptr<media::Medium> inner) { return plan.wrap(std::move(inner)); });
  format::RegionRecord record{};
  record.region = 1;
  record.address = value_or_throw(region::Region::choose_address(kLimit));
  record.limit_bytes = kLimit;
  const auto region = value_or_throw(region::Region::map(*volume, record));
  ASSERT_TRUE(volume->add_region(record));
  // Space before what will be allocated next, large enough for the smaller attempt only.
  const auto log = value_or_throw(volume->allocate_log(volume->segment_bytes()));

  plan.arm({.calls = media::kFaultMapHome});
  EXPECT_FALSE(region->back(0, 4 * kMiB));
  EXPECT_EQ(plan.fired(), 1u);
  plan.disarm();
  ASSERT_TRUE(volume->release_log(log.medium_offset, log.length));
  ASSERT_TRUE(region->back(0, 64 * kPageBytes));
  ASSERT_TRUE(region->back(0, 8 * kMiB));

  u64 end = 0;
  for (const format::Extent& extent : region->home()->extents()) {
    EXPECT_EQ(extent.region_offset, end);
    end += extent.length;
  }
  EXPECT_EQ(end, 8 * kMiB);
  const auto durable = volume->extents(format::ExtentKind::kHome);
  EXPECT_EQ(durable.size(), region->home()->extents().size());
  for (const format::Extent& extent : durable)
    EXPECT_EQ(region->home()->find(extent.region_offset)->medium_offset, extent.medium_offset);
}

}  // namespace
}  // namespace perdura::test
