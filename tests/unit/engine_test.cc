// Goal: a version that an engine has prepared counts when it is published, and one that is
// discarded does no harm to what comes after it; what a version consists of stays on the medium for
// as long as it is to be kept. Method: an engine of each kind under a store, called by the test
// where the checkpointer would call it; crashes; the chunks of an old version read from the medium.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <optional>

#include "commit/version_map.hpp"
#include "store/inspect.hpp"
#include "support/files.hpp"
#include "support/process.hpp"
#include "support/wrapped_store.hpp"

namespace perdura::test {
namespace {

struct Kind {
  const char* name;
  const char* scheme;
  Engine engine;
};

class EngineTest : public testing::TestWithParam<Kind> {
 protected:
  static constexpr u64 kWords = 16 * 1024;

  EngineTest() {
    open();
    {
      const auto op = store_->operation();
      op.set_root("words", op.allocate(kWords * sizeof(u64), kPageBytes));
    }
    set(1);
    store_->checkpoint();
  }
  std::string uri() const { return GetParam().scheme + folder_.path("store.pd"); }
  void open() {
    Options options;
    options.region_limit_bytes = 16 * kMiB;
    options.engine = GetParam().engine;
    options.tracking = Tracking::kReported;
    options.capture = Capture::kStopped;
    options.log_segment_bytes = 32 * kKiB;
    options.log_limit_bytes = 256 * kKiB;
    options.chunk_bytes = kPageBytes;
    options.versions_kept = 2;
    options.lazy_recovery = false;
    store_.emplace(uri(), options);
  }
  void reopen() {
    store_->crash();
    store_.reset();
    open();
  }
  u64* words() { return static_cast<u64*>(store_->get_root("words")); }
  void set(u64 value) {
    const auto op = store_->operation();
    op.touch(words(), kWords * sizeof(u64));
    std::fill_n(words(), kWords, value);
  }
  void expect(u64 value) {
    EXPECT_EQ(std::count(words(), words() + kWords, value), static_cast<std::ptrdiff_t>(kWords))
        << "not " << value << " but " << words()[0];
    const HeapAudit audit = store_->audit();
    EXPECT_TRUE(audit.clean) << audit.problem;
  }
  commit::Engine& engine() { return store_->runtime().engine(); }
  /// What the checkpointer would do with the words, up to here; they become `value`.
  u64 prepare(u64 value) {
    const u64 version = store_->durable_version() + 1;
    auto changes = value_or_throw(track::DirtyMap::create(store_->runtime().region().limit()));
    changes.add(static_cast<u64>(reinterpret_cast<std::byte*>(words()) -
                                 store_->runtime().region().base()) /
                    kLineBytes,
                kWords * sizeof(u64) / kLineBytes);
    std::fill_n(words(), kWords, value);
    store_->runtime().mutators().stop();
    engine().begin(version);
    Status captured = engine().capture_stopped(changes);
    store_->runtime().mutators().resume();
    value_or_throw(std::move(captured));
    value_or_throw(engine().prepare());
    return version;
  }
  u64 replayed() { return store_->runtime().statistics().replayed_version; }

  const TempDir folder_{TempDir::kMemory};
  std::optional<WrappedStore> store_;
};

TEST_P(EngineTest, WhatIsPreparedIsDurable) {
  const u64 version = prepare(2);
  reopen();
  EXPECT_EQ(store_->durable_version(), version);
  expect(2);
}

// The next version has its number, and is the one that counts.
TEST_P(EngineTest, AnotherOneComesInPlaceOfWhatIsDiscarded) {
  const u64 version = prepare(2);
  engine().discard();
  set(3);
  EXPECT_EQ(store_->checkpoint(), version);
  reopen();
  EXPECT_EQ(store_->durable_version(), version);
  expect(3);
}

TEST_P(EngineTest, TheOneBeforeIsWholeWhileOneIsPrepared) {
  for (u64 value = 2; value < 40; ++value) {
    prepare(100 + value);
    engine().discard();
    set(value);
    store_->checkpoint();
  }
  reopen();
  expect(39);
}

// The log of one that may not come home grows beyond its limit, and nobody waits for it.
TEST_P(EngineTest, KeepsWhatAVersionConsistsOf) {
  if (GetParam().engine == Engine::kDualCopy) GTEST_SKIP() << "there is no place for so many";
  const bool has_log = GetParam().engine == Engine::kRedoLog;
  const u64 kept = store_->durable_version();
  engine().keep_from(kept);
  std::vector<format::ChunkEntry> chunks;
  region::Volume& volume = store_->runtime().volume();
  const format::RegionRecord record = volume.regions().front();
  std::optional<region::ChunkSpace> space;
  const auto expect_chunks = [&] {
    commit::MapReader reader(volume, *space);
    AlignedBuffer buffer(kPageBytes);
    for (u64 index = 0; index < chunks.size(); ++index)
      if (chunks[index].place != 0) {
        ASSERT_TRUE(reader.read_chunk(index, chunks[index], buffer.first(kPageBytes))) << index;
      }
  };
  if (!has_log) {
    space.emplace(volume, record, 0, true);
    const auto found = value_or_throw(commit::read_versions(volume, record));
    const auto of_kept = value_or_throw(commit::find_version(volume, found, kept));
    chunks = value_or_throw(commit::MapReader(volume, *space).read(of_kept)).level(0);
  }
  for (u64 value = 2; value < 30; ++value) {
    set(value);
    store_->checkpoint();
    if (has_log) {
      ASSERT_LE(replayed(), kept);
    }
  }
  if (has_log) {
    EXPECT_GT(store_->runtime().statistics().log_live_bytes, 2 * 256 * kKiB);
  } else {
    ASSERT_NO_FATAL_FAILURE(expect_chunks());
  }
  // It is kept for as long as the store is open.
  reopen();
  expect(29);
  engine().keep_from(store_->durable_version());
  for (u64 value = 30; value < 40; ++value) {
    set(value);
    store_->checkpoint();
  }
  engine().keep_from(commit::Engine::kNoVersion);
  set(40);
  const u64 newest = store_->checkpoint();
  store_->close();
  store_.reset();
  const auto outline = value_or_throw(store::outline(uri(), {}));
  EXPECT_EQ(outline.regions[0].replayed_version, newest);
  open();
  expect(40);
}

// The version after the next one would take the place of the one that is kept.
TEST_P(EngineTest, TwoCopiesAreFullWhileAVersionIsKept) {
  if (GetParam().engine != Engine::kDualCopy) GTEST_SKIP() << "it has space for more";
  const u64 kept = store_->durable_version();
  engine().keep_from(kept);
  EXPECT_TRUE(engine().has_room());
  set(2);
  EXPECT_EQ(store_->checkpoint(), kept + 1);
  EXPECT_FALSE(engine().has_room());
  engine().keep_from(kept + 1);
  set(3);
  EXPECT_EQ(store_->checkpoint(), kept + 2);
  engine().keep_from(commit::Engine::kNoVersion);
  set(4);
  EXPECT_EQ(store_->checkpoint(), kept + 3);
  reopen();
  expect(4);
}

// Out of turn they would make a version of what is not there.
TEST_P(EngineTest, CallsOutOfTurnEndTheProgram) {
  const auto ends = [&](const std::function<void()>& call) {
    Child child([&]() -> std::string {
      if (std::freopen("/dev/null", "w", stderr) == nullptr) return "no stderr";
      call();
      return "went on";
    });
    return child.wait().find("died of signal") != std::string::npos;
  };
  EXPECT_TRUE(ends([&] { engine().publish(); }));
  EXPECT_TRUE(ends([&] { (void)engine().prepare(); }));
  EXPECT_TRUE(ends([&] {
    engine().begin(store_->durable_version() + 1);
    engine().publish();
  }));
}

// An orderly end brings home what may come home, and leaves the rest in the log.
TEST_P(EngineTest, AnEndKeepsItAsWell) {
  if (GetParam().engine == Engine::kDualCopy) GTEST_SKIP() << "there is no place for two more";
  engine().keep_from(store_->durable_version());
  set(2);
  store_->checkpoint();
  set(3);
  store_->close();
  store_.reset();
  open();
  expect(3);
}

INSTANTIATE_TEST_SUITE_P(Kinds, EngineTest,
                         testing::Values(Kind{"emu_log", "emu:", Engine::kRedoLog},
                                         Kind{"file_log", "file:", Engine::kRedoLog},
                                         Kind{"emu_chunks", "emu:", Engine::kRemap},
                                         Kind{"file_chunks", "file:", Engine::kRemap},
                                         Kind{"emu_copies", "emu:", Engine::kDualCopy},
                                         Kind{"file_copies", "file:", Engine::kDualCopy}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace perdura::test
