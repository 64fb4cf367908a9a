// Stores to byte-addressable durable memory.
#pragma once

#include <cstddef>

#include "media/medium.hpp"

namespace perdura::media {

/// Copies whole 64 B lines; `destination` is 64-byte aligned, `length` a multiple of 64.
using CopyLines = void (*)(void* destination, const void* source, size_t length);

/// Non-temporal copy with the widest vectors of this processor. Durable after store_fence().
CopyLines nontemporal_copy();

/// Ordinary copy, then a flush of every line with the given instruction; a processor without it
/// uses the next older one. Durable after store_fence().
CopyLines flushing_copy(Flush flush);

/// Orders this thread's non-temporal stores and flushes before its later stores.
void store_fence();

}  // namespace perdura::media
