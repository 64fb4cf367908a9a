#include "recording.hpp"

namespace perdura::proof {
namespace {

// With a map of two levels. Each round changes, clears or leaves parts of a block.
void run(Run& run) {
  constexpr u64 kBytes = 1'200'000;
  constexpr u64 kPart = 24 * kPageBytes;
  run.use_chunks(4096, 1 + static_cast<u32>(run.random(3)));
  run.others = 1;
  run.open();
  run.ledger();
  std::byte* block = nullptr;
  {
    const auto op = run.store().operation();
    block = static_cast<std::byte*>(op.allocate(kBytes));
  }
  for (u64 round = 1; round <= 8; ++round) {
    {
      const auto op = run.store().operation();
      std::byte* const part = block + run.random(kBytes / kPart) * kPart;
      op.touch(part, kPart);
      std::memset(part, round % 4 == 0 ? 0 : static_cast<int>(round), kPart);
    }
    run.steps(1);
    run.checkpoint();
  }
  run.close();
}
const Registration kThis({"chunks-retire",
                          "places of retired versions, their map nodes too, are used again", run,
                          kOnServers});

}  // namespace
}  // namespace perdura::proof
