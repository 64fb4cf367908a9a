// Goal: a C program that uses perdura/compat/fgck.h and is killed at any moment finds each object
// as a checkpoint left it: all of them as the last nv_ckall did, but for those that nv_ckone made
// durable since; everything acknowledged is there, nothing else is, and the heap is sound.
// Method: fgck_worker.c as a process of its own, killed with SIGKILL at 300 random moments
// (PERDURA_FGCK_KILLS changes it), on emulated NVM and on a disk, with 1 to 256 aliases. What has
// become durable it writes to a pipe, and when it begins, what it finds; both are compared here.
#include <gtest/gtest.h>

#include <stdlib.h>

#include <algorithm>
#include <random>

#include "support/files.hpp"
#include "support/slice.hpp"
#include "support/worker.hpp"
#include "support/wrapped_store.hpp"

namespace perdura::test {
namespace {

constexpr u64 kObjects = 6;
constexpr u64 kListMax = 40;

/// What the worker finds after its `durable`-th step, where its list had `length` nodes.
std::string state_after(u64 durable) {
  const u64 round = durable / 3;
  if (round == 0) return "nothing";
  std::string state;
  for (u64 i = 0; i < kObjects; ++i)
    state += std::to_string(2 * round + (durable % 3 >= 1 && i == round % kObjects ? 1 : 0)) + " ";
  return state + "new " + std::to_string(durable % 3 == 2 ? 2 * round + 1 : 0) + " list " +
         std::to_string((round - 1) % kListMax + 1);
}

class FgckKillTest : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Media, FgckKillTest, testing::Values("emu", "file"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(FgckKillTest, FindsWhatWasCheckpointed) {
  const char* text = std::getenv("PERDURA_FGCK_KILLS");
  const u64 kills =
      (text != nullptr ? std::strtoull(text, nullptr, 10) : slice_or_whole(40, 300)) / 2;
  const bool in_memory = GetParam() == std::string("emu");
  const TempDir folder(in_memory ? TempDir::kMemory : TempDir::kDisk);
  std::mt19937_64 random(std::random_device{}());
  u64 durable = 0;
  u64 next = 3;
  u32 aliases = 2;
  u64 steps = 0;
  for (u64 kill = 0; kill < kills; ++kill) {
    const std::string path = folder.path("state.pd");
    if (kill % 20 == 0) {
      std::filesystem::remove(path);
      durable = 0;
      next = 3;
      aliases = 1u << random() % 9;
    }
    const std::string uri = std::string(GetParam()) + ":" + path;
    ::setenv("PERDURA_STORE", uri.c_str(), 1);
    ::setenv("PERDURA_ALIASES", std::to_string(aliases).c_str(), 1);
    const std::vector<std::string> lines = live({PERDURA_FGCK_WORKER}, kill, random);
    SCOPED_TRACE("kill " + std::to_string(kill) + ", " + std::to_string(aliases) + " aliases, " +
                 std::to_string(durable) + " steps acknowledged");
    if (!lines.empty()) {
      // What was under way when the one before it died may have become durable.
      if (lines.front() == state_after(next)) durable = next;
      ASSERT_EQ(lines.front(), state_after(durable));
      // The round that was not over is done again; its number stays.
      next = (durable / 3 + 1) * 3;
      for (size_t i = 1; i < lines.size(); ++i, ++steps) {
        ASSERT_EQ(lines[i], std::to_string(next));
        durable = next++;
      }
    }
    if (std::filesystem::exists(path) && durable != 0) {
      WrappedStore store(uri, {});
      const HeapAudit audit = store.audit();
      ASSERT_TRUE(audit.clean) << audit.problem;
      // Each named object and its name; the nodes of the list.
      const auto* found = static_cast<const u64*>(store.get_root("list"));
      ASSERT_NE(found, nullptr);
      EXPECT_EQ(audit.live_blocks, 2 * audit.roots + found[1]);
      store.crash();
    }
  }
  std::printf("%lu kills, %lu checkpoints acknowledged\n", kills, steps);
  EXPECT_GT(steps, kills);
}

}  // namespace
}  // namespace perdura::test
