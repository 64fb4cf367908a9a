// Goal: operations go on, however fast stops follow each other; threads that end leave nothing
// behind, whatever they do last, and wait for nobody; who waits for an operation for seconds says
// so. Method: threads that begin each operation while they are stopped and sleep until that ends,
// which must have done it when the next stop, without a pause, has begun; threads that come and go,
// with thread_locals and keys that are destroyed before and after ours; threads that end while a
// stop is under way, joined by whoever stops; the line on stderr, read through a pipe.
#include "track/mutators.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "support/threads.hpp"

namespace perdura::track {
namespace {

TEST(Mutators, WhoWaitedForAStopComesBeforeTheNext) {
  constexpr u64 kOperations = 50;
  const auto mutators = value_or_throw(Mutators::create(nullptr, nullptr));
  struct Worker {
    std::atomic<pid_t> id{0};
    std::atomic<u64> begun{0};  // operations that it asked for
    std::atomic<u64> done{0};
  };
  Worker workers[2];
  std::atomic<u64> stops{0};
  std::vector<std::jthread> threads;
  for (Worker& worker : workers)
    threads.emplace_back([&] {
      detail::Mutator& self = mutators->this_thread();
      worker.id = ::gettid();
      for (u64 i = 1; i <= kOperations; ++i) {
        while (stops.load() < i) std::this_thread::yield();
        worker.begun = i;
        const InOperation operation(self);
        worker.done = i;
      }
    });
  for (Worker& worker : workers)
    while (worker.id == 0) std::this_thread::yield();
  const auto all_did = [&](u64 operations) {
    return std::ranges::all_of(workers, [&](Worker& each) { return each.done == operations; });
  };
  for (u64 i = 1; i <= kOperations; ++i) {
    mutators->stop();
    if (!all_did(i - 1)) {
      stops = kOperations;  // nobody waits for them any more
      mutators->resume();
      FAIL() << "stop " << i << " kept out a thread that had waited for the one before";
    }
    stops = i;
    for (Worker& worker : workers) {
      while (worker.begun != i) std::this_thread::yield();
      test::await_asleep(worker.id);
    }
    mutators->resume();
  }
  mutators->stop();
  EXPECT_TRUE(all_did(kOperations));
  mutators->resume();
}

// Those inside an operation go on.
TEST(Mutators, AStopBeginsWhenSomebodyIsKeptFromGoingOn) {
  const auto mutators = value_or_throw(Mutators::create(nullptr, nullptr));
  for (const bool another_waits : {false, true}) {
    std::atomic<pid_t> id{0};
    std::atomic<bool> may_wait{false};
    std::atomic<bool> begins{false};
    std::thread waiter([&] {
      detail::Mutator& self = mutators->this_thread();
      id = ::gettid();
      may_wait.wait(false);
      begins = true;
      const InOperation operation(self);
    });
    while (id == 0) std::this_thread::yield();
    u64 begin = 0;
    u64 waits_since = 0;
    u64 waits_until = 0;
    std::thread stopper;
    const auto let_wait = [&] {
      may_wait = true;
      may_wait.notify_all();
    };
    {
      const InOperation operation(mutators->this_thread());
      stopper = std::thread([&] {
        begin = mutators->stop();
        mutators->resume();
      });
      while (!mutators->is_stopping()) std::this_thread::yield();
      waits_since = now_ns();
      if (another_waits) {
        let_wait();
        while (!begins) std::this_thread::yield();
        test::await_asleep(id);
      }
      waits_until = now_ns();
    }
    stopper.join();
    let_wait();
    waiter.join();
    EXPECT_GE(begin, another_waits ? waits_since : waits_until);
    EXPECT_TRUE(!another_waits || begin <= waits_until);
  }
}

/// The first two calls wait for each other; there may be more.
class WorkOfTwo : public SharedWork {
 public:
  void help() noexcept override {
    if (++begun_ > 2) return;
    while (begun_ < 2) std::this_thread::yield();
    ++ended_;
  }
  int ended() const { return ended_; }

 private:
  std::atomic<int> begun_{0};
  std::atomic<int> ended_{0};
};

TEST(Mutators, HelpersTakePartInWhatIsSharedAndComeAndGoWithoutThat) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "there are none";
  const auto mutators = value_or_throw(Mutators::create(nullptr, nullptr));
  for (int round = 0; round < 300; ++round) {
    const Mutators::Helpers helpers(*mutators, 1);
    if (round % 4 == 0) continue;
    mutators->stop();
    // At the same place, one behind the other.
    for (int i = 1; i < round % 4; ++i) {
      WorkOfTwo work;
      mutators->share(work);
      EXPECT_EQ(work.ended(), 2);
    }
    mutators->resume();
  }
  const Mutators::Helpers none(*mutators, 0);
  EXPECT_EQ(mutators->all().size(), 0u);
}

void use_once(Mutators& mutators) { const InOperation operation(mutators.this_thread()); }

Mutators* used_at_the_end = nullptr;

void use() { const InOperation operation(used_at_the_end->this_thread()); }

/// Destroyed in the reverse order of being made.
struct UsesAtTheEnd {
  bool made = true;
  ~UsesAtTheEnd() { use(); }
};
thread_local UsesAtTheEnd made_before;
thread_local UsesAtTheEnd made_after;

TEST(Mutators, OfThreadsThatUseTheStoreUntilTheirVeryEndAreTakenOver) {
  const auto mutators = value_or_throw(Mutators::create(nullptr, nullptr));
  used_at_the_end = mutators.get();
  pthread_key_t key{};
  ASSERT_EQ(::pthread_key_create(&key, [](void*) { use(); }), 0);
  for (int i = 0; i < 20; ++i)
    std::thread([&] {
      EXPECT_TRUE(made_before.made);
      use();
      EXPECT_TRUE(made_after.made);
      ::pthread_setspecific(key, &key);
    }).join();
  ::pthread_key_delete(key);
  EXPECT_EQ(mutators->all().size(), 1u);
}

std::atomic<int> released{0};
void count_released(detail::Mutator&) noexcept { released.fetch_add(1); }

// The thread that joins it may be inside an operation that the stop waits for.
TEST(Mutators, AThreadEndsWhileTheGateIsClosed) {
  released = 0;
  const auto mutators = value_or_throw(Mutators::create(nullptr, &count_released));
  for (int round = 1; round <= 20; ++round) {
    std::atomic<bool> used{false};
    std::atomic<bool> may_end{false};
    std::thread thread([&] {
      {
        const InOperation operation(mutators->this_thread());
      }
      used = true;
      used.notify_all();
      may_end.wait(false);
    });
    used.wait(false);
    mutators->stop();
    may_end = true;
    may_end.notify_all();
    thread.join();
    // The registry of all stores' threads is free.
    const auto another = value_or_throw(Mutators::create(nullptr, nullptr));
    EXPECT_EQ(released, round - 1);
    mutators->resume();
    EXPECT_EQ(released, round);
    EXPECT_EQ(mutators->all().size(), 1u) << "the next thread takes it over";
  }
}

// With what the thread before it owned.
TEST(Mutators, TheNextThreadMayComeBeforeItIsReleased) {
  const auto mutators = value_or_throw(Mutators::create(nullptr, nullptr));
  for (int round = 0; round < 100; ++round) {
    std::thread stopper([&] {
      mutators->stop();
      mutators->resume();
    });
    std::thread first([&] { use_once(*mutators); });
    std::thread second([&] { use_once(*mutators); });
    stopper.join();
    first.join();
    second.join();
  }
  mutators->stop();
  mutators->resume();
  EXPECT_LE(mutators->all().size(), 2u);
  for (const auto& each : mutators->all()) EXPECT_EQ(each->use.load(), MutatorSlot::Use::kFree);
}

TEST(Mutators, AWaitOfSecondsNamesTheThreadsAndTheStore) {
  const auto mutators = value_or_throw(Mutators::create(nullptr, nullptr));
  mutators->set_name("the store");
  std::atomic<pid_t> number{0};
  std::atomic<bool> may_end{false};
  std::thread thread([&] {
    ::pthread_setname_np(::pthread_self(), "a worker");
    const InOperation operation(mutators->this_thread());
    number = ::gettid();
    number.notify_all();
    may_end.wait(false);
  });
  number.wait(0);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const int before = ::dup(STDERR_FILENO);
  ::dup2(ends[1], STDERR_FILENO);
  std::thread stopper([&] {
    mutators->stop();
    mutators->resume();
  });
  char line[2000] = "";
  const ssize_t got = ::read(ends[0], line, sizeof line - 1);
  ::dup2(before, STDERR_FILENO);
  may_end = true;
  may_end.notify_all();
  thread.join();
  stopper.join();
  for (const int fd : {before, ends[0], ends[1]}) ::close(fd);
  ASSERT_GT(got, 0);
  const std::string said(line, static_cast<size_t>(got));
  EXPECT_NE(said.find("'the store'"), said.npos) << said;
  EXPECT_NE(said.find("thread " + std::to_string(number) + " (a worker)"), said.npos) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

}  // namespace
}  // namespace perdura::track
