// Goal: where many pages changed, several threads look at them, and find what one would have found.
// Method: an array over many groups of pages whose words lead into the container, but for some at
// the borders of groups, or all of them.
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include <perdura/perdura.hpp>

#include "support/files.hpp"
#include "track/dirty_map.hpp"

namespace {

struct Leaf {
  std::uint64_t number;
};

struct Slot {
  Leaf* leaf;
  std::byte rest[504];
};

struct Leaves {
  Slot* all;
  std::uint64_t count;
};

}  // namespace

PERDURA_TYPE(Leaf)
PERDURA_TYPE(Slot, leaf)
PERDURA_TYPE(Leaves, all)

namespace perdura::test {
namespace {

constexpr u64 kSlotsInGroup = track::DirtyMap::kGroupBytes / sizeof(Slot);
constexpr u64 kGroups = 80;
constexpr u64 kSlots = kGroups * kSlotsInGroup;

class Discovery : public testing::TestWithParam<Tracking> {
 protected:
  void SetUp() override {
    Options options;
    options.tracking = GetParam();
    options.engine = Engine::kRemap;
    options.region_limit_bytes = 256 * kMiB;
    container_ = Container::open("file:" + folder_.path("container.pd"), options);
    leaves().count = kSlots;
    leaves().all = static_cast<Slot*>(allocate(TypeRecord<Slot>::value, kSlots));
    leaves().all[0].leaf = make<Leaf>();
    container_->point();
    const ContainerOperation operation = container_->operation();
    for (u64 i = 0; i < kSlots; ++i) leaves().all[i].leaf = leaves().all[0].leaf;
  }

  Leaves& leaves() { return container_->root<Leaves>(); }

  const TempDir folder_{TempDir::kMemory};
  std::optional<Container> container_;
};

TEST_P(Discovery, FewWordsOfManyLeadOut) {
  const ContainerStatistics before = container_->statistics();
  std::vector<u64> places{1, kSlots - 1};
  for (u64 group = 7; group < kGroups; group += 15)
    for (const u64 near : {0, 1, 2, 3}) places.push_back(group * kSlotsInGroup - 2 + near);
  for (const u64 place : places) {
    leaves().all[place].leaf = make<Leaf>();
    leaves().all[place].leaf->number = place;
  }
  container_->point();
  const ContainerStatistics after = container_->statistics();
  EXPECT_EQ(after.moved_objects - before.moved_objects, places.size());
  EXPECT_GE(after.visited_pointers - before.visited_pointers, kSlots);
  EXPECT_LE(after.visited_pointers - before.visited_pointers, kSlots + kSlotsInGroup);
  for (const u64 place : places) {
    ASSERT_TRUE(container_->contains(leaves().all[place].leaf)) << place;
    EXPECT_EQ(leaves().all[place].leaf->number, place);
  }
}

TEST_P(Discovery, AllWordsLeadOut) {
  static Leaf outside{};
  const ContainerStatistics before = container_->statistics();
  auto* const shared = make<Leaf>();
  for (u64 i = 0; i < kSlots; ++i) leaves().all[i].leaf = i % 2 == 0 ? shared : &outside;
  container_->point();
  const ContainerStatistics after = container_->statistics();
  EXPECT_EQ(after.moved_objects - before.moved_objects, 1u);
  EXPECT_GE(after.visited_pointers - before.visited_pointers, kSlots);
  EXPECT_LE(after.visited_pointers - before.visited_pointers, kSlots + kSlotsInGroup);
  const Leaf* const moved = leaves().all[0].leaf;
  EXPECT_TRUE(container_->contains(moved));
  for (u64 i = 0; i < kSlots; ++i)
    ASSERT_EQ(leaves().all[i].leaf, i % 2 == 0 ? moved : &outside) << i;
}

INSTANTIATE_TEST_SUITE_P(Trackers, Discovery,
                         testing::Values(Tracking::kUserfault, Tracking::kSigbus),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace perdura::test
