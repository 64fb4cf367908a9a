// Goal: what docs/choosing.md says and no test of a part shows: that trackers are chosen anew.
// Method: one store, opened with each tracker after each other one.
#include <gtest/gtest.h>

#include <perdura/perdura.hpp>

#include "support/files.hpp"
#include "support/process.hpp"

namespace perdura::test {
namespace {

TEST(ChoosingDoc, AStoreTakesAnotherTrackerTheNextTime) {
  const TempDir folder(TempDir::kMemory);
  const Tracking all[] = {Tracking::kProtect, Tracking::kReported, Tracking::kBitmap,
                          Tracking::kAutomatic};
  u64 sessions = 0;
  for (const Tracking before : all)
    for (const Tracking after : all)
      for (const Tracking tracking : {before, after}) {
        Options options;
        options.region_limit_bytes = 16 * kMiB;
        options.tracking = tracking;
        Store store = Store::open(folder.path("state.pd"), options);
        auto& number = store.root<Field<u64>>("number");
        ASSERT_EQ(number, sessions) << name_of(before) << ", " << name_of(after);
        {
          const auto operation = store.operation();
          number = ++sessions;
        }
        store.checkpoint();
        if (tracking != Tracking::kAutomatic) {
          EXPECT_EQ(store.statistics().tracking, tracking);
        }
      }
}

}  // namespace
}  // namespace perdura::test
