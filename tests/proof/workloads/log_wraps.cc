#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.options.log_limit_bytes = 64 * kKiB;
  run.node_words_max = 400;
  run.open();
  for (int i = 0; i < 10; ++i) {
    run.steps(8);
    run.checkpoint();
  }
  run.kill();
}
const Registration kThis({"log_wraps", "the log is full and used again", run});

}  // namespace
}  // namespace perdura::proof
