// Goal: what docs/structures.md says of a program's own structures with containers in them: they
// are kept, each member that reports itself; a plain member is not where only reported stores
// count, and verify_reports finds that. Method: a cache of texts that forgets what was used longest
// ago, as a program would write it, in a child process that ends without closing its store. What is
// there then is compared with the same cache of the standard's containers.
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <random>
#include <string>

#include <perdura/perdura.hpp>
#include <perdura/structures/hash_map.hpp>
#include <perdura/structures/list.hpp>
#include <perdura/structures/string.hpp>

#include "support/files.hpp"
#include "support/process.hpp"

namespace {

struct Entry {
  perdura::structures::string key, value;
  perdura::Field<long> hits;
};

}  // namespace

template <>
inline constexpr bool perdura::kReportsItself<Entry> = true;

namespace perdura::test {
namespace {

using structures::hash_map, structures::list, structures::string;

constexpr size_t kEntriesMax = 50;
constexpr u64 kCallsInALife = 500;

struct Cache {
  list<Entry> order;  // what was used last comes first
  hash_map<string, list<Entry>::iterator> index;
  Field<long> misses;
  long plain = 0;

  void use(const std::string& key) {
    if (const auto found = index.find(key); found != index.end()) {
      order.splice(order.begin(), order, found->second.get());
      ++order.front().hits;
      return;
    }
    ++misses;
    order.push_front(Entry{string(key), string("the value of " + key), {}});
    index.try_emplace(string(key), order.begin());
    if (order.size() <= kEntriesMax) return;
    index.erase(order.back().key);
    order.pop_back();
  }
};

struct Model {
  std::list<std::pair<std::string, long>> order;
  long misses = 0;

  void use(const std::string& key) {
    const auto found = std::find_if(order.begin(), order.end(),
                                    [&](const auto& each) { return each.first == key; });
    if (found != order.end()) {
      order.splice(order.begin(), order, found);
      ++order.front().second;
      return;
    }
    ++misses;
    order.emplace_front(key, 0);
    if (order.size() > kEntriesMax) order.pop_back();
  }
};

/// The same keys whenever it begins with the same number.
template <class Used>
void use_for_a_life(Used& used, u64 life) {
  std::mt19937_64 random(life);
  for (u64 i = 0; i < kCallsInALife; ++i) used.use("key number " + std::to_string(random() % 120));
}

std::string difference(Cache& cache, const Model& model) {
  if (cache.order.size() != model.order.size() || cache.index.size() != model.order.size())
    return "there are " + std::to_string(cache.order.size()) + " entries, " +
           std::to_string(cache.index.size()) + " of them in the index";
  if (cache.misses != model.misses) return "misses";
  auto wanted = model.order.begin();
  for (auto at = cache.order.begin(); at != cache.order.end(); ++at, ++wanted) {
    if (at->key != wanted->first || at->value != "the value of " + wanted->first) return "an entry";
    if (at->hits != wanted->second) return "hits of " + wanted->first;
    if (cache.index.find(wanted->first)->second.get() != at) return "the index";
  }
  return "";
}

class StructuresDoc : public testing::TestWithParam<Tracking> {
 protected:
  Options options() const {
    Options options;
    options.region_limit_bytes = 64 * kMiB;
    options.tracking = GetParam();
    return options;
  }
  const TempDir folder_{TempDir::kMemory};
};

TEST_P(StructuresDoc, AProgramsOwnStructuresAreKept) {
  Model model;
  for (u64 life = 0; life < 5; ++life) {
    Child child([&] {
      // It is never closed.
      Store& store = *new Store(Store::open(folder_.path("cache.pd"), options()));
      auto& cache = store.root<Cache>("cache");
      std::string problem = difference(cache, model);
      {
        const auto operation = store.operation();
        use_for_a_life(cache, life);
      }
      store.checkpoint();
      cache.use("in no version");
      return problem;
    });
    ASSERT_EQ(child.wait(), "") << "life " << life;
    use_for_a_life(model, life);
  }
}

TEST_P(StructuresDoc, PlainMembersAreFoundByPageAlone) {
  for (long run = 0; run < 3; ++run) {
    Child child([&] {
      Options chosen = options();
      const bool reported = chosen.tracking == Tracking::kReported;
      chosen.verify_reports = reported;
      Store& store = *new Store(Store::open(folder_.path("cache.pd"), chosen));
      auto& cache = store.root<Cache>("cache");
      store.checkpoint();  // a root that was made just now is reported whole
      if (cache.plain != (reported ? 0 : run)) return "it is " + std::to_string(cache.plain);
      {
        const auto operation = store.operation();
        ++cache.plain;
      }
      store.checkpoint();
      return std::string(store.unreported_stores().empty() == reported ? "it was not found" : "");
    });
    ASSERT_EQ(child.wait(), "") << "run " << run;
  }
}

INSTANTIATE_TEST_SUITE_P(Trackers, StructuresDoc,
                         testing::Values(Tracking::kAutomatic, Tracking::kReported),
                         [](const auto& info) {
                           return info.param == Tracking::kReported ? "Reported" : "Automatic";
                         });

}  // namespace
}  // namespace perdura::test
