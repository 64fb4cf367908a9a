// Goal: of entries that wait in an object's log it is known which build of the program wrote them,
// in whatever state a crash leaves the medium; and who may not do what another build has logged is
// told both. Nothing is believed of a record that is not whole or not of its head. Method: programs
// of several builds, one after the other, on a medium that is rebuilt as a crash may have left it
// at each of its calls; records that are flipped, forged, or lacking as of an earlier library; this
// program, by its own build id; processes that share an object.
#include <gtest/gtest.h>
#include <signal.h>

#include <perdura/objects.hpp>

#include "base/checksum.hpp"
#include "media/record.hpp"
#include "model/object/objects_runtime.hpp"
#include "model/object/program_build.hpp"
#include "object/object_build.hpp"
#include "object/object_core.hpp"
#include "store/recovery.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/object_medium.hpp"
#include "support/process.hpp"
#include "support/scheme_names.hpp"

namespace perdura::test {

struct Tally {
  std::uint64_t count;
  std::uint64_t next() noexcept { return ++count; }
  void add(std::uint64_t more) noexcept { count += more; }
  std::uint64_t now() const noexcept { return count; }
};

}  // namespace perdura::test

template <>
struct perdura::Methods<perdura::test::Tally>
    : perdura::MethodList<perdura::Instant<&perdura::test::Tally::next>,
                          perdura::Deferrable<&perdura::test::Tally::add>> {};

namespace perdura::test {
namespace {

using format::ObjectBuild;
using format::ObjectHead;
using object::build_named;
using object::ObjectCore;
using object::ObjectTable;

// --- builds one after the other
// -------------------------------------------------------------------

constexpr u64 kCopyAt[2] = {2 * kPageBytes, 3 * kPageBytes};
constexpr u64 kLogLines = 64;
constexpr u64 kLogAt = 4 * kPageBytes;
constexpr u64 kMediumBytes = kLogAt + kLogLines * kLineBytes;

ObjectBuild build_of_session(u64 session) {
  return build_named(100 + session, "of session " + std::to_string(session));
}

class ObjectBuilds : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<media::Medium> open(const std::string& name) const {
    auto opened = value_or_throw(media::open_medium(GetParam() + folder_.path(name), {}));
    value_or_throw(opened.medium->grow(kMediumBytes, true));
    return std::move(opened.medium);
  }
  static ObjectCore::Parts parts(media::Medium& medium, u64 session) {
    ObjectCore::Parts parts;
    parts.medium = medium.linear();
    parts.session = session;
    parts.functions.push_back({.name = "next",
                               .result_bytes = sizeof(u64),
                               .run = [](void* state, const void*, void* to) {
                                 const u64 now = ++static_cast<Tally*>(state)->count;
                                 if (to != nullptr) std::memcpy(to, &now, sizeof now);
                               }});
    parts.build = build_of_session(session);
    return parts;
  }
  static std::unique_ptr<ObjectCore> create(ObjectCore::Parts made) {
    made.head = new_object_head(kCopyAt, kLogAt, kLogLines);
    const Tally state{};
    return value_or_throw(ObjectCore::create(std::move(made), std::as_bytes(std::span(&state, 1))));
  }
  static u64 next(ObjectCore& core) {
    u64 answer = 0;
    value_or_throw(core.call({.function = 0}, &answer));
    return answer;
  }
  static ObjectTable::Entry entry_of(media::Medium& medium) {
    AlignedBuffer slots(2 * format::kObjectHeadBytes);
    value_or_throw(medium.load_pages(0, slots.span()));
    return ObjectTable::entry_of(medium, 0, slots.data());
  }

  const TempDir folder_{TempDir::kMemory};
};

// Where nothing waits the next build may open it, whatever is known.
TEST_P(ObjectBuilds, AreKnownOfAllThatWaitsAfterAnyCrash) {
  for (const auto durability : {object::Durability::kInstants, object::Durability::kRelaxed}) {
    const std::string number = std::to_string(static_cast<int>(durability));
    media::Recording recording;
    {
      const auto medium = recording.wrap(open("object" + number));
      for (u64 session = 1; session <= 3; ++session) {
        ObjectCore::Parts opened = parts(*medium, session);
        opened.options.checkpoint_calls = 3;
        opened.options.durability = durability;
        const auto core = session == 1
                              ? create(std::move(opened))
                              : value_or_throw(ObjectCore::recover(with_heads(std::move(opened))));
        for (u64 call = 0; call < 8; ++call) {
          next(*core);
          if (call % 3 == 1) value_or_throw(core->sync());
        }
      }  // as the death of the process leaves it
    }
    u64 waiting = 0, builds = 0;
    const auto check = [&](size_t end, const FileBytes& image) {
      write_file(folder_.path("crashed"), image);
      const ObjectHead head = entry_of(*open("crashed")).head;
      if (head.magic == 0) return;
      const u64 writer = head.session;
      for (const u64 opener : {writer, writer + 1}) {
        write_file(folder_.path("crashed"), image);
        const auto medium = open("crashed");
        ObjectCore::Parts opened = with_heads(parts(*medium, 100));
        opened.build = build_of_session(opener);
        opened.options.same_build = true;
        const auto core = ObjectCore::recover(std::move(opened));
        if (core) continue;
        ++waiting;
        ASSERT_NE(opener, writer) << core.failure().message << " at call " << end;
        expect_failure(core, Code::kIncompatible,
                       "of build of session " + std::to_string(writer) +
                           ", and this program is build of session " + std::to_string(opener));
      }
      builds |= u64{1} << writer;
    };
    for_each_crash(recording.history(), 0, 6, check, [&] { return !HasFatalFailure(); });
    EXPECT_GT(waiting, 20u);
    EXPECT_EQ(builds, 0b1110u);
  }
}

// A crash has torn the newest slot's off, and the next head takes the slot that has it still.
TEST_P(ObjectBuilds, AreKnownAlsoWhereAnOpeningEndsThatFoundThemInTheOtherSlot) {
  {
    const auto medium = open("object");
    {
      const auto core = create(parts(*medium, 1));
      for (u64 call = 1; call <= 3; ++call) EXPECT_EQ(next(*core), call);
    }
    const u64 slot = entry_of(*medium).head.sequence % 2 * format::kObjectHeadBytes;
    AlignedBuffer bytes(format::kObjectHeadBytes);
    value_or_throw(medium->load_pages(slot, bytes.span()));
    std::memset(bytes.data() + format::kObjectBuildOffset, 0, sizeof(ObjectBuild));
    value_or_throw(medium->linear()->write(slot, bytes.span(), PERDURA_SITE("torn build")));
    value_or_throw(medium->linear()->barrier(PERDURA_SITE("torn build")));
  }
  media::Recording recording;
  {
    const auto medium = recording.wrap(open("object"));
    value_or_throw(ObjectCore::recover(with_heads(parts(*medium, 2))));
  }
  u64 waiting = 0;
  const auto check = [&](size_t end, const FileBytes& image) {
    write_file(folder_.path("crashed"), image);
    const auto medium = open("crashed");
    const u64 writer = entry_of(*medium).head.session;
    ASSERT_NE(writer, 0u);
    waiting += writer == 1;
    ObjectCore::Parts opened = with_heads(parts(*medium, 3));
    opened.build = build_of_session(writer);
    opened.options.same_build = true;
    EXPECT_EQ(next(*value_or_throw(ObjectCore::recover(std::move(opened)))), 4u) << end;
  };
  for_each_crash(recording.history(), 0, 20, check, [&] { return !HasFatalFailure(); });
  EXPECT_GT(waiting, 20u);
}

TEST_P(ObjectBuilds, AreOfWhatIsExecutedByAnotherOneNoMore) {
  const auto medium = open("object");
  {
    const auto core = create(parts(*medium, 1));
    for (u64 call = 1; call <= 5; ++call) EXPECT_EQ(next(*core), call);
  }
  EXPECT_EQ(entry_of(*medium).build.sum, build_of_session(1).sum);
  value_or_throw(ObjectCore::recover(with_heads(parts(*medium, 2))));
  EXPECT_EQ(entry_of(*medium).build.sum, build_of_session(2).sum);
  ObjectCore::Parts third = with_heads(parts(*medium, 3));
  third.options.same_build = true;
  EXPECT_EQ(next(*value_or_throw(ObjectCore::recover(std::move(third)))), 6u);
}

INSTANTIATE_TEST_SUITE_P(Media, ObjectBuilds, testing::Values("emu:", "file:"), name_of_scheme);

// --- this program
// ---------------------------------------------------------------------------------

class ObjectsOfABuild : public testing::TestWithParam<const char*> {
 protected:
  std::string uri() const { return GetParam() + folder_.path("objects.pd"); }
  /// Is killed with calls that the copy lacks.
  void run_and_kill(bool shared = false) const {
    Child killed([&]() -> std::string {
      Objects objects = Objects::open(uri(), {.shared = shared});
      Object<Tally> tally = objects.object<Tally>("tally");
      for (int i = 0; i < 3; ++i) tally.call<&Tally::next>();
      ::kill(::getpid(), SIGKILL);
      return "it lives";
    });
    ASSERT_EQ(killed.wait(), "");
    killed_ = read_file(folder_.path("objects.pd"));
  }
  u64 find() const {
    auto opened = value_or_throw(media::open_medium(uri(), {.create = false, .read_only = true}));
    const auto volume = value_or_throw(store::open_volume_to_read(std::move(opened.medium)));
    ObjectTable table(*volume, 1);
    value_or_throw(table.read());
    return table.all().front().place;
  }
  /// Both slots' records, of the newest head first.
  template <class Change>
  void change(Change&& each) const {
    FileBytes bytes = killed_;
    write_file(folder_.path("objects.pd"), bytes);
    const u64 place = find();
    const auto head = [&](u64 slot) {
      return reinterpret_cast<ObjectHead*>(bytes.data() + place + slot * format::kObjectHeadBytes);
    };
    const u64 newest = head(0)->sequence > head(1)->sequence ? 0 : 1;
    for (const u64 slot : {newest, newest ^ 1})
      each(*reinterpret_cast<ObjectBuild*>(reinterpret_cast<std::byte*>(head(slot)) +
                                           format::kObjectBuildOffset),
           slot == newest);
    write_file(folder_.path("objects.pd"), bytes);
  }
  static void sum(ObjectBuild& build) {
    build.checksum = checksum(&build.sequence, sizeof build - sizeof build.checksum);
  }
  u64 open_and_ask(bool same_build) const {
    Objects objects = Objects::open(uri());
    Object<Tally> tally = objects.object<Tally>("tally", {.same_build = same_build});
    return tally.read<&Tally::now>();
  }
  void expect_unknown() const {
    expect_error([&] { open_and_ask(true); }, Code::kIncompatible,
                 "has 3 entries of a build that is not known, and this program is build ");
    EXPECT_EQ(open_and_ask(false), 3u);
  }

  const TempDir folder_{TempDir::kMemory};

 private:
  mutable FileBytes killed_;
};

// Its name and build id are in the store, and with what it says a reader finds it.
TEST_P(ObjectsOfABuild, DoWhatTheSameOneLogged) {
  run_and_kill();
  change([](const ObjectBuild& build, bool) {
    const std::string text = build.text;
    EXPECT_EQ(text.find(" of object_build_test"), 16u) << text;
    EXPECT_EQ(text.find_first_not_of("0123456789abcdef"), 16u) << text;
  });
  EXPECT_EQ(open_and_ask(true), 3u);
}

TEST_P(ObjectsOfABuild, DoNotDoWhatAnotherOneLoggedIfTheyMayNot) {
  run_and_kill();
  change([](ObjectBuild& build, bool) {
    const u64 sequence = build.sequence;
    build = build_named(77, "0123 of another program");
    build.sequence = sequence;
    sum(build);
  });
  for (int life = 0; life < 2; ++life)
    expect_error([&] { open_and_ask(true); }, Code::kIncompatible,
                 "the log of object 'tally' has 3 entries of build 0123 of another program, and "
                 "this program is build ");
  expect_error([&] { open_and_ask(true); }, Code::kIncompatible,
               " of object_build_test: open it with that one, and close it there; or without "
               "same_build");
  EXPECT_EQ(open_and_ask(false), 3u);
  EXPECT_EQ(open_and_ask(true), 3u);  // nothing waits any more
}

// As torn by a crash: either slot has it. As an earlier library leaves both: nobody knows.
TEST_P(ObjectsOfABuild, AreKnownByEitherSlot) {
  run_and_kill();
  for (const bool tears_newest : {true, false}) {
    change([&](ObjectBuild& build, bool is_newest) {
      if (is_newest == tears_newest) build.text[3] ^= 1;
    });
    EXPECT_EQ(open_and_ask(true), 3u);
  }
  const std::function<void(ObjectBuild&)> unknown[] = {
      [](ObjectBuild& build) { build.checksum ^= 1; },
      [](ObjectBuild& build) { build = {}; },
      [](ObjectBuild& build) { build.sequence -= 2, sum(build); },
      [](ObjectBuild& build) { build.sum = 0, build.text[0] = '\0', sum(build); },
      [](ObjectBuild& build) { build.text[format::kObjectBuildTextMax] = 'x', sum(build); },
  };
  for (const auto& each : unknown) {
    change([&](ObjectBuild& build, bool) { each(build); });
    expect_unknown();
  }
}

TEST(ProgramBuild, IsOfTheModulesThatTheMethodsAreIn) {
  const Tally initial{};
  const auto own = detail::methods_of<Tally>(Methods<Tally>{});
  std::vector<detail::ObjectMethod> methods(own.begin(), own.end());
  detail::ObjectType type{"Tally", sizeof(Tally), methods, &initial};
  detail::ProgramBuild program;
  const ObjectBuild alone = program.of(type);
  EXPECT_TRUE(object::is_same(alone, program.of(type)));
  methods[1].code = reinterpret_cast<const void*>(&::getenv);  // of another module
  const ObjectBuild with_library = program.of(type);
  EXPECT_TRUE(object::is_known(with_library));
  EXPECT_FALSE(object::is_same(alone, with_library));
  std::swap(methods[0], methods[1]);
  EXPECT_TRUE(object::is_same(with_library, program.of(type)));
  methods[1].code = &initial;  // of none
  EXPECT_FALSE(object::is_known(program.of(type)));
}

// --- processes that share an object
// ---------------------------------------------------------------

// Of two builds entries may be of either, and the medium says so before there are any.
TEST_P(ObjectsOfABuild, ThatAreSharedAreOfSeveral) {
  run_and_kill(true);
  const auto program = [&](const char* build, bool same_build) -> std::string {
    const Tally initial{};
    auto own = detail::methods_of<Tally>(Methods<Tally>{});
    // As another build would have it: the code of a method is in another module as well.
    if (build[0] == 'b') own[0].code = reinterpret_cast<const void*>(&::getenv);
    const detail::ObjectType type{typeid(Tally).name(), sizeof(Tally), own, &initial};
    const auto runtime = value_or_throw(detail::ObjectsRuntime::open(uri(), {.shared = true}));
    const auto opened = runtime->object("tally", type, {.same_build = same_build});
    if (!opened) return opened.failure().message;
    u64 answer = 0;
    value_or_throw((*opened)->core().call((*opened)->call_of(0, 0, Domain::kAll, {}), &answer));
    return std::to_string(answer);
  };
  for (const bool same_build : {true, false}) {
    Objects objects = Objects::open(uri(), {.shared = true});
    Object<Tally> tally = objects.object<Tally>("tally", {.same_build = same_build});
    const std::uint64_t before = tally.call<&Tally::next>();
    Child same([&] { return program("a", same_build); });
    EXPECT_EQ(same.wait(), std::to_string(before + 1));
    Child chooses([&] { return program("a", !same_build); });
    EXPECT_NE(chooses.wait().find(same_build ? "with same_build" : "without same_build"),
              std::string::npos);
    Child other([&] { return program("b", same_build); });
    const std::string said = other.wait();
    if (same_build) {
      EXPECT_NE(said.find("object 'tally' is open in build "), std::string::npos) << said;
    } else {
      EXPECT_EQ(said, std::to_string(before + 2));
      EXPECT_EQ(tally.call<&Tally::next>(), before + 3);
    }
    objects.close();
  }
  // As above, and all are killed.
  Child killed([&]() -> std::string {
    Objects objects = Objects::open(uri(), {.shared = true});
    Object<Tally> tally = objects.object<Tally>("tally");
    Child other([&] { return program("b", false); });
    if (const std::string said = other.wait(); said.size() > 3) return said;
    tally.call<&Tally::next>();
    ::kill(::getpid(), SIGKILL);
    return "it lives";
  });
  ASSERT_EQ(killed.wait(), "");
  expect_error([&] { open_and_ask(true); }, Code::kIncompatible, "of several builds at once, and");
}

INSTANTIATE_TEST_SUITE_P(Media, ObjectsOfABuild, testing::Values("emu:", "file:"), name_of_scheme);

}  // namespace
}  // namespace perdura::test
