// Ignores reports: for the trackers that see stores by themselves.
#pragma once

#include "track/mutators.hpp"

namespace perdura::track {

class IgnoredReports final : public ReportSink {
 public:
  explicit IgnoredReports(Mutators& mutators) : mutators_(mutators) {
    mutators_.gate().report_flags.fetch_or(detail::Gate::kIgnore, std::memory_order_relaxed);
    mutators_.set_sink(this);
  }
  ~IgnoredReports() override { mutators_.set_sink(nullptr); }
  void report(MutatorSlot&, const void*, u64) noexcept override {}
  void buffer_full(MutatorSlot& mutator) noexcept override {
    mutator.cursor = mutator.buffer(mutator.filling);
  }

 private:
  Mutators& mutators_;
};

}  // namespace perdura::track
