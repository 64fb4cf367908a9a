// Goal: an object of a flexible state gets another size: it has what it held and zeros behind that,
// its methods know how much that is, and whatever ends the process, or has no memory or space for
// it, leaves the object in one size as a whole. What cannot be is refused, and changes nothing.
// Method: rows of words against a plain vector, through sessions that end in order or not; a medium
// that is rebuilt as a crash may have left it at each of its calls; allocations that fail one after
// the other; objects that are in an overflow store, shared, or closed.
#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <numeric>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include <perdura/objects.hpp>

#include "media/record.hpp"
#include "model/object/objects_runtime.hpp"
#include "support/call_faults.hpp"
#include "support/expect_failure.hpp"
#include "support/fellows.hpp"
#include "support/files.hpp"
#include "support/object_medium.hpp"
#include "support/process.hpp"
#include "support/scheme_names.hpp"

namespace perdura::test {

struct Row;
/// That a method resizes: it must not.
inline Object<Row>* resized_inside = nullptr;

/// Words behind itself, as many as there is room for.
struct Row {
  static constexpr bool kIsFlexible = true;
  std::uint64_t calls;
  std::uint64_t bytes_seen;

  std::span<std::uint64_t> words() noexcept { return object_rest<std::uint64_t>(this); }
  std::span<const std::uint64_t> words() const noexcept { return object_rest<std::uint64_t>(this); }
  void put(std::uint64_t at, std::uint64_t value) noexcept {
    object_changed(this, sizeof *this);
    ++calls;
    bytes_seen = object_bytes();
    const auto all = words();
    if (at >= all.size()) return;
    object_changed(&all[at], sizeof all[at]);
    all[at] = value;
  }
  std::uint64_t swap(std::uint64_t at, std::uint64_t value) noexcept {
    const std::uint64_t before = get(at);
    put(at, value);
    return before;
  }
  int resize_inside(std::uint64_t bytes) noexcept;

  std::uint64_t get(std::uint64_t at) const noexcept {
    return at < words().size() ? words()[at] : 0;
  }
  std::uint64_t size() const noexcept { return words().size(); }
  std::uint64_t sum() const noexcept {
    return std::accumulate(words().begin(), words().end(), calls);
  }
  Row all() const noexcept { return *this; }
};

/// The same, which does not say what it changes.
struct PlainRow : Row {
  void set(std::uint64_t at, std::uint64_t value) noexcept {
    ++calls;
    const auto rest = object_rest<std::uint64_t>(this);
    if (at < rest.size()) rest[at] = value;
  }
  std::uint64_t at(std::uint64_t at) const noexcept {
    const auto rest = object_rest<std::uint64_t>(this);
    return at < rest.size() ? rest[at] : 0;
  }
};

struct Fixed {
  std::uint64_t value;
  void add(std::uint64_t by) noexcept { value += by; }
  std::uint64_t bytes() const noexcept { return object_bytes(); }
};

}  // namespace perdura::test

template <>
struct perdura::Methods<perdura::test::Row>
    : perdura::MethodList<perdura::Deferrable<&perdura::test::Row::put, perdura::kReports>,
                          perdura::Instant<&perdura::test::Row::swap, perdura::kReports>,
                          perdura::Instant<&perdura::test::Row::resize_inside>> {};
template <>
struct perdura::Methods<perdura::test::PlainRow>
    : perdura::MethodList<perdura::Deferrable<&perdura::test::PlainRow::set>> {};
template <>
struct perdura::Methods<perdura::test::Fixed>
    : perdura::MethodList<perdura::Deferrable<&perdura::test::Fixed::add>> {};

namespace perdura::test {

inline int Row::resize_inside(std::uint64_t bytes) noexcept {
  try {
    resized_inside->resize(bytes);
  } catch (const Error& error) {
    return static_cast<int>(error.code());
  }
  return 0;
}

namespace {

using Words = std::vector<u64>;

u64 bytes_of(u64 words) { return sizeof(Row) + words * sizeof(u64); }

class ObjectsResize : public testing::TestWithParam<const char*> {
 protected:
  std::string uri(const char* name = "objects.pd") const { return GetParam() + folder_.path(name); }
  static ObjectOptions options(u64 words = 0) {
    ObjectOptions options;
    options.log_bytes = 8192;
    options.checkpoint_calls = 20;
    options.bytes = words == 0 ? 0 : bytes_of(words);
    return options;
  }
  static void expect(const Object<Row>& row, const Words& words) {
    ASSERT_EQ(row.bytes(), bytes_of(words.size()));
    ASSERT_EQ(row.read<&Row::size>(), words.size());
    for (u64 i = 0; i < words.size(); ++i) ASSERT_EQ(row.read<&Row::get>(i), words[i]) << i;
  }

  const TempDir folder_{TempDir::kMemory};
  const NothingLeft nothing_left_{uri()};
};

INSTANTIATE_TEST_SUITE_P(Media, ObjectsResize, testing::Values("emu:", "file:"), name_of_scheme);

TEST_P(ObjectsResize, KeepsWhatTheObjectHeld) {
  Words model(10);
  std::mt19937_64 random(1);
  std::optional<Objects> objects = Objects::open(uri());
  auto row = objects->object<Row>("row", options(10));
  expect(row, model);
  for (int step = 0; step < 40; ++step) {
    for (int i = 0; i < 7; ++i) {
      const u64 at = random() % model.size();
      const u64 value = random();
      if (i % 3 != 0) row.defer<&Row::put>(at, value);
      else EXPECT_EQ(row.call<&Row::swap>(at, value), model[at]);
      model[at] = value;
    }
    const u64 before = model.size();
    model.resize(step % 9 == 8 ? 1 : 1 + random() % 3000);
    row.resize(bytes_of(model.size()));
    if (model.size() < before) model.resize(std::min<u64>(before, model.size()));
    row.call<&Row::swap>(0, model[0]);
    EXPECT_EQ(row.read<&Row::all>().bytes_seen, bytes_of(model.size()));
    if (step % 10 == 0) expect(row, model);
    if (step % 4 == 3) {
      row = objects->object<Row>("row");
      objects.reset();
      objects = Objects::open(uri());
      row = objects->object<Row>("row", options());
      if (step % 12 == 3) expect(row, model);
    }
  }
  expect(row, model);
  row.resize(row.bytes());
  expect(row, model);
  row.resize(sizeof(Row));
  expect(row, {});
  row.resize(bytes_of(5));
  expect(row, Words(5));
  EXPECT_EQ(object_bytes(), 0u) << "outside of methods";
  EXPECT_EQ(objects->list().at(0).bytes, bytes_of(5));
}

// What has returned is there after a kill; what was called later ran on the new size.
TEST_P(ObjectsResize, IsDurableWhenItReturns) {
  for (const u64 words : {3000u, 4u, 900u}) {
    Child child([&]() -> std::string {
      Objects objects = Objects::open(uri());
      auto row = objects.object<Row>("row", options(10));
      row.resize(bytes_of(words));
      row.call<&Row::swap>(words - 1, words);
      ::kill(::getpid(), SIGKILL);
      return "";
    });
    EXPECT_EQ(child.wait(), "");
    ASSERT_TRUE(child.killed());
    Objects objects = Objects::open(uri());
    const auto row = objects.object<Row>("row");
    EXPECT_EQ(row.bytes(), bytes_of(words));
    EXPECT_EQ(row.read<&Row::get>(words - 1), words);
  }
}

TEST_P(ObjectsResize, WhatCannotBeIsRefusedAndChangesNothing) {
  Objects objects = Objects::open(uri());
  auto row = objects.object<Row>("row", options(10));
  row.call<&Row::swap>(9, 77);
  expect_error([&] { row.resize(sizeof(Row) - 1); }, Code::kInvalidArgument,
               "at least its state's 16");
  expect_error([&] { row.resize(0); }, Code::kInvalidArgument, "at least its state's 16");
  expect_error([&] { row.resize((u64{1} << 40) + 1); }, Code::kInvalidArgument, "at most");
  expect_error([&] { objects.object<Fixed>("fixed", {.bytes = 100}); }, Code::kInvalidArgument,
               "not flexible");
  expect_error([&] { objects.object<Row>("small", {.bytes = 8}); }, Code::kInvalidArgument,
               "16 to ");
  EXPECT_EQ(objects.object<Fixed>("fixed", {.bytes = 8}).read<&Fixed::bytes>(), 8u);
  expect_error([&] { objects.object<PlainRow>("row"); }, Code::kTypeMismatch, "or more");
  resized_inside = &row;
  EXPECT_EQ(row.call<&Row::resize_inside>(bytes_of(20)), static_cast<int>(Code::kMisuse));
  Words model(10);
  model[9] = 77;
  expect(row, model);
  // Nobody has it while it is removed; then it is not there.
  expect_error([&] { objects.remove("row"); }, Code::kMisuse, "let go of it");
  row.resize(bytes_of(11));
  objects.close();
  expect_error([&] { row.resize(bytes_of(20)); }, Code::kMisuse, "closed");
  expect_error([&] { (void)row.bytes(); }, Code::kMisuse, "closed");
  Objects again = Objects::open(uri());
  EXPECT_EQ(again.object<Row>("row").bytes(), bytes_of(11));
  again.remove("row");
  expect_error([&] { row.resize(bytes_of(20)); }, Code::kMisuse, "closed");
}

TEST_P(ObjectsResize, AChildDoesNotResizeWhatItsParentHas) {
  Objects objects = Objects::open(uri());
  auto row = objects.object<Row>("row", options(10));
  EXPECT_EQ(in_child([&]() -> std::string {
              try {
                row.resize(bytes_of(20));
              } catch (const Error& error) {
                return error.code() == Code::kForked ? "" : error.what();
              }
              return "it does";
            }),
            "");
  row.resize(bytes_of(12));
  expect(row, Words(12));
}

// A smaller one than its program has, and one whose state was fixed when it was made.
TEST_P(ObjectsResize, AStateThatGrewBeyondAnObjectIsRefused) {
  const u64 zeros[2] = {};
  const auto type = [&](u64 bytes, bool flexible) {
    return detail::ObjectType{
        .name = "state", .bytes = bytes, .methods = {}, .initial = zeros, .is_flexible = flexible};
  };
  const auto runtime = value_or_throw(detail::ObjectsRuntime::open(uri(), {}));
  value_or_throw(runtime->object("one", type(8, false), {}));
  EXPECT_TRUE(runtime->object("one", type(8, true), {}));
  value_or_throw(runtime->resize("one", 16));
  EXPECT_TRUE(runtime->object("one", type(16, true), {}));
  expect_failure(runtime->object("one", type(8, false), {}), Code::kTypeMismatch,
                 "not a state of 8");
  value_or_throw(runtime->resize("one", 8));
  expect_failure(runtime->object("one", type(16, true), {}), Code::kTypeMismatch, "16 or more");
}

// --- with what objects have besides --------------------------------------------------------------

TEST_P(ObjectsResize, CallsOfThreadsAreBeforeItOrAfterIt) {
  constexpr int kThreads = 3;
  constexpr u64 kCalls = 400;
  {
    Objects objects = Objects::open(uri());
    auto row = objects.object<Row>("row", options(100));
    std::atomic<int> running = kThreads;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        for (u64 i = 0; i < kCalls; ++i) {
          if (i % 5 == 0) row.call<&Row::swap>(u64{1} + t, i);
          else row.defer<&Row::put>(u64{1} + t, i);
        }
        --running;
      });
    std::mt19937_64 random(2);
    while (running != 0) row.resize(bytes_of(10 + random() % 2000));
    for (std::thread& each : threads) each.join();
    row.resize(bytes_of(30));
    EXPECT_EQ(row.read<&Row::all>().calls, kThreads * kCalls);
  }
  Objects objects = Objects::open(uri());
  const auto row = objects.object<Row>("row");
  EXPECT_EQ(row.read<&Row::all>().calls, kThreads * kCalls);
  for (int t = 0; t < kThreads; ++t) EXPECT_EQ(row.read<&Row::get>(u64{1} + t), kCalls - 1);
}

// What it reports behind its State is in checkpoints, and what does not report is as well.
TEST_P(ObjectsResize, ReportsAndVerificationGoOn) {
  for (int session = 0; session < 3; ++session) {
    Objects objects = Objects::open(uri());
    ObjectOptions verified = options(600);
    verified.verify_replay = session == 1;
    verified.checkpoint_calls = 5;
    auto row = objects.object<Row>("row", verified);
    auto plain = objects.object<PlainRow>("plain", verified);
    if (session != 0) {
      for (u64 i = 0; i < 40; ++i) EXPECT_EQ(row.read<&Row::get>(i * 13), 1000 + i);
      for (u64 i = 0; i < 40; ++i) EXPECT_EQ(plain.read<&PlainRow::at>(i * 13), 1000 + i);
    }
    row.resize(bytes_of(2000 + session));
    plain.resize(bytes_of(2000 - session));
    for (u64 i = 0; i < 40; ++i) {
      row.defer<&Row::put>(i * 13, 1000 + i);
      plain.defer<&PlainRow::set>(i * 13, 1000 + i);
    }
    row.sync();
    row.checkpoint();
    row.call<&Row::swap>(1999, 5);
    row.checkpoint();
    plain.checkpoint();
    if (session == 2) break;
  }
}

TEST_P(ObjectsResize, HistoriesAreKept) {
  for (int session = 0; session < 3; ++session) {
    Objects objects = Objects::open(uri());
    ObjectOptions with = options(10);
    with.history = ObjectHistory::kLast;
    with.callers = 4;
    auto row = objects.object<Row>("row", with);
    const Caller caller(objects, 7);
    EXPECT_EQ(caller.recorded(row), static_cast<u64>(session));
    row.resize(bytes_of(10 + session * 1000));
    EXPECT_EQ(caller.recorded(row), static_cast<u64>(session));
    EXPECT_EQ(row.call<&Row::swap>(9, session + 1), static_cast<u64>(session));
    row.resize(bytes_of(500));
    EXPECT_EQ(caller.last_answer<std::uint64_t>(row), static_cast<u64>(session));
  }
}

// The program is run again: a resize that is recorded is not done again.
TEST_P(ObjectsResize, IsRecordedOfObjectsThatKeepAllCalls) {
  ObjectOptions with = options(10);
  with.history = ObjectHistory::kAll;
  with.archive_bytes = 1 << 16;
  const auto program = [&](int steps) {
    Objects objects = Objects::open(uri());
    auto row = objects.object<Row>("row", with);
    const Caller caller(objects, 3);
    for (int i = 0; i < steps; ++i) {
      EXPECT_EQ(row.call<&Row::swap>(0, i + 1), static_cast<u64>(i)) << i;
      if (i % 4 == 1) row.resize(bytes_of(10 + i));
    }
    return row.bytes();
  };
  EXPECT_EQ(program(6), bytes_of(15));
  EXPECT_EQ(program(3), bytes_of(15)) << "it was run again up to here alone";
  EXPECT_EQ(program(30), bytes_of(10 + 29));
  EXPECT_EQ(program(30), bytes_of(10 + 29));
  Objects objects = Objects::open(uri());
  auto row = objects.object<Row>("row", with);
  const Caller caller(objects, 3);
  expect_error([&] { row.resize(bytes_of(50)); }, Code::kMisuse, "now is a resize to");
}

TEST_P(ObjectsResize, IsRefusedWhereProcessesShareTheObject) {
  {
    Objects objects = Objects::open(uri());
    objects.object<Row>("row", options(10)).call<&Row::swap>(9, 5);
  }
  {
    Objects objects = Objects::open(uri(), {.shared = true});
    auto row = objects.object<Row>("row", options());
    expect_error([&] { row.resize(bytes_of(20)); }, Code::kUnsupported,
                 "in one process, without ObjectsOptions::shared");
    EXPECT_EQ(row.call<&Row::swap>(9, 6), 5u) << "it goes on";
    EXPECT_EQ(row.bytes(), bytes_of(10));
  }
  {
    Objects objects = Objects::open(uri());
    objects.object<Row>("row", options()).resize(bytes_of(2000));
  }
  Objects objects = Objects::open(uri(), {.shared = true});
  auto row = objects.object<Row>("row", options());
  EXPECT_EQ(row.call<&Row::swap>(1999, 1), 0u);
  EXPECT_EQ(row.read<&Row::get>(9), 6u);
  EXPECT_EQ(row.read<&Row::all>().bytes_seen, bytes_of(2000));
}

// --- space and memory ----------------------------------------------------------------------------

constexpr u64 kPageWords = kPageBytes / sizeof(u64);

// Space for two rows of eight pages, or for one twice.
class ObjectsResizeOverflow : public ObjectsResize {
 protected:
  static constexpr u64 kSmall = 7 * kPageWords;
  ObjectsOptions overflowing() const {
    return {.bytes_max = 2 * (2 * 8 * kPageBytes + 8192) + 8 * kPageBytes,
            .overflow = uri("overflow.pd")};
  }
};
INSTANTIATE_TEST_SUITE_P(Media, ObjectsResizeOverflow, testing::Values("emu:", "file:"),
                         name_of_scheme);

TEST_P(ObjectsResizeOverflow, OthersMoveOutForOneThatGrowsAndItComesHomeForThat) {
  for (int session = 0; session < 3; ++session) {
    Objects objects = Objects::open(uri(), overflowing());
    std::vector<Object<Row>> rows;
    for (int i = 0; i < 3; ++i)
      rows.push_back(objects.object<Row>("row " + std::to_string(i), options(kSmall)));
    const u64 before = objects.moves().out;
    for (int i = 0; i < 3; ++i) {  // the first of them is away by then
      rows[i].resize(bytes_of(kSmall + 10 * (session + 1) + i));
      EXPECT_EQ(rows[i].call<&Row::swap>(i, session + 1), static_cast<u64>(session));
    }
    EXPECT_GT(objects.moves().out, before);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(rows[i].bytes(), bytes_of(kSmall + 10 * (session + 1) + i));
      EXPECT_EQ(rows[i].read<&Row::get>(i), static_cast<u64>(session) + 1);
    }
  }
}

// The only one that could move is the one that is resized.
TEST_P(ObjectsResizeOverflow, OneThatGrowsDoesNotMoveOutForItself) {
  Objects objects = Objects::open(uri(), overflowing());
  auto row = objects.object<Row>("row", options(kSmall));
  EXPECT_EQ(row.call<&Row::swap>(1, 7), 0u);
  expect_error([&] { row.resize(bytes_of(4 * kSmall)); }, Code::kNoSpace, "can be moved to");
  EXPECT_EQ(row.bytes(), bytes_of(kSmall));
  EXPECT_EQ(objects.moves().out, 0u);
  EXPECT_EQ(row.call<&Row::swap>(1, 8), 7u);
  row.resize(bytes_of(kSmall / 2));
  EXPECT_EQ(row.call<&Row::swap>(1, 9), 8u);
}

// Nothing is taken by what was refused.
TEST_P(ObjectsResize, WhereThereIsNoSpaceItIsAsItWas) {
  Objects objects = Objects::open(uri(), {.bytes_max = 12 * kPageBytes});
  auto row = objects.object<Row>("row", options(kPageWords / 2));
  row.call<&Row::swap>(1, 7);
  for (int i = 0; i < 20; ++i) {
    expect_error([&] { row.resize(bytes_of(5 * kPageWords)); }, Code::kNoSpace, "bytes left");
    row.resize(bytes_of(kPageWords + i));
  }
  EXPECT_EQ(row.call<&Row::swap>(1, 8), 7u);
  EXPECT_EQ(row.bytes(), bytes_of(kPageWords + 19));
}

TEST_P(ObjectsResize, WantOfMemoryLeavesOneSizeOrTheOther) {
  const TestThread test_thread;
  u64 words = 50;
  u64 value = 0;
  u64 kept = 0;
  u64 failed = 1;
  for (u64 nth = 1; failed != 0; ++nth) {
    ASSERT_LT(nth, 500u);
    const u64 next = 50 + (nth % 2) * 3000 + nth;
    bool resized = true;
    {
      Objects objects = Objects::open(uri());
      ObjectOptions how = options(50);
      how.verify_replay = nth % 3 == 0;
      auto row = objects.object<Row>("row", how);
      ASSERT_EQ(row.bytes(), bytes_of(words)) << nth;
      EXPECT_EQ(row.call<&Row::swap>(3, nth), value);
      value = nth;
      const CallFault fault{.call = Call::kAllocate, .nth = nth, .own = true};
      arm_calls(&fault);
      try {
        in_library([&] { row.resize(bytes_of(next)); });
      } catch (const Error&) {
        resized = false;
      }
      disarm_calls();
      failed = calls_failed();
      if (resized) {
        EXPECT_EQ(row.bytes(), bytes_of(next)) << nth;
      }
      try {
        EXPECT_EQ(row.call<&Row::swap>(3, nth + 1), nth);
        value = nth + 1;
        if (!resized) {
          EXPECT_EQ(row.bytes(), bytes_of(words)) << nth;
          ++kept;
        }
      } catch (const Error&) {
        EXPECT_FALSE(resized) << "what returned has failed, " << nth;
      }
    }
    Objects objects = Objects::open(uri());
    const auto row = objects.object<Row>("row");
    EXPECT_TRUE(row.bytes() == bytes_of(next) || (!resized && row.bytes() == bytes_of(words)));
    words = (row.bytes() - sizeof(Row)) / sizeof(u64);
    EXPECT_EQ(row.read<&Row::get>(3), value) << nth;
  }
  EXPECT_GT(kept, 3u);
}

// --- crashes -------------------------------------------------------------------------------------

// Two of them get each other's space. At each moment each is of a size that it had, with the calls
// of that time; and no space is two objects', nor lost.
TEST_P(ObjectsResize, ACrashLeavesOneSizeOrTheOther) {
  struct Step {
    size_t durable;  ///< at so many calls of the medium
    u64 words;
    u64 calls;
    u64 sum;
  };
  const Row initial{};
  const auto methods = detail::methods_of<Row>(Methods<Row>{});
  const detail::ObjectType type{typeid(Row).name(), sizeof(Row), methods, &initial, true};
  const auto put = [](detail::OpenObject& object, u64 at, u64 value) {
    const auto context = detail::TraitsOf<&Row::swap>::pack(at, value);
    u64 answer = 0;
    value_or_throw(object.core().call(object.call_of(1, 0, Domain::kAll, context), &answer));
  };
  media::Recording recording;
  std::vector<Step> steps[2];
  size_t begin = 0;
  {
    const auto runtime = value_or_throw(
        detail::ObjectsRuntime::open(uri(), {}, [&]() -> Result<std::unique_ptr<media::Medium>> {
          PERDURA_ASSIGN(media::OpenedMedium opened, media::open_medium(uri(), {}));
          return recording.wrap(std::move(opened.medium));
        }));
    std::vector<std::shared_ptr<detail::OpenObject>> rows;
    std::vector<Words> models(2, Words(100));
    for (int i = 0; i < 2; ++i) {
      rows.push_back(value_or_throw(runtime->object(std::to_string(i), type, options(100))));
      steps[i].push_back({recording.size(), 100, 0, 0});
    }
    begin = recording.size();
    std::mt19937_64 random(4);
    for (u64 step = 1; step <= 24; ++step) {
      const int i = static_cast<int>(random() % 2);
      Step next = steps[i].back();
      if (step % 3 == 0) {
        models[i].resize(1 + random() % 1500);
        value_or_throw(rows[i]->resize(bytes_of(models[i].size())));
      } else {
        const u64 at = random() % models[i].size();
        models[i][at] = random();
        put(*rows[i], at, models[i][at]);
        ++next.calls;
      }
      next.durable = recording.size();
      next.words = models[i].size();
      next.sum = std::accumulate(models[i].begin(), models[i].end(), next.calls);
      steps[i].push_back(next);
    }
    runtime->abandon();
  }
  const media::History history = recording.history();
  const u64 size = history.size_after(history.calls().size());
  u64 states = 0;
  for_each_crash(
      history, begin, 3,
      [&](size_t end, const FileBytes& image) {
        write_file(folder_.path("crashed.pd"), image);
        Objects objects = Objects::open(uri("crashed.pd"));
        ++states;
        for (int i = 0; i < 2; ++i) {
          const auto row = objects.object<Row>(std::to_string(i));
          const u64 words = row.read<&Row::size>();
          const u64 sum = row.read<&Row::sum>();
          const auto last = std::find_if(steps[i].rbegin(), steps[i].rend(),
                                         [&](const Step& step) { return step.durable <= end; });
          const auto found = std::find_if(last.base() - 1, steps[i].end(), [&](const Step& step) {
            return step.words == words && step.sum == sum;
          });
          ASSERT_NE(found, steps[i].end()) << "object " << i << " at " << end;
        }
        for (const char* each : {"0", "1"}) objects.object<Row>(each).resize(bytes_of(1500));
        objects.close();
        ASSERT_LE(std::filesystem::file_size(folder_.path("crashed.pd")), size) << "space is lost";
      },
      [] { return !HasFatalFailure(); });
  EXPECT_GT(states, 100u);
}

}  // namespace
}  // namespace perdura::test
