#include "campaign.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <new>
#include <optional>

#include "base/unique_fd.hpp"
#include "journal.hpp"
#include "live.hpp"
#include "support/call_faults.hpp"
#include "support/files.hpp"
#include "support/memcached_server.hpp"

namespace perdura::model {
namespace {

constexpr unsigned kSecondsMax = 40;  ///< of one session; they take milliseconds
constexpr u64 kServerMib = 1024;      ///< which it takes as items come

/// The journal, shared with the processes.
class SharedJournal {
 public:
  SharedJournal() {
    place_ =
        ::mmap(nullptr, sizeof(Journal), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (place_ == MAP_FAILED) throw std::runtime_error("no memory for a journal");
    ::new (place_) Journal();
  }
  ~SharedJournal() { ::munmap(place_, sizeof(Journal)); }
  SharedJournal(const SharedJournal&) = delete;
  Journal& operator*() const { return *static_cast<Journal*>(place_); }

 private:
  void* place_;
};

[[noreturn]] void be_child(const Program& program, size_t session, const std::string& uri,
                           Journal& journal) {
  ::alarm(kSecondsMax);
  const test::TestThread ours;
  try {
    run_session(program, session, uri, journal);
  } catch (const std::exception& error) {
    journal.say(error.what());
    ::_exit(3);
  }
  ::_exit(0);
}

/// How the process ended: "" as it may.
std::string judge(int status, const Session& session, const Journal& journal) {
  if (journal.has_problem) return journal.problem;
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    const bool wanted = session.end == End::kMediumCall || session.end == End::kTime;
    if (signal == SIGKILL && wanted) return {};
    if (signal == SIGALRM) return "it hangs: no end after " + std::to_string(kSecondsMax) + " s";
    return "it died of signal " + std::to_string(signal);
  }
  if (WEXITSTATUS(status) != 0) return "it ended with " + std::to_string(WEXITSTATUS(status));
  return {};
}

/// What a file held that was deleted.
void put_back(int from, const std::string& path) {
  const UniqueFd to(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  ssize_t copied = to ? 1 : -1;
  for (off_t at = 0; copied > 0;) copied = ::sendfile(to.get(), from, &at, 1 << 20);
  if (copied < 0) throw std::runtime_error("cannot put a deleted file back");
}

std::string run_one(const Program& program, size_t number, const std::string& uri,
                    Journal& journal) {
  const Session& session = program.sessions[number];
  const std::string path = uri.substr(uri.find(':') + 1);
  const UniqueFd kept(session.end == End::kDeleted ? ::open(path.c_str(), O_RDONLY | O_CLOEXEC)
                                                   : -1);
  journal.is_kept = static_cast<bool>(kept);
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("cannot fork");
  if (child == 0) be_child(program, number, uri, journal);
  if (session.end == End::kTime) {
    const timespec time{.tv_sec = static_cast<time_t>(session.end_at / 1'000'000'000),
                        .tv_nsec = static_cast<long>(session.end_at % 1'000'000'000)};
    ::nanosleep(&time, nullptr);
    ::kill(child, SIGKILL);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (journal.is_kept && !std::filesystem::exists(path)) put_back(kept.get(), path);
  return judge(status, session, journal);
}

}  // namespace

Ended run_program(const Program& program) {
  const test::TempDir folder(program.on_disk ? test::TempDir::kDisk : test::TempDir::kMemory);
  std::filesystem::permissions(folder.path(""), std::filesystem::perms(0755));
  std::optional<test::MemcachedProcess> server;
  if (program.medium == "memcached")
    server.emplace(std::vector<std::string>{"-M", "-m", std::to_string(kServerMib)});
  const std::string uri =
      server ? server->uri("store") : program.medium + ":" + folder.path("store.pd");
  // A log and a home image are on no server.
  ::setenv("PERDURA_STORE",
           ((server ? "emu" : program.medium) + ":" + folder.path("own.pd")).c_str(), 1);
  const SharedJournal shared;
  Journal& journal = *shared;
  Ended ended;
  for (size_t i = 0; i < program.sessions.size(); ++i) {
    journal.keep_features({});
    ended.problem = run_one(program, i, uri, journal);
    ended.session = i;
    ++ended.sessions;
    if (!journal.sessions[i].closed) ++ended.crashes;
    ended.pairs.add(journal.features());
    if (!ended.problem.empty()) break;
  }
  ended.actions = journal.actions;
  ended.failed_calls = journal.failed_calls;
  return ended;
}

namespace {

/// Fails as before: numbers in the sentences may differ.
std::string shape_of(const std::string& problem) {
  std::string shape;
  for (const char letter : problem)
    if (letter < '0' || letter > '9') shape += letter;
  return shape.substr(0, 24);
}

class Shrinking {
 public:
  Shrinking(Program program, const std::string& problem, double seconds)
      : best_(std::move(program)),
        shape_(shape_of(problem)),
        end_(std::chrono::steady_clock::now() +
             std::chrono::milliseconds(static_cast<long>(seconds * 1000))) {}

  Program run() {
    // Chance has a part in most failures: how large, the first runs say.
    for (unsigned i = 0; i < 8 && time_left(); ++i)
      if (fails_once(best_)) ++hits_;
    if (hits_ == 0) return best_;
    tries_ = std::min(8U, 16 / hits_);
    drop_sessions();
    for (bool smaller = true; smaller && time_left();) {
      const u64 before = size(best_);
      simplify_sessions();
      drop_actions();
      drop_steps();
      smaller = size(best_) < before;
    }
    return best_;
  }

 private:
  bool time_left() const { return std::chrono::steady_clock::now() < end_; }

  static u64 size(const Program& program) {
    u64 size = 0;
    for (const Session& session : program.sessions)
      for (const Action& action : session.actions) size += 1 + action.steps.size();
    return size + 10 * program.sessions.size();
  }

  bool fails_once(const Program& program) const {
    return shape_of(run_program(program).problem) == shape_;
  }

  bool take_if_fails(const Program& program) {
    for (unsigned i = 0; i < tries_ && time_left(); ++i)
      if (fails_once(program)) {
        best_ = program;
        return true;
      }
    return false;
  }

  void drop_sessions() {
    for (size_t i = best_.sessions.size(); i-- > 0 && best_.sessions.size() > 1;) {
      Program smaller = best_;
      smaller.sessions.erase(smaller.sessions.begin() + static_cast<std::ptrdiff_t>(i));
      take_if_fails(smaller);
    }
  }

  void simplify_sessions() {
    const auto each = [&](auto&& change) {
      for (size_t i = 0; i < best_.sessions.size(); ++i) {
        Program simpler = best_;
        if (change(simpler.sessions[i])) take_if_fails(simpler);
      }
    };
    each([](Session& session) { return std::exchange(session.parallel, false); });
    each([](Session& session) { return std::exchange(session.inspect, false); });
    each([](Session& session) { return std::exchange(session.read_only, false); });
    each([](Session& session) { return std::exchange(session.options.region_address, 0) != 0; });
    each([](Session& session) {
      if (session.end != End::kMediumCall && session.end != End::kTime) return false;
      session.end = End::kExit;
      session.end_at = 0;
      return true;
    });
  }

  /// Halves, quarters, and so on, down to single ones.
  void drop_actions() {
    for (size_t i = 0; i < best_.sessions.size(); ++i)
      for (size_t piece = best_.sessions[i].actions.size(); piece > 0; piece /= 2)
        for (size_t at = 0; at < best_.sessions[i].actions.size() && time_left();) {
          Program smaller = best_;
          auto& actions = smaller.sessions[i].actions;
          const size_t end = std::min(at + piece, actions.size());
          actions.erase(actions.begin() + static_cast<std::ptrdiff_t>(at),
                        actions.begin() + static_cast<std::ptrdiff_t>(end));
          if (!take_if_fails(smaller)) at += piece;
        }
  }

  void drop_steps() {
    for (size_t i = 0; i < best_.sessions.size(); ++i)
      for (size_t j = 0; j < best_.sessions[i].actions.size(); ++j)
        for (size_t k = best_.sessions[i].actions[j].steps.size(); k-- > 0 && time_left();) {
          Program smaller = best_;
          auto& steps = smaller.sessions[i].actions[j].steps;
          steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(k));
          take_if_fails(smaller);
        }
  }

  Program best_;
  const std::string shape_;
  const std::chrono::steady_clock::time_point end_;
  unsigned hits_ = 0;
  unsigned tries_ = 1;
};

}  // namespace

Program shrink(const Program& program, const std::string& problem, double seconds) {
  return Shrinking(program, problem, seconds).run();
}

}  // namespace perdura::model
