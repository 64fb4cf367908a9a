// A store whose whole content follows from one number, so that who reads it beside a writer can
// tell whether it is that of one version; and a process that writes it.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include <perdura/perdura.hpp>

#include "base/bits.hpp"
#include "support/process.hpp"

namespace perdura::test {

/// Each step stores its number to a few of the words, and to the first.
class Steps {
 public:
  static constexpr u64 kWords = 64 * 1024;
  static constexpr u64 kOfStep = 5;

  /// Of the words that a step stores its number to.
  static u64 place(u64 step, u64 i) {
    u64 hash = (step * kOfStep + i + 1) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
    return 1 + hash * 0xbf58476d1ce4e5b9 % (kWords - 1);
  }

  explicit Steps(Store& store) : store_(&store) {
    words_ = static_cast<u64*>(store.get_root("words"));
  }
  void make() {
    const auto operation = store_->operation();
    words_ = static_cast<u64*>(store_->allocate(kWords * sizeof(u64)));
    store_->touch(words_, kWords * sizeof(u64));
    std::fill_n(words_, kWords, 0);
    store_->set_root("words", words_);
  }
  bool is_made() const { return words_ != nullptr; }
  u64 step() const { return words_[0]; }
  void take() {
    const auto operation = store_->operation();
    const u64 step = words_[0] + 1;
    for (u64 i = 0; i < kOfStep; ++i) store(place(step, i), step);
    store(0, step);
  }
  /// All of it from begin to end, as it is after `step`.
  std::string problem(u64 step) const {
    std::vector<u64> expected(kWords);
    for (u64 each = 1; each <= step; ++each)
      for (u64 i = 0; i < kOfStep; ++i) expected[place(each, i)] = each;
    expected[0] = step;
    for (u64 i = 0; i < kWords; ++i)
      if (words_[i] != expected[i])
        return "after step " + std::to_string(step) + " word " + std::to_string(i) + " is " +
               std::to_string(words_[i]) + ", not " + std::to_string(expected[i]);
    return store_->audit().clean ? "" : "the heap is damaged";
  }
  std::string problem() const {
    if (!is_made()) return "it has no words";
    return problem(step());
  }

 private:
  void store(u64 index, u64 value) {
    store_->touch(words_ + index, sizeof(u64));
    words_[index] = value;
  }

  Store* store_;
  u64* words_ = nullptr;
};

/// A process that writes such a store: takes steps when it is told to, a version for each.
class WriterProcess {
 public:
  struct Reply {
    u64 step;
    u64 version;
    u64 pinned;
    u64 replayed;
    u64 live_log_bytes;
  };

  WriterProcess(const std::string& uri, const Options& options) {
    if (::pipe2(orders_.data(), O_CLOEXEC) != 0 || ::pipe2(replies_.data(), O_CLOEXEC) != 0)
      std::abort();
    child_ = std::make_unique<Child>([&]() -> std::string {
      // Or nobody would find the ends of the pipes when the other process ends.
      ::close(orders_[1]);
      ::close(replies_[0]);
      return run(uri, options);
    });
    ::close(orders_[0]);
    ::close(replies_[1]);
  }
  ~WriterProcess() {
    ::close(orders_[1]);
    ::close(replies_[0]);
  }
  WriterProcess(const WriterProcess&) = delete;

  void order(u64 steps) {
    if (::write(orders_[1], &steps, sizeof steps) != sizeof steps) std::abort();
  }
  /// Of what was ordered; all zeros when it has died.
  Reply wait() {
    Reply reply{};
    if (::read(replies_[0], &reply, sizeof reply) != sizeof reply) return {};
    return reply;
  }
  Reply take(u64 steps) {
    order(steps);
    return wait();
  }
  void kill() {
    child_->kill();
    (void)child_->wait();
  }
  /// Close the store in order. What went wrong in it, or "".
  std::string close() {
    order(0);
    return child_->wait();
  }
  pid_t pid() const { return child_->pid(); }

 private:
  std::string run(const std::string& uri, const Options& options) {
    Store store = Store::open(uri, options);
    Steps steps(store);
    if (!steps.is_made()) steps.make();
    if (std::string problem = steps.problem(); !problem.empty()) return problem;
    u64 wanted = 0;
    while (::read(orders_[0], &wanted, sizeof wanted) == sizeof wanted && wanted != 0) {
      for (u64 i = 0; i < wanted; ++i) {
        steps.take();
        store.checkpoint();
      }
      const Statistics now = store.statistics();
      const Reply reply{steps.step(), now.durable_version, now.pinned_version, now.replayed_version,
                        now.log_live_bytes};
      if (::write(replies_[1], &reply, sizeof reply) != sizeof reply) return "cannot reply";
    }
    if (std::string problem = steps.problem(); !problem.empty()) return problem;
    store.close();
    return "";
  }

  std::array<int, 2> orders_{};
  std::array<int, 2> replies_{};
  std::unique_ptr<Child> child_;
};

}  // namespace perdura::test
