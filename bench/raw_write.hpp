// The least that making changed bytes durable can cost: what checkpoints are measured against.
#pragma once

#include <string>

#include "measure.hpp"

namespace perdura::bench {

/// Equal pieces of memory at equal distances.
struct Strided {
  std::byte* first = nullptr;
  std::size_t piece_bytes = 0;     ///< a multiple of 64
  std::size_t distance_bytes = 0;  ///< from one piece to the next
  std::size_t count = 0;

  std::size_t bytes() const { return piece_bytes * count; }
};

/// Copy the pieces in address order to contiguous memory with non-temporal stores; one sfence.
void gather_nontemporal(const Strided& from, std::byte* to);

/// A preallocated, already written file, overwritten with O_DIRECT.
class RawFile {
 public:
  RawFile(const std::string& path, std::size_t size);
  ~RawFile();
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;

  /// Write page-aligned memory from the file's start in pieces of 1 MiB, then one fdatasync.
  void overwrite(const std::byte* data, std::size_t size);

 private:
  int fd_;
};

}  // namespace perdura::bench
