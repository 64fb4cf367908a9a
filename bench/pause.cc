// How long checkpoints stop the program: YCSB A on the B+-tree with a checkpoint every 64 ms. The
// store's own account of its stops, and, in the detail, the mutator's: the longest it was held up
// between two readings of the clock, beside the same for a run without persistence, which shows
// what the machine does by itself.

#include <algorithm>
#include <memory>
#include <span>

#include "harness.hpp"
#include "stores.hpp"
#include "ycsb.hpp"

namespace perdura::bench {
namespace {

using ycsb::Workload;

constexpr std::uint64_t kRecords = 123 * ycsb::kBlockRecords;
constexpr std::size_t kChunk = 256;

/// Times of chunks of operations, in µs.
struct Chunks {
  double median_us = 0;
  double p9999_us = 0;
  double max_us = 0;
};

template <class Host>
Chunks run_chunks(Host& host, std::span<const std::uint64_t> operations, double seconds) {
  std::vector<double> times;
  times.reserve(static_cast<std::size_t>(seconds * 60e3));
  std::uint64_t sum = 0;
  const double end = now_s() + seconds;
  for (std::size_t at = 0;; at = at + 2 * kChunk > operations.size() ? 0 : at + kChunk) {
    const double start = now_s();
    sum += ycsb::run(Workload::kA, host, host.table(), operations.subspan(at, kChunk));
    const double stop = now_s();
    times.push_back((stop - start) * 1e6);
    if (stop > end) break;
  }
  volatile std::uint64_t sink = sum;
  (void)sink;
  return {median(times), percentile(times, 0.9999), percentile(times, 1)};
}

Json describe(const Chunks& chunks) {
  return {{"operations", kChunk},
          {"median_us", chunks.median_us},
          {"p9999_us", chunks.p9999_us},
          {"max_us", chunks.max_us}};
}

Measured pauses(Context& context, Place place) {
  const double seconds = context.scale(10.0, 4.0);
  ycsb::Mix mix;
  mix.records = kRecords;
  mix.count = 4 << 20;
  const ycsb::Operations operations = ycsb::generate(mix);
  Chunks plain;
  {
    ycsb::PlainHost host(kRecords);
    run_chunks(host, operations, 0.5);
    plain = run_chunks(host, operations, seconds / 2);
  }
  Options options;
  options.tracking = Tracking::kReported;
  const std::string uri = context.uri(place, "table");
  Measured result;
  {
    Store store = open_store(uri, options);
    ycsb::StoreHost host(store, kRecords);
    settle(store);
    store.checkpoint_every(std::chrono::milliseconds(64));
    run_chunks(host, operations, 0.5);
    store.reset_statistics();
    const Statistics before = store.statistics();
    const Chunks durable = run_chunks(host, operations, seconds);
    const Statistics after = store.statistics();
    store.checkpoint_every(std::chrono::milliseconds(0));
    result.value = static_cast<double>(after.pause_p99_ns) / 1e6;
    result.detail = {{"max_ms", static_cast<double>(after.pause_max_ns) / 1e6},
                     {"count", after.pause_count},
                     {"seconds", seconds},
                     {"chunks", describe(durable)},
                     {"chunks_without_persistence", describe(plain)},
                     {"statistics", difference(before, after)}};
    if (after.pause_count == 0) result.value = std::numeric_limits<double>::quiet_NaN();
  }
  context.remove(uri);
  return result;
}

void run(Context& context) {
  pin_thread(kMutatorCpu);
  context.measure("nvm_ms", "ms", Reach::at_most(0.5),
                  [&] { return pauses(context, Place::kMemory); });
  context.measure("file_ms", "ms", Reach::at_most(0.5),
                  [&] { return pauses(context, Place::kDisk); });
}

const Registration kThis("pause", "stops of the program by checkpoints, 99th percentile", run);

}  // namespace
}  // namespace perdura::bench
