// Goal: the blocks of the reporting containers are typed: a store of such containers moves to
// another address with all that is in them, also after a crash and in each engine; whatever holds
// no element holds no pointer; and elements whose type has other members now are converted where
// they lie. Method: random calls on the containers and on the standard's at the same time, before
// and behind each move; a walk over all pointers of the heap; each crash state of a conversion.
#include <gtest/gtest.h>

#include <deque>
#include <list>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <perdura/container.hpp>
#include <perdura/perdura.hpp>
#include <perdura/structures/deque.hpp>
#include <perdura/structures/hash_map.hpp>
#include <perdura/structures/hash_set.hpp>
#include <perdura/structures/list.hpp>
#include <perdura/structures/ordered_map.hpp>
#include <perdura/structures/ordered_set.hpp>
#include <perdura/structures/string.hpp>
#include <perdura/structures/vector.hpp>
#include <perdura/testing.hpp>

#include "heap/heap.hpp"
#include "store/runtime.hpp"
#include "support/container_calls.hpp"
#include "support/expect_failure.hpp"
#include "support/slice.hpp"

namespace {

using perdura::structures::deque;
using perdura::structures::hash_map;
using perdura::structures::list;
using perdura::structures::ordered_map;
using perdura::structures::vector;
using Text = perdura::structures::string;

// What a program calls now::X is what another build of it called X.
namespace now {
struct Item {
  std::int64_t number;
  Text name;
  Item* next = nullptr;
  std::int32_t added = 7;
};
}  // namespace now
namespace v1 {
struct Item {
  Text name;
  Item* next = nullptr;
  std::int32_t number;
  std::int32_t gone = 0;
};
}  // namespace v1

template <class Item>
struct Items {
  vector<Item> in_vector;
  deque<Item> in_deque;
  list<Item> in_list;
  hash_map<Text, Item> in_map;
  hash_map<std::uint64_t, vector<Item>> nested;
};
template <class Item>
struct Holder {
  Item item;
};

}  // namespace

template <>
inline constexpr bool perdura::kReportsItself<v1::Item> = true;
template <>
inline constexpr bool perdura::kReportsItself<now::Item> = true;
template <>
inline constexpr bool perdura::kReportsItself<Holder<v1::Item>> = true;
template <>
inline constexpr bool perdura::kReportsItself<Holder<now::Item>> = true;
template <>
struct perdura::FormerOf<v1::Item> {
  using now = now::Item;
};
template <>
struct perdura::FormerOf<Items<v1::Item>> {
  using now = Items<::now::Item>;
};
template <>
struct perdura::FormerOf<Holder<v1::Item>> {
  using now = Holder<::now::Item>;
};

namespace perdura::test {
namespace {

struct Node {
  Node* next;
  u64 number;
};
struct Fields {
  u64 number;
  double weight;
  u32 marks[3];
};

/// One of each, of elements that are numbers, pointers, objects of pointers, and texts.
struct Everything {
  structures::vector<u64> numbers;
  structures::vector<Node*> pointers;
  structures::vector<Node> nodes;
  structures::vector<Text> texts;
  structures::deque<Text> queue;
  structures::deque<Node*> queue_of_pointers;
  structures::list<Text> listed;
  structures::list<Node> listed_nodes;
  structures::hash_map<Text, Text> map;
  structures::hash_map<u64, Node*> map_of_pointers;
  structures::hash_map<u64, structures::hash_map<u64, Text>> nested;
  structures::hash_set<Text> set;
  structures::ordered_map<Text, Text> ordered;
  structures::ordered_map<u64, Node*> ordered_pointers;
  structures::ordered_set<Text> ordered_set;
};

struct Models {
  std::vector<u64> numbers;
  std::vector<std::string> texts;
  std::deque<std::string> queue;
  std::list<std::string> listed;
  std::map<std::string, std::string> map;
  std::set<std::string> set;
  std::map<u64, std::map<u64, std::string>> nested;
  std::map<u64, u64> pointers;  ///< of the maps, and the numbers that they lead to
};

Node* node_of(Store& store, Everything& all, u64 number) {
  const auto operation = store.operation();
  if (all.map_of_pointers.contains(number)) return all.map_of_pointers.at(number).get();
  Node* const made = store.make<Node>();
  operation.touch(made, sizeof *made);
  *made = {made, number};
  return made;
}

void change(Store& store, Everything& all, Models& models, u64 calls, u64 seed) {
  std::mt19937_64 random(seed);
  for (u64 i = 0; i < calls; ++i) {
    const u64 number = random() % 400;
    const std::string text = text_of(number);
    const std::string other = text_of(random() % 1000);
    switch (random() % 12) {
      case 0:
        all.numbers.push_back(number), models.numbers.push_back(number);
        all.texts.push_back(text), models.texts.push_back(text);
        break;
      case 1:
        if (models.texts.empty()) break;
        all.numbers.pop_back(), models.numbers.pop_back();
        all.texts.pop_back(), models.texts.pop_back();
        break;
      case 2:
        all.queue.push_front(text), models.queue.push_front(text);
        all.queue_of_pointers.push_front(node_of(store, all, number));
        break;
      case 3:
        all.queue.push_back(text), models.queue.push_back(text);
        all.queue_of_pointers.push_back(node_of(store, all, number));
        break;
      case 4:
        if (models.queue.empty()) break;
        all.queue.pop_back(), models.queue.pop_back();
        all.queue_of_pointers.pop_back();
        break;
      case 5:
        all.listed.push_front(text), models.listed.push_front(text);
        if (models.listed.size() > 60) all.listed.resize(20), models.listed.resize(20);
        all.listed_nodes.push_back(Node{node_of(store, all, number), number});
        if (all.listed_nodes.size() > 50) all.listed_nodes.pop_front();
        break;
      case 6:
      case 7:
        all.map.insert_or_assign(text, other), models.map.insert_or_assign(text, other);
        all.ordered.insert_or_assign(text, other);
        all.set.insert(text), all.ordered_set.insert(text), models.set.insert(text);
        break;
      case 8:
        all.map.erase(text), models.map.erase(text), all.ordered.erase(text);
        all.set.erase(text), all.ordered_set.erase(text), models.set.erase(text);
        break;
      case 9: {
        Node* const node = node_of(store, all, number);
        all.map_of_pointers.insert_or_assign(number, node);
        all.ordered_pointers.insert_or_assign(number, node);
        models.pointers[number] = number;
        all.pointers.push_back(node);
        all.nodes.push_back(Node{node, number});
        break;
      }
      case 10:
        all.map_of_pointers.erase(number), all.ordered_pointers.erase(number);
        models.pointers.erase(number);
        if (all.pointers.size() > 40) all.pointers.erase(5, 30), all.nodes.erase(5, 30);
        break;
      default:
        all.nested[number % 7].insert_or_assign(number, text);
        models.nested[number % 7].insert_or_assign(number, text);
        if (number % 50 == 0) all.nested.erase(3), models.nested.erase(3);
    }
  }
}

void compare(const Store& store, const Everything& all, const Models& models) {
  ASSERT_EQ(all.numbers.size(), models.numbers.size());
  for (u64 i = 0; i < models.numbers.size(); ++i) {
    ASSERT_EQ(all.numbers[i], models.numbers[i]);
    ASSERT_TRUE(all.texts[i] == models.texts[i]);
  }
  ASSERT_EQ(all.queue.size(), models.queue.size());
  for (u64 i = 0; i < models.queue.size(); ++i) {
    ASSERT_TRUE(all.queue[i] == models.queue[i]);
    ASSERT_TRUE(store.contains(all.queue_of_pointers[i].get()));
    ASSERT_EQ(text_of(all.queue_of_pointers[i]->number), models.queue[i]);
  }
  ASSERT_EQ(all.listed.size(), models.listed.size());
  auto each = all.listed.begin();
  for (const std::string& text : models.listed) ASSERT_TRUE(*each++ == text);
  for (const auto& node : all.listed_nodes) {
    const Node value = node.get();
    ASSERT_EQ(value.next->number, value.number);
  }
  expect_same(all.map, models.map);
  ASSERT_EQ(all.ordered.verify(), "");
  ASSERT_EQ(all.ordered.size(), models.map.size());
  for (const auto& [key, value] : models.map) ASSERT_TRUE(all.ordered.at(key) == value);
  ASSERT_EQ(all.set.size(), models.set.size());
  ASSERT_EQ(all.ordered_set.size(), models.set.size());
  for (const std::string& key : models.set)
    ASSERT_TRUE(all.set.contains(key) && all.ordered_set.contains(key));
  ASSERT_EQ(all.nested.size(), models.nested.size());
  for (const auto& [key, inner] : models.nested) expect_same(all.nested.at(key), inner);
  ASSERT_EQ(all.map_of_pointers.size(), models.pointers.size());
  for (const auto& [key, number] : models.pointers) {
    ASSERT_EQ(all.map_of_pointers.at(key)->number, number);
    ASSERT_EQ(all.ordered_pointers.at(key).get(), all.map_of_pointers.at(key).get());
    ASSERT_EQ(all.map_of_pointers.at(key)->next, all.map_of_pointers.at(key).get());
  }
  for (u64 i = 0; i < all.nodes.size(); ++i)
    ASSERT_EQ(all.nodes[i]->next->number, all.pointers[i]->number);
}

/// Each word that a type says is a pointer is null, or leads to a block that is there. "" when all
/// blocks are typed, and so it is.
std::string pointers_problem(Store& store) {
  heap::Heap& heap = store.runtime().heap();
  value_or_throw(heap.load_typed());
  if (const Status typed = heap.require_types(); !typed) return typed.failure().message;
  const heap::Layouts layouts(heap.types().layouts());
  // By offset: with aliases a block has several addresses.
  const region::Region& region = store.runtime().region();
  std::map<u64, u64> blocks;
  heap.blocks().for_each_block([&](const std::byte* place, u64 bytes, u16) {
    blocks.emplace(region.offset_of(place), bytes);
  });
  std::string problem;
  heap.blocks().for_each_block([&](const std::byte* place, u64 bytes, u16 tag) {
    const heap::Layout* const layout = layouts.of(tag);
    if (layout == nullptr) return;
    layout->for_each_pointer(
        const_cast<std::byte*>(place), bytes, (tag & 1) != 0, [&](u64* word, bool) {
          if (*word == 0 || !problem.empty()) return;
          const void* const to = reinterpret_cast<const void*>(*word);
          const auto after = blocks.upper_bound(region.contains(to) ? region.offset_of(to) : 0);
          if (after == blocks.begin() ||
              region.offset_of(to) >= std::prev(after)->first + std::prev(after)->second)
            problem = "a pointer of '" + layout->name + "' leads nowhere";
        });
  });
  return problem;
}

/// As a kill leaves it: no last checkpoint is taken where an exception destroys a store.
void crash(Store&& store) {
  try {
    const Store gone = std::move(store);
    throw 1;
  } catch (int) {
  }
}

struct Way {
  const char* name;
  const char* scheme;
  Engine engine;
  Tracking tracking;
  u32 aliases = 0;
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

class TypedContainers : public ::testing::TestWithParam<Way> {
 protected:
  std::string uri() const { return GetParam().scheme + folder_.path("store"); }
  Options options(u64 address = 0) const {
    Options chosen = test::options();
    chosen.engine = GetParam().engine;
    chosen.tracking = GetParam().tracking;
    chosen.aliases = GetParam().aliases;
    chosen.region_address = address;
    return chosen;
  }
  const TempDir folder_{TempDir::kMemory};
};

constexpr u64 kWanted = 0x5520'0000'0000;
static_assert(detail::Recorded<Everything> && detail::Recorded<Items<v1::Item>>);

TEST_P(TypedContainers, MoveToAnotherAddressWithTheirElements) {
  Models models;
  for (u64 round = 0; round < 4; ++round) {
    SCOPED_TRACE(round);
    Store store = Store::open(uri(), options(kWanted + round % 2 * kGiB));
    auto& all = store.root<Everything>("everything");
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(&all) / kGiB, (kWanted + round % 2 * kGiB) / kGiB);
    ASSERT_NO_FATAL_FAILURE(compare(store, all, models));
    change(store, all, models, slice_or_whole(3000, 100'000) / kSlower, round);
    ASSERT_NO_FATAL_FAILURE(compare(store, all, models));
    EXPECT_EQ(pointers_problem(store), "");
    store.checkpoint();
    EXPECT_TRUE(store.audit().clean) << store.audit().problem;
    // What no version has is gone with the move.
    Models ignored = models;
    change(store, all, ignored, 100, round);
    crash(std::move(store));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ways, TypedContainers,
    ::testing::Values(Way{"file", "file:", Engine::kRedoLog, Tracking::kReported},
                      Way{"file_pages", "file:", Engine::kRedoLog, Tracking::kAutomatic},
                      Way{"emu", "emu:", Engine::kRedoLog, Tracking::kReported},
                      Way{"chunks", "file:", Engine::kRemap, Tracking::kAutomatic},
                      Way{"copies", "emu:", Engine::kDualCopy, Tracking::kReported},
                      Way{"aliases", "emu:", Engine::kRedoLog, Tracking::kAutomatic, 2}),
    [](const auto& info) { return std::string(info.param.name); });

// Beside a writer, and alone.
TEST_P(TypedContainers, ReadersSeeThem) {
  Models models;
  Options reading = options();
  reading.read_only = true;
  reading.aliases = 0;
  const auto read = [&] {
    Store reader = Store::open(uri(), reading);
    compare(reader, *reader.find_root<Everything>("everything"), models);
  };
  {
    Store store = Store::open(uri(), options());
    auto& all = store.root<Everything>("everything");
    change(store, all, models, 2000, 1);
    store.checkpoint();
    ASSERT_NO_FATAL_FAILURE(read());
    change(store, all, models, 500, 2);
  }
  ASSERT_NO_FATAL_FAILURE(read());
}

// What goes from one store to another one is copied: neither has pointers into the other.
TEST_P(TypedContainers, OfTwoStoresHaveTheirOwnElements) {
  const auto make = [](Everything& all, u64 from) {
    for (u64 i = from; i < from + 100; ++i) {
      all.listed.push_back(text_of(i)), all.queue.push_back(text_of(i));
      all.ordered.insert_or_assign(text_of(i), text_of(i)), all.map[text_of(i)] = text_of(i);
      all.texts.push_back(text_of(i));
    }
  };
  for (u64 round = 0; round < 2; ++round) {
    Store one = Store::open(uri(), options(kWanted + round * kGiB));
    Store two = Store::open(uri() + "2", options(kWanted + (2 + round) * kGiB));
    auto& a = one.root<Everything>("everything");
    auto& b = two.root<Everything>("everything");
    if (round == 0) {
      make(a, 0), make(b, 1000);
      swap(a.listed, b.listed), swap(a.queue, b.queue), swap(a.ordered, b.ordered);
      swap(a.map, b.map), swap(a.texts, b.texts);
      a.listed.splice(a.listed.begin(), b.listed, b.listed.begin());
      b.queue = std::move(a.queue);
      a.ordered.insert(b.ordered.begin(), b.ordered.end());
      one.checkpoint(), two.checkpoint();
    }
    EXPECT_EQ(a.listed.size(), 101u);
    EXPECT_EQ(a.listed.front(), text_of(0));
    EXPECT_EQ(b.listed.front(), text_of(1));
    EXPECT_TRUE(a.queue.empty());
    EXPECT_EQ(b.queue[7], text_of(1007));
    EXPECT_EQ(a.ordered.size(), 200u);
    EXPECT_EQ(b.map.at(text_of(5)), text_of(5));
    EXPECT_EQ(a.texts[3], text_of(1003));
    for (Store* const store : {&one, &two}) {
      EXPECT_EQ(pointers_problem(*store), "");
      EXPECT_TRUE(store->audit().clean) << store->audit().problem;
    }
    crash(std::move(one)), crash(std::move(two));
  }
}

TEST_P(TypedContainers, InTransactionsTheirBlocksHaveTypesToo) {
  if (GetParam().engine != Engine::kRedoLog || GetParam().aliases != 0)
    GTEST_SKIP() << "no transactions";
  Models models;
  for (u64 round = 0; round < 2; ++round) {
    Store store = Store::open(uri(), options(kWanted + round * kGiB));
    auto& all = store.root<Everything>("everything");
    ASSERT_NO_FATAL_FAILURE(compare(store, all, models));
    if (round == 0) store.checkpoint();
    for (u64 i = 0; i < 40; ++i) {
      const bool fails = i % 4 == 3;
      try {
        // Nodes are made before: an operation inside of a transaction is misuse.
        atomically(store, [&](Transaction&) {
          Models then = models;
          for (u64 each = 0; each < 30; ++each) {
            const u64 number = (i * 30 + each) % 200;
            const std::string text = text_of(number);
            all.texts.push_back(text), then.texts.push_back(text);
            all.numbers.push_back(number), then.numbers.push_back(number);
            all.listed.push_front(text), then.listed.push_front(text);
            all.map.insert_or_assign(text, "x"), then.map.insert_or_assign(text, "x");
            all.ordered.insert_or_assign(text, "x");
            all.set.insert(text), all.ordered_set.insert(text), then.set.insert(text);
            all.nested[number % 5].insert_or_assign(number, text);
            then.nested[number % 5].insert_or_assign(number, text);
            if (each % 3 == 0 && !then.map.empty()) {
              const std::string first = then.map.begin()->first;
              all.map.erase(first), all.ordered.erase(first), then.map.erase(first);
            }
          }
          if (fails) throw std::runtime_error("undone");
          models = then;
        });
      } catch (const std::runtime_error& error) {
        ASSERT_TRUE(fails) << error.what();
      }
    }
    ASSERT_NO_FATAL_FAILURE(compare(store, all, models));
    EXPECT_EQ(pointers_problem(store), "");
    EXPECT_TRUE(store.audit().clean) << store.audit().problem;
    crash(std::move(store));
  }
  Store store = Store::open(uri(), options(kWanted + 2 * kGiB));
  ASSERT_NO_FATAL_FAILURE(compare(store, store.root<Everything>("everything"), models));
}

TEST(TypedContainer, OfWhatIsNotKnownStayAtTheirAddress) {
  struct Unknown {
    explicit Unknown(int of = 0) : number_(of) {}
    int number() const { return number_; }

   private:
    int number_;
  };
  static_assert(!detail::Recorded<Unknown>);
  const TempDir folder{TempDir::kMemory};
  Options elsewhere = options();
  {
    Store store = Store::open(folder.path("store"), options());
    auto& list = store.root<structures::list<Unknown>>("list");
    for (int i = 0; i < 3; ++i) list.push_back(Unknown(i));
    store.close();
  }
  elsewhere.region_address = kWanted;
  expect_error([&] { Store::open(folder.path("store"), elsewhere); }, Code::kAddressTaken,
               "3 blocks");
  Store store = Store::open(folder.path("store"), options());
  EXPECT_EQ(store.root<structures::list<Unknown>>("list").back()->number(), 2);
}

TEST(TypedContainer, ATransactionThatCannotBeginAgainMakesBlocksWithoutTypes) {
  const TempDir folder{TempDir::kMemory};
  Store store = Store::open(folder.path("store"), options());
  auto& list = store.root<structures::list<u64>>("list");
  u64 runs = 0;
  atomically(store, [&](Transaction& tx) {
    tx.irrevocable();
    ++runs;
    list.push_back(1);
  });
  EXPECT_NE(pointers_problem(store), "");
  list.clear();
  u64 again = 0;
  atomically(store, [&](Transaction&) {
    ++again;
    list.push_back(2);
  });
  EXPECT_EQ(again, 2u) << "a version has the type then";
  EXPECT_EQ(list.front(), 2u);
  EXPECT_EQ(pointers_problem(store), "");
  EXPECT_LE(runs, 2u);
}

// Sixteen characters of a short text may look like an address.
TEST(TypedContainer, TextsThatLookLikeAddressesStayWhatTheyAre) {
  const TempDir folder{TempDir::kMemory};
  Options where = options();
  where.region_address = kWanted;
  std::vector<std::string> texts;
  for (u64 i = 0; i < 200; ++i) {
    const u64 words[] = {kWanted + i * 4096, kWanted + i};
    texts.emplace_back(reinterpret_cast<const char*>(words), 6 + i % 11);
  }
  {
    Store store = Store::open(folder.path("store"), where);
    auto& all = store.root<structures::vector<Text>>("texts");
    auto& map = store.root<structures::hash_map<Text, Text>>("map");
    for (const std::string& text : texts) all.push_back(text), map[text] = text;
  }
  where.region_address = kWanted + kGiB;
  Store store = Store::open(folder.path("store"), where);
  for (u64 i = 0; i < texts.size(); ++i) {
    EXPECT_TRUE((store.root<structures::vector<Text>>("texts")[i]) == texts[i]) << i;
    EXPECT_TRUE((store.root<structures::hash_map<Text, Text>>("map").at(texts[i])) == texts[i]);
  }
}

// The root of a container is zeroed, which is what these are without elements.
TEST(TypedContainer, MoveWithAContainerThatHoldsThem) {
  struct Root {
    structures::vector<u64> numbers;
    structures::hash_map<u64, Text> map;
    structures::list<Text> list;
    structures::ordered_map<u64, Text> ordered;
    structures::deque<Text> queue;
  };
  const TempDir folder{TempDir::kMemory};
  Options where = options();
  where.tracking = Tracking::kAutomatic;
  for (u64 round = 0; round < 3; ++round) {
    where.region_address = kWanted + round * kGiB;
    auto container = Container::open(folder.path("container"), where);
    auto& root = *static_cast<Root*>(container.root(detail::record_of<Root>()));
    ASSERT_EQ(root.numbers.size(), round * 500);
    for (u64 i = 0; i < round * 500; ++i) {
      ASSERT_EQ(root.numbers[i], i);
      ASSERT_EQ(root.map.at(i), text_of(i));
      ASSERT_EQ(root.ordered.at(i), text_of(i));
      ASSERT_EQ(root.queue[i], text_of(i));
    }
    u64 at = 0;
    for (const Text& each : root.list) ASSERT_EQ(each, text_of(at++));
    for (u64 i = round * 500; i < (round + 1) * 500; ++i) {
      root.numbers.push_back(i), root.map[i] = text_of(i), root.list.push_back(text_of(i));
      root.ordered[i] = text_of(i), root.queue.push_back(text_of(i));
    }
    container.point();
    EXPECT_TRUE(container.audit().clean) << container.audit().problem;
    EXPECT_EQ(container.statistics().foreign_pointers, 0u);
    container.discard();
  }
}

// --- elements that had other members -------------------------------------------------------------

constexpr u64 kItems = 300;

v1::Item item_of(u64 i) { return {text_of(i), nullptr, static_cast<std::int32_t>(i), -1}; }

void make_items(Store& store, u64 count = kItems) {
  const auto operation = store.operation();
  // Another build would give both the same name.
  auto& items = *store.make<Items<v1::Item>>();
  store.set_root("items", &items);
  store.root<structures::vector<v1::Item>>("vector").push_back(item_of(5));
  store.root<structures::hash_map<u64, v1::Item>>("map").try_emplace(5, item_of(5));
  for (u64 i = 0; i < count; ++i) {
    items.in_vector.push_back(item_of(i));
    items.in_deque.push_front(item_of(i));
    items.in_list.push_back(item_of(i));
    items.in_map.try_emplace(Text(text_of(i)), item_of(i));
    items.nested[i % 10].push_back(item_of(i));
  }
  // A chain through list and map, whose nodes and tables move.
  v1::Item* last = nullptr;
  for (auto& item : items.in_list) {
    store.touch(&item, sizeof item);
    store.touch(&items.in_map.at(*&item.name), sizeof item);
    items.in_map.at(item.name).next = &item;
    item.next = last;
    last = &item;
  }
  items.in_vector.pop_back();
  items.in_map.erase(Text(text_of(7)));
}

template <class Item>
std::string items_problem(Store& store, u64 count = kItems) {
  store.find_root<structures::vector<Item>>("vector");  // or another layout of Item
  auto* const found = static_cast<Items<Item>*>(store.get_root("items"));
  if (found == nullptr) return "no root";
  auto& items = *found;
  const auto is = [](const Item& item, u64 i) {
    if constexpr (requires { item.added; })
      if (item.added != 7) return false;
    return item.number == static_cast<std::int64_t>(i) && item.name == text_of(i);
  };
  if (items.in_vector.size() != count - 1 || items.in_deque.size() != count ||
      items.in_list.size() != count || items.in_map.size() != count - (count > 7 ? 1 : 0))
    return "sizes";
  const Item* last = nullptr;
  u64 i = 0;
  for (auto& item : items.in_list) {
    if (!is(item, i) || item.next != last) return "list " + std::to_string(i);
    last = &item;
    if (i != count - 1 && !is(items.in_vector[i], i)) return "vector " + std::to_string(i);
    if (!is(items.in_deque[count - 1 - i], i)) return "deque " + std::to_string(i);
    if (!is(items.nested.at(i % 10)[i / 10], i)) return "nested " + std::to_string(i);
    const auto of_map = items.in_map.find(Text(text_of(i)));
    if ((of_map == items.in_map.end()) != (i == 7)) return "map " + std::to_string(i);
    if (i != 7 && (!is(of_map->second, i) || of_map->second.next != &item))
      return "element of map " + std::to_string(i);
    ++i;
  }
  return "";
}

u64 evolve_items(Store& store) {
  return store.migrate(
      conversion<structures::vector<v1::Item>, structures::vector<now::Item>>(),
      conversion<structures::deque<v1::Item>, structures::deque<now::Item>>(),
      conversion<structures::list<v1::Item>, structures::list<now::Item>>(),
      conversion<structures::hash_map<u64, v1::Item>, structures::hash_map<u64, now::Item>>(),
      conversion<structures::hash_map<Text, v1::Item>, structures::hash_map<Text, now::Item>>());
}

TEST_P(TypedContainers, ElementsThatHadOtherMembersAreConvertedWhereTheyLie) {
  if (GetParam().aliases != 0) {
    Store store = Store::open(uri(), options());
    make_items(store);
    return expect_error([&] { evolve_items(store); }, Code::kUnsupported, "aliases");
  }
  {
    Store store = Store::open(uri(), options());
    make_items(store);
    ASSERT_EQ(items_problem<v1::Item>(store), "");
    store.checkpoint();
    crash(std::move(store));
  }
  {
    Store store = Store::open(uri(), options());
    // What leaves some of them as they were is refused.
    expect_error([&] { store.evolve<v1::Item, now::Item>(); }, Code::kInvalidArgument,
                 "of a container by a conversion of the container");
    EXPECT_GT(evolve_items(store), kItems);
    EXPECT_EQ(items_problem<now::Item>(store), "");
    EXPECT_EQ(store.root<structures::vector<now::Item>>("vector")[0].name, text_of(5));
    EXPECT_EQ((store.root<structures::hash_map<u64, now::Item>>("map").at(5).name), text_of(5));
    EXPECT_EQ(pointers_problem(store), "");
    EXPECT_TRUE(store.audit().clean) << store.audit().problem;
    store.checkpoint();
    crash(std::move(store));
  }
  Store store = Store::open(uri(), options(kWanted));
  EXPECT_EQ(evolve_items(store), 0u);
  EXPECT_EQ(items_problem<now::Item>(store), "");
  // They go on as containers of the new elements.
  auto& items = *static_cast<Items<now::Item>*>(store.get_root("items"));
  for (u64 i = 0; i < 1000; ++i) {
    const now::Item item{static_cast<std::int64_t>(i), text_of(i)};
    items.in_vector.push_back(item), items.in_deque.push_front(item);
    items.in_deque.push_back(item), items.in_list.push_front(item);
    items.in_map.insert_or_assign(Text(text_of(i)), item);
  }
  for (u64 i = 0; i < 1000; ++i) {
    EXPECT_EQ(items.in_map.at(Text(text_of(i))).name, text_of(i));
    EXPECT_EQ(items.in_deque[i].name, text_of(999 - i));
    items.in_deque.pop_back();
  }
  EXPECT_EQ(pointers_problem(store), "");
  EXPECT_TRUE(store.audit().clean) << store.audit().problem;
}

// Of unused places of hash tables nothing is asked.
TEST(TypedContainer, AFunctionConvertsEachElement) {
  const TempDir folder{TempDir::kMemory};
  Store store = Store::open(folder.path("store"), options());
  auto& map = store.root<structures::hash_map<u64, v1::Item>>("map");
  for (u64 i = 0; i < 100; ++i) map.try_emplace(i, item_of(i));
  for (u64 i = 0; i < 100; i += 2) map.erase(i);
  std::set<u64> seen;
  store.migrate<structures::hash_map<u64, v1::Item>, structures::hash_map<u64, now::Item>>(
      [&](const v1::Item& was, now::Item& is) {
        EXPECT_TRUE(seen.insert(static_cast<u64>(was.number)).second);
        is.number = was.number * 2;
      });
  EXPECT_EQ(seen.size(), 50u);
  const auto& now_map = store.root<structures::hash_map<u64, now::Item>>("map");
  for (u64 i = 1; i < 100; i += 2)
    EXPECT_EQ(now_map.at(i).number, static_cast<std::int64_t>(2 * i));
  EXPECT_EQ(now_map.size(), 50u);
}

// Those of ordered maps lie in nodes that have room for so many: the program takes them out.
TEST(TypedContainer, ElementsOfOrderedMapsAreTakenOutAndInserted) {
  const TempDir folder{TempDir::kMemory};
  Store store = Store::open(folder.path("store"), options());
  {
    auto& map = store.root<structures::ordered_map<u64, v1::Item>>("map");
    for (u64 i = 0; i < 100; ++i) map.try_emplace(i, item_of(i));
    store.root<structures::vector<v1::Item>>("vector").push_back(item_of(1));
  }
  const auto convert = [&] {
    return store.evolve<structures::vector<v1::Item>, structures::vector<now::Item>>();
  };
  expect_error(convert, Code::kUnsupported, "ordered maps and sets");
  {
    const auto operation = store.operation();
    auto* const map = static_cast<structures::ordered_map<u64, v1::Item>*>(store.get_root("map"));
    std::map<u64, std::pair<std::string, u64>> elements;
    for (const auto& [key, item] : *map)
      elements.emplace(key, std::pair(item.name.str(), static_cast<u64>(item.number)));
    map->clear();
    store.set_root("map", nullptr);
    EXPECT_EQ(convert(), 1u);
    auto& now_map = store.root<structures::ordered_map<u64, now::Item>>("map");
    for (const auto& [key, item] : elements)
      now_map.try_emplace(key, now::Item{static_cast<std::int64_t>(item.second), item.first});
  }
  auto& now_map = *store.find_root<structures::ordered_map<u64, now::Item>>("map");
  for (u64 i = 0; i < 100; ++i) {
    EXPECT_EQ(now_map.at(i).name, text_of(i));
    EXPECT_EQ(now_map.at(i).added, 7);
  }
  EXPECT_EQ(store.root<structures::vector<now::Item>>("vector")[0].name, text_of(1));
}

// What holds what holds a type that changes is found, also where nobody has objects of the middle.
TEST(TypedContainer, WhatHoldsAnElementIsConvertedWithIt) {
  const TempDir folder{TempDir::kMemory};
  Store store = Store::open(folder.path("store"), options());
  store.root<structures::list<Holder<v1::Item>>>("list").push_back({item_of(1)});
  expect_error([&] { store.evolve<v1::Item, now::Item>(); }, Code::kInvalidArgument, "ListNode");
  EXPECT_EQ(
      store.migrate(
          conversion<structures::list<Holder<v1::Item>>, structures::list<Holder<now::Item>>>()),
      1u);
  EXPECT_EQ(store.root<structures::list<Holder<now::Item>>>("list").front().item.name, text_of(1));
}

TEST(TypedContainer, ConversionsOfElementsAreWholeInEachCrashState) {
  perdura::testing::CrashTestOptions crash_options;
  crash_options.store = options();
  const auto report = perdura::testing::crash_test(
      crash_options,
      [](Store& store) {
        make_items(store, 12);
        store.checkpoint();
        evolve_items(store);
        store.checkpoint();
      },
      [](Store& store) -> std::string {
        if (store.get_root("items") == nullptr) return "";
        try {
          return items_problem<v1::Item>(store, 12);
        } catch (const Error& error) {
          if (error.code() != Code::kTypeMismatch) throw;
          return items_problem<now::Item>(store, 12);
        }
      });
  EXPECT_TRUE(report.ok()) << report.text();
}

}  // namespace
}  // namespace perdura::test
