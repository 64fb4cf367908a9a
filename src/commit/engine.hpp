// How a version becomes durable, once a tracker has found what changed.
//
//   begin ─ capture_stopped ──── prepare ─ publish
//         ─ capture ──────────── prepare ─ publish
//         ─ capture_selection ── prepare ─ publish
//                 after any failure, or instead of publish: discard
//
// The checkpointer makes one version at a time and calls these in this order. Until prepare() has
// returned without a failure there is no such version; until publish() all that the one before it
// consists of is on the medium as well.
#pragma once

#include <string>
#include <vector>

#include <perdura/options.hpp>

#include "base/assert.hpp"
#include "base/result.hpp"
#include "commit/snapshot.hpp"
#include "track/dirty_map.hpp"

namespace perdura::commit {

/// A few lines that are to be a version by themselves, while the epoch goes on.
class Selection {
 public:
  virtual ~Selection() = default;
  /// While mutators stand still: choose the lines. Nothing is written if this fails.
  virtual Status select() = 0;
  /// Before another checkpoint can begin.
  virtual void settle(bool durable) = 0;

  struct Lines {
    std::vector<u64> numbers;            ///< in any order, each once
    std::vector<const std::byte*> data;  ///< of each; stays until mutators run again
  };
  const Lines& lines() const { return lines_; }

 protected:
  Lines lines_;
};

/// What verifying the durable state has found since the store was opened.
struct Findings {
  u64 verified_bytes = 0;
  u64 damaged_pages = 0;
  std::vector<std::string> first;  ///< of the first damaged ones, what is wrong
  u64 zeroed_pages = 0;            ///< of them, that read as zeros (OnDamage::kThrow)
  std::string in_version;  ///< of the first one of which a version made since has changes, or ""

  void add(Findings more) {
    verified_bytes += more.verified_bytes;
    damaged_pages += more.damaged_pages;
    zeroed_pages += more.zeroed_pages;
    if (in_version.empty()) in_version = std::move(more.in_version);
    for (std::string& each : more.first) first.push_back(std::move(each));
  }
};

/// How far the version is that an engine makes: it asserts the order of the calls above.
class Stage {
 public:
  void begin() {
    PERDURA_ASSERT(at_ != kPrepared);  // else published or discarded before
    at_ = kBegun;                      // also where the one before turned out to be empty
  }
  void capture() {
    PERDURA_ASSERT(at_ == kBegun);
    at_ = kCaptured;
  }
  /// Of nothing, where an empty version was promised.
  void prepare() const { PERDURA_ASSERT(at_ == kBegun || at_ == kCaptured); }
  void prepared() { at_ = kPrepared; }
  void publish() {
    PERDURA_ASSERT(at_ == kPrepared);
    at_ = kNone;
  }
  void discard() { at_ = kNone; }

 private:
  enum { kNone, kBegun, kCaptured, kPrepared } at_ = kNone;
};

class Engine {
 public:
  virtual ~Engine() = default;

  /// Whether another version may be written now; memory and medium stay bounded so.
  virtual bool has_room() const { return true; }
  /// Wait until has_room(). True when it had to.
  virtual Result<bool> make_room() { return false; }
  /// What failed in the background may be tried again.
  virtual void retry() {}

  /// What a snapshot for it consists of, in bytes: a power of two.
  virtual u64 unit_bytes() const = 0;
  /// It writes lines, and of a page all that change sets have: who knows which of them are as the
  /// last version has them leaves these out.
  virtual bool wants_compared_pages() const { return false; }
  /// While mutators stand still.
  virtual void begin(u64 version) = 0;
  /// Mutators stand still, and may help.
  virtual Status capture_stopped(const track::DirtyMap& changes) = 0;
  /// Mutators run: of the snapshot, which was opened when they stood still.
  virtual Status capture(const track::DirtyMap& changes, Snapshot& snapshot) = 0;
  virtual Status capture_selection(const Selection::Lines& lines) = 0;
  /// Durable when it returns, but nothing is given up for it yet.
  virtual Status prepare() = 0;
  /// It is the newest version: what only older ones need may go. Nothing of this can fail.
  virtual void publish() noexcept = 0;
  /// It is not to be. Where prepare() has succeeded it is on the medium all the same, and comes
  /// back where a crash comes before the next version is durable.
  virtual void discard() = 0;
  /// From now on what `version` consists of stays on the medium: none after it is brought home, and
  /// no space of it is used for anything else. kNoVersion: there is none such. In any thread; what
  /// is home already, or given up, stays so.
  virtual void keep_from(u64 version) = 0;
  static constexpr u64 kNoVersion = ~u64{0};

  /// Of the version that was begun last.
  struct Written {
    u64 changed_bytes = 0;
    u64 bytes = 0;  ///< with all that describes them
  };
  virtual Written written() const = 0;
  /// Space is short, and what is captured while mutators stand still is less than the change set.
  virtual bool trims() const { return false; }

  /// The superblock learns of the newest version, so that damage to it cannot be taken for a
  /// version that a crash cut short. In one thread, beside all of the above.
  virtual Status confirm() = 0;

  /// While held, no work begins in the background. True when none is under way.
  virtual bool hold(bool) { return true; }
  /// End the background work. `bring_home`: complete it first.
  virtual Status finish(bool bring_home) = 0;
  /// While it goes on: the space of versions that could be elsewhere is free afterwards.
  virtual Status bring_home() { return {}; }

  virtual void add_to(Statistics& statistics) const = 0;
  virtual void reset_statistics() = 0;
  virtual Findings findings() const = 0;
};

}  // namespace perdura::commit
