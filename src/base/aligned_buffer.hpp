// Page-aligned heap memory, for direct I/O.
#pragma once

#include <cstdlib>
#include <memory>
#include <new>
#include <span>

#include "base/bits.hpp"

namespace perdura {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t length)
      : length_(round_up(length, kPageBytes)),
        data_(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, length_))) {
    if (!data_) throw std::bad_alloc();
  }
  std::byte* data() const { return data_.get(); }
  size_t size() const { return length_; }
  std::span<std::byte> span() const { return {data(), size()}; }
  std::span<std::byte> first(size_t length) const { return {data(), length}; }

 private:
  struct Free {
    void operator()(void* block) const { std::free(block); }
  };
  size_t length_ = 0;
  std::unique_ptr<std::byte, Free> data_;
};

}  // namespace perdura
