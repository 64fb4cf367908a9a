// Goal: a program killed at any moment finds its last durable version when it opens its store
// again: everything acknowledged, every operation whole, the heap sound.
// Method: processes are killed with SIGKILL, 500 a run (PERDURA_KILLS changes it), at a random
// number of operations, after a random time that often falls into the opening, or at a random call
// of the medium. Each next process opens the store that the killed one left, proves the ledger
// (support/ledger.hpp) and the heap, and goes on. Trackers, captures, media and log limits change
// from one process to the next. Every twentieth process closes the store in order, and every page
// of its home image must fit its checksum.
#include <gtest/gtest.h>

#include <sys/mman.h>
#include <time.h>

#include <atomic>
#include <numeric>
#include <random>
#include <thread>

#include "media/decorator.hpp"
#include "media/fault.hpp"
#include "support/files.hpp"
#include "support/ledger.hpp"
#include "support/process.hpp"
#include "support/wrapped_store.hpp"

namespace perdura::test {
namespace {

using Random = std::mt19937_64;

/// What processes tell the one that kills them; survives them.
struct Shared {
  std::atomic<u64> acknowledged_version;
  std::atomic<u64> acknowledged_steps[Ledger::kShards];
  std::atomic<u64> steps_done;  ///< of this process
};

/// Kills this process at the n-th call of its medium.
class DeadlyMedium final : public media::Decorator {
 public:
  DeadlyMedium(std::unique_ptr<media::Medium> inner, u64 calls)
      : Decorator(std::move(inner)), calls_left_(static_cast<std::int64_t>(calls)) {}

  Status grow(u64 size, bool prewrite) override {
    count();
    return inner().grow(size, prewrite);
  }
  Status write(u64 offset, media::Bytes data, const media::Site& site) override {
    count();
    return inner().write(offset, data, site);
  }
  std::unique_ptr<media::WriteQueue> queue() override {
    return std::make_unique<Queue>(*this, inner().queue());
  }
  Status barrier(const media::Site& site) override {
    count();
    return inner().barrier(site);
  }

 private:
  class Queue final : public media::WriteQueue {
   public:
    Queue(DeadlyMedium& medium, std::unique_ptr<media::WriteQueue> inner)
        : medium_(medium), inner_(std::move(inner)) {}
    Status submit(u64 offset, media::Bytes data, const media::Site& site) override {
      medium_.count();
      return inner_->submit(offset, data, site);
    }
    Status drain(size_t pending_max) override {
      medium_.count();
      return inner_->drain(pending_max);
    }

   private:
    DeadlyMedium& medium_;
    const std::unique_ptr<media::WriteQueue> inner_;
  };

  void count() {
    if (calls_left_.fetch_sub(1) == 1) ::kill(::getpid(), SIGKILL);
  }

  std::atomic<std::int64_t> calls_left_;
};

enum class Death { kAfterSteps, kAfterTime, kAtMediumCall, kNone };

/// The trackers that this machine has.
const std::vector<Tracking>& supported_trackings() {
  static const auto supported = [] {
    std::vector<Tracking> found;
    const TempDir folder;
    for (Tracking each : {Tracking::kReported, Tracking::kBitmap, Tracking::kUserfault,
                          Tracking::kSigbus, Tracking::kProtect}) {
      Options options;
      options.region_limit_bytes = 256 * kMiB;
      options.tracking = each;
      try {
        WrappedStore(folder.path("probe.pd"), options).close();
        found.push_back(each);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::kUnsupported) << error.what();
      }
    }
    return found;
  }();
  return supported;
}

/// One process's life.
struct Life {
  Options options;
  unsigned threads = 1;
  std::chrono::milliseconds interval{0};
  Death death = Death::kNone;
  u64 death_at = 0;  ///< steps, nanoseconds or calls

  Life(Random& random, bool dies) {
    options.region_limit_bytes = 256 * kMiB;
    const std::vector<Tracking>& trackings = supported_trackings();
    options.tracking = trackings[random() % trackings.size()];
    const bool reported =
        options.tracking == Tracking::kReported || options.tracking == Tracking::kBitmap;
    if (reported && random() % 2 == 0)
      options.capture = random() % 2 == 0 ? Capture::kStopped : Capture::kBackground;
    if (options.tracking == Tracking::kReported && random() % 4 == 0)
      options.granule_bytes = 64u << random() % 7;
    options.log_limit_bytes = random() % 2 == 0 ? 2 * kMiB : 0;
    options.lazy_recovery = random() % 2 == 0;
    threads = 1 + static_cast<unsigned>(random() % Ledger::kShards);
    interval = std::chrono::milliseconds(random() % 6);
    if (!dies) return;
    death = static_cast<Death>(random() % 3);
    death_at = death == Death::kAfterSteps  ? 1 + random() % 4000
               : death == Death::kAfterTime ? random() % 15'000'000
                                            : 1 + random() % 300;
  }

  std::string describe() const {
    return "tracking " + std::to_string(static_cast<int>(options.tracking)) + " capture " +
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

std::string check_recovered(WrappedStore& store, const Ledger& ledger, const Shared& shared) {
  if (store.durable_version() < shared.acknowledged_version)
    return "version " + std::to_string(shared.acknowledged_version) + " was acknowledged, " +
           std::to_string(store.durable_version()) + " is left";
  for (u64 i = 0; i < Ledger::kShards; ++i)
    if (ledger.shards[i].steps < shared.acknowledged_steps[i])
      return "step " + std::to_string(shared.acknowledged_steps[i]) + " of shard " +
             std::to_string(i) + " was acknowledged, " + std::to_string(ledger.shards[i].steps) +
             " are left";
  return check_ledger(ledger, store.audit(), 1);
}

void raise_to(std::atomic<u64>& value, u64 to) {
  for (u64 seen = value; seen < to && !value.compare_exchange_weak(seen, to);) {
  }
}

void work(WrappedStore& store, Ledger& ledger, u64 shard, u64 seed, u64 steps, Shared& shared) {
  Random random(seed);
  u64 next_checkpoint = random() % 200;
  for (u64 done = 0; done < steps; ++done) {
    {
      const auto op = store.operation();
      do_step(op, ledger, shard);
    }
    ++shared.steps_done;
    if (done < next_checkpoint) continue;
    next_checkpoint = done + 1 + random() % 400;
    const u64 mine = ledger.shards[shard].steps;
    u64 version = 0;
    if (random() % 3 == 0) {
      version = store.checkpoint_async();
      store.wait(version);
    } else {
      version = store.checkpoint();
    }
    raise_to(shared.acknowledged_version, version);
    raise_to(shared.acknowledged_steps[shard], mine);
  }
}

/// Returns what is wrong. Comes back only when it is not killed.
std::string live(const std::string& uri, const Life& life, u64 seed, Shared& shared) {
  detail::WrapMedium wrap;
  if (life.death == Death::kAtMediumCall)
    wrap = [&](std::unique_ptr<media::Medium> inner) {
      return std::make_unique<DeadlyMedium>(std::move(inner), life.death_at);
    };
  WrappedStore store(uri, life.options, wrap);
  Ledger& ledger = open_ledger(store, seed);
  if (std::string problem = check_recovered(store, ledger, shared); !problem.empty())
    return "after opening: " + problem;
  store.runtime().checkpointer().every(life.interval);
  const u64 steps = life.death == Death::kNone ? 500 : ~u64{0};
  std::vector<std::thread> threads;
  for (u64 i = 0; i < life.threads; ++i)
    threads.emplace_back([&, i] { work(store, ledger, i, seed + i, steps, shared); });
  for (std::thread& thread : threads) thread.join();
  store.close();
  if (std::string problem = check_recovered(store, ledger, shared); !problem.empty())
    return "after closing: " + problem;
  const auto problems = home_problems(store.runtime().volume());
  return problems.empty() ? "" : "after closing: " + problems.front();
}

void await_death_moment(const Life& life, const Child& child, const Shared& shared) {
  if (life.death == Death::kAfterTime) {
    const timespec time{.tv_sec = 0, .tv_nsec = static_cast<long>(life.death_at)};
    ::nanosleep(&time, nullptr);
    return;
  }
  // A child that failed ends by itself.
  siginfo_t ended{};
  while (shared.steps_done < life.death_at) {
    ::waitid(P_PID, static_cast<id_t>(child.pid()), &ended, WEXITED | WNOWAIT | WNOHANG);
    if (ended.si_pid != 0) return;
    const timespec time{.tv_sec = 0, .tv_nsec = 100'000};
    ::nanosleep(&time, nullptr);
  }
}

class Kill : public testing::TestWithParam<const char*> {};

TEST_P(Kill, NothingAcknowledgedIsLost) {
  const char* wanted = std::getenv("PERDURA_KILLS");
  const u64 kills = (wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 500) / 2;
  const char* chosen = std::getenv("PERDURA_SEED");
  const u64 seed = chosen != nullptr ? std::strtoull(chosen, nullptr, 10) : std::random_device()();
  SCOPED_TRACE("PERDURA_SEED=" + std::to_string(seed));
  RecordProperty("seed", std::to_string(seed));
  Random random(seed);
  // The mapped medium has no use for a disk; the page cache survives the process.
  const TempDir folder(GetParam() == std::string("emu") ? TempDir::kMemory : TempDir::kDisk);
  const std::string uri = GetParam() + (":" + folder.path("state.pd"));
  auto* shared = static_cast<Shared*>(
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(shared, MAP_FAILED);
  u64 killed = 0;
  std::vector<std::string> lives;
  for (u64 process = 1; killed < kills; ++process) {
    const Life life(random, process % 20 != 0);
    const u64 life_seed = random();
    lives.push_back("\n  process " + std::to_string(process) + ": " + life.describe());
    if (lives.size() > 4) lives.erase(lives.begin());
    shared->steps_done = 0;
    Child child([&] { return live(uri, life, life_seed, *shared); });
    if (life.death == Death::kAfterSteps || life.death == Death::kAfterTime) {
      await_death_moment(life, child, *shared);
      child.kill();
    }
    const std::string problem = child.wait();
    ASSERT_EQ(problem, "") << std::accumulate(lives.begin(), lives.end(), std::string());
    ASSERT_EQ(child.killed(), life.death != Death::kNone) << life.describe();
    killed += child.killed();
  }
  const Life last(random, false);
  EXPECT_EQ(in_child([&] { return live(uri, last, 1, *shared); }), "");
  EXPECT_GT(shared->acknowledged_version, kills / 4);
  ::munmap(shared, sizeof *shared);
}

INSTANTIATE_TEST_SUITE_P(Media, Kill, testing::Values("file", "emu"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace perdura::test
