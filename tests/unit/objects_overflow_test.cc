// Goal: objects that need more space than their store has go to an overflow store and come back
// when they are called; each is in one place and whole, whatever ends the process, and neither
// store can be taken for half of another pair. Method: stores with room for a few of many objects,
// called at random by one thread and by several, ended in order and not, and opened in all the
// wrong ways.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include <perdura/objects.hpp>

#include "media/fault.hpp"
#include "model/object/objects_runtime.hpp"
#include "store/inspect.hpp"
#include "support/call_faults.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"

namespace perdura::test {

/// Of a thread that looks at a state, and of the one that it waits for.
inline std::atomic<bool> is_looking{false};
inline std::atomic<bool> looked_enough{false};

/// 64 KiB, each word of which is of the last call that stored there.
struct Block {
  static constexpr std::uint64_t kWords = 8191;
  std::uint64_t calls;
  std::uint64_t words[kWords];

  void put(std::uint64_t value) noexcept {
    words[(calls * 31) % kWords] = value;
    ++calls;
  }
  std::uint64_t told(std::uint64_t value) noexcept {
    put(value);
    return calls;
  }
  std::uint64_t count() const noexcept { return calls; }
  std::uint64_t count_in_the_end() const noexcept {
    is_looking = true;
    while (!looked_enough) std::this_thread::yield();
    return calls;
  }
  std::uint64_t sum() const noexcept {
    std::uint64_t sum = calls;
    for (const std::uint64_t word : words) sum = sum * 31 + word;
    return sum;
  }
};

struct Tiny {
  std::uint64_t value;
  void add(std::uint64_t by) noexcept { value += by; }
};

/// Of whatever size.
struct Growing {
  static constexpr bool kIsFlexible = true;
  std::uint64_t value;
  std::uint64_t add(std::uint64_t by) noexcept { return value += by; }
};

}  // namespace perdura::test

template <>
struct perdura::Methods<perdura::test::Growing>
    : perdura::MethodList<perdura::Instant<&perdura::test::Growing::add>> {};
template <>
struct perdura::Methods<perdura::test::Block>
    : perdura::MethodList<perdura::Deferrable<&perdura::test::Block::put>,
                          perdura::Instant<&perdura::test::Block::told>> {};
template <>
struct perdura::Methods<perdura::test::Tiny>
    : perdura::MethodList<perdura::Deferrable<&perdura::test::Tiny::add>> {};

namespace perdura::test {
namespace {

constexpr std::uint64_t kLogBytes = 8192;
constexpr std::uint64_t kEachBytes = 2 * sizeof(Block) + kLogBytes;

/// Schemes of the store and of its overflow store.
struct Media {
  const char* store;
  const char* overflow;
};
void PrintTo(const Media& media, std::ostream* out) { *out << media.store << media.overflow; }

class ObjectsOverflow : public testing::TestWithParam<Media> {
 protected:
  static constexpr int kObjects = 9;
  static constexpr int kFit = 3;

  std::string uri() const { return GetParam().store + folder_.path("store.pd"); }
  std::string overflow_uri(const char* name = "overflow.pd") const {
    return GetParam().overflow + folder_.path(name);
  }
  ObjectsOptions options() const {
    return {.bytes_max = kFit * kEachBytes + kObjects * kPageBytes, .overflow = overflow_uri()};
  }
  static std::string name(int number) { return "object " + std::to_string(number); }
  static ObjectOptions of_object(ObjectOptions options = {}) {
    options.log_bytes = kLogBytes;
    options.checkpoint_calls = 20;
    return options;
  }
  static std::vector<Object<Block>> open_all(Objects& objects, const ObjectOptions& options) {
    std::vector<Object<Block>> all;
    for (int i = 0; i < kObjects; ++i) all.push_back(objects.object<Block>(name(i), options));
    return all;
  }
  static u64 away(const Objects& objects) {
    u64 count = 0;
    for (const ObjectDescription& each : objects.list()) count += each.in_overflow ? 1 : 0;
    return count;
  }
  /// Calls at random, as on a state in memory.
  void call(std::vector<Object<Block>>& all, std::vector<Block>& models, int calls) {
    for (int i = 0; i < calls; ++i) {
      const std::size_t at = random_() % all.size();
      const std::uint64_t value = random_();
      if (i % 3 == 0) {
        all[at].defer<&Block::put>(value);
        models[at].put(value);
      } else {
        EXPECT_EQ(all[at].call<&Block::told>(value), models[at].told(value));
      }
    }
  }
  static void expect(const std::vector<Object<Block>>& all, const std::vector<Block>& models) {
    for (std::size_t i = 0; i < all.size(); ++i)
      EXPECT_EQ(all[i].read<&Block::sum>(), models[i].sum()) << i;
  }
  void check_stores() const {
    for (const std::string& each : {uri(), overflow_uri()}) {
      const store::CheckReport report =
          value_or_throw(store::check(each, {}, [](const char*, u64, u64) {}));
      EXPECT_FALSE(report.damaged()) << report.findings.front().message;
    }
  }
  /// Some are away when it returns; each has been called so often.
  std::vector<Block> make(const ObjectOptions& how = of_object(), int calls = 60) {
    Objects objects = Objects::open(uri(), options());
    auto all = open_all(objects, how);
    std::vector<Block> models(kObjects);
    call(all, models, calls);
    EXPECT_GE(away(objects), u64{kObjects - kFit});
    objects.close();
    return models;
  }

  std::mt19937_64 random_{7};
  const TempDir folder_{TempDir::kMemory};
};

TEST_P(ObjectsOverflow, MoreThanFitAreAllThere) {
  for (const auto& [durability, servers] :
       {std::pair{ObjectDurability::kInstants, 1u}, std::pair{ObjectDurability::kEach, 1u},
        std::pair{ObjectDurability::kRelaxed, 1u}, std::pair{ObjectDurability::kTwoSteps, 4u},
        std::pair{ObjectDurability::kInstants, 0u}}) {
    std::filesystem::remove(folder_.path("store.pd"));
    std::filesystem::remove(folder_.path("overflow.pd"));
    const ObjectOptions how = of_object({.durability = durability, .servers = servers});
    std::vector<Block> models = make(how, 200);
    for (int session = 0; session < 3; ++session) {
      Objects objects = Objects::open(uri(), options());
      auto all = open_all(objects, how);
      expect(all, models);
      call(all, models, 100);
      expect(all, models);
      objects.close();
      check_stores();
    }
  }
}

// Space of theirs that counts as free for a moment may be given to others, if want of memory ends
// that moment too early.
TEST_P(ObjectsOverflow, GetNoMemoryWhileTheyMoveAndKeepWhatTheyHave) {
  const TestThread test_thread;
  std::vector<u64> answered(kObjects);
  for (const Block& model : make(of_object(), 0)) EXPECT_EQ(model.calls, 0u);
  u64 failed = 0;
  for (u64 nth = 1; nth < 400; ++nth) {
    {
      Objects objects = Objects::open(uri(), options());
      auto all = open_all(objects, of_object());
      for (int i = 0; i < kFit; ++i) answered[i] = all[i].call<&Block::told>(nth);
      const CallFault fault{.call = Call::kAllocate, .nth = nth, .own = true};
      arm_calls(&fault);
      for (int i = kFit; i < 2 * kFit; ++i) {
        try {
          answered[i] = in_library([&] { return all[i].call<&Block::told>(nth); });
        } catch (const Error&) {
        }
        try {
          in_library([&] { objects.object<Tiny>("tiny " + std::to_string(i)); });
        } catch (const Error&) {
        }
      }
      disarm_calls();
      failed = calls_failed();
    }
    Objects objects = Objects::open(uri(), options());
    auto all = open_all(objects, of_object());
    for (int i = 0; i < kObjects; ++i) {
      const u64 count = all[i].read<&Block::count>();
      EXPECT_TRUE(count == answered[i] || count == answered[i] + 1) << nth << ": object " << i;
      answered[i] = count;
    }
    for (const ObjectDescription& each : objects.list())
      if (each.name.starts_with("tiny")) objects.remove(each.name);
    objects.close();
    check_stores();
    if (HasFailure() || failed == 0) break;
  }
  EXPECT_EQ(failed, 0u);
}

TEST_P(ObjectsOverflow, WhatReturnedIsThereAfterAKill) {
  for (int round = 0; round < 4; ++round) {
    int told[2];
    ASSERT_EQ(::pipe(told), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      Objects objects = Objects::open(uri(), options());
      auto all = open_all(objects, of_object());
      random_.seed(static_cast<u64>(round));
      for (int i = 0; i < 120 + round; ++i) {
        const auto at = random_() % all.size();
        const std::uint64_t count[2] = {at, all[at].call<&Block::told>(random_())};
        if (::write(told[1], count, sizeof count) != sizeof count) ::_exit(1);
      }
      ::_exit(0);
    }
    ::close(told[1]);
    std::map<u64, u64> counts;
    for (std::uint64_t count[2]; ::read(told[0], count, sizeof count) == sizeof count;)
      counts[count[0]] = count[1];
    ::close(told[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_EQ(status, 0);
    Objects objects = Objects::open(uri(), options());
    const auto all = open_all(objects, of_object());
    for (const auto& [at, count] : counts) EXPECT_EQ(all[at].read<&Block::count>(), count);
    objects.close();
    check_stores();
  }
}

TEST_P(ObjectsOverflow, ThreadsThatCallAllOfThemFindThemAll) {
  Objects objects = Objects::open(uri(), options());
  auto all = open_all(objects, of_object());
  std::vector<std::atomic<u64>> calls(kObjects);
  std::vector<std::thread> threads;
  for (u64 thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      std::mt19937_64 random(thread);
      for (int i = 0; i < 300; ++i) {
        const std::size_t at = random() % all.size();
        if (i % 2 == 0) all[at].defer<&Block::put>(random());
        else all[at].call<&Block::told>(random());
        ++calls[at];
        if (i % 16 == 0) all[at].sync();
        if (i % 64 == 0) objects.list();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(all[i].read<&Block::count>(), calls[i]) << i;
  objects.close();
  check_stores();
}

TEST_P(ObjectsOverflow, ThoseCalledLongestAgoGo) {
  Objects objects = Objects::open(uri(), options());
  auto all = open_all(objects, of_object());
  for (const int each : {4, 2, 0, 1, 3}) all[static_cast<std::size_t>(each)].call<&Block::told>(1);
  for (const ObjectDescription& each : objects.list())
    EXPECT_EQ(each.in_overflow,
              each.name != name(0) && each.name != name(1) && each.name != name(3))
        << each.name;
}

TEST_P(ObjectsOverflow, IsNotOpenedWithoutItNorWithAnother) {
  const std::vector<Block> models = make();
  expect_error([&] { Objects::open(uri()); }, Code::kMisuse,
               "lie in an overflow store; open the objects with its URI as "
               "ObjectsOptions::overflow");
  expect_error([&] { Objects::open(uri(), {.shared = true}); }, Code::kMisuse,
               "open the objects in one process");
  expect_error([&] { Objects::open(uri(), {.shared = true, .overflow = overflow_uri()}); },
               Code::kUnsupported, "open them in one process");
  expect_error([&] { Objects::open(uri(), {.overflow = overflow_uri("new.pd")}); }, Code::kMisuse,
               "have another overflow store than");
  expect_error([&] { Objects::open(uri(), {.overflow = overflow_uri("new.pd")}); }, Code::kMisuse,
               "new.pd', which is not there or empty");
  EXPECT_FALSE(std::filesystem::exists(folder_.path("new.pd"))) << "one that nobody wants is left";
  write_file(folder_.path("empty.pd"), {});
  expect_error([&] { Objects::open(uri(), {.overflow = overflow_uri("empty.pd")}); }, Code::kMisuse,
               "empty.pd', which is not there or empty");
  EXPECT_EQ(std::filesystem::file_size(folder_.path("empty.pd")), 0u);
  expect_error([&] { Objects::open(uri(), {.overflow = uri()}); }, Code::kInvalidArgument,
               "choose another one");
  expect_error([&] { Objects::open(overflow_uri()); }, Code::kInvalidArgument,
               "holds what another store has no space for");
  const std::string another = GetParam().store + folder_.path("another.pd");
  expect_error([&] { Objects::open(another, options()); }, Code::kMisuse,
               "has objects of another store");
  expect_error(
      [&] { Objects::open(uri(), {.create = false, .overflow = overflow_uri("missing.pd")}); },
      Code::kNotFound, "missing.pd");
  Objects objects = Objects::open(uri(), options());
  expect(open_all(objects, of_object()), models);
}

// Also where nothing is away: what has come home may have a copy there still.
TEST_P(ObjectsOverflow, IsKnownFromTheFirstOpeningOn) {
  {
    Objects objects = Objects::open(uri(), options());
    objects.object<Block>(name(0), of_object()).call<&Block::told>(1);
    EXPECT_EQ(away(objects), 0u);
  }
  expect_error([&] { Objects::open(uri(), {.overflow = overflow_uri("new.pd")}); }, Code::kMisuse,
               "have another overflow store");
  EXPECT_FALSE(std::filesystem::exists(folder_.path("new.pd"))) << "one that nobody wants is left";
  {
    Objects objects = Objects::open(uri());
  }
  {
    Objects objects = Objects::open(uri(), options());
  }
  check_stores();
}

// What stays of each, the names of its functions, lies where it is in nobody's way.
TEST_P(ObjectsOverflow, ALargeOneComesHomeWhenAllOthersHaveMovedOut) {
  ObjectsOptions small = options();
  small.bytes_max = 32 * kEachBytes;
  const u64 large = 12 * sizeof(Block);
  const u64 others = 60;
  for (int session = 0; session < 3; ++session) {
    Objects objects = Objects::open(uri(), small);
    auto first = objects.object<Growing>("large", of_object({.bytes = large}));
    EXPECT_EQ(first.call<&Growing::add>(1), 2u * static_cast<u64>(session) + 1);
    for (u64 i = 0; i < others; ++i)
      objects.object<Block>("block " + std::to_string(i), of_object()).call<&Block::told>(1);
    EXPECT_EQ(first.call<&Growing::add>(1), 2u * static_cast<u64>(session) + 2);
  }
}

TEST_P(ObjectsOverflow, OneThatIsAwayIsRemovedAndItsSpaceIsAnothers) {
  make();
  for (int round = 0; round < 3; ++round) {
    Objects objects = Objects::open(uri(), options());
    for (const ObjectDescription& each : objects.list())
      if (each.in_overflow) objects.remove(each.name);
    EXPECT_EQ(away(objects), 0u);
    auto all = open_all(objects, of_object());
    for (Object<Block>& each : all) each.call<&Block::told>(1);
    all.clear();
    objects.close();
    check_stores();
    const auto bytes = std::filesystem::file_size(folder_.path("overflow.pd"));
    static std::uintmax_t first = 0;
    if (round == 0) first = bytes;
    EXPECT_EQ(bytes, first) << "space of what was removed is lost";
  }
}

TEST_P(ObjectsOverflow, WhatKeepsAllCallsStays) {
  Objects objects =
      Objects::open(uri(), {.bytes_max = 3 * kEachBytes + kPageBytes, .overflow = overflow_uri()});
  const ObjectOptions keeps = of_object({.history = ObjectHistory::kAll, .archive_bytes = 1 << 14});
  std::vector<Object<Block>> kept;
  kept.push_back(objects.object<Block>("kept 0", keeps));
  kept.push_back(objects.object<Block>("kept 1", keeps));
  expect_error([&] { objects.object<Block>("kept 2", keeps); }, Code::kNoSpace, "that keep all");
  for (Object<Block>& each : kept) EXPECT_EQ(each.call<&Block::told>(3), 1u);
  EXPECT_EQ(away(objects), 0u);
}

TEST_P(ObjectsOverflow, HistoriesMoveWithTheirObjects) {
  const ObjectOptions how = of_object({.history = ObjectHistory::kLast, .callers = 4});
  for (int session = 0; session < 3; ++session) {
    Objects objects = Objects::open(uri(), options());
    auto all = open_all(objects, how);
    for (const std::uint32_t potid : {3u, 9u}) {
      const Caller caller(objects, potid);
      for (Object<Block>& each : all) {
        EXPECT_EQ(caller.recorded(each), static_cast<u64>(session));
        const u64 answer = each.call<&Block::told>(potid);
        EXPECT_EQ(caller.last_answer<u64>(each), answer);
      }
      EXPECT_EQ(caller.recorded(), static_cast<u64>(kObjects * (session + 1)));
    }
    objects.close();
  }
}

// They are opened by a program that lacks what their logs call, before and after they were opened
// by one that has it, and closed, and not called.
TEST_P(ObjectsOverflow, OfThoseThatMovedWithTheirLogsNothingWaitsWhenTheyAreClosed) {
  const pid_t child = ::fork();
  if (child == 0) {
    Objects objects = Objects::open(uri(), options());
    Object<Block> moved = objects.object<Block>("moved", of_object());
    for (std::uint64_t i = 1; i <= 3; ++i)
      if (moved.call<&Block::told>(i) != i) ::_exit(1);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  {
    Objects objects = Objects::open(uri(), options());
    open_all(objects, of_object());
    EXPECT_TRUE(std::ranges::any_of(objects.list(), [](const ObjectDescription& each) {
      return each.name == "moved" && each.in_overflow;
    }));
    objects.close();
  }
  static const Block initial{};
  static const auto methods = detail::methods_of<Block>(Methods<Block>{});
  const detail::ObjectType lacking{typeid(Block).name(), sizeof(Block), std::span(methods).first(1),
                                   &initial};
  const auto open_lacking = [&](auto&& look) {
    const auto runtime = value_or_throw(detail::ObjectsRuntime::open(uri(), options()));
    look(*runtime, runtime->object("moved", lacking, of_object()));
    value_or_throw(runtime->close());
  };
  open_lacking([](detail::ObjectsRuntime&, const auto& found) {
    expect_failure(found, Code::kIncompatible, "which this program does not have");
  });
  for (int round = 0; round < 2; ++round) {  // there is nothing to do the second time
    Objects objects = Objects::open(uri(), options());
    objects.object<Block>("moved", of_object());
    objects.close();
    check_stores();
  }
  open_lacking([](detail::ObjectsRuntime& runtime, const auto& found) {
    ASSERT_TRUE(found) << found.failure().message;
    EXPECT_TRUE((*found)->core().is_away());
    const Block* const state = reinterpret_cast<const Block*>((*found)->core().state());
    EXPECT_EQ(state->calls, 3u);
    u64 away = 0;
    for (const ObjectDescription& each : value_or_throw(runtime.list()))
      away += each.in_overflow ? 1 : 0;
    const auto there = runtime.overflow_space();
    EXPECT_EQ(there.bytes - there.free_bytes, away * round_up(sizeof(Block), kPageBytes));
  });
}

TEST_P(ObjectsOverflow, DamageToACopyThereIsFoundWhenItIsOpened) {
  make();
  std::string away_name;
  {
    Objects objects = Objects::open(uri(), options());
    for (const ObjectDescription& each : objects.list())
      if (each.in_overflow) away_name = each.name;
  }
  u64 place = 0;
  {
    const auto description = value_or_throw(store::describe(uri(), {}));
    for (const auto& each : *description.regions.at(0).objects)
      if (each.name == away_name) place = each.overflow_place;
  }
  ASSERT_NE(place, 0u);
  const store::CheckReport report = value_or_throw(store::check(uri(), {}));
  EXPECT_FALSE(report.damaged());
  EXPECT_TRUE(std::ranges::any_of(report.findings, [&](const store::Finding& each) {
    return each.message == "the copy of object '" + away_name +
                               "' is in an overflow store; name that (--overflow) to verify it";
  }));
  const auto check_both = [&] {
    return value_or_throw(store::check(uri(), {}, store::no_progress, overflow_uri()));
  };
  EXPECT_TRUE(check_both().findings.empty());
  FileBytes bytes = read_file(folder_.path("overflow.pd"));
  bytes.at(place + 5000) ^= std::byte{1};
  write_file(folder_.path("overflow.pd"), bytes);
  EXPECT_TRUE(std::ranges::any_of(check_both().findings, [&](const store::Finding& each) {
    return each.severity == store::Finding::Severity::kDamage &&
           each.message.find("object '" + away_name + "'") != std::string::npos &&
           each.message.find("overflow.pd' (medium offset " + std::to_string(place) + ")") !=
               std::string::npos;
  }));
  Objects objects = Objects::open(uri(), options());
  expect_error([&] { objects.object<Block>(away_name, of_object()); }, Code::kCorrupt,
               "overflow.pd' (medium offset " + std::to_string(place) + ")");
  objects.remove(away_name);
  EXPECT_EQ(objects.object<Block>(away_name, of_object()).read<&Block::count>(), 0u);
}

TEST_P(ObjectsOverflow, WhoLooksAtOneKeepsNobodyFromAnother) {
  Objects objects = Objects::open(uri(), options());
  auto all = open_all(objects, of_object());
  for (Object<Block>& each : all) each.call<&Block::told>(1);
  // The last ones are at home; that which was called longest ago of them is asked first to go.
  is_looking = looked_enough = false;
  std::thread looks([&] { EXPECT_EQ(all[kObjects - kFit].read<&Block::count_in_the_end>(), 1u); });
  while (!is_looking) std::this_thread::yield();
  EXPECT_EQ(all[0].call<&Block::told>(2), 2u);
  looked_enough = true;
  looks.join();
  for (const ObjectDescription& each : objects.list())
    EXPECT_EQ(each.in_overflow, each.name != name(0) && each.name != name(kObjects - kFit) &&
                                    each.name != name(kObjects - 1))
        << each.name;
}

/// The state with another method, as a later build of a program has it.
class LaterBlock {
 public:
  detail::ObjectType type() const {
    return {typeid(Block).name(), sizeof(Block), methods_, &initial_};
  }

 private:
  std::vector<detail::ObjectMethod> methods_ = [] {
    const auto known = detail::methods_of<Block>(Methods<Block>{});
    std::vector<detail::ObjectMethod> methods(known.begin(), known.end());
    methods.push_back(methods.back());
    methods.back().name = "another one";
    return methods;
  }();
  const Block initial_{};
};

// There is no page left for the names of its functions, and what nobody has opened goes first.
TEST_P(ObjectsOverflow, OneThatGetsMoreMethodsMayMoveItselfForThat) {
  std::vector<Block> models = make();
  const LaterBlock later;
  {
    const auto runtime = value_or_throw(detail::ObjectsRuntime::open(uri(), options()));
    const auto all = value_or_throw(runtime->list());
    const auto at_home = std::ranges::find(all, false, &ObjectDescription::in_overflow);
    ASSERT_NE(at_home, all.end());
    value_or_throw(runtime->object(at_home->name, later.type(), of_object()));
    EXPECT_EQ(value_or_throw(runtime->moves()).out, 1u);
    value_or_throw(runtime->close());
  }
  for (int session = 0; session < 2; ++session) {
    Objects objects = Objects::open(uri(), options());
    auto all = open_all(objects, of_object());
    expect(all, models);
    call(all, models, 50);
    expect(all, models);
    objects.close();
    check_stores();
  }
}

TEST_P(ObjectsOverflow, OneThatCannotBeOpenedTakesNoSpace) {
  make();
  const auto description = value_or_throw(store::describe(uri(), {}));
  const auto& found = *description.regions.at(0).objects;
  const auto away =
      std::ranges::find_if(found, [](const auto& each) { return each.overflow_place; });
  ASSERT_NE(away, found.end());
  FileBytes bytes = read_file(folder_.path("overflow.pd"));
  bytes.at(away->overflow_place + 5000) ^= std::byte{1};
  write_file(folder_.path("overflow.pd"), bytes);
  const LaterBlock later;
  const auto runtime = value_or_throw(detail::ObjectsRuntime::open(uri(), options()));
  for (int i = 0; i < 200; ++i)
    expect_failure(runtime->object(away->name, later.type(), of_object()), Code::kCorrupt,
                   "does not fit its checksum");
  EXPECT_LE(value_or_throw(runtime->moves()).out, 1u);
}

// The overflow store has room for tiny ones still, and those that were called longest ago are not.
TEST_P(ObjectsOverflow, WhereALargeOneHasNoRoomASmallOneMoves) {
  ObjectsOptions how = options();
  how.bytes_max = 6 * kEachBytes + 100 * kPageBytes;
  make();
  media::FaultPlan plan;
  const auto open_overflow = [&]() -> Result<std::unique_ptr<media::Medium>> {
    PERDURA_ASSIGN(media::OpenedMedium opened, media::open_medium(overflow_uri(), {}));
    return plan.wrap(std::move(opened.medium));
  };
  plan.arm({.calls = media::kFaultGrow, .kind = media::FaultKind::kNoSpace, .for_ever = true});
  const auto runtime = value_or_throw(detail::ObjectsRuntime::open(uri(), how, {}, open_overflow));
  const auto add = [&](const std::string& name, const auto& state) {
    using State = std::remove_cvref_t<decltype(state)>;
    const auto methods = detail::methods_of<State>(Methods<State>{});
    return runtime->object(name, {typeid(State).name(), sizeof(State), methods, &state},
                           of_object());
  };
  const auto until_full = [&](const char* name, const auto& state) {
    for (int i = 0;; ++i)
      if (const auto made = add(name + std::to_string(i), state); !made) {
        expect_failure(made, Code::kNoSpace, "cannot extend '" + folder_.path("overflow.pd"));
        EXPECT_EQ(made.failure().message.find("ObjectsOptions::overflow"), std::string::npos);
        return;
      }
  };
  value_or_throw(add("moves first", Tiny{}));  // and the last room there is less than a block
  until_full("block ", Block{});
  const u64 out = value_or_throw(runtime->moves()).out;
  const auto is_home = [&](const char* name) {
    const auto all = value_or_throw(runtime->list());
    return !std::ranges::find(all, name, &ObjectDescription::name)->in_overflow;
  };
  EXPECT_FALSE(is_home("moves first"));
  for (int i = 0; i < 12; ++i) value_or_throw(add("tiny " + std::to_string(i), Tiny{}));
  EXPECT_GT(value_or_throw(runtime->moves()).out, out);
  EXPECT_FALSE(is_home("tiny 0"));
  value_or_throw(runtime->close());
}

constexpr Media kMedia[] = {{"emu:", "file:"}, {"emu:", "emu:"}, {"file:", "file:"}};
INSTANTIATE_TEST_SUITE_P(Media, ObjectsOverflow, testing::ValuesIn(kMedia), [](const auto& info) {
  std::string name(info.param.store);
  name += info.param.overflow;
  std::erase(name, ':');
  return name;
});

}  // namespace
}  // namespace perdura::test
