#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.use_chunks(8 * kKiB, 2);
  run.options.tracking = Tracking::kUserfault;
  for (int i = 0; i < 4; ++i) {
    run.open();
    run.steps(run.random(5));
    run.checkpoint();
    run.steps(run.random(5));
    if (i % 2 == 0) run.close();
    else run.kill();
  }
}
const Registration kThis({"chunks-reopened", "closed in order, killed, opened again", run,
                          kOnServers});

}  // namespace
}  // namespace perdura::proof
