// Who stores to a region outside of operations (Options::strict): no thread may store to a page
// until one has done so inside an operation, and again from when any thread has left its outermost
// one. The first store to a page after that faults, and the handler looks whether the thread is
// inside. If not, it is noted with where it comes from; the page is opened in either case.
//
//   closed --- a store, inside or not: noted if not ---> open --- some operation ends ---> closed
//
// Not seen is a store outside to a page that an operation under way, of another thread, has opened,
// or another store outside since the last operation ended. Some microseconds for each page that an
// operation stores to; a system call that stores to a closed one fails with EFAULT.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/bits.hpp"
#include "base/result.hpp"
#include "region/faults.hpp"
#include "store/noted_stores.hpp"
#include "track/mutators.hpp"

namespace perdura::store {

class OperationWatch final : public region::FaultHandler, public track::LeaveWatch {
 public:
  /// Of the region [base, base + bytes). While nobody uses the store.
  static Result<std::unique_ptr<OperationWatch>> create(track::Mutators& mutators, std::byte* base,
                                                        u64 bytes);
  /// All is open then. While nobody uses the store.
  ~OperationWatch() override;

  /// A part that is accessible is watched from now on, where there is room for one more.
  void watch(std::byte* address, u64 length) noexcept;

  struct Store {
    const std::byte* address;
    Place place;
  };
  /// Stores outside of operations that were found since this was asked last, one of each place.
  std::vector<Store> take();

  void on_leave() noexcept override;
  bool on_fault(const region::Fault& fault) noexcept override;

 private:
  static constexpr size_t kPartsMax = 4096;
  /// Pages that are open; as many mappings has the region more than without. One instruction stores
  /// to up to 32.
  static constexpr size_t kOpenMax = 64;

  struct Part {
    std::byte* address = nullptr;
    std::atomic<u64> length{0};
  };

  explicit OperationWatch(track::Mutators& mutators)
      : mutators_(mutators), parts_(std::make_unique<Part[]>(kPartsMax)) {}
  bool is_watched(const std::byte* page) const noexcept;
  bool is_inside() const noexcept;
  void note_open(std::byte* page) noexcept;

  track::Mutators& mutators_;
  std::optional<region::FaultWatch> watch_;
  const std::unique_ptr<Part[]> parts_;  ///< one thread at a time adds to them
  std::atomic<size_t> part_count_{0};
  std::array<std::atomic<std::byte*>, kOpenMax> open_{};
  std::atomic<size_t> next_open_{0};  ///< where a page comes that finds no place: in turn
  NotedStores stores_;
  std::mutex mutex_;  ///< of what follows
  u64 taken_ = 0;     ///< as many were noted when all were taken
  std::vector<Place> told_;
};

}  // namespace perdura::store
