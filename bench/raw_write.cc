#include "raw_write.hpp"

#include <fcntl.h>
#include <immintrin.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace perdura::bench {
namespace {

/// How far ahead of its copy a line is fetched, as a store's capture does it: the processor by
/// itself fetches nothing of other pages.
constexpr std::size_t kLinesAhead = 64;

std::size_t pieces_ahead(const Strided& from) {
  return std::max<std::size_t>(kLinesAhead * kLineBytes / from.piece_bytes, 1);
}

/// Into the second level: the first one's few buffers are wanted for the stores.
void fetch(const std::byte* line) { __builtin_prefetch(line, 0, 2); }

void copy_line_sse2(const std::byte* from, std::byte* to) {
  for (std::size_t i = 0; i < kLineBytes; i += 16)
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm_load_si128(reinterpret_cast<const __m128i*>(from + i)));
}

// By value: stores through `to` change none of it, and the compiler sees that.
void copy_sse2(const Strided from, std::byte* first_to, std::size_t to_distance) {
  const std::size_t distance = pieces_ahead(from);
  for (std::size_t piece = 0; piece < from.count; ++piece) {
    std::byte* to = first_to + piece * to_distance;
    const std::byte* source = from.first + piece * from.distance_bytes;
    const std::byte* ahead =
        from.first + std::min(piece + distance, from.count - 1) * from.distance_bytes;
    for (std::size_t i = 0; i < from.piece_bytes; i += kLineBytes, to += kLineBytes) {
      fetch(ahead + i);
      copy_line_sse2(source + i, to);
    }
  }
}

__attribute__((target("avx512f"))) void copy_avx512(const Strided from, std::byte* first_to,
                                                    std::size_t to_distance) {
  const std::size_t distance = pieces_ahead(from);
  for (std::size_t piece = 0; piece < from.count; ++piece) {
    std::byte* to = first_to + piece * to_distance;
    const std::byte* source = from.first + piece * from.distance_bytes;
    const std::byte* ahead =
        from.first + std::min(piece + distance, from.count - 1) * from.distance_bytes;
    for (std::size_t i = 0; i < from.piece_bytes; i += kLineBytes, to += kLineBytes) {
      fetch(ahead + i);
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_load_si512(source + i));
    }
  }
}

[[noreturn]] void fail(const char* what, int error = errno) {
  throw std::system_error(error, std::generic_category(), what);
}

}  // namespace

void copy_nontemporal(const Strided& from, std::byte* to, std::size_t to_distance) {
  if (__builtin_cpu_supports("avx512f")) {
    copy_avx512(from, to, to_distance);
  } else {
    copy_sse2(from, to, to_distance);
  }
  _mm_sfence();
}

void gather_nontemporal(const Strided& from, std::byte* to) {
  copy_nontemporal(from, to, from.piece_bytes);
}

RawFile::RawFile(const std::string& path, std::size_t size)
    : fd_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_DIRECT, 0600)) {
  if (fd_ < 0) fail("open for direct writes");
  if (const int error = io_uring_queue_init(kInFlight, &ring_, 0); error != 0)
    fail("io_uring_queue_init", -error);
  if (const int error = posix_fallocate(fd_, 0, static_cast<off_t>(size)); error != 0)
    fail("posix_fallocate", error);
  const Buffer filler(std::min(size, kMiB));
  for (std::size_t done = 0; done < size; done += filler.size())
    if (pwrite(fd_, filler.data(), filler.size(), static_cast<off_t>(done)) < 0) fail("pwrite");
  if (fsync(fd_) != 0) fail("fsync");
}

RawFile::~RawFile() {
  io_uring_queue_exit(&ring_);
  close(fd_);
}

void RawFile::begin(Prepare prepare, std::byte* data, std::size_t size, std::size_t offset) {
  io_uring_sqe* const sqe = io_uring_get_sqe(&ring_);
  prepare(sqe, fd_, data, static_cast<unsigned>(size), offset);
  io_uring_sqe_set_data64(sqe, size);
  if (const int begun = io_uring_submit(&ring_); begun != 1) fail("io_uring_submit", -begun);
}

void RawFile::end() {
  io_uring_cqe* cqe = nullptr;
  if (const int error = io_uring_wait_cqe(&ring_, &cqe); error != 0)
    fail("io_uring_wait_cqe", -error);
  const bool whole = cqe->res >= 0 && static_cast<std::uint64_t>(cqe->res) == cqe->user_data;
  const int error = cqe->res < 0 ? -cqe->res : ENOSPC;
  io_uring_cqe_seen(&ring_, cqe);
  if (!whole) fail("direct read or write", error);
}

void RawFile::transfer(Prepare prepare, std::byte* data, std::size_t size) {
  std::size_t in_flight = 0;
  for (std::size_t offset = 0; offset < size; offset += kRequestBytes, ++in_flight) {
    if (in_flight == kInFlight) {
      end();
      --in_flight;
    }
    begin(prepare, data + offset, std::min(kRequestBytes, size - offset), offset);
  }
  for (; in_flight != 0; --in_flight) end();
}

void RawFile::overwrite(const std::byte* data, std::size_t size) {
  transfer([](io_uring_sqe* sqe, int fd, std::byte* from, unsigned bytes,
              std::size_t offset) { io_uring_prep_write(sqe, fd, from, bytes, offset); },
           const_cast<std::byte*>(data), size);
  if (fdatasync(fd_) != 0) fail("fdatasync");
}

void RawFile::read(std::byte* data, std::size_t size) {
  transfer([](io_uring_sqe* sqe, int fd, std::byte* to, unsigned bytes,
              std::size_t offset) { io_uring_prep_read(sqe, fd, to, bytes, offset); },
           data, size);
}

}  // namespace perdura::bench
