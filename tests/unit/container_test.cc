// Goal: what can be reached from a container's root at a persistence point, and nothing else, is in
// the version, at any address; the program's pointers stay right.
// Method: graphs of all kinds, moved, crashed, reopened at the same address and at another one;
// relations that hold of any graph are checked after each point. In processes of their own, where
// the program lies elsewhere, containers are opened by c/softpm.c.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "model/container/volatile_heap.hpp"
#include "support/container_graph.hpp"

/// It had no number in an earlier build.
struct Grown {
  Grown* next;
  std::uint64_t number;
};
PERDURA_TYPE(Grown, next)

namespace perdura::test {
namespace {

TEST_P(Containers, AGraphMovesWholeAndComesBack) {
  {
    Container container = open();
    make_graph(container.root<Root>(), kNodes);
    container.point();
    expect_graph(container, container.root<Root>(), kNodes);
    const ContainerStatistics first = container.statistics();
    EXPECT_EQ(first.moved_objects, kNodes + kNodes / 3 + 1);
    EXPECT_EQ(first.foreign_pointers, 0u);
    container.point();
    EXPECT_EQ(container.statistics().moved_objects, first.moved_objects);
    container.discard();
  }
  Container again = open();
  expect_graph(again, again.root<Root>(), kNodes);
  EXPECT_EQ(again.statistics().nulled_pointers, 0u);
}

TEST_P(Containers, AGraphComesBackAtAnotherAddress) {
  {
    Container container = open();
    make_graph(container.root<Root>(), kNodes);
    container.point();
    container.discard();
  }
  for (const u64 address : {0x551000000000, 0x552000000000}) {
    Container moved = open(address);
    expect_graph(moved, moved.root<Root>(), kNodes);
    Node* last = moved.root<Root>().all[kNodes - 1];
    last->other = make_node(kNodes);  // what is changed there is found there
    last->other->next = last;
    moved.point();
    EXPECT_TRUE(moved.contains(last->other));
    last->other = moved.root<Root>().all[(kNodes - 1) * 7 % kNodes];
  }
}

// Each point takes in what the program added, and no point what it did not reach.
TEST_P(Containers, PointsAreIncremental) {
  std::mt19937_64 random(7);
  std::set<u64> expected;
  {
    Container container = open();
    auto& chain = container.root<Chain>();
    std::vector<Link*> loose;
    for (u64 round = 0; round < 40; ++round) {
      for (u64 i = 0; i < random() % 50; ++i) {
        const u64 number = round * 1000 + i;
        Link* link = make<Link>(nullptr, number);
        if (random() % 3 == 0) {
          loose.push_back(link);  // unreachable
        } else {
          link->next = chain.first;
          chain.first = link;
          expected.insert(number);
        }
      }
      if (chain.first != nullptr && random() % 2 == 0) {
        Link* const first = chain.first;
        chain.first = first->next;
        expected.erase(first->number);
        destroy(first);
      }
      container.point();
      for (Link* link : loose) ASSERT_FALSE(container.contains(link));
      std::set<u64> found;
      for (Link* link = chain.first; link != nullptr; link = link->next) {
        ASSERT_TRUE(container.contains(link));
        found.insert(link->number);
      }
      ASSERT_EQ(found, expected);
    }
    container.discard();
    for (Link* link : loose) destroy(link);
  }
  Container again = open();
  std::set<u64> found;
  for (Link* link = again.root<Chain>().first; link != nullptr; link = link->next)
    found.insert(link->number);
  EXPECT_EQ(found, expected);
  const HeapAudit audit = again.audit();
  EXPECT_TRUE(audit.clean) << audit.problem;
}

TEST_P(Containers, WhatNoPointCoversIsGone) {
  {
    Container container = open();
    auto& chain = container.root<Chain>();
    chain.first = make<Link>(nullptr, u64{1});
    container.point();
    chain.first->number = 2;
    chain.first->next = make<Link>(nullptr, u64{3});
    container.discard();
  }
  Container again = open();
  ASSERT_NE(again.root<Chain>().first, nullptr);
  EXPECT_EQ(again.root<Chain>().first->number, 1u);
  EXPECT_EQ(again.root<Chain>().first->next, nullptr);
}

TEST_P(Containers, OtherReferencesFollow) {
  Container container = open();
  auto& chain = container.root<Chain>();
  Link* shared = make<Link>(nullptr, u64{5});
  Link* loose = make<Link>(shared, u64{6});  // stays volatile, and leads to what moves
  const Reference<Link> registered(shared);
  void* known = shared;
  refer(&known);
  chain.first = shared;
  container.point();
  EXPECT_TRUE(container.contains(chain.first));
  EXPECT_FALSE(container.contains(loose));
  EXPECT_EQ(loose->next, chain.first);
  EXPECT_EQ(registered.get(), chain.first);
  EXPECT_EQ(known, chain.first);
  forget(&known);
  destroy(loose);
}

TEST_P(Containers, PinnedObjectsStay) {
  {
    Container container = open();
    auto& chain = container.root<Chain>();
    Link* const link = make<Link>(nullptr, u64{5});
    pin(link);
    chain.first = link;
    container.point();
    EXPECT_EQ(chain.first, link);
    EXPECT_EQ(container.statistics().staying_pointers, 1u);
    container.point();  // nothing else changed
    EXPECT_EQ(chain.first, link);
    unpin(link);
    EXPECT_THROW(unpin(link), Error);
    container.point();
    EXPECT_NE(chain.first, link);
    EXPECT_TRUE(container.contains(chain.first));
    pin(chain.first);  // it stays anyway
    Link* const second = make<Link>(nullptr, u64{6});
    pin(second);
    chain.first->next = second;
    container.point();
    container.discard();
    unpin(second);
    destroy(second);
  }
  Container again = open();
  EXPECT_EQ(again.root<Chain>().first->number, 5u);
  EXPECT_EQ(again.root<Chain>().first->next, nullptr);
  EXPECT_EQ(again.statistics().nulled_pointers, 1u);
  EXPECT_EQ(again.nulled_pointers().size(), 1u);
}

TEST_P(Containers, ExcludedPointersAreNotFollowed) {
  Link* const cached = make<Link>(nullptr, u64{8});
  {
    Container container = open();
    auto& chain = container.root<Chain>();
    Link* const link = make<Link>(cached, u64{7});
    container.exclude(&link->next);  // before it moves
    chain.first = link;
    container.point();
    EXPECT_TRUE(container.contains(chain.first));
    EXPECT_EQ(chain.first->next, cached);
    container.point();
    EXPECT_EQ(chain.first->next, cached);
    container.discard();
  }
  Container again = open();
  EXPECT_EQ(again.root<Chain>().first->next, nullptr);
  // What is freed takes its exclusions with it.
  Link* const first = again.root<Chain>().first;
  again.exclude(&first->next);
  again.root<Chain>().first = nullptr;
  destroy(first);
  Link* const reused = make<Link>(cached, u64{9});
  again.root<Chain>().first = reused;
  again.point();
  EXPECT_TRUE(again.contains(again.root<Chain>().first->next));
}

TEST_P(Containers, WhatWasSaidOfAnObjectGoesWithIt) {
  Link* const cached = make<Link>(nullptr, u64{8});
  Container container = open();
  auto& chain = container.root<Chain>();
  auto* links = static_cast<Link*>(allocate(TypeRecord<Link>::value, 2));
  links[1].next = cached;
  container.exclude(&links[1].next);
  pin(links);
  links = static_cast<Link*>(reallocate(links, 100 * sizeof(Link)));
  EXPECT_EQ(code_of([&] { unpin(links); }), Code::kMisuse);
  chain.first = links;
  container.point();
  ASSERT_TRUE(container.contains(chain.first));
  EXPECT_EQ(chain.first[1].next, cached);
  EXPECT_EQ(code_of([&] { reallocate(links, 10); }), Code::kMisuse);  // where it was
  Link* const pinned = make<Link>();
  pin(pinned);
  destroy(pinned);
  EXPECT_EQ(code_of([&] { unpin(pinned); }), Code::kMisuse);
  destroy(cached);
}

TEST_P(Containers, ForeignPointersBecomeNullAndAreListed) {
  int on_the_stack = 0;
  const auto on_the_heap = std::make_unique<Link>();
  {
    Container container = open();
    auto& root = container.root<Root>();
    root.first = make_node(0);
    root.first->inside = reinterpret_cast<char*>(&on_the_stack);
    root.first->other = reinterpret_cast<Node*>(on_the_heap.get());
    root.first->word = reinterpret_cast<std::uintptr_t>(on_the_heap.get());  // who knows
    root.second = make_node(1);
    Node* const freed = make_node(2);
    root.second->next = freed;
    destroy(freed);
    container.point();
    EXPECT_EQ(container.statistics().foreign_pointers, 3u);
    EXPECT_EQ(root.first->inside, reinterpret_cast<char*>(&on_the_stack));
    container.discard();
  }
  Container again = open();
  auto& root = again.root<Root>();
  EXPECT_EQ(root.first->inside, nullptr);
  EXPECT_EQ(root.first->other, nullptr);
  EXPECT_EQ(root.first->word, reinterpret_cast<std::uintptr_t>(on_the_heap.get()));
  EXPECT_EQ(root.second->next, nullptr);
  EXPECT_EQ(again.statistics().nulled_pointers, 3u);
  EXPECT_EQ(again.nulled_pointers().size(), 3u);
}

TEST_P(Containers, LargeAndFlexibleObjectsMove) {
  constexpr u64 kCount = 100'000;  // pointers, in a large block
  {
    Container container = open();
    auto& root = container.root<Root>();
    auto* index = static_cast<Index*>(
        allocate_flexible(TypeRecord<Index>::value, sizeof(Index) + kCount * sizeof(Node*)));
    index->count = kCount;
    Node* node = make_node(1);
    for (u64 i = 0; i < kCount; ++i) index->nodes[i] = node;
    root.first = node;
    node->inside = reinterpret_cast<char*>(&index->nodes[kCount - 1]);  // into the large one
    node->other = reinterpret_cast<Node*>(index);
    container.point();
    index = reinterpret_cast<Index*>(root.first->other);
    ASSERT_TRUE(container.contains(index));
    EXPECT_EQ(root.first->inside, reinterpret_cast<char*>(&index->nodes[kCount - 1]));
    // One far inside changes: its page alone is walked.
    const u64 before = container.statistics().visited_pointers;
    index->nodes[kCount / 2] = make_node(4);
    container.point();
    EXPECT_TRUE(container.contains(index->nodes[kCount / 2]));
    if (GetParam().tracking == Tracking::kUserfault) {
      EXPECT_LT(container.statistics().visited_pointers - before, 20'000u);
    }
    container.discard();
  }
  Container again = open(0x551000000000);
  auto& root = again.root<Root>();
  auto* index = reinterpret_cast<Index*>(root.first->other);
  EXPECT_EQ(index->nodes[kCount / 2]->number, 4u);
  EXPECT_EQ(index->nodes[kCount - 1], root.first);
}

TEST_P(Containers, ChunksOfAnySizeFindWhatChanged) {
  for (const u32 chunk : {4u << 10, 64u << 10, 1u << 20, 4u << 20}) {
    Options chosen = options();
    chosen.chunk_bytes = chunk;
    const std::string path = uri("chunk " + std::to_string(chunk));
    {
      Container container = Container::open(path, chosen);
      auto& root = container.root<Root>();
      make_graph(root, kNodes);
      container.point();
      for (u64 i = 0; i < kNodes; i += 100) root.all[i]->number += kNodes;
      container.point();
      container.discard();
    }
    Container again = Container::open(path, chosen);
    for (u64 i = 0; i < kNodes; ++i)
      EXPECT_EQ(again.root<Root>().all[i]->number, i % 100 == 0 ? i + kNodes : i);
  }
  Options wrong = options();
  wrong.chunk_bytes = 5000;
  EXPECT_EQ(code_of([&] { Container::open(uri(), wrong); }), Code::kInvalidArgument);
}

TEST_P(Containers, ObjectsGrowWhereverTheyAre) {
  Container container = open();
  auto& root = container.root<Root>();
  root.all = static_cast<Node**>(allocate(kNodePointer, 2));
  root.all[0] = make_node(1);
  root.all = static_cast<Node**>(reallocate(root.all, 10 * sizeof(Node*)));
  EXPECT_EQ(root.all[9], nullptr);
  container.point();
  root.all = static_cast<Node**>(reallocate(root.all, 100 * sizeof(Node*)));
  EXPECT_TRUE(container.contains(root.all));
  root.all[99] = make_node(3);
  container.point();
  EXPECT_TRUE(container.contains(root.all[99]));
  EXPECT_EQ(root.all[0]->number, 1u);
}

TEST_P(Containers, AnObjectInTwoContainersIsInTheFirst) {
  Container first = open();
  Container second = Container::open(uri("second.pd"), options());
  Link* const shared = make<Link>(nullptr, u64{1});
  first.root<Chain>().first = shared;
  second.root<Chain>().first = shared;
  first.point();
  EXPECT_TRUE(first.contains(first.root<Chain>().first));
  EXPECT_EQ(second.root<Chain>().first, first.root<Chain>().first);
  second.point();
  EXPECT_EQ(second.statistics().foreign_pointers, 0u);
  EXPECT_EQ(second.statistics().shared_objects, 1u);
}

// Each takes in what the other one leads to, both ways.
TEST_P(Containers, ContainersFollowEachOthersObjects) {
  Container first = open();
  Container second = Container::open(uri("second.pd"), options());
  for (u64 i = 0; i < 4; ++i) {
    Link* const shared = make<Link>(nullptr, i);
    first.root<Chain>().first = shared;
    second.root<Chain>().first = shared;
    (i % 2 == 0 ? first : second).point();
    EXPECT_EQ(first.root<Chain>().first, second.root<Chain>().first);
    EXPECT_EQ(first.contains(first.root<Chain>().first), i % 2 == 0);
    EXPECT_EQ(first.root<Chain>().first->number, i);
  }
}

TEST_P(Containers, ALongListNeedsNoStack) {
  constexpr u64 kLinks = 300'000;
  Container container = open();
  auto& chain = container.root<Chain>();
  for (u64 i = 0; i < kLinks; ++i) chain.first = make<Link>(chain.first, i);
  container.point();
  u64 number = kLinks;
  for (Link* link = chain.first; link != nullptr; link = link->next) {
    if (!container.contains(link)) FAIL() << "link " << link->number << " was not moved";
    if (link->number != --number) FAIL() << link->number << " in place of " << number;
  }
  EXPECT_EQ(number, 0u);
}

// Threads add to lists of their own while points are taken in the background.
TEST_P(Containers, ThreadsGoOnWhileObjectsMove) {
  constexpr u64 kThreads = 3;
  constexpr u64 kLinks = 4000;
  struct Heads {
    Link* heads[kThreads];
  };
  {
    Container container = open();
    auto& root = container.root<Root>();
    root.all = static_cast<Node**>(allocate(kNodePointer, kThreads));
    container.point();
    container.point_every(std::chrono::milliseconds{1});
    std::vector<std::thread> threads;
    for (u64 t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        for (u64 i = 0; i < kLinks; ++i) {
          const auto operation = container.operation();
          Link* link = make<Link>(reinterpret_cast<Link*>(root.all[t]), i);
          root.all[t] = reinterpret_cast<Node*>(link);
        }
      });
    for (std::thread& thread : threads) thread.join();
    container.point_every(std::chrono::milliseconds{0});
    container.point_async();
    container.point_async();
    container.sync();
    container.discard();
  }
  Container again = open();
  auto& root = again.root<Root>();
  for (u64 t = 0; t < kThreads; ++t) {
    u64 number = kLinks;
    for (Link* link = reinterpret_cast<Link*>(root.all[t]); link != nullptr; link = link->next)
      ASSERT_EQ(link->number, --number);
    EXPECT_EQ(number, 0u);
  }
}

TEST_P(Containers, WhatCannotBeIsRefused) {
  {
    Container container = open();
    container.root<Chain>().first = make<Link>(nullptr, u64{1});
    container.point();
    EXPECT_EQ(code_of([&] { container.root<Root>(); }), Code::kTypeMismatch);
    {
      const auto operation = container.operation();
      EXPECT_EQ(code_of([&] { container.point(); }), Code::kMisuse);
      EXPECT_EQ(code_of([&] { container.point_async(); }), Code::kMisuse);
    }
    int on_the_stack = 0;
    EXPECT_EQ(code_of([&] { deallocate(&on_the_stack); }), Code::kMisuse);
  }
  {
    Store plain = Store::open(uri("plain.pd"), options());
    plain.root<Chain>("chain");
    plain.checkpoint();
  }
  EXPECT_EQ(code_of([&] { Container::open(uri("plain.pd"), options()); }), Code::kMisuse);
  Options aliased = options();
  aliased.aliases = 2;
  EXPECT_EQ(code_of([&] { Container::open(uri("aliased.pd"), aliased); }), Code::kInvalidArgument);
  Options reported = options();
  reported.tracking = Tracking::kReported;
  EXPECT_EQ(code_of([&] { Container::open(uri("reported.pd"), reported); }),
            Code::kInvalidArgument);
}

// A container is full: what fits has moved, nothing is lost, and the next point goes on.
TEST_P(Containers, AFullContainerLosesNothing) {
  Options small = options();
  small.region_limit_bytes = 4 * kMiB;
  small.log_limit_bytes = kMiB;
  constexpr u64 kLinks = 400'000;
  Container container = Container::open(uri(), small);
  auto& chain = container.root<Chain>();
  container.point();
  for (u64 i = 0; i < kLinks; ++i) chain.first = make<Link>(chain.first, i);
  EXPECT_EQ(code_of([&] { container.point(); }), Code::kNoSpace);
  u64 number = kLinks;
  for (Link* link = chain.first; link != nullptr; link = link->next)
    if (link->number != --number) FAIL() << link->number << " in place of " << number;
  ASSERT_EQ(number, 0u);
  for (u64 i = 0; i < kLinks - 1000; ++i) {
    Link* const first = chain.first;
    chain.first = first->next;
    destroy(first);
  }
  container.point();
  number = 1000;
  for (Link* link = chain.first; link != nullptr; link = link->next) {
    ASSERT_TRUE(container.contains(link));
    ASSERT_EQ(link->number, --number);
  }
}

// An excluded pointer does not move what it leads to; where another one does, it follows.
// As the one that the paper excludes: a number that looks like a pointer.
TEST_P(Containers, AnExcludedWordThatMayBeANumberStaysOne) {
  Link* const volatile_link = make<Link>(nullptr, u64{8});
  const auto address = reinterpret_cast<std::uintptr_t>(volatile_link);
  {
    Container container = open();
    auto& root = container.root<Root>();
    root.first = make_node(1);
    root.first->word = address;
    container.exclude(&root.first->word);
    container.point();
    EXPECT_FALSE(container.contains(volatile_link));
    EXPECT_EQ(root.first->word, address);
    container.discard();
  }
  destroy(volatile_link);
  EXPECT_EQ(open().root<Root>().first->word, address);
  EXPECT_EQ(open(0x551000000000).root<Root>().first->word, address);
}

TEST_P(Containers, ExcludedPointersLeadToWhereTheirObjectsAre) {
  {
    Container container = open();
    auto& root = container.root<Root>();
    root.first = root.second = make_node(7);
    Node* const loose = make_node(8);
    loose->other = root.first;
    container.exclude(&root.first);
    container.exclude(&loose->other);
    container.point();
    ASSERT_TRUE(container.contains(root.second));
    EXPECT_EQ(root.first, root.second);
    EXPECT_EQ(loose->other, root.second);
    container.close();
    destroy(loose);
  }
  Container again = open();
  EXPECT_NE(again.root<Root>().first, nullptr);
  EXPECT_EQ(again.root<Root>().first, again.root<Root>().second);
}

// Another thread may get an object's place, and pin what it makes there, before the thread that
// ended it has returned: what was said of it is taken away first.
TEST(VolatileObjects, WhatIsSaidOfTheNextObjectStays) {
  detail::VolatileHeap& objects = detail::VolatileHeap::instance();
  Link* const link = make<Link>();
  objects.pin(link);
  objects.exclude(&link->next);
  {
    const auto said = objects.take(link, sizeof(Link));  // it ends
    EXPECT_FALSE(objects.is_pinned(link));
    EXPECT_FALSE(objects.is_excluded(&link->next));
    objects.pin(link);
  }
  EXPECT_TRUE(objects.unpin(link));
  objects.pin(link);
  objects.exclude(&link->next);
  objects.give(objects.take(link, sizeof(Link)), link + 1, sizeof(Link));  // it moves
  EXPECT_TRUE(objects.is_excluded(&link[1].next));
  EXPECT_TRUE(objects.unpin(link + 1));
  EXPECT_FALSE(objects.unpin(link));
  objects.give(objects.take(link + 1, sizeof(Link)), link, 0);  // where there is no space for it
  EXPECT_FALSE(objects.is_excluded(&link->next));
  destroy(link);
}

TEST_P(Containers, OnlyWholeObjectsArePinned) {
  auto* const links = static_cast<Link*>(allocate(TypeRecord<Link>::value, 2));
  EXPECT_EQ(code_of([&] { pin(&links[1]); }), Code::kMisuse);
  EXPECT_EQ(code_of([&] { pin(&links->number); }), Code::kMisuse);
  destroy(links);
}

// An excluded word goes with its object, and not to what lies behind a smaller one.
TEST_P(Containers, AnObjectThatShrinksLeavesNothingSaidBehind) {
  auto* links = static_cast<Link*>(allocate(TypeRecord<Link>::value, 100));
  Container container = open();
  for (u64 i = 0; i < 100; ++i) container.exclude(&links[i].next);
  std::vector<Link*> beside;
  for (u64 i = 0; i < 10'000; ++i) make<Link>();  // where others were
  links = static_cast<Link*>(reallocate(links, sizeof(Link)));
  for (u64 i = 0; i < 200; ++i) beside.push_back(make<Link>(make<Link>(nullptr, i), i));
  auto& root = container.root<Root>();
  root.all = static_cast<Node**>(allocate(kNodePointer, 200));
  for (u64 i = 0; i < 200; ++i) root.all[i] = reinterpret_cast<Node*>(beside[i]);
  container.point();
  EXPECT_EQ(container.statistics().staying_pointers, 0u);
  destroy(links);
}

TEST_P(Containers, ARootThatThreadsMakeAtOnceIsOne) {
  constexpr int kRounds = 30;
  for (int round = 0; round < kRounds; ++round) {
    Container container = Container::open(uri(std::to_string(round)), options());
    std::atomic<int> arrived{0};
    std::array<Chain*, 2> roots{};
    std::vector<std::thread> threads;
    for (Chain*& root : roots)
      threads.emplace_back([&] {
        ++arrived;
        while (arrived < 2) std::this_thread::yield();
        root = &container.root<Chain>();
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(roots[0], roots[1]);
    container.discard();
  }
}

TEST_P(Containers, ADestroyedRootIsMadeAnew) {
  {
    Container container = open();
    container.root<Chain>().first = make<Link>(nullptr, u64{1});
    container.point();
    destroy(&container.root<Chain>());
    EXPECT_EQ(container.root<Chain>().first, nullptr);
    container.root<Chain>().first = make<Link>(nullptr, u64{2});
    container.point();
    destroy(&container.root<Chain>());
    container.close();
  }
  Container again = open(0x551000000000);
  EXPECT_EQ(again.root<Chain>().first, nullptr);
}

// Standard containers are in stores alone, whichever operations the thread is in.
TEST_P(Containers, StandardContainersGetNoBlocksOfAContainer) {
  Store store = Store::open(uri("store.pd"), options());
  Container container = open();
  auto& numbers = store.root<map<int, string>>("numbers");
  {
    const ContainerOperation operation = container.operation();
    numbers[1] = "a text that is too long to be kept in the string itself";
    string text("another one, which is made with no element of the map in sight");
    EXPECT_TRUE(store.contains(text.data()));
  }
  EXPECT_TRUE(store.contains(numbers[1].data()));
  store.close();
  EXPECT_EQ(code_of([&] {
              const ContainerOperation operation = container.operation();
              string text("there is no store at all, and so there is nowhere to put this");
            }),
            Code::kMisuse);
}

// At another address what a container has is right in memory and in each version, however far the
// program comes before it ends.
TEST_P(Containers, AMovedContainerIsRightAfterEachStep) {
  constexpr u64 kSteps = 5;
  u64 address = 0x551000000000;
  u64 number = 1;
  {
    Container container = open();
    container.root<Chain>().first = make<Link>(nullptr, u64{0});
    container.point();
    container.discard();
  }
  for (u64 step = 0; step < 2 * kSteps;
       ++step, address += 64 * kMiB) {  // old and new places overlap
    Container container = open(address);
    auto& chain = container.root<Chain>();
    ASSERT_TRUE(container.contains(chain.first));
    u64 expected = number;
    for (const Link* link = chain.first; link != nullptr; link = link->next) {
      ASSERT_TRUE(container.contains(link));
      ASSERT_EQ(link->number, --expected);
    }
    ASSERT_EQ(expected, 0u);
    if (step % kSteps == 0) {  // nothing is durable of the move
      container.discard();
      continue;
    }
    chain.first = make<Link>(chain.first, number++);
    if (step % kSteps == 1) {
      container.close();
      continue;
    }
    if (step % kSteps == 2) {
      container.point_async();
      container.sync();
    } else {
      container.point();
    }
    container.discard();
  }
}

// An earlier build of the program had smaller objects: followed from the root, they would be read
// as those of now.
TEST_P(Containers, ObjectsOfAnotherLayoutAreRefused) {
  static constexpr perdura_slot kSlots[] = {{"next", PERDURA_SLOT_POINTER, 0, 8, nullptr, 0, 0, 0}};
  static constexpr perdura_type kEarlier{"Grown", 8, 8, 1, kSlots};
  {
    Container container = open();
    container.root<Chain>().first = static_cast<Link*>(allocate(kEarlier));
    container.point();
    container.discard();
  }
  EXPECT_EQ(code_of([&] { open(); }), Code::kTypeMismatch);
  EXPECT_EQ(code_of([&] { open(0x551000000000); }), Code::kTypeMismatch);
  // A library of the program has it as it was.
  const detail::KnownType also(kEarlier);
  EXPECT_NE(open().root<Chain>().first, nullptr);
}

INSTANTIATE_TEST_SUITE_P(Ways, Containers, testing::ValuesIn(ways()), name_of_way);

}  // namespace
}  // namespace perdura::test
