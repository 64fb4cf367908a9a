// A fence of which one side costs nothing: who stores and looks often orders the two for the
// compiler alone, and who does so rarely has the kernel fence every thread of the process.
//
//   often    store mine ─ light_fence() ─ load yours
//   rarely   store yours ─ heavy_fence() ─ load mine
//
// At least one of them sees what the other has stored.
#pragma once

#include <atomic>

namespace perdura {

namespace detail {
enum class FencesOf : int { kUnknown, kKernel, kThreads };
extern std::atomic<FencesOf> fences_of;
FencesOf find_fences() noexcept;
}  // namespace detail

/// Whether light fences are free here. Else they are as heavy as any.
inline bool asymmetric_fences() noexcept {
  auto known = detail::fences_of.load(std::memory_order_relaxed);
  if (known == detail::FencesOf::kUnknown) [[unlikely]]
    known = detail::find_fences();
  return known == detail::FencesOf::kKernel;
}

inline void light_fence() noexcept {
  if (asymmetric_fences()) std::atomic_signal_fence(std::memory_order_seq_cst);
  else std::atomic_thread_fence(std::memory_order_seq_cst);
}
/// Microseconds.
void heavy_fence() noexcept;

}  // namespace perdura
