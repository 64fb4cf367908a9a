// The steps of one checkpoint, in their order. When there is one, who waits for it and which thread
// takes it is the checkpointer's.
//
//   before_cut ─ [ stop ─ begin ─ at_cut ─ cut ─ capture, or open the window ─ resume ] ─ after_cut
//              ─ (capture in the background) ─ prepare ─ (agree) ─ publish, or discard
#pragma once

#include <functional>
#include <span>

#include "commit/agreement.hpp"
#include "commit/engine.hpp"
#include "track/mutators.hpp"
#include "track/tracker.hpp"

namespace perdura::commit {

/// A checkpoint under way.
struct Attempt {
  enum class Trigger { kCaller, kAsync, kTimer, kSelection };
  Trigger trigger = Trigger::kCaller;
  u64 begin_ns = 0;
  u64 cut_ns = 0;                  ///< before its cut began: what was stored until then is in it
  Selection* selection = nullptr;  ///< these lines, not what changed in the epoch
  u64 version = 0;
  u64 calls = 0;        ///< the last one that was made before its cut: it answers all up to that
  bool is_cut = false;  ///< its change set is fixed
  Status status;        ///< of the part done while mutators were stopped
  bool empty = false;
  bool trimmed = false;        ///< space was short when it was cut, so it takes as little as it can
  bool in_background = false;  ///< captured while mutators run
};

/// Has work to do before an epoch ends.
class CutGuest {
 public:
  virtual ~CutGuest() = default;
  virtual Status before_cut() = 0;
  /// Mutators stand still. What it changes is part of the version; there is none when it fails.
  virtual Status at_cut() = 0;
  /// Mutators run again. Whatever the others returned.
  virtual void after_cut() noexcept = 0;
};

/// Is told of epochs: how they end, and what became of them.
class EpochGuest {
 public:
  virtual ~EpochGuest() = default;
  /// Mutators stand still. The epoch that ends here is being made a version of from now on.
  virtual void epoch_begins() noexcept = 0;
  /// The epoch that ended last is part of a durable version; or its changes belong to the running
  /// one. Before another one ends.
  virtual void epoch_settled(bool durable) noexcept = 0;
};

/// One at a time. cut() and make_version() may be called by two threads, one after the other.
class Sequence {
 public:
  struct Config {
    Engine* engine = nullptr;
    track::Mutators* mutators = nullptr;
    track::Tracker* tracker = nullptr;
    Snapshot* snapshot = nullptr;  ///< with which it captures in the background, if it does
    CutGuest* guest = nullptr;
    EpochGuest* epochs = nullptr;
    Agreement* agreement = nullptr;  ///< nullptr: it makes versions by itself
    /// Stopped capture: shown each change set while the mutators stand still (verify_reports).
    std::function<void(const track::DirtyMap&)> inspect;
    /// Told of what a version will have changed, before it is durable. One that fails was told all
    /// the same, and so is the next one of its number.
    std::function<void(u64 version, const track::DirtyMap&)> changes;
    std::function<void(u64 version, std::span<const u64> lines)> selected;
  };
  /// `note` is told of each change set.
  Sequence(const Config& config, std::function<void(const track::DirtyMap&)> note)
      : config_(config), note_(std::move(note)) {}

  /// Ends the epoch, or takes the attempt's selection; how long mutators stood still, ns. What
  /// fails is the attempt's status.
  u64 cut(Attempt& attempt);
  /// Durable when it returns, or discarded. An attempt that found nothing makes no version, if
  /// there is one already.
  Status make_version(Attempt& attempt, bool has_versions);

 private:
  Status take(Attempt& attempt);
  Status capture_stopped(Attempt& attempt);
  Status write(Attempt& attempt, bool has_versions);
  Status agree(Attempt& attempt, Status mine);

  const Config config_;
  const std::function<void(const track::DirtyMap&)> note_;
  u64 changed_pages_ = 0;  ///< in the last change set that was copied while mutators stood still
};

}  // namespace perdura::commit
