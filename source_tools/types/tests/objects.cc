// What new makes in C++, by itself and in the standard's containers, is in the container when the
// program is killed and started again, and is given back by delete, wherever it is.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <perdura/typed.h>
#include <perdura/container.hpp>
#include <perdura/store.hpp>

#include "expect.h"

struct Shape {
  explicit Shape(const char* name) : name(strdup(name)) {}
  virtual ~Shape() { free(name); }
  virtual int corners() const = 0;
  char* name;
};
struct Square : Shape {
  using Shape::Shape;
  int corners() const override { return 4; }
};
struct Guarded {
  Guarded() : text(strdup("guarded")) {}
  ~Guarded() { free(text); }
  char* text;
  int number = 3;
};
struct Throws {
  Throws() { throw 1; }
  void* p = nullptr;
};
/// Its pointer to virtual functions is that of its virtual base.
struct Counted {
  virtual int count() const { return 1; }
};
struct Twice : virtual Counted {
  int count() const override { return 2; }
  char* text = strdup("twice");
};
enum class OtherKind { kNumber = 1, kPointer = 2 };
enum class Kind { kPointer = 1, kNumber = 2 };
struct Tagged {
  Kind kind;
  union {
    char* text PERDURA_COUNTS_WHEN(kind, Kind::kPointer);
    long number;
  } of;
};
template <class T>
struct Holder {
  T* held = new T;
};
struct World {
  Counted* counted = nullptr;
  Tagged* tagged[2] = {nullptr, nullptr};
  Holder<Guarded>* holder = nullptr;
  std::vector<std::string> words;
  std::map<int, std::string> names;
  std::unordered_map<std::string, std::vector<int>> lists;
  std::list<std::unique_ptr<Shape>> shapes;
  std::shared_ptr<Guarded> shared;
  std::optional<std::string> maybe;
  Guarded* guarded = nullptr;
  int* numbers = nullptr;
};
struct Root {
  World* world;
};

static void make(World& world) {
  for (int i = 0; i < 100; ++i) {
    const std::string text = "a text that has no room inside of a string " + std::to_string(i);
    world.words.push_back(i % 2 == 0 ? text : std::to_string(i));
    world.names[i] = text;
    world.lists[text].assign(5, i);
  }
  world.shapes.push_back(std::make_unique<Square>("square"));
  auto make_another = [] { return new Square("of a lambda"); };
  world.shapes.emplace_back(make_another());
  world.shared = std::make_shared<Guarded>();
  world.maybe = "a text that has no room inside of an optional string";
  world.guarded = new Guarded[7];
  world.numbers = new int[20]{1, 2, 3};
  world.counted = new Twice;
  for (const Kind kind : {Kind::kPointer, Kind::kNumber})
    world.tagged[kind == Kind::kNumber] = new Tagged{kind, {}};
  world.tagged[0]->of.text = strdup("of a tag");
  world.tagged[1]->of.number = 7;
  world.holder = new Holder<Guarded>;
}

static void check(World& world) {
  EXPECT(world.words.size() == 100 && world.names.size() == 100 && world.lists.size() == 100);
  for (int i = 0; i < 100; ++i) {
    const std::string text = "a text that has no room inside of a string " + std::to_string(i);
    EXPECT(world.words[i] == (i % 2 == 0 ? text : std::to_string(i)));
    EXPECT(world.names.at(i) == text);
    EXPECT(world.lists.at(text).size() == 5 && world.lists.at(text)[4] == i);
  }
  EXPECT(world.shapes.size() == 2 && world.shapes.front()->corners() == 4);
  EXPECT(std::strcmp(world.shapes.back()->name, "of a lambda") == 0);
  EXPECT(std::strcmp(world.shared->text, "guarded") == 0);
  EXPECT(*world.maybe == "a text that has no room inside of an optional string");
  EXPECT(std::strcmp(world.guarded[6].text, "guarded") == 0);
  EXPECT(world.numbers[2] == 3 && world.numbers[19] == 0);
  EXPECT(world.counted->count() == 2);
  EXPECT(std::strcmp(dynamic_cast<Twice*>(world.counted)->text, "twice") == 0);
  EXPECT(std::strcmp(world.tagged[0]->of.text, "of a tag") == 0);
  EXPECT(world.tagged[1]->of.number == 7);
  EXPECT(std::strcmp(world.holder->held->text, "guarded") == 0);
}

/// How the container is kept, as the third argument says.
static perdura::Options options_of(const std::string& way) {
  perdura::Options options;
  options.region_limit_bytes = 256 << 20;
  if (way == "remap" || way == "remap_background") options.engine = perdura::Engine::kRemap;
  if (way == "remap_background") options.capture = perdura::Capture::kBackground;
  if (way == "copies") options.engine = perdura::Engine::kDualCopy;
  if (way == "protect") options.tracking = perdura::Tracking::kProtect;
  if (way == "region") options.region = "another";
  if (way == "elsewhere") options.region_address = std::uintptr_t{0x2a} << 40;
  return options;
}

int main(int argc, char** argv) {
  EXPECT(argc == 3 || argc == 4);
  auto container = perdura::Container::open(argv[2], options_of(argc == 4 ? argv[3] : ""));
  auto& root = *static_cast<Root*>(container.root(*PERDURA_RECORD(Root)));
  if (std::strcmp(argv[1], "make") == 0) {
    try {
      (void)new Throws;
      EXPECT(false);
    } catch (int) {
    }
    root.world = new World;
    make(*root.world);
    container.point();
    check(*root.world);
    World* const other = new World;  // all of it is given back
    make(*other);
    delete[] other->guarded;
    delete[] other->numbers;
    delete other;
    delete[] root.world->guarded;
    root.world->guarded = new Guarded[7];
    root.world->names.erase(5);
    root.world->names[5] = "a text that has no room inside of a string 5";
    container.point();
  } else {
    check(*root.world);
    delete[] root.world->guarded;
    delete[] root.world->numbers;
    delete root.world;
    root.world = nullptr;
    EXPECT(container.audit().problem.empty());
  }
  std::raise(SIGKILL);
}
