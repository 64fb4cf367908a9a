#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.options.log_limit_bytes = 512 * kKiB;
  run.open();
  for (int i = 0; i < 24; ++i) {
    run.steps(1);
    run.checkpoint();
  }
  run.kill();
  run.open();
  run.steps(1);
  run.checkpoint();
  run.kill();
}
const Registration kThis({"long_log", "a log of many versions is recovered", run});

}  // namespace
}  // namespace perdura::proof
