// Goal: a checkpoint that fails is an error and nothing else: a later one covers its changes; wait
// tells durable, failed and future versions apart; a full log makes checkpoints wait for replay and
// no longer; the timer stops when told; a checkpoint without changes writes nothing.
// Method: stores on a medium that fails at chosen calls, and on one whose barrier after a replay a
// test holds back; dropped as a crash would drop them, and opened again.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "media/decorator.hpp"
#include "media/fault.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/threads.hpp"
#include "support/wrapped_store.hpp"

namespace perdura::test {
namespace {

using namespace std::chrono_literals;

/// Barriers of a site wait, or fail: replay's before its home image counts as durable, or others.
class Gate {
 public:
  enum State { kOpen, kShut, kFailing, kFailingOnce };
  void set(State state, std::string site = "home image") {
    std::lock_guard lock(mutex_);
    site_ = std::move(site);
    is_used_ = false;
    state_ = state;
    changed_.notify_all();
  }
  /// Until somebody is there.
  void await() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_used_; });
  }
  Status pass(const std::string& site) {
    std::unique_lock lock(mutex_);
    if (site != site_) return {};
    is_used_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return state_ != kShut; });
    if (state_ == kOpen) return {};
    if (state_ == kFailingOnce) state_ = kOpen;
    return Failure{Code::kNoSpace, "injected fault: no home image"};
  }

  class GatedMedium final : public media::Decorator {
   public:
    GatedMedium(Gate& gate, std::unique_ptr<media::Medium> inner)
        : Decorator(std::move(inner)), gate_(gate) {}
    Status barrier(const media::Site& site) override {
      PERDURA_TRY(gate_.pass(site.what));
      return inner().barrier(site);
    }

   private:
    Gate& gate_;
  };

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = kOpen;
  std::string site_ = "home image";
  bool is_used_ = false;
};

struct Config {
  const char* name;
  const char* scheme;
  Tracking tracking;
};

class CheckpointerTest : public testing::TestWithParam<Config> {
 protected:
  static constexpr u64 kWords = 512 * 1024;  // 4 MiB
  static constexpr u64 kLogLimit = 2 * kMiB;

  void open() {
    Options options;
    options.region_limit_bytes = 64 * kMiB;
    options.log_limit_bytes = kLogLimit;
    options.tracking = GetParam().tracking;
    const auto wrap = [this](std::unique_ptr<media::Medium> inner) {
      return plan_.wrap(std::make_unique<Gate::GatedMedium>(gate_, std::move(inner)));
    };
    store_ = std::make_unique<WrappedStore>(
        GetParam().scheme + folder_.path("store.pd"), options,
        detail::InternalOptions{.wrap = wrap, .before_timed = [this] {
                                  ++timed_;
                                  timed_waits_.wait(true);
                                }});
    words_ = static_cast<u64*>(store_->get_root("words"));
  }
  CheckpointerTest() {
    open();
    const auto op = store_->operation();
    words_ = static_cast<u64*>(op.allocate(kWords * sizeof(u64), kPageBytes));
    std::fill_n(words_, kWords, 0);
    op.set_root("words", words_);
  }
  ~CheckpointerTest() override { gate_.set(Gate::kOpen); }

  void reopen_after_crash() {
    store_->crash();
    store_.reset();
    plan_.disarm();
    open();
    ASSERT_NE(words_, nullptr);
  }
  void set(u64 first, u64 count, u64 value) {
    const auto op = store_->operation();
    op.touch(words_ + first, count * sizeof(u64));
    std::fill_n(words_ + first, count, value);
  }
  /// Until replay has nothing to do, so that what is armed meets the checkpoint.
  void settle() {
    const auto idle = [this] {
      const Statistics now = store_->statistics();
      return now.replayed_version == now.durable_version ||
             (!store_->runtime().volume().medium().geometry().byte_addressable &&
              now.log_live_bytes <= kLogLimit / 2);
    };
    while (!idle()) std::this_thread::sleep_for(1ms);
  }

  static constexpr unsigned kWrites = media::kFaultWrite | media::kFaultSubmit;
  const TempDir folder_{TempDir::kMemory};
  media::FaultPlan plan_;
  Gate gate_;
  std::atomic<u64> timed_{0};              ///< checkpoints that the timer has begun
  std::atomic<bool> timed_waits_ = false;  ///< until this is false again
  std::unique_ptr<WrappedStore> store_;
  u64* words_ = nullptr;
};

TEST_P(CheckpointerTest, AFailedWriteLeavesTheChangesToTheNext) {
  const u64 before = store_->checkpoint();
  settle();
  set(0, 1, 1);
  set(kWords - 3000, 3000, 1);
  plan_.arm({.calls = kWrites, .kind = media::FaultKind::kNoSpace});
  expect_error([&] { store_->checkpoint(); }, Code::kNoSpace, "injected fault: cannot write");
  EXPECT_EQ(plan_.fired(), 1u);
  EXPECT_EQ(store_->durable_version(), before);
  EXPECT_EQ(store_->statistics().failed_checkpoints, 1u);
  EXPECT_EQ(words_[0], 1u);
  set(8, 1, 2);
  const u64 after = store_->checkpoint();
  EXPECT_EQ(after, store_->durable_version());
  EXPECT_GT(after, before);
  set(0, 1, 9);  // in no version
  reopen_after_crash();
  EXPECT_EQ(store_->durable_version(), after);
  EXPECT_EQ(words_[0], 1u);
  EXPECT_EQ(words_[8], 2u);
  for (u64 i = kWords - 3000; i < kWords; ++i) ASSERT_EQ(words_[i], 1u) << i;
}

// All bytes of the failed attempt arrived, and the next one has the same number.
TEST_P(CheckpointerTest, AnAttemptThatFailedAfterItsLastByteDoesNotComeBack) {
  for (u64 nth = 1; nth <= 4; ++nth) {
    store_->checkpoint();
    settle();
    gate_.set(Gate::kFailing);  // the log is what the next opening finds
    set(0, 1, 2 * nth);
    plan_.arm({.calls = media::kFaultDrain, .nth = nth});
    try {
      store_->checkpoint();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kIo) << error.what();
    }
    plan_.disarm();
    set(0, 1, 2 * nth + 1);
    const u64 acknowledged = store_->checkpoint();
    reopen_after_crash();
    EXPECT_EQ(store_->durable_version(), acknowledged);
    EXPECT_EQ(words_[0], 2 * nth + 1) << nth;
    gate_.set(Gate::kOpen);
  }
}

TEST_P(CheckpointerTest, AFailedBarrierAcknowledgesNothing) {
  const u64 before = store_->checkpoint();
  settle();
  set(0, 1, 1);
  plan_.arm({.calls = media::kFaultBarrier});
  expect_error([&] { store_->checkpoint(); }, Code::kIo, "injected fault: cannot flush");
  expect_error([&] { store_->wait(store_->checkpoint_async()); }, Code::kIo, "cannot flush");
  expect_error([&] { store_->checkpoint(); }, Code::kIo, "cannot flush");
  EXPECT_TRUE(plan_.barrier_failed());
  EXPECT_EQ(store_->durable_version(), before);
  EXPECT_EQ(store_->statistics().failed_checkpoints, 3u);
  plan_.disarm();  // as a medium opened anew
  EXPECT_EQ(store_->checkpoint(), before + 1);
  reopen_after_crash();
  EXPECT_EQ(store_->durable_version(), before + 1);
  EXPECT_EQ(words_[0], 1u);
}

TEST_P(CheckpointerTest, WaitTellsVersionsApart) {
  const u64 first = store_->checkpoint();
  settle();
  store_->wait(first);
  store_->wait(0);
  expect_error([&] { store_->wait(first + 1); }, Code::kNotFound, "was never begun");
  expect_error([&] { store_->wait(~u64{0}); }, Code::kNotFound, "was never begun");
  set(0, 1, 1);
  plan_.arm({.calls = kWrites});
  const u64 failing = store_->checkpoint_async();
  EXPECT_EQ(failing, first + 1);
  expect_error([&] { store_->wait(failing); }, Code::kIo, "injected fault");
  expect_error([&] { store_->wait(failing); }, Code::kIo, "injected fault");
  expect_error([&] { store_->wait(failing + 1); }, Code::kNotFound, "was never begun");
  store_->wait(first);
  plan_.disarm();
  const u64 again = store_->checkpoint_async();
  EXPECT_EQ(again, failing);
  store_->wait(again);
  EXPECT_EQ(store_->durable_version(), again);
}

TEST_P(CheckpointerTest, AFullLogMakesCheckpointsWaitForReplay) {
  store_->checkpoint();
  settle();
  gate_.set(Gate::kShut);
  store_->runtime().checkpointer().reset_statistics();
  set(0, kWords, 1);
  store_->checkpoint();  // larger than the limit, and taken all the same
  EXPECT_GT(store_->statistics().log_live_bytes, kLogLimit);
  EXPECT_EQ(store_->statistics().log_waits, 0u);
  set(0, 1, 2);
  std::atomic<bool> done{false};
  std::atomic<pid_t> waiting_id{0};
  std::thread waiting([&] {
    waiting_id = ::gettid();
    store_->checkpoint();
    done = true;
  });
  while (waiting_id == 0) std::this_thread::yield();
  await_asleep(waiting_id);
  EXPECT_FALSE(done);
  // The timer does not wait: it puts its checkpoint off.
  const u64 version = store_->durable_version();
  store_->runtime().checkpointer().every(1ms);
  await_rounds(thread_named("perdura-ckpt"), 10);
  store_->runtime().checkpointer().every(0ms);
  EXPECT_EQ(store_->durable_version(), version);
  set(8, 1, 2);  // the program goes on
  gate_.set(Gate::kOpen);
  waiting.join();
  EXPECT_TRUE(done);
  EXPECT_EQ(store_->statistics().log_waits, 1u);
  settle();
  EXPECT_LE(store_->statistics().log_live_bytes, kLogLimit);
  EXPECT_LE(store_->statistics().log_capacity_bytes, 2 * kLogLimit);
}

TEST_P(CheckpointerTest, AFullLogWhoseReplayFailsIsAnErrorUntilItSucceeds) {
  store_->checkpoint();
  settle();
  gate_.set(Gate::kFailing);
  set(0, kWords, 1);
  const u64 version = store_->checkpoint();
  set(0, 1, 2);
  expect_error([&] { store_->checkpoint(); }, Code::kNoSpace,
               "the home image cannot be brought up to date: injected fault");
  expect_error([&] { store_->checkpoint(); }, Code::kNoSpace, "no home image");
  EXPECT_EQ(store_->durable_version(), version);
  gate_.set(Gate::kOpen);
  EXPECT_EQ(store_->checkpoint(), version + 1);
  store_->close();
  EXPECT_EQ(home_problems(store_->runtime().volume()), std::vector<std::string>());
  EXPECT_EQ(store_->statistics().replayed_version, version + 1);
}

// What stopped a replay that began earlier may be over.
TEST_P(CheckpointerTest, AReplayThatFailsMeanwhileIsTriedAgain) {
  store_->checkpoint();
  settle();
  gate_.set(Gate::kShut);
  set(0, kWords, 1);
  const u64 version = store_->checkpoint();
  gate_.await();
  set(0, 1, 2);
  std::atomic<pid_t> waiting_id{0};
  std::string problem;
  std::thread waiting([&] {
    waiting_id = ::gettid();
    try {
      store_->checkpoint();
    } catch (const Error& error) {
      problem = error.what();
    }
  });
  while (waiting_id == 0) std::this_thread::yield();
  await_asleep(waiting_id);
  gate_.set(Gate::kFailingOnce);
  waiting.join();
  EXPECT_EQ(problem, "");
  EXPECT_EQ(store_->durable_version(), version + 1);
  store_->close();
  EXPECT_EQ(home_problems(store_->runtime().volume()), std::vector<std::string>());
}

// It lets stops pass, and not for ever: what a stop waits for may be log that the replay frees.
TEST_P(CheckpointerTest, AReplayEndsBesideAStopThatWaitsForAnOperation) {
  for (u64 value = 1; value <= 3; ++value) {
    set(0, kWords, value);
    const u64 version = store_->checkpoint();
    std::thread waiting;
    {
      const auto op = store_->operation();
      std::atomic<pid_t> waiting_id{0};
      waiting = std::thread([&] {
        waiting_id = ::gettid();
        store_->checkpoint();
      });
      while (waiting_id == 0) std::this_thread::yield();
      while (store_->statistics().replayed_version < version) std::this_thread::sleep_for(100us);
    }
    waiting.join();
  }
}

TEST_P(CheckpointerTest, TheTimerTakesCheckpointsUntilItIsStopped) {
  const u64 first = store_->checkpoint();
  store_->runtime().checkpointer().every(1ms);
  for (u64 value = 1; store_->durable_version() < first + 5; ++value) {
    set(0, 1, value);
    std::this_thread::sleep_for(100us);
  }
  store_->runtime().checkpointer().every(0ms);
  const u64 version = store_->checkpoint();  // after one that was under way
  set(0, 1, 1'000'000);
  // As long as a timer that runs needs for many.
  Store other = Store::open("emu:" + folder_.path("other.pd"), {.tracking = Tracking::kReported});
  u64& counted = other.root<u64>("count");
  other.checkpoint_every(1ms);
  while (other.durable_version() < 30) {
    const auto op = other.operation();
    op.touch(&counted, sizeof counted);
    ++counted;
  }
  EXPECT_EQ(store_->durable_version(), version);
  reopen_after_crash();
  EXPECT_NE(words_[0], 1'000'000u);
}

// The time of the next one must not be one in the past.
TEST_P(CheckpointerTest, ATimerOfForeverTakesNone) {
  store_->checkpoint();
  store_->runtime().checkpointer().every(std::chrono::milliseconds::max());
  const u64 before = store_->statistics().checkpoints;
  for (u64 value = 1; value <= 200; ++value) {
    set(0, 1, value);
    store_->checkpoint();
  }
  EXPECT_EQ(store_->statistics().checkpoints, before + 200);
  store_->runtime().checkpointer().every(0ms);
}

// Also where it is set while the thread behind is at something else: at the barrier of a version.
TEST_P(CheckpointerTest, ATimerBeginsWhenItIsSet) {
  set(0, 1, 1);
  gate_.set(Gate::kShut, "commit");
  const u64 version = store_->checkpoint_async();
  gate_.await();
  store_->runtime().checkpointer().every(std::chrono::milliseconds::max());
  set(0, 1, 2);
  gate_.set(Gate::kOpen);
  store_->wait(version);
  await_asleep(thread_named("perdura-ckpt"));
  EXPECT_EQ(timed_, 0u);
  EXPECT_EQ(store_->durable_version(), version);
}

// Between its decision and its claim the thread behind asks for damage, and holds no lock.
TEST_P(CheckpointerTest, ATimerThatIsSetAnewTakesNoneThatItHadDecidedOn) {
  for (const auto interval : {0ms, std::chrono::milliseconds::max()}) {
    timed_waits_ = true;
    const u64 seen = timed_;
    store_->runtime().checkpointer().every(1ms);
    while (timed_ == seen) std::this_thread::sleep_for(100us);
    store_->runtime().checkpointer().every(interval);
    const u64 version = store_->checkpoint();
    set(0, 1, seen + 1);
    timed_waits_ = false;
    timed_waits_.notify_all();
    await_asleep(thread_named("perdura-ckpt"));
    EXPECT_EQ(store_->durable_version(), version);
  }
  store_->runtime().checkpointer().every(0ms);
}

TEST_P(CheckpointerTest, ATimerThatFailsIsCountedAndGoesOn) {
  const u64 first = store_->checkpoint();
  settle();
  set(0, 1, 1);
  plan_.arm({.calls = kWrites, .for_ever = true});
  testing::internal::CaptureStderr();
  store_->runtime().checkpointer().every(1ms);
  while (store_->statistics().failed_checkpoints < 3) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(store_->durable_version(), first);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("timed checkpoint of '"), said.npos) << said;
  EXPECT_NE(said.find("injected"), said.npos) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  plan_.disarm();
  while (store_->durable_version() == first) std::this_thread::sleep_for(1ms);
  store_->runtime().checkpointer().every(0ms);
  reopen_after_crash();
  EXPECT_EQ(words_[0], 1u);
}

TEST_P(CheckpointerTest, WithoutChangesNothingIsWritten) {
  const u64 version = store_->checkpoint();
  settle();
  // The log is at its first version above; replay of block media may still write once.
  const Statistics before = store_->statistics();
  plan_.disarm();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(store_->checkpoint(), version);
  store_->runtime().checkpointer().every(1ms);
  await_rounds(thread_named("perdura-ckpt"), 10);
  store_->runtime().checkpointer().every(0ms);
  {
    const auto op = store_->operation();  // that stores nothing
  }
  EXPECT_EQ(store_->checkpoint(), version);
  EXPECT_EQ(plan_.count(kWrites | media::kFaultBarrier | media::kFaultGrow), 0u);
  const Statistics after = store_->statistics();
  EXPECT_EQ(after.checkpoints, before.checkpoints);
  EXPECT_EQ(after.log_bytes, before.log_bytes);
  EXPECT_GE(after.pause_count, before.pause_count + 4);
  // An asynchronous one was promised a number: it is a version all the same.
  const u64 promised = store_->checkpoint_async();
  EXPECT_EQ(promised, version + 1);
  store_->wait(promised);
  EXPECT_EQ(store_->durable_version(), promised);
}

TEST_P(CheckpointerTest, CheckpointsOfSeveralThreadsCoverTheirOwnStores) {
  store_->checkpoint();
  std::vector<std::thread> threads;
  for (u64 t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (u64 i = 1; i <= 30; ++i) {
        set(t * 8, 1, i);
        u64 version = 0;
        if (i % 2 == 0) version = store_->checkpoint();
        else store_->wait(version = store_->checkpoint_async());
        EXPECT_GE(store_->durable_version(), version);
      }
    });
  for (std::thread& thread : threads) thread.join();
  set(0, 1, 99);
  reopen_after_crash();
  for (u64 t = 0; t < 3; ++t) EXPECT_EQ(words_[t * 8], 30u) << t;
}

/// A thread that stores and then asks for a version, by a call that it is told.
class Asker {
 public:
  Asker(std::function<void()> store, std::function<u64()> ask)
      : thread_([this, store = std::move(store), ask = std::move(ask)] {
          store();
          id_ = ::gettid();
          version_ = ask();
        }) {}
  void await_asleep() const {
    while (id_ == 0) std::this_thread::yield();
    test::await_asleep(id_);
  }
  u64 version() {
    thread_.join();
    return version_;
  }

 private:
  std::atomic<pid_t> id_{0};
  u64 version_ = 0;
  std::thread thread_;
};

TEST_P(CheckpointerTest, WhoAsksWhileAVersionIsWrittenSharesTheNext) {
  for (const bool async : {false, true}) {
    SCOPED_TRACE(async ? "asynchronous" : "waiting");
    const u64 before = store_->checkpoint();
    settle();
    const Statistics then = store_->statistics();
    gate_.set(Gate::kShut, "commit");
    Asker first([&] { set(0, 1, 1); }, [&] { return store_->checkpoint(); });
    gate_.await();
    std::deque<Asker> others;
    for (u64 i = 1; i <= 4; ++i)
      others.emplace_back([this, i] { set(i * 8, 1, 10 + i); },
                          [this, async] {
                            if (!async) return store_->checkpoint();
                            const u64 version = store_->checkpoint_async();
                            store_->wait(version);
                            return version;
                          });
    for (const Asker& each : others) each.await_asleep();
    gate_.set(Gate::kOpen);
    // What they stored came behind its cut: it is no answer to them.
    EXPECT_EQ(first.version(), before + 1);
    for (Asker& each : others) EXPECT_EQ(each.version(), before + 2);
    const Statistics now = store_->statistics();
    EXPECT_EQ(now.checkpoints, then.checkpoints + 2);
    EXPECT_EQ(now.pause_count, then.pause_count + 2);
  }
  reopen_after_crash();
  for (u64 i = 1; i <= 4; ++i) EXPECT_EQ(words_[i * 8], 10 + i);
}

TEST_P(CheckpointerTest, AFailureIsNoAnswer) {
  const u64 before = store_->checkpoint();
  settle();
  gate_.set(Gate::kShut, "commit");
  Asker first([&] { set(0, 1, 1); },
              [&] {
                expect_error([&] { store_->checkpoint(); }, Code::kNoSpace, "injected fault");
                return store_->durable_version();
              });
  gate_.await();
  std::deque<Asker> others;
  for (u64 i = 1; i <= 2; ++i)
    others.emplace_back([this, i] { set(i * 8, 1, 10 + i); },
                        [this] { return store_->checkpoint(); });
  for (const Asker& each : others) each.await_asleep();
  gate_.set(Gate::kFailingOnce, "commit");
  first.version();
  for (Asker& each : others) EXPECT_EQ(each.version(), before + 1);
  reopen_after_crash();
  EXPECT_EQ(words_[0], 1u);
  for (u64 i = 1; i <= 2; ++i) EXPECT_EQ(words_[i * 8], 10 + i);
}

// Of several that ask at the same time, one that failed for all of them is tried by each.
TEST_P(CheckpointerTest, SeveralThreadsGoOnThroughFailures) {
  store_->checkpoint();
  std::atomic<u64> failures{0};
  std::vector<std::thread> threads;
  for (u64 t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (u64 i = 1; i <= 40; ++i) {
        set(t * 8, 1, i);
        if (i % 8 == t) gate_.set(Gate::kFailingOnce, "commit");
        for (bool done = false; !done;) {
          try {
            store_->checkpoint();
            done = true;
          } catch (const Error& error) {
            EXPECT_EQ(error.code(), Code::kNoSpace) << error.what();
            ++failures;
          }
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(failures, 0u);
  set(0, 1, 99);
  reopen_after_crash();
  for (u64 t = 0; t < 4; ++t) EXPECT_EQ(words_[t * 8], 40u) << t;
}

INSTANTIATE_TEST_SUITE_P(Configs, CheckpointerTest,
                         testing::Values(Config{"file_reported", "file:", Tracking::kReported},
                                         Config{"file_automatic", "file:", Tracking::kAutomatic},
                                         Config{"emu_reported", "emu:", Tracking::kReported},
                                         Config{"emu_bitmap", "emu:", Tracking::kBitmap},
                                         Config{"emu_automatic", "emu:", Tracking::kAutomatic}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace perdura::test
