#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.others = 1;
  run.open();
  run.ledger();
  for (u64 i = 1; i <= 4; ++i) {
    {
      const auto op = run.store().operation();
      op.allocate(i * 40'000);
    }
    run.steps(1);
    run.checkpoint();
  }
  run.kill();
}
const Registration kThis({"grow", "the heap grows between checkpoints", run});

}  // namespace
}  // namespace perdura::proof
