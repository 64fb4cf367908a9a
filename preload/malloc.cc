// The functions of malloc(3) and its relatives, from the store's heap or from libc.
//
// A call of a served thread takes its mutator away while it lasts: what Perdura itself allocates
// meanwhile, and a signal handler, then find none and go to libc.
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "preload/instrument.hpp"
#include "preload/libc.hpp"

namespace perdura::preload {
namespace {

constexpr size_t kAlignment = 16;

/// An operation of a served thread, around one call to the heap.
class Call {
 public:
  explicit Call(Thread& thread)
      : thread_(thread), mutator_(std::exchange(thread.mutator, nullptr)) {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    detail::enter(*mutator_);
  }
  ~Call() {
    detail::leave(*mutator_);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    thread_.mutator = mutator_;
  }
  Call(const Call&) = delete;
  detail::Mutator& mutator() const { return *mutator_; }

 private:
  Thread& thread_;
  detail::Mutator* const mutator_;
};

/// A call that succeeds leaves errno alone: what calls malloc within libc may be expected to.
class ErrnoKept {
 public:
  ErrnoKept() : place_(errno), value_(place_) {}
  ~ErrnoKept() { place_ = value_; }
  ErrnoKept(const ErrnoKept&) = delete;

 private:
  int& place_;
  const int value_;
};

/// A call came that was not served: so calls do come here.
constinit std::atomic<bool> called{false};

/// Whether `this_thread` has a mutator, and may use it.
inline bool is_served() { return this_thread.mutator != nullptr && opened->heap != nullptr; }

[[noreturn]] void misused(const char* function, const Failure& failure) {
  say(std::string(function) + ": " + failure.message);
  std::abort();
}

// The store or its medium is full: the program need not suffer for that.
__attribute__((noinline)) void refused(const Failure& failure) {
  const InLibrary in_library;
  if (refused_blocks.fetch_add(1, std::memory_order_relaxed) == 0)
    say(failure.message + "; blocks that the store cannot take come from libc");
}

__attribute__((noinline)) void* allocate_slow(size_t size, size_t alignment) {
  const ErrnoKept errno_kept;
  if (!is_served() && !serve_this_thread()) {
    if (!called.load(std::memory_order_relaxed)) called.store(true, std::memory_order_relaxed);
    return nullptr;
  }
  const Result<void*> block = [&] {
    const Call call(this_thread);
    return opened->heap->allocate(call.mutator(), size, alignment);
  }();
  if (block) return *block;
  if (size <= memory.bytes) refused(block.failure());
  return nullptr;
}

/// A block of the heap, or nullptr: then it is libc's turn.
inline void* allocate(size_t size, size_t alignment) {
  if (is_served()) [[likely]] {
    const Call call(this_thread);
    if (void* block = opened->heap->allocate_fast(call.mutator(), size, alignment)) [[likely]]
      return block;
  }
  return allocate_slow(size, alignment);
}

__attribute__((noinline)) void release_slow(void* block) {
  const ErrnoKept errno_kept;
  if (is_served() || serve_this_thread()) {
    const Call call(this_thread);
    const Status freed = opened->heap->deallocate(call.mutator(), block);
    if (!freed) misused("free", freed.failure());
    return;
  }
  // In a child the block is part of a copy, in which nothing is allocated any more.
  if (opened->heap != nullptr) free_later(block);
}

inline void release(void* block) {
  if (is_served()) [[likely]] {
    const Call call(this_thread);
    if (opened->heap->deallocate_fast(call.mutator(), block)) [[likely]]
      return;
  }
  release_slow(block);
}

// Also in a child, whose copy of the heap says as much of the blocks that it inherited.
size_t usable_size(const char* function, const void* block) {
  const auto usable = memory.heap->usable(block);
  if (!usable) misused(function, usable.failure());
  return usable->bytes;
}

// Large blocks are often new, and zero. Finding that out changes nothing, and what does not change
// need not be made durable. Not so with aliases: there a free block may have been cleared in
// memory, and not on the medium.
void clear(std::byte* block, size_t size) {
  for (size_t done = 0; done < size; done += kPageBytes) {
    const size_t length = std::min<size_t>(kPageBytes, size - done);
    if (!is_zero(block + done, length)) std::memset(block + done, 0, length);
  }
}

void* allocate_cleared(size_t count, size_t size) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  void* const block = allocate(bytes, kAlignment);
  if (block == nullptr) return libc().allocate_cleared(count, size);
  if (bytes <= heap::kSmallMax || memory.aliased) std::memset(block, 0, bytes);
  else clear(static_cast<std::byte*>(block), bytes);
  return block;
}

void* allocate_plain(size_t size) {
  void* const block = allocate(size, kAlignment);
  return block != nullptr ? block : libc().allocate(size);
}

void* allocate_aligned(size_t alignment, size_t size) {
  if (std::has_single_bit(alignment))
    if (void* block = allocate(size, std::max(alignment, kAlignment))) return block;
  return libc().allocate_aligned(alignment, size);
}

void* reallocate(void* block, size_t size) {
  if (block == nullptr) return allocate_plain(size);
  if (!memory.holds(block)) return libc().reallocate(block, size);
  if (size == 0) {  // as glibc does
    release(block);
    return nullptr;
  }
  const size_t old = usable_size("realloc", block);
  // Keep the block unless it is too small, or more than twice what is wanted.
  if (size <= old && size * 2 > old) return block;
  void* const moved = allocate_plain(size);
  if (moved == nullptr) return size <= old ? block : nullptr;
  std::memcpy(moved, block, std::min(old, size));
  release(block);
  return moved;
}

size_t page_bytes() { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }

}  // namespace

bool program_calls_us() noexcept {
  // By way of the loader, as the program does.
  void* (*volatile const allocate)(size_t) = ::malloc;
  void (*volatile const release)(void*) = ::free;
  if (!called.load(std::memory_order_relaxed)) release(allocate(1));
  return called.load(std::memory_order_relaxed);
}

}  // namespace perdura::preload

#define PERDURA_EXPORT extern "C" __attribute__((visibility("default")))

namespace preload = perdura::preload;

PERDURA_EXPORT void* malloc(size_t size) { return preload::allocate_plain(size); }

PERDURA_EXPORT __attribute__((flatten)) void free(void* block) {
  if (preload::memory.holds(block)) [[likely]]
    preload::release(block);
  else preload::libc().release(block);
}

PERDURA_EXPORT void* calloc(size_t count, size_t size) {
  return preload::allocate_cleared(count, size);
}

PERDURA_EXPORT void* realloc(void* block, size_t size) { return preload::reallocate(block, size); }

PERDURA_EXPORT void* reallocarray(void* block, size_t count, size_t size) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  return preload::reallocate(block, bytes);
}

PERDURA_EXPORT int posix_memalign(void** block, size_t alignment, size_t size) {
  if (!std::has_single_bit(alignment) || alignment % sizeof(void*) != 0) return EINVAL;
  const int before = errno;
  void* const made = preload::allocate_aligned(alignment, size);
  errno = before;
  if (made == nullptr) return ENOMEM;
  *block = made;
  return 0;
}

PERDURA_EXPORT void* aligned_alloc(size_t alignment, size_t size) {
  return preload::allocate_aligned(alignment, size);
}

PERDURA_EXPORT void* memalign(size_t alignment, size_t size) {
  return preload::allocate_aligned(alignment, size);
}

PERDURA_EXPORT void* valloc(size_t size) {
  return preload::allocate_aligned(preload::page_bytes(), size);
}

PERDURA_EXPORT void* pvalloc(size_t size) {
  const size_t page = preload::page_bytes();
  if (size > SIZE_MAX - page) {
    errno = ENOMEM;
    return nullptr;
  }
  return preload::allocate_aligned(page, (size + page - 1) / page * page);
}

PERDURA_EXPORT size_t malloc_usable_size(void* block) {
  if (block == nullptr) return 0;
  if (preload::memory.holds(block)) return preload::usable_size("malloc_usable_size", block);
  return preload::libc().usable_size(block);
}
