#include "base/mapping.hpp"

#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <sstream>

#include "base/process.hpp"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace perdura {

Result<Mapping> Mapping::anonymous(size_t length) {
  void* data = ::mmap(nullptr, length, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED)
    return system_failure(errno, "cannot map " + std::to_string(length) + " bytes of memory");
  return Mapping(data, length);
}

Result<Mapping> Mapping::aligned(size_t length, size_t alignment) {
  PERDURA_ASSIGN(Mapping whole, anonymous(length + alignment));
  auto* const begin = whole.as();
  auto* const end = begin + whole.length();
  const size_t before = -reinterpret_cast<std::uintptr_t>(begin) % alignment;
  whole.release();
  if (before != 0) ::munmap(begin, before);
  if (begin + before + length != end) ::munmap(begin + before + length, alignment - before);
  return Mapping(begin + before, length);
}

Result<Mapping> Mapping::reserve(void* address, size_t length) {
  const int fixed = address != nullptr ? MAP_FIXED_NOREPLACE : 0;
  void* data = ::mmap(address, length, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0);
  // Kernels before 4.17 and Valgrind take the flag as a hint; MemorySanitizer has returned null.
  if (data == MAP_FAILED || data == nullptr || (address != nullptr && data != address)) {
    const int error_number = data == MAP_FAILED ? errno : EEXIST;
    if (data != MAP_FAILED && data != nullptr) ::munmap(data, length);
    if (address == nullptr || error_number != EEXIST)
      return system_failure(error_number,
                            "cannot reserve " + std::to_string(length) + " bytes of address space");
    char text[128];
    std::snprintf(text, sizeof text, "the address range %p-%p is taken by ", address,
                  static_cast<void*>(static_cast<char*>(address) + length));
    return Failure{Code::kAddressTaken,
                   text + mapping_at(address, static_cast<char*>(address) + length) +
                       "; open the store before that mapping is made, or in a process without it"};
  }
  return Mapping(data, length);
}

void* map_without_children(void* address, size_t length, int access, int flags, int fd,
                           off_t offset) noexcept {
  std::lock_guard no_fork(process_mutex(ProcessMutex::kMappings));
  void* const mapped = ::mmap(address, length, access, flags | MAP_FIXED, fd, offset);
  if (mapped != MAP_FAILED) ::madvise(mapped, length, MADV_DONTFORK);
  return mapped;
}

bool populate(void* begin, size_t length) noexcept {
  return ::madvise(begin, length, MADV_POPULATE_WRITE) == 0 || errno == EINVAL;
}

std::string mapping_at(const void* begin, const void* end) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64, &first, &last) != 2) continue;
    if (first < reinterpret_cast<std::uintptr_t>(end) &&
        last > reinterpret_cast<std::uintptr_t>(begin))
      return "'" + line + "'";
  }
  return "another mapping";
}

bool huge_pages_available() {
  std::ifstream setting("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string text;
  return std::getline(setting, text) && text.find("[never]") == std::string::npos;
}

bool running_under_valgrind() {
  const char* preload = std::getenv("LD_PRELOAD");
  return preload != nullptr && (std::strstr(preload, "/valgrind/") != nullptr ||
                                std::strstr(preload, "/vgpreload") != nullptr);
}

}  // namespace perdura
