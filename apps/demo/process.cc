#include "process.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <fmt/format.h>

extern char** environ;

namespace demo {

namespace {

std::atomic<bool> stop_wanted{false};

/// The command line that main() parses back into `options`.
std::vector<std::string> command_line(const WorkerOptions& options) {
  std::vector<std::string> line = {"perdura-demo",
                                   "worker",
                                   fmt::format("--interval-ms={}", options.interval_ms),
                                   fmt::format("--tracker={}", static_cast<int>(options.tracking)),
                                   fmt::format("--seed={}", options.seed),
                                   fmt::format("--corpus-fd={}", options.corpus_fd),
                                   fmt::format("--progress-fd={}", options.progress_fd),
                                   fmt::format("--answers-fd={}", options.answers_fd)};
  if (!options.store.empty()) line.push_back("--store=" + options.store);
  return line;
}

}  // namespace

void stop_on_interrupt() {
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, [](int) { stop_wanted = true; });
}

Process::Process(WorkerOptions options, const SharedMemory& corpus, const SharedMemory& progress)
    : progress_(*new(progress.bytes().data()) Progress{}), answers_(std::tmpfile(), std::fclose) {
  if (answers_ == nullptr)
    throw std::system_error(errno, std::generic_category(), "cannot make a temporary file");
  options.corpus_fd = corpus.fd();
  options.progress_fd = progress.fd();
  options.answers_fd = fileno(answers_.get());
  std::vector<std::string> arguments = command_line(options);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  if (const int error =
          posix_spawn(&pid_, "/proc/self/exe", nullptr, nullptr, argv.data(), environ);
      error != 0)
    throw std::system_error(error, std::generic_category(), "cannot start a worker");
}

bool Process::running() {
  if (stop_wanted) throw std::runtime_error("interrupted");
  if (pid_ < 0) return false;
  int status = 0;
  const pid_t ended = waitpid(pid_, &status, WNOHANG);
  if (ended == 0 || (ended < 0 && errno == EINTR)) return true;
  pid_ = -1;
  if (WIFSIGNALED(status))
    throw std::runtime_error(
        fmt::format("a worker died of signal {}, which nobody sent", WTERMSIG(status)));
  if (WEXITSTATUS(status) != 0) throw std::runtime_error("a worker failed");
  return false;
}

void Process::kill() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

std::vector<std::string> Process::answers() const {
  std::rewind(answers_.get());
  std::vector<std::string> lines;
  std::string line;
  for (int c; (c = std::getc(answers_.get())) != EOF;) {
    if (c != '\n') {
      line += static_cast<char>(c);
    } else {
      lines.push_back(std::move(line));
      line.clear();
    }
  }
  return lines;
}

}  // namespace demo
