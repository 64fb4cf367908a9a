// Who stores to some lines of a region: their pages are closed, each store to them faults, is noted
// with where it comes from, is let through, and the page is closed again behind it. Some
// microseconds a store to such a page, for debugging; a system call that stores there fails.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "base/bits.hpp"
#include "region/faults.hpp"
#include "store/noted_stores.hpp"

namespace perdura::store {

class StoreWatch final : public region::FaultHandler {
 public:
  static Result<std::unique_ptr<StoreWatch>> create(std::byte* base, u64 bytes);
  ~StoreWatch() override;

  /// Mutators stopped. From now on stores to the line are noted, until there are too many.
  void watch(const std::byte* line);
  /// Mutators stopped. Where stores to the line came from since the last forget().
  std::vector<Place> stores_to(const std::byte* line) const;
  /// Mutators stopped; who stores outside of operations may go on.
  void forget() { stores_.forget(); }

  bool on_fault(const region::Fault& fault) noexcept override;
  void after_access(std::byte* address) noexcept override;

 private:
  static constexpr size_t kPagesMax = 256;

  StoreWatch() = default;
  bool is_watched(const std::byte* page) const noexcept;

  std::optional<region::FaultWatch> watch_;
  std::array<std::atomic<std::byte*>, kPagesMax> pages_{};
  std::atomic<size_t> page_count_{0};
  NotedStores stores_;
};

}  // namespace perdura::store
