// Operations, threads, transactions, polls and crashes of a program that reports by itself.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include <perdura/perdura.h>
#include <perdura/transaction.hpp>

#include "support.hpp"

namespace {

constexpr std::size_t kWords = 4096;

struct Counters {
  unsigned long words[kWords];
  unsigned long steps;
};
struct Several {
  Counters of[8];
};

/// Each step changes two words by as much, so that their sum stays.
void step(Counters& counters, unsigned long random) {
  counters.words[random % kWords] += 1;
  counters.words[random / kWords % kWords] -= 1;
  ++counters.steps;
}
unsigned long sum(const Counters& counters) {
  unsigned long all = 0;
  for (const unsigned long each : counters.words) all += each;
  return all;
}

// A checkpoint every millisecond, which waits for operations, or for polls, and nothing else.
void threads_with_operations() {
  const OwnStore own;
  perdura::Store store = own.open();
  auto& counters = store.root<Several>("counters").of;
  store.checkpoint_every(std::chrono::milliseconds(1));
  const auto work = [&](Counters& mine) {
    unsigned long random = 1;
    while (store.durable_version() < 60) {
      const auto operation = store.operation();
      for (int i = 0; i < 50; ++i) step(mine, random = random * 6364136223846793005u + 1);
    }
  };
  std::thread other(work, std::ref(counters[1]));
  work(counters[0]);
  other.join();
  store.close();
  perdura::Store again = own.open();
  auto& found = again.root<Several>("counters").of;
  for (const Counters& each : {found[0], found[1]}) {
    EXPECT(sum(each) == 0);
    EXPECT(each.steps != 0);
  }
}

// The child is killed; what it left is whole.
void polls_between_steps() {
  const OwnStore own;
  for (int session = 0; session < 10; ++session) {
    const pid_t child = ::fork();
    if (child == 0) {
      perdura::Store store = own.open();
      auto& counters = store.root<Counters>("counters");
      store.checkpoint_every(std::chrono::milliseconds(1));
      const auto versions = store.durable_version() + 20;
      unsigned long random = static_cast<unsigned long>(session);
      while (store.durable_version() < versions) {
        step(counters, random = random * 6364136223846793005u + 1);
        perdura_poll();
      }
      for (int i = 0; i < 1000; ++i) step(counters, random = random * 6364136223846793005u + 1);
      ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT(WIFSIGNALED(status));
    perdura::Store store = own.open_verified();
    auto& counters = store.root<Counters>("counters");
    EXPECT(sum(counters) == 0);
    EXPECT(counters.steps != 0);
    step(counters, 77);
    store.checkpoint();  // ends what the stores have begun
    expect_reported(store);
    store.close();
  }
  ::unlink(own.uri().substr(4).c_str());
}

// A thread that has said where its data are consistent may wait for ever: nobody waits for it.
void waiting_after_a_poll() {
  const OwnStore own;
  perdura::Store store = own.open();
  auto& counters = store.root<Counters>("counters");
  store.checkpoint();
  std::atomic<bool> has_polled{false}, may_go_on{false};
  std::thread waiting([&] {
    step(counters, 7);
    EXPECT(!perdura_poll());
    has_polled = true;
    may_go_on.wait(false);
    step(counters, 8);  // another operation
  });
  while (!has_polled) std::this_thread::yield();
  store.checkpoint();
  may_go_on = true;
  may_go_on.notify_one();
  waiting.join();
  store.close();
  perdura::Store again = own.open();
  EXPECT(again.root<Counters>("counters").steps == 2);
}

// Until then its checkpoints wait, and say for what.
void waiting_without_a_poll() {
  const OwnStore own;
  perdura::Store store = own.open();
  auto& counters = store.root<Counters>("counters");
  store.checkpoint();
  FILE* const said = std::tmpfile();
  const int own_stderr = ::dup(STDERR_FILENO);
  ::dup2(::fileno(said), STDERR_FILENO);
  std::atomic<bool> has_stored{false};
  std::thread storing([&] {
    step(counters, 7);
    has_stored = true;
    char line[1024] = "";
    while (std::strstr(line, "calls perdura_poll()") == nullptr) {
      std::rewind(said);
      if (std::fgets(line, sizeof line, said) == nullptr) std::this_thread::yield();
    }
    perdura_poll();
  });
  while (!has_stored) std::this_thread::yield();
  store.checkpoint();
  storing.join();
  ::dup2(own_stderr, STDERR_FILENO);
  ::close(own_stderr);
  std::fclose(said);
}

// What stores have begun ends with a poll, and not where brackets end that nobody has begun.
void brackets_that_nobody_has_begun() {
  const OwnStore own;
  perdura_store* store = nullptr;
  perdura_options options{};
  options.tracking = PERDURA_TRACK_COMPILED;
  EXPECT(perdura_open(own.uri().c_str(), &options, &store) == 0);
  auto* const counters = static_cast<Counters*>(perdura_alloc(store, sizeof(Counters)));
  for (unsigned long i = 0; i < 1000; ++i) {
    step(*counters, i);
    perdura_operation_end(store);
    EXPECT(perdura_last_code() == PERDURA_MISUSE);
    EXPECT(perdura_operation_begin(store) == 0);
    step(*counters, i);
    perdura_poll();  // inside brackets it is not due
    perdura_operation_end(store);
    perdura_poll();
  }
  EXPECT(perdura_checkpoint(store, nullptr) == 0);
  EXPECT(perdura_close(store) == 0);
}

// Stores outside of operations are no operation for what must be called outside of them.
void beside_transactions() {
  const OwnStore own;
  perdura::Store store = own.open();
  auto& counters = store.root<Counters>("counters");
  counters.words[1] = 1;
  perdura::atomically(
      store, [&](perdura::Transaction& transaction) { transaction.write(counters.words[2], 2ul); });
  counters.words[3] = 3;
  store.checkpoint();
  EXPECT(!perdura_poll());
  {
    const auto operation = store.operation();
    counters.words[4] = 4;
  }
  store.close();
  perdura::Store again = own.open();
  auto& found = again.root<Counters>("counters");
  for (unsigned long i = 1; i < 5; ++i) EXPECT(found.words[i] == i);
}

// Two stores by turns, and one where another one was.
void several_stores() {
  const OwnStore own;
  for (int round = 0; round < 3; ++round) {
    perdura::Options other;
    other.region = "other";
    perdura::Store first = own.open_verified();
    perdura::Store second = own.open_verified(other);
    auto& one = first.root<Counters>("counters");
    auto& two = second.root<Counters>("counters");
    for (unsigned long i = 0; i < 1000; ++i) {
      step(one, i * 977);
      step(two, i * 1009);
    }
    first.checkpoint();
    second.checkpoint();
    expect_reported(first);
    expect_reported(second);
    first.close();
    step(two, 5);
    second.checkpoint();
    expect_reported(second);
    second.close();
  }
}

// A thread that ends in what its stores have begun keeps nobody waiting.
void threads_that_end() {
  const OwnStore own;
  perdura::Store store = own.open();
  auto& counters = store.root<Several>("counters").of;
  for (Counters& each : counters)
    std::thread([&each] {
      for (unsigned long i = 0; i < 1000; ++i) step(each, i * 31);
    }).join();
  store.checkpoint();
  store.close();
  perdura::Store again = own.open();
  for (const Counters& each : again.root<Several>("counters").of) EXPECT(each.steps == 1000);
}

// Threads that are outside of operations may end while the store is closed: with stacks that are
// unmapped then, what they had of it is gone at once.
void threads_that_end_while_it_is_closed() {
  pthread_attr_t large;
  ::pthread_attr_init(&large);
  ::pthread_attr_setstacksize(&large, std::size_t{64} << 20);
  for (int round = 0; round < 20; ++round) {
    struct Shared {
      Several* counters;
      std::atomic<int> started{0}, ready{0};
      std::atomic<bool> may_end{false};
    } shared{};
    const OwnStore own;
    perdura::Store store = own.open();
    shared.counters = &store.root<Several>("counters");
    pthread_t threads[8];
    for (pthread_t& each : threads)
      ::pthread_create(
          &each, &large,
          [](void* given) -> void* {
            auto& all = *static_cast<Shared*>(given);
            const int number = all.started++;
            step(all.counters->of[number], 7);
            perdura_poll();
            ++all.ready;
            while (!all.may_end) {
            }
            for (volatile int i = 0; i < number * 2000; i = i + 1) {
            }
            return nullptr;
          },
          &shared);
    std::thread joining([&] {
      for (const pthread_t each : threads) ::pthread_join(each, nullptr);
    });
    while (shared.ready != 8) std::this_thread::yield();
    store.checkpoint();
    shared.may_end = true;
    store.close();
    joining.join();
  }
}

// Where another tracker finds changes, stores begin no operation.
void stores_found_by_page() {
  const OwnStore own;
  perdura::Store store = perdura::Store::open(own.uri(), {.tracking = perdura::Tracking::kProtect});
  auto& counters = store.root<Counters>("counters");
  store.checkpoint();
  std::atomic<bool> has_stored{false}, may_end{false};
  std::thread storing([&] {
    step(counters, 7);
    has_stored = true;
    may_end.wait(false);
  });
  while (!has_stored) std::this_thread::yield();
  store.checkpoint();
  may_end = true;
  may_end.notify_one();
  storing.join();
  store.close();
  perdura::Store again = own.open();
  EXPECT(again.root<Counters>("counters").steps == 1);
}

// A child has nothing of its parent's store, and may open one of its own, where that one lies.
void a_forked_child() {
  const OwnStore own;
  perdura::Store store = own.open();
  auto& counters = store.root<Counters>("counters");
  step(counters, 5);
  const pid_t child = ::fork();
  if (child == 0) {
    EXPECT(!perdura_poll());
    const OwnStore another;
    {
      perdura::Store mine = another.open_verified();
      step(mine.root<Counters>("counters"), 7);
      mine.checkpoint();
      expect_reported(mine);
      mine.close();
    }
    EXPECT(another.open().root<Counters>("counters").steps == 1);
    ::unlink(another.uri().substr(4).c_str());
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT(status == 0);
  step(counters, 5);
  store.close();
  EXPECT(own.open().root<Counters>("counters").steps == 2);
}

PERDURA_NO_REPORTS void change_without_a_word(unsigned long& word) { ++word; }

// That the comparison finds what nobody has reported.
void what_is_not_reported() {
  const OwnStore own;
  perdura::Store store = own.open_verified();
  auto& counters = store.root<Counters>("counters");
  store.checkpoint();
  const auto operation = [&] { return store.operation(); };
  {
    const auto inside = operation();
    change_without_a_word(counters.words[100]);
  }
  store.checkpoint();
  EXPECT(store.statistics().unreported == 1);
  {
    const auto inside = operation();
    perdura_report(&counters.words[200], sizeof counters.words[200]);
    change_without_a_word(counters.words[200]);
  }
  store.checkpoint();
  EXPECT(store.statistics().unreported == 1);
}

}  // namespace

int main() {
  polls_between_steps();
  threads_with_operations();
  waiting_after_a_poll();
  waiting_without_a_poll();
  brackets_that_nobody_has_begun();
  beside_transactions();
  several_stores();
  threads_that_end();
  threads_that_end_while_it_is_closed();
  stores_found_by_page();
  a_forked_child();
  what_is_not_reported();
  return 0;
}
