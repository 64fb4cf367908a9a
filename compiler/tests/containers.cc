// The standard library's containers in a store of a program that reports by itself, beside the same
// ones outside of it.
#include <deque>
#include <forward_list>
#include <functional>
#include <list>
#include <map>
#include <random>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "support.hpp"

namespace {

template <class T>
using In = perdura::Allocator<T>;
using Text = perdura::string;

struct Inside {
  std::map<int, Text, std::less<>, In<std::pair<const int, Text>>> map;
  std::multiset<int, std::less<>, In<int>> set;
  std::unordered_map<int, long, std::hash<int>, std::equal_to<>, In<std::pair<const int, long>>>
      hash;
  std::unordered_multiset<int, std::hash<int>, std::equal_to<>, In<int>> bag;
  std::list<int, In<int>> list;
  std::forward_list<int, In<int>> forward;
  std::deque<long, In<long>> deque;
  std::vector<long, In<long>> vector;
  std::vector<bool, In<bool>> bits;
};
struct Outside {
  std::map<int, std::string> map;
  std::multiset<int> set;
  std::unordered_map<int, long> hash;
  std::unordered_multiset<int> bag;
  std::list<int> list;
  std::forward_list<int> forward;
  std::deque<long> deque;
  std::vector<long> vector;
  std::vector<bool> bits;
};

constexpr int kSteps = 60'000;
constexpr int kStepsAVersion = 2'000;
constexpr int kKeys = 3'000;

std::string text_of(int key, unsigned drawn) {
  return std::string(drawn % 60, 'a' + static_cast<char>(key % 26));
}

template <class All>
void step(All& all, unsigned what, int key, unsigned drawn) {
  switch (what) {
    case 0:
      all.map[key] = text_of(key, drawn).c_str();
      break;
    case 1:
      all.map.erase(key);
      break;
    case 2:
      all.map.erase(all.map.lower_bound(key), all.map.lower_bound(key + 5));
      break;
    case 3:
      all.map[key] += "more";
      break;
    case 4:
      all.set.insert(key % 100);
      break;
    case 5:
      all.set.erase(key % 100);
      break;
    case 6:
      all.hash[key] += drawn;
      break;
    case 7:
      all.hash.erase(key);
      break;
    case 8:
      if (drawn % 64 == 0) all.hash.rehash(drawn % 5'000);
      break;
    case 9:
      all.bag.insert(key % 200);
      break;
    case 10:
      all.bag.erase(key % 200);
      break;
    case 11:
      all.list.push_back(key);
      break;
    case 12:
      if (drawn % 64 == 0) all.list.sort();
      break;
    case 13:
      if (drawn % 32 == 0) all.list.reverse();
      break;
    case 14: {
      if (all.list.size() < 2) break;
      auto half = all.list.begin();
      std::advance(half, all.list.size() / 2);
      all.list.splice(all.list.begin(), all.list, half, all.list.end());
      break;
    }
    case 15:
      all.list.remove_if([&](int each) { return each % 7 == key % 7; });
      break;
    case 16:
      all.forward.push_front(key);
      break;
    case 17:
      if (!all.forward.empty()) all.forward.erase_after(all.forward.before_begin());
      break;
    case 18:
      all.deque.push_front(key);
      break;
    case 19:
      all.deque.push_back(key);
      break;
    case 20:
      if (all.deque.size() > 10) all.deque.erase(all.deque.begin() + static_cast<int>(drawn % 10));
      break;
    case 21:
      all.vector.push_back(key);
      break;
    case 22:
      if (!all.vector.empty())
        all.vector.insert(all.vector.begin() + drawn % static_cast<unsigned>(all.vector.size()), 3,
                          key);
      break;
    case 23:
      if (all.vector.size() > 500) all.vector.resize(all.vector.size() / 2);
      break;
    case 24:
      for (long& each : all.vector) each = (each * 3 + 1) % 1'000'003;
      break;
    case 25:
      all.bits.push_back(drawn % 2 != 0);
      break;
    case 26:
      if (!all.bits.empty()) all.bits[drawn % all.bits.size()].flip();
      break;
    case 27:
      if (all.bits.size() > 2'000) all.bits.resize(10);
      break;
    case 28:
      std::sort(all.vector.begin(), all.vector.end());
      break;
    case 29: {
      auto taken = all.map.extract(key);
      if (taken.empty()) break;
      taken.key() = key + kKeys;
      all.map.insert(std::move(taken));
      break;
    }
    default:
      break;
  }
}
constexpr unsigned kKinds = 30;

template <class A, class B>
bool same(const A& one, const B& other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end());
}

void expect_same(const Inside& inside, const Outside& outside) {
  EXPECT(std::equal(inside.map.begin(), inside.map.end(), outside.map.begin(), outside.map.end(),
                    [](const auto& one, const auto& other) {
                      return one.first == other.first &&
                             std::string_view(one.second) == std::string_view(other.second);
                    }));
  EXPECT(same(inside.set, outside.set));
  EXPECT(inside.hash.size() == outside.hash.size());
  for (const auto& [key, value] : outside.hash) EXPECT(inside.hash.at(key) == value);
  EXPECT(inside.bag.size() == outside.bag.size());
  EXPECT(same(inside.list, outside.list));
  EXPECT(same(inside.forward, outside.forward));
  EXPECT(same(inside.deque, outside.deque));
  EXPECT(same(inside.vector, outside.vector));
  EXPECT(same(inside.bits, outside.bits));
}

}  // namespace

int main() {
  const OwnStore own;
  Outside outside;
  std::mt19937 draw(7);
  for (const bool verified : {true, false, true}) {
    perdura::Store store = verified ? own.open_verified() : own.open();
    Inside& inside = store.root<Inside>("inside");
    expect_same(inside, outside);
    for (int i = 0; i < kSteps; ++i) {
      const unsigned what = draw() % kKinds;
      const int key = static_cast<int>(draw() % kKeys);
      const unsigned drawn = draw();
      step(inside, what, key, drawn);
      step(outside, what, key, drawn);
      if (i % kStepsAVersion == 0) store.checkpoint();
    }
    store.checkpoint();
    expect_reported(store);
    store.close();
  }
  return 0;
}
