#include "recording.hpp"

namespace perdura::proof {
namespace {

void run(Run& run) {
  run.options.log_limit_bytes = 64 * kKiB;
  run.node_words_max = 400;
  run.others = 1;
  run.open();
  run.ledger();
  std::byte* block = nullptr;
  {
    const auto op = run.store().operation();
    block = static_cast<std::byte*>(op.allocate(100'000));
  }
  for (int i = 0; i < 3; ++i) {
    {
      const auto op = run.store().operation();
      op.touch(block, 100'000);
      std::memset(block, i + 1, 100'000);
    }
    run.checkpoint();
    run.steps(2);
    run.checkpoint();
  }
  run.close();
}
const Registration kThis({"log_shrinks",
                          "a version larger than the log may be; the log gives space back", run});

}  // namespace
}  // namespace perdura::proof
