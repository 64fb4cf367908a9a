// Goal: hash_map, hash_set, vector and string do what the standard's do, in ordinary memory, in a
// store whose tracker needs reports, and in transactions; all that they store to is reported, so
// that a crash after a checkpoint leaves exactly what they were; in a transaction they are undone
// with it. Method: random calls on them and on the standard's at the same time, compared as they
// go; stores dropped as a crash would drop them and opened again; verify_reports as a second
// witness.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <perdura/structures/hash_map.hpp>
#include <perdura/structures/hash_set.hpp>
#include <perdura/structures/string.hpp>
#include <perdura/structures/vector.hpp>
#include <perdura/testing.hpp>

#include <perdura/perdura.hpp>
#include "base/bits.hpp"
#include "support/container_calls.hpp"
#include "support/expect_failure.hpp"
#include "support/slice.hpp"

namespace perdura::test {
namespace {

using structures::hash_map;
using structures::hash_set;

/// Many keys have the same hash, and groups run full.
struct PoorHash {
  std::uint64_t operator()(u64 key) const { return key % 5 << 7 | key % 3; }
};

template <class Vector, class Model, class ValueOf>
void random_vector_calls(Vector& vector, Model& model, u64 calls, u64 seed, ValueOf&& value_of) {
  std::mt19937_64 random(seed);
  for (u64 i = 0; i < calls; ++i) {
    const auto value = value_of(random() % 1000);
    const u64 at = model.empty() ? 0 : random() % model.size();
    const auto position = model.begin() + static_cast<std::ptrdiff_t>(at);
    switch (random() % 12) {
      case 0:
      case 1:
      case 2:
        vector.push_back(value);
        model.push_back(value);
        break;
      case 3:
        if (!model.empty()) vector.pop_back(), model.pop_back();
        break;
      case 4:
      case 5:
        if (!model.empty()) vector[at] = value, model[at] = value;
        break;
      case 6:
        vector.insert(at, value);
        model.insert(position, value);
        break;
      case 7: {
        const u64 count = std::min<u64>(random() % 3, model.size() - at);
        vector.erase(at, count);
        model.erase(position, position + static_cast<std::ptrdiff_t>(count));
        break;
      }
      case 8:
        if (random() % 50 == 0) vector.clear(), model.clear();
        if (random() % 20 == 0) vector.reserve(random() % 300);
        if (random() % 20 == 0) vector.shrink_to_fit();
        break;
      case 9: {
        const u64 size = model.size() + random() % 5 - std::min<u64>(model.size(), random() % 5);
        vector.resize(size);
        model.resize(size);
        break;
      }
      case 10:
        if (!model.empty()) vector.push_back(vector[at]), model.push_back(model[at]);
        break;
      default:
        if (!model.empty()) {
          ASSERT_TRUE(std::as_const(vector)[at] == model[at]);
          ASSERT_TRUE(vector.back() == model.back());
        }
    }
    ASSERT_EQ(vector.size(), model.size());
  }
}

template <class Vector, class Model>
void expect_same_elements(const Vector& vector, const Model& model) {
  ASSERT_EQ(vector.size(), model.size());
  for (u64 i = 0; i < model.size(); ++i) ASSERT_TRUE(vector[i] == model[i]) << i;
}

class HashMapTest : public ContainerTest {};

const u64 kCalls = slice_or_whole(200'000, 1'000'000) / kSlower;

TEST(HashMaps, DoWhatTheStandardsDoInOrdinaryMemory) {
  {
    hash_map<u64, u64> map;
    std::map<u64, u64> model;
    random_calls(map, model, kCalls, 5000, 1, number, number);
    expect_same(map, model);
  }
  {
    hash_map<u64, Pair, PoorHash> map;
    std::map<u64, Pair> model;
    random_calls(map, model, kCalls / 8, 300, 2, number, pair_of);
    expect_same(map, model);
  }
  hash_map<Text, Text> map;
  std::map<std::string, std::string, std::less<>> model;
  random_calls(map, model, kCalls, 3000, 3, text_of, text_of);
  expect_same(map, model);
}

TEST(HashMaps, SetsDoToo) {
  hash_set<Text> set;
  std::set<std::string> model;
  std::mt19937_64 random(4);
  for (u64 i = 0; i < kCalls; ++i) {
    const std::string key = text_of(random() % 3000);
    if (random() % 2 == 0) {
      ASSERT_EQ(set.insert(key).second, model.insert(key).second);
    } else {
      ASSERT_EQ(set.erase(key), model.erase(key));
    }
    ASSERT_EQ(set.contains(key), model.contains(key));
    ASSERT_EQ(set.size(), model.size());
  }
  u64 count = 0;
  for (const Text& each : set) count += model.count(each.str());
  EXPECT_EQ(count, model.size());
  const hash_set<Text> copy = set;
  EXPECT_TRUE(copy == set);
}

TEST(HashMaps, HaveTheStandardsInterface) {
  hash_map<Text, long> map{{"Ada", 1}, {"Bob", 2}};
  static_assert(std::forward_iterator<decltype(map)::const_iterator>);
  static_assert(std::forward_iterator<hash_set<u64>::iterator>);
  ++map["Ada"];
  map["Ada"] += 3;
  map["Cleo"] = 7;
  map["Dan"] = map["Cleo"].get();
  static_assert(!std::is_assignable_v<decltype(map["Ada"]), decltype(map["Ada"])>);
  for (auto it = map.begin(); it != map.end(); ++it) it->second = it->second + 9;
  for (auto&& [name, value] : map) value += 1;
  long sum = 0;
  for (const auto& [name, value] : map) sum += value;
  EXPECT_EQ(sum, 5 + 2 + 7 + 7 + 40);
  EXPECT_EQ(map.at("Bob"), 12);
  EXPECT_EQ(std::as_const(map).at(std::string_view("Dan")), 17);
  EXPECT_THROW(map.at("Eve"), std::out_of_range);
  hash_map<Text, long> copy = map;
  EXPECT_TRUE(copy == map);
  copy.erase(copy.find("Dan"));
  EXPECT_FALSE(copy == map);
  swap(copy, map);
  EXPECT_EQ(map.size(), 3u);
  EXPECT_EQ(copy.count("Dan"), 1u);
  const hash_map<Text, long> moved = std::move(copy);
  EXPECT_EQ(moved.size(), 4u);
  hash_map<int, Pair> pairs;
  pairs[3].modify([](Pair& pair) { pair.second = 9; });
  EXPECT_EQ(pairs[3]->second, 9u);
  for (auto it = pairs.begin(); it != pairs.end();) it = pairs.erase(it);
  EXPECT_TRUE(pairs.empty());
}

TEST(HashMaps, TakeWhatLiesInThem) {
  hash_map<Text, Text> map{{"0", "a value that is long enough for a block"}};
  for (u64 i = 1; i < 2000; ++i) {
    const std::string before = std::to_string(i - 1);
    if (i % 2 == 0) map.insert_or_assign(std::to_string(i), map.at(before));
    else map.try_emplace(std::to_string(i), map.at(before));
  }
  for (u64 i = 0; i < 2000; ++i)
    ASSERT_EQ(map.at(std::to_string(i)), "a value that is long enough for a block") << i;
  for (u64 i = 0; i < 1000; ++i)
    map.try_emplace("moved " + std::to_string(i), std::move(map.at(std::to_string(i))));
  for (u64 i = 0; i < 1000; ++i) {
    ASSERT_TRUE(map.at(std::to_string(i)).empty());
    map.erase(std::to_string(i));
    ASSERT_EQ(map.at("moved " + std::to_string(i)), "a value that is long enough for a block");
  }
  hash_map<u64, u64> numbers{{0, 1}};
  for (u64 i = 1; i < 2000; ++i) numbers[i] = numbers[i - 1] + 1;
  EXPECT_EQ(numbers.at(1999), 2000u);
}

TEST(HashMaps, HoldWhatIsBytesOrReportsItself) {
  static_assert(Storable<u64> && Storable<Pair> && Storable<Pair*> && Storable<Text>);
  static_assert(Storable<hash_map<Text, hash_set<u64>>>);
  static_assert(!Storable<std::string> && !Storable<std::map<int, int>>);
}

template <class T>
bool knows_contents() {
  return Store::fingerprint<T>() != detail::own_fingerprint<T>();
}

// Else a structure that has grown would be read as what it was.
TEST(HashMaps, OfARootAreKnownWithWhatTheyContain) {
  EXPECT_TRUE((knows_contents<hash_map<u64, Pair>>()));
  EXPECT_TRUE((knows_contents<hash_set<Pair, PoorHash>>()));
  EXPECT_TRUE((knows_contents<structures::vector<hash_map<u64, Pair>>>()));
}

TEST(Vectors, DoWhatTheStandardsDo) {
  {
    structures::vector<u64> vector;
    std::vector<u64> model;
    random_vector_calls(vector, model, kCalls, 1, number);
    expect_same_elements(vector, model);
    EXPECT_TRUE(std::equal(vector.begin(), vector.end(), model.begin(), model.end()));
  }
  structures::vector<Text> vector;
  std::vector<std::string> model;
  random_vector_calls(vector, model, kCalls / 4, 2, text_of);
  expect_same_elements(vector, model);
  structures::vector<Text> copy = vector;
  EXPECT_TRUE(copy == vector);
  copy.push_back("more");
  swap(copy, vector);
  EXPECT_EQ(vector.back(), "more");
  vector = std::move(copy);
  expect_same_elements(vector, model);
  structures::vector<Pair> pairs{{1, 2}, {3, 4}};
  for (Pair& each : pairs.change(0, 2)) each.second *= 2;
  EXPECT_EQ(pairs[1]->second, 8u);
  EXPECT_EQ(pairs.front().get().second, 4u);
  EXPECT_THROW(pairs.at(2), std::out_of_range);
  EXPECT_THROW(pairs.change(1, 2), std::out_of_range);
}

template <class T>
concept EndsWithZero = requires(const T& text) { text.c_str(); };

TEST(Strings, DoWhatTheStandardsDo) {
  static_assert(EndsWithZero<std::string> && !EndsWithZero<Text>);
  Text text;
  std::string model;
  std::mt19937_64 random(5);
  for (u64 i = 0; i < kCalls / 4; ++i) {
    const std::string piece(random() % 24, static_cast<char>('a' + random() % 26));
    switch (random() % 8) {
      case 0:
        text = piece, model = piece;
        break;
      case 1:
      case 2:
        text += piece, model += piece;
        break;
      case 3:
        text.push_back('y'), model.push_back('y');
        break;
      case 4: {
        const u64 size = random() % 100;
        text.resize(size, 'z'), model.resize(size, 'z');
        break;
      }
      case 5:
        if (!model.empty()) text.set(model.size() / 2, 'm'), model[model.size() / 2] = 'm';
        break;
      case 6:
        text.append(text.view().substr(0, 5)), model.append(model.substr(0, 5));
        break;
      default:
        text.reserve(random() % 64);
        break;
    }
    ASSERT_EQ(text, model);
    ASSERT_EQ(text <=> std::string_view("mmm"), std::string_view(model) <=> "mmm");
  }
  text = text.view().substr(text.size() / 2);  // a part of itself
  EXPECT_EQ(text, model.substr(model.size() / 2));
  Text other = "other";
  swap(text, other);
  EXPECT_EQ(text, "other");
}

TEST_P(HashMapTest, WhatTheyStoreIsDurableWithTheNextVersion) {
  store_->root<hash_map<u64, u64>>("numbers");
  store_->root<hash_map<Text, Text>>("texts");
  store_->root<structures::vector<u64>>("list");
  store_->root<structures::vector<Text>>("text list");
  std::map<u64, u64> numbers;
  std::vector<u64> list;
  std::vector<std::string> text_list;
  std::map<std::string, std::string, std::less<>> texts;
  for (u64 round = 0; round < 10; ++round) {
    auto* map = store_->find_root<hash_map<u64, u64>>("numbers");
    auto* text_map = store_->find_root<hash_map<Text, Text>>("texts");
    random_calls(*map, numbers, kCalls / 40, 1000, 10 + round, number, number);
    random_calls(*text_map, texts, kCalls / 40, 1000, 30 + round, text_of, text_of);
    auto* vector = store_->find_root<structures::vector<u64>>("list");
    auto* text_vector = store_->find_root<structures::vector<Text>>("text list");
    random_vector_calls(*vector, list, 500, round, number);
    random_vector_calls(*text_vector, text_list, 500, round, text_of);
    store_->checkpoint();
    std::vector<u64> later_list = list;
    random_vector_calls(*vector, later_list, 100, round + 90, number);
    std::map<u64, u64> later = numbers;
    random_calls(*map, later, 200, 1000, 50 + round, number, number);
    crash_and_open();
    ASSERT_TRUE(store_->audit().clean) << store_->audit().problem;
    expect_same(*store_->find_root<hash_map<u64, u64>>("numbers"), numbers);
    expect_same(*store_->find_root<hash_map<Text, Text>>("texts"), texts);
    expect_same_elements(*store_->find_root<structures::vector<u64>>("list"), list);
    expect_same_elements(*store_->find_root<structures::vector<Text>>("text list"), text_list);
  }
}

// With a checkpoint before each of their calls, and a power failure at each write of it.
TEST(HashMaps, AreWholeInEachCrashState) {
  perdura::testing::CrashTestOptions crash_options;
  crash_options.store = options();
  constexpr u64 kSteps = 40 / kSlower;
  crash_options.versions_max = kSteps * 3 / 2;
  using Map = hash_map<Text, Text, structures::hash<Text>>;
  const auto report = perdura::testing::crash_test(
      crash_options,
      [](Store& store) {
        auto& map = store.root<Map>("map");
        auto& set = store.root<hash_set<u64, PoorHash>>("set");
        for (u64 i = 0; i < kSteps; ++i) {
          map.insert_or_assign(text_of(i % 30), text_of(i % 30 + 1000));
          set.insert(i);
          if (i % 3 == 2) map.erase(text_of(i / 3));
          if (i % 4 == 3) set.erase(i / 2);
        }
      },
      [](Store& store) -> std::string {
        if (const auto* map = store.find_root<Map>("map")) {
          u64 count = 0;
          for (const auto& [key, value] : *map) {
            const std::string text = key.str();
            const u64 number = std::stoull(text.substr(text.find_first_not_of('x')));
            if (value != text_of(number + 1000) || !map->contains(text)) return "wrong: " + text;
            ++count;
          }
          if (count != map->size()) return "the size is not that of the map";
        }
        if (const auto* set = store.find_root<hash_set<u64, PoorHash>>("set")) {
          u64 count = 0;
          for (const u64 each : *set) count += set->count(each);
          if (count != set->size()) return "the size is not that of the set";
        }
        return "";
      });
  EXPECT_TRUE(report.ok()) << report.text();
  EXPECT_GT(report.versions, kSteps * 3 / 4);
}

// Nothing of two things is exchanged by halves, and nothing is replaced by nothing.
TEST(HashMaps, CallsAreOneOperation) {
  perdura::testing::CrashTestOptions crash_options;
  crash_options.store = options();
  constexpr u64 kSteps = 24 / kSlower;
  crash_options.versions_max = 100;
  using Map = hash_map<u64, Text>;
  using Vector = structures::vector<Text>;
  const auto report = perdura::testing::crash_test(
      crash_options,
      [](Store& store) {
        struct All {
          Map maps[2];
          Vector vectors[2];
          Text texts[2];
        };
        auto& all = store.root<All>("all");
        {
          const auto operation = store.operation();
          all.maps[0] = {{1, "one, which is long enough"}};
          all.maps[1] = {{2, "two"}};
          all.vectors[0] = {"one, which is long enough"};
          all.vectors[1] = {"two"};
          all.texts[0] = "one, which is long enough";
          all.texts[1] = "two";
        }
        store.set_root("ready", &all);
        const Map one{{1, "one, which is long enough"}};
        const Vector list{"one, which is long enough"};
        for (u64 i = 0; i < kSteps; ++i) {
          swap(all.maps[0], all.maps[1]);
          swap(all.vectors[0], all.vectors[1]);
          swap(all.texts[0], all.texts[1]);
          all.maps[i % 2] = Map(all.maps[i % 2]);
          all.vectors[i % 2] = Vector(all.vectors[i % 2]);
          if (i % 2 == 1) all.maps[0] = one, all.vectors[0] = list;
        }
      },
      [](Store& store) -> std::string {
        struct All {
          Map maps[2];
          Vector vectors[2];
          Text texts[2];
        };
        const auto* all = static_cast<const All*>(store.get_root("ready"));
        if (all == nullptr) return "";
        if (all->maps[0].size() != 1 || all->maps[1].size() != 1) return "maps";
        if (all->maps[0].contains(1) == all->maps[1].contains(1)) return "maps have the same";
        if (all->vectors[0].size() != 1 || all->vectors[1].size() != 1) return "vectors";
        if (all->vectors[0] == all->vectors[1]) return "vectors have the same";
        if (all->texts[0] == all->texts[1]) return "texts are the same";
        return "";
      });
  EXPECT_TRUE(report.ok()) << report.text();
}

TEST_P(HashMapTest, EachOfTheirStoresIsReported) {
  Options chosen = options();
  chosen.verify_reports = true;
  open(chosen);
  auto& map = store_->root<hash_map<Text, Text>>("texts");
  auto& nested = store_->root<hash_map<u64, hash_map<u64, Pair>>>("nested");
  auto& set = store_->root<hash_set<u64, PoorHash>>("set");
  std::map<std::string, std::string, std::less<>> model;
  auto& list = store_->root<structures::vector<Text>>("list");
  std::vector<std::string> list_model;
  std::mt19937_64 random(6);
  for (u64 round = 0; round < 30; ++round) {
    random_vector_calls(list, list_model, 200, round, text_of);
    random_calls(map, model, 500, 300, 70 + round, text_of, text_of);
    for (u64 i = 0; i < 100; ++i) {
      nested[random() % 8][random() % 100] = pair_of(i);
      nested[random() % 8].erase(random() % 100);
      if (random() % 30 == 0) nested.erase(random() % 8);
      if (random() % 2 == 0) set.insert(random() % 50);
      else set.erase(random() % 50);
    }
    if (round % 7 == 6) {
      hash_map<Text, Text> copy = map;
      map = std::move(copy);
    }
    store_->checkpoint();
    const auto found = store_->unreported_stores();
    ASSERT_TRUE(found.empty()) << found.front();
  }
}

TEST_P(HashMapTest, TakeOverAndCopyFromOneMemoryToAnother) {
  hash_map<Text, Text> outside{{"a long key that needs a block", "a long value that needs one"}};
  auto& map = store_->root<hash_map<Text, Text>>("map", std::move(outside));
  EXPECT_TRUE(outside.empty());  // NOLINT(bugprone-use-after-move): what is left is looked at
  Text text = "a text that is moved elsewhere";
  auto& moved_text = store_->root<Text>("text", std::move(text));
  EXPECT_TRUE(text.empty());  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(moved_text, "a text that is moved elsewhere");
  EXPECT_TRUE(store_->contains(map.find("a long key that needs a block")->second.data()));
  hash_map<Text, Text> back = std::move(map);
  EXPECT_TRUE(map.empty());  // NOLINT(bugprone-use-after-move)
  EXPECT_FALSE(store_->contains(back.begin()->second.data()));
  auto& other = store_->root<hash_map<Text, Text>>("other", back);
  map = std::move(other);
  EXPECT_TRUE(other.empty());  // NOLINT(bugprone-use-after-move)
  EXPECT_TRUE(map == back);
}

TEST_P(HashMapTest, AFullStoreLeavesThemAsTheyWere) {
  auto& map = store_->root<hash_map<u64, Text>>("map");
  u64 count = 0;
  try {
    for (;; ++count) map[count] = std::string(20'000, 'x');
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kNoSpace);
  }
  EXPECT_GT(count, 100u);
  EXPECT_GE(map.size(), count);  // the value may be there, empty
  for (u64 i = 0; i < count; ++i) ASSERT_EQ(map.at(i).size(), 20'000u);
  for (u64 i = 0; i < count; ++i) map.erase(i);
  for (u64 i = 0; i < count / 2; ++i) map[i] = std::string(20'000, 'y');
  store_->checkpoint();
  EXPECT_TRUE(store_->audit().clean);
}

TEST_P(HashMapTest, WhatDoesNotFitIsNotBegun) {
  auto& list = store_->root<structures::vector<u64>>("list", 100u, u64{1});
  auto& map = store_->root<hash_map<u64, u64>>("map", hash_map<u64, u64>{{1, 2}});
  auto& lists = store_->root<structures::vector<structures::vector<Text>>>("lists");
  lists.reserve(10);
  auto& list_map = store_->root<hash_map<u64, structures::vector<u64>>>("list map");
  list_map[1].push_back(3);
  structures::vector<u64> big(9'000'000);
  hash_map<u64, u64> big_map;
  big_map.reserve(1'900'000);
  for (u64 i = 0; i < 1'900'000; ++i) big_map[i] = i;
  structures::vector<Text> texts(80'000, Text(std::string(1000, 'x')));
  const auto does_not_fit = [&](auto&& call) {
    const u64 blocks = objects_in(*store_);
    expect_error(call, Code::kNoSpace, "");
    EXPECT_EQ(objects_in(*store_), blocks);
    ASSERT_EQ(list.size(), 100u);
    ASSERT_EQ(list[99], 1u);
    ASSERT_EQ(map.at(1), 2u);
    ASSERT_EQ(list_map.at(1)[0], 3u);
    ASSERT_TRUE(lists.empty());
  };
  does_not_fit([&] { list = big; });
  does_not_fit([&] { list = structures::vector<u64>(big); });
  does_not_fit([&] { list.assign(9'000'000, 5); });
  does_not_fit([&] { list.append(big.begin(), big.end()); });
  does_not_fit([&] { list.resize(9'000'000); });
  does_not_fit([&] { map = big_map; });
  does_not_fit([&] { list_map.insert_or_assign(1, big); });
  does_not_fit([&] { lists.push_back(texts); });
  does_not_fit([&] { list.swap(big); });
  does_not_fit([&] { big.swap(list); });
  does_not_fit([&] { map.swap(big_map); });
  EXPECT_EQ(big.size(), 9'000'000u);
  EXPECT_THROW(map.reserve(~u64{0}), std::length_error);
  EXPECT_THROW(map.reserve(~u64{0} >> 1), std::length_error);
  EXPECT_THROW(list.reserve(~u64{0}), std::length_error);
}

TEST_P(HashMapTest, WhatATransactionMakesInThePlaceOfAnotherOneIsUndone) {
  auto& map = store_->root<hash_map<u64, hash_map<u64, u64>>>("map");
  auto& list = store_->root<structures::vector<structures::vector<u64>>>("list");
  map[1][7] = 7;
  list.emplace_back().push_back(1);
  store_->checkpoint();
  const auto undone = [&](auto&& body) {
    EXPECT_THROW(atomically(*store_,
                            [&](Transaction&) {
                              body();
                              throw std::runtime_error("undone");
                            }),
                 std::runtime_error);
  };
  undone([&] { map.erase(1), map[1]; });
  undone([&] { list.pop_back(), list.emplace_back(); });
  EXPECT_EQ(map.at(1).size(), 1u);
  EXPECT_EQ(list[0].size(), 1u);
  atomically(*store_, [&](Transaction&) { map.erase(1); });
  atomically(*store_, [&](Transaction&) { map[1]; });
  crash_and_open();
  auto& again = *store_->find_root<hash_map<u64, hash_map<u64, u64>>>("map");
  EXPECT_TRUE(again.at(1).empty());
  again.erase(1);
  EXPECT_TRUE(store_->audit().clean);
}

TEST_P(HashMapTest, InTransactionsTheyArePartOfThem) {
  store_->root<hash_map<u64, Pair>>("numbers");
  store_->root<hash_map<Text, Text>>("texts");
  store_->root<structures::vector<Pair>>("list");
  store_->root<structures::vector<Text>>("text list");
  std::vector<Pair> list;
  std::vector<std::string> text_list;
  std::map<u64, Pair> numbers;
  std::map<std::string, std::string, std::less<>> texts;
  for (u64 round = 0; round < 120; ++round) {
    auto& map = store_->root<hash_map<u64, Pair>>("numbers");
    auto& text_map = store_->root<hash_map<Text, Text>>("texts");
    auto numbers_then = numbers;
    auto texts_then = texts;
    auto list_then = list;
    auto text_list_then = text_list;
    auto& vector = store_->root<structures::vector<Pair>>("list");
    auto& text_vector = store_->root<structures::vector<Text>>("text list");
    const bool fails = round % 3 == 0;
    try {
      atomically(*store_, [&](Transaction&) {
        numbers_then = numbers;
        texts_then = texts;
        list_then = list;
        text_list_then = text_list;
        random_vector_calls(vector, list_then, 40, 500 + round, pair_of);
        random_vector_calls(text_vector, text_list_then, 40, 700 + round, text_of);
        random_calls(map, numbers_then, 60, 100, 100 + round, number, pair_of);
        random_calls(text_map, texts_then, 60, 100, 300 + round, text_of, text_of);
        if (fails) throw std::runtime_error("undone");
      });
      numbers = numbers_then;
      texts = texts_then;
      list = list_then;
      text_list = text_list_then;
    } catch (const std::runtime_error&) {
      ASSERT_TRUE(fails);
    }
    // Durable when it has returned, or never was.
    if (round % 10 == 5) crash_and_open();
    expect_same(*store_->find_root<hash_map<u64, Pair>>("numbers"), numbers);
    expect_same(*store_->find_root<hash_map<Text, Text>>("texts"), texts);
    expect_same_elements(*store_->find_root<structures::vector<Pair>>("list"), list);
    expect_same_elements(*store_->find_root<structures::vector<Text>>("text list"), text_list);
    if (round % 20 == 7) store_->checkpoint();
  }
  EXPECT_TRUE(store_->audit().clean);
}

TEST_P(HashMapTest, TransactionsOfSeveralThreadsSeeThemWhole) {
  auto& map = store_->root<hash_map<u64, long>>("map");
  constexpr u64 kThreads = 4;
  constexpr u64 kRounds = 300;
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (u64 t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (u64 i = 0; i < kRounds; ++i)
        atomically(*store_, [&](Transaction&) {
          const u64 from = random() % 50;
          const u64 to = random() % 50;
          map[from] -= 1;
          map[to] += 1;
          if (map[to] == 0) map.erase(to);
          long sum = 0;
          for (u64 key = 0; key < 50; ++key)
            if (const auto found = map.find(key); found != map.end()) sum += found->second;
          if (sum != 0) throw std::logic_error("a mix of before and after");
        });
    });
  for (std::thread& thread : threads) thread.join();
  crash_and_open();
  long sum = 0;
  for (const auto& [key, value] : *store_->find_root<hash_map<u64, long>>("map")) sum += value;
  EXPECT_EQ(sum, 0);
}

// Each of them gives blocks back that another one may just have replaced.
TEST_P(HashMapTest, TransactionsThatMeetBeginAgain) {
  set_durability(*store_, Durability::kNone);
  auto& texts = store_->root<hash_map<u64, Text>>("texts");
  auto& list = store_->root<structures::vector<Text>>("list");
  auto& numbers = store_->root<hash_map<u64, u64>>("numbers");
  auto& nested = store_->root<hash_map<u64, hash_map<u64, Text>>>("nested");
  auto& copies = store_->root<structures::vector<hash_map<u64, Text>>>("copies");
  for (int i = 0; i < 4; ++i) list.push_back(text_of(0));
  store_->checkpoint();
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (u64 t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (u64 i = 0; i < 4000 / kSlower; ++i) {
        const u64 key = random() % 8;
        atomically(*store_, [&](Transaction&) {
          if (texts.erase(key) == 0) texts[key] = std::string(40, 'b');
          list.erase(0);
          list.push_back(std::string(40, 'c'));
          numbers[random() % 500] = i;
          if (random() % 100 == 0) numbers.clear();
          if (random() % 2 == 0) nested[key][random() % 8] = std::string(20 + i % 40, 'x');
          else copies.push_back(nested[key]);
          if (copies.size() > 4) copies.erase(0, 3);
        });
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(list.size(), 4u);
  EXPECT_LE(texts.size(), 8u);
  for (const auto& [key, value] : texts) EXPECT_EQ(value, std::string(40, 'b'));
  EXPECT_TRUE(store_->audit().clean) << store_->audit().problem;
}

TEST_P(HashMapTest, InTransactionsTheyAreCopiedAndExchangedAsTheyAre) {
  auto& map = store_->root<hash_map<u64, u64>>("map", hash_map<u64, u64>{{1, 1}, {2, 2}});
  auto& other = store_->root<hash_map<u64, u64>>("other");
  auto& list = store_->root<structures::vector<Text>>("list", 3u, Text("a long text, in a block"));
  auto& other_list = store_->root<structures::vector<Text>>("other list");
  auto& texts = store_->root<hash_map<Text, structures::vector<u64>>>("texts");
  auto& set = store_->root<hash_set<u64>>("set", hash_set<u64>{1, 2});
  texts["a"].push_back(7);
  hash_map<u64, u64> outside;
  atomically(*store_, [&](Transaction&) {
    map[200] = 7;
    other = map;
    outside = map;
    EXPECT_TRUE(other == map);
    other[300] = 9;
    swap(map, other);
    list[0] = "another one that needs a block";
    other_list = list;
    swap(list, other_list);
    const structures::vector<Text> copy = list;
    EXPECT_EQ(copy.size(), 3u);
    texts.try_emplace(list[0], texts["a"]);
    EXPECT_TRUE(texts.contains(list[0]));
    set.insert(5);
    hash_set<u64> moved = std::move(set);
    EXPECT_TRUE(moved.contains(5));
    EXPECT_EQ(moved.size(), 3u);
    set = moved;
  });
  EXPECT_EQ(outside.at(200), 7u);
  EXPECT_EQ(map.at(300), 9u);
  EXPECT_EQ(map.size(), 4u);
  EXPECT_EQ(other.at(200), 7u);
  EXPECT_EQ(list[0], "another one that needs a block");
  EXPECT_EQ(other_list[0], list[0]);
  EXPECT_EQ(texts.at("another one that needs a block")[0], 7u);
  EXPECT_TRUE(set.contains(5));
}

TEST_P(HashMapTest, WhatOthersMayChangeIsNotShownInATransaction) {
  auto& map = store_->root<hash_map<u64, Text>>("map");
  auto& pairs = store_->root<hash_map<u64, Pair>>("pairs");
  map[1] = "one";
  pairs[1] = Pair{1, 1};
  store_->checkpoint();
  atomically(*store_, [&](Transaction&) {
    expect_error([&] { (void)map.at(1).view(); }, Code::kMisuse, "view");
    expect_error([&] { (void)pairs[1]->second; }, Code::kMisuse, "take a copy");
    EXPECT_EQ(map.at(1).str(), "one");
    EXPECT_EQ(pairs[1].get().second, 1u);
  });
}

// Where a container lies says whose step a call is, also while a thread is in several transactions.
TEST_P(HashMapTest, InATransactionThoseOfOtherStoresAreTheirOwn) {
  using Map = hash_map<u64, Text>;
  const TempDir folder;
  Store other = Store::open(GetParam() + folder.path("other"), options());
  auto& map = store_->root<Map>("map");
  auto& far = other.root<Map>("far");
  Map ordinary{{1, "ordinary"}};
  map[1] = "one";
  far[1] = "far";
  const auto is_of_a_transaction = [](Map& each) {
    expect_error([&] { (void)each.at(1).view(); }, Code::kMisuse, "view");
  };
  const auto body = [&](Transaction&) {
    EXPECT_EQ(far.at(1).view(), "far");
    EXPECT_EQ(ordinary.at(1).view(), "ordinary");
    is_of_a_transaction(map);
    map[2] = "goes";
    far[2] = ordinary[2] = "stays";
    atomically(other, [&](Transaction&) {
      is_of_a_transaction(far);
      is_of_a_transaction(map);
      EXPECT_EQ(ordinary.at(2).view(), "stays");
      far[3] = "stays";
    });
    EXPECT_EQ(far.at(3).view(), "stays");
    is_of_a_transaction(map);
    throw std::runtime_error("undone");
  };
  EXPECT_THROW(atomically(*store_, body), std::runtime_error);
  EXPECT_EQ(map.at(1).view(), "one");
  EXPECT_EQ(map.size(), 1u);
  EXPECT_EQ(far.size(), 3u);
  EXPECT_EQ(ordinary.size(), 2u);
}

INSTANTIATE_TEST_SUITE_P(Media, HashMapTest, ::testing::Values("emu:", "file:"),
                         [](const auto& info) {
                           return std::string(info.param, std::string(info.param).size() - 1);
                         });

}  // namespace
}  // namespace perdura::test
