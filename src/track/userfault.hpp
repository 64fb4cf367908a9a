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
//
// A unit nearly all of whose pages change in each of several epochs is hot: a fault for each of
// them would tell nothing. It is not protected any more, and all that was stored to in it since
// then counts as changed, but for a sample of its pages, which tells when that is over:
//
//   kNot ──touched──▶ kAll ──mostly changed, kHotAfter times──▶ kHot
//     └─filled─▶ kFilled ──▲ └──────few of the sample changed──────┘
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
  /// How far a unit is watched.
  enum class Watch : u8 {
    kNot,
    kFilled,  ///< what was filled in is protected, the other pages may not be
    kAll,     ///< all pages were protected
    kHot,     ///< of its pages a sample is protected
  };
  struct Unit {
    std::atomic<Watch> watch{Watch::kNot};
    u8 hot_epochs = 0;  ///< one behind the other
    u32 changed = 0;    ///< pages, in the epoch
    u64 sample = 0;     ///< its first page
  };
  /// A part, in units of a power of two. Those of a view are watched or not, and the system limits
  /// how many mappings a process has: hence the units of a large one are large.
  struct Stretch {
    std::byte* begin;
    std::byte* end;
    u64 unit_bytes;
    bool is_view;
    std::unique_ptr<Unit[]> units;

    size_t unit_of(const std::byte* address) const {
      return static_cast<u64>(address - begin) / unit_bytes;
    }
    size_t unit_count() const { return unit_of(end - 1) + 1; }
    Part units_from(size_t first, size_t last) const;
    u64 pages_of(size_t unit) const { return units_from(unit, unit + 1).length / kPageBytes; }
    Part sample_of(size_t unit) const;
    void count_changed(u64 from, u64 to);  ///< addresses of pages
  };

  Userfault(std::byte* base, Memory memory, UniqueFd userfault, UniqueFd pagemap, DirtyMap map)
      : base_(base),
        memory_(memory),
        userfault_(std::move(userfault)),
        pagemap_(std::move(pagemap)),
        map_(std::move(map)) {}

  static Status self_test(int userfault, int pagemap, Memory memory);
  bool is_view(const Part& part) const { return memory_ == Memory::kPrivate && !part.anonymous; }
  Stretch stretch_of(const Part& part) const;
  bool watch(Stretch& view, size_t first, size_t last);
  template <class Found>
  Status scan(bool ends_epoch, Found&& found);
  template <class Found>
  Status scan_stretch(Stretch& stretch, bool ends_epoch, Found&& found);
  template <class Found>
  Status scan_unwatched(Stretch& view, size_t first, size_t last, bool ends_epoch, Found&& found);
  template <class Found>
  Status scan_filled(Stretch& view, size_t first, size_t last, bool ends_epoch, Found&& found);
  template <class Found>
  Status scan_all(Stretch& stretch, size_t first, size_t last, bool ends_epoch, Found&& found);
  template <class Found>
  Status scan_hot(Stretch& stretch, size_t first, size_t last, bool ends_epoch, Found&& found);
  template <class Found>
  Status take_sample(Stretch& stretch, size_t unit, Found&& found);
  template <class Found>
  Status scan_changed(const Stretch& stretch, const Part& part, bool protect, Found&& found);
  template <class Found>
  Status scan_stored(const Part& part, bool protect, Found&& found);
  void note_heat(Stretch& stretch, size_t unit) const;

  std::byte* const base_;
  const Memory memory_;
  UniqueFd userfault_;
  UniqueFd pagemap_;
  DirtyMap map_;  ///< of the cut epoch; kept, and added to, while versions fail
  std::mutex mutex_;
  std::vector<Stretch> views_;  ///< all were there at the opening: those who fill look at them
  std::vector<Stretch> parts_;  ///< the others
};

}  // namespace perdura::track
