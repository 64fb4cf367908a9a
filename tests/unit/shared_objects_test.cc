// Goal: an object that several processes have open is what their calls made it, each done once and
// answered to whoever called, also where one of them is killed or stands still in the middle of a
// method, of joining calls, or between them; and what one has called that the others do not have
// waits for one that has it.
// Method: processes that do what they are told, with a state that tells when it is torn; methods
// that stop or end the process they run in.
#include <gtest/gtest.h>

#include <signal.h>
#include <sys/wait.h>

#include <memory>
#include <vector>

#include "base/spin.hpp"
#include "model/object/objects_runtime.hpp"
#include "support/expect_failure.hpp"
#include "support/fellows.hpp"
#include "support/files.hpp"

namespace perdura::test {

/// Says that it reports what it changes, and does not.
struct Forgetful {
  std::uint64_t count;
  std::uint64_t next() noexcept { return ++count; }
  std::uint64_t now() const noexcept { return count; }
};

}  // namespace perdura::test

template <>
struct perdura::Methods<perdura::test::Forgetful>
    : perdura::MethodList<perdura::Instant<&perdura::test::Forgetful::next, perdura::kReports>> {};

namespace perdura::test {
namespace {

struct Way {
  const char* name;
  const char* scheme;
  ObjectDurability durability = ObjectDurability::kInstants;
  std::uint32_t servers = 64;
  std::uint32_t callers = 0;

  ObjectOptions options() const {
    ObjectOptions options;
    options.log_bytes = 16 << 10;
    options.checkpoint_calls = 40;
    options.durability = durability;
    options.servers = servers;
    if (callers == 0) return options;
    options.history = ObjectHistory::kLast;
    options.callers = callers;
    return options;
  }
};

class SharedObjects : public testing::TestWithParam<Way> {
 protected:
  SharedObjects() { board().inside = board().goes_on = board().dies_joining = board().noted = 0; }
  std::string uri() const { return std::string(GetParam().scheme) + folder_.path("objects.pd"); }
  std::unique_ptr<Fellow> fellow() const {
    return std::make_unique<Fellow>(uri(), GetParam().options());
  }
  std::unique_ptr<Fellow> opened_fellow() const {
    auto made = fellow();
    const Told told = made->ask(Order::kOpen);
    EXPECT_EQ(told.code, 0) << told.why;
    return made;
  }
  /// Nobody has it open any more: what one finds that has it alone.
  Tally found() const {
    Objects objects = Objects::open(uri());
    const Tally tally = objects.object<Tally>("tally", GetParam().options()).read<&Tally::all>();
    EXPECT_TRUE(tally.is_whole());
    return tally;
  }
  /// Its call of `next_in` has begun in itself, and waits.
  static void stand_in_method(Fellow& one) {
    one.tell(Order::kNextIn, static_cast<u64>(one.pid()));
    await_soon([&] { return board().inside == static_cast<u64>(one.pid()); });
  }

  const TempDir folder_{TempDir::kMemory};
  const NothingLeft nothing_left_{uri()};
};

INSTANTIATE_TEST_SUITE_P(
    Ways, SharedObjects,
    testing::Values(Way{"emu", "emu:"}, Way{"emu_each", "emu:", ObjectDurability::kEach},
                    Way{"emu_two_steps", "emu:", ObjectDurability::kTwoSteps},
                    Way{"emu_relaxed", "emu:", ObjectDurability::kRelaxed},
                    Way{"emu_apart", "emu:", ObjectDurability::kInstants, 0},
                    Way{"emu_relaxed_apart", "emu:", ObjectDurability::kRelaxed, 0},
                    Way{"emu_callers", "emu:", ObjectDurability::kInstants, 64, 16},
                    Way{"file", "file:"}, Way{"file_relaxed", "file:", ObjectDurability::kRelaxed},
                    Way{"file_callers", "file:", ObjectDurability::kTwoSteps, 64, 16}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_P(SharedObjects, AreWhatAllProcessesCalled) {
  constexpr u64 kCalls = 300;
  std::vector<std::unique_ptr<Fellow>> fellows;
  for (int i = 0; i < 3; ++i) fellows.push_back(opened_fellow());
  for (const auto& each : fellows) {
    each->tell(Order::kAdd, 2);
    each->tell(Order::kNote, 1);
    each->tell(Order::kNext, kCalls - 1);
    each->tell(Order::kNote, 1);
    each->tell(Order::kNote, 1);
  }
  u64 highest = 0;
  for (const auto& each : fellows)
    for (int answers = 0; answers < 5; ++answers) {
      const Told told = each->answer();
      EXPECT_EQ(told.code, 0) << told.why;
      highest = std::max(highest, told.value);
    }
  EXPECT_EQ(highest, 3 * (kCalls + 2));
  for (const auto& each : fellows) {
    const Told told = each->ask(Order::kLook);
    EXPECT_EQ(told.value, 3 * (kCalls + 2)) << told.why;
    EXPECT_EQ(told.tally.notes[1], 9u);
    EXPECT_TRUE(told.tally.is_whole());
  }
  EXPECT_EQ(fellows[0]->ask(Order::kClose).code, 0);
  EXPECT_EQ(fellows[1]->ask(Order::kNext).value, 3 * (kCalls + 2) + 1);
  EXPECT_EQ(fellows[2]->ask(Order::kClose).code, 0);
  EXPECT_EQ(fellows[1]->ask(Order::kClose).code, 0);
  EXPECT_EQ(found().count, 3 * (kCalls + 2) + 1);
}

// Beside one that has the store open, and not the object.
TEST_P(SharedObjects, AreChosenAnewWhereNobodyHasThemOpenAnyMore) {
  const ObjectOptions options = GetParam().options();
  const auto one = fellow();
  const auto other = fellow();
  Objects objects = Objects::open(uri(), {.shared = true});
  EXPECT_EQ(one->ask(Order::kOpen).code, 0);
  EXPECT_EQ(one->ask(Order::kNext, 9).value, 10u);
  EXPECT_EQ(one->ask(Order::kAdd, 5).code, 0);
  ObjectOptions another = options;
  another.durability = options.durability == ObjectDurability::kRelaxed
                           ? ObjectDurability::kInstants
                           : ObjectDurability::kRelaxed;
  another.servers = options.servers == 0 ? 64 : 0;
  expect_error([&] { objects.object<Tally>("tally", another); }, Code::kInvalidArgument,
               "is open in other processes");
  EXPECT_EQ(one->kill(), "");
  Object<Tally> tally = objects.object<Tally>("tally", another);
  EXPECT_EQ(tally.call<&Tally::next>(), 16u);
  EXPECT_EQ(other->ask(Order::kOpen).code, static_cast<int>(Code::kInvalidArgument));
  EXPECT_TRUE(tally.read<&Tally::all>().is_whole());
  tally.sync();
  objects.close();
  EXPECT_EQ(other->kill(), "");
  EXPECT_EQ(found().count, 16u);
}

TEST_P(SharedObjects, GoOnWhereOneIsKilledInAMethod) {
  const auto one = opened_fellow();
  const auto other = opened_fellow();
  EXPECT_EQ(one->ask(Order::kNext, 49).value, 50u);
  EXPECT_EQ(other->ask(Order::kNext, 24).value, 75u);
  stand_in_method(*one);
  other->tell(Order::kNext);
  EXPECT_EQ(one->kill(), "");
  const Told told = other->answer();  // the call of the dead one was logged before
  EXPECT_EQ(told.value, 77u) << told.why;
  EXPECT_TRUE(other->ask(Order::kLook).tally.is_whole());
  const auto third = opened_fellow();
  EXPECT_EQ(third->ask(Order::kNext).value, 78u);
  EXPECT_EQ(other->kill(), "");
  EXPECT_EQ(third->ask(Order::kNext, 99).value, 178u);
  EXPECT_EQ(third->ask(Order::kSync).code, 0);
  EXPECT_EQ(third->kill(), "");
  EXPECT_EQ(found().count, 178u);
}

TEST_P(SharedObjects, WaitForOneThatStandsStill) {
  const auto one = opened_fellow();
  const auto other = opened_fellow();
  stand_in_method(*one);
  ::kill(one->pid(), SIGSTOP);
  board().goes_on = 1;
  other->tell(Order::kNext);
  ::kill(one->pid(), SIGCONT);
  EXPECT_EQ(one->answer().value, 1u);
  EXPECT_EQ(other->answer().value, 2u);
}

// What waits is executed once by the thread that looks after it, whenever that comes to it: then
// there is nothing to merge with before the next one.
TEST_P(SharedObjects, LackNothingWhereOneIsKilledMerging) {
  if (GetParam().servers == 0 || GetParam().callers != 0) return;  // nothing is merged with
  const auto one = opened_fellow();
  const auto other = opened_fellow();
  u64 notes = 0;
  for (; notes < 3; ++notes) EXPECT_EQ(one->ask(Order::kNote, 1).code, 0);
  board().dies_joining = static_cast<u64>(one->pid());
  while (notes < 100 && one->ask(Order::kNote, 1).why != std::string("it has died")) ++notes;
  ASSERT_LT(notes, 100u);
  EXPECT_EQ(one->wait(), "");
  const Told told = other->ask(Order::kLook);
  EXPECT_EQ(told.tally.notes[1], notes) << told.why;
}

TEST_P(SharedObjects, AreOpenedBySomebodyElseWhereAllAreKilled) {
  const auto one = opened_fellow();
  const auto other = opened_fellow();
  EXPECT_EQ(one->ask(Order::kNext, 9).value, 10u);
  EXPECT_EQ(other->ask(Order::kNext, 9).value, 20u);
  EXPECT_EQ(other->ask(Order::kSync).code, 0);
  stand_in_method(*one);
  EXPECT_EQ(one->kill(), "");
  EXPECT_EQ(other->kill(), "");
  const auto third = opened_fellow();
  const u64 count = third->ask(Order::kLook).value;
  EXPECT_TRUE(count == 20 || count == 21) << count;
  EXPECT_EQ(third->ask(Order::kNext).value, count + 1);
  EXPECT_EQ(third->ask(Order::kClose).code, 0);
  EXPECT_EQ(found().count, count + 1);
}

TEST_P(SharedObjects, ThatNobodyHasOpenAreLeftToTheNext) {
  const auto one = opened_fellow();
  EXPECT_EQ(one->ask(Order::kNext, 9).value, 10u);
  const Fellow stays(uri(), GetParam().options());
  auto other = fellow();
  stand_in_method(*one);
  EXPECT_EQ(other->ask(Order::kOpen).code, 0);  // while it is being executed
  EXPECT_EQ(one->kill(), "");
  EXPECT_EQ(other->ask(Order::kRemove).code, 0);
  EXPECT_EQ(other->ask(Order::kClose).code, 0);
  EXPECT_EQ(found().count, 0u);
}

TEST_P(SharedObjects, AreNotRemovedWhileAnotherProcessHasThem) {
  const auto one = opened_fellow();
  const auto other = opened_fellow();
  const Told refused = one->ask(Order::kRemove);
  EXPECT_EQ(refused.code, static_cast<int>(Code::kMisuse));
  EXPECT_NE(std::string(refused.why).find("in use in process " + std::to_string(other->pid())),
            std::string::npos)
      << refused.why;
  EXPECT_EQ(other->ask(Order::kClose).code, 0);
  EXPECT_EQ(one->ask(Order::kRemove).code, 0);
  EXPECT_EQ(one->ask(Order::kClose).code, 0);
  EXPECT_EQ(found().count, 0u);
}

// Processes that have no Object of it any more let go of it, and may make another one of its name.
TEST_P(SharedObjects, AreRemovedWhereTheOthersHaveNoObjectOfThemAnyMore) {
  const auto one = opened_fellow();
  const auto other = opened_fellow();
  const auto third = opened_fellow();
  for (const auto* each : {&one, &other, &third}) EXPECT_EQ((*each)->ask(Order::kNext, 4).code, 0);
  EXPECT_EQ(other->ask(Order::kAdd, 3).code, 0);
  EXPECT_EQ(other->ask(Order::kLetGo).code, 0);
  const Told refused = one->ask(Order::kRemove);
  EXPECT_EQ(refused.code, static_cast<int>(Code::kMisuse));
  EXPECT_NE(std::string(refused.why).find("in use in process " + std::to_string(third->pid())),
            std::string::npos)
      << refused.why;
  EXPECT_EQ(other->ask(Order::kHave).code, 0);  // it was not removed
  EXPECT_EQ(third->ask(Order::kNext).value, 19u);
  EXPECT_EQ(other->ask(Order::kLetGo).code, 0);
  EXPECT_EQ(third->ask(Order::kLetGo).code, 0);
  const Told removed = one->ask(Order::kRemove);
  EXPECT_EQ(removed.code, 0) << removed.why;
  for (const auto* each : {&third, &other, &one}) EXPECT_EQ((*each)->ask(Order::kHave).code, 0);
  EXPECT_EQ(other->ask(Order::kNext).value, 1u);
  EXPECT_EQ(one->ask(Order::kNext).value, 2u);
  EXPECT_EQ(third->ask(Order::kNext).value, 3u);
  for (const auto* each : {&one, &other, &third}) EXPECT_EQ((*each)->ask(Order::kClose).code, 0);
  EXPECT_EQ(found().count, 3u);
}

TEST_P(SharedObjects, OfAProcessThatDiesWhenItIsAskedForThemAreRemoved) {
  const auto one = opened_fellow();
  const auto other = opened_fellow();
  EXPECT_EQ(other->ask(Order::kNext).value, 1u);
  ASSERT_EQ(::kill(other->pid(), SIGSTOP), 0);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(other->pid()), &info, WSTOPPED), 0);
  one->tell(Order::kRemove);
  EXPECT_EQ(other->kill(), "");
  const Told removed = one->answer();
  EXPECT_EQ(removed.code, 0) << removed.why;
  EXPECT_EQ(one->ask(Order::kClose).code, 0);
  EXPECT_EQ(found().count, 0u);
}

TEST_P(SharedObjects, DoNotMixWhatWasChosenDifferently) {
  const auto one = opened_fellow();
  ObjectOptions options = GetParam().options();
  options.durability = options.durability == ObjectDurability::kEach ? ObjectDurability::kTwoSteps
                                                                     : ObjectDurability::kEach;
  Fellow other(uri(), options);
  const Told refused = other.ask(Order::kOpen);
  EXPECT_EQ(refused.code, static_cast<int>(Code::kInvalidArgument));
  EXPECT_NE(std::string(refused.why).find("with another durability"), std::string::npos);
  options = GetParam().options();
  options.servers = options.servers == 0 ? 64 : 0;
  Fellow third(uri(), options);
  EXPECT_NE(std::string(third.ask(Order::kOpen).why).find("servers"), std::string::npos);
  EXPECT_EQ(one->ask(Order::kRemove).code, 0);  // those that were refused do not have it
}

// --- functions that not all of them have --------------------------------------------------------

using detail::ObjectMethod;
using detail::ObjectsRuntime;
using detail::OpenObject;

struct Sum {
  u64 sum;
};
void run_add(void* state, const void* context, void*) {
  static_cast<Sum*>(state)->sum += *static_cast<const u64*>(context);
}
void run_twice(void* state, const void*, void*) {
  static_cast<Sum*>(state)->sum *= 2;
  board().noted = static_cast<u64>(::getpid());
}
void run_ask(void* state, const void*, void* result) {
  if (result != nullptr) *static_cast<u64*>(result) = static_cast<Sum*>(state)->sum;
}
constexpr ObjectMethod kAsk{"ask", 0, sizeof(u64), &run_ask, nullptr, nullptr, false};
constexpr ObjectMethod kAdd{"add", sizeof(u64), 0, &run_add, nullptr, nullptr, false};
constexpr ObjectMethod kTwice{"twice", 0, 0, &run_twice, nullptr, nullptr, false};

/// A program with some of them.
class Program {
 public:
  Program(const std::string& uri, std::vector<ObjectMethod> methods, u64 bytes_max = 0)
      : methods_(std::move(methods)),
        runtime_(
            value_or_throw(ObjectsRuntime::open(uri, {.shared = true, .bytes_max = bytes_max}))) {
    static constexpr Sum kInitial{1};
    object_ = value_or_throw(
        runtime_->object("sum", {"Sum", sizeof(Sum), methods_, &kInitial}, {.log_bytes = 4096}));
  }
  Status defer(size_t method, u64 argument) {
    const auto context = std::as_bytes(std::span(&argument, 1));
    return object_->core().defer(
        object_->call_of(method, 0, Domain::kAll, context.first(methods_[method].context_bytes)));
  }
  Result<u64> ask() {
    u64 answer = 0;
    PERDURA_TRY(object_->core().call(object_->call_of(0, 0, Domain::kAll, {}), &answer));
    return answer;
  }

 private:
  std::vector<ObjectMethod> methods_;
  std::unique_ptr<ObjectsRuntime> runtime_;
  std::shared_ptr<OpenObject> object_;
};

TEST(SharedFunctions, AreCalledByAProcessThatHasThem) {
  const TempDir folder(TempDir::kMemory);
  const std::string uri = "emu:" + folder.path("objects.pd");
  const NothingLeft nothing_left(uri);
  board().noted = 0;
  // It is made before this process has a thread of its objects: it opens them in the end.
  ToldProcess opens([&](ToldProcess::Ends ends) -> std::string {
    u64 order = 0;
    if (::read(ends.orders, &order, sizeof order) != sizeof order) return "nobody asks";
    Program program(uri, {kAsk, kTwice, kAdd});
    const u64 sum = value_or_throw(program.ask());
    return ::write(ends.replies, &sum, sizeof sum) == sizeof sum ? "" : "nobody listens";
  });
  ToldProcess has_twice([&](ToldProcess::Ends ends) -> std::string {
    Program program(uri, {kAsk, kTwice});
    u64 order = 0;
    while (::read(ends.orders, &order, sizeof order) == sizeof order) {
      for (u64 i = 0; i < order; ++i) value_or_throw(program.defer(1, 0));
      if (::write(ends.replies, &order, sizeof order) != sizeof order) return "nobody listens";
    }
    return "";
  });
  u64 told = 0;
  has_twice.order(1);
  ASSERT_TRUE(has_twice.get(told));
  Program without(uri, {kAsk, kAdd});  // names one more than the first has
  value_or_throw(without.defer(1, 5));
  has_twice.order(1);
  ASSERT_TRUE(has_twice.get(told));
  EXPECT_EQ(value_or_throw(without.ask()), 14u);  // (1 * 2 + 5) * 2
  EXPECT_EQ(board().noted, static_cast<u64>(has_twice.pid()));
  has_twice.order(1);
  ASSERT_TRUE(has_twice.get(told));
  EXPECT_EQ(has_twice.kill(), "");
  expect_failure(without.ask(), Code::kIncompatible,
                 "calls function 'twice' in 1 entry, which no process has");
  expect_failure(without.ask(), Code::kIncompatible, "when a program that has the function opens");
  expect_failure(without.ask(), Code::kIncompatible, "say formerly(\"twice\")");
  value_or_throw(without.defer(1, 1));
  opens.order(1);
  u64 sum = 0;
  ASSERT_TRUE(opens.get(sum));
  EXPECT_EQ(sum, 29u);
  EXPECT_EQ(opens.wait(), "");
  EXPECT_EQ(value_or_throw(without.ask()), 29u);
}

// The object has both copies, its log, and the names of its functions; there is no space for more
// of these. Who is refused has it not, nor anything else, and may have it without them.
TEST(SharedFunctions, WhoseNamesHaveNoSpaceAreRefusedAndAllGoOn) {
  constexpr u64 kBytesMax = 4 * kPageBytes;
  const TempDir folder(TempDir::kMemory);
  const std::string uri = "emu:" + folder.path("objects.pd");
  const NothingLeft nothing_left(uri);
  ToldProcess has_it([&](ToldProcess::Ends ends) -> std::string {
    Program program(uri, {kAsk, kTwice}, kBytesMax);
    u64 order = 0;
    while (::read(ends.orders, &order, sizeof order) == sizeof order) {
      value_or_throw(program.defer(1, 0));
      const u64 sum = value_or_throw(program.ask());
      if (::write(ends.replies, &sum, sizeof sum) != sizeof sum) return "nobody listens";
    }
    return "";
  });
  u64 sum = 0;
  has_it.order(1);
  ASSERT_TRUE(has_it.get(sum));
  EXPECT_EQ(sum, 2u);
  const auto runtime =
      value_or_throw(ObjectsRuntime::open(uri, {.shared = true, .bytes_max = kBytesMax}));
  const Sum initial{1};
  const auto open = [&](const std::vector<ObjectMethod>& methods) {
    return runtime->object("sum", {"Sum", sizeof(Sum), methods, &initial}, {});
  };
  for (int times = 0; times < 2; ++times)
    expect_failure(open({kAsk, kAdd}), Code::kNoSpace, "bytes left in one piece");
  has_it.order(1);
  ASSERT_TRUE(has_it.get(sum));
  EXPECT_EQ(sum, 4u);
  {
    const auto object = value_or_throw(open({kAsk}));
    u64 answer = 0;
    value_or_throw(object->core().call(object->call_of(0, 0, Domain::kAll, {}), &answer));
    EXPECT_EQ(answer, 4u);
  }
  EXPECT_EQ(has_it.kill(), "");
  value_or_throw(runtime->remove("sum"));
  EXPECT_EQ(runtime->space().free_bytes, kBytesMax);
  value_or_throw(runtime->close());
}

TEST(SharedFunctions, ThatNeedTheirThreadAreRefusedAndSoIsAnotherSize) {
  const TempDir folder(TempDir::kMemory);
  const auto runtime =
      value_or_throw(ObjectsRuntime::open("emu:" + folder.path("objects.pd"), {.shared = true}));
  const Sum initial{};
  ObjectMethod own = kAsk;
  own.own_thread = true;
  const std::vector<ObjectMethod> owns{own};
  expect_failure(runtime->object("own", {"Sum", sizeof(Sum), owns, &initial}, {}),
                 Code::kUnsupported, "by the thread that calls it alone");
  const std::vector<ObjectMethod> methods{kAsk};
  const auto made =
      value_or_throw(runtime->object("sum", {"Sum", sizeof(Sum), methods, &initial}, {}));
  expect_failure(runtime->resize("sum", 100), Code::kUnsupported, "keeps its size meanwhile");
}

// A thread of the library does what nobody waits for.
TEST(SharedDeferrables, RunWhereNobodyCallsThem) {
  const TempDir folder(TempDir::kMemory);
  const std::string uri = "emu:" + folder.path("objects.pd");
  const NothingLeft nothing_left(uri);
  board().noted = 0;
  ObjectOptions options;
  options.pending_ms = 1;
  Fellow one(uri, options);
  ASSERT_EQ(one.ask(Order::kOpen).code, 0);
  EXPECT_EQ(one.ask(Order::kTell, 7).code, 0);
  await_soon([] { return board().noted == 7; });
}

// A checkpoint writes all: what nobody has reported as well, of which verification says nothing.
TEST_P(SharedObjects, AreWrittenWholeWhateverIsReported) {
  ObjectOptions options = GetParam().options();
  options.verify_replay = true;
  {
    Objects objects = Objects::open(uri(), {.shared = true});
    auto object = objects.object<Forgetful>("forgetful", options);
    for (std::uint64_t i = 1; i <= 3; ++i) {
      EXPECT_EQ(object.call<&Forgetful::next>(), i);
      object.checkpoint();
    }
    EXPECT_EQ(object.call<&Forgetful::next>(), 4u);
    objects.close();
  }
  Objects objects = Objects::open(uri());
  EXPECT_EQ(objects.object<Forgetful>("forgetful", options).read<&Forgetful::now>(), 4u);
}

}  // namespace
}  // namespace perdura::test
