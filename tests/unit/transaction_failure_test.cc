// Goal: what fails around a transaction neither undoes what it has committed nor says so, and what
// failed once does not fail for ever. Method: a medium that refuses calls of chosen sites, and what
// a crash would leave afterwards.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <perdura/perdura.hpp>
#include <perdura/transaction.hpp>

#include "media/decorator.hpp"
#include "store/runtime.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"

namespace perdura::test {
namespace {

/// Refuses writes or barriers whose site begins so, while it is told to.
struct Refusal {
  std::atomic<const char*> barriers{nullptr};
  std::atomic<const char*> writes{nullptr};
  std::atomic<u64> last{~u64{0}};  ///< so many
  std::atomic<u64> every{1};       ///< of so many one
  std::atomic<u64> judged{0};
  std::atomic<u64> refused{0};

  Status judge(const std::atomic<const char*>& which, const media::Site& site) {
    const char* const begin = which.load();
    if (begin == nullptr || !std::string_view(site.what).starts_with(begin)) return {};
    if (++judged % every != 0 || refused >= last) return {};
    ++refused;
    return Failure{Code::kNoSpace, std::string("refused: ") + site.what};
  }
};

class Refusing final : public media::Decorator {
 public:
  Refusing(Refusal& refusal, std::unique_ptr<media::Medium> inner)
      : Decorator(std::move(inner)), refusal_(refusal) {}
  Status write(u64 offset, media::Bytes data, const media::Site& site) override {
    PERDURA_TRY(refusal_.judge(refusal_.writes, site));
    return inner().write(offset, data, site);
  }
  Status barrier(const media::Site& site) override {
    PERDURA_TRY(refusal_.judge(refusal_.barriers, site));
    return inner().barrier(site);
  }

 private:
  Refusal& refusal_;
};

class TransactionFailure : public testing::TestWithParam<std::string> {
 protected:
  static constexpr u64 kWords = 1000;
  struct Account {
    u64 balance;
    u64 words[kWords];
  };
  static Options options() {
    Options options;
    options.region_limit_bytes = 4 * kMiB;
    options.log_segment_bytes = 32 * kKiB;
    options.log_limit_bytes = 128 * kKiB;
    options.lazy_recovery = false;
    return options;
  }
  std::string path(const char* file = "store.pd") const { return folder_.path(file); }
  Store open() {
    detail::InternalOptions internal;
    internal.wrap = [&](std::unique_ptr<media::Medium> inner) {
      return std::make_unique<Refusing>(refusal_, std::move(inner));
    };
    return detail::StoreAccess::store(
        value_or_throw(detail::Runtime::open(GetParam() + ":" + path(), options(), internal)));
  }
  static u64 pay(Store& store, Account& account, u64 words = 1) {
    return atomically(store, [&](Transaction& tx) {
      const u64 balance = tx.read(account.balance) + 1;
      tx.write(account.balance, balance);
      for (u64 i = 0; i < words; ++i) tx.write(account.words[i], balance);
      return balance;
    });
  }
  /// After a crash now there is this balance; looked at when the test has ended.
  void expect_after_crash(
      u64 balance, std::function<void(const Account&)> also = [](const Account&) {}) {
    const std::string copy = path(("copy " + std::to_string(crashes_.size())).c_str());
    std::filesystem::copy_file(path(), copy);
    crashes_.push_back({copy, balance, std::move(also)});
  }
  void TearDown() override {
    for (const auto& [copy, balance, also] : crashes_) {
      Store store = Store::open(GetParam() + ":" + copy, options());
      const HeapAudit audit = store.audit();
      EXPECT_TRUE(audit.clean) << audit.problem;
      const Account* const account = store.find_root<Account>("account");
      EXPECT_EQ(account->balance, balance) << copy;
      also(*account);
    }
  }

  const TempDir folder_{TempDir::kMemory};
  Refusal refusal_;
  struct Crash {
    std::string copy;
    u64 balance;
    std::function<void(const Account&)> also;
  };
  std::vector<Crash> crashes_;
};

// The log is relieved by a checkpoint that nobody asked for; who is told that it failed must not
// take that for his transaction's failure.
TEST_P(TransactionFailure, OfACheckpointComesBeforeATransactionNotAfterIt) {
  Store store = open();
  auto& account = store.root<Account>("account");
  store.checkpoint();
  pay(store, account);
  refusal_.barriers = "commit";
  u64 told = 1;
  u64 failed = 0;
  for (u64 i = 0; i < 20; ++i) {
    try {
      pay(store, account, kWords);
      ++told;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kNoSpace) << error.what();
      ++failed;
    }
    ASSERT_EQ(account.balance, told);
  }
  EXPECT_GT(failed, 0u);
  expect_after_crash(told);
  refusal_.barriers = nullptr;
  EXPECT_EQ(pay(store, account, kWords), told + 1);
  expect_after_crash(told + 1);
}

// A store says that it may have transactions before the first of them.
TEST_P(TransactionFailure, OfTheFirstOnesCheckpointLeavesNoTransaction) {
  Store store = open();
  auto& account = store.root<Account>("account");
  refusal_.barriers = "";  // all
  int runs = 0;
  for (int i = 0; i < 2; ++i) {
    expect_error(
        [&] {
          atomically(store, [&](Transaction& tx) {
            ++runs;
            tx.write(account.balance, u64{100});
          });
        },
        Code::kNoSpace, "refused");
    EXPECT_EQ(account.balance, 0u);
  }
  EXPECT_EQ(runs, 0);
  refusal_.barriers = nullptr;
  EXPECT_EQ(pay(store, account), 1u);
  expect_after_crash(1);
}

// The store is destroyed without a last checkpoint, since an operation may be half done.
TEST_P(TransactionFailure, OfTheProgramLosesNoRelaxedCommit) {
  u64 told = 0;
  for (int life = 0; life < 5; ++life) {
    try {
      Store store = open();
      auto& account = store.root<Account>("account");
      EXPECT_EQ(account.balance, told);
      set_durability(store, Durability::kRelaxed);
      for (int i = 0; i < 200; ++i) told = pay(store, account);
      throw std::runtime_error("no");
    } catch (const std::runtime_error&) {
    }
  }
  Store store = open();
  EXPECT_EQ(store.find_root<Account>("account")->balance, told);
}

// A version takes the log's place: of what was written any part may be on the medium, and it must
// count neither twice nor for something that did not happen.
TEST_P(TransactionFailure, OfOneWriteIsForgottenWithTheNextVersion) {
  Store store = open();
  auto& account = store.root<Account>("account");
  u64 told = pay(store, account);
  refusal_.writes = "transaction record";
  refusal_.last = 1;
  ASSERT_EQ(pay(store, account), ++told);
  EXPECT_EQ(refusal_.refused, 1u);
  expect_after_crash(told);
  for (int i = 0; i < 10; ++i) ASSERT_EQ(pay(store, account), ++told);
  expect_after_crash(told);
}

// Nobody waits for it, and nobody commits after it.
TEST_P(TransactionFailure, OfTheLogIsMendedBehindARelaxedCommit) {
  Store store = open();
  auto& account = store.root<Account>("account");
  pay(store, account);
  set_durability(store, Durability::kRelaxed);
  refusal_.writes = "transaction record";
  refusal_.last = 1;
  pay(store, account);
  const auto patience = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (durable_commit(store) < last_commit(store) && std::chrono::steady_clock::now() < patience)
    std::this_thread::yield();
  EXPECT_GE(durable_commit(store), last_commit(store));
  EXPECT_EQ(refusal_.refused, 1u);
  expect_after_crash(2);
}

// The stream's thread is at taking a version when the store goes.
TEST_P(TransactionFailure, OfTheLogIsBeingMendedWhenTheStoreIsDestroyed) {
  for (int life = 0; life < 20; ++life) {
    refusal_.writes = refusal_.barriers = nullptr;
    try {
      Store store = open();
      auto& account = store.root<Account>("account");
      pay(store, account);
      set_durability(store, Durability::kRelaxed);
      refusal_.writes = "transaction record";
      refusal_.barriers = "commit";
      if (GetParam() == "file") pay(store, account);
      throw std::runtime_error("no");
    } catch (const std::runtime_error&) {
    }
  }
  refusal_.writes = refusal_.barriers = nullptr;
  Store store = open();
  const u64 found = store.root<Account>("account").balance;
  EXPECT_GE(found, 20u);
  EXPECT_LE(found, 40u);
}

TEST_P(TransactionFailure, OfOneBarrierLeavesNoRecordThatCountsLater) {
  Store store = open();
  auto& account = store.root<Account>("account");
  u64 told = pay(store, account);
  refusal_.barriers = "transaction";
  refusal_.last = 1;
  ASSERT_EQ(pay(store, account), ++told);
  EXPECT_EQ(refusal_.refused, 1u);
  store.checkpoint();
  expect_after_crash(told);
  std::thread([&] { ASSERT_EQ(pay(store, account), ++told); }).join();
  expect_after_crash(told);
  ASSERT_EQ(pay(store, account), ++told);
  expect_after_crash(told);
}

TEST_P(TransactionFailure, OfLogAndVersionIsToldAndLeavesTheCommit) {
  Store store = open();
  auto& account = store.root<Account>("account");
  pay(store, account);
  refusal_.writes = "transaction record";
  refusal_.barriers = "commit";
  expect_error([&] { pay(store, account); }, Code::kNoSpace, "has happened, but only in memory");
  EXPECT_EQ(account.balance, 2u);
  const u64 commit = last_commit(store);
  EXPECT_LT(durable_commit(store), commit);
  expect_error([&] { wait_for_commit(store, commit); }, Code::kNoSpace, "refused");
  // These are undone: they are not begun on what may be lost.
  for (int i = 0; i < 3; ++i) expect_error([&] { pay(store, account); }, Code::kNoSpace, "refused");
  EXPECT_EQ(account.balance, 2u);
  refusal_.barriers = nullptr;
  refusal_.writes = nullptr;
  wait_for_commit(store, commit);
  EXPECT_GE(durable_commit(store), commit);
  expect_after_crash(2);
  EXPECT_EQ(pay(store, account), 3u);
  expect_after_crash(3);
}

// One that links what an operation has made has no record, and is durable with a version alone.
TEST_P(TransactionFailure, OfAVersionIsToldToAllThatRelyOnIt) {
  Store store = open();
  auto& account = store.root<Account>("account");
  pay(store, account);
  auto* const made = static_cast<u64*>(store.allocate(sizeof(u64)));
  refusal_.barriers = "commit";
  const auto link = [&] {
    atomically(store, [&](Transaction& tx) {
      tx.irrevocable();
      tx.write(account.balance, u64{2});
      tx.write(account.words[1], reinterpret_cast<u64>(made));
    });
  };
  const auto look = [&] {
    return atomically(store, [&](Transaction& tx) { return tx.read(account.balance); });
  };
  expect_error(link, Code::kNoSpace, "has happened, but only in memory");
  const u64 commit = last_commit(store);
  EXPECT_LT(durable_commit(store), commit);
  expect_error([&] { wait_for_commit(store, commit); }, Code::kNoSpace, "refused");
  expect_error([&] { (void)look(); }, Code::kNoSpace, "refused");
  // What is durable may be read.
  EXPECT_EQ(atomically(store, [&](Transaction& tx) { return tx.read(account.words[500]); }), 0u);
  refusal_.barriers = nullptr;
  EXPECT_EQ(look(), 2u);
  EXPECT_GE(durable_commit(store), commit);
  expect_after_crash(2);
}

// One that is alone gets room that the last version still uses: it has no record either. Without
// its version that room is as the last one has it.
TEST_P(TransactionFailure, OfAVersionLeavesTheRoomThatItWasToFree) {
  constexpr u64 kBytes = kMiB - 128 * kKiB;
  Store store = open();
  auto& account = store.root<Account>("account");
  pay(store, account);
  {
    const auto operation = store.operation();
    operation.touch(&account, sizeof account);
    for (u64 i = 1; i <= 3; ++i) {
      auto* const block = static_cast<u64*>(operation.allocate(kBytes));
      operation.touch(block, kBytes);
      std::fill_n(block, kBytes / sizeof(u64), i);
      account.words[i] = reinterpret_cast<u64>(block);
    }
  }
  const u64 version = store.checkpoint();
  {
    const auto operation = store.operation();
    operation.touch(&account, sizeof account);
    for (u64 i = 1; i <= 3; ++i)
      operation.deallocate(reinterpret_cast<void*>(std::exchange(account.words[i], u64{0})));
  }
  refusal_.writes = "";
  const auto take_room = [&] {
    atomically(store, [&](Transaction& tx) {
      tx.irrevocable();
      void* const block = tx.allocate(2 * kBytes);
      std::memset(block, 0xee, 2 * kBytes);
      tx.write(account.words[4], reinterpret_cast<u64>(block));
      tx.write(account.balance, u64{2});
    });
  };
  expect_error(take_room, Code::kNoSpace, "has happened, but only in memory");
  EXPECT_EQ(account.balance, 2u);
  EXPECT_LT(durable_commit(store), last_commit(store));
  EXPECT_EQ(store.durable_version(), version);
  expect_after_crash(1, [](const Account& left) {
    for (u64 i = 1; i <= 3; ++i) {
      const auto* const block = reinterpret_cast<const u64*>(left.words[i]);
      EXPECT_TRUE(
          std::all_of(block, block + kBytes / sizeof(u64), [&](u64 word) { return word == i; }));
    }
  });
  refusal_.writes = nullptr;
  wait_for_commit(store, last_commit(store));
  expect_after_crash(2, [](const Account& left) {
    EXPECT_EQ(left.words[1], 0u);
    const auto* const block = reinterpret_cast<const unsigned char*>(left.words[4]);
    EXPECT_TRUE(std::all_of(block, block + 2 * kBytes, [](int byte) { return byte == 0xee; }));
  });
}

TEST_P(TransactionFailure, OfTheLogNowAndThenLosesNothingThatWasTold) {
  constexpr u64 kThreads = 3;
  constexpr u64 kSteps = 150;
  Store store = open();
  auto& account = store.root<Account>("account");
  for (const Durability durability : {Durability::kNonTemporal, Durability::kRelaxed}) {
    set_durability(store, durability);
    const u64 before = account.balance;
    std::atomic<u64> told = 0;
    refusal_.every = 5;
    refusal_.writes = "transaction record";
    std::vector<std::thread> threads;
    for (u64 thread = 0; thread < kThreads; ++thread)
      threads.emplace_back([&] {
        for (u64 i = 0; i < kSteps; ++i) {
          pay(store, account);
          ++told;
        }
      });
    for (std::thread& thread : threads) thread.join();
    wait_for_commit(store, last_commit(store));
    EXPECT_EQ(account.balance, before + told);
    if (durability == Durability::kRelaxed) {
      refusal_.writes = nullptr;
      pay(store, account);
      wait_for_commit(store, last_commit(store));
    }
    expect_after_crash(account.balance);
    refusal_.writes = nullptr;
  }
  EXPECT_GT(refusal_.refused, 0u);
}

INSTANTIATE_TEST_SUITE_P(Media, TransactionFailure, testing::Values("emu", "file"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace perdura::test
