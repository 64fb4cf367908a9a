#include "stores.hpp"

#include <cstring>
#include <thread>

namespace perdura::bench {

Store open_store(const std::string& uri, const Options& options, int background_cpu) {
  const PinnedScope background(background_cpu);
  return Store::open(uri, options);
}

void warm_up(Store& store) {
  // Half the log that a store has by default: on a disk as much as there ever is before replay
  // begins.
  constexpr std::size_t kBytes = 64 * kMiB;
  void* block = nullptr;
  {
    const Operation operation = store.operation();
    block = operation.allocate(kBytes, kPageBytes);
    std::memset(block, 1, kBytes);
  }
  store.checkpoint();
  {
    const Operation operation = store.operation();
    operation.deallocate(block);
  }
  store.checkpoint();
  wait_replayed(store);
}

bool wait_replayed(const Store& store, double seconds_max) {
  const double deadline = now_s() + seconds_max;
  double progress_s = now_s();
  std::uint64_t replayed = 0;
  for (;;) {
    const Statistics now = store.statistics();
    if (now.replayed_version >= now.durable_version) return true;
    if (now.replayed_version != replayed) progress_s = now_s();
    replayed = now.replayed_version;
    // On a disk, replay leaves the log alone until it is half full.
    if (now.log_live_bytes <= now.log_limit_bytes / 2 && now_s() > progress_s + 0.3) return true;
    if (now_s() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

bool settle(Store& store) {
  store.checkpoint_every(std::chrono::milliseconds(0));
  store.checkpoint();
  return wait_replayed(store);
}

Json difference(const Statistics& before, const Statistics& after) {
  return {{"checkpoints", after.checkpoints - before.checkpoints},
          {"changed_bytes", after.changed_bytes - before.changed_bytes},
          {"log_bytes", after.log_bytes - before.log_bytes},
          {"log_waits", after.log_waits - before.log_waits},
          {"home_bytes", after.home_bytes - before.home_bytes},
          {"side_copies", after.side_copies - before.side_copies}};
}

}  // namespace perdura::bench
