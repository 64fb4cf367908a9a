// Goal: a store in chunks keeps its last versions exactly, whatever changed in them and whichever
// tracker found it; a version that fails leaves the ones before it whole; the program may store
// while a version is captured; damage anywhere is an error that names the place, never wrong data.
// Method: a model of the region beside it, compared after crashes, at each kept version, and after
// bytes of the medium were changed; media that fail at chosen calls.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "commit/version_map.hpp"
#include "media/fault.hpp"
#include "media/record.hpp"
#include "store/inspect.hpp"
#include "store/recovery.hpp"
#include "store/versions.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/lazy_medium.hpp"
#include "support/memcached_server.hpp"
#include "support/slice.hpp"
#include "support/wrapped_store.hpp"

namespace perdura::test {
namespace {

using namespace std::chrono_literals;

struct Config {
  const char* name;
  const char* scheme;
  Tracking tracking;
  u32 chunk_bytes;
  bool lazy = true;
  bool whole_chunks = false;
};

class RemapTest : public testing::TestWithParam<Config> {
 protected:
  /// 8 MiB; sanitizers have to back several times as much.
  static constexpr u64 kWords = kSanitized ? 256 * 1024 : 1024 * 1024;
  static constexpr u32 kKept = 3;

  Options options() const {
    Options options;
    options.region_limit_bytes = 64 * kMiB;
    options.engine = Engine::kRemap;
    options.tracking = GetParam().tracking;
    options.chunk_bytes = GetParam().chunk_bytes;
    options.versions_kept = kKept;
    options.lazy_recovery = GetParam().lazy;
    options.whole_chunks = GetParam().whole_chunks;
    return options;
  }
  std::string uri() const {
    return server_ ? server_->uri("store") : GetParam().scheme + folder_.path("store.pd");
  }
  void open(u64 version = 0) {
    Options chosen = options();
    chosen.version = version;
    store_ = std::make_unique<WrappedStore>(
        uri(), chosen,
        // Written as late as a disk may: from whatever memory it was handed.
        [this](auto inner) { return plan_.wrap(make_lazy(std::move(inner))); });
    words_ = static_cast<u64*>(store_->get_root("words"));
  }
  RemapTest() {
    if (GetParam().scheme == std::string("memcached:"))
      server_ = std::make_unique<MemcachedProcess>(std::vector<std::string>{"-M", "-m", "512"});
    open();
    const auto op = store_->operation();
    words_ = static_cast<u64*>(op.allocate(kWords * sizeof(u64), kPageBytes));
    std::fill_n(words_, kWords, 0);
    op.touch(words_, kWords * sizeof(u64));
    op.set_root("words", words_);
  }
  void reopen(u64 version = 0) {
    store_->crash();
    store_.reset();
    plan_.disarm();
    open(version);
    ASSERT_NE(words_, nullptr);
  }
  void set(u64 first, u64 count, u64 value) {
    const auto op = store_->operation();
    op.touch(words_ + first, count * sizeof(u64));
    std::fill_n(words_ + first, count, value);
    std::fill_n(model_.begin() + static_cast<std::ptrdiff_t>(first), count, value);
  }
  void expect_words(const std::vector<u64>& expected) const {
    if (std::memcmp(words_, expected.data(), kWords * sizeof(u64)) == 0) return;
    for (u64 i = 0; i < kWords; ++i) ASSERT_EQ(words_[i], expected[i]) << "word " << i;
    FAIL() << "the words changed while they were compared";
  }
  /// Random changes: a few words, a few runs, and sometimes everything to zero.
  void change() {
    const u64 kind = random_() % 16;
    if (kind == 0) set(0, kWords, 0);
    for (u64 i = 0; i < kind; ++i) {
      const u64 first = random_() % kWords;
      set(first, std::min<u64>(random_() % 20'000, kWords - first), random_());
    }
    set(random_() % kWords, 1, random_());
  }

  const TempDir folder_{TempDir::kMemory};
  std::unique_ptr<MemcachedProcess> server_;
  media::FaultPlan plan_;
  std::mt19937_64 random_{7};
  std::unique_ptr<WrappedStore> store_;
  u64* words_ = nullptr;
  std::vector<u64> model_ = std::vector<u64>(kWords);
};

TEST_P(RemapTest, EachKeptVersionIsWhatItWas) {
  std::map<u64, std::vector<u64>> versions;
  for (u64 round = 0; round < slice_or_whole(10, 30); ++round) {
    change();
    const u64 version = store_->checkpoint();
    versions[version] = model_;
    if (round % 5 == 0) {
      change();  // which no version has
      model_ = versions[version];
      reopen();
      ASSERT_NO_FATAL_FAILURE(expect_words(model_)) << "round " << round;
    }
  }
  const u64 newest = store_->durable_version();
  for (u64 version = newest; version > newest - kKept; --version) {
    reopen(version);
    ASSERT_NO_FATAL_FAILURE(expect_words(versions[version])) << "version " << version;
    EXPECT_TRUE(store_->audit().clean);
  }
  store_.reset();
  try {
    open(newest - kKept);
    FAIL() << "an old version was opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kNotFound);
    EXPECT_NE(std::string(error.what()).find("does not keep version"), std::string::npos)
        << error.what();
  }
}

TEST_P(RemapTest, AClosedStoreOpensAgain) {
  for (int round = 0; round < 4; ++round) {
    change();
    store_->close();
    store_.reset();
    open();
    expect_words(model_);
    EXPECT_TRUE(store_->audit().clean);
  }
}

TEST_P(RemapTest, SpaceIsUsedAgain) {
  set(0, kWords, 1);
  store_->checkpoint();
  u64 size = 0;
  for (u64 round = 2; round < 20; ++round) {
    set(0, kWords, round);
    store_->checkpoint();
    if (round == 2 + kKept) size = store_->runtime().volume().medium().geometry().size;
  }
  EXPECT_EQ(store_->runtime().volume().medium().geometry().size, size);
  reopen();
  expect_words(model_);
  set(0, kWords, 99);
  store_->checkpoint();
  EXPECT_LE(store_->runtime().volume().medium().geometry().size, size + size / 4);
}

TEST_P(RemapTest, AFailedVersionLeavesTheOnesBefore) {
  change();
  store_->checkpoint();
  for (unsigned kinds : {media::kFaultWrite, media::kFaultSubmit, media::kFaultDrain}) {
    for (u64 call = 1; call <= 3; ++call) {
      const auto kind = call % 2 == 0 ? media::FaultKind::kLate : media::FaultKind::kShort;
      change();
      plan_.arm({.calls = kinds, .nth = call, .kind = kind});
      const auto failed = store_->runtime().checkpoint();
      plan_.disarm();
      // What failed is of the next version.
      if (!failed) store_->checkpoint();
      reopen();
      ASSERT_NO_FATAL_FAILURE(expect_words(model_));
    }
  }
}

// What a reader has may be an attempt that failed, and then is not the version with its number;
// also when others have failed since.
TEST_P(RemapTest, AReaderOfAnAttemptThatFailedKeepsWhatItHas) {
  if (GetParam().scheme == std::string("memcached:")) GTEST_SKIP() << "nobody reads beside it";
  // Of a store that uses places again as soon as it may.
  Options chosen = options();
  chosen.versions_kept = 1;
  chosen.over_provisioning = 0;
  const std::string other = GetParam().scheme + folder_.path("other.pd");
  store_ = std::make_unique<WrappedStore>(
      other, chosen,
      [this](std::unique_ptr<media::Medium> inner) { return plan_.wrap(std::move(inner)); });
  {
    const auto op = store_->operation();
    words_ = static_cast<u64*>(op.allocate(kWords * sizeof(u64), kPageBytes));
    op.set_root("words", words_);
  }
  set(0, kWords, 1);
  const u64 kept = store_->checkpoint();
  // Behind the first copy of the version's record, so that a reader finds it.
  const auto fail = [&] {
    plan_.arm({.calls = media::kFaultWrite, .nth = 2});
    expect_failure(store_->runtime().checkpoint(), Code::kIo, "injected fault");
    plan_.disarm();
  };
  set(0, 1, 2);
  fail();
  auto medium = value_or_throw(media::open_medium(other, {.create = false, .read_only = true}));
  const auto volume = value_or_throw(store::open_volume_to_read(std::move(medium.medium)));
  const format::RegionRecord record = volume->regions().front();
  const auto found = value_or_throw(store::recover_chunks_at(*volume, record, 0));
  ASSERT_EQ(found.durable_version(), kept + 1);
  set(100'000, 50'000, 3);
  EXPECT_EQ(store_->checkpoint(), kept + 1);
  set(1, 1, 4);
  fail();
  for (u64 i = 0; i < 6; ++i) {
    set(0, kWords, 10 + i);
    store_->checkpoint();
  }
  commit::MapReader reader(*volume, *found.space);
  const auto& chunks = found.versions.map.level(0);
  AlignedBuffer chunk(GetParam().chunk_bytes);
  for (u64 i = 0; i < chunks.size(); ++i) {
    if (chunks[i].place == 0) continue;
    ASSERT_TRUE(reader.read_chunk(i, chunks[i], chunk.first(GetParam().chunk_bytes))) << i;
  }
}

TEST_P(RemapTest, AFailedBarrierAcknowledgesNothing) {
  change();
  const u64 version = store_->checkpoint();
  const std::vector<u64> durable = model_;
  for (u64 barrier : {1, 2}) {
    change();
    plan_.arm({.calls = media::kFaultBarrier, .nth = barrier});
    const auto failed = store_->runtime().checkpoint();
    EXPECT_FALSE(failed);
    EXPECT_EQ(store_->durable_version(), version);
    const std::vector<u64> attempted = model_;
    reopen();
    // The record of the second attempt may be there: then all of it is.
    model_ = store_->durable_version() == version ? durable : attempted;
    ASSERT_NO_FATAL_FAILURE(expect_words(model_));
    if (store_->durable_version() != version) break;
  }
}

TEST_P(RemapTest, StoresDuringACaptureAreOfTheNextVersion) {
  set(0, kWords, 1);
  store_->checkpoint();
  std::atomic<bool> stop{false};
  std::atomic<u64> operations{0};
  // Each operation adds one to two words far apart: they are equal in every version.
  std::thread mutator([&] {
    std::mt19937_64 random(3);
    while (!stop) {
      const u64 at = random() % (kWords / 2);
      const auto op = store_->operation();
      op.touch(words_ + at, sizeof(u64));
      op.touch(words_ + kWords / 2 + at, sizeof(u64));
      ++words_[at];
      ++words_[kWords / 2 + at];
      ++operations;
    }
  });
  for (int round = 0; round < 40; ++round) {
    for (const u64 before = operations; operations < before + 10;) std::this_thread::yield();
    if (round % 4 == 0) store_->wait(store_->checkpoint_async());
    else store_->checkpoint();
  }
  stop = true;
  mutator.join();
  reopen();
  u64 sum = 0;
  for (u64 i = 0; i < kWords / 2; ++i) {
    ASSERT_EQ(words_[i], words_[kWords / 2 + i]) << "word " << i;
    sum += words_[i];
  }
  EXPECT_GT(sum, kWords / 2);
}

TEST_P(RemapTest, TheRegionGrows) {
  std::vector<std::pair<u64*, u64>> blocks;
  for (u64 round = 1; round < 12; ++round) {
    {
      const auto op = store_->operation();
      auto* block = static_cast<u64*>(op.allocate(2 * kMiB));
      op.touch(block, 2 * kMiB);
      std::fill_n(block, 2 * kMiB / sizeof(u64), round);
      op.set_root(("block " + std::to_string(round)).c_str(), block);
    }
    store_->checkpoint();
    if (round % 4 == 0) reopen();
  }
  reopen();
  for (u64 round = 1; round < 12; ++round) {
    const auto* block =
        static_cast<u64*>(store_->get_root(("block " + std::to_string(round)).c_str()));
    EXPECT_TRUE(std::all_of(block, block + 2 * kMiB / sizeof(u64), [round](u64 word) {
      return word == round;
    })) << round;
  }
  EXPECT_TRUE(store_->audit().clean);
}

TEST_P(RemapTest, AnOldVersionIsOnlyRead) {
  set(0, 10, 1);
  const u64 version = store_->checkpoint();
  const std::vector<u64> old = model_;
  set(0, 10, 2);
  store_->checkpoint();
  reopen(version);
  expect_words(old);
  {
    const auto op = store_->operation();
    op.touch(words_, sizeof(u64));
    words_[0] = 77;
    void* const block = op.allocate(20 * kMiB);
    ASSERT_NE(block, nullptr);
  }
  const auto refused = store_->runtime().checkpoint();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.failure().code, Code::kUnsupported);
  store_->close();
  reopen();
  expect_words(model_);
}

// As a flash device wants them: what goes to the space for chunks fills chunks.
TEST(RemapOnFlash, WholeChunksAreWritten) {
  const TempDir folder(TempDir::kMemory);
  Options options;
  options.region_limit_bytes = 64 * kMiB;
  options.engine = Engine::kRemap;
  options.chunk_bytes = 16 * kKiB;
  options.whole_chunks = true;
  media::Recording recording;
  {
    WrappedStore store(
        "file:" + folder.path("store.pd"), options,
        [&](std::unique_ptr<media::Medium> inner) { return recording.wrap(std::move(inner)); });
    auto* const bytes = static_cast<char*>(store.operation().allocate(8 * kMiB, kPageBytes));
    for (u64 i = 0; i < 5; ++i) {
      {
        const auto op = store.operation();
        std::memset(bytes + i * kMiB, 'a', 3 * kMiB);
      }
      store.checkpoint();
    }
    store.close();
  }
  u64 writes = 0;
  const media::History history = recording.history();
  for (const media::RecordedCall& call : history.calls()) {
    if (call.site == nullptr || call.site->what != std::string("chunks")) continue;
    ++writes;
    EXPECT_TRUE(is_aligned(call.offset | call.bytes.size(), options.chunk_bytes));
  }
  EXPECT_GT(writes, 5u);
}

// --- what only memcached does ------------------------------------------------------------------

class RemapOnMemcached : public testing::Test {
 protected:
  static Options options(bool lazy = true) {
    Options options;
    options.region_limit_bytes = 64 * kMiB;
    options.engine = Engine::kRemap;
    options.lazy_recovery = lazy;
    return options;
  }
  void fill() {
    WrappedStore store(server_.uri("store"), options());
    {
      const auto op = store.operation();
      auto* words = static_cast<u64*>(op.allocate(4 * kMiB));
      std::fill_n(words, 4 * kMiB / sizeof(u64), 5);
      op.set_root("words", words);
    }
    store.close();
  }
  /// The head, its pages, those of the version records, and what the kept versions consist of.
  static u64 expected_items(const std::string& uri) {
    auto medium = value_or_throw(media::open_medium(uri, {})).medium;
    const auto volume = value_or_throw(region::Volume::open(std::move(medium)));
    u64 items = 1 + format::kDataBegin / kPageBytes;
    for (const format::RegionRecord& record : volume->regions()) {
      items += format::version_records_bytes(record) / kPageBytes;
      const region::ChunkSpace space(*volume, record, 0, true);
      commit::MapReader reader(*volume, space);
      std::set<u64> places;
      for (const auto& each : value_or_throw(commit::read_versions(*volume, record)))
        EXPECT_TRUE(reader.walk(each.record,
                                [&](u32, u64, const format::ChunkEntry& entry) -> Result<bool> {
                                  return places.insert(entry.place).second;
                                }));
      items += places.size();
    }
    return items;
  }
  Failure failure_of_opening(const Options& chosen) {
    try {
      WrappedStore store(server_.uri("store"), chosen);
    } catch (const Error& error) {
      return {error.code(), error.what()};
    }
    return {Code::kOk, "it opened"};
  }
  MemcachedProcess server_{{"-M", "-m", "128"}};
};

TEST_F(RemapOnMemcached, AStoreWithALogIsRefused) {
  for (const Engine engine : {Engine::kRedoLog, Engine::kDualCopy}) {
    Options home = options();
    home.engine = engine;
    const Failure failure = failure_of_opening(home);
    EXPECT_EQ(failure.code, Code::kUnsupported);
    EXPECT_NE(failure.message.find("Engine::kRemap"), std::string::npos) << failure.message;
  }
}

// Each item that is missing is an error when what needs it is opened, loaded or checked.
TEST_F(RemapOnMemcached, AMissingItemIsAnErrorThatNamesIt) {
  fill();
  const auto report = value_or_throw(store::check(server_.uri("store"), {}, [](auto...) {}));
  EXPECT_FALSE(report.damaged());
  ASSERT_GT(report.chunks, 60u);
  // A chunk in the middle.
  u64 place = 0;
  {
    auto medium = value_or_throw(media::open_medium(server_.uri("store"), {})).medium;
    const auto volume = value_or_throw(region::Volume::open(std::move(medium)));
    const region::ChunkSpace space(*volume, volume->regions().front(), 0, true);
    const auto found = value_or_throw(commit::read_versions(*volume, volume->regions().front()));
    const auto map = value_or_throw(commit::MapReader(*volume, space).read(found.back().record));
    for (const format::ChunkEntry& entry : map.level(0))
      if (entry.place != 0) place = entry.place;
  }
  server_.forget_object("store", place);
  EXPECT_DEATH(
      {
        WrappedStore store(server_.uri("store"), options());
        const auto* words = static_cast<u64*>(store.get_root("words"));
        u64 sum = 0;
        for (u64 i = 0; i < 4 * kMiB / sizeof(u64); ++i) sum += words[i];
        std::exit(sum == 0 ? 1 : 0);
      },
      "evicted");
  const Failure failure = failure_of_opening(options(false));
  EXPECT_EQ(failure.code, Code::kCorrupt);
  EXPECT_NE(failure.message.find("evicted"), std::string::npos) << failure.message;
  const auto after = value_or_throw(store::check(server_.uri("store"), {}, [](auto...) {}));
  EXPECT_TRUE(after.damaged());
}

// What a version had alone goes from the server when it is kept no more, also what an attempt wrote
// that failed; what a region had goes with it.
TEST_F(RemapOnMemcached, TheServerHasWhatKeptVersionsHaveAndNoMore) {
  Options chosen = options();
  chosen.versions_kept = 3;
  chosen.tracking = Tracking::kProtect;
  const std::string uri = server_.uri("store");
  for (int session = 0; session < 3; ++session) {
    for (const char* region : {"main", "other"}) {
      chosen.region = region;
      media::FaultPlan faults;
      WrappedStore store(uri, chosen, [&](std::unique_ptr<media::Medium> inner) {
        return faults.wrap(std::move(inner));
      });
      auto* words = static_cast<u64*>(store.get_root("words"));
      if (words == nullptr) {
        const auto op = store.operation();
        words = static_cast<u64*>(op.allocate(2 * kMiB));
        op.set_root("words", words);
      }
      for (u64 i = 0; i < 8; ++i) {
        std::fill_n(words, (i + 1) * 256 * kKiB / sizeof(u64), i + 1);
        // Every other one fails first, among its chunks or at its record.
        if (i % 4 == 1) faults.arm({.calls = media::kFaultSubmit, .nth = 3});
        if (i % 4 == 3) faults.arm({.calls = media::kFaultWrite});
        EXPECT_EQ(static_cast<bool>(store.runtime().checkpoint()), i % 2 == 0);
        faults.disarm();
        EXPECT_TRUE(store.runtime().checkpoint());
      }
      store.close();
    }
    const u64 expected = expected_items(uri);
    EXPECT_EQ(server_.items(), expected) << session;
  }
  ASSERT_TRUE(store::remove_region(uri, "other", {}));
  const u64 expected = expected_items(uri);
  EXPECT_EQ(server_.items(), expected);
}

TEST_F(RemapOnMemcached, AServerThatWasRestartedHasNoStore) {
  fill();
  server_.restart();
  Options no_create = options();
  no_create.create = false;
  EXPECT_EQ(failure_of_opening(no_create).code, Code::kNotFound);
}

TEST_F(RemapOnMemcached, AServerThatGoesAwayFailsTheVersion) {
  WrappedStore store(server_.uri("store"), options());
  const u64 version = store.durable_version();
  {
    const auto op = store.operation();
    op.set_root("some", op.allocate(100));
  }
  server_.kill();
  const auto failed = store.runtime().checkpoint();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.failure().code, Code::kIo) << failed.failure().message;
  server_.restart();
  EXPECT_FALSE(store.runtime().checkpoint()) << "another server has nothing of it";
  EXPECT_EQ(store.durable_version(), version);
}

std::vector<Config> configs() {
  return {{"file_userfault", "file:", Tracking::kUserfault, 64 * kKiB},
          {"file_userfault_4k", "file:", Tracking::kUserfault, 4 * kKiB},
          {"file_userfault_eager", "file:", Tracking::kUserfault, 64 * kKiB, false},
          {"file_protect", "file:", Tracking::kProtect, 64 * kKiB},
          {"file_sigbus", "file:", Tracking::kSigbus, 64 * kKiB},
          {"file_whole_chunks", "file:", Tracking::kUserfault, 16 * kKiB, true, true},
          {"file_protect_4m", "file:", Tracking::kProtect, 4 * kMiB},
          {"file_reported", "file:", Tracking::kReported, 64 * kKiB},
          {"emu_userfault", "emu:", Tracking::kUserfault, 16 * kKiB},
          {"emu_protect", "emu:", Tracking::kProtect, 256 * kKiB},
          {"emu_bitmap", "emu:", Tracking::kBitmap, 4 * kKiB},
          {"memcached_userfault", "memcached:", Tracking::kUserfault, 64 * kKiB},
          {"memcached_protect", "memcached:", Tracking::kProtect, 64 * kKiB}};
}
INSTANTIATE_TEST_SUITE_P(Configs, RemapTest, testing::ValuesIn(configs()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace perdura::test
