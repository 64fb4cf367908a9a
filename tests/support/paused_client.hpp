// A client of a service of objects that stops before one of its requests: there it may die, or
// sleep while others work and then go on.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>

namespace perdura::test {

class PausedClient {
 public:
  static constexpr std::size_t kNever = ~std::size_t{0};
  explicit PausedClient(std::size_t pauses_at = kNever) : pauses_at_(pauses_at) {}

  // --- the client's threads

  /// Before a request: whether it is made. Those of other threads meanwhile wait as well.
  bool may_ask() {
    std::unique_lock lock(mutex_);
    if (requests_++ == pauses_at_) is_paused_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !is_paused_ || is_dead_; });
    return !is_dead_;
  }
  void ends() {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    changed_.notify_all();
  }

  // --- the test

  /// Until it is paused, which it says, or has ended.
  bool wait_until_paused() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_paused_ || has_ended_; });
    return is_paused_;
  }
  /// And does not pause any more.
  void resume() {
    const std::lock_guard lock(mutex_);
    is_paused_ = false;
    pauses_at_ = kNever;
    changed_.notify_all();
  }
  void die() {
    const std::lock_guard lock(mutex_);
    is_dead_ = true;
    changed_.notify_all();
  }
  bool is_dead() {
    const std::lock_guard lock(mutex_);
    return is_dead_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t pauses_at_;
  std::size_t requests_ = 0;
  bool is_paused_ = false;
  bool is_dead_ = false;
  bool has_ended_ = false;
};

}  // namespace perdura::test
