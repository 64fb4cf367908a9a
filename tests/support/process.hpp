// Running a part of a test in a child process.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>

// Of the coverage build only: a child that ends without its exit handlers writes what it took.
extern "C" int __llvm_profile_write_file(void) __attribute__((weak));

namespace perdura::test {

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
