#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.open();
  for (int i = 0; i < 12; ++i) {
    run.steps(2);
    run.checkpoint();
  }
  run.close();
  run.open();
  run.steps(3);
  run.close();
}
const Registration kThis({"replay", "versions are brought home, in order and at last", run});

}  // namespace
}  // namespace perdura::proof
