#include "recording.hpp"

namespace perdura::proof {
namespace {

// Versions are confirmed beside the ones that follow, and beside the replay of those before.
void logs(Run& run) {
  run.options.log_limit_bytes = 64 * kKiB;
  run.options.confirm_versions = true;
  for (u64 session = 0; session < 2; ++session) {
    run.open();
    for (int i = 0; i < 5; ++i) {
      run.steps(1 + run.random(30));
      run.checkpoint();
    }
    if (session == 0) run.kill();
  }
  run.close();
}
const Registration kLogs({"confirmed", "the superblock learns of each version afterwards", logs});

void chunks(Run& run) {
  run.use_chunks();
  run.options.confirm_versions = true;
  run.open();
  for (int i = 0; i < 5; ++i) {
    run.steps(1 + run.random(8));
    run.checkpoint();
  }
  run.kill();
}
const Registration kChunks({"confirmed-chunks", "the same of a region in chunks", chunks});

}  // namespace
}  // namespace perdura::proof
