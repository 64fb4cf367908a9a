// Goal: a version captured while mutators go on storing holds exactly what memory held at its cut:
// no line too new, none too old, none missing. So do the next several hundred, across the wrap of
// the window's number and after versions that failed.
// Method: the window alone, with its arenas. Then mutators, tracker, window and log without a
// store: at each cut memory is copied while the mutators stand still, and what the log got, applied
// to the version before, must equal that copy byte by byte. Then whole stores, dropped after an
// asynchronous checkpoint and opened again.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <random>
#include <set>
#include <thread>

#include "commit/capture.hpp"
#include "commit/line_snapshot.hpp"
#include "support/files.hpp"
#include "support/ledger.hpp"
#include "support/log_volume.hpp"
#include "support/slice.hpp"
#include "support/threads.hpp"
#include "support/wrapped_store.hpp"
#include "track/reported.hpp"

namespace perdura::test {
namespace {

constexpr u64 kWordsPerLine = kLineBytes / sizeof(u64);

// --- the window alone --------------------------------------------------------------------------

class WindowTest : public testing::Test {
 protected:
  explicit WindowTest(u64 lines = 1024)
      : memory_(value_or_throw(Mapping::anonymous(lines * kLineBytes))),
        window_(value_or_throw(track::Window::create(memory_.as(), memory_.length()))),
        arena_(value_or_throw(track::SideArena::create())) {}

  u64* line(u64 number) const { return memory_.as<u64>() + number * kWordsPerLine; }
  static u64 first_word(const track::SideArena& arena, u64 index) {
    u64 word = 0;
    std::memcpy(&word, arena.data(index), sizeof word);
    return word;
  }

  Mapping memory_;
  track::Window window_;
  track::SideArena arena_;
};

TEST_F(WindowTest, ALineIsCopiedOnceBeforeItsFirstStore) {
  for (u64 i = 0; i < 1024; ++i) *line(i) = i + 1;
  window_.open();
  EXPECT_FALSE(window_.any_mark());
  window_.copy_aside(arena_, 60, 10);
  EXPECT_TRUE(window_.any_mark());
  for (u64 i = 60; i < 70; ++i) *line(i) = 0;
  window_.copy_aside(arena_, 65, 10);
  ASSERT_EQ(arena_.count(), 15u);
  for (u64 i = 0; i < 15; ++i) {
    EXPECT_EQ(arena_.line(i), 60 + i);
    EXPECT_EQ(first_word(arena_, i), 61 + i);
    window_.await_copy(60 + i);
  }
  for (u64 i = 0; i < 1024; ++i) EXPECT_EQ(window_.marked(i), i >= 60 && i < 75) << i;
}

TEST_F(WindowTest, CapturedLinesAreNotCopied) {
  window_.open();
  window_.publish(100);
  window_.copy_aside(arena_, 90, 20);
  ASSERT_EQ(arena_.count(), 10u);
  EXPECT_EQ(arena_.line(0), 100u);
  EXPECT_FALSE(window_.marked(99));
  window_.finish();
  window_.copy_aside(arena_, 0, 1024);
  EXPECT_EQ(arena_.count(), 10u);
}

TEST_F(WindowTest, MarksOfEarlierWindowsDoNotCount) {
  std::mt19937_64 random(1);
  for (u64 round = 0; round < 700; ++round) {
    arena_.clear();
    window_.open();
    ASSERT_FALSE(window_.any_mark()) << round;
    for (u64 i = 0; i < 1024; ++i) ASSERT_FALSE(window_.marked(i)) << i << " in " << round;
    // Rarely in some of them, so that old marks of all ages are there.
    for (u64 i = 0; i < 8; ++i) {
      const u64 chosen = random() % (round % 5 == 0 ? 1024 : 32);
      const bool before = window_.marked(chosen);
      const u64 count = arena_.count();
      window_.copy_aside(arena_, chosen, 1);
      ASSERT_EQ(arena_.count() - count, before ? 0u : 1u) << round;
      ASSERT_TRUE(window_.marked(chosen)) << round;
    }
    window_.finish();
  }
}

// Both want to store to each line: one copies it, and neither stores before the copy is complete.
TEST_F(WindowTest, TwoMutatorsOfALineMakeOneCopy) {
  auto other = value_or_throw(track::SideArena::create());
  for (u64 round = 1; round <= 200 / kSlower; ++round) {
    for (u64 i = 0; i < 1024; ++i)
      for (u64 word = 0; word < kWordsPerLine; ++word) line(i)[word] = round;
    arena_.clear();
    other.clear();
    window_.open();
    const auto store = [&](track::SideArena& arena, u64 half) {
      for (u64 i = 0; i < 1024; ++i) {
        window_.copy_aside(arena, i, 1);
        for (u64 word = 0; word < 4; ++word) line(i)[half * 4 + word] = ~round;
      }
    };
    std::thread thread([&] { store(other, 1); });
    store(arena_, 0);
    thread.join();
    ASSERT_EQ(arena_.count() + other.count(), 1024u);
    for (const track::SideArena* arena : {&arena_, &other})
      for (u64 i = 0; i < arena->count(); ++i)
        for (u64 word = 0; word < kWordsPerLine; ++word) {
          u64 value = 0;
          std::memcpy(&value, arena->data(i) + word * sizeof value, sizeof value);
          ASSERT_EQ(value, round) << "line " << arena->line(i);
        }
  }
}

class LargeWindowTest : public WindowTest {
 protected:
  static constexpr u64 kLines = 600 * 1024;
  static constexpr u64 kManyLinesNs = 5'000'000;  ///< of the processor, to copy thousands of them
  LargeWindowTest() : WindowTest(kLines) {}
};

TEST_F(LargeWindowTest, AFullArenaWaitsForTheCapture) {
  window_.open();
  std::atomic<u64> reached{0};
  std::thread mutator([&] {
    for (u64 i = 0; i < kLines; ++i) {
      window_.copy_aside(arena_, i, 1);
      reached = i;
    }
  });
  while (!arena_.full()) std::this_thread::yield();
  const u64 entries = arena_.count();
  ASSERT_LT(entries, kLines);
  while (reached != entries - 1) std::this_thread::yield();
  await_cpu_ns(mutator.native_handle(), kManyLinesNs);
  EXPECT_EQ(reached, entries - 1);
  window_.publish(entries + 100);
  while (reached != entries + 99) std::this_thread::yield();
  await_cpu_ns(mutator.native_handle(), kManyLinesNs);
  EXPECT_EQ(reached, entries + 99);
  EXPECT_FALSE(window_.marked(entries + 100));
  window_.finish();
  mutator.join();
  EXPECT_EQ(arena_.count(), entries);
}

// --- captures ----------------------------------------------------------------------------------

class Capture : public testing::TestWithParam<const char*> {
 protected:
  static constexpr u64 kBytes = 8 * kMiB;
  static constexpr u64 kThreads = 3;
  static constexpr u64 kAsFarAsTheyCanNs = 5'000'000;  ///< of the processor, to do nothing but wait

  Capture()
      : volume_(open_volume(GetParam() + (":" + folder_.path("log.pd")))),
        log_(*volume_, 1, 64 * kMiB),
        writer_(log_, *volume_, 1),
        memory_(value_or_throw(Mapping::anonymous(kBytes))),
        durable_(kBytes / sizeof(u64)),
        at_cut_(kBytes / sizeof(u64)),
        mutators_(value_or_throw(track::Mutators::create(nullptr, nullptr))),
        tracker_(value_or_throw(track::Reported::create(*mutators_, memory_.as(), kBytes,
                                                        Tracking::kReported, kLineBytes))) {}

  void mutate(u64 thread, u64 operations_max);
  void checkpoint(u64 number, bool fails);
  void checkpoint_of_units(bool fails);
  void checkpoint_of_pages(bool whole_pages, bool fails);
  void compare(const log::VersionInProgress& version);

  const TempDir folder_{TempDir::kMemory};
  std::unique_ptr<region::Volume> volume_;
  log::Space log_;
  log::VersionWriter writer_;
  Mapping memory_;
  std::vector<u64> durable_;  ///< memory as of the last version, by what the log got
  std::vector<u64> at_cut_;
  std::unique_ptr<track::Mutators> mutators_;
  std::unique_ptr<track::Reported> tracker_;
  std::atomic<bool> stop_{false};
  std::atomic<u64> allowed_{0};  ///< operations of a thread: change sets stay small on any machine
  u64 side_copies_ = 0;
  u64 logged_lines_ = 0;
};

// A line belongs to one thread: in three pages of four line i to thread i % kThreads, the fourth as
// a whole to one. The first line of memory is shared. Most stores go to its last eighth, which is
// captured last.
void Capture::mutate(u64 thread, u64 operations_max) {
  std::mt19937_64 random(thread);
  detail::Mutator& mutator = mutators_->this_thread();
  for (u64 value = 0; !stop_ && value < operations_max;) {
    if (value == allowed_) {
      std::this_thread::yield();
      continue;
    }
    ++value;
    detail::enter(mutator);
    const u64 pages = kBytes / kPageBytes;
    const u64 draw = random();
    u64 page = draw % 4 == 0 ? 1 + draw / 4 % (pages - 1) : pages - 1 - draw / 4 % (pages / 8);
    u64 begin = page * kPageBytes / sizeof(u64);
    u64 words = kWordsPerLine;
    if (page % 4 == 3) {
      page = (page / 4 / kThreads * kThreads + thread) * 4 + 3;
      if (page >= pages) page = thread * 4 + 3;
      begin = page * kPageBytes / sizeof(u64);
      if (random() % 2 == 0) words = kPageBytes / sizeof(u64);
      else begin += random() % kLinesPerPage * kWordsPerLine;
    } else {
      begin += (thread + random() % 21 * kThreads) * kWordsPerLine;
    }
    u64* const to = memory_.as<u64>() + begin;
    detail::report(mutator, to, words * sizeof(u64));
    for (u64 i = 0; i < words; ++i) to[i] = value << 8 | thread;
    if (value % 16 == 0) {
      detail::report(mutator, memory_.as(), sizeof(u64));
      std::atomic_ref(*memory_.as<u64>()).fetch_add(1, std::memory_order_relaxed);
    }
    detail::leave(mutator);
  }
}

void Capture::checkpoint(u64 number, bool fails) {
  log::VersionInProgress version;
  version.number = number;
  version.ticket = number;
  allowed_ += 1500;
  mutators_->stop();
  ASSERT_TRUE(tracker_->cut());
  tracker_->open_window();
  std::memcpy(at_cut_.data(), memory_.as(), kBytes);
  mutators_->resume();
  const track::DirtyMap& changes = tracker_->collect();
  writer_.begin(version);
  ASSERT_TRUE(commit::capture_in_background(
      changes, memory_.as(), *tracker_->window(), *mutators_, writer_,
      [this] { tracker_->close_window(); }, &side_copies_));
  if (fails) {
    writer_.abandon();
  } else {
    ASSERT_TRUE(writer_.finish_with_commit());
    ASSERT_TRUE(volume_->medium().barrier(PERDURA_SITE("test")));
    compare(version);
  }
  tracker_->settle(!fails);
  log_.retire(number);
}

// Whole units of pages, as an engine of chunks takes them.
void Capture::checkpoint_of_units(bool fails) {
  constexpr u64 kUnitBytes = 4 * kPageBytes;
  commit::LineSnapshot snapshot(*tracker_, *mutators_, memory_.as(), kUnitBytes);
  allowed_ += 1500;
  mutators_->stop();
  ASSERT_TRUE(tracker_->cut());
  ASSERT_TRUE(snapshot.open());
  std::memcpy(at_cut_.data(), memory_.as(), kBytes);
  mutators_->resume();
  const track::DirtyMap& changes = tracker_->collect();
  const std::vector<u64> units = commit::units_of(changes, kUnitBytes);
  std::vector<u64> version = durable_;
  u64 taken = 0;
  const Status written =
      snapshot.write_units(units, [&](u64 unit, const std::byte* bytes) -> Status {
        if (fails && taken == units.size() / 2) return Failure{Code::kIo, "the disk is gone"};
        EXPECT_EQ(unit, units[taken++]);
        std::memcpy(&version[unit * kUnitBytes / sizeof(u64)], bytes, kUnitBytes);
        return {};
      });
  snapshot.close();
  fails = fails && !units.empty();
  ASSERT_EQ(static_cast<bool>(written), !fails);
  side_copies_ += snapshot.side_copies();
  tracker_->settle(!fails);
  if (fails) return;
  ASSERT_EQ(taken, units.size());
  durable_ = std::move(version);
  ASSERT_EQ(std::memcmp(durable_.data(), at_cut_.data(), kBytes), 0);
}

/// A version that consists of pages, as an engine of two copies takes them: of what it got last.
class PagesOfVersion final : public commit::PageSink {
 public:
  PagesOfVersion(std::vector<u64>& words, bool whole_pages, u64 pages_max)
      : PageSink(whole_pages), words_(words), pages_max_(pages_max) {}

  void fetch(u64, u64) noexcept override {}
  Status take(u64 page, u64 mask, const std::byte* bytes) override {
    if (pages_.size() == pages_max_) return Failure{Code::kIo, "the disk is gone"};
    EXPECT_TRUE(pages_.insert(page).second) << "page " << page << " twice";
    put(page, mask, bytes);
    return {};
  }
  Status take_again(u64 page, const std::byte* bytes) override {
    EXPECT_TRUE(pages_.contains(page));
    put(page, ~u64{0}, bytes);
    return {};
  }

 private:
  void put(u64 page, u64 mask, const std::byte* bytes) {
    for (u64 line = 0; line < kLinesPerPage; ++line)
      if ((mask >> line & 1) != 0)
        track::copy_racing_line(
            reinterpret_cast<std::byte*>(&words_[(page * kLinesPerPage + line) * kWordsPerLine]),
            bytes + line * kLineBytes);
  }

  std::vector<u64>& words_;
  const u64 pages_max_;
  std::set<u64> pages_;
};

void Capture::checkpoint_of_pages(bool whole_pages, bool fails) {
  commit::LineSnapshot snapshot(*tracker_, *mutators_, memory_.as(), kPageBytes);
  allowed_ += 1500;
  mutators_->stop();
  ASSERT_TRUE(tracker_->cut());
  ASSERT_TRUE(snapshot.open());
  std::memcpy(at_cut_.data(), memory_.as(), kBytes);
  mutators_->resume();
  const track::DirtyMap& changes = tracker_->collect();
  const u64 pages = commit::units_of(changes, kPageBytes).size();
  std::vector<u64> version = durable_;
  PagesOfVersion sink(version, whole_pages, fails ? pages / 2 : pages);
  const Status written = snapshot.write_pages(changes, sink);
  snapshot.close();
  fails = fails && pages != 0;
  ASSERT_EQ(static_cast<bool>(written), !fails);
  side_copies_ += snapshot.side_copies();
  tracker_->settle(!fails);
  if (fails) return;
  durable_ = std::move(version);
  ASSERT_EQ(std::memcmp(durable_.data(), at_cut_.data(), kBytes), 0);
}

void Capture::compare(const log::VersionInProgress& version) {
  Lines lines;
  AlignedBuffer bytes(volume_->segment_bytes());
  for (const log::BlockRef& block : version.blocks) {
    ASSERT_TRUE(volume_->medium().read(block.offset, bytes.first(block.block_bytes)));
    ASSERT_FALSE(add_lines(bytes.data(), block, lines)) << "a line is in the version twice";
  }
  ASSERT_EQ(lines.size(), version.line_count);
  logged_lines_ += lines.size();
  for (const auto& [line, data] : lines)
    std::memcpy(&durable_[line * kWordsPerLine], &data, sizeof data);
  if (durable_ == at_cut_) return;
  for (size_t i = 0; i < durable_.size(); ++i)
    ASSERT_EQ(durable_[i], at_cut_[i])
        << "word " << i % kWordsPerLine << " of line " << i / kWordsPerLine << ", which is "
        << (lines.contains(i / kWordsPerLine) ? "" : "not ") << "in version " << version.number;
}

TEST_P(Capture, EachVersionIsTheStateAtItsCut) {
  std::vector<std::thread> threads;
  for (u64 i = 0; i < kThreads; ++i) threads.emplace_back([this, i] { mutate(i, ~u64{0}); });
  const u64 versions = 400 / kSlower;
  for (u64 number = 1; number <= versions && !HasFatalFailure(); ++number)
    checkpoint(number, number % 11 == 5);
  stop_ = true;
  for (std::thread& thread : threads) thread.join();
  if (!HasFatalFailure()) checkpoint(versions + 1, false);
  EXPECT_EQ(std::memcmp(durable_.data(), memory_.as(), kBytes), 0);
  EXPECT_GT(logged_lines_, versions * kLinesPerPage);
  EXPECT_GT(side_copies_, versions) << "captures hardly met a mutator";
}

TEST_P(Capture, EachVersionOfUnitsIsTheStateAtItsCut) {
  std::vector<std::thread> threads;
  for (u64 i = 0; i < kThreads; ++i) threads.emplace_back([this, i] { mutate(i, ~u64{0}); });
  const u64 versions = 200 / kSlower;
  for (u64 number = 1; number <= versions && !HasFatalFailure(); ++number)
    checkpoint_of_units(number % 11 == 5);
  stop_ = true;
  for (std::thread& thread : threads) thread.join();
  if (!HasFatalFailure()) checkpoint_of_units(false);
  EXPECT_GT(side_copies_, versions) << "captures hardly met a mutator";
}

TEST_P(Capture, PagesOfEachVersionAreTheStateAtItsCut) {
  std::vector<std::thread> threads;
  for (u64 i = 0; i < kThreads; ++i) threads.emplace_back([this, i] { mutate(i, ~u64{0}); });
  const u64 versions = 300 / kSlower;
  for (u64 number = 1; number <= versions && !HasFatalFailure(); ++number)
    checkpoint_of_pages(number % 5 == 4, number % 11 == 5);
  stop_ = true;
  for (std::thread& thread : threads) thread.join();
  if (!HasFatalFailure()) checkpoint_of_pages(false, false);
  EXPECT_GT(side_copies_, versions) << "captures hardly met a mutator";
}

// Threads that register while a window is open copy aside from their first store on.
TEST_P(Capture, MutatorsMayBeginAndEndDuringIt) {
  std::vector<std::thread> starters;
  for (u64 i = 0; i < kThreads; ++i)
    starters.emplace_back([this, i] {
      while (!stop_) std::thread([this, i] { mutate(i, 50); }).join();
    });
  for (u64 number = 1; number <= 150 / kSlower && !HasFatalFailure(); ++number)
    checkpoint(number, false);
  stop_ = true;
  for (std::thread& starter : starters) starter.join();
}

// Holds a thread in its first access to a page, until `go`; others do not notice.
class HeldAccess {
 public:
  explicit HeldAccess(std::byte* page) : page_(page) {
    held_ = this;
    struct sigaction action = {};
    action.sa_handler = [](int) {
      const int saved_errno = errno;
      while (held_here_ && !held_->go) {
        held_->reached = true;
        ::sched_yield();
      }
      ::mprotect(held_->page_, kPageBytes, PROT_READ | PROT_WRITE);
      errno = saved_errno;
    };
    ::sigaction(SIGSEGV, &action, &before_);
    ::mprotect(page_, kPageBytes, PROT_NONE);
  }
  ~HeldAccess() { ::sigaction(SIGSEGV, &before_, nullptr); }
  HeldAccess(const HeldAccess&) = delete;

  static void hold_this_thread() { held_here_ = true; }

  std::atomic<bool> reached{false};
  std::atomic<bool> go{false};

 private:
  static inline HeldAccess* held_ = nullptr;
  static inline thread_local volatile bool held_here_ = false;
  std::byte* const page_;
  struct sigaction before_ = {};
};

// The capturer needs the copy of a line that a mutator has marked: until it is complete nobody may
// store to the line, however far the capturer has come. Here the mutator is held in between.
TEST_P(Capture, NobodyStoresToALineWhoseCopyIsUnderWay) {
  const auto store = [this](u64 value) {
    detail::Mutator& mutator = mutators_->this_thread();
    detail::enter(mutator);
    detail::report(mutator, memory_.as(), sizeof(u64));
    std::atomic_ref(*memory_.as<u64>()).store(value, std::memory_order_relaxed);
    detail::leave(mutator);
  };
  store(1);
  std::atomic<bool> cut{false};
  std::thread copier([&] {
    HeldAccess::hold_this_thread();
    mutators_->this_thread();
    while (!cut) std::this_thread::yield();
    store(2);
  });
  while (mutators_->snapshot().size() < 2) std::this_thread::yield();

  log::VersionInProgress version;
  version.number = version.ticket = 1;
  mutators_->stop();
  ASSERT_TRUE(tracker_->cut());
  tracker_->open_window();
  std::memcpy(at_cut_.data(), memory_.as(), kBytes);
  HeldAccess held(memory_.as());
  mutators_->resume();
  cut = true;
  while (!held.reached) std::this_thread::yield();

  // Both come as far as they can. Neither sleeps.
  std::atomic<bool> captured{false};
  std::thread capturer([&] {
    writer_.begin(version);
    EXPECT_TRUE(commit::capture_in_background(
        tracker_->collect(), memory_.as(), *tracker_->window(), *mutators_, writer_,
        [&] {
          tracker_->close_window();
          captured = true;
        },
        &side_copies_));
  });
  await_cpu_ns(capturer.native_handle(), kAsFarAsTheyCanNs, captured);
  std::atomic<bool> stored{false};
  std::thread other([&] {
    store(3);
    stored = true;
  });
  await_cpu_ns(other.native_handle(), kAsFarAsTheyCanNs, stored);
  held.go = true;
  for (std::thread* thread : {&copier, &capturer, &other}) thread->join();
  ASSERT_TRUE(writer_.finish_with_commit());
  ASSERT_TRUE(volume_->medium().barrier(PERDURA_SITE("test")));
  compare(version);
  EXPECT_EQ(side_copies_, 1u);
  tracker_->settle(true);
}

INSTANTIATE_TEST_SUITE_P(Media, Capture, testing::Values("emu", "file"),
                         [](const auto& info) { return std::string(info.param); });

// --- stores ------------------------------------------------------------------------------------

// A thread's n-th operation stores n to every word of some lines and of a page now and then, and
// counts itself. So the counts that are recovered say what every word must be.
struct Threads {
  static constexpr u64 kThreads = 3;
  u64 total;
  struct alignas(kLineBytes) {
    u64 operations;
  } each[kThreads];
};

class Image {
 public:
  static constexpr u64 kPages = 64 * kMiB / kPageBytes;
  static constexpr u64 kLines = kPages * kLinesPerPage;

  /// Calls store(first line, lines) for all that an operation stores to.
  template <class Store>
  static void operation(u64 thread, u64 number, Store&& store) {
    u64 draw = mix(number * Threads::kThreads + thread);
    for (int i = 0; i < 6; ++i, draw = mix(draw)) {
      // Half of them near the end, where the capture comes last.
      const u64 page = draw % 2 == 0 ? draw / 2 % kPages : kPages - 1 - draw / 2 % 256;
      const u64 line = draw >> 32;
      if (page % 8 != 7) {
        store(page * kLinesPerPage + (line % 21) * Threads::kThreads + thread, u64{1});
      } else if (page / 8 % Threads::kThreads == thread) {
        if (line % 2 == 0) store(page * kLinesPerPage, kLinesPerPage);
        else store(page * kLinesPerPage + line / 2 % kLinesPerPage, u64{1});
      }
    }
  }

  void advance(u64 thread, u64 to) {
    for (u64& number = operations_[thread]; number < to;)
      operation(thread, ++number, [&](u64 first, u64 count) {
        std::fill_n(values_.begin() + static_cast<std::ptrdiff_t>(first), count, number);
      });
  }
  /// Words that differ.
  u64 differences(const u64* memory) const {
    u64 different = 0;
    for (u64 i = 0; i < kLines * kWordsPerLine; ++i)
      different += memory[i] != values_[i / kWordsPerLine];
    return different;
  }
  u64 operations(u64 thread) const { return operations_[thread]; }

 private:
  std::vector<u64> values_ = std::vector<u64>(kLines);
  u64 operations_[Threads::kThreads] = {};
};

struct Way {
  const char* name;
  Tracking tracking;
  Engine engine;
  u64 operations;  ///< of a thread and a version: pages and chunks are copied whole
};

class SnapshotOfStore : public testing::TestWithParam<Way> {
 protected:
  static Options options() {
    Options options;
    options.region_limit_bytes = 128 * kMiB;
    options.tracking = GetParam().tracking;
    options.engine = GetParam().engine;
    options.capture = perdura::Capture::kBackground;
    return options;
  }
  void SetUp() override {
    try {
      WrappedStore("emu:" + folder_.path("first.pd"), options()).close();
    } catch (const Error& error) {
      if (error.code() != Code::kUnsupported) throw;
      GTEST_SKIP() << error.what();
    }
  }
  bool marks_lines() const {
    return GetParam().tracking == Tracking::kReported && GetParam().engine == Engine::kRedoLog;
  }

  /// Recover, check, take `versions` checkpoints under load, drop the store.
  void round(u64 versions);
  void check(WrappedStore& store, const Threads& threads, const u64* words);

  const TempDir folder_{TempDir::kMemory};
  Image image_;
  u64 promised_ = 0;  ///< the version that was waited for last
  u64 counts_before_[Threads::kThreads] = {};
  u64 side_copies_ = 0;
};

void SnapshotOfStore::check(WrappedStore& store, const Threads& threads, const u64* words) {
  EXPECT_GE(store.durable_version(), promised_);
  u64 total = 0;
  for (u64 i = 0; i < Threads::kThreads; ++i) {
    ASSERT_GE(threads.each[i].operations, counts_before_[i]) << "acknowledged operations are lost";
    image_.advance(i, threads.each[i].operations);
    total += threads.each[i].operations;
  }
  ASSERT_EQ(threads.total, total) << "the threads were cut at different moments";
  ASSERT_EQ(image_.differences(words), 0u) << "at version " << store.durable_version();
}

void SnapshotOfStore::round(u64 versions) {
  WrappedStore store("emu:" + folder_.path("window.pd"), options());
  auto* threads = static_cast<Threads*>(store.get_root("threads"));
  auto* words = static_cast<u64*>(store.get_root("words"));
  if (threads == nullptr) {
    const auto op = store.operation();
    threads = static_cast<Threads*>(op.allocate(sizeof(Threads), kLineBytes));
    words = static_cast<u64*>(op.allocate(Image::kPages * kPageBytes, kPageBytes));
    std::memset(static_cast<void*>(threads), 0, sizeof *threads);
    std::memset(words, 0, Image::kPages * kPageBytes);
    op.set_root("threads", threads);
    op.set_root("words", words);
  }
  check(store, *threads, words);
  std::atomic<bool> stop{false};
  std::atomic<u64> allowed{0};  // so that change sets stay small however slow the machine is
  std::vector<std::thread> mutators;
  for (u64 i = 0; i < Threads::kThreads; ++i)
    mutators.emplace_back([&, i] {
      for (u64 done = 0; !stop;) {
        if (done == allowed) {
          std::this_thread::yield();
          continue;
        }
        ++done;
        const auto op = store.operation();
        const u64 number = threads->each[i].operations + 1;
        Image::operation(i, number, [&](u64 first, u64 count) {
          u64* const to = words + first * kWordsPerLine;
          op.touch(to, count * kLineBytes);
          std::fill_n(to, count * kWordsPerLine, number);
        });
        add_shared<WrappedStore::Op, u64>(op, threads->total, 1);
        op.touch(&threads->each[i], sizeof(u64));
        std::atomic_ref(threads->each[i].operations).store(number, std::memory_order_relaxed);
      }
    });
  for (u64 i = 0; i < versions; ++i) {
    allowed += GetParam().operations;
    u64 before[Threads::kThreads];
    for (u64 t = 0; t < Threads::kThreads; ++t)
      before[t] = std::atomic_ref(threads->each[t].operations).load(std::memory_order_relaxed);
    promised_ = store.checkpoint_async();
    store.wait(promised_);
    std::copy_n(before, Threads::kThreads, counts_before_);
  }
  stop = true;
  for (std::thread& mutator : mutators) mutator.join();
  side_copies_ += store.statistics().side_copies;
  store.crash();
}

TEST_P(SnapshotOfStore, WhatIsRecoveredIsTheStateAtACut) {
  const u64 most = marks_lines() ? 8 : kSanitized ? 3 : 4;
  for (u64 versions = 1; versions <= most && !HasFatalFailure(); ++versions) round(versions);
  round(1);
  // Staged, nothing waits for a store to be copied.
  if (GetParam().tracking != Tracking::kUserfault) {
    EXPECT_GT(side_copies_, 0u);
  }
}

// A window's number, which has seven bits, wraps meanwhile.
TEST_P(SnapshotOfStore, ASessionOfSeveralHundredVersions) {
  round(kSanitized ? 20 : marks_lines() ? 320 : 140);
  if (!HasFatalFailure()) round(1);
}

INSTANTIATE_TEST_SUITE_P(
    Ways, SnapshotOfStore,
    testing::Values(Way{"reported_log", Tracking::kReported, Engine::kRedoLog, 1500},
                    Way{"bitmap_log", Tracking::kBitmap, Engine::kRedoLog, 300},
                    Way{"protect_log", Tracking::kProtect, Engine::kRedoLog, 10},
                    Way{"sigbus_log", Tracking::kSigbus, Engine::kRedoLog, 10},
                    Way{"reported_chunks", Tracking::kReported, Engine::kRemap, 30},
                    Way{"bitmap_chunks", Tracking::kBitmap, Engine::kRemap, 30},
                    Way{"protect_chunks", Tracking::kProtect, Engine::kRemap, 10},
                    Way{"reported_copies", Tracking::kReported, Engine::kDualCopy, 30},
                    Way{"bitmap_copies", Tracking::kBitmap, Engine::kDualCopy, 30},
                    Way{"protect_copies", Tracking::kProtect, Engine::kDualCopy, 10},
                    Way{"userfault_log", Tracking::kUserfault, Engine::kRedoLog, 10},
                    Way{"userfault_chunks", Tracking::kUserfault, Engine::kRemap, 10},
                    Way{"userfault_copies", Tracking::kUserfault, Engine::kDualCopy, 10}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace perdura::test
