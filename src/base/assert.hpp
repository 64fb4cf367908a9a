// Assertions about our own mistakes: always on, since a broken invariant must not reach a medium.
#pragma once

namespace perdura {
[[noreturn]] void assertion_failed(const char* expression, const char* file, int line) noexcept;
}

#define PERDURA_ASSERT(expression) \
  ((expression) ? (void)0 : ::perdura::assertion_failed(#expression, __FILE__, __LINE__))
