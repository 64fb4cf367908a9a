// Goal: a store in two copies is, after any end, what its newest version was, whatever attempts
// that failed, readers, damage and earlier crashes have left in the other copy.
// Method: words with a model beside them, changed at random and compared after crashes, after calls
// of the medium that fail one by one, and as a power failure may leave the medium at each of its
// calls, over several sessions; bits of each copy flipped.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <random>
#include <semaphore>
#include <string_view>
#include <thread>

#include "media/fault.hpp"
#include "media/record.hpp"
#include "store/inspect.hpp"
#include "store/recovery.hpp"
#include "store/versions.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/slice.hpp"
#include "support/threads.hpp"
#include "support/wrapped_store.hpp"
#include "track/userfault.hpp"

namespace perdura::test {
namespace {

struct Way {
  const char* name;
  const char* scheme;
  Tracking tracking;
  Capture capture = Capture::kAutomatic;
  Verify verify = Verify::kNever;
  u32 aliases = 0;
};

class DualCopyTest : public testing::TestWithParam<Way> {
 protected:
  static constexpr u64 kWords = 64 * kPageBytes / sizeof(u64);
  using Words = std::vector<u64>;

  void SetUp() override {
    if (GetParam().tracking == Tracking::kSigbus && !track::open_userfault())
      GTEST_SKIP() << "userfaultfd is refused here";
  }
  Options options() const {
    Options options;
    options.engine = Engine::kDualCopy;
    options.region_limit_bytes = 16 * kMiB;
    options.chunk_bytes = 4096;
    options.tracking = GetParam().tracking;
    options.capture = GetParam().capture;
    options.verify = GetParam().verify;
    options.aliases = GetParam().aliases;
    options.verify_bytes_per_second = GetParam().verify == Verify::kNever ? 0 : kGiB;
    return options;
  }
  std::string path() const { return folder_.path("store.pd"); }
  std::string uri() const { return GetParam().scheme + path(); }

  void open(media::Recording* recording = nullptr) {
    store_ =
        std::make_unique<WrappedStore>(uri(), options(), [&](std::unique_ptr<media::Medium> inner) {
          inner = plan_.wrap(std::move(inner));
          return recording == nullptr ? std::move(inner) : recording->wrap(std::move(inner));
        });
    words_ = static_cast<u64*>(store_->get_root("words"));
    if (words_ != nullptr) return;
    const auto op = store_->operation();
    words_ = static_cast<u64*>(op.allocate(kWords * sizeof(u64), kPageBytes));
    op.touch(words_, kWords * sizeof(u64));
    std::fill_n(words_, kWords, 0);
    op.set_root("words", words_);
  }
  void crash() {
    store_->crash();
    store_.reset();
  }
  void set(u64 first, u64 count, u64 value) {
    const auto op = store_->operation();
    op.touch(words_ + first, count * sizeof(u64));
    std::fill_n(words_ + first, count, value);
    std::fill_n(model_.begin() + static_cast<std::ptrdiff_t>(first), count, value);
  }
  void change() {
    for (u64 i = random_() % 6; i != 0; --i) {
      const u64 first = random_() % kWords;
      set(first, std::min<u64>(1 + random_() % (i == 1 ? 1500 : 20), kWords - first), random_());
    }
    set(random_() % kWords, 1, random_());
  }
  bool is(const Words& expected) const {
    return std::memcmp(words_, expected.data(), kWords * sizeof(u64)) == 0;
  }
  void expect(const Words& expected) {
    EXPECT_TRUE(is(expected));
    const HeapAudit audit = store_->audit();
    EXPECT_TRUE(audit.clean) << audit.problem;
  }
  void expect_sound(const std::string& when) const {
    const store::CheckReport report = value_or_throw(store::check(uri(), {}));
    for (const store::Finding& each : report.findings)
      ADD_FAILURE() << when << ": " << each.part << ": " << each.message;
    EXPECT_GT(report.home_pages, kWords * sizeof(u64) / kPageBytes);
  }
  /// As the directory has it.
  std::vector<format::Extent> copies() const {
    auto medium = value_or_throw(media::open_medium(uri(), {.create = false, .read_only = true}));
    const auto volume = value_or_throw(store::open_volume_to_read(std::move(medium.medium)));
    return volume->extents(format::ExtentKind::kCopies);
  }
  /// The part of a copy that holds `offset`.
  format::Extent home(u64 offset, u64 copy) const {
    for (const format::Extent& each : copies())
      if (offset - each.region_offset < each.length) return format::home_in_copy(each, copy);
    throw std::runtime_error("no such place");
  }
  void flip(u64 place) const { flip_bit(path(), place, 2); }

  const TempDir folder_{TempDir::kMemory};
  media::FaultPlan plan_;
  std::mt19937_64 random_{11};
  std::unique_ptr<WrappedStore> store_;
  u64* words_ = nullptr;
  Words model_ = Words(kWords);
};

TEST_P(DualCopyTest, IsItsNewestVersionAfterAnyEnd) {
  open();
  for (u64 round = 0; round < slice_or_whole(24, 200); ++round) {
    for (u64 i = random_() % 4; i != 0; --i) {
      change();
      store_->checkpoint();
    }
    change();
    store_->checkpoint();
    const Words durable = model_;
    const u64 version = store_->durable_version();
    if (random_() % 3 == 0) {
      store_->close();
      store_.reset();
    } else {
      change();  // which no version has
      model_ = durable;
      crash();
    }
    if (round % 8 == 0) expect_sound("round " + std::to_string(round));
    open();
    ASSERT_EQ(store_->durable_version(), version);
    ASSERT_NO_FATAL_FAILURE(expect(durable)) << "round " << round;
    const auto outline = value_or_throw(store::outline(uri(), {}));
    ASSERT_EQ(outline.regions.at(0).copy, version % 2);
  }
}

// Each call in turn fails, at once or late, once or from then on. The next attempt makes the same
// version; or there is none, and the last acknowledged one is there, or the one that failed.
TEST_P(DualCopyTest, AnAttemptThatFailsHarmsNothing) {
  open();
  set(0, kWords, 1);
  store_->checkpoint();
  change();
  store_->checkpoint();
  u64 fired = 0;
  for (const media::FaultKind kind :
       {media::FaultKind::kIo, media::FaultKind::kShort, media::FaultKind::kLate})
    for (u64 nth = 1;; ++nth) {
      const Words before = model_;
      const u64 version = store_->durable_version();
      change();
      plan_.arm({.calls = media::kFaultWrite | media::kFaultSubmit | media::kFaultBarrier,
                 .nth = nth,
                 .kind = kind,
                 .for_ever = random_() % 2 == 0});
      const auto made = store_->runtime().checkpoint();
      const bool reached = plan_.fired() != 0;
      plan_.disarm();
      if (!reached) break;
      ++fired;
      const Words attempted = model_;
      if (random_() % 3 != 0) {
        // Half of the time without what the failed attempt has written.
        if (random_() % 2 == 0) {
          const auto op = store_->operation();
          op.touch(words_, kWords * sizeof(u64));
          std::copy(before.begin(), before.end(), words_);
          model_ = before;
        }
        change();
        const u64 next = store_->checkpoint();
        EXPECT_EQ(next, made ? version + 2 : version + 1);
        crash();
        open();
        ASSERT_NO_FATAL_FAILURE(expect(model_)) << "call " << nth;
      } else {
        crash();
        open();
        ASSERT_LE(store_->durable_version(), version + 1);
        ASSERT_GE(store_->durable_version(), made ? version + 1 : version);
        model_ = store_->durable_version() == version ? before : attempted;
        ASSERT_NO_FATAL_FAILURE(expect(model_)) << "call " << nth;
      }
    }
  EXPECT_GT(fired, 9u);
  crash();
  expect_sound("after all");
}

// What an attempt leaves is brought home by no later version: its words are as they were.
TEST_P(DualCopyTest, WhatWasDiscardedIsInNoVersion) {
  open();
  set(0, kWords, 1);
  store_->checkpoint();
  for (u64 round = 0; round < 20; ++round) {
    const Words before = model_;
    change();
    plan_.arm({.calls = media::kFaultBarrier, .nth = 1 + round % 3});
    const auto made = store_->runtime().checkpoint();
    EXPECT_FALSE(made);
    plan_.disarm();
    {
      const auto op = store_->operation();
      op.touch(words_, kWords * sizeof(u64));
      std::copy(before.begin(), before.end(), words_);
    }
    model_ = before;
    set(round, 1, round);
    store_->checkpoint();
    crash();
    open();
    ASSERT_NO_FATAL_FAILURE(expect(model_)) << round;
  }
}

// In three sessions one behind the other: each ends as a power failure may leave the medium after
// one of its calls, with none, all or some of what no barrier covers.
TEST_P(DualCopyTest, APowerFailureAtEachCallLeavesTheNewestVersion) {
  open();
  set(0, kWords, 7);
  store_->checkpoint();
  store_->close();
  store_.reset();
  const FileBytes made = read_file(path());
  const Words made_model = model_;
  std::map<u64, Words> versions;

  /// A session; how many calls there were when each version was acknowledged.
  const auto session = [&](media::Recording& recording) {
    std::vector<std::pair<u64, u64>> acknowledged;
    open(&recording);
    acknowledged.emplace_back(recording.size(), store_->durable_version());
    versions[store_->durable_version()] = model_;
    for (int i = 0; i < 3; ++i) {
      change();
      versions[store_->durable_version() + 1] = model_;
      acknowledged.emplace_back(0, store_->checkpoint());
      acknowledged.back().first = recording.size();
    }
    crash();
    return acknowledged;
  };
  const auto after = [&](const media::History& history, size_t end) {
    const u64 kept = random_() % 4;
    write_file(path(), history.after_crash(end, [&](size_t, u64) {
      return kept == 1 || (kept > 1 && random_() % 2 != 0);
    }));
  };
  const auto expect_one = [&](const std::vector<std::pair<u64, u64>>& acknowledged, size_t end) {
    u64 least = 0;
    for (const auto& [calls, version] : acknowledged)
      if (calls <= end) least = std::max(least, version);
    open();
    const u64 version = store_->durable_version();
    EXPECT_GE(version, least);
    ASSERT_TRUE(versions.contains(version));
    model_ = versions[version];
    ASSERT_NO_FATAL_FAILURE(expect(model_)) << "version " << version;
    crash();
  };
  u64 states = 0;
  size_t ends = 1;
  for (size_t nth = 0; nth < ends; ++nth) {
    write_file(path(), made);
    model_ = made_model;
    versions.clear();
    for (int i = 0; i < 3; ++i) {
      media::Recording recording;
      const auto acknowledged = session(recording);
      const media::History history = recording.history();
      if (i == 0) ends = history.calls().size();
      const size_t calls = history.calls().size();  // of other changes than the last time
      const size_t end = i == 0 ? std::min(nth, calls) : random_() % (calls + 1);
      after(history, end);
      SCOPED_TRACE("session " + std::to_string(i) + ", call " + std::to_string(end));
      ASSERT_NO_FATAL_FAILURE(expect_one(acknowledged, end));
      ++states;
    }
    if (nth > 60) nth += slice_or_whole(16, 0);
  }
  EXPECT_GT(states, 100u);
}

// Where making the copies level fails some of it is in flight: it reads right, and no barrier need
// cover it. Power fails when the next attempt has made the version.
TEST_P(DualCopyTest, CopiesThatFailedToBecomeLevelAreMadeSoAgain) {
  open();
  set(0, kWords, 1);
  store_->checkpoint();
  for (u64 page = 0; page < 64; page += 3) set(page * kPageBytes / sizeof(u64), 1, 2 + page);
  store_->checkpoint();
  crash();
  const FileBytes made = read_file(path());
  const Words made_model = model_;
  u64 failed = 0;
  for (const auto& [calls, kind] : {std::pair{media::kFaultRead, media::FaultKind::kIo},
                                    {media::kFaultSubmit, media::FaultKind::kShort},
                                    {media::kFaultSubmit, media::FaultKind::kLate},
                                    {media::kFaultDrain, media::FaultKind::kIo}})
    for (u64 nth = 1;; ++nth) {
      write_file(path(), made);
      model_ = made_model;
      media::Recording recording;
      open(&recording);
      change();
      plan_.arm({.calls = calls, .nth = nth, .kind = kind});
      const auto attempt = store_->runtime().checkpoint();
      failed += attempt ? 0 : 1;
      const bool reached = plan_.fired() != 0;
      plan_.disarm();
      change();
      store_->checkpoint();
      crash();
      const auto kept = [&](size_t, u64) { return nth % 2 != 0 && random_() % 2 == 0; };
      write_file(path(), recording.history().after_crash(recording.size(), kept));
      expect_sound("call " + std::to_string(nth));
      open();
      ASSERT_NO_FATAL_FAILURE(expect(model_)) << "call " << nth;
      crash();
      if (HasFailure() || !reached) break;
    }
  EXPECT_GT(failed, 10u);
}

// The superblock may name a version whose checkpoint has failed. Power fails while the next attempt
// at it writes to the same copy.
TEST_P(DualCopyTest, AVersionThatFailedAtLastIsUndoneBeforeItsCopyIsWrittenAgain) {
  for (const unsigned calls : {media::kFaultWrite, media::kFaultBarrier})
    for (const u64 nth : {u64{1}, u64{2}, u64{3}}) {
      media::Recording recording;
      open(&recording);
      set(0, kWords, 1);
      std::vector<std::pair<u64, Words>> known;
      known.emplace_back(store_->checkpoint(), model_);
      const size_t begin = recording.size();
      const u64 version = store_->durable_version() + 1;
      set(10, 2000, 2);
      known.emplace_back(version, model_);
      plan_.arm({.calls = calls, .nth = nth});
      (void)store_->runtime().checkpoint();
      plan_.disarm();
      set(500, 3000, 3);
      known.emplace_back(store_->durable_version() + 1, model_);
      const u64 last = store_->checkpoint();
      const size_t end_of_last = recording.size();
      crash();
      const media::History history = recording.history();
      for (size_t end = begin; end <= history.calls().size(); end += slice_or_whole(4, 1))
        for (const int kept : {0, 1, 2}) {
          write_file(path(), history.after_crash(end, [&](size_t, u64) {
            return kept == 1 || (kept == 2 && random_() % 2 == 0);
          }));
          open();
          const u64 found = store_->durable_version();
          EXPECT_GE(found, end >= end_of_last ? last : version - 1);
          EXPECT_TRUE(
              std::any_of(known.begin(), known.end(),
                          [&](const auto& each) { return each.first == found && is(each.second); }))
              << "after call " << end << ", version " << found;
          crash();
        }
      std::filesystem::remove(path());
      if (HasFailure()) return;
    }
}

// A pinned version stays when the next one is made; the one after that would take its place.
TEST_P(DualCopyTest, AReaderKeepsItsVersionAndTheOneAfterTheNextWaits) {
  if (GetParam().tracking != Tracking::kReported) GTEST_SKIP() << "it waits for seconds";
  if (std::string_view(GetParam().name) == "emu_stopped" && !whole_campaigns()) GTEST_SKIP();
  open();
  set(0, kWords, 1);
  const u64 version = store_->checkpoint();
  auto medium = value_or_throw(media::open_medium(uri(), {.create = false, .read_only = true}));
  value_or_throw(medium.medium->pin(1, version));
  set(0, kWords, 2);
  EXPECT_EQ(store_->checkpoint(), version + 1);
  set(0, kWords, 3);
  expect_failure(store_->runtime().checkpoint(), Code::kLocked, "open to be read");
  EXPECT_EQ(store_->durable_version(), version + 1);
  medium.medium.reset();
  EXPECT_EQ(store_->checkpoint(), version + 2);
  crash();
  open();
  expect(model_);
}

// The timer had looked for room before another thread made a version, and took what that left.
TEST_P(DualCopyTest, TheTimerLooksForRoomWhenNobodyComesBetween) {
  if (GetParam().tracking != Tracking::kReported) GTEST_SKIP() << "one tracker is enough";
  std::atomic<bool> waits{true};
  std::atomic<u64> timed{0};
  std::binary_semaphore comes{0};
  std::binary_semaphore goes{0};
  store_ =
      std::make_unique<WrappedStore>(uri(), options(), detail::InternalOptions{.before_timed = [&] {
                                       if (waits.exchange(false)) {
                                         comes.release();
                                         goes.acquire();
                                       }
                                       ++timed;
                                     }});
  {
    const auto op = store_->operation();
    words_ = static_cast<u64*>(op.allocate(kWords * sizeof(u64), kPageBytes));
    op.set_root("words", words_);
  }
  set(0, kWords, 1);
  const u64 version = store_->checkpoint();
  auto medium = value_or_throw(media::open_medium(uri(), {.create = false, .read_only = true}));
  value_or_throw(medium.medium->pin(1, version));
  store_->runtime().checkpointer().every(std::chrono::milliseconds(1));
  comes.acquire();
  set(0, kWords, 2);
  EXPECT_EQ(store_->checkpoint(), version + 1);
  set(0, kWords, 3);
  goes.release();
  while (timed < 5 && store_->durable_version() == version + 1) std::this_thread::yield();
  store_->runtime().checkpointer().every(std::chrono::milliseconds(0));
  EXPECT_EQ(store_->durable_version(), version + 1) << "in the place of what a reader has";
  medium.medium.reset();
  EXPECT_EQ(store_->checkpoint(), version + 2);
}

// So it is in a later session, also with a version that was discarded when it was pinned already.
TEST_P(DualCopyTest, CopiesAreNotMadeLevelWhileOneIsRead) {
  if (std::string_view(GetParam().name) != "emu_reported") GTEST_SKIP() << "it waits for seconds";
  struct Case {
    bool discarded;
    bool with_another;  // who has the newest version, which keeps nobody from writing the next one
  };
  const Case cases[] = {{true, true}, {false, false}, {true, false}};
  for (const auto& [discarded, with_another] : std::span(cases).first(slice_or_whole(1, 3))) {
    open();
    set(0, kWords, 1);
    const u64 version = store_->checkpoint(), pinned = version + (discarded ? 1 : 0);
    const auto read = [&](u64 pin) {
      auto opened = value_or_throw(media::open_medium(uri(), {.create = false, .read_only = true}));
      value_or_throw(opened.medium->pin(1, pin));
      return std::move(opened.medium);
    };
    auto medium = read(pinned);
    auto another = with_another ? read(version) : nullptr;
    set(0, kWords, 2);
    if (discarded) plan_.arm({.calls = media::kFaultWrite, .nth = 2});
    EXPECT_EQ(static_cast<bool>(store_->runtime().checkpoint()), !discarded);
    plan_.disarm();
    if (discarded) expect_failure(store_->runtime().checkpoint(), Code::kLocked, "");
    const u64 offset = store_->runtime().region().offset_of(words_);
    crash();
    AlignedBuffer before(kWords * sizeof(u64)), after(kWords * sizeof(u64));
    const u64 place = region::HomeMap::page_place(home(offset, pinned % 2), offset);
    value_or_throw(medium->read(place, before.span()));
    open();
    set(0, kWords, 3);
    expect_failure(store_->runtime().checkpoint(), Code::kLocked, "open to be read");
    store_->runtime().engine().retry();
    await_asleep(thread_named("perdura-copies"));
    value_or_throw(medium->read(place, after.span()));
    EXPECT_EQ(std::memcmp(before.data(), after.data(), kWords * sizeof(u64)), 0);
    medium.reset();
    EXPECT_EQ(store_->checkpoint(), discarded ? version + 1 : version + 2);
    crash();
    std::filesystem::remove(path());
  }
}

// `perdura check` finds damage to each page of the copy that counts, and says nothing of the other.
TEST_P(DualCopyTest, DamageToTheNewestCopyIsFound) {
  open();
  for (u64 value = 1; value < 4; ++value) {
    set(0, kWords, value);
    store_->checkpoint();
  }
  const u64 version = store_->durable_version();
  const u64 offset = store_->runtime().region().offset_of(words_);
  store_->close();
  store_.reset();
  const FileBytes whole = read_file(path());
  for (u64 page = 0; page < kWords * sizeof(u64) / kPageBytes; page += slice_or_whole(5, 1)) {
    for (const u64 copy : {u64{0}, u64{1}}) {
      const u64 at = offset + page * kPageBytes;
      const format::Extent part = home(at, copy);
      for (const u64 place : {region::HomeMap::page_place(part, at) + 8 * page,
                              region::HomeMap::checksum_place(part, at) + 3}) {
        flip(place);
        const store::CheckReport report = value_or_throw(store::check(uri(), {}));
        EXPECT_EQ(report.damaged(), copy == version % 2) << page;
        if (copy == version % 2) {
          ASSERT_EQ(report.findings.size(), 1u);
          EXPECT_EQ(report.findings[0].part, "home");
          EXPECT_EQ(report.findings[0].region_offset, at);
        } else {
          open();  // and a version made here has none of it
          set(0, 1, 9);
          store_->checkpoint();
          store_->close();
          store_.reset();
          expect_sound("a version over a damaged older copy");
        }
        write_file(path(), whole);
      }
    }
  }
}

// A damaged page in which a version has changes stays damaged, in this version and all later ones.
TEST_P(DualCopyTest, DamageStaysDamage) {
  if (GetParam().verify == Verify::kBeforeUse) GTEST_SKIP() << "it is not shown";
  if (GetParam().aliases != 0) GTEST_SKIP() << "what was loaded is in memory";
  for (const bool all : {false, true})
    for (const u64 versions : {u64{1}, u64{2}, u64{3}}) {
      open();
      set(0, kWords, 1);
      store_->checkpoint();
      const u64 offset = store_->runtime().region().offset_of(words_) + 3 * kPageBytes;
      store_->close();
      const u64 version = store_->durable_version();
      store_.reset();
      flip(region::HomeMap::page_place(home(offset, version % 2), offset) + 4000);
      open();
      const u64 first = 3 * kPageBytes / sizeof(u64);
      for (u64 i = 0; i < versions; ++i) {
        set(first, all ? kPageBytes / sizeof(u64) : 1, 100 + i);
        store_->checkpoint();
      }
      crash();
      const store::CheckReport report = value_or_throw(store::check(uri(), {}));
      ASSERT_EQ(report.findings.size(), 1u) << all << versions;
      EXPECT_EQ(report.findings[0].region_offset, offset);
      open();
      EXPECT_EQ(words_[first], 100 + versions - 1);
      crash();
      std::filesystem::remove(path());
    }
}

TEST_P(DualCopyTest, GrowsAndIsRemoved) {
  open();
  std::vector<u64*> blocks;
  for (u64 i = 0; i < 20; ++i) {
    change();
    {
      const auto op = store_->operation();
      blocks.push_back(static_cast<u64*>(op.allocate(300'000)));
      op.touch(blocks.back(), 300'000);
      std::fill_n(blocks.back(), 300'000 / sizeof(u64), i);
      op.set_root(("block" + std::to_string(i)).c_str(), blocks.back());
    }
    store_->checkpoint();
    if (i % 5 != 4) continue;
    crash();
    open();
    ASSERT_NO_FATAL_FAILURE(expect(model_));
    for (u64 k = 0; k <= i; ++k) {
      const auto* const block =
          static_cast<u64*>(store_->get_root(("block" + std::to_string(k)).c_str()));
      ASSERT_EQ(std::count(block, block + 300'000 / sizeof(u64), k), 300'000 / 8) << k;
    }
  }
  crash();
  expect_sound("grown");
  value_or_throw(store::remove_region(uri(), "main", {}));
  EXPECT_TRUE(copies().empty());
  model_.assign(kWords, 0);
  open();  // where the old bytes were
  store_->checkpoint();
  change();
  store_->checkpoint();
  crash();
  open();
  expect(model_);
}

// Where the medium has no more room the version before stays, and the next attempt makes it up.
TEST_P(DualCopyTest, AFullMediumRefusesSpaceAndKeepsVersions) {
  open();
  change();
  store_->checkpoint();
  plan_.arm({.calls = media::kFaultGrow, .kind = media::FaultKind::kNoSpace, .for_ever = true});
  {
    detail::Runtime& runtime = store_->runtime();
    const auto op = store_->operation();
    const auto block = runtime.heap().allocate(runtime.mutators().this_thread(), 4 * kMiB, 16);
    expect_failure(block, Code::kNoSpace, "");
  }
  change();
  store_->checkpoint();
  plan_.disarm();
  crash();
  open();
  expect(model_);
}

TEST_P(DualCopyTest, RefusesWhatItHasNot) {
  open();
  store_->checkpoint();
  expect_error([&] { store_->atomically([](Transaction&) {}); }, Code::kUnsupported,
               "Engine::kRedoLog");
  crash();
  Options older = options();
  older.version = 1;
  expect_error([&] { Store::open(uri(), older); }, Code::kUnsupported, "Engine::kRemap");
  expect_failure(store::roll_back(uri(), "main", 1, {}), Code::kUnsupported, "two copies");
  const auto outline = value_or_throw(store::outline(uri(), {}));
  EXPECT_EQ(outline.superblock.incompatible_features & format::kFeatureCopies,
            format::kFeatureCopies);
}

INSTANTIATE_TEST_SUITE_P(
    Ways, DualCopyTest,
    testing::Values(Way{"emu_reported", "emu:", Tracking::kReported, Capture::kBackground},
                    Way{"emu_stopped", "emu:", Tracking::kReported, Capture::kStopped},
                    Way{"emu_bitmap", "emu:", Tracking::kBitmap},
                    Way{"emu_pages", "emu:", Tracking::kAutomatic},
                    Way{"emu_protect_verified", "emu:", Tracking::kProtect, Capture::kBackground,
                        Verify::kBeforeUse},
                    Way{"emu_aliases", "emu:", Tracking::kAutomatic, Capture::kAutomatic,
                        Verify::kBackground, 4},
                    Way{"file_reported", "file:", Tracking::kReported},
                    Way{"file_pages", "file:", Tracking::kAutomatic, Capture::kAutomatic,
                        Verify::kBackground},
                    Way{"file_sigbus_verified", "file:", Tracking::kSigbus, Capture::kAutomatic,
                        Verify::kBeforeUse}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace perdura::test
