// Goal: whenever a copy, a backup, a restore, or a process whose store drains is killed, the place
// that is written has the versions that it had whole, or says that it has none yet; and whoever
// does the same again completes it.
// Method: processes that copy a store, which another process goes on writing, are killed with
// SIGKILL at random moments of what they take; what they leave is opened and compared with the one
// number that its whole content follows from (support/reader_steps.hpp). Every few kills one is
// left to end.
#include <gtest/gtest.h>

#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <random>

#include "store/backup.hpp"
#include "store/inspect.hpp"
#include "support/files.hpp"
#include "support/reader_steps.hpp"
#include "support/slice.hpp"
#include "support/store_places.hpp"

namespace perdura::test {
namespace {

using Random = std::mt19937_64;

/// What all processes of a test share.
struct Shared {
  std::atomic<u64> acknowledged;  ///< the last step of the store
  std::atomic<u64> drained;       ///< the last one that was said to be in the drain
};

class BackupKills : public testing::TestWithParam<StorePlace> {
 protected:
  BackupKills() {
    void* const memory =
        ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared_ = new (memory) Shared{};
    const char* const wanted = std::getenv("PERDURA_SEED");
    seed_ = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : std::random_device{}();
    random_.seed(seed_);
  }
  ~BackupKills() override { ::munmap(shared_, sizeof(Shared)); }

  std::string uri() const { return GetParam().scheme + folder_.path("store.pd"); }
  std::string place(const char* name) const { return folder_.path(name); }
  Options options() const { return small_options(GetParam()); }

  /// Until it is killed. Of two copies the version after the next waits for who reads one: it is
  /// written slowly enough that there is none to wait.
  std::string write() const {
    Store store = Store::open(uri(), options());
    Steps steps(store);
    if (!steps.is_made()) steps.make();
    for (;;) {
      steps.take();
      store.checkpoint();
      shared_->acknowledged = steps.step();
      ::usleep(GetParam().engine == Engine::kDualCopy ? 20'000 : 300);
    }
  }
  void make() const {
    Store store = Store::open(uri(), options());
    Steps steps(store);
    if (!steps.is_made()) steps.make();
    for (int i = 0; i < 30; ++i) steps.take();
    store.close();
  }

  store::CopyOptions copy_options() {
    store::CopyOptions copy;
    copy.progress_bytes = 32 * kKiB << random_() % 4;
    return copy;
  }
  /// A moment of what takes about so long.
  void sleep_below(double longest_ns) {
    const double time =
        std::pow(10, std::uniform_real_distribution(4.3, std::log10(longest_ns))(random_));
    const timespec span{.tv_sec = 0, .tv_nsec = static_cast<long>(time)};
    ::nanosleep(&span, nullptr);
  }

  /// What the place has: "" and the step; or that it has none yet, as it says, and no step.
  static std::string look(const std::string& uri, u64& step) {
    step = 0;
    try {
      Options to_read;
      to_read.read_only = true;
      Store store = Store::open(uri, to_read);
      const Steps steps(store);
      if (!steps.is_made()) return "it has no words";
      step = steps.step();
      return steps.problem();
    } catch (const Error& error) {
      const std::string what = error.what();
      const bool has_none =
          what.find("not completed") != what.npos || what.find("has no region") != what.npos ||
          what.find("it is empty") != what.npos || what.find("no such") != what.npos ||
          what.find("No such file") != what.npos || what.find("not a Perdura store") != what.npos;
      return has_none ? "" : what;
    }
  }

  static u64 steps_of(const std::string& uri) {
    u64 step = 0;
    return look(uri, step).empty() ? step : 0;
  }

  /// Kills `call(from, to)` again and again until it has ended by itself `ends` times; `from_step`
  /// is what the place must have at least afterwards. What is wrong, or "".
  template <class Call>
  std::string kill_until(Call&& call, const std::string& to, u64 kills) {
    u64 had = 0;
    u64 completed = 0;
    for (u64 kill = 0; kill < kills || completed == 0; ++kill) {
      const u64 acknowledged = shared_->acknowledged;
      const store::CopyOptions copy = copy_options();
      Child child([&]() -> std::string {
        const auto done = call(copy);
        return done ? "" : done.failure().message;
      });
      const bool is_killed = random_() % 5 != 0;
      if (is_killed) {
        sleep_below(3e7);
        child.kill();
      }
      if (std::string problem = child.wait(); !problem.empty()) return problem;
      u64 step = 0;
      const std::string problem = in_child([&]() -> std::string {
        std::string wrong = look(to, step);
        return wrong.empty() ? std::to_string(step) : "wrong: " + wrong;
      });
      if (problem.find("wrong: ") == 0) return problem;
      step = std::strtoull(problem.c_str(), nullptr, 10);
      if (step < had)
        return "it had step " + std::to_string(had) + ", and has " + std::to_string(step);
      if (!child.killed()) {
        ++completed;
        if (step < acknowledged)
          return "step " + std::to_string(acknowledged) + " was there before, and " +
                 std::to_string(step) + " was copied";
      }
      had = step;
    }
    const auto report = value_or_throw(store::check(to, {}));
    return report.damaged() ? report.findings.at(0).message : "";
  }

  static u64 kills() { return slice_or_whole(40, 1000) / kSlower; }

  const TempDir folder_{TempDir::kMemory};
  Shared* shared_;
  u64 seed_ = 0;
  Random random_;
};

TEST_P(BackupKills, BackupsBesideAWriterAreWhole) {
  SCOPED_TRACE("PERDURA_SEED=" + std::to_string(seed_));
  Child writer([this] { return write(); });
  while (shared_->acknowledged == 0) ::usleep(1000);
  EXPECT_EQ(kill_until(
                [this](const store::CopyOptions& copy) {
                  return store::back_up(uri(), place("backup.pd"), copy);
                },
                place("backup.pd"), kills()),
            "");
  writer.kill();
  EXPECT_EQ(writer.wait(), "");
}

// The writer is killed as well: what its log holds is copied as opening it would find it.
TEST_P(BackupKills, CopiesAndRestoresAreCompletedInTheEnd) {
  SCOPED_TRACE("PERDURA_SEED=" + std::to_string(seed_));
  for (int round = 0; round < 3; ++round) {
    {
      Child writer([this] { return write(); });
      const u64 before = shared_->acknowledged;
      while (shared_->acknowledged < before + 3) ::usleep(1000);
      writer.kill();
      ASSERT_EQ(writer.wait(), "");
    }
    std::filesystem::remove(place("copy.pd"));
    std::filesystem::remove(place("restored.pd"));
    const auto until_there = [](Result<store::Copied> done) {
      // It was completed, and then killed.
      if (!done && done.failure().message.find("is not overwritten") != std::string::npos)
        return Result<store::Copied>(store::Copied{});
      return done;
    };
    ASSERT_EQ(kill_until(
                  [&](const store::CopyOptions& copy) {
                    return until_there(store::copy(uri(), place("copy.pd"), copy));
                  },
                  place("copy.pd"), kills() / 4),
              "");
    value_or_throw(store::back_up(uri(), place("backup.pd"), {}));
    ASSERT_EQ(
        kill_until(
            [&](const store::CopyOptions& copy) {
              return until_there(store::restore(place("backup.pd"), place("restored.pd"), copy));
            },
            place("restored.pd"), kills() / 4),
        "");
  }
}

TEST_P(BackupKills, DrainsAreWhole) {
  if (GetParam().engine == Engine::kDualCopy) GTEST_SKIP() << "two copies are not drained";
  SCOPED_TRACE("PERDURA_SEED=" + std::to_string(seed_));
  Options draining = options();
  draining.drain = place("drain.pd");
  u64 had = 0;
  for (u64 kill = 0; kill < kills(); ++kill) {
    Child child([&]() -> std::string {
      Store store = Store::open(uri(), draining);
      Steps steps(store);
      if (!steps.is_made()) steps.make();
      if (steps.step() < shared_->acknowledged) return "the store has lost a step";
      if (std::string problem = steps.problem(); !problem.empty()) return problem;
      // By the first version of the session, each a step later than the one before.
      const u64 first = store.durable_version() + 1;
      const u64 before = steps.step();
      for (;;) {
        steps.take();
        if (store.checkpoint() != first + steps.step() - before - 1) return "a step has no version";
        shared_->acknowledged = steps.step();
        const u64 drained = store.durable_version(Where::kDrain);
        if (drained >= first) shared_->drained = before + (drained - first + 1);
      }
    });
    sleep_below(kill % 4 == 0 ? 3e8 : 6e7);
    child.kill();
    ASSERT_EQ(child.wait(), "");
    const u64 drained = shared_->drained;
    const std::string there = in_child([&]() -> std::string {
      u64 step = 0;
      std::string wrong = look(place("drain.pd"), step);
      return wrong.empty() ? std::to_string(step) : "wrong: " + wrong;
    });
    ASSERT_NE(there.find("wrong: "), 0u) << there;
    const u64 step = std::strtoull(there.c_str(), nullptr, 10);
    ASSERT_GE(step, drained);
    EXPECT_GE(step, had);
    had = step;
  }
  // One that is closed in order.
  EXPECT_EQ(in_child([&]() -> std::string {
              Store store = Store::open(uri(), draining);
              Steps steps(store);
              if (!steps.is_made()) steps.make();
              steps.take();
              store.close();
              u64 step = 0;
              std::string wrong = look(place("drain.pd"), step);
              return wrong.empty() && step != steps_of(uri()) ? "it is not drained" : wrong;
            }),
            "");
  std::printf("the drain had step %lu of %lu at the last kill\n", had,
              shared_->acknowledged.load());
}

INSTANTIATE_TEST_SUITE_P(All, BackupKills, testing::ValuesIn(kStorePlaces), name_of);

}  // namespace
}  // namespace perdura::test
