// Progress on stderr: a bar on a terminal, a line now and then elsewhere.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace demo {

class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Cheap; draws a few times a second at most.
  void update(double fraction, std::size_t document);
  /// Take the bar off the screen, so that other output can follow.
  void clear();

 private:
  std::string label_;
  bool is_terminal_;
  bool drawn_ = false;
  int quarters_ = 0;  ///< lines written where there is no terminal
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace demo
