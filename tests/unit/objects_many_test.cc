// Goal: as many objects of a region as in figure 17 of SIMPO's paper, 1,536 of several types, a
// third of which have no space in their store, are found again after the death of the process, each
// as its durable calls made it; when a later session has removed them all, no space of either store
// is lost. Method: a child makes and calls them, checkpoints some, gives some another size, and is
// killed; what it was told is in memory that it shares. All of a state follows from how often it
// was called. As many are made again, and get what the first ones had.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <perdura/objects.hpp>

#include "base/bits.hpp"
#include "model/object/objects_runtime.hpp"
#include "store/inspect.hpp"
#include "support/files.hpp"

namespace perdura::test {

/// What of a state says which calls made it: after so many it is always the same.
struct Trail {
  std::uint64_t calls;
  std::uint64_t mixed;

  void go_on() noexcept {
    mixed = (mixed ^ (calls + 0xd1342543de82ef95)) * 0x9e3779b97f4a7c15;
    ++calls;
  }
  bool operator==(const Trail&) const = default;
};

struct Counter : Trail {
  void put() noexcept { go_on(); }
  std::uint64_t tell() noexcept { return go_on(), calls; }
  Trail trail() const noexcept { return *this; }
  bool is_whole() const noexcept { return true; }
};

/// Each call leaves what it was in one cell. Its methods report.
struct Sheet : Trail {
  static constexpr std::uint64_t kCells = 1200;
  std::uint64_t cells[kCells];

  void put() noexcept {
    std::uint64_t& cell = cells[calls * 37 % kCells];
    object_changed(&cell, sizeof cell);
    object_changed(this, sizeof(Trail));
    go_on();
    cell = mixed;
  }
  std::uint64_t tell() noexcept { return put(), calls; }
  Trail trail() const noexcept { return *this; }
  bool is_whole() const noexcept {
    Sheet made{};
    while (made.calls < calls) made.put();
    return std::equal(std::begin(cells), std::end(cells), std::begin(made.cells));
  }
};

/// As much as behind it has room, all of which is of the last call.
struct Row : Trail {
  static constexpr bool kIsFlexible = true;

  void put() noexcept {
    go_on();
    for (std::uint64_t& each : object_rest<std::uint64_t>(this)) each = mixed;
  }
  std::uint64_t tell() noexcept { return put(), calls; }
  Trail trail() const noexcept { return *this; }
  bool is_whole() const noexcept {
    return std::ranges::all_of(object_rest<std::uint64_t>(this),
                               [this](std::uint64_t each) { return each == mixed; });
  }
};

/// One that has a history.
struct Ledger : Counter {
  void put() noexcept { go_on(); }
  std::uint64_t tell() noexcept { return put(), calls; }
};

}  // namespace perdura::test

template <>
struct perdura::Methods<perdura::test::Counter>
    : perdura::MethodList<perdura::Deferrable<&perdura::test::Counter::put>,
                          perdura::Instant<&perdura::test::Counter::tell>> {};
template <>
struct perdura::Methods<perdura::test::Sheet>
    : perdura::MethodList<perdura::Deferrable<&perdura::test::Sheet::put, perdura::kReports>,
                          perdura::Instant<&perdura::test::Sheet::tell, perdura::kReports>> {};
template <>
struct perdura::Methods<perdura::test::Row>
    : perdura::MethodList<perdura::Deferrable<&perdura::test::Row::put>,
                          perdura::Instant<&perdura::test::Row::tell>> {};
template <>
struct perdura::Methods<perdura::test::Ledger>
    : perdura::MethodList<perdura::Deferrable<&perdura::test::Ledger::put>,
                          perdura::Instant<&perdura::test::Ledger::tell>> {};

namespace perdura::test {
namespace {

constexpr u64 kObjects = 1536;
constexpr u64 kLogBytes = 4096;
constexpr u32 kCaller = 7;

std::string name_of(u64 number) { return "object " + std::to_string(number); }

u64 row_bytes(u64 number, bool resized) {
  return sizeof(Row) + (number + (resized ? 300 : 0)) % 700 * sizeof(std::uint64_t);
}

ObjectOptions options_of(u64 number) {
  ObjectOptions options{.log_bytes = kLogBytes, .checkpoint_calls = 1 + number % 9};
  if (number % 4 == 2) options.bytes = row_bytes(number, false);
  if (number % 4 == 3) {
    options.history = ObjectHistory::kLast;
    options.callers = 4;
  }
  return options;
}

/// Space of one in its store, beside the page that has the names of its functions.
u64 space_of(u64 number) {
  const u64 states[] = {sizeof(Counter), sizeof(Sheet), row_bytes(number, false),
                        round_up(sizeof(Ledger), kLineBytes) + 4 * kLineBytes};
  return 2 * round_up(states[number % 4], kPageBytes) + kLogBytes;
}

/// Calls body(object) with the one of this number, of its type.
template <class Body>
void with_object(Objects& objects, u64 number, const Body& body) {
  const std::string name = name_of(number);
  const ObjectOptions options = options_of(number);
  switch (number % 4) {
    case 0:
      return body(objects.object<Counter>(name, options));
    case 1:
      return body(objects.object<Sheet>(name, options));
    case 2:
      return body(objects.object<Row>(name, options));
    default:
      return body(objects.object<Ledger>(name, options));
  }
}

Trail trail_of(u64 calls) {
  Trail trail{};
  while (trail.calls < calls) trail.go_on();
  return trail;
}

/// What the child has called, and what it was told.
struct Told {
  std::array<u64, kObjects> called;
  std::array<u64, kObjects> durable;
  std::array<u64, kObjects> bytes;  ///< of rows
};

class ManyObjects : public testing::Test {
 protected:
  ManyObjects()
      : told_(*static_cast<Told*>(::mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE,
                                         MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~ManyObjects() override { ::munmap(&told_, sizeof told_); }

  std::string uri() const { return "emu:" + folder_.path("store.pd"); }
  /// Two of three have space.
  ObjectsOptions options() const {
    u64 bytes = 0;
    for (u64 i = 0; i < kObjects; ++i) bytes += space_of(i);
    return {.bytes_max = bytes / 3 * 2 + kObjects * kPageBytes,
            .overflow = "file:" + folder_.path("overflow.pd")};
  }

  template <class State>
  void call(Object<State> object, u64 number, u64 times) {
    for (u64 i = 0; i < times; ++i) {
      ++told_.called[number];
      object.template defer<&State::put>();
    }
    ++told_.called[number];
    told_.durable[number] = object.template call<&State::tell>();
    if (told_.durable[number] != told_.called[number]) ::_exit(1);
  }

  // Some are called again and again, and so home; others once. It ends in the middle of that.
  [[noreturn]] void live() {
    std::mt19937_64 random(1);
    Objects objects = Objects::open(uri(), options());
    const Caller caller(objects, kCaller);
    for (u64 i = 0; i < kObjects; ++i)
      with_object(objects, i, [&](const auto& object) { call(object, i, random() % 4); });
    for (u64 i = 0; i < kObjects; i += 2)
      with_object(objects, i, [&](auto object) {
        if (i % 3 == 0) object.checkpoint();
      });
    for (u64 i = 2; i < kObjects; i += 8) {
      Object<Row> row = objects.object<Row>(name_of(i), options_of(i));
      row.resize(row_bytes(i, true));
      told_.bytes[i] = row.bytes();
      call(row, i, 0);  // all of it is of the last call
    }
    for (u64 calls = 0; calls < kObjects / 2; ++calls) {
      const u64 i = random() % (kObjects / 4) * (calls % 5 == 0 ? 4 : 1);
      with_object(objects, i, [&](const auto& object) { call(object, i, random() % 8); });
    }
    ::kill(::getpid(), SIGKILL);
    std::abort();
  }

  const TempDir folder_{TempDir::kMemory};
  Told& told_;
};

TEST_F(ManyObjects, AreFoundAgainAndLeaveNoSpaceLost) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      live();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      ::_exit(2);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  {
    Objects objects = Objects::open(uri(), options());
    const std::vector<ObjectDescription> all = objects.list();
    ASSERT_EQ(all.size(), kObjects);
    const auto away = std::ranges::count(all, true, &ObjectDescription::in_overflow);
    EXPECT_GE(away, kObjects / 4);
    EXPECT_LE(away, kObjects / 2);
    for (const ObjectDescription& each : all) {
      EXPECT_EQ(each.owner_pid, static_cast<u64>(child)) << each.name;
      EXPECT_FALSE(each.owner_lives) << each.name;
    }
    const Caller caller(objects, kCaller);
    for (u64 i = 0; i < kObjects; ++i)
      with_object(objects, i, [&]<class State>(const Object<State>& object) {
        const Trail found = object.template read<&State::trail>();
        EXPECT_GE(found.calls, told_.durable[i]) << i;
        EXPECT_LE(found.calls, told_.called[i]) << i;
        EXPECT_EQ(found, trail_of(found.calls)) << i;
        EXPECT_TRUE(object.template read<&State::is_whole>()) << i;
        EXPECT_TRUE(told_.bytes[i] == 0 || object.bytes() == told_.bytes[i]) << i;
        EXPECT_TRUE(i % 4 != 3 || caller.recorded(object) == found.calls) << i;
      });
    objects.close();
  }
  const auto check = [&] {
    const store::CheckReport report =
        value_or_throw(store::check(uri(), {}, store::no_progress, options().overflow));
    EXPECT_TRUE(report.findings.empty()) << report.findings.front().message;
  };
  check();

  // Most of them by who has not opened them, in either store.
  const auto bytes = std::filesystem::file_size(folder_.path("store.pd"));
  const auto runtime = value_or_throw(detail::ObjectsRuntime::open(uri(), options()));
  const auto remove_all = [&] {
    for (u64 i = 0; i < kObjects; ++i) value_or_throw(runtime->remove(name_of(i)));
    EXPECT_TRUE(value_or_throw(runtime->list()).empty());
    for (const auto& space : {runtime->space(), runtime->overflow_space()}) {
      EXPECT_GT(space.bytes, 0u);
      EXPECT_EQ(space.free_bytes, space.bytes);
    }
  };
  static const Counter initial{};
  static const auto methods = detail::methods_of<Counter>(Methods<Counter>{});
  const detail::ObjectType type{typeid(Counter).name(), sizeof(Counter), methods, &initial};
  for (u64 i = 0; i < kObjects; i += 16)
    value_or_throw(runtime->object(name_of(i), type, options_of(i)));
  remove_all();
  // As many again, the first of which are as large as can be.
  const u64 space = runtime->space().bytes;
  for (u64 i = 0; i < kObjects; ++i)
    value_or_throw(runtime->object(name_of(i), type, options_of(i % 4 == 2 ? 0 : i)));
  remove_all();
  EXPECT_EQ(runtime->space().bytes, space);
  value_or_throw(runtime->close());
  EXPECT_EQ(std::filesystem::file_size(folder_.path("store.pd")), bytes);
  check();
}

}  // namespace
}  // namespace perdura::test
