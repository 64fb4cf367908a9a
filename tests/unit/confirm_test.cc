// Goal: a version that the superblock knows of is never taken for one that a crash cut short; that
// it learns of versions harms none of them, and nobody waits for it.
// Method: real stores whose sessions end as a crash ends them; blocks of their last versions, and
// records, are damaged in their files.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <limits>
#include <random>
#include <thread>

#include "commit/version_map.hpp"
#include "log/reader.hpp"
#include "media/fault.hpp"
#include "store/versions.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/log_volume.hpp"
#include "support/wrapped_store.hpp"

namespace perdura::test {
namespace {

class ConfirmTest : public testing::TestWithParam<const char*> {
 protected:
  static constexpr u64 kWords = 2000;

  Options options(bool confirms = true) const {
    Options options;
    options.region_limit_bytes = 16 * kMiB;
    options.tracking = Tracking::kReported;
    options.log_segment_bytes = 32 * kKiB;
    options.log_limit_bytes = kMiB;  // block media: nothing goes home by itself
    options.lazy_recovery = false;
    options.confirm_versions = confirms;
    return options;
  }
  std::string path() const { return folder_.path("store.pd"); }
  std::string uri() const { return GetParam() + path(); }

  static u64* words_of(WrappedStore& store) {
    if (void* const words = store.get_root("words")) return static_cast<u64*>(words);
    const auto op = store.operation();
    void* const words = op.allocate(kWords * sizeof(u64));
    op.set_root("words", words);
    return static_cast<u64*>(words);
  }
  static u64 change(WrappedStore& store, u64 value) {
    u64* const words = words_of(store);
    {
      const auto op = store.operation();
      op.touch(words, 200 * sizeof(u64));
      std::fill_n(words, 200, value);
    }
    return store.checkpoint();
  }
  static void await_confirmed(WrappedStore& store, u64 version) {
    while (store.statistics().confirmed_version < version) std::this_thread::yield();
  }
  /// In the data of the newest version in the log.
  void damage_newest_version() const {
    u64 place = 0;
    {
      const auto volume = open_volume(uri());
      log::Space space(*volume, 1, 0);
      const auto found = value_or_throw(log::read(*volume, 1, volume->replayed_version(1), space));
      ASSERT_FALSE(found.versions.empty());
      place = found.versions.back().blocks.front().offset + sizeof(format::LogBlockHeader) + 5;
    }
    flip_bit(path(), place, 4);
  }

  const TempDir folder_{TempDir::kMemory};
};

/// Where versions do not come home at once.
class ConfirmInTheLog : public ConfirmTest {};
INSTANTIATE_TEST_SUITE_P(File, ConfirmInTheLog, testing::Values("file:"));

TEST_P(ConfirmInTheLog, TheLastVersionIsNotTakenForATornOne) {
  u64 newest = 0;
  {
    WrappedStore store(uri(), options());
    for (u64 value = 1; value <= 3; ++value) newest = change(store, value);
    await_confirmed(store, newest);
    store.crash();
  }
  const std::vector<std::byte> image = read_file(path());
  ASSERT_NO_FATAL_FAILURE(damage_newest_version());
  expect_failure(detail::Runtime::open(uri(), options(false)), Code::kCorrupt,
                 "version " + std::to_string(newest) + " was durable");
  write_file(path(), image);
  WrappedStore store(uri(), options());
  EXPECT_EQ(words_of(store)[7], 3u);
}

TEST_P(ConfirmInTheLog, WithoutItTheOneBeforeCounts) {
  {
    WrappedStore store(uri(), options(false));
    for (u64 value = 1; value <= 3; ++value) change(store, value);
    store.crash();
  }
  ASSERT_NO_FATAL_FAILURE(damage_newest_version());
  WrappedStore store(uri(), options());
  EXPECT_EQ(words_of(store)[7], 2u);
}

// A session that makes no version confirms those that it has found.
TEST_P(ConfirmTest, WhatIsRecoveredIsConfirmed) {
  u64 newest = 0;
  {
    WrappedStore store(uri(), options(false));
    newest = change(store, 1);
    store.crash();
  }
  WrappedStore store(uri(), options());
  await_confirmed(store, newest);
}

// Replays and confirmations take turns at the superblock.
TEST_P(ConfirmTest, EachSessionFindsWhatWasAcknowledged) {
  std::mt19937_64 random(9);
  u64 value = 0;
  Options small = options();
  small.log_limit_bytes = 64 * kKiB;
  for (int session = 0; session < 40; ++session) {
    WrappedStore store(uri(), small);
    if (value != 0) {
      ASSERT_EQ(words_of(store)[3], value) << "session " << session;
    }
    for (u64 i = 0, count = random() % 12; i < count; ++i) change(store, ++value);
    if (random() % 4 == 0) {
      await_confirmed(store, store.durable_version());
      store.close();
    } else {
      store.crash();
    }
  }
}

// The next region of its number begins anew.
TEST_P(ConfirmTest, ARegionThatIsRemovedTakesItsVersionsAlong) {
  Options second = options();
  second.region = "second";
  {
    WrappedStore first(uri(), options());
    change(first, 1);
    WrappedStore store(uri(), second);
    u64 newest = 0;
    for (u64 value = 1; value <= 5; ++value) newest = change(store, value);
    await_confirmed(store, newest);
    store.crash();
    first.close();
  }
  value_or_throw(store::remove_region(uri(), "second", {}));
  {
    WrappedStore store(uri(), second);
    EXPECT_EQ(store.get_root("words"), nullptr);
    change(store, 1);
    store.crash();
  }
  WrappedStore store(uri(), second);
  EXPECT_EQ(words_of(store)[0], 1u);
}

// What fails is a flush that nobody waits for; the next version says so.
TEST_P(ConfirmTest, AFailureIsOfTheNextVersion) {
  media::FaultPlan plan;
  u64 value = 0;
  {
    WrappedStore store(uri(), options(), [&](std::unique_ptr<media::Medium> inner) {
      return plan.wrap(std::move(inner));
    });
    await_confirmed(store, change(store, ++value));
    // On NVM a replay has barriers of its own, which are to be over.
    const bool replays_at_once = store.runtime().volume().medium().geometry().byte_addressable;
    while (replays_at_once && store.statistics().replayed_version < store.durable_version())
      std::this_thread::yield();
    plan.arm({.calls = media::kFaultBarrier, .nth = 2, .kind = media::FaultKind::kShort});
    change(store, ++value);  // whose own barrier is the first
    while (!plan.barrier_failed()) std::this_thread::yield();
    EXPECT_THROW(change(store, value + 1), Error);
    store.crash();
    plan.disarm();
  }
  WrappedStore store(uri(), options());
  EXPECT_GE(words_of(store)[0], value);
}

// A replay is cut short at each of its barriers, and the log of its version rots: what has come
// home of that version is not taken for the version before.
TEST_P(ConfirmTest, AVersionThatComesHomeIsKnownBefore) {
  media::FaultPlan plan;
  int refused = 0;
  for (u64 barrier = 2; barrier <= 8; ++barrier) {
    SCOPED_TRACE("barrier " + std::to_string(barrier));
    std::filesystem::remove(path());
    u64 newest = 0;
    {
      WrappedStore store(uri(), options(false), [&](std::unique_ptr<media::Medium> inner) {
        return plan.wrap(std::move(inner));
      });
      for (u64 value = 1; value <= 2; ++value) newest = change(store, value);
      const bool replays_at_once = store.runtime().volume().medium().geometry().byte_addressable;
      while (replays_at_once && store.statistics().replayed_version < newest)
        std::this_thread::yield();
      plan.arm({.calls = media::kFaultBarrier, .nth = barrier});
      try {
        newest = change(store, 3);
        store.close();
      } catch (const Error&) {
      }
      store.crash();
      plan.disarm();
    }
    if (open_volume(uri())->replayed_version(1) >= newest) continue;
    ASSERT_NO_FATAL_FAILURE(damage_newest_version());
    try {
      WrappedStore store(uri(), options(false));
      const u64* const words = words_of(store);
      for (u64 at = 1; at < 200; ++at) ASSERT_EQ(words[at], words[0]) << at;
      EXPECT_LE(words[0], 2u);
      store.crash();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kCorrupt) << error.what();
      EXPECT_NE(std::string(error.what()).find("at offset"), std::string::npos) << error.what();
      ++refused;
    }
  }
  EXPECT_GE(refused, 1);
}

INSTANTIATE_TEST_SUITE_P(Media, ConfirmTest, testing::Values("file:", "emu:"),
                         [](const auto& info) {
                           const std::string scheme = info.param;
                           return scheme.substr(0, scheme.size() - 1);
                         });

// The superblock has 32 bits for how many there are behind the one that is home.
TEST(ConfirmedVersions, AreAsManyAsItCanSay) {
  const TempDir folder{TempDir::kMemory};
  const std::string uri = "emu:" + folder.path("store.pd");
  constexpr u64 kFar = u64{1} << 40;
  constexpr u64 kMost = std::numeric_limits<u32>::max();
  {
    const auto volume = open_volume(uri);
    value_or_throw(volume->add_region(region_record()));
    value_or_throw(volume->confirm(1, kMost));
    EXPECT_EQ(volume->confirmed_version(1), kMost);
    value_or_throw(volume->confirm(1, kFar));
    EXPECT_EQ(volume->confirmed_version(1), kMost);
    value_or_throw(volume->set_replayed(1, kFar - 5, 1));
    EXPECT_EQ(volume->confirmed_version(1), kFar - 5);
    value_or_throw(volume->confirm(1, kFar));
    value_or_throw(volume->confirm(1, kFar - 3));  // a late one takes nothing back
    value_or_throw(volume->set_replayed(1, kFar - 1, 2));
  }
  const auto volume = open_volume(uri);
  EXPECT_EQ(volume->replayed_version(1), kFar - 1);
  EXPECT_EQ(volume->confirmed_version(1), kFar);
}

// Of a region in chunks both copies of the newest record are damaged.
TEST(ConfirmChunks, TheLastVersionIsNotTakenForATornOne) {
  const TempDir folder{TempDir::kMemory};
  const std::string path = folder.path("store.pd");
  Options options;
  options.region_limit_bytes = 16 * kMiB;
  options.engine = Engine::kRemap;
  options.chunk_bytes = 4096;
  for (const bool confirms : {false, true}) {
    SCOPED_TRACE(confirms);
    std::filesystem::remove(path);
    options.confirm_versions = confirms;
    u64 newest = 0;
    std::vector<u64> records;
    {
      WrappedStore store("file:" + path, options);
      for (u64 i = 0; i < 3; ++i) {
        (void)store.operation().allocate(kPageBytes);
        newest = store.checkpoint();
      }
      while (confirms && store.statistics().confirmed_version < newest) std::this_thread::yield();
      region::Volume& volume = store.runtime().volume();
      const format::RegionRecord record = volume.regions().front();
      for (const format::Extent& extent : volume.extents(format::ExtentKind::kVersions, 1))
        for (u64 copy = 0; copy < 2; ++copy)
          records.push_back(extent.medium_offset +
                            format::version_record_offset(record, newest, copy));
      store.crash();
    }
    std::vector<std::byte> image = read_file(path);
    for (const u64 place : records) image[place + 40] ^= std::byte{1};
    write_file(path, image);
    const auto opened = detail::Runtime::open("file:" + path, options);
    if (confirms) expect_failure(opened, Code::kCorrupt, "was durable");
    else EXPECT_TRUE(opened) << opened.failure().message;
  }
}

}  // namespace
}  // namespace perdura::test
