#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.node_words_max = 800;
  run.open();
  for (int i = 0; i < 5; ++i) {
    run.steps(6);
    run.checkpoint();
  }
  run.kill();
}
const Registration kThis({"allocate", "blocks of all sizes", run});

}  // namespace
}  // namespace perdura::proof
