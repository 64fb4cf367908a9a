#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.open();
  for (int i = 0; i < 6; ++i) {
    if (run.random(2) == 0) run.steps(1);
    run.checkpoint();
  }
  run.close();
}
const Registration kThis({"empty_checkpoint", "checkpoints with nothing to do in between", run});

}  // namespace
}  // namespace perdura::proof
