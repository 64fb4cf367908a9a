// Gathering lines and summing exactly what was gathered.
#pragma once

#include "media/medium.hpp"
#include "media/nvm.hpp"

namespace perdura::media {

/// Copy lines to a destination in memory, and return checksum() of the bytes copied. Each source
/// byte is read once: should the source change meanwhile, copy and sum still fit each other.
u64 gather_summed(std::byte* destination, const Gather& gather);
/// The same to NVM (64-byte aligned) as `copy` would.
u64 gather_summed(std::byte* destination, const Gather& gather, CopyLines copy);

}  // namespace perdura::media
