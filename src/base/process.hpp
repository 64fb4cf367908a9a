// What a process has once, and a child of fork: there is only the thread that forked, and what
// other threads of the parent held or were about to make stays so for ever.
//
//   a mutex that is held for a moment      process_mutex(): fork waits for it, and child and parent
//   (nothing is waited for under it)       find it free, and what it guards whole
//   anything else                          PerProcess: the child gets another one; MadeOnce: the
//                                          child sees it if it was ready
//
// A static that a function makes when it is first called belongs to the second kind: a child waits
// for ever for a thread that was making it. What needs no code to be made (constinit) does not.
#pragma once

#include <atomic>
#include <mutex>

#include "base/bits.hpp"

namespace perdura {

/// In the order in which fork takes them; whoever holds one takes none that stands before it. All
/// of them are leaves today: nobody takes another one.
enum class ProcessMutex : u8 {
  kPerProcess,  ///< what PerProcess makes, and the calls in children
  kRootTypes,   ///< types of roots that programs written for SoftPM have
  kVolumes,     ///< the media that are open
  kOpenStores,
  kKnownTypes,
  kTypedParts,  ///< what the compiler gave types (perdura/typed.h)
  kFaults,      ///< watched memory
  kLocks,       ///< openings that hold a lock on a memcached server
  kHeldFds,     ///< descriptors that children drop
  kMappings,    ///< memory that was mapped and is not yet kept from children
  kCount
};

/// To be held for a moment only, and never while waiting for a thread or for operations to end:
/// whoever forks waits for it.
std::mutex& process_mutex(ProcessMutex which) noexcept;

namespace detail {
extern std::atomic<u64> processes;
}  // namespace detail

/// Another number in each child of a fork.
inline u64 process_generation() noexcept {
  return detail::processes.load(std::memory_order_relaxed);
}
inline bool forked_since(u64 generation) noexcept { return generation != process_generation(); }

/// From now on `call` runs in each child, in the thread that forked and before fork returns there,
/// under all of these mutexes. The same call counts once.
void at_fork_in_child(void (*call)() noexcept);

/// A T of the process: made when it is first asked for, never destroyed. Its constructor must wait
/// for nothing. In a child the parent's is out of reach.
template <class T>
class PerProcess {
 public:
  constexpr PerProcess() = default;
  PerProcess(const PerProcess&) = delete;

  T& get() {
    Made* made = made_.load(std::memory_order_acquire);
    if (made != nullptr && !forked_since(made->generation)) [[likely]]
      return made->value;
    std::lock_guard lock(process_mutex(ProcessMutex::kPerProcess));
    made = made_.load(std::memory_order_relaxed);
    if (made == nullptr || forked_since(made->generation)) {
      made = new Made;
      made_.store(made, std::memory_order_release);
    }
    return made->value;
  }

 private:
  struct Made {
    u64 generation = process_generation();
    T value;
  };
  std::atomic<Made*> made_{nullptr};
};

/// A T that is made when it is first asked for, whatever that takes, and never destroyed. A child
/// has the parent's, or makes its own where that was not ready.
template <class T>
class MadeOnce {
 public:
  constexpr MadeOnce() = default;
  MadeOnce(const MadeOnce&) = delete;

  /// `make` returns a T* or throws; then the next call tries again.
  template <class Make>
  T& get(Make&& make) {
    if (T* const made = made_.load(std::memory_order_acquire)) [[likely]]
      return *made;
    std::lock_guard lock(making_.get());
    if (made_.load(std::memory_order_relaxed) == nullptr)
      made_.store(make(), std::memory_order_release);
    return *made_.load(std::memory_order_relaxed);
  }

 private:
  PerProcess<std::mutex> making_;
  std::atomic<T*> made_{nullptr};
};

}  // namespace perdura
