#include "raw_write.hpp"

#include <fcntl.h>
#include <immintrin.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

namespace perdura::bench {
namespace {

void copy_line_sse2(const std::byte* from, std::byte* to) {
  for (std::size_t i = 0; i < kLineBytes; i += 16)
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm_load_si128(reinterpret_cast<const __m128i*>(from + i)));
}

void gather_sse2(const Strided& from, std::byte* to) {
  for (std::size_t piece = 0; piece < from.count; ++piece) {
    const std::byte* source = from.first + piece * from.distance_bytes;
    for (std::size_t i = 0; i < from.piece_bytes; i += kLineBytes, to += kLineBytes)
      copy_line_sse2(source + i, to);
  }
}

__attribute__((target("avx512f"))) void gather_avx512(const Strided& from, std::byte* to) {
  for (std::size_t piece = 0; piece < from.count; ++piece) {
    const std::byte* source = from.first + piece * from.distance_bytes;
    for (std::size_t i = 0; i < from.piece_bytes; i += kLineBytes, to += kLineBytes)
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_load_si512(source + i));
  }
}

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

void gather_nontemporal(const Strided& from, std::byte* to) {
  if (__builtin_cpu_supports("avx512f")) {
    gather_avx512(from, to);
  } else {
    gather_sse2(from, to);
  }
  _mm_sfence();
}

RawFile::RawFile(const std::string& path, std::size_t size)
    : fd_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_DIRECT, 0600)) {
  if (fd_ < 0) fail("open for direct writes");
  if (posix_fallocate(fd_, 0, static_cast<off_t>(size)) != 0) fail("posix_fallocate");
  const Buffer filler(std::min(size, kMiB));
  for (std::size_t done = 0; done < size; done += filler.size())
    if (pwrite(fd_, filler.data(), filler.size(), static_cast<off_t>(done)) < 0) fail("pwrite");
  if (fsync(fd_) != 0) fail("fsync");
}

RawFile::~RawFile() { close(fd_); }

void RawFile::overwrite(const std::byte* data, std::size_t size) {
  for (std::size_t done = 0; done < size; done += kMiB) {
    const std::size_t piece = std::min(kMiB, size - done);
    if (pwrite(fd_, data + done, piece, static_cast<off_t>(done)) != static_cast<ssize_t>(piece))
      fail("pwrite");
  }
  if (fdatasync(fd_) != 0) fail("fdatasync");
}

}  // namespace perdura::bench
