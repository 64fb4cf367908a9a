#include "object/execution.hpp"

namespace perdura::object {

bool Crew::help() {
  if (!has_work()) return false;
  inside_.fetch_add(1, std::memory_order_seq_cst);
  bool helped = false;
  if (const Shared* const work = work_.load(std::memory_order_seq_cst); work != nullptr) {
    u32 wanted = wanted_.load(std::memory_order_relaxed);
    while (wanted != 0 && !wanted_.compare_exchange_weak(wanted, wanted - 1)) {
    }
    if (wanted != 0) {
      take(*work);
      helped = true;
    }
  }
  inside_.fetch_sub(1, std::memory_order_release);
  return helped;
}

}  // namespace perdura::object
