// Who stores to some lines of a region: their pages are closed, each store to them faults, is noted
// with where it comes from, is let through, and the page is closed again behind it. Some
// microseconds a store to such a page, for debugging; a system call that stores there fails.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bits.hpp"
#include "region/faults.hpp"

namespace perdura::store {

/// Where a thread was: the instruction, and what called its function, and so on; then zeros.
using Place = std::array<const void*, 12>;

/// "fill (records.cc:12), called by main (main.cc:40)": the innermost function that is not a
/// library of the system's, and what that calls. From debug information where there is any, which
/// addr2line of the binutils reads; else modules and offsets in them.
std::string describe(const Place& place);

class StoreWatch final : public region::FaultHandler {
 public:
  static Result<std::unique_ptr<StoreWatch>> create(std::byte* base, u64 bytes);
  ~StoreWatch() override;

  /// Mutators stopped. From now on stores to the line are noted, until there are too many.
  void watch(const std::byte* line);
  /// Mutators stopped. Where stores to the line came from since the last forget().
  std::vector<Place> stores_to(const std::byte* line) const;
  /// Mutators stopped.
  void forget() { count_.store(0, std::memory_order_relaxed); }

  bool on_fault(const region::Fault& fault) noexcept override;
  void after_access(std::byte* address) noexcept override;

 private:
  static constexpr size_t kPagesMax = 256;
  static constexpr size_t kStoresMax = 1024;
  struct Noted {
    std::byte* address;
    Place place;
    std::atomic<bool> is_whole{false};
  };

  StoreWatch() = default;
  bool is_watched(const std::byte* page) const noexcept;
  void note(const region::Fault& fault) noexcept;

  std::optional<region::FaultWatch> watch_;
  std::array<std::atomic<std::byte*>, kPagesMax> pages_{};
  std::atomic<size_t> page_count_{0};
  std::atomic<size_t> count_{0};
  std::unique_ptr<Noted[]> noted_;
};

}  // namespace perdura::store
