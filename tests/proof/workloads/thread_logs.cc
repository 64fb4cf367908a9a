#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.options.capture = Capture::kStopped;
  run.options.tracking = Tracking::kBitmap;
  run.open();
  run.concurrent_steps(4, 16, [&run] {
    for (int i = 0; i < 4; ++i) run.checkpoint();
  });
  run.checkpoint();
  run.kill();
}
const Registration kThis({"thread_logs", "stopped threads write a log each", run});

}  // namespace
}  // namespace perdura::proof
