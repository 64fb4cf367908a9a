#include "recording.hpp"

namespace perdura::proof {
namespace {

// 240 chunks fit into the record.
void run(Run& run) {
  run.use_chunks();
  run.others = 1;
  run.open();
  run.ledger();
  for (u64 i = 1; i <= 4; ++i) {
    constexpr u64 kBytes = 400'000;
    {
      const auto op = run.store().operation();
      auto* const block = static_cast<std::byte*>(op.allocate(kBytes));
      // Not all chunks are in use.
      for (u64 at = 0; at < kBytes; at += 8 * kPageBytes) {
        op.touch(block + at, 1);
        block[at] = static_cast<std::byte>(i);
      }
    }
    run.steps(2);
    run.checkpoint();
  }
  run.kill();
  run.open();
  run.steps(2);
  run.checkpoint();
  run.kill();
}
const Registration kThis({"chunks-grow", "the region grows until its map needs nodes", run,
                          kOnServers});

}  // namespace
}  // namespace perdura::proof
