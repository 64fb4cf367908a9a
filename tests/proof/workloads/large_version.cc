#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.others = 1;
  run.options.log_limit_bytes = 256 * kKiB;
  run.open();
  run.ledger();
  {
    const auto op = run.store().operation();
    auto* block = static_cast<std::byte*>(op.allocate(150'000));
    std::memset(block, 1, 150'000);
  }
  run.checkpoint();
  run.kill();
}
const Registration kThis({"large_version", "a version of many blocks", run});

}  // namespace
}  // namespace perdura::proof
