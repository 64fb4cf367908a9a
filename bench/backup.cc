// What copies of a store cost the program beside them, and what is sent:
//
//   backup_running  YCSB A, a checkpoint every 64 ms, while a backup to a file goes on, read at
//                   200 MB/s ÷ the same without
//   backup_second   bytes that a second backup sends ÷ bytes in chunks that changed, 1 % of them
//   drain           YCSB A, a checkpoint every 64 ms, with a drain to another file ÷ without
//
// Segments of each side take turns on one store, or on two of the same content.

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "harness.hpp"
#include "store/backup.hpp"
#include "stores.hpp"
#include "ycsb.hpp"

namespace perdura::bench {
namespace {

using ycsb::Workload;

constexpr std::chrono::milliseconds kInterval(64);
constexpr std::uint64_t kRecords = 123 * ycsb::kBlockRecords;  // 1,007,616
constexpr std::size_t kOperations = 4 << 20;
constexpr std::uint64_t kBackupBytesPerSecond = 200'000'000;

Options options_for(const std::string& drain = {}) {
  Options options;
  options.tracking = Tracking::kReported;
  options.drain = drain;
  return options;
}

ycsb::Operations operations_of_a() {
  ycsb::Mix mix;
  mix.workload = Workload::kA;
  mix.records = kRecords;
  mix.count = kOperations;
  return ycsb::generate(mix);
}

/// A store with the table, on the disk.
struct Table {
  Table(Context& context, const std::string& drain)
      : uri(context.uri(Place::kDisk, "table")),
        store(open_store(uri, options_for(drain))),
        host(store, kRecords) {}

  double segment_s(const ycsb::Operations& operations, int passes) {
    static std::atomic<std::uint64_t> sink{0};
    store.checkpoint_every(kInterval);
    const double seconds = timed_s([&] {
      for (int pass = 0; pass < passes; ++pass)
        sink += ycsb::run(Workload::kA, host, host.table(), operations);
    });
    settle(store);
    return seconds;
  }

  std::string uri;
  Store store;
  ycsb::StoreHost host;
};

/// Backs a store up again and again, each time to a new place, until it goes.
class Backing {
 public:
  Backing(Context& context, Store& store)
      : context_(context), store_(store), thread_([this] {
          pin_thread(kBackgroundCpu);
          run();
        }) {}
  ~Backing() {
    ends_ = true;
    thread_.join();
  }
  Backing(const Backing&) = delete;

 private:
  void run() {
    const std::string to = context_.uri(Place::kDisk, "backup");
    while (!ends_) {
      BackupOptions options;
      options.bytes_per_second = kBackupBytesPerSecond;
      store_.backup(to, options);
      context_.remove(to);
    }
  }

  Context& context_;
  Store& store_;
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

int passes_for(Context& context, Table& table, const ycsb::Operations& operations) {
  const double warm_s = table.segment_s(operations, 1);
  return std::max(1, static_cast<int>(context.scale(4.0, 1.0) / warm_s + 0.5));
}

Measured measure_backup(Context& context) {
  const ycsb::Operations operations = operations_of_a();
  Table table(context, {});
  const int passes = passes_for(context, table, operations);
  const Paired pair = paired(
      context.scale(7, 3),
      [&] {
        const Backing backing(context, table.store);
        return table.segment_s(operations, passes);
      },
      [&] { return table.segment_s(operations, passes); });
  return {pair.ratio,
          {{"with_s", pair.subject}, {"without_s", pair.base}, {"ratios", pair.ratios}}};
}

Measured measure_drain(Context& context) {
  const ycsb::Operations operations = operations_of_a();
  Table without(context, {});
  const std::string drain = context.uri(Place::kDisk, "drain");
  Table with(context, drain);
  const int passes = passes_for(context, without, operations);
  const Paired pair = paired(
      context.scale(7, 3), [&] { return with.segment_s(operations, passes); },
      [&] { return without.segment_s(operations, passes); });
  const Statistics now = with.store.statistics();
  return {pair.ratio,
          {{"with_s", pair.subject},
           {"without_s", pair.base},
           {"ratios", pair.ratios},
           {"drained_versions", now.drained_versions},
           {"skipped", now.drain_skipped},
           {"drain_read_bytes", now.drain_read_bytes},
           {"drain_bytes", now.drain_bytes},
           {"failures", now.drain_failures}}};
}

/// One page in a hundred chunks changes.
Measured measure_second(Context& context) {
  const std::size_t bytes = context.scale<std::size_t>(kGiB, 128 * kMiB);
  const std::string uri = context.uri(Place::kDisk, "store");
  const std::string to = context.uri(Place::kDisk, "backup");
  constexpr std::size_t kChunk = 64 * kKiB;
  {
    Store store = Store::open(uri, options_for());
    auto* const block = static_cast<std::byte*>(store.allocate(bytes, kPageBytes));
    const Operation operation = store.operation();
    operation.touch(block, bytes);
    for (std::size_t at = 0; at < bytes; at += kPageBytes)
      std::memset(block + at, static_cast<int>(at / kPageBytes % 251 + 1), kPageBytes);
    store.set_root("block", block);
  }
  value_or_throw(store::back_up(uri, to, {}));
  std::size_t changed = 0;
  {
    Store store = Store::open(uri, options_for());
    auto* const block = static_cast<std::byte*>(store.get_root("block"));
    const Operation operation = store.operation();
    for (std::size_t at = 0; at < bytes; at += 100 * kChunk, ++changed) {
      operation.touch(block + at, kPageBytes);
      std::memset(block + at, 255, kPageBytes);
    }
  }
  const store::Copied second = value_or_throw(store::back_up(uri, to, {}));
  const double sent = static_cast<double>(second.regions.at(0).sent_bytes);
  return {sent / static_cast<double>(changed * kChunk),
          {{"sent_bytes", sent},
           {"changed_chunks", changed},
           {"differed_bytes", second.regions[0].changed_bytes},
           {"read_bytes", second.regions[0].read_bytes}}};
}

void run(Context& context) {
  pin_thread(kMutatorCpu);
  context.measure("backup_running", "ratio", Reach::at_most(1.10),
                  [&] { return measure_backup(context); });
  context.measure("backup_second", "ratio", Reach::at_most(1.3),
                  [&] { return measure_second(context); });
  context.measure("drain", "ratio", Reach::at_most(1.05), [&] { return measure_drain(context); });
}

const Registration kThis("cluster_backup",
                         "a program beside its backup or drain ÷ without; bytes that are sent",
                         run);

}  // namespace
}  // namespace perdura::bench
