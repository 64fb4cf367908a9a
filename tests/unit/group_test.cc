// Goal: a group of ranks has one version of all their stores: what a point has made durable is
// there on all after the death of all, and what one of them lacks is on none; ranks that are ahead
// go back; whatever is wrong with a store is said on all ranks, with the rank, its store and the
// remedy; nobody makes a version without the others; an attempt that fails on one fails on all, and
// its changes are in the next version.
// Method: ranks are threads with stores of their own, in files and on emulated NVM, of each engine.
// A death is a group that is dropped while one rank, or some, have their version and others do not:
// a medium that fails stands for the one that died in its middle.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <vector>

#include <perdura/detail/group.hpp>

#include "media/fault.hpp"
#include "store/backup.hpp"
#include "store/group_look.hpp"
#include "store/versions.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/group_of_threads.hpp"
#include "support/memcached_server.hpp"
#include "support/process.hpp"
#include "support/wrapped_store.hpp"

namespace perdura::test {
namespace {

using detail::GroupMember;
using detail::GroupPeers;
using Peers = std::unique_ptr<GroupPeers>;

constexpr unsigned kRanks = 3;

struct Kind {
  const char* name;
  const char* scheme;
  Engine engine;
  const char* region = "";
};
constexpr Kind kKinds[] = {{"log_file", "file:", Engine::kRedoLog},
                           {"log_region", "emu:", Engine::kRedoLog, "of-rank-%r"},
                           {"log_nvm", "emu:", Engine::kRedoLog},
                           {"chunks_file", "file:", Engine::kRemap},
                           {"chunks_nvm", "emu:", Engine::kRemap},
                           {"copies_file", "file:", Engine::kDualCopy},
                           {"copies_nvm", "emu:", Engine::kDualCopy}};

Options options_of(Engine engine) {
  Options options;
  options.engine = engine;
  options.region_limit_bytes = 4 << 20;
  options.log_segment_bytes = 32 << 10;
  options.on_event = [](const Event&) {};  // of failures, which are brought about
  return options;
}

struct Value {
  std::uint64_t number = 0;
  std::uint64_t rank = 0;
};

void set(Store& store, unsigned rank, std::uint64_t number) {
  Value& value = store.root<Value>("value");
  const auto op = store.operation();
  op.touch(&value, sizeof value);
  value = {number, rank};
}

class Groups : public testing::TestWithParam<Kind> {
 protected:
  std::string uri() const { return GetParam().scheme + dir_.path("rank-%r.pd"); }
  std::string uri_of(unsigned rank) const { return store::of_rank(uri(), rank, kRanks); }
  std::string name_of(unsigned rank) const {
    const std::string region = options_of_rank(rank).region;
    return uri_of(rank) + (region.empty() ? "" : " (region " + region + ")");
  }
  Options options() const {
    Options options = options_of(GetParam().engine);
    options.region = GetParam().region;
    return options;
  }
  Options options_of_rank(unsigned rank) const {
    Options options = this->options();
    options.region = store::of_rank(options.region, rank, kRanks);
    return options;
  }

  std::unique_ptr<GroupMember> open(std::unique_ptr<GroupPeers> peers) {
    const unsigned rank = peers->rank();
    const detail::InternalOptions internal{
        .wrap = [this, rank](auto medium) { return plans_[rank].wrap(std::move(medium)); }};
    return GroupMember::open(std::move(peers), uri(), options(), &internal);
  }

  /// What all ranks show, which must be one number.
  std::uint64_t shown(unsigned ranks = kRanks) {
    std::array<std::uint64_t, 8> numbers{};
    run_ranks(ranks, [&](unsigned rank, Peers peers) {
      const auto group = open(std::move(peers));
      const Value* const value = group->store().find_root<Value>("value");
      numbers[rank] = value != nullptr ? value->number : 0;
      if (value != nullptr) {
        EXPECT_EQ(value->rank, rank);
      }
      EXPECT_TRUE(group->store().audit().clean);
    });
    for (unsigned rank = 1; rank < ranks; ++rank) EXPECT_EQ(numbers[rank], numbers[0]);
    return numbers[0];
  }

  const TempDir dir_{TempDir::kMemory};
  std::array<media::FaultPlan, 8> plans_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, Groups, testing::ValuesIn(kKinds),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(Groups, APointIsThereOnAllRanks) {
  run_ranks(kRanks, [&](unsigned rank, Peers peers) {
    const auto group = open(std::move(peers));
    EXPECT_EQ(group->version(), 0u);
    for (std::uint64_t number = 1; number <= 5; ++number) {
      set(group->store(), rank, number);
      EXPECT_EQ(group->point(), number);
    }
    set(group->store(), rank, 6);  // in no version
  });
  EXPECT_EQ(shown(), 5u);
  run_ranks(kRanks, [&](unsigned rank, Peers peers) {
    const auto group = open(std::move(peers));
    EXPECT_EQ(group->version(), 5u);
    EXPECT_EQ(group->ranks_before(), kRanks);
    set(group->store(), rank, 7);
    group->close();
  });
  EXPECT_EQ(shown(), 7u);
}

TEST_P(Groups, WhereNothingChangedThereIsNoVersionAndWhereOneChangedAllHaveOne) {
  run_ranks(kRanks, [&](unsigned rank, Peers peers) {
    const auto group = open(std::move(peers));
    set(group->store(), rank, 1);
    EXPECT_EQ(group->point(), 1u);
    const std::uint64_t version = group->store().durable_version();
    EXPECT_EQ(group->point(), 1u);
    EXPECT_EQ(group->store().durable_version(), version);
    if (rank == 1) set(group->store(), rank, 2);
    EXPECT_EQ(group->point(), 2u);
    EXPECT_EQ(group->store().durable_version(), version + 1);
  });
  run_ranks(kRanks, [&](unsigned rank, Peers peers) {
    const auto group = open(std::move(peers));
    EXPECT_EQ(group->version(), 2u);
    EXPECT_EQ(group->store().root<Value>("value").number, rank == 1 ? 2u : 1u);
  });
}

TEST_P(Groups, AsynchronousPoints) {
  run_ranks(kRanks, [&](unsigned rank, Peers peers) {
    const auto group = open(std::move(peers));
    for (std::uint64_t number = 1; number <= 10; ++number) {
      set(group->store(), rank, number);
      group->point_async();
    }
    EXPECT_EQ(group->sync(), 10u);
    set(group->store(), rank, 11);
    group->point_async();
    set(group->store(), rank, 12);
    EXPECT_EQ(group->point(), 12u);
    set(group->store(), rank, 13);
    group->point_async();  // and nobody waits for it
  });
  const std::uint64_t number = shown();
  EXPECT_TRUE(number == 12 || number == 13) << number;
}

TEST_P(Groups, AFailureOfOneIsAFailureOfAll) {
  run_ranks(kRanks, [&](unsigned rank, Peers peers) {
    const auto group = open(std::move(peers));
    set(group->store(), rank, 1);
    group->point();
    for (const bool async : {false, true}) {
      const std::uint64_t number = async ? 4 : 2;
      set(group->store(), rank, number);
      if (rank == 1)
        plans_[rank].arm({.calls = media::kFaultWrite | media::kFaultSubmit,
                          .nth = 1,
                          .kind = media::FaultKind::kNoSpace,
                          .for_ever = true});
      expect_error(
          [&] {
            if (async) group->point_async();
            if (async) group->sync();
            else group->point();
          },
          Code::kNoSpace, "rank 1 of the group: ");
      EXPECT_EQ(group->version(), number == 2 ? 1u : 2u);
      plans_[rank].disarm();
      if (rank == 2) set(group->store(), rank, number + 1);
      EXPECT_EQ(group->point(), number == 2 ? 2u : 3u);
    }
  });
  run_ranks(kRanks, [&](unsigned rank, Peers peers) {
    const auto group = open(std::move(peers));
    EXPECT_EQ(group->store().root<Value>("value").number, rank == 2 ? 5u : 4u);
  });
}

// Both attempts have one number. The first one is on the media of those who had it.
TEST_P(Groups, AnAttemptThatFailedIsNotMixedWithTheNext) {
  run_ranks(kRanks, [&](unsigned rank, Peers peers) {
    const auto group = open(std::move(peers));
    set(group->store(), rank, 1);
    group->point();
    set(group->store(), rank, 2);
    if (rank == 1)
      plans_[rank].arm({.calls = media::kFaultWrite | media::kFaultSubmit,
                        .nth = 1,
                        .kind = media::FaultKind::kNoSpace,
                        .for_ever = true});
    EXPECT_THROW(group->point(), Error);
    // The next attempt reaches the medium of this rank alone.
    plans_[rank].disarm();
    set(group->store(), rank, 3);
    if (rank != 1)
      plans_[rank].arm({.calls = media::kFaultWrite | media::kFaultSubmit,
                        .nth = 1,
                        .kind = media::FaultKind::kIo,
                        .for_ever = true});
    EXPECT_THROW(group->point(), Error);
    plans_[rank].arm({.for_ever = true});  // it dies
  });
  for (media::FaultPlan& plan : plans_) plan.disarm();
  EXPECT_EQ(shown(), 1u);
}

TEST_P(Groups, WhoIsAheadGoesBack) {
  run_ranks(kRanks, [&](unsigned rank, Peers peers) {
    const auto group = open(std::move(peers));
    set(group->store(), rank, 1);
    group->point();
    set(group->store(), rank, 2);
    group->point();
    set(group->store(), rank, 3);
    // Where it is prepared it is on the medium; discarded it stays there.
    if (rank == 0)
      plans_[rank].arm({.calls = media::kFaultWrite | media::kFaultSubmit,
                        .nth = 1,
                        .kind = media::FaultKind::kNoSpace,
                        .for_ever = true});
    EXPECT_THROW(group->point(), Error);
    plans_[rank].arm({.for_ever = true});  // it dies
  });
  for (media::FaultPlan& plan : plans_) plan.disarm();
  const auto look = store::look_at_group(uri_of(1), options_of_rank(1), {});
  ASSERT_EQ(look.kind, store::GroupLook::Kind::kMember) << look.message;
  // A replay that was under way on NVM may have taken the discarded version's place in the log.
  const bool may_be_gone =
      GetParam().engine == Engine::kRedoLog && std::string_view(GetParam().scheme) == "emu:";
  if (look.versions[0].number != 2 || !may_be_gone) {
    EXPECT_EQ(look.versions[0].number, 3u);
    EXPECT_EQ(look.count, 2u);
  }
  EXPECT_EQ(shown(), 2u);
  EXPECT_EQ(store::look_at_group(uri_of(1), options_of_rank(1), {}).versions[0].number, 2u);
  run_ranks(kRanks, [&](unsigned rank, Peers peers) {
    const auto group = open(std::move(peers));
    set(group->store(), rank, 4);
    EXPECT_EQ(group->point(), 3u);
  });
  EXPECT_EQ(shown(), 4u);
}

// A rank of the job that was, which nobody has killed: until it has ended nothing is taken back.
TEST_P(Groups, WhatIsLeftOfAFormerJobKeepsTheGroupClosed) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer ends children that start threads where their parent had some";
#endif
  int said[2];
  ASSERT_EQ(::pipe(said), 0);
  Child former([&]() -> std::string {
    run_ranks(kRanks, [&](unsigned rank, Peers peers) {
      const auto group = open(std::move(peers));
      set(group->store(), rank, 1);
      group->point();
      set(group->store(), rank, 2);
      if (rank == 1)
        plans_[rank].arm({.calls = media::kFaultWrite | media::kFaultSubmit,
                          .nth = 1,
                          .kind = media::FaultKind::kNoSpace,
                          .for_ever = true});
      EXPECT_THROW(group->point(), Error);
      plans_[rank].arm({.for_ever = true});
      if (rank != 1) return;  // the others die, and have version 2
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      (void)!::write(said[1], "x", 1);
      for (;;) ::pause();
    });
    return "it has ended";
  });
  ::close(said[1]);  // so that the end of the child is heard
  char one = 0;
  ASSERT_EQ(::read(said[0], &one, 1), 1);
  ::close(said[0]);
  std::array<std::uint64_t, kRanks> versions{};
  const auto look = [&] {
    for (unsigned rank = 0; rank < kRanks; ++rank)
      versions[rank] = store::look_at_group(uri_of(rank), options_of_rank(rank), {}).region_version;
    return versions;
  };
  const auto before = look();
  std::array<std::string, kRanks> sentences;
  for (int i = 0; i < 100; ++i) {  // those that die take a while
    run_ranks(kRanks, [&](unsigned rank, Peers peers) {
      try {
        open(std::move(peers));
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::kLocked);
        sentences[rank] = error.what();
      }
    });
    if (sentences[0].starts_with("rank 1's store")) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  for (const std::string& sentence : sentences) {
    EXPECT_TRUE(sentence.starts_with("rank 1's store '" + name_of(1))) << sentence;
    EXPECT_NE(sentence.find("is open in process " + std::to_string(former.pid())),
              std::string::npos)
        << sentence;
  }
  EXPECT_EQ(look(), before);
  former.kill();
  EXPECT_EQ(former.wait(), "");
  EXPECT_EQ(shown(), 1u);
}

TEST_P(Groups, NobodyMakesAVersionWithoutTheOthers) {
  run_ranks(kRanks, [&](unsigned rank, Peers peers) {
    const auto group = open(std::move(peers));
    set(group->store(), rank, 1);
    group->point();
    set(group->store(), rank, 2);
    Store& store = group->store();
    expect_error([&] { store.checkpoint(); }, Code::kMisuse, "call the group's point()");
    expect_error([&] { store.checkpoint_async(); }, Code::kMisuse, "call the group's point()");
    expect_error([&] { store.checkpoint_every(std::chrono::milliseconds(1)); }, Code::kMisuse,
                 "call the group's point()");
    expect_error([&] { atomically(store, [](Transaction&) {}); }, Code::kUnsupported,
                 "group of processes");
    store.close();
  });
  EXPECT_EQ(shown(), 1u);
}

TEST_P(Groups, AnOperationThatWasLeftOpenIsToldOnAll) {
  run_ranks(kRanks, [&](unsigned rank, Peers peers) {
    const auto group = open(std::move(peers));
    set(group->store(), rank, 1);
    {
      if (rank == 2) {
        const auto op = group->store().operation();
        expect_error([&] { group->point(); }, Code::kMisuse, "rank 2 of the group: ");
      } else {
        expect_error([&] { group->point(); }, Code::kMisuse, "rank 2 of the group: ");
      }
    }
    EXPECT_EQ(group->point(), 1u);
  });
  EXPECT_EQ(shown(), 1u);
}

TEST_P(Groups, WhatIsWrongWithAStoreIsToldOnAll) {
  if (GetParam().region[0] != '\0') GTEST_SKIP() << "their names tell regions of ranks apart";
  const auto expect_on_all = [&](Code code, const std::string& sentence) {
    run_ranks(kRanks, [&](unsigned, Peers peers) {
      expect_error([&] { open(std::move(peers)); }, code, sentence);
    });
  };
  const auto make = [&](std::uint64_t number) {
    run_ranks(kRanks, [&](unsigned rank, Peers peers) {
      const auto group = open(std::move(peers));
      set(group->store(), rank, number);
      group->close();
    });
  };
  make(1);
  const std::string own = dir_.path("rank-1.pd"), kept = dir_.path("kept");
  std::filesystem::rename(own, kept);
  expect_on_all(Code::kNotFound, "rank 1's store '" + name_of(1) + "' holds none");
  EXPECT_FALSE(std::filesystem::exists(own));  // nothing was made in its place

  // Of an earlier time.
  std::filesystem::copy_file(kept, own);
  make(2);
  make(3);
  std::filesystem::copy_file(kept, own, std::filesystem::copy_options::overwrite_existing);
  expect_on_all(Code::kCorrupt, "rank 1's store '" + name_of(1) + "' has another, number 1");

  // Another rank's.
  std::filesystem::copy_file(dir_.path("rank-2.pd"), own,
                             std::filesystem::copy_options::overwrite_existing);
  expect_on_all(Code::kForeign, "rank 1's store '" + name_of(1) + "' is rank 2's of its group");

  // Another group's, a store of none, and no store.
  const auto remove = [](const std::string& path) { std::filesystem::remove(path); };
  for (unsigned rank = 0; rank < kRanks; ++rank)
    std::filesystem::rename(dir_.path("rank-" + std::to_string(rank) + ".pd"),
                            dir_.path("old-" + std::to_string(rank)));
  make(3);
  std::filesystem::copy_file(dir_.path("old-2"), dir_.path("rank-2.pd"),
                             std::filesystem::copy_options::overwrite_existing);
  expect_on_all(Code::kCorrupt, "rank 2's store '" + name_of(2) + "' is of another group");
  remove(dir_.path("rank-2.pd"));
  {
    Store alone = Store::open(uri_of(2), options_of_rank(2));
    set(alone, 2, 9);
    alone.close();
  }
  expect_on_all(Code::kForeign, "rank 2's store '" + name_of(2) + "' has contents and is of no");
  write_file(dir_.path("rank-2.pd"), FileBytes(1 << 20, std::byte{'x'}));
  expect_on_all(Code::kForeign, "rank 2's store '" + name_of(2) + "' cannot be opened: ");
}

TEST_P(Groups, AStoreThatWasOpenedAloneCountsAsItsVersion) {
  const auto make = [&](std::uint64_t number) {
    run_ranks(kRanks, [&](unsigned rank, Peers peers) {
      const auto group = open(std::move(peers));
      set(group->store(), rank, number);
      group->close();
    });
  };
  make(1);
  for (int twice = 0; twice < 2; ++twice) {
    Store alone = Store::open(uri_of(1), options_of_rank(1));
    set(alone, 1, 8 + twice);
    alone.checkpoint();
    set(alone, 1, 9 + twice);
    alone.close();
  }
  run_ranks(kRanks, [&](unsigned rank, Peers peers) {
    const auto group = open(std::move(peers));
    EXPECT_EQ(group->version(), 1u);
    EXPECT_EQ(group->store().root<Value>("value").number, rank == 1 ? 10u : 1u);
    set(group->store(), rank, 2);
    EXPECT_EQ(group->point(), 2u);
  });
  EXPECT_EQ(shown(), 2u);
}

// At each start each rank takes over what the ranks before had, as a sum.
TEST_P(Groups, MoreRanksOrFewer) {
  u64 version = 0;
  enum class End { kBeforePoint, kFails, kPoints };
  const auto start = [&](unsigned ranks, End end) {
    const bool points = end == End::kPoints;
    std::array<std::uint64_t, 8> sums{};
    run_ranks(ranks, [&](unsigned rank, Peers peers) {
      const auto group = open(std::move(peers));
      EXPECT_EQ(group->version(), version);
      for (unsigned before = 0; before < group->ranks_before(); ++before)
        if (Store* const store = group->store_of(before))
          sums[rank] += store->find_root<Value>("value")->number;
      if (group->ranks_before() == 0) sums[rank] = rank + 1;
      EXPECT_EQ(group->store_of(group->ranks_before()), nullptr);
      set(group->store(), rank, sums[rank]);
      if (end == End::kFails) {
        if (rank == ranks - 1)
          plans_[rank].arm({.calls = media::kFaultWrite | media::kFaultSubmit, .for_ever = true});
        EXPECT_THROW(group->point(), Error);
        plans_[rank].arm({.for_ever = true});  // it dies
      }
      if (!points) return;
      EXPECT_EQ(group->point(), version + 1);
      for (unsigned before = ranks; before < group->ranks_before(); ++before)
        EXPECT_EQ(group->store_of(before), nullptr);
    });
    version += points ? 1 : 0;
    for (media::FaultPlan& plan : plans_) plan.disarm();
    std::uint64_t sum = 0;
    for (const std::uint64_t each : sums) sum += each;
    EXPECT_EQ(sum, 15u) << ranks;
  };
  start(5, End::kPoints);
  start(5, End::kPoints);
  for (const unsigned ranks : {2u, 4u, 1u, 5u, 3u}) {
    start(ranks, End::kBeforePoint);
    start(ranks + 1, End::kFails);  // all ranks but the last one are ahead
    start(ranks, End::kFails);
    start(ranks, End::kPoints);
    start(ranks, End::kFails);
    start(ranks, End::kPoints);
  }
}

TEST(Group, WhoIsAheadGoesBackOnAServer) {
  const MemcachedProcess server;
  const std::string uri = server.uri("rank-%r");
  std::array<media::FaultPlan, kRanks> plans;
  for (const bool fails : {true, false}) {
    run_ranks(kRanks, [&](unsigned rank, Peers peers) {
      const detail::InternalOptions internal{
          .wrap = [&, rank](auto medium) { return plans[rank].wrap(std::move(medium)); }};
      const auto group =
          GroupMember::open(std::move(peers), uri, options_of(Engine::kRemap), &internal);
      const std::uint64_t number = fails ? 1 : 2;
      if (!fails) {
        EXPECT_EQ(group->version(), 1u);
        EXPECT_EQ(group->store().root<Value>("value").number, 1u);
      }
      set(group->store(), rank, number);
      EXPECT_EQ(group->point(), number);
      if (!fails) return;
      set(group->store(), rank, 3);
      if (rank == 1)
        plans[rank].arm({.calls = media::kFaultWrite | media::kFaultSubmit, .for_ever = true});
      EXPECT_THROW(group->point(), Error);
      plans[rank].arm({.for_ever = true});  // it dies
    });
    for (media::FaultPlan& plan : plans) plan.disarm();
  }
}

// Two groups in one set of files: the media are open already for the first one.
TEST(Group, WhoIsAheadGoesBackBesideAnotherGroup) {
  for (const Engine engine : {Engine::kRedoLog, Engine::kRemap}) {
    const TempDir dir(TempDir::kMemory);
    const std::string uri = "file:" + dir.path("rank-%r.pd");
    std::array<media::FaultPlan, kRanks> plans;
    Options first = options_of(engine), second = options_of(engine);
    first.region = "first";
    second.region = "second";
    for (const bool fails : {true, false}) {
      const auto meeting = std::make_shared<Meeting>(kRanks);
      run_ranks(kRanks, [&](unsigned rank, Peers peers) {
        const detail::InternalOptions internal{
            .wrap = [&, rank](auto medium) { return plans[rank].wrap(std::move(medium)); }};
        const auto one = GroupMember::open(std::move(peers), uri, first, &internal);
        const auto other =
            GroupMember::open(std::make_unique<ThreadPeers>(meeting, rank), uri, second, &internal);
        if (!fails) {
          EXPECT_EQ(other->store().root<Value>("value").number, 1u);
          EXPECT_EQ(one->store().root<Value>("value").number, 1u);
        }
        for (const auto* group : {&one, &other}) {
          set((*group)->store(), rank, fails ? 1 : 2);
          (*group)->point();
        }
        if (!fails) return;
        set(other->store(), rank, 3);
        if (rank == 1)
          plans[rank].arm({.calls = media::kFaultWrite | media::kFaultSubmit, .for_ever = true});
        EXPECT_THROW(other->point(), Error);
        plans[rank].arm({.for_ever = true});  // it dies
      });
      for (media::FaultPlan& plan : plans) plan.disarm();
    }
  }
}

// A rank that is none for a while: of its store, which is stale then, the group's part alone goes.
TEST(Group, OtherRegionsOfAStaleStoreStay) {
  for (const std::string region : {"", "of-group"}) {
    const TempDir dir(TempDir::kMemory);
    const std::string uri = "file:" + dir.path("rank-%r.pd");
    Options options = options_of(Engine::kRemap);
    options.region = region;
    std::string sentence;
    const auto start = [&](unsigned ranks, std::uint64_t number) {
      run_ranks(ranks, [&](unsigned rank, Peers peers) {
        try {
          const auto group = GroupMember::open(std::move(peers), uri, options);
          set(group->store(), rank, number);
          group->point();
          if (rank != 2) return;
          Options own = options_of(Engine::kRemap);
          own.region = "private";
          Store store = Store::open(store::of_rank(uri, rank, ranks), own);
          Value& value = store.root<Value>("value");
          EXPECT_EQ(value.number, number - 1);
          value.number = number;
          store.checkpoint();
        } catch (const Error& error) {
          if (rank == 0) sentence = error.what();
        }
      });
    };
    start(3, 1);
    start(2, 2);
    EXPECT_EQ(sentence, "");
    start(3, 2);
    if (region.empty()) EXPECT_NE(sentence.find("Options::region"), std::string::npos) << sentence;
    else EXPECT_EQ(sentence, "");
    Options own = options_of(Engine::kRemap);
    own.region = "private";
    own.create = false;
    Store store = Store::open(store::of_rank(uri, 2, 3), own);
    EXPECT_EQ(store.root<Value>("value").number, region.empty() ? 1u : 2u);
  }
}

TEST(Group, AVersionThatWasRolledBackToIsTheOneThatItWas) {
  const TempDir dir(TempDir::kMemory);
  const std::string uri = "emu:" + dir.path("rank-%r.pd");
  Options options = options_of(Engine::kRemap);
  options.versions_kept = 4;
  const auto start = [&](std::uint64_t begin, std::uint64_t end) {
    run_ranks(2, [&](unsigned rank, Peers peers) {
      const auto group = GroupMember::open(std::move(peers), uri, options);
      if (begin != 1) {
        EXPECT_EQ(group->store().root<Value>("value").number, begin - 1);
      }
      for (std::uint64_t number = begin; number <= end; ++number) {
        set(group->store(), rank, number);
        EXPECT_EQ(group->point(), number);
      }
    });
  };
  start(1, 3);
  const auto roll_back = [&](unsigned rank) {
    value_or_throw(store::roll_back(store::of_rank(uri, rank, 2), "", 3, {}));
  };
  roll_back(0);
  run_ranks(2, [&](unsigned, Peers peers) {
    expect_error([&] { GroupMember::open(std::move(peers), uri, options); }, Code::kCorrupt,
                 "no version in common");
  });
  roll_back(1);
  start(3, 5);
  start(6, 6);
}

// A drain, or a backup, may be opened instead of what is lost: as the version that it is of.
TEST(Group, BackupsCountAsWhatTheyAreOf) {
  const TempDir dir(TempDir::kMemory);
  const std::string uri = "file:" + dir.path("rank-%r.pd");
  const std::string other = "file:" + dir.path("backup-%r.pd");
  const auto back_up = [&](unsigned rank) {
    value_or_throw(
        store::back_up(store::of_rank(uri, rank, 2), store::of_rank(other, rank, 2), {}));
  };
  const auto point_at = [&](std::uint64_t number) {
    run_ranks(2, [&](unsigned rank, Peers peers) {
      const auto group = GroupMember::open(std::move(peers), uri, options_of(Engine::kRedoLog));
      set(group->store(), rank, number);
      group->point();
      set(group->store(), rank, number + 1);
      group->close();
    });
  };
  std::string sentence;
  const auto open_backups = [&] {
    sentence.clear();
    std::array<std::uint64_t, 2> found{};
    run_ranks(2, [&](unsigned rank, Peers peers) {
      try {
        const auto group = GroupMember::open(std::move(peers), other, options_of(Engine::kRemap));
        found[rank] = group->store().root<Value>("value").number;
      } catch (const Error& error) {
        if (rank == 0) sentence = error.what();
      }
    });
    EXPECT_EQ(found[0], found[1]);
    return found[0];
  };
  point_at(1);
  back_up(0);
  point_at(5);
  back_up(1);  // of a later version
  EXPECT_EQ(open_backups(), 0u);
  EXPECT_NE(sentence, "");
  back_up(0);
  EXPECT_EQ(open_backups(), 6u) << sentence;
}

// A drain lags: what is restored from it may be several versions behind. The others keep as many,
// and go back by hand; also over the beginning of a session, and where two have gone back.
TEST(Group, GoesBackByHandToWhatARestoredRankHas) {
  for (const std::uint64_t backed_up : {1, 2, 3, 4, 5}) {
    const TempDir dir(TempDir::kMemory);
    const std::string uri = "file:" + dir.path("rank-%r.pd");
    const std::string backup = "file:" + dir.path("backup.pd");
    constexpr unsigned kOfTwo = 2;
    Options options = options_of(Engine::kRemap);
    options.versions_kept = 12;
    std::array<std::array<std::uint64_t, 6>, kOfTwo> versions{};  // by rank and number
    const auto points = [&](std::uint64_t first, std::uint64_t last) {
      run_ranks(kOfTwo, [&](unsigned rank, Peers peers) {
        const auto group = GroupMember::open(std::move(peers), uri, options);
        for (std::uint64_t number = first; number <= last; ++number) {
          set(group->store(), rank, number);
          group->point();
          versions[rank][number] = group->store().durable_version();
          if (rank == 1 && number == backed_up) group->store().backup(backup);
        }
      });
    };
    const auto open = [&] {
      std::string sentence;
      std::array<std::uint64_t, kOfTwo> found{};
      run_ranks(kOfTwo, [&](unsigned rank, Peers peers) {
        try {
          const auto group = GroupMember::open(std::move(peers), uri, options);
          found[rank] = group->store().root<Value>("value").number;
          set(group->store(), rank, 100 + backed_up);
          group->point();
        } catch (const Error& error) {
          if (rank == 0) sentence = error.what();
        }
      });
      EXPECT_EQ(found[0], found[1]);
      return sentence.empty() ? std::to_string(found[0]) : sentence;
    };
    points(1, 3);
    points(4, 5);
    std::filesystem::remove(dir.path("rank-1.pd"));
    value_or_throw(store::restore(backup, store::of_rank(uri, 1, kOfTwo), {}));
    if (backed_up < 5) {  // the group was closed in order: its newest version is final
      EXPECT_NE(open().find("perdura rollback"), std::string::npos) << backed_up << ": " << open();
      value_or_throw(
          store::roll_back(store::of_rank(uri, 0, kOfTwo), "", versions[0][backed_up], {}));
    }
    EXPECT_EQ(open(), std::to_string(backed_up));
    EXPECT_EQ(open(), std::to_string(100 + backed_up)) << "the point after that is there";
  }
}

// It has numbers of its own, and would show another version than the others.
TEST(Group, ACopyOfABackupIsNoRanks) {
  const TempDir dir(TempDir::kMemory);
  const std::string uri = "file:" + dir.path("rank-%r.pd");
  const auto at = [&](const char* name, unsigned rank) {
    return "file:" + dir.path(std::string(name) + "-" + std::to_string(rank) + ".pd");
  };
  for (std::uint64_t number = 1; number <= 3; ++number) {
    run_ranks(2, [&](unsigned rank, Peers peers) {
      const auto group = GroupMember::open(std::move(peers), uri, options_of(Engine::kRedoLog));
      set(group->store(), rank, number);
      group->point();
    });
    if (number != 2) value_or_throw(store::back_up(store::of_rank(uri, 0, 2), at("b", 0), {}));
    value_or_throw(store::back_up(store::of_rank(uri, 1, 2), at("b", 1), {}));
  }
  const auto open_at = [&](const char* name) {
    std::string sentence;
    run_ranks(2, [&](unsigned rank, Peers peers) {
      try {
        GroupMember::open(std::move(peers), "file:" + dir.path(std::string(name) + "-%r.pd"),
                          options_of(Engine::kRemap));
      } catch (const Error& error) {
        if (rank == 0) sentence = error.what();
      }
    });
    return sentence;
  };
  store::CopyOptions to_log;
  to_log.engine = Engine::kRedoLog;
  for (unsigned rank = 0; rank < 2; ++rank) {
    value_or_throw(store::copy(at("b", rank), at("copy", rank), {}));
    value_or_throw(store::copy(at("b", rank), at("log", rank), to_log));
    value_or_throw(store::back_up(at("b", rank), at("again", rank), {}));
    value_or_throw(store::restore(at("b", rank), at("restored", rank), {}));
  }
  for (const char* const name : {"copy", "log", "again"})
    EXPECT_NE(open_at(name).find("it is a copy of the store of rank 0 of a group"),
              std::string::npos)
        << name << ": " << open_at(name);
  EXPECT_EQ(open_at("restored"), "");
  EXPECT_EQ(open_at("b"), "");
}

TEST(Group, AllRanksInOneStoreAreToldHow) {
  const TempDir dir(TempDir::kMemory);
  run_ranks(2, [&](unsigned, Peers peers) {
    expect_error(
        [&] {
          GroupMember::open(std::move(peers), "file:" + dir.path("one.pd"),
                            options_of(Engine::kRemap));
        },
        Code::kInvalidArgument, "write %r in its name");
  });
}

/// Of a process that is all ranks, as far as they tell each other anything.
class PeersLikeThisOne final : public GroupPeers {
 public:
  PeersLikeThisOne(unsigned rank, unsigned size) : rank_(rank), size_(size) {}
  unsigned rank() const override { return rank_; }
  unsigned size() const override { return size_; }
  void minimum(std::int64_t*, std::size_t) override {}
  void gather(const void* mine, std::size_t bytes, void* all) override {
    for (unsigned rank = 0; rank < size_; ++rank)
      std::memcpy(static_cast<std::byte*>(all) + rank * bytes, mine, bytes);
  }

 private:
  const unsigned rank_, size_;
};

// With fewer ranks any of them are open in one process: each made in a process of its own.
TEST(Group, StoresOfManyRanksHaveAddressesOfTheirOwn) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "their memory leaves less room for regions";
#endif
  const TempDir dir(TempDir::kMemory);
  const std::string uri = "file:" + dir.path("rank-%r.pd");
  Options options = options_of(Engine::kRemap);
  options.region_limit_bytes = std::uint64_t{64} << 30;
  constexpr unsigned kMany = 24;
  for (unsigned rank = 0; rank < kMany; ++rank)
    ASSERT_EQ(in_child([&]() -> std::string {
                const auto group = GroupMember::open(
                    std::make_unique<PeersLikeThisOne>(rank, kMany), uri, options);
                set(group->store(), rank, 1);
                group->point();
                return "";
              }),
              "");
  std::vector<Store> all;
  for (unsigned rank = 0; rank < kMany; ++rank) {
    all.push_back(Store::open(store::of_rank(uri, rank, kMany), options));
    EXPECT_EQ(all.back().find_root<Value>("value")->rank, rank);
  }
}

TEST(Group, StoresMayHaveAliases) {
  const TempDir dir(TempDir::kMemory);
  const std::string uri = "file:" + dir.path("rank-%r.pd");
  Options options = options_of(Engine::kRedoLog);
  options.aliases = 4;
  options.tracking = Tracking::kProtect;
  for (std::uint64_t session = 0; session < 3; ++session)
    run_ranks(2, [&](unsigned rank, Peers peers) {
      const auto group = GroupMember::open(std::move(peers), uri, options);
      if (session != 0) {
        EXPECT_EQ(group->store().root<Value>("value").number, session);
      }
      set(group->store(), rank, session + 1);
      group->point();
      group->close();
    });
}

TEST_P(Groups, AnOpeningThatFailsLeavesWhatWasThere) {
  // Of the first opening: it may be cut short on any rank, after any call.
  for (u64 nth = 1; nth < 2000; nth += 1 + nth / 6) {
    for (unsigned rank = 0; rank < kRanks; ++rank)
      std::filesystem::remove(dir_.path("rank-" + std::to_string(rank) + ".pd"));
    bool failed = false;
    plans_[1].arm({.nth = nth, .for_ever = true});
    try {
      run_ranks(kRanks, [&](unsigned rank, Peers peers) {
        const auto group = open(std::move(peers));
        set(group->store(), rank, 1);
        group->point();
        plans_[rank].arm({.for_ever = true});
      });
    } catch (const Error&) {
      failed = true;
    }
    for (media::FaultPlan& plan : plans_) plan.disarm();
    EXPECT_LE(shown(), 1u) << nth;
    if (!failed) {
      EXPECT_EQ(shown(), 1u);
      return;
    }
  }
  ADD_FAILURE() << "the opening never got through";
}

}  // namespace
}  // namespace perdura::test
