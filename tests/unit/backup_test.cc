// Goal: a backup, a copy and a restored store are what a version of the original was, whatever
// engine and medium either has, also where a program writes to it meanwhile; what is there already
// is not sent again; an attempt that was cut short leaves the versions that were there, and is gone
// on with.
// Method: stores whose whole content follows from one number (support/reader_steps.hpp) are copied
// and opened again; calls of the media fail one by one; bytes are flipped; what is sent is counted.
#include <gtest/gtest.h>

#include <thread>

#include <perdura/perdura.h>
#include <perdura/container.hpp>
#include <perdura/objects.hpp>
#include <perdura/transaction.hpp>

#include "media/fault.hpp"
#include "store/backup.hpp"
#include "store/inspect.hpp"
#include "store/versions.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/memcached_server.hpp"
#include "support/reader_steps.hpp"
#include "support/store_places.hpp"

namespace perdura::test {
namespace {

using store::back_up;
using store::Copied;
using store::CopyOptions;

class Backups : public testing::TestWithParam<StorePlace> {
 protected:
  Options options() const { return small_options(GetParam()); }
  bool has_log() const { return GetParam().engine == Engine::kRedoLog; }
  std::string uri() const { return GetParam().scheme + folder_.path("store.pd"); }
  std::string backup() const { return folder_.path("backup.pd"); }
  std::string place(const char* name) const { return GetParam().scheme + folder_.path(name); }

  /// Take steps to number `step`, each a version; the last version.
  u64 write_to(u64 step) const {
    Store store = Store::open(uri(), options());
    Steps steps(store);
    if (!steps.is_made()) steps.make();
    while (steps.step() < step) {
      steps.take();
      store.checkpoint();
    }
    const u64 version = store.durable_version();
    store.close();
    return version;
  }

  static std::string problem_at(const std::string& uri, u64 step, u64 version = 0) {
    Options to_read;
    to_read.read_only = true;
    to_read.version = version;
    Store store = Store::open(uri, to_read);
    const Steps steps(store);
    if (!steps.is_made()) return "it has no words";
    if (steps.step() != step) return "it is at step " + std::to_string(steps.step());
    return steps.problem();
  }
  static std::string damage_of(const std::string& uri) {
    const auto report = value_or_throw(store::check(uri, {}));
    return report.damaged() ? report.findings.front().message : "";
  }

  const TempDir folder_{TempDir::kMemory};
};

TEST_P(Backups, AreStoresAndAreRestored) {
  const u64 version = write_to(40);
  const Copied first = value_or_throw(back_up(uri(), backup(), {}));
  ASSERT_EQ(first.regions.size(), 1u);
  EXPECT_EQ(first.regions[0].source_version, version);
  EXPECT_TRUE(first.regions[0].is_new);
  EXPECT_EQ(problem_at(backup(), 40), "");
  EXPECT_EQ(damage_of(backup()), "");
  EXPECT_FALSE(value_or_throw(back_up(uri(), backup(), {})).regions[0].is_new);

  write_to(60);
  EXPECT_TRUE(value_or_throw(back_up(uri(), backup(), {})).regions[0].is_new);
  EXPECT_EQ(problem_at(backup(), 60), "");
  EXPECT_EQ(problem_at(backup(), 40, 1), "") << "older versions stay";

  const auto before = value_or_throw(store::outline(uri(), {}));
  const std::string again = place("again.pd");
  value_or_throw(store::restore(backup(), again, {}));
  EXPECT_EQ(damage_of(again), "");
  const auto after = value_or_throw(store::outline(again, {}));
  EXPECT_TRUE(std::ranges::equal(before.superblock.uuid, after.superblock.uuid));
  EXPECT_EQ(after.regions[0].durable_version, before.regions[0].durable_version);
  EXPECT_EQ(after.regions[0].record.engine, before.regions[0].record.engine);
  EXPECT_EQ(after.regions[0].record.versions_kept, before.regions[0].record.versions_kept);
  EXPECT_EQ(problem_at(again, 60), "");

  // It goes on, and so do its backups.
  Store store = Store::open(again, options());
  Steps steps(store);
  EXPECT_EQ(steps.problem(60), "");
  for (int i = 0; i < 20; ++i) steps.take();
  store.checkpoint();
  store.close();
  EXPECT_EQ(problem_at(again, 80), "");
  const Copied later = value_or_throw(back_up(again, backup(), {}));
  EXPECT_LT(later.regions[0].changed_bytes, later.regions[0].region_bytes);
  EXPECT_EQ(problem_at(backup(), 80), "");
}

TEST_P(Backups, OlderOnesAreRestored) {
  write_to(10);
  value_or_throw(back_up(uri(), backup(), {}));
  write_to(20);
  value_or_throw(back_up(uri(), backup(), {}));
  CopyOptions older;
  older.version = 1;
  value_or_throw(store::restore(backup(), place("again.pd"), older));
  EXPECT_EQ(problem_at(place("again.pd"), 10), "");
  expect_failure(back_up(place("again.pd"), backup(), {}), Code::kMisuse, "is later than version");
}

TEST_P(Backups, AreMadeBesideAWriter) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer ends children that start threads where their parent had some";
#endif
  WriterProcess writer(uri(), options());
  u64 step = 0;
  for (int round = 0; round < 12; ++round) {
    step = writer.take(7).step;
    ASSERT_NE(step, 0u);
    writer.order(40);  // while it is copied
    if (GetParam().engine == Engine::kDualCopy) step = writer.wait().step;
    const auto copied = back_up(uri(), backup(), {});
    ASSERT_TRUE(copied) << copied.failure().message;
    Options to_read;
    to_read.read_only = true;
    Store store = Store::open(backup(), to_read);
    const Steps steps(store);
    EXPECT_GE(steps.step(), step);
    EXPECT_EQ(steps.problem(), "");
    if (GetParam().engine != Engine::kDualCopy) step = writer.wait().step;
  }
  EXPECT_EQ(writer.close(), "");
}

// Bytes that changed in chunks, with the map above them and two records.
TEST_P(Backups, SendWhatChanged) {
  write_to(40);
  value_or_throw(back_up(uri(), backup(), {}));
  {
    Store store = Store::open(uri(), options());
    Steps steps(store);
    steps.take();
    store.close();
  }
  const Copied second = value_or_throw(back_up(uri(), backup(), {}));
  const auto& region = second.regions[0];
  EXPECT_GT(region.changed_bytes, 0u);
  EXPECT_LE(region.changed_bytes, 10 * 64 * kKiB);
  EXPECT_EQ(region.sent_bytes - region.changed_bytes, 2 * 4096u);
  if (GetParam().engine == Engine::kRemap) {
    EXPECT_EQ(region.read_bytes, region.changed_bytes) << "both versions are there to compare";
  }
}

// Each call of the backup's medium fails once: what was there stays, and the next attempt succeeds.
TEST_P(Backups, GoOnWhereTheyWereCutShort) {
  u64 step = write_to(10) != 0 ? 10 : 0;
  for (const unsigned calls :
       {unsigned{media::kFaultSubmit | media::kFaultWrite}, unsigned{media::kFaultBarrier}}) {
    for (const bool is_first : {true, false}) {
      for (u64 nth = 1;; nth += nth < 12 ? 1 : nth / 3) {
        std::filesystem::remove(backup());
        u64 had = 0;
        if (!is_first) {
          value_or_throw(back_up(uri(), backup(), {}));
          had = step;
          write_to(step += 5);
        }
        media::FaultPlan plan;
        plan.arm({.calls = calls, .nth = nth});
        CopyOptions failing;
        failing.progress_bytes = 32 * kKiB;
        failing.wrap_to = [&](auto medium) { return plan.wrap(std::move(medium)); };
        const auto failed = back_up(uri(), backup(), failing);
        if (plan.fired() == 0) {
          ASSERT_TRUE(failed) << failed.failure().message;
          break;
        }
        if (had != 0) {
          const std::string older = problem_at(backup(), had);
          EXPECT_TRUE(older.empty() || problem_at(backup(), step).empty()) << older << nth;
        } else if (const auto there = store::outline(backup(), {});
                   there && !there->regions.empty() && there->regions[0].is_unfinished) {
          expect_error([&] { Store::open(backup(), {}); }, Code::kNotFound, "not completed");
          expect_error([&] { problem_at(backup(), step); }, Code::kNotFound, "not completed");
          EXPECT_EQ(damage_of(backup()), "");
        }
        const auto again = back_up(uri(), backup(), {});
        ASSERT_TRUE(again) << again.failure().message << " after call " << nth;
        EXPECT_EQ(problem_at(backup(), step), "") << nth;
        EXPECT_EQ(damage_of(backup()), "") << nth;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Backups, testing::ValuesIn(kStorePlaces), name_of);

}  // namespace
}  // namespace perdura::test
