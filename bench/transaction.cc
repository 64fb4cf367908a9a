// Transactions that are durable one by one, against what they must cost and what else gives that.
//
//   list    inserts of nodes of 64 bytes at the head of one list, a transaction each (OpF-STM §5.2)
//   map     inserts into a hash table of chains, and lookups
//   bank    transfers between two of a million accounts
//   tree    a red-black tree, and the map: of five calls four look a key up, one inserts or removes
//
//   lbp, ntp      the paper's ways of making a record durable ÷ a flush of each word of it
//   floor         a commit ÷ 256 bytes written past the caches and a fence
//   libpmemobj    ÷ its transactions, on the same tmpfs, told that it is persistent memory
//   file_N        N threads that insert single records, each durable before the next, ÷ the best of
//                 LMDB, SQLite, RocksDB and Berkeley DB, inserts a second
//   read          a lookup in a transaction ÷ a plain one
//   undo          a transfer with undo logging ÷ one with redo logging
//   relaxed       inserts into a file that nobody waits for
#include <immintrin.h>
#include <libpmemobj.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include <perdura/transaction.hpp>

#include "harness.hpp"
#include "peers_stores.hpp"
#include "red_black_tree.hpp"
#include "stores.hpp"

namespace perdura::bench {
namespace {

struct ListNode {
  ListNode* next;
  std::uint64_t key;
  std::uint64_t value;
  std::uint64_t rest[5] = {};
};
static_assert(sizeof(ListNode) == 64);
struct List {
  ListNode* first;
};

void insert(Store& store, List& list, std::uint64_t key) {
  atomically(store, [&](Transaction& tx) {
    auto* const node = tx.make<ListNode>(tx.read(list.first), key, key);
    tx.write(list.first, node);
  });
}

struct MapNode {
  MapNode* next;
  std::uint64_t key;
  peers::Value value;
};
constexpr std::uint64_t kBuckets = 1 << 20;
struct Map {
  MapNode* buckets[kBuckets];
  MapNode*& bucket(std::uint64_t key) { return buckets[scatter(key) % kBuckets]; }
};

void insert(Transaction& tx, Map& map, std::uint64_t key, const peers::Value& value) {
  MapNode*& bucket = map.bucket(key);
  MapNode* const first = tx.read(bucket);
  for (MapNode* node = first; node != nullptr; node = tx.read(node->next))
    if (tx.read(node->key) == key) return tx.write(node->value, value);
  tx.write(bucket, tx.make<MapNode>(first, key, value));
}

void insert(Store& store, Map& map, std::uint64_t key, const peers::Value& value) {
  atomically(store, [&](Transaction& tx) { insert(tx, map, key, value); });
}

bool holds(Transaction& tx, Map& map, std::uint64_t key) {
  for (const MapNode* node = tx.read(map.bucket(key)); node != nullptr; node = tx.read(node->next))
    if (tx.read(node->key) == key) return true;
  return false;
}

bool erase(Transaction& tx, Map& map, std::uint64_t key) {
  for (MapNode** place = &map.bucket(key);;) {
    MapNode* const node = tx.read(*place);
    if (node == nullptr) return false;
    if (tx.read(node->key) == key) {
      tx.write(*place, tx.read(node->next));
      tx.destroy(node);
      return true;
    }
    place = &node->next;
  }
}

bool holds_plainly(Map& map, std::uint64_t key) {
  for (const MapNode* node = map.bucket(key); node != nullptr; node = node->next)
    if (node->key == key) return true;
  return false;
}

Options options() {
  Options options;
  options.region_limit_bytes = 4 * kGiB;
  return options;
}

enum class Pinned { kYes, kNo };

template <class Body>
void in_threads(int count, const Body& body, Pinned pinned = Pinned::kYes) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < count; ++thread)
    threads.emplace_back([&body, thread, pinned] {
      pin_thread(pinned == Pinned::kNo ? kAnyCpu : thread % 2 == 0 ? kMutatorCpu : kBackgroundCpu);
      body(thread);
    });
  for (std::thread& thread : threads) thread.join();
}

// --- the list ------------------------------------------------------------------------------------

/// A store with a list, and how its transactions become durable.
class ListStore {
 public:
  ListStore(Context& context, Durability durability, const char* parameters)
      : store_(open_store(context.uri(Place::kMemory, "list") + parameters, options())),
        list_(store_.root<List>("list")) {
    set_durability(store_, durability);
  }
  ~ListStore() { store_.close(); }
  /// Seconds an insert.
  double insert_s(std::uint64_t count, int threads = 1) {
    const double seconds = timed_s([&] {
      if (threads == 1) {
        for (std::uint64_t i = 0; i < count; ++i) insert(store_, list_, i);
      } else {
        in_threads(threads, [&](int thread) {
          for (auto i = static_cast<std::uint64_t>(thread); i < count;
               i += static_cast<std::uint64_t>(threads))
            insert(store_, list_, i);
        });
      }
    });
    return seconds / static_cast<double>(count);
  }

 private:
  Store store_;
  List& list_;
};

Measured compare_ways(Context& context, Durability durability, const char* parameters,
                      int threads) {
  const auto count = context.scale<std::uint64_t>(1'000'000, 50'000) / 5;
  ListStore subject(context, durability, parameters);
  ListStore base(context, Durability::kPerWrite, "?flush=clflush");
  const Paired result = paired(
      5, [&] { return subject.insert_s(count, threads); },
      [&] { return base.insert_s(count, threads); });
  return {1 / result.ratio,
          {{"subject_ns", result.subject * 1e9}, {"per_write_ns", result.base * 1e9}}};
}

/// Seconds of 256 bytes past the caches, and a fence.
double floor_s(std::byte* memory, std::size_t bytes, std::uint64_t count) {
  const __m128i value = _mm_set1_epi8(7);
  return timed_s([&] {
           for (std::uint64_t i = 0; i < count; ++i) {
             auto* const at = reinterpret_cast<__m128i*>(memory + i * 256 % bytes);
             for (int k = 0; k < 16; ++k) _mm_stream_si128(at + k, value);
             _mm_sfence();
           }
         }) /
         static_cast<double>(count);
}

Measured compare_floor(Context& context) {
  constexpr std::size_t kBytes = 64 * kMiB;
  const auto count = context.scale<std::uint64_t>(200'000, 50'000);
  const std::unique_ptr<std::byte, decltype(&std::free)> memory(
      static_cast<std::byte*>(std::aligned_alloc(kPageBytes, kBytes)), &std::free);
  std::memset(memory.get(), 1, kBytes);
  ListStore subject(context, Durability::kNonTemporal, "");
  const Paired result = paired(
      9, [&] { return subject.insert_s(count); },
      [&] { return floor_s(memory.get(), kBytes, count); });
  return {result.ratio, {{"commit_ns", result.subject * 1e9}, {"floor_ns", result.base * 1e9}}};
}

// --- libpmemobj ----------------------------------------------------------------------------------

struct PmemNode {
  PMEMoid next;
  std::uint64_t key;
  std::uint64_t rest[5];
};
static_assert(sizeof(PmemNode) == 64);

class PmemPool {
 public:
  explicit PmemPool(const std::string& path, std::size_t root_bytes) {
    setenv("PMEM_IS_PMEM_FORCE", "1", 1);
    pool_ = pmemobj_create(path.c_str(), "bench", 4 * kGiB, 0600);
    if (pool_ == nullptr) throw std::runtime_error(pmemobj_errormsg());
    root_ = pmemobj_direct(pmemobj_root(pool_, root_bytes));
  }
  ~PmemPool() { pmemobj_close(pool_); }
  PmemPool(const PmemPool&) = delete;
  PMEMobjpool* get() { return pool_; }
  void* root() { return root_; }

  void insert(PMEMoid& first, std::uint64_t key) {
    volatile bool failed = false;  // it is left by longjmp
    TX_BEGIN(pool_) {
      const PMEMoid node = pmemobj_tx_alloc(sizeof(PmemNode), 1);
      auto* const place = static_cast<PmemNode*>(pmemobj_direct(node));
      place->next = first;
      place->key = key;
      for (std::uint64_t& word : place->rest) word = 0;
      pmemobj_tx_add_range_direct(&first, sizeof first);
      first = node;
    }
    TX_ONABORT { failed = true; }
    TX_END
    if (failed) throw std::runtime_error(pmemobj_errormsg());
  }

 private:
  PMEMobjpool* pool_;
  void* root_;
};

Measured compare_pmemobj(Context& context) {
  const auto count = context.scale<std::uint64_t>(200'000, 20'000);
  const int pairs = context.scale(5, 3);
  Measured measured;
  measured.value = std::numeric_limits<double>::infinity();
  const auto note = [&](const char* name, const Paired& result) {
    measured.value = std::min(measured.value, 1 / result.ratio);
    measured.detail[name] = {{"ratio", 1 / result.ratio},
                             {"perdura_ns", result.subject * 1e9},
                             {"libpmemobj_ns", result.base * 1e9}};
  };
  {
    ListStore subject(context, Durability::kNonTemporal, "");
    PmemPool pool(context.path(Place::kMemory, "list-pmem"), sizeof(PMEMoid));
    auto& first = *static_cast<PMEMoid*>(pool.root());
    note("list", paired(
                     pairs, [&] { return subject.insert_s(count); },
                     [&] {
                       return timed_s([&] {
                                for (std::uint64_t i = 0; i < count; ++i) pool.insert(first, i);
                              }) /
                              static_cast<double>(count);
                     }));
  }
  Store store = open_store(context.uri(Place::kMemory, "map"), options());
  auto& map = store.root<std::array<List, kBuckets>>("map");
  PmemPool pool(context.path(Place::kMemory, "map-pmem"), kBuckets * sizeof(PMEMoid));
  auto* const buckets = static_cast<PMEMoid*>(pool.root());
  std::uint64_t done[2] = {};
  const auto run = [&](std::uint64_t& next, const auto& one) {
    return timed_s([&] {
             for (std::uint64_t i = 0; i < count; ++i, ++next) one(next);
           }) /
           static_cast<double>(count);
  };
  note("map", paired(
                  pairs,
                  [&] {
                    return run(done[0], [&](std::uint64_t key) {
                      insert(store, map[scatter(key) % kBuckets], key);
                    });
                  },
                  [&] {
                    return run(done[1], [&](std::uint64_t key) {
                      pool.insert(buckets[scatter(key) % kBuckets], key);
                    });
                  }));
  store.close();
  return measured;
}

// --- files ---------------------------------------------------------------------------------------

constexpr int kRoundsOfFiles = 3;

/// Inserts a second by several threads, in about `seconds`. Threads that wait for a disk are left
/// to the system: away from the processor that gets its interrupts they wait half as long again.
template <class Insert>
double inserts_per_s(int threads, double seconds, const Insert& insert) {
  std::atomic<std::uint64_t> next{0};
  const double begin = now_s();
  in_threads(
      threads,
      [&](int) {
        while (now_s() - begin < seconds) insert(next.fetch_add(1));
      },
      Pinned::kNo);
  return static_cast<double>(next) / (now_s() - begin);
}

// One writer at a time is what LMDB and SQLite have; RocksDB has group commit.
Measured compare_files(Context& context, int threads) {
  const double seconds = context.scale(3.0, 0.7);
  const peers::Value value{};
  std::vector<double> own;
  std::vector<std::vector<double>> others(peers::kPeers.size());
  for (int round = 0; round < kRoundsOfFiles; ++round) {
    {
      const std::string uri = context.uri(Place::kDisk, "transactions");
      Options chosen = options();
      Store store = open_store(uri, chosen, kAnyCpu);
      auto& map = store.root<Map>("map");
      store.checkpoint();
      own.push_back(inserts_per_s(threads, seconds,
                                  [&](std::uint64_t key) { insert(store, map, key, value); }));
      store.close();
      context.remove(uri);
    }
    for (std::size_t i = 0; i < peers::kPeers.size(); ++i) {
      const peers::Store& peer = peers::kPeers[i];
      const std::string path = context.path(Place::kDisk, peer.name);
      {
        const auto table = peer.open(path, peers::Durability::kEveryInsert);
        const bool concurrent = std::string(peer.name) == "rocksdb";
        std::mutex mutex;
        others[i].push_back(inserts_per_s(threads, seconds, [&](std::uint64_t key) {
          if (concurrent) return table->insert(scatter(key) >> 1, value);
          const std::lock_guard lock(mutex);
          table->insert(scatter(key) >> 1, value);
        }));
      }
      context.remove(path);
    }
  }
  Measured measured;
  double best = 0;
  for (std::size_t i = 0; i < peers::kPeers.size(); ++i) {
    measured.detail[peers::kPeers[i].name] = median(others[i]);
    best = std::max(best, median(others[i]));
  }
  measured.detail["perdura"] = median(own);
  measured.value = median(own) / best;
  return measured;
}

// --- lookups and transfers -----------------------------------------------------------------------

Measured compare_lookups(Context& context) {
  const auto count = context.scale<std::uint64_t>(1'000'000, 100'000);
  Store store = open_store(context.uri(Place::kMemory, "map"), options());
  auto& map = store.root<Map>("map");
  set_durability(store, Durability::kNone);
  const peers::Value value{};
  for (std::uint64_t i = 0; i < count; ++i) insert(store, map, i, value);
  std::uint64_t found = 0;
  const auto lookups = [&](const auto& holds_key) {
    return timed_s([&] {
      for (std::uint64_t i = 0; i < count; ++i) found += holds_key(scatter(i) % count) ? 1u : 0u;
    });
  };
  const Paired result = paired(
      9,
      [&] {
        return lookups([&](std::uint64_t key) {
          return atomically(store, [&](Transaction& tx) { return holds(tx, map, key); });
        });
      },
      [&] { return lookups([&](std::uint64_t key) { return holds_plainly(map, key); }); });
  if (found != 20 * count) throw std::runtime_error("a key was not found");
  store.close();
  const auto each = static_cast<double>(count) / 1e9;
  return {result.ratio,
          {{"transaction_ns", result.subject / each}, {"plain_ns", result.base / each}}};
}

class Bank {
 public:
  explicit Bank(Context& context)
      : store_(open_store(context.uri(Place::kMemory, "bank"), options())),
        accounts_(store_.root<Accounts>("bank").each) {
    store_.checkpoint();
  }
  Store& store() { return store_; }
  /// Seconds of so many transfers.
  double transfer_s(std::uint64_t count, int threads) {
    return timed_s([&] {
      in_threads(threads, [&](int thread) {
        Random random(static_cast<std::uint64_t>(thread));
        for (std::uint64_t i = 0; i < count / static_cast<std::uint64_t>(threads); ++i) {
          std::int64_t& from = accounts_[random.next() % kAccounts];
          std::int64_t& to = accounts_[random.next() % kAccounts];
          atomically(store_, [&](Transaction& tx) {
            tx.write(from, tx.read(from) - 1);
            tx.write(to, tx.read(to) + 1);
          });
        }
      });
    });
  }
  void close() {
    std::int64_t sum = 0;
    for (std::uint64_t i = 0; i < kAccounts; ++i) sum += accounts_[i];
    if (sum != 0) throw std::runtime_error("money was made or lost");
    store_.close();
  }

 private:
  static constexpr std::uint64_t kAccounts = 1'000'000;
  struct Accounts {
    std::int64_t each[kAccounts];
  };
  Store store_;
  std::int64_t* accounts_;
};

Measured measure_bank(Context& context, int threads) {
  const auto count = context.scale<std::uint64_t>(1'000'000, 100'000);
  Bank bank(context);
  const double seconds = bank.transfer_s(count, threads);
  bank.close();
  return {static_cast<double>(count) / seconds / 1e6, {}};
}

Measured compare_undo(Context& context) {
  const auto count = context.scale<std::uint64_t>(500'000, 100'000);
  Bank bank(context);
  const auto with = [&](Logging logging) {
    set_logging(bank.store(), logging);
    return bank.transfer_s(count, 1);
  };
  const Paired result =
      paired(5, [&] { return with(Logging::kUndo); }, [&] { return with(Logging::kRedo); });
  bank.close();
  const auto each = static_cast<double>(count) / 1e9;
  return {result.ratio, {{"undo_ns", result.subject / each}, {"redo_ns", result.base / each}}};
}

Measured measure_relaxed(Context& context) {
  Store store = open_store(context.uri(Place::kDisk, "relaxed"), options(), kAnyCpu);
  auto& map = store.root<Map>("map");
  set_durability(store, Durability::kRelaxed);
  std::uint64_t key = 0;
  std::uint64_t behind_max = 0;
  const double rate = inserts_per_s(1, context.scale(3.0, 0.7), [&](std::uint64_t) {
    insert(store, map, key++, {});
    if (key % 64 == 0)
      behind_max = std::max(behind_max, last_commit(store) - durable_commit(store));
  });
  store.close();
  return {rate / 1e6, {{"commits_behind_max", behind_max}}};
}

/// Millions of calls a second, one of five an insertion or removal. Half of the keys are there.
template <class Contains, class Insert, class Erase>
double mixed_calls(Context& context, Store& store, std::uint64_t keys, int threads,
                   const Contains& contains, const Insert& insert, const Erase& erase) {
  const auto count = context.scale<std::uint64_t>(1'000'000, 100'000);
  for (std::uint64_t key = 0; key < keys; key += 2)
    atomically(store, [&](Transaction& tx) { insert(tx, scatter(key) % keys); });
  store.checkpoint();
  const double seconds = timed_s([&] {
    in_threads(threads, [&](int thread) {
      Random random(static_cast<std::uint64_t>(thread));
      for (std::uint64_t i = 0; i < count / static_cast<std::uint64_t>(threads); ++i) {
        const std::uint64_t key = random.next() % keys;
        const std::uint64_t kind = random.next() % 10;
        atomically(store, [&](Transaction& tx) {
          if (kind == 0) insert(tx, key);
          else if (kind == 1) erase(tx, key);
          else contains(tx, key);
        });
      }
    });
  });
  return static_cast<double>(count) / seconds / 1e6;
}

Measured measure_tree(Context& context, int threads) {
  Store store = open_store(context.uri(Place::kMemory, "tree"), options());
  auto& tree = store.root<RedBlackTree>("tree");
  atomically(store, [&](Transaction& tx) { tree.begin(tx); });
  const double rate = mixed_calls(
      context, store, 100'000, threads,
      [&](Transaction& tx, std::uint64_t key) { tree.contains(tx, key); },
      [&](Transaction& tx, std::uint64_t key) { tree.insert(tx, key); },
      [&](Transaction& tx, std::uint64_t key) { tree.erase(tx, key); });
  const std::uint64_t left = tree.count();
  store.close();
  return {rate, {{"keys", left}}};
}

Measured measure_map(Context& context, int threads) {
  Store store = open_store(context.uri(Place::kMemory, "map"), options());
  auto& map = store.root<Map>("map");
  const double rate = mixed_calls(
      context, store, 1'000'000, threads,
      [&](Transaction& tx, std::uint64_t key) { holds(tx, map, key); },
      [&](Transaction& tx, std::uint64_t key) { insert(tx, map, key, {}); },
      [&](Transaction& tx, std::uint64_t key) { erase(tx, map, key); });
  store.close();
  return {rate, {}};
}

void run(Context& context) {
  pin_thread(kMutatorCpu);
  for (const int threads : {1, 2, 4}) {
    const std::string suffix = threads == 1 ? "" : fmt::format("_{}", threads);
    context.measure(
        "lbp" + suffix, "ratio", threads == 1 ? Reach::at_least(2.2) : Reach::none(),
        [&] { return compare_ways(context, Durability::kLazyBulk, "?flush=clflush", threads); });
    context.measure("ntp" + suffix, "ratio", threads == 1 ? Reach::at_least(2.4) : Reach::none(),
                    [&] { return compare_ways(context, Durability::kNonTemporal, "", threads); });
  }
  context.measure("floor", "ratio", Reach::at_most(2.0), [&] { return compare_floor(context); });
  context.measure("libpmemobj", "ratio", Reach::at_least(3),
                  [&] { return compare_pmemobj(context); });
  context.measure("read", "ratio", Reach::at_most(4), [&] { return compare_lookups(context); });
  for (const int threads : {1, 2, 4}) {
    const std::string suffix = fmt::format("_{}", threads);
    const auto report = [&](const char* name, Measured (*measure)(Context&, int)) {
      context.measure(name + suffix, "M/s", Reach::none(),
                      [&] { return measure(context, threads); });
    };
    report("tree", measure_tree);
    report("map", measure_map);
    report("bank", measure_bank);
  }
  context.measure("undo", "ratio", Reach::none(), [&] { return compare_undo(context); });
  context.measure("relaxed", "M/s", Reach::none(), [&] { return measure_relaxed(context); });
  context.measure("file_1", "ratio", Reach::at_least(1.3),
                  [&] { return compare_files(context, 1); });
  context.measure("file_8", "ratio", Reach::at_least(2), [&] { return compare_files(context, 8); });
}

const Registration kThis("transaction",
                         "durable transactions ÷ other ways to have each step durable", run);

}  // namespace
}  // namespace perdura::bench
