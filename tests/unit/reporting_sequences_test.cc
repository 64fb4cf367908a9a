// Goal: list and deque do what the standard's do, in ordinary memory, in a store whose tracker
// needs reports, and in transactions; all that they store to is reported, so that a crash after a
// checkpoint leaves exactly what they were; in a transaction they are undone with it; in a full
// store they stay as they were. Method: as of reporting_ordered_map_test.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <list>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <perdura/structures/deque.hpp>
#include <perdura/structures/list.hpp>
#include <perdura/structures/string.hpp>
#include <perdura/testing.hpp>

#include <perdura/perdura.hpp>
#include "base/bits.hpp"
#include "support/container_calls.hpp"
#include "support/expect_failure.hpp"
#include "support/slice.hpp"

namespace perdura::test {
namespace {

using structures::deque;
using structures::list;

template <class List, class Model>
void expect_same_list(const List& list, const Model& model) {
  ASSERT_EQ(list.size(), model.size());
  auto at = list.begin();
  for (const auto& each : model) {
    ASSERT_TRUE(*at == each);
    ++at;
  }
  ASSERT_TRUE(at == list.end());
  auto back = list.rbegin();
  for (auto each = model.rbegin(); each != model.rend(); ++each, ++back)
    ASSERT_TRUE(*back == *each);
  ASSERT_TRUE(back == list.rend());
}

template <class List, class Model, class ValueOf>
void random_list_calls(List (&lists)[2], Model (&models)[2], u64 calls, u64 seed,
                       ValueOf&& value_of) {
  std::mt19937_64 random(seed);
  for (u64 i = 0; i < calls; ++i) {
    const u64 which = random() % 2;
    List& list = lists[which];
    Model& model = models[which];
    List& other = lists[1 - which];
    Model& other_model = models[1 - which];
    const auto value = value_of(random() % 50);
    const auto steps = static_cast<std::ptrdiff_t>(random() % std::min<u64>(model.size() + 1, 8));
    auto at = std::next(list.begin(), steps);
    auto expected = std::next(model.begin(), steps);
    switch (random() % 25) {
      case 0:
      case 1:
      case 2:
        list.push_back(value), model.push_back(value);
        break;
      case 3:
      case 4:
        list.push_front(value), model.push_front(value);
        break;
      case 5:
      case 6:
        if (!model.empty()) list.pop_back(), model.pop_back();
        break;
      case 7:
        if (!model.empty()) list.pop_front(), model.pop_front();
        break;
      case 8:
      case 9:
        at = list.insert(at, value), expected = model.insert(expected, value);
        ASSERT_TRUE(*at == *expected);
        break;
      case 10:
      case 11:
        if (expected == model.end()) break;
        at = list.erase(at), expected = model.erase(expected);
        ASSERT_EQ(at == list.end(), expected == model.end());
        break;
      case 12:
        if (expected != model.end()) *at = value, *expected = value;
        break;
      case 13:
        other.splice(std::next(other.begin(), other.empty() ? 0 : 1), list, at, list.end());
        other_model.splice(std::next(other_model.begin(), other_model.empty() ? 0 : 1), model,
                           expected, model.end());
        break;
      case 14:
        if (expected == model.end()) break;
        list.splice(list.begin(), list, at);
        model.splice(model.begin(), model, expected);
        break;
      case 15:
        if (random() % 8 == 0) list.sort(), model.sort();
        break;
      case 16:
        if (random() % 8 != 0) break;
        list.sort(), model.sort(), other.sort(), other_model.sort();
        list.merge(other), model.merge(other_model);
        ASSERT_TRUE(other.empty());
        break;
      case 17:
        if (random() % 4 == 0) list.reverse(), model.reverse();
        break;
      case 18:
        if (random() % 4 == 0) {
          ASSERT_EQ(list.unique(), model.unique());
        }
        break;
      case 19:
        if (random() % 4 == 0) {
          ASSERT_EQ(list.remove_if([&](const auto& each) { return each == value; }),
                    model.remove_if([&](const auto& each) { return each == value; }));
        }
        break;
      case 20:
        if (random() % 20 == 0) list.clear(), model.clear();
        if (model.size() > 200) list.resize(50), model.resize(50);
        break;
      case 21:
        list.insert(at, other_model.begin(),
                    std::next(other_model.begin(), other_model.empty() ? 0 : 1));
        model.insert(expected, other_model.begin(),
                     std::next(other_model.begin(), other_model.empty() ? 0 : 1));
        break;
      case 22:
        swap(list, other), swap(model, other_model);
        break;
      case 23: {
        at = list.insert(at, steps % 4, value), expected = model.insert(expected, steps % 4, value);
        ASSERT_EQ(std::distance(list.begin(), at), std::distance(model.begin(), expected));
        ASSERT_EQ(list == other, model == other_model);
        ASSERT_EQ((list <=> other) < 0, (model <=> other_model) < 0);
        ASSERT_EQ((list <=> other) > 0, (model <=> other_model) > 0);
        if (model.size() > 100) list.assign(30, value), model.assign(30, value);
        if (steps == 0) list.resize(model.size() + 2, value), model.resize(model.size() + 2, value);
        break;
      }
      default:
        if (model.empty()) break;
        ASSERT_TRUE(list.front() == model.front());
        ASSERT_TRUE(list.back() == model.back());
    }
    ASSERT_EQ(list.size(), model.size());
    ASSERT_EQ(other.size(), other_model.size());
    if (i % 100 == 0) {
      ASSERT_NO_FATAL_FAILURE(expect_same_list(list, model));
    }
  }
  expect_same_list(lists[0], models[0]);
  expect_same_list(lists[1], models[1]);
}

template <class Deque, class Model>
void expect_same_deque(const Deque& deque, const Model& model) {
  ASSERT_EQ(deque.size(), model.size());
  for (u64 i = 0; i < model.size(); ++i) ASSERT_TRUE(deque[i] == model[i]);
  auto at = deque.begin();
  for (const auto& each : model) {
    ASSERT_TRUE(*at == each);
    ++at;
  }
  ASSERT_TRUE(at == deque.end());
  auto back = deque.rbegin();
  for (auto each = model.rbegin(); each != model.rend(); ++each, ++back)
    ASSERT_TRUE(*back == *each);
  ASSERT_TRUE(back == deque.rend());
}

template <class Deque, class Model, class ValueOf>
void random_deque_calls(Deque (&deques)[2], Model (&models)[2], u64 calls, u64 seed,
                        ValueOf&& value_of) {
  std::mt19937_64 random(seed);
  for (u64 i = 0; i < calls; ++i) {
    const u64 which = random() % 2;
    Deque& deque = deques[which];
    Model& model = models[which];
    Deque& other = deques[1 - which];
    Model& other_model = models[1 - which];
    const auto value = value_of(random() % 50);
    const auto steps = static_cast<std::ptrdiff_t>(random() % (model.size() + 1));
    const auto more = std::min<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(random() % 9),
                                               static_cast<std::ptrdiff_t>(model.size()) - steps);
    const auto at = deque.begin() + steps;
    const auto expected = model.begin() + steps;
    switch (random() % 24) {
      case 0:
      case 1:
      case 2:
        for (u64 each = random() % 20; each != 0; --each)
          deque.push_back(value), model.push_back(value);
        break;
      case 3:
      case 4:
      case 5:
        for (u64 each = random() % 20; each != 0; --each)
          deque.push_front(value), model.push_front(value);
        break;
      case 6:
      case 7:
        for (u64 each = random() % 16; each != 0 && !model.empty(); --each)
          deque.pop_back(), model.pop_back();
        break;
      case 8:
      case 9:
        for (u64 each = random() % 16; each != 0 && !model.empty(); --each)
          deque.pop_front(), model.pop_front();
        break;
      case 10:
        ASSERT_EQ(deque.insert(at, value) - deque.begin(), steps);
        model.insert(expected, value);
        break;
      case 11:
        if (expected == model.end()) break;
        ASSERT_EQ(deque.erase(at) - deque.begin(), steps);
        model.erase(expected);
        break;
      case 12:
        ASSERT_EQ(deque.erase(at, at + more) - deque.begin(), steps);
        model.erase(expected, expected + more);
        break;
      case 13:
        if (expected != model.end()) *at = value, *expected = value;
        break;
      case 14:
        ASSERT_EQ(deque.insert(at, static_cast<u64>(more), value) - deque.begin(), steps);
        // Where nothing is inserted libstdc++ moves texts to where they are, which empties them.
        if (more != 0) model.insert(expected, static_cast<u64>(more), value);
        break;
      case 15: {
        const auto last =
            other_model.begin() +
            std::min<std::ptrdiff_t>(5, static_cast<std::ptrdiff_t>(other_model.size()));
        ASSERT_EQ(deque.insert(at, other_model.begin(), last) - deque.begin(), steps);
        if (last != other_model.begin()) model.insert(expected, other_model.begin(), last);
        break;
      }
      case 16:
        if (random() % 30 == 0) deque.clear(), model.clear();
        if (model.size() > 600) deque.resize(300), model.resize(300), deque.shrink_to_fit();
        break;
      case 17:
        swap(deque, other), swap(model, other_model);
        break;
      case 18:
        if (random() % 8 != 0) break;
        ASSERT_EQ(erase(deque, value), erase(model, value));
        break;
      case 19:
        if (random() % 8 != 0) break;
        deque = other, model = other_model;
        break;
      case 20:
        if (random() % 8 != 0) break;
        deque = std::move(other), model = std::move(other_model);
        other_model.clear();
        break;
      case 21:
        ASSERT_EQ(deque == other, model == other_model);
        ASSERT_EQ((deque <=> other) < 0, (model <=> other_model) < 0);
        if (steps == 0) deque.assign(40, value), model.assign(40, value);
        break;
      case 22:
        deque.resize(model.size() + 3, value), model.resize(model.size() + 3, value);
        break;
      default:
        if (model.empty()) break;
        ASSERT_TRUE(deque.front() == model.front());
        ASSERT_TRUE(deque.back() == model.back());
        if (expected != model.end()) {
          ASSERT_TRUE(*at == *expected);
          ASSERT_TRUE(deque.at(static_cast<u64>(steps)) == *expected);
        }
    }
    ASSERT_EQ(deque.size(), model.size());
    ASSERT_EQ(other.size(), other_model.size());
    if (i % 500 == 0) {
      ASSERT_NO_FATAL_FAILURE(expect_same_deque(deque, model));
    }
  }
  expect_same_deque(deques[0], models[0]);
  expect_same_deque(deques[1], models[1]);
}

struct DequesOfNumbers {
  deque<u64> deques[2];
};
struct DequesOfTexts {
  deque<Text> deques[2];
};
struct Numbers {
  list<u64> lists[2];
};
struct Texts {
  list<Text> lists[2];
};
class SequenceTest : public ContainerTest {};
const u64 kCalls = slice_or_whole(200'000, 1'000'000) / kSlower;

TEST(Lists, DoWhatTheStandardsDo) {
  static_assert(std::bidirectional_iterator<list<u64>::iterator>);
  static_assert(std::bidirectional_iterator<list<Text>::const_iterator>);
  Numbers numbers;
  std::list<u64> models[2];
  random_list_calls(numbers.lists, models, kCalls, 1, number);
  Texts texts;
  std::list<std::string> text_models[2];
  random_list_calls(texts.lists, text_models, kCalls / 4, 2, text_of);
  const list<Text> copy = texts.lists[0];
  EXPECT_TRUE(copy == texts.lists[0]);
}

TEST(Lists, IteratorsStayWithTheirElements) {
  list<Text> one{"a", "b", "c"};
  list<Text> other{"x"};
  const auto b = std::next(one.begin());
  Text& text = *b;
  one.push_front("0");
  one.erase(one.begin(), b);
  other.splice(other.begin(), one, b);
  other.sort(std::greater<>());
  EXPECT_EQ(*b, "b");
  EXPECT_EQ(&*b, &text);
  EXPECT_EQ(*std::prev(b), "x");
  EXPECT_EQ(one.size(), 1u);
  other.erase(b);
  EXPECT_EQ(other.back(), "x");
}

TEST(Lists, SortAndMergeKeepWhatIsEqualInOrder) {
  list<Pair> pairs;
  list<Pair> others;
  std::list<Pair> model;
  std::list<Pair> other_model;
  std::mt19937_64 random(3);
  for (u64 i = 0; i < 500; ++i) {
    const Pair pair{i, static_cast<u32>(random() % 10)};
    if (i % 3 == 0) others.push_back(pair), other_model.push_back(pair);
    else pairs.push_back(pair), model.push_back(pair);
  }
  const auto less = [](const Pair& a, const Pair& b) { return a.second < b.second; };
  pairs.sort(less), model.sort(less), others.sort(less), other_model.sort(less);
  expect_same_list(pairs, model);
  pairs.merge(others, less), model.merge(other_model, less);
  expect_same_list(pairs, model);
}

TEST_P(SequenceTest, WhatListsStoreIsReportedAndDurable) {
  Options chosen = options();
  chosen.verify_reports = true;
  open(chosen);
  store_->root<Numbers>("numbers");
  store_->root<Texts>("texts");
  std::list<u64> models[2];
  std::list<std::string> text_models[2];
  for (u64 round = 0; round < 10; ++round) {
    auto& numbers = *store_->find_root<Numbers>("numbers");
    auto& texts = *store_->find_root<Texts>("texts");
    random_list_calls(numbers.lists, models, 1000, 10 + round, number);
    random_list_calls(texts.lists, text_models, 1000, 30 + round, text_of);
    store_->checkpoint();
    const auto found = store_->unreported_stores();
    ASSERT_TRUE(found.empty()) << found.front();
    texts.lists[0].clear();
    crash_and_open();
    ASSERT_TRUE(store_->audit().clean) << store_->audit().problem;
    expect_same_list(store_->find_root<Texts>("texts")->lists[0], text_models[0]);
    expect_same_list(store_->find_root<Numbers>("numbers")->lists[1], models[1]);
    store_.reset();
    open(chosen);
  }
}

// With a checkpoint before each of their calls, and a power failure at each write of it: what is
// spliced is in one of both.
TEST(Lists, AreWholeInEachCrashState) {
  perdura::testing::CrashTestOptions crash_options;
  crash_options.store = options();
  constexpr u64 kSteps = kSanitized ? 4 : 12;
  crash_options.versions_max = 60;
  const auto report = perdura::testing::crash_test(
      crash_options,
      [](Store& store) {
        auto& texts = store.root<Texts>("texts");
        {
          const auto operation = store.operation();
          for (u64 i = 0; i < 6; ++i) texts.lists[0].push_back(text_of(i));
        }
        store.set_root("ready", &texts);
        for (u64 i = 0; i < kSteps; ++i) {
          texts.lists[i % 2].sort(std::greater<>());
          texts.lists[1].splice(texts.lists[1].end(), texts.lists[0], texts.lists[0].begin());
          swap(texts.lists[0], texts.lists[1]);
          texts.lists[0].reverse();
        }
      },
      [](Store& store) -> std::string {
        const auto* texts = static_cast<const Texts*>(store.get_root("ready"));
        if (texts == nullptr) return "";
        u64 count = 0;
        for (const auto& each : texts->lists) {
          u64 here = 0;
          for (auto it = each.begin(); it != each.end(); ++it) ++here;
          for (auto it = each.end(); it != each.begin(); --it) --here;
          if (here != 0) return "links";
          count += each.size();
        }
        return count == 6 ? "" : "some are gone";
      });
  EXPECT_TRUE(report.ok()) << report.text();
}

TEST_P(SequenceTest, ListsAreCopiedBetweenMemoriesAndKeptByAFullStore) {
  auto& in_store = store_->root<list<Text>>("list", list<Text>{"one", "a text that needs a block"});
  list<Text> outside{"outside"};
  in_store.splice(in_store.begin(), outside);
  EXPECT_TRUE(outside.empty());
  outside = std::move(in_store);
  EXPECT_TRUE(in_store.empty());  // NOLINT(bugprone-use-after-move): what is left is looked at
  EXPECT_EQ(outside.size(), 3u);
  EXPECT_FALSE(store_->contains(outside.back().data()));
  in_store.push_back("here");
  list<Text> big(40'000, Text(std::string(2000, 'x')));
  const auto does_not_fit = [&](auto&& call) {
    const u64 blocks = objects_in(*store_);
    expect_error(call, Code::kNoSpace, "");
    EXPECT_EQ(objects_in(*store_), blocks);
    ASSERT_EQ(in_store.size(), 1u);
    ASSERT_EQ(in_store.back(), "here");
    ASSERT_EQ(big.size(), 40'000u);
  };
  does_not_fit([&] { in_store = big; });
  does_not_fit([&] { in_store.splice(in_store.begin(), big); });
  does_not_fit([&] { in_store.insert(in_store.end(), big.begin(), big.end()); });
  does_not_fit([&] { swap(in_store, big); });
  EXPECT_TRUE(store_->audit().clean);
}

TEST_P(SequenceTest, InTransactionsListsArePartOfThem) {
  auto& texts = store_->root<Texts>("texts");
  std::list<std::string> models[2];
  for (u64 round = 0; round < 60; ++round) {
    std::list<std::string> then[2];
    const bool fails = round % 3 == 0;
    try {
      atomically(*store_, [&](Transaction&) {
        then[0] = models[0], then[1] = models[1];
        random_list_calls(texts.lists, then, 150, 100 + round, text_of);
        if (fails) throw std::runtime_error("undone");
      });
      models[0] = then[0], models[1] = then[1];
    } catch (const std::runtime_error&) {
      ASSERT_TRUE(fails);
    }
    expect_same_list(texts.lists[0], models[0]);
    expect_same_list(texts.lists[1], models[1]);
  }
  crash_and_open();
  expect_same_list(store_->find_root<Texts>("texts")->lists[0], models[0]);
  EXPECT_TRUE(store_->audit().clean);
}

TEST_P(SequenceTest, TransactionsOfSeveralThreadsSeeListsWhole) {
  set_durability(*store_, Durability::kNone);
  auto& texts = store_->root<Texts>("texts");
  for (u64 i = 0; i < 8; ++i) texts.lists[0].push_back(std::string(40, 'a'));
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (u64 t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (u64 i = 0; i < 1000 / kSlower; ++i)
        atomically(*store_, [&](Transaction&) {
          auto& from = texts.lists[(i + t) % 2];
          auto& to = texts.lists[(i + t + 1) % 2];
          if (!from.empty()) to.splice(to.begin(), from, from.begin());
          if (!to.empty()) to.pop_back(), to.push_front(std::string(40, 'b'));
          u64 count = 0;
          for (const auto& list : texts.lists)
            for (auto it = list.begin(); it != list.end(); ++it) ++count;
          if (count != 8) throw std::logic_error("a mix of before and after");
        });
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(texts.lists[0].size() + texts.lists[1].size(), 8u);
  EXPECT_TRUE(store_->audit().clean) << store_->audit().problem;
}

// --- deques --------------------------------------------------------------------------------------

TEST(Deques, DoWhatTheStandardsDo) {
  static_assert(std::random_access_iterator<deque<u64>::iterator>);
  static_assert(std::random_access_iterator<deque<Text>::const_iterator>);
  DequesOfNumbers numbers;
  std::deque<u64> models[2];
  random_deque_calls(numbers.deques, models, kCalls, 1, number);
  DequesOfTexts texts;
  std::deque<std::string> text_models[2];
  random_deque_calls(texts.deques, text_models, kCalls / 2, 2, text_of);
  const deque<Text> copy = texts.deques[0];
  EXPECT_TRUE(copy == texts.deques[0]);
  struct Large {
    u64 words[100];
  };
  deque<Large> large(5);
  large.front() = Large{{7}};
  EXPECT_EQ(large.front()->words[0], 7u);
  EXPECT_THROW(large.at(5), std::out_of_range);
  std::sort(numbers.deques[0].begin(), numbers.deques[0].end());
  std::sort(models[0].begin(), models[0].end());
  expect_same_deque(numbers.deques[0], models[0]);
}

TEST(Deques, KeepReferencesAndTakeWhatLiesInThem) {
  deque<Text> texts{"a text that needs a block of its own", "b"};
  Text& a = texts.front();
  for (u64 i = 0; i < 500; ++i) texts.push_back(texts.front()), texts.push_front(texts.back());
  EXPECT_EQ(&texts[500], &a);
  EXPECT_EQ(a, "a text that needs a block of its own");
  texts.insert(texts.begin() + 700, 3, texts[700]);
  texts.insert(texts.begin() + 3, texts[600]);
  texts.assign(2, texts.front());
  EXPECT_EQ(texts[1], "a text that needs a block of its own");
  EXPECT_EQ(texts.size(), 2u);
  while (!texts.empty()) texts.pop_front();
  texts.push_front("again");
  EXPECT_EQ(texts.back(), "again");
}

TEST_P(SequenceTest, WhatDequesStoreIsReportedAndDurable) {
  Options chosen = options();
  chosen.verify_reports = true;
  open(chosen);
  store_->root<DequesOfNumbers>("numbers");
  store_->root<DequesOfTexts>("texts");
  std::deque<u64> models[2];
  std::deque<std::string> text_models[2];
  for (u64 round = 0; round < 10; ++round) {
    auto& numbers = *store_->find_root<DequesOfNumbers>("numbers");
    auto& texts = *store_->find_root<DequesOfTexts>("texts");
    random_deque_calls(numbers.deques, models, 1000, 10 + round, number);
    random_deque_calls(texts.deques, text_models, 1000, 30 + round, text_of);
    store_->checkpoint();
    const auto found = store_->unreported_stores();
    ASSERT_TRUE(found.empty()) << found.front();
    texts.deques[0].clear();
    crash_and_open();
    ASSERT_TRUE(store_->audit().clean) << store_->audit().problem;
    expect_same_deque(store_->find_root<DequesOfTexts>("texts")->deques[0], text_models[0]);
    expect_same_deque(store_->find_root<DequesOfNumbers>("numbers")->deques[1], models[1]);
    store_.reset();
    open(chosen);
  }
}

// With a checkpoint before each of their calls, and a power failure at each write of it: each call
// is whole, those of the list that came later too.
TEST(Deques, AreWholeInEachCrashState) {
  perdura::testing::CrashTestOptions crash_options;
  crash_options.store = options();
  constexpr u64 kSteps = kSanitized ? 2 : 6;
  crash_options.versions_max = 80;
  const auto report = perdura::testing::crash_test(
      crash_options,
      [](Store& store) {
        auto& texts = store.root<DequesOfTexts>("texts");
        auto& lists = store.root<Texts>("lists");
        for (u64 i = 0; i < kSteps; ++i) {
          auto& deque = texts.deques[0];
          deque.insert(deque.begin() + static_cast<std::ptrdiff_t>(deque.size() / 3), 3,
                       Text(text_of(3)));
          deque.push_front(text_of(3)), deque.push_back(text_of(3));
          if (i % 2 == 1) deque.erase(deque.begin() + 2, deque.begin() + 5);
          texts.deques[1] = std::move(deque);
          swap(texts.deques[0], texts.deques[1]);
          auto& list = lists.lists[0];
          list.insert(list.begin(), 3, Text(text_of(3)));
          if (i % 2 == 1) list.assign(3, Text(text_of(3)));
        }
      },
      [](Store& store) -> std::string {
        if (const auto* const texts = store.find_root<DequesOfTexts>("texts"))
          for (const auto& deque : texts->deques)
            for (u64 i = 0; i < deque.size(); ++i)
              if (deque[i] != text_of(3)) return "a text of the deque";
        if (const auto* const lists = store.find_root<Texts>("lists")) {
          if (lists->lists[0].size() % 3 != 0) return "a part of a call";
          for (const Text& each : lists->lists[0])
            if (each != text_of(3)) return "a text of the list";
        }
        return store.audit().problem;
      });
  EXPECT_TRUE(report.ok()) << report.text();
}

TEST_P(SequenceTest, DequesAreCopiedBetweenMemoriesAndKeptByAFullStore) {
  auto& in_store = store_->root<deque<Text>>("deque", deque<Text>{"a text that needs a block"});
  deque<Text> outside{"outside", "x"};
  swap(in_store, outside);
  EXPECT_EQ(in_store.size(), 2u);
  EXPECT_TRUE(store_->contains(&in_store.front()));
  EXPECT_FALSE(store_->contains(outside.back().data()));
  outside = std::move(in_store);
  EXPECT_TRUE(in_store.empty());  // NOLINT(bugprone-use-after-move): what is left is looked at
  in_store.push_back("here");
  deque<Text> big(40'000, Text(std::string(2000, 'x')));
  const auto does_not_fit = [&](auto&& call) {
    const u64 blocks = objects_in(*store_);
    expect_error(call, Code::kNoSpace, "");
    EXPECT_EQ(objects_in(*store_), blocks);
    ASSERT_EQ(in_store.size(), 1u);
    ASSERT_EQ(in_store.back(), "here");
    ASSERT_EQ(big.size(), 40'000u);
  };
  does_not_fit([&] { in_store = big; });
  does_not_fit([&] { in_store.insert(in_store.begin(), big.begin(), big.end()); });
  does_not_fit([&] { in_store.resize(40'000, big.front()); });
  does_not_fit([&] { swap(in_store, big); });
  EXPECT_TRUE(store_->audit().clean);
}

TEST_P(SequenceTest, InTransactionsDequesArePartOfThem) {
  auto& texts = store_->root<DequesOfTexts>("texts");
  std::deque<std::string> models[2];
  for (u64 round = 0; round < 60; ++round) {
    std::deque<std::string> then[2];
    const bool fails = round % 3 == 0;
    try {
      atomically(*store_, [&](Transaction&) {
        then[0] = models[0], then[1] = models[1];
        random_deque_calls(texts.deques, then, 80, 100 + round, text_of);
        if (fails) throw std::runtime_error("undone");
      });
      models[0] = then[0], models[1] = then[1];
    } catch (const std::runtime_error&) {
      ASSERT_TRUE(fails);
    }
    expect_same_deque(texts.deques[0], models[0]);
    expect_same_deque(texts.deques[1], models[1]);
  }
  crash_and_open();
  expect_same_deque(store_->find_root<DequesOfTexts>("texts")->deques[0], models[0]);
  EXPECT_TRUE(store_->audit().clean);
}

// One takes from where the other one adds.
TEST_P(SequenceTest, TransactionsOfSeveralThreadsSeeDequesWhole) {
  set_durability(*store_, Durability::kNone);
  auto& texts = store_->root<DequesOfTexts>("texts");
  for (u64 i = 0; i < 8; ++i) texts.deques[0].push_back(std::string(40, 'a'));
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (u64 t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (u64 i = 0; i < 1000 / kSlower; ++i)
        atomically(*store_, [&](Transaction&) {
          auto& from = texts.deques[(i + t) % 2];
          auto& to = texts.deques[(i + t + 1) % 2];
          if (!from.empty()) to.push_front(from.back()), from.pop_back();
          u64 count = 0;
          for (const auto& deque : texts.deques)
            for (auto it = deque.begin(); it != deque.end(); ++it) ++count;
          if (count != 8) throw std::logic_error("a mix of before and after");
        });
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(texts.deques[0].size() + texts.deques[1].size(), 8u);
  EXPECT_TRUE(store_->audit().clean) << store_->audit().problem;
}

INSTANTIATE_TEST_SUITE_P(Media, SequenceTest, ::testing::Values("emu:", "file:"),
                         [](const auto& info) {
                           return std::string(info.param, std::string(info.param).size() - 1);
                         });

}  // namespace
}  // namespace perdura::test
