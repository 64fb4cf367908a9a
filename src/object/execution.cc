#include "object/execution.hpp"

namespace perdura::object {

bool Crew::help() {
  if (!has_work()) return false;
  inside_.fetch_add(1, std::memory_order_seq_cst);
  bool helped = false;
  if (const Shared* const work = work_.load(std::memory_order_seq_cst); work != nullptr) {
    u32 more = more_.load(std::memory_order_relaxed);
    while (more != 0 && !more_.compare_exchange_weak(more, more - 1)) {
    }
    if (more != 0) {
      take(*work);
      helped = true;
    }
  }
  inside_.fetch_sub(1, std::memory_order_release);
  return helped;
}

}  // namespace perdura::object
