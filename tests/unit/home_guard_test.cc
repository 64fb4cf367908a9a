// Goal: a page of the home image that is damaged stays so, for `perdura check` and for whoever
// opens the store, whatever a program does to it that does not know: it is never given a checksum
// that fits, nor taken for one that a crash left half replayed. And what the program stores there
// is durable all the same.
// Method: a bit of a closed store's file is flipped; a program with each tracker, on each medium,
// stores to the page or beside it, and ends in order or as by a crash, also between the verdict and
// the version; then the store is checked, and opened to be read. Media that count what is written.
#include "commit/home_guard.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "media/decorator.hpp"
#include "media/fault.hpp"
#include "media/record.hpp"
#include "store/inspect.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/slice.hpp"
#include "support/wrapped_store.hpp"
#include "track/userfault.hpp"

namespace perdura::test {
namespace {

using region::HomeMap;

struct Way {
  const char* name;
  const char* scheme;
  Tracking tracking;
  Verify verify = Verify::kBackground;
  u32 granule_bytes = 64;
  Engine engine = Engine::kRedoLog;
};

class HomeGuardTest : public testing::TestWithParam<Way> {
 protected:
  static constexpr u64 kWords = kMiB / sizeof(u64);
  static constexpr u64 kPageWords = kPageBytes / sizeof(u64);
  static constexpr u64 kPage = 100;  ///< of the words: the damaged one

  void SetUp() override {
    if (GetParam().tracking == Tracking::kSigbus && !track::open_userfault())
      GTEST_SKIP() << "userfaultfd is refused here";
  }

  Options options() const {
    Options options;
    options.region_limit_bytes = 64 * kMiB;
    options.log_segment_bytes = 64 * kKiB;
    options.log_limit_bytes = 256 * kKiB;
    options.tracking = GetParam().tracking;
    options.engine = GetParam().engine;
    options.granule_bytes = GetParam().granule_bytes;
    options.verify = GetParam().verify;
    options.verify_bytes_per_second = 0;
    return options;
  }
  std::string path() const { return folder_.path("store.pd"); }
  std::string uri() const { return GetParam().scheme + path(); }

  /// A closed store with words in rising order, and a bit of page kPage of them flipped.
  void make_damaged() {
    {
      WrappedStore store(uri(), options());
      {
        const auto op = store.operation();
        auto* const words = static_cast<u64*>(op.allocate(kWords * sizeof(u64), kPageBytes));
        op.touch(words, kWords * sizeof(u64));
        std::iota(words, words + kWords, u64{1});
        op.set_root("words", words);
        damaged_ = store.runtime().region().offset_of(words) + kPage * kPageBytes;
      }
      store.close();
    }
    home_ =
        std::make_shared<HomeMap>(value_or_throw(store::outline(uri(), {})).regions.at(0).extents);
    flip_back();
  }
  /// A bit in the last word of the page, or makes it right again.
  void flip_back() const {
    flip_bit(path(), HomeMap::page_place(*home_->find(damaged_), damaged_) + kPageBytes - 8, 3);
  }
  static u64* words_of(WrappedStore& store) { return static_cast<u64*>(store.get_root("words")); }
  static void set(WrappedStore& store, u64 word, u64 value) {
    const auto op = store.operation();
    u64* const at = words_of(store) + word;
    op.touch(at, sizeof *at);
    *at = value;
  }
  /// And close the store, which says that the page is damaged.
  void store_to_whole_page(WrappedStore& store) const {
    {
      const auto op = store.operation();
      u64* const page = words_of(store) + kPage * kPageWords;
      op.touch(page, kPageBytes);
      page[0] = 9;
    }
    store.checkpoint();
    expect_failure(store.runtime().close(), Code::kCorrupt, "home page at " + named());
  }
  std::string named() const { return "region offset " + std::to_string(damaged_) + " "; }

  /// What `perdura check` finds is this page and nothing else, and it does not wait for a replay.
  void expect_damaged() const {
    EXPECT_EQ(value_or_throw(store::check(uri(), {})).pending_pages, 0u);
    expect_damaged_beside_a_replay();
  }
  void expect_damaged_beside_a_replay() const {
    auto report = value_or_throw(store::check(uri(), {}));
    // A version that failed leaves blocks in the log.
    std::erase_if(report.findings, [](const store::Finding& each) {
      return each.severity == store::Finding::Severity::kNote;
    });
    ASSERT_EQ(report.findings.size(), 1u);
    EXPECT_NE(report.findings[0].message.find("page at " + named()), std::string::npos)
        << report.findings[0].message;
  }
  /// Nobody who wants it verified is shown the page, and everybody all others.
  void expect_refused() const {
    Options before_use = options();
    before_use.verify = Verify::kBeforeUse;
    before_use.lazy_recovery = false;
    expect_failure(detail::Runtime::open(uri(), before_use), Code::kCorrupt,
                   "home page at " + named());
  }
  /// Without verification all that was stored is there.
  void expect_word(u64 word, u64 value) const {
    WrappedStore store(uri(), options());
    EXPECT_EQ(words_of(store)[word], value);
    EXPECT_EQ(words_of(store)[kWords - 1], kWords);
    store.crash();
  }

  const TempDir folder_{TempDir::kMemory};
  u64 damaged_ = 0;  ///< region offset
  std::shared_ptr<const HomeMap> home_;
};

TEST_P(HomeGuardTest, AStoreElsewhereInThePageHealsNothing) {
  make_damaged();
  {
    WrappedStore store(uri(), options());
    set(store, kPage * kPageWords + 9, 77);
    store.checkpoint();
    EXPECT_EQ(store.statistics().damaged_pages, 1u);
    ASSERT_EQ(store.runtime().damaged_pages().size(), 1u);
    EXPECT_NE(store.runtime().damaged_pages()[0].find(named()), std::string::npos);
    expect_failure(store.runtime().close(), Code::kCorrupt, "home page at " + named());
  }
  expect_damaged();
  expect_word(kPage * kPageWords + 9, 77);
  expect_damaged();
  expect_refused();
}

// With a page tracker the chunk that is opened has the damaged page in it. Where it has none of it
// the page is damaged as before.
TEST_P(HomeGuardTest, AStoreBesideThePageHealsNothing) {
  make_damaged();
  {
    WrappedStore store(uri(), options());
    set(store, (kPage + 1) * kPageWords, 78);
    store.checkpoint();
    const Status closed = store.runtime().close();
    EXPECT_TRUE(closed || closed.failure().code == Code::kCorrupt);
  }
  expect_damaged();
  expect_word((kPage + 1) * kPageWords, 78);
  expect_refused();
}

// The log has lines of the page, which a crash might have left half replayed.
TEST_P(HomeGuardTest, ACrashHealsNothing) {
  make_damaged();
  for (u64 session = 0; session < 3; ++session) {
    {
      WrappedStore store(uri(), options());
      set(store, kPage * kPageWords + session, 77);
      store.checkpoint();
      store.crash();
    }
    ASSERT_NO_FATAL_FAILURE(expect_damaged()) << session;
    expect_refused();
    expect_word(kPage * kPageWords + session, 77);
  }
  // What is brought home in order stays condemned as well, whoever does it.
  {
    WrappedStore store(uri(), options());
    set(store, 1, 5);
    store.checkpoint();
    (void)store.runtime().close();
  }
  expect_damaged();
  expect_refused();
}

// Stored to as a whole it may still hold what was damaged.
TEST_P(HomeGuardTest, TheWholePageInAVersionHealsNothing) {
  make_damaged();
  {
    WrappedStore store(uri(), options());
    store_to_whole_page(store);
  }
  expect_damaged();
  expect_word(kPage * kPageWords, 9);
  expect_refused();
}

// It rots while the store is open, when it was verified already.
TEST_P(HomeGuardTest, WhatWasWholeWhenItWasVerifiedIsVerifiedForItsVersion) {
  make_damaged();
  flip_back();
  {
    Options chosen = options();
    chosen.verify_bytes_per_second = kGiB;
    WrappedStore store(uri(), chosen);
    const auto verified = [&] { return store.statistics().verified_bytes; };
    EXPECT_EQ(words_of(store)[kPage * kPageWords + 1], kPage * kPageWords + 2);
    if (GetParam().verify == Verify::kBackground)
      while (verified() < kWords * sizeof(u64)) std::this_thread::yield();
    flip_back();
    store_to_whole_page(store);
  }
  expect_damaged();
  expect_word(kPage * kPageWords, 9);
  expect_refused();
}

TEST_P(HomeGuardTest, AnAsynchronousVersionHealsNothing) {
  make_damaged();
  {
    WrappedStore store(uri(), options());
    set(store, kPage * kPageWords, 79);
    store.wait(store.checkpoint_async());
    store.crash();
  }
  expect_damaged();
  expect_word(kPage * kPageWords, 79);
}

TEST_P(HomeGuardTest, ATransactionHealsNothing) {
  if (GetParam().engine == Engine::kDualCopy) GTEST_SKIP() << "there are none";
  make_damaged();
  {
    WrappedStore store(uri(), options());
    u64* const word = words_of(store) + kPage * kPageWords;
    store.atomically([&](Transaction& tx) { tx.write(*word, u64{80}); });
    store.crash();  // it is repeated by who opens the store
  }
  {
    WrappedStore store(uri(), options());
    EXPECT_EQ(words_of(store)[kPage * kPageWords], 80u);
    (void)store.runtime().close();
  }
  expect_damaged();
  expect_word(kPage * kPageWords, 80);
}

// A verdict that cannot be made durable is one without which there must be no version.
class FailingVerdicts final : public media::Decorator {
 public:
  using Decorator::Decorator;
  Status write(u64 offset, media::Bytes data, const media::Site& site) override {
    if (std::strcmp(site.what, "condemned pages") == 0)
      return Failure{Code::kIo, "no verdicts today"};
    return inner().write(offset, data, site);
  }
};

TEST_P(HomeGuardTest, WithoutTheVerdictThereIsNoVersion) {
  if (GetParam().engine == Engine::kDualCopy) GTEST_SKIP() << "it is written with the version";
  make_damaged();
  {
    WrappedStore store(uri(), options(), [](std::unique_ptr<media::Medium> inner) {
      return std::make_unique<FailingVerdicts>(std::move(inner));
    });
    set(store, kPage * kPageWords, 81);
    const u64 before = store.durable_version();
    expect_failure(store.runtime().checkpoint(), Code::kIo, "no verdicts today");
    EXPECT_EQ(store.durable_version(), before);
    store.crash();
  }
  expect_damaged();
  expect_word(kPage * kPageWords, kPage * kPageWords + 1);
}

// Whichever call of the medium fails, from the checkpoint to the end.
TEST_P(HomeGuardTest, ACallThatFailsHealsNothing) {
  make_damaged();
  const std::vector<std::byte> image = read_file(path());
  u64 nth = 1;
  for (bool fired = true; fired; ++nth) {
    write_file(path(), image);
    media::FaultPlan faults;
    {
      WrappedStore store(uri(), options(), [&](std::unique_ptr<media::Medium> inner) {
        return faults.wrap(std::move(inner));
      });
      set(store, kPage * kPageWords, 81);
      set(store, (kPage + 1) * kPageWords, 82);
      faults.arm({.nth = nth});
      const Result<u64> made = store.runtime().checkpoint();
      (void)store.runtime().close();
      fired = faults.fired() != 0;
      EXPECT_TRUE(made || fired) << made.failure().message;
    }
    SCOPED_TRACE("call " + std::to_string(nth));
    ASSERT_NO_FATAL_FAILURE(expect_damaged_beside_a_replay());
    {
      WrappedStore store(uri(), options());
      (void)store.runtime().close();
    }
    ASSERT_NO_FATAL_FAILURE(expect_damaged());
  }
  EXPECT_GT(nth, 8u);
}

/// The order of barriers: of the verdicts, and of versions.
class Order final : public media::Decorator {
 public:
  Order(std::unique_ptr<media::Medium> inner, std::vector<std::string>& barriers)
      : Decorator(std::move(inner)), barriers_(barriers) {}
  Status barrier(const media::Site& site) override {
    barriers_.emplace_back(site.what);
    return inner().barrier(site);
  }

 private:
  std::vector<std::string>& barriers_;
};

TEST_P(HomeGuardTest, TheVerdictIsDurableBeforeTheVersionAndOnlyOnce) {
  if (GetParam().engine == Engine::kDualCopy) GTEST_SKIP() << "it is durable with the version";
  make_damaged();
  std::vector<std::string> barriers;
  WrappedStore store(uri(), options(), [&](std::unique_ptr<media::Medium> inner) {
    return std::make_unique<Order>(std::move(inner), barriers);
  });
  value_or_throw(store.runtime().engine().bring_home());
  barriers.clear();
  store.runtime().engine().keep_from(store.durable_version());  // no replay beside it
  set(store, kPage * kPageWords, 82);
  store.checkpoint();
  set(store, kPage * kPageWords, 83);
  store.checkpoint();
  EXPECT_EQ(barriers, (std::vector<std::string>{"condemned pages", "commit", "commit"}));
  store.crash();
}

// Whatever reached the medium of what was under way, and however often recovery begins anew.
TEST_P(HomeGuardTest, APowerFailureHealsNothing) {
  make_damaged();
  media::Recording recording;
  {
    WrappedStore store(uri(), options(), [&](std::unique_ptr<media::Medium> inner) {
      return recording.wrap(std::move(inner));
    });
    set(store, kPage * kPageWords + 9, 77);
    store.checkpoint();
    set(store, kPage * kPageWords + 100, 78);
    set(store, (kPage + 1) * kPageWords, 79);
    store.checkpoint();
    (void)store.runtime().close();
  }
  const media::History history = recording.history();
  std::mt19937_64 random(3);
  u64 states = 0;
  for (const size_t end : history.crash_points())
    for (u64 kept = 0; kept < slice_or_whole(3, 20); ++kept) {
      write_file(path(), history.after_crash(end, [&](size_t, u64) {
        return kept == 1 || (kept > 1 && random() % 2 != 0);
      }));
      SCOPED_TRACE("after call " + std::to_string(end) + ", kept " + std::to_string(kept));
      ASSERT_NO_FATAL_FAILURE(expect_damaged_beside_a_replay());
      {
        WrappedStore store(uri(), options());
        (void)store.runtime().close();
      }
      ASSERT_NO_FATAL_FAILURE(expect_damaged());
      ++states;
    }
  EXPECT_GT(states, 20u);
}

// A region that moves stores to the heap's header: in a word that nobody looks at a bit is wrong.
TEST_P(HomeGuardTest, AMoveHealsNothing) {
  u64 place = 0;
  {
    WrappedStore store(uri(), options());
    store.close();
  }
  place = HomeMap(value_or_throw(store::outline(uri(), {})).regions.at(0).extents)
              .find(0)
              ->medium_offset;
  flip_bit(path(), place + 100, 3);
  Options elsewhere = options();
  elsewhere.region_address = 0x552200000000;
  {
    WrappedStore store(uri(), elsewhere);
    store.checkpoint();
    expect_failure(store.runtime().close(), Code::kCorrupt, "home page at region offset 0 of");
  }
  expect_damaged();
  expect_refused();
}

// The page was whole when the version was made.
TEST_P(HomeGuardTest, WhatReplayFindsIsNotHealedLater) {
  if (std::string(GetParam().scheme) == "emu:") GTEST_SKIP() << "each version is home at once";
  if (GetParam().tracking != Tracking::kReported || GetParam().granule_bytes != kLineBytes)
    GTEST_SKIP() << "the page would be replaced as a whole, and mended so";
  make_damaged();
  flip_back();
  {
    WrappedStore store(uri(), options());
    set(store, kPage * kPageWords + 9, 77);
    store.checkpoint();
    EXPECT_EQ(store.statistics().damaged_pages, 0u);
    flip_back();
    expect_failure(store.runtime().close(), Code::kCorrupt, "home page at " + named());
    EXPECT_EQ(store.statistics().damaged_pages, 1u);
  }
  expect_damaged();
  expect_refused();
  expect_word(kPage * kPageWords + 9, 77);
}

// A version of one object, and one of a region beside another one in the file.
TEST(HomeGuardOfObjects, ARootAloneHealsNothing) {
  const TempDir folder{TempDir::kMemory};
  const std::string uri = "file:" + folder.path("store.pd");
  Options options;
  options.region_limit_bytes = 16 * kMiB;
  options.aliases = 2;
  options.region = "objects";
  options.verify_bytes_per_second = 0;
  Options beside;
  beside.region_limit_bytes = 16 * kMiB;
  beside.region = "beside";
  std::shared_ptr<const HomeMap> home;
  u64 offset = 0;
  {
    WrappedStore other(uri, beside);
    WrappedStore store(uri, options);
    {
      const auto op = store.operation();
      auto* const object = static_cast<u64*>(op.allocate(512, 64));
      object[0] = 1;
      op.set_root("object", object);
      offset = store.runtime().region().offset_of(object);
    }
    store.close();
    home = store.runtime().region().home();
    other.close();
  }
  const u64 page = round_down(offset, kPageBytes);
  // Of the same page, and not of the object.
  const u64 elsewhere = offset % kPageBytes < kPageBytes / 2 ? kPageBytes - 100 : 100;
  flip_bit(folder.path("store.pd"), HomeMap::page_place(*home->find(page), page) + elsewhere, 1);
  {
    WrappedStore other(uri, beside);
    WrappedStore store(uri, options);
    static_cast<u64*>(store.get_root("object"))[0] = 2;
    value_or_throw(store.runtime().checkpoint_root("object"));
    other.checkpoint();
    store.crash();
    other.close();
  }
  auto report = value_or_throw(store::check(uri, {}));
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].region, "objects");
  EXPECT_EQ(report.findings[0].region_offset, page);
  WrappedStore store(uri, options);
  EXPECT_EQ(static_cast<u64*>(store.get_root("object"))[0], 2u);
  store.crash();
}

INSTANTIATE_TEST_SUITE_P(
    Ways, HomeGuardTest,
    testing::Values(
        Way{"file_reported", "file:", Tracking::kReported},
        Way{"emu_reported", "emu:", Tracking::kReported},
        Way{"file_granules", "file:", Tracking::kReported, Verify::kBackground, 4096},
        Way{"file_never", "file:", Tracking::kReported, Verify::kNever},
        Way{"emu_bitmap", "emu:", Tracking::kBitmap, Verify::kNever},
        Way{"file_userfault", "file:", Tracking::kUserfault},
        Way{"file_sigbus", "file:", Tracking::kSigbus, Verify::kNever},
        Way{"emu_sigbus", "emu:", Tracking::kSigbus},
        Way{"file_protect", "file:", Tracking::kProtect},
        Way{"emu_protect", "emu:", Tracking::kProtect},
        Way{"emu_copies", "emu:", Tracking::kReported, Verify::kBackground, 64, Engine::kDualCopy},
        Way{"file_copies", "file:", Tracking::kUserfault, Verify::kNever, 64, Engine::kDualCopy}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace perdura::test
