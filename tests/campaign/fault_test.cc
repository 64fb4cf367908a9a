// Goal: a medium that fails at any call, once or for ever, with any error, costs the program no
// more than an error: no crash, no hang, nothing acknowledged lost, nothing half done. When space
// ran out and is there again, checkpoints succeed again.
// Method: a scenario of 200 operations (allocations, frees, root changes, growth, checkpoints of
// both kinds, a log that wraps, closing) runs once to count its calls of the medium. Then it runs
// with the N-th call failing, for every N, in a way drawn for each (in every way with
// PERDURA_FAULTS=all), in a child process that is ended by SIGALRM if it hangs. After each run the
// store is opened without faults, and its ledger, its heap and its home image are checked.
#include <gtest/gtest.h>

#include <unistd.h>

#include <random>

#include "media/fault.hpp"
#include "support/files.hpp"
#include "support/lazy_medium.hpp"
#include "support/ledger.hpp"
#include "support/process.hpp"
#include "support/wrapped_store.hpp"

namespace perdura::test {
namespace {

constexpr u64 kOperations = 200;
constexpr u64 kBallastWords = 24 * 1024;
constexpr u64 kBallastEvery = 10;

struct Config {
  const char* name;
  const char* scheme;
  Tracking tracking;
  Capture capture;
  bool lazy = false;  ///< writes happen as late as they may
};

Options options_of(const Config& config) {
  Options options;
  options.region_limit_bytes = 256 * kMiB;
  options.log_limit_bytes = 2 * kMiB;
  options.tracking = config.tracking;
  options.capture = config.capture;
  return options;
}

/// Large and rewritten again and again, so that the log fills up.
void write_ballast(const WrappedStore::Op& op, u64* ballast, u64 value) {
  op.touch(ballast, kBallastWords * sizeof(u64));
  for (u64 i = 0; i < kBallastWords; ++i) ballast[i] = value + i;
}

std::string check_ballast(const Ledger& ledger, const u64* ballast) {
  const u64 steps = ledger.shards[0].steps;
  const u64 value = steps - steps % kBallastEvery;
  for (u64 i = 0; i < kBallastWords; ++i)
    if (ballast[i] != value + i)
      return "word " + std::to_string(i) + " of the ballast after step " + std::to_string(steps) +
             " is " + std::to_string(ballast[i]);
  return {};
}

std::string check_all(WrappedStore& store) {
  const auto* ledger = static_cast<const Ledger*>(store.get_root("ledger"));
  const auto* ballast = static_cast<const u64*>(store.get_root("ballast"));
  const HeapAudit audit = store.audit();
  if (ledger == nullptr) return audit.clean ? "" : audit.problem;
  if (std::string problem = check_ledger(*ledger, audit, audit.roots + 1); !problem.empty())
    return problem;
  return check_ballast(*ledger, ballast);
}

/// A run of the scenario. Every call that fails must say why.
class Scenario {
 public:
  Scenario(WrappedStore& store) : store_(store) {}

  /// What went wrong beyond the errors that were injected, or "".
  std::string run() {
    for (u64 i = 0; i < kOperations; ++i) {
      if (ledger_ == nullptr) attempt([&] { begin(); });
      if (ledger_ != nullptr) attempt([&] { step(i); });
      if (i % 9 == 8) attempt([&] { checkpoint(i % 2 == 0); });
    }
    return problem_;
  }

  u64 acknowledged() const { return acknowledged_; }
  u64 errors() const { return errors_; }

  template <class Call>
  bool attempt(Call&& call) {
    try {
      call();
      return true;
    } catch (const Error& error) {
      ++errors_;
      const std::string text = error.what();
      if (text.find("injected fault") == std::string::npos &&
          text.find("earlier") == std::string::npos)
        problem_ = "an error does not name its cause: " + text;
      return false;
    }
  }

  void checkpoint(bool async) {
    const u64 steps = ledger_ != nullptr ? ledger_->shards[0].steps : 0;
    if (async) store_.wait(store_.checkpoint_async());
    else store_.checkpoint();
    acknowledged_ = steps;
  }

 private:
  void begin() {
    const auto op = store_.operation();
    auto* ledger = make_ledger(op, 1);
    u64* ballast = nullptr;
    try {
      ballast = static_cast<u64*>(op.allocate(kBallastWords * sizeof(u64)));
      write_ballast(op, ballast, 0);
      op.set_root("ballast", ballast);
      op.set_root("ledger", ledger);
    } catch (const Error&) {
      // A program undoes what it began.
      op.set_root("ballast", nullptr);
      if (ballast != nullptr) op.deallocate(ballast);
      op.deallocate(ledger);
      throw;
    }
    ledger_ = ledger;
    ballast_ = ballast;
  }

  void step(u64 i) {
    const auto op = store_.operation();
    const u64 before = ledger_->shards[0].steps;
    do_step(op, *ledger_, 0);
    if ((before + 1) % kBallastEvery == 0) write_ballast(op, ballast_, before + 1);
    if (i % 7 == 0) op.set_root("toggled", i % 14 == 0 ? ledger_ : nullptr);
  }

  WrappedStore& store_;
  Ledger* ledger_ = nullptr;
  u64* ballast_ = nullptr;
  u64 acknowledged_ = 0;
  u64 errors_ = 0;
  std::string problem_;
};

std::string reopen_and_check(const std::string& uri, const Config& config, u64 acknowledged) {
  WrappedStore store(uri, options_of(config));
  if (std::string problem = check_all(store); !problem.empty())
    return "after opening again: " + problem;
  const auto* ledger = static_cast<const Ledger*>(store.get_root("ledger"));
  const u64 steps = ledger != nullptr ? ledger->shards[0].steps : 0;
  if (steps < acknowledged)
    return "step " + std::to_string(acknowledged) + " was acknowledged, " + std::to_string(steps) +
           " are left";
  store.close();
  const auto problems = home_problems(store.runtime().volume());
  return problems.empty() ? "" : "after closing again: " + problems.front();
}

/// One run with a fault. `calls` becomes the number of calls of the medium.
std::string run_with(const std::string& uri, const Config& config, const media::Fault* fault,
                     u64* calls) {
  media::FaultPlan plan;
  if (fault != nullptr) plan.arm(*fault);
  u64 acknowledged = 0;
  try {
    WrappedStore store(uri, options_of(config), [&](std::unique_ptr<media::Medium> inner) {
      return plan.wrap(config.lazy ? make_lazy(std::move(inner)) : std::move(inner));
    });
    Scenario scenario(store);
    if (std::string problem = scenario.run(); !problem.empty()) return problem;
    if (std::string problem = check_all(store); !problem.empty()) return "in memory: " + problem;
    // Of everything but a failed barrier the store recovers.
    const bool over = fault == nullptr || (!fault->for_ever && plan.fired() != 0);
    // The first checkpoint may wait for a replay that met the fault, and report that.
    const auto checkpoint = [&] { scenario.checkpoint(false); };
    if (over && !plan.barrier_failed() && !scenario.attempt(checkpoint) &&
        !scenario.attempt(checkpoint))
      return "two checkpoints failed after the fault was over";
    acknowledged = scenario.acknowledged();
    const u64 steps = static_cast<const Ledger*>(store.get_root("ledger")) != nullptr
                          ? static_cast<const Ledger*>(store.get_root("ledger"))->shards[0].steps
                          : 0;
    if (scenario.attempt([&] { store.close(); })) acknowledged = steps;
    if (fault == nullptr && scenario.errors() != 0) return "failed without a fault";
    if (calls != nullptr) *calls = plan.count();
  } catch (const Error& error) {
    if (fault == nullptr) return error.what();
    if (std::string(error.what()).find("injected fault") == std::string::npos)
      return std::string("opening does not name its cause: ") + error.what();
  }
  return reopen_and_check(uri, config, acknowledged);
}

class Fault : public testing::TestWithParam<Config> {};

TEST_P(Fault, AtEveryCall) {
  const Config& config = GetParam();
  const TempDir folder(TempDir::kMemory);
  const std::string path = folder.path("state.pd");
  const std::string uri = config.scheme + (":" + path);
  u64 calls = 0;
  ASSERT_EQ(run_with(uri, config, nullptr, &calls), "");
  ASSERT_GT(calls, 100u);
  const char* wanted = std::getenv("PERDURA_FAULTS");
  const bool all = wanted != nullptr && std::string(wanted) == "all";
  const char* chosen = std::getenv("PERDURA_SEED");
  const u64 seed = chosen != nullptr ? std::strtoull(chosen, nullptr, 10) : std::random_device()();
  SCOPED_TRACE("PERDURA_SEED=" + std::to_string(seed));
  constexpr media::FaultKind kKinds[] = {media::FaultKind::kIo, media::FaultKind::kNoSpace,
                                         media::FaultKind::kShort, media::FaultKind::kLate};
  constexpr u64 kWays = 2 * std::size(kKinds);  // of each kind, once and for ever
  u64 runs = 0;
  u64 failed = 0;
  for (u64 nth = 1; nth <= calls; ++nth) {
    const u64 drawn = mix(seed + nth) % kWays;
    for (u64 way = all ? 0 : drawn; way < (all ? kWays : drawn + 1); ++way) {
      std::filesystem::remove(path);
      const media::Fault fault{.nth = nth, .kind = kKinds[way / 2], .for_ever = way % 2 != 0};
      const std::string problem = in_child([&] {
        ::alarm(30);
        return run_with(uri, config, &fault, nullptr);
      });
      ++runs;
      failed += !problem.empty();
      EXPECT_EQ(problem, "") << "call " << nth << " of " << calls << " fails, kind "
                             << static_cast<int>(fault.kind)
                             << (fault.for_ever ? " for ever" : " once");
      ASSERT_LT(failed, 20u) << "after " << runs << " runs";
    }
  }
  RecordProperty("runs", std::to_string(runs));
}

INSTANTIATE_TEST_SUITE_P(
    Configs, Fault,
    testing::Values(Config{"file_reported", "file", Tracking::kReported, Capture::kBackground},
                    Config{"file_lazy", "file", Tracking::kReported, Capture::kBackground, true},
                    Config{"file_automatic", "file", Tracking::kAutomatic, Capture::kAutomatic},
                    Config{"emu_bitmap", "emu", Tracking::kBitmap, Capture::kStopped},
                    Config{"emu_automatic", "emu", Tracking::kAutomatic, Capture::kAutomatic},
                    Config{"emu_reported", "emu", Tracking::kReported, Capture::kBackground}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace perdura::test
