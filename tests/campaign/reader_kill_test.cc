// Goal: whoever is killed beside whom, and when: readers see one version, whole and as new as what
// was acknowledged before they came, and it stays; writers find all that was acknowledged, and go
// on beside readers of older versions.
// Method: one process writes and three read, each of them killed with SIGKILL at a random moment
// and followed by another one, 300 times for each kind of store (a slice of it in the usual run).
// The whole content follows from one number (support/reader_steps.hpp), which readers compare again
// and again for as long as they live; half of them leave their store closed in order. What was
// acknowledged is in memory that all of them share.
#include <gtest/gtest.h>

#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <random>

#include <perdura/transaction.hpp>

#include "store/inspect.hpp"
#include "support/files.hpp"
#include "support/reader_steps.hpp"
#include "support/slice.hpp"

namespace perdura::test {
namespace {

using Random = std::mt19937_64;

struct Kind {
  const char* name;
  const char* scheme;
  Engine engine;
  bool transactions;
  TempDir::Where where = TempDir::kMemory;
};

constexpr Kind kKinds[] = {
    {"file_log", "file:", Engine::kRedoLog, false},
    {"disk_log", "file:", Engine::kRedoLog, false, TempDir::kDisk},
    {"emu_log", "emu:", Engine::kRedoLog, false},
    {"file_transactions", "file:", Engine::kRedoLog, true},
    {"emu_transactions", "emu:", Engine::kRedoLog, true},
    {"file_chunks", "file:", Engine::kRemap, false},
    {"emu_chunks", "emu:", Engine::kRemap, false},
    {"file_copies", "file:", Engine::kDualCopy, false},
    {"emu_copies", "emu:", Engine::kDualCopy, false},
};

/// What all processes of a test share.
struct Shared {
  std::atomic<u64> acknowledged;  ///< the last step
  std::atomic<u64> looks;
  std::atomic<u64> openings;
  std::atomic<u64> checks;
};

class ReaderKills : public testing::TestWithParam<Kind> {
 protected:
  static constexpr size_t kReaders = 3;
  static constexpr u64 kStepsMax = 200'000;

  ReaderKills() {
    void* const memory =
        ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared_ = new (memory) Shared{};
  }
  ~ReaderKills() override { ::munmap(shared_, sizeof(Shared)); }

  std::string uri() const { return GetParam().scheme + folder_.path("store.pd"); }

  Options draw_options(Random& random) const {
    Options options;
    options.region_limit_bytes = 8 * kMiB;
    options.engine = GetParam().engine;
    options.log_segment_bytes = 64 * kKiB;
    options.log_limit_bytes = random() % 2 == 0 ? 512 * kKiB : 4 * kMiB;
    options.chunk_bytes = 4096u << random() % 4;
    options.tracking =
        random() % 2 == 0 && !has_chunks() ? Tracking::kReported : Tracking::kAutomatic;
    options.lazy_recovery = random() % 2 == 0;
    options.verify = random() % 3 == 0 ? Verify::kBeforeUse : Verify::kBackground;
    options.confirm_versions = random() % 4 == 0;
    return options;
  }
  bool has_chunks() const { return GetParam().engine == Engine::kRemap; }

  std::string write(u64 seed) const;
  std::string read(u64 seed) const;
  std::unique_ptr<Child> start(size_t which, u64 seed) const {
    return std::make_unique<Child>(
        [&]() -> std::string { return which == 0 ? write(seed) : read(seed); });
  }

  const TempDir folder_{GetParam().where};
  Shared* shared_;
};

/// A step as a transaction, durable when it returns.
void take_as_transaction(Store& store) {
  auto* const words = static_cast<u64*>(store.get_root("words"));
  atomically(store, [&](Transaction& tx) {
    const u64 step = tx.read(words[0]) + 1;
    for (u64 i = 0; i < Steps::kOfStep; ++i) tx.write(words[Steps::place(step, i)], step);
    tx.write(words[0], step);
  });
}

// Until it is killed, or has taken so many steps that comparing takes too long.
std::string ReaderKills::write(u64 seed) const {
  Random random(seed);
  const u64 before = shared_->acknowledged;
  Store store = Store::open(uri(), draw_options(random));
  Steps steps(store);
  if (!steps.is_made()) {
    if (before != 0) return "all of it is lost";
    steps.make();
    store.checkpoint();
  }
  if (steps.step() < before)
    return "step " + std::to_string(before) + " was acknowledged, the writer found " +
           std::to_string(steps.step());
  if (std::string problem = steps.problem(); !problem.empty()) return "the writer: " + problem;
  const u64 pause_us = 20 + random() % 3 * 100;
  while (steps.step() < kStepsMax) {
    if (GetParam().transactions) {
      take_as_transaction(store);
      if (random() % 64 == 0) store.checkpoint();
    } else {
      steps.take();
      store.checkpoint();
    }
    shared_->acknowledged = steps.step();
    ::usleep(static_cast<useconds_t>(pause_us));
    if (random() % 2000 == 0) {
      store.close();
      store = Store::open(uri(), draw_options(random));
      steps = Steps(store);
    }
  }
  for (;;) ::pause();
}

// Some look with the commands.
std::string ReaderKills::read(u64 seed) const {
  Random random(seed);
  for (;;) {
    const u64 before = shared_->acknowledged;
    if (random() % 8 == 0) {
      const auto report = value_or_throw(store::check(uri(), {}));
      if (report.damaged()) return "check: " + report.findings.at(0).message;
      ++shared_->checks;
      continue;
    }
    Options options = draw_options(random);
    options.read_only = true;
    options.confirm_versions = false;
    Store store = Store::open(uri(), options);
    const Steps steps(store);
    if (!steps.is_made()) return "a reader found no words";
    const u64 step = steps.step();
    if (step < before)
      return "step " + std::to_string(before) + " was acknowledged, a reader found " +
             std::to_string(step);
    ++shared_->openings;
    for (u64 looks = 1 + random() % 40; looks != 0; --looks) {
      if (std::string problem = steps.problem(step); !problem.empty())
        return "a reader: " + problem;
      ++shared_->looks;
      if (random() % 4 == 0) ::usleep(static_cast<useconds_t>(random() % 2000));
    }
    if (random() % 2 == 0) store.close();
  }
}

TEST_P(ReaderKills, LeaveEachVersionAsItIs) {
  const u64 kills = slice_or_whole(12, 60) / kSlower;
  const char* const wanted = std::getenv("PERDURA_SEED");
  const u64 seed = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : std::random_device{}();
  SCOPED_TRACE("PERDURA_SEED=" + std::to_string(seed));
  Random random(seed);
  std::array<std::unique_ptr<Child>, 1 + kReaders> processes;
  processes[0] = start(0, random());
  while (shared_->acknowledged == 0) ::usleep(1000);
  for (size_t i = 1; i < processes.size(); ++i) processes[i] = start(i, random());
  std::array<u64, 2> killed{};
  for (u64 kill = 0; kill < kills; ++kill) {
    const double time_ns = std::pow(10, std::uniform_real_distribution(4.5, 7.7)(random));
    const timespec time{.tv_sec = 0, .tv_nsec = static_cast<long>(time_ns)};
    ::nanosleep(&time, nullptr);
    const size_t which = random() % 2 == 0 ? 0 : 1 + random() % kReaders;
    processes[which]->kill();
    ASSERT_EQ(processes[which]->wait(), "") << "kill " << kill;
    ASSERT_TRUE(processes[which]->killed()) << "kill " << kill << " of " << which;
    ++killed[which != 0];
    processes[which] = start(which, random());
  }
  const auto has_ended = [](const std::unique_ptr<Child>& reader) { return reader->has_ended(); };
  while (shared_->looks <= killed[1] &&
         std::none_of(processes.begin() + 1, processes.end(), has_ended))
    ::usleep(1000);
  for (size_t i = 0; i < processes.size(); ++i) {
    processes[i]->kill();
    EXPECT_EQ(processes[i]->wait(), "");
  }
  // Nobody is left, and all comes home.
  Random last(1);
  Store store = Store::open(uri(), draw_options(last));
  const Steps steps(store);
  EXPECT_GE(steps.step(), shared_->acknowledged);
  EXPECT_EQ(steps.problem(), "");
  EXPECT_EQ(store.statistics().pinned_version, 0u);
  store.close();
  const auto report = value_or_throw(store::check(uri(), {}));
  EXPECT_FALSE(report.damaged()) << report.findings.at(0).message;
  std::printf(
      "%lu writers and %lu readers killed, %lu steps acknowledged, %lu openings to read, "
      "%lu looks, %lu checks\n",
      killed[0], killed[1], shared_->acknowledged.load(), shared_->openings.load(),
      shared_->looks.load(), shared_->checks.load());
  EXPECT_GT(shared_->looks, killed[1]);
}

INSTANTIATE_TEST_SUITE_P(Stores, ReaderKills, testing::ValuesIn(kKinds),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace perdura::test
