// Steps of a benchmark that need a process of their own, to be killed or to start afresh:
// `perdura-bench --child NAME ARGS…` runs the function registered under NAME.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace perdura::bench {

using ChildArguments = std::vector<std::string>;
using ChildFunction = int (*)(const ChildArguments&);

struct ChildRegistration {
  ChildRegistration(const char* name, ChildFunction function);
};

/// The exit code of the child function; 2 when there is none of that name.
int run_child(const std::string& name, const ChildArguments& arguments);

/// A child process, what it prints on stdout and what it reads from stdin. Killed when it goes out
/// of scope.
class ChildProcess {
 public:
  /// The registered one that becomes the program named by its first argument, on any processor.
  static constexpr const char* kCommand = "command";

  ChildProcess(const std::string& name, const ChildArguments& arguments);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// The next line, without its newline. Throws std::runtime_error when the child ended first.
  std::string read_line();
  void write_line(const std::string& line);
  void kill();  ///< SIGKILL, and wait
  int wait();   ///< its exit code, or 128 + signal; the end of its stdin
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int in_ = -1, out_ = -1;  ///< its stdin and stdout
  std::string name_, pending_;
};

}  // namespace perdura::bench
