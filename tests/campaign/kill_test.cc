// Goal: a program killed at any moment finds its last durable version when it opens its store
// again: everything acknowledged, every operation whole, the heap sound.
// Method: processes are killed with SIGKILL, 2,000 a run (PERDURA_KILLS changes it), after a random
// time of microseconds to tens of milliseconds, which often falls into the opening and the
// recovery, after a random number of acknowledgements, or at a random call of the medium. What they
// acknowledge they write to a pipe, so that the log of it is the parent's. Each next process opens
// the store that the killed one left, proves the ledger (support/ledger.hpp) and the heap, and goes
// on, with 1 to 8 threads. Trackers, captures, granules and log limits change from one process to
// the next, the number of aliases from one store to the next. Every twentieth process closes the
// store in order, and every page of its home image must fit its checksum; every hundredth begins a
// new store. PERDURA_SUMMARIES names a folder for kills.json.
#include <gtest/gtest.h>

#include <sys/mman.h>
#include <time.h>

#include <array>
#include <atomic>
#include <cmath>
#include <fstream>
#include <iostream>
#include <numeric>
#include <random>
#include <thread>

#include "media/decorator.hpp"
#include "media/fault.hpp"
#include "support/files.hpp"
#include "support/killing_medium.hpp"
#include "support/ledger.hpp"
#include "support/process.hpp"
#include "support/slice.hpp"
#include "support/wrapped_store.hpp"

namespace perdura::test {
namespace {

using Random = std::mt19937_64;

/// What a process writes to the pipe when a checkpoint returned.
struct Acknowledgement {
  u64 version;
  u64 shard;
  u64 steps;
};

/// What was acknowledged so far.
struct Acknowledged {
  u64 count = 0;
  u64 version = 0;
  std::array<u64, Ledger::kShards> steps{};

  void add(const Acknowledgement& one) {
    ++count;
    version = std::max(version, one.version);
    steps[one.shard] = std::max(steps[one.shard], one.steps);
  }
};

enum class Death { kAfterTime, kAfterAcknowledgements, kAtMediumCall, kNone };

/// The trackers that this machine has for files there.
std::vector<Tracking> supported_trackings(TempDir::Where where) {
  std::vector<Tracking> found;
  const TempDir folder(where);
  for (Tracking each : {Tracking::kReported, Tracking::kBitmap, Tracking::kUserfault,
                        Tracking::kSigbus, Tracking::kProtect}) {
    Options options;
    options.region_limit_bytes = 64 * kMiB;
    options.tracking = each;
    try {
      WrappedStore(folder.path("probe.pd"), options).close();
      found.push_back(each);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kUnsupported) << error.what();
    }
  }
  return found;
}

/// One process's life.
struct Life {
  Options options;
  unsigned threads = 1;
  std::chrono::milliseconds interval{0};
  Death death = Death::kNone;
  u64 death_at = 0;  ///< nanoseconds, acknowledgements or calls

  Life(Random& random, const std::vector<Tracking>& trackings, u32 aliases, Engine engine,
       bool dies) {
    options.region_limit_bytes = 64 * kMiB;
    options.engine = engine;
    options.aliases = aliases;
    bool reported = false;
    do {
      options.tracking = trackings[random() % trackings.size()];
      reported = options.tracking == Tracking::kReported || options.tracking == Tracking::kBitmap;
    } while (aliases != 0 && reported);
    if (aliases == 0 && random() % 2 == 0)
      options.capture = random() % 2 == 0 ? Capture::kStopped : Capture::kBackground;
    if (options.tracking == Tracking::kReported && random() % 4 == 0)
      options.granule_bytes = 64u << random() % 7;
    options.log_limit_bytes = random() % 2 == 0 ? 2 * kMiB : 0;
    options.lazy_recovery = random() % 2 == 0;
    threads = 1 + static_cast<unsigned>(random() % Ledger::kShards);
    interval = std::chrono::milliseconds(random() % 6);
    if (!dies) return;
    death = static_cast<Death>(random() % 3);
    // As many deaths between 10 and 100 microseconds as between 1 and 10 milliseconds.
    const double time_ns = std::pow(10, 3 + std::uniform_real_distribution(0.0, 4.5)(random));
    death_at = death == Death::kAfterTime               ? static_cast<u64>(time_ns)
               : death == Death::kAfterAcknowledgements ? 1 + random() % 20
                                                        : 1 + random() % 300;
  }

  std::string describe() const {
    return "engine " + std::to_string(static_cast<int>(options.engine)) + " tracking " +
           std::to_string(static_cast<int>(options.tracking)) + " aliases " +
           std::to_string(options.aliases) + " capture " +
           std::to_string(static_cast<int>(options.capture)) + " granule " +
           std::to_string(options.granule_bytes) + " log limit " +
           std::to_string(options.log_limit_bytes) + " lazy " +
           std::to_string(options.lazy_recovery) + " threads " + std::to_string(threads) +
           " interval " + std::to_string(interval.count()) + " ms, death " +
           std::to_string(static_cast<int>(death)) + " at " + std::to_string(death_at);
  }
};

Ledger& open_ledger(WrappedStore& store, u64 seed) {
  const auto op = store.operation();
  if (void* found = store.get_root("ledger")) return *static_cast<Ledger*>(found);
  Ledger* made = make_ledger(op, seed);
  op.set_root("ledger", made);
  return *made;
}

std::string check_recovered(WrappedStore& store, const Ledger& ledger,
                            const Acknowledged& acknowledged) {
  if (store.durable_version() < acknowledged.version)
    return "lost: version " + std::to_string(acknowledged.version) + " was acknowledged, " +
           std::to_string(store.durable_version()) + " is left";
  for (u64 i = 0; i < Ledger::kShards; ++i)
    if (ledger.shards[i].steps < acknowledged.steps[i])
      return "lost: step " + std::to_string(acknowledged.steps[i]) + " of shard " +
             std::to_string(i) + " was acknowledged, " + std::to_string(ledger.shards[i].steps) +
             " are left";
  return check_ledger(ledger, store.audit(), 1);
}

void acknowledge(int pipe, const Acknowledgement& one) {
  if (::write(pipe, &one, sizeof one) != sizeof one) std::abort();
}

void work(WrappedStore& store, Ledger& ledger, u64 shard, u64 seed, u64 steps, int pipe) {
  Random random(seed);
  u64 next_checkpoint = random() % 50;
  for (u64 done = 0; done < steps; ++done) {
    {
      const auto op = store.operation();
      do_step(op, ledger, shard);
    }
    if (done < next_checkpoint) continue;
    next_checkpoint = done + 1 + random() % 100;
    const u64 mine = ledger.shards[shard].steps;
    u64 version = 0;
    if (random() % 3 == 0) {
      version = store.checkpoint_async();
      store.wait(version);
    } else {
      version = store.checkpoint();
    }
    acknowledge(pipe, {version, shard, mine});
  }
}

/// Returns what is wrong. Comes back only when it is not killed.
std::string live(const std::string& uri, const Life& life, u64 seed,
                 const Acknowledged& acknowledged, int pipe) {
  detail::WrapMedium wrap;
  KillingMedium::Count calls_left{static_cast<std::int64_t>(life.death_at)};
  if (life.death == Death::kAtMediumCall)
    wrap = [&](std::unique_ptr<media::Medium> inner) {
      return std::make_unique<KillingMedium>(std::move(inner), calls_left);
    };
  WrappedStore store(uri, life.options, wrap);
  Ledger& ledger = open_ledger(store, seed);
  if (std::string problem = check_recovered(store, ledger, acknowledged); !problem.empty())
    return "after opening: " + problem;
  store.runtime().checkpointer().every(life.interval);
  const u64 steps = life.death == Death::kNone ? 150 : ~u64{0};
  std::vector<std::thread> threads;
  for (u64 i = 0; i < life.threads; ++i)
    threads.emplace_back([&, i] { work(store, ledger, i, seed + i, steps, pipe); });
  for (std::thread& thread : threads) thread.join();
  store.close();
  if (std::string problem = check_recovered(store, ledger, acknowledged); !problem.empty())
    return "after closing: " + problem;
  const auto problems = home_problems(store.runtime().volume());
  return problems.empty() ? "" : "after closing: " + problems.front();
}

/// A process that lives a life, and what it acknowledges.
class Victim {
 public:
  Victim(const std::string& uri, const Life& life, u64 seed, const Acknowledged& acknowledged)
      : life_(life) {
    int ends[2];
    if (::pipe(ends) != 0) std::abort();
    from_ = ends[0];
    child_.emplace([&] {
      ::close(ends[0]);
      return live(uri, life, seed, acknowledged, ends[1]);
    });
    ::close(ends[1]);
  }
  ~Victim() { ::close(from_); }
  Victim(const Victim&) = delete;

  /// Take down what it acknowledges until it is dead; kill it when its time has come.
  std::string end(Acknowledged& acknowledged) {
    const u64 before = acknowledged.count;
    if (life_.death == Death::kAfterTime) {
      const timespec time{.tv_sec = 0, .tv_nsec = static_cast<long>(life_.death_at)};
      ::nanosleep(&time, nullptr);  // less than fills the pipe
      child_->kill();
    }
    Acknowledgement one{};
    while (::read(from_, &one, sizeof one) == sizeof one) {
      acknowledged.add(one);
      if (life_.death == Death::kAfterAcknowledgements &&
          acknowledged.count - before == life_.death_at)
        child_->kill();
    }
    return child_->wait();
  }
  bool killed() const { return child_->killed(); }

 private:
  const Life& life_;
  int from_ = -1;
  std::optional<Child> child_;
};

/// Of all chains of one test; shared with the processes that drive them.
struct Counters {
  std::atomic<u64> kills;
  std::atomic<u64> acknowledged;
  std::atomic<u64> lost;
};

constexpr u64 kLivesOfStore = 100;

/// Kill processes that use one store, one after the other.
std::string run_chain(const std::string& scheme, TempDir::Where where, u64 kills, u64 seed,
                      Counters& counters) {
  const TempDir folder(where);
  const std::vector<Tracking> trackings = supported_trackings(where);
  Random random(seed);
  const std::string path = folder.path("state.pd");
  const std::string uri = scheme + ":" + path;
  Acknowledged acknowledged;
  std::vector<std::string> lives;
  u64 killed = 0;
  u32 aliases = 0;
  const auto draw_engine = [&] { return random() % 3 == 0 ? Engine::kDualCopy : Engine::kRedoLog; };
  Engine engine = draw_engine();
  for (u64 process = 1; killed < kills; ++process) {
    if (process % kLivesOfStore == 0) {
      std::filesystem::remove(path);
      acknowledged = {};
      aliases = random() % 3 == 0 ? 1u << random() % 9 : 0;
      engine = draw_engine();
    }
    const Life life(random, trackings, aliases, engine, process % 20 != 19);
    const u64 life_seed = random();
    lives.push_back("\n  process " + std::to_string(process) + ": " + life.describe());
    if (lives.size() > 4) lives.erase(lives.begin());
    const u64 before = acknowledged.count;
    Victim victim(uri, life, life_seed, acknowledged);
    std::string problem = victim.end(acknowledged);
    counters.acknowledged += acknowledged.count - before;
    if (problem.empty() && victim.killed() != (life.death != Death::kNone))
      problem = "ended in another way than it should";
    if (!problem.empty()) {
      counters.lost += problem.find("lost") != problem.npos;
      return problem + std::accumulate(lives.begin(), lives.end(), std::string());
    }
    killed += victim.killed();
    counters.kills += victim.killed();
  }
  const Life last(random, trackings, aliases, engine, false);
  return Victim(uri, last, 1, acknowledged).end(acknowledged);
}

u64 number_from_environment(const char* name, u64 otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

Counters& counters() {
  static auto* shared = static_cast<Counters*>(
      ::mmap(nullptr, sizeof(Counters), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  return *shared;
}

class Summary final : public testing::Environment {
 public:
  void TearDown() override {
    std::cout << counters().kills << " kills, " << counters().acknowledged << " acknowledgements, "
              << counters().lost << " lost\n";
    if (const char* folder = std::getenv("PERDURA_SUMMARIES"))
      std::ofstream(folder + std::string("/kills.json"))
          << "{\"kills\":" << counters().kills << ",\"acknowledged\":" << counters().acknowledged
          << ",\"lost\":" << counters().lost << "}\n";
  }
};
[[maybe_unused]] auto* const summary = testing::AddGlobalTestEnvironment(new Summary);

class Kill : public testing::TestWithParam<const char*> {};

TEST_P(Kill, NothingAcknowledgedIsLost) {
  const u64 kills = number_from_environment("PERDURA_KILLS", slice_or_whole(200, 2'000)) / 2;
  const u64 seed = number_from_environment("PERDURA_SEED", std::random_device()());
  RecordProperty("seed", std::to_string(seed));
  const u64 acknowledged_before = counters().acknowledged;
  // Chains side by side, each on a store of its own. The page cache survives the process, so a disk
  // adds nothing but other times; every second chain has one. The mapped medium has no use for it.
  const u64 chains = std::max(2u, std::thread::hardware_concurrency());
  std::vector<std::unique_ptr<Child>> drivers;
  for (u64 i = 0; i < chains; ++i) {
    const bool disk = GetParam() == std::string("file") && i % 2 == 1;
    drivers.push_back(std::make_unique<Child>([&] {
      return run_chain(GetParam(), disk ? TempDir::kDisk : TempDir::kMemory,
                       (kills + chains - 1) / chains, seed + i, counters());
    }));
  }
  for (u64 i = 0; i < chains; ++i)
    EXPECT_EQ(drivers[i]->wait(), "")
        << "again: PERDURA_SEED=" << seed << " kill_test --gtest_filter='*/" << GetParam() << "'";
  EXPECT_GT(counters().acknowledged - acknowledged_before, kills / 4);
}

INSTANTIATE_TEST_SUITE_P(Media, Kill, testing::Values("file", "emu"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace perdura::test
