#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.use_chunks(16 * kKiB, 3);
  run.options.tracking = Tracking::kProtect;
  run.open();
  run.concurrent_steps(3, 12, [&run] {
    for (int i = 0; i < 4; ++i) run.checkpoint();
  });
  run.checkpoint();
  run.kill();
}
const Registration kThis({"chunks-threads", "threads store to chunks while versions are made", run,
                          kOnServers});

}  // namespace
}  // namespace perdura::proof
