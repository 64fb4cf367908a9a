// Goal: whichever processes of a job are killed, and whenever, the job that is started again goes
// on from one version that all its ranks had, and its result is right in the end; with the number
// of ranks that it had, or another. Method: real jobs. SIGKILL for a random rank, for all of them
// at once, or for mpirun, after a random time, of a program that checks what it finds at its start,
// on all ranks, and of the example cannon, whose result is compared with that of the program that
// it was in memory alone. As often as PERDURA_MPI_KILLS says.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "support/files.hpp"

namespace perdura::test {
namespace {

/// Of a process, from /proc: those that it has started and that are there still.
std::vector<pid_t> children_of(pid_t parent) {
  const std::string folder = "/proc/" + std::to_string(parent) + "/task";
  std::vector<pid_t> children;
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator(folder, error)) {
    std::ifstream in(task.path() / "children");
    for (pid_t child = 0; in >> child;) children.push_back(child);
  }
  return children;
}

/// Those beneath it that have started none: ranks, also where an mpirun starts others that do.
std::vector<pid_t> leaves_of(pid_t parent) {
  std::vector<pid_t> leaves;
  for (const pid_t child : children_of(parent)) {
    const std::vector<pid_t> beneath = leaves_of(child);
    if (beneath.empty()) leaves.push_back(child);
    leaves.insert(leaves.end(), beneath.begin(), beneath.end());
  }
  return leaves;
}

/// It is not there, or dead and nobody has waited for it.
bool is_over(pid_t process) {
  std::ifstream in("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  if (!std::getline(in, text)) return true;
  const size_t name_end = text.rfind(')');
  return name_end == std::string::npos || text.compare(name_end + 1, 2, " Z") == 0;
}

/// A job of several ranks, in a folder, with what it prints in a file there.
class Job {
 public:
  Job(const std::string& folder, int ranks, std::vector<std::string> command)
      : output_(folder + "/output") {
    std::vector<std::string> words = {MPIRUN, MPIRUN_RANKS, std::to_string(ranks)};
    std::istringstream flags(MPIRUN_FLAGS);
    for (std::string flag; flags >> flag;) words.push_back(flag);
    words.insert(words.end(), command.begin(), command.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ != 0) return;
    const int file = ::open(output_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    ::dup2(file, STDOUT_FILENO);
    ::dup2(file, STDERR_FILENO);
    ::setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 1);
    ::setenv("OMPI_MCA_mpi_yield_when_idle", "1", 1);
    ::setenv("PRTE_ALLOW_RUN_AS_ROOT", "1", 1);
    ::setenv("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    if (::chdir(folder.c_str()) == 0) ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  ~Job() {
    if (pid_ != 0) kill_all();
    wait();
  }
  Job(const Job&) = delete;

  pid_t pid() const { return pid_; }
  std::vector<pid_t> ranks() const { return leaves_of(pid_); }
  /// Ends when all of them have: those that mpirun leaves are killed.
  int wait() {
    if (pid_ == 0) return status_;
    // An mpirun one of whose ranks dies while it starts them may wait for ever.
    const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (::waitpid(pid_, &status_, WNOHANG) == 0) {
      if (is_killed_ && std::chrono::steady_clock::now() > late) kill_all();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    pid_ = 0;
    for (const pid_t rank : left_) {
      ::kill(rank, SIGKILL);
      while (!is_over(rank)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    left_.clear();
    return status_;
  }
  /// All of them; it is over when wait() says so.
  void kill_all() {
    const std::vector<pid_t> all = ranks();
    ::kill(pid_, SIGKILL);
    for (const pid_t rank : all) ::kill(rank, SIGKILL);
    left_ = all;
  }
  void kill_one(pid_t rank) {
    is_killed_ = true;
    ::kill(rank, SIGKILL);
  }
  void kill_mpirun() {
    left_ = ranks();
    ::kill(pid_, SIGKILL);
  }
  /// … and nobody waits for the ranks.
  void kill_and_leave() {
    kill_mpirun();
    ::waitpid(pid_, &status_, 0);
    pid_ = 0;
  }
  std::string output() const {
    std::ifstream in(output_);
    return {std::istreambuf_iterator<char>(in), {}};
  }

 private:
  const std::string output_;
  pid_t pid_ = 0;
  int status_ = 0;
  bool is_killed_ = false;  ///< a rank of it
  std::vector<pid_t> left_;
};

int kills_wanted() {
  const char* const text = std::getenv("PERDURA_MPI_KILLS");
  return text != nullptr ? std::max(std::atoi(text), 4) : 20;
}

/// After a random part of the time that the job takes something of it is killed.
void kill_some(Job& job, std::mt19937& random, int longest_ms) {
  std::this_thread::sleep_for(
      std::chrono::milliseconds(std::uniform_int_distribution<int>(1, longest_ms)(random)));
  const std::vector<pid_t> ranks = job.ranks();
  const unsigned how = random() % 4;
  if (how == 0) job.kill_mpirun();
  else if (how == 1 || ranks.empty()) job.kill_all();
  else job.kill_one(ranks[random() % ranks.size()]);
}

constexpr int kLongestMs = 1500;

class MpiKills : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Engines, MpiKills, testing::Values("log", "chunks", "doubled"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(MpiKills, AJobGoesOnFromOneVersionOfAllItsRanks) {
  const TempDir dir;
  const std::string folder = dir.path("");
  ::setenv("WORKER_ENGINE", GetParam(), 1);
  std::mt19937 random(7);
  const int kills = kills_wanted() / 4;
  long last_step = 0;
  const auto check_begin = [&](const Job& job) {
    const std::string output = job.output();
    EXPECT_EQ(output.find("not of one step"), std::string::npos) << output;
    const size_t at = output.find("step ");
    if (at == std::string::npos) return;
    const long step = std::atol(output.c_str() + at + 5);
    EXPECT_GE(step, last_step) << output;
    last_step = step;
  };
  for (int killed = 0; killed < kills; ++killed) {
    Job job(folder, 4, {GROUP_WORKER, "file:state-%r.pd", "1000000"});
    kill_some(job, random, kLongestMs);
    job.wait();
    check_begin(job);
  }
  // With other numbers of ranks, which are killed as well.
  for (const int ranks : {3, 6, 1, 4}) {
    {
      Job job(folder, ranks, {GROUP_WORKER, "file:state-%r.pd", "1000000"});
      kill_some(job, random, kLongestMs);
      job.wait();
      check_begin(job);
    }
    Job job(folder, ranks, {GROUP_WORKER, "file:state-%r.pd", std::to_string(last_step + 20)});
    const int status = job.wait();
    check_begin(job);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << job.output();
  }
  EXPECT_GT(last_step, 0);
}

// Its ranks may live on for a while, and have versions that all of them have.
TEST_P(MpiKills, AJobBesideTheRanksOfTheOneBeforeIsRefusedOrHasAllThatTheyHad) {
  const TempDir dir;
  const std::string folder = dir.path("");
  ::setenv("WORKER_ENGINE", GetParam(), 1);
  std::mt19937 random(5);
  long last_step = 0;
  int begun = 0;
  for (int killed = 0; killed < kills_wanted() / 5; ++killed) {
    Job before(folder, 3, {GROUP_WORKER, "file:state-%r.pd", "1000000"});
    std::this_thread::sleep_for(
        std::chrono::milliseconds(std::uniform_int_distribution<int>(1, kLongestMs)(random)));
    before.kill_and_leave();
    for (bool has_begun = false; !has_begun;) {
      Job job(folder, 3, {GROUP_WORKER, "file:state-%r.pd", std::to_string(last_step + 3)});
      const int status = job.wait();
      const std::string output = job.output();
      has_begun = WIFEXITED(status) && WEXITSTATUS(status) == 0;
      if (!has_begun) {
        ASSERT_NE(output.find("is open in"), std::string::npos) << output;
      }
      const size_t at = output.find("step ");
      if (at == std::string::npos) continue;
      const long step = std::atol(output.c_str() + at + 5);
      EXPECT_GE(step, last_step) << output;
      last_step = step;
      ++begun;
    }
  }
  EXPECT_GT(begun, 0);
}

TEST(MpiKill, AnArrayIsOnAllRanksOrOnNone) {
  const TempDir dir;
  Job job(dir.path(""), 2, {GROUP_WORKER, "file:" + dir.path("rank-%r.pd"), "room"});
  EXPECT_EQ(job.wait(), 0) << job.output();
}

TEST(MpiKill, AForkedChildLeavesTheGroupToItsParent) {
  const TempDir dir;
  Job job(dir.path(""), 2, {GROUP_WORKER, "file:" + dir.path("rank-%r.pd"), "fork"});
  EXPECT_EQ(job.wait(), 0) << job.output();
}

TEST(MpiKill, AProductOfMatricesIsRightInTheEnd) {
  const TempDir dir;
  const std::string folder = dir.path("");
  const std::vector<std::string> size = {"400", "60"};
  std::string expected;
  {
    Job plain(folder, 4, {CANNON_IN_MEMORY, size[0], size[1]});
    EXPECT_EQ(plain.wait(), 0) << plain.output();
    expected = plain.output();
    ASSERT_NE(expected.find("digest"), std::string::npos) << expected;
  }
  std::mt19937 random(11);
  for (int killed = 0; killed < kills_wanted() / 4; ++killed) {
    Job job(folder, 4, {CANNON, size[0], size[1]});
    kill_some(job, random, kLongestMs);
    job.wait();
  }
  Job last(folder, 4, {CANNON, size[0], size[1]});
  EXPECT_EQ(last.wait(), 0) << last.output();
  EXPECT_EQ(last.output(), expected);
}

}  // namespace
}  // namespace perdura::test
