// Goal: in a store with aliases an object that is stored to is copied, with what is allocated in
// its part of the page and nothing else; memory, addresses and misuse behave as without aliases; a
// root becomes durable alone, new or old, and nothing else does. Method: real stores on files in
// memory, each kind of page tracker; the bytes of a version counted with comparing off; a process's
// death by dropping the store.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <vector>

#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/ledger.hpp"
#include "support/wrapped_store.hpp"

namespace perdura::test {
namespace {

struct Kind {
  const char* name;
  Tracking tracking;
};
constexpr Kind kKinds[] = {{"userfault", Tracking::kUserfault},
                           {"sigbus", Tracking::kSigbus},
                           {"protect", Tracking::kProtect}};

class ScatterTest : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    options_.tracking = GetParam().tracking;
    options_.region_limit_bytes = 64 * kMiB;
    options_.aliases = 2;
    options_.compare = false;
    try {
      open();
    } catch (const Error& error) {
      // No other failure is an excuse.
      if (error.code() != Code::kUnsupported) throw;
      GTEST_SKIP() << error.what();
    }
  }

  void open(const char* scheme = "emu:") {
    store_ = std::make_unique<WrappedStore>(scheme + folder_.path("state.pd"), options_);
  }
  void crash_and_open(const char* scheme = "emu:") {
    store_->crash();
    store_.reset();
    open(scheme);
  }
  char* allocate(size_t size, size_t alignment = 16) {
    return static_cast<char*>(store_->operation().allocate(size, alignment));
  }
  void name(const char* name, void* object) { store_->operation().set_root(name, object); }
  char* root(const char* name) { return static_cast<char*>(store_->get_root(name)); }
  /// Lines that a checkpoint of everything copies.
  u64 lines() {
    const u64 before = store_->statistics().changed_bytes;
    store_->checkpoint();
    return (store_->statistics().changed_bytes - before) / kLineBytes;
  }
  u64 offset_of(const void* object) { return store_->runtime().region().offset_of(object); }
  u64 alias_of(const void* object) {
    const region::Region& region = store_->runtime().region();
    return (static_cast<u64>(static_cast<const std::byte*>(object) - region.base()) /
            region.alias_stride()) -
           1;
  }

  const TempDir folder_{TempDir::kMemory};
  Options options_;
  std::unique_ptr<WrappedStore> store_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, ScatterTest, testing::ValuesIn(kKinds),
                         [](const auto& info) { return info.param.name; });

TEST_P(ScatterTest, AnObjectIsCopiedAndItsNeighboursAreNot) {
  // 16 blocks of 256 bytes fill a page; each half holds 8.
  std::vector<char*> objects(64);
  for (char*& object : objects) object = allocate(256);
  store_->checkpoint();
  EXPECT_EQ(lines(), 0U);
  for (char* object : objects) EXPECT_EQ(alias_of(object), offset_of(object) / 2048 % 2);
  // One whose page holds nothing but objects.
  char* const chosen = objects[40];
  const u64 half = offset_of(chosen) / 2048;
  *chosen = 1;
  u64 visible = 0;
  for (char* object : objects) visible += offset_of(object) / 2048 == half ? 1 : 0;
  EXPECT_EQ(visible, 8U);
  EXPECT_EQ(lines(), visible * 4);
  // Its neighbours in the half, once they are freed, are not copied.
  for (char*& object : objects)
    if (offset_of(object) / 2048 == half && object != chosen) {
      store_->operation().deallocate(object);
      object = nullptr;
    }
  store_->checkpoint();
  *chosen = 2;
  EXPECT_EQ(lines(), 4U);
  // The other half of the page is seen through the other alias.
  for (char* object : objects)
    if (object != nullptr && offset_of(object) / 2048 == (half ^ 1)) {
      *object = 3;
      break;
    }
  EXPECT_EQ(lines(), 32U);
}

TEST_P(ScatterTest, AnObjectThatCrossesBelongsToThePartItStartsIn) {
  std::vector<char*> objects(40);
  for (char*& object : objects) object = allocate(1280);
  store_->checkpoint();
  u64 crossings = 0;
  for (char* object : objects) {
    const u64 begin = offset_of(object);
    const u64 end = begin + 1280;
    EXPECT_EQ(alias_of(object), begin / 2048 % 2);
    if (begin / 4096 == (end - 1) / 4096) continue;
    ++crossings;
    // Stored to on the later page alone, where another object may start in the same part.
    object[1279] = 1;
    const u64 page = (end - 1) / 4096;
    u64 expected = (end - page * 4096) / 64;
    for (char* other : objects) {
      const u64 at = offset_of(other);
      if (at / 4096 == page && at / 2048 % 2 == begin / 2048 % 2)
        expected += (std::min(at + 1280, (page + 1) * 4096) - at) / 64;
    }
    EXPECT_EQ(lines(), expected);
  }
  EXPECT_GT(crossings, 5U);
}

TEST_P(ScatterTest, LargeBlocksAreSeenByThePage) {
  char* const block = allocate(300'000);
  store_->checkpoint();
  block[100'000] = 1;
  block[200'000] = 1;
  EXPECT_EQ(lines(), 128U);
}

TEST_P(ScatterTest, WithManyAliasesEachObjectIsAlone) {
  store_->close();
  store_.reset();
  std::filesystem::remove(folder_.path("state.pd"));
  options_.aliases = 256;
  options_.region_limit_bytes = 4 * kMiB;
  open();
  std::vector<char*> objects(400);
  for (char*& object : objects) object = allocate(64, 64);
  store_->checkpoint();
  *objects[350] = 1;
  *objects[380] = 1;
  EXPECT_EQ(lines(), 2U);
}

// Everything that a program does, beside a model of what the last version holds.
TEST_P(ScatterTest, RecoversWhatWasCheckpointed) {
  for (const char* scheme : {"emu:", "file:"}) {
    store_->close();
    store_.reset();
    std::filesystem::remove(folder_.path("state.pd"));
    open(scheme);
    std::mt19937_64 random(7);
    struct Object {
      char* at;
      size_t size;
      char fill;
    };
    std::vector<Object> objects;
    std::vector<Object> durable;
    for (int round = 0; round < 60; ++round) {
      for (int i = 0; i < 200; ++i) {
        const u64 what = random() % 4;
        if (what == 0 && !objects.empty()) {
          const size_t which = random() % objects.size();
          store_->operation().deallocate(objects[which].at);
          objects[which] = objects.back();
          objects.pop_back();
        } else if (what == 1 && !objects.empty()) {
          Object& object = objects[random() % objects.size()];
          object.fill = static_cast<char>(random());
          std::memset(object.at, object.fill, object.size);
        } else {
          const size_t size = random() % 50 == 0 ? 70'000 : 1 + random() % 700;
          objects.push_back({allocate(size), size, static_cast<char>(random())});
          std::memset(objects.back().at, objects.back().fill, size);
        }
      }
      if (random() % 4 != 0) {
        store_->checkpoint();
        durable = objects;
      }
      if (random() % 5 == 0) {
        crash_and_open(scheme);
        objects = durable;
        const HeapAudit audit = store_->audit();
        ASSERT_TRUE(audit.clean) << audit.problem;
        ASSERT_EQ(audit.live_blocks, objects.size());
        for (const Object& object : objects)
          for (size_t i = 0; i < object.size; ++i) ASSERT_EQ(object.at[i], object.fill) << round;
      }
    }
  }
}

TEST_P(ScatterTest, RefusesAddressesItDidNotGiveOut) {
  char* const object = allocate(100);
  const region::Region& region = store_->runtime().region();
  auto& heap = store_->runtime().heap();
  detail::Mutator& mutator = store_->runtime().mutators().this_thread();
  const auto free = [&](void* address) {
    detail::enter(mutator);
    const Status status = heap.deallocate(mutator, address);
    detail::leave(mutator);
    return Result<int>(status ? Result<int>(0) : Result<int>(status.failure()));
  };
  char* const other = object + (alias_of(object) == 0 ? 1 : -1) *
                                   static_cast<std::ptrdiff_t>(region.alias_stride());
  expect_failure(free(other), Code::kMisuse, "not an address that this store gave out");
  expect_failure(free(object - (alias_of(object) + 1) * region.alias_stride()), Code::kMisuse,
                 "not an address that this store gave out");
  expect_failure(free(object + 16), Code::kMisuse, "inside a block");
  expect_failure(free(&heap), Code::kMisuse, "not a block of this store");
  ASSERT_TRUE(free(object));
  expect_failure(free(object), Code::kMisuse, "freed before");
}

TEST_P(ScatterTest, AliasesAreTheStores) {
  store_->close();
  store_.reset();
  options_.aliases = 4;
  const std::string uri = "emu:" + folder_.path("state.pd");
  expect_failure(detail::Runtime::open(uri, options_), Code::kInvalidArgument,
                 "was created with 2 aliases, not 4");
  options_.aliases = 3;
  expect_failure(detail::Runtime::open(uri, options_), Code::kInvalidArgument, "a power of two");
  options_.aliases = 0;
  open();
  EXPECT_EQ(store_->statistics().aliases, 2U);
  store_->close();
  store_.reset();
  options_.tracking = Tracking::kReported;
  expect_failure(detail::Runtime::open(uri, options_), Code::kInvalidArgument,
                 "open it with a page tracker");
}

// --- one root alone ------------------------------------------------------------------------------

struct Item {
  u64 value;
  u64 rest[40];
};

class RootAloneTest : public ScatterTest {
 protected:
  Item* make(const char* root_name, u64 value) {
    detail::Mutator& mutator = store_->runtime().mutators().this_thread();
    detail::enter(mutator);
    auto block = store_->runtime().heap().allocate_apart(mutator, sizeof(Item));
    detail::leave(mutator);
    auto* item = static_cast<Item*>(value_or_throw(std::move(block)));
    fill(item, value);
    name(root_name, item);
    return item;
  }
  static void fill(Item* item, u64 value) {
    item->value = value;
    for (u64& rest : item->rest) rest = value;
  }
  void remove(const char* root_name) {
    char* const object = root(root_name);
    name(root_name, nullptr);
    store_->operation().deallocate(object);
  }
  void make_durable(const char* root_name) {
    value_or_throw(store_->runtime().checkpoint_root(root_name));
  }
  /// Of a root, whole; 0 when there is none.
  u64 value(const char* root_name) {
    const auto* item = reinterpret_cast<const Item*>(root(root_name));
    if (item == nullptr) return 0;
    for (const u64 rest : item->rest) EXPECT_EQ(rest, item->value);
    return item->value;
  }
  /// After the process's death: the roots there are, each a block beside its node.
  void expect_after_crash(const std::map<std::string, u64>& expected) {
    crash_and_open();
    const HeapAudit audit = store_->audit();
    EXPECT_TRUE(audit.clean) << audit.problem;
    EXPECT_EQ(audit.roots, expected.size());
    EXPECT_EQ(audit.live_blocks, 2 * expected.size());
    for (const auto& [name, value] : expected) EXPECT_EQ(this->value(name.c_str()), value) << name;
  }
};

INSTANTIATE_TEST_SUITE_P(Kinds, RootAloneTest, testing::ValuesIn(kKinds),
                         [](const auto& info) { return info.param.name; });

TEST_P(RootAloneTest, WhatTheLastVersionHas) {
  Item* a = make("a", 1);
  Item* b = make("b", 1);
  store_->checkpoint();
  fill(a, 2);
  fill(b, 2);
  make_durable("a");
  expect_after_crash({{"a", 2}, {"b", 1}});
  // And the next version of everything has both.
  a = reinterpret_cast<Item*>(root("a"));
  b = reinterpret_cast<Item*>(root("b"));
  fill(a, 3);
  fill(b, 3);
  make_durable("b");
  fill(b, 4);
  store_->checkpoint();
  expect_after_crash({{"a", 3}, {"b", 4}});
}

TEST_P(RootAloneTest, WhatIsNewer) {
  make("old", 1);
  store_->checkpoint();
  fill(reinterpret_cast<Item*>(root("old")), 2);
  make("left out", 5);
  make("new", 7);
  make("left out as well", 6);
  for (int i = 0; i < 3000; ++i) allocate(16 + i % 900);  // nothing refers to these
  make_durable("new");
  fill(reinterpret_cast<Item*>(root("new")), 8);
  make_durable("new");
  make("newer", 9);
  make_durable("newer");
  expect_after_crash({{"old", 1}, {"new", 8}, {"newer", 9}});
}

TEST_P(RootAloneTest, WhatIsNewIsWholeAfterAVersionOfEverything) {
  make("a", 1);
  make_durable("a");
  make("b", 2);
  make("c", 3);
  make_durable("c");
  remove("a");
  store_->checkpoint();
  make("d", 4);
  make_durable("d");
  expect_after_crash({{"b", 2}, {"c", 3}, {"d", 4}});
  remove("c");
  store_->checkpoint();
  expect_after_crash({{"b", 2}, {"d", 4}});
}

TEST_P(RootAloneTest, WhatWasRemovedStaysUntilAVersionOfEverything) {
  make("a", 1);
  make("b", 2);
  make("c", 3);
  store_->checkpoint();
  remove("b");
  make("d", 4);
  make_durable("c");
  const auto made = store_->runtime().checkpoint_root("d");
  // Its place may have been b's.
  if (!made) expect_failure(made, Code::kMisuse, "cannot become durable by itself");
  std::map<std::string, u64> expected{{"a", 1}, {"b", 2}, {"c", 3}};
  if (made) expected["d"] = 4;
  expect_after_crash(expected);
}

// The place of "a" becomes the beginning of a larger block, which reaches over "b".
TEST_P(RootAloneTest, ALargerBlockAtTheSamePlaceIsAnotherObject) {
  constexpr size_t kUnit = 64 * kKiB;
  char* const a = allocate(kUnit);
  char* const b = allocate(kUnit);
  ASSERT_EQ(b, a + kUnit);
  std::memset(a, 'a', kUnit);
  std::memset(b, 'b', kUnit);
  name("a", a);
  name("b", b);
  store_->checkpoint();
  // Also where the program forgets that the root leads there.
  const bool keeps_root = GetParam().tracking == Tracking::kProtect;
  if (!keeps_root) name("a", nullptr);
  name("b", nullptr);
  store_->operation().deallocate(a);
  store_->operation().deallocate(b);
  char* const both = allocate(2 * kUnit);
  ASSERT_EQ(both, a);
  std::memset(both, 'x', 2 * kUnit);
  if (!keeps_root) name("a", both);
  expect_failure(store_->runtime().checkpoint_root("a"), Code::kMisuse, "another object's");
  crash_and_open();
  EXPECT_EQ(std::string(root("a"), kUnit), std::string(kUnit, 'a'));
  EXPECT_EQ(std::string(root("b"), kUnit), std::string(kUnit, 'b'));
  EXPECT_TRUE(store_->audit().clean) << store_->audit().problem;
}

// The same of small blocks: the slab becomes one of blocks twice as large.
TEST_P(RootAloneTest, ABlockOfAnotherClassAtTheSamePlaceIsAnotherObject) {
  std::vector<char*> all(3000);
  for (char*& each : all) each = allocate(64, 64);
  const auto first = std::find_if(all.begin() + 1500, all.end(),
                                  [this](char* each) { return offset_of(each) % 128 == 0; });
  ASSERT_NE(first, all.end());
  char* const a = *first;
  const auto second = std::find_if(
      all.begin(), all.end(), [&](char* each) { return offset_of(each) == offset_of(a) + 64; });
  ASSERT_NE(second, all.end());
  char* const b = *second;
  std::memset(a, 'a', 64);
  std::memset(b, 'b', 64);
  name("a", a);
  name("b", b);
  store_->checkpoint();
  name("a", nullptr);
  name("b", nullptr);
  for (char* each : all) store_->operation().deallocate(each);
  char* both = nullptr;
  for (int i = 0; i < 6000 && both != a; ++i) both = allocate(128, 64);
  ASSERT_EQ(both, a);
  std::memset(both, 'x', 128);
  name("a", both);
  expect_failure(store_->runtime().checkpoint_root("a"), Code::kMisuse, "another object's");
  crash_and_open();
  EXPECT_EQ(std::string(root("a"), 64), std::string(64, 'a'));
  EXPECT_EQ(std::string(root("b"), 64), std::string(64, 'b'));
}

// A slab that had no block when the version was made is no object's place.
TEST_P(RootAloneTest, AnEmptySlabAtTheSamePlaceGivesWay) {
  char* const first = allocate(12 * kKiB);
  store_->operation().deallocate(first);
  store_->checkpoint();
  // Where space runs out the empty slab becomes units again.
  EXPECT_THROW(allocate(size_t{1} << 46), Error);
  const Item* const item = make("a", 1);
  ASSERT_LE(offset_of(reinterpret_cast<const char*>(item)), offset_of(first) + 12 * kKiB);
  make_durable("a");
  expect_after_crash({{"a", 1}});
  fill(reinterpret_cast<Item*>(root("a")), 2);
  make("b", 3);
  store_->checkpoint();
  expect_after_crash({{"a", 2}, {"b", 3}});
}

TEST_P(RootAloneTest, RefusesWhatItCannotDo) {
  make("a", 1);
  name("shares", allocate(100));
  expect_failure(store_->runtime().checkpoint_root("none"), Code::kNotFound, "is called 'none'");
  expect_failure(store_->runtime().checkpoint_root("shares"), Code::kInvalidArgument,
                 "shares lines with others");
  {
    const auto op = store_->operation();
    expect_failure(store_->runtime().checkpoint_root("a"), Code::kMisuse, "inside an operation");
  }
  store_->checkpoint();
  remove("a");
  make("a", 2);
  const auto again = store_->runtime().checkpoint_root("a");
  if (!again) expect_failure(again, Code::kMisuse, "another object's");
  WrappedStore plain("emu:" + folder_.path("plain.pd"), {.region_limit_bytes = 64 * kMiB});
  expect_failure(plain.runtime().checkpoint_root("a"), Code::kUnsupported, "has no aliases");
}

// Random histories of names, against the two states that matter: what there is, and what is
// durable.
TEST_P(RootAloneTest, AnyHistory) {
  u64 asked = 0;
  u64 made = 0;
  for (u64 seed = 0; seed < 30; ++seed) {
    store_->close();
    store_.reset();
    std::filesystem::remove(folder_.path("state.pd"));
    open();
    std::mt19937_64 random(seed);
    std::map<std::string, u64> now;
    std::map<std::string, u64> durable;
    for (u64 step = 1; step < 60; ++step) {
      const std::string each = "root " + std::to_string(random() % 8);
      switch (random() % 8) {
        case 0:
        case 1:
        case 2:
          if (now.contains(each)) fill(reinterpret_cast<Item*>(root(each.c_str())), step);
          else make(each.c_str(), step);
          now[each] = step;
          break;
        case 3:
          if (now.erase(each) != 0) remove(each.c_str());
          break;
        case 4:
          store_->checkpoint();
          durable = now;
          break;
        case 5:
        case 6:
          if (now.contains(each)) ++asked;
          if (now.contains(each) && store_->runtime().checkpoint_root(each) && ++made != 0)
            durable[each] = now[each];
          break;
        default:
          if (random() % 3 != 0) break;
          expect_after_crash(durable);
          if (HasFailure()) FAIL() << "seed " << seed << ", step " << step;
          now = durable;
      }
    }
  }
  // But for names that the last version knows as another object's.
  EXPECT_GT(made * 2, asked) << made << " of " << asked;
}

// As forged: where a block lies is asked for before anything else has looked at the table.
TEST_P(ScatterTest, AForgedTableOfUnitsIsRefusedWithoutACrash) {
  for (const format::UnitEntry forged :
       {format::UnitEntry{format::UnitKind::kSlabTail, 0, 0, 0xfffffff0},
        format::UnitEntry{format::UnitKind::kSlab, 250, 1, 1},
        format::UnitEntry{format::UnitKind::kSlab, 39, 1, 8}}) {
    char* const block = allocate(16);
    name("root", block);
    std::byte* const base = store_->runtime().region().base();
    const auto& header = *reinterpret_cast<const format::HeapHeader*>(base);
    const u64 unit = (offset_of(block) - header.data_begin) / format::kUnitBytes;
    auto& entry = reinterpret_cast<format::UnitEntry*>(base + format::kUnitTableOffset)[unit];
    store_->operation().touch(&entry, sizeof entry);
    entry = forged;
    store_->checkpoint();
    crash_and_open();
    EXPECT_NE(root("root"), nullptr);
    EXPECT_FALSE(store_->audit().clean);
    EXPECT_THROW(allocate(16), Error);
    store_->close();
    store_.reset();
    std::filesystem::remove(folder_.path("state.pd"));
    open();
  }
}

// --- mappings ------------------------------------------------------------------------------------

u64 mappings() {
  std::ifstream maps("/proc/self/maps");
  u64 count = 0;
  for (std::string line; std::getline(maps, line);) ++count;
  return count;
}

TEST_P(ScatterTest, ManyObjectsTakeFewMappings) {
  store_->close();
  store_.reset();
  std::filesystem::remove(folder_.path("state.pd"));
  options_.region_limit_bytes = 4 * kGiB;
  open();
  const u64 before = mappings();
  const u64 count = 400'000;
  std::vector<char*> objects(count);
  for (u64 i = 0; i < count; ++i) {
    objects[i] = allocate(16 + test::mix(i) % 241);
    *objects[i] = static_cast<char>(i);
  }
  store_->checkpoint();
  for (u64 i = 0; i < count; i += 3) *objects[i] = static_cast<char>(i + 1);
  const u64 limit = GetParam().tracking == Tracking::kProtect ? 60'000 : 100;
  EXPECT_LE(mappings(), before + limit);
  store_->checkpoint();
  for (u64 i = 0; i < count; ++i) ASSERT_EQ(*objects[i], static_cast<char>(i % 3 == 0 ? i + 1 : i));
}

}  // namespace
}  // namespace perdura::test
