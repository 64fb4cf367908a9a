// The records that all stores are given, and whether a store has kept them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "measure.hpp"
#include "peers_stores.hpp"

namespace perdura::bench::peers {

/// Of inserting before the clock starts.
constexpr double kWarmUpS = 0.25;

/// Numbered from 0. Values are few, made before the clock starts, and cheap to choose from.
class Records {
 public:
  Records();
  /// In random order. SQLite's keys are signed; the others do not care.
  std::uint64_t key(std::uint64_t record) const { return scatter(record) >> 1; }
  const Value& value(std::uint64_t record) const { return values_[record % kValues]; }

 private:
  static constexpr std::uint64_t kValues = 1024;
  std::vector<Value> values_;
};

/// Throws unless a store, in which `found` records were counted, has the first `inserted` ones: it
/// is asked for some thousands. `has(record)` says whether one is there with its value.
void check(const std::string& store, std::uint64_t inserted, std::uint64_t found,
           const std::function<bool(std::uint64_t record)>& has);

/// The same of a table, which is opened again for it.
void check(const Store& store, const std::string& path, std::uint64_t inserted,
           const Records& records);

}  // namespace perdura::bench::peers
