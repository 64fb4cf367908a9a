// Figures of the benchmark `object` about the other use of SIMPO's dual copies: as the engine of a
// whole store. YCSB A on NVM, with a checkpoint every 64 ms: what that adds to the time, and what
// it writes beside a log and its replay.

#include <memory>
#include <span>
#include <stdexcept>

#include "object_parts.hpp"
#include "stores.hpp"
#include "ycsb.hpp"

namespace perdura::bench {
namespace {

using ycsb::Operations;

constexpr std::chrono::milliseconds kInterval(64);
constexpr std::uint64_t kRecords = 123 * ycsb::kBlockRecords;  // 1,007,616, as in `epoch`
/// What a thread does in an interval at 5 million a second.
constexpr std::size_t kOperationsInInterval = 320'000;

Operations operations_of(std::size_t count) {
  ycsb::Mix mix;
  mix.workload = ycsb::Workload::kA;
  mix.records = kRecords;
  mix.count = count;
  mix.seed = 17;
  return ycsb::generate(mix);
}

/// A store that holds the table.
class TableStore {
 public:
  TableStore(Context& context, Engine engine, const std::string& parameters = "")
      : context_(context), uri_(context.uri(Place::kMemory, "table") + parameters) {
    Options options;
    options.engine = engine;
    options.tracking = Tracking::kReported;
    store_ = std::make_unique<Store>(open_store(uri_, options));
    host_ = std::make_unique<ycsb::StoreHost>(*store_, kRecords);
    settle(*store_);
  }
  ~TableStore() {
    host_.reset();
    store_.reset();
    context_.remove(uri_);
  }
  TableStore(const TableStore&) = delete;

  Store& store() { return *store_; }
  double run_s(std::span<const std::uint64_t> operations) {
    static volatile std::uint64_t sink = 0;
    return timed_s(
        [&] { sink = sink + ycsb::run(ycsb::Workload::kA, *host_, host_->table(), operations); });
  }

 private:
  Context& context_;
  const std::string uri_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<ycsb::StoreHost> host_;
};

Measured time_of(Context& context, Engine engine, const std::string& parameters) {
  const Operations operations = operations_of(context.scale<std::size_t>(16 << 20, 4 << 20));
  TableStore table(context, engine, parameters);
  Store& store = table.store();
  const Statistics before = store.statistics();
  const Paired pair = paired(
      context.scale(11, 5),
      [&] {
        store.checkpoint_every(kInterval);
        const double seconds = table.run_s(operations);
        settle(store);
        return seconds;
      },
      [&] {
        const double seconds = table.run_s(operations);
        settle(store);
        return seconds;
      });
  const Statistics after = store.statistics();
  return {pair.ratio,
          {{"mops", static_cast<double>(operations.size()) / pair.subject / 1e6},
           {"pause_p99_us", static_cast<double>(after.pause_p99_ns) / 1e3},
           {"statistics", difference(before, after)}}};
}

/// Of dual copies; of the redo log beside that.
Measured compare_time(Context& context, const std::string& parameters = "") {
  Measured copies = time_of(context, Engine::kDualCopy, parameters);
  const Measured log = time_of(context, Engine::kRedoLog, parameters);
  copies.detail["redo_log"] = log.detail;
  copies.detail["redo_log"]["ratio"] = log.value;
  return copies;
}

/// Bytes written for the same operations, with a checkpoint after so many.
Statistics written(Context& context, Engine engine, std::span<const std::uint64_t> operations) {
  TableStore table(context, engine);
  const auto interval = [&] {
    table.run_s(operations.first(kOperationsInInterval));
    operations = operations.subspan(kOperationsInInterval);
    table.store().checkpoint();
    if (!wait_replayed(table.store())) throw std::runtime_error("replay lags behind");
  };
  for (int i = 0; i < 2; ++i) interval();  // what building the table has left
  table.store().reset_statistics();
  while (!operations.empty()) interval();
  return table.store().statistics();
}

Measured compare_bytes(Context& context) {
  const Operations operations =
      operations_of(context.scale<std::size_t>(66, 18) * kOperationsInInterval);
  const Statistics copies = written(context, Engine::kDualCopy, operations);
  const Statistics log = written(context, Engine::kRedoLog, operations);
  const auto both = static_cast<double>(log.log_bytes + log.home_bytes);
  return {static_cast<double>(copies.home_bytes) / both,
          {{"changed_bytes", copies.changed_bytes},
           {"copies_bytes", copies.home_bytes},
           {"log_bytes", log.log_bytes},
           {"log_home_bytes", log.home_bytes}}};
}

}  // namespace

void measure_dual_stores(Context& context) {
  context.measure("dual_a", "ratio", Reach::at_most(1.05), [&] { return compare_time(context); });
  context.measure("dual_a_slow", "ratio", Reach::none(),
                  [&] { return compare_time(context, kSlowNvm); });
  context.measure("dual_bytes", "ratio", Reach::at_most(0.80),
                  [&] { return compare_bytes(context); });
}

}  // namespace perdura::bench
