// A forked child's copy of a heap with aliases.
//
// Without aliases the heap is private memory, of which the kernel gives a child a copy. With
// aliases it is one memory that is mapped several times: a child would share it, and change its
// parent's, so the region keeps it out of children (MADV_DONTFORK). Here fork() gives them a copy
// nevertheless:
//
//   before   parent   what is backed is copied to shared memory, which the child inherits
//   after    child    that is mapped in the region's place, as often as the region was
//            parent   it is unmapped
//
// In the child libc itself is the first to touch the heap, where it puts its open files in order:
// so the copy is mapped when a fault says that it is missing, and at the latest by the handler that
// libc calls in the end.
//
// Other threads go on storing while the copy is made, as they do while the kernel makes one: what
// the program's locks guard is whole, if fork() holds them.
//
// A child that was made around libc's fork() has nothing: it is told so when it touches the heap.
#include "preload/children.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <string_view>

#include "preload/instrument.hpp"
#include "region/faults.hpp"

namespace perdura::preload {
namespace {

struct Inheritance {
  const region::Region& region;
  struct sigaction faults;  ///< how they come here
  pid_t process;            ///< that has the region, or a copy of it
  std::mutex forking;       ///< all of what follows: from before a fork to after it
  /// Not asked for in a child, where another thread of its parent may have had the lock.
  std::shared_ptr<const region::HomeMap> backed;
  bool is_child = false;
  Mapping copy;
};
// Never destroyed: threads may fork while the process ends.
Inheritance* inheritance = nullptr;

Result<Mapping> make_copy(const region::Region& region, const region::HomeMap& backed) {
  const u64 bytes = region.limit();
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return system_failure(errno, "cannot map " + std::to_string(bytes) + " bytes");
  Mapping made(memory, bytes);
  for (const format::Extent& extent : backed.extents()) {
    const std::byte* const from = region.base() + extent.region_offset;
    std::byte* const to = made.as() + extent.region_offset;
    for (u64 page = 0; page < extent.length; page += kPageBytes)
      if (!is_zero(from + page, kPageBytes)) std::memcpy(to + page, from + page, kPageBytes);
  }
  return made;
}

/// Whether the child's first fault will come to us.
bool answers_faults() {
  struct sigaction now{};
  sigset_t blocked;
  ::sigaction(SIGSEGV, nullptr, &now);
  ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  return now.sa_sigaction == inheritance->faults.sa_sigaction &&
         ::sigismember(&blocked, SIGSEGV) == 0;
}

void before_fork() {
  Inheritance& mine = *inheritance;
  mine.forking.lock();
  const InLibrary in_library;
  if (!answers_faults())
    say("the program blocks SIGSEGV or answers it by itself: a forked child may end of it with "
        "PERDURA_ALIASES; leave that out");
  auto made = guarded([&] {
    if (!mine.is_child) mine.backed = mine.region.home();
    return make_copy(mine.region, *mine.backed);
  });
  if (made) mine.copy = std::move(*made);
  else
    say(made.failure().message + " for a copy of the heap; a forked child ends when it touches it");
}

void after_fork() {
  inheritance->copy.reset();
  inheritance->forking.unlock();
}

void say_in_handler(std::string_view sentence) noexcept {
  const std::string_view parts[] = {"libperdura_malloc: ", sentence, "\n"};
  for (const std::string_view part : parts) {
    [[maybe_unused]] const ssize_t said = ::write(STDERR_FILENO, part.data(), part.size());
  }
}

/// A mapping of shared memory that is extended from no bytes is another one of the same memory.
bool map_again(std::byte* from, std::byte* place, u64 length) {
  return ::mremap(from, 0, length, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place &&
         ::madvise(place, length, MADV_DONTFORK) == 0;
}

// Perhaps in a signal handler.
void map_copy() {
  Inheritance& mine = *inheritance;
  mine.is_child = true;
  mine.process = ::getpid();
  for (u64 i = 0; mine.copy && i <= mine.region.aliases(); ++i)
    for (const format::Extent& extent : mine.backed->extents()) {
      std::byte* const from = mine.copy.as() + extent.region_offset;
      std::byte* const place =
          mine.region.base() + i * mine.region.alias_stride() + extent.region_offset;
      if (map_again(from, place, extent.length)) continue;
      say_in_handler("cannot map the copy of the heap in a forked child");
      std::abort();
    }
}

void after_fork_in_child() {
  if (inheritance->process != ::getpid()) map_copy();
  after_fork();
}

/// In children.
class MissingHeap final : public region::FaultHandler {
 public:
  bool on_fault(const region::Fault&) noexcept override {
    if (::getpid() == inheritance->process) return false;
    if (inheritance->copy) {
      map_copy();
      return true;
    }
    // Of clone(), or a system call.
    say_in_handler(
        "a child that was not made by fork() has no heap with PERDURA_ALIASES; leave that out");
    return false;
  }
};

}  // namespace

Status let_children_inherit(const region::Region& region) {
  if (region.aliases() == 0) return {};
  PERDURA_ASSIGN(auto watch,
                 region::FaultWatch::create(region.base(), region.base() + region.reserved_bytes(),
                                            *new MissingHeap));
  new region::FaultWatch(std::move(watch));  // it ends with the process
  inheritance = new Inheritance{.region = region,
                                .faults = {},
                                .process = ::getpid(),
                                .forking = {},
                                .backed = {},
                                .copy = {}};
  ::sigaction(SIGSEGV, nullptr, &inheritance->faults);
  const int error_number = ::pthread_atfork(before_fork, after_fork, after_fork_in_child);
  if (error_number != 0)
    return system_failure(error_number, "cannot give forked children a copy of the heap");
  return {};
}

}  // namespace perdura::preload
