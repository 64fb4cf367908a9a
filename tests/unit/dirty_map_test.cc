// Goal: a DirtyMap is a set of lines: what was added and not taken out again is in it, once, in
// ascending order, however it got there and from however many threads.
// Method: random calls beside a std::set; threads that add and take at once.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "track/dirty_map.hpp"

namespace perdura::test {
namespace {

using track::DirtyMap;

// Not a multiple of what one word of the summary covers, 64 pages.
constexpr u64 kPages = 1000;
constexpr u64 kLines = kPages * kLinesPerPage;

DirtyMap make_map() { return value_or_throw(DirtyMap::create(kPages * kPageBytes)); }

using Model = std::set<u64>;

void add_to(Model& model, u64 first, u64 count) {
  for (u64 line = first; line < first + count; ++line) model.insert(line);
}

/// The set by its visits; they must ascend, and every page have a line.
std::vector<u64> lines_of(const DirtyMap& map) {
  std::vector<u64> lines;
  map.for_each_page([&](u64 page, u64 mask) {
    EXPECT_NE(mask, 0u);
    EXPECT_EQ(mask, map.page_mask(page));
    if (!lines.empty()) {
      EXPECT_GT(page, lines.back() / kLinesPerPage);
    }
    for (u64 i = 0; i < kLinesPerPage; ++i)
      if ((mask >> i & 1) != 0) lines.push_back(page * kLinesPerPage + i);
  });
  return lines;
}

void expect_same(const DirtyMap& map, const Model& model) {
  ASSERT_EQ(lines_of(map), std::vector<u64>(model.begin(), model.end()));
  ASSERT_EQ(map.empty(), model.empty());
}

TEST(DirtyMapTest, RunsCrossPagesAndSummaryWords) {
  for (u64 first : {u64{0}, u64{1}, u64{63}, u64{64}, 63 * kLinesPerPage + 63, 64 * kLinesPerPage,
                    128 * kLinesPerPage - 1, kLines - 1}) {
    for (u64 count : {1, 2, 63, 64, 65, 128, 129, 64 * 64, 64 * 64 + 1, 3 * 64 * 64}) {
      if (first + count > kLines) continue;
      DirtyMap map = make_map();
      EXPECT_TRUE(map.empty());
      Model model;
      map.add(first, count);
      add_to(model, first, count);
      SCOPED_TRACE(std::to_string(count) + " lines from " + std::to_string(first));
      expect_same(map, model);
      EXPECT_TRUE(map.contains(first));
      EXPECT_TRUE(map.contains(first + count - 1));
      EXPECT_FALSE(first != 0 && map.contains(first - 1));
      EXPECT_FALSE(first + count < kLines && map.contains(first + count));
      EXPECT_TRUE(map.has_page(first / kLinesPerPage));
    }
  }
}

TEST(DirtyMapTest, RandomCallsAgreeWithASet) {
  std::mt19937_64 random(1);
  DirtyMap map = make_map();
  DirtyMap other = make_map();
  Model model;
  Model other_model;
  for (u64 step = 0; step < 20'000; ++step) {
    // A few pages, so that lines meet; rarely anywhere.
    const u64 first = random() % 16 == 0 ? random() % kLines : random() % (3 * kLinesPerPage);
    const u64 count = std::min(1 + random() % (random() % 8 == 0 ? 200 : 4), kLines - first);
    switch (random() % 8) {
      case 0:
        map.add(first, count);
        add_to(model, first, count);
        break;
      case 1:
        map.add_shared(first, count);
        add_to(model, first, count);
        break;
      case 2:
        ASSERT_EQ(map.add_first(first), model.insert(first).second) << step;
        break;
      case 3:
      case 4:
        ASSERT_EQ(map.take(first), model.erase(first) != 0) << step;
        break;
      case 5:
        other.add(first, count);
        add_to(other_model, first, count);
        break;
      case 6:
        ASSERT_EQ(map.contains(first), model.contains(first)) << step;
        break;
      default:
        if (random() % 64 == 0) {
          map.merge(other);
          model.insert(other_model.begin(), other_model.end());
          expect_same(other, other_model);
          other.clear();
          other_model.clear();
        } else if (random() % 64 == 0) {
          map.clear();
          model.clear();
        }
    }
    if (step % 50 == 0) {
      ASSERT_NO_FATAL_FAILURE(expect_same(map, model)) << step;
    }
  }
  map.clear();
  expect_same(map, {});
}

// A page that lost its last line by take() is still in the summary: it must not be visited, and
// must come back when it is added to again.
TEST(DirtyMapTest, TakenPagesAreNotVisitedAndComeBack) {
  DirtyMap map = make_map();
  map.add(200 * kLinesPerPage, kLinesPerPage);
  for (u64 i = 0; i < kLinesPerPage; ++i) EXPECT_TRUE(map.take(200 * kLinesPerPage + i));
  EXPECT_TRUE(map.empty());
  EXPECT_FALSE(map.has_page(200));
  EXPECT_EQ(lines_of(map), std::vector<u64>());
  EXPECT_TRUE(map.add_first(200 * kLinesPerPage + 7));
  EXPECT_EQ(lines_of(map), std::vector<u64>{200 * kLinesPerPage + 7});
  map.clear();
  EXPECT_FALSE(map.contains(200 * kLinesPerPage + 7));
}

TEST(DirtyMapTest, GroupsTogetherVisitEverything) {
  DirtyMap map = make_map();
  EXPECT_EQ(map.groups(), 0u);
  Model model;
  for (u64 page : {u64{0}, u64{63}, u64{64}, u64{700}, kPages - 1}) {
    map.add(page * kLinesPerPage + page % 64, 1);
    model.insert(page * kLinesPerPage + page % 64);
  }
  Model visited;
  for (u64 group = 0; group < map.groups(); ++group)
    map.visit_group(group, [&](u64 page, u64 mask) {
      EXPECT_EQ(page / 64, group);
      visited.insert(page * kLinesPerPage + static_cast<u64>(std::countr_zero(mask)));
    });
  EXPECT_EQ(visited, model);
}

TEST(DirtyMapTest, ThreadsAddAtOnce) {
  constexpr u64 kThreads = 3;
  for (u64 round = 0; round < 30; ++round) {
    DirtyMap map = make_map();
    DirtyMap merged = make_map();
    Model models[kThreads];
    Model all;
    add_to(all, 5 * kLinesPerPage + 5, 1000);
    merged.add(5 * kLinesPerPage + 5, 1000);
    std::vector<std::thread> threads;
    for (u64 t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        std::mt19937_64 random(round * kThreads + t);
        for (int i = 0; i < 300; ++i) {
          // All threads in the same pages, at other lines.
          const u64 line = random() % (kLines / 64) * 64 / kThreads * kThreads % (kLines - 200) + t;
          const u64 count = 1 + random() % 100;
          map.add_shared(line, count);
          add_to(models[t], line, count);
        }
        if (t == 0) map.merge(merged);
      });
    for (std::thread& thread : threads) thread.join();
    for (const Model& model : models) all.insert(model.begin(), model.end());
    ASSERT_NO_FATAL_FAILURE(expect_same(map, all)) << round;
  }
}

// Of those that add or take the same line exactly one is the one.
TEST(DirtyMapTest, OneThreadIsTheFirstAndOneTakes) {
  for (int round = 0; round < 30; ++round) {
    DirtyMap map = make_map();
    std::vector<std::atomic<int>> added(4096);
    std::vector<std::atomic<int>> taken(4096);
    const auto in_threads = [](auto&& body) {
      std::thread a(body);
      std::thread b(body);
      a.join();
      b.join();
    };
    in_threads([&] {
      for (u64 line = 0; line < added.size(); ++line) added[line] += map.add_first(line) ? 1 : 0;
    });
    EXPECT_EQ(lines_of(map).size(), added.size());
    in_threads([&] {
      for (u64 line = 0; line < taken.size(); ++line) taken[line] += map.take(line) ? 1 : 0;
    });
    EXPECT_TRUE(map.empty());
    for (u64 line = 0; line < added.size(); ++line) {
      ASSERT_EQ(added[line], 1) << line;
      ASSERT_EQ(taken[line], 1) << line;
    }
  }
}

}  // namespace
}  // namespace perdura::test
