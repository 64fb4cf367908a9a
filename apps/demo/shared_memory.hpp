// Memory that the supervisor shares with the workers it starts: an anonymous file whose descriptor
// they inherit. What a worker wrote there is still there when it has been killed.
#pragma once

#include <cstddef>
#include <span>

namespace demo {

class SharedMemory {
 public:
  /// Zeroes. `name` shows up in /proc only.
  SharedMemory(const char* name, std::size_t size);
  /// What the process was given as descriptor `fd`, as large as the creator made it.
  explicit SharedMemory(int fd);
  ~SharedMemory();
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::span<std::byte> bytes() const { return {data_, size_}; }
  int fd() const { return fd_; }

 private:
  void map();

  int fd_ = -1;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace demo
