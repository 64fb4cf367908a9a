// Goal: an object that is made where another one was, in an earlier session, has nothing of that
// one.
// Method: a table without another place; wear is not levelled.
#include <gtest/gtest.h>

#include <string>

#include <perdura/objects.hpp>

#include "store/inspect.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/scheme_names.hpp"

namespace perdura::test {

struct Here {
  std::uint64_t count;
  std::uint64_t next() noexcept { return ++count; }
};

}  // namespace perdura::test

template <>
struct perdura::Methods<perdura::test::Here>
    : perdura::MethodList<perdura::Instant<&perdura::test::Here::next>> {};

namespace perdura::test {
namespace {

class MadeWhereAnotherWas : public testing::TestWithParam<const char*> {
 protected:
  std::string uri() const { return GetParam() + folder_.path("objects.pd"); }
  /// One is made and removed, and the table has no other place.
  void leave(const std::string& name, const ObjectOptions& options) {
    {
      Objects objects = Objects::open(uri());
      for (int i = 0; i < 15; ++i)
        (void)objects.object<Here>("other " + std::to_string(i), {.log_bytes = 4096});
      (void)objects.object<Here>(name, options);
      objects.remove(name);
    }
  }
  void expect_made(const std::string& name) {
    {
      Objects objects = Objects::open(uri());
      auto made = objects.object<Here>(name, {.log_bytes = 4096});
      for (std::uint64_t i = 1; i <= 10; ++i) EXPECT_EQ(made.call<&Here::next>(), i);
    }
    EXPECT_FALSE(value_or_throw(store::check(uri(), {})).damaged());
    Objects objects = Objects::open(uri());
    bool is_there = false;
    for (const ObjectDescription& each : objects.list()) is_there |= each.name == name;
    EXPECT_TRUE(is_there);
    auto made = objects.object<Here>(name, {.log_bytes = 4096});
    EXPECT_EQ(made.call<&Here::next>(), 11u);
  }
  const TempDir folder_{TempDir::kMemory};
};

INSTANTIATE_TEST_SUITE_P(Media, MadeWhereAnotherWas, testing::Values("emu:", "file:"),
                         name_of_scheme);

TEST_P(MadeWhereAnotherWas, IsThereInTheNextSession) {
  leave("gone", {.log_bytes = 4096, .history = ObjectHistory::kLast, .callers = 4});
  expect_made("made");
}

TEST_P(MadeWhereAnotherWas, HasItsOwnName) {
  leave("gone with a longer name", {.log_bytes = 4096});
  expect_made("made");
}

}  // namespace
}  // namespace perdura::test
