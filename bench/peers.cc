// Inserts that survive a crash, against the databases a user would pick instead.
//
// One thread inserts keys in random order, each with a value of 100 bytes, into an empty table,
// for the same time in every store, and for a moment before the clock starts. (The faster store
// ends with the larger table, which is not in its favour.) Rounds interleave the stores. After each
// run the table is opened again, and counted, and some of its values are compared.
//
//   every_op    each insert is durable before the next begins
//   every_64ms  everything is durable after 64 ms at most, and at the end
//
// A figure is Perdura's inserts per second ÷ those of the best peer, medians of the rounds. Peers
// that can be set up in two ways are two peers.

#include <string>
#include <vector>

#include "harness.hpp"
#include "peers_records.hpp"
#include "peers_stores.hpp"

namespace perdura::bench {
namespace {

using peers::Durability;
using peers::Records;
using peers::Store;
using peers::Table;

struct Plan {
  Durability durability;
  int rounds;
  double seconds;  ///< of inserting, in each store and round

  peers::Load load() const { return {.durability = durability}; }
};

/// Inserts records from `next` on until the time is over, and goes on numbering there.
void insert(Table& table, Durability durability, const Records& records, double seconds,
            std::uint64_t& next) {
  // Reading the clock at each of a million inserts a second would be a part of what is measured.
  const bool periodic = durability == Durability::kPeriodic;
  const std::uint64_t inserts_per_look = periodic ? 32 : 1;
  const double start_s = now_s();
  double durable_s = start_s;
  for (;;) {
    for (std::uint64_t i = 0; i < inserts_per_look; ++i, ++next)
      table.insert(records.key(next), records.value(next));
    const double now = now_s();
    if (now - start_s >= seconds) break;
    if (periodic && now - durable_s >= peers::kPeriodMs * 1e-3) {
      table.make_durable();
      durable_s = now;
    }
  }
  if (periodic) table.finish();
}

/// Inserts per second into a new table.
double inserts_per_s(Context& context, const Store& store, const Plan& plan,
                     const Records& records) {
  const std::string path = context.path(Place::kDisk, store.name);
  std::uint64_t next = 0;
  double rate = 0;
  {
    const auto table = store.open(path, plan.load());
    table->warm_up();
    insert(*table, plan.durability, records, peers::kWarmUpS, next);
    const std::uint64_t first = next;
    const double seconds =
        timed_s([&] { insert(*table, plan.durability, records, plan.seconds, next); });
    rate = static_cast<double>(next - first) / seconds;
  }
  peers::check(store, path, next, records);
  context.remove(path);
  return rate;
}

struct Series {
  const Store* store;
  std::vector<double> inserts_per_s;
};

Json describe(const Series& series, const Plan& plan) {
  return {{"inserts_per_s", median(series.inserts_per_s)},
          {"rounds", series.inserts_per_s},
          {"settings", series.store->settings(plan.load())}};
}

Measured compare(Context& context, const Plan& plan) {
  const Records records;
  std::vector<Series> all = {{&peers::kPerdura, {}}};
  for (const Store* peer : peers::peers_of(plan.load().writers)) all.push_back({peer, {}});
  for (int round = 0; round < plan.rounds; ++round)
    for (Series& series : all)
      series.inserts_per_s.push_back(inserts_per_s(context, *series.store, plan, records));

  Measured measured;
  const Series* best = nullptr;
  double best_per_s = 0;
  for (const Series& series : all) {
    measured.detail[series.store->name] = describe(series, plan);
    const double per_s = median(series.inserts_per_s);
    context.progress("{:<13} {:>12.0f} inserts/s", series.store->name, per_s);
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
