// The store under a program's malloc, and which calls it serves.
//
// A call is served by the heap of the store when
//  - the store is open, and this process opened it: what says so is in memory that every kind of
//    fork wipes, so that a child, whose heap is a copy, never allocates from it;
//  - it comes from the program. What Perdura needs for itself while it serves a call, and in its
//    own threads, comes from libc, and so does what a thread wants after its end has begun.
// Everything else is libc's. To whom a block goes back is seen by its address.
#pragma once

#include <atomic>

#include <perdura/detail/mutator.hpp>

#include "base/bits.hpp"
#include "base/result.hpp"
#include "heap/heap.hpp"

namespace perdura::detail {
class Runtime;
}

namespace perdura::preload {

class Sampler;

enum class Phase : u8 {
  kUnknown,  ///< a thread of the program that has not called yet
  kServed,   ///< its mutator is in `mutator`, except while one of its calls is under way
  kEnded,    ///< another thread may have its mutator
  kLibrary,  ///< a thread of Perdura, or one of the program that opens the store
};
struct Thread {
  detail::Mutator* mutator = nullptr;
  Phase phase = Phase::kUnknown;
};
inline constinit thread_local Thread this_thread;

/// Of the process that opened the store; all null in its children.
struct Opened {
  heap::Heap* heap = nullptr;
  detail::Runtime* runtime = nullptr;
};
inline constexpr Opened kNothingOpened;
inline constinit const Opened* opened = &kNothingOpened;

/// The store's memory; a child has a copy of it.
struct Memory {
  std::byte* base = nullptr;
  u64 bytes = 0;
  const heap::Heap* heap = nullptr;
  bool aliased = false;

  bool holds(const void* address) const {
    return static_cast<u64>(static_cast<const std::byte*>(address) - base) < bytes;
  }
};
inline constinit Memory memory;

/// Between checkpoints of a program that polls; 0: it gets none.
inline constinit u64 poll_interval_ns = 0;

/// Blocks that came from libc because the store could not take more.
inline constinit std::atomic<u64> refused_blocks{0};

/// Or nullptr: checkpoints are taken.
inline constinit Sampler* sampler = nullptr;

/// This thread is Perdura's for a while.
class InLibrary {
 public:
  InLibrary() : before_(this_thread) { this_thread = {nullptr, Phase::kLibrary}; }
  ~InLibrary() { this_thread = before_; }
  InLibrary(const InLibrary&) = delete;

 private:
  const Thread before_;
};

/// Give this thread of the program a mutator. False when its calls are not to be served.
bool serve_this_thread() noexcept;

/// False when another malloc is in front of ours, the program's own for example.
bool program_calls_us() noexcept;

/// A block of the heap that is freed where the heap cannot be called: it is taken back later.
void free_later(void* block) noexcept;

/// A sentence on stderr.
void say(const std::string& sentence) noexcept;

/// Of the program, since the library began.
struct Usage {
  u64 run_ns;
  u64 page_faults;  ///< that needed no disk
};
/// A JSON object of the store's statistics.
void write_statistics(const detail::Runtime& runtime, const Usage& usage,
                      const std::string& path) noexcept;

}  // namespace perdura::preload
