#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  for (u64 session = 0; session < 6; ++session) {
    run.open();
    run.steps(3);
    run.checkpoint();
    run.steps(2);
    if (session % 3 == 0) run.close();
    else if (session % 3 == 1) run.kill();
    else run.cut_power();
    run.make_earlier_version(session % 2 == 0 ? 2 : 3);
  }
}
const Registration kThis({"taken-over", "a store of an earlier format version is taken over", run});

void run_chunks(Run& chunks) {
  chunks.use_chunks();
  run(chunks);
}
const Registration kChunks({"taken-over-chunks", "the same of a store in chunks", run_chunks});

}  // namespace
}  // namespace perdura::proof
