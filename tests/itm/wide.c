/* Compiled for processors with AVX. */
#include "transactions.h"

void itm_copy_wide(void* to, const void* from) {
  __m256* const target = to;
  const __m256* const source = from;
  __transaction_atomic {
    *target = *source;
    *target = _mm256_add_ps(*target, *target);
  }
}
