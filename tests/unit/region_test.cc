// Goal: no part of a region has two places on the medium, whatever failed when it got one.
// Method: on a real volume what was just allocated and mapped is refused by who is told of it; the
// next attempt asks for less, and a later one for more. The extents of the directory must not
// overlap, and what was written through the last one must be what opening maps.
#include <gtest/gtest.h>

#include "region/region.hpp"
#include "support/files.hpp"
#include "support/log_volume.hpp"

namespace perdura::test {
namespace {

constexpr u64 kLimit = 16 * kMiB;

TEST(Region, SpaceThatCouldNotBeUsedIsTakenByTheNextAttempt) {
  const TempDir folder(TempDir::kMemory);
  const auto volume = open_volume("file:" + folder.path("state.pd"));
  format::RegionRecord record = region_record();
  record.address = value_or_throw(region::Region::choose_address(kLimit));
  record.limit_bytes = kLimit;
  const auto region = value_or_throw(region::Region::map(*volume, record));
  ASSERT_TRUE(volume->add_region(record));
  // Space before what will be allocated next, large enough for the smaller attempt only.
  const auto log = value_or_throw(volume->allocate_log(1, volume->segment_bytes()));

  bool refuses = true;
  ASSERT_TRUE(region->on_backed([&](std::byte*, u64, bool) -> Status {
    if (refuses) return Failure{Code::kNoMemory, "refused"};
    return {};
  }));
  EXPECT_FALSE(region->back(0, 4 * kMiB));
  EXPECT_EQ(volume->extents(format::ExtentKind::kHome).size(), 1u);
  refuses = false;
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
