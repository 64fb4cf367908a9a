// A worker seen from outside: started, watched, killed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "progress.hpp"
#include "shared_memory.hpp"
#include "worker.hpp"

namespace demo {

class Process {
 public:
  /// Starts the worker, with fresh Progress in `progress_memory`.
  Process(WorkerOptions options, const SharedMemory& corpus, const SharedMemory& progress);
  ~Process() { kill(); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  const Progress& progress() const { return progress_; }
  bool reached(Phase phase) const { return progress_.phase >= phase; }

  /// True until the worker has ended. Throws when it failed, or when the user wants to stop.
  bool running();
  /// SIGKILL, and wait until it is gone.
  void kill();
  /// What a worker that came to its end answered.
  std::vector<std::string> answers() const;

 private:
  Progress& progress_;
  std::unique_ptr<FILE, int (*)(FILE*)> answers_;  ///< unnamed; the worker inherits it
  pid_t pid_ = -1;
};

/// Starts workers on one corpus. One at a time: they share the memory for their progress.
class Launcher {
 public:
  Launcher(const SharedMemory& corpus, WorkerOptions options)
      : corpus_(corpus), progress_("perdura-demo-progress", sizeof(Progress)), options_(options) {}

  /// On the store `uri`, which ordinary memory has no use for.
  Process start(Side side, const std::string& uri) const {
    WorkerOptions options = options_;
    options.side = side;
    options.store = uri;
    return Process(options, corpus_, progress_);
  }

 private:
  const SharedMemory& corpus_;
  SharedMemory progress_;
  WorkerOptions options_;
};

/// Whether this build has a worker for that side: the compiled one needs perdura-clang++.
bool can_run(Side side);

/// Lets the user stop the demo with its files removed.
void stop_on_interrupt();

}  // namespace demo
