// Goal: a store tells a program that its types are not what they were, member by member, and
// objects get the layout that their type has now: all of them or none, with whatever leads to them.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include <perdura/perdura.hpp>
#include <perdura/testing.hpp>

#include "support/expect_failure.hpp"
#include "support/files.hpp"

namespace {

using perdura::Code;
using perdura::Store;
using perdura::test::expect_error;

// What a program calls `now::X` is what another build of it called X: FormerOf gives both one name.
namespace now {
enum class Kind : std::uint8_t { kOpen, kClosed };
struct Point {
  float x = 1;
  std::int64_t y;
  std::int32_t weight = 7;
};
struct Account {
  char name[16];
  std::int64_t cents;
  Account* next;
  Account* back = nullptr;
  Kind kind = Kind::kClosed;
  std::int64_t* to_cents;
  Point at;
};
struct Line {
  Point from;
  Point to;
};
struct Shape {
  std::int32_t name = 0;
  Line edge;
  Point corners[4];
  Point* corner;
  void* weight_of_edge;
  void* y_of_corner;
};
// Not larger than it was, so that what contains it says the same of it.
struct Two {
  std::int32_t second;
  std::int32_t first;
};
struct WithTwo {
  Two two;
};
struct WithWithTwo {
  WithTwo both[2];
};
struct WithParts {
  std::array<std::pair<int, Two>, 2> parts;
};
struct Item {
  std::int32_t weight = 3;
  std::int64_t cents;
  Two two;
  Item* next;
};
struct Numbers {
  std::int32_t integer;
  std::uint64_t natural;
  float real;
  std::int16_t whole[2];
  bool flag;
};
struct Account2 {
  std::int64_t cents;
  std::int64_t limit = 1000;
  std::int64_t owner = 5;
};
}  // namespace now

namespace v1 {
struct Point {
  float x;
  std::int32_t y;
};
struct Account {
  Account* next;
  std::int64_t cents;
  std::int32_t gone;
  char name[8];
  std::int64_t* to_cents;
  Point at;
};
struct Line {
  Point from;
  Point to;
};
struct Shape {
  Point corners[3];
  Line edge;
  Point* corner;
  void* weight_of_edge;
  void* y_of_corner;
};
struct Two {
  std::int32_t first;
  std::int32_t second;
};
struct WithTwo {
  Two two;
};
struct WithWithTwo {
  WithTwo both[2];
};
struct WithParts {
  std::array<std::pair<int, Two>, 2> parts;
};
struct Item {
  std::int64_t cents;
  Item* next;
  Two two;
};
struct Numbers {
  std::int64_t integer;
  std::int64_t natural;
  double real;
  double whole[2];
  int flag;
};
struct Account2 {
  std::int64_t cents;
};
}  // namespace v1

namespace v2 {
struct Account2 {
  std::int64_t cents;
  std::int64_t limit = 1000;
};
}  // namespace v2

struct ToItems {
  const std::int64_t* cents;
  now::Item* item;
  void* something;
  const now::Two* two;
  std::int32_t* first;
};

/// Of which a store knows where the pointers are, and no more.
class Closed {
 public:
  Closed() = default;
  std::int32_t first = 0;
  std::int32_t second = 0;
};
class ClosedBefore {
 public:
  ClosedBefore() = default;
  std::int32_t second = 0;
  std::int32_t first = 0;
};

struct SameNumbers {
  long number;
  unsigned long long mark;
};
struct SameNumbersBefore {
  perdura::Field<long long> number;
  unsigned long mark;
};

struct Opaque {
  std::int32_t a;
};
struct OpaqueBefore {
  float a;
};
struct OpaqueLarger {
  double a;
};
struct Base {
  int a;
};

using Map =
    std::map<int, now::Point, std::less<>, perdura::Allocator<std::pair<const int, now::Point>>>;
struct Held {
  std::array<std::pair<int, now::Point>, 2> pairs;
};
struct HeldBefore {
  std::array<std::pair<int, v1::Point>, 2> pairs;
};

}  // namespace

template <>
struct perdura::FormerOf<v1::Point> {
  using now = now::Point;
};
template <>
struct perdura::FormerOf<v1::Account> {
  using now = now::Account;
};
template <>
struct perdura::FormerOf<v1::Line> {
  using now = now::Line;
};
template <>
struct perdura::FormerOf<v1::Shape> {
  using now = now::Shape;
};
template <>
struct perdura::FormerOf<v1::Two> {
  using now = now::Two;
};
template <>
struct perdura::FormerOf<v1::WithTwo> {
  using now = now::WithTwo;
};
template <>
struct perdura::FormerOf<v1::WithWithTwo> {
  using now = now::WithWithTwo;
};
template <>
struct perdura::FormerOf<v1::WithParts> {
  using now = now::WithParts;
};
// The names of these have that of Two in them.
template <>
struct perdura::FormerOf<std::array<std::pair<int, v1::Two>, 2>> {
  using now = std::array<std::pair<int, now::Two>, 2>;
};
template <>
struct perdura::FormerOf<std::pair<int, v1::Two>> {
  using now = std::pair<int, now::Two>;
};
template <>
struct perdura::FormerOf<v1::Item> {
  using now = now::Item;
};
template <>
struct perdura::FormerOf<v1::Numbers> {
  using now = now::Numbers;
};
template <>
struct perdura::FormerOf<v1::Account2> {
  using now = now::Account2;
};
template <>
struct perdura::FormerOf<v2::Account2> {
  using now = now::Account2;
};
template <>
struct perdura::FormerOf<ClosedBefore> {
  using now = Closed;
};
PERDURA_TYPE(Closed)
PERDURA_TYPE(now::WithParts)
template <>
struct perdura::TypeRecord<ClosedBefore> {
  static constexpr perdura_type value = perdura::TypeRecord<Closed>::value;
};
template <>
struct perdura::TypeRecord<v1::WithParts> {
  static constexpr perdura_type value = perdura::TypeRecord<now::WithParts>::value;
};
template <>
struct perdura::FormerOf<SameNumbersBefore> {
  using now = SameNumbers;
};
template <>
struct perdura::FormerOf<OpaqueBefore> {
  using now = Opaque;
};
template <>
struct perdura::FormerOf<OpaqueLarger> {
  using now = Opaque;
};
template <>
struct perdura::FormerOf<HeldBefore> {
  using now = Held;
};
template <>
inline constexpr bool perdura::kOpaque<Opaque> = true;
template <>
inline constexpr bool perdura::kOpaque<OpaqueBefore> = true;
template <>
inline constexpr bool perdura::kOpaque<OpaqueLarger> = true;

namespace {

class StoresOfBefore : public ::testing::TestWithParam<const char*> {
 protected:
  std::string path() const { return folder_.path("store"); }
  std::string uri() const { return GetParam() + path(); }
  Store open() { return Store::open(uri()); }

  perdura::test::TempDir folder_;
};
class Members : public StoresOfBefore {};
class Evolution : public StoresOfBefore {
 protected:
  static constexpr int kAccounts = 300;

  /// A ring of accounts, each with a pointer into its neighbour.
  static void make_accounts(Store& store, int count = kAccounts) {
    auto op = store.operation();
    v1::Account* first = nullptr;
    v1::Account* last = nullptr;
    for (int i = 0; i < count; ++i) {
      auto* const made = store.make<v1::Account>();
      made->cents = i;
      made->gone = -i;
      made->at = {static_cast<float>(i) / 2, i * 3};
      std::snprintf(made->name, sizeof made->name, "a%d", i % 1000);
      if (last != nullptr) {
        last->next = made;
        made->to_cents = &last->cents;
      } else {
        first = made;
      }
      last = made;
    }
    last->next = first;
    first->to_cents = &last->cents;
    store.set_root("accounts", first, Store::fingerprint<v1::Account>());
  }
  static void expect_accounts(Store& store) {
    auto* const first = store.find_root<now::Account>("accounts");
    ASSERT_NE(first, nullptr);
    auto* account = first;
    for (int i = 0; i < kAccounts; ++i, account = account->next) {
      ASSERT_EQ(account->cents, i);
      ASSERT_EQ(account->name, "a" + std::to_string(i));
      ASSERT_EQ(account->back, nullptr);
      ASSERT_EQ(account->kind, now::Kind::kClosed);
      ASSERT_EQ(account->at.x, static_cast<float>(i) / 2);
      ASSERT_EQ(account->at.y, i * 3);
      ASSERT_EQ(account->at.weight, 7);
      ASSERT_EQ(&account->cents, account->next->to_cents);
    }
    ASSERT_EQ(account, first);
  }
};

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const perdura::Error& error) {
    EXPECT_EQ(error.code(), Code::kTypeMismatch);
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST_P(Members, OtherMembersAreSaidWithBothLayouts) {
  {
    Store store = open();
    store.root<v1::Line>("line");
    store.checkpoint();
  }
  Store store = open();
  const std::string said = message_of([&] { store.root<now::Line>("line"); });
  EXPECT_NE(said.find("in the store: 8 bytes, aligned to 4: x float32 at 0, y int32 at 4"),
            said.npos)
      << said;
  EXPECT_NE(said.find("in this program: 24 bytes, aligned to 8: x float32 at 0, y int64 at 8, "
                      "weight int32 at 16"),
            said.npos)
      << said;
  EXPECT_NE(said.find("now::Point"), said.npos) << said;
  EXPECT_NE(said.find(path()), said.npos) << said;
}

TEST_P(Members, WhatContainersContainIsCompared) {
  {
    Store store = open();
    store.root<v1::Point>("point");
    store.root<HeldBefore>("held");
    store.checkpoint();
  }
  Store store = open();
  message_of([&] { store.root<Map>("map"); });
  message_of([&] { store.root<Held>("held"); });
}

TEST_P(Members, OfObjectsThatAreMadeAreCompared) {
  Store store = open();
  store.make<v1::Account>();
  message_of([&] { store.make<now::Account>(); });
  EXPECT_TRUE(store.audit().clean);
}

TEST_P(Members, NumbersThatAreTheSameInMemoryAreTheSame) {
  {
    Store store = open();
    store.root<SameNumbersBefore>("numbers").number = 5;
    store.checkpoint();
  }
  Store store = open();
  EXPECT_EQ(store.make<SameNumbers>()->number, 0);
}

TEST_P(Members, WhoseMembersAreNotKnownIsOpaque) {
  struct WithBase : Base {
    int b;
  };
  struct Bits {
    int a : 3;
    int b : 5;
  };
  struct Nameless {
    union {
      int a;
      float b;
    };
    int kind;
  };
  struct [[gnu::packed]] Packed {
    char a;
    int b;
  };
  struct Volatile {
    volatile int a;
    int* volatile b[2];
  };
  EXPECT_FALSE(perdura::detail::HasMembers<Volatile>);
  EXPECT_FALSE(perdura::detail::HasMembers<WithBase>);
  EXPECT_FALSE(perdura::detail::HasMembers<Bits>);
  EXPECT_FALSE(perdura::detail::HasMembers<Nameless>);
  EXPECT_FALSE(perdura::detail::HasMembers<Packed>);
  EXPECT_FALSE(perdura::detail::HasMembers<Opaque>);
  EXPECT_FALSE(perdura::detail::HasMembers<std::string>);
  Store store = open();
  store.root<OpaqueBefore>("before");
  store.root<Opaque>("now");
  message_of([&] { store.root<OpaqueLarger>("larger"); });
}

TEST_P(Members, AggregatesNeedNoRecord) {
  EXPECT_TRUE(perdura::detail::Recorded<now::Account>);
  EXPECT_TRUE(perdura::detail::Recorded<now::Line>);
  EXPECT_FALSE(perdura::detail::Recorded<Held>);  // pairs
  struct WithCode {
    void (*function)();
  };
  EXPECT_FALSE(perdura::detail::Recorded<WithCode>);
  perdura::Options options;
  {
    Store store = open();
    auto& first = store.root<now::Account>("first");
    first.next = store.make<now::Account>();
    first.next->cents = 12;
    first.next->to_cents = &first.next->cents;
    store.checkpoint();
    options.region_address =
        reinterpret_cast<std::uintptr_t>(&first) / (1 << 30) * (1 << 30) + (std::uint64_t{1} << 40);
  }
  Store store = Store::open(uri(), options);
  auto& first = store.root<now::Account>("first");
  EXPECT_EQ(*first.next->to_cents, 12);
}

TEST_P(Evolution, MembersWithTheSameNameGetWhatTheyHad) {
  {
    Store store = open();
    make_accounts(store);
    store.checkpoint();
  }
  {
    Store store = open();
    EXPECT_EQ(store.migrate(perdura::conversion<v1::Account, now::Account>(),
                            perdura::conversion<v1::Point, now::Point>()),
              kAccounts);
    expect_accounts(store);
    store.checkpoint();
  }
  Store store = open();
  EXPECT_EQ((store.evolve<v1::Account, now::Account>()), 0u);
  expect_accounts(store);
  EXPECT_TRUE(store.audit().clean) << store.audit().problem;
  EXPECT_EQ(store.audit().live_bytes / kAccounts / 128, 0u);  // no old objects are left
}

TEST_P(Evolution, PointersLeadToTheNewObjects) {
  Store store = open();
  make_accounts(store);
  // Into an object, and from a root.
  auto* const first = static_cast<v1::Account*>(store.get_root("accounts"));
  store.set_root("cents", &first->cents);
  int calls = 0;
  store.migrate<v1::Account, now::Account>([&](const v1::Account& was, now::Account& is) {
    ++calls;
    EXPECT_EQ(is.at.weight, 7);
    is.cents = was.cents;
    std::memcpy(is.name, was.name, sizeof was.name);
    is.next = reinterpret_cast<now::Account*>(was.next);
    is.to_cents = was.to_cents;
    is.at.x = was.at.x;
    is.at.y = was.at.y;
  });
  EXPECT_EQ(calls, kAccounts);
  expect_accounts(store);
  EXPECT_EQ(store.get_root("cents"), &store.find_root<now::Account>("accounts")->cents);
}

TEST_P(Evolution, EarlierProgramsAreRefused) {
  {
    Store store = open();
    make_accounts(store);
    store.evolve<v1::Account, now::Account>();
    message_of([&] { store.make<v1::Account>(); });  // whose number this thread knew
    store.make<now::Account>();
    store.checkpoint();
  }
  Store store = open();
  message_of([&] { store.find_root<v1::Account>("accounts"); });
  message_of([&] { store.make<v1::Account>(); });
}

TEST_P(Evolution, WhatFailsLeavesAllAsItWas) {
  Store store = open();
  make_accounts(store);
  const auto before = store.audit();
  int calls = 0;
  for (int attempt = 0; attempt < 3; ++attempt)
    EXPECT_THROW((store.migrate<v1::Account, now::Account>([&](const v1::Account&, now::Account&) {
                   if (++calls % 100 == 0) throw std::runtime_error("no more");
                 })),
                 std::runtime_error);
  EXPECT_EQ(store.find_root<v1::Account>("accounts")->next->cents, 1);
  EXPECT_LE(store.audit().live_blocks, before.live_blocks + 3);  // layouts that are learnt
  EXPECT_TRUE(store.audit().clean);
  // A pointer to what is in neither.
  auto* const first = store.find_root<v1::Account>("accounts");
  store.set_root("gone", &first->gone);
  expect_error([&] { store.evolve<v1::Account, now::Account>(); }, Code::kInvalidArgument,
               "byte 16");
  EXPECT_EQ(first->next->cents, 1);
  store.set_root("gone", nullptr);
  EXPECT_EQ((store.evolve<v1::Account, now::Account>()), 300u);
  expect_accounts(store);
  store.checkpoint();
}

// Of a crash at any moment one finds all objects as they were, or all as they are.
TEST_P(Evolution, IsWholeInEachCrashState) {
  if (std::string(GetParam()) != "file:") GTEST_SKIP() << "on a medium of its own";
  perdura::testing::CrashTestOptions crash_options;
  const auto report = perdura::testing::crash_test(
      crash_options,
      [](Store& store) {
        make_accounts(store, 5);
        store.checkpoint();
        store.evolve<v1::Account, now::Account>();
        store.checkpoint();
      },
      [](Store& store) -> std::string {
        if (store.get_root("accounts") == nullptr) return "";
        const auto walk = [](auto* first) -> std::string {
          auto* account = first;
          for (int i = 0; i < 5; ++i, account = account->next)
            if (account->cents != i || account->at.y != i * 3 ||
                account->next->to_cents != &account->cents)
              return "account " + std::to_string(i) + " is wrong";
          return account == first ? "" : "no ring";
        };
        try {
          return walk(store.find_root<v1::Account>("accounts"));
        } catch (const perdura::Error& error) {
          if (error.code() != Code::kTypeMismatch) throw;
          return walk(store.find_root<now::Account>("accounts"));
        }
      });
  EXPECT_TRUE(report.ok()) << report.text();
}

TEST_P(Evolution, UntypedBlocksAreRefused) {
  Store store = open();
  make_accounts(store);
  void* const untyped = store.allocate(100);
  expect_error([&] { store.evolve<v1::Account, now::Account>(); }, Code::kAddressTaken, "1 blocks");
  store.deallocate(untyped);
  EXPECT_EQ((store.evolve<v1::Account, now::Account>()), 300u);
}

TEST_P(Evolution, TypesThatContainEachOtherAreConvertedTogether) {
  {
    Store store = open();
    store.root<v1::Line>("line") = {{1, 2}, {3, 4}};
    store.root<v1::Point>("point") = {5, 6};
    store.checkpoint();
  }
  Store store = open();
  expect_error([&] { store.evolve<v1::Point, now::Point>(); }, Code::kInvalidArgument, "now::Line");
  expect_error([&] { store.evolve<v1::Line, now::Line>(); }, Code::kInvalidArgument, "now::Point");
  EXPECT_EQ(store.migrate(perdura::conversion<v1::Line, now::Line>(),
                          perdura::conversion<v1::Point, now::Point>()),
            2u);
  EXPECT_EQ(store.root<now::Line>("line").to.y, 4);
  EXPECT_EQ(store.root<now::Point>("point").x, 5);
  EXPECT_EQ(store.root<now::Point>("point").weight, 7);
}

// Members of members and elements of arrays lie elsewhere in these than they did.
TEST_P(Evolution, PointersIntoMembersOfMembersLeadToThem) {
  Store store = open();
  auto* const was = store.make<v1::Shape>();
  was->corner = &was->corners[1];
  was->weight_of_edge = &was->edge.to;
  was->y_of_corner = &was->corners[2].y;
  was->corners[2].y = 12;
  store.set_root("shape", was);
  store.set_root("y", &was->edge.to.y);
  EXPECT_EQ(store.migrate(perdura::conversion<v1::Shape, now::Shape>(),
                          perdura::conversion<v1::Line, now::Line>(),
                          perdura::conversion<v1::Point, now::Point>()),
            1u);
  const auto* const is = static_cast<now::Shape*>(store.get_root("shape"));
  EXPECT_EQ(is->corner, &is->corners[1]);
  EXPECT_EQ(is->weight_of_edge, &is->edge.to);
  EXPECT_EQ(is->y_of_corner, &is->corners[2].y);
  EXPECT_EQ(is->corners[2].y, 12);
  EXPECT_EQ(store.get_root("y"), &is->edge.to.y);
}

// Where an object begins its first member does too, and what that begins with.
TEST_P(Evolution, PointersToWhatObjectsBeginWithLeadToIt) {
  Store store = open();
  auto* const was = store.make<v1::Item>();
  was->cents = 12;
  was->two = {1, 2};
  auto* const pointers = store.make<ToItems>();
  *pointers = {&was->cents, reinterpret_cast<now::Item*>(was), was,
               reinterpret_cast<now::Two*>(&was->two), &was->two.first};
  store.set_root("pointers", pointers);
  EXPECT_EQ(store.migrate(perdura::conversion<v1::Item, now::Item>(),
                          perdura::conversion<v1::Two, now::Two>()),
            1u);
  now::Item* const is = pointers->item;
  EXPECT_EQ(pointers->cents, &is->cents);
  EXPECT_EQ(pointers->something, is);
  EXPECT_EQ(pointers->two, &is->two);
  EXPECT_EQ(pointers->first, &is->two.first);
  EXPECT_EQ(*pointers->cents, 12);
  EXPECT_EQ(*pointers->first, 1);
}

TEST_P(Evolution, WhatHasATypeAmongItsMembersMembersIsNamed) {
  Store store = open();
  store.root<v1::Two>("two");
  auto& outer = store.root<v1::WithWithTwo>("outer");
  const auto refused = [&](const std::string& message, const auto&... conversions) {
    expect_error([&] { store.migrate(conversions...); }, Code::kInvalidArgument, message);
  };
  const auto two = perdura::conversion<v1::Two, now::Two>();
  refused("now::WithWithTwo", two);
  refused("now::WithWithTwo", two, perdura::conversion<v1::WithTwo, now::WithTwo>());
  store.set_root("outer", nullptr);
  store.destroy(&outer);
  auto& parts = store.root<v1::WithParts>("parts");
  refused("now::WithParts", two);
  store.set_root("parts", nullptr);
  store.destroy(&parts);
  EXPECT_EQ(store.migrate(two), 1u);
}

// A program that has seen several layouts of a type need not know which one a store has.
TEST_P(Evolution, OfSeveralFormerLayoutsTheStoresOneIsConverted) {
  const auto evolve = [](Store& store) {
    return store.migrate(perdura::conversion<v1::Account2, now::Account2>(),
                         perdura::conversion<v2::Account2, now::Account2>(),
                         perdura::conversion<v2::Account2, now::Account2>());
  };
  const auto expect_converted = [&](auto was) {
    std::remove(path().c_str());
    Store store = open();
    store.root<decltype(was)>("account") = was;
    EXPECT_EQ(evolve(store), 1u);
    auto& account = store.root<now::Account2>("account");
    EXPECT_EQ(account.cents, 7);
    EXPECT_EQ(account.limit, 1000);
    EXPECT_EQ(account.owner, 5);
    EXPECT_EQ(evolve(store), 0u);
    EXPECT_TRUE(store.audit().clean);
  };
  expect_converted(v1::Account2{7});
  expect_converted(v2::Account2{7});
}

TEST_P(Evolution, ObjectsThatTransactionsMakeAreConverted) {
  Store store = open();
  v1::Account2* account = nullptr;
  perdura::atomically(store, [&](perdura::Transaction& tx) {
    account = tx.make<v1::Account2>();
    tx.write(account->cents, std::int64_t{7});
  });
  store.set_root("account", account);
  EXPECT_EQ((store.evolve<v1::Account2, now::Account2>()), 1u);
  const auto* const now = static_cast<now::Account2*>(store.get_root("account"));
  EXPECT_EQ(now->cents, 7);
  EXPECT_EQ(now->limit, 1000);
}

// Of classes whose members are not known a store knows the size, and of these it is the same.
TEST_P(Evolution, LayoutsThatTheStoreDoesNotTellApartAreRefused) {
  Store store = open();
  store.make<ClosedBefore>();
  expect_error([&] { store.migrate<ClosedBefore, Closed>([](const ClosedBefore&, Closed&) {}); },
               Code::kInvalidArgument, "does not tell its former layout from the new one");
}

TEST_P(Evolution, ANumberThatTheNewTypeDoesNotHaveIsRefused) {
  Store store = open();
  auto& numbers = store.root<v1::Numbers>("numbers");
  const v1::Numbers good{-5, 6, 0.1, {7, -8}, 1};
  const auto refused = [&](const v1::Numbers& bad, const std::string& message) {
    numbers = bad;
    expect_error([&] { store.evolve<v1::Numbers, now::Numbers>(); }, Code::kInvalidArgument,
                 message);
    EXPECT_EQ(std::memcmp(&numbers, &bad, sizeof bad), 0);
  };
  refused({std::int64_t{1} << 40, 6, 0.1, {7, -8}, 1}, "'integer' has the value 1099511627776");
  refused({-5, -6, 0.1, {7, -8}, 1}, "'natural' has the value -6");
  refused({-5, 6, 1e300, {7, -8}, 1}, "'real'");
  refused({-5, 6, 0.1, {7, -8.5}, 1}, "'whole' has the value -8.5");
  refused({-5, 6, 0.1, {70000, -8}, 1}, "'whole' has the value 70000");
  refused({-5, 6, 0.1, {7, -8}, 2}, "'flag' has the value 2");
  numbers = good;
  EXPECT_EQ((store.evolve<v1::Numbers, now::Numbers>()), 1u);
  const auto& is = store.root<now::Numbers>("numbers");
  EXPECT_EQ(is.integer, -5);
  EXPECT_EQ(is.natural, 6u);
  EXPECT_EQ(is.real, 0.1F);
  EXPECT_EQ(is.whole[0], 7);
  EXPECT_EQ(is.whole[1], -8);
  EXPECT_TRUE(is.flag);
}

INSTANTIATE_TEST_SUITE_P(Media, Members, ::testing::Values("file:", "emu:"));
INSTANTIATE_TEST_SUITE_P(Media, Evolution, ::testing::Values("file:", "emu:"));

}  // namespace
