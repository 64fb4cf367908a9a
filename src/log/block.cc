#include "log/block.hpp"

#include "base/checksum.hpp"

namespace perdura::log {

u64 header_checksum(const format::LogBlockHeader& header) {
  return checksum(reinterpret_cast<const std::byte*>(&header) + sizeof header.checksum,
                  sizeof header - sizeof header.checksum);
}

}  // namespace perdura::log
