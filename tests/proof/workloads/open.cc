#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  for (int i = 0; i < 4; ++i) {
    run.open();
    run.steps(run.random(5));
    run.close();
  }
}
const Registration kThis({"open", "opened and closed in order, again and again", run});

}  // namespace
}  // namespace perdura::proof
