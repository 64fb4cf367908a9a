// What the tests of reporting containers share: random calls on a map and on the standard's at the
// same time, and a store that is dropped as a crash would drop it and opened again.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <utility>

#include <perdura/structures/string.hpp>

#include <perdura/perdura.hpp>
#include "base/bits.hpp"
#include "support/files.hpp"

namespace perdura::test {

using Text = structures::string;

struct Pair {
  u64 first;
  u32 second;
  bool operator==(const Pair&) const = default;
};

inline std::string text_of(u64 number) {
  return std::string(number % 3 == 0 ? 40 : number % 3, 'x') + std::to_string(number);
}

template <class Map, class Model, class KeyOf, class ValueOf>
void random_calls(Map& map, Model& model, u64 calls, u64 keys, u64 seed, KeyOf&& key_of,
                  ValueOf&& value_of) {
  std::mt19937_64 random(seed);
  for (u64 i = 0; i < calls; ++i) {
    const auto key = key_of(random() % keys);
    const auto value = value_of(random() % 1000);
    switch (random() % 16) {
      case 0:
      case 1:
      case 2: {
        const bool made = map.try_emplace(key, value).second;
        ASSERT_EQ(made, model.try_emplace(key, value).second);
        break;
      }
      case 3:
      case 4: {
        const bool made = map.insert_or_assign(key, value).second;
        ASSERT_EQ(made, model.insert_or_assign(key, value).second);
        break;
      }
      case 5:
      case 6:
        map[key] = value;
        model[key] = value;
        break;
      case 7:
      case 8:
      case 9:
        ASSERT_EQ(map.erase(key), model.erase(key));
        break;
      case 10: {
        const auto found = map.find(key);
        ASSERT_EQ(found != map.end(), model.contains(key));
        if (found == map.end()) break;
        map.erase(found);
        model.erase(key);
        break;
      }
      case 11:
        if (random() % 4000 == 0) {
          map.clear();
          model.clear();
        }
        if constexpr (requires { map.reserve(keys); })
          if (random() % 1000 == 0) map.reserve(random() % (2 * keys));
        break;
      default: {
        const auto found = std::as_const(map).find(key);
        const auto expected = model.find(key);
        ASSERT_EQ(found == map.cend(), expected == model.end());
        if (expected != model.end()) {
          ASSERT_TRUE(found->second == expected->second);
        }
      }
    }
    ASSERT_EQ(map.size(), model.size());
  }
}

template <class Map, class Model>
void expect_same(const Map& map, const Model& model) {
  u64 count = 0;
  for (const auto& [key, value] : map) {
    ++count;
    const auto found = model.find(typename Model::key_type(key));
    ASSERT_NE(found, model.end());
    ASSERT_TRUE(value == found->second);
  }
  ASSERT_EQ(count, model.size());
  ASSERT_EQ(map.size(), model.size());
}

inline u64 number(u64 value) { return value; }
inline Pair pair_of(u64 value) { return {value, static_cast<u32>(value * 3)}; }

inline Options options() {
  Options options;
  options.region_limit_bytes = 64 * kMiB;
  options.tracking = Tracking::kReported;
  return options;
}

/// What the program has allocated: what a store has learnt of types stays.
inline u64 objects_in(const Store& store) {
  const HeapAudit audit = store.audit();
  return audit.live_blocks - audit.types;
}

class ContainerTest : public ::testing::TestWithParam<const char*> {
 protected:
  ContainerTest() { open(); }
  void open(const Options& chosen = options()) {
    store_.reset();
    store_.emplace(Store::open(std::string(GetParam()) + folder_.path("store.pd"), chosen));
  }
  /// As a kill leaves it: no last checkpoint is taken where an exception destroys a store.
  void crash_and_open() {
    try {
      const Store store = std::move(*store_);
      throw 1;
    } catch (int thrown) {
      ASSERT_EQ(thrown, 1);
    }
    open();
  }

  const TempDir folder_{TempDir::kMemory};
  std::optional<Store> store_;
};

}  // namespace perdura::test
