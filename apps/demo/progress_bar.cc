#include "progress_bar.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

namespace demo {

ProgressBar::ProgressBar(std::string label)
    : label_(std::move(label)), is_terminal_(isatty(STDERR_FILENO) != 0) {}

void ProgressBar::update(double fraction, std::size_t document) {
  constexpr int kCells = 40;
  constexpr auto kPeriod = std::chrono::milliseconds(100);
  if (!is_terminal_) {
    const int quarters = static_cast<int>(fraction * 4);
    if (quarters > quarters_)
      fmt::print(stderr, "    {}: {} %, document {}\n", label_, quarters * 25, document);
    quarters_ = std::max(quarters, quarters_);
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + kPeriod;
  const int cells = static_cast<int>(fraction * kCells);
  fmt::print(stderr, "\r\033[K    {} [{:#<{}}{:.<{}}] {:3.0f} %  document {}", label_, "", cells,
             "", kCells - cells, fraction * 100, document);
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressBar::clear() {
  if (drawn_) fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace demo
