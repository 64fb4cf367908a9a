// Goal: of a store that was opened again a version has the pages that were stored to, and not those
// that were read, whatever its engine writes beside them.
// Method: a file on a disk, whose pages the system may keep in large ones; all of the heap is read
// before each checkpoint, a few pages are stored to, and what was found changed is counted.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <set>

#include <perdura/perdura.hpp>

#include "support/files.hpp"

namespace perdura::test {
namespace {

class ReopenedPages : public testing::TestWithParam<Engine> {};

TEST_P(ReopenedPages, AreFoundChangedWhereTheyWereStoredTo) {
  constexpr std::uint64_t kBytes = 24 << 20;
  constexpr std::uint64_t kPages = kBytes / 4096;
  constexpr std::uint64_t kEpochs = 30;
  constexpr std::uint64_t kStored = 20;
  const TempDir folder;
  Options options;
  options.engine = GetParam();
  options.tracking = Tracking::kUserfault;
  options.region_limit_bytes = 64 << 20;
  options.chunk_bytes = 4096;
  options.compare = false;               // whole pages are counted
  if (GetParam() == Engine::kRedoLog) {  // replays begin early
    options.log_limit_bytes = 1 << 20;
    options.log_segment_bytes = 64 << 10;
  }
  const std::string uri = "file:" + folder.path("store");
  try {
    Store store = Store::open(uri, options);
    {
      const auto operation = store.operation();
      void* const block = operation.allocate(kBytes, 4096);
      std::memset(block, 5, kBytes);
      store.set_root("block", block);
    }
    store.close();
  } catch (const Error& error) {
    if (error.code() != Code::kUnsupported) throw;
    GTEST_SKIP() << error.what();
  }
  Store store = Store::open(uri, options);
  auto* const block = static_cast<volatile char*>(store.get_root("block"));
  std::mt19937_64 random(1);
  const std::uint64_t before = store.statistics().changed_bytes;
  std::uint64_t expected = 0;
  for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    for (std::uint64_t page = 0; page < kPages; ++page)
      ASSERT_NE(static_cast<int>(block[page * 4096]), 0);
    std::set<std::uint64_t> stored;
    {
      const auto operation = store.operation();
      while (stored.size() < kStored) stored.insert(random() % kPages);
      for (const std::uint64_t page : stored) block[page * 4096] = static_cast<char>(6 + epoch);
    }
    expected += stored.size() * 4096;
    store.checkpoint();
  }
  const std::uint64_t changed = store.statistics().changed_bytes - before;
  EXPECT_GE(changed, expected);
  EXPECT_LE(changed, expected + kEpochs * 2 * 4096) << "the heap's own are two pages at most";
  store.close();
}

INSTANTIATE_TEST_SUITE_P(All, ReopenedPages,
                         testing::Values(Engine::kRedoLog, Engine::kDualCopy, Engine::kRemap));

}  // namespace
}  // namespace perdura::test
