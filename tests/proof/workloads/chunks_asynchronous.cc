#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.use_chunks();
  run.options.tracking = Tracking::kProtect;
  run.node_words_max = 400;
  run.open();
  run.ledger();
  for (int i = 0; i < 6; ++i) {
    run.steps(1 + run.random(6));
    const u64 version = run.checkpoint_async();
    run.steps(1 + run.random(6));
    run.wait(version);
  }
  run.kill();
}
const Registration kThis({"chunks-asynchronous", "chunks are copied aside while operations go on",
                          run, kOnServers});

}  // namespace
}  // namespace perdura::proof
