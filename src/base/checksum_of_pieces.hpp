// The checksum of data that come one piece behind the other, each summed while it is in the caches.
#pragma once

#include <cstddef>
#include <memory>

#include "base/bits.hpp"

namespace perdura {

/// Of all pieces together it is what checksum() makes of them at once.
class ChecksumOfPieces {
 public:
  ChecksumOfPieces();
  /// Of other data than before.
  void begin() noexcept;
  void add(const void* piece, size_t length) noexcept;
  u64 sum() const noexcept;

 private:
  struct State;
  struct Free {
    void operator()(State* state) const noexcept;
  };
  std::unique_ptr<State, Free> state_;
};

}  // namespace perdura
