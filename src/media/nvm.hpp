// Stores to byte-addressable durable memory.
#pragma once

#include <cstddef>

#include "media/medium.hpp"

namespace perdura::media {

/// Copies whole 64 B lines; `destination` is 64-byte aligned, `length` a multiple of 64.
using CopyLines = void (*)(void* destination, const void* source, size_t length);

/// Instructions that a processor may lack.
struct Processor {
  bool avx512f = false;
  bool avx2 = false;
  bool clwb = false;
  bool clflushopt = false;
};
Processor this_processor();

/// Non-temporal copy with the widest vectors. Durable after store_fence().
CopyLines nontemporal_copy(const Processor& processor = this_processor());

/// What a non-temporal copy stores with: k512 and k256 bits at once; kOther: less, or it is another
/// copy.
enum class Vectors : u8 { kOther, k256, k512 };
Vectors vectors_of(CopyLines copy);

/// Ordinary copy, then a flush of every line with the given instruction; a processor without it
/// uses the next older one. Durable after store_fence().
CopyLines flushing_copy(Flush flush, const Processor& processor = this_processor());

/// Writes back whole lines that are in the caches, whoever stored to them.
using FlushLines = void (*)(const void* lines, size_t length);
/// With the given instruction, as flushing_copy() chooses it; by clwb in place of none. Durable
/// after store_fence().
FlushLines flush_of(Flush flush, const Processor& processor = this_processor());

/// Orders this thread's non-temporal stores and flushes before its later stores.
void store_fence();

}  // namespace perdura::media
