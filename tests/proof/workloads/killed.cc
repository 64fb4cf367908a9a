#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  for (int i = 0; i < 4; ++i) {
    run.open();
    run.steps(2 + run.random(4));
    run.checkpoint();
    run.steps(run.random(4));
    run.kill();
  }
}
const Registration kThis({"killed", "killed and opened again, with a log to recover", run});

}  // namespace
}  // namespace perdura::proof
