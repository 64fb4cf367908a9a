// Goal: ten million objects (in a slice, one million) of 16 to 256 bytes in a store with aliases
// stay within the kernel's default number of mappings (65,530), are checkpointed, and are found
// again at their addresses. Method: one store in memory, with each page tracker; the objects are
// written, a part is changed after a checkpoint, the process's death is its store's.
#include <gtest/gtest.h>

#include <fstream>

#include "support/files.hpp"
#include "support/ledger.hpp"
#include "support/slice.hpp"
#include "support/wrapped_store.hpp"

namespace perdura::test {
namespace {

constexpr u64 kMappingsMax = 65'530;

u64 mappings() {
  std::ifstream maps("/proc/self/maps");
  u64 count = 0;
  for (std::string line; std::getline(maps, line);) ++count;
  return count;
}

class ManyObjectsTest : public testing::TestWithParam<Tracking> {};

INSTANTIATE_TEST_SUITE_P(Trackings, ManyObjectsTest,
                         testing::Values(Tracking::kUserfault, Tracking::kProtect),
                         [](const auto& info) {
                           return info.param == Tracking::kUserfault ? "userfault" : "protect";
                         });

TEST_P(ManyObjectsTest, TakeFewMappings) {
  const TempDir folder(TempDir::kMemory);
  const std::string uri = "emu:" + folder.path("state.pd");
  Options options;
  options.tracking = GetParam();
  options.aliases = 2;
  options.region_limit_bytes = 4 * kGiB;
  options.verify_bytes_per_second = 0;
  const u64 count = slice_or_whole(1'000'000, 10'000'000);
  std::vector<u64*> objects(count);
  const auto value = [](u64 i, bool changed) { return mix(i) + (changed && i % 7 == 0 ? 1 : 0); };
  {
    WrappedStore store(uri, options);
    for (u64 begin = 0; begin < count; begin += 100'000) {
      const auto op = store.operation();
      for (u64 i = begin; i < begin + 100'000; ++i) {
        objects[i] = static_cast<u64*>(op.allocate(16 + mix(i) % 241));
        *objects[i] = value(i, false);
      }
      EXPECT_LT(mappings(), kMappingsMax);
    }
    store.checkpoint();
    for (u64 i = 0; i < count; i += 7) *objects[i] = value(i, true);
    EXPECT_LT(mappings(), kMappingsMax);
    store.checkpoint();
    for (u64 i = 0; i < count; i += 5) ++*objects[i];  // of no version
    store.crash();
  }
  WrappedStore store(uri, options);
  EXPECT_LT(mappings(), kMappingsMax);
  const HeapAudit audit = store.audit();
  ASSERT_TRUE(audit.clean) << audit.problem;
  EXPECT_EQ(audit.live_blocks, count);
  u64 wrong = 0;
  for (u64 i = 0; i < count; ++i) wrong += *objects[i] != value(i, true);
  EXPECT_EQ(wrong, 0U);
}

}  // namespace
}  // namespace perdura::test
