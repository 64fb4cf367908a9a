#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.use_chunks(4096, 2);
  for (u64 session = 0; session < 4; ++session) {
    run.open();
    run.steps(3);
    run.checkpoint();
    run.steps(3);
    run.failing_checkpoint({.calls = media::kFaultBarrier, .nth = 1 + session % 2});
    run.kill();
  }
}
const Registration kThis({"chunks-flush-fails",
                          "a barrier of a version fails, and ends the session", run, kOnServers});

}  // namespace
}  // namespace perdura::proof
