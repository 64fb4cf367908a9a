#include "base/checksum_of_pieces.hpp"

#include <new>

#include "base/assert.hpp"

// Chooses AVX-512, AVX2 or SSE2 at run time.
#include <xxh_x86dispatch.h>

namespace perdura {

void ChecksumOfPieces::Free::operator()(XXH3_state_s* state) const noexcept {
  XXH3_freeState(state);
}

ChecksumOfPieces::ChecksumOfPieces() : state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  begin();
}

void ChecksumOfPieces::begin() noexcept {
  const auto reset = XXH3_64bits_reset(state_.get());
  PERDURA_ASSERT(reset == XXH_OK);
}

void ChecksumOfPieces::add(const void* piece, size_t length) noexcept {
  const auto added = XXH3_64bits_update_dispatch(state_.get(), piece, length);
  PERDURA_ASSERT(added == XXH_OK);
}

u64 ChecksumOfPieces::sum() const noexcept { return XXH3_64bits_digest(state_.get()); }

}  // namespace perdura
