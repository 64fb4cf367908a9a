// libc's own malloc and its relatives, found in libc itself.
//
// A reference by name, `__libc_malloc` as well as `malloc`, is bound to whatever the program or
// another library puts in front of libc: jemalloc, tcmalloc, an allocator of the program's own.
// What Perdura needs for itself must not go there: such an allocator may not be ready before
// `main`, may be what is calling us, and is free to give out blocks that libc cannot take back.
#pragma once

#include <cstddef>

namespace perdura::preload {

struct Libc {
  void* (*allocate)(size_t size);
  void* (*allocate_cleared)(size_t count, size_t size);
  void* (*reallocate)(void* block, size_t size);
  void* (*allocate_aligned)(size_t alignment, size_t size);
  void (*release)(void* block);
  size_t (*usable_size)(void* block);
};

/// Can be called from the loader's first call of malloc on, and in signal handlers afterwards.
const Libc& libc() noexcept;

}  // namespace perdura::preload
