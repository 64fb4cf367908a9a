// Goal: ordered_map and ordered_set do what the standard's do, in ordinary memory, in a store whose
// tracker needs reports, and in transactions; all that they store to is reported, so that a crash
// after a checkpoint leaves exactly what they were; in a transaction they are undone with it; in a
// full store they stay as they were. Method: random calls on them and on the standard's at the same
// time, compared as they go, with the tree's own invariants; stores dropped as a crash would drop
// them and opened again; each crash state of short programs; verify_reports as a second witness.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <perdura/structures/ordered_map.hpp>
#include <perdura/structures/ordered_set.hpp>
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

using structures::ordered_map;
using structures::ordered_set;
using TextModel = std::map<std::string, std::string, std::less<>>;

/// A leaf has few of them.
struct Wide {
  u64 words[300];
  bool operator==(const Wide&) const = default;
};
Wide wide_of(u64 value) {
  Wide wide{};
  wide.words[0] = wide.words[299] = value;
  return wide;
}

/// An element here and there, or the end in both.
template <class Map, class Model, class At, class Expected>
void expect_same_place(const Map& map, const Model& model, At at, Expected expected) {
  ASSERT_EQ(at == map.end(), expected == model.end());
  if (expected == model.end()) return;
  ASSERT_TRUE(at->first == expected->first);
  ASSERT_TRUE(at->second == expected->second);
}

template <class Map, class Model, class Key>
void compare_bounds(const Map& map, const Model& model, const Key& key) {
  expect_same_place(map, model, map.lower_bound(key), model.lower_bound(key));
  expect_same_place(map, model, map.upper_bound(key), model.upper_bound(key));
  const auto [first, last] = map.equal_range(key);
  ASSERT_EQ(std::distance(first, last), static_cast<std::ptrdiff_t>(model.count(key)));
  ASSERT_EQ(map.count(key), model.count(key));
}
/// Some steps to and fro.
template <class Map, class Model, class Key>
void compare_walk(const Map& map, const Model& model, const Key& key, std::mt19937_64& random) {
  auto at = map.lower_bound(key);
  auto expected = model.lower_bound(key);
  for (u64 i = 0; i < 8; ++i) {
    if (random() % 2 == 0 && expected != model.end()) ++at, ++expected;
    else if (expected != model.begin()) --at, --expected;
    expect_same_place(map, model, at, expected);
  }
}
template <class Map, class Model, class Key>
void erase_some(Map& map, Model& model, const Key& key, u64 count) {
  auto first = map.lower_bound(key);
  auto last = first;
  auto expected = model.lower_bound(key);
  auto expected_last = expected;
  for (u64 i = 0; i < count && expected_last != model.end(); ++i) ++last, ++expected_last;
  expect_same_place(map, model, map.erase(first, last), model.erase(expected, expected_last));
}

/// What a map that is in no order has not.
template <class Map, class Model, class KeyOf, class ValueOf>
void random_ordered_calls(Map& map, Model& model, u64 calls, u64 keys, u64 seed, KeyOf&& key_of,
                          ValueOf&& value_of) {
  std::mt19937_64 random(seed);
  for (u64 done = 0; done < calls; done += 50) {
    ASSERT_NO_FATAL_FAILURE(random_calls(map, model, 42, keys, random(), key_of, value_of));
    const auto key = key_of(random() % keys);
    ASSERT_NO_FATAL_FAILURE(compare_bounds(map, model, key));
    ASSERT_NO_FATAL_FAILURE(compare_walk(map, model, key, random));
    if (random() % 8 == 0) {
      ASSERT_NO_FATAL_FAILURE(erase_some(map, model, key, random() % 100));
    }
    // What comes in order, upwards or downwards.
    if (random() % 40 == 0)
      for (u64 i = 0; i < 60; ++i) {
        const u64 at = random() % 2 == 0 ? i : 59 - i;
        map.insert_or_assign(key_of(keys + at), value_of(i));
        model.insert_or_assign(key_of(keys + at), value_of(i));
      }
    if (done % 10'000 == 0) {
      ASSERT_EQ(map.verify(), "");
    }
  }
  ASSERT_EQ(map.verify(), "");
}

template <class Map, class Model>
void expect_same_order(const Map& map, const Model& model) {
  ASSERT_EQ(map.verify(), "");
  ASSERT_EQ(map.size(), model.size());
  auto at = map.begin();
  for (auto expected = model.begin(); expected != model.end(); ++expected, ++at)
    ASSERT_NO_FATAL_FAILURE(expect_same_place(map, model, at, expected));
  ASSERT_TRUE(at == map.end());
  auto back = map.rbegin();
  for (auto expected = model.rbegin(); expected != model.rend(); ++expected, ++back)
    ASSERT_TRUE(back->first == expected->first);
  ASSERT_TRUE(back == map.rend());
}

template <class Map, class Model, class KeyOf, class ValueOf>
void do_the_same(u64 calls, u64 keys, u64 seed, KeyOf&& key_of, ValueOf&& value_of) {
  Map map;
  Model model;
  ASSERT_NO_FATAL_FAILURE(random_ordered_calls(map, model, calls, keys, seed, key_of, value_of));
  ASSERT_NO_FATAL_FAILURE(expect_same_order(map, model));
}

class OrderedMapTest : public ContainerTest {
 protected:
  void open_small() {
    Options chosen = options();
    chosen.region_limit_bytes = 8 * kMiB;
    store_.reset();
    store_.emplace(Store::open(std::string(GetParam()) + folder_.path("small.pd"), chosen));
  }
};

const u64 kCalls = slice_or_whole(200'000, 1'000'000) / kSlower;

TEST(OrderedMaps, DoWhatTheStandardsDoInOrdinaryMemory) {
  do_the_same<ordered_map<u64, u64>, std::map<u64, u64>>(kCalls, 5000, 1, number, number);
  do_the_same<ordered_map<u64, u64>, std::map<u64, u64>>(kCalls / 4, 100, 2, number, number);
  do_the_same<ordered_map<u64, Pair, std::greater<>>, std::map<u64, Pair, std::greater<>>>(
      kCalls / 4, 100'000, 3, number, pair_of);
  do_the_same<ordered_map<u64, Wide>, std::map<u64, Wide>>(kCalls / 40, 300, 4, number, wide_of);
}

TEST(OrderedMaps, OfTextsDoToo) {
  do_the_same<ordered_map<Text, Text>, TextModel>(kCalls / 2, 3000, 5, text_of, text_of);
  do_the_same<ordered_map<Text, u64>, std::map<std::string, u64, std::less<>>>(kCalls / 2, 20'000,
                                                                               6, text_of, number);
}

TEST(OrderedMaps, SetsDoToo) {
  ordered_set<Text> set;
  std::set<std::string, std::less<>> model;
  std::mt19937_64 random(7);
  for (u64 i = 0; i < kCalls; ++i) {
    const std::string key = text_of(random() % 3000);
    if (random() % 2 == 0) {
      ASSERT_EQ(set.insert(key).second, model.insert(key).second);
    } else {
      ASSERT_EQ(set.erase(key), model.erase(key));
    }
    const auto bound = set.lower_bound(key);
    const auto expected = model.lower_bound(key);
    ASSERT_EQ(bound == set.end(), expected == model.end());
    if (expected != model.end()) {
      ASSERT_EQ(*bound, *expected);
    }
    ASSERT_EQ(set.contains(key), model.contains(key));
    ASSERT_EQ(set.size(), model.size());
  }
  ASSERT_EQ(set.verify(), "");
  EXPECT_TRUE(std::equal(set.begin(), set.end(), model.begin(), model.end()));
  EXPECT_TRUE(std::equal(set.rbegin(), set.rend(), model.rbegin(), model.rend()));
  const ordered_set<Text> copy = set;
  EXPECT_TRUE(copy == set);
  set.erase(set.begin());
  EXPECT_TRUE((copy <=> set) != 0);
  ordered_set<u64> numbers{5, 1, 3};
  numbers.insert({2, 5});
  EXPECT_EQ(*numbers.begin(), 1u);
  EXPECT_EQ(*numbers.upper_bound(3), 5u);
  numbers.erase(numbers.find(2), numbers.end());
  EXPECT_TRUE(numbers == ordered_set<u64>{1});
}

TEST(OrderedMaps, HaveTheStandardsInterface) {
  using Map = ordered_map<Text, long>;
  static_assert(std::bidirectional_iterator<Map::iterator>);
  static_assert(std::bidirectional_iterator<Map::const_iterator>);
  static_assert(std::bidirectional_iterator<ordered_set<u64>::iterator>);
  static_assert(std::is_convertible_v<Map::iterator, Map::const_iterator>);
  static_assert(!std::is_assignable_v<Map::mapped_reference, Map::mapped_reference>);
  Map map{{"Bob", 2}, {"Ada", 1}};
  ++map["Ada"];
  map["Ada"] += 3;
  map["Cleo"] = 7;
  map["Dan"] = map["Cleo"].get();
  for (auto it = map.begin(); it != map.end(); ++it) it->second = it->second + 9;
  for (auto&& [name, value] : map) value += 1;
  std::string names;
  for (const auto& [name, value] : map) names += name.str() + " ";
  EXPECT_EQ(names, "Ada Bob Cleo Dan ");
  EXPECT_EQ(map.at("Bob"), 12);
  EXPECT_EQ(std::as_const(map).at(std::string_view("Dan")), 17);
  EXPECT_THROW(map.at("Eve"), std::out_of_range);
  EXPECT_EQ(map.rbegin()->second, 17);
  EXPECT_EQ(std::prev(map.end())->first, "Dan");
  EXPECT_EQ(map.lower_bound("B")->first, "Bob");
  EXPECT_FALSE(map.try_emplace("Bob", 3).second);
  EXPECT_TRUE(map.emplace("Eve", 4).second);
  EXPECT_TRUE(map.insert(std::pair("Fay", 5L)).second);
  EXPECT_FALSE(map.insert_or_assign("Fay", 6L).second);
  const std::map<std::string, long> more{{"Gus", 1}, {"Hal", 2}};
  map.insert(more.begin(), more.end());
  map.insert({{"Ian", 3}});
  EXPECT_EQ(map.size(), 9u);
  EXPECT_EQ(erase_if(map, [](const auto& each) { return each.first >= "E"; }), 5u);
  Map copy = map;
  EXPECT_TRUE(copy == map);
  EXPECT_TRUE((copy <=> map) == 0);
  copy["Bob"] += 1;
  EXPECT_TRUE(map < copy);
  copy.erase(copy.find("Ada"));
  EXPECT_FALSE(copy == map);
  EXPECT_TRUE(map < copy);
  swap(copy, map);
  EXPECT_EQ(map.size(), 3u);
  EXPECT_EQ(copy.count("Dan"), 1u);
  const Map moved = std::move(copy);
  EXPECT_EQ(moved.size(), 4u);
  EXPECT_TRUE(copy.empty());  // NOLINT(bugprone-use-after-move): what is left is looked at
  map = {{"x", 1}};
  EXPECT_EQ(map.begin()->first, "x");
  const Map by_range(more.begin(), more.end());
  EXPECT_EQ(by_range.at("Hal"), 2);
  ordered_map<int, Pair> pairs;
  pairs[3].modify([](Pair& pair) { pair.second = 9; });
  EXPECT_EQ(pairs[3]->second, 9u);
  for (auto it = pairs.begin(); it != pairs.end();) it = pairs.erase(it);
  EXPECT_TRUE(pairs.empty());
  // An order that takes keys alone.
  ordered_map<Text, int, std::less<Text>> plain{{"b", 1}};
  EXPECT_EQ(plain.count("b"), 1u);
}

TEST(OrderedMaps, TakeWhatLiesInThem) {
  const std::string long_text = "a value that is long enough for a block";
  ordered_map<Text, Text> map{{text_of(0), long_text}};
  for (u64 i = 1; i < 2000; ++i) {
    if (i % 2 == 0) map.insert_or_assign(text_of(i), map.at(text_of(i - 1)));
    else map.try_emplace(text_of(i), map.at(text_of(i - 1)));
  }
  for (u64 i = 0; i < 2000; ++i) ASSERT_EQ(map.at(text_of(i)), long_text) << i;
  for (u64 i = 0; i < 1000; ++i)
    map.try_emplace(text_of(i) + " moved", std::move(map.at(text_of(i))));
  for (u64 i = 0; i < 1000; ++i) {
    ASSERT_TRUE(map.at(text_of(i)).empty());
    map.erase(text_of(i));
    ASSERT_EQ(map.at(text_of(i) + " moved"), long_text);
  }
  ASSERT_EQ(map.verify(), "");
  ordered_map<u64, u64> numbers{{0, 1}};
  for (u64 i = 1; i < 2000; ++i) numbers[i] = numbers[i - 1] + 1;
  EXPECT_EQ(numbers.at(1999), 2000u);
  // A key that is an element of it, which goes.
  while (!map.empty()) ASSERT_EQ(map.erase(map.begin()->first), 1u);
}

TEST(OrderedMaps, HoldWhatIsBytesOrReportsItself) {
  static_assert(Storable<ordered_map<Text, ordered_set<u64>>>);
  EXPECT_TRUE((Store::fingerprint<ordered_map<u64, Pair>>() !=
               detail::own_fingerprint<ordered_map<u64, Pair>>()));
  EXPECT_TRUE((Store::fingerprint<ordered_map<u64, Pair>>() !=
               Store::fingerprint<ordered_map<u64, Wide>>()));
}

// What was erased gives its memory back, in whatever order, and without wanting any.
TEST_P(OrderedMapTest, NodesThatAreHardlyUsedBecomeOne) {
  auto& map = store_->root<ordered_map<u64, u64>>("map");
  constexpr u64 kKeys = 40'000 / kSlower;
  const auto fill = [&] {
    for (u64 i = 0; i < kKeys; ++i) map[i] = i;
    return objects_in(*store_);
  };
  const u64 full = fill();
  EXPECT_LT(full, kKeys / 20);  // what comes in order fills its leaves
  std::mt19937_64 random(1);
  std::vector<u64> keys(kKeys);
  for (u64 i = 0; i < kKeys; ++i) keys[i] = i;
  std::shuffle(keys.begin(), keys.end(), random);
  for (u64 i = 0; i < kKeys / 20 * 19; ++i) map.erase(keys[i]);
  EXPECT_LT(objects_in(*store_), full / 3);
  ASSERT_EQ(map.verify(), "");
  map.clear();
  const u64 empty = objects_in(*store_);
  fill();
  for (u64 i = 0; i < kKeys; ++i) map.erase(i);
  EXPECT_EQ(objects_in(*store_), empty);
  fill();
  for (u64 i = kKeys; i-- != 0;) map.erase(i);
  EXPECT_EQ(objects_in(*store_), empty);
}

TEST_P(OrderedMapTest, WhatTheyStoreIsDurableWithTheNextVersion) {
  store_->root<ordered_map<u64, u64>>("numbers");
  store_->root<ordered_map<Text, Text>>("texts");
  std::map<u64, u64> numbers;
  TextModel texts;
  for (u64 round = 0; round < 10; ++round) {
    auto* map = store_->find_root<ordered_map<u64, u64>>("numbers");
    auto* text_map = store_->find_root<ordered_map<Text, Text>>("texts");
    random_ordered_calls(*map, numbers, kCalls / 100, 1000, 10 + round, number, number);
    random_ordered_calls(*text_map, texts, kCalls / 100, 1000, 30 + round, text_of, text_of);
    store_->checkpoint();
    std::map<u64, u64> later = numbers;
    random_ordered_calls(*map, later, 400, 1000, 50 + round, number, number);
    crash_and_open();
    ASSERT_TRUE(store_->audit().clean) << store_->audit().problem;
    expect_same_order(*store_->find_root<ordered_map<u64, u64>>("numbers"), numbers);
    expect_same_order(*store_->find_root<ordered_map<Text, Text>>("texts"), texts);
  }
}

TEST_P(OrderedMapTest, ReadingStoresNothing) {
  auto& map = store_->root<ordered_map<Text, Text>>("map");
  map["a key that is long enough for a block"] = "b";
  store_->close();
  Options chosen = options();
  chosen.read_only = true;
  open(chosen);
  const auto* const again = store_->find_root<ordered_map<Text, Text>>("map");
  EXPECT_EQ(again->at("a key that is long enough for a block"), "b");
  EXPECT_TRUE(again->lower_bound("b") == again->end());
  EXPECT_EQ(again->begin()->second, "b");
  EXPECT_EQ(again->rbegin()->second, "b");
  EXPECT_FALSE(again->contains("c"));
  EXPECT_EQ(again->verify(), "");
}

// With a checkpoint before each of their calls, and a power failure at each write of it.
TEST(OrderedMaps, AreWholeInEachCrashState) {
  perdura::testing::CrashTestOptions crash_options;
  crash_options.store = options();
  constexpr u64 kSteps = 40 / kSlower;
  crash_options.versions_max = kSteps * 3 / 2;
  using Map = ordered_map<Text, Wide>;  // few in a leaf: splits and joins
  const auto report = perdura::testing::crash_test(
      crash_options,
      [](Store& store) {
        auto& map = store.root<Map>("map");
        auto& set = store.root<ordered_set<u64>>("set");
        for (u64 i = 0; i < kSteps; ++i) {
          map.insert_or_assign(text_of(i % 30), wide_of(i % 30));
          set.insert(i);
          if (i % 3 == 2 || i > kSteps * 2 / 3) map.erase(text_of(i / 3));
          if (i % 4 == 3) set.erase(i / 2);
        }
      },
      [](Store& store) -> std::string {
        if (const auto* map = store.find_root<Map>("map")) {
          if (const std::string wrong = map->verify(); !wrong.empty()) return wrong;
          for (const auto& [key, value] : *map) {
            const std::string text = key.str();
            const u64 number = std::stoull(text.substr(text.find_first_not_of('x')));
            if (!(value == wide_of(number)) || !map->contains(text)) return "wrong: " + text;
          }
        }
        if (const auto* set = store.find_root<ordered_set<u64>>("set")) return set->verify();
        return "";
      });
  EXPECT_TRUE(report.ok()) << report.text();
  EXPECT_GT(report.versions, kSteps * 3 / 4);
}

// Nothing of two things is exchanged by halves, nothing is replaced by nothing, and what several
// elements are inserted or erased by is one call.
TEST(OrderedMaps, CallsAreOneOperation) {
  perdura::testing::CrashTestOptions crash_options;
  crash_options.store = options();
  constexpr u64 kSteps = kSanitized ? 4 : 9;
  crash_options.versions_max = 100;
  using Map = ordered_map<u64, Text>;
  struct All {
    Map maps[2];
    ordered_set<u64> set;
  };
  const auto report = perdura::testing::crash_test(
      crash_options,
      [](Store& store) {
        auto& all = store.root<All>("all");
        {
          const auto operation = store.operation();
          all.maps[0] = {{1, "one, which is long enough"}};
          all.maps[1] = {{2, "two"}};
        }
        store.set_root("ready", &all);
        const Map one{{1, "one, which is long enough"}};
        for (u64 i = 0; i < kSteps; ++i) {
          swap(all.maps[0], all.maps[1]);
          all.maps[i % 2] = Map(all.maps[i % 2]);
          if (i % 2 == 1) all.maps[0] = one;
          all.set.insert({i * 4, i * 4 + 1, i * 4 + 2, i * 4 + 3});
          if (i % 3 == 2) all.set.erase(all.set.begin(), std::next(all.set.begin(), 4));
        }
      },
      [](Store& store) -> std::string {
        const auto* all = static_cast<const All*>(store.get_root("ready"));
        if (all == nullptr) return "";
        if (all->maps[0].size() != 1 || all->maps[1].size() != 1) return "maps";
        if (all->maps[0].contains(1) == all->maps[1].contains(1)) return "maps have the same";
        return all->set.size() % 4 == 0 ? all->set.verify() : "a part of a call";
      });
  EXPECT_TRUE(report.ok()) << report.text();
}

TEST_P(OrderedMapTest, EachOfTheirStoresIsReported) {
  Options chosen = options();
  chosen.verify_reports = true;
  open(chosen);
  auto& map = store_->root<ordered_map<Text, Text>>("texts");
  auto& wide = store_->root<ordered_map<u64, Wide>>("wide");
  auto& nested = store_->root<ordered_map<u64, ordered_map<u64, Pair>>>("nested");
  auto& set = store_->root<ordered_set<u64>>("set");
  TextModel model;
  std::map<u64, Wide> wide_model;
  std::mt19937_64 random(6);
  for (u64 round = 0; round < 30; ++round) {
    random_ordered_calls(map, model, 500, 300, 70 + round, text_of, text_of);
    random_ordered_calls(wide, wide_model, 100, 100, 90 + round, number, wide_of);
    for (u64 i = 0; i < 100; ++i) {
      nested[random() % 8][random() % 100] = pair_of(i);
      nested[random() % 8].erase(random() % 100);
      if (random() % 30 == 0) nested.erase(random() % 8);
      if (random() % 2 == 0) set.insert(random() % 500);
      else set.erase(random() % 500);
    }
    if (round % 7 == 6) {
      ordered_map<Text, Text> copy = map;
      map = std::move(copy);
    }
    store_->checkpoint();
    const auto found = store_->unreported_stores();
    ASSERT_TRUE(found.empty()) << found.front();
  }
}

TEST_P(OrderedMapTest, TakeOverAndCopyFromOneMemoryToAnother) {
  ordered_map<Text, Text> outside;
  for (u64 i = 0; i < 100; ++i) outside[text_of(i)] = text_of(i * 3);
  auto& map = store_->root<ordered_map<Text, Text>>("map", std::move(outside));
  EXPECT_TRUE(outside.empty());  // NOLINT(bugprone-use-after-move): what is left is looked at
  EXPECT_EQ(map.size(), 100u);
  EXPECT_TRUE(store_->contains(map.find(text_of(60))->second.data()));
  ordered_map<Text, Text> back = std::move(map);
  EXPECT_TRUE(map.empty());  // NOLINT(bugprone-use-after-move)
  EXPECT_FALSE(store_->contains(back.find(text_of(60))->second.data()));
  auto& other = store_->root<ordered_map<Text, Text>>("other", back);
  map = std::move(other);
  EXPECT_TRUE(other.empty());  // NOLINT(bugprone-use-after-move)
  EXPECT_TRUE(map == back);
  back.erase(text_of(0));
  swap(back, map);
  EXPECT_EQ(back.size(), 100u);
  EXPECT_EQ(map.size(), 99u);
  auto& set = store_->root<ordered_set<u64>>("set", ordered_set<u64>{1, 2, 3});
  ordered_set<u64> of_set = set;
  EXPECT_TRUE(of_set == set);
  EXPECT_EQ(map.verify() + back.verify() + set.verify(), "");
}

// Whatever an insertion wants memory for: the key's text, the value's, a leaf, an inner node, the
// bound that goes there.
TEST_P(OrderedMapTest, AFullStoreLeavesThemAsTheyWere) {
  open_small();
  auto& map = store_->root<ordered_map<Text, Text>>("map");
  auto& ballast = store_->root<structures::vector<Text>>("ballast");
  TextModel model;
  const auto key_of = [](u64 i) {
    return std::string(70, 'k') + std::to_string(i * 7919 % 100'003);
  };
  u64 next = 0;
  for (; next < 2000; ++next)
    map[key_of(next)] = std::string(30, 'v'), model[key_of(next)] = std::string(30, 'v');
  const auto fill = [&] {
    for (const u64 size : {100'000u, 1500u, 1000u, 400u, 90u, 40u}) {
      try {
        for (;;) ballast.push_back(Text(std::string(size, 'b')));
      } catch (const Error& error) {
        ASSERT_EQ(error.code(), Code::kNoSpace);
      }
    }
  };
  ballast.reserve(60'000);
  std::mt19937_64 random(8);
  u64 failed = 0;
  constexpr u64 kTries = 600 / kSlower;
  const u64 until = next + kTries;
  while (next < until || failed <= 50 / kSlower) {
    ASSERT_NO_FATAL_FAILURE(fill());
    // A few blocks of some sizes are free again.
    for (u64 i = 0, count = random() % 4; i < count; ++i)
      ballast[ballast.size() - 1 - random() % (ballast.size() / 2)] = Text();
    for (u64 i = 0; i < 20; ++i, ++next) {
      try {
        map.try_emplace(key_of(next), std::string(30, 'w'));
        model.try_emplace(key_of(next), std::string(30, 'w'));
      } catch (const Error& error) {
        ASSERT_EQ(error.code(), Code::kNoSpace);
        ++failed;
        ASSERT_EQ(map.size(), model.size());
      }
    }
    ASSERT_NO_FATAL_FAILURE(expect_same_order(map, model));
  }
  EXPECT_GT(model.size(), 2000u);
  ASSERT_TRUE(store_->audit().clean) << store_->audit().problem;
  // Erasing wants none.
  ASSERT_NO_FATAL_FAILURE(fill());
  for (auto it = map.begin(); it != map.end();) it = map.erase(it);
  EXPECT_TRUE(map.empty());
  store_->checkpoint();
  EXPECT_TRUE(store_->audit().clean);
}

TEST_P(OrderedMapTest, WhatDoesNotFitIsNotBegun) {
  open_small();
  auto& map = store_->root<ordered_map<u64, u64>>("map", ordered_map<u64, u64>{{1, 2}});
  auto& nested = store_->root<ordered_map<u64, ordered_map<u64, u64>>>("nested");
  nested[1][3] = 4;
  ordered_map<u64, u64> big;
  for (u64 i = 0; i < 600'000; ++i) big[i] = i;
  const auto does_not_fit = [&](auto&& call) {
    const u64 blocks = objects_in(*store_);
    expect_error(call, Code::kNoSpace, "");
    EXPECT_EQ(objects_in(*store_), blocks);
    ASSERT_EQ(map.at(1), 2u);
    ASSERT_EQ(map.size(), 1u);
    ASSERT_EQ(nested.size(), 1u);
    ASSERT_EQ(nested.at(1).at(3), 4u);
  };
  does_not_fit([&] { map = big; });
  does_not_fit([&] { map.swap(big); });
  does_not_fit([&] { big.swap(map); });
  does_not_fit([&] { nested.try_emplace(2, big); });
  does_not_fit([&] { nested.insert_or_assign(1, big); });
  EXPECT_EQ(big.size(), 600'000u);
}

TEST_P(OrderedMapTest, InTransactionsTheyArePartOfThem) {
  store_->root<ordered_map<u64, Pair>>("numbers");
  store_->root<ordered_map<Text, Text>>("texts");
  std::map<u64, Pair> numbers;
  TextModel texts;
  for (u64 round = 0; round < 120; ++round) {
    auto& map = store_->root<ordered_map<u64, Pair>>("numbers");
    auto& text_map = store_->root<ordered_map<Text, Text>>("texts");
    auto numbers_then = numbers;
    auto texts_then = texts;
    const bool fails = round % 3 == 0;
    try {
      atomically(*store_, [&](Transaction&) {
        numbers_then = numbers;
        texts_then = texts;
        random_ordered_calls(map, numbers_then, 150, 300, 100 + round, number, pair_of);
        random_ordered_calls(text_map, texts_then, 150, 300, 300 + round, text_of, text_of);
        if (fails) throw std::runtime_error("undone");
      });
      numbers = numbers_then;
      texts = texts_then;
    } catch (const std::runtime_error&) {
      ASSERT_TRUE(fails);
    }
    // Durable when it has returned, or never was.
    if (round % 10 == 5) crash_and_open();
    expect_same_order(*store_->find_root<ordered_map<u64, Pair>>("numbers"), numbers);
    expect_same_order(*store_->find_root<ordered_map<Text, Text>>("texts"), texts);
    if (round % 20 == 7) store_->checkpoint();
  }
  EXPECT_TRUE(store_->audit().clean);
}

TEST_P(OrderedMapTest, TransactionsOfSeveralThreadsSeeThemWhole) {
  auto& map = store_->root<ordered_map<u64, long>>("map");
  for (u64 key = 0; key < 500; key += 5) map[key] = 0;
  constexpr u64 kThreads = 4;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (u64 t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (u64 i = 0; i < 300 / kSlower; ++i)
        atomically(*store_, [&](Transaction&) {
          const u64 from = random() % 500;
          const u64 to = random() % 500;
          map[from] -= 1;
          map[to] += 1;
          if (map[to] == 0) map.erase(to);
          long sum = 0;
          u64 count = 0;
          for (auto it = map.begin(); it != map.end(); ++it) sum += it->second, ++count;
          if (sum != 0 || count != map.size()) throw std::logic_error("a mix of before and after");
        });
    });
  for (std::thread& thread : threads) thread.join();
  crash_and_open();
  const auto& again = *store_->find_root<ordered_map<u64, long>>("map");
  long sum = 0;
  for (const auto& [key, value] : again) sum += value;
  EXPECT_EQ(sum, 0);
  EXPECT_EQ(again.verify(), "");
}

// Each of them gives blocks back that another one may just have replaced.
TEST_P(OrderedMapTest, TransactionsThatMeetBeginAgain) {
  set_durability(*store_, Durability::kNone);
  auto& texts = store_->root<ordered_map<Text, Text>>("texts");
  auto& wide = store_->root<ordered_map<u64, Wide>>("wide");
  auto& nested = store_->root<ordered_map<u64, ordered_map<u64, Text>>>("nested");
  auto& copies = store_->root<structures::vector<ordered_map<u64, Text>>>("copies");
  store_->checkpoint();
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (u64 t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (u64 i = 0; i < 2000 / kSlower; ++i) {
        const u64 key = random() % 60;
        atomically(*store_, [&](Transaction&) {
          if (texts.erase(text_of(key)) == 0) texts[text_of(key)] = std::string(40, 'b');
          if (wide.erase(key) == 0) wide[key] = wide_of(key);
          if (random() % 200 == 0) texts.clear();
          if (random() % 2 == 0) nested[key % 8][random() % 8] = std::string(20 + i % 40, 'x');
          else copies.push_back(nested[key % 8]);
          if (copies.size() > 4) copies.erase(0, 3);
        });
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(texts.verify(), "");
  EXPECT_EQ(wide.verify(), "");
  for (const auto& [key, value] : texts) EXPECT_EQ(value, std::string(40, 'b'));
  for (const auto& [key, value] : wide) EXPECT_TRUE(value == wide_of(key));
  EXPECT_TRUE(store_->audit().clean) << store_->audit().problem;
}

TEST_P(OrderedMapTest, InTransactionsTheyAreCopiedAndExchangedAsTheyAre) {
  auto& map = store_->root<ordered_map<u64, u64>>("map", ordered_map<u64, u64>{{1, 1}, {2, 2}});
  auto& other = store_->root<ordered_map<u64, u64>>("other");
  auto& texts = store_->root<ordered_map<Text, structures::vector<u64>>>("texts");
  auto& set = store_->root<ordered_set<u64>>("set", ordered_set<u64>{1, 2});
  texts["a"].push_back(7);
  ordered_map<u64, u64> outside;
  atomically(*store_, [&](Transaction&) {
    map[200] = 7;
    other = map;
    outside = map;
    EXPECT_TRUE(other == map);
    other[300] = 9;
    EXPECT_TRUE(map < other);
    swap(map, other);
    texts.try_emplace("b", texts["a"]);
    set.insert(5);
    ordered_set<u64> moved = std::move(set);
    EXPECT_EQ(moved.size(), 3u);
    set = moved;
    expect_error([&] { (void)texts.begin()->first.view(); }, Code::kMisuse, "view");
    EXPECT_EQ(texts.begin()->first.str(), "a");
  });
  EXPECT_EQ(outside.at(200), 7u);
  EXPECT_EQ(map.at(300), 9u);
  EXPECT_EQ(map.size(), 4u);
  EXPECT_EQ(other.at(200), 7u);
  EXPECT_EQ(texts.at("b")[0], 7u);
  EXPECT_TRUE(set.contains(5));
}

INSTANTIATE_TEST_SUITE_P(Media, OrderedMapTest, ::testing::Values("emu:", "file:"),
                         [](const auto& info) {
                           return std::string(info.param, std::string(info.param).size() - 1);
                         });

}  // namespace
}  // namespace perdura::test
