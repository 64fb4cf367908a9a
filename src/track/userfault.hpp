// Page tracking by userfaultfd's asynchronous write protection (Linux 6.7): the first store to a
// page after a cut costs the program a fault inside the kernel, no signal; a scan of the page
// tables finds and re-protects the pages stored to.
//
// A view of a file tells by itself which of its pages were stored to first: the system has copied
// them. So a unit of it is not watched until a cut finds that anything in it was touched. Until
// then the system maps many of its pages at once for one access, which it does for no page that is
// watched; and a unit that nobody touched needs no page tables. From the cut on all pages of the
// unit are protected, also those that nobody touched: the kernel finds what changed among such
// pages in a tenth of the time.
#pragma once

#include <atomic>

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
  /// How far a unit of a view is watched.
  enum class Watch : u8 {
    kNot,
    kFilled,  ///< what was filled in is protected, the other pages may not be
    kAll,     ///< all pages were protected: those that are not now were stored to
  };
  /// A private view of a file, in units of a power of two. Its neighbours are watched or not, and
  /// the system limits how many mappings a process has: hence the units of a large one are large.
  struct View {
    std::byte* begin;
    std::byte* end;
    u64 unit_bytes;
    std::unique_ptr<std::atomic<Watch>[]> units;

    size_t unit_of(const std::byte* address) const {
      return static_cast<u64>(address - begin) / unit_bytes;
    }
    size_t unit_count() const { return unit_of(end - 1) + 1; }
    Part units_from(size_t first, size_t last) const;
  };

  Userfault(std::byte* base, Memory memory, UniqueFd userfault, UniqueFd pagemap, DirtyMap map)
      : base_(base),
        memory_(memory),
        userfault_(std::move(userfault)),
        pagemap_(std::move(pagemap)),
        map_(std::move(map)) {}

  static Status self_test(int userfault, int pagemap, Memory memory);
  bool watch(View& view, size_t first, size_t last);
  template <class Found>
  Status scan(bool ends_epoch, Found&& found);
  template <class Found>
  Status scan_view(View& view, bool ends_epoch, Found&& found);
  template <class Found>
  Status scan_unwatched(View& view, size_t first, size_t last, bool ends_epoch, Found&& found);
  template <class Found>
  Status scan_filled(View& view, size_t first, size_t last, bool ends_epoch, Found&& found);

  std::byte* const base_;
  const Memory memory_;
  UniqueFd userfault_;
  UniqueFd pagemap_;
  DirtyMap map_;  ///< of the cut epoch; kept, and added to, while versions fail
  std::mutex mutex_;
  std::vector<Part> parts_;  ///< all of whose pages were protected when they were backed
  std::vector<View> views_;  ///< that were there at the opening; the others are parts
};

}  // namespace perdura::track
