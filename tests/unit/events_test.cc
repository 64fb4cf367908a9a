// Goal: what no call returns is told to the program's listener, each kind with a fault that really
// is there, and on stderr where nobody listens, no more than a line a second of a kind; what is
// stored is durable within the interval of checkpoint_every where the medium allows it; the C API
// has all options and counters of C++'s, and old programs hand over what they know.
// Method: stores on media that fail, sleep or have a flipped bit; a clock of the test's own for the
// limit of stderr; structures of C that end where a page ends.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <perdura/compiled.h>
#include <perdura/perdura.h>

#include "base/events.hpp"
#include "media/decorator.hpp"
#include "media/fault.hpp"
#include "media/slow.hpp"
#include "store/c_error.hpp"
#include "support/files.hpp"
#include "support/process.hpp"
#include "support/wrapped_store.hpp"
#include "track/compiled_parts.hpp"
#include "track/compiled_reports.hpp"

namespace perdura::test {
namespace {

using namespace std::chrono_literals;

/// What a listener was told.
class Told {
 public:
  struct One {
    EventKind kind;
    Code code;
    std::string store;
    std::string message;
    u64 durable_version;
  };
  EventListener listener() {
    return [this](const Event& event) {
      const std::lock_guard lock(mutex_);
      all_.push_back({event.kind, event.code, std::string(event.store), std::string(event.message),
                      event.durable_version});
      changed_.notify_all();
    };
  }
  /// The first of the kind, which is waited for.
  One await(EventKind kind) {
    std::unique_lock lock(mutex_);
    const auto is = [kind](const One& one) { return one.kind == kind; };
    changed_.wait(lock, [&] { return std::any_of(all_.begin(), all_.end(), is); });
    return *std::find_if(all_.begin(), all_.end(), is);
  }
  size_t count(EventKind kind) {
    const std::lock_guard lock(mutex_);
    return static_cast<size_t>(std::count_if(all_.begin(), all_.end(),
                                             [kind](const One& one) { return one.kind == kind; }));
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<One> all_;
};

/// Its barriers take a while.
class SlowBarriers final : public media::Decorator {
 public:
  SlowBarriers(std::unique_ptr<media::Medium> inner, const std::atomic<u64>& ms)
      : Decorator(std::move(inner)), ms_(ms) {}
  Status barrier(const media::Site& site) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(ms_.load()));
    return inner().barrier(site);
  }

 private:
  const std::atomic<u64>& ms_;
};

/// While it is shut nothing is brought home: what makes that durable waits.
class ShutHome final : public media::Decorator {
 public:
  ShutHome(std::unique_ptr<media::Medium> inner, const std::atomic<bool>& is_shut)
      : Decorator(std::move(inner)), is_shut_(is_shut) {}
  Status barrier(const media::Site& site) override {
    while (std::string_view(site.what) == "home image" && is_shut_)
      std::this_thread::sleep_for(1ms);
    return inner().barrier(site);
  }

 private:
  const std::atomic<bool>& is_shut_;
};

size_t lines_of(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

// --- one mechanism -------------------------------------------------------------------------------

std::atomic<u64> test_clock_ns{0};
u64 test_clock() { return test_clock_ns; }

class EventsOnStderr : public testing::Test {
 protected:
  void SetUp() override { test_clock_ns = 5'000'000'000; }
  void fail(Code code) { events_->tell(EventKind::kCheckpointFailed, code, "it failed"); }
  static void pass(u64 ns) { test_clock_ns += ns; }

  std::unique_ptr<Events> events_ = std::make_unique<Events>(EventListener{}, test_clock);
};

TEST_F(EventsOnStderr, AreALineASecondOfAKindAndSayHowManyWereLeftOut) {
  testing::internal::CaptureStderr();
  for (int i = 0; i < 13; ++i) fail(Code::kNoSpace);
  pass(Events::kLineNs - 1);
  fail(Code::kNoSpace);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "perdura: it failed\n");
  testing::internal::CaptureStderr();
  pass(1);
  fail(Code::kNoSpace);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "perdura: it failed (13 more of these)\n");
  testing::internal::CaptureStderr();
  pass(Events::kLineNs);
  fail(Code::kNoSpace);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "perdura: it failed\n");
  EXPECT_EQ(events_->told(EventKind::kCheckpointFailed), 16u);
}

TEST_F(EventsOnStderr, OfOtherKindsAndCodesHaveLinesOfTheirOwn) {
  testing::internal::CaptureStderr();
  fail(Code::kNoSpace);
  fail(Code::kIo);
  events_->tell(EventKind::kMediumSlow, Code::kOk, "it was slow");
  fail(Code::kIo);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "perdura: it failed\nperdura: it failed\nperdura: it was slow\n");
}

TEST_F(EventsOnStderr, ThatWereLeftOutAtLastAreCountedAtTheEnd) {
  testing::internal::CaptureStderr();
  events_->set_store("state.pd");
  fail(Code::kIo);
  fail(Code::kIo);
  fail(Code::kIo);
  events_.reset();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(lines_of(said), 2u) << said;
  EXPECT_NE(said.find("'state.pd': 2 more like the last that was said of: checkpoint failed"),
            said.npos)
      << said;
}

TEST(EventsOfHandlers, AreOnStderrAtOnceAndDeliveredByAThread) {
  Told told;
  Events events(told.listener());
  constexpr size_t kMore = 3;
  testing::internal::CaptureStderr();
  for (size_t i = 0; i < Events::kPostsMax + kMore; ++i)
    events.post(EventKind::kDamage, Code::kCorrupt, "page " + std::to_string(i));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(lines_of(said), Events::kPostsMax + kMore);
  EXPECT_EQ(told.count(EventKind::kDamage), 0u);
  events.deliver();
  EXPECT_EQ(told.count(EventKind::kDamage), Events::kPostsMax + 1);
  events.deliver();
  EXPECT_EQ(told.count(EventKind::kDamage), Events::kPostsMax + 1);
}

TEST(EventsOfAListener, ThatThrowsAreSaidAndHarmNobody) {
  Events events([](const Event&) { throw std::runtime_error("out of paper"); });
  testing::internal::CaptureStderr();
  events.tell(EventKind::kMediumSlow, Code::kOk, "it was slow");
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("on_event threw: out of paper"), said.npos) << said;
  EXPECT_NE(said.find("it was slow"), said.npos) << said;
}

TEST(EventsOfAListener, ThatAsksForStatisticsAreTold) {
  const TempDir folder;
  media::FaultPlan plan;
  std::atomic<WrappedStore*> asked{nullptr};
  std::atomic<u64> failed{0};
  Options options;
  options.region_limit_bytes = 64 * kMiB;
  options.tracking = Tracking::kReported;
  options.on_event = [&](const Event& event) {
    WrappedStore* const of = asked;
    if (of != nullptr && event.durable_version == of->durable_version())
      failed = of->statistics().failed_checkpoints;
  };
  WrappedStore store(folder.path("state.pd"), options, [&](std::unique_ptr<media::Medium> inner) {
    return plan.wrap(std::move(inner));
  });
  asked = &store;
  (void)store.operation().allocate(64);
  plan.arm({.calls = media::kFaultWrite | media::kFaultSubmit});
  EXPECT_FALSE(store.runtime().checkpoint());
  EXPECT_EQ(failed, 1u);
}

// --- each kind -----------------------------------------------------------------------------------

class EventsOf : public testing::Test {
 protected:
  Options options() {
    Options options;
    options.region_limit_bytes = 64 * kMiB;
    options.tracking = Tracking::kReported;
    options.on_event = told_.listener();
    return options;
  }
  std::string path(const char* name = "state.pd") const { return folder_.path(name); }
  WrappedStore faulty() {
    return WrappedStore(path(), options(), [this](std::unique_ptr<media::Medium> inner) {
      return plan_.wrap(std::move(inner));
    });
  }
  WrappedStore slow() {
    return WrappedStore(path(), options(), [this](std::unique_ptr<media::Medium> inner) {
      return std::make_unique<SlowBarriers>(std::move(inner), barrier_ms_);
    });
  }
  static u64* make(WrappedStore& store) {
    auto* const number = static_cast<u64*>(store.operation().allocate(sizeof(u64)));
    store.checkpoint();
    return number;
  }
  static void change(WrappedStore& store, u64* number) {
    const auto operation = store.operation();
    operation.touch(number, sizeof *number);
    ++*number;
  }

  const TempDir folder_;
  Told told_;
  media::FaultPlan plan_;
  std::atomic<u64> barrier_ms_{0};
};

TEST_F(EventsOf, ACheckpointThatFailsSayWhyAndWhatIsDurable) {
  WrappedStore store = faulty();
  u64* const number = make(store);
  const u64 durable = store.durable_version();
  change(store, number);
  testing::internal::CaptureStderr();
  plan_.arm({.calls = media::kFaultWrite | media::kFaultSubmit,
             .kind = media::FaultKind::kNoSpace,
             .for_ever = true});
  store.runtime().checkpointer().every(1ms);
  const Told::One failed = told_.await(EventKind::kCheckpointFailed);
  EXPECT_EQ(failed.code, Code::kNoSpace);
  EXPECT_EQ(failed.store, path());
  EXPECT_EQ(failed.durable_version, durable);
  EXPECT_NE(failed.message.find("timed checkpoint of '" + path()), std::string::npos)
      << failed.message;
  EXPECT_NE(failed.message.find("injected"), std::string::npos) << failed.message;
  const u64 until = store.statistics().failed_checkpoints + 3;
  while (store.statistics().failed_checkpoints < until) std::this_thread::yield();
  store.runtime().checkpointer().every(0ms);
  EXPECT_GE(told_.count(EventKind::kCheckpointFailed) + 1, store.statistics().failed_checkpoints);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// Who calls is told by the call: no line, but an event.
TEST_F(EventsOf, ACheckpointByCallAreToldToTheListenerAlone) {
  for (const bool listens : {true, false}) {
    Options chosen = options();
    if (!listens) chosen.on_event = {};
    WrappedStore store(path(), chosen, [this](std::unique_ptr<media::Medium> inner) {
      return plan_.wrap(std::move(inner));
    });
    change(store, make(store));
    const size_t before = told_.count(EventKind::kCheckpointFailed);
    plan_.arm({.calls = media::kFaultWrite | media::kFaultSubmit});
    testing::internal::CaptureStderr();
    EXPECT_FALSE(store.runtime().checkpoint());
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    EXPECT_EQ(told_.count(EventKind::kCheckpointFailed), before + (listens ? 1 : 0));
    plan_.disarm();
    store.close();
  }
}

TEST_F(EventsOf, AVersionThatIsLateSayHowLate) {
  WrappedStore store = slow();
  u64* const number = make(store);
  store.runtime().checkpointer().every(10ms);
  barrier_ms_ = 200;
  change(store, number);
  const Told::One late = told_.await(EventKind::kCheckpointLate);
  barrier_ms_ = 0;
  EXPECT_NE(late.message.find("checkpoint_every(10 ms)"), std::string::npos) << late.message;
  EXPECT_GE(store.statistics().late_checkpoints, 1u);
  store.runtime().checkpointer().every(0ms);
}

// No checkpoint can be made while the log is full: what is stored is late before any version has
// it.
TEST_F(EventsOf, WhatWaitsForAFullLogIsLateAsWell) {
  std::atomic<bool> is_shut{true};
  Options chosen = options();
  chosen.log_limit_bytes = kMiB;
  WrappedStore store(path(), chosen, [&](std::unique_ptr<media::Medium> inner) {
    return std::make_unique<ShutHome>(std::move(inner), is_shut);
  });
  constexpr u64 kBytes = 2 * kMiB;
  auto* const words = static_cast<u64*>(store.operation().allocate(kBytes));
  std::memset(words, 1, kBytes);
  store.checkpoint();  // larger than the log, and taken all the same
  const u64 durable = store.durable_version();
  store.runtime().reset_statistics();
  change(store, words);
  testing::internal::CaptureStderr();
  store.runtime().checkpointer().every(10ms);
  const Told::One late = told_.await(EventKind::kCheckpointLate);
  EXPECT_EQ(late.code, Code::kOk);
  EXPECT_EQ(late.durable_version, durable);
  EXPECT_NE(late.message.find("is not durable yet, since its log waits to be brought home"),
            std::string::npos)
      << late.message;
  EXPECT_NE(late.message.find("checkpoint_every(10 ms)"), std::string::npos) << late.message;
  // Once, however long it takes; and what it says is so.
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(told_.count(EventKind::kCheckpointLate), 1u);
  EXPECT_EQ(store.statistics().late_checkpoints, 1u);
  EXPECT_EQ(store.durable_version(), durable);
  is_shut = false;
  while (store.durable_version() == durable) std::this_thread::sleep_for(1ms);
  store.runtime().checkpointer().every(0ms);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "it is not that late";
}

// What a compiler has written into this file calls perdura_compiled_part() as the test does: all
// other parts of the program report nothing.
TEST_F(EventsOf, PartsThatReportNothingAreNamedUntilTheyAreTrusted) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "compiled code reports stores to addresses that ThreadSanitizer has for itself";
#endif
  perdura_compiled_part(__FILE__, static_cast<unsigned>(track::kCompiledWindow));
  Options chosen = options();
  chosen.tracking = Tracking::kCompiled;
  const std::vector<std::string> others = track::parts_without_reports().names;
  ASSERT_NE(std::ranges::find(others, "plain_part.cc"), others.end());
  EXPECT_FALSE(std::ranges::any_of(others, [](const std::string& part) {
    return part == std::string_view(__FILE__).substr(std::string_view(__FILE__).rfind('/') + 1);
  }));
  {
    WrappedStore store(path(), chosen);
    const Told::One told = told_.await(EventKind::kUnreportedParts);
    EXPECT_EQ(told.code, Code::kUnsupported);
    EXPECT_NE(told.message.find("'" + path() + "'"), std::string::npos) << told.message;
    EXPECT_NE(told.message.find(track::listed(others)), std::string::npos) << told.message;
    EXPECT_NE(told.message.find("perdura_trusted_part(\"" + others.front() + "\")"),
              std::string::npos)
        << told.message;
  }
  // Where nobody listens it is a line on stderr, once in the process.
  chosen.on_event = {};
  for (const size_t lines : {1u, 0u}) {
    testing::internal::CaptureStderr();
    {
      const WrappedStore store(path(), chosen);
    }
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(lines_of(said), lines) << said;
  }
  // Of one of which somebody says that it stores to no store nothing is told. (Where the libraries
  // of tests are built with symbols their parts are left.)
  perdura_trusted_part("plain_part.cc");
  std::vector<std::string> left = others;
  std::erase(left, "plain_part.cc");
  EXPECT_EQ(track::parts_without_reports().names, left);
  chosen.on_event = told_.listener();
  const WrappedStore store(path(), chosen);
  EXPECT_EQ(told_.count(EventKind::kUnreportedParts), left.empty() ? 1u : 2u);
}

TEST_F(EventsOf, AMediumThatIsSlowAreToldToEachRegionOfIt) {
  WrappedStore store = slow();
  u64* const number = make(store);
  Told other;
  Options second = options();
  second.region = "second";
  second.on_event = other.listener();
  WrappedStore beside(path(), second);
  {
    Told gone;
    Options third = second;
    third.region = "third";
    third.on_event = gone.listener();
    WrappedStore closed(path(), third);
  }
  change(store, number);
  barrier_ms_ = media::kSlowNs / 1'000'000 + 50;
  store.checkpoint();
  barrier_ms_ = 0;
  EXPECT_NE(told_.await(EventKind::kMediumSlow).message.find("a barrier of '" + path()),
            std::string::npos);
  other.await(EventKind::kMediumSlow);
}

TEST_F(EventsOf, DamageNameThePage) {
  u64 place = 0;
  u64 offset = 0;
  {
    WrappedStore store(path(), options());
    auto* const words = static_cast<u64*>(store.operation().allocate(2 * kMiB));
    std::memset(words, 1, 2 * kMiB);
    store.checkpoint();
    store.close();
    const format::Extent extent = store.runtime().region().home()->extents().back();
    place = extent.medium_offset + extent.length - kPageBytes;
    offset = extent.region_offset + extent.length - kPageBytes;
  }
  flip_bit(path(), place, 2);
  Options scrubbed = options();
  scrubbed.verify_bytes_per_second = u64{4} << 30;
  WrappedStore store(path(), scrubbed);
  const Told::One damage = told_.await(EventKind::kDamage);
  EXPECT_EQ(damage.code, Code::kCorrupt);
  EXPECT_NE(damage.message.find("region offset " + std::to_string(offset) + " of"),
            std::string::npos)
      << damage.message;
  EXPECT_EQ(told_.count(EventKind::kDamage), 1u);
}

// Found in the handler of the fault: told by a thread of the library's.
TEST_F(EventsOf, DamageThatATouchFindsComeFromAThread) {
  u64 place = 0;
  u64* words = nullptr;
  {
    WrappedStore store(path(), options());
    words = static_cast<u64*>(store.operation().allocate(2 * kMiB));
    std::memset(words, 1, 2 * kMiB);
    store.checkpoint();
    store.close();
    const u64 at = round_up(static_cast<u64>(reinterpret_cast<std::byte*>(words) -
                                             store.runtime().region().base()),
                            kPageBytes) +
                   kMiB;
    const auto home = store.runtime().region().home();
    place = region::HomeMap::page_place(*home->find(at), at);
    words = reinterpret_cast<u64*>(store.runtime().region().base() + at);
  }
  flip_bit(path(), place, 2);
  Options verified = options();
  verified.verify = Verify::kBeforeUse;
  verified.on_damage = OnDamage::kThrow;
  verified.verify_bytes_per_second = 0;
  const auto thread = std::this_thread::get_id();
  std::atomic<bool> is_elsewhere{false};
  verified.on_event = [&, tell = told_.listener()](const Event& event) {
    is_elsewhere = std::this_thread::get_id() != thread;
    tell(event);
  };
  WrappedStore store(path(), verified);
  EXPECT_EQ(*static_cast<const volatile u64*>(words), 0u);
  told_.await(EventKind::kDamage);
  EXPECT_TRUE(is_elsewhere);
  store.crash();
}

TEST_F(EventsOf, OperationsThatACheckpointWaitsForNameTheStore) {
  WrappedStore store(path(), options());
  make(store);
  std::atomic<bool> inside{false};
  std::thread worker([&] {
    const auto operation = store.operation();
    inside = true;
    told_.await(EventKind::kOperationsWaitedFor);
  });
  while (!inside) std::this_thread::yield();
  store.checkpoint();
  worker.join();
  EXPECT_NE(told_.await(EventKind::kOperationsWaitedFor).message.find("'" + path() + "'"),
            std::string::npos);
  EXPECT_GE(store.statistics().events, 1u);
}

// --- durable within the interval -----------------------------------------------------------------

// What is stored right behind a cut is durable with the next version, an interval later at most,
// though versions take a third of it to be written. The median, since others use the machine too.
TEST_F(EventsOf, NobodyWhereTheMediumIsFastEnoughForTheInterval) {
  constexpr auto kInterval = 300ms;
  std::mutex mutex;
  std::vector<std::chrono::steady_clock::time_point> cuts;
  detail::InternalOptions internal;
  internal.wrap = [this](std::unique_ptr<media::Medium> inner) {
    return std::make_unique<SlowBarriers>(std::move(inner), barrier_ms_);
  };
  internal.before_timed = [&] {
    const std::lock_guard lock(mutex);
    cuts.push_back(std::chrono::steady_clock::now());
  };
  WrappedStore store(path(), options(), internal);
  u64* const number = make(store);
  barrier_ms_ = 90;
  store.runtime().checkpointer().every(kInterval);
  std::vector<double> ages_ms;
  for (int i = 0; i < 7; ++i) {
    change(store, number);
    const u64 version = store.durable_version();
    while (store.durable_version() == version) std::this_thread::sleep_for(1ms);
    const auto now = std::chrono::steady_clock::now();
    const std::lock_guard lock(mutex);
    if (cuts.size() >= 3)
      ages_ms.push_back(
          std::chrono::duration<double, std::milli>(now - cuts[cuts.size() - 2]).count());
  }
  store.runtime().checkpointer().every(0ms);
  ASSERT_GE(ages_ms.size(), 4u);
  std::sort(ages_ms.begin(), ages_ms.end());
  EXPECT_LE(ages_ms[ages_ms.size() / 2], 310.0);
  EXPECT_GE(ages_ms[ages_ms.size() / 2], 180.0);  // not more often than it needs
}

// --- C
// ---------------------------------------------------------------------------------------------

// Each of them is something else than its default: what C does not pass on stays the default. That
// none is forgotten the compiler says, in store/c_api.cc.
TEST(OptionsOfC, SayAllThatThoseOfCppDo) {
  int told = 0;
  perdura_options given{};
  given.must_exist = 1;
  given.tracking = PERDURA_TRACK_PROTECT;
  given.region_limit_bytes = 1;
  given.region_address = 2;
  given.log_limit_bytes = 3;
  given.aliases = 4;
  given.chunk_bytes = 5;
  given.engine = PERDURA_ENGINE_DUAL_COPY;
  given.versions_kept = 6;
  given.over_provisioning = PERDURA_NO_OVER_PROVISIONING;
  given.version = 7;
  given.capture = PERDURA_CAPTURE_STOPPED;
  given.region = "region";
  given.verify = PERDURA_VERIFY_NEVER;
  given.confirm_versions = 1;
  given.read_only = 1;
  given.on_damage = PERDURA_DAMAGE_IS_AN_ERROR;
  given.granule_bytes = 8;
  given.log_segment_bytes = 9;
  given.verify_bytes_per_second = PERDURA_NO_BACKGROUND_VERIFICATION;
  given.whole_chunks = 1;
  given.no_compare = 1;
  given.verify_reports = 1;
  given.no_lazy_recovery = 1;
  given.no_huge_pages = 1;
  given.allow_network_filesystem = 1;
  given.on_event = [](const perdura_event* event, void* user) {
    EXPECT_STREQ(event->store, "the store");
    EXPECT_STREQ(event->message, "a sentence");
    EXPECT_EQ(event->kind, PERDURA_EVENT_DAMAGE);
    EXPECT_EQ(event->code, PERDURA_CORRUPT);
    EXPECT_EQ(event->durable_version, 11u);
    ++*static_cast<int*>(user);
  };
  given.on_event_user = &told;
  given.strict = 1;
  given.drain = "elsewhere";
  given.drain_bytes_per_second = 10;
  given.drain_wait_ms = PERDURA_NO_DRAIN_WAIT;
  const Options options = detail::options_of(&given, sizeof given);
  const auto& [create, region, tracking, capture, granule_bytes, aliases, chunk_bytes, engine,
               versions_kept, over_provisioning, whole_chunks, read_only, version, compare,
               region_limit_bytes, region_address, log_limit_bytes, log_segment_bytes,
               verify_reports, strict, lazy_recovery, verify, on_damage, verify_bytes_per_second,
               confirm_versions, huge_pages, allow_network_filesystem, drain,
               drain_bytes_per_second, drain_wait_ms, on_event] = options;
  EXPECT_FALSE(create);
  EXPECT_EQ(region, "region");
  EXPECT_EQ(tracking, Tracking::kProtect);
  EXPECT_EQ(capture, Capture::kStopped);
  EXPECT_EQ(granule_bytes, 8u);
  EXPECT_EQ(aliases, 4u);
  EXPECT_EQ(chunk_bytes, 5u);
  EXPECT_EQ(engine, Engine::kDualCopy);
  EXPECT_EQ(versions_kept, 6u);
  EXPECT_EQ(over_provisioning, 0u);
  EXPECT_TRUE(whole_chunks);
  EXPECT_TRUE(read_only);
  EXPECT_EQ(version, 7u);
  EXPECT_FALSE(compare);
  EXPECT_EQ(region_limit_bytes, 1u);
  EXPECT_EQ(region_address, 2u);
  EXPECT_EQ(log_limit_bytes, 3u);
  EXPECT_EQ(log_segment_bytes, 9u);
  EXPECT_TRUE(verify_reports && strict);
  EXPECT_FALSE(lazy_recovery);
  EXPECT_EQ(verify, Verify::kNever);
  EXPECT_EQ(on_damage, OnDamage::kThrow);
  EXPECT_EQ(verify_bytes_per_second, 0u);
  EXPECT_TRUE(confirm_versions);
  EXPECT_FALSE(huge_pages);
  EXPECT_TRUE(allow_network_filesystem);
  EXPECT_EQ(drain, "elsewhere");
  EXPECT_EQ(drain_bytes_per_second, 10u);
  EXPECT_EQ(drain_wait_ms, 0u);
  ASSERT_TRUE(on_event);
  on_event({EventKind::kDamage, Code::kCorrupt, "the store", "a sentence", 11});
  EXPECT_EQ(told, 1);
}

// A structure that ends where its page does, before a page that cannot be read.
class AtAPagesEnd {
 public:
  explicit AtAPagesEnd(size_t bytes) : bytes_(bytes) {
    memory_ = static_cast<std::byte*>(::mmap(nullptr, 2 * kPageBytes, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ::mprotect(memory_ + kPageBytes, kPageBytes, PROT_NONE);
  }
  ~AtAPagesEnd() { ::munmap(memory_, 2 * kPageBytes); }
  AtAPagesEnd(const AtAPagesEnd&) = delete;
  void* get() const { return memory_ + kPageBytes - bytes_; }

 private:
  const size_t bytes_;
  std::byte* memory_;
};

extern "C" {
// As a program calls them that was compiled before sizes were handed over.
int earlier_open(const char* uri, const perdura_options* options,
                 perdura_store** store) __asm__("perdura_open");
int earlier_statistics(perdura_store* store,
                       perdura_statistics* statistics) __asm__("perdura_get_statistics");
}

TEST(EarlierProgramsOfC, HandOverWhatTheyKnow) {
  const TempDir folder;
  const std::string path = folder.path("state.pd");
  const AtAPagesEnd options(detail::kFirstOptionsBytes);
  static_cast<perdura_options*>(options.get())->tracking = PERDURA_TRACK_REPORTED;
  perdura_store* store = nullptr;
  ASSERT_EQ(earlier_open(path.c_str(), static_cast<perdura_options*>(options.get()), &store), 0)
      << perdura_last_error();
  const AtAPagesEnd statistics(offsetof(perdura_statistics, late_checkpoints));
  auto* const known = static_cast<perdura_statistics*>(statistics.get());
  ASSERT_EQ(earlier_statistics(store, known), 0) << perdura_last_error();
  EXPECT_EQ(known->tracking, PERDURA_TRACK_REPORTED);
  EXPECT_EQ(known->durable_version, perdura_durable_version(store));
  EXPECT_EQ(perdura_close(store), 0);
}

// A program of a later version, whose structures are longer.
TEST(LaterProgramsOfC, AreToldWhatIsNotKnown) {
  const TempDir folder;
  struct {
    perdura_options known;
    u64 later;
  } options{};
  options.known.tracking = PERDURA_TRACK_REPORTED;
  perdura_store* store = nullptr;
  options.later = 1;
  EXPECT_EQ(
      perdura_open_sized(folder.path("state.pd").c_str(), &options.known, sizeof options, &store),
      -PERDURA_UNSUPPORTED);
  EXPECT_NE(std::string(perdura_last_error()).find("does not know"), std::string::npos);
  options.later = 0;
  ASSERT_EQ(
      perdura_open_sized(folder.path("state.pd").c_str(), &options.known, sizeof options, &store),
      0)
      << perdura_last_error();
  struct {
    perdura_statistics known;
    u64 later;
  } statistics{};
  statistics.later = 7;
  ASSERT_EQ(perdura_get_statistics_sized(store, &statistics.known, sizeof statistics), 0);
  EXPECT_EQ(statistics.known.durable_version, perdura_durable_version(store));
  EXPECT_EQ(statistics.later, 0u);
  EXPECT_EQ(perdura_get_statistics_sized(store, &statistics.known, 8), -PERDURA_INVALID_ARGUMENT);

  void* const block = perdura_alloc(store, 1000);
  EXPECT_NE(block, nullptr);
  perdura_heap_audit audit{};
  ASSERT_EQ(perdura_audit(store, &audit), 0) << perdura_last_error();
  EXPECT_EQ(audit.clean, 1);
  EXPECT_EQ(audit.live_blocks, 1u);
  EXPECT_GE(audit.live_bytes, 1000u);
  EXPECT_STREQ(audit.problem, "");
  EXPECT_EQ(perdura_audit(store, nullptr), -PERDURA_INVALID_ARGUMENT);
  EXPECT_EQ(perdura_close(store), 0);
}

}  // namespace
}  // namespace perdura::test
