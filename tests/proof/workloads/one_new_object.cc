#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.use_aliases(2);
  run.open();
  run.set_object("old", 1);
  run.checkpoint();
  for (u64 i = 0; i < 6; ++i) {
    {
      const auto op = run.store().operation();
      for (u64 k = 0; k < 20; ++k) op.allocate(16 + run.random(900));
    }
    const std::string name = "new " + std::to_string(i);
    run.set_object(name, i, 8 + run.random(200));
    run.set_object("old", i + 2);
    run.checkpoint_object(name);
  }
  run.kill();
}
const Registration kThis({"one-new-object",
                          "an object that is new becomes durable without the others", run});

}  // namespace
}  // namespace perdura::proof
