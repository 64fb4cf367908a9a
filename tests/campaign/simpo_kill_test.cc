// Goal: a program that uses perdura/compat/simpo.hpp and dies finds its objects when it is run
// again: those of its own numbers and those of places in its code, wherever that is loaded; each
// call of its threads has happened once when it has come to its end, however often it was killed on
// the way. Method: simpo_worker.cc as processes of their own, and SIMPO's fourth listing
// (examples/simpo/array_threads.cc), which is killed with SIGKILL at random moments
// (PERDURA_SIMPO_KILLS changes how often) on emulated NVM and on a disk.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/bits.hpp"
#include "support/files.hpp"
#include "support/slice.hpp"

namespace perdura::test {
namespace {

struct Ended {
  std::string said;  ///< on stdout and stderr
  int status;
};

/// A program's life; it is killed after so long, unless that is 0.
Ended run(const std::vector<std::string>& command, u64 killed_after_ns = 0) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
  const pid_t child = ::fork();
  if (child < 0) std::abort();
  if (child == 0) {
    ::dup2(ends[1], 1);
    ::dup2(ends[1], 2);
    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    ::execv(arguments[0], arguments.data());
    ::_exit(99);
  }
  ::close(ends[1]);
  if (killed_after_ns != 0) {
    const timespec time{.tv_sec = 0, .tv_nsec = static_cast<long>(killed_after_ns)};
    ::nanosleep(&time, nullptr);
    ::kill(child, SIGKILL);
  }
  Ended ended{};
  char buffer[4096];
  for (ssize_t got; (got = ::read(ends[0], buffer, sizeof buffer)) > 0;)
    ended.said.append(buffer, static_cast<size_t>(got));
  ::close(ends[0]);
  ::waitpid(child, &ended.status, 0);
  return ended;
}
bool is_killed(const Ended& ended) {
  return WIFSIGNALED(ended.status) && WTERMSIG(ended.status) == SIGKILL;
}

class SimpoKillTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string uri = GetParam() + (":" + folder_.path("own.pd"));
    ::setenv("PERDURA_STORE", uri.c_str(), 1);
    for (const char* name : {"PERDURA_CALLERS", "PERDURA_HISTORY", "PERDURA_ARCHIVE"})
      ::unsetenv(name);
  }

  const TempDir folder_{GetParam() == std::string("emu") ? TempDir::kMemory : TempDir::kDisk};
};

INSTANTIATE_TEST_SUITE_P(Media, SimpoKillTest, testing::Values("emu", "file"),
                         [](const auto& info) { return std::string(info.param); });

/// The lines with numbers, of which each says that so much is there; and the others.
struct Told {
  std::string objects;
  std::string addresses;
  u64 count = 0;
};
Told told_by(const Ended& ended, int has) {
  Told told;
  const std::string end = " has " + std::to_string(has);
  for (size_t at = 0, next = 0; (next = ended.said.find('\n', at)) != std::string::npos;
       at = next + 1) {
    const std::string line = ended.said.substr(at, next - at);
    if (line.starts_with("addresses")) told.addresses = line;
    if (line.find(": object ") == line.npos) continue;
    EXPECT_TRUE(line.ends_with(end)) << line;
    told.objects += line.substr(0, line.rfind(" has")) + "\n";
    ++told.count;
  }
  return told;
}

TEST_P(SimpoKillTest, PlacesHaveTheSameNumbersInTheNextRun) {
  const Ended first = run({PERDURA_SIMPO_WORKER, "numbers"});
  ASSERT_TRUE(is_killed(first)) << first.said;
  const Told told = told_by(first, 0);
  EXPECT_EQ(told.count, 9u) << first.said;
  bool moved = false;
  for (int life = 1; life < 4; ++life) {
    const Ended again = run({PERDURA_SIMPO_WORKER, "numbers"});
    ASSERT_TRUE(is_killed(again)) << again.said;
    const Told now = told_by(again, life);
    EXPECT_EQ(now.objects, told.objects);
    moved = moved || now.addresses != told.addresses;
  }
  int randomized = 0;
  std::ifstream("/proc/sys/kernel/randomize_va_space") >> randomized;
  EXPECT_EQ(moved, randomized != 0) << told.addresses;
}

TEST_P(SimpoKillTest, AFunctionThatTheProgramLacksIsNamed) {
  ASSERT_TRUE(is_killed(run({PERDURA_SIMPO_WORKER, "log"})));
  const Ended without = run({PERDURA_SIMPO_WORKER_WITHOUT, "look"});
  EXPECT_NE(without.said.find("code 9: the log of object 'poid 3' calls function"),
            std::string::npos)
      << without.said;
  EXPECT_NE(without.said.find("add_twice"), std::string::npos) << without.said;
  EXPECT_NE(without.said.find("open it with the program that wrote it"), std::string::npos);
  EXPECT_EQ(run({PERDURA_SIMPO_WORKER, "look"}).said, "has 10\n");
}

TEST_P(SimpoKillTest, TheListingsThreadsCallOnceHoweverOftenTheyAreKilled) {
  const char* text = std::getenv("PERDURA_SIMPO_KILLS");
  const u64 kills = text != nullptr ? std::strtoull(text, nullptr, 10) : slice_or_whole(30, 300);
  const bool in_memory = GetParam() == std::string("emu");
  std::mt19937_64 random(std::random_device{}());
  u64 killed = 0;
  u64 went_on = 0;
  u64 ends = 0;
  for (long long at = 0; killed < kills || ends == 0;) {
    const std::string threads = std::to_string(1 + random() % 8);
    const std::string calls = in_memory ? "500000" : "10000";
    at = 0;
    // Later from kill to kill, so that it comes to its end on any machine.
    for (u64 time_max_ns = in_memory ? 60'000'000 : 150'000'000;; time_max_ns += time_max_ns / 8) {
      const Ended ended = run({PERDURA_ARRAY_THREADS, threads, calls}, 1 + random() % time_max_ns);
      long long now = 0;
      int thread = 0;
      if (const size_t line = ended.said.find("thread 1 goes on"); line != std::string::npos)
        std::sscanf(ended.said.c_str() + line, "thread %d goes on at %lld", &thread, &now);
      if (thread == 1) {
        ASSERT_GE(now, at) << "calls that were durable are lost";
        went_on += now > at;
        at = now;
      }
      if (!is_killed(ended)) {
        ASSERT_EQ(ended.status, 0) << ended.said;
        ++ends;
        break;
      }
      ++killed;
      // It may be freed already.
      if (ended.said.find("complete\n") != std::string::npos) at = 0;
    }
  }
  std::printf("%lu kills, %lu times further than before, %lu ends\n", killed, went_on, ends);
  EXPECT_GT(went_on, 2u);
  // The destructor has freed it.
  EXPECT_NE(run({PERDURA_ARRAY_THREADS, "1", "10"}).said.find("thread 1 goes on at 0"),
            std::string::npos);
}

// Each run begins anew, and goes through what was recorded to where the one before was killed.
TEST_P(SimpoKillTest, ADeterministicProgramIsRunAgainToTheSameEnd) {
  ::setenv("PERDURA_HISTORY", "all", 1);
  const u64 kills = slice_or_whole(30, 300);
  const bool in_memory = GetParam() == std::string("emu");
  const std::string calls = in_memory ? "60000" : "800";
  const std::string answers = [&] {
    const Ended ended = run({PERDURA_SIMPO_WORKER, "again", calls});
    EXPECT_EQ(ended.status, 0) << ended.said;
    EXPECT_TRUE(ended.said.starts_with("recorded 0\n")) << ended.said;
    return ended.said.substr(ended.said.find("answers"));
  }();
  std::mt19937_64 random(std::random_device{}());
  u64 killed = 0;
  u64 went_on = 0;
  u64 ends = 0;
  while (killed < kills || ends == 0) {
    long long at = 0;
    for (u64 time_max_ns = in_memory ? 40'000'000 : 150'000'000;; time_max_ns += time_max_ns / 8) {
      const Ended ended = run({PERDURA_SIMPO_WORKER, "again", calls}, 1 + random() % time_max_ns);
      long long now = at;
      std::sscanf(ended.said.c_str(), "recorded %lld", &now);
      // It may be freed already.
      const bool is_freed = ended.said.find("answers") != std::string::npos;
      ASSERT_GE(now, at) << "calls that were durable are lost";
      went_on += now > at;
      at = is_freed ? 0 : now;
      if (!is_killed(ended)) {
        ASSERT_EQ(ended.status, 0) << ended.said;
        ASSERT_EQ(ended.said.substr(ended.said.find('\n') + 1), answers);
        ++ends;
        break;
      }
      ++killed;
    }
  }
  std::printf("%lu kills, %lu times further than before, %lu ends\n", killed, went_on, ends);
  EXPECT_GT(went_on, 2u);
}

}  // namespace
}  // namespace perdura::test
