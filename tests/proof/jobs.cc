#include "jobs.hpp"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

namespace perdura::proof {
namespace {

constexpr unsigned kSecondsMax = 3600;  ///< of one job; the longest take minutes

struct Child {
  pid_t pid;
  int pipe;
  size_t number;
  std::string text;
};

[[noreturn]] void be_child(int pipe, size_t number, const std::function<Json(size_t)>& job) {
  ::alarm(kSecondsMax);
  Json result;
  try {
    result = job(number);
  } catch (const std::exception& error) {
    result = {{"problem", std::string("an exception: ") + error.what()}, {"crashed", true}};
  }
  const std::string text = result.dump();
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t wrote = ::write(pipe, text.data() + sent, text.size() - sent);
    if (wrote <= 0) ::_exit(1);
    sent += static_cast<size_t>(wrote);
  }
  ::_exit(0);
}

Child start(size_t number, const std::function<Json(size_t)>& job) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("cannot make a pipe");
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("cannot fork");
  if (pid == 0) {
    ::close(ends[0]);
    be_child(ends[1], number, job);
  }
  ::close(ends[1]);
  return {pid, ends[0], number, {}};
}

Json finish(const Child& child) {
  int status = 0;
  ::waitpid(child.pid, &status, 0);
  ::close(child.pipe);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    return {{"problem", "no end after " + std::to_string(kSecondsMax) + " s"}, {"hung", true}};
  Json result = Json::parse(child.text, nullptr, false);
  if (WIFSIGNALED(status) || WEXITSTATUS(status) != 0 || result.is_discarded())
    return {
        {"problem", WIFSIGNALED(status) ? "died of signal " + std::to_string(WTERMSIG(status))
                                        : "ended with code " + std::to_string(WEXITSTATUS(status))},
        {"crashed", true}};
  return result;
}

}  // namespace

void run_jobs(size_t count, unsigned at_once, const std::function<Json(size_t)>& job,
              const std::function<bool(size_t, const Json&)>& done) {
  std::vector<Child> children;
  size_t next = 0;
  bool more = true;
  while (!children.empty() || (more && next < count)) {
    while (more && next < count && children.size() < at_once)
      children.push_back(start(next++, job));
    std::vector<pollfd> ready;
    for (const Child& child : children) ready.push_back({child.pipe, POLLIN, 0});
    ::poll(ready.data(), ready.size(), -1);
    for (size_t i = children.size(); i-- > 0;) {
      if (ready[i].revents == 0) continue;
      char piece[65536];
      const ssize_t got = ::read(children[i].pipe, piece, sizeof piece);
      if (got > 0) {
        children[i].text.append(piece, static_cast<size_t>(got));
        continue;
      }
      const Child child = std::move(children[i]);
      children.erase(children.begin() + static_cast<std::ptrdiff_t>(i));
      more = done(child.number, finish(child)) && more;
    }
  }
}

}  // namespace perdura::proof
