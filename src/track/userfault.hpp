// Page tracking by userfaultfd's asynchronous write protection (Linux 6.7): the first store to a
// page after a cut costs the program a fault inside the kernel, no signal; a scan of the page
// tables finds and re-protects the pages stored to.
#pragma once

#include "base/unique_fd.hpp"
#include "track/tracker.hpp"

namespace perdura::track {

/// Of userfaultfd (Linux 6.4): a page that nobody touched can be protected. Debian 12's kernel
/// headers are older.
constexpr u64 kFeatureWpUnpopulated = 1 << 13;

// Shared with the SIGBUS tracker.
Result<UniqueFd> open_userfault();
Status register_write_protect(int userfault, void* address, u64 length);
/// kUnsupported, with errno's text.
Failure userfault_unsupported(const char* what);

class Userfault final : public Tracker {
 public:
  /// kUnsupported with the reason where the kernel or a sandbox refuses.
  static Result<std::unique_ptr<Userfault>> create(std::byte* region_base, u64 region_bytes,
                                                   Memory memory = Memory::kPrivate);

  Tracking kind() const override { return Tracking::kUserfault; }
  bool can_close() const override { return true; }
  bool is_coarse() const override { return true; }
  Status backed(std::span<const Part> parts) override;
  Status add_changes(DirtyMap& into) override;
  Status cut() override;
  const DirtyMap& collect() override { return map_; }
  void settle(bool durable) override;
  Status after_fill(std::byte* address, u64 length) override;

 private:
  Userfault(std::byte* base, Memory memory, UniqueFd userfault, UniqueFd pagemap, DirtyMap map)
      : base_(base),
        memory_(memory),
        userfault_(std::move(userfault)),
        pagemap_(std::move(pagemap)),
        map_(std::move(map)) {}

  static Status self_test(int userfault, int pagemap, Memory memory);
  /// All of its pages are protected when it is backed.
  bool is_exact(const Part& part) const { return part.anonymous || memory_ != Memory::kPrivate; }
  Status protect(const Part& part);
  template <class Found>
  Status scan(const Part& part, bool protect, Found&& found);

  std::byte* const base_;
  const Memory memory_;
  UniqueFd userfault_;
  UniqueFd pagemap_;
  DirtyMap map_;  ///< of the cut epoch; kept, and added to, while versions fail
  std::mutex mutex_;
  std::vector<Part> parts_;
};

}  // namespace perdura::track
