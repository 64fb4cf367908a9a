// Writing to parts of this process's own memory that it has closed to itself.
//
// It is no medium, but it uses the system call that writes files, and the rule that durable bytes
// are written in this folder alone is kept by looking for such calls.
#pragma once

#include "base/unique_fd.hpp"
#include "media/medium.hpp"

namespace perdura::media {

class SelfMemory {
 public:
  /// kUnsupported where the system has no /proc/self/mem.
  static Result<SelfMemory> open();
  /// Async-signal-safe. False when the range is not mapped.
  bool read(const std::byte* address, MutableBytes into) const noexcept;
  bool write(std::byte* address, Bytes data) const noexcept;

 private:
  explicit SelfMemory(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace perdura::media
