// The same small table in five stores: 8-byte keys, values of 100 bytes, one writer.
//
// Each store is set up as its documentation advises for the durability in question; `settings`
// says how, and goes into the results.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace perdura::bench::peers {

constexpr std::size_t kValueBytes = 100;
using Value = std::array<std::byte, kValueBytes>;

/// When an insert must have become durable.
enum class Durability {
  kEveryInsert,  ///< before insert() returns
  kPeriodic,     ///< 64 ms later at most
};
constexpr int kPeriodMs = 64;

/// A table that is open. Not thread-safe. Every failure throws. The destructor closes.
class Table {
 public:
  virtual ~Table() = default;
  virtual void insert(std::uint64_t key, const Value& value) = 0;
  /// kPeriodic: called every 64 ms by the writer; makes everything inserted so far durable.
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
  const char* settings_periodic;
  /// `path` names a file, or a directory to be created; what a previous table left there is kept.
  std::unique_ptr<Table> (*open)(const std::string& path, Durability durability);
};

extern const Store kPerdura;
extern const std::array<Store, 4> kPeers;

}  // namespace perdura::bench::peers
