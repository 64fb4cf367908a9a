#include "base/asymmetric_fence.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <perdura/detail/sanitizers.hpp>

#include "base/assert.hpp"

namespace perdura {
namespace {

long membarrier(int command) { return ::syscall(SYS_membarrier, command, 0, 0); }

}  // namespace

namespace detail {

constinit std::atomic<FencesOf> fences_of{FencesOf::kUnknown};

// Found out once, or by several threads at once.
FencesOf find_fences() noexcept {
#if defined(PERDURA_THREAD_SANITIZER)
  const bool kernel = false;  // which it does not see
#else
  const bool kernel = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
#endif
  const FencesOf found = kernel ? FencesOf::kKernel : FencesOf::kThreads;
  fences_of.store(found, std::memory_order_relaxed);
  return found;
}

}  // namespace detail

// The quick one needs memory in the kernel; the slow one cannot fail.
void heavy_fence() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!asymmetric_fences() || membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0) return;
  const auto fenced = membarrier(MEMBARRIER_CMD_GLOBAL);
  PERDURA_ASSERT(fenced == 0);
}

}  // namespace perdura
