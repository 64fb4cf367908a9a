#include "base/process.hpp"

#include <pthread.h>

#include <array>
#include <cstdlib>

#include "base/assert.hpp"

namespace perdura {

constinit std::atomic<u64> detail::processes{1};

namespace {

constexpr size_t kCallsMax = 8;

// All of it needs no code to be made: stores may be opened by constructors of static objects.
constinit std::array<std::mutex, static_cast<size_t>(ProcessMutex::kCount)> mutexes;
constinit std::array<void (*)() noexcept, kCallsMax> calls{};

void before_fork() {
  for (std::mutex& each : mutexes) each.lock();
}

void after_fork() {
  for (auto each = mutexes.rbegin(); each != mutexes.rend(); ++each) each->unlock();
}

void after_fork_in_child() {
  detail::processes.fetch_add(1, std::memory_order_relaxed);
  for (const auto call : calls)
    if (call != nullptr) call();
  after_fork();
}

// When the program is loaded, and so before there are threads that could fork meanwhile.
[[maybe_unused]] const int handlers = [] {
  const int error_number = ::pthread_atfork(before_fork, after_fork, after_fork_in_child);
  if (error_number != 0) std::abort();  // no memory for three pointers, before main
  return error_number;
}();

}  // namespace

std::mutex& process_mutex(ProcessMutex which) noexcept {
  return mutexes[static_cast<size_t>(which)];
}

void at_fork_in_child(void (*call)() noexcept) {
  std::lock_guard lock(process_mutex(ProcessMutex::kPerProcess));
  for (auto& each : calls) {
    if (each == call) return;
    if (each != nullptr) continue;
    each = call;
    return;
  }
  PERDURA_ASSERT(false);
}

}  // namespace perdura
