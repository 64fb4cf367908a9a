// Goal: a program that is killed at any moment finds its container as a persistence point left it:
// the whole graph of one version, at least the last one acknowledged, whichever addresses the
// program itself lies at. So with a container that leads into it: that has its own copy.
// Method: container_worker.cc as a process of its own, killed with SIGKILL at 300 random moments
// (PERDURA_CONTAINER_KILLS changes it) with each engine, on emulated NVM, on a disk and on
// memcached. Each worker checks the graph that it finds, link by link, against the one that follows
// from its number of steps; in chunks, those of the older versions as well.
#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "media/medium.hpp"
#include "support/files.hpp"
#include "support/memcached_server.hpp"
#include "support/slice.hpp"
#include "support/worker.hpp"

namespace perdura::test {
namespace {

constexpr u64 kStepsPerPoint = 7;

struct Config {
  const char* name;
  const char* scheme;
  const char* engine;
  u64 share;  ///< of the kills
};
class ContainerKillTest : public testing::TestWithParam<Config> {};

INSTANTIATE_TEST_SUITE_P(Media, ContainerKillTest,
                         testing::Values(Config{"emu", "emu", "log", 2},
                                         Config{"file", "file", "log", 2},
                                         Config{"chunks_emu", "emu", "chunks", 4},
                                         Config{"chunks_file", "file", "chunks", 2},
                                         Config{"chunks_aside_file", "file", "aside", 4},
                                         Config{"chunks_memcached", "memcached", "chunks", 1}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(ContainerKillTest, FindsOneOfTheVersions) {
  const char* text = std::getenv("PERDURA_CONTAINER_KILLS");
  const u64 kills = (text != nullptr ? std::strtoull(text, nullptr, 10) : slice_or_whole(32, 300)) /
                    GetParam().share;
  const std::string scheme = GetParam().scheme;
  const bool in_memory = scheme != "file";
  const TempDir folder(in_memory ? TempDir::kMemory : TempDir::kDisk);
  std::optional<MemcachedProcess> server;
  if (scheme == "memcached") server.emplace();
  const std::string uri = server ? server->uri("state") : scheme + ":" + folder.path("state.pd");
  std::mt19937_64 random(std::random_device{}());
  u64 durable = 0;  ///< steps
  u64 points = 0;
  for (u64 kill = 0; kill < kills; ++kill) {
    if (kill % 30 == 0 && kill != 0) {
      for (const char* which : {"", ".second"}) value_or_throw(media::remove_medium(uri + which));
      durable = 0;
    }
    const auto lines = live({PERDURA_CONTAINER_WORKER, uri, GetParam().engine}, kill, random);
    SCOPED_TRACE("kill " + std::to_string(kill) + ", " + std::to_string(durable) +
                 " steps acknowledged");
    for (const std::string& line : lines) {
      ASSERT_EQ(line.find_first_not_of("0123456789"), line.npos) << line;
      const u64 steps = std::stoull(line);
      // Of two points that were under way when the one before it died.
      ASSERT_GE(steps, durable);
      ASSERT_LE(steps, durable + 2 * kStepsPerPoint);
      ASSERT_EQ(steps % kStepsPerPoint, 0u);
      points += steps != durable ? 1 : 0;
      durable = steps;
    }
  }
  std::printf("%lu kills, %lu points acknowledged\n", kills, points);
  EXPECT_GT(points, kills);
}

}  // namespace
}  // namespace perdura::test
