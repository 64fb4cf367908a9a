#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.use_types();
  run.use_chunks(4096, 3);
  run.others = 1;
  u64 version = 0;
  for (u64 session = 0; session < 4; ++session) {
    run.open();
    for (u64 i = 0; i < 3; ++i) {
      run.set_object("object", session * 10 + i);
      run.steps(1 + run.random(3));
      version = run.checkpoint();
    }
    if (session % 2 == 0) run.close();
    else run.kill();
    if (session == 3) break;
    run.roll_back(version - run.random(3));
  }
}
const Registration kThis({"chunks-roll-back", "old versions come back, and the work goes on", run,
                          kOnServers});

}  // namespace
}  // namespace perdura::proof
