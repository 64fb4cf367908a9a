// Transactions that are durable one by one, against what they must cost and what else gives that.
//
//   list    inserts of nodes of 64 bytes at the head of one list, a transaction each (OpF-STM §5.2)
//   map     inserts into a hash table of chains, and lookups
//   bank    transfers between two of a million accounts
//   tree    a red-black tree, and the map: of five calls four look a key up, one inserts or removes
//
//   lbp, ntp      the paper's ways of making a record durable ÷ a flush of each word of it
//   floor         a commit ÷ 256 bytes written past the caches and a fence
//   libpmemobj    ÷ its transactions, on the same tmpfs, told that it is persistent memory, with
//                 the allocation class that is best for it; the worse of list and map
//   file_N        N threads that insert single records, each durable before the next, ÷ the best of
//                 LMDB, SQLite, RocksDB and Berkeley DB, inserts a second
//   read          a lookup in a transaction ÷ a plain one
//   undo          a transfer with undo logging ÷ one with redo logging
//   relaxed       inserts into a file that nobody waits for
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <vector>

#include <perdura/transaction.hpp>

#include "harness.hpp"
#include "peers_records.hpp"
#include "peers_stores.hpp"
#include "pmem_pool.hpp"
#include "red_black_tree.hpp"
#include "stores.hpp"
#include "threads.hpp"

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

// --- the list ------------------------------------------------------------------------------------

/// A store with a list, and how its transactions become durable.
class ListStore {
 public:
  ListStore(Context& context, Durability durability, const char* parameters)
      : store_(open_store(context.uri(Place::kMemory, "list") + parameters, options())),
        list_(store_.root<List>("list")) {
    warm_up(store_);
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

/// Which of so many lists a key is in.
std::uint64_t list_of(std::uint64_t key, std::uint64_t lists) { return scatter(key) % lists; }

/// Throws unless the lists have the nodes of the keys below `inserted` and no others, each in its
/// list, the newest first.
template <class First, class Next>
void check_lists(const char* side, std::uint64_t lists, std::uint64_t inserted, const First& first,
                 const Next& next) {
  std::uint64_t found = 0;
  bool fits = true;
  for (std::uint64_t list = 0; list < lists; ++list) {
    std::uint64_t above = inserted;
    for (const auto* node = first(list); fits && node != nullptr; node = next(*node), ++found) {
      fits = node->key < above && node->value == node->key && list_of(node->key, lists) == list;
      above = node->key;
    }
  }
  if (!fits || found != inserted)
    throw std::runtime_error(
        fmt::format("{}: {} nodes inserted, {} found right", side, inserted, found));
}

/// Inserts into one list, or into many, which are a hash table: ours and libpmemobj's.
template <std::uint64_t kLists>
class ListsCase {
 public:
  ListsCase(Context& context, const PmemHeaders& headers)
      : headers_(headers),
        uri_(context.uri(Place::kMemory, "lists")),
        path_(context.path(Place::kMemory, "lists-pmem")),
        context_(context) {}
  ~ListsCase() {
    context_.remove(uri_);
    context_.remove(path_);
  }
  ListsCase(const ListsCase&) = delete;

  Paired run() {
    const Paired result = measure();
    Store store = open_store(uri_, options());
    const Lists& lists = store.root<Lists>("lists");
    check_lists(
        "perdura", kLists, ours_,
        [&](std::uint64_t list) -> const ListNode* { return lists[list].first; },
        [](const ListNode& node) -> const ListNode* { return node.next; });
    store.close();
    const PmemPool pool = PmemPool::open(path_, kLists);
    check_lists(
        "libpmemobj", kLists, theirs_, [&](std::uint64_t list) { return pool.first(list); },
        [](const PmemNode& node) { return PmemPool::next(node); });
    return result;
  }

 private:
  using Lists = std::array<List, kLists>;

  /// Seconds an insert.
  Paired measure() {
    const auto count = context_.scale<std::uint64_t>(200'000, 20'000);
    Store store = open_store(uri_, options());
    Lists& lists = store.root<Lists>("lists");
    warm_up(store);
    PmemPool pool = PmemPool::create(path_, kLists, headers_);
    const auto each_s = [&](std::uint64_t& next, const auto& insert_key) {
      const double seconds = timed_s([&] {
        for (std::uint64_t i = 0; i < count; ++i, ++next) insert_key(list_of(next, kLists), next);
      });
      return seconds / static_cast<double>(count);
    };
    const Paired result = paired(
        context_.scale(5, 3),
        [&] {
          return each_s(ours_, [&](std::uint64_t list, std::uint64_t key) {
            insert(store, lists[list], key);
          });
        },
        [&] {
          return each_s(theirs_,
                        [&](std::uint64_t list, std::uint64_t key) { pool.insert(list, key); });
        });
    store.close();
    return result;
  }

  const PmemHeaders& headers_;
  const std::string uri_, path_;
  Context& context_;
  std::uint64_t ours_ = 0, theirs_ = 0;  ///< keys inserted
};

/// Times as many inserts as libpmemobj, with the headers that are best for it.
template <std::uint64_t kLists>
Measured compare_lists(Context& context) {
  Measured measured;
  double best_s = std::numeric_limits<double>::infinity();
  for (const PmemHeaders& headers : kPmemHeaders) {
    const Paired result = ListsCase<kLists>(context, headers).run();
    measured.detail[headers.name] = {{"ratio", 1 / result.ratio},
                                     {"perdura_ns", result.subject * 1e9},
                                     {"libpmemobj_ns", result.base * 1e9}};
    if (result.base > best_s) continue;
    best_s = result.base;
    measured.value = 1 / result.ratio;
    measured.detail["best_headers"] = headers.name;
  }
  return measured;
}

Measured compare_pmemobj(Context& context) {
  const Measured list = compare_lists<1>(context);
  const Measured map = compare_lists<kBuckets>(context);
  return {std::min(list.value, map.value),
          {{"list", list.detail},
           {"map", map.detail},
           {"list_ratio", list.value},
           {"map_ratio", map.value}}};
}

// --- files ---------------------------------------------------------------------------------------

constexpr int kRoundsOfFiles = 3;

/// Records inserted a second by several threads, in about `seconds`, from `next` on. Threads that
/// wait for a disk are left to the system: away from the processor that gets its interrupts they
/// wait half as long again.
template <class Insert>
double inserts_per_s(int threads, double seconds, std::atomic<std::uint64_t>& next,
                     const Insert& insert_record) {
  const std::uint64_t first = next;
  const double begin = now_s();
  in_threads(
      threads,
      [&](int) {
        while (now_s() - begin < seconds) insert_record(next.fetch_add(1));
      },
      Pinned::kNo);
  return static_cast<double>(next - first) / (now_s() - begin);
}

struct FilePlan {
  int threads;
  double seconds;  ///< of inserting, in each store and round
};

/// Ours, opened again as the peers' tables are.
void check_map(const std::string& uri, std::uint64_t inserted, const peers::Records& records) {
  Store store = open_store(uri, options());
  auto& map = store.root<Map>("map");
  std::uint64_t found = 0;
  for (const MapNode* node : map.buckets)
    for (; node != nullptr; node = node->next) ++found;
  peers::check("perdura", inserted, found, [&](std::uint64_t record) {
    const MapNode* node = map.bucket(records.key(record));
    while (node != nullptr && node->key != records.key(record)) node = node->next;
    return node != nullptr && node->value == records.value(record);
  });
  store.close();
}

double own_inserts_per_s(Context& context, const FilePlan& plan, const peers::Records& records) {
  const std::string uri = context.uri(Place::kDisk, "transactions");
  std::atomic<std::uint64_t> next{0};
  double rate = 0;
  {
    Store store = open_store(uri, options(), kAnyCpu);
    auto& map = store.root<Map>("map");
    warm_up(store);
    const auto insert_record = [&](std::uint64_t record) {
      insert(store, map, records.key(record), records.value(record));
    };
    inserts_per_s(plan.threads, peers::kWarmUpS, next, insert_record);
    rate = inserts_per_s(plan.threads, plan.seconds, next, insert_record);
    store.close();
  }
  check_map(uri, next, records);
  context.remove(uri);
  return rate;
}

double peer_inserts_per_s(Context& context, const peers::Store& peer, const FilePlan& plan,
                          const peers::Load& load, const peers::Records& records) {
  const std::string path = context.path(Place::kDisk, peer.name);
  std::atomic<std::uint64_t> next{0};
  double rate = 0;
  {
    const auto table = peer.open(path, load);
    table->warm_up();
    const auto insert_record = [&](std::uint64_t record) {
      table->insert(records.key(record), records.value(record));
    };
    inserts_per_s(plan.threads, peers::kWarmUpS, next, insert_record);
    rate = inserts_per_s(plan.threads, plan.seconds, next, insert_record);
  }
  peers::check(peer, path, next, records);
  context.remove(path);
  return rate;
}

// One writer at a time is what LMDB and SQLite have; RocksDB and Berkeley DB have group commit.
Measured compare_files(Context& context, int threads) {
  const FilePlan plan{threads, context.scale(3.0, 0.7)};
  const peers::Load load{.writers = threads, .background_cpu = kAnyCpu};
  const peers::Records records;
  const std::vector<const peers::Store*> all = peers::peers_of(threads);
  std::vector<double> own;
  std::vector<std::vector<double>> others(all.size());
  for (int round = 0; round < kRoundsOfFiles; ++round) {
    own.push_back(own_inserts_per_s(context, plan, records));
    for (std::size_t i = 0; i < all.size(); ++i)
      others[i].push_back(peer_inserts_per_s(context, *all[i], plan, load, records));
  }
  Measured measured;
  double best = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double per_s = median(others[i]);
    measured.detail[all[i]->name] = {{"inserts_per_s", per_s},
                                     {"settings", all[i]->settings(load)}};
    if (per_s > best) measured.detail["best_peer"] = all[i]->name;
    best = std::max(best, per_s);
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
  std::atomic<std::uint64_t> next{0};
  std::uint64_t behind_max = 0;
  const double rate = inserts_per_s(1, context.scale(3.0, 0.7), next, [&](std::uint64_t key) {
    insert(store, map, key, {});
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
