// Running a part of a test in a child process.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include "base/bits.hpp"

// Of the coverage build only: a child that ends without its exit handlers writes what it took.
extern "C" int __llvm_profile_write_file(void) __attribute__((weak));

namespace perdura::test {

/// Of a child that nobody has waited for yet: it stays for who does.
inline bool has_ended(pid_t child) {
  siginfo_t ended{};
  ::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT);
  return ended.si_pid != 0;
}

/// A child process that runs a function and sends back what it returned.
class Child {
 public:
  /// `body` returns what is wrong, or "". Start it while this process has one thread.
  template <class Body>
  explicit Child(Body&& body) {
    int ends[2];
    if (::pipe(ends) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ < 0) std::abort();
    if (pid_ != 0) {
      ::close(ends[1]);
      from_ = ends[0];
      return;
    }
    ::close(ends[0]);
    std::string problem;
    try {
      problem = body();
    } catch (const std::exception& error) {
      problem = std::string("threw: ") + error.what();
    }
    const ssize_t sent = ::write(ends[1], problem.data(), problem.size());
    if (__llvm_profile_write_file != nullptr) __llvm_profile_write_file();
    ::_exit(sent == static_cast<ssize_t>(problem.size()) ? 0 : 99);
  }
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      wait();
    }
  }
  Child(const Child&) = delete;

  pid_t pid() const { return pid_; }
  void kill() { ::kill(pid_, SIGKILL); }

  /// Before wait: it need not wait.
  bool has_ended() const { return test::has_ended(pid_); }

  /// Wait for its end. What it returned, or how it died; "" when it was killed by SIGKILL.
  std::string wait() {
    std::string problem;
    char buffer[4096];
    for (ssize_t got; (got = ::read(from_, buffer, sizeof buffer)) > 0;)
      problem.append(buffer, static_cast<size_t>(got));
    ::close(from_);
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    killed_ = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (WIFSIGNALED(status) && !killed_)
      problem += " died of signal " + std::to_string(WTERMSIG(status));
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
      problem += " exited with " + std::to_string(WEXITSTATUS(status));
    return problem;
  }
  /// After wait: it died of SIGKILL.
  bool killed() const { return killed_; }

 private:
  pid_t pid_ = -1;
  int from_ = -1;
  bool killed_ = false;
};

/// A child that does what it is told to, by numbers, and replies.
class ToldProcess {
 public:
  /// The ends of the child.
  struct Ends {
    int orders;
    int replies;
  };

  /// `body(Ends)` returns what is wrong, or "".
  template <class Body>
  explicit ToldProcess(Body&& body) {
    if (::pipe2(orders_.data(), O_CLOEXEC) != 0 || ::pipe2(replies_.data(), O_CLOEXEC) != 0)
      std::abort();
    child_ = std::make_unique<Child>([&]() -> std::string {
      // Or nobody would find the ends of the pipes when the other process ends.
      ::close(orders_[1]);
      ::close(replies_[0]);
      return body(Ends{orders_[0], replies_[1]});
    });
    ::close(orders_[0]);
    ::close(replies_[1]);
  }
  ~ToldProcess() {
    ::close(orders_[1]);
    ::close(replies_[0]);
  }
  ToldProcess(const ToldProcess&) = delete;

  pid_t pid() const { return child_->pid(); }
  void order(u64 number) {
    if (::write(orders_[1], &number, sizeof number) != sizeof number) std::abort();
  }
  /// False when it has died.
  template <class Reply>
  bool get(Reply& reply) {
    return ::read(replies_[0], &reply, sizeof reply) == sizeof reply;
  }
  /// What was wrong before, or "".
  [[nodiscard]] std::string kill() {
    child_->kill();
    return wait();
  }
  /// What was wrong, or "".
  std::string wait() { return child_->wait(); }
  /// After either: it died of SIGKILL.
  bool killed() const { return child_->killed(); }

 private:
  std::array<int, 2> orders_{};
  std::array<int, 2> replies_{};
  std::unique_ptr<Child> child_;
};

/// Whether a thread of this process sleeps: waits for another one, say, and not for a disk.
inline bool is_asleep(pid_t thread) {
  const std::string path = "/proc/self/task/" + std::to_string(thread) + "/stat";
  std::FILE* const file = std::fopen(path.c_str(), "r");
  if (file == nullptr) return false;
  char text[1024];
  const std::string_view line(text, std::fread(text, 1, sizeof text, file));
  std::fclose(file);
  return line.substr(std::min(line.rfind(')'), line.size())).starts_with(") S");
}

/// Run `body` in a child and return what it says is wrong.
template <class Body>
std::string in_child(Body&& body) {
  Child child(std::forward<Body>(body));
  return child.wait();
}

}  // namespace perdura::test
