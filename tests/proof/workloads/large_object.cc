#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.use_aliases(2);
  run.open();
  for (u64 i = 0; i < 8; ++i) {
    run.set_object("large", i, 9000);
    run.set_object("small", i);
    run.checkpoint_object(i % 2 == 0 ? "large" : "small");
  }
  run.close();
}
const Registration kThis({"large-object", "a large object becomes durable alone, and the log wraps",
                          run});

}  // namespace
}  // namespace perdura::proof
