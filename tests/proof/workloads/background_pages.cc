#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.options.tracking = Tracking::kProtect;
  run.options.capture = Capture::kBackground;
  run.open();
  run.concurrent_steps(2, 6, [&run] {
    for (int i = 0; i < 2; ++i) run.checkpoint();
  });
  run.checkpoint();
  run.kill();
}
const Registration kThis({"background-pages", "pages are copied aside on the way to a log", run});

}  // namespace
}  // namespace perdura::proof
