#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.use_chunks(16 * kKiB, 3);
  run.options.tracking = Tracking::kReported;
  run.options.capture = Capture::kBackground;
  run.open();
  run.concurrent_steps(3, 12, [&run] {
    for (int i = 0; i < 4; ++i) run.checkpoint();
  });
  run.checkpoint();
  run.kill();
}
const Registration kThis({"background-lines",
                          "reported lines are copied aside on the way to chunks", run});

}  // namespace
}  // namespace perdura::proof
