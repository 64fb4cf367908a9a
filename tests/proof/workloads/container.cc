#include "recording.hpp"

namespace perdura::proof {
namespace {

// The first link's number is `number`. That of the next one.
u64 points(Run& run, u64 count, u64 number) {
  for (u64 point = 0; point < count; ++point) {
    for (u64 i = 0; i < 3 + run.random(20); ++i) run.push_link(number++);
    for (u64 i = 0; i < run.random(6); ++i) run.pop_link();
    run.checkpoint();
  }
  return number;
}

void in_log(Run& run) {
  run.use_container();
  run.open();
  run.checkpoint();
  points(run, 7, 0);
  run.kill();
}
const Registration kInLog({"container", "volatile objects move into a container", in_log});

void in_chunks(Run& run) {
  run.use_container();
  run.use_chunks();
  run.open();
  run.checkpoint();
  const u64 number = points(run, 4, 0);
  run.kill();
  run.open();
  points(run, 3, number);
  run.kill();
}
const Registration kInChunks({"chunks-container", "a container is in chunks", in_chunks,
                              kOnServers});

}  // namespace
}  // namespace perdura::proof
