// Goal: a program in C and one in C++ state the same of the same structure, so that either is told
// when the other has other members; what a record forgets is refused; and objects of C get the
// layout that their type has now, all of them or none.
// Method: one header with structures, of which members_of_c.c has the records; stores go from one
// language to the other.
#include "unit/members_of_c.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include <perdura/perdura.hpp>
#include <perdura/testing.hpp>

#include "heap/record_members.hpp"
#include "store/c_store.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"

namespace bank {
struct account {
  std::int64_t cents;
};
}  // namespace bank

namespace {

using perdura::Code;
using perdura::Store;
using perdura::test::expect_error;

/// Another build's `place` and `part`.
struct OtherPlace {
  float x;
  double y;
};
struct OtherPart {
  int number;
};

}  // namespace

template <>
struct perdura::FormerOf<OtherPlace> {
  using now = ::place;
};
template <>
struct perdura::FormerOf<OtherPart> {
  using now = ::part;
};

namespace {

class MembersOfC : public testing::TestWithParam<perdura::Engine> {
 protected:
  std::string path() const { return folder_.path("store"); }
  static perdura::Options options() {
    perdura::Options options;
    options.engine = GetParam();
    options.region_limit_bytes = std::uint64_t{64} << 20;
    return options;
  }
  perdura_store* open_c() const {
    perdura_options options{};
    options.engine = static_cast<perdura_engine>(GetParam());
    options.region_limit_bytes = std::uint64_t{64} << 20;
    perdura_store* store = nullptr;
    EXPECT_EQ(perdura_open(path().c_str(), &options, &store), 0) << perdura_last_error();
    return store;
  }
  static void close_c(perdura_store* store) {
    EXPECT_EQ(perdura_close(store), 0) << perdura_last_error();
  }
  Store open() const { return Store::open(path(), options()); }

  const perdura::test::TempDir folder_;
};

/// In words as they are compared.
std::string text_of(const std::vector<perdura::heap::Class>& classes, const std::string& name) {
  for (const perdura::heap::Class& each : classes)
    if (each.name == name) return each.entry.text;
  return "no " + name;
}

TEST(RecordsOfC, SayWhatCppKnows) {
  const auto of_c = perdura::heap::classes_of(*c_part);
  ASSERT_TRUE(of_c) << of_c.failure().message;
  const auto of_cpp = perdura::heap::classes_of(perdura::detail::describe<part>());
  for (const char* name : {"4part", "5place", "5color"}) {
    const std::string c = text_of(*of_c, name);
    const std::string cpp = text_of(of_cpp, name);
    EXPECT_TRUE(perdura::heap::same_members(c, cpp)) << c << "\n" << cpp;
    EXPECT_EQ(c.find("no "), c.npos) << c;
  }
  EXPECT_NE(text_of(*of_c, "4part").find("matrix 2 of 3 of float64 at "), std::string::npos);
  // Where the pointers are as well, and so the number of the type.
  const auto c_layout = perdura::heap::Layout::of(*c_part);
  const auto cpp_layout = perdura::heap::Layout::of(perdura::detail::record_of<part>());
  ASSERT_TRUE(c_layout && cpp_layout);
  EXPECT_EQ(c_layout->name, cpp_layout->name);
  EXPECT_EQ(c_layout->fingerprint, cpp_layout->fingerprint);
}

TEST(RecordsOfC, PointersAreTheSameWhereverOneDoesNotSayTheyLead) {
  using perdura::heap::same_members;
  const std::string place = "16 bytes, aligned to 8: a ";
  EXPECT_TRUE(same_members(place + "pointer at 0", place + "P4part at 0"));
  EXPECT_TRUE(same_members(place + "2 of PKc at 0", place + "2 of pointer at 0"));
  EXPECT_FALSE(same_members(place + "pointer at 0", place + "int64 at 0"));
  EXPECT_FALSE(same_members(place + "P4part at 0", place + "P5place at 0"));
  EXPECT_FALSE(same_members(place + "pointer at 0", place + "2 of P4part at 0"));
  EXPECT_FALSE(same_members(place + "pointer at 0", "16 bytes, aligned to 16: a P4part at 0"));
  EXPECT_FALSE(same_members(place + "pointer at 0", place + "P4part at 8"));
}

TEST(RecordsOfC, OfUnionsAndNamespaces) {
  EXPECT_FALSE(perdura::detail::HasMembers<holder>);
  const auto classes = perdura::heap::classes_of(*c_holder);
  ASSERT_TRUE(classes) << classes.failure().message;
  EXPECT_EQ(text_of(*classes, "6holder"),
            "24 bytes, aligned to 8: kind uint32 at 0, value 5value at 8, at 5place at 16");
  EXPECT_EQ(text_of(*classes, "5value"), "8 bytes, aligned to 8");
  // The pointer counts while the union has one.
  const auto layout = perdura::heap::Layout::of(*c_holder);
  ASSERT_TRUE(layout);
  holder object{GREEN, {"text"}, {}};
  int words = 0;
  const auto count = [&] {
    words = 0;
    layout->for_each_pointer(reinterpret_cast<std::byte*>(&object), sizeof object, false,
                             [&](std::uint64_t*, bool) { ++words; });
    return words;
  };
  EXPECT_EQ(count(), 1);
  object.kind = RED;
  EXPECT_EQ(count(), 0);
  EXPECT_EQ(*perdura::heap::name_of_record(*c_account_of_bank),
            perdura::detail::describe<bank::account>().name);
}

TEST(RecordsOfC, WhatTheyForgetIsNamed) {
  const char* const said[] = {"between a and c", "'a' and 'a'", "between b and its end",
                              "PERDURA_STRUCT_AS", "member 'c'"};
  for (const wrong each : {FORGOTTEN, TWICE, TOO_LATE, NAMELESS_TYPE, WRONG_SIZE}) {
    const auto classes = perdura::heap::classes_of(*c_wrong[each]);
    ASSERT_FALSE(classes) << each;
    EXPECT_EQ(classes.failure().code, Code::kInvalidArgument);
    EXPECT_NE(classes.failure().message.find(said[each]), std::string::npos)
        << classes.failure().message;
  }
}

/// A structure of one number.
struct Record {
  Record(std::uint32_t kind, std::uint32_t bytes)
      : slots{{"", PERDURA_SLOT_ALL_MEMBERS, 0, 0, nullptr, 0, 0, 0},
              {"number", kind, 0, bytes, nullptr, 0, 0, 0}},
        type{"struct number", bytes, bytes, 2, slots} {}
  Record(const Record&) = delete;
  const perdura_slot slots[2];
  const perdura_type type;
};

__extension__ using Wide = __int128;
__extension__ using Natural = unsigned __int128;
template <class T>
constexpr std::uint32_t kKind = PERDURA_SLOT_BOOL;
template <>
constexpr std::uint32_t kKind<std::int8_t> = PERDURA_SLOT_INT8;
template <>
constexpr std::uint32_t kKind<std::int64_t> = PERDURA_SLOT_INT64;
template <>
constexpr std::uint32_t kKind<std::uint64_t> = PERDURA_SLOT_UINT64;
template <>
constexpr std::uint32_t kKind<Wide> = PERDURA_SLOT_INT128;
template <>
constexpr std::uint32_t kKind<Natural> = PERDURA_SLOT_UINT128;
template <>
constexpr std::uint32_t kKind<float> = PERDURA_SLOT_FLOAT32;
template <>
constexpr std::uint32_t kKind<double> = PERDURA_SLOT_FLOAT64;
template <>
constexpr std::uint32_t kKind<long double> = PERDURA_SLOT_LONG_DOUBLE;

/// Whether a member of type To gets the value; where it does not, it is refused.
template <class To, class From>
bool gets(From value) {
  const Record was(kKind<From>, sizeof(From));
  const Record is(kKind<To>, sizeof(To));
  To made{};
  const perdura::Status status = perdura::heap::evolve_record(was.type, is.type, &value, &made);
  if (!status) {
    EXPECT_NE(status.failure().message.find("'number' has the value"), std::string::npos);
    return false;
  }
  EXPECT_TRUE(made == static_cast<To>(value));
  return true;
}

TEST(RecordsOfC, NumbersThatTheNewTypeDoesNotHaveAreRefused) {
  constexpr Wide kTwo64 = Wide{1} << 64;
  EXPECT_TRUE(gets<std::int8_t>(std::int64_t{-128}));
  EXPECT_FALSE(gets<std::int8_t>(std::int64_t{-129}));
  EXPECT_FALSE(gets<std::uint64_t>(std::int64_t{-1}));
  EXPECT_FALSE(gets<std::int64_t>(std::uint64_t{1} << 63));
  EXPECT_TRUE(gets<std::uint64_t>(kTwo64 - 1));
  EXPECT_FALSE(gets<std::uint64_t>(kTwo64));
  EXPECT_TRUE(gets<Wide>(std::int64_t{-1}));
  EXPECT_FALSE(gets<Natural>(std::int64_t{-1}));
  EXPECT_FALSE(gets<Wide>(Natural{1} << 127));
  EXPECT_TRUE(gets<bool>(std::int64_t{1}));
  EXPECT_FALSE(gets<bool>(std::int64_t{2}));
  EXPECT_FALSE(gets<bool>(0.5));

  // Integers of more digits than there is room for, of either sign; zeros at the end need none.
  EXPECT_TRUE(gets<float>(std::int64_t{-16777216}));
  EXPECT_FALSE(gets<float>(std::int64_t{-16777217}));
  EXPECT_FALSE(gets<float>(std::int64_t{16777217}));
  EXPECT_TRUE(gets<float>(std::int64_t{16777217} * 2 - 2));
  EXPECT_TRUE(gets<float>(std::numeric_limits<std::int64_t>::min()));
  EXPECT_FALSE(gets<double>(std::numeric_limits<std::int64_t>::max()));
  EXPECT_TRUE(gets<double>(std::uint64_t{1} << 63));
  EXPECT_TRUE(gets<double>(kTwo64 * 3));
  EXPECT_FALSE(gets<double>(kTwo64 + 1));
  EXPECT_TRUE(gets<long double>(kTwo64 - 1));
  EXPECT_FALSE(gets<long double>(kTwo64 + 1));
  EXPECT_FALSE(gets<long double>(-kTwo64 - 1));
  EXPECT_TRUE(gets<long double>(~Natural{0} << 64));

  EXPECT_TRUE(gets<std::int64_t>(-0x1p63));
  EXPECT_FALSE(gets<std::int64_t>(0x1p63));
  EXPECT_FALSE(gets<std::int64_t>(0.5));
  EXPECT_TRUE(gets<Wide>(-0x1p127));
  EXPECT_FALSE(gets<Wide>(0x1p127));
  EXPECT_TRUE(gets<Natural>(0x1p127));
  EXPECT_FALSE(gets<Natural>(0x1p128));
  EXPECT_FALSE(gets<Natural>(-1.0));
  EXPECT_FALSE(gets<std::int64_t>(std::numeric_limits<double>::quiet_NaN()));
  // Rounded, or said to be no number.
  EXPECT_TRUE(gets<float>(0.1));
  EXPECT_FALSE(gets<float>(1e300));
  EXPECT_TRUE(gets<float>(std::numeric_limits<double>::infinity()));
}

TEST_P(MembersOfC, CppFindsWhatCMade) {
  perdura_store* const c = open_c();
  auto* const made = static_cast<part*>(perdura_alloc_typed(c, c_part, 1));
  ASSERT_NE(made, nullptr) << perdura_last_error();
  made->next = made;
  made->matrix[1][2] = 2.5;
  made->color = BLUE;
  ASSERT_EQ(perdura_root_set_typed(c, "part", made, c_part), 0) << perdura_last_error();
  close_c(c);
  Store store = open();
  auto* const found = store.find_root<part>("part");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->next, found);
  EXPECT_EQ(found->matrix[1][2], 2.5);
  EXPECT_EQ(found->color, BLUE);
  store.make<part>();
  expect_error([&] { store.find_root<OtherPart>("part"); }, Code::kTypeMismatch, "part");
  expect_error([&] { store.find_root<OtherPlace>("place"); }, Code::kTypeMismatch,
               "in the store: 8 bytes, aligned to 4: x float32 at 0, y float32 at 4; in this "
               "program: 16 bytes");
  store.close();
}

TEST_P(MembersOfC, CFindsWhatCppMade) {
  {
    Store store = open();
    store.root<part>("part").number = 12;
    store.checkpoint();
    store.close();
  }
  perdura_store* const c = open_c();
  auto* const found = static_cast<part*>(perdura_root_get_typed(c, "part", c_part));
  ASSERT_NE(found, nullptr) << perdura_last_error();
  EXPECT_EQ(found->number, 12);
  EXPECT_NE(perdura_alloc_typed(c, c_part, 3), nullptr) << perdura_last_error();
  // Of another type than the root's, whose members are right.
  EXPECT_EQ(perdura_root_get_typed(c, "part", c_place), nullptr);
  EXPECT_EQ(perdura_last_code(), PERDURA_TYPE_MISMATCH);
  // A root without a type, of an object that has one.
  EXPECT_EQ(perdura_root_set(c, "untyped", found), 0);
  EXPECT_EQ(perdura_root_get_typed(c, "untyped", c_part), found);
  EXPECT_EQ(perdura_root_get_typed(c, "untyped", c_place), nullptr);
  EXPECT_NE(std::string(perdura_last_error()).find("is of the type 'part', not 'struct place'"),
            std::string::npos)
      << perdura_last_error();
  EXPECT_EQ(perdura_root_set_typed(c, "other", found, c_place), -PERDURA_TYPE_MISMATCH);
  EXPECT_EQ(perdura_root_get(c, "other"), nullptr);
  EXPECT_EQ(perdura_root_get_typed(c, "nowhere", c_part), nullptr);
  close_c(c);
}

TEST_P(MembersOfC, CIsToldOfOtherMembersOfCpp) {
  {
    Store store = open();
    store.root<OtherPlace>("place");
    store.checkpoint();
    store.close();
  }
  perdura_store* const c = open_c();
  EXPECT_EQ(perdura_root_get_typed(c, "place", c_place), nullptr);
  EXPECT_EQ(perdura_last_code(), PERDURA_TYPE_MISMATCH);
  const std::string said = perdura_last_error();
  EXPECT_NE(said.find("in the store: 16 bytes, aligned to 8: x float32 at 0, y float64 at 8; in "
                      "this program: 8 bytes, aligned to 4: x float32 at 0, y float32 at 4"),
            said.npos)
      << said;
  // So are those that have members of it.
  EXPECT_EQ(perdura_alloc_typed(c, c_part, 1), nullptr);
  EXPECT_EQ(perdura_last_code(), PERDURA_TYPE_MISMATCH);
  close_c(c);
}

TEST_P(MembersOfC, ObjectsOfCAreConvertedByTheNamesOfTheirMembers) {
  constexpr int kCount = 300;
  perdura_store* c = open_c();
  ASSERT_EQ(c_accounts_make(c, kCount), 0) << perdura_last_error();
  ASSERT_EQ(c_accounts_look(c, kCount), 1);
  std::uint64_t converted = 0;
  ASSERT_EQ(c_accounts_evolve(c, &converted), 0) << perdura_last_error();
  EXPECT_EQ(converted, std::uint64_t{kCount});
  EXPECT_EQ(c_accounts_look(c, kCount), 2);
  close_c(c);
  c = open_c();
  EXPECT_EQ(c_accounts_look(c, kCount), 2);
  EXPECT_EQ(c_accounts_evolve(c, &converted), 0) << perdura_last_error();
  EXPECT_EQ(converted, 0u);
  perdura_heap_audit audit;
  ASSERT_EQ(perdura_audit(c, &audit), 0);
  EXPECT_TRUE(audit.clean) << audit.problem;
  close_c(c);
  // To be read alone it is looked at, and not converted.
  perdura_options options{};
  options.read_only = 1;
  options.engine = static_cast<perdura_engine>(GetParam());
  ASSERT_EQ(perdura_open(path().c_str(), &options, &c), 0) << perdura_last_error();
  EXPECT_EQ(c_accounts_look(c, kCount), 2);
  close_c(c);
}

// Of a crash at any moment one finds all objects as they were, or all as they are.
TEST_P(MembersOfC, AreConvertedWholeInEachCrashState) {
  constexpr int kCount = 5;
  perdura::testing::CrashTestOptions crash_options;
  crash_options.store.engine = GetParam();
  bool was_found[3] = {};
  const auto report = perdura::testing::crash_test(
      crash_options,
      [](Store& store) {
        perdura_store c{std::move(store)};
        EXPECT_EQ(c_accounts_make(&c, kCount), 0) << perdura_last_error();
        EXPECT_EQ(perdura_checkpoint(&c, nullptr), 0);
        EXPECT_EQ(c_accounts_evolve(&c, nullptr), 0) << perdura_last_error();
        EXPECT_EQ(perdura_checkpoint(&c, nullptr), 0);
        store = std::move(c.store);
      },
      [&](Store& store) -> std::string {
        perdura_store c{std::move(store)};
        const int build = c_accounts_look(&c, kCount);
        store = std::move(c.store);
        if (build >= 0) was_found[build] = true;
        return build >= 0 ? "" : "some are of neither build";
      });
  EXPECT_TRUE(report.ok()) << report.text();
  EXPECT_TRUE(was_found[1]);
  EXPECT_TRUE(was_found[2]);
}

INSTANTIATE_TEST_SUITE_P(Engines, MembersOfC,
                         testing::Values(perdura::Engine::kRedoLog, perdura::Engine::kRemap,
                                         perdura::Engine::kDualCopy));

}  // namespace
