// Goal: a part of a transaction, the first of or_else or an inner atomically, is undone whole where
// it throws, whoever catches that, and nothing else is; what waits wakes; transactions of several
// stores inside each other end. Method: parts in parts that store to old words and to new objects,
// their results in memory and after a crash; waiters that store beside what they wait for.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <perdura/perdura.hpp>
#include <perdura/transaction.hpp>

#include "base/bits.hpp"
#include "support/process.hpp"
#include "support/transaction_ways.hpp"

namespace perdura::test {

struct PartsObject {
  u64 key;
  PartsObject* next;
};

}  // namespace perdura::test

PERDURA_TYPE(perdura::test::PartsObject, next)

namespace perdura::test {
namespace {

struct Node {
  u64 x;
  u64 y[3];
};
struct Words {
  Node* head;
  alignas(64) u64 w[8];
};

class TransactionParts : public TransactionWays {
 protected:
  /// Of the words, now, and at the end of the test after a crash now.
  void expect(const Words& words, const std::function<void(const Words&)>& check) {
    check(words);
    after_crash([check](Store& store) { check(*store.find_root<Words>("words")); });
  }
};

TEST_P(TransactionParts, InUndonePartsStoreNothingIntoBlocksThatAreGivenToOthers) {
  Store store = open();
  auto& words = store.root<Words>("words");
  atomically(store, [&](Transaction& tx) {
    tx.or_else(
        [&](Transaction& first) {
          Node* const node = first.make<Node>(Node{1, {}});
          first.or_else([&](Transaction& inner) { inner.write(node->x, 7); }, [](Transaction&) {});
          first.retry();
        },
        [&](Transaction& second) { second.write(words.head, second.make<Node>(Node{42, {}})); });
  });
  expect(words, [](const Words& found) { EXPECT_EQ(found.head->x, 42u); });
}

TEST_P(TransactionParts, LeaveNewObjectsToBeStoredToDirectly) {
  Store store = open();
  auto& words = store.root<Words>("words");
  atomically(store, [&](Transaction& tx) {
    Node* const node = tx.make<Node>(Node{1, {}});
    tx.or_else(
        [&](Transaction& first) {
          first.write(node->x, 7);
          first.write(node->y[0], 8);
        },
        [](Transaction&) {});
    EXPECT_EQ(tx.read(node->y[0]), 8u);
    node->x = 9;
    tx.or_else(
        [&](Transaction& first) {
          first.write(node->x, 100);
          atomically(store, [&](Transaction& inner) { inner.write(node->y[1], 100); });
          first.retry();
        },
        [&](Transaction& second) { second.write(node->y[2], second.read(node->x) + 1); });
    tx.write(words.head, node);
  });
  expect(words, [](const Words& found) {
    EXPECT_EQ(found.head->x, 9u);
    EXPECT_EQ(found.head->y[0], 8u);
    EXPECT_EQ(found.head->y[1], 0u);
    EXPECT_EQ(found.head->y[2], 10u);
  });
}

TEST_P(TransactionParts, ThatThrowAreUndoneAlsoWhereTheBodyCatches) {
  Store store = open();
  auto& words = store.root<Words>("words");
  const auto fails = [&](Transaction& tx) {
    tx.write(words.w[0], tx.read(words.w[0]) + 100);
    tx.write(words.w[2], 100);
    tx.write(words.head, tx.make<Node>(Node{100, {}}));
    throw std::runtime_error("no");
  };
  const auto live_blocks = [&] { return store.audit().live_blocks; };
  atomically(store, [&](Transaction& tx) { tx.write(words.head, tx.make<Node>(Node{1, {}})); });
  const u64 before = live_blocks();
  atomically(store, [&](Transaction& tx) {
    tx.write(words.w[0], 1);
    EXPECT_THROW(atomically(store, fails), std::runtime_error);
    EXPECT_THROW(tx.or_else(fails, [](Transaction&) {}), std::runtime_error);
    // A part that ended well inside of one that did not.
    EXPECT_THROW(atomically(store,
                            [&](Transaction& inner) {
                              inner.write(words.w[3], 5);
                              atomically(store, [&](Transaction& in) { in.write(words.w[3], 6); });
                              inner.destroy(inner.read(words.head));
                              throw std::runtime_error("no");
                            }),
                 std::runtime_error);
    EXPECT_EQ(tx.read(words.w[3]), 0u);
    tx.write(words.w[1], tx.read(words.w[0]) + 1);
  });
  EXPECT_EQ(live_blocks(), before);
  expect(words, [](const Words& found) {
    EXPECT_EQ(found.w[0], 1u);
    EXPECT_EQ(found.w[1], 2u);
    EXPECT_EQ(found.w[2], 0u);
    EXPECT_EQ(found.w[3], 0u);
    EXPECT_EQ(found.head->x, 1u);
  });
}

// Both words are under one record of ownership: the waiter has its own when it reads the other.
TEST_P(TransactionParts, ThatWaitWakeAlsoForWhatTheyHaveStoredBeside) {
  Store store = open();
  auto& words = store.root<Words>("words");
  std::atomic<bool> waits = false;
  std::thread waiter([&] {
    atomically(store, [&](Transaction& tx) {
      tx.write(words.w[0], 1);
      const u64 flag = tx.read(words.w[1]);
      waits = true;
      if (flag == 0) tx.retry();
      tx.write(words.w[1], flag + 1);
    });
  });
  while (!waits) std::this_thread::yield();
  atomically(store, [&](Transaction& tx) { tx.write(words.w[1], 1); });
  waiter.join();
  expect(words, [](const Words& found) {
    EXPECT_EQ(found.w[0], 1u);
    EXPECT_EQ(found.w[1], 2u);
  });
}

// What the outer one needs, a version with a type, another snapshot, a change, the inner one cannot
// get by beginning again.
TEST_P(TransactionParts, OfAnotherStoreBeginAgainAsTheStoreThatHasToDoes) {
  Store store = open();
  Store other = open("other.pd");
  auto& words = store.root<Words>("words");
  auto& others = other.root<Words>("words");
  u64 runs = 0;
  atomically(store, [&](Transaction& tx) {
    atomically(other, [&](Transaction& inner) {
      ++runs;
      inner.write(others.w[0], inner.read(others.w[0]) + 1);
      tx.make<PartsObject>();
    });
  });
  EXPECT_EQ(runs, 2u);
  EXPECT_EQ(others.w[0], 1u);

  std::atomic<int> phase = 0;
  std::thread meets([&] {
    while (phase != 1) std::this_thread::yield();
    atomically(store, [&](Transaction& tx) {
      tx.write(words.w[0], 1);
      tx.write(words.w[4], 1);
    });
    phase = 2;
  });
  atomically(store, [&](Transaction& tx) {
    const u64 first = tx.read(words.w[0]);
    atomically(other, [&](Transaction& inner) {
      inner.write(others.w[1], inner.read(others.w[1]) + 1);
      if (phase == 0) phase = 1;
      while (phase != 2) std::this_thread::yield();
      EXPECT_EQ(tx.read(words.w[4]), first);
    });
  });
  meets.join();
  EXPECT_EQ(others.w[1], 1u);

  std::atomic<bool> waits = false;
  std::thread waiter([&] {
    atomically(store, [&](Transaction& tx) {
      atomically(other, [&](Transaction& inner) {
        inner.write(others.w[2], inner.read(others.w[2]) + 1);
        const u64 flag = tx.read(words.w[5]);
        waits = true;
        if (flag == 0) tx.retry();
      });
    });
  });
  while (!waits) std::this_thread::yield();
  atomically(store, [&](Transaction& tx) { tx.write(words.w[5], 1); });
  waiter.join();
  EXPECT_EQ(others.w[2], 1u);
}

// The child has nothing of the transaction that it was forked in. ThreadSanitizer cannot follow
// threads started in the child of a process with threads.
#if !defined(__SANITIZE_THREAD__)
TEST_P(TransactionParts, InAChildThatWasForkedInsideOneAreByThemselves) {
  Store store = open();
  auto& words = store.root<Words>("words");
  atomically(store, [&](Transaction& tx) {
    tx.write(words.w[0], u64{1});
    EXPECT_EQ(in_child([&]() -> std::string {
                Options options;
                options.region_limit_bytes = 4 * kMiB;
                Store own = Store::open("emu:" + path("child.pd"), options);
                auto& word = own.root<u64>("word");
                atomically(own, [&](Transaction& inner) { inner.write(word, u64{7}); });
                const bool stored = word == 7;
                own.close();
                return stored ? "" : "it did not store";
              }),
              "");
  });
  EXPECT_EQ(words.w[0], 1u);
}

TEST_P(TransactionParts, AreNotCommittedByAChildThatReturnsFromTheirBody) {
  Store store = open();
  auto& words = store.root<Words>("words");
  pid_t child = -1;
  try {
    atomically(store, [&](Transaction& tx) {
      tx.write(words.w[0], u64{1});
      child = ::fork();
    });
    if (child == 0) ::_exit(1);
  } catch (const Error& error) {
    if (child == 0) ::_exit(error.code() == Code::kForked ? 0 : 2);
    throw;
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  atomically(store, [&](Transaction& tx) { tx.write(words.w[1], u64{2}); });
  expect(words, [](const Words& found) {
    EXPECT_EQ(found.w[0], 1u);
    EXPECT_EQ(found.w[1], 2u);
  });
}
#endif

// The inner one begins again by itself, and what its body did in the outer one is done once.
TEST_P(TransactionParts, OfAnotherStoreAreUndoneInTheOuterOneWhereTheyBeginAgain) {
  Store store = open();
  Store other = open("other.pd");
  auto& words = store.root<Words>("words");
  auto& others = other.root<Words>("words");
  u64 runs = 0;
  atomically(store, [&](Transaction& tx) {
    tx.write(words.w[1], 10);
    atomically(other, [&](Transaction& inner) {
      ++runs;
      tx.write(words.w[0], tx.read(words.w[0]) + 1);
      tx.write(words.w[1], tx.read(words.w[1]) + 1);
      inner.make<PartsObject>();
      inner.write(others.w[0], 1);
    });
  });
  EXPECT_EQ(runs, 2u);
  EXPECT_EQ(others.w[0], 1u);
  expect(words, [](const Words& found) {
    EXPECT_EQ(found.w[0], 1u);
    EXPECT_EQ(found.w[1], 11u);
  });
}

// What the inner one's body returned is of the outer store, and was made in the part that is
// undone.
TEST_P(TransactionParts, OfAnotherStoreReturnWhatTheirLastRunMade) {
  Store store = open();
  Store other = open("other.pd");
  auto& words = store.root<Words>("words");
  auto& others = other.root<Words>("words");
  atomically(store, [&](Transaction& tx) { tx.write(words.w[0], 1); });
  atomically(other, [&](Transaction& tx) { tx.write(others.w[0], 1); });
  Node* linked;
  {
    const auto operation = other.operation();
    linked = static_cast<Node*>(operation.allocate(sizeof(Node)));
  }
  const u64 before = store.audit().live_blocks;
  u64 runs = 0;
  const auto text_of = [](u64 run) {
    return "a text that no small string holds, run " + std::to_string(run);
  };
  atomically(store, [&](Transaction& tx) {
    runs = 0;
    const string text = atomically(other, [&](Transaction& inner) {
      string made(text_of(++runs).c_str(), Allocator<char>(store));
      inner.write(others.head, linked);
      return made;
    });
    EXPECT_EQ(std::string_view(text), text_of(2));
    tx.write(words.w[0], text.size());
  });
  EXPECT_EQ(runs, 2u);
  const HeapAudit audit = store.audit();
  EXPECT_TRUE(audit.clean) << audit.problem;
  EXPECT_EQ(audit.live_blocks, before);
  expect(words, [text_of](const Words& found) { EXPECT_EQ(found.w[0], text_of(2).size()); });
}

// Of a block's space that an object of another time had before, nothing comes back.
TEST_P(TransactionParts, MakeTypedBlocksThatAreZeroAlsoAfterACrash) {
  Store store = open();
  auto& words = store.root<Words>("words");
  const perdura_type& type = TypeRecord<PartsObject>::value;
  atomically(store, [&](Transaction& tx) { tx.destroy(tx.make<PartsObject>()); });
  // As many as nearly fill a block, of a slab and one of its own.
  for (const u64 count : {u64{9}, u64{5000}}) {
    SCOPED_TRACE(count);
    auto* const old = static_cast<PartsObject*>(store.allocate(type, count));
    const u64 bytes = store.usable_size(old);
    ASSERT_GT(bytes, count * sizeof(PartsObject));
    {
      const auto operation = store.operation();
      operation.touch(old, bytes);
      for (u64 i = 0; i < bytes / sizeof *old; ++i) old[i] = {i + 1, &old[i]};
    }
    store.checkpoint();
    store.deallocate(old);
    store.checkpoint();
    atomically(store, [&](Transaction& tx) {
      auto* const made = static_cast<PartsObject*>(tx.allocate(type, count));
      EXPECT_EQ(made, old);
      for (u64 i = 0; i < count; ++i) made[i].key = 7;
      tx.write(words.head, reinterpret_cast<Node*>(made));
    });
    after_crash([count, bytes](Store& then) {
      auto* const found =
          reinterpret_cast<const PartsObject*>(then.find_root<Words>("words")->head);
      ASSERT_EQ(then.usable_size(found), bytes);
      for (u64 i = 0; i < bytes / sizeof *found; ++i) {
        ASSERT_EQ(found[i].key, i < count ? 7u : 0u) << i;
        ASSERT_EQ(found[i].next, nullptr) << i;
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, TransactionParts, kTransactionWays,
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace perdura::test
