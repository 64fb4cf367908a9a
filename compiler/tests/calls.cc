// [CALLS [SEED]]: that many random calls of what perdura-clang does not compile, or not alone: of
// members of the standard library's containers, and of the C library's functions for which there
// are wrappers (compiler/pass/library_calls.inc), all of them. What they store to is in a store
// whose changes are compared with what was reported. Prints how many lines nobody reported: none.
#include <algorithm>
#include <deque>
#include <list>
#include <map>
#include <random>
#include <set>
#include <unordered_map>
#include <vector>

#include "calls_of_c.hpp"
#include "support.hpp"

namespace {

template <class T>
using In = perdura::Allocator<T>;
using Text = perdura::string;

struct Containers {
  std::vector<long, In<long>> vector;
  std::deque<long, In<long>> deque;
  std::list<int, In<int>> list;
  std::map<int, Text, std::less<>, In<std::pair<const int, Text>>> map;
  std::set<int, std::less<>, In<int>> set;
  std::multimap<int, long, std::less<>, In<std::pair<const int, long>>> multimap;
  std::unordered_map<int, long, std::hash<int>, std::equal_to<>, In<std::pair<const int, long>>>
      hash;
  Text text;
};

std::mt19937 draw;

unsigned below(std::size_t limit) { return static_cast<unsigned>(draw() % limit); }

/// Anywhere in a sequence, its end as well.
template <class Sequence>
auto somewhere(Sequence& all) {
  return std::next(all.begin(), below(all.size() + 1));
}

/// Keeps sizes where each call has something to do.
template <class Sequence>
void trim(Sequence& all) {
  if (all.size() > 600) all.resize(below(100));
}

template <class Sequence>
void call_sequence(Sequence& all) {
  const auto value = static_cast<typename Sequence::value_type>(draw());
  switch (below(9)) {
    case 0:
      all.push_back(value);
      break;
    case 1:
      all.emplace_back(value);
      break;
    case 2:
      all.insert(somewhere(all), value);
      break;
    case 3:
      all.insert(somewhere(all), below(9), value);
      break;
    case 4:
      if (!all.empty()) all.erase(std::next(all.begin(), below(all.size())));
      break;
    case 5:
      if (!all.empty()) all.pop_back();
      break;
    case 6:
      all.resize(below(200));
      break;
    case 7:
      for (auto& each : all) each = each * 3 + value;
      break;
    default: {
      Sequence other(below(50), value, all.get_allocator());
      all.swap(other);
      if (below(2) != 0) all = other;
      break;
    }
  }
  trim(all);
}

template <class Sequence>
void call_front(Sequence& all) {
  if (below(2) != 0) all.push_front(static_cast<int>(draw()));
  else if (!all.empty()) all.pop_front();
}

void call_list(std::list<int, In<int>>& list) {
  switch (below(7)) {
    case 0:
      list.sort();
      break;
    case 1:
      list.reverse();
      break;
    case 2:
      list.unique();
      break;
    case 3:
      if (list.size() > 1)
        list.splice(list.begin(), list, std::next(list.begin(), list.size() / 2), list.end());
      break;
    case 4: {
      std::list<int, In<int>> other(list.get_allocator());
      other.assign(below(20), 7);
      list.sort();
      list.merge(other);
      break;
    }
    case 5:
      list.remove_if([key = below(7)](int each) { return each % 7 == static_cast<int>(key); });
      break;
    default:
      call_front(list);
  }
}

template <class Map>
void call_map(Map& map, int key) {
  switch (below(6)) {
    case 0:
      map.erase(key);
      break;
    case 1:
      map.erase(map.lower_bound(key), map.upper_bound(key + static_cast<int>(below(5))));
      break;
    case 2: {
      auto taken = map.extract(key);
      if (taken.empty()) break;
      taken.key() = key + 1000;
      map.insert(std::move(taken));
      break;
    }
    case 3: {
      Map other(map.get_allocator());
      other.swap(map);
      if (below(20) != 0) map.swap(other);
      break;
    }
    default:
      map.emplace(key, typename Map::mapped_type());
  }
}

void call_set(std::set<int, std::less<>, In<int>>& set, int key) {
  if (below(2) != 0) set.insert(key);
  else if (below(2) != 0) set.erase(key);
  else set.insert(set.lower_bound(key), key + 1);
}

void call_hash(Containers& all, int key) {
  auto& hash = all.hash;
  switch (below(6)) {
    case 0:
      hash[key] += key;
      break;
    case 1:
      hash.erase(key);
      break;
    case 2:
      hash.rehash(below(3000));
      break;
    case 3:
      hash.reserve(below(2000));
      break;
    case 4: {
      auto other = hash;
      hash.swap(other);
      break;
    }
    default:
      hash.insert_or_assign(key, 5);
  }
  if (hash.size() > 1500) hash.clear();
}

void call_text(Text& text) {
  switch (below(8)) {
    case 0:
      text += "more";
      break;
    case 1:
      text.append(below(40), 'a');
      break;
    case 2:
      text.insert(below(text.size() + 1), "inserted");
      break;
    case 3:
      text.erase(below(text.size() + 1), 5);
      break;
    case 4:
      text.replace(below(text.size() + 1), 3, "replaced by this");
      break;
    case 5:
      text.resize(below(100), 'r');
      break;
    case 6:
      text.assign(below(60), 'z');
      break;
    default:
      text.shrink_to_fit();
  }
  if (text.size() > 500) text.clear();
}

void call_container(Containers& all) {
  const int key = static_cast<int>(below(1500));
  switch (below(10)) {
    case 0:
      return call_sequence(all.vector);
    case 1:
      return call_sequence(all.deque);
    case 2:
      return call_sequence(all.list);
    case 3:
      return call_front(all.deque);
    case 4:
      return call_list(all.list);
    case 5:
      if (below(3) == 0) return call_map(all.map, key);
      all.map.insert_or_assign(key, Text(below(60), 'm', all.map.get_allocator()));
      return;
    case 6:
      return call_set(all.set, key);
    case 7:
      return call_map(all.multimap, key);
    case 8:
      return call_hash(all, key);
    default:
      return call_text(all.text);
  }
}

constexpr unsigned kCallsAVersion = 250;
constexpr std::size_t kPlaces = 64;

}  // namespace

int main(int count, char** arguments) {
  const unsigned long calls = count > 1 ? std::strtoul(arguments[1], nullptr, 10) : 100'000;
  draw.seed(static_cast<unsigned>(count > 2 ? std::strtoul(arguments[2], nullptr, 10) : 1));
  CallsOfC of_c;
  const OwnStore own;
  perdura::Store store = own.open_verified();
  auto& containers = store.root<Containers>("containers");
  auto* const places = static_cast<char*>(store.allocate(kPlaces * CallsOfC::kPlaceBytes, 4096));
  for (unsigned long i = 0; i < calls; ++i) {
    if (i % kCallsAVersion == 0) store.checkpoint();
    if (below(2) != 0) call_container(containers);
    else of_c.call(places + below(kPlaces) * CallsOfC::kPlaceBytes, draw);
  }
  store.checkpoint();
  const auto unreported = store.statistics().unreported;
  std::printf("%lu\n", unreported);
  for (const std::string& each : store.unreported_stores())
    std::fprintf(stderr, "%s\n", each.c_str());
  store.close();
  return unreported == 0 ? 0 : 1;
}
