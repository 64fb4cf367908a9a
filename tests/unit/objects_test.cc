// Goal: what is called of an object is durable as its kind says, whatever ends the process; objects
// of a store come and go without touching each other. Method: states whose methods add up, opened
// again after orderly ends, kills and other programs' methods.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include <perdura/objects.hpp>
#include <perdura/perdura.hpp>

#include "object/object_log.hpp"
#include "object/object_table.hpp"
#include "store/inspect.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/memcached_server.hpp"
#include "support/process.hpp"
#include "support/scheme_names.hpp"
#include "support/slice.hpp"

namespace perdura::test {

struct Seats {
  std::int32_t sold[64];
  std::uint64_t calls;
  void sell(int row, std::int64_t count) noexcept {
    sold[row] += static_cast<std::int32_t>(count);
    ++calls;
  }
  void clear() noexcept { *this = {}; }
  int reserve(int row) noexcept {
    ++calls;
    return sold[row]++;
  }
  int left(int row) const noexcept { return 100 - sold[row]; }
};

/// All that can be said of methods.
struct Rows {
  std::int64_t sums[4];
  std::uint64_t order[4];  ///< of what was put
  void add(int row, std::int64_t count) noexcept { sums[row] += count; }
  void put(int row, std::uint64_t value) noexcept { order[row] = 31 * order[row] + value; }
  std::uint64_t told(int row, std::uint64_t value) noexcept {
    put(row, value);
    return order[row];
  }
  void clear() noexcept { *this = {}; }
  std::int64_t sum(int row) const noexcept { return sums[row]; }
  std::uint64_t last(int row) const noexcept { return order[row]; }
  static Domain of(int row) noexcept { return Domain(row); }
  static bool join(std::tuple<int, std::int64_t>& first,
                   const std::tuple<int, std::int64_t>& next) noexcept {
    if (std::get<0>(first) != std::get<0>(next)) return false;
    std::get<1>(first) += std::get<1>(next);
    return true;
  }
  static bool is_row(int row, std::int64_t) noexcept { return row >= 0 && row < 4; }
};

std::uint64_t next_value = 0;  // which is not of the state
struct Unsound {
  std::uint64_t value;
  void set_next() noexcept { value = ++next_value; }
  std::uint64_t tell_next() noexcept { return ++next_value; }
};

std::function<void()> meddled;  // by a method
struct Meddler {
  std::uint64_t calls;
  /// Whether that is misuse.
  bool meddle() noexcept {
    ++calls;
    try {
      meddled();
    } catch (const Error& error) {
      return error.code() == Code::kMisuse;
    }
    return false;
  }
  std::uint64_t count() const noexcept { return calls; }
};

/// Counts its runs outside of the state.
int counted_runs = 0;
struct Counted {
  std::uint64_t value;
  void count() noexcept {
    ++value;
    ++counted_runs;
  }
  std::uint64_t now() const noexcept { return value; }
};

/// Of whatever size.
struct Flexible {
  static constexpr bool kIsFlexible = true;
  std::uint64_t value;
  std::uint64_t next() noexcept { return ++value; }
};

struct Other {
  std::uint64_t value;
  void set(std::uint64_t to) noexcept { value = to; }
};

struct Left {
  std::int32_t left;
  void set_left(std::int32_t to) noexcept { left = to; }
};
struct Right {
  std::int32_t right;
  void set_right(std::int32_t to) noexcept { right = to; }
  int twice(std::int32_t more) noexcept { return right += 2 * more; }
};
struct Both : Left, Right {
  int sum() const noexcept { return 1000 * left + right; }
};

struct Wide {
  struct Words {
    std::uint64_t words[508];
  };
  std::uint64_t first;
  void put(Words words) noexcept { first = words.words[507]; }
  std::uint64_t get() const noexcept { return first; }
};
struct Huge {
  struct Bytes {
    char bytes[(1 << 20) + 1];
  };
  char first;
  void put(const Bytes& bytes) noexcept { first = bytes.bytes[0]; }
};

}  // namespace perdura::test

template <>
struct perdura::Methods<perdura::test::Rows>
    : perdura::MethodList<perdura::Deferrable<&perdura::test::Rows::add, &perdura::test::Rows::of,
                                              &perdura::test::Rows::join, perdura::kCommutes,
                                              &perdura::test::Rows::is_row>,
                          perdura::Deferrable<&perdura::test::Rows::put, &perdura::test::Rows::of>,
                          perdura::Deferrable<&perdura::test::Rows::clear>,
                          perdura::Instant<&perdura::test::Rows::told, &perdura::test::Rows::of>> {
};
template <>
struct perdura::Methods<perdura::test::Unsound>
    : perdura::MethodList<perdura::Deferrable<&perdura::test::Unsound::set_next>,
                          perdura::Instant<&perdura::test::Unsound::tell_next>> {};
template <>
struct perdura::Methods<perdura::test::Meddler>
    : perdura::MethodList<perdura::Instant<&perdura::test::Meddler::meddle>> {};
template <>
struct perdura::Methods<perdura::test::Both>
    : perdura::MethodList<perdura::Deferrable<&perdura::test::Both::set_left>,
                          perdura::Deferrable<&perdura::test::Both::set_right>,
                          perdura::Instant<&perdura::test::Both::twice>> {};
template <>
struct perdura::Methods<perdura::test::Wide>
    : perdura::MethodList<perdura::Deferrable<&perdura::test::Wide::put>> {};
template <>
struct perdura::Methods<perdura::test::Huge>
    : perdura::MethodList<perdura::Deferrable<&perdura::test::Huge::put>> {};
template <>
struct perdura::Methods<perdura::test::Seats>
    : perdura::MethodList<perdura::Deferrable<&perdura::test::Seats::sell>,
                          perdura::Deferrable<&perdura::test::Seats::clear>,
                          perdura::Instant<&perdura::test::Seats::reserve>> {};
template <>
struct perdura::Methods<perdura::test::Counted>
    : perdura::MethodList<perdura::Deferrable<&perdura::test::Counted::count>> {};
template <>
struct perdura::Methods<perdura::test::Flexible>
    : perdura::MethodList<perdura::Instant<&perdura::test::Flexible::next>> {};
template <>
struct perdura::Methods<perdura::test::Other>
    : perdura::MethodList<perdura::Deferrable<&perdura::test::Other::set>> {};

namespace perdura::test {
namespace {

class ObjectsOf : public testing::TestWithParam<const char*> {
 protected:
  std::string uri() const { return GetParam() + folder_.path("objects.pd"); }
  Objects open() const { return Objects::open(uri()); }
  object::ObjectTable::Entry entry_of(const char* name) const {
    auto opened = value_or_throw(media::open_medium(uri(), {.create = false, .read_only = true}));
    const auto volume = value_or_throw(region::Volume::open_to_read(std::move(opened.medium)));
    object::ObjectTable table(*volume, 1);
    value_or_throw(table.read());
    return *table.find(name);
  }
  /// That are whole there, behind the last checkpoint.
  u64 entries_in_log(const std::string& name) const {
    const object::ObjectTable::Entry entry = entry_of(name.c_str());
    auto opened = value_or_throw(media::open_medium(uri(), {.create = false, .read_only = true}));
    const auto log = value_or_throw(object::ObjectLog::create(*opened.medium->linear(),
                                                              {.offset = entry.head.log_place,
                                                               .lines = entry.head.log_lines,
                                                               .identity = entry.head.identity,
                                                               .session = entry.head.session},
                                                              entry.head.checkpoint));
    return log->recover(entry.head.session) ? log->tail() - entry.head.checkpoint : 0;
  }

  const TempDir folder_{TempDir::kMemory};
};

TEST_P(ObjectsOf, AStoreAreThereAgain) {
  {
    Objects objects = open();
    auto hall = objects.object<Seats>("hall");
    auto other = objects.object<Other>("other");
    hall.defer<&Seats::sell>(3, 2);
    EXPECT_EQ(hall.call<&Seats::reserve>(3), 2);
    EXPECT_EQ(hall.read<&Seats::left>(3), 97);
    other.defer<&Other::set>(77u);
    objects.close();
  }
  for (int session = 0; session < 3; ++session) {
    Objects objects = open();
    auto hall = objects.object<Seats>("hall");
    EXPECT_EQ(hall.call<&Seats::reserve>(3), 3 + session);
    const auto list = objects.list();
    ASSERT_EQ(list.size(), 2u);
    EXPECT_EQ(list[0].name, "hall");
    EXPECT_EQ(list[0].bytes, sizeof(Seats));
    EXPECT_EQ(list[1].name, "other");
  }
}

TEST_P(ObjectsOf, ThatAreRemovedAreNewOnesAgain) {
  for (int round = 0; round < 50; ++round) {
    Objects objects = open();
    for (const char* const name : {"first", "second"}) {
      auto hall = objects.object<Seats>(name);
      EXPECT_EQ(hall.call<&Seats::reserve>(1), 0) << name << round;
      hall.defer<&Seats::sell>(1, 5);
    }
    expect_error([&] { objects.remove("third"); }, Code::kNotFound, "has no object 'third'");
    {
      auto used = objects.object<Seats>("first");
      expect_error([&] { objects.remove("first"); }, Code::kMisuse, "is in use");
    }
    objects.remove("first");
    if (round % 2 == 0) objects.close();
    Objects again = round % 2 == 0 ? open() : std::move(objects);
    again.remove("second");
    EXPECT_TRUE(again.list().empty());
  }
  EXPECT_LT(std::filesystem::file_size(folder_.path("objects.pd")), 16 * kMiB);
}

// Who removes one that somebody has is refused, and that is all: it does not go later by itself.
TEST_P(ObjectsOf, ThatAreRemovedAreGoneThenAndNotLater) {
  Objects objects = open();
  counted_runs = 0;
  {
    auto counted = objects.object<Counted>("counted");
    const auto copy = counted;
    counted.defer<&Counted::count>();
    expect_error([&] { objects.remove("counted"); }, Code::kMisuse,
                 "object 'counted' is in use; let go of it before it is removed");
    counted.defer<&Counted::count>();
    EXPECT_EQ(copy.read<&Counted::now>(), 2u);
    counted.defer<&Counted::count>();
  }
  EXPECT_EQ(objects.list().size(), 1u) << "it went by itself";
  EXPECT_EQ(counted_runs, 2);
  objects.remove("counted");
  EXPECT_TRUE(objects.list().empty());
  expect_error([&] { objects.remove("counted"); }, Code::kNotFound,
               "has no object 'counted'; Objects::list() names those that it has");
  EXPECT_EQ(objects.object<Counted>("counted").read<&Counted::now>(), 0u);
  objects.close();
  EXPECT_EQ(counted_runs, 2) << "what was deferred of an object that is gone has run";
  EXPECT_EQ(open().object<Counted>("counted").read<&Counted::now>(), 0u);
}

// Each option at both of its ends, and beyond them. What is in its range and has no space gets
// that far.
TEST_P(ObjectsOf, OptionsHaveTheRangesThatTheySay) {
  Objects objects = Objects::open(uri(), {.bytes_max = 4 << 20});
  const std::string named =
      "object 'one' of '" + folder_.path("objects.pd") + "': ";  // and what is wrong
  const auto refused = [&](const ObjectOptions& options, const std::string& why) {
    expect_error([&] { objects.object<Flexible>("one", options); }, Code::kInvalidArgument,
                 named + why);
    EXPECT_TRUE(objects.list().empty());
  };
  const auto is_too_large = [&](const ObjectOptions& options) {
    expect_error([&] { objects.object<Flexible>("one", options); }, Code::kNoSpace, "bytes left");
    EXPECT_TRUE(objects.list().empty());
  };
  const auto taken = [&](const ObjectOptions& options) {
    EXPECT_EQ(objects.object<Flexible>("one", options).call<&Flexible::next>(), 1u);
    objects.remove("one");
  };
  constexpr u64 kMost = ~u64{0};
  const auto log_bytes = [](u64 bytes) { return ObjectOptions{.log_bytes = bytes}; };
  taken(log_bytes(4096));
  is_too_large(log_bytes(1 << 30));
  for (const u64 bytes : {u64{0}, u64{2048}, u64{4097}, u64{1} << 31, kMost})
    refused(log_bytes(bytes),
            "log_bytes is a power of two from 4096 to 1073741824, not " + std::to_string(bytes));

  const auto callers = [](u32 count) {
    return ObjectOptions{
        .log_bytes = 8192, .history = ObjectHistory::kLast, .callers = count, .archive_bytes = 0};
  };
  taken(callers(1));
  is_too_large(callers(1 << 20));
  for (const u32 count : {0u, 3u, 1u << 21, ~0u})
    refused(callers(count),
            "callers is a power of two from 1 to 1048576, not " + std::to_string(count));
  taken({.callers = 3});  // of what keeps no history

  const auto archive = [](u64 bytes) {
    return ObjectOptions{
        .log_bytes = 8192, .history = ObjectHistory::kAll, .callers = 1, .archive_bytes = bytes};
  };
  taken(archive(1));
  is_too_large(archive(u64{1} << 38));
  for (const u64 bytes : {u64{0}, (u64{1} << 38) + 1, kMost})
    refused(archive(bytes), "archive_bytes is 1 to 274877906944, not " + std::to_string(bytes));

  const auto sized = [](u64 bytes) { return ObjectOptions{.log_bytes = 4096, .bytes = bytes}; };
  taken(sized(0));
  taken(sized(8));
  is_too_large(sized(u64{1} << 40));
  for (const u64 bytes : {u64{1}, u64{7}, (u64{1} << 40) + 1, kMost})
    refused(sized(bytes), "objects of perdura::test::Flexible have 8 to 1099511627776 bytes, not " +
                              std::to_string(bytes));

  taken({.log_bytes = 4096, .pending_lines = 1});
  taken({.log_bytes = 4096, .pending_lines = ~0u});
  refused({.pending_lines = 0}, "pending_lines is at least 1");
  taken({.log_bytes = 4096, .pending_ms = ~0u, .servers = ~0u});
  taken({.log_bytes = 4096, .durability = ObjectDurability::kRelaxed});
  refused({.durability = static_cast<ObjectDurability>(4)}, "durability 4 is none of");
  refused({.history = static_cast<ObjectHistory>(3)}, "history 3 is none of ObjectHistory");

  auto one = objects.object<Flexible>("one", sized(8));
  expect_error([&] { one.resize(u64{1} << 40); }, Code::kNoSpace, "bytes left");
  expect_error([&] { one.resize((u64{1} << 40) + 1); }, Code::kInvalidArgument,
               "object 'one' of '" + folder_.path("objects.pd") +
                   "' can have at most 1099511627776 bytes, not 1099511627777");
  expect_error([&] { one.resize(7); }, Code::kInvalidArgument, "object 'one' has at least");
  one.resize(8);

  const std::string longest(127, 'n');
  EXPECT_EQ(objects.object<Flexible>(longest, sized(0)).call<&Flexible::next>(), 1u);
  for (const std::string& name : {std::string(), longest + "n", std::string("a\0b", 3)})
    expect_error([&] { objects.object<Flexible>(name); }, Code::kInvalidArgument,
                 "of an object of '" + folder_.path("objects.pd") + "' has " +
                     std::to_string(name.size()) + " bytes; it has 1 to 127");
}

// A checkpoint after each call, which versions count; or after none.
TEST_P(ObjectsOf, AnyNumberOfCallsMayBeBetweenCheckpoints) {
  Objects objects = open();
  for (const auto& [calls, expected] : {std::pair<u64, u64>{0, 11}, {1, 11}, {~u64{0}, 1}}) {
    auto hall = objects.object<Seats>("hall" + std::to_string(calls), {.checkpoint_calls = calls});
    const std::uint64_t before = hall.checkpoint();
    for (int i = 0; i < 10; ++i) hall.call<&Seats::reserve>(1);
    EXPECT_EQ(hall.checkpoint() - before, expected) << calls;
  }
}

TEST_P(ObjectsOf, AStoreHaveTheSpaceThatItSays) {
  expect_error(
      [&] {
        Objects objects = Objects::open(uri(), {.bytes_max = 4095});
        objects.object<Other>("other", {.log_bytes = 4096});
      },
      Code::kNoSpace, "bytes left");
  Objects objects = Objects::open(uri(), {.bytes_max = ~u64{0}});
  objects.object<Other>("other", {.log_bytes = 4096}).sync();
  EXPECT_EQ(objects.list().at(0).type, "perdura::test::Other");
}

TEST_P(ObjectsOf, MethodsOfBasesAreTheirs) {
  {
    Objects objects = open();
    auto both = objects.object<Both>("both");
    both.defer<&Both::set_left>(1);
    both.defer<&Both::set_right>(2);
    EXPECT_EQ(both.call<&Both::twice>(3), 8);
    EXPECT_EQ(both.read<&Both::sum>(), 1008);
  }
  Objects objects = open();
  EXPECT_EQ(objects.object<Both>("both").read<&Both::sum>(), 1008);
}

// Where a call does not fit into the log it could wait for ever.
TEST_P(ObjectsOf, CallsThatNoLogHoldsAreRefused) {
  Objects objects = open();
  const std::string of_store = "' of '" + folder_.path("objects.pd") + "': method perdura::test::";
  expect_error([&] { objects.object<Huge>("huge"); }, Code::kInvalidArgument,
               "object 'huge" + of_store +
                   "Huge::put(perdura::test::Huge::Bytes const&) takes 1048577 bytes");
  expect_error([&] { objects.object<Wide>("wide", {.log_bytes = 4096}); }, Code::kInvalidArgument,
               "object 'wide" + of_store +
                   "Wide::put(perdura::test::Wide::Words) takes 4064 bytes of arguments; that "
                   "needs log_bytes of 8192");
  auto wide = objects.object<Wide>("wide", {.log_bytes = 8192});
  for (u64 i = 0; i < 300; ++i) {
    Wide::Words words{};
    words.words[507] = i;
    wide.defer<&Wide::put>(words);
    EXPECT_EQ(wide.read<&Wide::get>(), i);
  }
}

// No more than a quarter of the log that it has waits, whatever is wished when it is opened.
TEST_P(ObjectsOf, ASmallLogKeepNoMoreWaiting) {
  for (int session = 0; session < 2; ++session) {
    const pid_t child = ::fork();
    if (child == 0) {
      Objects objects = open();
      auto hall = objects.object<Seats>(
          "hall", session == 0 ? ObjectOptions{.log_bytes = 8192} : ObjectOptions{});
      for (int i = 0; i < 100; ++i) hall.defer<&Seats::sell>(session, 1);
      ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
  }
  Objects objects = open();
  auto hall = objects.object<Seats>("hall");
  for (int session = 0; session < 2; ++session)
    EXPECT_LE(hall.read<&Seats::left>(session), 32) << session;
}

TEST_P(ObjectsOf, AnotherTypeAreRefused) {
  Objects objects = open();
  objects.object<Seats>("hall");
  expect_error([&] { objects.object<Other>("hall"); }, Code::kTypeMismatch, "object 'hall'");
  expect_error([&] { objects.object<Other>(""); }, Code::kInvalidArgument, "has 0 bytes");
  expect_error([&] { objects.object<Other>("x", {.log_bytes = 5000}); }, Code::kInvalidArgument,
               "log_bytes is a power of two");
}

TEST_P(ObjectsOf, AStoreAreSeenByTheCommands) {
  {
    Objects objects = open();
    objects.object<Seats>("hall").call<&Seats::reserve>(1);
    objects.object<Other>("other");
    Store heap = Store::open(uri(), {.region = "heap"});
    heap.checkpoint();
    heap.close();
    objects.close();
  }
  const auto report = value_or_throw(store::check(uri(), {}));
  EXPECT_TRUE(report.findings.empty());
  const auto description = value_or_throw(store::describe(uri(), {}));
  ASSERT_EQ(description.regions.size(), 2u);
  ASSERT_TRUE(description.regions[0].objects);
  ASSERT_EQ(description.regions[0].objects->size(), 2u);
  EXPECT_EQ(description.regions[0].objects->at(0).name, "hall");
  EXPECT_EQ(description.regions[0].objects->at(0).bytes, sizeof(Seats));
  EXPECT_FALSE(description.regions[1].objects);
  expect_error([&] { Store::open(uri(), {.region = "objects"}); }, Code::kUnsupported,
               "holds objects, not a heap");
  expect_error([&] { Objects::open(uri(), {.region = "heap"}); }, Code::kInvalidArgument,
               "holds a heap, not objects");
}

// As long as it is it would be another one than what the directory has of it.
TEST_P(ObjectsOf, ARegionHasANameThatTheDirectoryHolds) {
  const std::string longest(31, 'r');
  for (int session = 1; session <= 2; ++session) {
    for (const std::string& refused : {longest + "r", std::string("a\0b", 3)})
      expect_error([&] { Objects::open(uri(), {.region = refused}); }, Code::kInvalidArgument,
                   "region is a name of up to 31 bytes");
    Objects objects = Objects::open(uri(), {.region = longest});
    EXPECT_EQ(objects.object<Seats>("hall").call<&Seats::reserve>(1), session - 1);
  }
  EXPECT_TRUE(value_or_throw(store::check(uri(), {})).findings.empty());
}

// A process is killed while its threads call: nothing that was answered is lost, and nothing is
// done twice.
TEST_P(ObjectsOf, KilledProcessesKeepWhatTheyAnswered) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer ends children that start threads where their parent had some";
#endif
  constexpr int kThreads = 3;
  struct Shared {
    std::atomic<int> answered[kThreads];
  };
  void* const at =
      ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(at, MAP_FAILED);
  auto& shared = *new (at) Shared{};
  std::mt19937_64 random(1);
  for (u64 kill = 0; kill < slice_or_whole(6, 60); ++kill) {
    const pid_t child = ::fork();
    if (child == 0) {
      Objects objects = open();
      auto hall = objects.object<Seats>("hall", {.log_bytes = 8192, .checkpoint_calls = 50});
      std::vector<std::thread> threads;
      for (int thread = 0; thread < kThreads; ++thread)
        threads.emplace_back([&, thread] {
          for (;;) {
            hall.defer<&Seats::sell>(10 + thread, 1);
            // Each row is one thread's: its answers follow each other.
            const int answer = hall.call<&Seats::reserve>(thread);
            shared.answered[thread].store(answer + 1);
          }
        });
      for (std::thread& each : threads) each.join();
    }
    ::usleep(static_cast<useconds_t>(20'000 + random() % 30'000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    Objects objects = open();
    auto hall = objects.object<Seats>("hall", {.log_bytes = 8192});
    for (int thread = 0; thread < kThreads; ++thread) {
      const int reserved = 100 - hall.read<&Seats::left>(thread);
      const int deferred = 100 - hall.read<&Seats::left>(10 + thread);
      EXPECT_GE(reserved, shared.answered[thread].load());
      EXPECT_LE(reserved, shared.answered[thread].load() + 1);
      EXPECT_GE(deferred, reserved);
      EXPECT_LE(deferred, reserved + 1 + static_cast<int>(kill));
      shared.answered[thread].store(reserved);
    }
  }
  EXPECT_GT(shared.answered[0].load(), 0);
  ::munmap(at, kPageBytes);
}

TEST_P(ObjectsOf, ClosedOnesAndThoseOfAParentSaySo) {
  Objects objects = open();
  auto hall = objects.object<Seats>("hall");
  EXPECT_EQ(hall.call<&Seats::reserve>(1), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    int refused = 0;
    const auto expect_forked = [&](auto&& call) {
      try {
        call();
      } catch (const Error& error) {
        refused += error.code() == Code::kForked ? 1 : 0;
      }
    };
    expect_forked([&] { hall.call<&Seats::reserve>(1); });
    expect_forked([&] { hall.defer<&Seats::sell>(1, 1); });
    expect_forked([&] { hall.sync(); });
    expect_forked([&] { objects.object<Seats>("other"); });
    expect_forked([&] { objects.list(); });
    try {
      objects.remove("hall");
    } catch (const Error& error) {
      const std::string expected = "the objects of '" + folder_.path("objects.pd") +
                                   "' were opened by the parent process; open them again";
      refused += std::string(error.what()).find(expected) != std::string::npos ? 1 : 0;
    }
    {
      const Objects gone = std::move(objects);
    }
    ::_exit(refused == 6 ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(hall.call<&Seats::reserve>(1), 1);
  objects.close();
  expect_error([&] { hall.call<&Seats::reserve>(1); }, Code::kMisuse, "is closed");
  expect_error([&] { hall.read<&Seats::left>(1); }, Code::kMisuse, "is closed");
  const std::string are_closed =
      "the objects of '" + folder_.path("objects.pd") + "' are closed; open them again";
  expect_error([&] { objects.object<Seats>("hall"); }, Code::kMisuse, are_closed);
  expect_error([&] { objects.list(); }, Code::kMisuse, are_closed);
  expect_error([&] { objects.recorded(1); }, Code::kMisuse, are_closed);
  const Objects moved = std::move(objects);
  expect_error([&] { objects.remove("hall"); }, Code::kMisuse, "moved from");
  const Object<Seats> elsewhere = std::move(hall);
  expect_error([&] { hall.call<&Seats::reserve>(1); }, Code::kMisuse, "moved from");
  expect_error([&] { hall.defer<&Seats::sell>(1, 1); }, Code::kMisuse, "moved from");
  expect_error([&] { hall.read<&Seats::left>(1); }, Code::kMisuse, "moved from");
  expect_error([&] { hall.sync(); }, Code::kMisuse, "moved from");
  expect_error([&] { hall.checkpoint(); }, Code::kMisuse, "moved from");
  expect_error([&] { hall.bytes(); }, Code::kMisuse, "moved from");
  EXPECT_EQ(open().object<Seats>("hall").call<&Seats::reserve>(1), 2);
}

// The version is that of the head on the medium, whose copy has all that was called before.
TEST_P(ObjectsOf, ACheckpointSaysWhatIsResilient) {
  std::uint64_t last = 0;
  int sold = 0;
  for (const ObjectDurability durability :
       {ObjectDurability::kInstants, ObjectDurability::kRelaxed, ObjectDurability::kEach}) {
    Child child([&]() -> std::string {
      auto& objects = *new Objects(open());  // never closed
      Object<Seats> hall = objects.object<Seats>("hall", {.durability = durability});
      hall.defer<&Seats::sell>(3, 2);
      const std::uint64_t first = hall.checkpoint();
      const std::uint64_t unchanged = hall.checkpoint();
      hall.defer<&Seats::sell>(3, 5);
      const std::uint64_t version = hall.checkpoint();
      return last < first && first < unchanged && unchanged < version ? std::to_string(version)
                                                                      : "0";
    });
    const std::uint64_t version = std::stoull(child.wait());
    ASSERT_GT(version, last);
    const format::ObjectHead head = entry_of("hall").head;
    EXPECT_EQ(head.sequence, version);
    Seats copy;
    std::memcpy(&copy, read_file(folder_.path("objects.pd")).data() + head.copy_place[head.copy],
                sizeof copy);
    EXPECT_EQ(copy.sold[3], sold += 7);
    last = version;
  }
}

// An object that is let go of by one thread may be removed by another one, and what is closed is
// closed for those who wait meanwhile.
TEST_P(ObjectsOf, ThatThreadsUseAreRemovedAndClosed) {
  const ObjectOptions small{.log_bytes = 4096, .checkpoint_calls = 3};
  for (u64 round = 0; round < slice_or_whole(20, 200); ++round) {
    Objects objects = open();
    std::thread user([hall = objects.object<Seats>("hall", small)]() mutable {
      for (int i = 0; i < 10; ++i) hall.call<&Seats::reserve>(1);
      const auto gone = std::move(hall);
    });
    bool removed = false;
    while (!removed) try {
        objects.remove("hall");
        removed = true;
      } catch (const Error& error) {
        ASSERT_EQ(error.code(), Code::kMisuse) << error.what();
      }
    user.join();
    std::atomic<int> started{0};
    std::vector<std::thread> callers;
    for (int caller = 0; caller < 3; ++caller)
      callers.emplace_back(
          [&started, caller, hall = objects.object<Seats>("hall", small)]() mutable {
            ++started;
            EXPECT_THROW(
                for (;;) {
                  hall.defer<&Seats::sell>(1, 1);
                  if (caller == 0) hall.checkpoint();
                  else hall.call<&Seats::reserve>(1);
                },
                Error);
          });
    while (started != 3) std::this_thread::yield();
    objects.close();
    for (std::thread& each : callers) each.join();
    open().remove("hall");
  }
}

// Each flipped bit of what counts is found; and mended from the other copy and the log, if these
// are whole.
TEST_P(ObjectsOf, AStoreThatAreDamagedAreFound) {
  {
    Objects objects = open();
    auto hall = objects.object<Seats>("hall", {.checkpoint_calls = 3});
    for (int i = 0; i < 8; ++i) hall.call<&Seats::reserve>(i);
    objects.close();
  }
  const std::string path = folder_.path("objects.pd");
  const FileBytes before = read_file(path);
  const object::ObjectTable::Entry entry = entry_of("hall");
  const auto flip = [&](u64 copy, u64 byte) {
    flip_bit(path, entry.head.copy_place[copy] + byte, byte % 8);
  };
  for (u64 byte = 0; byte < entry.head.bytes; byte += 7) {
    flip(entry.head.copy, byte);
    EXPECT_TRUE(value_or_throw(store::check(uri(), {})).damaged()) << byte;
    flip(1 - entry.head.copy, byte);
    expect_error([&] { open().object<Seats>("hall"); }, Code::kCorrupt, "resilient copy");
    flip(1 - entry.head.copy, byte);
    for (int session = 0; session < 2; ++session) {
      Objects objects = open();
      auto hall = objects.object<Seats>("hall");
      for (int row = 0; row < 8; ++row) EXPECT_EQ(hall.read<&Seats::left>(row), 99) << byte;
      EXPECT_EQ(hall.read<&Seats::left>(8), 100) << byte;
    }
    EXPECT_FALSE(value_or_throw(store::check(uri(), {})).damaged()) << byte;
    write_file(path, before);
  }
}

// What a checksum fits may still be what nobody wrote.
TEST_P(ObjectsOf, AStoreWithHeadsThatCannotBeAreRefused) {
  {
    Objects objects = open();
    objects.object<Seats>("hall").call<&Seats::reserve>(1);
  }
  const std::string path = folder_.path("objects.pd");
  const object::ObjectTable::Entry entry = entry_of("hall");
  const FileBytes before = read_file(path);
  const auto expect_refused = [&](auto&& change) {
    format::ObjectHead head = entry.head;
    change(head);
    head.checksum = object::head_checksum(head);
    FileBytes bytes = before;
    std::memcpy(bytes.data() + entry.place + head.sequence % 2 * format::kObjectHeadBytes, &head,
                sizeof head);
    write_file(path, bytes);
    expect_error([&] { open().object<Seats>("hall"); }, Code::kCorrupt, "the head of");
  };
  expect_refused([](format::ObjectHead& head) { head.sequence = format::kCounterMax - 1; });
  expect_refused([](format::ObjectHead& head) { head.sequence = format::kCounterMax; });
  expect_refused([](format::ObjectHead& head) { head.identity = format::kCounterMax; });
  expect_refused([](format::ObjectHead& head) { head.checkpoint = format::kCounterMax; });
  expect_refused([](format::ObjectHead& head) { head.session += 1; });
  expect_refused([](format::ObjectHead& head) { head.session = ~u64{0}; });
  expect_refused([](format::ObjectHead& head) { head.log_place = head.copy_place[0]; });
}

TEST_P(ObjectsOf, MethodsAreCalledAsIsSaidOfThem) {
  for (const std::uint32_t servers : {0u, 1u, 8u}) {
    Objects objects = open();
    auto rows = objects.object<Rows>("rows", {.servers = servers});
    rows.defer<&Rows::clear>();
    std::uint64_t order = 0;
    for (int i = 0; i < 5000; ++i) {
      rows.defer<&Rows::add>(i % 2, i);
      if (i % 7 == 0) rows.defer<&Rows::put>(1, static_cast<std::uint64_t>(i));
      if (i % 7 == 0) order = 31 * order + static_cast<std::uint64_t>(i);
      if (i % 100 != 0) continue;
      order = 31 * order + 5;
      EXPECT_EQ(rows.call<&Rows::told>(1, 5u), order);
    }
    EXPECT_EQ(rows.read<&Rows::sum>(0), 2499 * 2500);
    EXPECT_EQ(rows.read<&Rows::sum>(1), 2500 * 2500);
    EXPECT_EQ(rows.read<&Rows::last>(1), order);
    EXPECT_EQ(rows.read<&Rows::last>(0), 0u);
    expect_error([&] { rows.defer<&Rows::add>(4, 1); }, Code::kInvalidArgument,
                 "does not accept these arguments");
    expect_error([&] { rows.defer<&Rows::add>(-1, 1); }, Code::kInvalidArgument, "'rows'");
    EXPECT_EQ(rows.read<&Rows::sum>(0), 2499 * 2500);
  }
}

TEST_P(ObjectsOf, AMethodThatDoesSomethingElseEachTimeIsFound) {
  Objects objects = open();
  auto unsound = objects.object<Unsound>("unsound", {.verify_replay = true});
  unsound.defer<&Unsound::set_next>();
  expect_error([&] { unsound.sync(); }, Code::kMisuse,
               "method perdura::test::Unsound::set_next() of object 'unsound' did something else");
}

// The state is the same, but a history of it would not be after a crash.
TEST_P(ObjectsOf, AMethodThatAnswersSomethingElseEachTimeIsFound) {
  for (const ObjectHistory history : {ObjectHistory::kNone, ObjectHistory::kLast}) {
    TempDir folder{TempDir::kMemory};
    Objects objects = Objects::open(GetParam() + folder.path("objects.pd"));
    auto unsound = objects.object<Unsound>("unsound", {.history = history, .verify_replay = true});
    expect_error([&] { unsound.call<&Unsound::tell_next>(); }, Code::kMisuse,
                 "Unsound::tell_next() of object 'unsound' did something else");
  }
}

// Whoever runs a method may hold what these wait for: the execution of the object, or, where it is
// the library's thread, the list of all.
TEST_P(ObjectsOf, MethodsThatUseObjectsAreTold) {
  Objects objects = open();
  for (const std::uint32_t servers : {0u, 64u}) {
    auto meddler =
        objects.object<Meddler>("meddler" + std::to_string(servers), {.servers = servers});
    const std::function<void()> ways[] = {[&] { meddler.checkpoint(); },
                                          [&] { meddler.sync(); },
                                          [&] { objects.object<Other>("other"); },
                                          [&] { objects.remove("other"); },
                                          [&] { objects.list(); },
                                          [&] { meddler.bytes(); },
                                          [&] { Objects::open(uri()); },
                                          [&] { objects.recorded(1); },
                                          [&] { objects.close(); }};
    std::uint64_t calls = 0;
    for (const auto& way : ways) {
      meddled = way;
      EXPECT_TRUE(meddler.call<&Meddler::meddle>()) << calls;
      EXPECT_EQ(meddler.read<&Meddler::count>(), ++calls);
    }
  }
  EXPECT_EQ(objects.list().size(), 2u);
}

// As many as may wait, and not one less, beside whoever else looks at the medium.
TEST_P(ObjectsOf, AsManyWaitAsMay) {
  Objects objects = open();
  for (const std::uint32_t lines : {1u, 2u, 5u}) {
    const std::string name = "hall-" + std::to_string(lines);
    auto hall = objects.object<Seats>(name, {.pending_lines = lines});
    for (std::uint32_t call = 1; call <= 3 * lines; ++call) {
      hall.defer<&Seats::sell>(3, 1);
      EXPECT_EQ(entries_in_log(name), call / lines * lines) << lines << ", call " << call;
    }
  }
  // A call counts as many as it takes.
  auto wide = objects.object<Wide>("wide", {.pending_lines = 60});
  wide.defer<&Wide::put>(Wide::Words{});
  EXPECT_GE(entries_in_log("wide"), 60u);
  expect_error([&] { objects.object<Seats>("none", {.pending_lines = 0}); }, Code::kInvalidArgument,
               "pending_lines is at least 1");
}

// Nobody calls any more, and the process is killed.
TEST_P(ObjectsOf, WhatWaitsForLongIsDurable) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    Objects objects = open();
    auto hall = objects.object<Seats>("hall", {.pending_ms = 5});
    auto other =
        objects.object<Seats>("other", {.durability = ObjectDurability::kRelaxed, .pending_ms = 5});
    hall.defer<&Seats::sell>(3, 2);
    other.defer<&Seats::sell>(3, 3);
    other.call<&Seats::reserve>(3);
    (void)!::write(ends[1], "x", 1);
    for (;;) ::pause();
  }
  char called = 0;
  ASSERT_EQ(::read(ends[0], &called, 1), 1);
  // Whoever reads the log finds the calls sooner or later.
  while (entries_in_log("hall") != 1 || entries_in_log("other") != 2) std::this_thread::yield();
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ends[0]);
  ::close(ends[1]);
  Objects objects = open();
  EXPECT_EQ(objects.object<Seats>("hall").read<&Seats::left>(3), 98);
  EXPECT_EQ(objects.object<Seats>("other").read<&Seats::left>(3), 96);
}

// Its server knows objects, which are put as a whole, not the lines of a log.
TEST(ObjectsOnMemcached, AreRefused) {
  const MemcachedProcess server;
  const std::string uri = server.uri("objects");
  expect_error([&] { Objects::open(uri); }, Code::kUnsupported, "use file:, emu: or dax:");
  Options options;
  options.engine = Engine::kRemap;
  options.region_limit_bytes = 64 << 20;
  Store::open(uri, options).close();
  expect_error([&] { Objects::open(uri); }, Code::kUnsupported, "use file:, emu: or dax:");
}

TEST_P(ObjectsOf, ACallerKnowsWhichOfItsCallsAreDurable) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer ends children that start threads where their parent had some";
#endif
  constexpr std::uint32_t kCallers = 3;
  constexpr std::uint64_t kCalls = 3000;
  const ObjectOptions options{
      .checkpoint_calls = 70, .history = ObjectHistory::kLast, .callers = 4};
  void* const at =
      ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(at, MAP_FAILED);
  auto& called = *new (at) std::atomic<std::uint64_t>{0};
  std::mt19937_64 random(1);
  // Each caller goes on where it has come to, until all of its calls are made.
  int kills = 0;
  for (bool complete = false; !complete;) {
    const std::uint64_t until = called + random() % 1500;
    const pid_t child = ::fork();
    if (child == 0) {
      Objects objects = open();
      auto rows = objects.object<Rows>("rows", options);
      std::vector<std::thread> threads;
      for (std::uint32_t potid = 1; potid <= kCallers; ++potid)
        threads.emplace_back([&, potid] {
          const Caller caller(objects, potid);
          for (std::uint64_t i = caller.recorded(); i < kCalls; ++i, ++called) {
            while (called >= until) std::this_thread::yield();  // until it is killed
            if (i % 4 != 3) rows.defer<&Rows::put>(static_cast<int>(potid), i);
            else rows.call<&Rows::told>(static_cast<int>(potid), i);
          }
        });
      for (std::thread& each : threads) each.join();
      objects.close();
      ::_exit(0);
    }
    int status = 0;
    pid_t ended = 0;
    while (called < until && ended == 0) {
      ended = ::waitpid(child, &status, WNOHANG);
      std::this_thread::yield();
    }
    if (ended == 0) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      ++kills;
    }
    complete = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    ASSERT_TRUE(complete || WIFSIGNALED(status));
  }
  EXPECT_GT(kills, 3);
  ::munmap(at, kPageBytes);
  Objects objects = open();
  auto rows = objects.object<Rows>("rows", options);
  for (std::uint32_t potid = 1; potid <= kCallers; ++potid) {
    std::uint64_t order = 0;
    for (std::uint64_t i = 0; i < kCalls; ++i) order = 31 * order + i;
    EXPECT_EQ(rows.read<&Rows::last>(static_cast<int>(potid)), order);
    const Caller caller(objects, potid);
    EXPECT_EQ(caller.recorded(), kCalls);
    EXPECT_EQ(caller.recorded(rows), kCalls);
    EXPECT_EQ(caller.last_answer<std::uint64_t>(rows), order);
    EXPECT_EQ(caller.last_answer<std::uint32_t>(rows), std::nullopt);
  }
  const Caller fourth(objects, 4);
  EXPECT_EQ(fourth.recorded(), 0u);
  rows.defer<&Rows::put>(0, 1u);
  EXPECT_EQ(fourth.recorded(), 1u);
  {
    const Caller fifth(objects, 5);
    expect_error([&] { rows.defer<&Rows::put>(0, 1u); }, Code::kNoSpace, "history of 4 callers");
  }
  rows.defer<&Rows::put>(0, 1u);
  EXPECT_EQ(fourth.recorded(), 2u);
  auto hall = objects.object<Seats>("hall");
  expect_error([&] { (void)fourth.recorded(hall); }, Code::kMisuse, "keeps no history");
}

INSTANTIATE_TEST_SUITE_P(Media, ObjectsOf, testing::Values("emu:", "file:"), name_of_scheme);

}  // namespace
}  // namespace perdura::test
