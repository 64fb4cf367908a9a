// Copying a page to NVM and summing exactly what was copied.
#pragma once

#include "base/bits.hpp"
#include "media/nvm.hpp"

namespace perdura::media {

/// Copy one page (64-byte aligned destination) as `copy` would, and return checksum() of the bytes
/// copied. Each source byte is read once: should the source change meanwhile, copy and sum still
/// fit each other.
u64 copy_page_summed(void* destination, const void* page, CopyLines copy);

}  // namespace perdura::media
