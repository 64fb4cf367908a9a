#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.options.tracking = Tracking::kUserfault;
  run.open();
  for (int i = 0; i < 4; ++i) {
    run.steps(1 + run.random(3));
    run.checkpoint();
  }
  run.kill();
}
const Registration kThis({"pages", "changes are found by page", run});

}  // namespace
}  // namespace perdura::proof
