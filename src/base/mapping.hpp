// An anonymous or reserved range of address space with one owner.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <utility>

#include "base/result.hpp"

namespace perdura {

class Mapping {
 public:
  Mapping() = default;
  Mapping(void* data, size_t length) : data_(data), length_(length) {}
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), length_(std::exchange(other.length_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    if (this != &other) {
      reset();
      data_ = std::exchange(other.data_, nullptr);
      length_ = std::exchange(other.length_, 0);
    }
    return *this;
  }
  ~Mapping() { reset(); }

  /// Zeroed memory that takes up RAM only where it is touched.
  static Result<Mapping> anonymous(size_t length);
  /// The same at a multiple of `alignment`.
  static Result<Mapping> aligned(size_t length, size_t alignment);
  /// Inaccessible address space to be filled with MAP_FIXED. At `address` exactly, or anywhere
  /// when it is null.
  static Result<Mapping> reserve(void* address, size_t length);

  template <class T = std::byte>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t length() const { return length_; }
  explicit operator bool() const { return data_ != nullptr; }
  /// The range belongs to somebody else from now on.
  void release() { data_ = nullptr; }
  void reset() {
    if (data_ != nullptr) ::munmap(data_, length_);
    data_ = nullptr;
    length_ = 0;
  }

 private:
  void* data_ = nullptr;
  size_t length_ = 0;
};

/// mmap over [address, address + length) of memory that forked children have nothing of, nor do
/// those that another thread forks meanwhile. On failure MAP_FAILED, and errno.
void* map_without_children(void* address, size_t length, int access, int flags, int fd,
                           off_t offset) noexcept;

/// Gives private memory its pages, before an access would: where there are none that would end the
/// program. False: they are refused. An older system (before Linux 5.14) takes them with the
/// accesses.
bool populate(void* begin, size_t length) noexcept;

/// What /proc/self/maps says of [begin, end): the first mapping that overlaps it, or "".
std::string mapping_at(const void* begin, const void* end);

/// Whether madvise(MADV_HUGEPAGE) can do anything on this system.
bool huge_pages_available();

/// True when the process runs under Valgrind, which cannot reserve terabytes.
bool running_under_valgrind();

}  // namespace perdura
