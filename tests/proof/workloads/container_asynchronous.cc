#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.use_container();
  run.open();
  u64 number = 0;
  for (u64 point = 0; point < 8; ++point) {
    for (u64 i = 0; i < 1 + run.random(10); ++i) run.push_link(number++);
    const u64 version = run.checkpoint_async();
    for (u64 i = 0; i < run.random(4); ++i) run.push_link(number++);
    for (u64 i = 0; i < run.random(4); ++i) run.pop_link();
    if (point % 2 == 1) run.wait(version);
  }
  run.kill();
}
const Registration kThis({"container-asynchronous",
                          "a container's points overlap with what follows", run});

}  // namespace
}  // namespace perdura::proof
