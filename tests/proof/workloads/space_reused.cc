#include <thread>

#include "recording.hpp"

namespace perdura::proof {
namespace {

// The heap grows into space that held log blocks.
void run(Run& run) {
  constexpr u64 kBytes = 220'000;
  run.options.region_limit_bytes = 2 * kMiB;
  run.options.log_limit_bytes = 64 * kKiB;
  run.others = 1;
  run.open();
  run.ledger();
  {
    const auto op = run.store().operation();
    std::memset(op.allocate(kBytes), 0x55, kBytes);
  }
  run.checkpoint();
  while (run.store().statistics().log_capacity_bytes > run.options.log_limit_bytes) {
    run.steps(1);
    run.checkpoint();
    std::this_thread::yield();
  }
  const u64 before = run.store().statistics().region_backed_bytes;
  for (; run.store().statistics().region_backed_bytes == before; ++run.others)
    run.store().operation().allocate(60'000);
  run.steps(1);
  run.checkpoint();
  run.kill();
}
const Registration kThis({"space_reused", "the heap grows into space that the log gave back", run});

}  // namespace
}  // namespace perdura::proof
