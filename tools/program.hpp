// A program that perdura starts, and the signals that end one or the other.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace perdura::tools {

/// While it lives, what would end this process waits until somebody asks: so it leaves nothing
/// behind.
class SignalsHeld {
 public:
  SignalsHeld();
  /// A signal that came and that nobody took ends the process now.
  ~SignalsHeld();
  SignalsHeld(const SignalsHeld&) = delete;

  /// Whether one came.
  bool any() const;
  const sigset_t& before() const { return before_; }
  const sigset_t& held() const { return held_; }

 private:
  sigset_t before_;
  sigset_t held_;
};

/// Variables of a program's environment; those without a value are removed.
using Environment = std::vector<std::pair<std::string, const char*>>;

class Program {
 public:
  /// Throws when it cannot be run. It gets SIGTERM when this process dies.
  Program(const std::vector<std::string>& command, const Environment& changes,
          const SignalsHeld& signals);
  /// Ends it, if it still runs.
  ~Program();
  Program(const Program&) = delete;

  /// Until it ends. Signals that come meanwhile are for the program: they are passed on to it,
  /// except those of the terminal, which sends them to both. The status as waitpid() gives it.
  int wait();
  pid_t pid() const { return pid_; }

 private:
  const SignalsHeld& signals_;
  pid_t pid_ = -1;
  bool running_ = true;
};

/// "ended with status 3", "died of signal 9".
std::string ending_text(int status);

}  // namespace perdura::tools
