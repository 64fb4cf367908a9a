// Goal: a program that is killed at any moment finds all transactions that it was told of, whole,
// and of each thread at most one more; no money is made or lost, no block is left over.
// Those that are relaxed, of which one of four is waited for: all up to that one.
// Method: transaction_worker.cc as a process of its own, killed with SIGKILL at 500 random moments
// (PERDURA_TRANSACTION_KILLS changes it), many of them while it opens its store and repeats
// transactions, with each way to make records durable, on emulated NVM and on a disk.
// The same of transactions that GCC compiles (-fgnu-tm).
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <random>

#include "media/medium.hpp"
#include "support/files.hpp"
#include "support/slice.hpp"
#include "support/worker.hpp"

namespace perdura::test {
namespace {

struct Config {
  const char* name;
  const char* scheme;
  const char* way;  ///< to make them durable, or to keep what they store
  u64 share;        ///< of the kills
  u64 step = 1;     ///< transfers of a thread from one that is acknowledged to the next
  const char* worker = PERDURA_TRANSACTION_WORKER;
};
class TransactionKillTest : public testing::TestWithParam<Config> {};

INSTANTIATE_TEST_SUITE_P(Media, TransactionKillTest,
                         testing::Values(Config{"emu", "emu", "non_temporal", 3},
                                         Config{"emu_undo", "emu", "undo", 6},
                                         Config{"emu_lazy_bulk", "emu", "lazy_bulk", 6},
                                         Config{"emu_per_write", "emu", "per_write", 6},
                                         Config{"file", "file", "non_temporal", 3},
                                         Config{"file_undo", "file", "undo", 6},
                                         Config{"file_relaxed", "file", "relaxed", 6, 4}),
                         [](const auto& info) { return std::string(info.param.name); });

#ifdef PERDURA_ITM_WORKER
INSTANTIATE_TEST_SUITE_P(
    Itm, TransactionKillTest,
    testing::Values(Config{"emu", "emu", "non_temporal", 6, 1, PERDURA_ITM_WORKER},
                    Config{"emu_undo", "emu", "undo", 6, 1, PERDURA_ITM_WORKER},
                    Config{"file", "file", "non_temporal", 6, 1, PERDURA_ITM_WORKER},
                    Config{"file_relaxed", "file", "relaxed", 6, 4, PERDURA_ITM_WORKER}),
    [](const auto& info) { return std::string(info.param.name); });
#endif

TEST_P(TransactionKillTest, FindsWhatWasAcknowledged) {
  constexpr u64 kThreads = 8;
  const char* text = std::getenv("PERDURA_TRANSACTION_KILLS");
  const u64 kills =
      (text != nullptr ? std::strtoull(text, nullptr, 10) : slice_or_whole(100, 500)) /
      GetParam().share;
  const std::string scheme = GetParam().scheme;
  const TempDir folder(scheme == "emu" ? TempDir::kMemory : TempDir::kDisk);
  const std::string uri = scheme + ":" + folder.path("bank.pd");
  std::mt19937_64 random(std::random_device{}());
  std::array<u64, kThreads> known{};
  u64 acknowledged = 0;
  for (u64 kill = 0; kill < kills; ++kill) {
    if (kill % 40 == 0 && kill != 0) {
      value_or_throw(media::remove_medium(uri));
      known = {};
    }
    const auto lines = live({GetParam().worker, uri, GetParam().way}, kill, random);
    SCOPED_TRACE("kill " + std::to_string(kill));
    for (const std::string& line : lines) {
      char what[8];
      u64 thread = 0;
      u64 transfers = 0;
      ASSERT_EQ(std::sscanf(line.c_str(), "%7s %lu %lu", what, &thread, &transfers), 3) << line;
      ASSERT_LT(thread, kThreads);
      if (what == std::string("found")) {
        EXPECT_GE(transfers, known[thread]) << "of thread " << thread;
        EXPECT_LE(transfers, known[thread] + GetParam().step);
      } else {
        EXPECT_LE(transfers, known[thread] + GetParam().step);
        EXPECT_GT(transfers, known[thread]);
        ++acknowledged;
      }
      known[thread] = transfers;
    }
  }
  std::printf("%lu kills, %lu transactions acknowledged\n", kills, acknowledged);
  EXPECT_GT(acknowledged, kills);
}

}  // namespace
}  // namespace perdura::test
