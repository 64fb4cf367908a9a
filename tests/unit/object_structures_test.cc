// Goal: the structures for objects do what their counterparts of the standard library do, however
// often their objects are opened again, and killed processes lose nothing but the calls that were
// not durable. Method: drawn calls of each, some of which find it full or empty, beside a
// std::vector, deque, priority_queue, set or map; a killed process's object must be the counterpart
// after as many calls as its history counts.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <deque>
#include <map>
#include <numeric>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include <perdura/structures/array.hpp>
#include <perdura/structures/graph.hpp>
#include <perdura/structures/heap.hpp>
#include <perdura/structures/queue.hpp>
#include <perdura/structures/stack.hpp>
#include <perdura/structures/tree.hpp>

#include "base/bits.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/slice.hpp"

namespace perdura::test {
namespace {

/// The numbers that call `i` of a run is made of.
class Draw {
 public:
  Draw(std::uint64_t seed, std::uint64_t i) : random_(seed * 1'000'003 + i) {}
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }

 private:
  std::mt19937_64 random_;
};

// Each case makes one drawn call of the object and of its counterpart, compares what they answer,
// and all that they hold. `object` may be nullptr: then the counterpart alone is called.

struct ArrayCase {
  using State = structures::Array<std::int32_t, 3000>;
  Object<State>* object = nullptr;
  std::vector<std::uint32_t> model = std::vector<std::uint32_t>(State::kSize);

  void call(Draw draw) {
    const auto by = static_cast<std::uint32_t>(draw.below(1u << 31));
    const std::uint64_t index = draw.below(State::kSize);
    if (const std::uint64_t kind = draw.below(50); kind == 0) {
      if (object != nullptr) object->defer<&State::zero>();
      std::fill(model.begin(), model.end(), 0u);
    } else if (kind < 10) {
      if (object != nullptr) object->defer<&State::increase_all>(std::bit_cast<std::int32_t>(by));
      for (std::uint32_t& each : model) each += by;
    } else {
      if (object != nullptr)
        object->defer<&State::increase>(index, std::bit_cast<std::int32_t>(by));
      model[index] += by;
    }
  }
  void compare() {
    std::vector<std::int32_t> all(State::kSize + 5);
    ASSERT_EQ(object->read<&State::snapshot>(std::span(all)), State::kSize);
    for (std::size_t i = 0; i < State::kSize; ++i)
      ASSERT_EQ(std::bit_cast<std::uint32_t>(all[i]), model[i]) << i;
    EXPECT_EQ(object->read<&State::snapshot>(std::span(all).first(3)), 3u);
    EXPECT_EQ(object->read<&State::at>(State::kSize - 1), all[State::kSize - 1]);
    EXPECT_EQ(object->read<&State::at>(State::kSize), 0);
  }
};

struct QueueCase {
  using State = structures::Queue<std::uint64_t, 20>;
  Object<State>* object = nullptr;
  std::deque<std::uint64_t> model;
  std::uint64_t dropped = 0;

  void call(Draw draw) {
    const std::uint64_t value = draw.below(1'000'000);
    const std::uint64_t kind = draw.below(100);
    if (kind == 0) {
      if (object != nullptr) object->defer<&State::clear>();
      model.clear();
      dropped = 0;
    } else if (kind < 60) {
      const bool has_room = model.size() < State::kCapacity;
      if (object != nullptr && kind < 50) object->defer<&State::enqueue>(value);
      if (object != nullptr && kind >= 50) {
        EXPECT_EQ(object->call<&State::try_enqueue>(value), has_room);
      }
      if (has_room) model.push_back(value);
      else ++dropped;
    } else {
      std::optional<std::uint64_t> oldest;
      if (!model.empty()) {
        oldest = model.front();
        model.pop_front();
      }
      if (object != nullptr) {
        EXPECT_EQ(object->call<&State::dequeue>(), oldest);
      }
    }
  }
  void compare() {
    EXPECT_EQ(object->read<&State::size>(), model.size());
    EXPECT_EQ(object->read<&State::is_empty>(), model.empty());
    EXPECT_EQ(object->read<&State::is_full>(), model.size() == State::kCapacity);
    EXPECT_EQ(object->read<&State::dropped>(), dropped);
  }
};

struct HeapCase {
  using State = structures::Heap<std::int64_t, 30>;
  Object<State>* object = nullptr;
  std::priority_queue<std::int64_t> model;
  std::uint64_t dropped = 0;

  void call(Draw draw) {
    const auto value = static_cast<std::int64_t>(draw.below(50)) - 25;
    const std::uint64_t kind = draw.below(200);
    if (kind == 0) {
      if (object != nullptr) object->defer<&State::clear>();
      model = {};
      dropped = 0;
    } else if (kind < 110) {
      if (object != nullptr) object->defer<&State::en_heap>(value);
      if (model.size() < State::kCapacity) model.push(value);
      else ++dropped;
    } else {
      std::optional<std::int64_t> greatest;
      if (!model.empty()) {
        greatest = model.top();
        model.pop();
      }
      if (object != nullptr) {
        EXPECT_EQ(object->call<&State::de_heap>(), greatest);
      }
    }
  }
  void compare() {
    std::vector<std::int64_t> all(State::kCapacity);
    all.resize(object->read<&State::snapshot>(std::span(all)));
    EXPECT_EQ(object->read<&State::get_num_elements>(), all.size());
    EXPECT_EQ(object->read<&State::dropped>(), dropped);
    std::sort(all.rbegin(), all.rend());
    std::vector<std::int64_t> wanted;
    for (auto rest = model; !rest.empty(); rest.pop()) wanted.push_back(rest.top());
    EXPECT_EQ(all, wanted);
  }
};

struct StackCase {
  using State = structures::Stack<std::uint16_t, 15>;
  Object<State>* object = nullptr;
  std::vector<std::uint16_t> model;
  std::uint64_t dropped = 0;

  std::optional<std::uint16_t> top() const {
    return model.empty() ? std::nullopt : std::optional(model.back());
  }
  void call(Draw draw) {
    const auto value = static_cast<std::uint16_t>(draw.below(1 << 16));
    const std::uint64_t kind = draw.below(100);
    if (kind == 0) {
      if (object != nullptr) object->defer<&State::clear>();
      model.clear();
      dropped = 0;
    } else if (kind < 55) {
      if (object != nullptr) object->defer<&State::push>(value);
      if (model.size() < State::kCapacity) model.push_back(value);
      else ++dropped;
    } else {
      if (object != nullptr) {
        EXPECT_EQ(object->call<&State::pop>(), top());
      }
      if (!model.empty()) model.pop_back();
    }
  }
  void compare() {
    EXPECT_EQ(object->read<&State::peek>(), top());
    EXPECT_EQ(object->read<&State::size>(), model.size());
    EXPECT_EQ(object->read<&State::is_empty>(), model.empty());
    EXPECT_EQ(object->read<&State::dropped>(), dropped);
  }
};

struct TreeCase {
  using State = structures::Tree<std::uint32_t, 200>;
  static constexpr std::uint32_t kKeys = 400;
  Object<State>* object = nullptr;
  std::set<std::uint32_t> model;
  std::uint32_t dropped = 0;

  void call(Draw draw) {
    const auto key = static_cast<std::uint32_t>(draw.below(kKeys));
    const std::uint64_t kind = draw.below(2000);
    if (kind == 0) {
      if (object != nullptr) object->defer<&State::clear>();
      model.clear();
      dropped = 0;
    } else if (kind < 20) {
      if (object != nullptr) object->defer<&State::balance>();
    } else if (kind < 1100) {
      if (object != nullptr) object->defer<&State::insert_element>(key);
      if (model.contains(key)) return;
      if (model.size() < State::kCapacity) model.insert(key);
      else ++dropped;
    } else {
      if (object != nullptr) object->defer<&State::delete_element>(key);
      model.erase(key);
    }
  }
  void compare() {
    EXPECT_EQ(object->read<&State::size>(), model.size());
    EXPECT_EQ(object->read<&State::dropped>(), dropped);
    for (std::uint32_t key = 0; key < kKeys; ++key)
      ASSERT_EQ(object->read<&State::search_element>(key), model.contains(key)) << key;
  }
};

struct GraphCase {
  using State = structures::Graph<std::int32_t, 150, 4>;
  static constexpr std::uint32_t kNear = 6;  ///< edges lead to vertices below it
  Object<State>* object = nullptr;
  std::map<std::uint32_t, std::map<std::uint32_t, std::int32_t>> model;
  std::map<std::uint32_t, std::uint32_t> dropped;

  void call(Draw draw) {
    const auto from = static_cast<std::uint32_t>(draw.below(State::kVertices));
    const auto to = static_cast<std::uint32_t>(draw.below(kNear));
    const auto weight = static_cast<std::int32_t>(draw.below(1000));
    if (draw.below(10) < 7) {
      if (object != nullptr) object->defer<&State::joinwt>(from, to, weight);
      auto& edges = model[from];
      if (edges.contains(to) || edges.size() < State::kDegree) edges[to] = weight;
      else ++dropped[from];
    } else {
      if (object != nullptr) object->defer<&State::removewt>(from, to);
      model[from].erase(to);
    }
  }
  void compare() {
    for (std::uint32_t from = 0; from < State::kVertices; ++from) {
      ASSERT_EQ(object->read<&State::degree>(from), model[from].size()) << from;
      ASSERT_EQ(object->read<&State::dropped>(from), dropped[from]) << from;
      for (std::uint32_t to = 0; to < kNear; ++to) {
        const auto edge = model[from].find(to);
        ASSERT_EQ(object->read<&State::adjacent>(from, to),
                  edge == model[from].end() ? std::nullopt : std::optional(edge->second))
            << from << " to " << to;
      }
    }
  }
};

template <class Case>
class StructuresOfObjects : public testing::Test {
 protected:
  using State = typename Case::State;
  Objects open() const { return Objects::open("emu:" + folder_.path("objects.pd")); }

  const TempDir folder_{TempDir::kMemory};
};
using Cases = testing::Types<ArrayCase, QueueCase, HeapCase, StackCase, TreeCase, GraphCase>;
TYPED_TEST_SUITE(StructuresOfObjects, Cases);

TYPED_TEST(StructuresOfObjects, AreTheirCounterpartsWheneverTheyAreOpened) {
  TypeParam one;
  std::uint64_t i = 0;
  for (const std::uint32_t servers : {0u, 1u, 8u, 8u, 0u}) {
    Objects objects = this->open();
    auto object = objects.object<typename TypeParam::State>(
        "one", {.checkpoint_calls = 300, .servers = servers, .verify_replay = i == 0});
    one.object = &object;
    one.compare();
    for (const std::uint64_t end = i + slice_or_whole(2000, 20'000); i != end; ++i) {
      one.call({1, i});
      if (i % 500 == 7) one.compare();
    }
    one.compare();
    if (servers != 1) objects.close();
  }
}

// The history counts each caller's durable calls: the one thread's are a prefix of what it called.
TYPED_TEST(StructuresOfObjects, OfAKilledProcessAreWhatItsDurableCallsMadeThem) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer ends children that start threads where their parent had some";
#endif
  const ObjectOptions options{
      .log_bytes = 1 << 16, .checkpoint_calls = 100, .history = ObjectHistory::kLast, .callers = 1};
  void* const at =
      ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(at, MAP_FAILED);
  auto& called = *new (at) std::atomic<std::uint64_t>{0};
  auto& durable = *new (static_cast<char*>(at) + kLineBytes) std::atomic<std::uint64_t>{0};
  TypeParam one;
  std::uint64_t made = 0;
  std::mt19937_64 random(1);
  for (std::uint64_t kill = 0; kill < slice_or_whole(5, 50); ++kill) {
    const std::uint64_t wanted = called + 50 + random() % 2000;
    const pid_t child = ::fork();
    if (child == 0) {
      Objects objects = this->open();
      auto object = objects.object<typename TypeParam::State>("one", options);
      one.object = &object;
      for (std::uint64_t i = made;; ++i) {
        called = i + 1;
        one.call({2, i});
        if (i % 64 != 0) continue;
        object.sync();
        durable = i + 1;
      }
    }
    while (called < wanted && ::waitpid(child, nullptr, WNOHANG) == 0) std::this_thread::yield();
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ASSERT_GE(called, wanted) << "the child ended by itself";
    Objects objects = this->open();
    auto object = objects.object<typename TypeParam::State>("one", options);
    const std::uint64_t recorded = objects.recorded(0);
    EXPECT_GE(recorded, durable);
    EXPECT_LE(recorded, called);
    one.object = nullptr;
    for (; made < recorded; ++made) one.call({2, made});
    one.object = &object;
    one.compare();
    one.object = nullptr;
    called = made;
  }
  ::munmap(at, kPageBytes);
}

TEST(ArrayOfNumbers, RefusesWhatIsBehindItsEnd) {
  const TempDir folder(TempDir::kMemory);
  using Sums = structures::Array<double, 3>;
  Objects objects = Objects::open("emu:" + folder.path("objects.pd"));
  auto sums = objects.object<Sums>("sums");
  sums.defer<&Sums::increase>(2, 0.5);
  sums.defer<&Sums::increase_all>(0.25);
  expect_error([&] { sums.defer<&Sums::increase>(3, 0.5); }, Code::kInvalidArgument,
               "does not accept these arguments");
  EXPECT_EQ(sums.read<&Sums::at>(2), 0.75);
  EXPECT_EQ(sums.read<&Sums::at>(1), 0.25);
}

TEST(GraphOfVertices, RefusesThoseThatThereAreNot) {
  const TempDir folder(TempDir::kMemory);
  using Roads = structures::Graph<std::uint8_t, 5, 2>;
  Objects objects = Objects::open("emu:" + folder.path("objects.pd"));
  auto roads = objects.object<Roads>("roads");
  for (const auto& [from, to] : {std::pair{5u, 1u}, {1u, 5u}}) {
    expect_error([&] { roads.defer<&Roads::joinwt>(from, to, std::uint8_t{1}); },
                 Code::kInvalidArgument, "does not accept these arguments");
    expect_error([&] { roads.defer<&Roads::removewt>(from, to); }, Code::kInvalidArgument,
                 "does not accept these arguments");
    EXPECT_EQ(roads.read<&Roads::adjacent>(from, to), std::nullopt);
  }
  EXPECT_EQ(roads.read<&Roads::degree>(1u), 0u);
}

// Without an object: of each number of keys, come in the worst order.
TEST(TreeOfKeys, IsAsFlatAsItCanBeWhenItIsBalanced) {
  structures::Tree<std::uint32_t, 300> tree{};
  for (std::uint32_t count = 0; count <= 300; ++count) {
    tree.clear();
    for (std::uint32_t key = 0; key < count; ++key) tree.insert_element(key);
    if (count > 2) {
      EXPECT_EQ(tree.depth(count - 1), count - 1);
    }
    tree.balance();
    EXPECT_EQ(tree.size(), count);
    for (std::uint32_t key = 0; key < count; ++key) {
      ASSERT_TRUE(tree.search_element(key)) << count;
      ASSERT_LT(*tree.depth(key), std::bit_width(count)) << key << " of " << count;
    }
    EXPECT_EQ(tree.depth(count), std::nullopt);
  }
}

// Threads call different blocks of vertices, or items, at once, and merge what commutes.
TEST(ObjectsOfManyThreads, HaveTheSumsOfAllTheirCalls) {
  const TempDir folder(TempDir::kMemory);
  using Sums = structures::Array<std::int64_t, 4096>;
  using Roads = structures::Graph<std::int32_t, 256, 16>;
  constexpr std::uint64_t kThreads = 4, kCalls = 5000;
  Objects objects = Objects::open("emu:" + folder.path("objects.pd"));
  auto sums = objects.object<Sums>("sums");
  auto roads = objects.object<Roads>("roads");
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      for (std::uint64_t i = 0; i < kCalls; ++i) {
        sums.defer<&Sums::increase>(1024 * thread + i % 2, 3);
        if (i % 10 == 0) sums.defer<&Sums::increase_all>(1);
        const auto from = static_cast<std::uint32_t>(64 * thread + i % 64);
        roads.defer<&Roads::joinwt>(from, static_cast<std::uint32_t>(i / 64 % 16),
                                    static_cast<std::int32_t>(i));
        if (i % 500 == 0) roads.sync();
      }
    });
  for (std::thread& each : threads) each.join();
  const auto all = static_cast<std::int64_t>(kThreads * kCalls / 10);
  for (std::uint64_t thread = 0; thread < kThreads; ++thread) {
    for (std::uint64_t i = 0; i < 2; ++i)
      EXPECT_EQ(sums.read<&Sums::at>(1024 * thread + i),
                all + 3 * static_cast<std::int64_t>(kCalls / 2));
    EXPECT_EQ(sums.read<&Sums::at>(1024 * thread + 2), all);
    const auto last = static_cast<std::uint32_t>(64 * thread + (kCalls - 1) % 64);
    EXPECT_EQ(
        roads.read<&Roads::adjacent>(last, static_cast<std::uint32_t>((kCalls - 1) / 64 % 16)),
        static_cast<std::int32_t>(kCalls - 1));
    EXPECT_EQ(roads.read<&Roads::degree>(last), 16u);
    EXPECT_EQ(roads.read<&Roads::dropped>(last), 0u);
  }
}

}  // namespace
}  // namespace perdura::test
