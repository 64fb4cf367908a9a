// Page tracking by faults that the library answers: the fallbacks for kernels without asynchronous
// write protection.
//
//   kProtect  mprotect: a store to a read-only chunk raises SIGSEGV
//   kSigbus   userfaultfd write protection: a store raises SIGBUS; the mapping stays writable, so
//             ranges need no entries in the kernel's map of the process
//
// The first fault opens a chunk of 64 KiB or what the options say, or one page of an alias; with
// mprotect, the more faults an epoch has had, the more each one opens, so that the number of
// separate ranges stays far below the kernel's limit (vm.max_map_count).
#pragma once

#include "base/unique_fd.hpp"
#include "region/faults.hpp"
#include "track/tracker.hpp"

namespace perdura::track {

class ProtectedPages final : public Tracker, public region::FaultHandler {
 public:
  /// What the first fault opens of private memory, unless the options say otherwise.
  static constexpr u64 kFirstChunkBytes = 64 * kKiB;

  /// `mode` is kProtect or kSigbus. kUnsupported where the kernel refuses: for kSigbus it must be
  /// able to protect anonymous pages that nobody touched (Linux 6.4).
  static Result<std::unique_ptr<ProtectedPages>> create(std::byte* region_base, u64 region_bytes,
                                                        Tracking mode,
                                                        Memory memory = Memory::kPrivate,
                                                        u64 chunk_bytes = kFirstChunkBytes);

  Tracking kind() const override { return mode_; }
  void set_guard(StoreGuard* guard) override { guard_.store(guard); }
  bool is_coarse() const override { return true; }
  Status backed(std::span<const Part> parts) override;
  bool can_close() const override { return memory_ != Memory::kShared; }
  Status before_fill(std::byte* address, u64 length) override;
  Status after_fill(std::byte* address, u64 length) override;
  int protection() const override;
  bool set_closed(ClosedParts* parts) override;
  void before_stores(std::byte* address, u64 length) override;
  Status add_changes(DirtyMap& into) override;
  Status cut() override;
  const DirtyMap& collect() override { return maps_[filling_ ^ 1]; }
  void settle(bool durable) override;

  bool on_fault(const region::Fault& fault) noexcept override;

 private:
  static constexpr u64 kChunkBytesMax = 64 * kMiB;
  static constexpr u64 kFaultsPerDoubling = 1024;
  static constexpr size_t kPartsMax = 4096;
  static constexpr u64 kRangesMax = 1024;

  // Written under mutex_, read by signal handlers up to part_count_. A part grows where the region
  // does, so that there are a few for each alias.
  struct Listed {
    std::byte* address = nullptr;
    std::atomic<u64> length{0};
  };

  ProtectedPages(std::byte* base, Tracking mode, Memory memory, u64 chunk_bytes, UniqueFd userfault,
                 DirtyMap a, DirtyMap b);
  u64 chunk_bytes(u64 faults) const noexcept;
  /// Calls open(map) with the map of the running epoch, which a cut waits for.
  template <class Open>
  bool in_epoch(const Open& open) noexcept;
  /// [begin, end) as far as it is in the part that holds `address`. False where no part does, or
  /// the system refuses.
  bool mark_and_open(const std::byte* address, std::byte* begin, std::byte* end,
                     DirtyMap& map) noexcept;
  Status protect(std::byte* address, u64 length) const;
  Status protect_opened(const DirtyMap& map) const;
  void list(const Part& part);
  /// Let stores through; the guard is told before.
  bool open(std::byte* address, u64 length) const noexcept;
  /// On failure the reason is in errno.
  bool set_protected(std::byte* address, u64 length, bool on) const noexcept;

  std::byte* const base_;
  const Tracking mode_;
  const Memory memory_;
  /// Smaller than the cost of a signal suggests where aliases are to tell parts of pages apart.
  const u64 first_chunk_bytes_;
  UniqueFd userfault_;
  DirtyMap maps_[2];
  std::atomic<int> filling_{0};
  /// Faults that are being answered, by the map that they mark. Stores outside of operations fault
  /// at any time: a cut waits for those of its epoch, or they would open what it has protected.
  std::atomic<int> answering_[2]{};
  std::atomic<u64> faults_{0};
  std::atomic<StoreGuard*> guard_{nullptr};
  std::atomic<ClosedParts*> closed_{nullptr};
  std::mutex mutex_;
  std::unique_ptr<Listed[]> parts_;
  std::atomic<size_t> part_count_{0};
  std::optional<region::FaultWatch> watch_;
};

}  // namespace perdura::track
