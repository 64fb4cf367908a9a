#include "shared_memory.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace demo {

namespace {

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

SharedMemory::SharedMemory(const char* name, std::size_t size) : size_(size) {
  fd_ = memfd_create(name, 0);  // survives exec: the workers need it
  if (fd_ < 0 || ftruncate(fd_, static_cast<off_t>(size)) != 0) fail("shared memory");
  map();
}

SharedMemory::SharedMemory(int fd) : fd_(fd) {
  struct stat status;
  if (fstat(fd, &status) != 0) fail("shared memory of the supervisor");
  size_ = static_cast<std::size_t>(status.st_size);
  map();
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_, size_);
  if (fd_ >= 0) close(fd_);
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      size_(other.size_) {}

void SharedMemory::map() {
  void* mapped = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_, 0);
  if (mapped == MAP_FAILED) fail("mapping shared memory");
  data_ = static_cast<std::byte*>(mapped);
}

}  // namespace demo
