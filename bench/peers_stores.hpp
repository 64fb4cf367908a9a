// The same small table in several stores: 8-byte keys, values of 100 bytes.
//
// Each store is set up for the load in question as somebody would who wants it to win: as its
// documentation advises, with memory for all of the table, and with what it writes to made before
// anything is timed. `settings` says how, and goes into the results. Where it is not plain which of
// two ways is the better, there is a store for each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "measure.hpp"

namespace perdura::bench::peers {

constexpr std::size_t kValueBytes = 100;
using Value = std::array<std::byte, kValueBytes>;

/// When an insert must have become durable.
enum class Durability {
  kEveryInsert,  ///< before insert() returns
  kPeriodic,     ///< 64 ms later at most
};
constexpr int kPeriodMs = 64;

/// What a table is set up for.
struct Load {
  Durability durability = Durability::kEveryInsert;
  int writers = 1;                      ///< threads that insert, several only with kEveryInsert
  int background_cpu = kBackgroundCpu;  ///< where the store's own threads run
};

/// A table that is open. insert() may be called by as many threads at a time as the load has
/// writers, the rest by one. Every failure throws. The destructor closes.
class Table {
 public:
  virtual ~Table() = default;
  /// Leaves a new table's files as they are after long use: what is written all the time is there,
  /// and was written before. Who inserts for a second only would have nothing else than first
  /// times, each of which costs the file system more than the data do.
  virtual void warm_up() = 0;

  virtual void insert(std::uint64_t key, const Value& value) = 0;
  /// kPeriodic: called every 64 ms by the writer; makes everything inserted so far durable, unless
  /// a thread of the store's does.
  virtual void make_durable() = 0;
  /// Returns when everything inserted is durable; the last thing that is timed.
  virtual void finish() { make_durable(); }

  /// For verification, after opening again.
  virtual std::uint64_t count() = 0;
  virtual bool holds(std::uint64_t key, const Value& value) = 0;
};

struct Store {
  const char* name;
  const char* settings_every_insert;
  const char* settings_several_writers;  ///< what is different with several
  const char* settings_periodic;
  /// `path` names a file, or a directory to be created; what a previous table left there is kept.
  std::unique_ptr<Table> (*open)(const std::string& path, const Load& load);

  std::string settings(const Load& load) const;
};

extern const Store kPerdura;
/// All that so many writers should be compared with.
std::vector<const Store*> peers_of(int writers);

}  // namespace perdura::bench::peers
