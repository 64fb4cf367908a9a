// Goal: what docs/transactions.md says and no test of a part shows: where transactions are refused,
// when they run alone, what they take checkpoints for, how many barriers each way takes, who waits
// for whom, and what damage to their records does.
// Method: media whose barriers are counted, held or refused; threads that meet at a given point;
// what is there after a crash.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <thread>
#include <vector>

#include <perdura/compat/fstm.h>
#include <perdura/compat/heapo.h>
#include <perdura/perdura.hpp>

#include "base/aligned_buffer.hpp"
#include "media/decorator.hpp"
#include "store/inspect.hpp"
#include "store/recovery.hpp"
#include "store/runtime.hpp"
#include "support/crash_copies.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/threads.hpp"

namespace perdura::test {

struct DocNode {
  DocNode* next;
  u64 key;
};

}  // namespace perdura::test

PERDURA_TYPE(perdura::test::DocNode, next)

namespace perdura::test {
namespace {

/// What happens at the barriers of transactions, and to their records.
struct Watch {
  std::atomic<u64> barriers{0};
  std::atomic<bool> shut{false};      ///< barriers wait
  std::atomic<u64> waiting{0};        ///< of them
  std::atomic<bool> refused{false};   ///< barriers fail, and stay failed
  std::atomic<bool> too_late{false};  ///< one has failed
};

class Watched final : public media::Decorator {
 public:
  Watched(Watch& watch, std::unique_ptr<media::Medium> inner)
      : Decorator(std::move(inner)), watch_(watch) {}
  Status barrier(const media::Site& site) override {
    const std::string_view what = site.what;
    if (what.find("transaction") != what.npos) ++watch_.barriers;
    ++watch_.waiting;
    watch_.shut.wait(true);
    --watch_.waiting;
    if (watch_.refused) watch_.too_late = true;
    if (watch_.too_late) return Failure{Code::kIo, "refused: a barrier"};
    return inner().barrier(site);
  }

 private:
  Watch& watch_;
};

class TransactionsDoc : public testing::TestWithParam<std::string> {
 protected:
  static Options options() {
    Options options;
    options.region_limit_bytes = 16 * kMiB;
    options.log_segment_bytes = 32 * kKiB;
    options.lazy_recovery = false;
    return options;
  }
  std::string path(const std::string& file = "store.pd") const { return folder_.path(file); }
  Store open(const Options& chosen = options()) {
    detail::InternalOptions internal;
    internal.wrap = [&](std::unique_ptr<media::Medium> inner) {
      return std::make_unique<Watched>(watch_, std::move(inner));
    };
    return detail::StoreAccess::store(
        value_or_throw(detail::Runtime::open(GetParam() + ":" + path(), chosen, internal)));
  }
  /// What a crash would leave now is looked at when the test has ended.
  void after_crash(const std::function<void(Store&)>& check) { crashes_.take(path(), check); }
  void TearDown() override { crashes_.look(GetParam(), options()); }
  bool on_disk() const { return GetParam() == "file"; }
  void hold_barriers() { watch_.shut = true; }
  void let_barriers_go() {
    watch_.shut = false;
    watch_.shut.notify_all();
  }

  const TempDir folder_{TempDir::kMemory};
  Watch watch_;
  CrashCopies crashes_;
};

INSTANTIATE_TEST_SUITE_P(Media, TransactionsDoc, testing::Values("emu", "file"),
                         [](const auto& info) { return info.param; });

// --- what is refused -----------------------------------------------------------------------------

TEST_P(TransactionsDoc, AreRefusedInsideAnOperation) {
  for (const bool is_first : {true, false}) {
    Store store = open();
    u64& word = store.root<u64>("word");
    const auto body = [&](Transaction& tx) { tx.write(word, u64{1}); };
    if (!is_first) atomically(store, body);
    {
      const auto operation = store.operation();
      expect_error([&] { atomically(store, body); }, Code::kMisuse, "inside an operation");
    }
    atomically(store, body);
  }
}

TEST_P(TransactionsDoc, AreRefusedInChunksAndWithAliases) {
  Options chunks = options();
  chunks.engine = Engine::kRemap;
  Options aliases = options();
  aliases.aliases = 2;
  for (const Options& chosen : {chunks, aliases}) {
    std::filesystem::remove(path());
    Store store = open(chosen);
    u64& word = store.root<u64>("word");
    expect_error([&] { atomically(store, [&](Transaction& tx) { tx.write(word, u64{1}); }); },
                 Code::kUnsupported, "transactions need");
    EXPECT_EQ(word, 0u);
  }
}

TEST_P(TransactionsDoc, MakeNoFlexibleObjects) {
  Store store = open();
  const auto make = [&](Transaction&) { store.allocate_flexible(TypeRecord<DocNode>::value, 64); };
  expect_error([&] { atomically(store, make); }, Code::kMisuse, "outside of transactions");
  EXPECT_TRUE(store.audit().clean);
}

// Of a container that the body has not made; its own code must not throw.
TEST_P(TransactionsDoc, EndTheProgramWhereAContainerMustNotThrow) {
  EXPECT_DEATH(
      {
        Store store = open();
        auto& numbers = store.root<vector<u64>>("numbers");
        numbers.assign(1000, 7);
        atomically(store, [&](Transaction&) {
          numbers.clear();
          numbers.shrink_to_fit();
          vector<u64>(Allocator<u64>(store)).swap(numbers);
        });
      },
      "destroy it with tx.destroy");
}

TEST_P(TransactionsDoc, EndTheProgramWhereWhatTheyThrowHoldsWhatTheyUndo) {
  EXPECT_DEATH(
      {
        Store store = open();
        try {
          atomically(store, [&](Transaction&) {
            throw string("a text that no small string holds", Allocator<char>(store));
          });
        } catch (const string&) {
        }
      },
      "freed before");
}

TEST_P(TransactionsDoc, LargerThanASegmentAreUndone) {
  constexpr u64 kWords = 8192;  // 64 KiB
  Store store = open();
  auto& words = store.root<std::array<u64, kWords>>("words");
  const auto fill = [&](Transaction& tx, u64 value) {
    for (u64& word : words) tx.write(word, value);
  };
  expect_error([&] { atomically(store, [&](Transaction& tx) { fill(tx, 1); }); }, Code::kNoSpace,
               "log_segment_bytes");
  EXPECT_EQ(std::ranges::count(words, 0u), kWords);
  // One that cannot be undone is durable as part of a version.
  const u64 version = store.durable_version();
  atomically(store, [&](Transaction& tx) {
    tx.irrevocable();
    fill(tx, 2);
  });
  EXPECT_GT(store.durable_version(), version);
  after_crash([=](Store& then) {
    EXPECT_EQ(std::ranges::count(then.root<std::array<u64, kWords>>("words"), 2u), kWords);
  });
}

// --- checkpoints that they take ------------------------------------------------------------------

TEST_P(TransactionsDoc, TakeACheckpointFirstAndForEachType) {
  Store store = open();
  u64& word = store.root<u64>("word");
  const auto versions_of = [&](const std::function<void(Transaction&)>& body) {
    const u64 before = store.durable_version();
    atomically(store, body);
    return store.durable_version() - before;
  };
  const auto write = [&](Transaction& tx) { tx.write(word, u64{1}); };
  const auto make = [](Transaction& tx) { tx.make<DocNode>(); };
  EXPECT_GT(versions_of(write), 0u);
  EXPECT_EQ(versions_of(write), 0u);
  EXPECT_GT(versions_of(make), 0u);
  EXPECT_EQ(versions_of(make), 0u);
  after_crash([](Store& then) { EXPECT_EQ(then.root<u64>("word"), 1u); });
}

TEST_P(TransactionsDoc, AreAVersionAfterRecovery) {
  Store store = open();
  u64& word = store.root<u64>("word");
  for (u64 i = 1; i <= 3; ++i) atomically(store, [&](Transaction& tx) { tx.write(word, i); });
  after_crash([before = store.durable_version()](Store& then) {
    EXPECT_EQ(then.root<u64>("word"), 3u);
    EXPECT_GT(then.durable_version(), before);
  });
}

// --- who runs alone, and who begins again --------------------------------------------------------

// Somebody else commits what it has read, each time before it commits itself.
TEST_P(TransactionsDoc, RunAloneWhenTheyHaveBegunAgain32Times) {
  Store store = open();
  auto& words = store.root<std::array<u64, 64>>("words");
  std::atomic<u64> runs{0};
  std::atomic<u64> others{0};
  std::atomic<u64> wanted{0};
  std::atomic<bool> may_leave{false};
  std::atomic<pid_t> id{0};
  std::thread other([&] {
    id = ::gettid();
    for (u64 i = 1; i <= 33; ++i) {
      wanted.wait(i - 1);
      atomically(store, [&](Transaction& tx) { tx.write(words[0], i); });
      others = i;
    }
    may_leave.wait(false);  // asleep, whatever came before
  });
  u64 others_when_alone = 0;
  atomically(store, [&](Transaction& tx) {
    ++runs;
    tx.write(words[32], tx.read(words[0]));
    ++wanted;
    wanted.notify_all();
    if (runs <= 32) {
      while (others < runs) std::this_thread::yield();
    } else {
      await_asleep(id);  // it waits for this one to end
      others_when_alone = others;
    }
  });
  may_leave = true;
  may_leave.notify_all();
  other.join();
  EXPECT_EQ(runs, 33u);
  EXPECT_EQ(others_when_alone, 32u);
  EXPECT_EQ(others, 33u);
  EXPECT_EQ(words[32], 32u);
}

// The block is another's by then, which is stored to as new objects are.
TEST_P(TransactionsDoc, FindThatABlockIsGone) {
  struct Node {
    u64 key;
    u64 rest[7];
  };
  Store store = open();
  auto& place = store.root<Node*>("place");
  atomically(store, [&](Transaction& tx) { tx.write(place, tx.make<Node>(Node{5, {}})); });
  Node* const node = place;
  u64 runs = 0;
  u64 key = 0;
  atomically(store, [&](Transaction& tx) {
    Node* const found = tx.read(place);
    if (++runs == 1)
      std::thread([&] {
        atomically(store, [&](Transaction& gone) {
          gone.destroy(gone.read(place));
          gone.write(place, static_cast<Node*>(nullptr));
        });
        // Others may get it from now on, and store to it without a transaction.
        const auto operation = store.operation();
        operation.touch(node, sizeof *node);
        node->key = 99;
      }).join();
    key = found == nullptr ? 0 : tx.read(found->key);
  });
  EXPECT_EQ(key, 0u) << "it has read a block that was given back";
  EXPECT_EQ(runs, 2u);
}

struct Counted {
  static inline int destroyed = 0;
  explicit Counted(Store& store)
      : text("a text that no string keeps in itself, as it is so long", Allocator<char>(store)) {}
  ~Counted() { ++destroyed; }
  string text;
};

TEST_P(TransactionsDoc, RunNoDestructorOfWhatIsUndone) {
  Store store = open();
  atomically(store, [](Transaction& tx) { tx.allocate(8); });
  Counted::destroyed = 0;
  const u64 blocks = store.audit().live_blocks;
  const auto body = [&](Transaction& tx) {
    tx.make<Counted>(store);
    store.allocate(1000);
    throw std::runtime_error("no");
  };
  EXPECT_THROW(atomically(store, body), std::runtime_error);
  EXPECT_EQ(Counted::destroyed, 0);
  EXPECT_EQ(store.audit().live_blocks, blocks);
  Counted* const made = atomically(store, [&](Transaction& tx) { return tx.make<Counted>(store); });
  EXPECT_THROW(atomically(store,
                          [&](Transaction& tx) {
                            tx.destroy(made);
                            throw std::runtime_error("no");
                          }),
               std::runtime_error);
  EXPECT_EQ(Counted::destroyed, 0);
  atomically(store, [&](Transaction& tx) {
    tx.destroy(made);
    EXPECT_EQ(Counted::destroyed, 0) << "not before the commit";
    EXPECT_EQ(made->text.size(), 55u);
  });
  EXPECT_EQ(Counted::destroyed, 1);
  EXPECT_EQ(store.audit().live_blocks, blocks);
}

// --- barriers ------------------------------------------------------------------------------------

TEST_P(TransactionsDoc, TakeAsManyBarriersAsTheirWaySays) {
  constexpr u64 kWords = 16;
  constexpr u64 kRecordWords = kWords + 1;  // they follow each other: one more says where
  Store store = open();
  struct alignas(64) Words {
    u64 all[kWords];
  };
  auto& words = store.root<Words>("words");
  const auto barriers_of = [&](Durability durability) {
    set_durability(store, durability);
    const auto write = [&](Transaction& tx) {
      for (u64& word : words.all) tx.write(word, tx.read(word) + 1);
    };
    atomically(store, write);  // which may take a segment
    const u64 before = watch_.barriers;
    atomically(store, write);
    return watch_.barriers - before;
  };
  EXPECT_EQ(barriers_of(Durability::kNonTemporal), 1u);
  EXPECT_EQ(barriers_of(Durability::kNone), 0u);
  if (on_disk()) {
    EXPECT_EQ(barriers_of(Durability::kLazyBulk), 1u);
    EXPECT_EQ(barriers_of(Durability::kPerWrite), 1u);
  } else {
    EXPECT_EQ(barriers_of(Durability::kRelaxed), 1u);
    EXPECT_EQ(barriers_of(Durability::kLazyBulk), 2u);
    EXPECT_GE(barriers_of(Durability::kPerWrite), kRecordWords + 1);
  }
}

TEST_P(TransactionsDoc, ThatReadWaitForWhatTheyHaveRead) {
  if (!on_disk()) GTEST_SKIP() << "there a commit is durable before others see it";
  Store store = open();
  u64& word = store.root<u64>("word");
  atomically(store, [&](Transaction& tx) { tx.write(word, u64{1}); });
  hold_barriers();
  std::thread writer([&] { atomically(store, [&](Transaction& tx) { tx.write(word, u64{2}); }); });
  while (watch_.waiting == 0) std::this_thread::yield();
  std::atomic<pid_t> id{0};
  std::atomic<u64> read{0};
  std::thread reader([&] {
    id = ::gettid();
    read = atomically(store, [&](Transaction& tx) { return tx.read(word); });
    watch_.shut.wait(true);
  });
  while (id == 0) std::this_thread::yield();
  await_asleep(id);
  EXPECT_EQ(read, 0u) << "it has returned what a crash takes back";
  let_barriers_go();
  reader.join();
  writer.join();
  EXPECT_EQ(read, 2u);
}

// One that links what an operation has made has no record: a version makes it durable, on any
// medium.
TEST_P(TransactionsDoc, ThatReadWaitForTheVersionOfWhatTheyHaveRead) {
  struct List {
    DocNode* head;
    u64 count;
  };
  Store store = open();
  auto& list = store.root<List>("list");
  atomically(store, [&](Transaction& tx) { tx.write(list.count, u64{1}); });
  auto* const node = store.make<DocNode>();
  hold_barriers();
  std::thread writer([&] {
    atomically(store, [&](Transaction& tx) {
      tx.irrevocable();
      tx.write(list.head, node);
      tx.write(list.count, u64{2});
    });
  });
  while (std::atomic_ref(list.count) != 2) std::this_thread::yield();
  std::atomic<pid_t> id{0};
  std::atomic<u64> read{0};
  std::thread reader([&] {
    id = ::gettid();
    read = atomically(store, [&](Transaction& tx) { return tx.read(list.count); });
    watch_.shut.wait(true);
  });
  while (id == 0) std::this_thread::yield();
  await_asleep(id);
  EXPECT_EQ(read, 0u) << "it has returned what a crash takes back";
  let_barriers_go();
  reader.join();
  writer.join();
  EXPECT_EQ(read, 2u);
  after_crash([](Store& then) { EXPECT_EQ(then.root<List>("list").count, 2u); });
}

TEST_P(TransactionsDoc, ThatAreNotLoggedAreDurableWithAnyVersion) {
  Store store = open();
  u64& word = store.root<u64>("word");
  set_durability(store, Durability::kNone);
  const auto commit = [&] {
    atomically(store, [&](Transaction& tx) { tx.write(word, tx.read(word) + 1); });
    EXPECT_LT(durable_commit(store), last_commit(store));
  };
  for (int i = 0; i < 10; ++i) commit();
  store.checkpoint();
  EXPECT_EQ(durable_commit(store), last_commit(store));
  commit();
  store.wait(store.checkpoint_async());
  EXPECT_EQ(durable_commit(store), last_commit(store));
  commit();
  watch_.refused = true;
  EXPECT_THROW(store.checkpoint(), Error);
  EXPECT_LT(durable_commit(store), last_commit(store));
}

// Those without a record as well.
TEST_P(TransactionsDoc, AreNumberedOnInTheNextSession) {
  u64 before = 0;
  const auto commit = [&](Store& store, bool links) {
    DocNode* const node = links ? store.make<DocNode>() : nullptr;
    auto*& root = store.root<DocNode*>("node");
    atomically(store, [&](Transaction& tx) {
      if (links) tx.irrevocable();
      tx.write(root, node);
    });
    EXPECT_GT(last_commit(store), before);
    before = last_commit(store);
  };
  for (const Durability durability :
       {Durability::kNone, Durability::kNonTemporal, Durability::kNone}) {
    Store store = open();
    set_durability(store, durability);
    for (int i = 0; i < 5; ++i) commit(store, i % 2 == 1);
    commit(store, durability != Durability::kNone);
    store.close();
  }
}

TEST_P(TransactionsDoc, ThatAreRelaxedWaitForNothing) {
  if (!on_disk()) GTEST_SKIP() << "there they are not";
  Store store = open();
  u64& word = store.root<u64>("word");
  set_durability(store, Durability::kRelaxed);
  atomically(store, [&](Transaction& tx) { tx.write(word, u64{1}); });
  wait_for_commit(store, last_commit(store));
  hold_barriers();
  for (u64 i = 2; i <= 50; ++i) atomically(store, [&](Transaction& tx) { tx.write(word, i); });
  EXPECT_EQ(word, 50u);
  EXPECT_LT(durable_commit(store), last_commit(store));
  let_barriers_go();
  wait_for_commit(store, last_commit(store));
  after_crash([](Store& then) { EXPECT_EQ(then.root<u64>("word"), 50u); });
}

TEST_P(TransactionsDoc, EndWithAFailedBarrierUntilTheStoreIsOpenedAgain) {
  u64 told = 0;
  {
    Store store = open();
    u64& word = store.root<u64>("word");
    const auto pay = [&] {
      atomically(store, [&](Transaction& tx) { tx.write(word, tx.read(word) + 1); });
      ++told;
    };
    pay();
    watch_.refused = true;
    EXPECT_THROW(pay(), Error);
    watch_.refused = false;
    for (int i = 0; i < 3; ++i) {
      EXPECT_THROW(pay(), Error);
      EXPECT_THROW(store.checkpoint(), Error);
    }
    EXPECT_THROW(store.close(), Error);
  }
  watch_.too_late = false;
  Store store = open();
  const u64 found = store.root<u64>("word");
  EXPECT_TRUE(found == told || found == told + 1) << found << " of " << told;
  atomically(store, [&](Transaction& tx) { tx.write(store.root<u64>("word"), u64{100}); });
  after_crash([](Store& then) { EXPECT_EQ(then.root<u64>("word"), 100u); });
}

// --- damage --------------------------------------------------------------------------------------

/// Flips a bit of each copy of a word.
void damage(const std::string& path, u64 word) {
  FileBytes bytes = read_file(path);
  u64 found = 0;
  for (size_t at = 0; at + sizeof word <= bytes.size(); at += sizeof word)
    if (std::memcmp(&bytes[at], &word, sizeof word) == 0) {
      bytes[at] ^= std::byte{1};
      ++found;
    }
  ASSERT_EQ(found, 1u) << "in the record alone";
  write_file(path, bytes);
}

TEST_P(TransactionsDoc, DamageIsFoundWhereLaterRecordsFollow) {
  constexpr u64 kMark = 0x1234'5678'9abc'def0;
  constexpr u64 kCount = 9;
  const std::string image = path("image");
  {
    Store store = open();
    u64& word = store.root<u64>("word");
    atomically(store, [&](Transaction& tx) { tx.write(word, u64{1}); });
    store.checkpoint();
    for (u64 i = 0; i < kCount; ++i)
      atomically(store, [&](Transaction& tx) { tx.write(word, kMark + i); });
    std::filesystem::copy_file(path(), image);
  }
  for (const u64 damaged : {kCount - 1, kCount / 2}) {
    const std::string copy = path("damaged " + std::to_string(damaged));
    std::filesystem::copy_file(image, copy);
    ASSERT_NO_FATAL_FAILURE(damage(copy, kMark + damaged));
    const auto reopen = [&] { return Store::open(GetParam() + ":" + copy, options()); };
    const auto report = value_or_throw(store::check(GetParam() + ":" + copy, {}));
    EXPECT_EQ(report.damaged(), damaged != kCount - 1);
    for (const store::Finding& finding : report.findings)
      if (finding.severity == store::Finding::Severity::kDamage) {
        EXPECT_EQ(finding.part, "log");
      }
    if (damaged == kCount - 1) EXPECT_EQ(reopen().root<u64>("word"), kMark + damaged - 1);
    else expect_error(reopen, Code::kCorrupt, "offset");
  }
}

TEST_P(TransactionsDoc, CheckNotesADamagedBeginningOfTheirSegment) {
  const std::string image = path("image");
  {
    Store store = open();
    u64& word = store.root<u64>("word");
    store.checkpoint();
    for (u64 i = 1; i <= 100; ++i) atomically(store, [&](Transaction& tx) { tx.write(word, i); });
    std::filesystem::copy_file(path(), image);
  }
  const std::string uri = GetParam() + ":" + image;
  EXPECT_TRUE(value_or_throw(store::check(uri, {})).findings.empty());
  std::vector<u64> beginnings;
  {
    auto medium = value_or_throw(media::open_medium(uri, {.create = false, .read_only = true}));
    const auto volume = value_or_throw(store::open_volume_to_read(std::move(medium.medium)));
    for (const format::Extent& each : volume->extents(format::ExtentKind::kLog))
      for (u64 at = 0; at < each.length; at += volume->segment_bytes()) {
        AlignedBuffer page(kPageBytes);
        value_or_throw(volume->medium().read(each.medium_offset + at, page.span()));
        format::LogBlockHeader header;
        std::memcpy(&header, page.data(), sizeof header);
        if (header.magic == format::kLogBlockMagic &&
            (header.flags & format::kLogTransactions) != 0)
          beginnings.push_back(each.medium_offset + at);
      }
  }
  ASSERT_FALSE(beginnings.empty());
  for (const u64 place : beginnings) flip_bit(image, place + 48, 2);
  const auto report = value_or_throw(store::check(uri, {}));
  EXPECT_FALSE(report.damaged());
  ASSERT_EQ(report.findings.size(), beginnings.size());
  EXPECT_NE(report.findings[0].message.find("none of them is read (medium offset " +
                                            std::to_string(beginnings[0])),
            std::string::npos)
      << report.findings[0].message;
}

// --- in C ----------------------------------------------------------------------------------------

TEST(TransactionsInC, EndTheProgramWithASentenceWhereTheyCannotGoOn) {
  const TempDir folder(TempDir::kMemory);
  ::setenv("PERDURA_STORE", ("emu:" + folder.path("heap.pd")).c_str(), 1);
  u64 outside = 0;
  const auto store_outside = [&] {
    (void)pos_create("heap");
    TM_START
    TM_STORE(&outside, 1);
    TM_COMMIT
  };
  EXPECT_DEATH(store_outside(), "a transaction cannot go on: a word lies in no store");
}

}  // namespace
}  // namespace perdura::test
