// Goal: a container has a copy of its own of each object of another one that it leads to, as that
// is at the point, and the whole graph comes back without the other; while the program runs there
// is one object. Method: two containers, or three, that lead into each other, closed in any order;
// the one with the copies is opened alone, at its place and elsewhere, and compared with what both
// had.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "format/container_format.hpp"
#include "model/container/container_runtime.hpp"
#include "support/container_graph.hpp"

namespace perdura::test {
namespace {

std::vector<u64> numbers_of(const Chain& chain) {
  std::vector<u64> numbers;
  for (const Link* link = chain.first; link != nullptr; link = link->next)
    numbers.push_back(link->number);
  return numbers;
}

// A list of links with the numbers `count` - 1 to 0.
Link* make_links(u64 count) {
  Link* first = nullptr;
  for (u64 i = 0; i < count; ++i) first = make<Link>(first, i);
  return first;
}

class SharedObjects : public Containers {
 protected:
  Container open_a(u64 address = 0) { return Container::open(uri("a.pd"), options(address)); }
  Container open_b(u64 address = 0) { return Container::open(uri("b.pd"), options(address)); }
  /// What is seen of B when it is opened alone, at its place or elsewhere.
  template <class Check>
  void expect_in_b(Check&& check) {
    for (const u64 address : {0x0ul, 0x553000000000ul, 0x554000000000ul}) {
      Container b = open_b(address);
      check(b);
      expect_clean(b);
      b.discard();
    }
  }
  /// What is in the last version of B, which is open.
  void expect_in_b_copy(Container& b, const std::vector<u64>& numbers) {
    b.point();
    std::filesystem::copy_file(folder_.path("b.pd"), folder_.path("copy.pd"),
                               std::filesystem::copy_options::overwrite_existing);
    Container then = Container::open(uri("copy.pd"), options(0x554c00000000));
    EXPECT_EQ(numbers_of(then.root<Chain>()), numbers);
    then.discard();
  }
  static void expect_clean(const Container& container) {
    const HeapAudit audit = container.audit();
    EXPECT_TRUE(audit.clean) << audit.problem;
  }
};

TEST_P(SharedObjects, AListIsInBoth) {
  {
    Container a = open_a();
    Container b = open_b();
    auto& of_a = a.root<Chain>();
    auto& of_b = b.root<Chain>();
    of_a.first = make_links(3);
    a.point();
    of_b.first = make<Link>(of_a.first->next, u64{100});  // its tail
    b.point();
    EXPECT_TRUE(b.contains(of_b.first));
    EXPECT_EQ(of_b.first->next, of_a.first->next);  // there is one while the program runs
    EXPECT_TRUE(a.contains(of_b.first->next));
    EXPECT_EQ(b.statistics().shared_objects, 2u);
    EXPECT_EQ(b.statistics().shared_bytes, 32u);
    EXPECT_EQ(b.statistics().foreign_pointers, 0u);
    EXPECT_EQ(a.statistics().shared_objects, 0u);
    const auto listed = b.shared_objects();
    ASSERT_EQ(listed.size(), 2u);
    EXPECT_NE(listed[0].find("a 'Link' in 16 bytes at 0x"), std::string::npos) << listed[0];
    EXPECT_NE(listed[0].find("a.pd'"), std::string::npos) << listed[0];
    expect_clean(b);
    a.discard();
    b.discard();
  }
  expect_in_b([](Container& b) {
    EXPECT_EQ(numbers_of(b.root<Chain>()), (std::vector<u64>{100, 1, 0}));
    EXPECT_TRUE(b.contains(b.root<Chain>().first->next->next));
    EXPECT_EQ(b.statistics().nulled_pointers, 0u);
  });
  // They are objects of B from here on.
  Container b = open_b();
  const u64 blocks = b.audit().live_blocks;
  destroy(std::exchange(b.root<Chain>().first->next->next, nullptr));
  b.point();
  EXPECT_EQ(b.audit().live_blocks, blocks - 1);
  EXPECT_EQ(b.statistics().shared_objects, 0u);
  b.close();
  expect_in_b([](Container& again) {
    EXPECT_EQ(numbers_of(again.root<Chain>()), (std::vector<u64>{100, 1}));
  });
}

TEST_P(SharedObjects, BothComeBackInAnyOrder) {
  {
    Container a = open_a();
    Container b = open_b();
    a.root<Chain>().first = make_links(50);
    a.point();
    b.root<Chain>().first = a.root<Chain>().first;
    b.close();
    a.close();
  }
  std::vector<u64> expected = numbers_of(Chain{});
  for (u64 i = 50; i-- > 0;) expected.push_back(i);
  for (const bool a_first : {true, false}) {
    std::optional<Container> a;
    if (a_first) a.emplace(open_a());
    Container b = open_b();
    if (!a_first) a.emplace(open_a());
    EXPECT_EQ(numbers_of(a->root<Chain>()), expected);
    EXPECT_EQ(numbers_of(b.root<Chain>()), expected);
    EXPECT_TRUE(b.contains(b.root<Chain>().first));
    EXPECT_TRUE(a->contains(a->root<Chain>().first));
    b.root<Chain>().first->number = expected[0];
    a->discard();
    if (a_first) b.discard();
    else b.close();
  }
}

// A graph with all kinds of pointers, of which each container has the whole.
TEST_P(SharedObjects, AGraphKeepsItsShape) {
  {
    Container a = open_a();
    Container b = open_b();
    make_graph(a.root<Root>(), kNodes);
    a.point();
    b.root<Root>() = a.root<Root>();
    b.point();
    EXPECT_EQ(b.statistics().shared_objects, kNodes + kNodes / 3 + 1);
    b.point();
    EXPECT_EQ(b.statistics().shared_objects, kNodes + kNodes / 3 + 1);
    expect_graph(a, b.root<Root>(), kNodes);
    a.discard();
    b.discard();
  }
  expect_in_b([](Container& b) { expect_graph(b, b.root<Root>(), kNodes); });
  Container a = open_a(0x554400000000);
  expect_graph(a, a.root<Root>(), kNodes);
}

// Objects of A lead back into B, and two words of B to one object of A, and into it.
TEST_P(SharedObjects, CyclesThroughBothStay) {
  {
    Container a = open_a();
    Container b = open_b();
    Node* const own = make_node(0);
    b.root<Root>().first = own;
    b.point();
    Node* const back = b.root<Root>().first;
    Node* shared = make_node(1);
    shared->next = shared;
    shared->other = back;
    shared->inside = reinterpret_cast<char*>(&back->number);
    a.root<Root>().first = shared;
    a.point();
    shared = a.root<Root>().first;
    back->next = back->other = shared;
    back->inside = reinterpret_cast<char*>(&shared->value);
    back->word = reinterpret_cast<std::uintptr_t>(&shared->number);
    b.root<Root>().second = shared;
    b.point();
    EXPECT_EQ(b.statistics().shared_objects, 2u);  // with its text
    a.point();                                     // has one of B's in turn
    EXPECT_EQ(a.statistics().shared_objects, 1u);
    a.discard();
    b.discard();
  }
  const auto check = [](const Container& container, const Node* back, const Node* shared) {
    ASSERT_TRUE(container.contains(back));
    ASSERT_TRUE(container.contains(shared));
    EXPECT_EQ(back->number, 0u);
    EXPECT_EQ(back->next, shared);
    EXPECT_EQ(back->other, shared);
    EXPECT_EQ(back->inside, reinterpret_cast<const char*>(&shared->value));
    EXPECT_EQ(back->word, reinterpret_cast<std::uintptr_t>(&shared->number));
    EXPECT_STREQ(back->name, kLiteral);
    EXPECT_EQ(shared->number, 1u);
    EXPECT_EQ(shared->next, shared);
    EXPECT_EQ(shared->other, back);
    EXPECT_EQ(shared->inside, reinterpret_cast<const char*>(&back->number));
    EXPECT_STREQ(shared->value.text, "text 1");
    EXPECT_STREQ(shared->name, kLiteral);
    EXPECT_EQ(shared->rule(3), 9u);
  };
  expect_in_b([&](Container& b) {
    EXPECT_EQ(b.root<Root>().second, b.root<Root>().first->next);
    check(b, b.root<Root>().first, b.root<Root>().second);
  });
  Container a = open_a();
  check(a, a.root<Root>().first->other, a.root<Root>().first);
}

TEST_P(SharedObjects, APointHasThemAsTheyAreThen) {
  {
    Container a = open_a();
    Container b = open_b();
    auto& of_a = a.root<Chain>();
    of_a.first = make_links(2);
    a.point();
    b.root<Chain>().first = of_a.first;
    b.point();
    const u64 version = b.point();
    EXPECT_EQ(b.point(), version);  // nothing changed in either
    of_a.first->number = 7;
    Link* const second = std::exchange(of_a.first->next, make<Link>(of_a.first->next, u64{8}));
    EXPECT_GT(b.point(), version);              // nothing changed in B
    EXPECT_TRUE(b.contains(of_a.first->next));  // B was the first to find it
    EXPECT_EQ(of_a.first->next->next, second);
    EXPECT_EQ(b.statistics().shared_objects, 2u);
    of_a.first->number = 9;
    of_a.first->next = nullptr;
    a.point();
    a.discard();
    b.discard();
  }
  expect_in_b(
      [](Container& b) { EXPECT_EQ(numbers_of(b.root<Chain>()), (std::vector<u64>{7, 8, 0})); });
  EXPECT_EQ(numbers_of(open_a().root<Chain>()), (std::vector<u64>{9}));
}

TEST_P(SharedObjects, WhatIsFreedThereIsNull) {
  {
    Container a = open_a();
    Container b = open_b();
    a.root<Chain>().first = make_links(2);
    a.point();
    b.root<Chain>().first = make<Link>(a.root<Chain>().first, u64{5});
    b.point();
    EXPECT_EQ(b.statistics().shared_objects, 2u);
    destroy(std::exchange(a.root<Chain>().first, nullptr));
    b.point();
    EXPECT_EQ(b.statistics().shared_objects, 0u);
    EXPECT_EQ(b.statistics().foreign_pointers, 1u);
    b.point();
    EXPECT_EQ(b.statistics().foreign_pointers, 1u);
    a.discard();
    b.discard();
  }
  Container b = open_b();
  EXPECT_EQ(b.statistics().nulled_pointers, 1u);
  EXPECT_EQ(numbers_of(b.root<Chain>()), (std::vector<u64>{5}));
}

// Another object, of another type and size, is where one of A was.
TEST_P(SharedObjects, WhatTakesAPlaceIsFollowed) {
  {
    Container a = open_a();
    Container b = open_b();
    a.root<Root>().first = reinterpret_cast<Node*>(
        allocate_flexible(TypeRecord<Index>::value, sizeof(Index)));  // the type is known then
    a.root<Root>().all = static_cast<Node**>(allocate(kNodePointer, 50'000));
    a.point();
    Node** const before = a.root<Root>().all;
    before[20'000] = b.root<Root>().first = make_node(6);
    b.root<Root>().all = before;
    b.point();
    EXPECT_EQ(b.statistics().shared_objects, 1u);
    const u64 bytes = b.statistics().shared_bytes;
    deallocate(before);
    a.root<Root>().all = nullptr;
    auto* const index = static_cast<Index*>(
        allocate_flexible(TypeRecord<Index>::value, sizeof(Index) + 30'000 * sizeof(Node*)));
    index->count = 30'000;
    index->nodes[29'999] = b.root<Root>().first;
    a.root<Root>().all = reinterpret_cast<Node**>(index);
    a.point();
    ASSERT_EQ(a.root<Root>().all, before) << "the space was not used again";
    b.point();
    EXPECT_EQ(b.statistics().shared_objects, 1u);
    EXPECT_LT(b.statistics().shared_bytes, bytes);
    expect_clean(b);
    a.discard();
    b.discard();
  }
  expect_in_b([](Container& b) {
    auto* const index = reinterpret_cast<Index*>(b.root<Root>().all);
    ASSERT_TRUE(b.contains(index));
    EXPECT_EQ(index->count, 30'000u);
    EXPECT_EQ(index->nodes[29'999], b.root<Root>().first);
  });
}

TEST_P(SharedObjects, LargeOnesChangeByPages) {
  constexpr u64 kCount = 200'000;
  {
    Container a = open_a();
    Container b = open_b();
    auto* index = static_cast<Index*>(
        allocate_flexible(TypeRecord<Index>::value, sizeof(Index) + kCount * sizeof(Node*)));
    index->count = kCount;
    a.root<Root>().all = reinterpret_cast<Node**>(index);
    a.point();
    index = reinterpret_cast<Index*>(a.root<Root>().all);
    b.root<Root>().all = reinterpret_cast<Node**>(&index->nodes[kCount - 1]);
    b.root<Root>().first = make_node(0);
    b.point();
    const u64 before = b.runtime().runtime().statistics().changed_bytes;
    index->nodes[kCount / 2] = b.root<Root>().first;
    index->nodes[kCount - 1] = reinterpret_cast<Node*>(index);
    b.point();
    if (GetParam().tracking == Tracking::kUserfault && GetParam().engine == Engine::kRedoLog) {
      EXPECT_LT(b.runtime().runtime().statistics().changed_bytes - before, 16 * kPageBytes);
    }
    a.discard();
    b.discard();
  }
  expect_in_b([&](Container& b) {
    Node** const last = b.root<Root>().all;
    auto* const index = reinterpret_cast<Index*>(*last);
    ASSERT_TRUE(b.contains(index));
    EXPECT_EQ(index->count, kCount);
    EXPECT_EQ(&index->nodes[kCount - 1], last);
    EXPECT_EQ(index->nodes[kCount / 2], b.root<Root>().first);
  });
}

TEST_P(SharedObjects, TheirSpaceIsGivenBack) {
  Container a = open_a();
  Container b = open_b();
  auto& of_b = b.root<Root>();
  of_b.first = make_node(0);  // types and a module are known then
  of_b.second = make_node(1);
  a.root<Root>().first = make_node(2);
  a.point();
  of_b.first->other = a.root<Root>().first;
  b.point();
  of_b.first->other = nullptr;
  b.point();
  const HeapAudit before = b.audit();
  for (u64 round = 0; round < 3; ++round) {
    make_graph(a.root<Root>(), 500);  // a ring: each is found through all others
    a.point();
    of_b.first->other = a.root<Root>().all[7];
    b.point();
    EXPECT_GT(b.statistics().shared_objects, 500u);
    EXPECT_GT(b.audit().live_blocks, before.live_blocks + 500);
    of_b.first->other = round % 2 == 0 ? nullptr : of_b.second;
    b.point();
    EXPECT_EQ(b.statistics().shared_objects, 0u);
    EXPECT_EQ(b.statistics().shared_bytes, 0u);
    EXPECT_TRUE(b.shared_objects().empty());
    const HeapAudit after = b.audit();
    EXPECT_TRUE(after.clean) << after.problem;
    EXPECT_EQ(after.live_blocks, before.live_blocks);
    EXPECT_EQ(after.live_bytes, before.live_bytes);
  }
}

// What it has of a container that is closed stays as it was, and can go.
TEST_P(SharedObjects, AnotherContainerMayClose) {
  {
    Container b = open_b();
    auto& of_b = b.root<Chain>();
    {
      Container a = open_a();
      a.root<Chain>().first = make_links(4);
      a.point();
      of_b.first = make<Link>(a.root<Chain>().first, u64{10});
      b.point();
      a.root<Chain>().first->number = 77;
      a.discard();
    }
    of_b.first->number = 11;
    b.point();
    EXPECT_EQ(b.statistics().shared_objects, 4u);
    ASSERT_EQ(b.shared_objects().size(), 4u);
    EXPECT_NE(b.shared_objects()[0].find("closed"), std::string::npos);
    expect_clean(b);
    expect_in_b_copy(b, {11, 3, 2, 1, 0});
    // The same words lead to what is there now.
    {
      Container a = open_a();
      EXPECT_EQ(of_b.first->next, a.root<Chain>().first);
      a.root<Chain>().first->next = nullptr;
      a.root<Chain>().first->number = 30;
      b.point();
      EXPECT_EQ(b.statistics().shared_objects, 1u);
      expect_in_b_copy(b, {11, 30});
    }
    // And A elsewhere is another one.
    Container a = open_a(0x554800000000);
    a.root<Chain>().first->number = 31;
    b.point();
    EXPECT_EQ(b.statistics().shared_objects, 1u);
    expect_in_b_copy(b, {11, 30});
    of_b.first->next = nullptr;
    b.point();
    EXPECT_EQ(b.statistics().shared_objects, 0u);
    expect_clean(b);
    b.discard();
  }
  expect_in_b([](Container& b) { EXPECT_EQ(numbers_of(b.root<Chain>()), (std::vector<u64>{11})); });
}

// A chain through two others, of which one closes.
TEST_P(SharedObjects, ShadowsOfAClosedOneLeadToOthers) {
  {
    Container b = open_b();
    Container c = open();
    {
      Container a = open_a();
      c.root<Chain>().first = make<Link>(nullptr, u64{3});
      c.point();
      a.root<Chain>().first = make<Link>(c.root<Chain>().first, u64{2});
      a.point();
      b.root<Chain>().first = make<Link>(a.root<Chain>().first, u64{1});
      b.point();
      EXPECT_EQ(b.statistics().shared_objects, 2u);
      a.discard();
    }
    b.point();
    EXPECT_EQ(b.statistics().shared_objects, 2u);
    // Its place is another object's, and the shadow of a closed one's object leads to the old one.
    destroy(c.root<Chain>().first);
    c.root<Chain>().first = nullptr;
    b.point();
    EXPECT_EQ(b.statistics().shared_objects, 2u);
    expect_clean(b);
    b.discard();
    c.discard();
  }
  expect_in_b(
      [](Container& b) { EXPECT_EQ(numbers_of(b.root<Chain>()), (std::vector<u64>{1, 2, 3})); });
}

TEST_P(SharedObjects, ExcludedAndPinnedOnesAreNull) {
  Link* const pinned = make<Link>(nullptr, u64{4});
  pin(pinned);
  {
    Container a = open_a();
    Container b = open_b();
    a.root<Chain>().first = make_links(3);
    a.point();
    Link* const shared = a.root<Chain>().first;
    b.root<Root>().first = make_node(0);
    b.point();
    b.root<Root>().first->next = reinterpret_cast<Node*>(shared);
    b.root<Root>().first->other = reinterpret_cast<Node*>(shared->next->next);
    b.exclude(&b.root<Root>().first->other);
    a.exclude(&shared->next->next);
    shared->next->next = shared;
    b.point();
    EXPECT_EQ(b.statistics().shared_objects, 2u);
    EXPECT_EQ(b.statistics().staying_pointers, 2u);
    shared->next = pinned;
    b.point();
    EXPECT_EQ(b.statistics().shared_objects, 1u);
    EXPECT_EQ(b.statistics().staying_pointers, 2u);
    EXPECT_EQ(shared->next, pinned);
    b.discard();
    a.discard();
  }
  unpin(pinned);
  destroy(pinned);
  expect_in_b([](Container& b) {
    EXPECT_EQ(b.root<Root>().first->other, nullptr);
    const auto* const shared = reinterpret_cast<Link*>(b.root<Root>().first->next);
    ASSERT_TRUE(b.contains(shared));
    EXPECT_EQ(shared->number, 2u);
    EXPECT_EQ(shared->next, nullptr);
  });
}

TEST_P(SharedObjects, NoSpaceForThemFailsThePointAlone) {
  Container a = open_a();
  Options small = options();
  small.region_limit_bytes = 4 * kMiB;
  small.log_limit_bytes = kMiB;
  Container b = Container::open(uri("b.pd"), small);
  b.root<Chain>();
  b.point();
  const HeapAudit before = b.audit();
  a.root<Chain>().first = make_links(300'000);
  a.point();
  b.root<Chain>().first = a.root<Chain>().first;
  for (int i = 0; i < 2; ++i) EXPECT_EQ(code_of([&] { b.point(); }), Code::kNoSpace);
  Link* link = a.root<Chain>().first;
  for (u64 i = 1; i < 1000; ++i) link = link->next;
  link->next = nullptr;
  b.point();
  EXPECT_EQ(b.statistics().shared_objects, 1000u);
  b.root<Chain>().first = nullptr;
  b.point();
  expect_clean(b);
  EXPECT_EQ(b.audit().live_blocks, before.live_blocks + 4);  // three types, and marks of pages
}

// Threads change what is shared while both take points: each version has one state of it.
TEST_P(SharedObjects, PointsOfBothSeeWholeSteps) {
  constexpr u64 kLinks = 500;
  constexpr u64 kVersions = 30;
  {
    Container a = open_a();
    Container b = open_b();
    a.root<Chain>().first = make_links(kLinks);
    a.point();
    b.root<Chain>().first = a.root<Chain>().first;
    b.point();
    a.point_every(std::chrono::milliseconds{1});
    b.point_every(std::chrono::milliseconds{1});
    const u64 last = b.durable_version() + kVersions;
    std::thread changes([&] {
      for (u64 step = 0; step < 400 || b.durable_version() < last; ++step) {
        const auto operation = a.operation();
        for (Link* link = a.root<Chain>().first; link != nullptr; link = link->next)
          link->number = step;
        Link* const first = a.root<Chain>().first;  // one goes, one comes
        first->next = make<Link>(first->next, step);
        Link* const third = first->next->next;
        first->next->next = third->next;
        destroy(third);
      }
    });
    changes.join();
    b.point_every(std::chrono::milliseconds{0});
    a.point_every(std::chrono::milliseconds{0});
    b.discard();
    a.discard();
  }
  expect_in_b([&](Container& b) {
    const std::vector<u64> numbers = numbers_of(b.root<Chain>());
    ASSERT_EQ(numbers.size(), kLinks);
    const u64 second = numbers[1];
    for (const u64 number : numbers) EXPECT_EQ(number, second);
  });
}

TEST_P(SharedObjects, AStateWithoutShadowsIsTaken) {
  {
    Container b = open_b();
    b.root<Chain>().first = make_links(3);
    b.close();
  }
  for (const u32 version : {1u, format::kContainerVersion + 1}) {
    {
      Store store = Store::open(uri("b.pd"), options());
      static_cast<format::ContainerState*>(store.get_root(format::kContainerRoot))->version =
          version;
      store.close();
    }
    if (version != 1) {
      EXPECT_EQ(code_of([&] { open_b(); }), Code::kIncompatible);
      continue;
    }
    Container b = open_b(0x553000000000);
    EXPECT_EQ(numbers_of(b.root<Chain>()), (std::vector<u64>{2, 1, 0}));
    b.close();
  }
}

TEST_P(SharedObjects, AWarningNamesBoth) {
  Container a = open_a();
  Container b = open_b();
  a.root<Chain>().first = make_links(2);
  a.point();
  b.root<Chain>().first = a.root<Chain>().first;
  testing::internal::CaptureStderr();
  b.point();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  b.warn_of_sharing();
  testing::internal::CaptureStderr();
  b.point();
  b.point();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_NE(said.find("a.pd'"), std::string::npos) << said;
  EXPECT_NE(said.find("b.pd'"), std::string::npos) << said;
  EXPECT_NE(said.find("2 objects"), std::string::npos) << said;
  const auto operation = b.operation();
  EXPECT_EQ(code_of([&] { (void)b.shared_objects(); }), Code::kMisuse);
}

INSTANTIATE_TEST_SUITE_P(Ways, SharedObjects, testing::ValuesIn(ways()), name_of_way);

}  // namespace
}  // namespace perdura::test
