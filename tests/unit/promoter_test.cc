// Goal: what a program changes in a reopened store moves to huge pages, with every byte, while
// threads read and write it; the rest stays a view of the home image; new space is no view. Nothing
// of it is visible to a checkpoint or to a recovery.
// Method: /proc/self/maps says what a page is. Counters over many chunks, changed and read by
// threads during the moves, after closing and after a crash.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "commit/promoter.hpp"
#include "support/files.hpp"
#include "support/wrapped_store.hpp"

namespace perdura::test {
namespace {

using namespace std::chrono_literals;
using region::kHugeBytes;

class PromoterTest : public testing::TestWithParam<const char*> {
 protected:
  static constexpr u64 kChunks = 12;
  static constexpr u64 kWords = (kChunks + 1) * kHugeBytes / sizeof(u64);

  void open(bool huge_pages = true, const std::string& parameters = "") {
    Options options;
    options.tracking = Tracking::kReported;
    options.region_limit_bytes = 256 * kMiB;
    options.huge_pages = huge_pages;
    store_ = std::make_unique<WrappedStore>(
        GetParam() + (":" + folder_.path("state.pd")) + parameters, options);
    words_ = static_cast<u64*>(store_->get_root("words"));
  }
  void SetUp() override {
    if (!huge_pages_available()) GTEST_SKIP() << "this system has no transparent huge pages";
  }
  void create(bool huge_pages = true) {
    open(huge_pages);
    const auto op = store_->operation();
    words_ = static_cast<u64*>(op.allocate(kWords * sizeof(u64), kPageBytes));
    op.touch(words_, kWords * sizeof(u64));
    for (u64 i = 0; i < kWords; ++i) words_[i] = i;
    op.set_root("words", words_);
  }
  void close() {
    store_->close();
    store_.reset();
  }
  void crash() {
    store_->crash();
    store_.reset();
  }

  /// The first word of a huge page's place.
  u64* chunk(u64 index) const {
    const auto first = reinterpret_cast<std::uintptr_t>(words_);
    return reinterpret_cast<u64*>(round_up(first, kHugeBytes) + index * kHugeBytes);
  }
  u64 number_of(const u64* word) const { return static_cast<u64>(word - words_); }
  static bool is_view(const u64* word) {
    return mapping_at(word, word + 1).find("state.pd") != std::string::npos;
  }
  void add(u64* word, u64 value) {
    const auto op = store_->operation();
    op.touch(word, sizeof *word);
    *word += value;
  }
  /// Whether a promoter has something to do when this word has changed.
  bool is_promoted_later(const u64* word) {
    region::Region& region = store_->runtime().region();
    commit::Promoter promoter(region, store_->runtime().mutators(), nullptr);
    auto changes = value_or_throw(track::DirtyMap::create(region.limit()));
    changes.add(region.offset_of(word) / kLineBytes, 1);
    promoter.note(changes);
    return promoter.pending();
  }
  static void wait_until_moved(const u64* word) {
    while (is_view(word)) std::this_thread::sleep_for(1ms);
  }

  const TempDir folder_{TempDir::kMemory};
  std::unique_ptr<WrappedStore> store_;
  u64* words_ = nullptr;
};

TEST_P(PromoterTest, NewSpaceIsNoView) {
  create();
  EXPECT_FALSE(is_view(chunk(0)));
  store_->checkpoint();
  EXPECT_FALSE(is_view(chunk(0)));
}

TEST_P(PromoterTest, WithoutHugePagesAReopenedStoreStaysAView) {
  create(false);
  close();
  open(false);
  EXPECT_TRUE(is_view(chunk(0)));
  EXPECT_FALSE(is_promoted_later(chunk(0)));
  add(chunk(0), 1);
  store_->checkpoint();
  EXPECT_TRUE(is_view(chunk(0)));
  close();
  open(true);
  EXPECT_TRUE(is_promoted_later(chunk(0)));
}

TEST_P(PromoterTest, ChangedChunksOfAReopenedStoreMoveAndNoOthers) {
  create();
  close();
  open();
  for (u64 i = 0; i < kChunks; ++i) ASSERT_TRUE(is_view(chunk(i))) << i;
  for (u64 i : {u64{1}, u64{4}, u64{5}}) add(chunk(i) + 1000 * i, 7);
  store_->checkpoint();
  for (u64 i : {u64{1}, u64{4}, u64{5}}) wait_until_moved(chunk(i));
  for (u64 i : {u64{0}, u64{2}, u64{3}, u64{6}, u64{11}}) EXPECT_TRUE(is_view(chunk(i))) << i;
  const auto expect_words = [this] {
    for (u64 i = 0; i < kWords; ++i) {
      const bool changed = i == number_of(chunk(1) + 1000) || i == number_of(chunk(4) + 4000) ||
                           i == number_of(chunk(5) + 5000);
      ASSERT_EQ(words_[i], i + (changed ? 7 : 0)) << i;
    }
  };
  expect_words();
  crash();
  open();
  expect_words();
  add(chunk(4), 1);
  store_->checkpoint();
  wait_until_moved(chunk(4));
  add(chunk(4), 1);
  close();
  open();
  EXPECT_EQ(*chunk(4), number_of(chunk(4)) + 2);
  EXPECT_TRUE(store_->audit().clean);
}

// Writers count in words of their own, readers outside of operations see only growth.
TEST_P(PromoterTest, ThreadsReadAndWriteWhileChunksMove) {
  create();
  close();
  for (int round = 0; round < 3; ++round) {
    open();
    std::vector<u64> before(words_, words_ + kWords);
    store_->runtime().checkpointer().every(2ms);
    std::atomic<bool> stop{false};
    std::atomic<u64> went_back{0};
    constexpr u64 kWriters = 2;
    std::vector<u64> added(kWriters * kChunks);
    std::vector<std::jthread> threads;
    for (u64 writer = 0; writer < kWriters; ++writer)
      threads.emplace_back([&, writer] {
        for (u64 i = 0; !stop; ++i) {
          u64* const word = chunk(i % kChunks) + 8 * writer;
          const auto op = store_->operation();
          op.touch(word, sizeof *word);
          std::atomic_ref(*word).store(*word + 1, std::memory_order_relaxed);
          ++added[writer * kChunks + i % kChunks];
        }
      });
    threads.emplace_back([&] {
      std::vector<u64> last(kWriters * kChunks);
      while (!stop)
        for (u64 i = 0; i < last.size(); ++i) {
          const u64* const word = chunk(i % kChunks) + 8 * (i / kChunks);
          const u64 now = std::atomic_ref(*const_cast<u64*>(word)).load(std::memory_order_relaxed);
          went_back += now < last[i];
          last[i] = now;
        }
    });
    for (u64 i = 0; i < kChunks; ++i) wait_until_moved(chunk(i));
    stop = true;
    threads.clear();
    EXPECT_EQ(went_back, 0u);
    for (u64 i = 0; i < added.size(); ++i)
      before[number_of(chunk(i % kChunks) + 8 * (i / kChunks))] += added[i];
    EXPECT_TRUE(std::equal(before.begin(), before.end(), words_));
    store_->checkpoint();
    if (round % 2 == 0) crash();
    else close();
    open();
    EXPECT_TRUE(std::equal(before.begin(), before.end(), words_));
    close();
  }
}

TEST_P(PromoterTest, CheckpointsLongerThanTheirIntervalLeaveATurn) {
  if (GetParam() != std::string("emu")) GTEST_SKIP() << "only emu: can be slowed down";
  create();
  close();
  open(true, "?bandwidth_mb=100");
  store_->runtime().checkpointer().every(1ms);
  std::atomic<bool> stop{false};
  std::jthread writer([&] {
    for (u64 i = 0; !stop; ++i) {
      const auto op = store_->operation();
      // A megabyte at once, so that copying it takes longer than the interval.
      u64* const words = chunk(i % kChunks);
      op.touch(words, kMiB);
      for (u64 k = 0; k < kMiB / sizeof(u64); k += kLineBytes / sizeof(u64)) ++words[k];
    }
  });
  for (u64 i = 0; i < kChunks; ++i) wait_until_moved(chunk(i));
  stop = true;
}

// A lock word, say, that needs no durability and is stored to by readers as well.
TEST_P(PromoterTest, UnreportedStoresOutsideOfOperationsAreNotLost) {
  create();
  close();
  open();
  std::atomic<bool> stop{false};
  std::vector<u64> added(kChunks);
  std::jthread other([&] {
    for (u64 i = 0; !stop; ++i, ++added[i % kChunks])
      std::atomic_ref(*chunk((i + 1) % kChunks)).fetch_add(1);
  });
  for (u64 i = 0; i < kChunks; ++i) {
    add(chunk(i) + 8, 1);
    store_->checkpoint();
    wait_until_moved(chunk(i));
  }
  stop = true;
  other.join();
  for (u64 i = 0; i < kChunks; ++i) EXPECT_EQ(*chunk(i), number_of(chunk(i)) + added[i]) << i;
}

// So a system call that stores to it there finds it.
TEST_P(PromoterTest, NoneMovesInsideAnOperation) {
  create();
  close();
  open();
  for (u64 i = 0; i < kChunks; ++i) add(chunk(i), 1);
  store_->runtime().checkpointer().every(1ms);
  u64 moved_inside = 0;
  for (u64 i = 0; i < kChunks; ++i)
    for (bool moved = false; !moved;) {
      const auto op = store_->operation();
      const bool before = is_view(chunk(i));
      for (int k = 0; k < 3 && before; ++k) moved_inside += is_view(chunk(i)) ? 0 : 1;
      moved = !before;
    }
  store_->runtime().checkpointer().every(0ms);
  EXPECT_EQ(moved_inside, 0u);
}

// After a crash the log is applied to a chunk when it is touched; moving it touches it.
TEST_P(PromoterTest, ChunksThatWaitForTheirLogMoveWithIt) {
  create();
  store_->checkpoint();
  crash();
  open();
  add(chunk(3), 5);
  store_->checkpoint();
  wait_until_moved(chunk(3));
  for (u64 i = 0; i < kWords; ++i)
    ASSERT_EQ(words_[i], i + (i == number_of(chunk(3)) ? 5 : 0)) << i;
}

INSTANTIATE_TEST_SUITE_P(Media, PromoterTest, testing::Values("emu", "file"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace perdura::test
