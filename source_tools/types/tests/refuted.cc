// What once was lost or ended the program, in C++: each is in the container when the program is
// killed and started again, the lambdas in any order. make|check STORE
#include <csignal>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <perdura/typed.h>
#include <perdura/container.hpp>
#include <perdura/store.hpp>

#include "expect.h"

struct Node {
  Node* next = nullptr;
  long value = 0;
};
struct alignas(64) Aligned {
  long value = 1;
};
struct Methods {
  long value = 10;
  long first() { return value + 1; }
  long second() { return value + 2; }
  long third() { return value + 3; }
};
struct Table {
  long (Methods::* all[3])();
  Methods of;
};
/// Buffers that constructors and default initializers take, and that are handed on.
struct InConstructor {
  char* memory;
  InConstructor() : memory(new char[64]) {}
};
struct ByDefault {
  char* memory = new char[64];
};
template <class T>
struct Pool {
  char* memory;
  explicit Pool(char* all) : memory(all) {}
  T* at(int i) { return reinterpret_cast<T*>(memory + i * sizeof(T)); }
};

struct World {
  std::vector<int> numbers;
  std::vector<Node> nodes;
  std::vector<std::string> texts;
  std::vector<bool> bits;
  std::deque<int> queue;
  Table* table = nullptr;
  std::list<std::function<long()>> functions;
  std::list<void*> locals;
  Node* in_constructor = nullptr;
  Node* by_default = nullptr;
  Node* pooled = nullptr;
  Node* moved = nullptr;
  Node* by_lambda = nullptr;
  std::unique_ptr<Node> unique;
};
struct Root {
  World* world;
};

static Node* pushed(Node* at, long value) {
  at->next = new Node{nullptr, value};
  return at;
}

/// A structure of a function, and lambdas: of these names there are many.
static void add_number(World& world, long captured) {
  struct Local {
    Node* next;
    long value;
  };
  world.locals.push_back(new Local{new Node{nullptr, captured}, 1});
  world.functions.push_back(
      [captured, more = captured, third = 1L] { return captured + more + third; });
}
static void add_text(World& world, const std::string& captured) {
  struct Local {
    long value;
    Node* next;
  };
  world.locals.push_back(new Local{2, new Node{nullptr, 2}});
  world.functions.push_back([captured] { return static_cast<long>(captured.size()); });
}

static void make(World& world) {
  for (int i = 0; i < 3; ++i) world.numbers.push_back(i);
  for (int i = 0; i < 8; ++i) world.nodes.push_back({new Node{nullptr, i}, i});
  for (int i = 0; i < 8; ++i) world.texts.push_back("a text that needs memory of its own");
  world.bits.assign(128, true);
  for (int i = 0; i < 200; ++i) world.queue.push_back(i);
  world.table = new Table{{&Methods::first, &Methods::second, &Methods::third}, {}};
  world.in_constructor = pushed(reinterpret_cast<Node*>(InConstructor().memory), 1);
  world.by_default = pushed(reinterpret_cast<Node*>(ByDefault().memory), 2);
  world.pooled = pushed(Pool<Node>(new char[64]).at(1), 3);
  char* from = new char[64];
  char* to = std::move(from);
  world.moved = pushed(reinterpret_cast<Node*>(to), 4);
  const auto cast = [](char* memory) { return reinterpret_cast<Node*>(memory); };
  world.by_lambda = pushed(cast(new char[64]), 5);
  world.unique = std::make_unique<Node>(Node{new Node{nullptr, 6}, 6});
}

static void check(World& world) {
  EXPECT(world.numbers == std::vector<int>({0, 1, 2}) && world.numbers.capacity() == 4);
  EXPECT(world.nodes.size() == 8 && world.nodes.capacity() == 8);
  EXPECT(world.nodes[7].next->value == 7);
  EXPECT(world.texts.size() == 8 && world.texts[7] == "a text that needs memory of its own");
  EXPECT(world.bits.size() == 128 && world.bits[127]);
  EXPECT(world.queue.size() == 200 && world.queue.back() == 199);
  auto* const table = world.table;
  EXPECT((table->of.*table->all[0])() == 11 && (table->of.*table->all[2])() == 13);
  EXPECT(world.in_constructor->next->value == 1 && world.by_default->next->value == 2);
  EXPECT(world.pooled->next->value == 3 && world.moved->next->value == 4);
  EXPECT(world.by_lambda->next->value == 5 && world.unique->next->value == 6);
}
static void check_functions(World& world, long sum) {
  for (const auto& each : world.functions) sum -= each();
  EXPECT(sum == 0);
}

/// Allocations without a type give what they give anywhere.
static void check_untyped() {
  std::vector<Aligned> aligned(3);
  std::list<Aligned> list(3);
  EXPECT(reinterpret_cast<std::uintptr_t>(&aligned[1]) % 64 == 0 && list.back().value == 1);
  EXPECT(perdura_untyped_allocations() >= 4);
}

static constexpr long computed(long count) {
  long* const all = new long[4]{count, 1, 2, 3};
  const long sum = all[0] + all[3];
  delete[] all;
  return sum;
}
static_assert(computed(1) == 4);

int main(int argc, char** argv) {
  EXPECT(argc == 3);
  auto container = perdura::Container::open(argv[2]);
  auto& root = *static_cast<Root*>(container.root(*PERDURA_RECORD(Root)));
  EXPECT(computed(argc) == 6);
  check_untyped();
  if (std::strcmp(argv[1], "make") == 0) {
    root.world = new World;
    make(*root.world);
    check(*root.world);
    add_number(*root.world, 5);
    container.point();
    check(*root.world);
    check_functions(*root.world, 11);
  } else {
    check(*root.world);
    check_functions(*root.world, 11);
    // The types of these names that the container knows are others.
    add_text(*root.world, "0123456789");
    add_number(*root.world, 1);
    container.point();
    container.sync();
    check_functions(*root.world, 24);
    root.world->numbers.push_back(3);
    root.world->numbers.push_back(4);
    root.world->queue.push_front(1);
    container.point();
    EXPECT(root.world->numbers.size() == 5 && root.world->queue.size() == 201);
    EXPECT(container.audit().problem.empty());
  }
  std::raise(SIGKILL);
}
