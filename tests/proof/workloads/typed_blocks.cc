#include "recording.hpp"

namespace perdura::proof {
namespace {

// Small and large ones.
void run(Run& run) {
  run.use_types();
  run.open();
  for (u64 round = 1; round < 7; ++round) {
    for (u64 i = 0; i < 4; ++i) {
      const std::string name = "object " + std::to_string(run.random(8));
      if (run.random(3) == 0) run.remove_object(name);
      else run.set_object(name, round, i == 3 ? 5000 : 8 + run.random(200));
    }
    run.checkpoint();
  }
  run.kill();
}
const Registration kThis({"typed-blocks", "objects with type records come and go", run});

}  // namespace
}  // namespace perdura::proof
