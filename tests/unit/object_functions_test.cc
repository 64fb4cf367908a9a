// Goal: a program whose methods, or whose state's type, have other names than when calls were
// logged says so, and goes on where the former one was ended; one that does not say so is told what
// it lacks and what to write. Nothing runs that is not what was called. Method: states and methods
// that a program of the test's has under former names, killed with calls that its object's copy
// lacks, and opened by another program's.
#include <gtest/gtest.h>
#include <signal.h>

#include <perdura/objects.hpp>

#include "model/object/objects_runtime.hpp"
#include "object/function_name.hpp"
#include "object/object_look.hpp"
#include "object/object_table.hpp"
#include "store/recovery.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/process.hpp"
#include "support/scheme_names.hpp"

namespace perdura::test {

struct Count {
  std::int32_t count;
};

/// The state of the first program.
struct Seats {
  std::int64_t sold[4];
  std::int64_t told;
  void sell(int row, Count count) noexcept { sold[row] += count.count; }
  int reserve(int row) noexcept { return static_cast<int>(++told * 10 + sold[row]++); }
  std::int64_t sum(int row) const noexcept { return sold[row]; }
};

/// The same of later ones, whose names differ in what each of them says of the earlier ones.
struct Unsaid : Seats {
  void vend(int row, Count count) noexcept { sold[row] += count.count; }
  int book(int row) noexcept { return static_cast<int>(++told * 10 + sold[row]++); }
};
struct Said : Unsaid {};
struct SaidMangled : Unsaid {};
struct SaidTwice : Unsaid {};
struct SaidOfAnother : Unsaid {};
struct OfAnotherSize : Unsaid {};
struct Larger : Unsaid {
  std::int64_t more;
};

/// What no later build could tell.
using Lambda = decltype([](int) mutable noexcept {});
struct OfLambda {
  std::int64_t value;
  void take(decltype([] {})) noexcept {}
};
namespace {
struct Hidden {
  std::int64_t value;
  void hide() noexcept {}
};
struct HiddenCount {
  std::int64_t count;
};
}  // namespace
struct OfHidden {
  std::int64_t value;
  void count(HiddenCount) noexcept {}
};
struct Bare {};

inline constexpr char kSell[] = "perdura::test::Seats::sell(int, perdura::test::Count)";
inline constexpr char kReserve[] = "perdura::test::Seats::reserve(int)";
inline constexpr char kSeats[] = "perdura::test::Seats";

}  // namespace perdura::test

namespace perdura {

template <>
struct Methods<test::Seats>
    : MethodList<Deferrable<&test::Seats::sell>, Instant<&test::Seats::reserve>> {};
template <>
struct Methods<test::Unsaid>
    : MethodList<Deferrable<&test::Unsaid::vend>, Instant<&test::Unsaid::book>> {
  static constexpr const char* kFormerly[] = {test::kSeats};
};
template <>
struct Methods<test::Said>
    : MethodList<Instant<&test::Unsaid::book, formerly("perdura::test::Seats::reserve(int)")>,
                 Deferrable<&test::Unsaid::vend, formerly("Theatre::sell()"),
                            formerly("perdura::test::Seats::sell(int, perdura::test::Count)")>> {
  static constexpr const char* kFormerly[] = {"Theatre", "N7perdura4test5SeatsE"};
};
template <>
struct Methods<test::SaidMangled>
    : MethodList<Deferrable<&test::Unsaid::vend,
                            formerly("N7perdura6detail9MethodTagIXadL_ZNS_4test5Seats4"
                                     "sellEiNS2_5CountEEEEE")>,
                 Instant<&test::Unsaid::book, formerly("perdura::test::Seats::reserve(int)")>> {
  static constexpr const char* kFormerly[] = {test::kSeats};
};
template <>
struct Methods<test::SaidTwice>
    : MethodList<Deferrable<&test::Unsaid::vend, formerly("perdura::test::Seats::reserve(int)")>,
                 Instant<&test::Unsaid::book, formerly("perdura::test::Seats::reserve(int)")>> {
  static constexpr const char* kFormerly[] = {test::kSeats};
};
template <>
struct Methods<test::SaidOfAnother>
    : MethodList<Deferrable<&test::Seats::sell>, Instant<&test::Seats::reserve>,
                 Deferrable<&test::Unsaid::vend, formerly("perdura::test::Seats::reserve(int)")>> {
  static constexpr const char* kFormerly[] = {test::kSeats};
};
template <>
struct Methods<test::OfAnotherSize>
    : MethodList<Instant<&test::Unsaid::book,
                         formerly("perdura::test::Seats::sell(int, perdura::test::Count)"),
                         formerly("perdura::test::Seats::reserve(int)")>> {
  static constexpr const char* kFormerly[] = {test::kSeats};
};
template <>
struct Methods<test::Lambda> : MethodList<Deferrable<&test::Lambda::operator()>> {};
template <>
struct Methods<test::OfLambda> : MethodList<Deferrable<&test::OfLambda::take>> {};
template <>
struct Methods<test::Hidden> : MethodList<Deferrable<&test::Hidden::hide>> {};
template <>
struct Methods<test::HiddenCount> : MethodList<> {};
template <>
struct Methods<test::OfHidden> : MethodList<Deferrable<&test::OfHidden::count>> {};
template <>
struct Methods<test::Bare> : MethodList<> {};
template <>
struct Methods<test::Larger> : MethodList<Deferrable<&test::Unsaid::vend>> {
  static constexpr const char* kFormerly[] = {test::kSeats};
};

}  // namespace perdura

namespace perdura::test {
namespace {

class ObjectFunctions : public testing::TestWithParam<const char*> {
 protected:
  std::string uri() const { return GetParam() + folder_.path("objects.pd"); }
  Objects open() const { return Objects::open(uri()); }

  /// Is killed with three sells and two reserves that the copy lacks.
  void run_first_program(const ObjectOptions& options = {}) const {
    Child first([&]() -> std::string {
      Objects objects = open();
      Object<Seats> seats = objects.object<Seats>("hall", options);
      const Caller caller(objects, 3);
      call_as_first(seats);
      ::kill(::getpid(), SIGKILL);
      return "it lives";
    });
    ASSERT_EQ(first.wait(), "");
  }
  static void call_as_first(Object<Seats>& seats) {
    seats.defer<&Seats::sell>(1, Count{5});
    seats.defer<&Seats::sell>(1, Count{6});
    EXPECT_EQ(seats.call<&Seats::reserve>(1), 21);
    seats.defer<&Seats::sell>(2, Count{7});
    EXPECT_EQ(seats.call<&Seats::reserve>(2), 27);
  }
  std::vector<std::string> names() const {
    auto opened = value_or_throw(media::open_medium(uri(), {.create = false, .read_only = true}));
    const auto volume = value_or_throw(store::open_volume_to_read(std::move(opened.medium)));
    object::ObjectTable table(*volume, 1);
    value_or_throw(table.read());
    std::vector<std::string> texts;
    for (const std::string& name :
         value_or_throw(object::function_names(volume->linear(), table.all().front().head)))
      texts.push_back(object::function_text(name));
    return texts;
  }

  const TempDir folder_{TempDir::kMemory};
};

TEST_P(ObjectFunctions, ThatWereRenamedRunWhereTheProgramSaysSo) {
  run_first_program();
  {
    Objects objects = open();
    Object<Said> hall = objects.object<Said>("hall");
    EXPECT_EQ(hall.read<&Seats::sum>(1), 12);
    EXPECT_EQ(hall.read<&Seats::sum>(2), 8);
    EXPECT_EQ(hall.call<&Unsaid::book>(2), 38);
    objects.close();
  }
  EXPECT_EQ(names(),
            (std::vector<std::string>{kSell, kReserve, "perdura::test::Unsaid::book(int)",
                                      "perdura::test::Unsaid::vend(int, perdura::test::Count)"}));
  // Nothing in its log needs the former names any more.
  Objects objects = open();
  Object<Unsaid> hall = objects.object<Unsaid>("hall");
  EXPECT_EQ(hall.call<&Unsaid::book>(2), 49);
}

TEST_P(ObjectFunctions, AreKnownByTheirMangledNamesAsWell) {
  run_first_program();
  Objects objects = open();
  EXPECT_EQ(objects.object<SaidMangled>("hall").read<&Seats::sum>(1), 12);
}

// The message has what is to be written, and the object is as it was.
TEST_P(ObjectFunctions, ThatAreLackingAreNamedWithWhatToDo) {
  run_first_program();
  for (int life = 0; life < 2; ++life) {
    Objects objects = open();
    for (const std::string& part :
         {std::string("the log of object 'hall' calls function '") + kSell +
              "' with 8 bytes of arguments in 3 entries, and function '" + kReserve +
              "' with 4 bytes of arguments in 2 entries, which this program does not have",
          std::string("link that function"),
          std::string("say formerly(\"") + kSell + "\"), formerly(\"" + kReserve + "\") of the"})
      expect_error([&] { objects.object<Unsaid>("hall"); }, Code::kIncompatible, part);
  }
  Objects objects = open();
  EXPECT_EQ(objects.object<Seats>("hall").read<&Seats::sum>(2), 8);
}

TEST_P(ObjectFunctions, AreClaimedByOneMethod) {
  run_first_program();
  Objects objects = open();
  expect_error([&] { objects.object<SaidTwice>("hall"); }, Code::kInvalidArgument,
               std::string("was formerly '") + kReserve + "', and so is or was method");
  expect_error(
      [&] { objects.object<SaidOfAnother>("hall"); }, Code::kInvalidArgument,
      std::string("was formerly '") + kReserve + "', and so is or was method '" + kReserve + "'");
  EXPECT_EQ(objects.object<Said>("hall").read<&Seats::sum>(1), 12);
}

// What has other arguments is another function, whatever is said of it.
TEST_P(ObjectFunctions, OfAnotherSizeAreNotTheSame) {
  run_first_program();
  Objects objects = open();
  expect_error(
      [&] { objects.object<OfAnotherSize>("hall"); }, Code::kIncompatible,
      std::string("calls function '") + kSell +
          "' with 8 bytes of arguments in 3 entries (with 4 in this program), which this program "
          "does not have; open it with the program that wrote it, or link that function");
  try {
    objects.object<OfAnotherSize>("hall");
  } catch (const Error& error) {  // it has the name already
    EXPECT_EQ(std::string(error.what()).find("say formerly"), std::string::npos) << error.what();
  }
  EXPECT_EQ(objects.object<Said>("hall").read<&Seats::sum>(1), 12);
}

// Former names are of what an earlier run called, too.
TEST_P(ObjectFunctions, AreAnsweredInARunOfTheRenamedProgram) {
  const ObjectOptions all{.history = ObjectHistory::kAll, .archive_bytes = 1 << 16};
  run_first_program(all);
  for (int life = 0; life < 2; ++life) {  // from the log, and from the archive
    Objects objects = open();
    Object<Said> hall = objects.object<Said>("hall", all);
    const Caller caller(objects, 3);
    hall.defer<&Unsaid::vend>(1, Count{5});
    hall.defer<&Unsaid::vend>(1, Count{6});
    EXPECT_EQ(hall.call<&Unsaid::book>(1), 21);
    hall.defer<&Unsaid::vend>(2, Count{7});
    EXPECT_EQ(hall.call<&Unsaid::book>(2), 27);
    EXPECT_EQ(hall.read<&Seats::sum>(1), 12);
    EXPECT_EQ(caller.recorded(hall), 5u);
    objects.close();
  }
}

// Both layouts, and what to do.
TEST_P(ObjectFunctions, StatesOfAnotherTypeOrSizeAreToldApart) {
  run_first_program();
  expect_error([&] { open().object<Larger>("hall"); }, Code::kTypeMismatch,
               "is a perdura::test::Seats of 40 bytes, not a perdura::test::Larger of 48: open it "
               "with the program that made it, and copy its state");
  struct Other {
    std::int64_t words[5];
  };
  const Other initial{};
  const detail::ObjectType other{"N7perdura4test5OtherE", sizeof(Other), {}, &initial};
  const auto runtime = value_or_throw(detail::ObjectsRuntime::open(uri(), {}));
  expect_failure(runtime->object("hall", other, {}), Code::kTypeMismatch,
                 "is a perdura::test::Seats of 40 bytes, not a perdura::test::Other of 40: open it "
                 "as what it is, or remove it; where that type was renamed, say so by "
                 "'static constexpr const char* kFormerly[] = {\"perdura::test::Seats\"};' in "
                 "Methods<perdura::test::Other>");
}

TEST_P(ObjectFunctions, WithoutALastingNameAreRefused) {
  Objects objects = open();
  const auto expect_refused = [](const auto& open_one, const std::string& what) {
    expect_error(open_one, Code::kInvalidArgument, what);
    expect_error(open_one, Code::kInvalidArgument,
                 " is in an unnamed namespace, or has a lambda or an unnamed type in it");
  };
  expect_refused([&] { objects.object<Lambda>("lambda"); }, "the type ");
  expect_refused([&] { objects.object<OfLambda>("of lambda"); },
                 "method perdura::test::OfLambda::take(perdura::test::OfLambda::{lambda()#");
  expect_refused([&] { objects.object<Hidden>("hidden"); },
                 "the type perdura::test::(anonymous namespace)::Hidden");
  expect_refused([&] { objects.object<HiddenCount>("hidden"); },
                 "the type perdura::test::(anonymous namespace)::HiddenCount");
  expect_refused([&] { objects.object<OfHidden>("of hidden"); },
                 "method perdura::test::OfHidden::count(perdura::test::(anonymous "
                 "namespace)::HiddenCount)");
  EXPECT_TRUE(objects.list().empty());
  objects.object<Bare>("bare");
  EXPECT_EQ(objects.list().size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Media, ObjectFunctions, testing::Values("emu:", "file:"), name_of_scheme);

}  // namespace
}  // namespace perdura::test
