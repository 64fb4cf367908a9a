#include "base/assert.hpp"

#include <cstdio>
#include <cstdlib>

namespace perdura {

void assertion_failed(const char* expression, const char* file, int line) noexcept {
  std::fprintf(stderr, "perdura: internal error: %s does not hold (%s:%d)\n", expression, file,
               line);
  std::abort();
}

}  // namespace perdura
