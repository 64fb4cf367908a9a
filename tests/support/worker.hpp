// Programs of their own that a test kills.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "base/bits.hpp"

namespace perdura::test {

/// The `number`-th life of a worker, until it is killed: the even ones while they open their store,
/// or soon afterwards, the odd ones as soon after some lines, of which there are enough to count on
/// where every line waits for a slow disk. Lines it wrote; whole ones only.
inline std::vector<std::string> live(const std::vector<std::string>& command, u64 number,
                                     std::mt19937_64& random) {
  const u64 wait_for = number % 2 * (1 + random() % 60);  // lines
  const double time_ns = std::pow(10, std::uniform_real_distribution(4.5, 7.5)(random));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
  const pid_t child = ::fork();
  if (child < 0) std::abort();
  if (child == 0) {
    ::dup2(ends[1], 1);
    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    ::execv(arguments[0], arguments.data());
    ::_exit(99);
  }
  ::close(ends[1]);
  std::string text;
  const auto read_some = [&] {
    char buffer[4096];
    const ssize_t got = ::read(ends[0], buffer, sizeof buffer);
    if (got > 0) text.append(buffer, static_cast<size_t>(got));
    return got > 0;
  };
  while (static_cast<u64>(std::count(text.begin(), text.end(), '\n')) < wait_for && read_some()) {
  }
  const timespec time{.tv_sec = 0, .tv_nsec = static_cast<long>(time_ns)};
  ::nanosleep(&time, nullptr);  // less than fills the pipe
  ::kill(child, SIGKILL);
  while (read_some()) {
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  std::vector<std::string> lines;
  for (size_t at = 0, end = 0; (end = text.find('\n', at)) != text.npos; at = end + 1)
    lines.push_back(text.substr(at, end - at));
  if (!WIFSIGNALED(status))
    lines.push_back("it ended by itself, with status " + std::to_string(WEXITSTATUS(status)));
  return lines;
}

}  // namespace perdura::test
