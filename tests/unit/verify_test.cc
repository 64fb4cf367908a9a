// Goal: with Verify::kBeforeUse no program is shown a page of the home image that is not what was
// written there: who touches it ends with a sentence, all others go on; and what is whole is never
// refused, whatever tracker, medium and engine's work beside it.
// Method: bits of real stores' files are flipped; child processes open these and look, in a slice
// at bits everywhere in the home image and its checksums. PERDURA_SUMMARIES names a folder for
// silent_read.json.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <numeric>
#include <random>
#include <thread>

#include <perdura/perdura.h>
#include <perdura/container.hpp>

#include "store/inspect.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/process.hpp"
#include "support/slice.hpp"
#include "support/wrapped_store.hpp"

namespace perdura::test {
namespace {

using region::HomeMap;

/// Of a child: an access that nobody answers. Sanitizers end it with an exit code of their own.
bool ended_by_access(const std::string& result) {
  return result.find("died of signal 11") != std::string::npos ||
         (kSanitized && result.find("exited with") != std::string::npos);
}

struct Way {
  const char* name;
  const char* scheme;
  Tracking tracking;
  Engine engine = Engine::kRedoLog;
};

constexpr Way kWays[] = {{"file_reported", "file:", Tracking::kReported},
                         {"emu_bitmap", "emu:", Tracking::kBitmap},
                         {"file_userfault", "file:", Tracking::kUserfault},
                         {"emu_protect", "emu:", Tracking::kProtect},
                         {"file_protect", "file:", Tracking::kProtect},
                         {"file_copies", "file:", Tracking::kUserfault, Engine::kDualCopy},
                         {"emu_copies", "emu:", Tracking::kReported, Engine::kDualCopy},
                         {"emu_copies_protect", "emu:", Tracking::kProtect, Engine::kDualCopy}};

class VerifyTest : public testing::TestWithParam<Way> {
 protected:
  static constexpr u64 kWords = 3 * kMiB / sizeof(u64);

  Options options() const {
    Options options;
    options.region_limit_bytes = 64 * kMiB;
    options.log_limit_bytes = 2 * kMiB;
    options.tracking = GetParam().tracking;
    options.engine = GetParam().engine;
    options.chunk_bytes = 16 << 10;
    options.verify = Verify::kBeforeUse;
    options.verify_bytes_per_second = 0;
    return options;
  }
  std::string path() const { return folder_.path("store.pd"); }
  std::string uri() const { return GetParam().scheme + path(); }

  /// A closed store with words in rising order; the region offset of the first.
  u64 make_store() {
    WrappedStore store(uri(), options());
    u64 offset = 0;
    {
      const auto op = store.operation();
      auto* const words = static_cast<u64*>(op.allocate(kWords * sizeof(u64), kPageBytes));
      op.touch(words, kWords * sizeof(u64));
      std::iota(words, words + kWords, u64{1});
      op.set_root("words", words);
      offset =
          static_cast<u64>(reinterpret_cast<std::byte*>(words) - store.runtime().region().base());
    }
    store.close();
    home_ =
        std::make_shared<HomeMap>(value_or_throw(store::outline(uri(), {})).regions.at(0).extents);
    return offset;
  }
  static u64* words_of(WrappedStore& store) { return static_cast<u64*>(store.get_root("words")); }
  /// The word at which they begin to be wrong; kWords: nowhere.
  static u64 first_wrong(const u64* words, u64 first = 0, u64 end = kWords) {
    for (u64 i = first; i < end; ++i)
      if (words[i] != i + 1) return i;
    return kWords;
  }
  void flip(u64 medium_offset) const { flip_bit(path(), medium_offset, 3); }
  u64 place_of(u64 region_offset) const {
    return HomeMap::page_place(*home_->find(region_offset), region_offset);
  }
  static std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }
  /// What a child with the store open returns, with what it wrote to stderr in further lines.
  std::string in_child(const std::function<std::string(WrappedStore&)>& body) const {
    const std::string errors = folder_.path("stderr");
    Child child([&]() -> std::string {
      if (std::freopen(errors.c_str(), "w", stderr) == nullptr) return "no stderr";
      WrappedStore store(uri(), options());
      return body(store);
    });
    std::string result = child.wait();
    std::ifstream in(errors);
    for (std::string line; std::getline(in, line);) result += "\n" + line;
    return result;
  }

  const TempDir folder_;
  std::shared_ptr<const HomeMap> home_;
};

TEST_P(VerifyTest, ADamagedPageEndsWhoTouchesItAndNobodyElse) {
  const u64 damaged = make_store() + kMiB;
  flip(place_of(damaged) + 100);
  constexpr u64 kDamagedWord = kMiB / sizeof(u64);
  const std::string named = "home page at region offset " + std::to_string(damaged) + " of";
  const std::string touched = in_child([&](WrappedStore& store) {
    return std::to_string(words_of(store)[kDamagedWord + 13]) + " was read";
  });
  EXPECT_TRUE(ended_by_access(touched)) << touched;
  EXPECT_NE(touched.find(named), std::string::npos) << touched;
  EXPECT_EQ(touched.find("was read"), std::string::npos);
  // Nothing is said of the medium, which has not failed.
  EXPECT_EQ(touched.find("cannot be answered"), std::string::npos) << touched;
  // The parts beside it are as they should be, and so they become durable.
  constexpr u64 kPart = 256 * kKiB / sizeof(u64);
  const std::string beside = in_child([&](WrappedStore& store) -> std::string {
    u64* const words = words_of(store);
    if (first_wrong(words, 0, kDamagedWord - 2 * kPart) != kWords) return "wrong before";
    if (first_wrong(words, kDamagedWord + 2 * kPart) != kWords) return "wrong behind";
    {
      const auto op = store.operation();
      op.touch(words, sizeof *words);
      ++*words;
    }
    store.checkpoint();
    store.close();
    return "";
  });
  EXPECT_EQ(first_line(beside), "") << beside;
  const std::string after = in_child([&](WrappedStore& store) {
    return words_of(store)[0] == 2 ? std::string() : std::string("lost");
  });
  EXPECT_EQ(first_line(after), "") << after;
}

// Opening touches them.
TEST_P(VerifyTest, DamageToTheHeapsTablesEndsWhoOpensTheStore) {
  make_store();
  flip(place_of(kPageBytes) + 8);
  const std::string opened = in_child([](WrappedStore&) { return "was opened"; });
  EXPECT_TRUE(ended_by_access(opened)) << opened;
  EXPECT_NE(opened.find("home page at region offset 4096 of"), std::string::npos) << opened;
  EXPECT_EQ(opened.find("was opened"), std::string::npos) << opened;
}

TEST_P(VerifyTest, ADamagedChecksumIsDamage) {
  const u64 offset = make_store() + kMiB;
  flip(HomeMap::checksum_place(*home_->find(offset), offset));
  const std::string touched =
      in_child([&](WrappedStore& store) { return std::to_string(words_of(store)[kMiB / 8]); });
  EXPECT_TRUE(ended_by_access(touched)) << touched;
}

TEST_P(VerifyTest, WithoutLazyRecoveryOpeningFails) {
  const u64 damaged = make_store() + 2 * kMiB;
  flip(place_of(damaged));
  Options eager = options();
  eager.lazy_recovery = false;
  expect_failure(detail::Runtime::open(uri(), eager), Code::kCorrupt,
                 "home page at region offset " + std::to_string(damaged));
  flip(place_of(damaged));
  WrappedStore store(uri(), eager);
  EXPECT_EQ(first_wrong(words_of(store)), kWords);
}

TEST_P(VerifyTest, TheRestIsReadInTheBackground) {
  const u64 offset = make_store();
  const u64 damaged[] = {offset + kMiB, offset + kMiB + kPageBytes, offset + 2 * kMiB};
  for (const u64 each : damaged) flip(place_of(each));
  Options quick = options();
  quick.verify_bytes_per_second = u64{4} << 30;
  WrappedStore store(uri(), quick);
  while (store.statistics().verified_bytes < home_->backed_bytes()) std::this_thread::yield();
  EXPECT_EQ(store.statistics().damaged_pages, 3u);
  std::vector<std::string> found = store.runtime().damaged_pages();
  ASSERT_EQ(found.size(), 3u);
  std::sort(found.begin(), found.end());
  for (size_t i = 0; i < 3; ++i)
    EXPECT_NE(found[i].find("region offset " + std::to_string(damaged[i]) + ":"), std::string::npos)
        << found[i];
  EXPECT_EQ(first_wrong(words_of(store), 0, kMiB / 2 / sizeof(u64)), kWords);
}

// What it was verified through is given back; on NVM it is there already.
TEST_P(VerifyTest, TheHomeImageIsMappedOnceInTheEnd) {
  make_store();
  const auto mapped_bytes = [this] {
    std::ifstream maps("/proc/self/maps");
    u64 bytes = 0;
    for (std::string line; std::getline(maps, line);) {
      unsigned long long begin = 0;
      unsigned long long end = 0;
      if (line.find(path()) == std::string::npos || line.find(" rw-s ") != std::string::npos)
        continue;
      if (std::sscanf(line.c_str(), "%llx-%llx", &begin, &end) == 2) bytes += end - begin;
    }
    return bytes;
  };
  Options quick = options();
  quick.verify_bytes_per_second = u64{4} << 30;
  const WrappedStore store(uri(), quick);
  const bool on_nvm = std::string(GetParam().scheme) == "emu:";
  EXPECT_EQ(mapped_bytes() > home_->backed_bytes(), !on_nvm);
  while (mapped_bytes() > home_->backed_bytes()) std::this_thread::yield();
}

// A part that is changed, checkpointed and replayed is another one by the time that its neighbours
// are verified.
TEST_P(VerifyTest, NothingIsRefusedBesideCheckpoints) {
  make_store();
  Options slower = options();
  slower.verify_bytes_per_second = 32 * kMiB;
  std::mt19937_64 random(5);
  std::vector<u64> model(kWords);
  std::iota(model.begin(), model.end(), u64{1});
  for (int session = 0; session < 4; ++session) {
    WrappedStore store(uri(), slower);
    u64* const words = words_of(store);
    for (u64 round = 0; round < 60 / kSlower; ++round) {
      for (u64 i = 0; i < 40; ++i) {
        const u64 at = random() % kWords;
        const auto op = store.operation();
        op.touch(words + at, sizeof(u64));
        words[at] = model[at] = random();
      }
      store.checkpoint();
    }
    ASSERT_EQ(std::memcmp(words, model.data(), kWords * sizeof(u64)), 0) << "session " << session;
    EXPECT_EQ(store.statistics().damaged_pages, 0u);
    // Of two sessions the end is a crash, after which a log is put over the home image.
    if (session % 2 == 0) store.crash();
    else store.close();
  }
}

// Threads that read in order, each from another place, with the background thread ahead of them.
TEST_P(VerifyTest, ReadersFindAllOfIt) {
  make_store();
  WrappedStore store(uri(), options());
  const u64* const words = words_of(store);
  std::vector<std::thread> readers;
  std::atomic<u64> wrong{0};
  for (u64 thread = 0; thread < 3; ++thread)
    readers.emplace_back([&, thread] {
      const u64 from = thread * kWords / 3;
      wrong += first_wrong(words, from) != kWords;
      wrong += first_wrong(words, 0, from) != kWords;
    });
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_GE(store.statistics().verified_bytes, kWords * sizeof(u64));
}

// As docs/guarantees.md warns.
TEST_P(VerifyTest, ASystemCallFindsItClosed) {
  make_store();
  WrappedStore store(uri(), options());
  // Nothing that lies before it was touched.
  const u64* const there = words_of(store) + 2 * kMiB / sizeof(u64);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_EQ(::write(ends[1], there, sizeof *there), -1);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(*there, 2 * kMiB / sizeof(u64) + 1);
  EXPECT_EQ(::write(ends[1], there, sizeof *there), static_cast<ssize_t>(sizeof *there));
  ::close(ends[0]);
  ::close(ends[1]);
}

// A part beside a damaged one is changed: what moves it to a huge page must not touch the other.
TEST_P(VerifyTest, AStoreBesideADamagedPartGoesOn) {
  const u64 damaged = make_store() + kMiB;
  flip(place_of(damaged));
  const std::string result = in_child([&](WrappedStore& store) -> std::string {
    u64* const words = words_of(store);
    for (u64 i = 0; i < 20; ++i) {
      {
        const auto op = store.operation();
        op.touch(words + i, sizeof(u64));
        words[i] = i + 1;
      }
      store.checkpoint();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return first_wrong(words, 0, 1000) == kWords ? "right" : "wrong";
  });
  EXPECT_EQ(first_line(result), "right") << result;
}

// Trackers that open chunks open the page alone where its chunk has the damaged part.
TEST_P(VerifyTest, AStoreInTheChunkOfADamagedPartGoesOn) {
  const u64 damaged = make_store() + kMiB;
  flip(place_of(damaged));
  Options large = options();
  large.chunk_bytes = 4 << 20;
  Child child([&]() -> std::string {
    if (std::freopen("/dev/null", "w", stderr) == nullptr) return "no stderr";
    WrappedStore store(uri(), large);
    u64* const words = words_of(store);
    for (const u64 word : {u64{7}, kWords - 1}) {
      const auto op = store.operation();
      op.touch(words + word, sizeof(u64));
      words[word] = 1000 + word;
    }
    store.checkpoint();
    store.close();
    return "";
  });
  EXPECT_EQ(child.wait(), "");
  EXPECT_EQ(in_child([&](WrappedStore& store) -> std::string {
              return words_of(store)[7] == 1007 && words_of(store)[kWords - 1] == 1000 + kWords - 1
                         ? "kept"
                         : "lost";
            }),
            "kept");
}

// Of parts that are wanted soon, since a crash left lines of them in the log, a damaged one keeps
// neither the others nor those that are read at a pace.
TEST_P(VerifyTest, ADamagedPartStopsNothingInTheBackground) {
  if (std::string(GetParam().scheme) == "emu:") GTEST_SKIP() << "nothing is left to patch";
  const u64 offset = make_store();
  flip(place_of(offset + kMiB));
  Options unverified = options();
  unverified.verify = Verify::kNever;
  {
    // A page in each part has lines in the log, one of them is damaged, and condemned.
    WrappedStore store(uri(), unverified);
    for (u64 word = 0; word < kWords; word += 128 * kKiB / sizeof(u64)) {
      const auto op = store.operation();
      op.touch(words_of(store) + word, sizeof(u64));
      words_of(store)[word] = word + 1;
    }
    store.checkpoint();
    store.crash();
  }
  Options quick = options();
  quick.verify_bytes_per_second = u64{4} << 30;
  WrappedStore store(uri(), quick);
  while (store.statistics().verified_bytes < home_->backed_bytes()) std::this_thread::yield();
  const std::vector<std::string> found = store.runtime().damaged_pages();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found[0].find("region offset " + std::to_string(offset + kMiB) + ":"),
            std::string::npos);
  store.crash();
}

// --- OnDamage::kThrow ---------------------------------------------------------------------------

class DamageIsThrown : public VerifyTest {
 protected:
  static constexpr u64 kPageWords = kPageBytes / sizeof(u64);
  static constexpr u64 kDamaged = kMiB / sizeof(u64);  ///< first word of the damaged page

  Options throwing() const {
    Options throwing = options();
    throwing.on_damage = OnDamage::kThrow;
    return throwing;
  }
  std::string make_damaged() {
    const u64 offset = make_store() + kMiB;
    flip(place_of(offset) + 100);
    return "home page at region offset " + std::to_string(offset) + " of";
  }
  static void set(WrappedStore& store, u64 word, u64 value) {
    const auto op = store.operation();
    op.touch(words_of(store) + word, sizeof(u64));
    words_of(store)[word] = value;
  }
};

TEST_P(DamageIsThrown, ByTheNextCheckpointOnceAndThePageReadsAsZeros) {
  const std::string named = make_damaged();
  u64 before = 0;
  {
    WrappedStore store(uri(), throwing());
    u64* const words = words_of(store);
    for (u64 i = kDamaged; i < kDamaged + kPageWords; ++i) ASSERT_EQ(words[i], 0u);
    EXPECT_EQ(first_wrong(words, 0, kDamaged), kWords);
    EXPECT_EQ(first_wrong(words, kDamaged + kPageWords), kWords);
    set(store, kDamaged + 3, 5);   // of the page: in no version
    set(store, kDamaged - 1, 77);  // beside it
    set(store, kDamaged + kPageWords, 78);
    before = store.durable_version();
    expect_failure(store.runtime().checkpoint(), Code::kCorrupt, named);
    EXPECT_EQ(store.durable_version(), before);
    EXPECT_EQ(store.checkpoint(), before + 1);
    EXPECT_EQ(store.statistics().damaged_pages, 1u);
    store.close();
  }
  {
    WrappedStore store(uri(), throwing());
    EXPECT_EQ(words_of(store)[kDamaged + 3], 0u);
    EXPECT_EQ(words_of(store)[kDamaged - 1], 77u);
    EXPECT_EQ(words_of(store)[kDamaged + kPageWords], 78u);
    store.crash();
  }
  // What was not damaged of it is still there, for whoever mends it.
  Options unverified = options();
  unverified.verify = Verify::kNever;
  WrappedStore store(uri(), unverified);
  EXPECT_EQ(words_of(store)[kDamaged + 3], kDamaged + 4);
  store.crash();
}

TEST_P(DamageIsThrown, ByTheEndWhichKeepsNothingThatMayComeOfZeros) {
  const std::string named = make_damaged();
  {
    WrappedStore store(uri(), throwing());
    set(store, 0, words_of(store)[kDamaged]);
    expect_failure(store.runtime().close(), Code::kCorrupt, named);
  }
  WrappedStore store(uri(), throwing());
  EXPECT_EQ(words_of(store)[0], 1u);
  store.crash();
}

// Who reads takes no checkpoint that would say it.
TEST_P(DamageIsThrown, ByTheEndOfWhoReadsAsWell) {
  const std::string named = make_damaged();
  Options reading = throwing();
  reading.read_only = true;
  WrappedStore store(uri(), reading);
  EXPECT_EQ(words_of(store)[kDamaged], 0u);
  expect_failure(store.runtime().close(), Code::kCorrupt, named);
}

TEST_P(DamageIsThrown, ByATransactionWhichIsNone) {
  if (GetParam().engine == Engine::kDualCopy) GTEST_SKIP() << "there are none";
  const std::string named = make_damaged();
  {
    WrappedStore store(uri(), throwing());
    u64* const words = words_of(store);
    const auto copy = [&] {
      store.atomically([&](Transaction& tx) { tx.write(words[0], tx.read(words[kDamaged])); });
    };
    expect_error(copy, Code::kCorrupt, named);
    EXPECT_EQ(words[0], 1u);
    store.atomically([&](Transaction& tx) { tx.write(words[0], u64{9}); });
    store.crash();
  }
  WrappedStore store(uri(), throwing());
  EXPECT_EQ(words_of(store)[0], 9u);
  store.crash();
}

// It waits for a call that can be told.
TEST_P(DamageIsThrown, AndNoTimedCheckpointIsTakenBefore) {
  const std::string named = make_damaged();
  WrappedStore store(uri(), throwing());
  EXPECT_EQ(words_of(store)[kDamaged], 0u);
  set(store, 0, 5);
  const u64 before = store.durable_version();
  store.runtime().checkpointer().every(std::chrono::milliseconds(1));
  while (store.statistics().failed_checkpoints < 3) std::this_thread::yield();
  EXPECT_EQ(store.durable_version(), before);
  expect_failure(store.runtime().checkpoint_async(), Code::kCorrupt, named);
  while (store.durable_version() == before) std::this_thread::yield();
  store.crash();
}

// Zeros there would give out blocks that are in use.
TEST_P(DamageIsThrown, ByOpeningWhereItIsInTheHeapsTables) {
  make_store();
  flip(place_of(kPageBytes) + 8);
  expect_failure(detail::Runtime::open(uri(), throwing()), Code::kCorrupt,
                 "home page at region offset 4096 of");
}

TEST_P(DamageIsThrown, WithoutVerificationBeforeUseWhenItIsFound) {
  const std::string named = make_damaged();
  Options background = throwing();
  background.verify = Verify::kBackground;
  background.verify_bytes_per_second = u64{4} << 30;
  WrappedStore store(uri(), background);
  while (store.statistics().damaged_pages == 0) std::this_thread::yield();
  set(store, 0, 5);
  expect_failure(store.runtime().checkpoint(), Code::kCorrupt, named);
  store.checkpoint();
  store.close();
}

INSTANTIATE_TEST_SUITE_P(Ways, DamageIsThrown, testing::ValuesIn(kWays),
                         [](const auto& info) { return info.param.name; });

TEST(ContainerBesideDamage, IsRefused) {
  const TempDir folder;
  Options options;
  options.on_damage = OnDamage::kThrow;
  expect_error([&] { (void)Container::open(folder.path("box.pd"), options); },
               Code::kInvalidArgument, "beside damage");
}

INSTANTIATE_TEST_SUITE_P(Ways, VerifyTest, testing::ValuesIn(kWays),
                         [](const auto& info) { return info.param.name; });

// With aliases all of the region is loaded when it is opened.
TEST(VerifyWithAliases, OpeningFails) {
  const TempDir folder;
  const std::string path = folder.path("store.pd");
  Options options;
  options.region_limit_bytes = 16 * kMiB;
  options.aliases = 2;
  options.verify = Verify::kBeforeUse;
  u64 place = 0;
  {
    WrappedStore store("file:" + path, options);
    (void)store.operation().allocate(kMiB);
    store.close();
    place = store.runtime().region().home()->extents().back().medium_offset;
  }
  flip_bit(path, place + 8, 0);
  expect_failure(detail::Runtime::open("file:" + path, options), Code::kCorrupt, "home page");
}

TEST(VerifyFromC, IsAnOption) {
  const TempDir folder{TempDir::kMemory};
  perdura_options options{};
  options.verify = PERDURA_VERIFY_BEFORE_USE;
  perdura_store* store = nullptr;
  ASSERT_EQ(perdura_open(("emu:" + folder.path("store.pd")).c_str(), &options, &store), 0);
  EXPECT_EQ(perdura_close(store), 0);
  options.on_damage = PERDURA_DAMAGE_IS_AN_ERROR;
  ASSERT_EQ(perdura_open(("emu:" + folder.path("store.pd")).c_str(), &options, &store), 0);
  EXPECT_EQ(perdura_close(store), 0);
  constexpr int kNeither = 2;
  std::memcpy(&options.on_damage, &kNeither, sizeof kNeither);
  EXPECT_EQ(perdura_open(("emu:" + folder.path("store.pd")).c_str(), &options, &store),
            -PERDURA_INVALID_ARGUMENT);
  options.on_damage = PERDURA_DAMAGE_ENDS;
  options.verify = static_cast<perdura_verify>(3);
  EXPECT_EQ(perdura_open(("emu:" + folder.path("store.pd")).c_str(), &options, &store),
            -PERDURA_INVALID_ARGUMENT);
}

// --- every bit ----------------------------------------------------------------------------------

class EveryBit : public testing::TestWithParam<const char*> {};

// Of a closed store: a flipped bit of its home image, or of the checksums of that, is never read.
TEST_P(EveryBit, IsReadRightOrNotAtAll) {
  constexpr u64 kEach = 37;
  constexpr u64 kCount = 12'000;
  struct Entry {
    Entry* next;
    u64 words[4];
  };
  const TempDir folder{TempDir::kMemory};
  const std::string uri = GetParam() + folder.path("store.pd");
  Options options;
  options.region_limit_bytes = 2 * kMiB;
  options.log_segment_bytes = 32 * kKiB;
  options.log_limit_bytes = 64 * kKiB;
  options.tracking = Tracking::kReported;
  options.verify = Verify::kBeforeUse;
  options.verify_bytes_per_second = 0;
  std::vector<format::Extent> extents;
  {
    WrappedStore store(uri, options);
    {
      const auto op = store.operation();
      Entry* first = nullptr;
      for (u64 i = 0; i < kCount; ++i) {
        auto* const entry = static_cast<Entry*>(op.allocate(sizeof(Entry)));
        *entry = {first, {i, i * kEach, ~i, i ^ kEach}};
        first = entry;
      }
      op.set_root("first", first);
    }
    store.close();
    extents = store.runtime().region().home()->extents();
  }
  const auto is_right = [](WrappedStore& store) {
    const auto* entry = static_cast<const Entry*>(store.get_root("first"));
    for (u64 i = kCount; i-- > 0; entry = entry->next) {
      const Entry wanted{nullptr, {i, i * kEach, ~i, i ^ kEach}};
      if (entry == nullptr || std::memcmp(entry->words, wanted.words, sizeof wanted.words) != 0)
        return false;
    }
    return entry == nullptr && store.audit().clean;
  };
  std::vector<std::byte> image = read_file(folder.path("store.pd"));
  std::mt19937_64 random(11);
  const u64 cases = slice_or_whole(150, 1500) / (kSanitized ? 3 : 1);
  u64 silent = 0;
  u64 ended = 0;
  u64 refused = 0;
  for (u64 i = 0; i < cases; ++i) {
    const format::Extent& extent = extents[random() % extents.size()];
    // A third of them in the checksums, which are a five-hundredth of it all.
    const u64 at = i % 3 == 0 ? extent.length + random() % (extent.length / kPageBytes * 8)
                              : random() % extent.length;
    std::byte& byte = image[extent.medium_offset + at];
    const std::byte before = byte;
    byte ^= static_cast<std::byte>(1u << random() % 8);
    write_file(folder.path("store.pd"), image);
    byte = before;
    Child child([&]() -> std::string {
      if (std::freopen("/dev/null", "w", stderr) == nullptr) return "no stderr";
      try {
        WrappedStore store(uri, options);
        return is_right(store) ? "right" : "wrong";
      } catch (const Error& error) {
        return error.code() == Code::kCorrupt ? "refused" : error.what();
      }
    });
    const std::string result = child.wait();
    const bool died = ended_by_access(result);
    ended += died;
    refused += result == "refused";
    if (result == "right" || died || result == "refused") continue;
    ++silent;
    ADD_FAILURE() << "bit in byte " << at << " of the extent at " << extent.medium_offset << ": "
                  << result;
  }
  EXPECT_GT(ended, cases / 4) << "hardly any damage was met";
  if (const char* summaries = std::getenv("PERDURA_SUMMARIES"))
    std::ofstream(summaries + std::string("/silent_read_") +
                  (GetParam() == std::string("emu:") ? "emu" : "file") + ".json")
        << "{\"silent_read\":" << silent << ",\"cases\":" << cases << ",\"ended\":" << ended
        << ",\"refused\":" << refused << "}\n";
}

INSTANTIATE_TEST_SUITE_P(Media, EveryBit, testing::Values("file:", "emu:"), [](const auto& info) {
  const std::string scheme = info.param;
  return scheme.substr(0, scheme.size() - 1);
});

}  // namespace
}  // namespace perdura::test
