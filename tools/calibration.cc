#include "calibration.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <perdura/compiled.h>
#include <perdura/store.hpp>

#include "base/clock.hpp"
#include "store/runtime.hpp"

// What compiled code calls before a store, as long as it makes no inline code of that: in a program
// both take about as long (store/compiled_reports.cc).
extern "C" void perdura_report_store(const void* address, size_t length);

namespace perdura::tools {
namespace {

constexpr u64 kBlockBytes = 256;
constexpr u64 kBlocksPerPage = kPageBytes / kBlockBytes;
constexpr u64 kPages = 1024;
constexpr u64 kMorePages = 4 * kPages;  ///< of the larger heap
constexpr u64 kGrowthPages = 256;
/// Small blocks, of which one in `kThinStep` stays: what is seen has fewer lines than elsewhere.
constexpr u64 kThinBytes = kLineBytes;
constexpr u64 kThinStep = 4;
constexpr u64 kThinPages = kPages / 2;
constexpr u64 kHotBlocks = 32;
constexpr int kRounds = 7;

/// A file that goes in the end.
struct Removed {
  const std::string path;
  ~Removed() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
};

/// Nanoseconds that went by, without those in which this thread waited for a processor: what the
/// work takes, its waiting for the medium included.
class Stopwatch {
 public:
  double ns() const {
    const Reading now = read();
    const u64 went_by = now.at_ns - begin_.at_ns;
    return static_cast<double>(went_by - std::min(went_by, now.waited_ns - begin_.waited_ns));
  }

 private:
  struct Reading {
    u64 at_ns;
    u64 waited_ns;
  };
  // Both of one moment: it may have waited in between.
  static Reading read() {
    for (;;) {
      const u64 before = waited_ns();
      const Reading reading{now_ns(), waited_ns()};
      if (reading.waited_ns == before) return reading;
    }
  }
  static u64 waited_ns() {
    std::FILE* const file = std::fopen("/proc/thread-self/schedstat", "re");
    if (file == nullptr) return 0;
    unsigned long long ran = 0;
    unsigned long long waited = 0;
    const int read = std::fscanf(file, "%llu %llu", &ran, &waited);
    std::fclose(file);
    return read == 2 ? waited : 0;
  }

  const Reading begin_ = read();
};

Options options_for(const Way& way) {
  Options options;
  options.region_limit_bytes = u64{1} << 30;
  // Reports cost as much whoever wrote them.
  options.tracking = way.reported ? Tracking::kReported : way.tracking;
  options.aliases = way.aliases;
  options.compare = way.compare;
  options.huge_pages = false;
  options.verify_bytes_per_second = 0;
  return options;
}

/// A heap of blocks that is stored to in known ways.
class Specimen {
 public:
  Specimen(const Way& way, const std::string& uri, std::string path)
      : removed_{std::move(path)}, way_(way), store_(Store::open(uri, options_for(way))) {}

  /// Nanoseconds a page.
  double grow(u64 pages) {
    const auto op = store_.operation();
    const Stopwatch watch;
    for (u64 i = 0; i < pages * kBlocksPerPage; ++i) {
      blocks_.push_back(static_cast<u64*>(op.allocate(kBlockBytes)));
      *blocks_.back() = 0;
    }
    return watch.ns() / static_cast<double>(pages);
  }

  void add_thin(u64 pages) {
    const auto op = store_.operation();
    std::vector<u64*> all;
    for (u64 i = 0; i < pages * (kPageBytes / kThinBytes); ++i) {
      all.push_back(static_cast<u64*>(op.allocate(kThinBytes)));
      *all.back() = 0;
    }
    for (u64 i = 0; i < all.size(); ++i) {
      if (i % kThinStep == 0) thin_.push_back(all[i]);
      else op.deallocate(all[i]);
    }
  }

  /// What was changed is durable, and nothing is written any more.
  void settle() {
    store_.checkpoint();
    wait_until_quiet();
  }

  void idle(Epochs& epochs) { measure(std::span(blocks_).first(1), 1, epochs); }
  /// One block a page.
  void sparse(Epochs& epochs) {
    std::vector<u64*> some;
    for (u64 i = 0; i < kPages * kBlocksPerPage; i += kBlocksPerPage) some.push_back(blocks_[i]);
    measure(some, 1, epochs);
  }
  void dense(Epochs& epochs) {
    measure(std::span(blocks_).first(kPages * kBlocksPerPage), 1, epochs);
  }
  /// Reports of lines that were reported before have no further lines. Those are in the first
  /// cache, so that no other waiting hides what a report takes.
  void thin(Epochs& epochs) {
    if (way_.reported)
      measure(std::span(blocks_).first(kHotBlocks), kPages * kBlocksPerPage / kHotBlocks, epochs);
    else measure(thin_, 1, epochs);
  }

 private:
  void measure(std::span<u64* const> blocks, u64 times, Epochs& epochs) {
    const u64 before = store_.statistics().changed_bytes;
    {
      const auto op = store_.operation();
      if (way_.reported) {
        // For the first one the library finds out which store this is.
        perdura_report(blocks.front(), sizeof *blocks.front());
        const Stopwatch first;
        for (u64 i = 0; i < times; ++i)
          for (u64* const block : blocks) {
            perdura_report_store(block, sizeof *block);
            ++*block;
          }
        epochs.stores_ns.push_back(first.ns());
      } else {
        const Stopwatch first;
        for (u64 i = 0; i < times; ++i)
          for (u64* const block : blocks) ++*block;
        epochs.stores_ns.push_back(first.ns());
      }
      const Stopwatch again;
      for (u64 i = 0; i < times; ++i)
        for (u64* const block : blocks) ++*block;
      epochs.stores_again_ns.push_back(again.ns());
    }
    const Stopwatch watch;
    store_.checkpoint();
    epochs.checkpoint_ns.push_back(watch.ns());
    epochs.lines = static_cast<double>((store_.statistics().changed_bytes - before) / kLineBytes);
    epochs.seen = way_.reported ? static_cast<double>(blocks.size() * times) : pages_of(blocks);
    wait_until_quiet();
  }

  /// Blocks are at addresses of their aliases, whose pages are apart.
  static double pages_of(std::span<u64* const> blocks) {
    std::set<u64> pages;
    for (const u64* const block : blocks)
      pages.insert(reinterpret_cast<std::uintptr_t>(block) / kPageBytes);
    return static_cast<double>(pages.size());
  }

  // What was captured is written to its place in the background, which is no part of a checkpoint,
  // and would be in the way of the next. On a disk nothing is until the log is half full.
  void wait_until_quiet() const {
    constexpr u64 kPatienceNs = 2'000'000'000;
    constexpr u64 kNothingNs = 20'000'000;
    const u64 begin = now_ns();
    u64 progress = begin;
    u64 replayed = 0;
    for (u64 now = begin; now < begin + kPatienceNs; now = now_ns()) {
      const Statistics statistics = store_.statistics();
      if (statistics.replayed_version >= statistics.durable_version) return;
      if (statistics.replayed_version != replayed) progress = now;
      replayed = statistics.replayed_version;
      if (statistics.log_live_bytes <= statistics.log_limit_bytes / 2 &&
          now > progress + kNothingNs)
        return;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

  const Removed removed_;
  const Way way_;
  Store store_;
  std::vector<u64*> blocks_;
  std::vector<u64*> thin_;
};

/// A heap, and a larger one: what a checkpoint takes that finds nothing is compared at the same
/// time.
struct Specimens {
  Specimen small;
  Specimen large;
  Measurements measured;
};

Result<std::unique_ptr<Specimens>> open_specimens(const Way& way, const Site& site, size_t number) {
  if (way.compare && !site.byte_addressable)
    return Failure{Code::kUnsupported, "a disk is written by pages; NVM is compared with"};
  return guarded([&]() -> Result<std::unique_ptr<Specimens>> {
    const std::string small = fmt::format("{}/calibration-{}.pd", site.folder, number);
    const std::string large = fmt::format("{}/calibration-{}-large.pd", site.folder, number);
    return std::unique_ptr<Specimens>(new Specimens{
        {way, uri_of(site.medium, small), small}, {way, uri_of(site.medium, large), large}, {}});
  });
}

void measure_all(std::span<Specimens* const> pairs,
                 const std::function<void(const std::string&)>& between) {
  for (u64 pages = 0; pages < kPages + kMorePages; pages += kGrowthPages)
    for (Specimens* const pair : pairs) {
      between("new memory");
      pair->measured.fresh_ns.push_back(pair->large.grow(kGrowthPages));
      if (pages < kPages) pair->small.grow(kGrowthPages);
    }
  for (Specimens* const pair : pairs) {
    between("first checkpoints");
    pair->small.add_thin(kThinPages);
    pair->measured.pages = kPages + kThinPages;
    pair->measured.more_pages = kMorePages - kThinPages;
    pair->small.settle();
    pair->large.settle();
  }
  for (int round = -1; round < kRounds; ++round) {  // once to warm up
    for (Specimens* const pair : pairs) {
      between(fmt::format("round {} of {}", std::max(round, 0) + 1, kRounds));
      Measurements& measured = pair->measured;
      pair->small.idle(measured.idle);
      pair->large.idle(measured.idle_large);
      pair->small.sparse(measured.sparse);
      pair->small.dense(measured.dense);
      pair->small.thin(measured.thin);
      if (round >= 0) continue;
      for (Epochs* each : {&measured.idle, &measured.idle_large, &measured.sparse, &measured.dense,
                           &measured.thin})
        *each = {};
    }
  }
}

}  // namespace

std::string uri_of(const std::string& medium, const std::string& path) {
  const size_t query = medium.find('?');
  return medium.substr(0, query) + ":" + path +
         (query == std::string::npos ? "" : medium.substr(query));
}

Result<bool> try_out(const std::string& uri, const std::string& path) {
  return guarded([&]() -> Result<bool> {
    const Removed removed{path};
    Options options;
    options.tracking = ways().front().tracking;
    options.region_limit_bytes = kMiB;
    PERDURA_ASSIGN(const auto runtime, detail::Runtime::open(uri, options));
    PERDURA_TRY(runtime->checkpoint());
    return runtime->volume().medium().geometry().byte_addressable;
  });
}

Result<std::vector<Calibrated>> calibrate(const Site& site,
                                          const std::function<void(const std::string&)>& between) {
  return guarded([&]() -> Result<std::vector<Calibrated>> {
    std::vector<Calibrated> all;
    std::vector<std::unique_ptr<Specimens>> pairs;
    std::vector<Way> opened;
    for (const Way& way : ways()) {
      between(way.name);
      Calibrated one{way, std::nullopt, {}};
      Result<std::unique_ptr<Specimens>> pair = open_specimens(way, site, all.size());
      if (!pair && pair.failure().code != Code::kUnsupported) return pair.failure();
      if (pair) {
        opened.push_back(way);
        pairs.push_back(std::move(*pair));
      } else {
        one.failure = pair.failure();
      }
      all.push_back(std::move(one));
    }
    std::vector<Specimens*> pointers;
    for (const auto& pair : pairs) pointers.push_back(pair.get());
    measure_all(pointers, between);
    std::vector<Measurements> measured;
    for (const auto& pair : pairs) measured.push_back(pair->measured);
    const std::vector<Costs> costs = costs_of(opened, measured);
    size_t next = 0;
    for (Calibrated& one : all)
      if (!one.failure) one.costs = costs[next++];
    return all;
  });
}

}  // namespace perdura::tools
