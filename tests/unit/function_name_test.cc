// Goal: names of functions are read as people write them, whoever mangled them; those that mean the
// same function claim the same, and those that would be another's in the next build are known.
// Method: names that the compiler gives, and what is wrong with some of them.
#include <gtest/gtest.h>

#include <functional>
#include <typeinfo>

#include <perdura/compat/simpo.hpp>
#include <perdura/objects.hpp>

#include "object/function_name.hpp"

namespace perdura::test {

struct Row {
  int number;
};
struct Table {
  void put(int, Row) noexcept {}
  void put(int, long) noexcept {}
  template <class T>
  void put_any(T) noexcept {}
  static void add(void*, const Row&) {}
  static int next(void*, const Row&) { return 0; }
};
using Lambda = decltype([](int) mutable noexcept {});
struct TakesLambda {
  void take(decltype([] {})) noexcept {}
};
struct Ultimate {  // whose name has an Ul
  void Ultra() noexcept {}
};

}  // namespace perdura::test

namespace {
struct Hidden {
  void hide() noexcept {}
};
}  // namespace

namespace perdura::object {
namespace {

using namespace perdura::test;

template <auto Method>
std::string_view method_name() {
  return typeid(detail::MethodTag<Method>).name();
}
template <auto F, bool kIsInstant>
std::string_view simpo_name() {
  return typeid(detail::SimpoTag<F, Row, kIsInstant>).name();
}

constexpr void (Table::*kPutRow)(int, Row) noexcept = &Table::put;
constexpr void (Table::*kPutLong)(int, long) noexcept = &Table::put;

TEST(FunctionName, IsReadWithTheTypesOfItsArguments) {
  EXPECT_EQ(function_text(method_name<kPutRow>()),
            "perdura::test::Table::put(int, perdura::test::Row)");
  EXPECT_EQ(function_text(method_name<kPutLong>()), "perdura::test::Table::put(int, long)");
  EXPECT_EQ(function_text(method_name<&Table::put_any<std::less<int>>>()),
            "void perdura::test::Table::put_any<std::less<int> >(std::less<int>)");
  EXPECT_EQ(function_text(simpo_name<&Table::add, false>()),
            "perdura::test::Table::add(void*, perdura::test::Row const&)");
  EXPECT_EQ(function_text(simpo_name<&Table::next, true>()),
            "perdura::test::Table::next(void*, perdura::test::Row const&)");
}

// As Clang has it since its version 18.
TEST(FunctionName, OfAnArgumentOfADeducedTypeIsTheSame) {
  EXPECT_EQ(function_text("N7perdura6detail9MethodTagITnDaXadL_ZN5Seats4sellEilEEEE"),
            "Seats::sell(int, long)");
}

TEST(FunctionName, ThatIsNoneStaysAsItIs) {
  for (const char* const name : {"", "i", "sell", "Seats::sell(int)", "N5Seats4sellE", "_Z4sellv",
                                 "N7perdura6detail9MethodTagIXadL_ZN5Seats"})
    EXPECT_EQ(function_text(name), name);
  EXPECT_EQ(type_text("N4hall5SeatsE"), "hall::Seats");
  EXPECT_EQ(type_text("hall::Seats"), "hall::Seats");
}

// Of one text what is deferred and what answers are two.
TEST(FunctionName, ClaimsWhatItMeans) {
  EXPECT_EQ(claim_of("perdura::test::Table::put(int, long)", method_name<kPutRow>()),
            claim_of(method_name<kPutLong>()));
  EXPECT_NE(claim_of(method_name<kPutRow>()), claim_of(method_name<kPutLong>()));
  EXPECT_NE(claim_of(simpo_name<&Table::next, true>()),
            claim_of(simpo_name<&Table::next, false>()));
  const char* const next = "perdura::test::Table::next(void*, perdura::test::Row const&)";
  EXPECT_EQ(claim_of(next, simpo_name<&Table::add, false>()),
            claim_of(simpo_name<&Table::next, false>()));
  EXPECT_NE(claim_of(next, simpo_name<&Table::add, false>()),
            claim_of(simpo_name<&Table::next, true>()));
  EXPECT_EQ(claim_of(simpo_name<&Table::next, true>(), simpo_name<&Table::add, false>()),
            claim_of(simpo_name<&Table::next, true>()));
}

TEST(FunctionName, LastsWhereNothingInItIsKnownByItsPlace) {
  EXPECT_TRUE(has_lasting_name(typeid(Table).name()));
  EXPECT_TRUE(has_lasting_name(typeid(Ultimate).name()));
  EXPECT_TRUE(has_lasting_name(method_name<kPutRow>()));
  EXPECT_TRUE(has_lasting_name(method_name<&Ultimate::Ultra>()));
  EXPECT_TRUE(has_lasting_name("add"));
  const auto in_function = [](int) mutable noexcept {};
  struct {
    void call() noexcept {}
  } unnamed;
  for (const std::string_view name :
       {std::string_view(typeid(Hidden).name()), method_name<&Hidden::hide>(),
        std::string_view(typeid(Lambda).name()), method_name<&Lambda::operator()>(),
        method_name<&TakesLambda::take>(), method_name<&decltype(in_function)::operator()>(),
        std::string_view(typeid(in_function).name()), std::string_view(typeid(unnamed).name()),
        method_name<&decltype(unnamed)::call>()})
    EXPECT_FALSE(has_lasting_name(name)) << name;
}

}  // namespace
}  // namespace perdura::object
