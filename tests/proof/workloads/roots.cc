#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.others = 1;
  run.open();
  run.ledger();
  for (u64 i = 0; i < 6; ++i) {
    {
      const auto op = run.store().operation();
      const std::string name = "root " + std::to_string(run.random(3));
      op.set_root(name.c_str(), run.random(3) == 0 ? nullptr : op.allocate(64));
    }
    run.checkpoint();
  }
  run.close();
}
const Registration kThis({"roots", "named roots come, change and go", run});

}  // namespace
}  // namespace perdura::proof
