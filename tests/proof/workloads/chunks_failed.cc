#include "recording.hpp"

namespace perdura::proof {
namespace {

// The record of a version that failed may be on the medium, in one copy or in both.
void run(Run& run) {
  run.use_chunks(4096, 2);
  for (u64 session = 0; session < 3; ++session) {
    run.open();
    run.steps(3);
    run.checkpoint();
    for (u64 attempt = 1; attempt <= 3; ++attempt) {
      run.steps(2);
      const u64 write = 1 + run.random(2);
      const auto kind = run.random(2) == 0 ? media::FaultKind::kShort : media::FaultKind::kIo;
      run.failing_checkpoint({.calls = media::kFaultWrite, .nth = write, .kind = kind});
      run.steps(2);
      run.failing_checkpoint({.calls = media::kFaultSubmit | media::kFaultDrain,
                              .nth = 1 + run.random(3),
                              .kind = media::FaultKind::kLate});
      run.steps(1);
      if (attempt == 3) break;
      run.checkpoint();
    }
    run.kill();
  }
}
const Registration kThis({"chunks-failed", "checkpoints fail, are tried again, or end the session",
                          run, kOnServers});

}  // namespace
}  // namespace perdura::proof
