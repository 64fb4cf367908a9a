// What durability costs a fast ordered index: YCSB on the B+-tree in a store's heap, with a
// checkpoint every 64 ms and an operation guard around each change, against the same code on glibc
// malloc and on huge pages; the figure is the ratio to the faster of the two. Segments of one to
// two seconds take turns; the store is idle while a base runs.

#include <array>
#include <atomic>
#include <barrier>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "harness.hpp"
#include "stores.hpp"
#include "ycsb.hpp"

namespace perdura::bench {
namespace {

using ycsb::Operations;
using ycsb::Pages;
using ycsb::Workload;

constexpr std::chrono::milliseconds kInterval(64);
constexpr std::uint64_t kRecords = 123 * ycsb::kBlockRecords;  // 1,007,616
constexpr std::size_t kOperations = 4 << 20;

struct Case {
  std::string key;
  Workload workload = Workload::kA;
  Place place = Place::kMemory;
  Options options;
  Reach reach = Reach::none();
  int threads = 1;
  std::uint64_t rank_items = 0;
  std::vector<Pages> bases = {Pages::kSmall, Pages::kHuge};
};

/// The operations of each thread; each has its own records, so that none races.
std::vector<Operations> generate(const Case& one) {
  std::vector<Operations> streams;
  for (int t = 0; t < one.threads; ++t) {
    ycsb::Mix mix;
    mix.workload = one.workload;
    mix.records = kRecords;
    mix.count = kOperations;
    mix.seed = 17 + static_cast<std::uint64_t>(t);
    mix.partitions = static_cast<std::uint64_t>(one.threads);
    mix.partition = static_cast<std::uint64_t>(t);
    mix.rank_items = one.rank_items;
    streams.push_back(ycsb::generate(mix));
  }
  return streams;
}

/// Runs every stream `passes` times, the first on this thread and CPU 0, the others beside it.
template <class Host>
double segment_s(const Case& one, Host& host, const std::vector<Operations>& streams, int passes) {
  static std::atomic<std::uint64_t> sink{0};
  std::barrier start(one.threads), end(one.threads);
  const auto work = [&](int t) {
    std::uint64_t sum = 0;
    start.arrive_and_wait();
    for (int pass = 0; pass < passes; ++pass)
      sum += ycsb::run(one.workload, host, host.table(), streams[static_cast<std::size_t>(t)]);
    end.arrive_and_wait();
    sink += sum;
  };
  std::vector<std::jthread> others;
  for (int t = 1; t < one.threads; ++t)
    others.emplace_back([&, t] {
      pin_thread(t);
      work(t);
    });
  return timed_s([&] { work(0); });
}

/// The table without persistence, in either kind of pages.
struct Plain {
  ycsb::PlainHost small{kRecords, Pages::kSmall};
  ycsb::PlainHost huge{kRecords, Pages::kHuge};
  ycsb::PlainHost& in(Pages pages) { return pages == Pages::kSmall ? small : huge; }
};
const char* name(Pages pages) { return pages == Pages::kSmall ? "small_pages" : "huge_pages"; }

struct Sides {
  Plain& plain;
  Store& store;
  ycsb::StoreHost& durable;
};

/// Medians of the mutator's processor time, beside those of elapsed time: on a machine that others
/// use as well, the difference is theirs (and the time the mutator waited).
class CpuTimes {
 public:
  template <class Body>
  double run(Body&& body) {
    const double begin_s = thread_cpu_s();
    const double seconds = body();
    all_.push_back(thread_cpu_s() - begin_s);
    return seconds;
  }
  double median_s() const { return median(all_); }

 private:
  std::vector<double> all_;
};

Json describe(const Paired& pair, double operations, double cpu_ratio) {
  return {{"ratio", pair.ratio},
          {"mops", operations / pair.base / 1e6},
          {"ratios", pair.ratios},
          {"cpu_ratio", cpu_ratio}};
}

Measured compare(Context& context, const Case& one, Sides sides) {
  const auto streams = generate(one);
  const double warm_s = segment_s(one, sides.plain.in(one.bases.front()), streams, 1);
  const double wanted_s = context.scale(1.5, 0.4);
  const int passes = std::max(1, static_cast<int>(wanted_s / warm_s + 0.5));
  settle(sides.store);
  sides.store.reset_statistics();
  const Statistics before = sides.store.statistics();
  bool replay_lagged = false;
  CpuTimes durable_cpu;
  std::vector<CpuTimes> base_cpu(one.bases.size());
  std::vector<Segment> bases;
  for (std::size_t i = 0; i < one.bases.size(); ++i)
    bases.push_back([&, i] {
      return base_cpu[i].run(
          [&] { return segment_s(one, sides.plain.in(one.bases[i]), streams, passes); });
    });
  const std::vector<Paired> pairs = paired_with_each(
      context.scale(11, 3),
      [&] {
        sides.store.checkpoint_every(kInterval);
        const double seconds =
            durable_cpu.run([&] { return segment_s(one, sides.durable, streams, passes); });
        replay_lagged |= !settle(sides.store);
        return seconds;
      },
      bases);
  const Statistics after = sides.store.statistics();
  const double operations =
      static_cast<double>(kOperations) * passes * static_cast<double>(one.threads);
  const Paired& best = against_best(pairs);
  Json detail = {{"durable_mops", operations / best.subject / 1e6},
                 {"segment_s", best.subject},
                 {"best_base", name(one.bases[static_cast<std::size_t>(&best - pairs.data())])},
                 {"pause_p99_us", static_cast<double>(after.pause_p99_ns) / 1e3},
                 {"pause_max_us", static_cast<double>(after.pause_max_ns) / 1e3},
                 {"replay_lagged", replay_lagged},
                 {"statistics", difference(before, after)}};
  for (std::size_t i = 0; i < pairs.size(); ++i)
    detail[name(one.bases[i])] =
        describe(pairs[i], operations, durable_cpu.median_s() / base_cpu[i].median_s());
  return {best.ratio, detail};
}

/// Runs the cases that are wanted on one store: they have the same place, options and threads.
void run_cases(Context& context, Plain& plain, const std::vector<Case>& cases) {
  std::string uri;
  std::unique_ptr<Store> store;
  std::unique_ptr<ycsb::StoreHost> durable;
  for (const Case& one : cases)
    context.measure(one.key, "ratio", one.reach, [&] {
      if (store == nullptr) {
        uri = context.uri(one.place, "table");
        // With a mutator on each core the background has none of its own.
        const int background = one.threads == 1 ? kBackgroundCpu : kAnyCpu;
        store = std::make_unique<Store>(open_store(uri, one.options, background));
        durable = std::make_unique<ycsb::StoreHost>(*store, kRecords);
      }
      return compare(context, one, {plain, *store, *durable});
    });
  durable.reset();
  store.reset();
  if (!uri.empty()) context.remove(uri);
}

std::vector<Case> workloads(const char* suffix, Place place, std::array<double, 4> reach) {
  std::vector<Case> cases;
  for (std::size_t i = 0; i < reach.size(); ++i) {
    Case one;
    one.workload = static_cast<Workload>(i);
    one.key = fmt::format("{}_{}", ycsb::letter(one.workload), suffix);
    one.place = place;
    one.options.tracking = Tracking::kReported;
    one.reach = Reach::at_most(reach[i]);
    cases.push_back(one);
  }
  return cases;
}

Case variant(const char* key, Tracking tracking, Capture capture) {
  Case one;
  one.key = key;
  one.options.tracking = tracking;
  one.options.capture = capture;
  return one;
}

void run(Context& context) {
  pin_thread(kMutatorCpu);
  Plain plain;

  std::vector<Case> nvm = workloads("nvm", Place::kMemory, {1.05, 1.03, 1.01, 1.06});
  // YCSB's own constants: nearly twice as many different records an epoch.
  Case wide = variant("a_nvm_wide", Tracking::kReported, Capture::kAutomatic);
  wide.rank_items = Zipfian::kYcsbRankItems;
  nvm.push_back(wide);
  run_cases(context, plain, nvm);
  Case two_threads = variant("a_2t", Tracking::kReported, Capture::kAutomatic);
  two_threads.threads = 2;
  two_threads.reach = Reach::at_most(1.10);
  run_cases(context, plain, {two_threads});

  run_cases(context, plain, workloads("file", Place::kDisk, {1.08, 1.04, 1.01, 1.08}));
  // A store without huge pages, where the program has none either.
  Case small = variant("a_small_pages", Tracking::kReported, Capture::kAutomatic);
  small.options.huge_pages = false;
  small.bases = {Pages::kSmall};
  run_cases(context, plain, {small});
  run_cases(context, plain, {variant("a_paper", Tracking::kBitmap, Capture::kStopped)});
  Case updates = variant("a_userfault", Tracking::kUserfault, Capture::kAutomatic);
  updates.reach = Reach::at_most(1.6);
  Case changes_of_fields = updates;
  changes_of_fields.key = "f_userfault";
  changes_of_fields.workload = Workload::kF;
  run_cases(context, plain, {updates, changes_of_fields});
}

const Registration kThis("epoch", "YCSB with a checkpoint every 64 ms ÷ without persistence", run);

}  // namespace
}  // namespace perdura::bench
