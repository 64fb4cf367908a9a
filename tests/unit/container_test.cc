// Goal: what can be reached from a container's root at a persistence point, and nothing else, is in
// the version, at any address and in another process; the program's pointers stay right.
// Method: graphs of all kinds, moved, crashed, reopened at the same address and at another one;
// relations that hold of any graph are checked after each point. Pointers into the program are
// checked in a process of its own, where it lies elsewhere.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <perdura/perdura.hpp>

#include "model/container/container_runtime.hpp"
#include "support/files.hpp"

namespace {

enum Kind : std::uint32_t { kNumber, kText, kNode };

struct Node {
  Node* next;
  Node* other;
  char* inside;  ///< into another node
  std::uint64_t number;
  Kind kind;
  union {
    std::uint64_t number;
    char* text;
    Node* node;
  } value;
  const char* name;  ///< a literal
  std::uint64_t (*rule)(std::uint64_t);
  std::uintptr_t word;  ///< a pointer, or not
};

struct Root {
  Node* first;
  Node* second;
  Node** all;
  std::uint64_t count;
};

struct Index {
  std::uint64_t count;
  Node* nodes[];
};

struct Link {
  Link* next;
  std::uint64_t number;
};

struct Chain {
  Link* first;
};

}  // namespace

PERDURA_TYPE_OF(Node, PERDURA_POINTER(Node, next), PERDURA_POINTER(Node, other),
                PERDURA_POINTER(Node, inside), PERDURA_POINTER_WHEN(Node, value.text, kind, kText),
                PERDURA_POINTER_WHEN(Node, value.node, kind, kNode), PERDURA_POINTER(Node, name),
                PERDURA_POINTER(Node, rule), PERDURA_MAYBE(Node, word))
PERDURA_TYPE(Root, first, second, all)
PERDURA_TYPE_OF(Index, PERDURA_FLEXIBLE_POINTERS(Index, nodes))
PERDURA_TYPE(Link, next)
PERDURA_TYPE(Chain, first)

namespace perdura::test {
namespace {

template <class Call>
Code code_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_GT(std::string(error.what()).size(), 20u);
    return error.code();
  }
  return Code::kOk;
}

constexpr perdura_type kBytes{"char", 1, 1, 0, nullptr};
constexpr perdura_slot kNodePointerSlot{"pointer", PERDURA_SLOT_POINTER, 0, 8, nullptr, 0, 0, 0};
constexpr perdura_type kNodePointer{"Node*", 8, 8, 1, &kNodePointerSlot};

// In a table, so that no compiler puts them at one place.
std::uint64_t twice(std::uint64_t value) { return value * 2; }
std::uint64_t square(std::uint64_t value) { return value * value; }
constexpr const char* kLiteral = "a literal of the program";

struct Way {
  Tracking tracking;
  Engine engine;
};
std::vector<Way> ways() {
  std::vector<Way> all;
  for (const Engine engine : {Engine::kRedoLog, Engine::kRemap})
    for (const Tracking tracking : {Tracking::kUserfault, Tracking::kSigbus, Tracking::kProtect})
      all.push_back({tracking, engine});
  return all;
}
std::string name_of_way(const testing::TestParamInfo<Way>& info) {
  return std::string(name_of(info.param.tracking)) +
         (info.param.engine == Engine::kRemap ? "_chunks" : "");
}

class Containers : public testing::TestWithParam<Way> {
 protected:
  Options options(u64 address = 0) const {
    Options options;
    options.tracking = GetParam().tracking;
    options.engine = GetParam().engine;
    options.region_limit_bytes = 256 * kMiB;
    options.log_limit_bytes = 32 * kMiB;
    options.region_address = address;
    return options;
  }
  Container open(u64 address = 0) { return Container::open(uri(), options(address)); }
  std::string uri() const { return "file:" + folder_.path("container.pd"); }

  const TempDir folder_{TempDir::kMemory};
};

char* make_text(const std::string& text) {
  auto* made = static_cast<char*>(allocate(kBytes, text.size() + 1));
  std::memcpy(made, text.c_str(), text.size() + 1);
  return made;
}

Node* make_node(u64 number) {
  Node* node = make<Node>();
  node->number = number;
  node->name = kLiteral;
  node->rule = number % 2 == 0 ? twice : square;
  node->kind = static_cast<Kind>(number % 3);
  if (node->kind == kText) node->value.text = make_text("text " + std::to_string(number));
  else node->value.number = number;
  return node;
}

// A ring of nodes with pointers across, and into each other; an array of all.
void make_graph(Root& root, u64 count) {
  root.count = count;
  root.all = static_cast<Node**>(allocate(kNodePointer, count));
  for (u64 i = 0; i < count; ++i) root.all[i] = make_node(i);
  for (u64 i = 0; i < count; ++i) {
    Node& node = *root.all[i];
    node.next = root.all[(i + 1) % count];
    node.other = root.all[i * 7 % count];
    node.inside = reinterpret_cast<char*>(&node.other->number);
    if (node.kind == kNode) node.value.node = root.all[count - 1 - i];
    node.word = i % 2 == 0 ? reinterpret_cast<std::uintptr_t>(node.next) : i;
  }
  root.first = root.all[0];
  root.second = root.all[count / 2];
}

void expect_graph(const Container& container, const Root& root, u64 count) {
  ASSERT_EQ(root.count, count);
  ASSERT_TRUE(container.contains(root.all));
  for (u64 i = 0; i < count; ++i) {
    ASSERT_TRUE(container.contains(root.all[i])) << i;
    const Node& node = *root.all[i];
    ASSERT_EQ(node.number, i);
    ASSERT_EQ(node.next, root.all[(i + 1) % count]);
    ASSERT_EQ(node.other, root.all[i * 7 % count]);
    ASSERT_EQ(node.inside, reinterpret_cast<char*>(&node.other->number));
    if (node.kind == kText) {
      ASSERT_TRUE(container.contains(node.value.text));
      ASSERT_EQ(node.value.text, "text " + std::to_string(i));
    } else if (node.kind == kNode) {
      ASSERT_EQ(node.value.node, root.all[count - 1 - i]);
    } else {
      ASSERT_EQ(node.value.number, i);
    }
    ASSERT_EQ(node.word, i % 2 == 0 ? reinterpret_cast<std::uintptr_t>(node.next) : i);
    ASSERT_STREQ(node.name, kLiteral);
    ASSERT_EQ(node.rule(i), i % 2 == 0 ? i * 2 : i * i);
  }
  ASSERT_EQ(root.first, root.all[0]);
  ASSERT_EQ(root.second, root.all[count / 2]);
  ASSERT_TRUE(container.audit().clean) << container.audit().problem;
}

constexpr u64 kNodes = 3000;

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
    const std::string path = "file:" + folder_.path("chunk " + std::to_string(chunk));
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
  Container second = Container::open("file:" + folder_.path("second.pd"), options());
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
  Container second = Container::open("file:" + folder_.path("second.pd"), options());
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
    ASSERT_TRUE(container.contains(link));
    ASSERT_EQ(link->number, --number);
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
    Store plain = Store::open("file:" + folder_.path("plain.pd"), options());
    plain.root<Chain>("chain");
    plain.checkpoint();
  }
  EXPECT_EQ(code_of([&] { Container::open("file:" + folder_.path("plain.pd"), options()); }),
            Code::kMisuse);
  Options aliased = options();
  aliased.aliases = 2;
  EXPECT_EQ(code_of([&] { Container::open("file:" + folder_.path("aliased.pd"), aliased); }),
            Code::kInvalidArgument);
  Options reported = options();
  reported.tracking = Tracking::kReported;
  EXPECT_EQ(code_of([&] { Container::open("file:" + folder_.path("reported.pd"), reported); }),
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
    ASSERT_EQ(link->number, --number);
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

INSTANTIATE_TEST_SUITE_P(Ways, Containers, testing::ValuesIn(ways()), name_of_way);

// --- objects of two containers -------------------------------------------------------------------

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
  Container open_a(u64 address = 0) {
    return Container::open("file:" + folder_.path("a.pd"), options(address));
  }
  Container open_b(u64 address = 0) {
    return Container::open("file:" + folder_.path("b.pd"), options(address));
  }
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
    const std::string copy = folder_.path("copy.pd");
    std::filesystem::copy_file(folder_.path("b.pd"), copy,
                               std::filesystem::copy_options::overwrite_existing);
    Container then = Container::open("file:" + copy, options(0x557000000000));
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
  Container a = open_a(0x555000000000);
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
    Container a = open_a(0x556000000000);
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
  Container b = Container::open("file:" + folder_.path("b.pd"), small);
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
  const std::string uri = "file:" + folder_.path("b.pd");
  {
    Container b = open_b();
    b.root<Chain>().first = make_links(3);
    b.close();
  }
  for (const u32 version : {1u, format::kContainerVersion + 1}) {
    {
      Store store = Store::open(uri, options());
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
