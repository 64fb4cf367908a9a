// Goal: objects whose heads could not be written are made, removed and opened by nobody until they
// are read again, and then are what their answered calls made them. Method: each write of a
// creation, a removal and an opening fails, and the program tries again.
#include <gtest/gtest.h>

#include <cerrno>
#include <optional>
#include <string>
#include <vector>

#include <perdura/objects.hpp>

#include "model/object/objects_runtime.hpp"
#include "support/call_faults.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"

namespace perdura::test {

struct Counter {
  std::uint64_t count;
  std::uint64_t next() noexcept { return ++count; }
  std::uint64_t now() const noexcept { return count; }
};

struct Large {
  char bytes[5 << 19];
  void clear() noexcept { bytes[0] = 0; }
};

}  // namespace perdura::test

template <>
struct perdura::Methods<perdura::test::Large>
    : perdura::MethodList<perdura::Deferrable<&perdura::test::Large::clear>> {};
template <>
struct perdura::Methods<perdura::test::Counter>
    : perdura::MethodList<perdura::Instant<&perdura::test::Counter::next>> {};

namespace perdura::test {
namespace {

class ObjectsWhoseMediumFails : public testing::Test {
 protected:
  Objects open() const { return Objects::open("file:" + folder_.path("objects.pd")); }
  /// Whether `body` ends without an Error where the nth write fails; nullopt: there is none.
  template <class Body>
  static std::optional<bool> with_fault(u64 nth, Body&& body) {
    const CallFault fault{.call = Call::kWrite, .nth = nth, .error = EIO, .own = true};
    arm_calls(&fault);
    bool succeeded = true;
    try {
      in_library(body);
    } catch (const Error& error) {
      succeeded = false;
    }
    disarm_calls();
    if (calls_failed() == 0) return {};
    return succeeded;
  }

  const TestThread test_thread_;
  const TempDir folder_{TempDir::kMemory};
};

TEST_F(ObjectsWhoseMediumFails, KeepWhatTheyAnswered) {
  std::uint64_t count = 0;
  {
    Objects objects = open();
    objects.object<Counter>("other");
  }
  bool faults = true;
  for (u64 nth = 1; faults; ++nth) {
    faults = false;
    const auto note = [&](const std::optional<bool>& done) { faults = faults || done; };
    const auto count_on = [&](Objects& objects) {
      auto counter = objects.object<Counter>("counter");
      EXPECT_EQ(counter.call<&Counter::next>(), ++count) << nth;
    };
    const auto try_again = [&](Objects& objects) {
      try {
        count_on(objects);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::kIo) << error.what();
      }
    };
    {  // made
      Objects objects = open();
      note(with_fault(nth, [&] { objects.object<Counter>("counter"); }));
      try_again(objects);
    }
    {  // opened
      Objects objects = open();
      note(with_fault(nth, [&] { objects.object<Counter>("counter"); }));
      try_again(objects);
    }
    {  // removed
      Objects objects = open();
      count_on(objects);
      const auto removed = with_fault(nth, [&] { objects.remove("counter"); });
      note(removed);
      if (removed.value_or(true)) count = 0;
      else try_again(objects);
    }
    Objects objects = open();
    count_on(objects);
    objects.remove("counter");
    EXPECT_EQ(objects.list().size(), 1u);
    count = 0;
  }
}

TEST_F(ObjectsWhoseMediumFails, ForWantOfSpaceLeaveWhatThereIsToSmallerOnes) {
  Objects objects = open();
  objects.object<Counter>("first", {.log_bytes = 4096});
  const CallFault full{.call = Call::kExtend, .error = ENOSPC, .for_ever = true};
  arm_calls(&full);
  in_library([&] {
    for (int i = 0; i < 40; ++i)
      expect_error([&] { objects.object<Large>("large"); }, Code::kNoSpace, "");
    objects.object<Counter>("second", {.log_bytes = 2 << 20}).call<&Counter::next>();
  });
  disarm_calls();
  objects.object<Large>("large").defer<&Large::clear>();
  objects.close();
  EXPECT_EQ(open().list().size(), 3u);
}

// Of enough bytes that are in pieces too.
TEST_F(ObjectsWhoseMediumFails, ForWantOfSpaceInOnePieceSaySo) {
  Objects objects = open();
  objects.object<Counter>("first", {.log_bytes = 4096});
  const CallFault full{.call = Call::kExtend, .error = ENOSPC, .for_ever = true};
  arm_calls(&full);
  in_library([&] {
    constexpr size_t kLogBytes = 512 * 1024;
    size_t made = 0;
    try {
      for (;; ++made) objects.object<Counter>(std::to_string(made), {.log_bytes = kLogBytes});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kNoSpace);
    }
    ASSERT_GT(made, 3u);
    for (size_t i = 0; i < made; i += 2) objects.remove(std::to_string(i));
    expect_error([&] { objects.object<Counter>("large", {.log_bytes = 4 * kLogBytes}); },
                 Code::kNoSpace, "bytes left in one piece for an object: of those that are its");
    objects.object<Counter>("small", {.log_bytes = kLogBytes}).call<&Counter::next>();
  });
  disarm_calls();
}

// As many names as no head has room for, of one that is made and of one that is there.
TEST_F(ObjectsWhoseMediumFails, WithNamesThatNoHeadHoldsTakeNoSpace) {
  const std::string uri = "file:" + folder_.path("objects.pd");
  const Counter zeros{};
  const auto known = detail::methods_of<Counter>(Methods<Counter>{});
  std::vector<detail::ObjectMethod> methods(known.begin(), known.end());
  const detail::ObjectType few{typeid(Counter).name(), sizeof(Counter), methods, &zeros};
  constexpr int kNames = 2'000;
  std::vector<std::string> names;
  for (int i = 0; i < kNames; ++i) names.push_back(std::string(800, 'a') + std::to_string(i));
  std::vector<detail::ObjectMethod> more = methods;
  for (const std::string& name : names) {
    more.push_back(methods.front());
    more.back().name = name.c_str();
  }
  const detail::ObjectType many{few.name, few.bytes, more, &zeros};
  const ObjectsOptions options{.bytes_max = 2 * (3 * kPageBytes + 4096) + 600 * kPageBytes};
  const auto open = [&] { return value_or_throw(detail::ObjectsRuntime::open(uri, options)); };
  {
    const auto runtime = open();
    value_or_throw(runtime->object("first", few, {.log_bytes = 4096}));
    value_or_throw(runtime->close());
  }
  const auto runtime = open();
  for (const char* name : {"first", "second"})
    for (int i = 0; i < 5; ++i)
      expect_failure(runtime->object(name, many, {.log_bytes = 4096}), Code::kUnsupported,
                     "the names of the methods that object '");
  // All that is left is there in one piece.
  value_or_throw(runtime->object("second", few, {.log_bytes = 2 << 20}));
  value_or_throw(runtime->close());
}

// Nothing of it was written then, so nothing is unsure.
TEST_F(ObjectsWhoseMediumFails, ForWantOfSharedMemoryLackTheNewObjectAlone) {
  const std::string uri = "file:" + folder_.path("objects.pd");
  {
    Objects objects = Objects::open(uri, {.shared = true});
    auto first = objects.object<Counter>("first", {.log_bytes = 4096});
    const CallFault full{.call = Call::kExtend, .error = ENOSPC, .for_ever = true};
    arm_calls(&full);
    in_library([&] {
      for (int i = 0; i < 3; ++i)
        expect_error([&] { objects.object<Counter>("second", {.log_bytes = 4096}); },
                     Code::kNoSpace, "/dev/shm/perdura-");
      EXPECT_EQ(first.call<&Counter::next>(), 1u);
    });
    disarm_calls();
    EXPECT_EQ(objects.object<Counter>("second", {.log_bytes = 4096}).call<&Counter::next>(), 1u);
    EXPECT_EQ(first.call<&Counter::next>(), 2u);
    objects.close();
  }
  EXPECT_EQ(open().object<Counter>("first").call<&Counter::next>(), 3u);
}

}  // namespace
}  // namespace perdura::test
