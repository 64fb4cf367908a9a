// Goal: a store says who has each of its objects, and whether that process still runs; what a dead
// one had is there for whoever opens it next, and what it was making is nobody's. It costs no
// barrier, and nothing depends on it.
// Method: children that make objects and end in each way, looked at from beside them and
// afterwards; a medium that is rebuilt as a crash may have left it at each of its calls; owners of
// earlier libraries, of another start of the system, and of another head.
#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <perdura/objects.hpp>

#include "base/aligned_buffer.hpp"
#include "base/checksum.hpp"
#include "media/record.hpp"
#include "model/object/objects_runtime.hpp"
#include "object/object_owner.hpp"
#include "region/volume.hpp"
#include "store/inspect.hpp"
#include "store/recovery.hpp"
#include "support/expect_failure.hpp"
#include "support/fellows.hpp"
#include "support/files.hpp"
#include "support/object_medium.hpp"
#include "support/process.hpp"
#include "support/scheme_names.hpp"

namespace perdura::test {
namespace {

using format::ObjectHead;
using format::ObjectOwner;
using format::ObjectSlot;

const u64 kSelf = static_cast<u64>(::getpid());

class ObjectOwners : public testing::TestWithParam<const char*> {
 protected:
  std::string path() const { return folder_.path("objects.pd"); }
  std::string uri() const { return GetParam() + path(); }

  /// As `perdura info` says it, beside whoever has the store open.
  store::ObjectDescription described(const std::string& name) const {
    const store::Description description = value_or_throw(store::describe(uri(), {}));
    for (const store::ObjectDescription& each : *description.regions.at(0).objects)
      if (each.name == name) return each;
    return {};
  }
  static ObjectDescription listed(const Objects& objects, const std::string& name) {
    for (ObjectDescription& each : objects.list())
      if (each.name == name) return each;
    return {};
  }
  /// An object with so many calls, whose process ends without a word.
  pid_t make_and_die(const std::string& name, int calls) const {
    Child child([&]() -> std::string {
      Objects objects = Objects::open(uri());
      auto tally = objects.object<Tally>(name, {.log_bytes = 8192});
      for (int i = 0; i < calls; ++i) tally.call<&Tally::next>();
      ::kill(::getpid(), SIGKILL);
      return "";
    });
    const pid_t pid = child.pid();
    EXPECT_EQ(child.wait(), "");
    EXPECT_TRUE(child.killed());
    return pid;
  }
  /// Where its slots are.
  object::ObjectTable::Entry entry_of(const std::string& name) const {
    auto medium = value_or_throw(media::open_medium(uri(), {}));
    const auto volume = value_or_throw(store::open_volume(std::move(medium.medium), false, 0));
    object::ObjectTable table(*volume, volume->regions().at(0).region);
    value_or_throw(table.read());
    return *table.find(name);
  }
  /// Changes both slots of the object in the file.
  template <class Change>
  void change_slots(const std::string& name, Change&& change) const {
    const u64 place = entry_of(name).place;
    FileBytes bytes = read_file(path());
    change(*reinterpret_cast<ObjectSlot*>(bytes.data() + place),
           *reinterpret_cast<ObjectSlot*>(bytes.data() + place + format::kObjectHeadBytes));
    write_file(path(), bytes);
  }
  static u64 sum_of(const ObjectOwner& owner) {
    return checksum(&owner.sequence, sizeof owner - sizeof owner.checksum);
  }

  const TempDir folder_{TempDir::kMemory};
  const NothingLeft nothing_left_{uri()};
};

INSTANTIATE_TEST_SUITE_P(Media, ObjectOwners, testing::Values("emu:", "file:"), name_of_scheme);

TEST_P(ObjectOwners, WhatADeadProcessHadIsThereForWhoComesNext) {
  const pid_t pid = make_and_die("left", 5);
  const store::ObjectDescription left = described("left");
  EXPECT_EQ(left.owner_pid, static_cast<u64>(pid));
  EXPECT_FALSE(left.owner_lives);

  Objects objects = Objects::open(uri());
  EXPECT_EQ(listed(objects, "left").owner_pid, static_cast<u64>(pid)) << "nobody has opened it";
  EXPECT_FALSE(listed(objects, "left").owner_lives);
  auto tally = objects.object<Tally>("left");
  EXPECT_EQ(tally.read<&Tally::all>().count, 5u);
  EXPECT_EQ(listed(objects, "left").owner_pid, kSelf);
  EXPECT_TRUE(listed(objects, "left").owner_lives);
  objects.object<Tally>("own");
  EXPECT_EQ(listed(objects, "own").owner_pid, kSelf);
  objects.close();
  EXPECT_EQ(described("left").owner_pid, kSelf) << "it had it last";
}

TEST_P(ObjectOwners, WhoHasOneIsSeenFromBesideHim) {
  ToldProcess other([&](ToldProcess::Ends ends) -> std::string {
    Objects objects = Objects::open(uri());
    objects.object<Tally>("tally", {.log_bytes = 8192});
    char byte = 1;
    if (::write(ends.replies, &byte, 1) != 1 || ::read(ends.orders, &byte, 1) < 0) return "pipe";
    return "";
  });
  char byte = 0;
  ASSERT_TRUE(other.get(byte));
  EXPECT_EQ(described("tally").owner_pid, static_cast<u64>(other.pid()));
  EXPECT_TRUE(described("tally").owner_lives);
  ::kill(other.pid(), SIGKILL);
  while (!has_ended(other.pid())) ::usleep(1000);
  EXPECT_FALSE(described("tally").owner_lives) << "nobody has waited for the process yet";
}

// Each checkpoint of one that is shared says who wrote it.
TEST_P(ObjectOwners, OfOneThatIsSharedIsWhoWroteItLast) {
  Fellow fellow(uri(), {.log_bytes = 16 << 10});
  EXPECT_EQ(fellow.ask(Order::kOpen).code, 0);
  Objects objects = Objects::open(uri(), {.shared = true});
  EXPECT_EQ(listed(objects, "tally").owner_pid, static_cast<u64>(fellow.pid()));
  EXPECT_TRUE(listed(objects, "tally").owner_lives);
  {
    auto tally = objects.object<Tally>("tally", {.log_bytes = 16 << 10});
    tally.call<&Tally::next>();
    tally.checkpoint();
    EXPECT_EQ(listed(objects, "tally").owner_pid, kSelf);
  }
  objects.close();
  EXPECT_EQ(fellow.ask(Order::kNext).value, 2u);
  EXPECT_EQ(fellow.ask(Order::kClose).code, 0);
  EXPECT_EQ(described("tally").owner_pid, static_cast<u64>(fellow.pid()));
}

// --- owners that say nothing ---------------------------------------------------------------------

// What an earlier library has left behind a head.
TEST_P(ObjectOwners, OfAHeadThatAnEarlierLibraryWroteNobodyKnows) {
  make_and_die("left", 5);
  change_slots("left", [](ObjectSlot& a, ObjectSlot& b) {
    for (ObjectSlot* const slot : {&a, &b}) std::memset(&slot->owner, 0, sizeof slot->owner);
  });
  EXPECT_EQ(described("left").owner_pid, 0u);
  EXPECT_FALSE(described("left").owner_lives);
  Objects objects = Objects::open(uri());
  EXPECT_EQ(listed(objects, "left").owner_pid, 0u);
  EXPECT_EQ(objects.object<Tally>("left").read<&Tally::all>().count, 5u);
  EXPECT_EQ(listed(objects, "left").owner_pid, kSelf);
}

TEST_P(ObjectOwners, AnotherHeadsOwnerIsNobody) {
  make_and_die("left", 5);
  change_slots("left", [](ObjectSlot& a, ObjectSlot& b) { std::swap(a.owner, b.owner); });
  EXPECT_EQ(described("left").owner_pid, 0u);
  change_slots("left", [](ObjectSlot& a, ObjectSlot& b) { std::swap(a.owner, b.owner); });
  EXPECT_NE(described("left").owner_pid, 0u);
}

TEST_P(ObjectOwners, ADamagedOneIsNobody) {
  make_and_die("left", 5);
  const object::ObjectTable::Entry entry = entry_of("left");
  const u64 place = entry.place + entry.head.sequence % 2 * format::kObjectHeadBytes;
  const FileBytes before = read_file(path());
  for (u64 byte = sizeof(ObjectHead); byte < offsetof(ObjectSlot, wear); ++byte) {
    FileBytes bytes = before;
    bytes[place + byte] ^= std::byte{1};
    write_file(path(), bytes);
    EXPECT_EQ(described("left").owner_pid, 0u) << byte;
  }
  EXPECT_EQ(Objects::open(uri()).object<Tally>("left").read<&Tally::all>().count, 5u);
}

// The same id is another process's by then.
TEST_P(ObjectOwners, OneOfAnotherStartOfTheSystemIsDead) {
  {
    Objects objects = Objects::open(uri());
    objects.object<Tally>("tally");
  }
  EXPECT_TRUE(described("tally").owner_lives);
  const auto forge = [&](auto&& change) {
    change_slots("tally", [&](ObjectSlot& a, ObjectSlot& b) {
      for (ObjectSlot* const slot : {&a, &b}) {
        change(slot->owner);
        slot->owner.checksum = sum_of(slot->owner);
      }
    });
    EXPECT_EQ(described("tally").owner_pid, kSelf);
  };
  forge([](ObjectOwner& owner) { owner.boot_id[15] ^= 1; });
  EXPECT_FALSE(described("tally").owner_lives);
  forge([](ObjectOwner& owner) { owner.boot_id[15] ^= 1; });
  EXPECT_TRUE(described("tally").owner_lives);
  forge([](ObjectOwner& owner) { ++owner.start_time; });
  EXPECT_FALSE(described("tally").owner_lives) << "another process got its id";
}

TEST(ObjectOwnersOfStores, AreUnknownInOneOfAnEarlierLibrary) {
  const TempDir folder{TempDir::kMemory};
  const std::string path = folder.path("objects.pd");
  ASSERT_EQ(std::system(
                ("gzip -dc " PERDURA_SOURCE_DIR "/tests/format/4/objects.pd.gz >" + path).c_str()),
            0);
  const Objects objects = Objects::open(path);
  const std::vector<ObjectDescription> all = objects.list();
  ASSERT_FALSE(all.empty());
  for (const ObjectDescription& each : all) {
    EXPECT_EQ(each.owner_pid, 0u) << each.name;
    EXPECT_FALSE(each.owner_lives) << each.name;
  }
}

// --- on the medium -------------------------------------------------------------------------------

constexpr u64 kHeadsEnd = 2 * format::kObjectHeadBytes;
constexpr u64 kLogAt = kHeadsEnd;
constexpr u64 kLogLines = 64;
constexpr u64 kCopiesAt = kLogAt + kLogLines * kLineBytes;

object::ObjectCore::Parts parts_of(media::Medium& medium) {
  object::ObjectCore::Parts parts;
  parts.medium = medium.linear();
  parts.session = 1;
  parts.head = new_object_head({kCopiesAt, kCopiesAt + kPageBytes}, kLogAt, kLogLines);
  return parts;
}
std::unique_ptr<media::Medium> open_medium(const std::string& uri) {
  auto opened = value_or_throw(media::open_medium(uri, {}));
  value_or_throw(opened.medium->grow(kCopiesAt + 2 * kPageBytes, true));
  return std::move(opened.medium);
}

// In the same write, and so behind the same barrier. Where it is torn away nobody is named.
TEST_P(ObjectOwners, AreWrittenWithTheirHeads) {
  media::Recording recording;
  size_t created = 0;
  size_t removing = 0;
  const std::vector<std::byte> zeros(100);
  {
    const auto medium = recording.wrap(open_medium(uri()));
    auto core = value_or_throw(object::ObjectCore::create(parts_of(*medium), zeros));
    created = recording.size();
    value_or_throw(core->checkpoint());
    value_or_throw(core->close());
    const ObjectHead head = core->head();
    removing = recording.size();
    object::ObjectCopies copies(*medium->linear(), {.place = 0, .head = head});
    value_or_throw(copies.remove());
  }
  const media::History history = recording.history();
  u64 barriers = 0;
  u64 heads = 0;
  for (size_t i = 0; i < history.calls().size(); ++i) {
    const media::RecordedCall& call = history.calls()[i];
    if (i < created) barriers += call.kind == media::RecordedCall::Kind::kBarrier ? 1 : 0;
    if (call.kind != media::RecordedCall::Kind::kWrite || call.offset >= kHeadsEnd) continue;
    ++heads;
    ASSERT_GE(call.bytes.size(), sizeof(ObjectSlot));
    ObjectSlot slot;
    std::memcpy(&slot, call.bytes.data(), sizeof slot);
    const u64 pid = object::owner_found(slot.head, slot.owner).pid;
    EXPECT_EQ(pid, i < removing ? kSelf : 0) << "call " << i;
    if (i >= removing) {
      EXPECT_EQ(slot.owner.pid, 0u);
    }
  }
  EXPECT_EQ(barriers, 4u) << "two of each checkpoint";
  EXPECT_GE(heads, 6u);
  u64 named = 0;
  u64 torn = 0;
  for_each_crash(
      history, created, 6,
      [&](size_t end, const FileBytes& image) {
        AlignedBuffer slots(kHeadsEnd);
        std::memcpy(slots.data(), image.data(), kHeadsEnd);
        const auto medium = open_medium(GetParam() + folder_.path("any"));
        const auto entry = object::ObjectTable::entry_of(*medium, 0, slots.data());
        ASSERT_TRUE(entry.owner.pid == 0 || entry.owner.pid == kSelf) << end;
        if (entry.head.log_lines == 0) {
          ASSERT_EQ(entry.owner.pid, 0u) << "an object that is gone has an owner";
        } else if (entry.owner.pid == 0) {
          ++torn;
        } else {
          ++named;
        }
      },
      [] { return !HasFatalFailure(); });
  EXPECT_GT(named, torn);
}

// --- freed --------------------------------------------------------------------------------------

// It is not freed while there is one; and an Error from when its objects are closed on.
TEST_P(ObjectOwners, AReferenceToAFreedObjectIsAnError) {
  Objects first = Objects::open(uri());
  Object<Tally> tally = first.object<Tally>("tally", {.log_bytes = 8192});
  tally.call<&Tally::next>();
  expect_error([&] { first.remove("tally"); }, Code::kMisuse, "let go of it");
  EXPECT_EQ(tally.call<&Tally::next>(), 2u);
  first.close();
  const auto expect_closed = [&] {
    expect_error([&] { tally.call<&Tally::next>(); }, Code::kMisuse, "closed");
    expect_error([&] { tally.read<&Tally::all>(); }, Code::kMisuse, "closed");
  };
  expect_closed();
  Objects second = Objects::open(uri());
  second.remove("tally");
  expect_closed();
  // In its place, with its name and its space.
  auto another = second.object<Tally>("tally", {.log_bytes = 8192});
  EXPECT_EQ(another.call<&Tally::next>(), 1u);
  expect_closed();
  EXPECT_EQ(another.read<&Tally::all>().count, 1u);
}

// --- what was being made -------------------------------------------------------------------------

// Whoever opens the store next finds the object whole, or all of its space free.
TEST_P(ObjectOwners, ACreationThatACrashEndsLeavesNothing) {
  constexpr u64 kBytes = 200'000;
  const std::vector<std::byte> zeros(kBytes);
  const auto make = [&](detail::ObjectsRuntime& runtime, const std::string& name) {
    return value_or_throw(runtime.object(
        name, {.name = "bytes", .bytes = kBytes, .methods = {}, .initial = zeros.data()},
        {.log_bytes = 8192}));
  };
  media::Recording recording;
  size_t begin = 0;
  {
    const auto runtime = value_or_throw(
        detail::ObjectsRuntime::open(uri(), {}, [&]() -> Result<std::unique_ptr<media::Medium>> {
          PERDURA_ASSIGN(media::OpenedMedium opened, media::open_medium(uri(), {}));
          return recording.wrap(std::move(opened.medium));
        }));
    make(*runtime, "first");
    begin = recording.size();
    make(*runtime, "second");
    runtime->abandon();
  }
  const media::History history = recording.history();
  const u64 size = history.size_after(history.calls().size());
  u64 there = 0;
  u64 gone = 0;
  for_each_crash(
      history, begin, 3,
      [&](size_t end, const FileBytes& image) {
        const std::string crashed = folder_.path("crashed.pd");
        write_file(crashed, image);
        const auto runtime = value_or_throw(detail::ObjectsRuntime::open(GetParam() + crashed, {}));
        const std::vector<ObjectDescription> all = value_or_throw(runtime->list());
        ASSERT_TRUE(all.size() == 1 || all.size() == 2) << end;
        (all.size() == 2 ? there : gone) += 1;
        EXPECT_EQ(all[0].name, "first");
        make(*runtime, "second");
        value_or_throw(runtime->close());
        ASSERT_LE(std::filesystem::file_size(crashed), size) << "space has leaked at " << end;
      },
      [] { return !HasFatalFailure(); });
  EXPECT_GT(there, 0u);
  EXPECT_GT(gone, 3u);
}

}  // namespace
}  // namespace perdura::test
