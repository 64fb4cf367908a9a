#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.use_chunks();
  run.open();
  for (int i = 0; i < 8; ++i) {
    run.steps(1 + run.random(4));
    run.checkpoint();
  }
  run.close();
}
const Registration kThis({"chunks", "changed chunks go to new places", run, kOnServers});

}  // namespace
}  // namespace perdura::proof
