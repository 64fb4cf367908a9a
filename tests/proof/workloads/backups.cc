#include "recording.hpp"

namespace perdura::proof {
namespace {

void make(Run& run, Engine engine) {
  run.use_original(engine);
  run.node_words_max = 100;
  run.open_original();
  for (int i = 0; i < 3; ++i) {
    run.steps(5 + run.random(20));
    run.store().checkpoint();
    run.back_up();
  }
}

/// Attempts end where a call fails, and are gone on with; the power fails in some of them.
void cut_short(Run& run, Engine engine) {
  run.use_original(engine);
  run.node_words_max = 100;
  run.open_original();
  for (int i = 0; i < 4; ++i) {
    run.steps(5 + run.random(20));
    run.store().checkpoint();
    run.failing_back_up({.calls = media::kFaultWrite | media::kFaultSubmit | media::kFaultBarrier,
                         .nth = 1 + run.random(30)});
    if (i % 2 != 0) run.back_up();
  }
}

constexpr const char* kWhat = "versions of another store are added to a backup";
constexpr const char* kCutShort = "adding versions to a backup fails, and is gone on with";
const Registration kOfLog({"backups", kWhat, [](Run& run) { make(run, Engine::kRedoLog); },
                           kOnServers});
const Registration kOfChunks({"backups-of-chunks", kWhat,
                              [](Run& run) { make(run, Engine::kRemap); }, kOnServers});
const Registration kOfCopies({"backups-of-copies", kWhat,
                              [](Run& run) { make(run, Engine::kDualCopy); }, kOnServers});
const Registration kFailed({"backups-cut-short", kCutShort,
                            [](Run& run) { cut_short(run, Engine::kRemap); }});

void copy(Run& run, Engine engine) {
  run.use_copied_original(engine);
  run.node_words_max = 100;
  run.open_original();
  run.steps(20 + run.random(20));
  run.store().checkpoint();
  run.copy();
  for (int session = 0; session < 2; ++session) {
    run.open();
    for (int i = 0; i < 3; ++i) {
      run.steps(1 + run.random(5));
      run.checkpoint();
    }
    run.kill();
  }
}
constexpr const char* kCopied = "a store begins as a copy of another one, and the work goes on";
const Registration kCopyWithLog({"copied-log", kCopied,
                                 [](Run& run) { copy(run, Engine::kRedoLog); }});
const Registration kCopyInChunks({"copied-chunks", kCopied,
                                  [](Run& run) { copy(run, Engine::kRemap); }, kOnServers});
const Registration kCopyInCopies({"copied-copies", kCopied,
                                  [](Run& run) { copy(run, Engine::kDualCopy); }});

/// The process ends between versions and in the middle of one, and the next one goes on.
void drain(Run& run, Engine engine) {
  run.use_original(engine);
  run.node_words_max = 100;
  for (int session = 0; session < 3; ++session) {
    run.open_drained();
    for (int i = 0; i < 3; ++i) {
      for (u64 versions = 1 + run.random(3); versions != 0; --versions) {
        run.steps(1 + run.random(10));
        run.store().checkpoint();
      }
      run.drained();
    }
    run.kill();
  }
}
constexpr const char* kDrained = "versions of another store are drained, some are left out";
const Registration kDrainOfLog({"drain", kDrained, [](Run& run) { drain(run, Engine::kRedoLog); },
                                kOnServers});
const Registration kDrainOfChunks({"drain-of-chunks", kDrained,
                                   [](Run& run) { drain(run, Engine::kRemap); }, kOnServers});

}  // namespace
}  // namespace perdura::proof
