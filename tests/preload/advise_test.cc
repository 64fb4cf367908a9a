// Goal: `perdura advise` runs a program as it would run without, counts what it changes, by pages,
// parts of pages, blocks and lines, and writes what it says in three forms; what it cannot do it
// says in a sentence.
// However the program ends, or the command, what was measured is used and nothing is left behind.
// Method: the built command on a program that changes its heap in a known way (changes.c) and ends
// in different ways; signals to both. Skipped where the kernel or a sandbox refuses userfaultfd.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/bits.hpp"
#include "support/files.hpp"
#include "support/slice.hpp"
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
  // Of 5 s the run has nothing to say.
  for (const Json& each : advice.at("recommended")) EXPECT_NE(each.at("interval_ms"), 5000);
  EXPECT_FALSE(advice.at("recommended").empty());
  // What makes system calls fail is no way for a program that does not know, and reports are one
  // for a program that makes them.
  for (const Json& way : advice.at("ways"))
    EXPECT_TRUE(way.at("tracking") == "userfault" ||
                way.at("unavailable").get<std::string>().find("perdura-clang") !=
                    std::string::npos);
  // Of a checkpoint at this interval.
  const auto bytes = [&](const std::string& name, u64 interval_ms) {
    for (const Json& way : advice.at("ways")) {
      if (way.at("name") != name) continue;
      for (const Json& prediction : way.at("predictions")) {
        if (prediction.at("interval_ms") != interval_ms) continue;
        EXPECT_GE(prediction.at("checkpoints").get<u64>(), 1U);
        EXPECT_GE(prediction.at("slowdown").get<double>(), 1.0);
        EXPECT_GE(prediction.at("doubt").get<double>(), 0.0);
        return prediction.at("bytes").get<double>();
      }
    }
    ADD_FAILURE() << "nothing is predicted for " << name << " every " << interval_ms << " ms";
    return 0.0;
  };
  constexpr double kPages = 256;
  // The first second has the allocations in it, of 256 pages and a few more; half a page is 8 of
  // the 16 blocks, and lines are those that were written.
  EXPECT_GE(bytes("pages", 1000), kPages * kPageBytes);
  EXPECT_LE(bytes("pages", 1000), (kPages + 64) * kPageBytes);
  EXPECT_LE(bytes("2 aliases", 1000), bytes("1 alias", 1000));
  EXPECT_LE(bytes("4 aliases", 1000), bytes("2 aliases", 1000));
  EXPECT_LE(bytes("pages, compared", 1000), bytes("an alias a block", 1000) + 64 * kLineBytes);
  // In 64 ms, without the first ones, a line of each page changes twice.
  const auto of_page = [&](const std::string& name) { return bytes(name, 64) / kPages; };
  EXPECT_NEAR(of_page("pages"), 4096, 1300);
  EXPECT_NEAR(of_page("2 aliases"), 2048, 700);
  EXPECT_NEAR(of_page("4 aliases"), 1024, 500);
  EXPECT_GE(of_page("an alias a block"), 128);
  EXPECT_LE(of_page("an alias a block"), 556);
  EXPECT_GE(of_page("pages, compared"), 32);
  EXPECT_LE(of_page("pages, compared"), 324);

  std::ostringstream page;
  page << std::ifstream(html).rdbuf();
  for (const char* part : {"<!doctype html>", "Pages stored to", "Where the heap changes", "</svg>",
                           "2 aliases", " word"})
    EXPECT_NE(page.str().find(part), std::string::npos) << part;
}

// Of what a program asks for and never touches, neither the medium nor memory has to be there: as
// sort(1) does with half of the machine's.
TEST_F(AdviseTest, AddressSpaceThatIsNeverTouchedCostsNothing) {
  const std::string json = folder_.path("advice.json");
  ASSERT_EQ(run("--medium emu --json " + json + " -- " PERDURA_CHANGES " word untouched"), 0)
      << output_;
  EXPECT_TRUE(printed("word 8192"));
  // The kernel's own figure: what this process and the program had in memory at most, in KiB.
  const size_t at = output_.find("resident ");
  ASSERT_NE(at, output_.npos) << output_;
  EXPECT_LE(std::stoul(output_.substr(at + 9)), 256U * 1024) << output_;
  // Pages of the medium are those of the file in /dev/shm, all of which the heap's first version
  // has.
  const size_t blocks = output_.find("medium ");
  ASSERT_NE(blocks, output_.npos) << output_;
  EXPECT_LE(std::stoul(output_.substr(blocks + 7)), 256U * 1024) << output_;
}

// They are on the heap as well, and seen to change.
TEST_F(AdviseTest, BlocksThatAreMoreAlignedThanAnyOtherAreSeen) {
  const std::string json = folder_.path("advice.json");
  ASSERT_EQ(run("--medium emu --json " + json + " -- " PERDURA_CHANGES " word aligned"), 0)
      << output_;
  EXPECT_TRUE(printed("word 8192"));
  const Json advice = Json::parse(std::ifstream(json));
  for (const Json& each : advice.at("changed_bytes"))
    if (each.at("interval_ms") == 64) {
      EXPECT_GE(each.at("bytes").get<u64>(), 256U * kLineBytes);
    }
  EXPECT_GE(advice.at("live_bytes").get<u64>(), 4096U * 256);
}

TEST_F(AdviseTest, SaysWhatItCannotDo) {
  EXPECT_EQ(run("-- /no/such/program"), 2);
  EXPECT_TRUE(printed("cannot run '/no/such/program': No such file"));
  EXPECT_EQ(run(""), 2);
  EXPECT_TRUE(printed("PROGRAM"));
  EXPECT_EQ(run("--medium emu -- sh -c 'kill -9 $$'"), 2);
  EXPECT_TRUE(printed("died of signal 9"));
  EXPECT_EQ(run("--medium emu -- sh -c 'exit 127'"), 2);
  EXPECT_TRUE(printed("ended with status 127"));
}

// Nothing is calibrated for it.
TEST_F(AdviseTest, ARunThatIsTooShort) {
  EXPECT_EQ(run("--medium emu -- /bin/true"), 2);
  EXPECT_TRUE(printed("too short for a checkpoint") || printed("left nothing that was sampled"))
      << output_;
  EXPECT_FALSE(printed("predicted run time"));
}

// A wrong option must not cost the run of an hour.
TEST_F(AdviseTest, OptionsAreValidatedBeforeTheProgramRuns) {
  const std::string marker = folder_.path("marker");
  const std::pair<const char*, const char*> wrong[] = {
      {"--medium none", "none"},
      {"--medium emu --dir /no/such/folder", "/no/such/folder"},
      {"--medium emu --library /no/such/library.so", "cannot read '/no/such/library.so'"},
      {"--medium emu --json /no/such/folder/advice.json", "cannot write '/no/such/folder"},
      {"--medium emu --html /no/such/folder/advice.html", "cannot write '/no/such/folder"},
  };
  for (const auto& [options, sentence] : wrong) {
    EXPECT_EQ(run(std::string(options) + " -- touch " + marker), 2) << options;
    EXPECT_TRUE(printed(sentence)) << output_;
    EXPECT_FALSE(std::filesystem::exists(marker)) << options;
  }
}

// A slice leaves the end by a signal to ServerAdviseTest.
TEST_F(AdviseTest, HoweverTheProgramEnds) {
  const std::pair<const char*, const char*> ends[] = {{"exit", "ended with status 4"},
                                                      {"kill", "died of signal 9"}};
  for (const auto& [end, sentence] : std::span(ends).first(slice_or_whole(1, 2))) {
    EXPECT_EQ(run(std::string("--medium emu -- " PERDURA_CHANGES " word ") + end), 0) << output_;
    EXPECT_TRUE(printed("word 8192"));
    EXPECT_TRUE(printed(sentence)) << output_;
    EXPECT_TRUE(printed("predicted run time"));
  }
}

/// The command on a program that serves until a signal comes, in a folder that must end up empty.
class ServerAdviseTest : public AdviseTest {
 protected:
  void SetUp() override {
    AdviseTest::SetUp();
    if (IsSkipped()) return;
    std::filesystem::create_directory(folder_.path("work"));
    command_ = ::fork();
    ASSERT_GE(command_, 0);
    if (command_ == 0) {
      const int file = ::open(output().c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      ::dup2(file, 1);
      ::dup2(file, 2);
      ::execl(PERDURA_COMMAND, PERDURA_COMMAND, "advise", "--medium", "emu", "--dir",
              folder_.path("work").c_str(), "--", PERDURA_CHANGES, "word", "serve", nullptr);
      ::_exit(99);
    }
    while (server_ == 0) std::ifstream(output()) >> server_;
    // Until it has left what a few hundredths of a second show.
    const auto is_sampled = [&] {
      for (const auto& each : std::filesystem::recursive_directory_iterator(folder_.path("work")))
        if (each.path().filename() == "sample-" + std::to_string(server_)) {
          const Json sample = Json::parse(std::ifstream(each.path()), nullptr, false);
          return !sample.is_discarded() && sample["intervals"][1]["checkpoints"] != 0;
        }
      return false;
    };
    while (!is_sampled()) ::usleep(1000);
  }
  void TearDown() override {
    if (command_ > 0) end();
  }

  std::string output() const { return folder_.path("served"); }
  /// Of the command, as waitpid() gives it.
  int end() {
    int status = -1;
    ::waitpid(std::exchange(command_, -1), &status, 0);
    output_.clear();
    std::ostringstream text;
    text << std::ifstream(output()).rdbuf();
    output_ = text.str();
    return status;
  }
  bool is_folder_empty() const { return std::filesystem::is_empty(folder_.path("work")); }
  void expect_server_ends() const {
    while (::kill(server_, 0) == 0) ::usleep(1000);
    EXPECT_EQ(errno, ESRCH);
  }

  pid_t command_ = -1;
  pid_t server_ = 0;
};

TEST_F(ServerAdviseTest, ASignalToTheCommandIsForTheProgram) {
  ::kill(command_, SIGTERM);
  const int status = end();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status << output_;
  EXPECT_TRUE(printed("died of signal 15"));
  EXPECT_TRUE(printed("predicted run time"));
  EXPECT_TRUE(is_folder_empty());
  expect_server_ends();
}

TEST_F(ServerAdviseTest, AnInterruptedCommandLeavesNothing) {
  ::kill(server_, SIGTERM);
  // From now on it measures what tracking costs.
  expect_server_ends();
  ::kill(command_, SIGINT);
  const int status = end();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << status << output_;
  EXPECT_FALSE(printed("predicted run time"));
  EXPECT_TRUE(is_folder_empty());
}

TEST_F(ServerAdviseTest, AKilledCommandOrphansNoProgram) {
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);  // an orphan's end is told to this process
  ::kill(command_, SIGKILL);
  EXPECT_TRUE(WIFSIGNALED(end()));
  int status = 0;
  EXPECT_EQ(::waitpid(server_, &status, 0), server_);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
}

}  // namespace
}  // namespace perdura::test
