#include "base/checksum_of_pieces.hpp"

#include <new>

#include "base/assert.hpp"

// Chooses AVX-512, AVX2 or SSE2 at run time.
#include <xxh_x86dispatch.h>

namespace perdura {

struct ChecksumOfPieces::State {
  XXH3_state_t* at;
};

void ChecksumOfPieces::Free::operator()(State* state) const noexcept {
  XXH3_freeState(state->at);
  delete state;
}

ChecksumOfPieces::ChecksumOfPieces() : state_(new State{XXH3_createState()}) {
  if (state_->at == nullptr) throw std::bad_alloc();
  begin();
}

void ChecksumOfPieces::begin() noexcept {
  const auto reset = XXH3_64bits_reset(state_->at);
  PERDURA_ASSERT(reset == XXH_OK);
}

void ChecksumOfPieces::add(const void* piece, size_t length) noexcept {
  const auto added = XXH3_64bits_update_dispatch(state_->at, piece, length);
  PERDURA_ASSERT(added == XXH_OK);
}

u64 ChecksumOfPieces::sum() const noexcept { return XXH3_64bits_digest(state_->at); }

}  // namespace perdura
