#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.use_container();
  run.use_chunks();
  run.open();
  run.checkpoint();
  u64 number = 0;
  for (u64 point = 0; point < 7; ++point) {
    for (u64 i = 0; i < 3 + run.random(20); ++i) run.push_link(number++);
    for (u64 i = 0; i < run.random(6); ++i) run.pop_link();
    run.checkpoint();
    if (point != 3) continue;
    run.kill();
    run.open();
  }
  run.kill();
}
const Registration kThis({"chunks-container", "a container is in chunks", run});

}  // namespace
}  // namespace perdura::proof
