// Changed pages on their way to the older copy of a region: on NVM their changed lines, on block
// media the whole of them.
//
// Several threads write a version, each with a writer and with pages of its own. Where changes are
// scattered the time goes into waiting for lines, for what the newest copy has in their place, and
// for checksums; so all that is fetched some pages ahead.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "commit/capture.hpp"
#include "commit/copies.hpp"
#include "commit/home_guard.hpp"
#include "commit/pages_ahead.hpp"
#include "commit/snapshot.hpp"
#include "commit/write_buffers.hpp"

namespace perdura::commit {

/// What the writers of a version have in common.
struct CopyVersion {
  Copies* copies = nullptr;
  const HomeGuard* guard = nullptr;
  const region::HomeMap* newest = nullptr;  ///< where the version before is
  const region::HomeMap* older = nullptr;   ///< where this one goes
  track::DirtyMap* lacking = nullptr;       ///< in what that may be unlike the newest one
  track::DirtyMap* changed = nullptr;
  bool compare = false;  ///< on NVM: leave out lines that are as the version before has them
};

class CopyWriter final : public PageSink {
 public:
  /// `buffers`: of block media, all that is written there goes through them; else nullptr.
  CopyWriter(media::LinearMedium& medium, WriteBuffers* buffers);

  void begin(const CopyVersion& version);
  void fetch(u64 page, u64 mask) noexcept override;
  Status take(u64 page, u64 mask, const std::byte* bytes) override;
  Status take_again(u64 page, const std::byte* bytes) override;
  /// All that this thread has given to it is written.
  Status drain();
  void abandon() noexcept;

  /// Bytes of lines that were written since it was asked last.
  u64 take_bytes() { return std::exchange(bytes_, 0); }
  /// Checksums are what they were when the version was begun.
  void undo_sums() noexcept;

 private:
  const format::Extent& extent(const region::HomeMap& copy, const format::Extent*& last, u64 page);
  void change_sum(u64 page, u64 sum);
  Status write_page(u64 page, const std::byte* bytes);
  Status write_lines(u64 page, u64 mask, const std::byte* bytes);

  media::LinearMedium& medium_;
  WriteBuffers* const buffers_;
  std::unique_ptr<media::WriteQueue> queue_;  ///< NVM
  CopyVersion version_;
  std::optional<Trimmer> trimmer_;
  const format::Extent* newest_ = nullptr;  ///< that held the last page
  const format::Extent* older_ = nullptr;
  struct OldSum {
    u64 page;
    u64 sum;
  };
  std::vector<OldSum> old_sums_;
  u64 bytes_ = 0;
};

/// Mutators stand still and help: each takes pieces of the change set and has a writer.
class StoppedCopy final : public track::SharedWork {
 public:
  struct Input {
    const track::DirtyMap* changes;
    const std::byte* base;
    std::function<CopyWriter*()> take_writer;  ///< thread-safe
  };
  explicit StoppedCopy(Input input) : input_(std::move(input)) {}

  void help() noexcept override;
  Status status() const { return status_; }

 private:
  static constexpr u64 kGroupsPerPiece = 8;

  Status write_pieces(CopyWriter*& writer);

  const Input input_;
  std::atomic<u64> next_piece_{0};
  std::mutex mutex_;
  Status status_;
};

}  // namespace perdura::commit
