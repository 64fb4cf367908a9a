#include <thread>

#include "recording.hpp"

namespace perdura::proof {
namespace {

void logs(Run& run) {
  run.options.log_limit_bytes = 64 * kKiB;
  for (u64 session = 0; session < 2; ++session) {
    run.open();
    run.open_neighbour(Engine::kRedoLog);
    for (u64 i = 0; i < 4; ++i) {
      run.steps(20 + run.random(60));
      run.checkpoint();
      run.neighbour_point();
    }
    if (session == 0) run.close();
  }
  run.kill();
}
const Registration kLogs({"regions", "two regions of a store, each with its log", logs});

void chunks(Run& run) {
  run.use_container();
  run.use_chunks();
  u64 number = 0;
  for (u64 session = 0; session < 2; ++session) {
    run.open();
    if (session == 0) run.checkpoint();
    run.open_neighbour(Engine::kRemap);
    for (u64 i = 0; i < 3; ++i) {
      for (u64 link = 0; link < 3 + run.random(20); ++link) run.push_link(number++);
      const u64 version = run.checkpoint_async();
      run.neighbour_point();
      run.wait(version);
    }
    if (session == 0) run.kill();
  }
  run.close();
}
const Registration kChunks({"regions-chunks", "two regions of a store, each in chunks of its own",
                            chunks, kOnServers});

// The neighbour grows and shrinks its log, and both take space, as it comes.
void threads(Run& run) {
  run.open();
  run.open_neighbour(Engine::kRedoLog);
  std::thread neighbour([&run] {
    for (u64 i = 0; i < 4; ++i) run.neighbour_point();
  });
  for (u64 i = 0; i < 4; ++i) {
    run.steps(50);
    run.checkpoint();
  }
  neighbour.join();
  run.kill();
}
const Registration kThreads({"regions-threads", "two threads work in a region each", threads});

void removed(Run& run) {
  run.node_words_max = 200;  // so that the region soon needs what the neighbour had
  run.open();
  run.open_neighbour(Engine::kRemap);
  run.steps(60);
  run.neighbour_point();
  run.checkpoint();
  run.close();
  run.remove_neighbour();
  run.open();
  for (u64 i = 0; i < 3; ++i) {
    run.steps(60);
    run.checkpoint();
  }
  run.kill();
}
const Registration kRemoved({"region-removed", "a region goes, and another one gets its space",
                             removed});

}  // namespace
}  // namespace perdura::proof
