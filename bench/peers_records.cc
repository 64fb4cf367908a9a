#include "peers_records.hpp"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

namespace perdura::bench::peers {
namespace {

Value value_of(std::uint64_t seed) {
  Value value;
  Random random(seed);
  for (std::byte& byte : value) byte = static_cast<std::byte>(random.next() >> 56);
  return value;
}

}  // namespace

Records::Records() {
  for (std::uint64_t i = 0; i < kValues; ++i) values_.push_back(value_of(i));
}

void check(const std::string& store, std::uint64_t inserted, std::uint64_t found,
           const std::function<bool(std::uint64_t record)>& has) {
  if (found != inserted)
    throw std::runtime_error(
        fmt::format("{}: {} records inserted, {} found", store, inserted, found));
  constexpr std::uint64_t kSamples = 5000;
  const std::uint64_t stride = std::max<std::uint64_t>(inserted / kSamples, 1);
  for (std::uint64_t record = 0; record < inserted; record += stride)
    if (!has(record))
      throw std::runtime_error(fmt::format("{}: record {} is wrong", store, record));
}

void check(const Store& store, const std::string& path, std::uint64_t inserted,
           const Records& records) {
  const auto table = store.open(path, {.durability = Durability::kPeriodic});
  check(store.name, inserted, table->count(), [&](std::uint64_t record) {
    return table->holds(records.key(record), records.value(record));
  });
}

}  // namespace perdura::bench::peers
