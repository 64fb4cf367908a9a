#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.use_chunks(16 * kKiB, 2);
  run.options.region_limit_bytes = 16 * kMiB;
  run.others = 1;
  run.open();
  run.ledger();
  {
    const auto op = run.store().operation();
    op.allocate(5'000'000);
  }
  for (int i = 0; i < 5; ++i) {
    run.steps(2);
    run.checkpoint();
  }
  run.kill();
}
const Registration kThis({"chunks-large", "chunks of several pages, and map nodes that share one",
                          run, kOnServers});

}  // namespace
}  // namespace perdura::proof
