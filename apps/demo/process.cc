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

/// Of perdura-demo-worker, which turns it back into `options`.
std::vector<std::string> command_line(const WorkerOptions& options) {
  return {"perdura-demo-worker",
          std::string(name_of(options.side)),
          options.store,
          std::to_string(options.interval_ms),
          std::to_string(static_cast<int>(options.page_tracker)),
          std::to_string(options.seed),
          options.verify_found ? "1" : "0",
          options.verify_reports ? "1" : "0",
          std::to_string(options.corpus_fd),
          std::to_string(options.progress_fd),
          std::to_string(options.answers_fd)};
}

/// "" where this build has none.
const char* program_of(Side side) {
#ifdef PERDURA_DEMO_COMPILED_WORKER
  if (side == Side::kCompiled) return PERDURA_DEMO_COMPILED_WORKER;
#endif
  return side == Side::kCompiled ? "" : PERDURA_DEMO_WORKER;
}

}  // namespace

bool can_run(Side side) { return *program_of(side) != '\0'; }

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
  const char* const program = program_of(options.side);
  if (const int error = posix_spawn(&pid_, program, nullptr, nullptr, argv.data(), environ);
      error != 0)
    throw std::system_error(error, std::generic_category(),
                            fmt::format("cannot start the worker '{}'", program));
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
