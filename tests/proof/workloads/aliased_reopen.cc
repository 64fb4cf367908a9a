#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.use_aliases(8);
  for (int i = 0; i < 4; ++i) {
    run.open();
    run.steps(5);
    run.checkpoint();
    run.steps(5);
    if (i % 2 == 0) run.kill();
    else run.close();
  }
}
const Registration kThis({"aliased-reopen",
                          "a store with eight aliases is opened, closed and killed", run});

}  // namespace
}  // namespace perdura::proof
