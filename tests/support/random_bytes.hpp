// Bytes that look like nothing else, the same for the same seed.
#pragma once

#include <cstring>
#include <random>

#include "base/aligned_buffer.hpp"

namespace perdura::test {

inline AlignedBuffer random_bytes(u64 length, u64 seed) {
  AlignedBuffer bytes(length);
  std::mt19937_64 random(seed);
  for (u64 at = 0; at < length; at += sizeof(u64)) {
    const u64 word = random();
    std::memcpy(bytes.data() + at, &word, sizeof word);
  }
  return bytes;
}

}  // namespace perdura::test
