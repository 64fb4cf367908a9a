// Goal: containers that report their stores (structures/) cost next to nothing beside the best
// that there are for ordinary memory, with a checkpoint every 64 ms.
// Method: YCSB's workloads A, B, C and F on a million records of 100 bytes in a hash_map on
// emulated NVM, as a program would write them, against std::unordered_map and Abseil's
// flat_hash_map in ordinary memory; A to F in an ordered_map, against std::map and Abseil's
// btree_map, both with malloc and in huge pages, as a store's heap is; push_back and stores on a
// vector against std::vector; appending to strings against std::string. The sides take turns; a
// figure is the median ratio to the faster of the others, of the worst workload. What a transaction
// costs that changes a value of a hash_map is measured beside one that does the same with fields,
// found by the same hash. What watching a store costs is workload A on the hash_map while `perdura
// stats --watch` looks ten times a second, against the same without.
#include <absl/container/btree_map.h>
#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <perdura/perdura.hpp>
#include <perdura/structures/hash_map.hpp>
#include <perdura/structures/ordered_map.hpp>
#include <perdura/structures/string.hpp>
#include <perdura/structures/vector.hpp>

#include "child.hpp"
#include "harness.hpp"
#include "server.hpp"
#include "stores.hpp"
#include "ycsb.hpp"

namespace perdura::bench {
namespace {

using structures::hash_map;

constexpr std::chrono::milliseconds kInterval(64);

struct Value {
  std::uint64_t words[12];
  std::uint32_t last;
  std::uint32_t unused;
};

/// Checkpoints while it lives.
class Checkpoints {
 public:
  explicit Checkpoints(Store& store) : store_(store) { store.checkpoint_every(kInterval); }
  ~Checkpoints() {
    store_.checkpoint_every(std::chrono::milliseconds(0));
    settle(store_);
  }
  Checkpoints(const Checkpoints&) = delete;

 private:
  Store& store_;
};

Options reported() {
  Options options;
  options.tracking = Tracking::kReported;
  options.region_limit_bytes = 4 * kGiB;
  return options;
}

// --- maps ----------------------------------------------------------------------------------------

Value value_of(std::uint64_t record) {
  return {{record, record}, static_cast<std::uint32_t>(record), 0};
}

template <class Map>
void fill(Map& map, std::uint64_t records) {
  if constexpr (requires { map.reserve(records); }) map.reserve(records);
  for (std::uint64_t i = 0; i < records; ++i) map.try_emplace(ycsb::key_of(i), value_of(i));
}

/// What the program does; the two ways to store to a value are all that differs.
template <class Map>
std::uint64_t work(Map& map, bool modifies, const ycsb::Operations& operations) {
  std::uint64_t sum = 0;
  Value value{};
  for (const std::uint64_t operation : operations) {
    const auto found = map.find(operation & ~std::uint64_t{1});
    const bool writes = (operation & 1) != 0;
    if (!writes || modifies) {
      value = found->second;
      sum += value.words[1] + value.last;
    }
    if (writes) {
      value.words[2] = operation;
      found->second = value;
    }
  }
  return sum;
}

/// The same in a store and in some that are best in ordinary memory.
template <class Durable, class... Ordinary>
class Race {
 public:
  using Names = std::array<const char*, sizeof...(Ordinary)>;

  /// `names`: what a detail calls the ratios to these.
  Race(Context& context, const Names& names, std::uint64_t records)
      : context_(context),
        names_(names),
        uri_(context.uri(Place::kMemory, "map")),
        store_(open_store(uri_, reported(), kBackgroundCpu)),
        durable_(store_.root<Durable>("map")) {
    fill(durable_, records);
    std::apply([&](auto&... each) { (fill(each, records), ...); }, ordinary_);
    settle(store_);
  }
  ~Race() {
    store_.close();
    context_.remove(uri_);
  }
  Race(const Race&) = delete;

  /// `run` works on one of the maps, so many operations, and returns how long that took.
  template <class Run>
  void run(char workload, std::size_t operations, const Run& run) {
    std::vector<Segment> bases;
    std::apply([&](auto&... each) { (bases.emplace_back([&] { return run(each); }), ...); },
               ordinary_);
    const std::vector<Paired> pairs = paired_with_each(
        context_.scale(9, 3),
        [&] {
          const Checkpoints checkpoints(store_);
          return run(durable_);
        },
        bases);
    const Paired& best = against_best(pairs);
    result_.value = std::max(result_.value, best.ratio);
    Json& detail = result_.detail[std::string(1, workload)];
    detail["ratio"] = best.ratio;
    for (std::size_t i = 0; i < pairs.size(); ++i) detail[names_[i]] = pairs[i].ratio;
    detail["mops"] = static_cast<double>(operations) / best.subject / 1e6;
  }
  /// Workloads A, B, C and F.
  void run_on_records(std::uint64_t records, std::size_t count) {
    for (const ycsb::Workload workload :
         {ycsb::Workload::kA, ycsb::Workload::kB, ycsb::Workload::kC, ycsb::Workload::kF}) {
      ycsb::Mix mix;
      mix.workload = workload;
      mix.records = records;
      mix.count = count;
      const ycsb::Operations operations = ycsb::generate(mix);
      const bool modifies = workload == ycsb::Workload::kF;
      run(ycsb::letter(workload), count,
          [&](auto& map) { return timed_s([&] { sink += work(map, modifies, operations); }); });
    }
  }
  const Measured& result() const { return result_; }

  static inline std::atomic<std::uint64_t> sink{0};

 private:
  Context& context_;
  const Names names_;
  const std::string uri_;
  Store store_;
  Durable& durable_;
  std::tuple<Ordinary...> ordinary_;
  Measured result_{0, Json::object()};
};

Measured hash_maps(Context& context) {
  const std::uint64_t records = context.scale<std::uint64_t>(1'000'000, 200'000);
  Race<hash_map<std::uint64_t, Value>, std::unordered_map<std::uint64_t, Value>,
       absl::flat_hash_map<std::uint64_t, Value>>
      race(context, {"to_standard", "to_flat"}, records);
  race.run_on_records(records, context.scale<std::size_t>(4 << 20, 1 << 20));
  return race.result();
}

/// Workloads D and E: of a hundred operations five insert, the others read a record, or some that
/// follow each other.
struct Growing {
  struct Operation {
    std::uint64_t key = 0;
    std::uint64_t scanned = 0;  ///< 0: it inserts
  };
  std::vector<Operation> operations;
  std::uint64_t inserted = 0;

  /// D reads what was inserted lately, one record; E from anywhere up to a hundred.
  Growing(std::uint64_t records, std::size_t count, bool scans) : operations(count) {
    Random random(5);
    const Zipfian zipfian(records, 0.99);
    for (Operation& each : operations) {
      if (random.below(100) < 5) {
        each.key = ycsb::key_of(records + inserted++);
        continue;
      }
      const std::uint64_t rank = zipfian.next(random);
      each.key = ycsb::key_of(scans ? rank : records + inserted - 1 - rank);
      each.scanned = scans ? 1 + random.below(100) : 1;
    }
  }
};

template <class Map>
std::uint64_t work(Map& map, const Growing& growing) {
  const Map& to_read = map;
  std::uint64_t sum = 0;
  for (const Growing::Operation& each : growing.operations) {
    if (each.scanned == 0) {
      map.try_emplace(each.key, value_of(each.key));
      continue;
    }
    auto at = each.scanned == 1 ? to_read.find(each.key) : to_read.lower_bound(each.key);
    for (std::uint64_t i = 0; i < each.scanned && at != to_read.end(); ++i, ++at) {
      const Value value = at->second;
      sum += value.words[1] + value.last;
    }
  }
  return sum;
}

/// Of ordinary memory in huge pages, whose blocks are never given back.
template <class T>
struct HugePages {
  using value_type = T;
  HugePages() = default;
  template <class U>
  HugePages(const HugePages<U>&) {}  // NOLINT(google-explicit-constructor): as allocators are
  T* allocate(std::size_t count) {
    static ycsb::DenseMemory memory(ycsb::Pages::kHuge);
    return static_cast<T*>(memory.allocate(count * sizeof(T), alignof(T)));
  }
  void deallocate(T*, std::size_t) {}
  bool operator==(const HugePages&) const { return true; }
};

Measured ordered_maps(Context& context) {
  const std::uint64_t records = context.scale<std::uint64_t>(1'000'000, 200'000);
  const std::size_t count = context.scale<std::size_t>(2 << 20, 1 << 19);
  using Key = std::uint64_t;
  using Allocator = HugePages<std::pair<const Key, Value>>;
  Race<structures::ordered_map<Key, Value>, std::map<Key, Value>, absl::btree_map<Key, Value>,
       std::map<Key, Value, std::less<>, Allocator>,
       absl::btree_map<Key, Value, std::less<>, Allocator>>
      race(context, {"to_standard", "to_btree", "to_standard_huge", "to_btree_huge"}, records);
  race.run_on_records(records, count);
  for (const bool scans : {false, true}) {
    const Growing growing(records, scans ? count / 16 : count, scans);
    race.run(scans ? 'e' : 'd', growing.operations.size(), [&](auto& map) {
      const double seconds = timed_s([&] { race.sink += work(map, growing); });
      for (std::uint64_t i = 0; i < growing.inserted; ++i) map.erase(ycsb::key_of(records + i));
      return seconds;
    });
  }
  return race.result();
}

// --- watching ------------------------------------------------------------------------------------

#ifdef PERDURA_COMMAND
/// `perdura stats --watch` of a store, from its first look on.
class Watcher {
 public:
  Watcher(Context& context, const std::string& uri)
      : context_(context),
        output_(context.path(Place::kMemory, "watched")),
        process_(ChildProcess::kCommand,
                 {"/bin/sh", "-c", "exec \"$0\" stats \"$1\" --watch --interval 100 --json >\"$2\"",
                  PERDURA_COMMAND, uri, output_}) {
    for (int i = 0; i < 1000 && looks() == 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (looks() == 0) throw std::runtime_error("'perdura stats --watch' says nothing");
  }
  ~Watcher() {
    process_.kill();
    context_.remove(output_);
  }
  Watcher(const Watcher&) = delete;

  /// Bytes that it has said.
  std::uintmax_t looks() const {
    std::error_code ignored;
    const std::uintmax_t bytes = std::filesystem::file_size(output_, ignored);
    return ignored ? 0 : bytes;
  }

 private:
  Context& context_;
  const std::string output_;
  ChildProcess process_;
};

Measured watching(Context& context) {
  const std::uint64_t records = context.scale<std::uint64_t>(1'000'000, 200'000);
  const std::string uri = context.uri(Place::kMemory, "watch");
  Paired pair;
  std::uintmax_t said = 0;
  {
    Store store = open_store(uri, reported(), kBackgroundCpu);
    auto& map = store.root<hash_map<std::uint64_t, Value>>("map");
    fill(map, records);
    settle(store);
    ycsb::Mix mix;
    mix.records = records;
    mix.count = context.scale<std::size_t>(8 << 20, 2 << 20);
    const ycsb::Operations operations = ycsb::generate(mix);
    static std::atomic<std::uint64_t> sink{0};
    const Checkpoints checkpoints(store);
    const auto run = [&] { return timed_s([&] { sink += work(map, false, operations); }); };
    pair = paired(
        context.scale(31, 7),
        [&] {
          const Watcher watcher(context, uri);
          const std::uintmax_t before = watcher.looks();
          const double seconds = run();
          if (watcher.looks() == before) throw std::runtime_error("nobody was watching");
          said += watcher.looks() - before;
          return seconds;
        },
        run);
  }
  context.remove(uri);
  return {pair.ratio,
          {{"watched_s", pair.subject}, {"unwatched_s", pair.base}, {"watcher_said_bytes", said}}};
}
#endif

// --- vector, string ------------------------------------------------------------------------------

/// Grows to a million, is stored to at random, and is read.
template <class Vector>
std::uint64_t use_vector(Vector& vector, std::uint64_t count) {
  vector.clear();
  for (std::uint64_t i = 0; i < count; ++i) vector.push_back(i);
  Random random(7);
  for (std::uint64_t i = 0; i < count; ++i) vector[random.next() % count] = i;
  std::uint64_t sum = 0;
  for (const std::uint64_t each : vector) sum += each;
  return sum;
}

/// Many that grow by pieces, as lines of text do.
template <class Strings>
std::uint64_t use_strings(Strings& strings) {
  std::uint64_t bytes = 0;
  for (auto& each : strings) each.clear();
  for (int piece = 0; piece < 10; ++piece)
    for (auto& each : strings) {
      each.append("twenty characters ..");
      bytes += each.size();
    }
  return bytes;
}

template <class Durable, class Ordinary, class Use>
Measured against_ordinary(Context& context, Durable& durable, Ordinary& ordinary, Store& store,
                          Use&& use) {
  static std::atomic<std::uint64_t> sink{0};
  const Paired pair = paired(
      context.scale(11, 5),
      [&] {
        const Checkpoints checkpoints(store);
        return timed_s([&] { sink += use(durable); });
      },
      [&] { return timed_s([&] { sink += use(ordinary); }); });
  return {pair.ratio, {{"durable_s", pair.subject}, {"ordinary_s", pair.base}}};
}

Measured vectors(Context& context) {
  const std::uint64_t count = context.scale<std::uint64_t>(4'000'000, 1'000'000);
  const std::string uri = context.uri(Place::kMemory, "vector");
  Measured result;
  {
    Store store = open_store(uri, reported(), kBackgroundCpu);
    auto& durable = store.root<structures::vector<std::uint64_t>>("vector");
    std::vector<std::uint64_t> ordinary;
    result = against_ordinary(context, durable, ordinary, store,
                              [&](auto& vector) { return use_vector(vector, count); });
  }
  context.remove(uri);
  return result;
}

Measured strings(Context& context) {
  const std::uint64_t count = context.scale<std::uint64_t>(200'000, 50'000);
  const std::string uri = context.uri(Place::kMemory, "strings");
  Measured result;
  {
    Store store = open_store(uri, reported(), kBackgroundCpu);
    auto& durable = store.root<structures::vector<structures::string>>("strings", count);
    std::vector<std::string> ordinary(count);
    result = against_ordinary(context, durable, ordinary, store,
                              [&](auto& each) { return use_strings(each); });
  }
  context.remove(uri);
  return result;
}

// --- in transactions -----------------------------------------------------------------------------

/// By hand: a table of pairs with open addressing, whose fields are read and written.
struct Fields {
  static constexpr std::uint64_t kPlaces = 1 << 18;
  struct Place {
    std::uint64_t key;
    std::uint64_t value;
  };
  Place places[kPlaces];

  Place& find(Transaction& tx, std::uint64_t key) {
    for (std::uint64_t at = structures::hash<std::uint64_t>{}(key) >> 40;; ++at) {
      Place& place = places[at % kPlaces];
      const std::uint64_t found = tx.read(place.key);
      if (found == key || found == 0) return place;
    }
  }
};

Measured in_transactions(Context& context) {
  constexpr std::uint64_t kKeys = 100'000;
  const std::uint64_t count = context.scale<std::uint64_t>(300'000, 50'000);
  const std::string uri = context.uri(Place::kMemory, "tx");
  Measured result;
  {
    Store store = open_store(uri, reported(), kBackgroundCpu);
    auto& map = store.root<hash_map<std::uint64_t, std::uint64_t>>("map");
    auto* const fields = static_cast<Fields*>(store.allocate(sizeof(Fields), 64));
    {
      const auto operation = store.operation();
      std::memset(static_cast<void*>(fields), 0, sizeof *fields);
    }
    store.checkpoint();
    for (std::uint64_t key = 1; key <= kKeys; ++key) {
      map[key] = key;
      atomically(store, [&](Transaction& tx) {
        Fields::Place& place = fields->find(tx, key);
        tx.write(place.key, key);
        tx.write(place.value, key);
      });
    }
    settle(store);
    const auto run = [&](auto&& change) {
      return timed_s([&] {
        Random random(11);
        for (std::uint64_t i = 0; i < count; ++i) {
          const std::uint64_t key = 1 + random.next() % kKeys;
          atomically(store, [&](Transaction& tx) { change(tx, key, i); });
        }
      });
    };
    const Paired pair = paired(
        context.scale(11, 5),
        [&] { return run([&](Transaction&, auto key, auto value) { map[key] = value; }); },
        [&] {
          return run([&](Transaction& tx, auto key, auto value) {
            tx.write(fields->find(tx, key).value, value);
          });
        });
    result = {pair.ratio,
              {{"map_ns", pair.subject / static_cast<double>(count) * 1e9},
               {"fields_ns", pair.base / static_cast<double>(count) * 1e9}}};
  }
  context.remove(uri);
  return result;
}

}  // namespace

void report_containers(Context& context) {
  const PinnedScope pinned(kMutatorCpu);
  const auto measure = [&](const char* key, double most, Measured (*body)(Context&)) {
    context.measure(key, "ratio", Reach::at_most(most), [&] { return body(context); });
  };
  measure("hash_map", 1.10, hash_maps);
  measure("ordered_map", 1.10, ordered_maps);
  measure("vector", 1.10, vectors);
  measure("string", 1.10, strings);
  measure("in_tx", 1.5, in_transactions);
#ifdef PERDURA_COMMAND
  measure("stats_cost", 1.01, watching);
#endif
}

}  // namespace perdura::bench
