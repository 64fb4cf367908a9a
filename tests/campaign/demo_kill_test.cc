// Goal: the demonstration's program of standard containers, compiled to report its stores, is
// killed at any moment and finds its index as the last version that it was told of left it, or as a
// later one did: each word, each package and each pointer between them. So where pages are found,
// and with containers that report.
// Method: the demonstration itself, on texts that are drawn, kills its worker with SIGKILL at 500
// moments of the work (PERDURA_DEMO_KILLS changes it), and again while half of them are opened, on
// emulated NVM and on a disk. Each worker compares what it finds with an index that it builds anew
// and looks at the whole heap; one that is left alone has all that changes compared with what was
// reported (--verify).
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include <nlohmann/json.hpp>

#include "support/files.hpp"
#include "support/slice.hpp"

namespace perdura::test {
namespace {

constexpr int kPackages = 3'000;
constexpr int kTexts = 60;
constexpr int kWordsOfText = 6'000;

/// A few words often, most of them seldom.
class Words {
 public:
  std::string next() {
    const double rare = std::uniform_real_distribution(0.0, 1.0)(random_);
    const u64 number = static_cast<u64>(30'000 * rare * rare * rare);
    std::string word;
    for (u64 left = number * 2'654'435'761 % 4'294'967'296 + 1; left != 0; left /= 26)
      word += static_cast<char>('a' + left % 26);
    return word;
  }
  std::string several(int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += next() + ' ';
    return text;
  }
  u64 below(u64 bound) { return random_() % bound; }

 private:
  std::mt19937_64 random_{7};
};

/// Paragraphs as Debian's package lists have them, and texts.
void write_corpus(const std::string& folder) {
  std::filesystem::create_directory(folder);
  Words words;
  const auto package = [&] { return "package" + std::to_string(words.below(kPackages)); };
  std::ofstream list(folder + "/Packages");
  for (int i = 0; i < kPackages; ++i) {
    list << "Package: package" << i << "\nVersion: 1." << words.below(50) << "\nDepends: ";
    for (u64 left = words.below(6); left != 0; --left)
      list << package() << " (>= 1." << left << ") | " << package() << ", ";
    list << package() << "\nProvides: service" << words.below(100)
         << "\nDescription: " << words.several(20) << "\n\n";
  }
  for (int i = 0; i < kTexts; ++i)
    std::ofstream(folder + "/text" + std::to_string(i)) << words.several(kWordsOfText) << '\n';
}

struct Config {
  const char* side;
  const char* scheme;
  u64 share;  ///< of the kills
};
class DemoKillTest : public testing::TestWithParam<Config> {};

INSTANTIATE_TEST_SUITE_P(Sides, DemoKillTest,
                         testing::Values(Config{"compiled", "emu", 2},
                                         Config{"compiled", "file", 2}, Config{"pages", "file", 8},
                                         Config{"reporting", "emu", 8},
                                         Config{"reporting", "file", 8}),
                         [](const auto& info) {
                           return std::string(info.param.side) + "_" + info.param.scheme;
                         });

TEST_P(DemoKillTest, EachStartFindsTheLastVersionWhole) {
  const auto [side, scheme, share] = GetParam();
  const char* text = std::getenv("PERDURA_DEMO_KILLS");
  const u64 kills =
      (text != nullptr ? std::strtoull(text, nullptr, 10) : slice_or_whole(16, 500)) / share;
  const TempDir folder(std::string(scheme) == "file" ? TempDir::kDisk : TempDir::kMemory);
  write_corpus(folder.path("corpus"));
  const std::string figures = folder.path("figures.json"), said = folder.path("said");
  const std::string command = PERDURA_DEMO " --verify --side " + std::string(side) + " --kills " +
                              std::to_string(kills) + " --seed " +
                              std::to_string(std::random_device{}()) + " --interval-ms 2 --store " +
                              scheme + ":" + folder.path("index") + " --json " + figures + " " +
                              folder.path("corpus") + " >" + said + " 2>&1";
  const int status = std::system(command.c_str());
  std::ifstream output(said);
  ASSERT_EQ(status, 0) << command << '\n'
                       << std::string(std::istreambuf_iterator<char>(output), {});

  const auto result = nlohmann::json::parse(std::ifstream(figures));
  EXPECT_EQ(result["input"]["packages"], kPackages);
  EXPECT_EQ(result["input"]["documents"], kTexts);
  EXPECT_TRUE(result["same"].get<bool>());
  EXPECT_GT(result["answers"], 300);
  const auto& struck = result[side]["killed"]["kills"];
  ASSERT_EQ(struck.size(), kills);
  u64 found_some = 0, while_opening = 0;
  for (const auto& each : struck) {
    found_some += each["resumed_document"] != 0;
    while_opening += each["kills_while_opening"].get<u64>();
  }
  EXPECT_GT(found_some, 0u);  // the later a life is to be killed, the more versions it makes
  EXPECT_EQ(while_opening, kills / 2);
  std::printf("%lu kills at work, %lu of openings\n", kills, while_opening);
}

}  // namespace
}  // namespace perdura::test
