// Goal: HEAPO's calls inside an F-STM transaction fail as they do outside, or wait for what they
// need. Method: a heap so small that what operations have given back is all there is.
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include <perdura/compat/fstm.h>
#include <perdura/compat/heapo.h>
#include <perdura/perdura.hpp>

#include "base/bits.hpp"
#include "support/files.hpp"

namespace {

struct Box {
  std::uint64_t word;
  Box* next;
};

}  // namespace

PERDURA_TYPE(Box, next)

namespace perdura::test {
namespace {

class SmallHeap : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::setenv("PERDURA_STORE", ("emu:" + folder_.path("own.pd")).c_str(), 1), 0);
    Options options;
    options.region_limit_bytes = 4 * kMiB;
    Store::open("emu:" + folder_.path("own.pd-small"), options).close();
    first_ = static_cast<u64*>(pos_map("small"));
    ASSERT_NE(first_, nullptr) << perdura_last_error();
  }
  void TearDown() override { EXPECT_EQ(pos_unmap("small"), 0) << perdura_last_error(); }
  static std::vector<void*> fill() {
    std::vector<void*> blocks;
    while (void* const block = pos_malloc("small", kBlockBytes)) blocks.push_back(block);
    EXPECT_EQ(perdura_last_code(), PERDURA_NO_SPACE);
    return blocks;
  }
  /// Makes a transaction that stores what it is given.
  void store(u64 value) {
    TM_START
    TM_STORE(first_, value);
    TM_COMMIT
  }

  static constexpr u64 kBlockBytes = 200'000;
  const TempDir folder_{TempDir::kMemory};
  u64* first_ = nullptr;
};

// No version has yet what operations gave back, and transactions get it once one has.
TEST_F(SmallHeap, GivesATransactionWhatOperationsGaveBack) {
  store(1);
  for (void* const block : fill()) ASSERT_EQ(pos_free("small", block), 0);
  TM_START
  void* const block = pos_malloc("small", kBlockBytes);
  TM_STORE(first_, block);
  TM_COMMIT
  ASSERT_NE(*first_, 0u) << perdura_last_error();
  EXPECT_EQ(pos_free("small", reinterpret_cast<void*>(*first_)), 0);
}

TEST_F(SmallHeap, TellsATransactionWhatItsCallsCannotDo) {
  store(1);
  const std::vector<void*> blocks = fill();
  volatile int refused = 0;
  TM_START
  TM_STORE(first_, 2);
  if (pos_malloc("small", kBlockBytes) == nullptr) refused = refused + 1;
  if (pos_free("small", first_ + 1) != 0) refused = refused + 1;
  TM_COMMIT
  EXPECT_GE(refused, 2);
  EXPECT_EQ(*first_, 2u);
  EXPECT_EQ(blocks.empty(), false);
}

// A point of it moves what its words lead to, and would not know of these.
TEST(ContainersInTransactions, AreRefused) {
  const TempDir folder{TempDir::kMemory};
  const auto store_into_container = [&] {
    Container container = Container::open("emu:" + folder.path("container.pd"));
    u64& word = container.root<Box>().word;
    TM_START
    TM_STORE(&word, 1);
    TM_COMMIT
  };
  EXPECT_DEATH(store_into_container(), "is a container.*transactions need a store");
}

}  // namespace
}  // namespace perdura::test
