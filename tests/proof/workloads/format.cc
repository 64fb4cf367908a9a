#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.open();
  run.close();
}
const Registration kThis({"format", "a store is made and closed", run});

}  // namespace
}  // namespace perdura::proof
