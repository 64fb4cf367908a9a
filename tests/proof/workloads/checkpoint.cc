#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.open();
  for (int i = 0; i < 8; ++i) {
    run.steps(1 + run.random(4));
    run.checkpoint();
  }
  run.close();
}
const Registration kThis({"checkpoint", "checkpoints of a few operations each", run});

}  // namespace
}  // namespace perdura::proof
