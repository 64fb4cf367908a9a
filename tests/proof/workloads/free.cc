#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.node_words_max = 200;
  run.open();
  run.steps(test::Shard::kSlots + run.random(16));
  run.checkpoint();
  for (int i = 0; i < 4; ++i) {
    run.steps(8);
    run.checkpoint();
  }
  run.close();
}
const Registration kThis({"free", "most blocks are freed again", run});

}  // namespace
}  // namespace perdura::proof
