// The checksum of data that come one piece behind the other, each summed while it is in the caches.
#pragma once

#include <cstddef>
#include <memory>

#include "base/bits.hpp"

struct XXH3_state_s;

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
  struct Free {
    void operator()(XXH3_state_s* state) const noexcept;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

}  // namespace perdura
