#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.use_aliases(2);
  run.others = 1;
  run.open();
  run.set_object("object", 0);
  run.concurrent_steps(2, 20, [&run] {
    for (u64 i = 1; i < 4; ++i) {
      run.set_object("object", i);
      run.checkpoint_object("object");
      run.checkpoint();
    }
  });
  run.kill();
}
const Registration kThis({"objects-and-threads", "objects become durable alone while threads work",
                          run});

}  // namespace
}  // namespace perdura::proof
