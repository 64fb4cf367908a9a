#include "program.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <perdura/error.hpp>

#include "base/unique_fd.hpp"

namespace perdura::tools {
namespace {

[[noreturn]] void fail(const std::string& what, int error_number) {
  throw Error(error_number == ENOENT ? Code::kNotFound : Code::kIo,
              what + ": " + std::strerror(error_number));
}

// In the child; returns only when the program cannot be run.
void become(const std::vector<std::string>& command, const Environment& changes, pid_t parent,
            const sigset_t& mask) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);
  for (const auto& [name, value] : changes) {
    if (value != nullptr) ::setenv(name.c_str(), value, 1);
    else ::unsetenv(name.c_str());
  }
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  ::execvp(words[0], words.data());
}

}  // namespace

SignalsHeld::SignalsHeld() {
  ::sigemptyset(&held_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD}) ::sigaddset(&held_, signal);
  ::sigprocmask(SIG_BLOCK, &held_, &before_);
  // Where it is ignored, which a program may inherit, ended children would leave no status.
  ::signal(SIGCHLD, SIG_DFL);
}

SignalsHeld::~SignalsHeld() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

bool SignalsHeld::any() const {
  sigset_t pending;
  ::sigpending(&pending);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT})
    if (::sigismember(&pending, signal) == 1) return true;
  return false;
}

// A pipe that exec closes says whether the program runs: its exit status is its own matter.
Program::Program(const std::vector<std::string>& command, const Environment& changes,
                 const SignalsHeld& signals)
    : signals_(signals) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail("cannot make a pipe", errno);
  const UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) fail("cannot fork", errno);
  if (pid_ == 0) {
    become(command, changes, parent, signals.before());
    const int error_number = errno;
    [[maybe_unused]] const ssize_t sent = ::write(to.get(), &error_number, sizeof error_number);
    ::_exit(127);
  }
  to.reset();
  int error_number = 0;
  ssize_t got = 0;
  while ((got = ::read(from.get(), &error_number, sizeof error_number)) < 0 && errno == EINTR) {
  }
  if (got == 0) return;
  ::waitpid(pid_, nullptr, 0);
  running_ = false;
  fail("cannot run '" + command.front() + "'", error_number);
}

Program::~Program() {
  if (!running_ || pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

int Program::wait() {
  for (;;) {
    int status = 0;
    const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
    if (ended == pid_) {
      running_ = false;
      return status;
    }
    if (ended < 0) fail("cannot wait for the program", errno);
    siginfo_t info{};
    const int signal = ::sigwaitinfo(&signals_.held(), &info);
    if (signal > 0 && signal != SIGCHLD && info.si_code != SI_KERNEL) ::kill(pid_, signal);
  }
}

std::string ending_text(int status) {
  return WIFSIGNALED(status) ? "died of signal " + std::to_string(WTERMSIG(status))
                             : "ended with status " + std::to_string(WEXITSTATUS(status));
}

}  // namespace perdura::tools
