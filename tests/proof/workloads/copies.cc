#include "recording.hpp"

namespace perdura::proof {
namespace {

void sessions(Run& run) {
  run.use_copies();
  for (int i = 0; i < 4; ++i) {
    run.open();
    for (u64 versions = 1 + run.random(4); versions != 0; --versions) {
      run.steps(1 + run.random(4));
      run.checkpoint();
    }
    run.steps(run.random(4));
    if (i % 2 == 0) run.kill();
    else run.close();
  }
}
const Registration kSessions({"copies", "versions go to two copies in turn", sessions});

void by_page(Run& run) {
  run.options.tracking = Tracking::kUserfault;
  run.options.compare = false;  // whole pages
  sessions(run);
}
const Registration kByPage({"copies-pages", "changes for two copies are found by page", by_page});

void grows(Run& run) {
  run.use_copies();
  run.others = 1;
  run.open();
  run.ledger();
  for (u64 i = 1; i <= 4; ++i) {
    {
      const auto op = run.store().operation();
      op.allocate(i * 40'000);
    }
    run.steps(1);
    run.checkpoint();
  }
  run.kill();
}
const Registration kGrows({"copies-grow", "a heap in two copies grows", grows});

// Of an attempt that failed anything may be in the older copy, and the superblock may name it.
void failed(Run& run) {
  run.use_copies();
  for (u64 session = 0; session < 3; ++session) {
    run.open();
    run.steps(3);
    run.checkpoint();
    for (u64 attempt = 1; attempt <= 3; ++attempt) {
      run.steps(2);
      const auto kind = run.random(2) == 0 ? media::FaultKind::kShort : media::FaultKind::kIo;
      run.failing_checkpoint({.calls = media::kFaultWrite, .nth = 1 + run.random(2), .kind = kind});
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
const Registration kFailed({"copies-failed",
                            "checkpoints to two copies fail, are tried again, or end the session",
                            failed});

void flush_fails(Run& run) {
  run.use_copies();
  for (u64 session = 0; session < 6; ++session) {
    run.open();
    run.steps(3);
    run.checkpoint();
    run.steps(3);
    run.failing_checkpoint({.calls = media::kFaultBarrier, .nth = 1 + session % 3});
    run.kill();
  }
}
const Registration kFlushFails({"copies-flush-fails",
                                "a barrier of a version in two copies fails, and ends the session",
                                flush_fails});

void cut_again_and_again(Run& run) {
  run.use_copies();
  for (int i = 0; i < 8; ++i) {
    run.open();
    for (u64 versions = run.random(4); versions != 0; --versions) {
      run.steps(1 + run.random(4));
      run.checkpoint();
    }
    run.steps(run.random(4));
    const u64 version = run.checkpoint_async();
    if (run.random(2) == 0) run.wait(version);
    run.cut_power();
  }
}
const Registration kCut({"copies-power-cuts",
                         "power fails at any moment, and the copies are made level",
                         cut_again_and_again});

void container(Run& run) {
  run.use_container();
  run.use_copies();
  run.open();
  run.checkpoint();
  u64 number = 0;
  for (u64 point = 0; point < 5; ++point) {
    for (u64 i = 0; i < 3 + run.random(20); ++i) run.push_link(number++);
    for (u64 i = 0; i < run.random(6); ++i) run.pop_link();
    run.checkpoint();
  }
  run.kill();
}
const Registration kContainer({"copies-container", "a container is in two copies", container});

void one_object(Run& run) {
  run.use_copies();
  run.use_aliases(2);
  run.open();
  for (u64 i = 0; i < 6; ++i) run.set_object("object " + std::to_string(i), 1);
  run.checkpoint();
  for (u64 round = 2; round < 8; ++round) {
    for (u64 i = 0; i < 6; ++i) run.set_object("object " + std::to_string(i), round);
    run.checkpoint_object("object " + std::to_string(run.random(6)));
    if (round == 5) run.checkpoint();
  }
  run.kill();
}
const Registration kOneObject({"copies-object", "an object becomes durable alone, in two copies",
                               one_object});

void in_background(Run& run) {
  run.use_copies();
  run.options.tracking = Tracking::kReported;
  run.options.capture = Capture::kBackground;
  run.open();
  run.concurrent_steps(3, 12, [&run] {
    for (int i = 0; i < 4; ++i) run.checkpoint();
  });
  run.checkpoint();
  run.kill();
}
const Registration kInBackground({"copies-background",
                                  "lines are copied aside on the way to two copies",
                                  in_background});

void neighbours(Run& run) {
  run.use_copies();
  run.node_words_max = 200;  // so that the region soon needs what the neighbour had
  run.open();
  run.open_neighbour(Engine::kDualCopy);
  for (u64 i = 0; i < 3; ++i) {
    run.steps(20);
    run.checkpoint();
    run.neighbour_point();
  }
  run.close();
  run.remove_neighbour();
  run.open();
  for (u64 i = 0; i < 3; ++i) {
    run.steps(60);
    run.checkpoint();
  }
  run.kill();
}
const Registration kNeighbours({"copies-regions", "two regions in copies, of which one goes",
                                neighbours});

}  // namespace
}  // namespace perdura::proof
