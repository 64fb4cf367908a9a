// What once was lost or ended the program, in C++: each is in the container when the program is
// killed and started again, the lambdas in any order. make|check STORE
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
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

/// Buffers that go by ways on which nobody follows them.
struct Gives {
  virtual ~Gives() = default;
  virtual char* give() = 0;
};
struct GivesNew : Gives {
  char* give() override { return new char[64]; }
};
struct Inherits : Pool<Node> {
  using Pool<Node>::Pool;
};
struct Buffers {
  std::unique_ptr<std::byte[]> unique = std::make_unique<std::byte[]>(64);
  std::vector<std::byte> bytes = std::vector<std::byte>(64);
  std::vector<char*> vector;
  std::optional<char*> optional;
  std::pair<char*, int> pair;
  std::tuple<int, char*> tuple;
  Inherits* inherits = nullptr;
  char* by_virtual = nullptr;
  char* by_function = nullptr;
  char* by_method = nullptr;
  char* by_lambda = nullptr;
  std::pair<int, char*> bound;
  char* by_member = nullptr;
};
char* give_one() { return new char[64]; }
struct GivesByMethod {
  char* give() { return new char[64]; }
};

/// Storage in unions.
struct Stored {
  std::aligned_storage_t<sizeof(Node), alignof(Node)> aligned;
  union {
    alignas(Node) char bytes[16];
    long number;
  } in_union;
  union {
    void* pointer;
    char bytes[24];
  } beside;
};
struct Large {
  long before[4];
  Node* at;
  long behind[3];
};

struct World {
  Buffers buffers;
  Stored* stored = nullptr;
  std::function<Node*()> two_captured;
  std::shared_ptr<Node[]> shared;
  std::shared_ptr<Large[]> shared_large;
  std::shared_ptr<std::string[]> shared_texts;
  std::uintptr_t* integers = nullptr;
  std::uintptr_t (*rows)[2] = nullptr;
#ifdef __cpp_lib_move_only_function
  std::move_only_function<Node*()> three_captured;
#endif
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

/// The last word of a buffer leads to a node.
static void fill(char* buffer, long value) {
  reinterpret_cast<Node**>(buffer)[7] = new Node{nullptr, value};
}
static bool is_filled(char* buffer, long value) {
  return reinterpret_cast<Node**>(buffer)[7]->value == value;
}
static void make(Buffers& all) {
  new (all.unique.get() + 56) Node*(new Node{nullptr, 1});
  new (&all.bytes[56]) Node*(new Node{nullptr, 2});
  all.vector.push_back(new char[64]);
  fill(all.vector[0], 3);
  all.optional = new char[64];
  fill(*all.optional, 4);
  all.pair = {new char[64], 1};
  fill(all.pair.first, 5);
  all.tuple = std::make_tuple(1, new char[64]);
  fill(std::get<1>(all.tuple), 6);
  all.inherits = new Inherits(new char[64]);
  all.inherits->at(1)->next = new Node{nullptr, 7};
  GivesNew gives;
  Gives* const some = &gives;
  all.by_virtual = some->give();
  fill(all.by_virtual, 8);
  const std::function<char*()> function = give_one;
  all.by_function = function();
  fill(all.by_function, 9);
  char* (GivesByMethod::* const method)() = &GivesByMethod::give;
  GivesByMethod by_method;
  all.by_method = (by_method.*method)();
  fill(all.by_method, 10);
  char* (*const lambda)() = [] { return new char[64]; };
  all.by_lambda = lambda();
  fill(all.by_lambda, 12);
  all.bound.second = new char[64];
  auto& [number, bytes] = all.bound;
  number = 1;
  reinterpret_cast<Node**>(bytes)[7] = new Node{nullptr, 13};
  char* Buffers::* const member = &Buffers::by_member;
  all.*member = new char[64];
  fill(all.by_member, 11);
}
static void check(Buffers& all) {
  EXPECT((*reinterpret_cast<Node**>(all.unique.get() + 56))->value == 1);
  EXPECT((*reinterpret_cast<Node**>(&all.bytes[56]))->value == 2);
  EXPECT(is_filled(all.vector[0], 3) && is_filled(*all.optional, 4));
  EXPECT(is_filled(all.pair.first, 5) && is_filled(std::get<1>(all.tuple), 6));
  EXPECT(all.inherits->at(1)->next->value == 7);
  EXPECT(is_filled(all.by_virtual, 8) && is_filled(all.by_function, 9));
  EXPECT(is_filled(all.by_lambda, 12) && is_filled(all.bound.second, 13));
  EXPECT(is_filled(all.by_method, 10) && is_filled(all.by_member, 11));
}

static void make_stored(World& world) {
  world.stored = new Stored{};
  new (&world.stored->aligned) Node{new Node{nullptr, 1}, 0};
  new (world.stored->in_union.bytes) Node{new Node{nullptr, 2}, 0};
  new (world.stored->beside.bytes + 8) Node{new Node{nullptr, 3}, 0};
  Node* const a = new Node{nullptr, 4};
  Node* const b = new Node{nullptr, 5};
  world.two_captured = [a, b] { return a->value == 4 ? b : nullptr; };
#ifdef __cpp_lib_move_only_function
  world.three_captured = [a, b, c = new Node{nullptr, 6}] { return a != b ? c : nullptr; };
#endif
  world.shared = std::make_shared<Node[]>(5);
  world.shared_large = std::make_shared<Large[]>(5);
  world.shared_texts = std::make_shared<std::string[]>(5);
  world.shared[4].next = new Node{nullptr, 7};
  world.shared_large[4].at = new Node{nullptr, 8};
  world.shared_texts[4] = "a text that needs memory of its own";
  world.integers = new std::uintptr_t[4];
  world.rows = new std::uintptr_t[3][2];
  world.integers[1] = world.rows[2][1] = reinterpret_cast<std::uintptr_t>(b);
}
static Node* next_at(void* place) { return static_cast<Node*>(place)->next; }
static void check_stored(World& world) {
  EXPECT(next_at(&world.stored->aligned)->value == 1);
  EXPECT(next_at(&world.stored->in_union)->value == 2);
  EXPECT(next_at(world.stored->beside.bytes + 8)->value == 3);
  EXPECT(world.two_captured()->value == 5);
#ifdef __cpp_lib_move_only_function
  EXPECT(world.three_captured()->value == 6);
#endif
  EXPECT(world.shared[4].next->value == 7 && world.shared_large[4].at->value == 8);
  EXPECT(world.shared_texts[4] == "a text that needs memory of its own");
  EXPECT(reinterpret_cast<Node*>(world.integers[1])->value == 5);
  EXPECT(world.rows[2][1] == world.integers[1]);
}
/// The counts, and what disposes of the elements.
static void release_shared(World& world) {
  EXPECT(world.shared.use_count() == 1 && world.shared_large.use_count() == 1);
  world.shared.reset();
  world.shared_large.reset();
  world.shared_texts.reset();
  world.shared = std::make_shared<Node[]>(5);
}

static void make(World& world) {
  make(world.buffers);
  make_stored(world);
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
  check(world.buffers);
  check_stored(world);
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
    release_shared(*root.world);
    root.world->numbers.push_back(3);
    root.world->numbers.push_back(4);
    root.world->queue.push_front(1);
    container.point();
    EXPECT(root.world->numbers.size() == 5 && root.world->queue.size() == 201);
    EXPECT(container.audit().problem.empty());
  }
  std::raise(SIGKILL);
}
