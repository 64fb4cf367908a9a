// Stores reported by the program.
//
// Append mode (Tracking::kReported): a report appends address and length to the mutator's buffer
// and nothing else; a first-touch test would mispredict after a cache miss and cost four times as
// much. The cut swaps buffers, and the collector removes duplicates with a bitmap.
//
// Bitmap mode (Tracking::kBitmap): CpNvm §2: test and set the line's bit in a shared bitmap; who
// sets it first appends the line to its thread's list.
#pragma once

#include <functional>

#include "track/tracker.hpp"

namespace perdura::track {

class Reported final : public Tracker, public ReportSink {
 public:
  static Result<std::unique_ptr<Reported>> create(Mutators& mutators, std::byte* region_base,
                                                  u64 region_bytes, Tracking mode,
                                                  u32 granule_bytes);
  ~Reported() override;

  Tracking kind() const override { return mode_; }
  bool can_close() const override { return true; }
  bool is_coarse() const override { return false; }
  Status backed(std::span<const Part>) override { return {}; }
  void collect_ahead() override;
  Status cut() override;
  const DirtyMap& collect() override;
  void settle(bool durable) override;

  /// Bitmap mode. None when a list overflowed and only the bitmap is complete.
  std::vector<Range> lists() const override {
    return mode_ != Tracking::kBitmap || overflowed_cut_ ? std::vector<Range>{} : cut_;
  }
  void on_backlog(std::function<void()> tell) override { tell_backlog_ = std::move(tell); }
  Window* window() override { return &window_; }
  void open_window() override;
  void close_window() override;

  // --- mutators
  void report(MutatorSlot& mutator, const void* address, u64 length) noexcept override;

 private:
  Reported(Mutators& mutators, std::byte* base, u64 bytes, Tracking mode, u32 granule_bytes,
           Window window, DirtyMap a, DirtyMap b);

  template <class Add>
  void fold(Range range, Add&& add) const;
  bool collect_step(MutatorSlot& mutator);
  void report_bits(MutatorSlot& mutator, u64 first, u64 count);
  void fold_full(MutatorSlot& mutator);
  void add_all(Range range, DirtyMap& map) const;

  Mutators& mutators_;
  std::byte* const base_;
  const u64 bytes_;
  const Tracking mode_;
  const unsigned granule_shift_;
  Window window_;
  std::atomic<bool> window_open_{false};
  DirtyMap maps_[2];
  std::function<void()> tell_backlog_;
  std::atomic<u64> cuts_{0};     ///< twice the cuts so far; odd during one
  std::atomic<int> filling_{0};  ///< the map of the running epoch; the other is being captured
  std::vector<Range> cut_;       ///< buffers of the epoch that was cut
  /// Held while reports of the running epoch are moved to its map, which no other thread may do.
  std::mutex collecting_;
  std::atomic<bool> overflowed_{false};
  bool overflowed_cut_ = false;
};

}  // namespace perdura::track
