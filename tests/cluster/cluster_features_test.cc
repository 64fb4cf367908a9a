// Goal: what stores can do they do on a cluster as well: groups of ranks, copies, backups, restores
// and drains between all kinds of media; of those who open a store at the same moment one has it;
// and what is wrong with a cluster, or with how it is named, is said with a remedy. Method: a real
// cluster with its gateway (ceph.sh); stores whose whole content follows from one number.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <perdura/detail/group.hpp>
#include <perdura/perdura.hpp>

#include "media/fault.hpp"
#include "media/medium.hpp"
#include "store/backup.hpp"
#include "store/group_look.hpp"
#include "support/cluster.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/group_of_threads.hpp"
#include "support/process.hpp"
#include "support/reader_steps.hpp"
#include "support/wait_until.hpp"
#include "support/wrapped_store.hpp"

namespace perdura::test {
namespace {

using detail::GroupMember;
using Peers = std::unique_ptr<detail::GroupPeers>;

constexpr unsigned kRanks = 2;

Options small_chunks() {
  Options options;
  options.engine = Engine::kRemap;
  options.tracking = Tracking::kReported;
  options.region_limit_bytes = 8 * kMiB;
  options.chunk_bytes = 64 * kKiB;
  options.on_event = [](const Event&) {};  // of failures that are brought about
  return options;
}

void set(Store& store, u64 number) {
  Counter& counter = store.root<Counter>("counter");
  const auto operation = store.operation();
  operation.touch(&counter, sizeof counter);
  counter.value = number;
}

/// What a store shows that somebody opens, in a process whose addresses are free.
std::string problem_of(const std::string& uri, u64 step) {
  return in_child([&]() -> std::string {
    Store store = Store::open(uri, small_chunks());
    const Steps steps(store);
    if (!steps.is_made()) return "it has no words";
    if (steps.step() != step) return "it is at step " + std::to_string(steps.step());
    return steps.problem();
  });
}

class ClusterFeatures : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_FALSE(ceph_conf().empty())
        << "ceph.sh starts a cluster; PERDURA_CEPH_CONF names its ceph.conf";
    name_ = fmt::format("{}_{}", ::testing::UnitTest::GetInstance()->current_test_info()->name(),
                        ::getpid());
  }
  std::string rados(const std::string& name, const std::string& more = "") const {
    return fmt::format("rados://tests/{}_{}?conf={}{}", name_, name, ceph_conf(), more);
  }
  std::string s3(const std::string& name) const {
    return fmt::format("s3://tests/stores/{}_{}", name_, name);
  }
  std::string file(const std::string& name) const { return folder_.path(name); }

  const TempDir folder_{TempDir::kMemory};
  std::string name_;
};

// --- groups

TEST_F(ClusterFeatures, WhoIsAheadOfItsGroupGoesBack) {
  for (const std::string& uri : {rados("rank-%r"), s3("rank-%r")}) {
    SCOPED_TRACE(uri);
    std::array<media::FaultPlan, kRanks> plans;
    for (const u64 session : {u64{1}, u64{2}, u64{3}}) {
      run_ranks(kRanks, [&](unsigned rank, Peers peers) {
        const detail::InternalOptions internal{
            .wrap = [&, rank](auto medium) { return plans[rank].wrap(std::move(medium)); }};
        const auto group = GroupMember::open(std::move(peers), uri, small_chunks(), &internal);
        EXPECT_EQ(group->version(), session - 1);
        if (session > 1) {
          EXPECT_EQ(group->store().root<Counter>("counter").value, session - 1);
        }
        set(group->store(), session);
        EXPECT_EQ(group->point(), session);
        set(group->store(), 100);
        if (rank == session % kRanks)
          plans[rank].arm({.calls = media::kFaultWrite | media::kFaultSubmit, .for_ever = true});
        EXPECT_THROW(group->point(), Error);
        plans[rank].arm({.for_ever = true});  // it dies
      });
      for (media::FaultPlan& plan : plans) plan.disarm();
    }
  }
}

TEST_F(ClusterFeatures, ARankThatLostItsStoreGoesOnFromItsDrain) {
  const std::string uri = "file:" + file("rank-%r.pd"), drain = rados("drain-%r");
  Options options = small_chunks();
  options.engine = Engine::kRedoLog;
  options.drain = drain;
  run_ranks(kRanks, [&](unsigned, Peers peers) {
    const auto group = GroupMember::open(std::move(peers), uri, options);
    for (u64 number = 1; number <= 3; ++number) {
      set(group->store(), number);
      EXPECT_EQ(group->point(), number);
    }
    Store& store = group->store();
    EXPECT_TRUE(wait_until(
        [&] { return store.durable_version(Where::kDrain) == store.durable_version(); }));
  });
  std::filesystem::remove(file("rank-1.pd"));
  value_or_throw(
      store::restore(store::of_rank(drain, 1, kRanks), store::of_rank(uri, 1, kRanks), {}));
  options.drain.clear();
  run_ranks(kRanks, [&](unsigned, Peers peers) {
    const auto group = GroupMember::open(std::move(peers), uri, options);
    EXPECT_EQ(group->version(), 3u);
    EXPECT_EQ(group->store().root<Counter>("counter").value, 3u);
    set(group->store(), 4);
    EXPECT_EQ(group->point(), 4u);
  });
}

// --- copies, backups, drains

TEST_F(ClusterFeatures, CopiesGoFromEachKindOfMediumToEach) {
  {
    Store store = Store::open(file("s"), small_chunks());
    Steps steps(store);
    steps.make();
    for (int i = 0; i < 5; ++i) steps.take();
    store.checkpoint();
  }
  const std::string places[] = {file("s"), rados("a"), s3("b"), rados("c"), s3("d"), file("e")};
  for (size_t i = 1; i < std::size(places); ++i) {
    value_or_throw(store::copy(places[i - 1], places[i], {}));
    EXPECT_EQ(problem_of(places[i], 5), "") << places[i];
  }
  // Of a store of one service a backup on the other, twice, and what is made of it.
  Store store = Store::open(rados("a"), small_chunks());
  Steps steps(store);
  for (u64 round = 1; round <= 2; ++round) {
    steps.take();
    store.checkpoint();
    EXPECT_NE(store.backup(s3("backup")), 0u);
    value_or_throw(store::restore(s3("backup"), file(fmt::format("restored-{}", round)), {}));
    EXPECT_EQ(problem_of(file(fmt::format("restored-{}", round)), 5 + round), "");
  }
  EXPECT_LT(value_or_throw(store::back_up(file("e"), s3("other"), {})).regions[0].sent_bytes,
            8 * kMiB);
}

TEST_F(ClusterFeatures, AStoreIsOpenedFromWhereItDrains) {
  for (const std::string& drain : {rados("drain"), s3("drain")}) {
    SCOPED_TRACE(drain);
    Options options = small_chunks();
    options.engine = Engine::kRedoLog;
    options.drain = drain;
    const std::string at = file("drained");
    u64 step = 0;
    {
      Store store = Store::open(at, options);
      Steps steps(store);
      steps.make();
      for (int i = 0; i < 10; ++i) {
        steps.take();
        store.checkpoint();
      }
      step = steps.step();
      ASSERT_TRUE(wait_until(
          [&] { return store.durable_version(Where::kDrain) == store.durable_version(); }));
    }
    std::filesystem::remove(at);  // the machine is lost
    EXPECT_EQ(problem_of(drain, step), "");
  }
}

// --- owners

// Each counts once if it has the store, and says so when that is durable.
TEST_F(ClusterFeatures, OfThoseWhoComeAtOnceOneHasIt) {
  for (const std::string& uri : {rados("race", "&takeover=1"), s3("race") + "?takeover=1"}) {
    SCOPED_TRACE(uri);
    {
      Store store = open_store(uri);
      store.root<Counter>("counter");
      store.checkpoint();
    }
    u64 counted = 0, refused = 0;
    for (int round = 0; round < 8; ++round) {
      std::vector<pid_t> racers;
      for (int i = 0; i < 3; ++i) {
        racers.push_back(::fork());
        if (racers.back() != 0) continue;
        int ends_with = 2;
        try {
          Store store = open_store(uri);
          add(store, store.root<Counter>("counter"), 1);
          store.checkpoint();
          ends_with = 0;
        } catch (const Error& error) {
          if (error.code() == Code::kLocked) ends_with = 1;
          else std::fprintf(stderr, "a racer: %s\n", error.what());
        }
        ::_exit(ends_with);
      }
      for (const pid_t racer : racers) {
        int status = 0;
        ::waitpid(racer, &status, 0);
        ASSERT_TRUE(WIFEXITED(status));
        ASSERT_LE(WEXITSTATUS(status), 1);
        ++(WEXITSTATUS(status) == 0 ? counted : refused);
      }
    }
    Store store = open_store(uri);
    const u64 value = store.root<Counter>("counter").value;
    // One that was taken over from may have made its version durable, and not have learned of it.
    EXPECT_GE(value, counted);
    EXPECT_LE(value, counted + refused);
    EXPECT_GT(counted, 0u);
  }
}

// --- what is wrong with a cluster

TEST_F(ClusterFeatures, RefusedCredentialsAreToldApart) {
  std::ifstream in(ceph_conf());
  std::string conf{std::istreambuf_iterator<char>(in), {}};
  const std::string line = "auth client required = none";
  const size_t at = conf.find(line);
  ASSERT_NE(at, conf.npos);
  conf.replace(at, line.size(), "auth client required = cephx\nkeyring = " + file("keyring"));
  std::ofstream(file("ceph.conf")) << conf;
  const std::string uri =
      fmt::format("rados://tests/{}?conf={}&timeout_ms=5000", name_, file("ceph.conf"));
  expect_failure(media::open_medium(uri, {}), Code::kIo, "whether its key is where");
  std::ofstream(file("keyring")) << "[client.admin]\n"
                                    "key = AQDxnCRnAAAAABAAG2Qe5yFv9aVYpcBZkRlNRg==\n";
  expect_failure(media::open_medium(uri, {}), Code::kIo, "whether its key is where");
}

TEST_F(ClusterFeatures, APoolThatIsFullHasNoSpaceUntilItHas) {
  const std::string folder = ceph_conf().substr(0, ceph_conf().rfind('/'));
  const auto ask = [&](const std::string& what) {
    return std::system(
        fmt::format("ceph -c '{}' {} >'{}/asked.out' 2>&1", ceph_conf(), what, folder).c_str());
  };
  const std::string pool = fmt::format("small_{}", ::getpid());
  ASSERT_EQ(ask("osd pool create " + pool + " 1"), 0);
  {
    const std::string uri = fmt::format("rados://{}/store?conf={}", pool, ceph_conf());
    Store store = Store::open(uri, small_chunks());
    Steps steps(store);
    steps.make();
    steps.take();
    store.checkpoint();
    ASSERT_EQ(ask("osd pool set-quota " + pool + " max_objects 10"), 0);
    bool is_full = false;
    for (int i = 0; i < 600 && !is_full; ++i) {  // the monitor looks now and then
      steps.take();
      try {
        store.checkpoint();
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::kNoSpace) << error.what();
        is_full = true;
      }
    }
    EXPECT_TRUE(is_full);
    ASSERT_EQ(ask("osd pool set-quota " + pool + " max_objects 0"), 0);
    // Nothing is lost: the version comes when there is room.
    EXPECT_TRUE(wait_until([&] {
      try {
        store.checkpoint();
        return true;
      } catch (const Error&) {
        return false;
      }
    }));
    EXPECT_EQ(steps.problem(), "");
  }
  (void)ask("config set mon mon_allow_pool_delete true");
  (void)ask("osd pool delete " + pool + " " + pool + " --yes-i-really-really-mean-it");
}

TEST_F(ClusterFeatures, AnS3StoreWaitsForOsdsAndTheMonitor) {
  u64 last = 0;
  const std::string uri = s3("waits") + "?timeout_ms=60000";
  {
    Owner owner(uri);
    owner.next();
    ceph("kill", "osd.0");
    for (int i = 0; i < 3; ++i) last = owner.next();
    ceph("kill", "osd.1");
    while (owner.says_within_ms(3000)) last = owner.next();
    ceph("begin", "osd.0");
    ceph("begin", "osd.1");
    for (int i = 0; i < 5; ++i) EXPECT_GE(owner.next(), last);
    ceph("kill", "mon.a");
    for (int i = 0; i < 3; ++i) last = owner.next();
    ceph("begin", "mon.a");
    owner.signal(SIGKILL);
    owner.wait();
    last = owner.last();
  }
  auto store = open_store(uri);
  const u64 found = store.root<Counter>("counter").value;
  EXPECT_GE(found, last);
  EXPECT_LE(found, last + 1);
}

// A service takes a quarter of an hour of difference, and no more.
TEST_F(ClusterFeatures, AClockThatIsWrongIsTold) {
  const std::string library = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";
  if (!std::filesystem::exists(library)) GTEST_SKIP() << "there is no libfaketime";
  const std::string said = file("said");
  const int status = std::system(fmt::format("LD_PRELOAD={} FAKETIME=-2h {} info {} >'{}' 2>&1",
                                             library, PERDURA_COMMAND, s3("none"), said)
                                     .c_str());
  EXPECT_NE(status, 0);
  std::ifstream in(said);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  EXPECT_NE(text.find("clock"), std::string::npos) << text;
}

}  // namespace
}  // namespace perdura::test
