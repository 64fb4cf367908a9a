// A decorator that tells the regions of a medium when it was very slow.
#pragma once

#include <memory>

#include "base/events.hpp"
#include "media/medium.hpp"

namespace perdura::media {

/// A write, a barrier or a wait for writes of this time is told (EventKind::kMediumSlow).
constexpr u64 kSlowNs = 1'000'000'000;

/// The medium, watched. Not one that is addressed by bytes, whose writes are over when their
/// instructions are, and would take longer for being watched.
std::unique_ptr<Medium> tell_when_slow(std::unique_ptr<Medium> medium,
                                       std::shared_ptr<EventHub> told);

}  // namespace perdura::media
