#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.open();
  run.ledger();
  for (int i = 0; i < 6; ++i) {
    run.steps(1 + run.random(3));
    const u64 version = run.checkpoint_async();
    run.steps(1 + run.random(3));
    run.wait(version);
  }
  run.kill();
}
const Registration kThis({"asynchronous", "checkpoints in the background, while operations go on",
                          run});

}  // namespace
}  // namespace perdura::proof
