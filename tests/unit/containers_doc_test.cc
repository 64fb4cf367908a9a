// Goal: what docs/containers.md says and no test of a part shows: what sync() throws, pointers to
// what was destroyed, layouts that differ between containers and programs, the order of operations,
// forked children, and which tracker and engine serve a container.
// Method: containers that other processes have made; threads that enter operations both ways.
#include <gtest/gtest.h>

#include <unistd.h>

#include <perdura/compat/softpm.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "model/container/container_runtime.hpp"
#include "store/inspect.hpp"
#include "store/runtime.hpp"
#include "support/container_graph.hpp"
#include "support/expect_failure.hpp"
#include "support/process.hpp"

namespace perdura::test {
namespace {

class ContainersDoc : public testing::Test {
 protected:
  static Options options(Tracking tracking = Tracking::kAutomatic) {
    Options options;
    options.region_limit_bytes = 64 * kMiB;
    options.tracking = tracking;
    return options;
  }
  std::string path(const char* name = "a.pd") const { return folder_.path(name); }
  Container open(const char* name = "a.pd") const { return Container::open(path(name), options()); }

  const TempDir folder_{TempDir::kMemory};
};

// --- points --------------------------------------------------------------------------------------

TEST_F(ContainersDoc, SyncThrowsWhatAPointFailedWithOnce) {
  Container container = open();
  auto& chain = container.root<Chain>();
  container.point();
  container.sync();
  std::filesystem::remove(path());
  chain.first = make<Link>(nullptr, u64{1});
  container.point_async();
  chain.first->number = 2;
  container.point_async();  // has waited for the one before
  expect_error([&] { container.sync(); }, Code::kIo, "was deleted");
  container.sync();
  container.discard();
}

// Both are inside an operation of one container when they enter that of the other, while both take
// points.
TEST_F(ContainersDoc, OperationsOfSeveralNeedNoOrder) {
  ::alarm(60);  // of threads that wait for each other for ever
  Container a = open();
  Container b = open("b.pd");
  auto& of_a = a.root<Chain>();
  auto& of_b = b.root<Chain>();
  of_a.first = make<Link>(nullptr, u64{0});
  of_b.first = make<Link>(nullptr, u64{0});
  a.point();
  b.point();
  a.point_every(std::chrono::milliseconds{1});
  b.point_every(std::chrono::milliseconds{1});
  constexpr u64 kRounds = 3000;
  const auto work = [](Container& first, Container& second, Chain& chain) {
    for (u64 i = 0; i < kRounds; ++i) {
      const auto outer = first.operation();
      std::this_thread::yield();
      const auto inner = second.operation();
      ++chain.first->number;
      destroy(make<Link>());
    }
  };
  std::thread other([&] { work(b, a, of_b); });
  work(a, b, of_a);
  other.join();
  EXPECT_EQ(of_a.first->number, kRounds);
  EXPECT_EQ(of_b.first->number, kRounds);
  a.close();
  b.close();
  ::alarm(0);
}

TEST_F(ContainersDoc, ObjectsStayUntilTheyAreDestroyed) {
  Container container = open();
  auto& chain = container.root<Chain>();
  chain.first = make<Link>(nullptr, u64{5});
  container.point();
  const u64 blocks = container.audit().live_blocks;
  Link* const link = std::exchange(chain.first, nullptr);
  container.point();
  EXPECT_EQ(container.audit().live_blocks, blocks);
  EXPECT_EQ(link->number, 5u);
  destroy(link);
  container.point();
  EXPECT_EQ(container.audit().live_blocks, blocks - 1);
}

// --- pointers ------------------------------------------------------------------------------------

TEST_F(ContainersDoc, APointerToWhatWasDestroyedLeadsToItsPlace) {
  u64 distance = 0;
  {
    Container container = open();
    auto& chain = container.root<Chain>();
    chain.first = make<Link>(make<Link>(nullptr, u64{2}), u64{1});
    container.point();
    Link* const second = chain.first->next;
    distance =
        reinterpret_cast<std::uintptr_t>(second) - reinterpret_cast<std::uintptr_t>(chain.first);
    destroy(second);
    chain.first->number = 3;
    container.point();
    EXPECT_EQ(chain.first->next, second);
    EXPECT_EQ(container.statistics().foreign_pointers, 0u);
    container.discard();
  }
  Options elsewhere = options();
  elsewhere.region_address = 0x551000000000;
  Container again = Container::open(path(), elsewhere);
  const Link* const first = again.root<Chain>().first;
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first->next) - reinterpret_cast<std::uintptr_t>(first),
            distance);
  EXPECT_EQ(again.statistics().nulled_pointers, 0u);
}

// The pointer is in an object of A that B has a copy of.
TEST_F(ContainersDoc, WhatWasFreedBehindASharedObjectIsNull) {
  {
    Container a = open();
    Container b = open("b.pd");
    a.root<Chain>().first = make<Link>(make<Link>(nullptr, u64{2}), u64{1});
    a.point();
    b.root<Chain>().first = make<Link>(a.root<Chain>().first, u64{0});
    b.point();
    EXPECT_EQ(b.statistics().foreign_pointers, 0u);
    destroy(a.root<Chain>().first->next);
    b.point();
    EXPECT_EQ(b.statistics().shared_objects, 1u);
    EXPECT_EQ(b.statistics().foreign_pointers, 1u);
    a.discard();
    b.discard();
  }
  Container b = open("b.pd");
  const Link* const shared = b.root<Chain>().first->next;
  ASSERT_TRUE(b.contains(shared));
  EXPECT_EQ(shared->number, 1u);
  EXPECT_EQ(shared->next, nullptr);
  EXPECT_TRUE(b.nulled_pointers().empty()) << "those of its own objects alone";
}

// --- layouts -------------------------------------------------------------------------------------

constexpr perdura_slot kSlots[] = {{"next", PERDURA_SLOT_POINTER, 0, 8, nullptr, 0, 0, 0}};
constexpr perdura_type kTwin{"Twin", 8, 8, 1, kSlots};
constexpr perdura_type kLargerTwin{"Twin", 16, 8, 1, kSlots};

class TwinsDoc : public ContainersDoc {
 protected:
  /// The root leads to an object of that layout, as another program had it.
  void make_container(const char* name, const perdura_type& type) const {
    Chain* chain = nullptr;
    {
      Container container = open(name);
      chain = &container.root<Chain>();
      container.point();
      container.close();
    }
    Store store = Store::open(path(name), options());
    ASSERT_TRUE(store.contains(chain));
    const auto operation = store.operation();
    chain->first = static_cast<Link*>(operation.allocate(type));
  }
};

TEST_F(TwinsDoc, OfTwoContainersMustBeAlike) {
  make_container("a.pd", kTwin);
  make_container("b.pd", kLargerTwin);
  Container a = open();
  Container b = open("b.pd");
  Link* const own = std::exchange(b.root<Chain>().first, a.root<Chain>().first);
  expect_error([&] { b.point(); }, Code::kTypeMismatch, "'Twin'");
  b.root<Chain>().first = own;
  b.point();
  a.discard();
  b.discard();
}

// As in a program in C, whose records nobody knows before it uses them.
TEST_F(TwinsDoc, OfTheProgramAreRefusedWhenTheyAreUsed) {
  make_container("a.pd", kTwin);
  Container container = open();
  auto& chain = container.root<Chain>();
  expect_error([&] { container.root(kLargerTwin); }, Code::kTypeMismatch, "'Twin'");
  const auto make_one = [&] {
    chain.first = static_cast<Link*>(allocate(kLargerTwin));
    container.point();
  };
  expect_error(make_one, Code::kTypeMismatch, "'Twin'");
  container.discard();
}

// --- forked children -----------------------------------------------------------------------------

TEST_F(ContainersDoc, AForkedChildReadsVolatileObjectsAlone) {
  Link* const link = make<Link>(nullptr, u64{7});
  EXPECT_EQ(in_child([&]() -> std::string {
              if (link->number != 7) return "another number";
              expect_error([] { make<Link>(); }, Code::kForked, "forked child");
              expect_error([&] { destroy(link); }, Code::kForked, "forked child");
              return testing::Test::HasFailure() ? "not refused" : "";
            }),
            "");
  destroy(link);
}

TEST_F(ContainersDoc, AForkedChildHasNoContainers) {
  Container container = Container::open(path(), options());
  const std::vector<std::function<void()>> calls = {
      [&] { container.close(); },
      [&] { (void)container.audit(); },
      [&] { container.point(); },
      [&] { container.root<Link>(); },
      [&] { const auto operation = container.operation(); },
      [&] { Container::open(path("own.pd"), options()); },
      [&] { container.sync(); },
      [&] { (void)container.statistics(); },
      [&] { (void)container.durable_version(); },
      [&] { (void)container.nulled_pointers(); },
      [&] { container.warn_of_sharing(); },
  };
  const auto in_waiting_child = [](const std::function<void()>& body) {
    return in_child([&]() -> std::string {
      ::alarm(60);  // the threads of the container are not there
      body();
      return testing::Test::HasFailure() ? "another error" : "";
    });
  };
  for (size_t i = 0; i < calls.size(); ++i)
    EXPECT_EQ(in_waiting_child([&] { expect_error(calls[i], Code::kForked, "parent"); }), "") << i;
  EXPECT_EQ(in_waiting_child([&] { container.discard(); }), "");
  EXPECT_EQ(in_waiting_child([&] { const Container gone = std::move(container); }), "");
  container.point();
  container.close();
}

// One that was closed, or given to another variable, says so; to close it again does nothing.
TEST_F(ContainersDoc, AClosedContainerSaysSo) {
  Container container = Container::open(path(), options());
  const Container moved = std::move(container);
  const auto expect_closed = [](Container& gone) {
    const std::vector<std::function<void()>> calls = {
        [&] { gone.root<Link>(); },
        [&] { gone.point(); },
        [&] { gone.point_async(); },
        [&] { gone.sync(); },
        [&] { gone.point_every(std::chrono::milliseconds(1)); },
        [&] { (void)gone.durable_version(); },
        [&] { const auto operation = gone.operation(); },
        [&] { gone.exclude(nullptr); },
        [&] { gone.warn_of_sharing(); },
        [&] { (void)gone.shared_objects(); },
        [&] { (void)gone.statistics(); },
        [&] { (void)gone.nulled_pointers(); },
        [&] { (void)gone.audit(); },
        [&] { (void)gone.contains(nullptr); },
    };
    for (size_t i = 0; i < calls.size(); ++i) {
      SCOPED_TRACE(i);
      expect_error(calls[i], Code::kMisuse, "closed");
    }
    gone.close();
    gone.discard();
  };
  expect_closed(container);
  Container closed = Container::open(path("closed.pd"), options());
  closed.close();
  expect_closed(closed);
}

TEST_F(ContainersDoc, OnlyObjectsArePinned) {
  int on_the_stack = 0;
  expect_error([&] { pin(&on_the_stack); }, Code::kMisuse, "there is none");
  Container container = Container::open(path(), options());
  Chain& chain = container.root<Chain>();
  expect_error([&] { pin(reinterpret_cast<char*>(&chain) + 1); }, Code::kMisuse, "");
  Link* const link = make<Link>();
  pin(link);
  unpin(link);
  expect_error([&] { unpin(link); }, Code::kMisuse, "not pinned");
  destroy(link);
}

// --- how they are written ------------------------------------------------------------------------

TEST_F(ContainersDoc, InTheBackgroundTrackersThatSeeStoresFirstServe) {
  Options chosen = options();
  chosen.engine = Engine::kRemap;
  chosen.capture = Capture::kBackground;
  {
    const Container container = Container::open(path(), chosen);
    const Tracking tracking = container.runtime().runtime().statistics().tracking;
    EXPECT_TRUE(tracking == Tracking::kSigbus || tracking == Tracking::kProtect);
  }
  chosen.tracking = Tracking::kUserfault;  // staged
  const Container other = Container::open(path("other.pd"), chosen);
  EXPECT_EQ(other.runtime().runtime().statistics().tracking, Tracking::kUserfault);
}

// In a program that has used no container before: the heap of volatile objects is the parent's.
TEST_F(ContainersDoc, SoftPmsAreInChunks) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const std::string file = path("softpm");
        ::setenv("PERDURA_STORE", ("file:" + file).c_str(), 1);
        void* root = nullptr;
        const int id = pCAlloc(7, 64, &root);
        pPoint(id);
        const int synced = pSync(id);
        pCFree(id);
        bool in_chunks = id > 0 && synced == 0;
        u64 stores = 0;
        for (const auto& each : std::filesystem::directory_iterator(folder_.path(""))) {
          const auto outline = value_or_throw(store::outline(each.path().string(), {}));
          in_chunks = in_chunks && outline.regions.at(0).record.chunk_bytes != 0;
          ++stores;
        }
        ::_exit(in_chunks && stores == 1 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace perdura::test
