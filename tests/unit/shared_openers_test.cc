// Goal: processes share the objects of a store where all of them want to; whoever does not is
// refused, and told by whom, and so is the reverse. Who looks at the store is in nobody's way. The
// memory that they share is believed where it is theirs alone; where the medium fails for one of
// them it has failed for all, until the objects are opened again.
// Method: processes that do what they are told, beside openings of each kind; memory files that
// were left behind, and that say of themselves what cannot be.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <set>

#include <perdura/store.hpp>

#include "media/fault.hpp"
#include "model/object/objects_runtime.hpp"
#include "store/inspect.hpp"
#include "support/expect_failure.hpp"
#include "support/fellows.hpp"
#include "support/files.hpp"

namespace perdura::test {
namespace {

class SharedOpeners : public testing::TestWithParam<const char*> {
 protected:
  std::string uri() const { return GetParam() + folder_.path("objects.pd"); }
  std::unique_ptr<Fellow> fellow(bool shared = true) const {
    return std::make_unique<Fellow>(uri(), ObjectOptions{.log_bytes = 4096}, shared);
  }
  std::unique_ptr<Fellow> opened_fellow(bool shared = true) const {
    auto made = fellow(shared);
    const Told told = made->ask(Order::kOpen);
    EXPECT_EQ(told.code, 0) << told.why;
    return made;
  }
  static void expect_told(const Told& told, Code code, const std::string& sentence) {
    EXPECT_EQ(told.code, static_cast<int>(code)) << told.why;
    EXPECT_NE(std::string(told.why).find(sentence), std::string::npos)
        << told.why << " lacks '" << sentence << "'";
  }
  /// Files of memory that a process has.
  static std::set<std::string> memory_of(pid_t pid) {
    std::set<std::string> found;
    std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
    for (std::string line; std::getline(maps, line);)
      if (const size_t at = line.find("/dev/shm/perdura-"); at != line.npos)
        if (line.find('/', at + std::string("/dev/shm/perdura-").size()) == line.npos)
          found.insert(line.substr(at));
    return found;
  }

  const TempDir folder_{TempDir::kMemory};
  const NothingLeft nothing_left_{uri()};
};

INSTANTIATE_TEST_SUITE_P(Media, SharedOpeners, testing::Values("emu:", "file:"),
                         [](const auto& info) {
                           const std::string scheme = info.param;
                           return scheme.substr(0, scheme.size() - 1);
                         });

TEST_P(SharedOpeners, AreSharersAlone) {
  const auto one = opened_fellow();
  expect_error(
      [&] { Objects::open(uri()); }, Code::kLocked,
      "is shared by processes that have its objects open, the first of which was process " +
          std::to_string(one->pid()));
  expect_error([&] { Store::open(uri()); }, Code::kLocked, "is shared by processes");
  const auto other = opened_fellow();
  EXPECT_EQ(one->ask(Order::kNext).value, 1u);
  EXPECT_EQ(other->ask(Order::kNext).value, 2u);
  EXPECT_EQ(one->ask(Order::kClose).code, 0);
  expect_error([&] { Store::open(uri()); }, Code::kLocked, "is shared by processes");
  EXPECT_EQ(other->ask(Order::kClose).code, 0);
  Store::open(uri(), {.region = "heap"});
}

TEST_P(SharedOpeners, AreRefusedBesideOneWhoDoesNotShare) {
  const auto alone = opened_fellow(false);
  const auto shares = fellow();
  expect_told(shares->ask(Order::kOpen), Code::kLocked,
              "is open in process " + std::to_string(alone->pid()));
  expect_told(shares->ask(Order::kOpen), Code::kLocked, "which does not share it");
  EXPECT_EQ(alone->ask(Order::kClose).code, 0);
  EXPECT_EQ(shares->ask(Order::kOpen).code, 0);
}

TEST_P(SharedOpeners, DoNotMixWithHeapsInOneProcess) {
  {
    const Objects objects = Objects::open(uri(), {.shared = true});
    expect_error([&] { Store::open(uri(), {.region = "heap"}); }, Code::kLocked,
                 "is open in this process, which shares it with others");
    expect_error([&] { Objects::open(uri(), {.region = "more"}); }, Code::kLocked,
                 "shares it with others");
    const Objects more = Objects::open(uri(), {.region = "more", .shared = true});
    expect_error([&] { Objects::open(uri(), {.region = "more", .shared = true}); }, Code::kLocked,
                 "which is this process");
  }
  const Store heap = Store::open(uri(), {.region = "heap"});
  expect_error([&] { Objects::open(uri(), {.shared = true}); }, Code::kLocked,
               "which has it for itself");
}

TEST_P(SharedOpeners, AreLookedAt) {
  const auto one = opened_fellow();
  EXPECT_EQ(one->ask(Order::kNext, 99).value, 100u);
  const store::Description seen = value_or_throw(store::describe(uri(), {.read_only = true}));
  EXPECT_EQ(seen.regions.at(0).objects->at(0).name, "tally");
  EXPECT_FALSE(value_or_throw(store::check(uri(), {.read_only = true})).damaged());
  EXPECT_EQ(one->ask(Order::kNext).value, 101u);
}

// Whoever looks has read the heads, and nobody had the objects open then.
TEST_P(SharedOpeners, WhoComeWhileObjectsAreCheckedDoNotDamageThem) {
  {
    const auto one = opened_fellow();
    EXPECT_EQ(one->ask(Order::kNext, 99).value, 100u);
    EXPECT_EQ(one->ask(Order::kClose).code, 0);
  }
  for (const bool stays : {true, false}) {
    u64 openings = 0;
    const auto comes = fellow(false);
    const auto report = value_or_throw(
        store::check(uri(), {.read_only = true}, [&](std::string_view, u64 done, u64 all) {
          if (done != 0 || all != 1 || openings++ != 0) return;
          EXPECT_EQ(comes->ask(Order::kOpen).code, 0);
          comes->ask(Order::kNext, 2000);
          if (!stays) {
            EXPECT_EQ(comes->ask(Order::kClose).code, 0);
          }
        }));
    EXPECT_NE(openings, 0u);
    EXPECT_FALSE(report.damaged()) << report.findings.at(0).message;
    if (stays) {
      EXPECT_EQ(comes->ask(Order::kClose).code, 0);
    }
  }
}

TEST_P(SharedOpeners, AreForgottenInAForkedChild) {
  Objects objects = Objects::open(uri(), {.shared = true});
  Object<Tally> tally = objects.object<Tally>("tally");
  EXPECT_EQ(tally.call<&Tally::next>(), 1u);
  Child child([&]() -> std::string {
    try {
      tally.call<&Tally::next>();
    } catch (const Error& error) {
      return error.code() == Code::kForked ? "" : error.what();
    }
    return "a child has its parent's objects";
  });
  EXPECT_EQ(child.wait(), "");
  EXPECT_EQ(tally.call<&Tally::next>(), 2u);
}

TEST_P(SharedOpeners, LeaveNoMemory) {
  std::set<std::string> memory;
  {
    const auto one = opened_fellow();
    const auto other = opened_fellow();
    memory = memory_of(one->pid());
    ASSERT_EQ(memory.size(), 1u);
    EXPECT_EQ(memory_of(other->pid()), memory);
    EXPECT_EQ(one->ask(Order::kClose).code, 0);
    EXPECT_TRUE(std::filesystem::exists(*memory.begin()));
    EXPECT_EQ(other->ask(Order::kClose).code, 0);
    EXPECT_FALSE(std::filesystem::exists(*memory.begin()));
  }
  const auto one = opened_fellow();
  memory = memory_of(one->pid());
  EXPECT_EQ(one->kill(), "");
  EXPECT_TRUE(std::filesystem::exists(*memory.begin()));
  Objects::open(uri());
  EXPECT_FALSE(std::filesystem::exists(*memory.begin()));
}

// Who looks finds nothing wrong where all were killed, and takes nothing away; whoever opens the
// store next does that, for a heap in it as well.
TEST_P(SharedOpeners, LeaveNoMemoryToWhoOpensTheStoreForSomethingElse) {
  const auto one = opened_fellow();
  EXPECT_EQ(one->ask(Order::kNext).value, 1u);
  const std::set<std::string> memory = memory_of(one->pid());
  EXPECT_EQ(one->kill(), "");
  const store::Description seen = value_or_throw(store::describe(uri(), {.read_only = true}));
  EXPECT_FALSE(seen.is_being_written);
  EXPECT_EQ(seen.regions.at(0).objects->at(0).name, "tally");
  EXPECT_FALSE(value_or_throw(store::check(uri(), {.read_only = true})).damaged());
  EXPECT_TRUE(std::filesystem::exists(*memory.begin()));
  Store::open(uri(), {.region = "heap"}).close();
  EXPECT_FALSE(std::filesystem::exists(*memory.begin()));
  Objects objects = Objects::open(uri());
  EXPECT_EQ(objects.object<Tally>("tally").call<&Tally::next>(), 2u);
}

// Of another start of the system, of another build, of nobody, cut off, or of another user.
TEST_P(SharedOpeners, BelieveNoMemoryThatIsNotTheirs) {
  const auto one = opened_fellow();
  EXPECT_EQ(one->ask(Order::kNext).value, 1u);
  const std::string path = *memory_of(one->pid()).begin();
  const auto other = fellow();
  const auto with_byte_changed = [&](off_t at, const char* sentence) {
    const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    u8 byte = 0;
    ASSERT_EQ(::pread(file, &byte, 1, at), 1);
    const u8 changed = byte ^ 1;
    ASSERT_EQ(::pwrite(file, &changed, 1, at), 1);
    expect_told(other->ask(Order::kOpen), Code::kLocked, sentence);
    ASSERT_EQ(::pwrite(file, &byte, 1, at), 1);
    ::close(file);
  };
  const char* const another = "is of another store, another start of the system or another build";
  with_byte_changed(0, another);   // what it is
  with_byte_changed(8, another);   // the build
  with_byte_changed(32, another);  // the store's identity
  with_byte_changed(48, another);  // the start of the system
  const std::string aside = path + "-aside";
  std::filesystem::rename(path, aside);
  expect_told(other->ask(Order::kOpen), Code::kLocked, "is not there, or another user's");
  std::ofstream(path) << "cut off";
  expect_told(other->ask(Order::kOpen), Code::kLocked, "is not there, or another user's");
  std::filesystem::rename(aside, path);
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
    expect_told(other->ask(Order::kOpen), Code::kLocked, "is not there, or another user's");
    ASSERT_EQ(::chown(path.c_str(), 0, 0), 0);
  }
  EXPECT_EQ(other->ask(Order::kOpen).code, 0);
  EXPECT_EQ(other->ask(Order::kNext).value, 2u);
}

// What one left behind says where an object is; the next one who comes alone makes it anew.
TEST_P(SharedOpeners, MakeMemoryAnewThatWasLeftBehind) {
  auto one = opened_fellow();
  EXPECT_EQ(one->ask(Order::kNext).value, 1u);
  const std::string path = *memory_of(one->pid()).begin();
  EXPECT_EQ(one->kill(), "");
  std::filesystem::resize_file(path, 100);
  one = opened_fellow();
  EXPECT_EQ(one->ask(Order::kNext).value, 2u);
}

// A copy of a store is another one, though it has the same identity.
TEST_P(SharedOpeners, HaveCopiesForThemselves) {
  {
    Objects::open(uri(), {.shared = true}).object<Tally>("tally");
  }
  std::filesystem::copy_file(folder_.path("objects.pd"), folder_.path("copy.pd"));
  const std::string copy = GetParam() + folder_.path("copy.pd");
  const NothingLeft nothing_left(copy);
  const auto one = opened_fellow();
  Fellow other(copy, {});
  EXPECT_EQ(other.ask(Order::kOpen).code, 0);
  EXPECT_EQ(one->ask(Order::kNext, 4).value, 5u);
  EXPECT_EQ(other.ask(Order::kNext).value, 1u);
}

// What one of them has made, and the space for it, the others come to know when they look; who
// leaves without having looked leaves it as it is. Large enough that the store grows by it.
TEST_P(SharedOpeners, LeaveWhatOthersHaveMadeSinceTheyCame) {
  constexpr ObjectOptions kLarge{.log_bytes = 8 << 20};
  {
    const auto one = opened_fellow();
    {
      Objects objects = Objects::open(uri(), {.shared = true});
      EXPECT_EQ(objects.object<Tally>("large", kLarge).call<&Tally::next>(), 1u);
      objects.close();
    }
    EXPECT_EQ(one->ask(Order::kClose).code, 0);
  }
  Objects objects = Objects::open(uri());
  EXPECT_EQ(objects.list().size(), 2u);
  EXPECT_EQ(objects.object<Tally>("large", kLarge).call<&Tally::next>(), 2u);
}

TEST_P(SharedOpeners, AreJoinedWhereOneHasLeftThatHadNotLooked) {
  const auto one = opened_fellow();
  Objects objects = Objects::open(uri(), {.shared = true});
  Object<Tally> other = objects.object<Tally>("other", {.log_bytes = 4096});
  EXPECT_EQ(one->ask(Order::kClose).code, 0);
  const auto third = fellow();
  expect_told(third->ask(Order::kOpen), Code{}, "");
  EXPECT_EQ(third->ask(Order::kNext).value, 1u);
  EXPECT_EQ(other.call<&Tally::next>(), 1u);
}

// A lock that is given back and taken again at once has no moment for a process that must wake
// first.
TEST_P(SharedOpeners, ComeWhileAnotherMakesObjectsAllTheTime) {
  board().noted = 0;
  Child busy([&]() -> std::string {
    Objects objects = Objects::open(uri(), {.shared = true});
    for (;;) {
      objects.object<Tally>("comes and goes", {.log_bytes = 4096});
      objects.remove("comes and goes");
      ++board().noted;
    }
  });
  while (board().noted == 0 && !busy.has_ended()) ::usleep(100);
  constexpr u64 kOpenings = 20;
  const auto comes = fellow();
  const u64 rounds_before = board().noted;
  for (u64 i = 0; i < kOpenings && !busy.has_ended(); ++i) {
    EXPECT_EQ(comes->ask(Order::kOpen).code, 0);
    EXPECT_EQ(comes->ask(Order::kClose).code, 0);
  }
  const u64 rounds = board().noted - rounds_before;
  EXPECT_LT(rounds, kOpenings * 1000);
  busy.kill();
  EXPECT_EQ(busy.wait(), "");
}

TEST_P(SharedOpeners, FailAllWhereTheMediumFailsForOne) {
  const auto other = opened_fellow();
  EXPECT_EQ(other->ask(Order::kNext, 9).value, 10u);
  media::FaultPlan plan;
  {
    const auto open_medium = [&]() -> Result<std::unique_ptr<media::Medium>> {
      PERDURA_ASSIGN(media::OpenedMedium opened, media::open_medium(uri(), {.shares = true}));
      return plan.wrap(std::move(opened.medium));
    };
    const auto runtime =
        value_or_throw(detail::ObjectsRuntime::open(uri(), {.shared = true}, open_medium));
    const std::string name = typeid(Tally).name();
    const Tally initial{};
    const auto methods = detail::methods_of<Tally>(Methods<Tally>{});
    const auto object = value_or_throw(runtime->object(
        "tally", {name.c_str(), sizeof(Tally), methods, &initial}, {.log_bytes = 4096}));
    u64 answer = 0;
    plan.arm({.calls = media::kFaultBarrier});
    expect_failure(object->core().call(object->call_of(0, 0, Domain::kAll, {}), &answer), Code::kIo,
                   "");
    plan.disarm();
    expect_told(other->ask(Order::kNext), Code::kIo, "has failed");
    const auto third = fellow();
    expect_told(third->ask(Order::kOpen), Code::kIo, "close it in all of them");
  }
  other->ask(Order::kClose);
  const auto third = opened_fellow();
  const u64 count = third->ask(Order::kNext).value;
  EXPECT_TRUE(count == 11 || count == 12) << count;
}

TEST(SharedServers, AreNone) {
  expect_error([] { Objects::open("memcached:localhost/none", {.shared = true}); },
               Code::kUnsupported, "processes cannot share what is on a server");
}

}  // namespace
}  // namespace perdura::test
