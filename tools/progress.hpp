// Progress on stderr for work that takes more than a second: one changing line on a terminal, a
// line now and then elsewhere.
#pragma once

#include <unistd.h>

#include <fmt/format.h>

#include "base/clock.hpp"

namespace perdura::tools {

class ProgressLine {
 public:
  ~ProgressLine() {
    if (shown_ && terminal_) fmt::print(stderr, "\r\033[K");
  }

  /// A store::Progress, by std::ref.
  void operator()(const char* what, u64 done, u64 total) {
    const u64 now = now_ns();
    if (now < next_ns_ || total == 0) return;
    next_ns_ = now + (terminal_ ? kTerminalNs : kOtherNs);
    shown_ = true;
    fmt::print(stderr, "{}perdura: {}, {} %{}", terminal_ ? "\r\033[K" : "", what,
               done * 100 / total, terminal_ ? "" : "\n");
  }

 private:
  static constexpr u64 kFirstNs = 1'000'000'000;
  static constexpr u64 kTerminalNs = 200'000'000;
  static constexpr u64 kOtherNs = 10'000'000'000;

  const bool terminal_ = ::isatty(STDERR_FILENO) != 0;
  u64 next_ns_ = now_ns() + kFirstNs;
  bool shown_ = false;
};

}  // namespace perdura::tools
