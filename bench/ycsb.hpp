// YCSB's core workloads on the B+-tree, in a store's heap or in ordinary memory, by the same code.
//
// The table is an index of pointers to records of 100 bytes in slots of 128, which come in blocks
// of 1 MiB. Both sides have the same layout, whatever their allocators do with small blocks.
// Operations are generated beforehand, so that only the table's work is measured, and the index is
// asked kAhead operations early, so that the cache misses of several overlap: twice as fast as one
// after the other, hence a strict base for whatever persistence adds.
#pragma once

#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include <perdura/store.hpp>
#include <perdura/structures/bplus_tree.hpp>

#include "measure.hpp"

namespace perdura::bench::ycsb {

constexpr std::size_t kRecordBytes = 100;
constexpr std::size_t kSlotBytes = 128;
constexpr std::size_t kBlockBytes = kMiB;
constexpr std::uint64_t kBlockRecords = kBlockBytes / kSlotBytes;

struct alignas(64) Record {
  std::byte bytes[kRecordBytes];
};
static_assert(sizeof(Record) == kSlotBytes);

/// Can be a store's root.
struct Table {
  structures::BPlusTree<Record*> index;
  std::uint64_t records = 0;
};

/// The key of the i-th record: even, scattered over the key space.
inline std::uint64_t key_of(std::uint64_t record) { return scatter(record) & ~std::uint64_t{1}; }

/// What a record holds before its first update, so that a reader can tell whether it is whole.
inline void fill_record(Record& record, std::uint64_t key) {
  std::memset(record.bytes, static_cast<int>(key >> 1 & 0xff), kRecordBytes);
  std::memcpy(record.bytes, &key, sizeof(key));
}

/// Adds `count` records, which kBlockRecords divides. All of them become durable together.
template <class Env>
void add_records(Env&& env, Table& table, std::uint64_t count) {
  for (std::uint64_t added = 0; added < count; added += kBlockRecords) {
    auto* slots = static_cast<std::byte*>(env.allocate(kBlockBytes, kLineBytes));
    for (std::uint64_t i = 0; i < kBlockRecords; ++i) {
      auto* record = ::new (slots + i * kSlotBytes) Record;
      const std::uint64_t key = key_of(table.records + i);
      fill_record(*record, key);
      table.index.insert(env, key, record);
    }
    env.touch(&table.records, sizeof(table.records));
    table.records += kBlockRecords;
  }
}

enum class Workload { kA, kB, kC, kF };
constexpr char letter(Workload workload) { return "abcf"[static_cast<int>(workload)]; }
/// Percent of operations that write: update in A and B, read-modify-write in F.
constexpr std::array<unsigned, 4> kWritePercent = {50, 5, 0, 50};

/// How many operations ahead the index is asked. It does not change while operations run.
constexpr std::size_t kAhead = 8;

/// An operation is a key, plus 1 when it writes.
using Operations = std::vector<std::uint64_t>;

struct Mix {
  Workload workload = Workload::kA;
  std::uint64_t records = 0;
  std::size_t count = 0;
  std::uint64_t seed = 1;
  std::uint64_t partitions = 1;  ///< only records whose number modulo this is `partition`
  std::uint64_t partition = 0;
  std::uint64_t rank_items = 0;  ///< see Zipfian
};
Operations generate(const Mix& mix);

/// Reads, updates and read-modify-writes of one thread. `Host::begin()` opens an operation and
/// returns its environment; reads need none.
template <bool kModify, class Host>
[[gnu::noinline]] std::uint64_t run(Host& host, const Table& table,
                                    std::span<const std::uint64_t> operations) {
  struct Value {
    std::uint64_t words[kRecordBytes / 8];
    std::uint32_t last;
  };
  static_assert(sizeof(Value) == 104 && offsetof(Value, last) + 4 == kRecordBytes);
  Value value{};
  std::uint64_t sum = 0;
  Record* ahead[kAhead];
  const auto look_up = [&](std::size_t i) {
    const std::uint64_t operation = operations[i < operations.size() ? i : 0];
    ahead[i % kAhead] = *table.index.find(operation & ~std::uint64_t{1});
  };
  for (std::size_t i = 0; i < kAhead; ++i) look_up(i);
  for (std::size_t i = 0; i < operations.size(); ++i) {
    Record* const record = ahead[i % kAhead];
    look_up(i + kAhead);
    const auto read = [&] {
      std::memcpy(&value, record->bytes, kRecordBytes);
      sum += value.words[1] + value.last;
    };
    if ((operations[i] & 1) == 0) {
      read();
      continue;
    }
    const auto env = host.begin();
    if (kModify) read();
    value.words[2] = operations[i];
    env.touch(record->bytes, kRecordBytes);
    std::memcpy(record->bytes, &value, kRecordBytes);
  }
  return sum;
}

template <class Host>
std::uint64_t run(Workload workload, Host& host, const Table& table,
                  std::span<const std::uint64_t> operations) {
  return workload == Workload::kF ? run<true>(host, table, operations)
                                  : run<false>(host, table, operations);
}

/// What ordinary memory consists of.
enum class Pages {
  kSmall,  ///< malloc's, of which a program has said nothing
  kHuge,   ///< asked for with madvise(MADV_HUGEPAGE), as a store does for its heap
};

/// Ordinary memory, in which small blocks lie as densely as in the slabs of a store's heap. With
/// each node allocated by itself, glibc's headers and alignment would make the base 10 % slower.
class DenseMemory {
 public:
  explicit DenseMemory(Pages pages) : pages_(pages) {}
  void* allocate(std::size_t size, std::size_t alignment);
  void deallocate(void*) {}  // a table only grows here
  void touch(const void*, std::size_t) {}

 private:
  /// What is left of a piece that small blocks, or all of them, come from.
  struct Pool {
    std::byte* next = nullptr;
    std::size_t left_bytes = 0;
    void* take(std::size_t size);
  };
  void* allocate_large(std::size_t size, std::size_t alignment);
  void* allocate_huge(std::size_t size);

  Pages pages_;
  Pool small_;
  Pool huge_;
};

/// The table in ordinary memory.
class PlainHost {
 public:
  explicit PlainHost(std::uint64_t records, Pages pages = Pages::kSmall);
  structures::PlainMemory begin() const { return {}; }
  Table& table() { return table_; }

 private:
  Table table_;  // and what it points to; freed with the process
};

/// The table as a root of a store.
class StoreHost {
 public:
  /// Built and durable when this returns; checkpoints are taken on the way.
  StoreHost(Store& store, std::uint64_t records);
  Operation begin() { return store_.operation(); }
  Table& table() { return table_; }

 private:
  Store& store_;
  Table& table_;
};

}  // namespace perdura::bench::ycsb
