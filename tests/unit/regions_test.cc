// Goal: each region of a store has a heap, versions and checkpoints of its own, whatever the others
// do, and in whichever order they are opened and closed. Method: two to sixteen regions with logs
// and in chunks, in one thread and in several, closed or killed, opened again and compared with
// what each had.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <latch>
#include <thread>
#include <utility>
#include <vector>

#include <perdura/perdura.hpp>

#include "model/container/container_runtime.hpp"
#include "store/inspect.hpp"
#include "store/versions.hpp"
#include "support/container_graph.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/memcached_server.hpp"
#include "support/wrapped_store.hpp"

namespace perdura::test {
namespace {

/// A store's medium, and the engines of its two regions.
struct Way {
  friend void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }
  const char* name;
  const char* scheme;  ///< "memcached" has a server
  Engine first;
  Engine second;
};

class Regions : public testing::TestWithParam<Way> {
 protected:
  Regions() {
    if (GetParam().scheme == std::string("memcached")) server_.emplace();
  }
  std::string uri() const {
    return server_ ? server_->uri("store")
                   : std::string(GetParam().scheme) + ":" + folder_.path("store.pd");
  }
  static Options options(const std::string& region) {
    Options options;
    options.region = region;
    options.region_limit_bytes = 64 * kMiB;
    options.log_segment_bytes = 32 * kKiB;
    options.log_limit_bytes = 128 * kKiB;
    options.chunk_bytes = 4096;
    options.engine = region == "second" ? GetParam().second : GetParam().first;
    return options;
  }
  WrappedStore open(const std::string& region) { return {uri(), options(region)}; }
  auto try_open(const std::string& region) { return detail::Runtime::open(uri(), options(region)); }

  /// Blocks of many sizes that hold `value`.
  static void fill(WrappedStore& store, u64 value) {
    const auto op = store.operation();
    auto* words = static_cast<u64*>(store.get_root("words"));
    if (words == nullptr) {
      words = static_cast<u64*>(op.allocate(kWords * sizeof(u64)));
      op.set_root("words", words);
    }
    op.touch(words, kWords * sizeof(u64));
    for (u64 i = 0; i < kWords; ++i) words[i] = value;
  }
  static void expect(WrappedStore& store, u64 value) {
    const auto* words = static_cast<const u64*>(store.get_root("words"));
    ASSERT_NE(words, nullptr);
    for (u64 i = 0; i < kWords; ++i) ASSERT_EQ(words[i], value) << i;
    const HeapAudit audit = store.audit();
    EXPECT_TRUE(audit.clean) << audit.problem;
  }
  void expect_whole() {
    const auto report = value_or_throw(store::check(uri(), {}));
    for (const store::Finding& finding : report.findings)
      EXPECT_NE(finding.severity, store::Finding::Severity::kDamage) << finding.message;
  }

  static constexpr u64 kWords = 40'000;
  const TempDir folder_;
  std::optional<MemcachedProcess> server_;
};

TEST_P(Regions, EachHasVersionsOfItsOwn) {
  for (const bool killed : {true, false}) {
    SCOPED_TRACE(killed);
    const u64 round = killed ? 0 : 100;
    {
      WrappedStore first = open("first");
      WrappedStore second = open("second");
      for (u64 i = 1; i <= 12; ++i) {
        fill(first, round + i);
        if (i % 2 == 0) first.checkpoint();
        fill(second, round + 1000 + i);
        if (i % 3 == 0) second.checkpoint();
      }
      EXPECT_NE(first.durable_version(), second.durable_version());
      fill(first, 77);  // no version has it
      if (killed) {
        first.crash();
        fill(second, 5000);
        second.checkpoint();  // goes on
        second.crash();
      } else {
        second.close();
        fill(first, 78);
        first.close();
      }
    }
    expect_whole();
    WrappedStore second = open("second");
    WrappedStore first = open("first");
    expect(first, killed ? 12 : 78);
    expect(second, killed ? 5000 : 1112);
  }
}

TEST_P(Regions, WorkInThreadsOfTheirOwn) {
  constexpr u64 kThreads = 4;
  const auto name = [](u64 thread) {
    return thread == 0 ? std::string("second") : "region " + std::to_string(thread);
  };
  std::vector<std::thread> threads;
  for (u64 thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (u64 opening = 0; opening < 3; ++opening) {
        WrappedStore store = open(name(thread));
        if (opening != 0) expect(store, 1000 * thread + 4);
        for (u64 i = 0; i < 5; ++i) {
          fill(store, 1000 * thread + i);
          store.checkpoint();
        }
        if ((thread + opening) % 2 == 0) store.close();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  expect_whole();
  const auto description = value_or_throw(store::describe(uri(), {}));
  EXPECT_EQ(description.regions.size(), kThreads);
  for (u64 thread = 0; thread < kThreads; ++thread) {
    WrappedStore store = open(name(thread));
    expect(store, 1000 * thread + 4);
  }
}

// What is made in an emptied store is another store, and which one is said before anybody writes
// there: a log that had the identity of before would not be found again.
TEST_P(Regions, OfAnEmptiedStoreBeginTogether) {
  constexpr u64 kThreads = 4;
  const auto name = [](u64 thread) { return "region " + std::to_string(thread); };
  for (u64 round = 1; round <= 10; ++round) {
    SCOPED_TRACE(round);
    open("first").close();
    value_or_throw(store::remove_region(uri(), "first", {}));
    std::latch begin(kThreads);
    std::vector<std::thread> threads;
    for (u64 thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        begin.arrive_and_wait();
        WrappedStore store = open(name(thread));
        fill(store, round + thread);
        store.checkpoint();
        store.crash();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (u64 thread = 0; thread < kThreads; ++thread) {
      {
        WrappedStore store = open(name(thread));
        expect(store, round + thread);
      }
      value_or_throw(store::remove_region(uri(), name(thread), {}));
    }
  }
}

// A pointer from one into the other is good while both are open, and leads to a copy afterwards.
TEST_P(Regions, AreContainersOfOneStore) {
  const auto open_container = [&](const std::string& region) {
    Options chosen = options(region);
    chosen.tracking = Tracking::kAutomatic;
    return Container::open(uri(), chosen);
  };
  {
    Container first = open_container("first");
    Container second = open_container("second");
    first.root<Chain>().first = make<Link>(make<Link>(nullptr, u64{1}), u64{2});
    first.point();
    second.root<Chain>().first = make<Link>(first.root<Chain>().first, u64{3});
    second.point();
    EXPECT_TRUE(first.contains(second.root<Chain>().first->next));
    EXPECT_EQ(second.statistics().shared_objects, 2u);
    first.root<Chain>().first->number = 20;
    first.point();
    first.discard();
    second.discard();
  }
  Container second = open_container("second");
  const Link* link = second.root<Chain>().first;
  ASSERT_NE(link->next, nullptr);
  EXPECT_TRUE(second.contains(link->next));
  EXPECT_EQ(link->next->number, 2u);
  EXPECT_EQ(open_container("first").root<Chain>().first->number, 20u);
}

TEST_P(Regions, OneIsOpenOnce) {
  {
    WrappedStore first = open("first");
    expect_failure(try_open("first"), Code::kLocked, "region 'first' of");
    WrappedStore second = open("second");
    first.close();
    first.crash();
    open("first").close();
    expect_failure(try_open("second"), Code::kLocked, "region 'second' of");
    EXPECT_FALSE(media::open_medium(uri(), {.create = false}));  // one is still open
  }
  EXPECT_TRUE(store::outline(uri(), {}));
}

TEST_P(Regions, TheFirstOneNeedsNoName) {
  open("").close();
  EXPECT_EQ(value_or_throw(store::outline(uri(), {})).regions.at(0).name(), "main");
  {
    WrappedStore store = open("main");
    expect_failure(try_open(""), Code::kLocked, "region 'main' of");
    fill(store, 4);
    store.close();
  }
  open("second").close();
  WrappedStore second = open("second");
  WrappedStore first = open("");  // each has an address of its own
  expect(first, 4);
}

TEST_P(Regions, NamesAreChecked) {
  expect_failure(try_open(std::string(32, 'x')), Code::kInvalidArgument, "region is a name");
  open(std::string(31, 'x')).close();
  Options chosen = options("other");
  chosen.create = false;
  expect_failure(detail::Runtime::open(uri(), chosen), Code::kNotFound,
                 "has no region 'other'; it has 'xxx");
  EXPECT_EQ(value_or_throw(store::outline(uri(), {})).regions.size(), 1u);
}

TEST_P(Regions, OneThatIsRemovedMakesRoom) {
  {
    WrappedStore first = open("first");
    WrappedStore second = open("second");
    fill(first, 1);
    fill(second, 2);
    first.close();
    second.close();
  }
  const u64 bytes = value_or_throw(store::outline(uri(), {})).medium_bytes;
  expect_failure(store::remove_region(uri(), "third", {}), Code::kNotFound,
                 "has no region 'third'; it has 'first', 'second'");
  expect_failure(store::remove_region(uri(), "", {}), Code::kInvalidArgument, "is missing");
  {
    WrappedStore first = open("first");
    expect_failure(store::remove_region(uri(), "second", {}), Code::kLocked, "");
  }
  value_or_throw(store::remove_region(uri(), "second", {}));
  {
    WrappedStore again = open("second");
    EXPECT_EQ(again.get_root("words"), nullptr);
    EXPECT_EQ(again.durable_version(), 1u);
    fill(again, 3);
    again.close();
  }
  expect_whole();
  // What is new lies where the other one was; but how many segments a log has depends on how quick
  // the replay is.
  EXPECT_LT(value_or_throw(store::outline(uri(), {})).medium_bytes, bytes + kWords * sizeof(u64));
  WrappedStore first = open("first");
  expect(first, 1);
}

// Whoever looks at a store while another process removes a region of it finds the rest.
TEST_P(Regions, OneThatIsRemovedMeanwhileIsNoDamage) {
  if (server_) GTEST_SKIP() << "nobody looks at it beside somebody who writes";
  for (const char* const region : {"first", "second"}) {
    WrappedStore store = open(region);
    fill(store, 1);
    store.checkpoint();
    store.close();
  }
  bool removed = false;
  const auto remove = [&](const char*, u64, u64) {
    if (!std::exchange(removed, true)) value_or_throw(store::remove_region(uri(), "second", {}));
  };
  const auto report = value_or_throw(store::check(uri(), {}, remove));
  EXPECT_TRUE(removed);
  EXPECT_TRUE(report.findings.empty());
  ASSERT_EQ(report.description->regions.size(), 1u);
  EXPECT_EQ(report.description->regions[0].name(), "first");
}

TEST_P(Regions, AStoreHasSixteen) {
  std::vector<WrappedStore> stores;
  stores.reserve(format::kRegionsMax);
  for (u32 i = 0; i < format::kRegionsMax; ++i) {
    stores.emplace_back(uri(), options("region " + std::to_string(i)));
    fill(stores.back(), i);
    stores.back().checkpoint();
  }
  expect_failure(try_open("one more"), Code::kNoSpace, "16 regions");
  for (WrappedStore& store : stores) store.crash();
  stores.clear();
  for (u32 i = 0; i < format::kRegionsMax; ++i) {
    WrappedStore store = open("region " + std::to_string(i));
    expect(store, i);
  }
}

TEST_P(Regions, AForkedChildHasNoneOfThem) {
  WrappedStore first = open("first");
  const pid_t child = ::fork();
  if (child == 0) {
    const auto opened = try_open("second");
    ::_exit(!opened && opened.failure().code == Code::kLocked ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  open("second").close();
}

INSTANTIATE_TEST_SUITE_P(
    All, Regions,
    testing::Values(Way{"file_logs", "file", Engine::kRedoLog, Engine::kRedoLog},
                    Way{"file_log_and_chunks", "file", Engine::kRedoLog, Engine::kRemap},
                    Way{"file_chunks", "file", Engine::kRemap, Engine::kRemap},
                    Way{"emu_logs", "emu", Engine::kRedoLog, Engine::kRedoLog},
                    Way{"emu_log_and_chunks", "emu", Engine::kRedoLog, Engine::kRemap},
                    Way{"emu_copies", "emu", Engine::kDualCopy, Engine::kDualCopy},
                    Way{"file_copies_and_log", "file", Engine::kDualCopy, Engine::kRedoLog},
                    Way{"memcached", "memcached", Engine::kRemap, Engine::kRemap}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(RegionsOfFiles, AnotherFileAtThePathIsAnotherStore) {
  const TempDir folder;
  const std::string path = folder.path("store.pd");
  const auto options = [](const char* region) {
    Options options;
    options.region = region;
    options.region_limit_bytes = kMiB;
    return options;
  };
  WrappedStore old(path, options("a"));
  std::filesystem::rename(path, folder.path("old.pd"));
  WrappedStore other(path, options("b"));
  other.close();
  old.close();
  other.crash();
  old.crash();
  const auto name_in = [&](const char* file) {
    return value_or_throw(store::outline(folder.path(file), {})).regions.at(0).name();
  };
  EXPECT_EQ(name_in("store.pd"), "b");
  EXPECT_EQ(name_in("old.pd"), "a");
}

TEST(RegionsOfFiles, APathMayBeWrittenInSeveralWays) {
  const TempDir folder;
  std::filesystem::create_directory(folder.path("within"));
  const auto open = [&](const std::string& uri, const char* region) {
    Options options;
    options.region = region;
    options.region_limit_bytes = kMiB;
    return WrappedStore(uri, options);
  };
  WrappedStore a = open(folder.path("store.pd"), "a");
  WrappedStore b = open("file:" + folder.path("within/../store.pd"), "b");
  WrappedStore c = open("file:" + folder.path("./store.pd") + "?io_uring=0", "c");
  EXPECT_EQ(&a.runtime().volume(), &c.runtime().volume());
}

TEST(RegionsOfFiles, AnOldVersionIsReadBesideOneThatIsWritten) {
  const TempDir folder;
  const std::string path = folder.path("store.pd");
  Options options;
  options.region_limit_bytes = kMiB;
  options.engine = Engine::kRemap;
  options.versions_kept = 4;
  options.region = "read";
  u64 version = 0;
  {
    Store store = Store::open(path, options);
    auto& number = store.root<u64>("number");
    number = 1;
    version = store.checkpoint();
    number = 2;
    store.close();
  }
  options.version = version;
  Store then = Store::open(path, options);
  options.version = 0;
  options.region = "written";
  Store now = Store::open(path, options);
  now.root<u64>("number") = 3;
  now.checkpoint();
  EXPECT_EQ(*then.find_root<u64>("number"), 1u);
  now.close();
  then.close();
  EXPECT_EQ(*Store::open(path, options).find_root<u64>("number"), 3u);
}

}  // namespace
}  // namespace perdura::test
