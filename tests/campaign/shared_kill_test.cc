// Goal: of four processes that have the same objects open any one is killed at any moment, and the
// others go on: of eight callers that draw tickets none is missing, none is drawn twice, and each
// was answered to whom the object says; what was deferred to another object is there up to the last
// answer; objects come and go meanwhile. Where all are killed at once the store is as one process
// finds that has it alone. One that stands still keeps others waiting, and no more.
// Method: shared_worker.cc in four processes, of which one is killed with SIGKILL and started
// again, or stopped for a while, 500 times (PERDURA_SHARED_KILLS changes it), and a share of that
// with the other durabilities and on a disk; every second one lives until it was told a ticket.
// After 25 of these all are killed, and one more looks at what is there.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <random>
#include <utility>

#include "media/medium.hpp"
#include "support/files.hpp"
#include "support/process.hpp"
#include "support/slice.hpp"
#include "support/tickets_told.hpp"

namespace perdura::test {
namespace {

constexpr u64 kProcesses = 4;

struct Config {
  const char* name;
  const char* scheme;
  const char* way;
  u64 share;  ///< of the kills
};
class SharedKillTest : public testing::TestWithParam<Config> {};

INSTANTIATE_TEST_SUITE_P(Media, SharedKillTest,
                         testing::Values(Config{"emu", "emu", "instants", 1},
                                         Config{"emu_each", "emu", "each", 5},
                                         Config{"emu_two_steps", "emu", "two_steps", 5},
                                         Config{"emu_apart", "emu", "apart", 2},
                                         Config{"file", "file", "instants", 2}),
                         [](const auto& info) { return std::string(info.param.name); });

/// One of the processes, with a file of what it writes: nobody need read that meanwhile.
class Process {
 public:
  void start(const std::string& output, const std::string& uri, const std::string& which,
             const std::string& way) {
    output_ = output;
    const int file = ::open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    pid_ = ::fork();
    if (pid_ == 0) ::dup2(file, 1);
    else ::close(file);
    if (pid_ != 0) return;
    ::execl(PERDURA_SHARED_WORKER, PERDURA_SHARED_WORKER, uri.c_str(), which.c_str(), way.c_str(),
            nullptr);
    ::_exit(99);
  }
  bool is_started() const { return pid_ > 0; }
  void signal(int number) const {
    if (is_started()) ::kill(pid_, number);
  }
  /// Until it was told a ticket, or has ended.
  void await_ticket() const {
    while (is_started() && !has_ticket() && !has_ended(pid_)) ::usleep(100);
  }
  /// It ends; what it has written, whole lines. A sentence where it had ended by itself.
  std::vector<std::string> end(bool killed) {
    if (killed) signal(SIGKILL);
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    std::vector<std::string> lines;
    std::ifstream file(output_);
    for (std::string line; std::getline(file, line) && !file.eof();) lines.push_back(line);
    if (killed ? !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL : status != 0)
      lines.push_back("it ended with status " + std::to_string(status));
    return lines;
  }

 private:
  bool has_ticket() const {
    std::ifstream file(output_);
    for (std::string line; std::getline(file, line) && !file.eof();)
      if (line.starts_with("ticket ")) return true;
    return false;
  }

  pid_t pid_ = -1;
  std::string output_;
};

class Campaign {
 public:
  Campaign(const Config& config)
      : scheme_(config.scheme),
        folder_(scheme_ == "emu" ? TempDir::kMemory : TempDir::kDisk),
        uri_(scheme_ + ":" + folder_.path("objects.pd")),
        way_(config.way) {}

  /// So many are killed, every second one not before it was told a ticket, or stopped for a while;
  /// then all at once.
  void run(u64 kills) {
    for (u64 i = 0; i < kProcesses; ++i) start(i);
    for (u64 kill = 0; kill < kills; ++kill) {
      rest(4.5, scheme_ == "emu" ? 7.3 : 8.3);  // a disk takes longer to open anything
      const u64 victim = random_() % kProcesses;
      if (kill % 2 == 0) {
        processes_[victim].await_ticket();
      } else if (random_() % 4 == 0) {
        processes_[victim].signal(SIGSTOP);
        rest(5, 6.5);
        processes_[victim].signal(SIGCONT);
        continue;
      }
      note(processes_[victim].end(true));
      if (testing::Test::HasFailure()) break;
      start(victim);
    }
    for (const Process& each : processes_) each.signal(SIGKILL);
    for (Process& each : processes_)
      if (each.is_started()) note(each.end(true));
    if (testing::Test::HasFailure()) return;
    Process looks;
    looks.start(folder_.path("look"), uri_, "all", way_);
    note(looks.end(false));
    const u64 tickets = told_.tickets();
    drawn_ += tickets;
    told_ = {};
    value_or_throw(media::remove_medium(uri_));
  }
  u64 drawn() const { return drawn_; }

 private:
  void start(u64 process) {
    processes_[process].start(folder_.path("output" + std::to_string(process)), uri_,
                              std::to_string(process), way_);
  }
  void note(const std::vector<std::string>& lines) {
    for (const std::string& line : lines) EXPECT_TRUE(told_.note(line)) << line;
  }
  // Between two powers of ten, nanoseconds.
  void rest(double from, double to) {
    const double ns = std::pow(10, std::uniform_real_distribution(from, to)(random_));
    const timespec time{.tv_sec = 0, .tv_nsec = static_cast<long>(ns)};
    ::nanosleep(&time, nullptr);
  }

  const std::string scheme_;
  const TempDir folder_;
  const std::string uri_;
  const std::string way_;
  std::mt19937_64 random_{std::random_device{}()};
  std::array<Process, kProcesses> processes_;
  TicketsTold told_;  ///< what all of them were told
  u64 drawn_ = 0;
};

TEST_P(SharedKillTest, OthersGoOn) {
  const char* text = std::getenv("PERDURA_SHARED_KILLS");
  const u64 wanted = text != nullptr ? std::strtoull(text, nullptr, 10) : slice_or_whole(30, 500);
  const u64 kills = std::max<u64>(wanted / GetParam().share, 1);
  Campaign campaign(GetParam());
  constexpr u64 kAtOnce = 25;
  for (u64 done = 0; done < kills && !HasFailure(); done += kAtOnce)
    campaign.run(std::min(kAtOnce, kills - done));
  std::printf("%lu kills, %lu tickets drawn\n", kills, campaign.drawn());
  EXPECT_GT(campaign.drawn(), kills / 4);
}

}  // namespace
}  // namespace perdura::test
