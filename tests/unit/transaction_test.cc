// Goal: transactions are isolated, all or nothing, and after a crash those that were acknowledged
// are there, whole, and no others' parts. Method: counters, transfers between accounts, lists that
// grow and shrink, in one thread and in several; the medium is copied while the store is open, or
// made of what a power failure leaves of a recorded run, and opened.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <filesystem>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include <perdura/field.hpp>
#include <perdura/perdura.hpp>
#include <perdura/transaction.hpp>

#include "media/record.hpp"
#include "store/runtime.hpp"
#include "support/copy_working.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/slice.hpp"

namespace perdura::test {

struct TypedNode {
  TypedNode* next;
  u64 key;
};
struct TypedList {
  TypedNode* first;
};

}  // namespace perdura::test

PERDURA_TYPE(perdura::test::TypedNode, next)
PERDURA_TYPE(perdura::test::TypedList, first)

namespace perdura::test {
namespace {

using i64 = std::int64_t;

struct Node {
  Node* next;
  u64 key;
  u64 words[6] = {};
};

struct List {
  Node* first;
  u64 count;
  u64 sum;
};

void insert(Transaction& tx, List& list, u64 key) {
  auto* const node = tx.make<Node>(tx.read(list.first), key);
  tx.write(list.first, node);
  tx.write(list.count, tx.read(list.count) + 1);
  tx.write(list.sum, tx.read(list.sum) + key);
}

void remove(Transaction& tx, List& list) {
  Node* const node = tx.read(list.first);
  if (node == nullptr) return;
  tx.write(list.first, tx.read(node->next));
  tx.write(list.count, tx.read(list.count) - 1);
  tx.write(list.sum, tx.read(list.sum) - tx.read(node->key));
  tx.destroy(node);
}

std::string check(const List& list) {
  u64 count = 0;
  u64 sum = 0;
  for (const Node* node = list.first; node != nullptr; node = node->next, ++count) sum += node->key;
  return count == list.count && sum == list.sum ? "" : "the list is not whole";
}

struct Way {
  friend void PrintTo(const Way& way, std::ostream* out) {
    *out << way.scheme << "_" << name_of(way.tracking)
         << (way.logging == Logging::kUndo ? "_undo" : "");
  }
  std::string scheme;
  Tracking tracking;
  Logging logging = Logging::kRedo;
};

class Transactions : public testing::TestWithParam<Way> {
 protected:
  static Options options() {
    Options options;
    options.region_limit_bytes = 64 * kMiB;
    options.tracking = GetParam().tracking;
    options.lazy_recovery = false;
    return options;
  }
  std::string path(const char* file = "store.pd") const { return folder_.path(file); }
  Store open(const char* file = "store.pd") const {
    Store store = Store::open(GetParam().scheme + ":" + path(file), options());
    set_logging(store, GetParam().logging);
    return store;
  }
  /// What a crash would leave now is looked at when the test has ended: `check` says what is wrong
  /// with it.
  using Check = std::function<std::string(Store&)>;
  void after_crash(const Check& check, u64 address = 0) {
    const std::string copy = path(("copy " + std::to_string(crashes_.size())).c_str());
    copy_working(path(), copy);
    crashes_.push_back({copy, address, check});
  }
  void TearDown() override {
    for (const Crash& crash : crashes_) {
      Options chosen = options();
      chosen.region_address = crash.address;
      Store store = Store::open(GetParam().scheme + ":" + crash.path, chosen);
      const HeapAudit audit = store.audit();
      EXPECT_TRUE(audit.clean) << audit.problem;
      EXPECT_EQ(crash.check(store), "");
    }
  }

  struct Crash {
    std::string path;
    u64 address;
    Check check;
  };
  std::vector<Crash> crashes_;
  const TempDir folder_{TempDir::kMemory};
};

TEST_P(Transactions, AreThereAfterACrash) {
  Store store = open();
  auto& list = store.root<List>("list");
  store.checkpoint();
  for (u64 i = 1; i <= 300; ++i) {
    atomically(store, [&](Transaction& tx) {
      insert(tx, list, i);
      if (i % 3 == 0) remove(tx, list);
    });
    if (i % 70 == 0) store.checkpoint();
    if (i % 50 != 0) continue;
    const u64 blocks = store.audit().live_blocks;
    const u64 count = list.count;
    const u64 sum = list.sum;
    after_crash([=](Store& then) -> std::string {
      const auto* const found = then.find_root<List>("list");
      if (found->count != count || found->sum != sum) return "another list";
      if (then.audit().live_blocks != blocks) return "other blocks";
      return check(*found);
    });
  }
}

TEST_P(Transactions, GoOnAfterACrash) {
  for (u64 life = 0; life < 6; ++life) {
    {
      Store store = open();
      auto& list = store.root<List>("list");
      EXPECT_EQ(list.count, life * 20);
      EXPECT_EQ(check(list), "");
      if (life == 0) store.checkpoint();
      for (u64 i = 0; i < 20; ++i) atomically(store, [&](Transaction& tx) { insert(tx, list, i); });
      std::filesystem::copy_file(path(), path("copy.pd"),
                                 std::filesystem::copy_options::overwrite_existing);
    }
    std::filesystem::rename(path("copy.pd"), path());
  }
}

TEST_P(Transactions, ThatThrowNeverWere) {
  Store store = open();
  auto& list = store.root<List>("list");
  atomically(store, [&](Transaction& tx) { insert(tx, list, 1); });
  const HeapAudit before = store.audit();
  EXPECT_THROW(atomically(store,
                          [&](Transaction& tx) {
                            insert(tx, list, 2);
                            remove(tx, list);
                            remove(tx, list);
                            throw std::runtime_error("no");
                          }),
               std::runtime_error);
  EXPECT_EQ(list.count, 1u);
  EXPECT_EQ(check(list), "");
  EXPECT_EQ(store.audit().live_blocks, before.live_blocks);
  after_crash([=](Store& then) -> std::string {
    return then.find_root<List>("list")->count == 1 ? "" : "another list";
  });
}

TEST_P(Transactions, InsideOthersArePartOfThem) {
  Store store = open();
  auto& list = store.root<List>("list");
  const u64 count = atomically(store, [&](Transaction& tx) {
    insert(tx, list, 1);
    atomically(store, [&](Transaction& inner) { insert(inner, list, 2); });
    return tx.read(list.count);
  });
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(check(list), "");
}

struct Small {
  u8 bytes[3];
  bool flag;
  u16 half;
  float real;
  std::array<u64, 3> words;
};

TEST_P(Transactions, StoreFieldsOfAllSizes) {
  Store store = open();
  auto& small = store.root<Small>("small");
  store.checkpoint();
  atomically(store, [&](Transaction& tx) {
    tx.write(small.bytes[1], 7);
    tx.write(small.flag, true);
    tx.write(small.half, 1234);
    tx.write(small.real, 1.5f);
    tx.write(small.words, {1, 2, 3});
    EXPECT_EQ(tx.read(small.half), 1234);
    EXPECT_EQ(small.half, GetParam().logging == Logging::kUndo ? 1234 : 0);
  });
  after_crash([=](Store& then) -> std::string {
    const auto& found = *then.find_root<Small>("small");
    const bool same = found.bytes[0] == 0 && found.bytes[1] == 7 && found.flag &&
                      found.half == 1234 && found.real == 1.5f &&
                      found.words == std::array<u64, 3>{1, 2, 3};
    return same ? "" : "other values";
  });
}

struct Reported {
  Field<u64> count;
  Field<Reported*> self;
  Field<u16> half;
};

TEST_P(Transactions, StoreFieldsThatReport) {
  Store store = open();
  auto& fields = store.root<Reported>("fields");
  atomically(store, [&](Transaction& tx) {
    tx.write(fields.count, tx.read(fields.count) + 7);
    tx.write(fields.self, &fields);
    tx.write(fields.half, 3);
    EXPECT_EQ(tx.read(fields.count), 7u);
    EXPECT_EQ(tx.read(fields.self), &fields);
  });
  after_crash([](Store& then) -> std::string {
    const auto& found = *then.find_root<Reported>("fields");
    return found.count == 7 && found.self == &found && found.half == 3 ? "" : "other values";
  });
}

TEST_P(Transactions, HaveLargeBlocks) {
  Store store = open();
  auto& blocks = store.root<std::array<u64*, 8>>("blocks");
  store.checkpoint();
  std::mt19937_64 random(1);
  for (u64 i = 0; i < 60; ++i) {
    atomically(store, [&](Transaction& tx) {
      u64*& slot = blocks[random() % blocks.size()];
      u64* const old = tx.read(slot);
      const u64 count = 1 + random() % 40'000;
      auto* const block = static_cast<u64*>(tx.allocate(count * sizeof(u64), 64));
      for (u64 word = 0; word < count; ++word) block[word] = count;
      tx.write(slot, block);
      tx.deallocate(old);
    });
    if (i % 20 == 19) {
      std::array<u64, 8> counts{};
      for (size_t each = 0; each < blocks.size(); ++each)
        if (blocks[each] != nullptr) counts[each] = blocks[each][0];
      after_crash([=](Store& then) -> std::string {
        const auto& found = *then.find_root<std::array<u64*, 8>>("blocks");
        for (size_t each = 0; each < found.size(); ++each) {
          if ((found[each] == nullptr) != (counts[each] == 0)) return "other blocks";
          for (u64 word = 0; word < counts[each]; ++word)
            if (found[each][word] != counts[each]) return "another content";
        }
        return "";
      });
    }
  }
}

TEST_P(Transactions, SeeEachOtherWholeOrNotAtAll) {
  constexpr u64 kAccounts = 64;
  constexpr u64 kThreads = 4;
  constexpr i64 kEach = 1000;
  Store store = open();
  auto& accounts = store.root<std::array<i64, kAccounts>>("accounts");
  accounts.fill(kEach);
  store.checkpoint();
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (u64 thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      std::mt19937_64 random(thread);
      for (u64 i = 0; i < 3000; ++i) {
        i64& from = accounts[random() % kAccounts];
        i64& to = accounts[random() % kAccounts];
        const auto amount = static_cast<i64>(random() % 10);
        atomically(store, [&](Transaction& tx) {
          tx.write(from, tx.read(from) - amount);
          tx.write(to, tx.read(to) + amount);
        });
        if (i % 16 != 0) continue;
        const i64 sum = atomically(store, [&](Transaction& tx) {
          i64 found = 0;
          for (const i64& account : accounts) found += tx.read(account);
          return found;
        });
        EXPECT_EQ(sum, kEach * static_cast<i64>(kAccounts));
      }
    });
  std::thread checkpoints([&] {
    while (!stop) {
      store.checkpoint();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  for (std::thread& thread : threads) thread.join();
  stop = true;
  checkpoints.join();
  const auto last = accounts;
  after_crash([=](Store& then) -> std::string {
    const auto* const found = then.find_root<std::array<i64, kAccounts>>("accounts");
    return *found == last ? "" : "other accounts";
  });
}

// At another address after the crash: its pointers are known.
TEST_P(Transactions, HaveTypedObjects) {
  Store store = open();
  auto& list = store.root<TypedList>("list");
  for (u64 i = 0; i < 50; ++i)
    atomically(store, [&](Transaction& tx) {
      tx.write(list.first, tx.make<TypedNode>(tx.read(list.first), i));
    });
  after_crash(
      [](Store& then) -> std::string {
        u64 next = 50;
        for (const TypedNode* node = then.find_root<TypedList>("list")->first; node != nullptr;
             node = node->next)
          if (!then.contains(node) || node->key != --next) return "another list";
        return next == 0 ? "" : "a shorter list";
      },
      0x553000000000);
}

TEST_P(Transactions, WaitForOthers) {
  constexpr u64 kItems = 300;
  Store store = open();
  auto& queue = store.root<std::array<u64, 3>>("queue");  // places; 0: empty
  u64 sum = 0;
  std::thread consumer([&] {
    for (u64 i = 0; i < kItems; ++i)
      sum += atomically(store, [&](Transaction& tx) {
        for (u64& place : queue) {
          const u64 item = tx.read(place);
          if (item == 0) continue;
          tx.write(place, 0);
          return item;
        }
        tx.retry();
      });
  });
  for (u64 i = 1; i <= kItems; ++i)
    atomically(store, [&](Transaction& tx) {
      for (u64& place : queue)
        if (tx.read(place) == 0) return tx.write(place, i);
      tx.retry();
    });
  consumer.join();
  EXPECT_EQ(sum, kItems * (kItems + 1) / 2);
}

TEST_P(Transactions, DoOneOrElseTheOther) {
  Store store = open();
  auto& list = store.root<List>("list");
  auto& words = store.root<std::array<u64, 4>>("words");
  atomically(store, [&](Transaction& tx) { tx.write(words[3], 0); });
  store.destroy(store.make<Node>());  // what it learns of the type are blocks
  const u64 blocks = store.audit().live_blocks;
  atomically(store, [&](Transaction& tx) {
    tx.write(words[0], 1);
    tx.or_else(
        [&](Transaction& first) {
          insert(first, list, 7);
          first.write(words[0], 2);
          first.write(words[1], 2);
          first.retry();
        },
        [&](Transaction& second) { second.write(words[2], second.read(words[0]) + 10); });
  });
  EXPECT_EQ(words, (std::array<u64, 4>{1, 0, 11, 0}));
  EXPECT_EQ(list.count, 0u);
  EXPECT_EQ(list.first, nullptr);
  EXPECT_EQ(store.audit().live_blocks, blocks);
}

TEST_P(Transactions, NoneStarves) {
  Store store = open();
  auto& words = store.root<std::array<u64, 512>>("words");
  std::atomic<u64> done{0};
  std::thread longer([&] {
    for (u64 i = 0; i < 20; ++i)
      atomically(store, [&](Transaction& tx) {
        for (u64& word : words) tx.write(word, tx.read(word) + 1);
      });
    done = 1;
  });
  u64 others = 0;
  for (; done == 0; ++others)
    atomically(store, [&](Transaction& tx) {
      u64& word = words[others % words.size()];
      tx.write(word, tx.read(word) + 1);
    });
  longer.join();
  u64 sum = 0;
  for (const u64 word : words) sum += word;
  EXPECT_EQ(sum, 20 * words.size() + others);
}

TEST_P(Transactions, ThatAreUndoneAreNeverSeen) {
  Store store = open();
  auto& words = store.root<std::array<u64, 64>>("words");
  std::atomic<bool> done{false};
  std::thread undone([&] {
    for (u64 i = 0; i < 3000; ++i)
      EXPECT_THROW(atomically(store,
                              [&](Transaction& tx) {
                                for (u64 at = 0; at < words.size(); at += 4)
                                  tx.write(words[at], i + 1);
                                throw std::runtime_error("no");
                              }),
                   std::runtime_error);
    done = true;
  });
  u64 seen = 0;
  while (!done)
    seen += atomically(store, [&](Transaction& tx) {
      u64 sum = 0;
      for (u64 at = words.size(); at-- > 0;) sum += tx.read(words[at]);
      return sum;
    });
  undone.join();
  EXPECT_EQ(seen, 0u);
}

TEST_P(Transactions, AreNotBegunAgainOnceIrrevocable) {
  constexpr u64 kSteps = 200;
  Store store = open();
  auto& words = store.root<std::array<u64, 32>>("words");
  std::vector<u64> told;  // outside of the store
  const auto add_to_all = [&](Transaction& tx) {
    for (u64& word : words) tx.write(word, tx.read(word) + 1);
  };
  std::thread other([&] {
    for (u64 i = 0; i < kSteps; ++i) atomically(store, add_to_all);
  });
  for (u64 i = 0; i < kSteps; ++i)
    atomically(store, [&](Transaction& tx) {
      tx.irrevocable();
      told.push_back(tx.read(words[0]));
      add_to_all(tx);
    });
  other.join();
  EXPECT_EQ(words[31], 2 * kSteps);
  EXPECT_EQ(told.size(), kSteps);
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
  const auto irrevocable = [&](auto&& then) {
    return [&store, then] {
      atomically(store, [&](Transaction& tx) {
        tx.irrevocable();
        then(tx);
      });
    };
  };
  expect_error(irrevocable([](Transaction& tx) { tx.retry(); }), Code::kMisuse, "retry()");
  expect_error(irrevocable([](Transaction& tx) { tx.make<TypedNode>(); }), Code::kMisuse,
               "TypedNode");
}

TEST_P(Transactions, AreNotUsedOutsideTheirBody) {
  Store store = open();
  auto& list = store.root<List>("list");
  Transaction* escaped = nullptr;
  atomically(store, [&](Transaction& tx) {
    insert(tx, list, 1);
    escaped = &tx;
    std::thread([&] {
      expect_error([&] { tx.write(list.count, 2); }, Code::kMisuse, "another thread");
    }).join();
  });
  expect_error([&] { (void)escaped->read(list.count); }, Code::kMisuse, "after it has ended");
  expect_error([&] { escaped->write(list.count, 2); }, Code::kMisuse, "after it has ended");
  expect_error([&] { (void)escaped->allocate(8); }, Code::kMisuse, "after it has ended");
  expect_error([&] { escaped->deallocate(list.first); }, Code::kMisuse, "after it has ended");
  EXPECT_EQ(check(list), "");
  u64 outside = 0;
  expect_error([&] { atomically(store, [&](Transaction& tx) { tx.write(outside, 1); }); },
               Code::kMisuse, "not in '");
}

// What the store does for the body would stay, or wait for the body to end.
TEST_P(Transactions, RefuseCallsThatCouldNotBeUndone) {
  Store store = open();
  auto& first = store.root<u64>("first");
  store.checkpoint();
  const auto refused = [&](const char* name, const auto& call) {
    SCOPED_TRACE(name);
    expect_error([&] { atomically(store, [&](Transaction&) { call(); }); }, Code::kMisuse, name);
    // By a body that goes on as well, and whose other stores stay.
    atomically(store, [&](Transaction& tx) {
      tx.write(first, tx.read(first) + 1);
      try {
        call();
      } catch (const Error&) {
      }
    });
  };
  refused("set_root", [&] { store.set_root("second", &first); });
  refused("get_or_set_root", [&] { store.get_or_set_root("second", &first); });
  refused("set_root", [&] { store.root<u64>("second"); });
  refused("reallocate", [&] { store.reallocate(&first, 100); });
  refused("checkpoint", [&] { store.checkpoint(); });
  refused("checkpoint", [&] { store.checkpoint_async(); });
  refused("checkpoint_root", [&] { store.checkpoint_root("first"); });
  refused("close", [&] { store.close(); });
  EXPECT_EQ(first, 8u);
  EXPECT_EQ(store.find_root<u64>("second"), nullptr);
  const HeapAudit audit = store.audit();
  EXPECT_TRUE(audit.clean) << audit.problem;
}

TEST_P(Transactions, MakeManyBlocks) {
  constexpr u64 kBlocks = 8000;
  Store store = open();
  auto& list = store.root<List>("list");
  atomically(store, [&](Transaction& tx) {
    for (u64 i = 0; i < kBlocks; ++i) {
      auto* const node = static_cast<Node*>(tx.allocate(2 * sizeof(u64)));
      tx.write(node->next, tx.read(list.first));
      tx.write(node->key, i);
      tx.write(list.first, node);
    }
    tx.write(list.count, kBlocks);
    tx.write(list.sum, kBlocks * (kBlocks - 1) / 2);
  });
  EXPECT_EQ(check(list), "");
  after_crash([](Store& then) { return check(*then.find_root<List>("list")); });
}

TEST_P(Transactions, AreRepeatedAlikeInAllWays) {
  constexpr Durability kLogged[] = {Durability::kNonTemporal, Durability::kRelaxed,
                                    Durability::kLazyBulk, Durability::kPerWrite};
  for (const Durability durability : kLogged) {
    std::filesystem::remove(path());
    Store store = open();
    auto& list = store.root<List>("list");
    store.checkpoint();
    set_durability(store, durability);
    for (u64 i = 1; i <= 60; ++i)
      atomically(store, [&](Transaction& tx) {
        insert(tx, list, i);
        if (i % 4 == 0) remove(tx, list);
      });
    wait_for_commit(store, last_commit(store));
    after_crash([](Store& then) -> std::string {
      u64 next = 60;  // the last of each four was removed
      for (const Node* node = then.find_root<List>("list")->first; node != nullptr;
           node = node->next) {
        if (next % 4 == 0) --next;
        if (node->key != next--) return "another list";
      }
      return next == 0 ? "" : "a shorter list";
    });
  }
}

TEST_P(Transactions, OfAnotherFormatAreRefused) {
  {
    Store store = open();
    atomically(store, [&](Transaction& tx) { tx.allocate(8); });
    auto* const state = static_cast<format::TransactionState*>(
        value_or_throw(store.runtime().heap().roots().get(format::kTransactionRoot, 0)));
    const auto operation = store.operation();
    store.touch(state, sizeof state->version);
    state->version = 1;
  }
  const auto use = [&] {
    Store store = Store::open(GetParam().scheme + ":" + path(), options());
    atomically(store, [](Transaction& tx) { tx.allocate(8); });
  };
  expect_error(use, Code::kUnsupported, "format version 1");
}

// Two words that are stored to together are seen alike by each body, also by those that are begun
// again.
TEST_P(Transactions, SeeNoMixEvenWhenTheyBeginAgain) {
  Store store = open();
  auto& words = store.root<std::array<u64, 128>>("words");
  std::atomic<u64> mixes{0};
  std::vector<std::thread> threads;
  for (u64 thread = 0; thread < 3; ++thread)
    threads.emplace_back([&, thread] {
      std::mt19937_64 random(thread);
      for (u64 i = 0; i < 1500; ++i)
        atomically(store, [&](Transaction& tx) {
          const u64 at = random() % 4;
          const u64 first = tx.read(words[at]);
          if (random() % 16 == 0) std::this_thread::yield();
          const u64 second = tx.read(words[64 + at]);
          if (first != second) ++mixes;
          tx.write(words[64 + at], second + 1);
          if (random() % 16 == 0) std::this_thread::yield();
          tx.write(words[at], first + 1);
        });
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(mixes, 0u);
  u64 sum = 0;
  for (u64 at = 0; at < 4; ++at) sum += words[at];
  EXPECT_EQ(sum, 3 * 1500u);
}

/// What a transaction read and stored.
struct Step {
  std::vector<std::pair<u64, u64>> reads;   ///< word, value
  std::vector<std::pair<u64, u64>> writes;  ///< the same
};
using History = std::vector<std::vector<Step>>;  ///< of each thread

/// Whether some order of the transactions, each thread's in its own, explains all that was read.
bool is_serializable(const History& history, std::vector<size_t>& done, std::vector<u64>& words) {
  bool all = true;
  for (size_t thread = 0; thread < history.size(); ++thread) {
    if (done[thread] == history[thread].size()) continue;
    all = false;
    const Step& step = history[thread][done[thread]];
    if (!std::ranges::all_of(step.reads,
                             [&](const auto& read) { return words[read.first] == read.second; }))
      continue;
    std::vector<u64> after = words;
    for (const auto& [word, value] : step.writes) after[word] = value;
    ++done[thread];
    if (is_serializable(history, done, after)) return true;
    --done[thread];
  }
  return all;
}

TEST_P(Transactions, AreToldWhatToKeepWhileNoneRuns) {
  Store store = open();
  auto& word = store.root<u64>("word");
  try {
    atomically(store, [&](Transaction& tx) {
      tx.write(word, u64{1});
      set_logging(store, Logging::kUndo);
    });
    FAIL() << "it was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kMisuse) << error.what();
  }
  EXPECT_EQ(word, 0u);
}

TEST_P(Transactions, HaveHistoriesThatASerialOrderExplains) {
  constexpr u64 kWords = 4;
  constexpr u64 kThreads = 3;
  const u64 seeds_of_first = kSanitized ? 500 : slice_or_whole(400, 10'000);
  const bool is_first = GetParam().scheme == "emu" && GetParam().tracking == Tracking::kReported;
  const u64 seeds = is_first ? seeds_of_first : 200;
  Store store = open();
  auto& words = store.root<std::array<u64, kWords * 8>>("words");  // lines of their own
  set_durability(store, is_first ? Durability::kNone : Durability::kNonTemporal);
  History history(kThreads);
  std::barrier phase(kThreads);
  const auto work = [&](u64 thread, u64 seed) {
    std::mt19937_64 random(seed * kThreads + thread);
    for (u64 i = 0; i < 3; ++i) {
      const u64 body_seed = random();
      Step step;
      atomically(store, [&](Transaction& tx) {
        step = {};
        std::mt19937_64 draws(body_seed);
        for (u64 action = 0; action < 4; ++action) {
          const u64 word = draws() % kWords;
          if (draws() % 4 == 0) std::this_thread::yield();
          if (draws() % 2 == 0) {
            const auto own = std::ranges::find(step.writes, word, &std::pair<u64, u64>::first);
            const u64 value = tx.read(words[word * 8]);
            if (own == step.writes.end()) step.reads.emplace_back(word, value);
          } else {
            const u64 value = (thread + 1) * 1000 + i * 100 + action;
            tx.write(words[word * 8], value);
            step.writes.emplace_back(word, value);
          }
        }
      });
      history[thread].push_back(std::move(step));
    }
  };
  std::vector<std::thread> others;
  for (u64 thread = 1; thread < kThreads; ++thread)
    others.emplace_back([&, thread] {
      for (u64 seed = 0; seed < seeds; ++seed) {
        phase.arrive_and_wait();
        work(thread, seed);
        phase.arrive_and_wait();
      }
    });
  u64 unexplained = 0;
  for (u64 seed = 0; seed < seeds; ++seed) {
    for (u64 word = 0; word < kWords; ++word) words[word * 8] = 0;
    for (auto& steps : history) steps.clear();
    phase.arrive_and_wait();
    work(0, seed);
    phase.arrive_and_wait();
    std::vector<size_t> done(kThreads);
    std::vector<u64> start(kWords);
    if (!is_serializable(history, done, start)) ++unexplained;
  }
  for (std::thread& other : others) other.join();
  EXPECT_EQ(unexplained, 0u);
}

INSTANTIATE_TEST_SUITE_P(All, Transactions,
                         testing::Values(Way{"emu", Tracking::kReported},
                                         Way{"emu", Tracking::kUserfault},
                                         Way{"emu", Tracking::kProtect},
                                         Way{"file", Tracking::kReported},
                                         Way{"file", Tracking::kUserfault},
                                         Way{"emu", Tracking::kReported, Logging::kUndo},
                                         Way{"emu", Tracking::kProtect, Logging::kUndo},
                                         Way{"file", Tracking::kReported, Logging::kUndo}),
                         testing::PrintToStringParamName());

// What durable_commit says is there, and wait_for_commit makes it say so.
TEST_P(Transactions, ThatAreRelaxedSayHowFarTheyAreDurable) {
  constexpr u64 kThreads = 3;
  constexpr u64 kSteps = 400;
  Store store = open();
  auto& counters = store.root<std::array<u64, kThreads * 8>>("counters");
  set_durability(store, Durability::kRelaxed);
  const auto step = [&](u64 thread) {
    u64& own = counters[thread * 8];
    atomically(store, [&](Transaction& tx) { tx.write(own, tx.read(own) + 1); });
    return last_commit(store);
  };
  std::vector<std::thread> threads;
  for (u64 thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      u64 last = 0;
      u64 durable = 0;
      for (u64 i = 0; i < kSteps; ++i) {
        const u64 commit = step(thread);
        EXPECT_GT(commit, last);
        last = commit;
        const u64 now = durable_commit(store);
        EXPECT_GE(now, durable);
        durable = now;
      }
      wait_for_commit(store, last);
      EXPECT_GE(durable_commit(store), last);
    });
  for (std::thread& thread : threads) thread.join();
  after_crash([](Store& then) -> std::string {
    const auto& found = *then.find_root<std::array<u64, kThreads * 8>>("counters");
    for (u64 thread = 0; thread < kThreads; ++thread)
      if (found[thread * 8] != kSteps) return "a commit that was waited for is gone";
    return "";
  });
  // Without waiting they become durable too.
  const u64 commit = step(0);
  while (durable_commit(store) < commit) std::this_thread::yield();
  after_crash([](Store& then) -> std::string {
    const auto& found = *then.find_root<std::array<u64, kThreads * 8>>("counters");
    return found[0] == kSteps + 1 ? "" : "a commit that is said to be durable is gone";
  });
  expect_error([&] { wait_for_commit(store, commit + 1000); }, Code::kInvalidArgument, "commit");

  set_durability(store, Durability::kNone);
  const u64 version = store.durable_version();
  const u64 unlogged = step(1);
  EXPECT_LT(durable_commit(store), unlogged);
  wait_for_commit(store, unlogged);
  EXPECT_GE(durable_commit(store), unlogged);
  EXPECT_GT(store.durable_version(), version);
}

// Whoever waits for a version meanwhile: a commit without a record, of another thread.
TEST_P(Transactions, ThatAreSaidToBeDurableStaySo) {
  Store store = open();
  u64& word = store.root<u64>("word");
  set_durability(store, Durability::kRelaxed);
  const auto step = [&] {
    atomically(store, [&](Transaction& tx) { tx.write(word, tx.read(word) + 1); });
    return last_commit(store);
  };
  const u64 waited_for = step();
  wait_for_commit(store, waited_for);
  store.runtime().heap().require_version();
  EXPECT_GE(durable_commit(store), waited_for);
  store.checkpoint();
  const u64 told = step();
  while (durable_commit(store) < told) std::this_thread::yield();
  store.runtime().heap().require_version();
  EXPECT_GE(durable_commit(store), told);
}

// Whatever of the record that was being written reaches the medium.
class TransactionCrash : public testing::TestWithParam<std::string> {
 protected:
  static Options options() {
    Options options;
    options.region_limit_bytes = 4 * kMiB;
    options.log_segment_bytes = 32 * kKiB;
    options.log_limit_bytes = 128 * kKiB;
    options.tracking = Tracking::kReported;
    options.lazy_recovery = false;
    return options;
  }
  std::string uri(const char* file) const { return GetParam() + ":" + folder_.path(file); }
  Store open_recorded() {
    detail::InternalOptions internal;
    internal.wrap = [&](std::unique_ptr<media::Medium> inner) {
      return recording_.wrap(std::move(inner));
    };
    return detail::StoreAccess::store(
        value_or_throw(detail::Runtime::open(uri("run.pd"), options(), internal)));
  }
  /// What is there after the first `end` calls of the run, and which of the writes that no barrier
  /// covers.
  Store open_crashed(const media::History& history, size_t end, const media::History::Keep& keep) {
    write_file(folder_.path("crash.pd"), history.after_crash(end, keep));
    return Store::open(uri("crash.pd"), options());
  }

  const TempDir folder_{TempDir::kMemory};
  media::Recording recording_;
};

TEST_P(TransactionCrash, APowerFailureLeavesWhatWasAcknowledged) {
  std::vector<std::pair<size_t, u64>> acknowledged;  // calls by then, and the list's count
  std::vector<u64> sums{0};
  {
    Store store = open_recorded();
    auto& list = store.root<List>("list");
    store.checkpoint();
    atomically(store, [&](Transaction& tx) { tx.write(list.sum, u64{0}); });
    for (u64 i = 1; i <= 400; ++i) {
      atomically(store, [&](Transaction& tx) {
        insert(tx, list, i);
        if (i % 5 == 0) {
          remove(tx, list);
          remove(tx, list);
          insert(tx, list, i);
        }
        tx.write(tx.read(list.first)->words[0], i);
      });
      sums.push_back(list.sum);
      acknowledged.emplace_back(recording_.size(), i);
      if (i % 90 == 0) store.checkpoint();
    }
  }
  const media::History history = recording_.history();
  constexpr u64 kSamples = 400 / kSlower;
  std::mt19937_64 random(7);
  size_t judged = 0;
  for (u64 sample = 0; sample < kSamples; ++sample) {
    const size_t end = acknowledged.front().first +
                       random() % (history.calls().size() - acknowledged.front().first);
    u64 count = 0;
    for (const auto& [calls, number] : acknowledged)
      if (calls <= end) count = number;
    const u64 mode = random() % 3;
    Store store = open_crashed(
        history, end, [&](size_t, u64) { return mode == 0 || (mode == 1 && random() % 2 == 0); });
    const auto* const list = store.find_root<List>("list");
    ASSERT_NE(list, nullptr);
    EXPECT_EQ(check(*list), "");
    const HeapAudit audit = store.audit();
    EXPECT_TRUE(audit.clean) << audit.problem;
    const bool same = list->sum == sums[count] || (count < 400 && list->sum == sums[count + 1]);
    EXPECT_TRUE(same) << "at call " << end << " after transaction " << count;
    // The list, the state of transactions and its type, and what leads to roots.
    EXPECT_EQ(audit.live_blocks, list->count + 2 + audit.types + audit.roots);
    ++judged;
  }
  EXPECT_EQ(judged, kSamples);
}

// Threads whose transactions are made durable together: each finds its own as far as it was told,
// or one more.
TEST_P(TransactionCrash, APowerFailureLeavesWhatEachThreadWasTold) {
  constexpr u64 kThreads = 4;
  constexpr u64 kSteps = 150;
  struct Counters {
    struct alignas(64) {
      u64 own;
    } threads[kThreads];
    u64 sum;
  };
  std::vector<size_t> told[kThreads];  // calls when each step was
  size_t begin = 0;
  {
    Store store = open_recorded();
    auto& counters = store.root<Counters>("counters");
    store.checkpoint();
    begin = recording_.size();
    std::vector<std::thread> threads;
    for (u64 thread = 0; thread < kThreads; ++thread)
      threads.emplace_back([&, thread] {
        for (u64 i = 0; i < kSteps; ++i) {
          atomically(store, [&](Transaction& tx) {
            u64& own = counters.threads[thread].own;
            tx.write(own, tx.read(own) + 1);
            if (i % 4 == 0) tx.write(counters.sum, tx.read(counters.sum) + 1);
          });
          told[thread].push_back(recording_.size());
        }
      });
    for (std::thread& thread : threads) thread.join();
  }
  const media::History history = recording_.history();
  std::mt19937_64 random(3);
  for (u64 sample = 0; sample < 300 / kSlower; ++sample) {
    const size_t end = begin + random() % (history.calls().size() - begin);
    const u64 mode = random() % 4;
    Store store = open_crashed(
        history, end, [&](size_t, u64) { return mode == 0 || (mode != 1 && random() % 4 < mode); });
    const auto* const found = store.find_root<Counters>("counters");
    ASSERT_NE(found, nullptr);
    u64 sum = 0;
    for (u64 thread = 0; thread < kThreads; ++thread) {
      const u64 own = found->threads[thread].own;
      const auto known = static_cast<u64>(
          std::ranges::count_if(told[thread], [&](size_t calls) { return calls <= end; }));
      EXPECT_GE(own, known) << "thread " << thread << " at call " << end;
      EXPECT_LE(own, known + 1);
      sum += (own + 3) / 4;
    }
    EXPECT_EQ(found->sum, sum);
  }
}

INSTANTIATE_TEST_SUITE_P(Media, TransactionCrash, testing::Values("emu", "file"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace perdura::test
