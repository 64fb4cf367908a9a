#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.use_aliases(4);
  for (int session = 0; session < 3; ++session) {
    run.open();
    for (u64 i = 0; i < 14; ++i) {
      const std::string name = "object " + std::to_string(i % 5);
      switch (run.random(4)) {
        case 0:
          run.remove_object(name);
          break;
        case 1:
          run.checkpoint();
          break;
        default:
          run.set_object(name, i, 8 + run.random(100));
          // Not where the last version knows the name as another's.
          run.try_checkpoint_object(name);
      }
    }
    run.cut_power();
  }
}
const Registration kThis({"objects-come-and-go",
                          "named objects are made, changed, removed, and made durable", run});

}  // namespace
}  // namespace perdura::proof
