// Goal: `perdura info --usage` says what takes a store's space, and misses no byte; `perdura dump`
// prints its objects as their type records know them, each once, and nothing of damaged pages;
// `perdura compact` gives back what nothing needs and loses nothing; a copy of a store gets an
// identity of its own by `perdura identity --new`.
// Method: stores of all engines are made through the library, on files and emulated NVM; the built
// command runs as a process of its own, and what it prints is parsed and compared with what the
// program has stored.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <set>

#include <nlohmann/json.hpp>
#include <perdura/perdura.hpp>
#include <perdura/type.hpp>

#include "format/format.hpp"
#include "store/inspect.hpp"
#include "support/files.hpp"
#include "support/process.hpp"
#include "support/store_places.hpp"

namespace {

struct Leaf {
  std::uint64_t number;
  const char* text;
};

enum Kind : std::uint32_t { kNumber, kText };

struct Node {
  Node* next;
  Kind kind;
  std::uint32_t color;
  union {
    const char* text;
    std::uint64_t number;
  } value;
  Leaf leaves[2];
};

struct Index {
  std::uint64_t count;
  Node* nodes[];
};

enum class Hue : std::uint16_t { kRed = 7, kBlue = 300 };
struct Point {
  float x;
  std::int32_t y;
};
struct Person {
  std::int64_t number;
  double weight;
  bool is_here;
  std::int8_t small;
  Hue hue;
  char name[12];
  char raw[4];
  std::uint16_t matrix[2][3];
  Point at;
  Point corners[2];
  Person* next;
  Person* others[2];
  std::uint64_t largest;
  float nothing;
};
}  // namespace

namespace cli_inside {
struct Pair {
  std::uint64_t number;
  Pair* next;
};
}  // namespace cli_inside

/// Known by its size alone.
struct Variant {
  std::uint64_t kind;
  union {
    std::uint64_t number;
    double real;
  };
};
struct WithVariant {
  std::uint64_t first;
  Variant variant;
};
/// PERDURA_TYPE says where the pointers are, and the compiler knows the members as well.
struct Named {
  Named* next;
  std::int32_t number;
};

PERDURA_TYPE(WithVariant)
PERDURA_TYPE(Named, next)
PERDURA_TYPE(Leaf, text)
PERDURA_TYPE_OF(Node, PERDURA_POINTER(Node, next),
                PERDURA_POINTER_WHEN(Node, value.text, kind, kText),
                PERDURA_VALUE(Node, leaves, perdura::TypeRecord<Leaf>::value))
PERDURA_TYPE_OF(Index, PERDURA_FLEXIBLE_POINTERS(Index, nodes))

namespace perdura::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class CliInside : public testing::TestWithParam<StorePlace> {
 protected:
  struct Outcome {
    int exit_code = -1;
    std::string out;
    std::string err;

    Json json() const {
      Json parsed = Json::parse(out, nullptr, false);
      EXPECT_FALSE(parsed.is_discarded()) << out << err;
      return parsed;
    }
  };

  static std::string contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  Outcome run(const std::string& arguments) const {
    const std::string out = folder_.path("out");
    const std::string err = folder_.path("err");
    const std::string command =
        std::string("'") + PERDURA_COMMAND + "' " + arguments + " >'" + out + "' 2>'" + err + "'";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents(out), contents(err)};
  }

  std::string path() const { return folder_.path("store.pd"); }
  std::string uri() const { return GetParam().scheme + path(); }

  static Options options(const char* region = "") {
    Options options;
    options.engine = GetParam().engine;
    options.tracking = Tracking::kReported;
    options.chunk_bytes = 64 * kKiB;
    options.region_limit_bytes = 64 * kMiB;
    options.region = region;
    return options;
  }

  static Node* make_node(Store& store, Node* next, std::uint32_t color) {
    auto* const node = static_cast<Node*>(store.allocate(TypeRecord<Node>::value));
    store.touch(node, sizeof *node);
    node->next = next;
    node->color = color;
    return node;
  }
  static char* make_text(Store& store, std::string_view text) {
    auto* const made = static_cast<char*>(store.allocate(text.size() + 1));
    store.touch(made, text.size() + 1);
    std::memcpy(made, text.data(), text.size());
    made[text.size()] = 0;
    return made;
  }

  /// A ring of two nodes and an index of them, with a text that both have.
  static void make_graph(Store& store) {
    auto operation = store.operation();
    Node* const second = make_node(store, nullptr, 2);
    Node* const first = make_node(store, second, 1);
    second->next = first;
    first->kind = kText;
    first->value.text = make_text(store, "hello");
    second->kind = kNumber;
    second->value.number = 0x1122334455667788;
    second->leaves[1] = {7, first->value.text + 1};
    auto* const index = static_cast<Index*>(
        store.allocate_flexible(TypeRecord<Index>::value, sizeof(Index) + 2 * sizeof(Node*)));
    store.touch(index, sizeof(Index) + 2 * sizeof(Node*));
    index->count = 2;
    index->nodes[0] = first;
    index->nodes[1] = second;
    store.set_root("index", index);
  }

  const TempDir folder_{TempDir::kMemory};
};

/// What an array of objects has under `key` for `value`.
const Json& find_in(const Json& array, const char* key, const Json& value) {
  static const Json none;
  for (const Json& each : array)
    if (each.contains(key) && each[key] == value) return each;
  ADD_FAILURE() << key << " " << value << " is not in " << array.dump(1);
  return none;
}

u64 sum_of(const Json& array, const char* key) {
  u64 sum = 0;
  for (const Json& each : array) sum += each[key].get<u64>();
  return sum;
}

// --- info --usage --------------------------------------------------------------------------------

TEST_P(CliInside, UsageMissesNoByte) {
  {
    Store store = Store::open(uri(), options("first"));
    make_graph(store);
    for (int i = 0; i < 300; ++i) (void)store.allocate(1000);
    store.deallocate(store.allocate(3 * kMiB));
    store.checkpoint();
    Store other = Store::open(uri(), options("second"));
    other.set_root("text", make_text(other, "elsewhere"));
    other.checkpoint();
    other.close();
    store.close();
  }
  const Outcome ran = run("info --usage --json '" + uri() + "'");
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const Json json = ran.json();
  EXPECT_EQ(sum_of(json["space"], "bytes"), fs::file_size(path()));
  std::set<std::string> regions;
  for (const Json& part : json["space"])
    if (part["region"].is_string()) regions.insert(part["region"]);
  EXPECT_EQ(regions, (std::set<std::string>{"first", "second"}));
  for (const Json& region : json["regions"]) {
    const Json& usage = region["usage"];
    EXPECT_EQ(usage["total_bytes"], region["backed_bytes"]) << region["name"];
    EXPECT_EQ(sum_of(usage["kinds"], "bytes"), region["heap"]["live_bytes"]);
    EXPECT_EQ(sum_of(usage["kinds"], "blocks"), region["heap"]["live_blocks"]);
    EXPECT_EQ(usage["free_block_bytes"].get<u64>() + usage["free_run_bytes"].get<u64>(),
              region["heap"]["free_bytes"]);
    EXPECT_EQ(sum_of(usage["roots"], "blocks") + usage["unreached_blocks"].get<u64>(),
              region["heap"]["live_blocks"]);
  }
  const Json& first = find_in(json["regions"], "name", "first");
  EXPECT_EQ(find_in(first["usage"]["kinds"], "type", "Node")["blocks"], 2);
  EXPECT_EQ(find_in(first["usage"]["kinds"], "block_bytes", 1024)["blocks"], 300);
  EXPECT_EQ(first["usage"]["roots"][0]["name"], "index");
  EXPECT_EQ(first["usage"]["roots"][0]["blocks"], 4) << "index, two nodes, one text";
  EXPECT_EQ(first["usage"]["roots"][0]["untyped_blocks"], 1);
  EXPECT_GE(first["usage"]["free_run_bytes"].get<u64>(), 3 * kMiB);
  const std::string text = run("info --usage '" + uri() + "'").out;
  EXPECT_NE(text.find("reached from 'index'"), std::string::npos) << text;
}

TEST_P(CliInside, RootsHaveTheTypesOfTheirBlocks) {
  {
    Store store = Store::open(uri(), options());
    make_graph(store);
    store.set_root("text", make_text(store, "text"));
    store.checkpoint();
    store.close();
  }
  const Json roots = run("info --json '" + uri() + "'").json()["regions"][0]["roots"];
  EXPECT_EQ(find_in(roots, "name", "index")["type"], "Index");
  EXPECT_TRUE(find_in(roots, "name", "text")["type"].is_null());
  EXPECT_NE(run("info '" + uri() + "'").out.find("type 'Index'"), std::string::npos);
}

// An aggregate has a record without PERDURA_TYPE, which goes by the compiler's name for it.
TEST_P(CliInside, TypesAreCalledAsProgramsCallThem) {
  {
    Store store = Store::open(uri(), options());
    store.root<cli_inside::Pair>("pair").next = store.make<cli_inside::Pair>();
    store.checkpoint();
    store.close();
  }
  const std::string name = "cli_inside::Pair";
  const Json info = run("info --usage --json '" + uri() + "'").json()["regions"][0];
  EXPECT_EQ(find_in(info["roots"], "name", "pair")["type"], name);
  EXPECT_EQ(find_in(info["usage"]["kinds"], "type", name.c_str())["blocks"], 2);
  const Json dump = run("dump '" + uri() + "'").json()["regions"][0]["roots"][0]["to"];
  EXPECT_EQ(dump["type"], name);
  EXPECT_EQ(dump["fields"][1]["to"]["type"], name);
}

// --- dump ----------------------------------------------------------------------------------------

const Json& member(const Json& fields, const char* name) { return find_in(fields, "member", name); }

std::string reference_to(const Json& object) {
  std::string text(1, '@');
  text += object["at"].get<std::string>();
  return text;
}

TEST_P(CliInside, DumpPrintsObjectsByTheirTypes) {
  {
    Store store = Store::open(uri(), options());
    make_graph(store);
    store.checkpoint();
    store.close();
  }
  const Outcome ran = run("dump '" + uri() + "'");
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const Json json = ran.json();
  const Json& root = find_in(json["regions"][0]["roots"], "name", "index");
  const Json& index = root["to"];
  EXPECT_EQ(index["type"], "Index");
  EXPECT_EQ(index["fields"][0]["hex"], "0200000000000000");
  const Json& first = index["tail"][0][0]["to"];
  EXPECT_EQ(first["type"], "Node");
  const Json& second = member(first["fields"], "next")["to"];
  EXPECT_EQ(member(second["fields"], "next")["to"], reference_to(first))
      << "the ring ends where it began";
  EXPECT_EQ(index["tail"][1][0]["to"], reference_to(second));
  // The second node is printed inside the first one, before the rest of that: the text with it.
  const Json& into_text = member(second["fields"], "leaves+24");
  EXPECT_EQ(into_text["into"], 1);
  EXPECT_EQ(into_text["to"]["fields"][0]["hex"].get<std::string>().substr(0, 12), "68656c6c6f00");
  EXPECT_EQ(member(first["fields"], "value.text")["to"], reference_to(into_text["to"]));
  // The union's number is none of its pointers.
  const std::string whole = second["fields"].dump();
  EXPECT_NE(whole.find("8877665544332211"), std::string::npos) << whole;
  EXPECT_EQ(json["damaged_pages"], 0);
}

TEST_P(CliInside, DumpStopsWhereItIsTold) {
  {
    Store store = Store::open(uri(), options());
    {
      auto operation = store.operation();
      Node* last = nullptr;
      for (std::uint32_t i = 0; i < 2000; ++i) last = make_node(store, last, i);
      store.set_root("list", last);
      store.set_root("text", make_text(store, std::string(100'000, 'z')));
    }
    store.checkpoint();
    store.close();
  }
  const Json shallow = run("dump --depth 2 '" + uri() + "' list").json();
  EXPECT_EQ(shallow["regions"][0]["roots"].size(), 1u);
  const Json* node = &shallow["regions"][0]["roots"][0]["to"];
  for (int i = 0; i < 2; ++i) node = &member((*node)["fields"], "next")["to"];
  EXPECT_EQ(member((*node)["fields"], "next")["to"].get<std::string>().substr(0, 2), "0x");
  const Json flat = run("dump --flat --depth 1000 '" + uri() + "' list").json();
  EXPECT_EQ(flat["regions"][0]["objects"].size(), 1001u);
  EXPECT_EQ(run("dump --depth 1001 '" + uri() + "'").exit_code, 2);
  const Outcome none = run("dump '" + uri() + "' nowhere");
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_NE(none.err.find("has no root 'nowhere'"), std::string::npos) << none.err;
  EXPECT_EQ(run("dump --region none '" + uri() + "'").exit_code, 2);
  const Json text = run("dump --limit 64 '" + uri() + "' text").json();
  const Json& bytes = text["regions"][0]["roots"][0]["to"]["fields"][0];
  EXPECT_EQ(bytes["hex"].get<std::string>().size(), 128u);
  EXPECT_GE(bytes["left_out_bytes"].get<u64>(), 100'000 - 64);
}

/// Of a member that is no pointer.
const Json& value(const Json& fields, const char* name) {
  static const Json none;
  const Json& found = member(fields, name);
  if (found.contains("value")) return found["value"];
  ADD_FAILURE() << name << " has no value in " << fields.dump(1);
  return none;
}

TEST_P(CliInside, DumpPrintsTheValuesOfMembers) {
  {
    Store store = Store::open(uri(), options());
    {
      auto operation = store.operation();
      auto& person = store.root<Person>("person");
      operation.touch(&person, sizeof person);
      person = {.number = -5,
                .weight = 72.25,
                .is_here = true,
                .small = -3,
                .hue = Hue::kBlue,
                .name = "Ada \"L\"",
                .raw = {'\1', '\2', '\xff', 4},
                .matrix = {{1, 2, 3}, {4, 5, 6}},
                .at = {0.1F, -9},
                .corners = {{1, 1}, {2, 2}},
                .next = store.make<Person>(),
                .others = {&person, nullptr},
                .largest = ~std::uint64_t{0},
                .nothing = std::numeric_limits<float>::quiet_NaN()};
      auto& with_variant = store.root<WithVariant>("variant");
      operation.touch(&with_variant, sizeof with_variant);
      with_variant = {11, {2, {0x0102030405060708}}};
      auto& named = store.root<Named>("named");
      operation.touch(&named, sizeof named);
      named = {&named, 77};
    }
    store.checkpoint();
    store.close();
  }
  const Outcome ran = run("dump '" + uri() + "'");
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const Json roots = ran.json()["regions"][0]["roots"];
  const Json& person = find_in(roots, "name", "person")["to"];
  EXPECT_EQ(person["type"], "(anonymous namespace)::Person");
  const Json& fields = person["fields"];
  EXPECT_EQ(value(fields, "number"), -5);
  EXPECT_EQ(member(fields, "number")["type"], "int64");
  EXPECT_EQ(value(fields, "weight"), 72.25);
  EXPECT_EQ(value(fields, "is_here"), true);
  EXPECT_EQ(value(fields, "small"), -3);
  EXPECT_EQ(value(fields, "hue"), 300);
  EXPECT_EQ(member(fields, "hue")["type"], "(anonymous namespace)::Hue");
  EXPECT_EQ(value(fields, "name"), "Ada \"L\"");
  EXPECT_EQ(member(fields, "name")["type"], "char[12]");
  EXPECT_EQ(value(fields, "raw"), Json::parse("[1, 2, -1, 4]")) << "it is no text";
  EXPECT_EQ(value(fields, "matrix"), Json::parse("[[1, 2, 3], [4, 5, 6]]"));
  EXPECT_EQ(member(fields, "matrix")["type"], "uint16[2][3]");
  const Json& at = value(fields, "at");
  EXPECT_EQ(value(at, "x").dump(), "0.1") << "with the digits of a float";
  EXPECT_EQ(value(at, "y"), -9);
  EXPECT_EQ(member(at, "y")["offset"], offsetof(Person, at) + offsetof(Point, y));
  EXPECT_EQ(value(value(fields, "corners")[1], "y"), 2);
  const Json& next = member(fields, "next")["to"];
  EXPECT_EQ(value(next["fields"], "number"), 0);
  EXPECT_EQ(value(fields, "others")[0]["to"], reference_to(person));
  EXPECT_TRUE(value(fields, "others")[1]["to"].is_null());
  EXPECT_EQ(value(fields, "largest"), ~std::uint64_t{0});
  EXPECT_EQ(value(fields, "nothing"), "nan");
  // A union's bytes; and a type that has a record beside its members.
  const Json& variant = value(find_in(roots, "name", "variant")["to"]["fields"], "variant");
  EXPECT_EQ(variant.at(0).at("hex"), "02000000000000000807060504030201");
  const Json& named = find_in(roots, "name", "named")["to"];
  EXPECT_EQ(value(named["fields"], "number"), 77);
  EXPECT_EQ(member(named["fields"], "next")["to"], reference_to(named));
  // Nothing that the usage calls by what the compiler calls it.
  const Json usage = run("info --usage --json '" + uri() + "'").json()["regions"][0]["usage"];
  EXPECT_EQ(find_in(usage["kinds"], "type", "(anonymous namespace)::Person")["blocks"], 2);
  // Bounds hold for values, too.
  const Json limited = run("dump --limit 4 --depth 0 '" + uri() + "' person").json();
  const Json& few = limited["regions"][0]["roots"][0]["to"]["fields"];
  EXPECT_EQ(value(few, "matrix"), Json::parse(R"([[1, 2, "and 1 more"], "and 1 more"])"));
  EXPECT_EQ(member(few, "next")["to"].get<std::string>().substr(0, 2), "0x");
}

// Pointers are addresses in aliases there; objects are named by where the first mapping has them.
TEST_P(CliInside, DumpFollowsPointersIntoAliases) {
  {
    Options chosen = options();
    chosen.tracking = Tracking::kProtect;
    chosen.aliases = 4;
    Store store = Store::open(uri(), chosen);
    make_graph(store);
    store.checkpoint();
    store.close();
  }
  const Outcome ran = run("dump '" + uri() + "'");
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const Json json = ran.json();
  const Json& index = json["regions"][0]["roots"][0]["to"];
  const Json& first = index["tail"][0][0]["to"];
  const Json& second = member(first["fields"], "next")["to"];
  EXPECT_EQ(second["type"], "Node");
  EXPECT_EQ(member(second["fields"], "next")["to"], reference_to(first));
  const Json usage = run("info --usage --json '" + uri() + "'").json()["regions"][0]["usage"];
  EXPECT_EQ(usage["roots"][0]["blocks"], 4);
}

TEST_P(CliInside, DumpWorksBesideAWriter) {
  Store store = Store::open(uri(), options());
  make_graph(store);
  store.checkpoint();
  const Outcome ran = run("dump '" + uri() + "' index");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ran.json()["regions"][0]["roots"][0]["to"]["type"], "Index");
  store.close();
}

TEST_P(CliInside, DumpNamesDamagedPagesAndPrintsNothingOfThem) {
  u64 text_offset = 0;
  {
    Store store = Store::open(uri(), options());
    make_graph(store);
    auto* const large = static_cast<char*>(store.allocate(200 * kKiB));
    {
      auto operation = store.operation();
      operation.touch(large, 200 * kKiB);
      std::memset(large, 'x', 200 * kKiB);
    }
    store.set_root("large", large);
    store.checkpoint();
    store.close();
  }
  const auto description = store::describe(uri(), {});
  ASSERT_TRUE(description);
  const store::RegionDescription& region = description->regions.at(0);
  for (const store::RootDescription& root : region.roots)
    if (root.name == "large") text_offset = root.offset;
  ASSERT_NE(text_offset, 0u);
  // Every copy of the page, in chunks too: wherever it is found on the medium.
  const FileBytes before = read_file(path());
  FileBytes damaged = before;
  const std::string xs(kPageBytes, 'x');
  u64 found = 0;
  for (u64 at = format::kDataBegin; at + kPageBytes <= damaged.size(); at += kPageBytes)
    if (std::memcmp(&damaged[at], xs.data(), kPageBytes) == 0) {
      damaged[at + 100] = std::byte{'y'};
      ++found;
    }
  ASSERT_NE(found, 0u);
  write_file(path(), damaged);
  const Outcome ran = run("dump --limit 0 '" + uri() + "'");
  EXPECT_EQ(ran.exit_code, 1) << ran.out << ran.err;
  if (GetParam().engine == Engine::kRemap) {
    EXPECT_NE(ran.err.find("does not fit its checksum"), std::string::npos) << ran.err;
    return;
  }
  const Json roots = ran.json()["regions"][0]["roots"];
  const Json& large = find_in(roots, "name", "large")["to"];
  EXPECT_GE(large["damaged_pages"].size(), 49u);
  EXPECT_FALSE(large.contains("fields"));
  EXPECT_EQ(ran.out.find("787878"), std::string::npos) << "nothing of the damaged object is shown";
  EXPECT_EQ(find_in(roots, "name", "index")["to"]["type"], "Index") << "what is whole is shown";
}

// --- compact, identity ---------------------------------------------------------------------------

TEST_P(CliInside, CompactSaysWhatItGivesBack) {
  {
    Store store = Store::open(uri(), options());
    make_graph(store);
    store.checkpoint();
    store.close();
  }
  const u64 before = fs::file_size(path());
  const Outcome dry = run("compact --dry-run --json '" + uri() + "'");
  ASSERT_EQ(dry.exit_code, 0) << dry.err;
  EXPECT_EQ(fs::file_size(path()), before);
  EXPECT_EQ(dry.json()["bytes_before"], before);
  const Outcome done = run("compact '" + uri() + "'");
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(done.out.rfind("given back: ", 0), 0u) << done.out;
  EXPECT_EQ(fs::file_size(path()), dry.json()["bytes_after"]);
  const std::string again = run("compact '" + uri() + "'").out;
  EXPECT_EQ(again.rfind("given back: 0 B at the end; ", 0), 0u) << again;
  EXPECT_EQ(run("check '" + uri() + "'").exit_code, 0);
  EXPECT_EQ(run("compact '" + folder_.path("nothing") + "'").exit_code, 2);
  Store store = Store::open(uri(), options());
  const Outcome refused = run("compact '" + uri() + "'");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("is open in process"), std::string::npos) << refused.err;
  store.close();
}

TEST_P(CliInside, IdentityIsShownAndRenewed) {
  {
    Store store = Store::open(uri(), options());
    make_graph(store);
    store.checkpoint();
    store.close();
  }
  const Json before = run("identity --json '" + uri() + "'").json();
  EXPECT_EQ(before["uuid"], run("info --json '" + uri() + "'").json()["uuid"]);
  EXPECT_EQ(before["regions"][0]["reserved_bytes"], 64 * kMiB);
  const Outcome renewed = run("identity --new --json '" + uri() + "'");
  ASSERT_EQ(renewed.exit_code, 0) << renewed.err;
  const Json after = run("identity --json '" + uri() + "'").json();
  EXPECT_EQ(after["uuid"], renewed.json()["uuid"]);
  EXPECT_NE(after["uuid"], before["uuid"]);
  EXPECT_EQ(after["regions"], before["regions"]);
  EXPECT_EQ(run("check '" + uri() + "'").exit_code, 0);
}

INSTANTIATE_TEST_SUITE_P(Places, CliInside, testing::ValuesIn(kStorePlaces), name_of);

}  // namespace
}  // namespace perdura::test
