// Goal: an object keeps of its calls what it was made for: nothing, each caller's last answer, or
// all of them; with all a program that is run again gets the same answers, and with each that ends
// and goes on somewhere else the state is the same.
// Method: a program that draws its calls from what it was answered, run again on stores of either
// medium that were closed in order or left by a process that died; options that cannot be.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <perdura/objects.hpp>

#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/scheme_names.hpp"

namespace perdura::test {

struct Walk {
  std::uint64_t at;
  std::uint64_t steps;
  void step(std::uint32_t by) noexcept {
    at = (at ^ by) * 0x9e3779b97f4a7c15 + 1;
    ++steps;
  }
  std::uint64_t look(std::uint32_t by) noexcept {
    step(by);
    return at;
  }
  std::uint64_t count() const noexcept { return steps; }
  std::uint64_t place() const noexcept { return at; }
};

/// Refuses large steps.
struct Short : Walk {
  void go(std::uint32_t by) noexcept { step(by); }
  std::uint64_t ask(std::uint32_t by) noexcept { return look(by); }
  static bool is_short(std::uint32_t by) noexcept { return by < 10; }
};

}  // namespace perdura::test

template <>
struct perdura::Methods<perdura::test::Walk>
    : perdura::MethodList<perdura::Deferrable<&perdura::test::Walk::step>,
                          perdura::Instant<&perdura::test::Walk::look>> {};
template <>
struct perdura::Methods<perdura::test::Short>
    : perdura::MethodList<
          perdura::Deferrable<&perdura::test::Short::go, &perdura::test::Short::is_short>,
          perdura::Instant<&perdura::test::Short::ask, &perdura::test::Short::is_short>> {};

namespace perdura::test {
namespace {

class ObjectsHistory : public testing::TestWithParam<const char*> {
 protected:
  std::string uri() const { return GetParam() + folder_.path("objects.pd"); }
  Objects open() const { return Objects::open(uri()); }

  /// What it does follows from what it is answered.
  static std::uint64_t run(Object<Walk>& walk, std::uint64_t calls) {
    std::uint64_t seen = 0;
    for (std::uint64_t i = 0; i < calls; ++i) {
      if (seen % 3 == 1) walk.defer<&Walk::step>(static_cast<std::uint32_t>(seen >> 32));
      seen = 31 * seen + walk.call<&Walk::look>(static_cast<std::uint32_t>(seen));
    }
    return seen;
  }

  static constexpr ObjectOptions kAll{.log_bytes = 8192,
                                      .checkpoint_calls = 30,
                                      .history = ObjectHistory::kAll,
                                      .callers = 4,
                                      .archive_bytes = 1 << 20};
  const TempDir folder_{TempDir::kMemory};
};

TEST_P(ObjectsHistory, AProgramIsRunAgainFromItsBeginning) {
  std::uint64_t seen = 0;
  std::uint64_t place = 0;
  {
    Objects objects = open();
    Object<Walk> walk = objects.object<Walk>("walk", kAll);
    const Caller caller(objects, 5);
    seen = run(walk, 400);
    place = walk.read<&Walk::place>();
    objects.close();
  }
  for (const bool dies : {true, false, true}) {
    const pid_t child = ::fork();
    if (child == 0) {
      Objects objects = open();
      Object<Walk> walk = objects.object<Walk>("walk", kAll);
      const Caller caller(objects, 5);
      const std::uint64_t before = walk.read<&Walk::count>();
      const bool same = run(walk, 400) == seen && walk.read<&Walk::count>() == before &&
                        walk.read<&Walk::place>() == place && caller.recorded(walk) == before;
      if (!dies) objects.close();
      ::_exit(same ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  // One that goes further, from the beginning and at once, comes to the same.
  std::uint64_t further = 0;
  {
    Objects objects = open();
    Object<Walk> walk = objects.object<Walk>("walk", kAll);
    const Caller caller(objects, 5);
    further = run(walk, 700);
    place = walk.read<&Walk::place>();
  }
  Objects objects = open();
  Object<Walk> other = objects.object<Walk>("other");
  EXPECT_EQ(run(other, 700), further);
  EXPECT_EQ(other.read<&Walk::place>(), place);
}

// The same calls of another caller are new, and of an object that keeps less.
TEST_P(ObjectsHistory, IsOfEachCaller) {
  ObjectOptions last = kAll;
  last.history = ObjectHistory::kLast;
  for (int life = 1; life <= 3; ++life) {
    Objects objects = open();
    Object<Walk> all = objects.object<Walk>("all", kAll);
    Object<Walk> some = objects.object<Walk>("some", last);
    const Caller caller(objects, 1);
    all.call<&Walk::look>(7u);
    some.call<&Walk::look>(7u);
    EXPECT_EQ(all.read<&Walk::count>(), 1u + (life > 1 ? 1u : 0u));
    EXPECT_EQ(some.read<&Walk::count>(), life);
    const Caller other(objects, 2);
    all.call<&Walk::look>(7u);
    EXPECT_EQ(all.read<&Walk::count>(), 2u);
    EXPECT_EQ(caller.recorded(all), 1u);
    EXPECT_EQ(caller.recorded(some), life);
  }
}

TEST_P(ObjectsHistory, AnotherProgramIsToldWhatTheFirstOneCalled) {
  {
    Objects objects = open();
    Object<Walk> walk = objects.object<Walk>("walk", kAll);
    walk.defer<&Walk::step>(0x12u);
    walk.call<&Walk::look>(0x34u);
  }
  Objects objects = open();
  Object<Walk> walk = objects.object<Walk>("walk", kAll);
  const auto expect_both = [](const auto& call, const std::string& recorded,
                              const std::string& now) {
    expect_error(call, Code::kMisuse, recorded);
    expect_error(call, Code::kMisuse, now);
  };
  expect_both([&] { walk.defer<&Walk::step>(0x13u); }, "arguments of sum 0x12, and now is",
              "arguments of sum 0x13: this");
  expect_both([&] { walk.call<&Walk::look>(0x12u); }, "Walk::step(", "Walk::look(");
  walk.defer<&Walk::step>(0x12u);
  expect_both([&] { walk.defer<&Walk::step>(0x34u); }, "call 2 of caller 0 of object 'walk'",
              "remove the object");
  walk.call<&Walk::look>(0x34u);
  walk.defer<&Walk::step>(1u);  // it is behind what is recorded
  EXPECT_EQ(walk.read<&Walk::count>(), 3u);
}

// What was refused was not logged, so it is not recorded: run again it is refused again, before
// what follows is answered.
TEST_P(ObjectsHistory, CallsThatAreNotAcceptedAreRefusedAgain) {
  std::uint64_t seen = 0;
  for (int life = 0; life < 3; ++life) {
    Objects objects = open();
    Object<Short> walk = objects.object<Short>("walk", kAll);
    walk.defer<&Short::go>(3u);
    walk.call<&Short::ask>(3u);
    expect_error([&] { walk.defer<&Short::go>(50u); }, Code::kInvalidArgument, "does not accept");
    expect_error([&] { walk.call<&Short::ask>(50u); }, Code::kInvalidArgument, "does not accept");
    walk.defer<&Short::go>(4u);
    const std::uint64_t last = walk.call<&Short::ask>(4u);
    EXPECT_EQ(walk.read<&Short::count>(), 4u);
    if (life > 0) {
      EXPECT_EQ(last, seen);
    }
    seen = last;
  }
}

TEST_P(ObjectsHistory, AFullArchiveLetsNothingBeLogged) {
  ObjectOptions options = kAll;
  options.archive_bytes = 4096;
  std::uint64_t calls = 0;
  {
    Objects objects = open();
    Object<Walk> walk = objects.object<Walk>("walk", options);
    expect_error(
        [&] {
          for (;; ++calls) walk.call<&Walk::look>(static_cast<std::uint32_t>(calls));
        },
        Code::kNoSpace, "make another object with more archive_bytes");
    EXPECT_EQ(walk.read<&Walk::count>(), calls);
    objects.close();
  }
  EXPECT_GT(calls, 20u);
  Objects objects = open();
  {
    Object<Walk> walk = objects.object<Walk>("walk", options);
    for (std::uint64_t i = 0; i < calls; ++i) walk.call<&Walk::look>(static_cast<std::uint32_t>(i));
    EXPECT_EQ(walk.read<&Walk::count>(), calls);
    expect_error([&] { walk.call<&Walk::look>(0u); }, Code::kNoSpace, "archive of object 'walk'");
  }
  objects.remove("walk");
  Object<Walk> again = objects.object<Walk>("walk", options);
  again.call<&Walk::look>(0u);
  EXPECT_EQ(again.read<&Walk::count>(), 1u);
}

TEST_P(ObjectsHistory, ArchivesGoWithTheirObjects) {
  std::uintmax_t bytes = 0;
  for (int i = 0; i < 40; ++i) {
    Objects objects = open();
    {
      Object<Walk> walk = objects.object<Walk>("walk", kAll);
      EXPECT_EQ(walk.read<&Walk::count>(), 0u);
      run(walk, 50);
    }
    objects.remove("walk");
    objects.close();
    if (i == 5) bytes = std::filesystem::file_size(folder_.path("objects.pd"));
  }
  EXPECT_EQ(std::filesystem::file_size(folder_.path("objects.pd")), bytes);
}

TEST_P(ObjectsHistory, WhatCannotBeIsRefused) {
  Objects objects = open();
  const auto refused = [&](const ObjectOptions& options, const std::string& why) {
    expect_error([&] { objects.object<Walk>("walk", options); }, Code::kInvalidArgument, why);
  };
  ObjectOptions options = kAll;
  options.archive_bytes = 0;
  refused(options, "archive_bytes is 1 to");
  options.archive_bytes = ~std::uint64_t{0};
  refused(options, "archive_bytes is 1 to");
  options = kAll;
  options.callers = 3;
  refused(options, "callers is a power of two");
  options.callers = 0;
  refused(options, "callers is a power of two");
  options = kAll;
  options.history = static_cast<ObjectHistory>(3);
  refused(options, "is none of ObjectHistory");
  options = {};
  options.callers = 0;
  options.archive_bytes = 0;
  (void)objects.object<Walk>("walk", options);
}

// Each recorded call was done twice when it was new, and is not done when it is called again.
TEST_P(ObjectsHistory, IsKeptOfCallsThatAreVerified) {
  ObjectOptions options = kAll;
  options.verify_replay = true;
  std::uint64_t seen = 0;
  for (int life = 0; life < 3; ++life) {
    Objects objects = open();
    Object<Walk> walk = objects.object<Walk>("walk", options);
    const std::uint64_t now = run(walk, 100);
    if (life > 0) {
      EXPECT_EQ(now, seen);
    }
    seen = now;
  }
}

INSTANTIATE_TEST_SUITE_P(Media, ObjectsHistory, testing::Values("emu:", "file:"), name_of_scheme);

}  // namespace
}  // namespace perdura::test
