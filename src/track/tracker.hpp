// A tracker finds what changed in a region since the last version.
//
// One checkpoint: `cut` while the mutators stand still, then `collect` once, then `settle`.
#pragma once

#include <sys/mman.h>

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <perdura/options.hpp>

#include "base/assert.hpp"
#include "base/result.hpp"
#include "track/dirty_map.hpp"
#include "track/mutators.hpp"

namespace perdura::track {

/// What a page tracker watches.
enum class Memory {
  kPrivate,    ///< private views, and anonymous memory where a part says so
  kAnonymous,  ///< nothing but anonymous memory
  kShared,     ///< the aliases of a region: a page can be dirty in one of them alone
};

/// A range of memory.
struct Part {
  std::byte* address;
  u64 length;
  bool anonymous = false;
};

/// Is told of stores before they happen.
class StoreGuard {
 public:
  virtual ~StoreGuard() = default;
  /// Stores to [begin, end) are about to become possible. In the thread that stores, perhaps in a
  /// signal handler.
  virtual void before_store(const std::byte* begin, const std::byte* end) noexcept = 0;
};

/// Parts of the region that are inaccessible until they were filled.
class ClosedParts {
 public:
  enum class Answer {
    kOpen,    ///< it is accessible, as far as this is concerned
    kOpened,  ///< it is now: the access can be tried again
    kFailed,  ///< it cannot be filled
  };
  virtual ~ClosedParts() = default;
  /// A part was accessed. In a signal handler.
  virtual Answer on_access(std::byte* address) noexcept = 0;
  /// Fill all in [begin, end); false where some cannot be. In a signal handler.
  virtual bool open_all(std::byte* begin, std::byte* end) noexcept = 0;
  /// Nothing is closed any more.
  virtual bool done() const noexcept = 0;
};

class Tracker {
 public:
  virtual ~Tracker() = default;
  virtual Tracking kind() const = 0;

  /// Its change sets are whole pages of which a part may be unchanged.
  virtual bool is_coarse() const = 0;

  // One that sees stores first (track::Kind) has a window, in which mutators copy lines aside
  // before they report a store to them, or else tells a guard.

  /// nullptr: there is none.
  virtual Window* window() { return nullptr; }
  /// Mutators stopped: they copy lines aside from now on, until it is closed.
  virtual void open_window() {}
  virtual void close_window() {}
  /// To be told of the first store to each part since the last cut; nullptr ends that. Who sees
  /// stores first, as its row in kinds.cc says, has this, or a window.
  virtual void set_guard(StoreGuard* guard) { PERDURA_ASSERT(guard == nullptr); }

  /// Parts of the region became accessible: all of them are watched from now on, or, when this
  /// fails, none; then they may be mapped anew.
  virtual Status backed(std::span<const Part> parts) = 0;

  // Parts that the program cannot access yet, and that the library stores to meanwhile, without
  // that counting as a change. Not of parts that are anonymous beside views.

  /// Whether there can be such parts.
  virtual bool can_close() const = 0;
  /// Around the stores to such a part. In any thread, perhaps in a signal handler.
  virtual Status before_fill(std::byte*, u64) { return {}; }
  virtual Status after_fill(std::byte*, u64) { return {}; }
  /// What the program may do with it then, for mprotect.
  virtual int protection() const { return PROT_READ | PROT_WRITE; }
  /// True: this tracker answers faults and asks `parts` first, until it is told nullptr.
  virtual bool set_closed(ClosedParts*) { return false; }

  /// Most pages of a part are about to be stored to: what the first store to a page would cost may
  /// be had for many at once. In any thread.
  virtual void before_stores(std::byte*, u64) {}

  /// Mutators stopped: add what changed since the last cut. The epoch goes on.
  virtual Status add_changes(DirtyMap&) {
    return Failure{Code::kUnsupported, "this tracker knows what changed at a checkpoint alone"};
  }
  /// Do early what collect() would have to do; at any time, from one thread.
  virtual void collect_ahead() {}
  /// To be told, in a mutator, that much waits for that. Before the first report.
  virtual void on_backlog(std::function<void()>) {}
  /// Mutators stopped: end the epoch.
  virtual Status cut() = 0;
  /// The change set of the epoch that was cut. May run while mutators run. Valid until settle.
  virtual const DirtyMap& collect() = 0;
  /// Its lines once more, in lists that several threads can take: CpNvm's (§2), each in the order
  /// of a thread's first stores. None: there is the set alone.
  struct Range {
    const u64* begin;
    const u64* end;
  };
  virtual std::vector<Range> lists() const { return {}; }
  /// The version is durable; or it failed, and its changes belong to the running epoch again.
  virtual void settle(bool durable) = 0;
};

}  // namespace perdura::track
