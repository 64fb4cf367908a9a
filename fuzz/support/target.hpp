// What the fuzz targets share: reading their input, a file in memory, and how a finding ends.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/bits.hpp"
#include "base/unique_fd.hpp"

/// One run of the target over an input; every problem ends the process.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace perdura::fuzz {

constexpr u64 kRegionAddress = 0x552000000000;  ///< of the region of every target

/// End the process where the fuzzer notices, and the replay program fails.
[[noreturn]] inline void finding(const std::string& what) {
  std::fprintf(stderr, "finding: %s\n", what.c_str());
  std::abort();
}

inline void require(bool holds, const char* what) {
  if (!holds) finding(what);
}

/// Bytes taken from the front of an input; zeros when it is used up.
class Input {
 public:
  Input(const std::uint8_t* data, size_t size) : rest_(data, size) {}
  bool empty() const { return rest_.empty(); }
  template <class T>
  T take() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    const size_t length = std::min(sizeof value, rest_.size());
    if (length != 0) std::memcpy(&value, rest_.data(), length);
    rest_ = rest_.subspan(length);
    return value;
  }

 private:
  std::span<const std::uint8_t> rest_;
};

/// An integer of 1, 2, 4 or 8 bytes that an input sets, adds to, changes bits of, or exchanges for
/// one of `values`.
inline void change(std::byte* place, size_t width, u8 how, u64 by, std::span<const u64> values) {
  u64 value = 0;
  std::memcpy(&value, place, width);
  switch (how & 3) {
    case 0:
      value = by;
      break;
    case 1:
      value += by;
      break;
    case 2:
      value ^= by;
      break;
    default:
      value = values[by % values.size()];
      break;
  }
  std::memcpy(place, &value, width);
}

using Bytes = std::vector<std::byte>;

/// A file without a disk behind it, that media open by its path.
class MemoryFile {
 public:
  MemoryFile() : fd_(::memfd_create("perdura-fuzz", MFD_CLOEXEC)) {
    if (!fd_) fail("memfd_create");
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_.get()); }

  void resize(u64 size) {
    if (::ftruncate(fd_.get(), static_cast<off_t>(size)) != 0) fail("ftruncate");
  }
  void write(std::span<const std::byte> bytes) {
    resize(bytes.size());
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t wrote =
          ::pwrite(fd_.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
      if (wrote <= 0) fail("pwrite");
      done += static_cast<size_t>(wrote);
    }
  }
  Bytes read() const {
    Bytes bytes(static_cast<size_t>(::lseek(fd_.get(), 0, SEEK_END)));
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t got =
          ::pread(fd_.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
      if (got <= 0) fail("pread");
      done += static_cast<size_t>(got);
    }
    return bytes;
  }
  bool holds(std::span<const std::byte> bytes) const {
    const Bytes now = read();
    return now.size() == bytes.size() && std::memcmp(now.data(), bytes.data(), now.size()) == 0;
  }

 private:
  [[noreturn]] static void fail(const char* call) {
    std::perror(call);
    std::exit(1);  // the machine's trouble is no finding
  }
  UniqueFd fd_;
};

template <class T>
T load(std::span<const std::byte> bytes, u64 offset) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  require(offset + sizeof value <= bytes.size(), "the target reads inside its image");
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <class T>
void store(std::span<std::byte> bytes, u64 offset, const T& value) {
  require(offset + sizeof value <= bytes.size(), "the target writes inside its image");
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

/// End a store as the death of its process would: nothing more becomes durable.
template <class Owner>
void drop(Owner owner) {
  try {
    const Owner dying = std::move(owner);
    throw 0;  // a store that goes during stack unwinding takes no checkpoint
  } catch (int) {
  }
}

}  // namespace perdura::fuzz
