// Inserts that survive a crash, against the databases a user would pick instead.
//
// One thread inserts keys in random order, each with a value of 100 bytes, into an empty table,
// for the same time in every store. (The faster store ends with the larger table, which is not in
// its favour.) Rounds interleave the stores. After each run the table is opened again, and counted,
// and some of its values are compared.
//
//   every_op    each insert is durable before the next begins
//   every_64ms  everything is durable after 64 ms at most, and at the end
//
// A figure is Perdura's inserts per second ÷ those of the best peer, medians of the rounds.

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness.hpp"
#include "peers_stores.hpp"

namespace perdura::bench {
namespace {

using peers::Durability;
using peers::Store;
using peers::Table;
using peers::Value;

/// The i-th key. SQLite's are signed; the others do not care.
std::uint64_t key_of(std::uint64_t record) { return scatter(record) >> 1; }

Value value_of(std::uint64_t key) {
  Value value;
  Random random(key);
  for (std::byte& byte : value) byte = static_cast<std::byte>(random.next() >> 56);
  return value;
}

struct Plan {
  Durability durability;
  int rounds;
  double seconds;  ///< of inserting, in each store and round
};

/// Prepared before the clock starts: values that are cheap to choose from.
class Values {
 public:
  Values() {
    for (std::uint64_t i = 0; i < kCount; ++i) values_.push_back(value_of(i));
  }
  const Value& of(std::uint64_t record) const { return values_[record % kCount]; }

 private:
  static constexpr std::uint64_t kCount = 1024;
  std::vector<Value> values_;
};

struct Run {
  std::uint64_t inserts = 0;
  double seconds = 0;
};

/// Inserts until the time is over.
Run insert(Table& table, const Plan& plan, const Values& values) {
  // Reading the clock at each of a million inserts a second would be a part of what is measured.
  const std::uint64_t inserts_per_look = plan.durability == Durability::kPeriodic ? 32 : 1;
  const double start_s = now_s();
  double durable_s = start_s;
  Run run;
  for (;;) {
    for (std::uint64_t i = 0; i < inserts_per_look; ++i, ++run.inserts)
      table.insert(key_of(run.inserts), values.of(run.inserts));
    const double now = now_s();
    if (now - start_s >= plan.seconds) break;
    if (plan.durability == Durability::kPeriodic && now - durable_s >= peers::kPeriodMs * 1e-3) {
      table.make_durable();
      durable_s = now;
    }
  }
  if (plan.durability == Durability::kPeriodic) table.finish();
  run.seconds = now_s() - start_s;
  return run;
}

void verify(const Store& store, const std::string& path, const Run& run, const Values& values) {
  const auto table = store.open(path, Durability::kPeriodic);
  if (const std::uint64_t found = table->count(); found != run.inserts)
    throw std::runtime_error(
        fmt::format("{}: {} records inserted, {} found", store.name, run.inserts, found));
  constexpr std::uint64_t kSamples = 1000;
  const std::uint64_t stride = std::max<std::uint64_t>(run.inserts / kSamples, 1);
  for (std::uint64_t record = 0; record < run.inserts; record += stride)
    if (!table->holds(key_of(record), values.of(record)))
      throw std::runtime_error(fmt::format("{}: record {} is wrong", store.name, record));
}

/// Inserts per second into a new table.
double inserts_per_s(Context& context, const Store& store, const Plan& plan, const Values& values) {
  const std::string path = context.path(Place::kDisk, store.name);
  Run run;
  {
    const auto table = store.open(path, plan.durability);
    run = insert(*table, plan, values);
  }
  verify(store, path, run, values);
  context.remove(path);
  return static_cast<double>(run.inserts) / run.seconds;
}

struct Series {
  const Store* store;
  std::vector<double> inserts_per_s;
};

Json describe(const Series& series, Durability durability) {
  return {{"inserts_per_s", median(series.inserts_per_s)},
          {"rounds", series.inserts_per_s},
          {"settings", durability == Durability::kEveryInsert ? series.store->settings_every_insert
                                                              : series.store->settings_periodic}};
}

Measured compare(Context& context, const Plan& plan) {
  const Values values;
  std::vector<Series> all = {{&peers::kPerdura, {}}};
  for (const Store& peer : peers::kPeers) all.push_back({&peer, {}});
  for (int round = 0; round < plan.rounds; ++round)
    for (Series& series : all)
      series.inserts_per_s.push_back(inserts_per_s(context, *series.store, plan, values));

  Measured measured;
  const Series* best = nullptr;
  double best_per_s = 0;
  for (const Series& series : all) {
    measured.detail[series.store->name] = describe(series, plan.durability);
    const double per_s = median(series.inserts_per_s);
    context.progress("{:<12} {:>12.0f} inserts/s", series.store->name, per_s);
    if (series.store == &peers::kPerdura || per_s <= best_per_s) continue;
    best = &series;
    best_per_s = per_s;
  }
  measured.detail["best_peer"] = best->store->name;
  measured.detail["seconds_each"] = plan.seconds;
  measured.value = median(all.front().inserts_per_s) / best_per_s;
  return measured;
}

void run(Context& context) {
  pin_thread(kMutatorCpu);
  const int rounds = context.scale(5, 3);
  const double seconds = context.scale(4.0, 1.0);
  context.measure("every_op", "ratio", Reach::at_least(1.3),
                  [&] { return compare(context, {Durability::kEveryInsert, rounds, seconds}); });
  context.measure("every_64ms", "ratio", Reach::at_least(3),
                  [&] { return compare(context, {Durability::kPeriodic, rounds, seconds}); });
}

const Registration kThis("peers", "durable inserts, against LMDB, RocksDB, SQLite and Berkeley DB",
                         run);

}  // namespace
}  // namespace perdura::bench
