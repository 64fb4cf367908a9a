// Goal: a transaction that the system refuses memory is as if the call that needed it had not been
// made, and where objects were destroyed already it commits. Method: each allocation of a call, or
// of a commit, fails in turn, alone or with all that follow; what is there then, and after a crash.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <new>
#include <string>

#include <perdura/perdura.hpp>
#include <perdura/transaction.hpp>

#include "base/bits.hpp"
#include "support/call_faults.hpp"
#include "support/transaction_ways.hpp"

namespace perdura::test {
namespace {

constexpr u64 kEntries = 20;
using Texts = map<u64, string>;

struct Struct {
  std::array<u64, 400> words;
};
struct Root {
  Texts* texts;
  std::byte* block;
  u64 number;
  Struct many;
};

struct Twice {
  Twice(Store& store, std::byte* block) : store(store), block(block) {}
  ~Twice() {  // NOLINT(bugprone-exception-escape)
    store.deallocate(block);
    store.deallocate(block);
  }
  Store& store;
  std::byte* block;
};

enum class Outcome { kDone, kFailed, kDoneInMemory };

class TransactionMemory : public TransactionWays {
 protected:
  Options options() const override {
    Options options = TransactionWays::options();
    options.log_segment_bytes = 32 * kKiB;
    return options;
  }
  /// What became of a call of which the nth allocation fails.
  static Outcome with_fault(u64 nth, bool for_ever, const std::function<void()>& call) {
    const CallFault fault{.nth = nth, .for_ever = for_ever, .own = true};
    arm_calls(&fault);
    Outcome outcome = Outcome::kDone;
    try {
      call();
      disarm_calls();
    } catch (const Error& error) {
      disarm_calls();
      EXPECT_EQ(error.code(), Code::kNoMemory) << error.what();
      const bool done = std::string_view(error.what()).find("has happened") != std::string::npos;
      outcome = done ? Outcome::kDoneInMemory : Outcome::kFailed;
    } catch (const std::bad_alloc&) {
      disarm_calls();
      outcome = Outcome::kFailed;
    }
    return outcome;
  }
  static void fill(Store& store, Root& root) {
    atomically(store, [&](Transaction& tx) {
      auto* const texts = tx.make<Texts>(Allocator<std::byte>(store));
      for (u64 i = 0; i < kEntries; ++i)
        texts->emplace(i, string(("a text that no small string holds " + std::to_string(i)).c_str(),
                                 Allocator<char>(store)));
      tx.write(root.texts, texts);
    });
  }
};

TEST_P(TransactionMemory, IsNotNeededForABlockThatStaysWhereItsReturnHasFailed) {
  u64 failed = 0;
  for (u64 nth = 1;; ++nth) {
    SCOPED_TRACE("allocation " + std::to_string(nth));
    // Another thread's memory is of no use to it: each store has contexts of its own.
    Store store = open("store " + std::to_string(nth));
    auto& root = store.root<Root>("root");
    atomically(store, [&](Transaction& tx) {
      tx.write(root.block, static_cast<std::byte*>(tx.allocate(20000)));
    });
    Outcome outcome{};
    atomically(store, [&](Transaction& tx) {
      tx.write(root.number, 1);
      std::byte* const block = tx.read(root.block);
      outcome = with_fault(nth, false, [&] { tx.deallocate(block); });
      if (outcome == Outcome::kDone) tx.write(root.block, nullptr);
    });
    EXPECT_EQ(root.number, 1u);
    if (outcome == Outcome::kDone) break;
    ++failed;
    EXPECT_NO_THROW(store.usable_size(root.block));
    atomically(store, [&](Transaction& tx) { tx.deallocate(tx.read(root.block)); });
    EXPECT_THROW(store.usable_size(root.block), Error);
  }
  EXPECT_GT(failed, 2u);
}

TEST_P(TransactionMemory, IsThereForAllOfAStructOrNothingOfItIsWritten) {
  for (const bool in_part : {false, true}) {
    u64 failed = 0;
    for (u64 nth = 1;; ++nth) {
      SCOPED_TRACE("allocation " + std::to_string(nth) + (in_part ? " in a part" : ""));
      Store store = open("store " + std::to_string(nth) + (in_part ? " part" : ""));
      auto& root = store.root<Root>("root");
      Struct ones;
      ones.words.fill(1);
      Outcome outcome{};
      const auto write = [&](Transaction& tx) {
        outcome = with_fault(nth, false, [&] { tx.write(root.many, ones); });
      };
      atomically(store, [&](Transaction& tx) {
        tx.write(root.number, 1);
        if (in_part) atomically(store, write);
        else write(tx);
      });
      const bool done = outcome == Outcome::kDone;
      EXPECT_EQ(root.number, 1u);
      EXPECT_EQ(std::ranges::count(root.many.words, done ? 1u : 0u), 400);
      if (done) break;
      ++failed;
    }
    EXPECT_GT(failed, 2u);
  }
}

// From the first destructor on nothing keeps the transaction from committing. That of a map gives
// back two blocks for each entry.
TEST_P(TransactionMemory, IsNotNeededToDestroyObjects) {
  for (const bool for_ever : {false, true}) {
    u64 failed = 0;
    u64 in_memory = 0;
    for (u64 nth = 1;; ++nth) {
      SCOPED_TRACE("allocation " + std::to_string(nth) + (for_ever ? " and all others" : ""));
      const std::string file = "store " + std::to_string(nth) + (for_ever ? " ever" : "");
      Store store = open(file);
      auto& root = store.root<Root>("root");
      atomically(store, [&](Transaction& tx) { tx.write(root.texts, nullptr); });
      const u64 empty = store.audit().live_blocks;
      fill(store, root);
      const u64 full = store.audit().live_blocks;
      const Outcome outcome = with_fault(nth, for_ever, [&] {
        atomically(store, [&](Transaction& tx) {
          tx.write(root.number, 1);
          tx.destroy(tx.read(root.texts));
          tx.write(root.texts, nullptr);
        });
      });
      const bool fault_was_met = calls_failed() != 0;
      const HeapAudit audit = store.audit();
      EXPECT_TRUE(audit.clean) << audit.problem;
      if (outcome == Outcome::kFailed) {
        ++failed;
        EXPECT_EQ(root.number, 0u);
        ASSERT_NE(root.texts, nullptr);
        EXPECT_EQ(root.texts->size(), kEntries);
        EXPECT_EQ(audit.live_blocks, full);
      } else {
        if (outcome == Outcome::kDoneInMemory) ++in_memory;
        EXPECT_EQ(root.number, 1u);
        EXPECT_EQ(root.texts, nullptr);
        EXPECT_EQ(audit.live_blocks, empty);
      }
      // What follows needs nothing but memory.
      if (root.texts == nullptr) fill(store, root);
      atomically(store, [&](Transaction& tx) {
        tx.destroy(tx.read(root.texts));
        tx.write(root.texts, nullptr);
      });
      store.close();
      Store found = open(file);
      EXPECT_EQ(found.audit().live_blocks, empty);
      EXPECT_EQ(found.find_root<Root>("root")->texts, nullptr);
      if (!fault_was_met) break;
    }
    EXPECT_GT(failed, 2u);
    if (!for_ever) {
      EXPECT_EQ(in_memory, 0u);
    }
  }
}

// The blocks that there was no memory for are in the record as the others are.
TEST_P(TransactionMemory, IsNotNeededToLogWhatWasDestroyed) {
  Store store = open();
  auto& root = store.root<Root>("root");
  atomically(store, [&](Transaction& tx) { tx.write(root.texts, nullptr); });
  const u64 empty = store.audit().live_blocks;
  for (u64 round = 0; round < 2; ++round) {
    fill(store, root);
    const CallFault fault{.for_ever = true, .own = true};
    const u64 version = store.durable_version();
    atomically(store, [&](Transaction& tx) {
      Texts& texts = *tx.read(root.texts);
      // Also what the transaction itself stores to.
      for (auto& [key, text] : texts) tx.write(*reinterpret_cast<u64*>(text.data()), ~u64{0});
      tx.destroy(&texts);
      tx.write(root.texts, nullptr);
      tx.write(root.number, round + 1);
      arm_calls(&fault);
    });
    disarm_calls();
    EXPECT_GT(calls_failed(), 0u);
    EXPECT_EQ(store.durable_version(), version);
    EXPECT_EQ(store.audit().live_blocks, empty);
    after_crash([=](Store& found) {
      EXPECT_EQ(found.audit().live_blocks, empty);
      EXPECT_EQ(found.find_root<Root>("root")->texts, nullptr);
      EXPECT_EQ(found.find_root<Root>("root")->number, round + 1);
    });
  }
}

// What the record has no room for is a version's, and that one needs memory: where it gets none the
// error says that the transaction has happened.
TEST_P(TransactionMemory, IsMissedInVainOnceObjectsAreDestroyed) {
  constexpr u64 kMany = 5000;
  constexpr std::string_view kSaid = "has happened";
  u64 failed = 0;
  Store store = open();
  auto& root = store.root<Root>("root");
  atomically(store, [&](Transaction& tx) { tx.write(root.texts, nullptr); });
  const u64 empty = store.audit().live_blocks;
  for (const bool for_ever : {false, true}) {
    for (u64 nth = 1;; nth += 1 + nth / 8) {
      SCOPED_TRACE("allocation " + std::to_string(nth) + (for_ever ? " and all others" : ""));
      {
        const auto operation = store.operation();
        root.texts = ::new (operation.allocate(sizeof(Texts))) Texts(Allocator<std::byte>(store));
        for (u64 i = 0; i < kMany; ++i) root.texts->emplace(i, Allocator<char>(store));
      }
      store.checkpoint();
      const CallFault fault{.nth = nth, .for_ever = for_ever, .own = true};
      std::string problem;
      try {
        atomically(store, [&](Transaction& tx) {
          tx.destroy(tx.read(root.texts));
          tx.write(root.texts, nullptr);
          tx.write(root.number, nth);
          arm_calls(&fault);
        });
        disarm_calls();
      } catch (const Error& error) {
        disarm_calls();
        EXPECT_EQ(error.code(), Code::kNoMemory);
        EXPECT_NE(std::string_view(error.what()).find(kSaid), std::string_view::npos)
            << error.what();
        ++failed;
      } catch (const std::bad_alloc&) {
        disarm_calls();
        EXPECT_TRUE(for_ever) << "there was memory for an error";
        ++failed;
      }
      EXPECT_EQ(root.texts, nullptr);
      EXPECT_EQ(root.number, nth);
      const HeapAudit audit = store.audit();
      EXPECT_TRUE(audit.clean) << audit.problem;
      EXPECT_EQ(audit.live_blocks, empty);
      if (calls_failed() == 0) break;
    }
    store.checkpoint();
    after_crash([=](Store& found) {
      EXPECT_EQ(found.find_root<Root>("root")->texts, nullptr);
      EXPECT_EQ(found.audit().live_blocks, empty);
    });
  }
  EXPECT_GT(failed, 0u);
}

// A block that there was no memory for is found again as well.
TEST_P(TransactionMemory, IsNotNeededToFindThatADestructorGivesABlockBackTwice) {
  EXPECT_DEATH(
      {
        Store store = open();
        auto& root = store.root<Root>("root");
        Twice* object = nullptr;
        atomically(store, [&](Transaction& tx) {
          tx.write(root.block, static_cast<std::byte*>(tx.allocate(100)));
          object = tx.make<Twice>(store, tx.read(root.block));
        });
        const CallFault fault{.own = true};
        atomically(store, [&](Transaction& tx) {
          tx.destroy(object);
          arm_calls(&fault);
        });
      },
      "gives a block back twice");
}

INSTANTIATE_TEST_SUITE_P(Ways, TransactionMemory, kTransactionWays,
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace perdura::test
