// STRUCTURE WAY URI RECORDS: a program that keeps records in a structure: in ordinary memory
// (`memory`), or in a store, where `compiled` has the compiler report, `by_hand` reports itself,
// and `pages` leaves it to a page tracker. Compiled thrice: with perdura-clang, with Clang and
// REPORT, with Clang alone.
//
// For each number on stdin it does so many operations, and says how many seconds that took. Half of
// them read, half replace a record, keys by YCSB's distribution; in plain C each eighth replacement
// frees the record and allocates it anew. A list has one operation: all of it is stored to.
// Versions are made every 64 ms.
#include <perdura/perdura.hpp>
#ifdef COMPILED
#include <perdura/compiled.h>
#endif

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "../measure.hpp"
#include "structures.h"

namespace {

using namespace perdura::bench;

#ifdef REPORT
constexpr bool kReportsByHand = true;
#else
constexpr bool kReportsByHand = false;
#endif

/// None in ordinary memory.
std::optional<perdura::Store> kept;

void report(const void* address, std::size_t bytes) {
  if constexpr (kReportsByHand) kept->touch(address, bytes);
}

/// What is consistent at its end.
class Step {
 public:
#if defined(COMPILED)
  ~Step() { perdura_poll(); }
#else
  Step() {
    if (kept) operation_.emplace(Begin());
  }

 private:
  struct Begin {
    operator perdura::Operation() const { return kept->operation(); }
  };
  std::optional<perdura::Operation> operation_;
#endif
};

/// Standard containers on a store: their nodes are reported as whole blocks.
template <class T>
struct KeptAllocator {
  using value_type = T;
  KeptAllocator() = default;
  template <class U>
  KeptAllocator(const KeptAllocator<U>&) {}
  T* allocate(std::size_t count) { return static_cast<T*>(keep_allocate(count * sizeof(T))); }
  void deallocate(T* block, std::size_t count) { keep_free(block, count * sizeof(T)); }
  bool operator==(const KeptAllocator&) const { return true; }
};

using Pair = std::pair<const std::uint64_t, record>;
using Map = std::map<std::uint64_t, record, std::less<>, KeptAllocator<Pair>>;
using UnorderedMap = std::unordered_map<std::uint64_t, record, std::hash<std::uint64_t>,
                                        std::equal_to<>, KeptAllocator<Pair>>;

template <class Container>
struct StandardWays {
  static void insert(Container& container, std::uint64_t key, const record& value) {
    container.emplace(key, value);
  }
  static record* find(Container& container, std::uint64_t key) {
    const auto found = container.find(key);
    return found == container.end() ? nullptr : &found->second;
  }
  static void replace(Container& container, std::uint64_t key, const record& value) {
    record* const found = find(container, key);
    report(found, sizeof *found);
    std::memcpy(found, &value, sizeof *found);
  }
};

/// Those of structures.h, by its functions.
template <class Structure, auto Insert, auto Find, auto Erase>
struct PlainWays {
  static void insert(Structure& structure, std::uint64_t key, const record& value) {
    Insert(&structure, key, &value);
  }
  static record* find(Structure& structure, std::uint64_t key) { return Find(&structure, key); }
  static void replace(Structure& structure, std::uint64_t key, const record& value) {
    static unsigned long replaced = 0;
    if (++replaced % 8 == 0) {
      Erase(&structure, key);
      Insert(&structure, key, &value);
    } else {
      record_set(Find(&structure, key), &value);
    }
  }
};
using HashWays = PlainWays<hash, hash_insert, hash_find, hash_erase>;
using TreeWays = PlainWays<tree, tree_insert, tree_find, tree_erase>;

/// So long as `work` says how long it took.
template <class Work>
void serve(Work&& work) {
  std::puts("ready");
  std::fflush(stdout);
  for (unsigned long count; std::scanf("%lu", &count) == 1;) {
    std::printf("%.9f\n", work(count));
    std::fflush(stdout);
  }
}

void begin_versions() {
  if (!kept) return;
  kept->checkpoint();
  kept->checkpoint_every(std::chrono::milliseconds(64));
}

template <class Structure, class Ways>
void keep_records(Structure& structure, std::uint64_t records) {
  record value{};
  for (std::uint64_t i = 0; i < records; ++i) {
    const Step step;
    std::memcpy(value.bytes, &i, sizeof i);
    Ways::insert(structure, scatter(i), value);
  }
  begin_versions();
  const Zipfian zipfian(records);
  Random random(1);
  std::uint64_t sum = 0;
  serve([&](unsigned long count) {
    struct Drawn {
      std::uint64_t key, number;
    };
    std::vector<Drawn> drawn(count);
    for (Drawn& each : drawn) each = {scatter(zipfian.next(random)), random.next()};
    const double seconds = timed_s([&] {
      for (const auto& [key, number] : drawn) {
        const Step step;
        if ((number & 1) == 0) {
          sum += Ways::find(structure, key)->bytes[0];
        } else {
          std::memcpy(value.bytes, &number, sizeof number);
          Ways::replace(structure, key, value);
        }
      }
    });
    if (sum == 1) std::puts("");  // it is used
    return seconds;
  });
}

void keep_list(list& nodes, std::uint64_t records) {
  for (std::uint64_t i = 0; i < records; ++i) {
    const Step step;
    list_add(&nodes, i);
  }
  begin_versions();
  serve([&](unsigned long count) {
    return timed_s([&] {
      for (unsigned long i = 0; i < count; ++i) {
        const Step step;
        list_visit(&nodes);
      }
    });
  });
}

/// Says what a poll adds to each of `count` stores: seconds.
void keep_polls(std::uint64_t& word) {
  begin_versions();
  serve([&](unsigned long count) {
    volatile std::uint64_t& stored = word;
    const auto store_s = [&](auto&& then) {
      return timed_s([&] {
        for (unsigned long i = 0; i < count; ++i) {
          stored = i;
          then();
        }
      });
    };
    const Step last;
    const double alone_s = store_s([] { asm volatile("" ::: "memory"); });  // reported each time
    return store_s([] { const Step step; }) - alone_s;
  });
}

template <class Structure>
Structure& root() {
  const Step step;
  return *::new (keep_allocate(sizeof(Structure))) Structure{};
}

}  // namespace

void* keep_allocate(size_t bytes) { return kept ? kept->allocate(bytes) : std::malloc(bytes); }
void keep_free(void* block, size_t) { kept ? kept->deallocate(block) : std::free(block); }
void keep_report(const void* address, size_t bytes) { report(address, bytes); }

int main(int argc, char** argv) try {
  if (argc != 5) {
    std::fprintf(stderr, "usage: %s STRUCTURE WAY URI RECORDS\n", argv[0]);
    return 2;
  }
  const std::string structure = argv[1], way = argv[2];
  const std::uint64_t records = std::stoull(argv[4]);
  if (way != "memory") {
    const PinnedScope background(kBackgroundCpu);
    perdura::Options options;
#if defined(COMPILED)
    options.tracking = perdura::Tracking::kCompiled;
#elif defined(REPORT)
    options.tracking = perdura::Tracking::kReported;
#endif
    kept.emplace(perdura::Store::open(argv[3], options));
  }
  pin_thread(kMutatorCpu);
  if (structure == "map") keep_records<Map, StandardWays<Map>>(root<Map>(), records);
  else if (structure == "unordered_map")
    keep_records<UnorderedMap, StandardWays<UnorderedMap>>(root<UnorderedMap>(), records);
  else if (structure == "hash") {
    hash& table = root<hash>();
    {
      const Step step;
      hash_make(&table, std::uint64_t{1} << 20);
    }
    keep_records<hash, HashWays>(table, records);
  } else if (structure == "tree") {
    keep_records<tree, TreeWays>(root<tree>(), records);
  } else if (structure == "list") {
    keep_list(root<list>(), records);
  } else if (structure == "poll") {
    keep_polls(root<std::uint64_t>());
  } else {
    std::fprintf(stderr, "there is no structure '%s'\n", structure.c_str());
    return 2;
  }
  if (kept) kept->close();
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
