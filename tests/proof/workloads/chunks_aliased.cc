#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.use_aliases(4);
  run.use_chunks(4096, 2);
  run.others = 1;
  for (int i = 0; i < 3; ++i) {
    run.open();
    for (u64 k = 0; k < 3; ++k) {
      run.set_object("object " + std::to_string(k), run.random(100), 8 + run.random(800));
      run.steps(3);
      run.checkpoint();
    }
    run.cut_power();
  }
}
const Registration kThis({"chunks-aliased", "a region in chunks with four aliases", run});

}  // namespace
}  // namespace perdura::proof
