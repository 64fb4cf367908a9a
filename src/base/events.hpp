// What a store has to say that no call returns: to its program, or else on stderr.
//
//   tell    by a thread ──────────────────> listener, or stderr
//   defer   with a lock held ─────────────> kept ── deliver, by a thread ──> listener, or stderr
//   post    in a handler of signals ──────> stderr ; kept ── deliver, by a thread ──> listener
//
// A listener may ask for statistics, and takes locks of the library's for that: so nobody who may
// hold one calls it.
//
// On stderr a kind, of each code of failure, has a line a second; what is left out is counted, and
// the next line says how many, or the end does.
#pragma once

#include <array>
#include <atomic>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <perdura/event.hpp>

#include "base/bits.hpp"
#include "base/clock.hpp"

namespace perdura {

class Events {
 public:
  /// Where nobody listens: how a line of stderr is written.
  enum class Line {
    kLimited,       ///< one a second
    kAlways,        ///< what is said once anyway, or may be the last that the program says
    kOnceAProcess,  ///< of all stores, of a kind
    kNone,          ///< whoever called is told the same by the call
  };

  /// `clock`: for tests.
  explicit Events(EventListener listener = {}, u64 (*clock)() = now_ns)
      : listener_(std::move(listener)), clock_(clock) {}
  /// Says what was left out, and was not said yet.
  ~Events();
  Events(const Events&) = delete;

  /// Of what has no store around it, as parts in tests: nobody listens.
  static Events& nobody();

  /// Before others use it.
  void set_store(std::string name) { store_ = std::move(name); }
  /// Of whom events say what is durable; nullptr: nobody knows.
  void set_version(const std::atomic<u64>* version) {
    version_.store(version, std::memory_order_release);
  }

  /// With Line::kOnceAProcess.
  static bool was_said(EventKind kind);
  bool has_listener() const { return static_cast<bool>(listener_); }
  /// With no lock that statistics() takes. Takes no memory but for the listener's. On stderr
  /// "perdura: " stands before the message.
  void tell(EventKind kind, Code code, std::string_view message,
            Line line = Line::kLimited) noexcept;
  /// With any lock, and while mutators stand still: a listener is called by deliver(). A line of
  /// stderr is written at once.
  void defer(EventKind kind, Code code, std::string_view message,
             Line line = Line::kLimited) noexcept;
  /// Also in handlers of signals: a line always, and the listener is called by deliver(). Where
  /// more than kPostsMax wait the rest is counted.
  void post(EventKind kind, Code code, std::string_view message) noexcept;
  /// What was deferred and posted. In a thread, which holds no lock that a listener may need.
  void deliver() noexcept;
  /// Events since the beginning.
  u64 told(EventKind kind) const {
    return told_[static_cast<size_t>(kind)].load(std::memory_order_relaxed);
  }

  u64 told() const {
    u64 all = 0;
    for (const auto& each : told_) all += each.load(std::memory_order_relaxed);
    return all;
  }

  static constexpr size_t kPostsMax = 32;
  static constexpr u64 kLineNs = 1'000'000'000;

 private:
  static constexpr size_t kCodes = 15;
  static constexpr size_t kMessageMax = 600;  ///< of what is posted

  struct Limit {
    std::atomic<u64> said_ns{0};  ///< 0: never
    std::atomic<u64> left_out{0};
  };
  struct Post {
    enum : u8 { kFree, kBeingWritten, kReady };
    std::atomic<u8> state{kFree};
    EventKind kind{};
    Code code{};
    size_t length = 0;
    char text[kMessageMax];
  };

  void keep(EventKind kind, Code code, std::string_view message) noexcept;
  void write(EventKind kind, Code code, std::string_view message, Line line) noexcept;
  void call(EventKind kind, Code code, std::string_view message) noexcept;
  void say(EventKind kind, Code code, std::string_view message) noexcept;

  const EventListener listener_;
  u64 (*const clock_)();
  std::string store_;
  std::atomic<const std::atomic<u64>*> version_{nullptr};
  std::array<std::atomic<u64>, kEventKinds> told_{};
  std::array<std::array<Limit, kCodes>, kEventKinds> limits_{};
  std::array<Post, kPostsMax> posts_{};
  std::atomic<u64> posts_left_out_{0};
};

/// The regions of one medium that are open, for what concerns all of them.
class EventHub {
 public:
  void add(Events& events) {
    const std::lock_guard lock(mutex_);
    all_.push_back(&events);
  }
  /// When it returns nothing is told there any more.
  void remove(Events& events) {
    const std::lock_guard lock(mutex_);
    std::erase(all_, &events);
  }
  /// Deferred: whoever holds a lock of the medium's may call it.
  void tell(EventKind kind, Code code, std::string_view message) noexcept {
    const std::lock_guard lock(mutex_);
    for (Events* const each : all_)
      each->defer(kind, code, message,
                  each == all_.front() ? Events::Line::kLimited : Events::Line::kNone);
  }

 private:
  std::mutex mutex_;
  std::vector<Events*> all_;
};

}  // namespace perdura
