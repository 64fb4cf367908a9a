// Options::strict: a program that stores outside of operations is told where it does, with the
// function; one that does not is told nothing, whatever it does with operations, whichever tracker,
// engine and medium it has. Real threads beside a timer of checkpoints; a correct program runs with
// and without.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <perdura/perdura.h>
#include <perdura/perdura.hpp>
#include <perdura/structures/hash_map.hpp>

#include "base/bits.hpp"
#include "base/unique_fd.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"

namespace perdura::test {

// Which the events name.
__attribute__((noinline)) void store_carelessly(volatile u64& place) { place = place + 1; }
__attribute__((noinline)) void store_elsewhere(volatile u64& place) { place = place + 1; }

namespace {

using std::chrono::milliseconds;

/// What a store tells of stores outside of operations.
class Told {
 public:
  EventListener listener() {
    return [this](const Event& event) {
      const std::lock_guard lock(mutex_);
      if (event.kind != EventKind::kOutsideOperation) return;
      messages_.emplace_back(event.message);
      EXPECT_EQ(event.code, Code::kMisuse);
    };
  }
  std::vector<std::string> messages() {
    const std::lock_guard lock(mutex_);
    return messages_;
  }
  /// Those that name it.
  size_t of(const std::string& text) {
    const auto all = messages();
    return static_cast<size_t>(std::count_if(all.begin(), all.end(), [&](const std::string& each) {
      return each.find(text) != each.npos;
    }));
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> messages_;
};

struct Way {
  std::string name;
  Options options;
  std::string scheme = "";
};

Options with(Tracking tracking, Engine engine = Engine::kRedoLog,
             Capture capture = Capture::kAutomatic) {
  Options options;
  options.region_limit_bytes = 64 * kMiB;
  options.tracking = tracking;
  options.engine = engine;
  options.capture = capture;
  options.strict = true;
  return options;
}

Options verified(Options options) {
  options.verify = Verify::kBeforeUse;
  return options;
}

const std::vector<Way>& ways() {
  static const std::vector<Way> all = {
      {"automatic", with(Tracking::kAutomatic)},
      {"userfault, NVM", with(Tracking::kUserfault), "emu:"},
      {"userfault, chunks", with(Tracking::kUserfault, Engine::kRemap)},
      {"userfault, verified before use", verified(with(Tracking::kUserfault))},
      {"userfault, copies", with(Tracking::kUserfault, Engine::kDualCopy), "emu:"},
      {"sigbus", with(Tracking::kSigbus, Engine::kRedoLog, Capture::kBackground)},
      {"sigbus, chunks", with(Tracking::kSigbus, Engine::kRemap, Capture::kBackground)},
      {"reported", with(Tracking::kReported)},
      {"reported, NVM", with(Tracking::kReported, Engine::kRedoLog, Capture::kBackground), "emu:"},
      {"bitmap, copies", with(Tracking::kBitmap, Engine::kDualCopy)},
  };
  return all;
}

class Strict : public testing::TestWithParam<Way> {
 protected:
  Options options(Told& told) const {
    Options options = GetParam().options;
    options.on_event = told.listener();
    return options;
  }
  std::string uri() const { return GetParam().scheme + folder_.path("state.pd"); }
  const TempDir folder_{TempDir::kMemory};
};
INSTANTIATE_TEST_SUITE_P(Ways, Strict, testing::ValuesIn(ways()), [](const auto& info) {
  std::string name = info.param.name;
  std::erase_if(name, [](char each) { return std::isalnum(each) == 0; });
  return name;
});

struct Numbers {
  u64 values[8 * 512];
  u64& of(unsigned page) { return values[512 * page]; }
};

// Each place once, however often it stores; in the same page that an operation has just changed.
TEST_P(Strict, AStoreOutsideIsToldWithItsFunction) {
  Told told;
  {
    Store store = Store::open(uri(), options(told));
    auto& numbers = store.root<Numbers>("numbers");
    for (int round = 0; round < 3; ++round) {
      {
        const auto operation = store.operation();
        operation.touch(&numbers, sizeof numbers);
        store_elsewhere(numbers.of(1));
      }
      store.touch(&numbers.of(1), 8);
      store_carelessly(numbers.of(1));
      store.checkpoint();
    }
    EXPECT_EQ(numbers.of(1), 6u) << "the store itself is done";
    store.close();
  }
  EXPECT_EQ(told.of("store_carelessly"), 1u) << testing::PrintToString(told.messages());
  EXPECT_EQ(told.messages().size(), 1u);
  EXPECT_EQ(told.of("strict_test.cc"), 1u);
  EXPECT_EQ(told.of("outside of operations"), 1u);
  Store store = Store::open(uri(), options(told));
  EXPECT_EQ(store.root<Numbers>("numbers").of(1), 6u);
}

// By a thread of its own, while the timer takes checkpoints and others do as they should.
TEST_P(Strict, TheWrongThreadIsFoundAmongOthers) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "what is wrong with the program is a data race";
#endif
  Told told;
  {
    Store store = Store::open(uri(), options(told));
    auto& numbers = store.root<Numbers>("numbers");
    store.checkpoint_every(milliseconds(2));
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < 3; ++i)
      threads.emplace_back([&, i] {
        for (int round = 0; round < 300; ++round) {
          const auto operation = store.operation();
          operation.touch(&numbers.of(i), 8);
          store_elsewhere(numbers.of(i));
        }
      });
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        store.touch(&numbers.of(7), 8);
        store_carelessly(numbers.of(7));
        std::this_thread::sleep_for(milliseconds(1));
      }
    });
    threads.clear();
    // In the thread of checkpoints, without a call of the program.
    for (int i = 0; i < 500 && told.of("store_carelessly") == 0; ++i)
      std::this_thread::sleep_for(milliseconds(10));
    EXPECT_EQ(told.of("store_carelessly"), 1u);
    for (unsigned i = 0; i < 3; ++i) EXPECT_EQ(numbers.of(i), 300u);
    store.close();
  }
  EXPECT_EQ(told.messages().size(), 1u) << testing::PrintToString(told.messages());
}

struct Item {
  Item* next;
  u64 number;
};

// Operations that nest, roots, allocation by the store and by operations, freeing, growing, large
// blocks, transactions, threads that come and go, containers that report, checkpoints of each kind.
void do_right(Store& store, bool with_transactions) {
  auto& numbers = store.root<Numbers>("numbers");
  auto& map = store.root<structures::hash_map<u64, u64>>("map");
  store.checkpoint_every(milliseconds(1));
  for (int wave = 0; wave < 2; ++wave) {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < 3; ++i)
      threads.emplace_back([&, i] {
        for (u64 round = 0; round < 60; ++round) {
          const auto operation = store.operation();
          auto* const item = store.make<Item>();
          const auto inner = store.operation();
          inner.touch(item, sizeof *item);
          *item = {nullptr, round};
          operation.touch(&numbers.of(i), 8);
          ++numbers.of(i);
          void* const large = operation.allocate((64 << 10) * (1 + round % 3));
          std::memset(large, static_cast<int>(round), 64 << 10);
          operation.deallocate(large);
          if (round % 2 == 0) store.destroy(item);
        }
        // What has no operation around it is one.
        void* const block = store.allocate(100);
        store.deallocate(block);
        for (u64 round = 0; with_transactions && round < 20; ++round)
          atomically(store, [&](Transaction& tx) {
            Item* const item = tx.make<Item>();
            item->number = round;
            tx.write(numbers.of(4), tx.read(numbers.of(4)) + 1);
            if (round % 2 == 0) tx.destroy(item);
          });
      });
    for (u64 key = 0; key < 100; ++key) map[key] = key;
    store.checkpoint();
    store.wait(store.checkpoint_async());
  }
  store.checkpoint_every(milliseconds(0));
}

TEST_P(Strict, ACorrectProgramIsToldNothing) {
  Told told;
  const bool with_transactions = GetParam().options.engine == Engine::kRedoLog;
  for (u64 session = 1; session <= 3; ++session) {
    Store store = Store::open(uri(), options(told));
    do_right(store, with_transactions);
    auto& numbers = store.root<Numbers>("numbers");
    for (unsigned i = 0; i < 3; ++i) EXPECT_EQ(numbers.of(i), session * 120);
    EXPECT_EQ(numbers.of(4), with_transactions ? session * 120 : 0);
    EXPECT_TRUE(store.audit().clean) << store.audit().problem;
    store.close();
  }
  EXPECT_TRUE(told.messages().empty()) << testing::PrintToString(told.messages());
  // Nothing of it is durable by accident of the watch: a plain opening finds the same.
  Options plain = options(told);
  plain.strict = false;
  Store store = Store::open(uri(), plain);
  EXPECT_EQ(store.root<Numbers>("numbers").of(0), 360u);
  EXPECT_EQ((store.root<structures::hash_map<u64, u64>>("map").size()), 100u);
}

// --- what it does not go with --------------------------------------------------------------------

TEST(StrictOptions, WhatItDoesNotGoWithIsRefused) {
  const TempDir folder(TempDir::kMemory);
  const auto refused = [&](auto change, const std::string& sentence) {
    Options options = with(Tracking::kAutomatic);
    change(options);
    expect_error([&] { Store::open(folder.path("state.pd"), options); }, Code::kInvalidArgument,
                 sentence);
  };
  refused([](Options& o) { o.tracking = Tracking::kProtect; }, "choose another tracker");
  refused([](Options& o) { o.aliases = 4; }, "without aliases");
  refused(
      [](Options& o) {
        o.tracking = Tracking::kReported;
        o.verify_reports = true;
      },
      "choose one of the two");
  expect_error([&] { Container::open(folder.path("container.pd"), with(Tracking::kAutomatic)); },
               Code::kInvalidArgument, "strict is of stores");
}

// Who reads may store what it likes: none of it is in a version.
TEST(StrictOptions, AReaderIsToldNothing) {
  const TempDir folder(TempDir::kMemory);
  Told told;
  Options options = with(Tracking::kAutomatic);
  options.on_event = told.listener();
  {
    Store::open(folder.path("state.pd"), options).root<Numbers>("numbers");
  }
  options.read_only = true;
  {
    Store store = Store::open(folder.path("state.pd"), options);
    store_carelessly(store.find_root<Numbers>("numbers")->of(0));
  }
  EXPECT_TRUE(told.messages().empty());
}

// Of two stores in a process the one that is stored to.
TEST(StrictOptions, AnOperationOnAnotherStoreIsNone) {
  const TempDir folder(TempDir::kMemory);
  Told told;
  Told other_told;
  {
    Options options = with(Tracking::kAutomatic);
    options.on_event = told.listener();
    Store store = Store::open(folder.path("state.pd"), options);
    options.on_event = other_told.listener();
    options.region = "other";
    Store other = Store::open(folder.path("state.pd"), options);
    auto& numbers = store.root<Numbers>("numbers");
    other.root<Numbers>("numbers");
    const auto operation = other.operation();
    store_carelessly(numbers.of(0));
  }
  EXPECT_EQ(told.of("store_carelessly"), 1u);
  EXPECT_TRUE(other_told.messages().empty());
}

// What the documents say that is not found: until the operation that has opened the page ends.
TEST(StrictOptions, APageThatAnOperationHasOpenedIsNotSeen) {
  const TempDir folder(TempDir::kMemory);
  Told told;
  Options options = with(Tracking::kAutomatic);
  options.on_event = told.listener();
  Store store = Store::open(folder.path("state.pd"), options);
  auto& numbers = store.root<Numbers>("numbers");
  const auto store_from_another_thread = [&](auto function, u64& place) {
    std::jthread([&] { function(place); }).join();
  };
  {
    const auto operation = store.operation();
    store_elsewhere(numbers.of(0));
    store_from_another_thread(store_carelessly, numbers.values[1]);
    store_from_another_thread(store_elsewhere, numbers.of(1));
  }
  store.close();
  EXPECT_EQ(told.of("store_carelessly"), 0u) << "in the page that is open";
  EXPECT_EQ(told.of("store_elsewhere"), 1u) << "in another one";
}

// As with the trackers that answer faults.
TEST(StrictOptions, ASystemCallStoresToOpenPagesAlone) {
  const TempDir folder(TempDir::kMemory);
  Told told;
  Options options = with(Tracking::kAutomatic);
  options.on_event = told.listener();
  Store store = Store::open(folder.path("state.pd"), options);
  auto& numbers = store.root<Numbers>("numbers");
  const UniqueFd zeros(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  {
    const auto operation = store.operation();
    EXPECT_EQ(::read(zeros.get(), &numbers.of(2), 8), -1);
    EXPECT_EQ(errno, EFAULT);
    store_elsewhere(numbers.of(2));
    EXPECT_EQ(::read(zeros.get(), &numbers.of(2), 8), 8);
    EXPECT_EQ(numbers.of(2), 0u);
  }
  store.close();
  EXPECT_TRUE(told.messages().empty()) << testing::PrintToString(told.messages());
}

TEST(StrictOptions, CHasIt) {
  const TempDir folder(TempDir::kMemory);
  static std::atomic<int> told{0};
  perdura_options options{};
  options.strict = 1;
  options.region_limit_bytes = 64 * kMiB;
  options.on_event = [](const perdura_event* event, void*) {
    if (event->kind == PERDURA_EVENT_OUTSIDE_OPERATION) ++told;
  };
  perdura_store* store = nullptr;
  ASSERT_EQ(perdura_open(folder.path("state.pd").c_str(), &options, &store), 0);
  auto* const number = static_cast<u64*>(perdura_alloc(store, sizeof(u64)));
  perdura_operation_begin(store);
  store_elsewhere(*number);
  perdura_operation_end(store);
  store_carelessly(*number);
  EXPECT_EQ(perdura_close(store), 0);
  EXPECT_EQ(told, 1);
}

}  // namespace
}  // namespace perdura::test
