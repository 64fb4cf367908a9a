// Goal: the heap gives out memory that is aligned, large enough and nobody else's; it refuses
// misuse with a sentence; it survives threads that free each other's blocks and end; a crash takes
// allocations back; a full region can still free and checkpoint.
// Method: calls on a real store in a file, a model of the live blocks beside them, and an audit of
// all metadata after each test. A crash is simulated by dropping the store without closing it.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "support/files.hpp"
#include "support/ledger.hpp"
#include "support/wrapped_store.hpp"

namespace perdura::test {
namespace {

Options small_region(u64 limit_bytes = 64 * kMiB) {
  Options options;
  options.region_limit_bytes = limit_bytes;
  return options;
}

class Heap : public testing::Test {
 protected:
  std::string uri() const { return "emu:" + folder_.path("heap.pd"); }

  static Code code_of(const std::function<void()>& call, std::string* text = nullptr) {
    try {
      call();
    } catch (const Error& error) {
      if (text != nullptr) *text = error.what();
      return error.code();
    }
    return Code::kOk;
  }
  static void expect_misuse(WrappedStore& store, void* block, const std::string& sentence) {
    std::string text;
    EXPECT_EQ(code_of([&] { store.operation().deallocate(block); }, &text), Code::kMisuse);
    EXPECT_NE(text.find(sentence), text.npos) << text;
  }
  static void expect_clean(WrappedStore& store, u64 live_blocks) {
    const HeapAudit audit = store.audit();
    EXPECT_TRUE(audit.clean) << audit.problem;
    EXPECT_EQ(audit.live_blocks, live_blocks);
  }

  const TempDir folder_{TempDir::kMemory};
};

TEST_F(Heap, BlocksAreAlignedLargeEnoughAndApart) {
  WrappedStore store(uri(), small_region());
  std::map<std::uintptr_t, u64> blocks;
  for (u64 alignment : {1, 16, 32, 64, 256, 4096, 8192, 65536, 1 << 20}) {
    for (u64 size : {0,    1,    15,   16,   17,    128,   129,   160,   161,   1000,
                     2048, 2049, 8192, 8193, 32767, 32768, 32769, 65536, 65537, 300000}) {
      const auto op = store.operation();
      void* block = op.allocate(size, alignment);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % std::max<u64>(alignment, 16), 0u)
          << size << " aligned to " << alignment;
      const u64 usable = value_or_throw(store.runtime().heap().usable(block)).bytes;
      EXPECT_GE(usable, size);
      EXPECT_TRUE(blocks.emplace(reinterpret_cast<std::uintptr_t>(block), usable).second);
      std::memset(block, 0xaa, usable);
    }
  }
  std::uintptr_t end = 0;
  for (const auto& [begin, usable] : blocks) {
    EXPECT_GE(begin, end) << "blocks overlap";
    end = begin + usable;
  }
  expect_clean(store, blocks.size());
}

TEST_F(Heap, AlignmentHoldsInARegionAtAnOddPage) {
  Options options = small_region();
  options.region_address = 0x5500'4000'3000;
  WrappedStore store(uri(), options);
  for (u64 alignment : {64, 4096, 8192, 32768, 65536}) {
    std::string text;
    void* block = nullptr;
    const Code code = code_of([&] { block = store.operation().allocate(100, alignment); }, &text);
    if (code == Code::kOk)
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0u) << alignment;
    else EXPECT_EQ(code, Code::kInvalidArgument) << text;
  }
}

TEST_F(Heap, RefusesImpossibleRequests) {
  WrappedStore store(uri(), small_region());
  EXPECT_EQ(code_of([&] { store.operation().allocate(10, 48); }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([&] { store.operation().allocate(10, 0); }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([&] { store.operation().allocate(~u64{0}); }), Code::kNoSpace);
  EXPECT_EQ(code_of([&] { store.operation().allocate(u64{1} << 63); }), Code::kNoSpace);
  EXPECT_EQ(code_of([&] { store.operation().allocate(65 * kMiB); }), Code::kNoSpace);
  expect_clean(store, 0);
}

TEST_F(Heap, MisuseIsRefusedWithASentence) {
  WrappedStore store(uri(), small_region());
  const auto allocate = [&](u64 size) {
    return static_cast<std::byte*>(store.operation().allocate(size));
  };
  std::byte* small = allocate(100);
  std::byte* large = allocate(200'000);
  expect_misuse(store, small + 16, "inside a block");
  expect_misuse(store, large + 16, "inside a block");
  expect_misuse(store, large + 70'000, "not allocated");
  int on_the_stack = 0;
  expect_misuse(store, &on_the_stack, "not a block of this store");
  expect_misuse(store, store.runtime().region().base(), "never allocated");
  expect_misuse(store, store.runtime().region().base() + 32 * kMiB, "never allocated");
  store.operation().deallocate(nullptr);
  store.operation().deallocate(small);
  store.operation().deallocate(large);
  expect_misuse(store, small, "freed before");
  expect_misuse(store, large, "not allocated");
  std::thread([&] { expect_misuse(store, small, "freed before"); }).join();
  std::string text;
  EXPECT_EQ(code_of([&] { value_or_throw(store.runtime().heap().usable(&on_the_stack)); }),
            Code::kMisuse);
  expect_clean(store, 0);
}

// The table of free units is built when the first is wanted: a free may come before that.
TEST_F(Heap, FreesBeforeTheFirstAllocationAfterOpening) {
  void* small = nullptr;
  void* large = nullptr;
  {
    WrappedStore store(uri(), small_region());
    small = store.operation().allocate(3000);
    large = store.operation().allocate(500'000);
    store.close();
  }
  WrappedStore store(uri(), small_region());
  store.operation().deallocate(large);
  store.operation().deallocate(small);
  expect_clean(store, 0);
  std::vector<void*> again;
  for (int i = 0; i < 100; ++i) again.push_back(store.operation().allocate(30'000));
  expect_clean(store, again.size());
}

// A wild store of the program reaches the heap's tables and becomes durable with them.
TEST_F(Heap, DamagedTablesAreRefusedBeforeTheyAreUsed) {
  using format::HeapHeader;
  using format::RootNode;
  using format::UnitEntry;
  using format::UnitKind;
  struct Tables {
    HeapHeader& header;
    UnitEntry* units;  ///< 0: the blocks of 32 bytes, 1: of 48
    heap::Slab& slab;  ///< the first
    RootNode& root;
  };
  enum Refused : unsigned { kAllocation = 1, kFree = 2, kRoot = 4, kOpening = 8 };
  struct Case {
    const char* name;
    void (*damage)(Tables);
    unsigned refused;
  };
  constexpr unsigned kTable = kAllocation | kFree;
  const Case cases[] = {
      {"units of a slab", [](Tables t) { t.units[0].units = 1 << 30; }, kTable},
      {"no units", [](Tables t) { t.units[0].units = 0; }, kTable},
      {"size class", [](Tables t) { t.units[0].size_class = 200; }, kTable},
      {"tail of nothing", [](Tables t) { t.units[0] = {UnitKind::kSlabTail, 0, 0, 77}; }, kTable},
      {"a unit that was never used", [](Tables t) { t.units[t.header.units_end].units = 1; },
       kTable},
      {"words of a slab", [](Tables t) { t.slab.header.words = 1 << 20; }, kAllocation},
      {"a bit of the slab's header", [](Tables t) { *t.slab.free() |= 1; }, kAllocation},
      {"a root that follows itself", [](Tables t) { t.root.next = t.header.roots; }, kRoot},
      {"a root nowhere", [](Tables t) { t.header.roots = 3; }, kRoot},
      {"a root's name", [](Tables t) { t.root.name_length = 1 << 30; }, kRoot},
      {"a root beyond the heap", [](Tables t) { t.root.object = t.header.limit_bytes - 4096; },
       kRoot},
      {"a root to the heap's tables", [](Tables t) { t.root.object = 64; }, kRoot},
      {"units without a place", [](Tables t) { t.header.units_end = 900; }, kOpening},
      {"more units than there can be", [](Tables t) { t.header.units_end = ~u64{0}; }, kOpening},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    const std::string uri = this->uri() + std::to_string(&each - cases);
    void* block = nullptr;
    {
      WrappedStore store(uri, small_region());
      block = store.operation().allocate(32);
      store.operation().set_root("root", block);
      std::byte* const base = store.runtime().region().base();
      auto& header = *reinterpret_cast<HeapHeader*>(base);
      ASSERT_NE(header.roots, 0u);
      each.damage({header, reinterpret_cast<UnitEntry*>(base + format::kUnitTableOffset),
                   *reinterpret_cast<heap::Slab*>(base + header.data_begin),
                   *reinterpret_cast<RootNode*>(base + header.roots)});
      store.checkpoint();
      store.crash();
    }
    const auto opened = detail::Runtime::open(uri, small_region());
    EXPECT_EQ(static_cast<bool>(opened), (each.refused & kOpening) == 0);
    if (!opened) {
      EXPECT_EQ(opened.failure().code, Code::kCorrupt) << opened.failure().message;
      continue;
    }
    detail::Runtime& runtime = **opened;
    EXPECT_FALSE(runtime.heap().audit().clean);
    detail::Mutator& mutator = runtime.mutators().this_thread();
    const auto expect = [&](Refused call, const Status& status) {
      EXPECT_EQ(static_cast<bool>(status), (each.refused & call) == 0) << call;
      if (!status) {
        EXPECT_EQ(status.failure().code, Code::kCorrupt) << status.failure().message;
      }
    };
    const auto status_of = [](const auto& result) {
      return result ? Status{} : Status(result.failure());
    };
    detail::enter(mutator);
    expect(kRoot, status_of(runtime.heap().roots().get("root", 0)));
    expect(kAllocation, status_of(runtime.heap().allocate(mutator, 32, 16)));
    expect(kFree, runtime.heap().deallocate(mutator, block));
    detail::leave(mutator);
  }
}

TEST_F(Heap, ReallocateKeepsTheContent) {
  Store store = Store::open(uri(), small_region());
  auto* block = static_cast<unsigned char*>(store.reallocate(nullptr, 10));
  u64 filled = 0;
  for (u64 size : {10, 16, 17, 500, 40'000, 300'000, 299'000, 1000, 20, 1}) {
    block = static_cast<unsigned char*>(store.reallocate(block, size));
    EXPECT_GE(store.usable_size(block), size);
    for (u64 i = 0; i < std::min<u64>(filled, size); ++i)
      ASSERT_EQ(block[i], i % 251) << "byte " << i << " at size " << size;
    for (u64 i = 0; i < size; ++i) block[i] = static_cast<unsigned char>(i % 251);
    filled = size;
  }
  store.deallocate(block);
  const HeapAudit audit = store.audit();
  EXPECT_TRUE(audit.clean) << audit.problem;
  EXPECT_EQ(audit.live_blocks, 0u);
}

TEST_F(Heap, ReallocationOfAFreedBlockIsRefusedAndLeavesNothing) {
  Store store = Store::open(uri(), small_region());
  void* const freed = store.allocate(64);
  void* const kept = store.allocate(64);
  store.deallocate(freed);
  for (const u64 size : {60, 1000}) {
    std::string text;
    EXPECT_EQ(code_of([&] { store.reallocate(freed, size); }, &text), Code::kMisuse);
    EXPECT_NE(text.find("freed before"), text.npos) << text;
  }
  EXPECT_EQ(code_of([&] { store.usable_size(freed); }), Code::kMisuse);
  EXPECT_EQ(store.audit().live_blocks, 1);
  store.deallocate(kept);
}

// Slabs that are kept for the next small block do not stand in a large one's way: a thread's own,
// and those that the last process left.
TEST_F(Heap, AnEmptyHeapHasRoomForEveryBlock) {
  const auto fill_and_empty = [](WrappedStore& store) {
    const auto op = store.operation();
    for (const u64 size : {16, 100, 10'000}) op.deallocate(op.allocate(size));
  };
  WrappedStore store(uri(), small_region(kMiB));
  fill_and_empty(store);
  for (int i = 0; i < 3; ++i) {
    const auto op = store.operation();
    void* const small = op.allocate(20'000);
    op.deallocate(small);
    void* const large = op.allocate(800'000);
    op.deallocate(large);
  }
  fill_and_empty(store);
  store.checkpoint();
  store.crash();
  WrappedStore again(uri(), small_region(kMiB));
  void* const large = again.operation().allocate(800'000);
  EXPECT_EQ(code_of([&] { again.operation().allocate(300'000); }), Code::kNoSpace);
  expect_clean(again, 1);
  again.operation().deallocate(large);
  fill_and_empty(again);
  expect_clean(again, 0);
}

TEST_F(Heap, RootsLeadToBlocks) {
  WrappedStore store(uri(), small_region());
  auto* const large = static_cast<std::byte*>(store.operation().allocate(200'000));
  auto* const small = static_cast<std::byte*>(store.operation().allocate(100));
  store.operation().set_root("in a large one", large + 150'000);
  store.operation().set_root("in a small one", small + 50);
  std::byte* const base = store.runtime().region().base();
  for (std::byte* const nowhere : {base, base + 32 * kMiB, large + 262'144, small + 65'000})
    EXPECT_EQ(code_of([&] { store.operation().set_root("nowhere", nowhere); }),
              Code::kInvalidArgument)
        << nowhere - base;
  expect_clean(store, 4);
  // What a program forgets is no damage that keeps it from the rest, but it is found.
  for (std::byte* const each : {large, small}) {
    const char* const name = each == large ? "in a large one" : "in a small one";
    store.operation().deallocate(each);
    const HeapAudit audit = store.audit();
    EXPECT_FALSE(audit.clean);
    EXPECT_NE(audit.problem.find(std::string("'") + name + "'"), audit.problem.npos)
        << audit.problem;
    EXPECT_NE(store.get_root(name), nullptr);
    store.operation().set_root(name, nullptr);
  }
  expect_clean(store, 0);
}

TEST_F(Heap, AFullRegionCanFreeAndCheckpoint) {
  for (u64 size : {100, 5000, 20'000, 100'000}) {
    std::filesystem::remove(folder_.path("heap.pd"));
    WrappedStore store(uri(), small_region(4 * kMiB));
    std::vector<void*> blocks;
    std::string text;
    while (code_of([&] { blocks.push_back(store.operation().allocate(size)); }, &text) == Code::kOk)
      std::memset(blocks.back(), 1, size);
    EXPECT_NE(text.find("limit of 4194304 bytes"), text.npos) << text;
    EXPECT_GT(blocks.size() * size, 4 * kMiB / 2) << "wasted at size " << size;
    expect_clean(store, blocks.size());
    store.checkpoint();
    for (void* block : blocks) store.operation().deallocate(block);
    expect_clean(store, 0);
    store.checkpoint();
    // What was freed is there for blocks of other sizes, but for slabs that threads keep.
    EXPECT_NE(store.operation().allocate(2 * kMiB), nullptr);
    store.close();
  }
}

// A random sequence of allocations and frees against a model, with crashes that take it back to the
// last checkpoint.
TEST_F(Heap, FollowsAModelThroughCrashes) {
  std::mt19937_64 random(7);
  struct Model {
    std::map<std::byte*, std::pair<u64, u8>> blocks;  // size, fill
  };
  Model now;
  Model durable;
  auto store = std::make_unique<WrappedStore>(uri(), small_region());
  const auto check = [&](const Model& model) {
    for (const auto& [block, content] : model.blocks)
      for (u64 i = 0; i < content.first; i += std::max<u64>(1, content.first / 7))
        ASSERT_EQ(block[i], std::byte{content.second});
    expect_clean(*store, model.blocks.size());
  };
  for (int step = 0; step < 6000; ++step) {
    const u64 draw = random() % 1000;
    if (draw < 550 && now.blocks.size() < 800) {
      const u64 kind = random() % 100;
      const u64 size = 1 + (kind < 80   ? random() % 400
                            : kind < 97 ? random() % 30'000
                                        : random() % 200'000);
      const auto fill = static_cast<u8>(random());
      const auto op = store->operation();
      auto* block = static_cast<std::byte*>(op.allocate(size));
      std::memset(block, fill, size);
      ASSERT_TRUE(now.blocks.emplace(block, std::pair{size, fill}).second);
    } else if (draw < 990) {
      if (now.blocks.empty()) continue;
      auto victim =
          std::next(now.blocks.begin(), static_cast<std::ptrdiff_t>(random() % now.blocks.size()));
      store->operation().deallocate(victim->first);
      now.blocks.erase(victim);
    } else if (draw < 996) {
      store->checkpoint();
      durable = now;
    } else {
      store->crash();
      store = std::make_unique<WrappedStore>(uri(), small_region());
      now = durable;
      ASSERT_NO_FATAL_FAILURE(check(now));
    }
  }
  check(now);
}

// Threads free blocks that others allocated, and end while others free into their slabs.
TEST_F(Heap, FreesFromOtherThreadsAreNotLost) {
  WrappedStore store(uri(), small_region(256 * kMiB));
  constexpr u64 kSlots = 512;
  std::vector<std::atomic<void*>> slots(kSlots);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::thread> threads;
    for (u64 t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        std::mt19937_64 random(static_cast<u64>(round) * 4 + t);
        for (int i = 0; i < 1500; ++i) {
          const auto op = store.operation();
          const u64 kind = random() % 8;
          void* mine = kind < 4    ? op.allocate(16 + 16 * (random() % 4))
                       : kind == 4 ? op.allocate(16'000 + random() % 16'000)
                                   : nullptr;
          void* old = slots[random() % kSlots].exchange(mine);
          if (old != nullptr) op.deallocate(old);
        }
      });
    for (std::thread& thread : threads) thread.join();
    u64 live = 0;
    for (const auto& slot : slots) live += slot.load() != nullptr;
    const HeapAudit audit = store.audit();
    ASSERT_TRUE(audit.clean) << audit.problem << " in round " << round;
    ASSERT_EQ(audit.live_blocks, live) << "in round " << round;
  }
  for (auto& slot : slots)
    if (void* block = slot.exchange(nullptr)) store.operation().deallocate(block);
  expect_clean(store, 0);
}

// The last block of a slab is freed by others in the moment in which its owner ends.
TEST_F(Heap, FreesWhileTheOwnerEndsAreNotLost) {
  WrappedStore store(uri(), small_region(256 * kMiB));
  for (int round = 0; round < 300; ++round) {
    constexpr u64 kBlocks = 40;
    std::vector<void*> blocks(kBlocks);
    std::atomic<bool> allocated{false};
    std::thread owner([&] {
      for (void*& block : blocks) block = store.operation().allocate(25'000);
      allocated = true;
      allocated.notify_all();
    });
    allocated.wait(false);
    std::thread other([&] {
      for (u64 i = 0; i < kBlocks; i += 2) store.operation().deallocate(blocks[i]);
    });
    owner.join();
    other.join();
    const HeapAudit audit = store.audit();
    ASSERT_TRUE(audit.clean) << audit.problem << " in round " << round;
    for (u64 i = 1; i < kBlocks; i += 2) store.operation().deallocate(blocks[i]);
  }
  expect_clean(store, 0);
}

// A version may have what a transaction of the log did, or what was done after it.
TEST_F(Heap, WhatATransactionDidIsRepeatedAnyNumberOfTimes) {
  WrappedStore store(uri(), small_region());
  heap::Heap& heap = store.runtime().heap();
  detail::Mutator& mutator = store.runtime().mutators().this_thread();
  std::vector<heap::Heap::Place> places;
  {
    const auto op = store.operation();
    for (const u64 size : {u64{100}, 3 * format::kUnitBytes})
      places.push_back(value_or_throw(heap.place_of_block(op.allocate(size))));
  }
  for (int i = 0; i < 3; ++i) {
    {
      const auto op = store.operation();
      for (const auto& place : places) EXPECT_TRUE(heap.claim(mutator, place));
    }
    expect_clean(store, 2);
  }
  for (int i = 0; i < 3; ++i) {
    {
      const auto op = store.operation();
      for (const auto& place : places) EXPECT_TRUE(heap.disclaim(mutator, place.offset));
    }
    expect_clean(store, 0);
  }
}

TEST_F(Heap, WhatATransactionAllocatedGetsItsPlaceFromAnEmptySlabAlone) {
  heap::Heap::Place large{};
  heap::Heap::Place small{};
  {
    WrappedStore store(uri(), small_region());
    heap::Heap& heap = store.runtime().heap();
    {
      const auto op = store.operation();
      void* const block = op.allocate(3 * format::kUnitBytes);
      large = value_or_throw(heap.place_of_block(block));
      op.deallocate(block);
      u64 size = 16;
      do {
        ASSERT_LE(size, 4096u);
        small = value_or_throw(heap.place_of_block(op.allocate(size)));
        size *= 2;
      } while (small.unit < large.unit || small.unit >= large.unit + large.units);
    }
    store.checkpoint();
    store.close();
  }
  WrappedStore store(uri(), small_region());
  heap::Heap& heap = store.runtime().heap();
  detail::Mutator& mutator = store.runtime().mutators().this_thread();
  const u64 live_blocks = store.audit().live_blocks;
  {
    const auto op = store.operation();
    const Status refused = heap.claim(mutator, large);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.failure().code, Code::kCorrupt);
    EXPECT_NE(refused.failure().message.find("is in use where a transaction of the log allocated"),
              std::string::npos)
        << refused.failure().message;
    EXPECT_TRUE(heap.disclaim(mutator, small.offset));
    EXPECT_TRUE(heap.claim(mutator, large));
  }
  expect_clean(store, live_blocks);
}

}  // namespace
}  // namespace perdura::test
