// The members of a class that is an aggregate, found in the type itself: their types, places and
// names. Other classes, and aggregates with base classes, bit fields, volatile members, members
// that cannot be made of nothing, or more than 64 members, are known by their size alone.
//
// Why not Boost.PFR: it takes each element of a member that is a C array for a member, and arrays
// are what structures in a store have.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace perdura {

/// True of a class whose members are nobody's concern, or that what is below cannot cope with: it
/// is known by its size alone.
template <class T>
inline constexpr bool kOpaque = false;

namespace detail {

template <class... Types>
struct TypeSequence {
  static constexpr std::size_t kCount = sizeof...(Types);
};

/// Converts to base classes of T.
template <class T>
struct BaseOf {
  template <class Base>
    requires(std::is_base_of_v<Base, T> && !std::is_same_v<Base, T>)
  constexpr operator Base() const;  // NOLINT
};
/// Converts to anything but T, which would be a copy.
template <class T>
struct AnythingBut {
  template <class Member>
    requires(!std::is_same_v<std::remove_cvref_t<Member>, T>)
  constexpr operator Member() const;  // NOLINT
};

template <class T>
consteval auto text_of_type() {
  return __PRETTY_FUNCTION__;
}
template <class T>
consteval bool is_nameless() {
  if (std::is_union_v<T>) return true;
  const std::string_view text = text_of_type<T>();
  return text.find("<unnamed") != text.npos || text.find("(anonymous struct") != text.npos ||
         text.find("(unnamed struct") != text.npos;
}
/// Converts to unions and to classes without a name.
struct Nameless {
  template <class Member>
    requires(is_nameless<Member>())
  constexpr operator Member() const;  // NOLINT
};

constexpr std::size_t kMembersMax = 64;

// Each pair of braces makes one member, whatever it is.
// clang-format off
#define PERDURA_BRACES_1 {}
#define PERDURA_BRACES_2 PERDURA_BRACES_1, {}
#define PERDURA_BRACES_3 PERDURA_BRACES_2, {}
#define PERDURA_BRACES_4 PERDURA_BRACES_3, {}
#define PERDURA_BRACES_5 PERDURA_BRACES_4, {}
#define PERDURA_BRACES_6 PERDURA_BRACES_5, {}
#define PERDURA_BRACES_7 PERDURA_BRACES_6, {}
#define PERDURA_BRACES_8 PERDURA_BRACES_7, {}
#define PERDURA_BRACES_9 PERDURA_BRACES_8, {}
#define PERDURA_BRACES_10 PERDURA_BRACES_9, {}
#define PERDURA_BRACES_11 PERDURA_BRACES_10, {}
#define PERDURA_BRACES_12 PERDURA_BRACES_11, {}
#define PERDURA_BRACES_13 PERDURA_BRACES_12, {}
#define PERDURA_BRACES_14 PERDURA_BRACES_13, {}
#define PERDURA_BRACES_15 PERDURA_BRACES_14, {}
#define PERDURA_BRACES_16 PERDURA_BRACES_15, {}
#define PERDURA_BRACES_17 PERDURA_BRACES_16, {}
#define PERDURA_BRACES_18 PERDURA_BRACES_17, {}
#define PERDURA_BRACES_19 PERDURA_BRACES_18, {}
#define PERDURA_BRACES_20 PERDURA_BRACES_19, {}
#define PERDURA_BRACES_21 PERDURA_BRACES_20, {}
#define PERDURA_BRACES_22 PERDURA_BRACES_21, {}
#define PERDURA_BRACES_23 PERDURA_BRACES_22, {}
#define PERDURA_BRACES_24 PERDURA_BRACES_23, {}
#define PERDURA_BRACES_25 PERDURA_BRACES_24, {}
#define PERDURA_BRACES_26 PERDURA_BRACES_25, {}
#define PERDURA_BRACES_27 PERDURA_BRACES_26, {}
#define PERDURA_BRACES_28 PERDURA_BRACES_27, {}
#define PERDURA_BRACES_29 PERDURA_BRACES_28, {}
#define PERDURA_BRACES_30 PERDURA_BRACES_29, {}
#define PERDURA_BRACES_31 PERDURA_BRACES_30, {}
#define PERDURA_BRACES_32 PERDURA_BRACES_31, {}
#define PERDURA_BRACES_33 PERDURA_BRACES_32, {}
#define PERDURA_BRACES_34 PERDURA_BRACES_33, {}
#define PERDURA_BRACES_35 PERDURA_BRACES_34, {}
#define PERDURA_BRACES_36 PERDURA_BRACES_35, {}
#define PERDURA_BRACES_37 PERDURA_BRACES_36, {}
#define PERDURA_BRACES_38 PERDURA_BRACES_37, {}
#define PERDURA_BRACES_39 PERDURA_BRACES_38, {}
#define PERDURA_BRACES_40 PERDURA_BRACES_39, {}
#define PERDURA_BRACES_41 PERDURA_BRACES_40, {}
#define PERDURA_BRACES_42 PERDURA_BRACES_41, {}
#define PERDURA_BRACES_43 PERDURA_BRACES_42, {}
#define PERDURA_BRACES_44 PERDURA_BRACES_43, {}
#define PERDURA_BRACES_45 PERDURA_BRACES_44, {}
#define PERDURA_BRACES_46 PERDURA_BRACES_45, {}
#define PERDURA_BRACES_47 PERDURA_BRACES_46, {}
#define PERDURA_BRACES_48 PERDURA_BRACES_47, {}
#define PERDURA_BRACES_49 PERDURA_BRACES_48, {}
#define PERDURA_BRACES_50 PERDURA_BRACES_49, {}
#define PERDURA_BRACES_51 PERDURA_BRACES_50, {}
#define PERDURA_BRACES_52 PERDURA_BRACES_51, {}
#define PERDURA_BRACES_53 PERDURA_BRACES_52, {}
#define PERDURA_BRACES_54 PERDURA_BRACES_53, {}
#define PERDURA_BRACES_55 PERDURA_BRACES_54, {}
#define PERDURA_BRACES_56 PERDURA_BRACES_55, {}
#define PERDURA_BRACES_57 PERDURA_BRACES_56, {}
#define PERDURA_BRACES_58 PERDURA_BRACES_57, {}
#define PERDURA_BRACES_59 PERDURA_BRACES_58, {}
#define PERDURA_BRACES_60 PERDURA_BRACES_59, {}
#define PERDURA_BRACES_61 PERDURA_BRACES_60, {}
#define PERDURA_BRACES_62 PERDURA_BRACES_61, {}
#define PERDURA_BRACES_63 PERDURA_BRACES_62, {}
#define PERDURA_BRACES_64 PERDURA_BRACES_63, {}
#define PERDURA_BRACES_65 PERDURA_BRACES_64, {}
#define PERDURA_BEFORE_2 PERDURA_BRACES_1
#define PERDURA_BEFORE_3 PERDURA_BRACES_2
#define PERDURA_BEFORE_4 PERDURA_BRACES_3
#define PERDURA_BEFORE_5 PERDURA_BRACES_4
#define PERDURA_BEFORE_6 PERDURA_BRACES_5
#define PERDURA_BEFORE_7 PERDURA_BRACES_6
#define PERDURA_BEFORE_8 PERDURA_BRACES_7
#define PERDURA_BEFORE_9 PERDURA_BRACES_8
#define PERDURA_BEFORE_10 PERDURA_BRACES_9
#define PERDURA_BEFORE_11 PERDURA_BRACES_10
#define PERDURA_BEFORE_12 PERDURA_BRACES_11
#define PERDURA_BEFORE_13 PERDURA_BRACES_12
#define PERDURA_BEFORE_14 PERDURA_BRACES_13
#define PERDURA_BEFORE_15 PERDURA_BRACES_14
#define PERDURA_BEFORE_16 PERDURA_BRACES_15
#define PERDURA_BEFORE_17 PERDURA_BRACES_16
#define PERDURA_BEFORE_18 PERDURA_BRACES_17
#define PERDURA_BEFORE_19 PERDURA_BRACES_18
#define PERDURA_BEFORE_20 PERDURA_BRACES_19
#define PERDURA_BEFORE_21 PERDURA_BRACES_20
#define PERDURA_BEFORE_22 PERDURA_BRACES_21
#define PERDURA_BEFORE_23 PERDURA_BRACES_22
#define PERDURA_BEFORE_24 PERDURA_BRACES_23
#define PERDURA_BEFORE_25 PERDURA_BRACES_24
#define PERDURA_BEFORE_26 PERDURA_BRACES_25
#define PERDURA_BEFORE_27 PERDURA_BRACES_26
#define PERDURA_BEFORE_28 PERDURA_BRACES_27
#define PERDURA_BEFORE_29 PERDURA_BRACES_28
#define PERDURA_BEFORE_30 PERDURA_BRACES_29
#define PERDURA_BEFORE_31 PERDURA_BRACES_30
#define PERDURA_BEFORE_32 PERDURA_BRACES_31
#define PERDURA_BEFORE_33 PERDURA_BRACES_32
#define PERDURA_BEFORE_34 PERDURA_BRACES_33
#define PERDURA_BEFORE_35 PERDURA_BRACES_34
#define PERDURA_BEFORE_36 PERDURA_BRACES_35
#define PERDURA_BEFORE_37 PERDURA_BRACES_36
#define PERDURA_BEFORE_38 PERDURA_BRACES_37
#define PERDURA_BEFORE_39 PERDURA_BRACES_38
#define PERDURA_BEFORE_40 PERDURA_BRACES_39
#define PERDURA_BEFORE_41 PERDURA_BRACES_40
#define PERDURA_BEFORE_42 PERDURA_BRACES_41
#define PERDURA_BEFORE_43 PERDURA_BRACES_42
#define PERDURA_BEFORE_44 PERDURA_BRACES_43
#define PERDURA_BEFORE_45 PERDURA_BRACES_44
#define PERDURA_BEFORE_46 PERDURA_BRACES_45
#define PERDURA_BEFORE_47 PERDURA_BRACES_46
#define PERDURA_BEFORE_48 PERDURA_BRACES_47
#define PERDURA_BEFORE_49 PERDURA_BRACES_48
#define PERDURA_BEFORE_50 PERDURA_BRACES_49
#define PERDURA_BEFORE_51 PERDURA_BRACES_50
#define PERDURA_BEFORE_52 PERDURA_BRACES_51
#define PERDURA_BEFORE_53 PERDURA_BRACES_52
#define PERDURA_BEFORE_54 PERDURA_BRACES_53
#define PERDURA_BEFORE_55 PERDURA_BRACES_54
#define PERDURA_BEFORE_56 PERDURA_BRACES_55
#define PERDURA_BEFORE_57 PERDURA_BRACES_56
#define PERDURA_BEFORE_58 PERDURA_BRACES_57
#define PERDURA_BEFORE_59 PERDURA_BRACES_58
#define PERDURA_BEFORE_60 PERDURA_BRACES_59
#define PERDURA_BEFORE_61 PERDURA_BRACES_60
#define PERDURA_BEFORE_62 PERDURA_BRACES_61
#define PERDURA_BEFORE_63 PERDURA_BRACES_62
#define PERDURA_BEFORE_64 PERDURA_BRACES_63
#define PERDURA_MEMBERS_1 m1
#define PERDURA_MEMBERS_2 PERDURA_MEMBERS_1, m2
#define PERDURA_MEMBERS_3 PERDURA_MEMBERS_2, m3
#define PERDURA_MEMBERS_4 PERDURA_MEMBERS_3, m4
#define PERDURA_MEMBERS_5 PERDURA_MEMBERS_4, m5
#define PERDURA_MEMBERS_6 PERDURA_MEMBERS_5, m6
#define PERDURA_MEMBERS_7 PERDURA_MEMBERS_6, m7
#define PERDURA_MEMBERS_8 PERDURA_MEMBERS_7, m8
#define PERDURA_MEMBERS_9 PERDURA_MEMBERS_8, m9
#define PERDURA_MEMBERS_10 PERDURA_MEMBERS_9, m10
#define PERDURA_MEMBERS_11 PERDURA_MEMBERS_10, m11
#define PERDURA_MEMBERS_12 PERDURA_MEMBERS_11, m12
#define PERDURA_MEMBERS_13 PERDURA_MEMBERS_12, m13
#define PERDURA_MEMBERS_14 PERDURA_MEMBERS_13, m14
#define PERDURA_MEMBERS_15 PERDURA_MEMBERS_14, m15
#define PERDURA_MEMBERS_16 PERDURA_MEMBERS_15, m16
#define PERDURA_MEMBERS_17 PERDURA_MEMBERS_16, m17
#define PERDURA_MEMBERS_18 PERDURA_MEMBERS_17, m18
#define PERDURA_MEMBERS_19 PERDURA_MEMBERS_18, m19
#define PERDURA_MEMBERS_20 PERDURA_MEMBERS_19, m20
#define PERDURA_MEMBERS_21 PERDURA_MEMBERS_20, m21
#define PERDURA_MEMBERS_22 PERDURA_MEMBERS_21, m22
#define PERDURA_MEMBERS_23 PERDURA_MEMBERS_22, m23
#define PERDURA_MEMBERS_24 PERDURA_MEMBERS_23, m24
#define PERDURA_MEMBERS_25 PERDURA_MEMBERS_24, m25
#define PERDURA_MEMBERS_26 PERDURA_MEMBERS_25, m26
#define PERDURA_MEMBERS_27 PERDURA_MEMBERS_26, m27
#define PERDURA_MEMBERS_28 PERDURA_MEMBERS_27, m28
#define PERDURA_MEMBERS_29 PERDURA_MEMBERS_28, m29
#define PERDURA_MEMBERS_30 PERDURA_MEMBERS_29, m30
#define PERDURA_MEMBERS_31 PERDURA_MEMBERS_30, m31
#define PERDURA_MEMBERS_32 PERDURA_MEMBERS_31, m32
#define PERDURA_MEMBERS_33 PERDURA_MEMBERS_32, m33
#define PERDURA_MEMBERS_34 PERDURA_MEMBERS_33, m34
#define PERDURA_MEMBERS_35 PERDURA_MEMBERS_34, m35
#define PERDURA_MEMBERS_36 PERDURA_MEMBERS_35, m36
#define PERDURA_MEMBERS_37 PERDURA_MEMBERS_36, m37
#define PERDURA_MEMBERS_38 PERDURA_MEMBERS_37, m38
#define PERDURA_MEMBERS_39 PERDURA_MEMBERS_38, m39
#define PERDURA_MEMBERS_40 PERDURA_MEMBERS_39, m40
#define PERDURA_MEMBERS_41 PERDURA_MEMBERS_40, m41
#define PERDURA_MEMBERS_42 PERDURA_MEMBERS_41, m42
#define PERDURA_MEMBERS_43 PERDURA_MEMBERS_42, m43
#define PERDURA_MEMBERS_44 PERDURA_MEMBERS_43, m44
#define PERDURA_MEMBERS_45 PERDURA_MEMBERS_44, m45
#define PERDURA_MEMBERS_46 PERDURA_MEMBERS_45, m46
#define PERDURA_MEMBERS_47 PERDURA_MEMBERS_46, m47
#define PERDURA_MEMBERS_48 PERDURA_MEMBERS_47, m48
#define PERDURA_MEMBERS_49 PERDURA_MEMBERS_48, m49
#define PERDURA_MEMBERS_50 PERDURA_MEMBERS_49, m50
#define PERDURA_MEMBERS_51 PERDURA_MEMBERS_50, m51
#define PERDURA_MEMBERS_52 PERDURA_MEMBERS_51, m52
#define PERDURA_MEMBERS_53 PERDURA_MEMBERS_52, m53
#define PERDURA_MEMBERS_54 PERDURA_MEMBERS_53, m54
#define PERDURA_MEMBERS_55 PERDURA_MEMBERS_54, m55
#define PERDURA_MEMBERS_56 PERDURA_MEMBERS_55, m56
#define PERDURA_MEMBERS_57 PERDURA_MEMBERS_56, m57
#define PERDURA_MEMBERS_58 PERDURA_MEMBERS_57, m58
#define PERDURA_MEMBERS_59 PERDURA_MEMBERS_58, m59
#define PERDURA_MEMBERS_60 PERDURA_MEMBERS_59, m60
#define PERDURA_MEMBERS_61 PERDURA_MEMBERS_60, m61
#define PERDURA_MEMBERS_62 PERDURA_MEMBERS_61, m62
#define PERDURA_MEMBERS_63 PERDURA_MEMBERS_62, m63
#define PERDURA_MEMBERS_64 PERDURA_MEMBERS_63, m64

/// How many pairs of braces T takes; more than kMembersMax are not counted.
template <class T>
consteval std::size_t count_braces() {
#define PERDURA_COUNT(n) if constexpr (!requires { T{PERDURA_BRACES_##n}; }) return n - 1; else
  PERDURA_COUNT(1) PERDURA_COUNT(2) PERDURA_COUNT(3) PERDURA_COUNT(4) PERDURA_COUNT(5)
  PERDURA_COUNT(6) PERDURA_COUNT(7) PERDURA_COUNT(8) PERDURA_COUNT(9) PERDURA_COUNT(10)
  PERDURA_COUNT(11) PERDURA_COUNT(12) PERDURA_COUNT(13) PERDURA_COUNT(14) PERDURA_COUNT(15)
  PERDURA_COUNT(16) PERDURA_COUNT(17) PERDURA_COUNT(18) PERDURA_COUNT(19) PERDURA_COUNT(20)
  PERDURA_COUNT(21) PERDURA_COUNT(22) PERDURA_COUNT(23) PERDURA_COUNT(24) PERDURA_COUNT(25)
  PERDURA_COUNT(26) PERDURA_COUNT(27) PERDURA_COUNT(28) PERDURA_COUNT(29) PERDURA_COUNT(30)
  PERDURA_COUNT(31) PERDURA_COUNT(32) PERDURA_COUNT(33) PERDURA_COUNT(34) PERDURA_COUNT(35)
  PERDURA_COUNT(36) PERDURA_COUNT(37) PERDURA_COUNT(38) PERDURA_COUNT(39) PERDURA_COUNT(40)
  PERDURA_COUNT(41) PERDURA_COUNT(42) PERDURA_COUNT(43) PERDURA_COUNT(44) PERDURA_COUNT(45)
  PERDURA_COUNT(46) PERDURA_COUNT(47) PERDURA_COUNT(48) PERDURA_COUNT(49) PERDURA_COUNT(50)
  PERDURA_COUNT(51) PERDURA_COUNT(52) PERDURA_COUNT(53) PERDURA_COUNT(54) PERDURA_COUNT(55)
  PERDURA_COUNT(56) PERDURA_COUNT(57) PERDURA_COUNT(58) PERDURA_COUNT(59) PERDURA_COUNT(60)
  PERDURA_COUNT(61) PERDURA_COUNT(62) PERDURA_COUNT(63) PERDURA_COUNT(64) PERDURA_COUNT(65)
  return kMembersMax + 1;
#undef PERDURA_COUNT
}

/// Whether a member is a union, or of a type without a name: it may be one whose members count as
/// those of T, which then has no references to its own. Within braces of its own something is made
/// that such a member of a member takes.
template <class T, std::size_t kCount>
consteval bool has_nameless() {
  if constexpr (requires { T{Nameless{}}; } && !requires { T{{Nameless{}}}; }) return true;
#define PERDURA_NAMELESS(n) if constexpr (kCount >= n && requires { T{PERDURA_BEFORE_##n, Nameless{}}; } && !requires { T{PERDURA_BEFORE_##n, {Nameless{}}}; }) return true;
  PERDURA_NAMELESS(2) PERDURA_NAMELESS(3) PERDURA_NAMELESS(4)
  PERDURA_NAMELESS(5) PERDURA_NAMELESS(6) PERDURA_NAMELESS(7) PERDURA_NAMELESS(8)
  PERDURA_NAMELESS(9) PERDURA_NAMELESS(10) PERDURA_NAMELESS(11) PERDURA_NAMELESS(12)
  PERDURA_NAMELESS(13) PERDURA_NAMELESS(14) PERDURA_NAMELESS(15) PERDURA_NAMELESS(16)
  PERDURA_NAMELESS(17) PERDURA_NAMELESS(18) PERDURA_NAMELESS(19) PERDURA_NAMELESS(20)
  PERDURA_NAMELESS(21) PERDURA_NAMELESS(22) PERDURA_NAMELESS(23) PERDURA_NAMELESS(24)
  PERDURA_NAMELESS(25) PERDURA_NAMELESS(26) PERDURA_NAMELESS(27) PERDURA_NAMELESS(28)
  PERDURA_NAMELESS(29) PERDURA_NAMELESS(30) PERDURA_NAMELESS(31) PERDURA_NAMELESS(32)
  PERDURA_NAMELESS(33) PERDURA_NAMELESS(34) PERDURA_NAMELESS(35) PERDURA_NAMELESS(36)
  PERDURA_NAMELESS(37) PERDURA_NAMELESS(38) PERDURA_NAMELESS(39) PERDURA_NAMELESS(40)
  PERDURA_NAMELESS(41) PERDURA_NAMELESS(42) PERDURA_NAMELESS(43) PERDURA_NAMELESS(44)
  PERDURA_NAMELESS(45) PERDURA_NAMELESS(46) PERDURA_NAMELESS(47) PERDURA_NAMELESS(48)
  PERDURA_NAMELESS(49) PERDURA_NAMELESS(50) PERDURA_NAMELESS(51) PERDURA_NAMELESS(52)
  PERDURA_NAMELESS(53) PERDURA_NAMELESS(54) PERDURA_NAMELESS(55) PERDURA_NAMELESS(56)
  PERDURA_NAMELESS(57) PERDURA_NAMELESS(58) PERDURA_NAMELESS(59) PERDURA_NAMELESS(60)
  PERDURA_NAMELESS(61) PERDURA_NAMELESS(62) PERDURA_NAMELESS(63) PERDURA_NAMELESS(64)
  return false;
#undef PERDURA_NAMELESS
}

/// Whether there is a member behind these, which braces do not make.
template <class T, std::size_t kCount>
consteval bool has_another() {
#define PERDURA_ANOTHER(n) if constexpr (kCount == n) return requires { T{PERDURA_BRACES_##n, AnythingBut<T>{}}; };
  PERDURA_ANOTHER(1) PERDURA_ANOTHER(2) PERDURA_ANOTHER(3) PERDURA_ANOTHER(4) PERDURA_ANOTHER(5)
  PERDURA_ANOTHER(6) PERDURA_ANOTHER(7) PERDURA_ANOTHER(8) PERDURA_ANOTHER(9) PERDURA_ANOTHER(10)
  PERDURA_ANOTHER(11) PERDURA_ANOTHER(12) PERDURA_ANOTHER(13) PERDURA_ANOTHER(14)
  PERDURA_ANOTHER(15) PERDURA_ANOTHER(16) PERDURA_ANOTHER(17) PERDURA_ANOTHER(18)
  PERDURA_ANOTHER(19) PERDURA_ANOTHER(20) PERDURA_ANOTHER(21) PERDURA_ANOTHER(22)
  PERDURA_ANOTHER(23) PERDURA_ANOTHER(24) PERDURA_ANOTHER(25) PERDURA_ANOTHER(26)
  PERDURA_ANOTHER(27) PERDURA_ANOTHER(28) PERDURA_ANOTHER(29) PERDURA_ANOTHER(30)
  PERDURA_ANOTHER(31) PERDURA_ANOTHER(32) PERDURA_ANOTHER(33) PERDURA_ANOTHER(34)
  PERDURA_ANOTHER(35) PERDURA_ANOTHER(36) PERDURA_ANOTHER(37) PERDURA_ANOTHER(38)
  PERDURA_ANOTHER(39) PERDURA_ANOTHER(40) PERDURA_ANOTHER(41) PERDURA_ANOTHER(42)
  PERDURA_ANOTHER(43) PERDURA_ANOTHER(44) PERDURA_ANOTHER(45) PERDURA_ANOTHER(46)
  PERDURA_ANOTHER(47) PERDURA_ANOTHER(48) PERDURA_ANOTHER(49) PERDURA_ANOTHER(50)
  PERDURA_ANOTHER(51) PERDURA_ANOTHER(52) PERDURA_ANOTHER(53) PERDURA_ANOTHER(54)
  PERDURA_ANOTHER(55) PERDURA_ANOTHER(56) PERDURA_ANOTHER(57) PERDURA_ANOTHER(58)
  PERDURA_ANOTHER(59) PERDURA_ANOTHER(60) PERDURA_ANOTHER(61) PERDURA_ANOTHER(62)
  PERDURA_ANOTHER(63) PERDURA_ANOTHER(64)
  return requires { T{AnythingBut<T>{}}; };
#undef PERDURA_ANOTHER
}

void take_references(auto&...);

/// std::true_type where references to its members can be made: not to bit fields, and not into
/// packed types.
template <std::size_t kCount, class T>
constexpr auto make_references(T& object) {
#define PERDURA_REFERENCES(n) if constexpr (kCount == n) { auto& [PERDURA_MEMBERS_##n] = object; if constexpr (requires { take_references(PERDURA_MEMBERS_##n); }) return std::true_type{}; else return std::false_type{}; } else
  PERDURA_REFERENCES(1) PERDURA_REFERENCES(2) PERDURA_REFERENCES(3) PERDURA_REFERENCES(4)
  PERDURA_REFERENCES(5) PERDURA_REFERENCES(6) PERDURA_REFERENCES(7) PERDURA_REFERENCES(8)
  PERDURA_REFERENCES(9) PERDURA_REFERENCES(10) PERDURA_REFERENCES(11) PERDURA_REFERENCES(12)
  PERDURA_REFERENCES(13) PERDURA_REFERENCES(14) PERDURA_REFERENCES(15) PERDURA_REFERENCES(16)
  PERDURA_REFERENCES(17) PERDURA_REFERENCES(18) PERDURA_REFERENCES(19) PERDURA_REFERENCES(20)
  PERDURA_REFERENCES(21) PERDURA_REFERENCES(22) PERDURA_REFERENCES(23) PERDURA_REFERENCES(24)
  PERDURA_REFERENCES(25) PERDURA_REFERENCES(26) PERDURA_REFERENCES(27) PERDURA_REFERENCES(28)
  PERDURA_REFERENCES(29) PERDURA_REFERENCES(30) PERDURA_REFERENCES(31) PERDURA_REFERENCES(32)
  PERDURA_REFERENCES(33) PERDURA_REFERENCES(34) PERDURA_REFERENCES(35) PERDURA_REFERENCES(36)
  PERDURA_REFERENCES(37) PERDURA_REFERENCES(38) PERDURA_REFERENCES(39) PERDURA_REFERENCES(40)
  PERDURA_REFERENCES(41) PERDURA_REFERENCES(42) PERDURA_REFERENCES(43) PERDURA_REFERENCES(44)
  PERDURA_REFERENCES(45) PERDURA_REFERENCES(46) PERDURA_REFERENCES(47) PERDURA_REFERENCES(48)
  PERDURA_REFERENCES(49) PERDURA_REFERENCES(50) PERDURA_REFERENCES(51) PERDURA_REFERENCES(52)
  PERDURA_REFERENCES(53) PERDURA_REFERENCES(54) PERDURA_REFERENCES(55) PERDURA_REFERENCES(56)
  PERDURA_REFERENCES(57) PERDURA_REFERENCES(58) PERDURA_REFERENCES(59) PERDURA_REFERENCES(60)
  PERDURA_REFERENCES(61) PERDURA_REFERENCES(62) PERDURA_REFERENCES(63) PERDURA_REFERENCES(64)
  return std::false_type{};
#undef PERDURA_REFERENCES
}

/// visit(member…).
template <std::size_t kCount, class T, class Visit>
constexpr auto visit_members(T& object, Visit&& visit) {
#define PERDURA_VISIT(n) if constexpr (kCount == n) { auto& [PERDURA_MEMBERS_##n] = object; return visit(PERDURA_MEMBERS_##n); } else
  PERDURA_VISIT(1) PERDURA_VISIT(2) PERDURA_VISIT(3) PERDURA_VISIT(4) PERDURA_VISIT(5)
  PERDURA_VISIT(6) PERDURA_VISIT(7) PERDURA_VISIT(8) PERDURA_VISIT(9) PERDURA_VISIT(10)
  PERDURA_VISIT(11) PERDURA_VISIT(12) PERDURA_VISIT(13) PERDURA_VISIT(14) PERDURA_VISIT(15)
  PERDURA_VISIT(16) PERDURA_VISIT(17) PERDURA_VISIT(18) PERDURA_VISIT(19) PERDURA_VISIT(20)
  PERDURA_VISIT(21) PERDURA_VISIT(22) PERDURA_VISIT(23) PERDURA_VISIT(24) PERDURA_VISIT(25)
  PERDURA_VISIT(26) PERDURA_VISIT(27) PERDURA_VISIT(28) PERDURA_VISIT(29) PERDURA_VISIT(30)
  PERDURA_VISIT(31) PERDURA_VISIT(32) PERDURA_VISIT(33) PERDURA_VISIT(34) PERDURA_VISIT(35)
  PERDURA_VISIT(36) PERDURA_VISIT(37) PERDURA_VISIT(38) PERDURA_VISIT(39) PERDURA_VISIT(40)
  PERDURA_VISIT(41) PERDURA_VISIT(42) PERDURA_VISIT(43) PERDURA_VISIT(44) PERDURA_VISIT(45)
  PERDURA_VISIT(46) PERDURA_VISIT(47) PERDURA_VISIT(48) PERDURA_VISIT(49) PERDURA_VISIT(50)
  PERDURA_VISIT(51) PERDURA_VISIT(52) PERDURA_VISIT(53) PERDURA_VISIT(54) PERDURA_VISIT(55)
  PERDURA_VISIT(56) PERDURA_VISIT(57) PERDURA_VISIT(58) PERDURA_VISIT(59) PERDURA_VISIT(60)
  PERDURA_VISIT(61) PERDURA_VISIT(62) PERDURA_VISIT(63) PERDURA_VISIT(64)
  static_assert(kCount != kCount, "too many members");
#undef PERDURA_VISIT
}
// clang-format on

/// A packed type is aligned to less than its members, which some compilers make references to.
template <class T, std::size_t kCount>
consteval bool is_aligned() {
  return decltype(visit_members<kCount>(std::declval<T&>(), [](auto&... member) {
    return std::bool_constant<((alignof(std::remove_reference_t<decltype(member)>) <= alignof(T)) &&
                               ...)>{};
  }))::value;
}

/// GCC cannot name volatile members.
template <class T, std::size_t kCount>
consteval bool has_volatile() {
  return decltype(visit_members<kCount>(std::declval<T&>(), [](auto&... member) {
    return std::bool_constant<(
        std::is_volatile_v<std::remove_all_extents_t<std::remove_reference_t<decltype(member)>>> ||
        ...)>{};
  }))::value;
}

/// Of those that structured bindings cope with: no references are made to members of others.
template <class T, std::size_t kCount>
consteval bool has_own_members() {
  return kCount != 0 && kCount <= kMembersMax && !requires { T{BaseOf<T>{}}; } &&
         !has_another<T, kCount>() && !has_nameless<T, kCount>();
}

template <class T>
consteval bool find_members() {
  if constexpr (std::is_class_v<T> && std::is_aggregate_v<T> && !kOpaque<T> &&
                !requires { std::tuple_size<T>::value; }) {
    constexpr std::size_t count = count_braces<T>();
    if constexpr (has_own_members<T, count>())
      if constexpr (decltype(make_references<count>(std::declval<T&>()))::value)
        return is_aligned<T, count>() && !has_volatile<T, count>();
  }
  return false;
}

/// A class whose members are known.
template <class T>
concept HasMembers = find_members<T>();

template <HasMembers T>
using MemberTypes =
    decltype(visit_members<count_braces<T>()>(std::declval<T&>(), [](auto&... member) {
      return TypeSequence<std::remove_reference_t<decltype(member)>...>{};
    }));

// --- names ---------------------------------------------------------------------------------------

#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wundefined-var-template"
#pragma clang diagnostic ignored "-Wundefined-internal"
#endif

/// Of which no object is made: its members have addresses, which the compiler can name.
template <class T>
struct Imagined {
  T value;
};
template <class T>
extern Imagined<T> imagined;

/// "…value.Point::x)]", "…&imagined.value.x]"
template <auto kMember>
consteval auto text_of_member() {
  return __PRETTY_FUNCTION__;
}

template <auto kMember>
consteval std::string_view name_of_member() {
  std::string_view text = text_of_member<kMember>();
  const auto in_name = [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           static_cast<unsigned char>(c) >= 0x80;
  };
  while (!text.empty() && !in_name(text.back())) text.remove_suffix(1);
  std::size_t first = text.size();
  while (first > 0 && in_name(text[first - 1])) --first;
  return text.substr(first);
}

template <HasMembers T>
consteval auto make_member_names() {
  constexpr auto addresses = visit_members<count_braces<T>()>(
      imagined<T>.value, [](auto&... member) { return std::make_tuple(&member...); });
  return [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    return std::array<std::string_view, sizeof...(kIndex)>{
        name_of_member<std::get<kIndex>(addresses)>()...};
  }(std::make_index_sequence<count_braces<T>()>{});
}

/// In the order of the members.
template <HasMembers T>
inline constexpr auto member_names = make_member_names<T>();

#if defined(__clang__)
#pragma clang diagnostic pop
#endif

/// In bytes, in the order of the members.
template <HasMembers T>
const auto& member_offsets() {
  static const auto offsets = [] {
    constexpr std::size_t count = count_braces<T>();
    alignas(T) static std::byte place[sizeof(T)];  // as if an object were there
    return visit_members<count>(*reinterpret_cast<T*>(place), [](auto&... member) {
      return std::array<std::uint32_t, count>{static_cast<std::uint32_t>(
          reinterpret_cast<const std::byte*>(std::addressof(member)) - place)...};
    });
  }();
  return offsets;
}

}  // namespace detail
}  // namespace perdura
