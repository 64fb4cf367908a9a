// Goal: transactions and operations share a heap, and after a crash neither has damaged what the
// other did: a transaction gets nothing that the last version still has, and one that uses what no
// version has is durable together with it. Method: programs that do both and end without a word, or
// are killed at any moment; what opening finds is compared with what was promised, and the heap is
// audited for blocks that are lost.
#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <perdura/perdura.hpp>
#include <perdura/transaction.hpp>

#include "base/bits.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/process.hpp"

namespace perdura::test {
namespace {

struct Node {
  Node* next;
  u64 key;
};

struct Data {
  Node* head;
  u64 count;
  std::array<u64*, 12> large;
  std::array<u64*, 4000> blocks;
};

class Transactional : public testing::TestWithParam<std::string> {
 protected:
  Options options() const {
    Options options;
    options.region_limit_bytes = region_limit_bytes_;
    options.tracking = Tracking::kReported;
    return options;
  }
  Store open() const { return Store::open(GetParam() + ":" + folder_.path("store.pd"), options()); }
  static Data& data_of(Store& store) { return store.root<Data>("data"); }

  /// In a process of its own that ends without a word. The store has had a transaction before, and
  /// its root is durable.
  void crash_after(const std::function<void(Store&, Data&)>& work) const {
    const auto body = [&]() -> std::string {
      auto* const store = new Store(open());  // never closed
      Data& data = data_of(*store);
      atomically(*store, [&](Transaction& tx) { tx.write(data.count, u64{0}); });
      work(*store, data);
      return HasFailure() ? "see above" : "";
    };
    ASSERT_EQ(in_child(body), "");
  }
  /// The audited store after the crash.
  Store reopen() const {
    Store store = open();
    const HeapAudit audit = store.audit();
    EXPECT_TRUE(audit.clean) << audit.problem;
    return store;
  }

  const TempDir folder_{TempDir::kMemory};
  u64 region_limit_bytes_ = 64 * kMiB;
};

Node* make_node(Store& store, u64 key) {
  const auto operation = store.operation();
  auto* const node = static_cast<Node*>(operation.allocate(sizeof(Node)));
  operation.touch(node, sizeof *node);
  *node = {nullptr, key};
  return node;
}

TEST_P(Transactional, DestroysWhatNoVersionHas) {
  crash_after([](Store& store, Data& data) {
    Node* const node = make_node(store, 1);
    atomically(store, [&](Transaction& tx) {
      tx.destroy(node);
      tx.write(data.count, u64{7});
    });
  });
  Store store = reopen();
  EXPECT_EQ(data_of(store).count, 7u);
}

TEST_P(Transactional, LinksWhatNoVersionHas) {
  const auto insert = [](Store& store, Data& data, u64 key) {
    Node* const node = make_node(store, key);
    atomically(store, [&](Transaction& tx) {
      tx.write(node->next, tx.read(data.head));
      tx.write(data.head, node);
    });
  };
  const auto keys = [](const Data& data) {
    std::vector<u64> found;
    for (const Node* node = data.head; node != nullptr && found.size() < 10; node = node->next)
      found.push_back(node->key);
    return found;
  };
  crash_after([&](Store& store, Data& data) {
    for (u64 key = 1; key <= 3; ++key) insert(store, data, key);
  });
  Store store = reopen();
  EXPECT_EQ(keys(data_of(store)), (std::vector<u64>{3, 2, 1}));
  for (u64 key = 4; key <= 5; ++key) insert(store, data_of(store), key);
  EXPECT_EQ(keys(data_of(store)), (std::vector<u64>{5, 4, 3, 2, 1}));
}

// The link is in an object that the transaction makes, and it cannot be begun again.
TEST_P(Transactional, LinksWhatNoVersionHasThoughItIsIrrevocable) {
  crash_after([](Store& store, Data& data) {
    // An irrevocable one may not make the first object of a type.
    atomically(store, [&](Transaction& tx) { tx.destroy(tx.make<Node>()); });
    Node* const node = make_node(store, 1);
    int runs = 0;
    atomically(store, [&](Transaction& tx) {
      tx.irrevocable();
      ++runs;
      tx.write(data.head, tx.make<Node>(node, u64{2}));
    });
    ASSERT_EQ(runs, 1);
    // What follows may rely on it.
    atomically(store, [&](Transaction& tx) { tx.write(data.count, tx.read(data.head)->key); });
  });
  Store store = reopen();
  const Data& data = data_of(store);
  EXPECT_EQ(data.count, 2u);
  ASSERT_NE(data.head, nullptr);
  ASSERT_NE(data.head->next, nullptr);
  EXPECT_EQ(data.head->next->key, 1u);
}

// An operation gives blocks back that the last version reaches; new ones are made of slabs that
// went back with them.
TEST_P(Transactional, GetsNothingThatTheVersionStillHas) {
  crash_after([](Store& store, Data& data) {
    {
      const auto operation = store.operation();
      operation.touch(&data, sizeof data);
      for (u64*& block : data.blocks) {
        block = static_cast<u64*>(operation.allocate(64));
        block[0] = 7;
      }
    }
    store.checkpoint();
    {
      const auto operation = store.operation();
      operation.touch(&data, sizeof data);
      for (u64*& block : data.blocks) operation.deallocate(std::exchange(block, nullptr));
    }
    atomically(store, [&](Transaction& tx) {
      for (u64 size : {64, 64, 64, 1000, 40'000, 900'000}) {
        auto* const block = static_cast<u64*>(tx.allocate(size));
        std::memset(block, 0xee, size);
        tx.write(data.large[0], block);
      }
    });
  });
  Store store = reopen();
  const Data& data = data_of(store);
  EXPECT_NE(data.large[0], nullptr);
  for (const u64* block : data.blocks) {
    ASSERT_NE(block, nullptr);
    ASSERT_EQ(*block, 7u);
  }
}

// The operation's own new blocks lie where the version has others.
TEST_P(Transactional, StoresToNothingThatNoVersionHas) {
  crash_after([](Store& store, Data& data) {
    {
      const auto operation = store.operation();
      operation.touch(&data, sizeof data);
      for (u64*& block : data.blocks) {
        block = static_cast<u64*>(operation.allocate(64));
        block[0] = 7;
      }
      data.count = 4000;
    }
    store.checkpoint();
    {
      const auto operation = store.operation();
      operation.touch(&data, sizeof data);
      for (u64*& block : data.blocks) operation.deallocate(std::exchange(block, nullptr));
      data.count = 0;
      for (u64*& block : data.large) block = static_cast<u64*>(operation.allocate(40'000));
    }
    atomically(store, [&](Transaction& tx) {
      for (u64* const block : data.large)
        for (u64 i = 0; i < 500; ++i) tx.write(block[i * 10], 0xdead'dead'dead'deadu);
    });
  });
  Store store = reopen();
  const Data& data = data_of(store);
  EXPECT_EQ(data.count, 0u);
  for (const u64* block : data.large) {
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(block[10], 0xdead'dead'dead'deadu);
  }
}

TEST_P(Transactional, GivesNothingBackTwice) {
  crash_after([](Store& store, Data& data) {
    Node* const node = atomically(store, [&](Transaction& tx) { return tx.make<Node>(); });
    atomically(store, [&](Transaction& tx) { tx.destroy(node); });
    expect_error(
        [&] {
          atomically(store, [&](Transaction& tx) {
            tx.write(data.count, u64{5});
            tx.destroy(node);
          });
        },
        Code::kMisuse, "freed before");
    EXPECT_EQ(data.count, 0u);
    Node* const other = make_node(store, 1);
    store.deallocate(other);
    expect_error([&] { atomically(store, [&](Transaction& tx) { tx.destroy(other); }); },
                 Code::kMisuse, "freed before");
    atomically(store, [&](Transaction& tx) { tx.write(data.count, u64{6}); });
  });
  Store store = reopen();
  EXPECT_EQ(data_of(store).count, 6u);
}

// An operation may have what another one gave back, also where there is nothing else left; and a
// transaction once a version has it.
TEST_P(Transactional, ASpaceThatWasGivenBackIsUsedAgain) {
  Store store = open();
  Data& data = data_of(store);
  atomically(store, [&](Transaction& tx) { tx.write(data.count, u64{0}); });
  constexpr u64 kMost = 40 * kMiB;
  for (int i = 0; i < 3; ++i) store.deallocate(store.allocate(kMost));
  const auto fill_up = [&] {
    std::vector<void*> blocks;
    const auto one_more = [&] { blocks.push_back(store.allocate(kMiB / 2)); };
    expect_error(
        [&] {
          for (;;) one_more();
        },
        Code::kNoSpace, "region is full");
    return blocks;
  };
  for (void* const block : fill_up()) store.deallocate(block);
  const auto allocate = [&](Transaction& tx) { return tx.allocate(kMiB / 2); };
  void* const block = atomically(store, allocate);
  atomically(store, [&](Transaction& tx) { tx.deallocate(block); });
  fill_up();
  expect_error([&] { atomically(store, allocate); }, Code::kNoSpace, "region is full");
}

// --- killed at any moment ------------------------------------------------------------------------

constexpr u64 kBlocks = 64;

struct Sized {
  u64 place;
  u64 words;
  u64 content[];
};

/// Disjoint: what transactions work on, and what operations do.
struct Halves {
  u64 count;
  u64 steps;
  std::array<Sized*, kBlocks> transactions;
  std::array<Sized*, kBlocks> operations;
};

Sized* fill(void* block, u64 place, u64 words) {
  auto* const made = static_cast<Sized*>(block);
  made->place = place;
  made->words = words;
  for (u64 i = 0; i < words; ++i) made->content[i] = place * 1000 + i;
  return made;
}

std::string wrong_with(const Sized* block, u64 place) {
  if (block == nullptr) return "";
  if (block->place != place) return "a block is another one's";
  for (u64 i = 0; i < block->words; ++i)
    if (block->content[i] != place * 1000 + i) return "a block has other contents";
  return "";
}

/// Mostly small ones, some of units of their own.
u64 draw_words(std::mt19937_64& random) {
  return random() % 16 == 0 ? random() % 20'000 : random() % 24;
}

void transact(Store& store, Halves& halves, u64 seed) {
  atomically(store, [&](Transaction& tx) {
    std::mt19937_64 random(seed);
    for (u64 i = 0, count = 1 + random() % 4; i < count; ++i) {
      const u64 place = random() % kBlocks;
      if (Sized* const old = tx.read(halves.transactions[place])) {
        tx.deallocate(old);
        tx.write(halves.transactions[place], static_cast<Sized*>(nullptr));
        tx.write(halves.count, tx.read(halves.count) - 1);
      }
      if (random() % 3 == 0) continue;
      const u64 words = draw_words(random);
      tx.write(halves.transactions[place],
               fill(tx.allocate(sizeof(Sized) + words * sizeof(u64)), place, words));
      tx.write(halves.count, tx.read(halves.count) + 1);
    }
    tx.write(halves.steps, tx.read(halves.steps) + 1);
  });
}

void operate(Store& store, Halves& halves, std::mt19937_64& random) {
  const auto operation = store.operation();
  const u64 place = random() % kBlocks;
  Sized*& block = halves.operations[place];
  operation.touch(&block, sizeof block);
  if (block != nullptr) return operation.deallocate(std::exchange(block, nullptr));
  const u64 words = draw_words(random);
  void* const made = operation.allocate(sizeof(Sized) + words * sizeof(u64));
  operation.touch(made, sizeof(Sized) + words * sizeof(u64));
  block = fill(made, place, words);
}

std::string wrong_with(Store& store, u64 acknowledged) {
  const Halves& halves = store.root<Halves>("halves");
  if (halves.steps < acknowledged)
    return "lost " + std::to_string(acknowledged - halves.steps) + " transactions";
  u64 blocks = 0;
  u64 count = 0;
  for (u64 place = 0; place < kBlocks; ++place) {
    for (const Sized* block : {halves.transactions[place], halves.operations[place]}) {
      if (std::string wrong = wrong_with(block, place); !wrong.empty()) return wrong;
      if (block != nullptr) ++blocks;
    }
    if (halves.transactions[place] != nullptr) ++count;
  }
  if (count != halves.count) return "a transaction is there in part";
  const HeapAudit audit = store.audit();
  if (!audit.clean) return audit.problem;
  // These, both roots' objects with the state of transactions, and what leads to roots.
  const u64 known = blocks + audit.roots * 2 + audit.types;
  if (audit.live_blocks != known)
    return std::to_string(audit.live_blocks) + " blocks instead of " + std::to_string(known);
  return "";
}

TEST_P(Transactional, OperationsBesideTransactionsAreKilled) {
  constexpr u64 kRounds = 40;
  void* const shared =
      ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto& acknowledged = *static_cast<std::atomic<u64>*>(shared);
  for (u64 round = 0; round < kRounds; ++round) {
    Child child([&]() -> std::string {
      Store store = open();
      Halves& halves = store.root<Halves>("halves");
      if (round % 4 != 0) store.checkpoint_every(std::chrono::milliseconds(3));
      std::jthread transactions([&] {
        for (u64 i = 0;; ++i) {
          transact(store, halves, round * 1'000'000 + i);
          acknowledged = halves.steps;
        }
      });
      std::mt19937_64 random(round);
      for (;;) operate(store, halves, random);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(10 + round * 7 % 40));
    child.kill();
    ASSERT_EQ(child.wait(), "");
    ASSERT_TRUE(child.killed());
    Store store = open();
    ASSERT_EQ(wrong_with(store, acknowledged), "") << "round " << round;
    store.close();
  }
  ::munmap(shared, kPageBytes);
}

// Operations emptied all slabs, and one of them needed units before a version had that.
TEST_P(Transactional, GetWhatOperationsEmptiedAndUsedAgain) {
  for (const u64 size : {64, 1024, 3000}) {
    std::filesystem::remove(folder_.path("store.pd"));
    Options small = options();
    small.region_limit_bytes = 2 * kMiB;
    Store store = Store::open(GetParam() + ":" + folder_.path("store.pd"), small);
    auto& root = store.root<std::array<void*, 2>>("root");
    atomically(store, [&](Transaction& tx) { tx.write(root[0], static_cast<void*>(nullptr)); });
    const u64 before = store.audit().live_blocks;
    std::vector<void*> all;
    try {
      for (;;) all.push_back(store.allocate(size));
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), Code::kNoSpace) << error.what();
    }
    for (void* const block : all) store.deallocate(block);
    void* const large = store.allocate(40'000);
    atomically(store, [&](Transaction& tx) { tx.write(root[1], tx.allocate(size)); });
    EXPECT_NE(root[1], nullptr);
    store.deallocate(large);
    const HeapAudit audit = store.audit();
    EXPECT_TRUE(audit.clean) << audit.problem;
    EXPECT_EQ(audit.live_blocks, before + 1);
  }
}

// What operations give back one by one is a note on a block, not a slab that is out of reach.
TEST_P(Transactional, TakeNoVersionForEachSlabOfFewBlocks) {
  Store store = open();
  data_of(store);
  atomically(store, [](Transaction&) {});
  store.checkpoint();
  const u64 before = store.statistics().checkpoints;
  for (int i = 0; i < 2000; ++i) {
    void* const block = atomically(store, [](Transaction& tx) { return tx.allocate(80); });
    store.operation().deallocate(block);
  }
  EXPECT_EQ(store.statistics().checkpoints, before);
}

// A version frees what operations gave back, and these take it again before the transaction comes
// to it, however often it tries.
TEST_P(Transactional, GetRoomHoweverOftenOperationsTakeItAll) {
  region_limit_bytes_ = 4 * kMiB;
  crash_after([](Store& store, Data& data) {
    std::jthread churn([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        const auto operation = store.operation();
        std::vector<void*> blocks;
        try {
          for (;;) blocks.push_back(operation.allocate(100 * kKiB));
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), Code::kNoSpace) << error.what();
        }
        for (void* const block : blocks) operation.deallocate(block);
      }
    });
    for (u64 i = 1; i <= 40; ++i)
      atomically(store, [&](Transaction& tx) {
        tx.deallocate(tx.read(data.large[0]));
        auto* const block = static_cast<u64*>(tx.allocate(150 * kKiB));
        tx.write(*block, i);
        tx.write(data.large[0], block);
      });
  });
  Store store = reopen();
  EXPECT_EQ(*data_of(store).large[0], 40);
}

TEST_P(Transactional, NeedNoVersionAfterAnAllocationThatFails) {
  Store store = open();
  Data& data = data_of(store);
  atomically(store, [&](Transaction& tx) { tx.write(data.count, u64{1}); });
  store.checkpoint();
  store.allocate(64);  // which no version has
  const u64 before = store.statistics().checkpoints;
  const auto fail = [&](Transaction& tx) {
    tx.irrevocable();
    (void)tx.allocate(region_limit_bytes_ + 1);
  };
  atomically(store, [&](Transaction& tx) {
    expect_error([&] { fail(tx); }, Code::kNoSpace, "larger than the region");
    tx.write(data.count, u64{2});
  });
  expect_error([&] { atomically(store, fail); }, Code::kNoSpace, "larger than the region");
  atomically(store, [&](Transaction& tx) { tx.write(data.count, tx.read(data.count) + 1); });
  EXPECT_EQ(data.count, 3u);
  EXPECT_EQ(store.statistics().checkpoints, before);
}

// A transaction that is alone gets room that the last version still uses, and throws.
TEST_P(Transactional, ThatAreUndoneLeaveTheVersionWhoseRoomTheyHad) {
  region_limit_bytes_ = 3 * kMiB;
  constexpr u64 kBytes = 128 * kKiB;
  for (const bool goes_on : {false, true}) {
    std::filesystem::remove(folder_.path("store.pd"));
    crash_after([&](Store& store, Data& data) {
      {
        const auto operation = store.operation();
        operation.touch(&data, sizeof data);
        for (u64*& large : data.large) {
          large = static_cast<u64*>(operation.allocate(kBytes));
          operation.touch(large, kBytes);
          std::fill_n(large, kBytes / sizeof(u64), reinterpret_cast<u64>(&large));
        }
      }
      store.checkpoint();
      {
        const auto operation = store.operation();
        operation.touch(&data, sizeof data);
        for (u64*& large : data.large) operation.deallocate(std::exchange(large, nullptr));
      }
      const u64 before = store.statistics().checkpoints;
      EXPECT_THROW(atomically(store,
                              [&](Transaction& tx) {
                                tx.irrevocable();
                                for (size_t i = 0; i < data.large.size(); ++i)
                                  std::memset(tx.allocate(kBytes), 0xee, kBytes);
                                throw std::runtime_error("undone");
                              }),
                   std::runtime_error);
      EXPECT_EQ(store.statistics().checkpoints, before);
      if (!goes_on) return;
      atomically(store, [&](Transaction& tx) { tx.write(data.count, u64{9}); });
      EXPECT_EQ(store.statistics().checkpoints, before + 1);
    });
    Store store = reopen();
    Data& data = data_of(store);
    EXPECT_EQ(data.count, goes_on ? 9u : 0u);
    for (u64*& large : data.large) {
      ASSERT_EQ(large == nullptr, goes_on);
      if (goes_on) continue;
      EXPECT_TRUE(std::all_of(large, large + kBytes / sizeof(u64),
                              [&](u64 word) { return word == reinterpret_cast<u64>(&large); }));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Media, Transactional, testing::Values("emu", "file"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace perdura::test
