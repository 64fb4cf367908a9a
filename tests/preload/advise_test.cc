// Goal: `perdura advise` runs a program as it would run without, counts what it changes, by pages,
// parts of pages, blocks and lines, and writes what it says in three forms; what it cannot do it
// says in a sentence.
// Method: the built command on a program that changes its heap in a known way (changes.c). Skipped
// where the kernel or a sandbox refuses userfaultfd.
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "base/bits.hpp"
#include "support/files.hpp"
#include "track/userfault.hpp"

namespace perdura::test {
namespace {

using Json = nlohmann::json;

class AdviseTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto tracker = track::Userfault::create(nullptr, kPageBytes);
    if (!tracker) GTEST_SKIP() << tracker.failure().message;
  }
  /// The exit code; what the command printed is in `output_`.
  int run(const std::string& arguments) {
    const std::string file = folder_.path("output");
    const int status =
        std::system((PERDURA_COMMAND " advise " + arguments + " > " + file + " 2>&1").c_str());
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    output_ = text.str();
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  bool printed(const std::string& text) const { return output_.find(text) != output_.npos; }

  const TempDir folder_;
  std::string output_;
};

TEST_F(AdviseTest, CountsWhatChanges) {
  const std::string json = folder_.path("advice.json");
  const std::string html = folder_.path("advice.html");
  ASSERT_EQ(run("--medium emu --json " + json + " --html " + html + " -- " PERDURA_CHANGES " word"),
            0)
      << output_;
  EXPECT_TRUE(printed("word 8192"));  // of the program
  EXPECT_TRUE(printed("copied by a checkpoint every"));
  EXPECT_TRUE(printed("predicted run time"));

  const Json advice = Json::parse(std::ifstream(json));
  EXPECT_GE(advice.at("run_ns").get<double>(), 1.2e9);
  EXPECT_GE(advice.at("live_blocks").get<u64>(), 4096U);
  EXPECT_EQ(advice.at("recommended").size(), 4U);
  // Of the interval of 1 s, in which each block that ever changes has changed.
  const auto bytes = [&](const std::string& name) {
    for (const Json& way : advice.at("ways"))
      if (way.at("name") == name) {
        const Json& prediction = way.at("predictions").at(2);
        EXPECT_EQ(prediction.at("interval_ms"), 1000);
        EXPECT_EQ(prediction.at("checkpoints"), 1);
        EXPECT_GE(prediction.at("slowdown").get<double>(), 1.0);
        return prediction.at("bytes").get<u64>();
      }
    ADD_FAILURE() << "no way is called " << name;
    return u64{0};
  };
  constexpr u64 kPages = 256;
  // The first second has the allocations in it, of 256 pages and a few more; half a page is 8 of
  // the 16 blocks, and lines are those that were written.
  EXPECT_GE(bytes("pages"), kPages * kPageBytes);
  EXPECT_LE(bytes("pages"), (kPages + 64) * kPageBytes);
  EXPECT_LE(bytes("2 aliases"), bytes("1 alias"));
  EXPECT_LE(bytes("4 aliases"), bytes("2 aliases"));
  EXPECT_LE(bytes("pages, compared"), bytes("an alias a block") + 64 * kLineBytes);
  // Of 64 ms there are checkpoints without allocations: a line a page, twice.
  const auto each = [&](const std::string& name) {
    for (const Json& way : advice.at("ways"))
      if (way.at("name") == name)
        return way.at("predictions").at(1).at("bytes").get<double>() /
               way.at("predictions").at(1).at("checkpoints").get<double>() / kPages;
    return 0.0;
  };
  EXPECT_NEAR(each("pages"), 4096, 1300);
  EXPECT_NEAR(each("2 aliases"), 2048, 700);
  EXPECT_NEAR(each("4 aliases"), 1024, 500);
  EXPECT_NEAR(each("an alias a block"), 256, 300);
  EXPECT_NEAR(each("pages, compared"), 64, 260);

  std::ostringstream page;
  page << std::ifstream(html).rdbuf();
  for (const char* part : {"<!doctype html>", "Pages stored to", "Where the heap changes", "</svg>",
                           "2 aliases", " word"})
    EXPECT_NE(page.str().find(part), std::string::npos) << part;
}

TEST_F(AdviseTest, SaysWhatItCannotDo) {
  EXPECT_EQ(run("-- /no/such/program"), 2);
  EXPECT_TRUE(printed("cannot run '/no/such/program'"));
  EXPECT_EQ(run(""), 2);
  EXPECT_TRUE(printed("PROGRAM"));
  EXPECT_EQ(run("--library /no/such/library.so -- /bin/true"), 2);
  EXPECT_TRUE(printed("left nothing that was sampled"));
  EXPECT_EQ(run("--medium none -- /bin/true"), 2) << output_;
  EXPECT_EQ(run("--medium emu -- sh -c 'kill -9 $$'"), 2);
  EXPECT_TRUE(printed("died of signal 9"));
  EXPECT_EQ(run("--medium emu -- /bin/true"), 0) << output_;
}

}  // namespace
}  // namespace perdura::test
