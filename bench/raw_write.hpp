// The least that making changed bytes durable can cost: what checkpoints are measured against.
#pragma once

#include <liburing.h>

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

/// Copy the pieces in address order with non-temporal stores, fetching them ahead; one sfence. The
/// first one goes to `to`, each other one so many bytes behind the one before.
void copy_nontemporal(const Strided& from, std::byte* to, std::size_t to_distance);
/// The same to contiguous memory.
void gather_nontemporal(const Strided& from, std::byte* to);

/// A preallocated, already written file, overwritten or read with O_DIRECT, several requests in
/// flight.
class RawFile {
 public:
  /// As many as a store's medium has at most, each as large as a block of its log.
  static constexpr unsigned kInFlight = 32;
  static constexpr std::size_t kRequestBytes = 256 * kKiB;

  RawFile(const std::string& path, std::size_t size);
  ~RawFile();
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;

  /// Write page-aligned memory from the file's start, then one fdatasync.
  void overwrite(const std::byte* data, std::size_t size);
  /// Read the file's start into page-aligned memory.
  void read(std::byte* data, std::size_t size);

 private:
  using Prepare = void (*)(io_uring_sqe*, int fd, std::byte* data, unsigned size,
                           std::size_t offset);

  void transfer(Prepare prepare, std::byte* data, std::size_t size);
  void begin(Prepare prepare, std::byte* data, std::size_t size, std::size_t offset);
  /// Waits for any of them.
  void end();

  int fd_;
  io_uring ring_{};
};

}  // namespace perdura::bench
