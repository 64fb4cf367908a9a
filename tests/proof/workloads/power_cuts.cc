#include "recording.hpp"

namespace perdura::proof {
namespace {

constexpr const char* kWhat = "power fails at any moment, and the work goes on";

void cut_again_and_again(Run& run) {
  for (int i = 0; i < 6; ++i) {
    run.open();
    for (u64 versions = run.random(4); versions != 0; --versions) {
      run.steps(1 + run.random(4));
      run.checkpoint();
    }
    run.steps(run.random(4));
    const u64 version = run.checkpoint_async();
    if (run.random(2) == 0) run.wait(version);
    run.cut_power();
  }
}
const Registration kInLog({"power_cuts", kWhat, cut_again_and_again});

void in_chunks(Run& run) {
  run.use_chunks(4096, 3);
  cut_again_and_again(run);
}
const Registration kInChunks({"chunks-power-cuts", kWhat, in_chunks});

}  // namespace
}  // namespace perdura::proof
