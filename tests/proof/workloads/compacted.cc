#include "recording.hpp"

namespace perdura::proof {
namespace {

// Also of a store that was killed, whose log stays, and of one that was compacted before.
void run(Run& run) {
  run.others = 1;
  for (u64 session = 0; session < 4; ++session) {
    run.open();
    run.steps(2);
    run.checkpoint();
    run.steps(1 + run.random(3));
    if (session == 2) run.kill();
    else run.close();
    run.compact();
    if (session == 1) run.compact();
  }
  run.open();
  run.steps(2);
  run.checkpoint();
  run.close();
}
const Registration kThis({"compacted", "a closed store gives space back, and takes it again", run});

void run_chunks(Run& chunks) {
  chunks.use_chunks();
  run(chunks);
}
const Registration kChunks({"compacted-chunks", "the same of a store in chunks", run_chunks});

void run_copies(Run& copies) {
  copies.use_copies();
  run(copies);
}
const Registration kCopies({"compacted-copies", "the same of a store in two copies", run_copies});

}  // namespace
}  // namespace perdura::proof
