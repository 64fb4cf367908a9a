// How long a killed program takes to answer again. One process builds a heap (index and records) on
// a file; another opens it, updates it and is killed at a random moment; a third opens it, and
// measures from before Store::open to the end of its first look-up, whose answer it verifies.
//
// The file stays in the page cache, as it does when a process dies; the detail also has the time
// after its pages were dropped from there.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "child.hpp"
#include "harness.hpp"
#include "stores.hpp"
#include "ycsb.hpp"

namespace perdura::bench {
namespace {

using ycsb::Record;
using ycsb::Table;

/// Nine tenths of a file's default log limit.
constexpr std::uint64_t kLogFullBytes = 115 * kMiB;

constexpr const char* kBuild = "restart-build";
constexpr const char* kLoad = "restart-load";
constexpr const char* kMeasure = "restart-measure";
constexpr const char* kScan = "restart-scan";

Verify verify_of(const std::string& name) {
  return name == "before_use" ? Verify::kBeforeUse
         : name == "never"    ? Verify::kNever
                              : Verify::kBackground;
}

/// What a record holds here; `seal` tells whether it is whole.
struct Content {
  std::uint64_t key;
  std::uint64_t updates;
  std::uint64_t seal;

  static Content make(std::uint64_t key, std::uint64_t updates) {
    return {key, updates, scatter(key ^ scatter(updates))};
  }
  bool whole(std::uint64_t wanted_key) const {
    return key == wanted_key && seal == scatter(key ^ scatter(updates));
  }
};

/// Ascending keys: a heap of gigabytes is then built in seconds.
std::uint64_t key_of(std::uint64_t record) { return (record + 1) * 16; }

Content read(const Record& record) {
  Content content;
  std::memcpy(&content, record.bytes, sizeof(content));
  return content;
}

template <class Env>
void add_block(const Env& env, Table& table) {
  auto* slots = static_cast<std::byte*>(env.allocate(ycsb::kBlockBytes, kLineBytes));
  env.touch(&table.records, sizeof(table.records));
  for (std::uint64_t i = 0; i < ycsb::kBlockRecords; ++i, ++table.records) {
    auto* record = ::new (slots + i * ycsb::kSlotBytes) Record;
    const Content content = Content::make(key_of(table.records), 0);
    std::memcpy(record->bytes, &content, sizeof(content));
    table.index.insert(env, content.key, record);
  }
}

Options options_for(std::uint64_t heap_bytes) {
  Options options;
  options.tracking = Tracking::kReported;
  options.region_limit_bytes = 2 * heap_bytes + kGiB;
  return options;
}

/// A step is a version that fits the log.
int build(const ChildArguments& arguments) {
  const std::string& uri = arguments.at(0);
  const std::uint64_t heap_bytes = std::stoull(arguments.at(1));
  Store store = open_store(uri, options_for(heap_bytes));
  Table& table = store.root<Table>("table");
  constexpr int kStepBlocks = 48;
  // The index adds 512 bytes for each 31 records.
  const std::uint64_t record_bytes = ycsb::kSlotBytes + 512 / 31 + 1;
  while (table.records * record_bytes < heap_bytes) {
    {
      const Operation operation = store.operation();
      for (int i = 0; i < kStepBlocks; ++i) add_block(operation, table);
    }
    store.checkpoint();
  }
  store.close();
  return 0;
}

void update(Store& store, Record& record) {
  const Operation operation = store.operation();
  const Content old = read(record), content = Content::make(old.key, old.updates + 1);
  operation.touch(record.bytes, sizeof(content));
  std::memcpy(record.bytes, &content, sizeof(content));
}

/// 20,000 updates a second.
[[noreturn]] void load_lightly(Store& store, Table& table, Random& random) {
  std::puts("ready");
  std::fflush(stdout);
  for (double due = now_s();; due += 0.001) {
    for (int i = 0; i < 20; ++i)
      update(store, **table.index.find(key_of(random.below(table.records))));
    const double now = now_s();
    if (due > now) std::this_thread::sleep_for(std::chrono::duration<double>(due - now));
  }
}

/// As many updates all over the heap as there is time for. Says how full the log is when it is
/// nearly full, or after some seconds, when it is about as full as it was ever seen.
[[noreturn]] void load_fully(Store& store, const Table& table, Random& random) {
  std::vector<Record*> records;
  table.index.scan(0, table.records, [&](std::uint64_t, Record* r) { records.push_back(r); });
  const double late = now_s() + 10;
  std::uint64_t fullest = 0;
  for (;;) {
    for (int i = 0; i < 5000; ++i) update(store, *records[random.below(records.size())]);
    const std::uint64_t live = store.statistics().log_live_bytes;
    fullest = std::max(fullest, live);
    if (live < kLogFullBytes && (now_s() < late || live < fullest - fullest / 10)) continue;
    std::printf("%llu\n", static_cast<unsigned long long>(live));
    std::fflush(stdout);
  }
}

int load(const ChildArguments& arguments) {
  pin_thread(kMutatorCpu);
  const bool full = arguments.at(1) == "full";
  Options options;
  options.tracking = Tracking::kReported;
  Store store = open_store(arguments.at(0), options);
  Table* table = store.find_root<Table>("table");
  if (table == nullptr) throw std::runtime_error("the table is gone");
  Random random(now_ns());
  store.checkpoint_every(std::chrono::milliseconds(64));
  if (full) {
    load_fully(store, *table, random);
  } else {
    load_lightly(store, *table, random);
  }
}

/// Prints nanoseconds and the library's own account.
int measure(const ChildArguments& arguments) {
  pin_thread(kAnyCpu);
  Random random(now_ns());
  Options options;
  options.tracking = Tracking::kReported;
  options.verify = verify_of(arguments.at(1));
  const std::uint64_t start = now_ns();
  Store store = Store::open(arguments.at(0), options);
  const std::uint64_t opened = now_ns();
  const Table* table = store.find_root<Table>("table");
  if (table == nullptr || table->records == 0) throw std::runtime_error("the table is gone");
  const std::uint64_t key = key_of(random.below(table->records));
  const auto record = table->index.find(key);
  if (!record || !read(**record).whole(key)) throw std::runtime_error("a record is not whole");
  const std::uint64_t answered = now_ns();

  const Statistics statistics = store.statistics();
  std::puts(Json({{"answered_ns", answered - start},
                  {"opened_ns", opened - start},
                  {"recovery_ns", statistics.recovery_ns},
                  {"log_live_bytes", statistics.log_live_bytes},
                  {"version", statistics.durable_version},
                  {"backed_bytes", statistics.region_backed_bytes}})
                .dump()
                .c_str());
  std::fflush(stdout);
  store.close();
  return 0;
}

/// Reads all records once, in order; prints nanoseconds.
int scan(const ChildArguments& arguments) {
  pin_thread(kMutatorCpu);
  Options options;
  options.tracking = Tracking::kReported;
  options.verify = verify_of(arguments.at(1));
  Store store = open_store(arguments.at(0), options);
  const Table* table = store.find_root<Table>("table");
  if (table == nullptr || table->records == 0) throw std::runtime_error("the table is gone");
  std::uint64_t records = 0, sum = 0;
  const std::uint64_t start = now_ns();
  table->index.scan(0, table->records, [&](std::uint64_t, const Record* record) {
    ++records;
    for (std::uint64_t at = 0; at + sizeof(sum) <= sizeof(record->bytes); at += kLineBytes) {
      std::uint64_t word;
      std::memcpy(&word, record->bytes + at, sizeof(word));
      sum += word;
    }
  });
  const std::uint64_t end = now_ns();
  if (records != table->records) throw std::runtime_error("records are gone");
  std::puts(Json({{"scan_ns", end - start}, {"records", records}, {"sum", sum}}).dump().c_str());
  std::fflush(stdout);
  store.close();
  return 0;
}

const ChildRegistration kChildren[] = {
    {kBuild, build}, {kLoad, load}, {kMeasure, measure}, {kScan, scan}};

void drop_from_page_cache(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  fdatasync(fd);  // dirty pages cannot be dropped
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  close(fd);
}

/// A store on a file, built by a process of its own.
class Victim {
 public:
  Victim(Context& context, std::uint64_t heap_bytes)
      : context_(context), path_(context.path(Place::kDisk, "heap")) {
    context.progress("building {} MiB", heap_bytes / kMiB);
    const double seconds = timed_s([&] {
      ChildProcess child(kBuild, {uri(), std::to_string(heap_bytes)});
      if (child.wait() != 0) throw std::runtime_error("building the heap failed");
    });
    context.progress("built in {:.1f} s", seconds);
  }
  ~Victim() { context_.remove(path_); }
  Victim(const Victim&) = delete;
  Victim& operator=(const Victim&) = delete;

  void kill_lightly_loaded() {
    ChildProcess child(kLoad, {uri(), "light"});
    child.read_line();
    std::this_thread::sleep_for(std::chrono::milliseconds(700 + random_.below(300)));
    child.kill();
  }
  /// Bytes in the log shortly before the kill.
  std::uint64_t kill_with_full_log() {
    ChildProcess child(kLoad, {uri(), "full"});
    const std::string line = child.read_line();
    child.kill();
    return std::stoull(line);
  }

  Json reopen(bool cold, const std::string& verify = "background") {
    if (cold) drop_from_page_cache(path_);
    return run_child(kMeasure, verify);
  }
  double scan_ms(const std::string& verify) {
    return run_child(kScan, verify)["scan_ns"].get<double>() / 1e6;
  }

 private:
  std::string uri() const { return "file:" + path_; }
  Json run_child(const char* what, const std::string& verify) {
    ChildProcess child(what, {uri(), verify});
    Json result = Json::parse(child.read_line());
    if (child.wait() != 0) throw std::runtime_error("the reopened store did not close");
    return result;
  }
  Context& context_;
  std::string path_;
  Random random_{now_ns()};
};

/// Kills and reopens; the value is the median of the warm times, in ms.
template <class Kill>
Measured repeat(Context& context, Victim& victim, Kill&& kill,
                const std::string& verify = "background") {
  std::vector<double> warm_ms, cold_ms;
  Json last;
  const auto answer_ms = [&](bool cold) {
    kill();
    last = victim.reopen(cold, verify);
    return last["answered_ns"].template get<double>() / 1e6;
  };
  for (int i = 0; i < context.scale(5, 3); ++i) warm_ms.push_back(answer_ms(false));
  Measured result{median(warm_ms), {{"warm_ms", warm_ms}, {"last_warm", last}}};
  for (int i = 0; i < context.scale(3, 1); ++i) cold_ms.push_back(answer_ms(true));
  result.detail["cold_ms"] = median(cold_ms);
  result.detail["cold_times_ms"] = cold_ms;
  result.detail["page_cache"] = "warm: nothing dropped; cold: the file dropped with posix_fadvise";
  return result;
}

void run(Context& context) {
  double small_ms = 0;
  if (context.wants("ms_1g") || context.wants("ms_full_log") || context.wants("ms_clean") ||
      context.wants("verify_read")) {
    Victim victim(context, kGiB);
    context.measure("ms_clean", "ms", Reach::at_most(2.5), [&] {
      // What a build wrote past the page cache, and a session that read all of it before.
      victim.scan_ms("never");
      return repeat(context, victim, [] {});
    });
    context.measure("verify_read", "ratio", Reach::at_most(1.15), [&] {
      std::vector<double> before_use, never;
      for (int i = 0; i < context.scale(7, 5); ++i) {
        never.push_back(victim.scan_ms("never"));
        before_use.push_back(victim.scan_ms("before_use"));
      }
      return Measured{median(before_use) / median(never),
                      {{"before_use_ms", before_use}, {"never_ms", never}}};
    });
    context.measure("ms_1g", "ms", Reach::at_most(8), [&] {
      Measured result = repeat(context, victim, [&] { victim.kill_lightly_loaded(); });
      small_ms = result.value;
      return result;
    });
    context.measure("ms_full_log", "ms", Reach::at_most(150), [&] {
      std::vector<std::uint64_t> log_bytes;
      Measured result =
          repeat(context, victim, [&] { log_bytes.push_back(victim.kill_with_full_log()); });
      result.detail["log_live_bytes"] = log_bytes;
      return result;
    });
  }
  context.measure("ms_8g", "ms", Reach::at_most(8), [&] {
    const std::uint64_t heap_bytes = (context.quick() ? 2 : 8) * kGiB;
    Victim victim(context, heap_bytes);
    Measured result = repeat(context, victim, [&] { victim.kill_lightly_loaded(); });
    result.detail["heap_bytes"] = heap_bytes;
    if (small_ms > 0) result.detail["ratio_to_1g"] = result.value / small_ms;
    return result;
  });
  context.measure("verify_restart_ms", "ms", Reach::at_most(20), [&] {
    const std::uint64_t heap_bytes = (context.quick() ? 2 : 8) * kGiB;
    Victim victim(context, heap_bytes);
    Measured result = repeat(context, victim, [&] { victim.kill_lightly_loaded(); }, "before_use");
    result.detail["heap_bytes"] = heap_bytes;
    return result;
  });
}

const Registration kThis("restart", "from opening after a kill to the first answer", run);

}  // namespace
}  // namespace perdura::bench
