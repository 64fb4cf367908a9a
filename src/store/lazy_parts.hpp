// Parts of a region that become what they should be when they are first touched, or when the
// background thread comes to them. Until then they are inaccessible.
//
//   state of a part    kPlain (nothing to do) | kClosed -> kFilling -> kOpen
//                      kFilled: whole, but not open: who touches it says where the program is, or
//                               it could not be opened yet
//                      kRefused: it could not be filled by itself; it is tried again when somebody
//                                touches it
//
// The library writes a closed part through /proc/self/mem, which needs no access of its own and so
// keeps the program out until the part is whole.
//
// The background thread comes first to the parts that are wanted soon, one behind the other, then
// to the others at a pace of its own; and where the program touches one of these behind another one
// that is open it goes on with those that follow: the program seems to read in order.
#pragma once

#include <unistd.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "media/self_memory.hpp"
#include "region/faults.hpp"
#include "region/region.hpp"
#include "track/tracker.hpp"

namespace perdura::store {

/// Puts into a part what belongs there.
class Filler {
 public:
  virtual ~Filler() = default;
  /// Through `memory`. In any thread, perhaps in a signal handler, on a small stack; each part once
  /// unless it fails. `last`: when it fails, nobody tries again unless the part is touched, so that
  /// what is wrong is to be told. Before, several parts were tried together, or by somebody who
  /// touched another one: then a failure is found without the allocator, of which that thread may
  /// be a user just now.
  virtual bool fill(u64 begin, u64 end, const media::SelfMemory& memory, bool last) noexcept = 0;
  /// Whether signal handlers may call fill. Else who touches a part asks the background thread.
  virtual bool fills_in_handlers() const { return true; }
  /// Whether filling stores to the part. Where it only looks at what is there, a tracker need not
  /// know.
  virtual bool stores(u64, u64) const { return true; }
  /// The parts that were wanted soon are filled: once, in the background.
  virtual void soon_filled() noexcept {}
  /// All parts are open: once, in the background. None is filled any more.
  virtual void all_filled() noexcept {}
};

/// When a part is to be filled, unless it is touched before.
enum class Wanted : u8 {
  kNever,  ///< there is nothing to do
  kSoon,
  kPaced,
};

class LazyParts final : public region::FaultHandler, public track::ClosedParts {
 public:
  /// The size of a part for a region of which [0, end) matters: a multiple of `unit`.
  static u64 part_bytes_for(u64 end, u64 unit);

  struct Plan {
    u64 part_bytes = 0;
    std::vector<Wanted> parts;
    u64 bytes_per_second = 0;  ///< of the paced ones; 0: only when they are touched
  };
  /// Close the parts that are wanted. kUnsupported where the system or the tracker does not allow
  /// this: then nothing has changed.
  static Result<std::unique_ptr<LazyParts>> create(region::Region& region, track::Tracker& tracker,
                                                   Filler& filler, Plan plan);
  ~LazyParts() override;

  bool done() const noexcept override { return remaining_.load(std::memory_order_acquire) == 0; }
  bool on_fault(const region::Fault& fault) noexcept override;
  Answer on_access(std::byte* address) noexcept override;
  bool open_all(std::byte* begin, std::byte* end) noexcept override;

 private:
  enum State : u8 { kPlain, kClosed, kFilled, kFilling, kOpen, kRefused };
  static constexpr u64 kNone = ~u64{0};

  LazyParts(region::Region& region, track::Tracker& tracker, Filler& filler,
            media::SelfMemory memory, Plan plan);

  /// Parts one behind the other.
  struct Run {
    u64 begin;
    u64 end;
  };

  template <class Visit>
  Status for_each_backed(u64 begin, u64 end, Visit&& visit) const;
  Status close();
  bool fill(u64 part) noexcept;
  bool fill_claimed(u64 part, u8 before) noexcept;
  bool open_filled(Run run) noexcept;
  void set_states(Run run, u8 state) noexcept;
  Run claim(u64 begin, u64 end, Wanted wanted) noexcept;
  void help_behind(u64 part) noexcept;
  bool fill_pages(Run run, bool last) noexcept;
  bool fill_together(Run run) noexcept;
  bool ask_for(u64 part) noexcept;
  void answer_asked();
  static bool is_to_be_opened(u8 state) { return state == kClosed || state == kFilled; }
  bool follows_an_open_one(u64 part) const noexcept;
  void fill_in_background();
  bool fill_soon();
  void fill_paced();
  void fill_ahead();
  void fill_ahead(Run run, u64 mark) noexcept;

  const std::shared_ptr<const region::HomeMap> home_;
  std::byte* const base_;
  track::Tracker& tracker_;
  Filler& filler_;
  const media::SelfMemory memory_;
  const pid_t process_ = ::getpid();
  const Plan plan_;
  const u64 part_bytes_;
  const u64 parts_at_once_;
  const u64 soon_at_once_;  ///< one, where whoever needs a part must wait for the others as well
  const u64 parts_ahead_;
  std::vector<std::atomic<u8>> states_;
  std::atomic<u64> remaining_{0};   ///< parts not open yet
  std::atomic<u64> wanted_{kNone};  ///< the part that somebody has asked the background thread for
  std::atomic<u64> ahead_{kNone};   ///< behind a paced one that was touched
  u64 in_order_since_ = 0;          ///< the background thread's: where the program began to
  u64 ahead_until_ = 0;             ///< and how far it was filled ahead of it
  u64 window_;                      ///< parts ahead that are filled, the background thread's
  std::atomic<u64> at_once_{1};     ///< parts ahead that are filled together
  std::atomic<u32> bell_{0};        ///< rung for the background thread
  std::atomic<bool> stopping_{false};
  std::optional<region::FaultWatch> watch_;  ///< where the tracker does not answer faults
  std::thread thread_;
};

}  // namespace perdura::store
