// Goal: `perdura stats` says what the process is doing that has a store open, in three formats, and
// goes on saying it; a forked child publishes nothing; where there is nothing to be seen a sentence
// says why and what to do.
// Method: a process of its own opens a store and works on it, told step by step; the built command
// runs beside it, and what it prints is parsed and compared with what the process was told to do.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <thread>

#include <nlohmann/json.hpp>

#include <perdura/perdura.hpp>

#include "base/bits.hpp"
#include "base/checksum.hpp"
#include "format/format.hpp"
#include "media/lock.hpp"
#include "store/published.hpp"
#include "support/files.hpp"
#include "support/memcached_server.hpp"
#include "support/process.hpp"

namespace perdura::test {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;

struct Outcome {
  int exit_code = -1;
  std::string out;
};

Outcome run(const std::string& arguments) {
  const std::string command = std::string("'") + PERDURA_COMMAND + "' stats " + arguments + " 2>&1";
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  Outcome outcome;
  char buffer[4096];
  for (size_t got; (got = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    outcome.out.append(buffer, got);
  const int status = ::pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

/// A process that has a store open, with two regions if that is wanted, and does what it is told.
class Worker {
 public:
  enum Order : char { kCheckpoint = 'c', kFork = 'f', kClose = 'x', kEnd = 'e' };

  explicit Worker(const std::string& path, bool two_regions = false,
                  Tracking tracking = Tracking::kReported) {
    EXPECT_EQ(::pipe(orders_), 0);
    EXPECT_EQ(::pipe(replies_), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(orders_[1]);
      ::close(replies_[0]);
      try {
        work(path, two_regions, tracking);
        ::_exit(0);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        ::_exit(1);
      }
    }
    ::close(orders_[0]);
    ::close(replies_[1]);
    await();
  }
  ~Worker() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(orders_[1]);
    ::close(replies_[0]);
  }
  Worker(const Worker&) = delete;

  pid_t pid() const { return pid_; }
  /// What it replies with.
  u64 tell(Order order) {
    EXPECT_EQ(::write(orders_[1], &order, 1), 1);
    return await();
  }
  void kill_and_wait() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  u64 await() {
    u64 reply = 0;
    EXPECT_EQ(::read(replies_[0], &reply, sizeof reply), static_cast<ssize_t>(sizeof reply));
    return reply;
  }

  void work(const std::string& path, bool two_regions, Tracking tracking) const {
    Options options;
    options.region_limit_bytes = 64 * kMiB;
    options.tracking = tracking;
    std::optional<Store> store(Store::open(path, options));
    std::optional<Store> second;
    if (two_regions) {
      options.region = "second";
      second.emplace(Store::open(path, options));
    }
    auto* const number = static_cast<u64*>(store->allocate(sizeof(u64)));
    store->set_root("number", number);
    const auto reply = [this](u64 value) {
      if (::write(replies_[1], &value, sizeof value) < 0) ::_exit(2);
    };
    reply(store->checkpoint());
    pid_t child = -1;
    for (char order = 0; ::read(orders_[0], &order, 1) == 1;) {
      if (order == kCheckpoint) {
        {
          const auto operation = store->operation();
          operation.touch(number, sizeof *number);
          ++*number;
        }
        reply(store->checkpoint());
      } else if (order == kFork) {
        child = ::fork();
        // The child replies: what it drops it has dropped when its fork returns.
        if (child == 0) {
          reply(static_cast<u64>(::getpid()));
          ::pause();
          ::_exit(0);
        }
      } else if (order == kClose) {
        store.reset();
        second.reset();
        reply(0);
      } else {
        if (child > 0) ::kill(child, SIGKILL);
        reply(0);
        return;
      }
    }
  }

  pid_t pid_ = -1;
  int orders_[2] = {-1, -1};
  int replies_[2] = {-1, -1};
};

class CliStats : public testing::Test {
 protected:
  std::string path(const char* name = "state.pd") const { return folder_.path(name); }
  std::string quoted() const { return "'" + path() + "'"; }

  /// Until what is published is this version: the process writes it twice a second.
  Json await_version(u64 version) const {
    for (;;) {
      const Outcome outcome = run("--json " + quoted());
      EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
      Json json = Json::parse(outcome.out);
      if (outcome.exit_code != 0 || json["regions"][0]["durable_version"] == version) return json;
      std::this_thread::sleep_for(20ms);
    }
  }

  const TempDir folder_;
};

TEST_F(CliStats, FollowWhatTheProcessDoes) {
  Worker worker(path());
  u64 version = 0;
  for (int i = 0; i < 3; ++i) version = worker.tell(Worker::kCheckpoint);
  const Json first = await_version(version);
  EXPECT_EQ(first["store"], path());
  EXPECT_EQ(first["pid"], worker.pid());
  const Json region = first["regions"][0];
  EXPECT_EQ(region["name"], "main");
  EXPECT_EQ(region["tracking"], "reported");
  EXPECT_EQ(region["failed_checkpoints"], 0);
  for (const store::PublishedCounter& counter : store::counters())
    EXPECT_TRUE(region.contains(counter.name)) << counter.name;
  for (int i = 0; i < 5; ++i) version = worker.tell(Worker::kCheckpoint);
  const Json second = await_version(version);
  EXPECT_EQ(second["regions"][0]["checkpoints"].get<u64>(), region["checkpoints"].get<u64>() + 5);
}

TEST_F(CliStats, AreTextForPeople) {
  Worker worker(path());
  const u64 version = worker.tell(Worker::kCheckpoint);
  await_version(version);
  const Outcome outcome = run(quoted());
  EXPECT_EQ(outcome.exit_code, 0);
  for (const std::string& part :
       {"store        " + path(), "process      " + std::to_string(worker.pid()) + " (",
        std::string("region       1 'main', changes found by reported"),
        "versions     " + std::to_string(version) + " durable", std::string("checkpoints  "),
        std::string("wait: stops")})
    EXPECT_NE(outcome.out.find(part), outcome.out.npos) << part << "\n" << outcome.out;
}

// Each sample is a name, labels and a number; its name was described before, once.
TEST_F(CliStats, AreWhatPrometheusScrapes) {
  Worker worker(path(), true);
  const u64 version = worker.tell(Worker::kCheckpoint);
  await_version(version);
  const Outcome outcome = run("--prometheus " + quoted());
  EXPECT_EQ(outcome.exit_code, 0);
  static const std::regex sample(
      R"re(([a-z_][a-z0-9_]*)\{([a-z]+="[^"]*"(?:,[a-z]+="[^"]*")*)\} ([0-9.]+))re");
  std::map<std::string, std::string> types;
  std::map<std::string, int> samples;
  std::string helped;
  std::istringstream lines(outcome.out);
  double durable = 0;
  for (std::string line; std::getline(lines, line);) {
    std::smatch found;
    std::istringstream words(line);
    std::string hash, what, name, type;
    if (line.starts_with("#")) {
      words >> hash >> what >> name >> type;
      if (what == "HELP") {
        EXPECT_FALSE(types.contains(name)) << line;
        helped = name;
      } else {
        EXPECT_EQ(what, "TYPE") << line;
        EXPECT_EQ(name, helped) << line;
        EXPECT_TRUE(type == "counter" || type == "gauge") << line;
        EXPECT_EQ(type == "counter", name.ends_with("_total")) << line;
        types[name] = type;
      }
      continue;
    }
    ASSERT_TRUE(std::regex_match(line, found, sample)) << line;
    EXPECT_TRUE(types.contains(found[1])) << line;
    ++samples[found[1]];
    if (found[1] == "perdura_durable_version" && line.find("region=\"main\"") != line.npos)
      durable = std::stod(found[3]);
  }
  EXPECT_EQ(durable, static_cast<double>(version));
  EXPECT_EQ(types.size(), store::counters().size() + 2);
  for (const auto& [name, type] : types) EXPECT_EQ(samples[name], 2) << name;
  EXPECT_TRUE(types.contains("perdura_stop_wait_seconds_total"));
}

TEST_F(CliStats, AreOfTheRegionsThatAreOpen) {
  Worker worker(path(), true);
  const Json all = Json::parse(run("--json " + quoted()).out);
  ASSERT_EQ(all["regions"].size(), 2u);
  EXPECT_EQ(all["regions"][0]["name"], "main");
  EXPECT_EQ(all["regions"][1]["name"], "second");
  const Json one = Json::parse(run("--json --region second " + quoted()).out);
  ASSERT_EQ(one["regions"].size(), 1u);
  EXPECT_EQ(one["regions"][0]["name"], "second");
  const Outcome none = run("--region third " + quoted());
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_NE(none.out.find("there are 'main', 'second'"), none.out.npos) << none.out;
}

// Of two copies of a store in one process each has its own.
TEST_F(CliStats, AreOfThisStoreAndNotOfACopy) {
  {
    Worker maker(path());
  }
  std::filesystem::copy_file(path(), path("copy.pd"));
  Worker worker(path());
  worker.tell(Worker::kCheckpoint);
  const Outcome of_copy = run("'" + path("copy.pd") + "'");
  EXPECT_EQ(of_copy.exit_code, 2) << of_copy.out;
  EXPECT_NE(of_copy.out.find("in no process"), of_copy.out.npos) << of_copy.out;
  EXPECT_EQ(run(quoted()).exit_code, 0);
}

TEST_F(CliStats, AreWatchedUntilTheStoreIsClosed) {
  for (const Worker::Order end : {Worker::kClose, Worker::kEnd}) {
    Worker worker(path());
    Outcome watched;
    std::thread watcher([&] { watched = run("--watch --interval 20 " + quoted()); });
    // Long enough for rates: the process writes twice a second.
    const auto until = std::chrono::steady_clock::now() + 1200ms;
    while (std::chrono::steady_clock::now() < until) {
      worker.tell(Worker::kCheckpoint);
      std::this_thread::sleep_for(5ms);
    }
    worker.tell(end);
    if (end == Worker::kEnd) worker.kill_and_wait();
    watcher.join();
    EXPECT_EQ(watched.exit_code, 0) << watched.out;
    EXPECT_TRUE(
        std::regex_search(watched.out, std::regex(R"(checkpoints +\d+ \([1-9][0-9.]*/s\))")))
        << watched.out;
    EXPECT_TRUE(watched.out.ends_with("it was closed there\n") ||
                watched.out.ends_with("the process has ended\n"))
        << watched.out;
  }
}

TEST_F(CliStats, AreALineOfJsonEachTime) {
  Worker worker(path());
  const std::string command = std::string("timeout -s INT 1 '") + PERDURA_COMMAND +
                              "' stats --json --watch --interval 50 " + quoted();
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  char line[16384];
  int lines = 0;
  for (; std::fgets(line, sizeof line, pipe) != nullptr; ++lines)
    EXPECT_EQ(Json::parse(line)["pid"], worker.pid());
  ::pclose(pipe);
  EXPECT_GE(lines, 2);
}

// Nobody looks at a store on a server beside who has it, and so not at its statistics either.
TEST_F(CliStats, AreRefusedOfAStoreOnAServer) {
  const MemcachedProcess server;
  const std::string uri = "memcached://" + server.address() + "/store";
  Options options;
  options.region_limit_bytes = 64 * kMiB;
  options.engine = Engine::kRemap;
  options.tracking = Tracking::kReported;
  {
    Store store = Store::open(uri, options);
    store.set_root("number", store.allocate(sizeof(u64)));
    store.checkpoint();
    const Outcome refused = run("'" + uri + "'");
    EXPECT_EQ(refused.exit_code, 2) << refused.out;
    EXPECT_NE(refused.out.find("is open in process " + std::to_string(::getpid())),
              refused.out.npos)
        << refused.out;
    EXPECT_NE(refused.out.find("beside a program on this machine that has a file open: there "
                               "Store::statistics() says them"),
              refused.out.npos)
        << refused.out;
    store.checkpoint();  // who was refused has taken nothing away
    store.close();
  }
  const Outcome closed = run("'" + uri + "'");
  EXPECT_EQ(closed.exit_code, 2) << closed.out;
  EXPECT_NE(closed.out.find("is open to write in no process"), closed.out.npos) << closed.out;
}

// It has neither the descriptor nor the memory; its parent goes on.
TEST_F(CliStats, AreNotOfAForkedChild) {
  Worker worker(path());
  const auto child = static_cast<pid_t>(worker.tell(Worker::kFork));
  const std::string folder = "/proc/" + std::to_string(child) + "/fd";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    EXPECT_EQ(target.find("perdura-stats"), target.npos) << target;
  }
  std::ifstream maps("/proc/" + std::to_string(child) + "/maps");
  for (std::string line; std::getline(maps, line);)
    EXPECT_EQ(line.find("perdura-stats"), line.npos) << line;
  const u64 version = worker.tell(Worker::kCheckpoint);
  await_version(version);
  worker.tell(Worker::kEnd);
}

TEST_F(CliStats, OfAStoreThatNobodyHasOpenSaySo) {
  {
    Worker worker(path());
    worker.tell(Worker::kClose);
    const Outcome closed = run(quoted());
    EXPECT_EQ(closed.exit_code, 2);
    EXPECT_NE(closed.out.find("open to write in no process"), closed.out.npos) << closed.out;
    EXPECT_NE(closed.out.find("perdura info"), closed.out.npos) << closed.out;
  }
  Store reader = Store::open(path(), {.read_only = true});
  EXPECT_EQ(run(quoted()).exit_code, 2);  // who reads publishes nothing
}

TEST_F(CliStats, OfWhatIsNoStoreSaySo) {
  EXPECT_EQ(run(quoted()).exit_code, 2);
  std::ofstream(path()) << std::string(100'000, 'x');
  const Outcome foreign = run(quoted());
  EXPECT_EQ(foreign.exit_code, 2);
  EXPECT_NE(foreign.out.find("perdura: '" + path()), foreign.out.npos) << foreign.out;
}

TEST_F(CliStats, OfAProcessOfAnotherMachineSaySo) {
  Worker worker(path());
  format::OwnerRecord owner;
  media::OwnerPage page = media::describe_owner();
  std::memcpy(&owner, page.bytes, sizeof owner);
  std::memset(owner.boot_id, 'f', sizeof owner.boot_id - 1);
  owner.checksum =
      checksum(reinterpret_cast<const char*>(&owner) + sizeof(u64), sizeof owner - sizeof(u64));
  {
    std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(format::kOwnerOffset));
    file.write(reinterpret_cast<const char*>(&owner), sizeof owner);
  }
  const Outcome outcome = run(quoted());
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.out.find("on another machine; run `perdura stats` there"), outcome.out.npos)
      << outcome.out;
}

// Another user may not look into the process.
TEST_F(CliStats, OfAnotherUsersProcessSayWhoMayLook) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root, to become somebody else";
  Worker worker(path());
  u8 uuid[16] = {};
  const std::string problem = in_child([&]() -> std::string {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) return "cannot become nobody";
    const auto views = store::PublishedView::find(static_cast<u64>(worker.pid()), uuid, "");
    if (views) return "it was allowed";
    if (views.failure().message.find("another user") == std::string::npos)
      return views.failure().message;
    return "";
  });
  EXPECT_EQ(problem, "");
}

TEST_F(CliStats, OfAProcessThatCannotBeFoundSaySo) {
  const pid_t gone = ::fork();
  if (gone == 0) ::_exit(0);
  ::waitpid(gone, nullptr, 0);
  const u8 uuid[16] = {};
  const auto views = store::PublishedView::find(static_cast<u64>(gone), uuid, "");
  ASSERT_FALSE(views);
  EXPECT_NE(views.failure().message.find("has ended, or is in another namespace"),
            std::string::npos);
}

}  // namespace
}  // namespace perdura::test
