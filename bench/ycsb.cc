#include "ycsb.hpp"

#include <algorithm>

namespace perdura::bench::ycsb {

Operations generate(const Mix& mix) {
  Random random(mix.seed);
  const Zipfian zipfian(mix.records / mix.partitions, 0.99, mix.rank_items);
  const unsigned write_percent = kWritePercent[static_cast<std::size_t>(mix.workload)];
  Operations operations(mix.count);
  for (std::uint64_t& operation : operations) {
    const std::uint64_t record = zipfian.next(random) * mix.partitions + mix.partition;
    operation = key_of(record) + (random.below(100) < write_percent ? 1 : 0);
  }
  return operations;
}

void* DenseMemory::allocate(std::size_t size, std::size_t alignment) {
  constexpr std::size_t kPoolBytes = 64 * kKiB;
  const structures::PlainMemory malloc;
  if (size > kPoolBytes / 8 || alignment > kLineBytes) return malloc.allocate(size, alignment);
  const std::size_t place = (size + kLineBytes - 1) / kLineBytes * kLineBytes;
  if (left_bytes_ < place) {
    next_ = static_cast<std::byte*>(malloc.allocate(kPoolBytes, kPageBytes));
    left_bytes_ = kPoolBytes;
  }
  void* block = next_;
  next_ += place;
  left_bytes_ -= place;
  return block;
}

PlainHost::PlainHost(std::uint64_t records) { add_records(DenseMemory(), table_, records); }

namespace {

/// Small enough that a step's version fits a log of the default size.
constexpr std::uint64_t kStepRecords = 32 * kBlockRecords;

Table& build(Store& store, std::uint64_t records) {
  Table& table = store.root<Table>("table");
  while (table.records < records) {
    {
      const Operation operation = store.operation();
      add_records(operation, table, std::min(kStepRecords, records - table.records));
    }
    store.checkpoint();
  }
  return table;
}

}  // namespace

StoreHost::StoreHost(Store& store, std::uint64_t records)
    : store_(store), table_(build(store, records)) {}

}  // namespace perdura::bench::ycsb
