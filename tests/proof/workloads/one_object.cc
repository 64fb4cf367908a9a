#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.use_aliases(2);
  run.open();
  for (u64 i = 0; i < 6; ++i) run.set_object("object " + std::to_string(i), 1);
  run.checkpoint();
  for (u64 round = 2; round < 8; ++round) {
    for (u64 i = 0; i < 6; ++i) run.set_object("object " + std::to_string(i), round);
    run.checkpoint_object("object " + std::to_string(run.random(6)));
    if (round == 5) run.checkpoint();
  }
  run.kill();
}
const Registration kThis({"one-object", "an object becomes durable without the others", run});

}  // namespace
}  // namespace perdura::proof
