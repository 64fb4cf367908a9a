// A store whose whole content follows from one number, so that who reads it beside a writer can
// tell whether it is that of one version; and a process that writes it.
#pragma once

#include <unistd.h>

#include <algorithm>
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
    if (step < expected_[0]) std::ranges::fill(expected_, 0);
    for (u64 each = expected_[0] + 1; each <= step; ++each)
      for (u64 i = 0; i < kOfStep; ++i) expected_[place(each, i)] = each;
    expected_[0] = step;
    for (u64 i = 0; i < kWords; ++i)
      if (words_[i] != expected_[i])
        return "after step " + std::to_string(step) + " word " + std::to_string(i) + " is " +
               std::to_string(words_[i]) + ", not " + std::to_string(expected_[i]);
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
  /// As the words are after step expected_[0].
  mutable std::vector<u64> expected_ = std::vector<u64>(kWords);
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

  WriterProcess(const std::string& uri, const Options& options)
      : process_([&](ToldProcess::Ends ends) { return run(uri, options, ends); }) {}

  void order(u64 steps) { process_.order(steps); }
  /// Of what was ordered; all zeros when it has died.
  Reply wait() {
    Reply reply{};
    return process_.get(reply) ? reply : Reply{};
  }
  Reply take(u64 steps) {
    order(steps);
    return wait();
  }
  /// What went wrong in it before, or "".
  [[nodiscard]] std::string kill() { return process_.kill(); }
  /// Close the store in order. What went wrong in it, or "".
  std::string close() {
    order(0);
    return process_.wait();
  }

 private:
  static std::string run(const std::string& uri, const Options& options, ToldProcess::Ends ends) {
    Store store = Store::open(uri, options);
    Steps steps(store);
    if (!steps.is_made()) steps.make();
    if (std::string problem = steps.problem(); !problem.empty()) return problem;
    u64 wanted = 0;
    while (::read(ends.orders, &wanted, sizeof wanted) == sizeof wanted && wanted != 0) {
      for (u64 i = 0; i < wanted; ++i) {
        steps.take();
        store.checkpoint();
      }
      const Statistics now = store.statistics();
      const Reply reply{steps.step(), now.durable_version, now.pinned_version, now.replayed_version,
                        now.log_live_bytes};
      if (::write(ends.replies, &reply, sizeof reply) != sizeof reply) return "cannot reply";
    }
    if (std::string problem = steps.problem(); !problem.empty()) return problem;
    store.close();
    return "";
  }

  ToldProcess process_;
};

/// A process that has such a store open to read.
class ReaderProcess {
 public:
  ReaderProcess(const std::string& uri, const Options& options)
      : process_([&](ToldProcess::Ends ends) { return run(uri, options, ends); }) {
    if (!process_.get(opened_)) opened_ = {};
  }

  /// Zeros when it could not open the store; wait() says why.
  u64 version() const { return opened_.version; }
  u64 step() const { return opened_.step; }
  /// Compares all of it. What is wrong, or "".
  std::string look() {
    process_.order(1);
    Reply reply{};
    return process_.get(reply) ? reply.problem : "the reader has died: " + process_.wait();
  }
  /// What went wrong in it before, or "".
  [[nodiscard]] std::string kill() { return process_.kill(); }
  std::string close() {
    process_.order(0);
    return process_.wait();
  }

 private:
  struct Opened {
    u64 version;
    u64 step;
  };
  struct Reply {
    char problem[256];
  };

  static std::string run(const std::string& uri, Options options, ToldProcess::Ends ends) {
    options.read_only = true;
    Store store = Store::open(uri, options);
    const Steps steps(store);
    if (!steps.is_made()) return "a reader found no words";
    const Opened opened{store.durable_version(), steps.step()};
    if (::write(ends.replies, &opened, sizeof opened) != sizeof opened) return "cannot reply";
    u64 order = 0;
    while (::read(ends.orders, &order, sizeof order) == sizeof order && order != 0) {
      Reply reply{};
      steps.problem(opened.step).copy(reply.problem, sizeof reply.problem - 1);
      if (::write(ends.replies, &reply, sizeof reply) != sizeof reply) return "cannot reply";
    }
    store.close();
    return "";
  }

  ToldProcess process_;
  Opened opened_{};
};

}  // namespace perdura::test
