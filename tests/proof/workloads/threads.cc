#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.open();
  run.concurrent_steps(3, 12, [&run] {
    for (int i = 0; i < 4; ++i) run.checkpoint();
  });
  run.checkpoint();
  run.kill();
}
const Registration kThis({"threads", "three threads work while versions are made", run});

}  // namespace
}  // namespace perdura::proof
