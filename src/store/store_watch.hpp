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
  /// Mutators stopped; who stores outside of operations may go on.
  void forget() { begin_.store(count_.load()); }

  bool on_fault(const region::Fault& fault) noexcept override;
  void after_access(std::byte* address) noexcept override;

 private:
  static constexpr size_t kPagesMax = 256;
  static constexpr size_t kStoresMax = 1024;
  /// A store. They are numbered, from 1 on, and the next one takes the place of the one that came
  /// kStoresMax before it: who reads it looks before and after whether it is the one it looks for.
  struct Noted {
    std::atomic<u64> number{0};  ///< 0: somebody writes it
    std::atomic<std::byte*> address{nullptr};
    std::array<std::atomic<const void*>, std::tuple_size_v<Place>> place{};
  };

  StoreWatch() = default;
  bool is_watched(const std::byte* page) const noexcept;
  void note(const region::Fault& fault) noexcept;
  template <class Visit>
  void for_each_noted(Visit&& visit) const;

  std::optional<region::FaultWatch> watch_;
  std::array<std::atomic<std::byte*>, kPagesMax> pages_{};
  std::atomic<size_t> page_count_{0};
  std::atomic<u64> begin_{0};  ///< the last one that was forgotten
  std::atomic<u64> count_{0};  ///< the last one
  std::unique_ptr<Noted[]> noted_;
};

}  // namespace perdura::store
