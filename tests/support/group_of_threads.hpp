// Ranks of a group that are threads of a test: they agree through memory.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <perdura/detail/group.hpp>

namespace perdura::test {

/// Where the threads of a group meet.
class Meeting {
 public:
  explicit Meeting(unsigned ranks) : ranks_(ranks), there_(ranks) {}
  unsigned ranks() const { return ranks_; }
  /// Called by each, when all have come and before any goes on.
  std::function<void()> when_met;

  /// One of them has died: nobody waits for it, and nobody goes on.
  static constexpr const char* kDied = "a rank has died";
  void die() {
    std::lock_guard lock(mutex_);
    has_died_ = true;
    met_.notify_all();
  }

  /// All give something, and get what all gave.
  std::vector<std::vector<std::byte>> meet(unsigned rank, const void* mine, std::size_t bytes) {
    std::unique_lock lock(mutex_);
    const auto* const from = static_cast<const std::byte*>(mine);
    there_[rank].assign(from, from + bytes);
    if (has_died_) throw Error(Code::kIo, kDied);
    if (++come_ == ranks_) {
      if (when_met) when_met();
      come_ = 0;
      given_ = there_;
      ++meetings_;
      met_.notify_all();
    } else {
      const unsigned long now = meetings_;
      met_.wait(lock, [&] { return meetings_ != now || has_died_; });
      if (meetings_ == now) throw Error(Code::kIo, kDied);
    }
    return given_;
  }

 private:
  const unsigned ranks_;
  std::mutex mutex_;
  std::condition_variable met_;
  unsigned come_ = 0;
  unsigned long meetings_ = 0;
  bool has_died_ = false;
  std::vector<std::vector<std::byte>> there_, given_;
};

class ThreadPeers final : public detail::GroupPeers {
 public:
  ThreadPeers(std::shared_ptr<Meeting> meeting, unsigned rank)
      : meeting_(std::move(meeting)), rank_(rank) {}
  unsigned rank() const override { return rank_; }
  unsigned size() const override { return meeting_->ranks(); }
  void minimum(std::int64_t* values, std::size_t count) override {
    for (const auto& each : meeting_->meet(rank_, values, count * sizeof *values))
      for (std::size_t i = 0; i < count; ++i) {
        std::int64_t other = 0;
        std::memcpy(&other, each.data() + i * sizeof other, sizeof other);
        values[i] = std::min(values[i], other);
      }
  }
  void gather(const void* mine, std::size_t bytes, void* all) override {
    auto* to = static_cast<std::byte*>(all);
    for (const auto& each : meeting_->meet(rank_, mine, bytes))
      to = std::copy(each.begin(), each.end(), to);
  }

 private:
  const std::shared_ptr<Meeting> meeting_;
  const unsigned rank_;
};

/// Runs `body(rank, peers)` in a thread for each rank. One that throws has died, for the others.
/// What it throws goes on, of the lowest rank.
template <class Body>
void run_ranks(unsigned ranks, Body&& body) {
  const auto meeting = std::make_shared<Meeting>(ranks);
  std::vector<std::exception_ptr> thrown(ranks);
  std::vector<std::thread> threads;
  for (unsigned rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        body(rank, std::make_unique<ThreadPeers>(meeting, rank));
      } catch (const Error& error) {
        if (std::string_view(error.what()) != Meeting::kDied)
          thrown[rank] = std::current_exception();
        meeting->die();
      } catch (...) {
        thrown[rank] = std::current_exception();
        meeting->die();
      }
    });
  for (std::thread& each : threads) each.join();
  for (const std::exception_ptr& each : thrown)
    if (each) std::rethrow_exception(each);
}

}  // namespace perdura::test
