#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.use_aliases(2);
  run.node_words_max = 800;
  run.open();
  for (int i = 0; i < 5; ++i) {
    run.steps(6);
    run.checkpoint();
  }
  run.kill();
}
const Registration kThis({"aliased-blocks", "blocks of all sizes, found by their aliases", run});

}  // namespace
}  // namespace perdura::proof
