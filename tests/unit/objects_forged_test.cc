// Goal: what somebody has written into a store of objects, with checksums that fit, is refused or
// is what a program may have called: no function runs that the program does not have, nothing is
// read or written that is not the object's, nothing ends the program, and opening takes no longer.
// Method: heads, copies, names and entries of a store are changed one by one, and summed again.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <optional>

#include <perdura/objects.hpp>

#include "base/checksum.hpp"
#include "object/object_table.hpp"
#include "store/recovery.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"

namespace perdura::test {

struct Tally {
  std::uint64_t counts[4];
  void add(std::uint32_t row, std::uint32_t count) noexcept { counts[row] += count; }
  std::uint64_t next(std::uint32_t row) noexcept { return ++counts[row]; }
  std::uint64_t count(std::uint32_t row) const noexcept { return counts[row]; }
  static bool has(std::uint32_t row, std::uint32_t) noexcept { return row < 4; }
};

}  // namespace perdura::test

template <>
struct perdura::Methods<perdura::test::Tally>
    : perdura::MethodList<
          perdura::Deferrable<&perdura::test::Tally::add, &perdura::test::Tally::has>,
          perdura::Instant<&perdura::test::Tally::next>> {};

namespace perdura::test {
namespace {

using format::ObjectCaller;
using format::ObjectEntry;
using format::ObjectHead;
using object::ObjectTable;

class ForgedObjects : public testing::Test {
 protected:
  Objects open() const { return Objects::open(uri()); }
  std::string uri() const { return "emu:" + folder_.path("objects.pd"); }

  /// Calls that the copy does not have: of callers 0 to 2, two each.
  void make(std::uint32_t callers, std::uint64_t log_bytes = 4096) const {
    Objects objects = open();
    Object<Tally> tally = objects.object<Tally>(
        "tally", {.log_bytes = log_bytes,
                  .history = callers == 0 ? ObjectHistory::kNone : ObjectHistory::kLast,
                  .callers = callers});
    tally.call<&Tally::next>(1);
    for (std::uint32_t potid = 0; potid < 3; ++potid) {
      const Caller caller(objects, potid);
      tally.defer<&Tally::add>(2, potid);
      tally.call<&Tally::next>(1);
    }
    crashed_ = read_file(folder_.path("objects.pd"));
  }

  /// Of the only object, which `change` changes. All that has a checksum gets it anew.
  struct Parts {
    FileBytes& bytes;
    ObjectHead& newest;
    ObjectHead& older;

    ObjectEntry& entry(u64 line) const {
      return *reinterpret_cast<ObjectEntry*>(bytes.data() + newest.log_place + line * kLineBytes);
    }
    /// The nth entry behind the checkpoint, from 0: each of one line.
    ObjectEntry& call(u64 nth) const { return entry((newest.checkpoint + nth) % newest.log_lines); }
    std::byte* copy() const { return bytes.data() + newest.copy_place[newest.copy]; }
  };
  void forge(const std::function<void(Parts)>& change) const {
    FileBytes bytes = crashed_;
    write_file(folder_.path("objects.pd"), bytes);
    const u64 place = find();
    std::byte* const slots = bytes.data() + place;
    auto* newest = reinterpret_cast<ObjectHead*>(slots);
    auto* older = reinterpret_cast<ObjectHead*>(slots + format::kObjectHeadBytes);
    if (newest->sequence < older->sequence) std::swap(newest, older);
    change({bytes, *newest, *older});
    for (ObjectHead* const head : {newest, older}) head->checksum = object::head_checksum(*head);
    write_file(folder_.path("objects.pd"), bytes);
  }
  static void sum_copy(ObjectHead& head, const FileBytes& bytes) {
    head.copy_checksum = pieces_checksum(bytes.data() + head.copy_place[head.copy],
                                         format::object_image_bytes(head), kPageBytes);
  }
  /// Of the group of an entry, which ends with it.
  static void sum_group(const Parts& parts, ObjectEntry& mark) {
    constexpr u64 kOdd = 0x9e3779b97f4a7c15;
    mark.checksum = 0;
    const auto* const lines =
        reinterpret_cast<const std::byte*>(&mark) - (mark.group - u64{1}) * kLineBytes;
    mark.checksum = checksum(lines, (mark.group - u64{1} + mark.lines) * kLineBytes) +
                    (parts.newest.log_place + parts.newest.identity * kOdd) * kOdd +
                    parts.newest.session * kOdd * kOdd * kOdd;
  }
  static void sum_groups(const Parts& parts) {
    for (u64 nth = 0; nth < 7; ++nth)
      if (ObjectEntry& entry = parts.call(nth); entry.group != 0) sum_group(parts, entry);
  }

  void expect_refused(Code code, const std::string& why) const {
    expect_error([&] { open().object<Tally>("tally"); }, code, why);
  }

  u64 find() const {
    auto opened = value_or_throw(media::open_medium(uri(), {.create = false, .read_only = true}));
    const auto volume = value_or_throw(store::open_volume_to_read(std::move(opened.medium)));
    ObjectTable table(*volume, 1);
    value_or_throw(table.read());
    return table.all().front().place;
  }

  const TempDir folder_{TempDir::kMemory};

 private:
  mutable FileBytes crashed_;
};

TEST_F(ForgedObjects, AreAsTheyWereWhereNothingIsForged) {
  make(4);
  forge([](const Parts& parts) {
    sum_groups(parts);
    sum_copy(parts.newest, parts.bytes);
  });
  EXPECT_EQ(open().object<Tally>("tally").read<&Tally::count>(1u), 4u);
}

TEST_F(ForgedObjects, CallNothingThatTheProgramLacks) {
  make(0);
  for (const u16 function : {u16{2}, u16{77}, u16{0xffff}}) {
    forge([function](const Parts& parts) {
      parts.call(1).function = function;
      sum_groups(parts);
    });
    expect_refused(Code::kIncompatible, "does not have");
  }
  for (const u32 bytes : {0, 3, 12, 24}) {
    forge([bytes](const Parts& parts) {
      parts.call(1).context_bytes = bytes;
      sum_groups(parts);
    });
    expect_refused(Code::kIncompatible, "does not have");
  }
  forge([](const Parts& parts) {
    const u32 row = 100;
    std::memcpy(reinterpret_cast<std::byte*>(&parts.call(1)) + sizeof(ObjectEntry), &row,
                sizeof row);
    sum_groups(parts);
  });
  expect_refused(Code::kIncompatible, "does not accept");
}

// An entry is of at least one call.
TEST_F(ForgedObjects, HaveNoEntryForNothing) {
  make(4);
  forge([](const Parts& parts) {
    parts.call(1).calls = 0;
    sum_groups(parts);
  });
  expect_refused(Code::kCorrupt, "is not whole");
}

TEST_F(ForgedObjects, HaveNoMoreCallersThanRoomForThem) {
  make(4);
  forge([](const Parts& parts) {
    for (u32 nth = 0; nth < 7; ++nth) parts.call(nth).potid = 100 + nth;
    sum_groups(parts);
  });
  expect_refused(Code::kCorrupt, "callers");
}

// The other copy has them as they were.
TEST_F(ForgedObjects, KeepEachCallerOnceAndWhereItBelongs) {
  make(4);
  for (const u64 records : {2, 4}) {
    for (const bool both : {false, true}) {
      forge([&](const Parts& parts) {
        for (ObjectHead* const head : {&parts.newest, &parts.older}) {
          if (head == &parts.older && !both) continue;
          std::byte* const copy = parts.bytes.data() + head->copy_place[head->copy];
          auto* const callers = reinterpret_cast<ObjectCaller*>(copy + kLineBytes);
          for (u64 i = 0; i < records; ++i)
            callers[i] = {.potid = 7, .answer_bytes = 0, .calls = 1, .answer = {}};
          sum_copy(*head, parts.bytes);
        }
      });
      if (both) expect_refused(Code::kCorrupt, "history");
      else EXPECT_EQ(open().object<Tally>("tally").read<&Tally::count>(1u), 4u);
    }
  }
}

TEST_F(ForgedObjects, AnswerNoMoreThanARecordHolds) {
  make(4);
  struct Long {
    char text[200];
  };
  forge([](const Parts& parts) {
    // So that the copy has them.
    for (u64 nth = 0; nth < 7; ++nth) parts.call(nth).index = 0;
    auto* const callers = reinterpret_cast<ObjectCaller*>(parts.copy() + kLineBytes);
    callers[0] = {.potid = 0, .answer_bytes = sizeof(Long), .calls = 1, .answer = {}};
    sum_copy(parts.newest, parts.bytes);
  });
  try {
    Objects objects = open();
    const Object<Tally> tally = objects.object<Tally>("tally");
    const Caller caller(objects, 0);
    EXPECT_FALSE(caller.last_answer<Long>(tally).has_value());
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kCorrupt);
  }
}

// Where the newest copy does not fit, the older head leads to the same object, or to none.
TEST_F(ForgedObjects, AreNotTakenForOthersThatAnOlderHeadNames) {
  make(0);
  const std::function<void(ObjectHead&)> changes[] = {
      [](ObjectHead& head) { head.bytes = 8; },
      [](ObjectHead& head) { head.bytes = format::kObjectBytesMax; },
      [](ObjectHead& head) { head.callers = 1024; },
      [](ObjectHead& head) { head.log_lines = 1 << 20; },
      [](ObjectHead& head) { head.log_place += 512 * kMiB; },
      [](ObjectHead& head) { head.copy_place[head.copy] += 512 * kMiB; },
      [](ObjectHead& head) { head.checkpoint = format::kCounterMax; },
  };
  for (const auto& change : changes) {
    forge([&](const Parts& parts) {
      parts.copy()[0] ^= std::byte{1};
      change(parts.older);
    });
    expect_refused(Code::kCorrupt, "");
  }
  forge([](const Parts& parts) { parts.copy()[0] ^= std::byte{1}; });
  EXPECT_EQ(open().object<Tally>("tally").read<&Tally::count>(1u), 4u);
}

TEST_F(ForgedObjects, NameNoMoreFunctionsThanEntriesCanTellApart) {
  make(0);
  forge([](const Parts& parts) {
    const u64 place = parts.newest.functions_place;
    parts.newest.functions_place = round_down(place, kPageBytes) - kMiB;  // nobody's
    parts.newest.functions_bytes = 200'000;
    std::byte* const names = parts.bytes.data() + parts.newest.functions_place;
    std::memcpy(names + 199'000, parts.bytes.data() + place, 900);
    parts.newest.functions_checksum = checksum(names, parts.newest.functions_bytes);
  });
  expect_refused(Code::kCorrupt, "functions");
}

TEST_F(ForgedObjects, AreOfNoSessionThatHasNotBeen) {
  make(0);
  forge([](const Parts& parts) { parts.newest.session += 100; });
  expect_refused(Code::kCorrupt, "session");
}

// Whichever slot is damaged later.
TEST_F(ForgedObjects, StayAwayWhenTheyWereRemoved) {
  make(0);
  const u64 place = find();
  open().remove("tally");
  for (const u64 slot : {0, 1}) {
    const u64 byte = place + slot * format::kObjectHeadBytes + offsetof(ObjectHead, sequence);
    flip_bit(folder_.path("objects.pd"), byte, 1);
    EXPECT_TRUE(open().list().empty()) << slot;
    flip_bit(folder_.path("objects.pd"), byte, 1);
  }
}

// Behind a hole each line says that it ends a group of all that is before it.
TEST_F(ForgedObjects, AreOpenedAsSoonWhateverTheirLogSays) {
  make(0, 16 << 20);
  forge([](const Parts& parts) {
    const u64 lines = parts.newest.log_lines;
    for (u64 nth = 8; nth < lines - 1; ++nth) {
      ObjectEntry& entry = parts.call(nth);
      entry = {.checksum = nth,
               .index = parts.newest.checkpoint + nth,
               .potid = 0,
               .domain = 0,
               .calls = 1,
               .function = 0,
               .lines = 1,
               .group = static_cast<u32>(nth - 7),
               .context_bytes = 8};
    }
  });
  const auto begin = std::chrono::steady_clock::now();
  expect_refused(Code::kCorrupt, "ends of groups");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

}  // namespace
}  // namespace perdura::test
