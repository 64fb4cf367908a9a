// Goal: versions of a store flow to a second place behind it: what is there is a version, whole,
// and the newest one sooner or later; what did not change is not read again; whatever fails there
// fails nothing here, is told, and is made up for.
// Method: stores whose whole content follows from one number (support/reader_steps.hpp), whose
// second place is opened by a process of its own, or after the first one was killed; calls of its
// medium fail one by one. Tests wait for versions, not for times.
#include <gtest/gtest.h>

#include <sys/mman.h>

#include <atomic>
#include <mutex>
#include <thread>

#include <perdura/transaction.hpp>

#include "media/fault.hpp"
#include "store/backup.hpp"
#include "store/inspect.hpp"
#include "store/runtime.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/memcached_server.hpp"
#include "support/process.hpp"
#include "support/reader_steps.hpp"
#include "support/store_places.hpp"
#include "support/wait_until.hpp"

namespace perdura::test {
namespace {

std::string problem_of(const std::string& uri, u64 step) {
  Options to_read;
  to_read.read_only = true;
  Store store = Store::open(uri, to_read);
  const Steps steps(store);
  if (!steps.is_made()) return "it has no words";
  if (steps.step() != step) return "it is at step " + std::to_string(steps.step());
  return steps.problem();
}
/// Beside the store that is drained, whose addresses a child has free.
std::string problem_beside(const std::string& uri, u64 step) {
  return in_child([&] { return problem_of(uri, step); });
}

bool is_drained(Store& store) {
  return wait_until(
      [&] { return store.durable_version(Where::kDrain) == store.durable_version(); });
}

/// Events of this kind, as a program is told of them.
class Told {
 public:
  EventListener listener() {
    return [this](const Event& event) {
      if (event.kind != EventKind::kDrainFailed) return;
      const std::lock_guard lock(mutex_);
      messages_.emplace_back(event.message);
    };
  }
  std::vector<std::string> messages() const {
    const std::lock_guard lock(mutex_);
    return messages_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> messages_;
};

class Drains : public testing::TestWithParam<StorePlace> {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ThreadSanitizer ends children that start threads where their parent had some";
#endif
  }
  Options options() const {
    Options options = small_options(GetParam());
    options.drain = drain();
    return options;
  }
  std::string uri() const { return GetParam().scheme + folder_.path("store.pd"); }
  std::string drain() const { return folder_.path("drain.pd"); }

  const TempDir folder_{TempDir::kMemory};
};

TEST_P(Drains, HaveTheNewestVersionInTheEnd) {
  Store store = Store::open(uri(), options());
  Steps steps(store);
  steps.make();
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 20; ++i) {
      steps.take();
      store.checkpoint();
    }
    ASSERT_TRUE(is_drained(store));
    EXPECT_EQ(problem_beside(drain(), steps.step()), "");
  }
  const Statistics now = store.statistics();
  EXPECT_EQ(now.drained_version, store.durable_version());
  EXPECT_GE(now.drained_versions, 5u);
  EXPECT_LE(now.drained_versions + now.drain_skipped, now.drained_version);
  EXPECT_EQ(now.drain_failures, 0u);
  store.close();
  EXPECT_EQ(value_or_throw(store::check(drain(), {})).findings.size(), 0u);
  // It is the store, where the first place is lost.
  value_or_throw(store::restore(drain(), folder_.path("again.pd"), {}));
  EXPECT_EQ(problem_of(folder_.path("again.pd"), 100), "");
}

// Versions that are durable while one is chosen to be sent are not taken for a part of that.
TEST_P(Drains, MayLag) {
  Options slow = options();
  slow.drain_bytes_per_second = 64 * kMiB;
  Store store = Store::open(uri(), slow);
  Steps steps(store);
  steps.make();
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 1000; ++i) {
      steps.take();
      store.checkpoint();
    }
    ASSERT_TRUE(is_drained(store));
    EXPECT_EQ(problem_beside(drain(), steps.step()), "");
  }
  EXPECT_GT(store.statistics().drain_skipped, 0u);
}

// One step changes six words: no more chunks than that are read for its version, and one of the
// heap.
TEST_P(Drains, ReadWhatChanged) {
  Store store = Store::open(uri(), options());
  Steps steps(store);
  steps.make();
  store.checkpoint();
  ASSERT_TRUE(is_drained(store));
  const u64 chunk = GetParam().engine == Engine::kRemap ? 16 * kKiB : 64 * kKiB;
  for (int i = 0; i < 10; ++i) {
    const u64 before = store.statistics().drain_read_bytes;
    steps.take();
    store.checkpoint();
    ASSERT_TRUE(is_drained(store));
    const u64 read = store.statistics().drain_read_bytes - before;
    EXPECT_GT(read, 0u);
    EXPECT_LE(read, 7 * chunk);
  }
  store.close();
  EXPECT_EQ(problem_of(drain(), 10), "");
}

// A session goes on with what the one before has sent, and sends what is missing when it is opened.
TEST_P(Drains, AreGoneOnWithInTheNextSession) {
  Options without = options();
  without.drain = "";
  for (u64 session = 1; session <= 3; ++session) {
    {
      Store store = Store::open(uri(), options());
      Steps steps(store);
      if (!steps.is_made()) steps.make();
      steps.take();
      store.close();
    }
    EXPECT_EQ(problem_of(drain(), 2 * session - 1), "");
    Store store = Store::open(uri(), without);
    Steps(store).take();
    store.close();
  }
}

TEST_P(Drains, OutliveTheProcess) {
  for (int round = 0; round < 8; ++round) {
    std::atomic<u64>* const acknowledged = static_cast<std::atomic<u64>*>(
        ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    Child child([&]() -> std::string {
      Store store = Store::open(uri(), options());
      Steps steps(store);
      if (!steps.is_made()) steps.make();
      if (std::string problem = steps.problem(); !problem.empty()) return problem;
      for (;;) {
        steps.take();
        store.checkpoint();
        if (steps.step() % 8 == 0 && !is_drained(store)) return "it is not drained";
        if (steps.step() % 8 == 0) *acknowledged = steps.step();
      }
    });
    const u64 wanted = static_cast<u64>(round) * 7 + 8;
    EXPECT_TRUE(wait_until([&] { return *acknowledged >= wanted || child.has_ended(); }));
    child.kill();
    EXPECT_EQ(child.wait(), "");
    Options to_read;
    to_read.read_only = true;
    Store store = Store::open(drain(), to_read);
    const Steps steps(store);
    EXPECT_GE(steps.step(), *acknowledged);
    EXPECT_EQ(steps.problem(), "");
    ::munmap(acknowledged, 4096);
  }
}

// Each call of the second medium fails once, or for ever until it does not.
TEST_P(Drains, WhatFailsThereFailsNothingHere) {
  for (const bool for_ever : {false, true}) {
    for (u64 nth = 1; nth < 60; nth += 1 + nth / 6) {
      std::filesystem::remove(folder_.path("store.pd"));
      std::filesystem::remove(drain());
      media::FaultPlan plan;
      plan.arm({.calls = media::kFaultSubmit | media::kFaultWrite | media::kFaultBarrier |
                         media::kFaultGrow | media::kFaultRead,
                .nth = nth,
                .for_ever = for_ever});
      Told told;
      detail::InternalOptions internal;
      internal.wrap_drain = [&](auto medium) { return plan.wrap(std::move(medium)); };
      Options how = options();
      how.on_event = told.listener();
      auto runtime = value_or_throw(detail::Runtime::open(uri(), how, internal));
      Store store = detail::StoreAccess::store(std::move(runtime));
      Steps steps(store);
      steps.make();
      for (int i = 0; i < 5; ++i) {
        steps.take();
        store.checkpoint();
      }
      ASSERT_TRUE(wait_until([&] {
        return store.statistics().drain_failures != 0 ||
               store.durable_version(Where::kDrain) == store.durable_version();
      }));
      steps.take();
      store.checkpoint();
      plan.disarm();
      ASSERT_TRUE(is_drained(store)) << nth;
      EXPECT_EQ(told.messages().empty(), store.statistics().drain_failures == 0) << nth;
      store.close();
      EXPECT_EQ(problem_of(drain(), 6), "") << nth;
      EXPECT_EQ(problem_of(uri(), 6), "") << nth;
    }
  }
}

TEST_P(Drains, ClosingSaysWhatIsMissing) {
  Told told;
  Options slow = options();
  slow.drain_wait_ms = 0;
  slow.on_event = told.listener();
  {
    // What was begun waits for its pace; it ends when the store is closed.
    slow.drain_bytes_per_second = 4 * kMiB;
    Store store = Store::open(uri(), slow);
    Steps steps(store);
    steps.make();
    steps.take();
    store.close();
  }
  const auto messages = told.messages();
  if (messages.empty()) {
    EXPECT_EQ(problem_of(drain(), 1), "") << "it was faster";
  } else {
    EXPECT_NE(messages.back().find("closed before versions"), std::string::npos) << messages.back();
  }
  Store store = Store::open(uri(), options());
  ASSERT_TRUE(is_drained(store));
  store.close();
  EXPECT_EQ(problem_of(drain(), 1), "");
}

// It would take years.
TEST_P(Drains, ClosingWaitsForNoPace) {
  Told told;
  Options slow = options();
  slow.drain_wait_ms = 0;
  slow.drain_bytes_per_second = 1;
  slow.on_event = told.listener();
  Store store = Store::open(uri(), slow);
  Steps steps(store);
  steps.make();
  steps.take();
  store.close();
  EXPECT_FALSE(told.messages().empty());
}

TEST_P(Drains, AreNotThereWhenTheirPlaceIsNot) {
  Store store = Store::open(uri(), options());
  Steps steps(store);
  steps.make();
  steps.take();
  ASSERT_TRUE(is_drained(store));
  const std::string path = drain().substr(drain().find(':') + 1);
  ASSERT_EQ(::unlink(path.c_str()), 0);
  while (!std::filesystem::exists(path))  // until it is made anew
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_TRUE(is_drained(store));
  store.close();
  EXPECT_EQ(problem_of(drain(), 1), "");
}

TEST_P(Drains, HaveTransactionsWithTheVersionsThatHaveThem) {
  if (GetParam().engine != Engine::kRedoLog) GTEST_SKIP() << "transactions need a log";
  Store store = Store::open(uri(), options());
  Steps steps(store);
  steps.make();
  store.checkpoint();
  auto* const words = static_cast<u64*>(store.get_root("words"));
  for (u64 step = 1; step <= 30; ++step) {
    atomically(store, [&](Transaction& tx) {
      for (u64 i = 0; i < Steps::kOfStep; ++i) tx.write(words[Steps::place(step, i)], step);
      tx.write(words[0], step);
    });
    if (step % 10 == 0) {
      store.checkpoint();
      ASSERT_TRUE(is_drained(store));
      EXPECT_EQ(problem_beside(drain(), step), "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Drains,
                         testing::Values(kStorePlaces[0], kStorePlaces[1], kStorePlaces[3],
                                         kStorePlaces[4]),
                         name_of);

class DrainsOfOthers : public testing::Test {
 protected:
  Options options(const std::string& region = {}) const {
    Options options;
    options.region = region;
    options.region_limit_bytes = 8 * kMiB;
    options.tracking = Tracking::kReported;
    options.drain = folder_.path("drain.pd");
    return options;
  }
  std::string uri() const { return folder_.path("store.pd"); }
  const TempDir folder_{TempDir::kMemory};
};

TEST_F(DrainsOfOthers, WhatCannotBeDrainedIsRefused) {
  Options refused = options();
  refused.engine = Engine::kDualCopy;
  expect_error([&] { Store::open(uri(), refused); }, Code::kUnsupported, "two copies");
  std::filesystem::remove(uri());
  refused = options();
  refused.drain = uri();
  expect_error([&] { Store::open(uri(), refused); }, Code::kInvalidArgument, "to itself");
  refused = options();
  refused.read_only = true;
  expect_error([&] { Store::open(uri(), refused); }, Code::kInvalidArgument, "drained");
}

TEST_F(DrainsOfOthers, AnotherStoresPlaceIsLeftAsItIs) {
  {
    Store other = Store::open(folder_.path("drain.pd"), {.tracking = Tracking::kReported});
    Steps(other).make();
    other.close();
  }
  Told told;
  Options how = options();
  how.on_event = told.listener();
  how.drain_wait_ms = 0;
  Store store = Store::open(uri(), how);
  Steps(store).make();
  store.checkpoint();
  ASSERT_TRUE(wait_until([&] { return !told.messages().empty(); }));
  EXPECT_NE(told.messages()[0].find("kept in another way"), std::string::npos)
      << told.messages()[0];
  EXPECT_EQ(store.durable_version(Where::kDrain), 0u);
  store.close();
  EXPECT_NE(told.messages().back().find("closed before versions 1 to"), std::string::npos);
  EXPECT_EQ(problem_of(folder_.path("drain.pd"), 0), "");
}

TEST_F(DrainsOfOthers, NobodyElseOpensTheSecondPlaceMeanwhile) {
  Store store = Store::open(uri(), options());
  Steps(store).make();
  store.checkpoint();
  ASSERT_TRUE(is_drained(store));
  expect_error([&] { Store::open(folder_.path("drain.pd"), {.tracking = Tracking::kReported}); },
               Code::kLocked, "is open in process");
  expect_error([&] { store.backup(folder_.path("drain.pd")); }, Code::kLocked, "");
  store.close();
  EXPECT_EQ(problem_of(folder_.path("drain.pd"), 0), "");
}

// Regions have drains of their own, which may go to one store.
TEST_F(DrainsOfOthers, RegionsShareASecondPlace) {
  {
    Store first = Store::open(uri(), options("first"));
    Store second = Store::open(uri(), options("second"));
    for (Store* const store : {&first, &second}) {
      Steps steps(*store);
      steps.make();
      for (int i = 0; i < 9; ++i) {
        steps.take();
        store->checkpoint();
      }
    }
    ASSERT_TRUE(is_drained(first));
    ASSERT_TRUE(is_drained(second));
    first.close();
    second.close();
  }
  for (const char* region : {"first", "second"}) {
    Options to_read;
    to_read.region = region;
    to_read.read_only = true;
    Store store = Store::open(folder_.path("drain.pd"), to_read);
    EXPECT_EQ(Steps(store).step(), 9u);
    EXPECT_EQ(Steps(store).problem(), "");
  }
}

TEST_F(DrainsOfOthers, ARootThatIsDurableAloneIsDrained) {
  Options aliased = options();
  aliased.tracking = Tracking::kAutomatic;
  aliased.aliases = 4;
  {
    Store store = Store::open(uri(), aliased);
    auto* const words = static_cast<u64*>(store.allocate(1024 * kKiB, 64));
    store.set_root("words", words);
    store.checkpoint();
    ASSERT_TRUE(is_drained(store));
    auto* const alone = static_cast<u64*>(store.allocate(64, 64));
    store.set_root("alone", alone);
    *alone = 17;
    store.checkpoint_root("alone");
    ASSERT_TRUE(is_drained(store));
    *alone = 18;
    store.checkpoint_root("alone");
    words[5] = 3;
    ASSERT_TRUE(is_drained(store));
    // Ends without another version.
#if !defined(__SANITIZE_THREAD__)  // which takes the child's threads for the parent's
    EXPECT_EQ(in_child([&]() -> std::string {
                Options to_read;
                to_read.read_only = true;
                Store drained = Store::open(folder_.path("drain.pd"), to_read);
                const auto* const found = static_cast<u64*>(drained.get_root("alone"));
                const auto* const others = static_cast<u64*>(drained.get_root("words"));
                if (found == nullptr || *found != 18) return "the root is not what it was";
                return others[5] == 0 ? "" : "it has more than the version";
              }),
              "");
#endif
  }
}

TEST_F(DrainsOfOthers, AServerIsASecondPlace) {
  const MemcachedProcess server;
  Options to_server = options();
  to_server.drain = server.uri("drain");
  {
    Store store = Store::open(uri(), to_server);
    Steps steps(store);
    steps.make();
    for (int i = 0; i < 25; ++i) {
      steps.take();
      store.checkpoint();
    }
    store.close();
  }
  EXPECT_EQ(problem_of(server.uri("drain"), 25), "");
  // And a store on a server, which nobody else can read, has one.
  Options from_server = options();
  from_server.engine = Engine::kRemap;
  from_server.region_limit_bytes = 8 * kMiB;
  {
    Store store = Store::open(server.uri("store"), from_server);
    Steps steps(store);
    steps.make();
    for (int i = 0; i < 25; ++i) {
      steps.take();
      store.checkpoint();
    }
    store.backup(folder_.path("backup.pd"));
    store.close();
  }
  EXPECT_EQ(problem_of(folder_.path("drain.pd"), 25), "");
  EXPECT_EQ(problem_of(folder_.path("backup.pd"), 25), "");
}

}  // namespace
}  // namespace perdura::test
