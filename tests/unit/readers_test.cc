// Goal: a store can be read while another process writes to it: each reader sees one version, whole
// and unchanged for as long as it has it open, and keeps nobody from anything; what it keeps on the
// medium is given back when it has gone, however it went.
// Method: a process that writes steps from whose number the whole content follows; readers in this
// process and in others compare all of it, at each stage of the writer's life; processes are
// killed.
#include <gtest/gtest.h>

#include <sys/mman.h>
#include <sys/stat.h>

#include <functional>
#include <random>
#include <string_view>
#include <thread>

#include <perdura/container.hpp>
#include <perdura/transaction.hpp>

#include "media/decorator.hpp"
#include "media/fault.hpp"
#include "store/inspect.hpp"
#include "store/pinned.hpp"
#include "store/versions.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/reader_steps.hpp"
#include "support/slice.hpp"
#include "support/somebody_else.hpp"
#include "support/version_parts.hpp"
#include "support/wrapped_store.hpp"

namespace perdura::test {
namespace {

struct Config {
  const char* name;
  const char* scheme;
  Engine engine;
  Tracking tracking;
  u32 aliases = 0;
};

constexpr Config kConfigs[] = {
    {"file_log", "file:", Engine::kRedoLog, Tracking::kAutomatic},
    {"file_log_reported", "file:", Engine::kRedoLog, Tracking::kReported},
    {"emu_log", "emu:", Engine::kRedoLog, Tracking::kReported},
    {"emu_log_pages", "emu:", Engine::kRedoLog, Tracking::kAutomatic},
    {"file_log_aliases", "file:", Engine::kRedoLog, Tracking::kAutomatic, 4},
    {"file_chunks", "file:", Engine::kRemap, Tracking::kAutomatic},
    {"emu_chunks", "emu:", Engine::kRemap, Tracking::kAutomatic},
};

std::string name_of_config(const testing::TestParamInfo<Config>& info) { return info.param.name; }

class Readers : public testing::TestWithParam<Config> {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ThreadSanitizer ends children that start threads where their parent had some";
#endif
  }
  Options options() const {
    Options options;
    options.region_limit_bytes = 8 * kMiB;
    options.engine = GetParam().engine;
    options.tracking = GetParam().tracking;
    options.log_limit_bytes = 2 * kMiB;
    options.chunk_bytes = 16 * 1024;
    options.aliases = GetParam().aliases;
    return options;
  }
  Options to_read() const {
    Options chosen = options();
    chosen.read_only = true;
    return chosen;
  }
  std::string path() const { return folder_.path("store.pd"); }
  std::string uri() const { return GetParam().scheme + path(); }
  bool has_log() const { return GetParam().engine == Engine::kRedoLog; }
  Store open() const { return Store::open(uri(), to_read()); }

  std::string problem_of_container() const;

  static std::string problem_of(Store& store, u64 step) {
    const Steps steps(store);
    if (!steps.is_made()) return "it has no words";
    if (steps.step() != step)
      return "it is at step " + std::to_string(steps.step()) + ", not " + std::to_string(step);
    return steps.problem(step);
  }

  const TempDir folder_{TempDir::kMemory};
};

TEST_P(Readers, SeeWhatWasDurableAndKeepIt) {
  WriterProcess writer(uri(), options());
  const auto begun = writer.take(10);
  ASSERT_EQ(begun.step, 10u);
  EXPECT_EQ(begun.pinned, 0u);
  ReaderProcess first(uri(), options());
  EXPECT_EQ(first.version(), begun.version);
  EXPECT_EQ(first.step(), 10u);
  EXPECT_EQ(first.look(), "");
  const auto later = writer.take(200);
  EXPECT_EQ(later.pinned, first.version());
  if (has_log()) {
    EXPECT_LE(later.replayed, first.version());
  }
  EXPECT_EQ(first.look(), "");
  ReaderProcess second(uri(), options());
  EXPECT_EQ(second.step(), 210u);
  EXPECT_EQ(first.close(), "");
  const auto after = writer.take(1);
  EXPECT_EQ(after.pinned, second.version());
  EXPECT_EQ(second.look(), "");
  EXPECT_EQ(second.close(), "");
  EXPECT_EQ(writer.take(1).pinned, 0u);
  EXPECT_EQ(writer.close(), "");
  Store last = open();
  EXPECT_EQ(problem_of(last, 212), "");
}

// Parts of it are first touched when all of these versions have been made.
TEST_P(Readers, StayAtTheirVersionWhileTenThousandAreMade) {
  constexpr u64 kSteps = 10'000 / kSlower;
  WriterProcess writer(uri(), options());
  ASSERT_EQ(writer.take(20).step, 20u);
  ReaderProcess looked_at(uri(), options());
  Store untouched = open();
  writer.order(kSteps);
  for (int i = 0; i < 20; ++i) ASSERT_EQ(looked_at.look(), "");
  const auto after = writer.wait();
  ASSERT_EQ(after.step, 20 + kSteps);
  EXPECT_EQ(looked_at.look(), "");
  EXPECT_EQ(problem_of(untouched, 20), "");
  ReaderProcess newest(uri(), options());
  EXPECT_EQ(newest.step(), 20 + kSteps);
  EXPECT_EQ(newest.look(), "");
  EXPECT_EQ(looked_at.close(), "");
  EXPECT_EQ(newest.close(), "");
  untouched.close();
  // What they kept comes home with the next versions.
  const auto at_last = writer.take(3);
  EXPECT_EQ(at_last.pinned, 0u);
  if (has_log()) {
    EXPECT_LE(at_last.live_log_bytes, 2 * kMiB);
  }
  EXPECT_EQ(writer.close(), "");
  const auto checked = value_or_throw(store::check(uri(), {}));
  EXPECT_FALSE(checked.damaged()) << checked.findings.at(0).message;
}

TEST_P(Readers, TenAtOnce) {
  WriterProcess writer(uri(), options());
  ASSERT_EQ(writer.take(5).step, 5u);
  std::vector<std::unique_ptr<Child>> readers;
  writer.order(2000 / kSlower);
  for (int i = 0; i < 10; ++i)
    readers.push_back(std::make_unique<Child>([this]() -> std::string {
      for (int round = 0; round < 5; ++round) {
        Store store = open();
        const Steps steps(store);
        const u64 step = steps.step();
        for (int look = 0; look < 5; ++look)
          if (std::string problem = problem_of(store, step); !problem.empty()) return problem;
        store.close();
      }
      return "";
    }));
  for (auto& reader : readers) EXPECT_EQ(reader->wait(), "");
  EXPECT_EQ(writer.wait().step, 5 + 2000 / kSlower);
  EXPECT_EQ(writer.close(), "");
}

TEST_P(Readers, ThatAreKilledLeaveNothingBehind) {
  WriterProcess writer(uri(), options());
  ASSERT_EQ(writer.take(5).step, 5u);
  ReaderProcess reader(uri(), options());
  EXPECT_EQ(writer.take(5).pinned, reader.version());
  EXPECT_EQ(reader.kill(), "");
  EXPECT_EQ(writer.take(2).pinned, 0u);
  EXPECT_EQ(writer.close(), "");
}

// The next writer finds more in the log than it may bring home, and chunks of which no record tells
// any more.
TEST_P(Readers, StayRightWhenTheWriterIsKilledAndTheNextOneGoesOn) {
  auto writer = std::make_unique<WriterProcess>(uri(), options());
  ASSERT_EQ(writer->take(10).step, 10u);
  ReaderProcess reader(uri(), options());
  Store untouched = open();
  u64 step = 10;
  for (u64 i = 0; i < 5; ++i) {
    step = writer->take(100).step;
    EXPECT_EQ(writer->kill(), "");
    writer = std::make_unique<WriterProcess>(uri(), options());
    ReaderProcess beside(uri(), options());
    EXPECT_EQ(beside.step(), step);
    EXPECT_EQ(beside.look(), "");
    const auto now = writer->take(1 + 50 * i);
    step = now.step;
    EXPECT_EQ(now.pinned, reader.version());
    EXPECT_EQ(reader.look(), "");
    EXPECT_EQ(beside.close(), "");
  }
  ASSERT_EQ(step, 10u + 5 * 101 + 50 * 10);
  EXPECT_EQ(problem_of(untouched, 10), "");
  // Also what was closed in order has more in its log than is home.
  EXPECT_EQ(writer->close(), "");
  ReaderProcess last(uri(), options());
  EXPECT_EQ(last.step(), step);
  EXPECT_EQ(last.look(), "");
  EXPECT_EQ(last.close(), "");
  EXPECT_EQ(reader.close(), "");
  untouched.close();
  writer = std::make_unique<WriterProcess>(uri(), options());
  EXPECT_EQ(writer->take(10).step, step + 10);
  EXPECT_EQ(writer->close(), "");
  const auto checked = value_or_throw(store::check(uri(), {}));
  EXPECT_FALSE(checked.damaged()) << checked.findings.at(0).message;
}

TEST_P(Readers, AreNotHeldUpByAStoreThatGrows) {
  Options chosen = options();
  chosen.region_limit_bytes = 64 * kMiB;
  {
    Store::open(uri(), chosen).close();
  }
  Child writer([&]() -> std::string {
    Store store = Store::open(uri(), chosen);
    void* last = nullptr;
    for (u64 number = 0; number < 200; ++number) {
      {
        const auto operation = store.operation();
        auto* const next = static_cast<void**>(store.allocate(200'000));
        store.touch(next, 2 * sizeof(void*));
        next[0] = last;
        next[1] = reinterpret_cast<void*>(number);
        last = next;
        store.set_root("last", last);
      }
      store.checkpoint();
    }
    store.close();
    return "";
  });
  for (int round = 0; round < 40; ++round) {
    chosen.read_only = true;
    Store store = Store::open(uri(), chosen);
    const auto* const* at = static_cast<const void* const*>(store.get_root("last"));
    if (at == nullptr) continue;
    for (u64 left = reinterpret_cast<u64>(at[1]);; --left) {
      ASSERT_EQ(reinterpret_cast<u64>(at[1]), left);
      at = static_cast<const void* const*>(at[0]);
      if (left == 0) break;
      ASSERT_NE(at, nullptr);
    }
    ASSERT_EQ(at, nullptr);
    ASSERT_TRUE(store.audit().clean) << store.audit().problem;
  }
  EXPECT_EQ(writer.wait(), "");
}

// Whose superblock was read before, and whose directory after it: it was replaced twice since.
class ComingWriter final : public media::Decorator {
 public:
  ComingWriter(std::unique_ptr<Medium> inner, std::function<void()> comes)
      : Decorator(std::move(inner)), comes_(std::move(comes)) {}
  Status load(std::span<const media::ReadRequest> requests) override {
    if (requests.front().offset == format::kDirectoryOffset[0] ||
        requests.front().offset == format::kDirectoryOffset[1])
      if (const auto comes = std::exchange(comes_, nullptr)) comes();
    return inner().load(requests);
  }

 private:
  std::function<void()> comes_;
};

TEST(ReadersWhoAreFirst, FindTheDirectoryThatAWriterWhoHasJustComeReplaces) {
  const TempDir folder(TempDir::kMemory);
  const std::string uri = "file:" + folder.path("store.pd");
  Store::open(uri).close();
  std::optional<Store> writer;
  media::OpenedMedium opened =
      value_or_throw(media::open_medium(uri, {.create = false, .read_only = true}));
  const auto volume = value_or_throw(
      region::Volume::open_to_read(std::make_unique<ComingWriter>(std::move(opened.medium), [&] {
        writer.emplace(Store::open(uri));
        for (u64 i = 0; i < 3; ++i) {
          const auto operation = writer->operation();
          EXPECT_NE(writer->allocate(8 * kMiB), nullptr);
        }
        writer->checkpoint();
      })));
  ASSERT_TRUE(writer);
  EXPECT_FALSE(volume->regions().empty());
}

/// Beside a writer who has made something each time that somebody looks.
class RestlessWriter final : public media::Decorator {
 public:
  RestlessWriter(std::unique_ptr<Medium> inner, std::function<void()> writes)
      : Decorator(std::move(inner)), writes_(std::move(writes)) {}
  Status look_again() override {
    writes_();
    return inner().look_again();
  }

 private:
  const std::function<void()> writes_;
};

// What is pinned does not come home, so it takes space each time.
TEST_P(Readers, ComeToAnEndBesideAWriterWhoTakesSpaceWheneverTheyLook) {
  if (!has_log() || GetParam().aliases != 0) GTEST_SKIP() << "what is pinned of chunks is there";
  constexpr u64 kCount = 128 * 1024;
  WrappedStore writer(uri(), options());
  u64 value = 0;
  const auto write = [&] {
    {
      const auto operation = writer.operation();
      auto* words = static_cast<u64*>(writer.get_root("words"));
      if (words == nullptr) {
        words = static_cast<u64*>(operation.allocate(kCount * sizeof(u64)));
        operation.set_root("words", words);
      }
      operation.touch(words, kCount * sizeof(u64));
      std::fill_n(words, kCount, ++value);
    }
    writer.checkpoint();
  };
  write();
  u64 looks = 0;
  const u64 before = writer.durable_version();
  auto medium = value_or_throw(media::open_medium(uri(), {.create = false, .read_only = true}));
  const auto volume = value_or_throw(
      region::Volume::open_to_read(std::make_unique<RestlessWriter>(std::move(medium.medium), [&] {
        if (++looks < 100) write();
      })));
  const auto pinned = value_or_throw(store::pin_log(*volume, volume->regions().at(0)));
  EXPECT_LT(looks, 20u);
  EXPECT_GE(pinned.log.durable_version, before);
}

TEST_P(Readers, MayLookWithTheCommands) {
  WriterProcess writer(uri(), options());
  ASSERT_EQ(writer.take(5).step, 5u);
  writer.order(3000 / kSlower);
  u64 before = 0;
  for (int i = 0; i < 20; ++i) {
    const auto described = value_or_throw(store::describe(uri(), {}));
    const store::RegionDescription& region = described.regions.at(0);
    EXPECT_GE(region.durable_version, before);
    before = region.durable_version;
    ASSERT_TRUE(region.heap);
    EXPECT_TRUE(region.heap->clean) << region.heap->problem;
    const auto report = value_or_throw(store::check(uri(), {}));
    EXPECT_TRUE(report.findings.empty()) << report.findings.at(0).message;
  }
  EXPECT_EQ(writer.wait().step, 5 + 3000 / kSlower);
  EXPECT_EQ(writer.close(), "");
}

// While the writer is about it a copy of its record does not fit, which says nothing of the medium.
TEST_P(Readers, SayNothingOfARecordThatIsBeingWritten) {
  if (has_log()) GTEST_SKIP() << "a log has no such records";
  WriterProcess writer(uri(), options());
  const auto taken = writer.take(5);
  {
    auto opened = value_or_throw(media::open_medium(uri(), {.create = false, .read_only = true}));
    const auto volume = value_or_throw(region::Volume::open_to_read(std::move(opened.medium)));
    flip_bit(path(), find_parts(*volume).at(taken.version).records[1] + 20, 3);
  }
  EXPECT_TRUE(value_or_throw(store::check(uri(), {})).findings.empty());
  EXPECT_EQ(writer.kill(), "");
  const auto report = value_or_throw(store::check(uri(), {}));
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_NE(report.findings[0].message.find("copy 2 of the record"), std::string::npos);
}

TEST_P(Readers, WriteNothing) {
  {
    WriterProcess writer(uri(), options());
    ASSERT_EQ(writer.take(30).step, 30u);
    EXPECT_EQ(writer.kill(), "");
  }
  const FileBytes before = read_file(path());
  {
    Store store = open();
    Steps steps(store);
    EXPECT_EQ(problem_of(store, 30), "");
    steps.take();  // in memory alone
    expect_error([&] { store.checkpoint(); }, Code::kUnsupported,
                 "is open at version 31 to be read; open it to write");
    if (has_log()) {
      u64 word = 0;
      expect_error([&] { atomically(store, [&](Transaction& tx) { tx.write(word, u64{1}); }); },
                   Code::kUnsupported, "is open to be read");
      expect_error([&] { (void)store.allocate(6 * kMiB); }, Code::kUnsupported,
                   "is open to be read and gets no more space");
    }
    store.close();
  }
  EXPECT_EQ(read_file(path()), before);
  Store store = open();
  EXPECT_EQ(problem_of(store, 30), "");
}

TEST_P(Readers, NeedNoPermissionToWrite) {
  WriterProcess writer(uri(), options());
  ASSERT_EQ(writer.take(5).step, 5u);
  ASSERT_EQ(::chmod(path().c_str(), 0444), 0);
  ASSERT_EQ(::chmod(folder_.path("").c_str(), 0755), 0);
  EXPECT_EQ(in_child([this]() -> std::string {
              if (!become_somebody_else()) return "cannot become somebody else";
              Store store = open();
              return problem_of(store, 5);
            }),
            "");
  EXPECT_EQ(writer.close(), "");
}

TEST_P(Readers, OfNothingAreToldSo) {
  expect_error([this] { open(); }, Code::kNotFound, "cannot open the store");
  std::ofstream(path()).close();
  expect_error([this] { open(); }, Code::kNotFound, "holds no store: it is empty");
  Options chosen = options();
  {
    Store::open(uri(), chosen).close();
  }
  chosen.read_only = true;
  chosen.region = "another";
  expect_error([&] { Store::open(uri(), chosen); }, Code::kNotFound, "has no region 'another'");
  chosen.region = "";
  chosen.version = 7;
  expect_error([&] { Store::open(uri(), chosen); },
               has_log() ? Code::kUnsupported : Code::kNotFound,
               has_log() ? "keeps its newest version alone" : "does not keep version 7");
}

TEST_P(Readers, VerifyBeforeUseOrNotAtAll) {
  if (!has_log()) GTEST_SKIP() << "chunks are verified when they are loaded";
  {
    WriterProcess writer(uri(), options());
    ASSERT_EQ(writer.take(5).step, 5u);
    ASSERT_EQ(writer.close(), "");
  }
  const auto described = value_or_throw(store::describe(uri(), {}));
  const store::RegionDescription& region = described.regions.at(0);
  const u64 offset = region.roots.at(0).offset + 100 * kPageBytes;
  for (const format::Extent& extent : region.extents)
    if (offset - extent.region_offset < extent.length)
      flip_bit(path(), extent.medium_offset + (offset - extent.region_offset), 4);
  Options chosen = to_read();
  {
    Store store = Store::open(uri(), chosen);
    EXPECT_NE(problem_of(store, 5), "");
    EXPECT_EQ(store.statistics().verified_bytes, 0u);
    EXPECT_TRUE(store.damaged_pages().empty());
  }
  chosen.verify = Verify::kBeforeUse;
  chosen.lazy_recovery = false;
  expect_error([&] { Store::open(uri(), chosen); }, Code::kCorrupt, "does not fit its checksum");
}

// Each page tracker that watches new memory here may be the writer's; a reader's memory is not new.
TEST_P(Readers, WhoseTrackerCannotWatchTheirMemoryHaveAnother) {
  if (GetParam().aliases != 0) GTEST_SKIP() << "theirs is new";
  for (const Tracking tracking : {Tracking::kUserfault, Tracking::kSigbus, Tracking::kProtect})
    for (const TempDir::Where where : {TempDir::kDisk, TempDir::kMemory}) {
      SCOPED_TRACE(static_cast<int>(tracking));
      const TempDir folder(where);
      const std::string uri = GetParam().scheme + folder.path("store.pd");
      Options chosen = options();
      chosen.tracking = tracking;
      const bool supported = in_child([&]() -> std::string {
                               Store store = Store::open(uri, chosen);
                               Steps steps(store);
                               steps.make();
                               store.checkpoint();
                               store.close();
                               return "";
                             }).empty();
      if (!supported) continue;
      chosen.read_only = true;
      Store store = Store::open(uri, chosen);
      EXPECT_EQ(problem_of(store, 0), "");
    }
}

// A child that lives on has no part in it.
TEST_P(Readers, ThatForkTakeTheirPinWithThem) {
  WriterProcess writer(uri(), options());
  ASSERT_EQ(writer.take(5).step, 5u);
  auto store = std::make_unique<Store>(open());
  Child child([]() -> std::string {
    for (;;) ::pause();
  });
  EXPECT_NE(writer.take(1).pinned, 0u);
  store->close();
  store.reset();
  EXPECT_EQ(writer.take(1).pinned, 0u);
  EXPECT_EQ(writer.close(), "");
}

// One of the same process, at another address.
TEST_P(Readers, OfARegionThatTheirProcessWritesAreToldThatItsPlaceIsTaken) {
  Store store = Store::open(uri(), options());
  Steps steps(store);
  steps.make();
  store.checkpoint();
  expect_error([this] { open(); }, Code::kAddressTaken, "is taken");
  steps.take();
  store.checkpoint();
  EXPECT_EQ(store.statistics().pinned_version, 0u);
  store.close();
}

TEST_P(Readers, OfAnotherRegionAreBesideTheWriterInOneProcess) {
  Options chosen = options();
  for (const char* region : {"one", "two"}) {
    chosen.region = region;
    Store store = Store::open(uri(), chosen);
    Steps steps(store);
    steps.make();
    steps.take();
    store.checkpoint();
    store.close();
  }
  Store written = Store::open(uri(), chosen);
  chosen.region = "one";
  chosen.read_only = true;
  Store read = Store::open(uri(), chosen);
  Steps steps(written);
  for (int i = 0; i < 100; ++i) {
    steps.take();
    written.checkpoint();
  }
  EXPECT_EQ(problem_of(read, 1), "");
  EXPECT_EQ(written.statistics().pinned_version, 0u);  // of its own region
  EXPECT_EQ(problem_of(written, 101), "");
  written.close();
  expect_failure(store::remove_region(uri(), "one", {}), Code::kLocked, "is open to be read");
  EXPECT_EQ(problem_of(read, 1), "");
  EXPECT_TRUE(store::remove_region(uri(), "two", {}));
  expect_failure(media::remove_medium(uri()), Code::kLocked, "is open to be read");
  read.close();
  EXPECT_TRUE(store::remove_region(uri(), "one", {}));
  EXPECT_TRUE(media::remove_medium(uri()));
}

/// What the writer of transactions shares with its readers.
struct Told {
  static constexpr size_t kThreads = 3;
  std::array<std::atomic<u64>, kThreads> returned;  ///< transactions
  std::atomic<bool> ends;
};

struct Accounts {
  static constexpr size_t kCount = 64;
  std::array<std::int64_t, kCount> balances;
  std::array<u64, Told::kThreads> transactions;
};

/// Transfers between accounts, until all readers are done.
std::string transfer(const std::string& uri, const Options& options, Told& told) {
  Store store = Store::open(uri, options);
  auto& accounts = *static_cast<Accounts*>(store.get_root("accounts"));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < Told::kThreads; ++i)
    threads.emplace_back([&, i] {
      std::mt19937_64 random(i);
      while (!told.ends) {
        const size_t from = random() % Accounts::kCount;
        const size_t to = random() % Accounts::kCount;
        const auto amount = static_cast<std::int64_t>(random() % 100);
        atomically(store, [&](Transaction& tx) {
          tx.write(accounts.balances[from], tx.read(accounts.balances[from]) - amount);
          tx.write(accounts.balances[to], tx.read(accounts.balances[to]) + amount);
          tx.write(accounts.transactions[i], tx.read(accounts.transactions[i]) + 1);
        });
        ++told.returned[i];
        ::usleep(20);  // the log grows for each reader
      }
    });
  while (!told.ends) {
    store.checkpoint();
    ::usleep(2000);
  }
  for (std::thread& thread : threads) thread.join();
  store.close();
  return "";
}

TEST_P(Readers, SeeTransactionsWholeAndAllThatHaveReturned) {
  if (!has_log() || GetParam().aliases != 0) GTEST_SKIP() << "it has no transactions";
  {
    Store store = Store::open(uri(), options());
    {
      const auto operation = store.operation();
      void* const made = store.allocate(sizeof(Accounts));
      store.touch(made, sizeof(Accounts));
      store.set_root("accounts", new (made) Accounts{});
    }
    store.checkpoint();
    atomically(store, [](Transaction&) {});  // makes what transactions keep there
    store.close();
  }
  void* const memory =
      ::mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto& told = *new (memory) Told{};
  Child writer([&] { return transfer(uri(), options(), told); });
  while (told.returned[0] == 0) ::usleep(100);
  u64 in_log = 0;
  for (int round = 0; round < 50; ++round) {
    std::array<u64, Told::kThreads> before{};
    for (size_t i = 0; i < before.size(); ++i) before[i] = told.returned[i];
    Store store = open();
    const auto& accounts = *static_cast<const Accounts*>(store.get_root("accounts"));
    std::int64_t sum = 0;
    for (const std::int64_t balance : accounts.balances) sum += balance;
    EXPECT_EQ(sum, 0) << "in round " << round;
    for (size_t i = 0; i < before.size(); ++i)
      EXPECT_GE(accounts.transactions[i], before[i]) << "in round " << round;
    in_log += value_or_throw(store::outline(uri(), {})).regions.at(0).log->transactions;
  }
  told.ends = true;
  EXPECT_EQ(writer.wait(), "");
  EXPECT_GT(in_log, 0u);
  ::munmap(memory, sizeof(Told));
}

struct Node {
  Node* next;
  u64 number;
};

}  // namespace
}  // namespace perdura::test

PERDURA_TYPE(perdura::test::Node, next)

namespace perdura::test {
namespace {

std::string problem_of_list(Container& container, u64 numbers) {
  const Node* node = container.root<Node>().next;
  for (u64 number = numbers; number != 0; --number, node = node->next)
    if (node == nullptr || node->number != number) return "lacks number " + std::to_string(number);
  return node == nullptr ? "" : "has more than it should";
}

std::string Readers::problem_of_container() const {
  Options chosen = to_read();
  ToldProcess reader([&](ToldProcess::Ends ends) -> std::string {
    u64 order = 0;
    if (::read(ends.orders, &order, sizeof order) != sizeof order) return "has no order";
    Container container = Container::open(uri(), chosen);
    do {
      if (std::string problem = problem_of_list(container, 10); !problem.empty()) return problem;
      if (::write(ends.replies, &order, sizeof order) != sizeof order) return "cannot reply";
    } while (::read(ends.orders, &order, sizeof order) == sizeof order && order != 0);
    container.discard();
    return "";
  });
  Container written = Container::open(uri(), options());
  const auto add = [&](u64 number) {
    auto& root = written.root<Node>();
    Node* const node = make<Node>();
    node->number = number;
    node->next = root.next;
    root.next = node;
    written.point();
  };
  for (u64 number = 1; number <= 10; ++number) add(number);
  {
    Container here = Container::open(uri(), chosen);
    if (std::string problem = problem_of_list(here, 10); !problem.empty())
      return "here: " + problem;
    here.discard();
  }
  u64 reply = 0;
  reader.order(1);
  if (!reader.get(reply)) return "the reader: " + reader.wait();
  for (u64 number = 11; number <= 300; ++number) add(number);
  reader.order(1);
  if (!reader.get(reply)) return "the reader, later: " + reader.wait();
  reader.order(0);
  if (std::string problem = reader.wait(); !problem.empty()) return problem;
  if (std::string problem = problem_of_list(written, 300); !problem.empty()) return problem;
  written.close();
  return "";
}

// Also one that moves, since the writer of the same process has its place.
TEST_P(Readers, OfContainersAreReadersLikeOthers) {
  if (GetParam().aliases != 0 || GetParam().tracking == Tracking::kReported)
    GTEST_SKIP() << "containers have neither";
  // In a process that has used none yet, so that its children may as well.
  EXPECT_EQ(in_child([this] { return problem_of_container(); }), "");
}

/// A full disk, of which a reader keeps what the next versions need.
class FullDiskBesideReaders : public Readers {
 protected:
  static constexpr u64 kCount = 64 * 1024;
  static void fill(WrappedStore& store, u64 value) {
    const auto operation = store.operation();
    auto* const words = static_cast<u64*>(store.get_root("words"));
    operation.touch(words, kCount * sizeof(u64));
    std::fill_n(words, kCount, value);
  }
};

TEST_P(FullDiskBesideReaders, IsRoomAgainWhenTheyHaveGone) {
  // Forked while there are no threads yet, which AddressSanitizer wants.
  ToldProcess reader([&](ToldProcess::Ends ends) -> std::string {
    u64 order = 0;
    if (::read(ends.orders, &order, sizeof order) != sizeof order) return "not told";
    Store read = open();
    do {
      const auto* const words = static_cast<const u64*>(read.get_root("words"));
      for (u64 i = 0; i < kCount; ++i)
        if (words[i] != 1) return "word " + std::to_string(i) + " is " + std::to_string(words[i]);
      if (::write(ends.replies, &order, sizeof order) != sizeof order) return "cannot reply";
    } while (::read(ends.orders, &order, sizeof order) == sizeof order && order != 0);
    return "";
  });
  media::FaultPlan plan;
  const auto wrap = [&](std::unique_ptr<media::Medium> inner) {
    return plan.wrap(std::move(inner));
  };
  auto opened = std::make_unique<WrappedStore>(uri(), options(), wrap);
  WrappedStore& store = *opened;
  {
    const auto operation = store.operation();
    operation.set_root("words", operation.allocate(kCount * sizeof(u64)));
  }
  // The log takes all that its limit says, and chunks what their versions need.
  for (u64 value = 10; value != 0; --value) {
    fill(store, value);
    store.checkpoint();
  }
  u64 reply = 0;
  reader.order(1);
  ASSERT_TRUE(reader.get(reply)) << reader.wait();
  plan.arm({.calls = media::kFaultGrow, .kind = media::FaultKind::kNoSpace, .for_ever = true});
  u64 value = 1;
  bool is_full = false;
  while (!is_full && value < 1000) {
    fill(store, ++value);
    try {
      store.checkpoint();
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), Code::kNoSpace) << error.what();
      is_full = true;
    }
  }
  ASSERT_TRUE(is_full);
  reader.order(1);
  ASSERT_TRUE(reader.get(reply)) << reader.wait();
  reader.order(0);
  EXPECT_EQ(reader.wait(), "");
  for (int i = 0; i < 20; ++i) {
    fill(store, ++value);
    ASSERT_NO_THROW(store.checkpoint());
  }
  store.close();
  opened.reset();
  Store last = open();
  const auto* const words = static_cast<const u64*>(last.get_root("words"));
  for (u64 i = 0; i < kCount; ++i) ASSERT_EQ(words[i], value);
}

/// A reader comes each time that the home image is durable and the log is about to be given back.
class ReaderComes final : public media::Decorator {
 public:
  ReaderComes(std::unique_ptr<media::Medium> inner, std::function<void()> comes)
      : Decorator(std::move(inner)), comes_(std::move(comes)) {}
  Status barrier(const media::Site& site) override {
    const Status done = inner().barrier(site);
    if (std::string_view(site.what) == "home image") comes_();
    return done;
  }

 private:
  const std::function<void()> comes_;
};

// It has read an older superblock, and soon does not need the log any more. Nothing is left then
// that could come home, and give back what stayed for the reader.
TEST_P(FullDiskBesideReaders, IsRoomAgainWhereAllIsHome) {
  if (GetParam().scheme != std::string("emu:") || !has_log())
    GTEST_SKIP() << "versions come home at once on NVM alone";
  media::FaultPlan plan;
  std::unique_ptr<media::Medium> reader;
  const auto wrap = [&](std::unique_ptr<media::Medium> inner) {
    return std::make_unique<ReaderComes>(plan.wrap(std::move(inner)), [&] {
      reader = value_or_throw(media::open_medium(uri(), {.read_only = true})).medium;
      value_or_throw(reader->pin(1, 1));
    });
  };
  WrappedStore store(uri(), options(), wrap);
  {
    const auto operation = store.operation();
    operation.set_root("words", operation.allocate(kCount * sizeof(u64)));
  }
  const auto is_home = [&] {
    const Statistics now = store.statistics();
    return now.replayed_version == now.durable_version;
  };
  for (u64 value = 1; value <= 40; ++value) {
    while (!is_home()) std::this_thread::yield();
    reader.reset();
    fill(store, value);
    ASSERT_NO_THROW(store.checkpoint()) << value;
    if (value == 10)
      plan.arm({.calls = media::kFaultGrow, .kind = media::FaultKind::kNoSpace, .for_ever = true});
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, FullDiskBesideReaders, testing::ValuesIn(kConfigs),
                         name_of_config);
INSTANTIATE_TEST_SUITE_P(Stores, Readers, testing::ValuesIn(kConfigs), name_of_config);

}  // namespace
}  // namespace perdura::test
