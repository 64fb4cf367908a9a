// Goal: objects that allocate, with strings and containers in them, are made and destroyed in
// transactions as others are: what is undone is untouched, and nothing is given away before the end
// or lost after it. Method: records replaced by bodies that commit, throw, retry and run alone,
// against plain ones; the heap's audit and its blocks, now and after a crash.
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include <perdura/perdura.hpp>
#include <perdura/transaction.hpp>

#include "base/bits.hpp"
#include "support/call_faults.hpp"
#include "support/expect_failure.hpp"
#include "support/transaction_ways.hpp"

namespace perdura::test {
namespace {

/// Long enough that a string keeps it in a block.
std::string text_of(u64 number) {
  return "a text that no small string holds " + std::to_string(number);
}

struct Record {
  Record(Store& store, u64 number, u64 count)
      : name(text_of(number).c_str(), Allocator<char>(store)),
        numbers(Allocator<u64>(store)),
        texts(Allocator<std::pair<const u64, string>>(store)),
        index(Allocator<std::pair<const u64, u64>>(store)) {
    for (u64 i = 0; i < count; ++i) {
      numbers.push_back(number + i);
      texts.emplace(i, string(text_of(number + i).c_str(), Allocator<char>(store)));
      index.emplace(number + i, i);
    }
  }
  std::string check(u64 number, u64 count) const {
    if (std::string_view(name) != text_of(number)) return "another name";
    if (numbers.size() != count || texts.size() != count || index.size() != count)
      return "another size";
    for (u64 i = 0; i < count; ++i)
      if (numbers[i] != number + i || std::string_view(texts.at(i)) != text_of(number + i) ||
          index.at(number + i) != i)
        return "another element";
    return "";
  }

  string name;
  vector<u64> numbers;
  map<u64, string> texts;
  unordered_map<u64, u64> index;
};

constexpr size_t kRecords = 4;
struct Records {
  std::array<Record*, kRecords> all;
};
/// What is to be in each: the number and the count; count kNone: no record.
constexpr u64 kNone = ~u64{0};
struct Wanted {
  u64 number = 0;
  u64 count = kNone;
};
using Model = std::array<Wanted, kRecords>;

std::string check(const Records& records, const Model& model) {
  for (size_t i = 0; i < kRecords; ++i) {
    if ((records.all[i] == nullptr) != (model[i].count == kNone)) return "a record too many or few";
    if (records.all[i] == nullptr) continue;
    if (std::string wrong = records.all[i]->check(model[i].number, model[i].count); !wrong.empty())
      return "record " + std::to_string(i) + ": " + wrong;
  }
  return "";
}

class TransactionObjects : public TransactionWays {
 protected:
  Options options() const override {
    Options options = TransactionWays::options();
    options.tracking = Tracking::kUserfault;
    options.log_segment_bytes = 32 * kKiB;
    return options;
  }
  void expect(Store& store, const Records& records, const Model& model) {
    ASSERT_EQ(check(records, model), "");
    after_crash([model, live_blocks = store.audit().live_blocks](Store& found) {
      EXPECT_EQ(found.audit().live_blocks, live_blocks);
      EXPECT_EQ(check(*found.find_root<Records>("records"), model), "");
    });
  }
  static void set(Transaction& tx, Store& store, Records& records, size_t at,
                  const Wanted& wanted) {
    if (Record* const old = tx.read(records.all[at])) tx.destroy(old);
    tx.write(records.all[at],
             wanted.count == kNone ? nullptr : tx.make<Record>(store, wanted.number, wanted.count));
  }
};

TEST_P(TransactionObjects, OfUndoneTransactionsAreUntouched) {
  Store store = open();
  auto& records = store.root<Records>("records");
  Model model;
  model[0] = {100, 30};
  atomically(store, [&](Transaction& tx) { set(tx, store, records, 0, model[0]); });
  const u64 before = store.audit().live_blocks;
  EXPECT_THROW(atomically(store,
                          [&](Transaction& tx) {
                            set(tx, store, records, 0, {});
                            set(tx, store, records, 1, {200, 20});
                            throw std::runtime_error("no");
                          }),
               std::runtime_error);
  EXPECT_EQ(store.audit().live_blocks, before);
  // Whoever allocates now does not get what was to be destroyed.
  std::vector<void*> others;
  for (int i = 0; i < 200; ++i) {
    others.push_back(store.allocate(16 + i));
    std::memset(others.back(), 0xee, 16 + i);
  }
  EXPECT_EQ(check(records, model), "");
  for (void* const other : others) store.deallocate(other);
  atomically(store, [&](Transaction& tx) { set(tx, store, records, 0, {}); });
  EXPECT_LT(store.audit().live_blocks, before);
  expect(store, records, Model{});
}

TEST_P(TransactionObjects, AreThereWholeAfterEachTransaction) {
  constexpr u64 kSteps = 60;
  Store store = open();
  auto& records = store.root<Records>("records");
  store.checkpoint();
  atomically(store, [&](Transaction& tx) { tx.write(records.all[0], nullptr); });
  const u64 empty = store.audit().live_blocks;
  std::mt19937_64 random(5);
  Model model;
  for (u64 step = 0; step < kSteps; ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    const auto draw = [&] {
      return random() % 4 == 0 ? Wanted{} : Wanted{random() % 1000, random() % 30};
    };
    const size_t at = random() % kRecords;
    const size_t other = (at + 1) % kRecords;
    const Wanted first = draw();
    const Wanted second = draw();
    const u64 way = random() % 6;
    const bool fails = random() % 4 == 0;
    try {
      atomically(store, [&](Transaction& tx) {
        if (way == 0) tx.irrevocable();
        set(tx, store, records, at, first);
        // Whose blocks come and go in the body.
        const vector<u64> passing(100, step, Allocator<u64>(store));
        if (way == 1) {
          // The last word of the body, on an object that it made itself.
          set(tx, store, records, at, second);
        } else if (way == 2) {
          tx.or_else(
              [&](Transaction& part) {
                set(part, store, records, at, {1, 3});
                set(part, store, records, other, {1, 3});
                part.retry();
              },
              [&](Transaction& part) { set(part, store, records, other, second); });
        } else if (way == 3) {
          try {
            atomically(store, [&](Transaction& part) {
              set(part, store, records, at, {2, 3});
              set(part, store, records, other, {2, 3});
              throw std::logic_error("the part");
            });
          } catch (const std::logic_error&) {
          }
        } else if (way == 4 && first.count != kNone) {
          // What the transaction has made is its own.
          Record* const record = tx.read(records.all[at]);
          record->numbers.push_back(first.number + first.count);
          record->texts.emplace(first.count, string(text_of(first.number + first.count).c_str(),
                                                    Allocator<char>(store)));
          record->index.emplace(first.number + first.count, first.count);
        }
        if (fails) throw std::runtime_error("all of it");
      });
      model[at] = way == 1 ? second : first;
      if (way == 2) model[other] = second;
      if (way == 4 && first.count != kNone) ++model[at].count;
    } catch (const std::runtime_error&) {
      ASSERT_TRUE(fails);
    }
    if (step % 10 == 9) store.checkpoint();
    if (step % 4 == 3) expect(store, records, model);
    else ASSERT_EQ(check(records, model), "");
  }
  atomically(store, [&](Transaction& tx) {
    for (size_t i = 0; i < kRecords; ++i) set(tx, store, records, i, {});
  });
  EXPECT_EQ(store.audit().live_blocks, empty);
  expect(store, records, Model{});
}

// A body may read what it has found by plain loads: whoever destroys it runs alone.
TEST_P(TransactionObjects, AreReadWhileOthersReplaceThem) {
  constexpr u64 kSteps = 40;
  Store store = open();
  auto& records = store.root<Records>("records");
  atomically(store, [&](Transaction& tx) { set(tx, store, records, 0, {0, 10}); });
  std::atomic<bool> ended = false;
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i)
    readers.emplace_back([&] {
      while (!ended)
        atomically(store, [&](Transaction& tx) {
          const Record* const record = tx.read(records.all[0]);
          const u64 number = record->numbers[0];
          EXPECT_EQ(record->check(number, 10), "");
        });
    });
  for (u64 i = 1; i <= kSteps; ++i)
    atomically(store, [&](Transaction& tx) { set(tx, store, records, 0, {i, 10}); });
  ended = true;
  for (std::thread& reader : readers) reader.join();
  Model model;
  model[0] = {kSteps, 10};
  expect(store, records, model);
}

TEST_P(TransactionObjects, ThatABodyHasNotMadeAreNotChangedByTheirOwnCode) {
  Store store = open();
  auto& records = store.root<Records>("records");
  Model model;
  model[0] = {1, 20};
  atomically(store, [&](Transaction& tx) { set(tx, store, records, 0, model[0]); });
  void* const block = records.all[0]->numbers.data();
  // What the vector's own code calls, which may not throw.
  expect_error(
      [&] {
        atomically(store, [&](Transaction&) {
          detail::heap_deallocate(records.all[0]->numbers.get_allocator().heap(), block);
        });
      },
      Code::kMisuse, "tx.destroy()");
  const auto refused = [&](const std::function<void()>& call) {
    expect_error([&] { atomically(store, [&](Transaction&) { call(); }); }, Code::kMisuse,
                 "outside of transactions");
  };
  refused([&] { store.set_root("other", nullptr); });
  refused([&] { store.reallocate(block, 1000); });
  expect_error(
      [&] {
        atomically(store, [&](Transaction& tx) {
          tx.destroy(records.all[0]);
          tx.destroy(records.all[0]);
        });
      },
      Code::kMisuse, "twice");
  expect(store, records, model);
}

// When the commit learns that a record cannot hold what the destructor has given back, the object
// is destroyed: a version takes the record's place.
TEST_P(TransactionObjects, ThatGiveBackMoreThanARecordHoldsAreDestroyedByAVersion) {
  Store store = open();
  auto& records = store.root<Records>("records");
  {
    const auto operation = store.operation();
    records.all[0] = ::new (operation.allocate(sizeof(Record))) Record(store, 7, 3000);
  }
  store.checkpoint();
  Model model;
  model[1] = {5, 5};
  const u64 version = store.durable_version();
  atomically(store, [&](Transaction& tx) {
    set(tx, store, records, 0, {});
    set(tx, store, records, 1, model[1]);
  });
  EXPECT_GT(store.durable_version(), version);
  expect(store, records, model);
  model[2] = {6, 6};
  atomically(store, [&](Transaction& tx) { set(tx, store, records, 2, model[2]); });
  expect(store, records, model);
}

// What destructors give back needs room in lists. Where there is no memory for that the program
// goes on all the same, and the transaction is done or is not.
TEST_P(TransactionObjects, AreDestroyedWithoutMemory) {
  const TestThread ours;
  Store store = open();
  auto& records = store.root<Records>("records");
  store.checkpoint();
  Model model;
  atomically(store, [&](Transaction& tx) { tx.write(records.all[0], nullptr); });
  const u64 empty = store.audit().live_blocks;
  u64 failed = 0;
  for (const bool for_ever : {false, true}) {
    for (u64 nth = 1; nth < 40; ++nth) {
      SCOPED_TRACE("allocation " + std::to_string(nth) + (for_ever ? " and all after it" : ""));
      model[0] = {nth, 30};
      atomically(store, [&](Transaction& tx) { set(tx, store, records, 0, model[0]); });
      const CallFault fault{.call = Call::kAllocate, .nth = nth, .for_ever = for_ever, .own = true};
      arm_calls(&fault);
      try {
        in_library([&] {
          atomically(store, [&](Transaction& tx) {
            tx.destroy(tx.read(records.all[0]));
            tx.write(records.all[0], nullptr);
          });
        });
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::kNoMemory) << error.what();
        ++failed;
      } catch (const std::bad_alloc&) {
        ++failed;
      }
      disarm_calls();
      if (records.all[0] == nullptr) model[0] = {};
      ASSERT_EQ(check(records, model), "");
      const HeapAudit audit = store.audit();
      ASSERT_TRUE(audit.clean) << audit.problem;
      if (records.all[0] == nullptr) {
        ASSERT_EQ(audit.live_blocks, empty);
      }
    }
  }
  EXPECT_GT(failed, 0u);
  store.checkpoint();
  expect(store, records, model);
}

/// Its destructor gives back a block that may be older than itself.
struct Owner {
  Owner(Store& store, void* block) : store(&store), block(block) {}
  Owner(const Owner&) = delete;
  ~Owner() { store->deallocate(block); }

  Store* store;
  void* block;
};

TEST_P(TransactionObjects, ThatAreNewMayOwnWhatIsOldAndMeetOthers) {
  Store store = open();
  auto& words = store.root<std::array<u64*, 2>>("words");
  atomically(store, [&](Transaction& tx) {
    for (u64*& word : words) tx.write(word, static_cast<u64*>(tx.allocate(512)));  // apart
    for (u64*& word : words) tx.write(*tx.read(word), u64{1});
  });
  const u64 before = store.audit().live_blocks;
  int runs = 0;
  atomically(store, [&](Transaction& tx) {
    u64* const old = tx.read(words[0]);
    tx.write(words[0], static_cast<u64*>(nullptr));
    const u64 seen = tx.read(*old);
    if (runs++ == 0)
      std::thread([&] {
        atomically(store, [&](Transaction& other) { other.write(*old, seen + 1); });
      }).join();
    tx.destroy(tx.make<Owner>(store, old));
  });
  EXPECT_EQ(runs, 2);
  const HeapAudit audit = store.audit();
  EXPECT_TRUE(audit.clean) << audit.problem;
  EXPECT_EQ(audit.live_blocks, before - 1);
}

// A body may catch what it learns when it gives a block back, and keep it.
TEST_P(TransactionObjects, ABlockThatIsNotGivenBackForWantOfMemoryStays) {
  const TestThread ours;
  Store store = open();
  struct Words {
    u64 words[200];
    u64* block;
  };
  auto& words = store.root<Words>("words");
  store.checkpoint();
  u64 failed = 0;
  for (u64 writes = 0; writes < std::size(words.words); ++writes) {
    atomically(store, [&](Transaction& tx) {
      tx.write(words.block, static_cast<u64*>(tx.allocate(4 * kKiB)));
    });
    const u64 before = store.audit().live_blocks;
    atomically(store, [&](Transaction& tx) {
      for (u64 i = 0; i < writes; ++i) tx.write(words.words[i], writes);
      const CallFault fault{.call = Call::kAllocate, .nth = 1 + writes % 3, .own = true};
      arm_calls(&fault);
      try {
        u64* const block = tx.read(words.block);
        in_library([&] { tx.deallocate(block); });
        tx.write(words.block, nullptr);
      } catch (const Error&) {
        ++failed;
      }
      disarm_calls();
    });
    ASSERT_EQ(store.audit().live_blocks, words.block != nullptr ? before : before - 1) << writes;
    if (words.block != nullptr)
      atomically(store, [&](Transaction& tx) { tx.deallocate(tx.read(words.block)); });
  }
  EXPECT_GT(failed, 0u);
}

// What an earlier run returned is undone with it, also where the next one gets the same block.
TEST_P(TransactionObjects, ThatABodyReturnsAreThoseOfItsLastRun) {
  Store store = open();
  auto& records = store.root<Records>("records");
  store.checkpoint();
  atomically(store, [&](Transaction& tx) { tx.write(records.all[0], nullptr); });
  for (const bool grows : {false, true}) {
    // To link what no version has begins a transaction again at its commit.
    Record* linked;
    {
      const auto operation = store.operation();
      linked = ::new (operation.allocate(sizeof(Record))) Record(store, 7, 3);
    }
    const u64 before = store.audit().live_blocks;
    {
      u64 runs = 0;
      const string text = atomically(store, [&](Transaction& tx) {
        string made(text_of(++runs).c_str(), Allocator<char>(store));
        if (grows) made.append(runs * 100, 'x');
        tx.write(records.all[0], linked);
        return made;
      });
      ASSERT_EQ(runs, 2u);
      const std::string wanted = text_of(2) + std::string(grows ? 200 : 0, 'x');
      EXPECT_GT(store.usable_size(text.data()), wanted.size());
      void* const other = store.allocate(text.capacity() + 1);
      std::memset(other, 0xee, text.capacity() + 1);
      EXPECT_EQ(std::string_view(text), wanted);
      store.deallocate(other);
    }
    EXPECT_EQ(store.audit().live_blocks, before);
  }
}

// The value is there already when the commit fails.
TEST_P(TransactionObjects, ThatABodyReturnsAreUndoneWhereItsCommitFails) {
  Store store = open();
  auto& records = store.root<Records>("records");
  atomically(store, [&](Transaction& tx) { tx.write(records.all[0], nullptr); });
  const u64 before = store.audit().live_blocks;
  expect_error(
      [&] {
        atomically(store, [&](Transaction& tx) {
          tx.allocate(64 * kKiB);
          return string(text_of(1).c_str(), Allocator<char>(store));
        });
      },
      Code::kNoSpace, "log_segment_bytes");
  const HeapAudit audit = store.audit();
  EXPECT_TRUE(audit.clean) << audit.problem;
  EXPECT_EQ(audit.live_blocks, before);
}

INSTANTIATE_TEST_SUITE_P(Ways, TransactionObjects, kTransactionWays,
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace perdura::test
