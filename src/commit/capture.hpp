// Copying a change set to the log.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "log/space.hpp"
#include "log/version_writer.hpp"
#include "region/region.hpp"
#include "track/dirty_map.hpp"
#include "track/mutators.hpp"
#include "track/window.hpp"

namespace perdura::commit {

class PieceStream;

/// Leaves out the lines of page-tracked pages that did not change, by comparing with the home
/// image; gives up for a while where nearly everything changed.
class Trimmer {
 public:
  /// Only while the home image is at the version before the change set.
  Trimmer(media::LinearMedium& medium, const region::HomeMap& home)
      : medium_(medium), home_(home) {}

  /// The lines of `mask` that differ from the home image.
  u64 changed(const std::byte* page_bytes, u64 page, u64 mask);

 private:
  static constexpr u64 kSamplePages = 16;
  static constexpr u64 kSkipPages = 240;

  media::LinearMedium& medium_;
  const region::HomeMap& home_;
  u64 seen_ = 0;
  u64 sampled_lines_ = 0;
  u64 changed_lines_ = 0;
};

/// False when the log failed, which sticks.
bool write_lines(std::span<const u64> numbers, std::span<const std::byte* const> data,
                 log::VersionWriter& writer);

/// Mutators run meanwhile: lines they are about to store to were copied aside (track/window.hpp).
/// The window is closed when this returns, whatever it returns.
Status capture_in_background(const track::DirtyMap& changes, const std::byte* base,
                             track::Window& window, track::Mutators& mutators,
                             log::VersionWriter& writer, const std::function<void()>& close_window,
                             u64* side_copies);

/// Mutators stand still and help: each takes pieces of the change set and has a log writer.
class StoppedCapture final : public track::SharedWork {
 public:
  struct Input {
    const track::DirtyMap* changes;
    const std::byte* base;
    /// Lines to take in this order instead of scanning `changes` (CpNvm's lists); may be empty.
    std::vector<std::pair<const u64*, const u64*>> lists;
    log::VersionInProgress* version;
    media::LinearMedium* medium;                       ///< with `home`: trim unchanged lines
    const region::HomeMap* home;                       ///< or nullptr
    std::function<log::VersionWriter*()> take_writer;  ///< thread-safe
    std::function<void(log::VersionWriter*)> give_writer;
  };
  explicit StoppedCapture(Input input) : input_(std::move(input)) {}

  void help() noexcept override;
  Status status() const { return status_; }

 private:
  static constexpr u64 kGroupsPerPiece = 8;

  bool capture_piece(PieceStream& stream, Trimmer* trimmer, u64 piece);
  bool capture_list(PieceStream& stream, u64 index);
  Status capture_pieces(log::VersionWriter*& writer);
  void fail(Status status);

  Input input_;
  std::atomic<u64> next_piece_{0};
  std::mutex mutex_;
  Status status_;
};

}  // namespace perdura::commit
