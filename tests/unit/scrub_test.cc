// Goal: after opening, pages of the home image that are not what was written are found and named,
// in the background and beside checkpoints, and no others; what a crash left to recovery is not
// blamed.
// Method: real stores whose home pages are changed in their files; a medium that cannot be read.
#include <gtest/gtest.h>

#include <thread>

#include "commit/scrub.hpp"
#include "support/files.hpp"
#include "support/ledger.hpp"
#include "support/refusing_medium.hpp"
#include "support/wrapped_store.hpp"

namespace perdura::test {
namespace {

using region::HomeMap;

class ScrubTest : public testing::TestWithParam<const char*> {
 protected:
  static constexpr u64 kWords = 3 * kMiB / sizeof(u64);

  static Options options(Tracking tracking = Tracking::kReported) {
    Options options;
    options.region_limit_bytes = 64 * kMiB;
    options.tracking = tracking;
    options.verify_bytes_per_second = u64{4} << 30;
    return options;
  }
  std::string path() const { return folder_.path("store.pd"); }
  std::string uri() const { return GetParam() + path(); }

  static u64* make_words(WrappedStore& store) {
    const auto op = store.operation();
    auto* words = static_cast<u64*>(op.allocate(kWords * sizeof(u64)));
    for (u64 i = 0; i < kWords; ++i) words[i] = i + 1;
    op.set_root("words", words);
    return words;
  }

  static void change(WrappedStore& store, u64* word) {
    const auto op = store.operation();
    op.touch(word, sizeof *word);
    ++*word;
  }

  void flip_a_bit_at(u64 place) const { flip_bit(path(), place, 2); }

  /// Until everything that has a home now was looked at.
  static void wait_for_scrub(WrappedStore& store) {
    const u64 bytes = store.runtime().region().home()->backed_bytes();
    while (store.statistics().verified_bytes < bytes) std::this_thread::yield();
  }

  const TempDir folder_;
};

TEST_P(ScrubTest, NamesTheDamagedPagesAndNoOthers) {
  std::vector<std::pair<u64, u64>> pages;  // region offset, place
  {
    WrappedStore store(uri(), options());
    make_words(store);
    store.checkpoint();
    store.close();
    const auto home = store.runtime().region().home();
    // In each extent the first page and the last, and two neighbours at a window's end.
    for (const format::Extent& extent : home->extents()) {
      std::vector<u64> at{0, extent.length - kPageBytes};
      if (extent.length > commit::Scrub::kWindowBytes) {
        at.push_back(commit::Scrub::kWindowBytes - kPageBytes);
        at.push_back(commit::Scrub::kWindowBytes);
      }
      std::sort(at.begin(), at.end());
      at.erase(std::unique(at.begin(), at.end()), at.end());
      for (const u64 each : at)
        pages.emplace_back(extent.region_offset + each, extent.medium_offset + each);
    }
  }
  ASSERT_GE(pages.size(), 4u);
  // Not those that opening needs.
  std::erase_if(pages, [](const auto& page) { return page.first < kMiB; });
  for (const auto& [offset, place] : pages) flip_a_bit_at(place + offset / kPageBytes % kPageBytes);

  WrappedStore store(uri(), options());
  wait_for_scrub(store);
  EXPECT_EQ(store.statistics().damaged_pages, pages.size());
  const std::vector<std::string> found = store.runtime().damaged_pages();
  ASSERT_EQ(found.size(), pages.size());
  std::sort(pages.begin(), pages.end());
  for (size_t i = 0; i < pages.size(); ++i)
    EXPECT_NE(found[i].find("region offset " + std::to_string(pages[i].first) + " of"),
              std::string::npos)
        << found[i];
}

TEST_P(ScrubTest, DamagedChecksumsShowAsWell) {
  u64 place = 0;
  {
    WrappedStore store(uri(), options());
    make_words(store);
    store.close();
    const format::Extent& extent = store.runtime().region().home()->extents().back();
    place = HomeMap::checksum_place(extent, extent.region_offset);
  }
  flip_a_bit_at(place);
  WrappedStore store(uri(), options());
  wait_for_scrub(store);
  EXPECT_EQ(store.statistics().damaged_pages, 1u);
}

TEST_P(ScrubTest, FindsNothingBesideCheckpointsAndAGrowingHeap) {
  {
    WrappedStore store(uri(), options());
    make_words(store);
    store.close();
  }
  Options slower = options();
  slower.verify_bytes_per_second = 16 * kMiB;
  WrappedStore store(uri(), slower);
  auto* words = static_cast<u64*>(store.get_root("words"));
  const u64 bytes = store.runtime().region().home()->backed_bytes();
  for (u64 i = 0; store.statistics().verified_bytes < bytes; ++i) {
    for (u64 k = 0; k < 64; ++k) change(store, words + mix(i * 64 + k) % kWords);
    if (i % 64 == 1 && i < 64 * 16) (void)store.operation().allocate(100'000);
    store.checkpoint();
  }
  wait_for_scrub(store);
  EXPECT_EQ(store.statistics().damaged_pages, 0u) << store.runtime().damaged_pages().front();
  store.close();
}

/// One place cannot be read.
class UnreadableMedium final : public media::Decorator {
 public:
  UnreadableMedium(std::unique_ptr<media::Medium> inner, u64 place)
      : Decorator(std::move(inner)), place_(place) {}
  Status read_all(std::span<const media::ReadRequest> requests) override {
    for (const media::ReadRequest& request : requests)
      if (place_ - request.offset < request.into.size())
        return Failure{Code::kIo, "cannot read at " + std::to_string(request.offset)};
    return inner().read_all(requests);
  }

 private:
  const u64 place_;
};

TEST_P(ScrubTest, WhatCannotBeReadIsNamed) {
  u64 place = 0;
  {
    WrappedStore store(uri(), options());
    make_words(store);
    store.close();
    place = store.runtime().region().home()->extents().back().medium_offset;
  }
  WrappedStore store(uri(), options(), [place](std::unique_ptr<media::Medium> inner) {
    return std::make_unique<UnreadableMedium>(std::move(inner), place);
  });
  while (store.statistics().damaged_pages == 0) std::this_thread::yield();
  const std::vector<std::string> found = store.runtime().damaged_pages();
  EXPECT_NE(found.front().find("cannot read at"), std::string::npos) << found.front();
}

INSTANTIATE_TEST_SUITE_P(Media, ScrubTest, testing::Values("file:", "emu:"), [](const auto& info) {
  const std::string scheme = info.param;
  return scheme.substr(0, scheme.size() - 1);
});

TEST(ScrubAfterACrash, PagesOfTheLogAreLeftToTheNextReplay) {
  const TempDir folder;
  const std::string uri = "file:" + folder.path("store.pd");
  Options options;
  options.region_limit_bytes = 64 * kMiB;
  options.log_limit_bytes = 2 * kMiB;
  options.tracking = Tracking::kReported;
  options.verify_bytes_per_second = u64{4} << 30;
  constexpr u64 kWords = kMiB / sizeof(u64);
  {
    WrappedStore store(uri, options);
    u64* words = nullptr;
    {
      const auto op = store.operation();
      words = static_cast<u64*>(op.allocate(kWords * sizeof(u64)));
      std::memset(words, 1, kWords * sizeof(u64));
      op.set_root("words", words);
    }
    store.checkpoint();
    store.close();
  }
  {
    WrappedStore store(uri, options, [](std::unique_ptr<media::Medium> inner) {
      return std::make_unique<RefusingMedium>(std::move(inner), kPageBytes);
    });
    auto* words = static_cast<u64*>(store.get_root("words"));
    {
      const auto op = store.operation();
      for (u64 i = 0; i < kWords; i += 600) {
        op.touch(words + i, sizeof(u64));
        words[i] = i;
      }
    }
    store.checkpoint();
    // Brings it home, or tries.
    EXPECT_THROW(store.close(), Error);
    EXPECT_FALSE(home_problems(store.runtime().volume()).empty());
    store.crash();
  }
  WrappedStore store(uri, options);
  const u64 bytes = store.runtime().region().home()->backed_bytes();
  while (store.statistics().verified_bytes < bytes) std::this_thread::yield();
  EXPECT_EQ(store.statistics().damaged_pages, 0u) << store.runtime().damaged_pages().front();
  store.close();
  EXPECT_EQ(home_problems(store.runtime().volume()), std::vector<std::string>{});
}

}  // namespace
}  // namespace perdura::test
