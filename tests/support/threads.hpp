// What the system says of a thread of this process: so a test sees that a thread waits, or that it
// came round without doing anything, instead of sleeping and hoping that it did.
#pragma once

#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/bits.hpp"

namespace perdura::test {

/// The value of a line of /proc/self/task/THREAD/status, without white space before it.
inline std::string thread_status(pid_t thread, const std::string& key) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key + ":"))
      return line.substr(line.find_first_not_of(" \t", key.size() + 1));
  return "";
}

/// Until the thread sleeps, on a lock or a condition for example.
inline void await_asleep(pid_t thread) {
  while (!thread_status(thread, "State").starts_with("S")) ::sched_yield();
}

/// 0: there is none of this name.
inline pid_t thread_named(const std::string& name) {
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/task")) {
    const auto thread = static_cast<pid_t>(std::stol(each.path().filename()));
    if (thread_status(thread, "Name") == name) return thread;
  }
  return 0;
}

/// Until the thread has gone to sleep so many times more.
inline void await_rounds(pid_t thread, u64 rounds) {
  const auto count = [&] { return std::stoull(thread_status(thread, "voluntary_ctxt_switches")); };
  const u64 until = count() + rounds;
  while (count() < until) ::usleep(100);
}

/// Until the thread, which spins, has run for so long: it would have gone on if it could. Or until
/// `done`, which a thread that may end sets before.
inline void await_cpu_ns(pthread_t thread, u64 duration_ns,
                         const std::atomic<bool>& done = std::atomic<bool>(false)) {
  clockid_t clock{};
  ::pthread_getcpuclockid(thread, &clock);
  const auto ran_ns = [&] {
    timespec now{};
    ::clock_gettime(clock, &now);
    return static_cast<u64>(now.tv_sec) * 1'000'000'000 + static_cast<u64>(now.tv_nsec);
  };
  const u64 until = ran_ns() + duration_ns;
  while (!done && ran_ns() < until) ::sched_yield();
}

}  // namespace perdura::test
