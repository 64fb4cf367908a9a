#include "child.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace perdura::bench {
namespace {

std::map<std::string, ChildFunction>& children() {
  static std::map<std::string, ChildFunction> all;
  return all;
}

int become_command(const ChildArguments& arguments) {
  std::vector<std::string> words = arguments;
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  throw std::runtime_error("cannot run " + words[0]);
}
const ChildRegistration kCommandChild(ChildProcess::kCommand, become_command);

}  // namespace

ChildRegistration::ChildRegistration(const char* name, ChildFunction function) {
  children().emplace(name, function);
}

int run_child(const std::string& name, const ChildArguments& arguments) {
  const auto found = children().find(name);
  if (found == children().end()) return 2;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    return found->second(arguments);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "  %s: %s\n", name.c_str(), failure.what());
    return 1;
  }
}

ChildProcess::ChildProcess(const std::string& name, const ChildArguments& arguments) : name_(name) {
  int ends[2], input[2];
  if (pipe2(ends, O_CLOEXEC) != 0 || pipe2(input, O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "pipe");
  std::string self = "/proc/self/exe", flag = "--child", child = name;
  std::vector<std::string> copies = arguments;
  std::vector<char*> argv = {self.data(), flag.data(), child.data()};
  for (std::string& argument : copies) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::fflush(nullptr);
  pid_ = vfork();
  if (pid_ == 0) {
    dup2(ends[1], STDOUT_FILENO);
    dup2(input[0], STDIN_FILENO);
    execv(self.c_str(), argv.data());
    _exit(127);
  }
  close(ends[1]);
  close(input[0]);
  out_ = ends[0];
  in_ = input[1];
  if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
}

ChildProcess::~ChildProcess() {
  kill();
  close(out_);
}

std::string ChildProcess::read_line() {
  for (;;) {
    if (const auto end = pending_.find('\n'); end != std::string::npos) {
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return line;
    }
    char chunk[4096];
    const ssize_t got = read(out_, chunk, sizeof(chunk));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw std::runtime_error("the step '" + name_ + "' ended early");
    pending_.append(chunk, static_cast<std::size_t>(got));
  }
}

void ChildProcess::write_line(const std::string& line) {
  const std::string whole = line + "\n";
  if (write(in_, whole.data(), whole.size()) != static_cast<ssize_t>(whole.size()))
    throw std::runtime_error("the step '" + name_ + "' takes no more input");
}

void ChildProcess::kill() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  wait();
}

int ChildProcess::wait() {
  if (pid_ < 0) return 0;
  close(std::exchange(in_, -1));
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace perdura::bench
