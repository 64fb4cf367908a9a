// Goal: type records say where pointers are, whatever they are made of, and what cannot be is
// refused with a sentence.
#include "heap/layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include <perdura/type.hpp>

#include "support/expect_failure.hpp"

namespace {

struct Inner {
  std::uint64_t number;
  int* pointer;
};
struct Outer {
  Outer* next;
  std::uint32_t kind;
  std::uint32_t length;
  union {
    char* text;
    std::uint64_t number;
    Inner inner;
  } value;
  Inner pairs[2][3];
  void* table[4];
  std::uintptr_t word;
};
struct Cell {
  std::uint64_t tag;
  Inner inner[2];
};
struct Row {
  std::uint64_t length;
  Cell cells[3];
};
struct Flexible {
  Flexible* next;
  std::uint64_t count;
  Inner tail[];
};
struct Plain {
  int number;
};

}  // namespace

PERDURA_TYPE(Inner, pointer)
PERDURA_TYPE_OF(Outer, PERDURA_POINTER(Outer, next),
                PERDURA_POINTER_WHEN(Outer, value.text, kind, 1),
                PERDURA_VALUE_WHEN(Outer, value.inner, perdura::TypeRecord<Inner>::value, kind, 2),
                PERDURA_VALUE(Outer, pairs, perdura::TypeRecord<Inner>::value),
                PERDURA_POINTER(Outer, table), PERDURA_MAYBE(Outer, word))
PERDURA_TYPE_OF(Cell, PERDURA_VALUE_WHEN(Cell, inner, perdura::TypeRecord<Inner>::value, tag, 7))
PERDURA_TYPE(Row, cells)
PERDURA_TYPE_OF(Flexible, PERDURA_POINTER(Flexible, next),
                PERDURA_FLEXIBLE_VALUES(Flexible, tail, perdura::TypeRecord<Inner>::value))
PERDURA_TYPE(Plain)

namespace perdura::heap {
namespace {

using test::expect_failure;

template <class T>
Layout layout_of() {
  return value_or_throw(Layout::of(TypeRecord<T>::value));
}

/// Offsets of the pointers in a block.
std::vector<u64> places(const Layout& layout, void* block, u64 bytes, bool flexible = false) {
  std::vector<u64> found;
  layout.for_each_pointer(static_cast<std::byte*>(block), bytes, flexible, [&](u64* word, bool) {
    found.push_back(
        static_cast<u64>(reinterpret_cast<std::byte*>(word) - static_cast<std::byte*>(block)));
  });
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<u64> places_of(const Outer& object) {
  Outer copy = object;
  return places(layout_of<Outer>(), &copy, sizeof copy);
}

TEST(Layout, FindsMembersArraysAndValues) {
  std::vector<u64> expected = {offsetof(Outer, next)};
  for (u64 i = 0; i < 6; ++i)
    expected.push_back(offsetof(Outer, pairs) + i * sizeof(Inner) + offsetof(Inner, pointer));
  for (u64 i = 0; i < 4; ++i) expected.push_back(offsetof(Outer, table) + i * sizeof(void*));
  expected.push_back(offsetof(Outer, word));
  EXPECT_EQ(places_of(Outer{}), expected);
}

TEST(Layout, FindsAUnionsMemberWhileItsTagSaysSo) {
  Outer object{};
  const u64 without = places_of(object).size();
  object.kind = 1;
  const std::vector<u64> text = places_of(object);
  EXPECT_EQ(text.size(), without + 1);
  EXPECT_NE(std::find(text.begin(), text.end(), offsetof(Outer, value)), text.end());
  object.kind = 2;
  const std::vector<u64> inner = places_of(object);
  EXPECT_EQ(inner.size(), without + 1);
  EXPECT_NE(
      std::find(inner.begin(), inner.end(), offsetof(Outer, value) + offsetof(Inner, pointer)),
      inner.end());
  object.kind = 3;
  EXPECT_EQ(places_of(object).size(), without);
}

TEST(Layout, TagsOfValuesInArraysBelongToEachOfThem) {
  Row rows[2]{};
  rows[0].cells[1].tag = 7;
  rows[1].cells[2].tag = 7;
  const u64 first = offsetof(Row, cells) + sizeof(Cell) + offsetof(Cell, inner);
  const u64 second = sizeof(Row) + offsetof(Row, cells) + 2 * sizeof(Cell) + offsetof(Cell, inner);
  const u64 pointer = offsetof(Inner, pointer);
  EXPECT_EQ(places(layout_of<Row>(), rows, sizeof rows),
            (std::vector<u64>{first + pointer, first + sizeof(Inner) + pointer, second + pointer,
                              second + sizeof(Inner) + pointer}));
}

TEST(Layout, FlexibleArraysReachAsFarAsTheBlock) {
  alignas(Flexible) std::array<std::byte, sizeof(Flexible) + 3 * sizeof(Inner) + 8> block{};
  const Layout layout = layout_of<Flexible>();
  const u64 tail = sizeof(Flexible) + offsetof(Inner, pointer);
  EXPECT_EQ(places(layout, block.data(), block.size(), true),
            (std::vector<u64>{0, tail, tail + sizeof(Inner), tail + 2 * sizeof(Inner)}));
  EXPECT_EQ(places(layout, block.data(), sizeof(Flexible), true), std::vector<u64>{0});
}

TEST(Layout, OfATypeWithoutPointersHasNone) {
  Plain plain{};
  EXPECT_TRUE(places(layout_of<Plain>(), &plain, sizeof plain).empty());
}

TEST(Layout, ArraysAreWholeObjects) {
  Inner pairs[3]{};
  EXPECT_EQ(places(layout_of<Inner>(), pairs, sizeof pairs), (std::vector<u64>{8, 24, 40}));
  EXPECT_EQ(places(layout_of<Inner>(), pairs, sizeof pairs - 1), (std::vector<u64>{8, 24}));
}

// Names of members are for people; where pointers are is what counts.
TEST(Layout, FingerprintsTellLayoutsApart) {
  const perdura_slot slots[] = {{"other", PERDURA_SLOT_POINTER, 8, 8, nullptr, 0, 0, 0}};
  const perdura_slot moved[] = {{"pointer", PERDURA_SLOT_POINTER, 0, 8, nullptr, 0, 0, 0}};
  const perdura_slot tagged[] = {{"pointer", PERDURA_SLOT_POINTER, 8, 8, nullptr, 0, 4, 1}};
  const perdura_slot maybe[] = {{"pointer", PERDURA_SLOT_MAYBE, 8, 8, nullptr, 0, 0, 0}};
  const u64 fingerprint = layout_of<Inner>().fingerprint;
  const auto of = [](perdura_type type) { return Layout::of(type)->fingerprint; };
  EXPECT_EQ(of({"Inner", 16, 8, 1, slots}), fingerprint);
  EXPECT_NE(of({"Other", 16, 8, 1, slots}), fingerprint);
  EXPECT_NE(of({"Inner", 24, 8, 1, slots}), fingerprint);
  EXPECT_NE(of({"Inner", 16, 16, 1, slots}), fingerprint);
  EXPECT_NE(of({"Inner", 16, 8, 0, slots}), fingerprint);
  EXPECT_NE(of({"Inner", 16, 8, 1, moved}), fingerprint);
  EXPECT_NE(of({"Inner", 16, 8, 1, tagged}), fingerprint);
  EXPECT_NE(of({"Inner", 16, 8, 1, maybe}), fingerprint);
}

TEST(Layout, TextNamesMembersAndPlaces) {
  EXPECT_EQ(layout_of<Inner>().text, "16 bytes; pointer at 8: pointer");
  EXPECT_EQ(layout_of<Flexible>().text,
            "16 bytes; next at 0: pointer, tail at 16: flexible array of Inner");
  EXPECT_NE(layout_of<Outer>().text.find("value.text at 16: pointer if the 4 bytes at 8 are 1"),
            std::string::npos);
  EXPECT_NE(layout_of<Outer>().text.find("pairs at 32: 6 of Inner"), std::string::npos);
}

// As members of a union do whose slots count at the same time. What moves a pointer twice ruins it.
TEST(Layout, AWordThatSeveralSlotsNameIsVisitedOnce) {
  const perdura_slot slots[] = {{"array", PERDURA_SLOT_POINTER, 8, 24, nullptr, 0, 0, 0},
                                {"text", PERDURA_SLOT_MAYBE, 16, 8, nullptr, 0, 0, 0},
                                {"tagged", PERDURA_SLOT_POINTER, 32, 8, nullptr, 0, 4, 1},
                                {"other", PERDURA_SLOT_POINTER, 32, 8, nullptr, 0, 4, 2},
                                {"any", PERDURA_SLOT_MAYBE, 24, 16, nullptr, 0, 0, 0}};
  const Layout layout = value_or_throw(Layout::of({"Shared", 40, 8, 5, slots}));
  EXPECT_TRUE(layout.shares_words);
  for (const u64 tag : {0, 1, 2}) {
    u64 object[5] = {tag};
    EXPECT_EQ(places(layout, object, sizeof object), (std::vector<u64>{8, 16, 24, 32})) << tag;
  }
  EXPECT_FALSE(layout_of<Flexible>().shares_words);
}

// A negative enumerator is a value of all bits of 64 in C.
TEST(Layout, ShortTagsHaveTheBitsOfTheirField) {
  const perdura_slot slots[] = {{"p", PERDURA_SLOT_POINTER, 8, 8, nullptr, 0, 4, ~u64{0}}};
  const Layout layout = value_or_throw(Layout::of({"Tagged", 16, 8, 1, slots}));
  struct {
    std::int32_t tag;
    void* pointer;
  } object{-1, nullptr};
  EXPECT_EQ(places(layout, &object, sizeof object), std::vector<u64>{8});
}

TEST(Layout, RecordsThatCannotBeAreRefused) {
  perdura_type loop{"Loop", 16, 8, 1, nullptr};
  const perdura_slot itself[] = {{"self", PERDURA_SLOT_VALUE, 0, 16, &loop, 0, 0, 0}};
  loop.slots = itself;
  const auto refuse = [](perdura_slot slot, const char* why) {
    const perdura_slot slots[] = {slot, {"last", PERDURA_SLOT_POINTER, 24, 8, nullptr, 0, 0, 0}};
    expect_failure(Layout::of({"Node", 32, 8, 2, slots}), Code::kInvalidArgument, why);
  };
  const perdura_type* const inner = &TypeRecord<Inner>::value;
  refuse({"m", 9, 0, 8, nullptr, 0, 0, 0}, "of no known kind");
  refuse({"m", PERDURA_SLOT_POINTER, 4, 8, nullptr, 0, 0, 0}, "not aligned");
  refuse({"m", PERDURA_SLOT_POINTER, 0, 12, nullptr, 0, 0, 0}, "no multiple of a pointer");
  refuse({"m", PERDURA_SLOT_POINTER, 32, 8, nullptr, 0, 0, 0}, "beyond the type");
  refuse({"m", PERDURA_SLOT_POINTER, 0, 0, nullptr, 0, 0, 0}, "not the last slot");
  refuse({"m", PERDURA_SLOT_POINTER, 0, 8, nullptr, 30, 4, 1}, "no integer in the type");
  refuse({"m", PERDURA_SLOT_POINTER, 0, 8, nullptr, 0, 3, 1}, "no integer in the type");
  refuse({"m", PERDURA_SLOT_VALUE, 0, 16, nullptr, 0, 0, 0}, "has no record");
  refuse({"m", PERDURA_SLOT_VALUE, 0, 24, inner, 0, 0, 0}, "multiple of that of 'Inner'");
  refuse({"m", PERDURA_SLOT_VALUE, 1, 16, inner, 0, 0, 0}, "not aligned to 8 bytes");
  const perdura_slot pointer[] = {{"p", PERDURA_SLOT_POINTER, 0, 8, nullptr, 0, 0, 0}};
  const perdura_type packed{"Packed", 12, 1, 1, pointer};
  refuse({"m", PERDURA_SLOT_VALUE, 0, 24, &packed, 0, 0, 0}, "not aligned to 8 bytes");
  const perdura_slot elements[] = {{"m", PERDURA_SLOT_VALUE, 8, 0, &packed, 0, 0, 0}};
  expect_failure(Layout::of({"Node", 8, 8, 1, elements}), Code::kInvalidArgument,
                 "not aligned to 8 bytes");
  expect_failure(Layout::of(loop), Code::kInvalidArgument, "contains itself");
  expect_failure(Layout::of({nullptr, 8, 8, 0, nullptr}), Code::kInvalidArgument, "no name");
  expect_failure(Layout::of({"", 8, 8, 0, nullptr}), Code::kInvalidArgument, "no name");
  expect_failure(Layout::of({"Node", 0, 8, 0, nullptr}), Code::kInvalidArgument, "no size");
  expect_failure(Layout::of({"Node", 8, 3, 0, nullptr}), Code::kInvalidArgument, "alignment");
  expect_failure(Layout::of({"Node", 8, 8, 1, nullptr}), Code::kInvalidArgument, "no slots");
}

// What a damaged medium may hold.
TEST(Layout, ImpossibleLayoutsHaveAProblem) {
  const auto broken = [](auto&& change) {
    Layout layout = layout_of<Outer>();
    change(layout);
    layout.fingerprint = layout.compute_fingerprint();
    return layout.problem();
  };
  EXPECT_EQ(broken([](Layout&) {}), "");
  EXPECT_NE(broken([](Layout& l) { l.size = 0; }), "");
  EXPECT_NE(broken([](Layout& l) { l.alignment = 12; }), "");
  EXPECT_NE(broken([](Layout& l) { l.runs[0].offset = l.size; }), "");
  EXPECT_NE(broken([](Layout& l) { l.runs[0].offset = 4; }), "");
  EXPECT_NE(broken([](Layout& l) { l.runs[0].count = 0; }), "");
  EXPECT_NE(broken([](Layout& l) { l.runs[3].count = 1'000'000; }), "");
  EXPECT_NE(broken([](Layout& l) {
              l.runs[3].count = ~u32{0};
              l.runs[3].stride = 0;
            }),
            "");
  EXPECT_NE(broken([](Layout& l) { l.runs[1].first_tag = 100; }), "");
  EXPECT_NE(broken([](Layout& l) { l.tags[0].offset = l.size - 1; }), "");
  EXPECT_NE(broken([](Layout& l) { l.tags[0].bytes = 9; }), "");
  Layout layout = layout_of<Outer>();
  layout.fingerprint ^= 2;
  EXPECT_NE(layout.problem(), "");
}

}  // namespace
}  // namespace perdura::heap
