// Goal: what docs/tracking.md says and no test of a part shows: which captures a tracker can have,
// what comparing and larger granules do to change sets, and that allocation reports for itself.
// Method: stores of each tracker; the bytes of their change sets, and what a crash leaves.
#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include <perdura/perdura.hpp>

#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/wrapped_store.hpp"

namespace perdura::test {
namespace {

constexpr Tracking kAll[] = {Tracking::kAutomatic, Tracking::kUserfault, Tracking::kSigbus,
                             Tracking::kProtect,   Tracking::kReported,  Tracking::kBitmap};

class TrackingDoc : public testing::Test {
 protected:
  static Options options(Tracking tracking) {
    Options options;
    options.region_limit_bytes = 16 * kMiB;
    options.tracking = tracking;
    return options;
  }
  std::string uri(const char* scheme = "emu:") {
    return scheme + folder_.path("state " + std::to_string(++stores_) + ".pd");
  }
  /// None where the system refuses the tracker, in which case the code says so.
  static std::optional<WrappedStore> open(const std::string& uri, const Options& options) {
    try {
      return std::optional<WrappedStore>(std::in_place, uri, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kUnsupported) << error.what();
      EXPECT_TRUE(options.tracking == Tracking::kSigbus ||
                  options.tracking == Tracking::kUserfault);
      return {};
    }
  }
  /// Of the next checkpoint.
  static u64 changed_bytes(WrappedStore& store) {
    const u64 before = store.statistics().changed_bytes;
    store.checkpoint();
    return store.statistics().changed_bytes - before;
  }
  static char* page(WrappedStore& store) {
    const auto operation = store.operation();
    auto* const made = static_cast<char*>(operation.allocate(kPageBytes, kPageBytes));
    std::memset(made, 'a', kPageBytes);
    operation.set_root("page", made);
    return made;
  }

  const TempDir folder_{TempDir::kMemory};
  int stores_ = 0;
};

TEST_F(TrackingDoc, StatisticsNameTheTracker) {
  for (const Tracking tracking : kAll) {
    auto store = open(uri(), options(tracking));
    if (!store) continue;
    const Tracking found = store->statistics().tracking;
    if (tracking == Tracking::kAutomatic) EXPECT_NE(found, tracking);
    else EXPECT_EQ(found, tracking);
  }
}

TEST_F(TrackingDoc, CapturesAreAsTheTableSays) {
  for (const Tracking tracking : kAll)
    for (const Engine engine : {Engine::kRedoLog, Engine::kRemap, Engine::kDualCopy})
      for (const Capture capture : {Capture::kStopped, Capture::kBackground}) {
        constexpr const char* kEngines[] = {", log", ", chunks", ", copies"};
        SCOPED_TRACE(name_of(tracking) + std::string(kEngines[static_cast<u64>(engine)]));
        Options chosen = options(tracking);
        chosen.engine = engine;
        chosen.capture = capture;
        const std::string name = uri();
        auto store = open(name, chosen);
        if (!store) continue;
        page(*store);
        store->checkpoint();
        store->crash();
        store.reset();
        store = open(name, chosen);
        EXPECT_EQ(*static_cast<char*>(store->get_root("page")), 'a');
      }
}

TEST_F(TrackingDoc, ComparingLeavesOutLinesThatAreAsTheyWere) {
  for (const bool compare : {true, false}) {
    Options chosen = options(Tracking::kUserfault);
    chosen.compare = compare;
    auto store = open(uri(), chosen);
    if (!store) GTEST_SKIP() << "this system has no userfault";
    char* const bytes = page(*store);
    store->checkpoint();
    while (store->statistics().replayed_version < store->durable_version()) ::sched_yield();
    bytes[100] = 'b';
    bytes[3000] = 'a';  // as it was
    EXPECT_EQ(changed_bytes(*store), compare ? kLineBytes : kPageBytes);
  }
}

TEST_F(TrackingDoc, GranulesWidenReports) {
  for (const Tracking tracking : {Tracking::kReported, Tracking::kBitmap})
    for (const u32 granule : {64u, 256u, 4096u}) {
      Options chosen = options(tracking);
      chosen.granule_bytes = granule;
      auto store = open(uri(), chosen);
      char* const bytes = page(*store);
      store->checkpoint();
      {
        const auto operation = store->operation();
        operation.touch(bytes + 1000, 1);
        bytes[1000] = 'b';
      }
      EXPECT_EQ(changed_bytes(*store), granule);
    }
}

TEST_F(TrackingDoc, AllocatedBlocksAreReportedInFull) {
  for (const Tracking tracking : {Tracking::kReported, Tracking::kBitmap})
    for (const size_t size : {size_t{100}, size_t{3000}, size_t{300'000}}) {
      const std::string name = uri("file:");
      {
        auto store = open(name, options(tracking));
        store->checkpoint();
        {
          const auto operation = store->operation();
          auto* const made = static_cast<char*>(operation.allocate(size));
          std::memset(made, 'a', size);
          operation.set_root("block", made);
        }
        store->checkpoint();
        store->crash();
      }
      auto store = open(name, options(tracking));
      EXPECT_EQ(std::string(static_cast<char*>(store->get_root("block")), size),
                std::string(size, 'a'));
    }
}

}  // namespace
}  // namespace perdura::test
