#include "ycsb.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

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

void* DenseMemory::Pool::take(std::size_t size) {
  if (left_bytes < size) return nullptr;
  left_bytes -= size;
  return std::exchange(next, next + size);
}

void* DenseMemory::allocate(std::size_t size, std::size_t alignment) {
  constexpr std::size_t kPoolBytes = 64 * kKiB;
  if (size > kPoolBytes / 8 || alignment > kLineBytes) return allocate_large(size, alignment);
  const std::size_t place = (size + kLineBytes - 1) / kLineBytes * kLineBytes;
  if (small_.left_bytes < place)
    small_ = {static_cast<std::byte*>(allocate_large(kPoolBytes, kPageBytes)), kPoolBytes};
  return small_.take(place);
}

void* DenseMemory::allocate_large(std::size_t size, std::size_t alignment) {
  if (pages_ == Pages::kSmall) return structures::PlainMemory().allocate(size, alignment);
  return allocate_huge((size + kPageBytes - 1) / kPageBytes * kPageBytes);
}

/// Whole pages, so that every block is aligned well enough.
void* DenseMemory::allocate_huge(std::size_t size) {
  constexpr std::size_t kPieceBytes = 32 * kMiB, kHugeBytes = 2 * kMiB;
  if (huge_.left_bytes < size) {
    void* const piece = structures::PlainMemory().allocate(kPieceBytes, kHugeBytes);
    if (madvise(piece, kPieceBytes, MADV_HUGEPAGE) != 0)
      throw std::system_error(errno, std::generic_category(), "madvise(MADV_HUGEPAGE)");
    huge_ = {static_cast<std::byte*>(piece), kPieceBytes};
  }
  return huge_.take(size);
}

PlainHost::PlainHost(std::uint64_t records, Pages pages) {
  add_records(DenseMemory(pages), table_, records);
}

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
