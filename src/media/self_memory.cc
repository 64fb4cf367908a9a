#include "media/self_memory.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace perdura::media {
namespace {

off_t place(const std::byte* address) {
  return static_cast<off_t>(reinterpret_cast<std::uintptr_t>(address));
}

}  // namespace

Result<SelfMemory> SelfMemory::open() {
  UniqueFd fd(::open("/proc/self/mem", O_RDWR | O_CLOEXEC));
  if (fd) return SelfMemory(std::move(fd));
  Failure failure = system_failure(errno, "cannot open /proc/self/mem");
  failure.code = Code::kUnsupported;
  return failure;
}

bool SelfMemory::read(const std::byte* address, MutableBytes into) const noexcept {
  return ::pread(fd_.get(), into.data(), into.size(), place(address)) ==
         static_cast<ssize_t>(into.size());
}

bool SelfMemory::write(std::byte* address, Bytes data) const noexcept {
  return ::pwrite(fd_.get(), data.data(), data.size(), place(address)) ==
         static_cast<ssize_t>(data.size());
}

}  // namespace perdura::media
