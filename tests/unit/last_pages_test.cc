// Goal: of page-tracked pages that change again and again the lines that differ go to the log of a
// store on a disk, and nothing else changes: whatever a version was, or did not come to be, the
// store opens with what its program had.
// Method: the copies alone, with few pages; stores on files, of which pages change a little, change
// back, change while versions fail, are captured in another way, and are looked at after a crash.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <perdura/perdura.hpp>

#include "commit/last_pages.hpp"
#include "support/call_faults.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"

namespace perdura::test {
namespace {

using commit::LastPages;

std::vector<std::byte> page_of(int value) {
  return std::vector<std::byte>(kPageBytes, std::byte(value));
}

TEST(LastPages, APageHasACopyFromItsSecondChangeOn) {
  const auto pages = value_or_throw(LastPages::create(64 * kPageBytes));
  EXPECT_EQ(pages->find(5), nullptr);
  pages->offer(5, page_of(1).data());
  EXPECT_EQ(pages->find(5), nullptr);
  pages->offer(5, page_of(2).data());
  ASSERT_NE(pages->find(5), nullptr);
  EXPECT_EQ(std::memcmp(pages->find(5), page_of(2).data(), kPageBytes), 0);
  EXPECT_EQ(pages->find(4), nullptr);

  pages->forget();
  EXPECT_EQ(pages->find(5), nullptr);
  EXPECT_EQ(pages->copies(), 0u);
  pages->offer(5, page_of(3).data());
  ASSERT_NE(pages->find(5), nullptr);
  EXPECT_EQ(std::memcmp(pages->find(5), page_of(3).data(), kPageBytes), 0);
}

// A clock: who was found since the hand came by keeps its copy for another round.
TEST(LastPages, WhereThereIsNoRoomWhoChangedLeastLatelyHasNone) {
  constexpr u64 kCopies = 2 * kMiB / kPageBytes;
  const auto pages = value_or_throw(LastPages::create(4 * kCopies * kPageBytes, 2 * kMiB));
  const auto offer = [&](u64 page) {
    for (int i = 0; i < 2; ++i) pages->offer(page, page_of(static_cast<int>(page)).data());
  };
  for (u64 page = 0; page < kCopies; ++page) offer(page);
  EXPECT_EQ(pages->copies(), kCopies);
  for (u64 page = 0; page < kCopies; ++page) {
    if (page == 7) continue;
    ASSERT_NE(pages->find(page), nullptr);
  }
  offer(kCopies);
  EXPECT_EQ(pages->copies(), kCopies);
  EXPECT_EQ(pages->find(7), nullptr);
  for (u64 page = 0; page <= kCopies; ++page) {
    if (page == 7) continue;
    ASSERT_NE(pages->find(page), nullptr) << page;
    EXPECT_EQ(std::memcmp(pages->find(page), page_of(static_cast<int>(page)).data(), kPageBytes),
              0);
  }
}

TEST(LastPages, WithoutMemoryThereAreNoCopies) {
  const auto pages = value_or_throw(LastPages::create(64 * kPageBytes));
  const CallFault refused{.call = Call::kAdvise, .error = ENOMEM, .for_ever = true};
  arm_calls(&refused);
  in_library([&] {
    for (int i = 0; i < 3; ++i) pages->offer(1, page_of(i).data());
  });
  disarm_calls();
  EXPECT_EQ(pages->find(1), nullptr);
  pages->offer(1, page_of(4).data());
  EXPECT_NE(pages->find(1), nullptr);
}

class ComparedPages : public testing::Test {
 protected:
  static constexpr u64 kPages = 400;
  /// Of a known type: a copy of the store can be opened beside it.
  struct Bytes {
    char at[kPages * kPageBytes];
  };

  void SetUp() override {
    options_.tracking = Tracking::kAutomatic;
    options_.region_limit_bytes = 64 << 20;
    options_.log_limit_bytes = 2 << 20;  // replays come again and again
    options_.log_segment_bytes = 64 << 10;
    options_.on_event = [](const Event&) {};
    store_.emplace(Store::open(uri(), options_));
    bytes_ = store_->root<Bytes>("bytes").at;
  }
  std::string uri() const { return "file:" + folder_.path("store"); }
  void set(u64 page, u64 at, int value) {
    const auto operation = store_->operation();
    bytes_[page * kPageBytes + at] = static_cast<char>(value);
  }
  u64 logged(const std::function<void()>& change) {
    change();
    const u64 before = store_->statistics().log_bytes;
    store_->checkpoint();
    return store_->statistics().log_bytes - before;
  }
  /// As after SIGKILL, at the last version.
  std::vector<char> after_a_crash() {
    const std::string copy = folder_.path("copy");
    std::filesystem::copy_file(folder_.path("store"), copy,
                               std::filesystem::copy_options::overwrite_existing);
    Options options = options_;
    options.read_only = true;
    Store opened = Store::open("file:" + copy, options);
    const char* const found = opened.find_root<Bytes>("bytes")->at;
    return {found, found + kPages * kPageBytes};
  }
  std::vector<char> now() const { return {bytes_, bytes_ + kPages * kPageBytes}; }
  void expect_kept() { EXPECT_TRUE(after_a_crash() == now()); }

  const TempDir folder_{TempDir::kDisk};
  Options options_;
  std::optional<Store> store_;
  char* bytes_ = nullptr;
};

TEST_F(ComparedPages, GoToTheLogByTheLinesThatDiffer) {
  store_->checkpoint();
  int value = 2;
  const auto change = [&] {
    for (u64 page = 0; page < 100; ++page) set(page, page * 40, value);
    ++value;
  };
  EXPECT_GT(logged(change), 100 * kPageBytes) << "of the first changes nothing is known";
  for (int i = 0; i < 50; ++i) EXPECT_LT(logged(change), 100 * 4 * kLineBytes);
  expect_kept();
}

TEST_F(ComparedPages, WithoutCompareGoThereWhole) {
  store_.reset();
  options_.compare = false;
  store_.emplace(Store::open(uri(), options_));
  bytes_ = store_->find_root<Bytes>("bytes")->at;
  for (int i = 2; i < 6; ++i)
    EXPECT_GT(logged([&] {
                for (u64 page = 0; page < 100; ++page) set(page, 0, i);
              }),
              100 * kPageBytes);
  expect_kept();
}

// What was there before the version that failed is what the next one is compared with.
TEST_F(ComparedPages, AreWholeAfterAVersionThatFailed) {
  for (int round = 0; round < 3; ++round) {
    for (int value = 2; value < 5; ++value)
      for (u64 page = 0; page < 20; ++page) {
        set(page, 100, value);
        if (page == 19) store_->checkpoint();
      }
    for (u64 page = 0; page < 20; ++page) set(page, 100, 50 + static_cast<int>(page));
    const CallFault refused{.call = Call::kWrite, .error = EIO, .for_ever = true};
    arm_calls(&refused);
    EXPECT_THROW(in_library([&] { store_->checkpoint(); }), Error);
    disarm_calls();
    // As that one had it: nothing was stored to the page since then.
    store_->checkpoint();
    expect_kept();
    for (u64 page = 0; page < 20; ++page) set(page, 100, 4);
    store_->checkpoint();
    expect_kept();
  }
}

// Values that come back, pages that are stored to and do not change, pages that change all over:
// each version is compared with the file.
TEST_F(ComparedPages, AreWhatTheProgramHadInEachVersion) {
  std::mt19937_64 random(3);
  const auto some = [&](u64 below) { return random() % below; };
  for (int version = 0; version < 150; ++version) {
    for (u64 i = some(60); i-- > 0;) set(some(40), some(kPageBytes), static_cast<int>(some(3)));
    if (some(4) == 0) set(some(kPages), some(kPageBytes), 1);
    if (some(8) == 0) {
      const auto operation = store_->operation();
      std::memset(bytes_ + some(40) * kPageBytes, static_cast<int>(some(3)), kPageBytes);
    }
    store_->checkpoint();
    if (version % 10 == 9) expect_kept();
  }
}

}  // namespace
}  // namespace perdura::test
