// What the benchmark `unmodified` reports of whole programs, which know nothing of it.
#pragma once

#include "harness.hpp"

namespace perdura::bench {

/// The demonstration (apps/demo): what its index costs on a file, found by page, and compiled.
void report_demo(Context& context);

/// Loads of malloc(3) (malloc/*.c) on libperdura_malloc.so ÷ on glibc's heap.
void report_malloc(Context& context);

}  // namespace perdura::bench
