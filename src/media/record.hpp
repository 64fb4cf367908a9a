// A decorator that keeps every call that changes a medium, in order, and rebuilds from them what a
// crash at any moment could have left. For tests and tools.
//
//   write ── submit ── submit ── drain ── barrier ── write ── submit ──▶ crash
//   └────────── durable: covered by the barrier ────┘ └ any subset of atoms ┘
//
// Invariants:
//  - A write counts as durable only when it was done before a successful barrier began: write()
//    had returned, or a drain of its queue had covered it.
//  - A write is recorded with a copy of its bytes as they were when it was handed over.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "media/medium.hpp"

namespace perdura::media {

/// What a history has in place of bytes that cannot be read before they are written.
constexpr std::byte kUnwritten{0xa5};

struct RecordedCall {
  enum class Kind {
    kWrite,   ///< Medium::write: done when it returns
    kSubmit,  ///< WriteQueue::submit: done when a drain of its queue covers it
    kDrain,
    kBarrier,
    kGrow,
  };
  Kind kind = Kind::kWrite;
  bool succeeded = false;
  const Site* site = nullptr;    ///< kWrite, kSubmit, kBarrier
  u64 offset = 0;                ///< kWrite, kSubmit
  std::vector<std::byte> bytes;  ///< kWrite, kSubmit
  size_t queue = 0;              ///< kSubmit, kDrain: number of the queue, from 0
  size_t pending_max = 0;        ///< kDrain
  u64 size = 0;                  ///< kGrow: the new size
  bool unwritten = false;        ///< kGrow: what is new cannot be read before it is written
  size_t covers = 0;             ///< kBarrier: calls recorded when it began
  u32 medium = 0;                ///< of several in one history; a barrier is of its medium alone
};

/// What was done to a medium, for looking back.
class History {
 public:
  using Content = std::vector<std::byte>;
  /// Whether an atom of a write that no barrier covers reached the medium.
  using Keep = std::function<bool(size_t call, u64 atom)>;

  History() = default;
  History(Content initial, u64 atomic_bytes, std::vector<RecordedCall> calls)
      : initial_(std::move(initial)), atomic_bytes_(atomic_bytes), calls_(std::move(calls)) {}

  const std::vector<RecordedCall>& calls() const { return calls_; }
  /// Where failures differ most: just before each successful barrier, and at the end. Each is a
  /// number of calls that were made before the failure.
  std::vector<size_t> crash_points() const;
  /// A crash after the first `end` calls: what barriers among them cover, and of the other
  /// writes the atoms that `keep` chooses.
  Content after_crash(size_t end, const Keep& keep) const;
  const Content& initial() const { return initial_; }
  /// The content that the history starts with, as large as it is after the first `end` calls.
  Content grown(size_t end) const;
  u64 atomic_bytes() const { return atomic_bytes_; }

  /// Of the first `end` calls, the writes that barriers among them cover; as if barriers
  /// and writes of a site that is named were without effect.
  std::vector<bool> durable_writes(size_t end, const Site* no_barrier = nullptr,
                                   const Site* never_covered = nullptr) const;
  /// After the first `end` calls: the size, and the size that the last barrier covers.
  u64 size_after(size_t end) const;
  u64 covered_size(size_t end) const;

 private:
  friend class Recording;

  /// Of each medium, calls made before some barrier of it among the first `end` calls began.
  std::vector<size_t> covered_calls(size_t end, const Site* no_barrier) const;

  Content initial_;
  u64 atomic_bytes_ = 8;
  std::vector<RecordedCall> calls_;
};

/// Thread-safe. Outlives the medium it wrapped.
class Recording {
 public:
  /// The content that `inner` has now is where the history starts.
  std::unique_ptr<Medium> wrap(std::unique_ptr<Medium> inner);
  /// Another medium in the same history, from `begin` on behind what the first one ever needs.
  std::unique_ptr<Medium> wrap_beside(std::unique_ptr<Medium> inner, u64 begin);
  /// A copy of what was recorded so far.
  History history() const;
  /// The number of calls recorded so far.
  size_t size() const;

 private:
  struct Part;
  class RecordedMedium;
  class RecordedQueue;

  size_t add(RecordedCall call);
  void succeeded(size_t call);
  size_t next_queue();

  mutable std::mutex mutex_;
  History history_;
  size_t queues_ = 0;
  u32 media_ = 0;
};

}  // namespace perdura::media
