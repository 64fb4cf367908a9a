// Objects of a type that had other members before: how each is made of what it was, and where
// pointers into it lead then.
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <perdura/detail/description.hpp>
#include <perdura/error.hpp>

namespace perdura::detail {

/// Of a type, for the heap.
struct Conversion {
  const perdura_type* former;
  const perdura_type* now;                ///< the store knows both by the name of this one
  const TypeDescription* former_members;  ///< nullptr: only the records are compared
  const TypeDescription* now_members;
  std::uint64_t root_fingerprint;  ///< of roots that are such objects; 0: none have one
  /// Make an object, in zeroed memory, of one that was. What it throws ends the conversion.
  void (*convert)(void* function, const void* was, void* object);
  void* function;
  /// Of a container, whose own objects stay as they are: add(to, conversion) for each of its
  /// blocks.
  void (*for_each_block)(void* function, void* to,
                         void (*add)(void* to, const Conversion& block)) = nullptr;
};

// --- members that have the same names ------------------------------------------------------------

template <class Old, class New>
void evolve_value(const Old& was, New& object, std::string_view member);

/// Arrays get longer, not shorter.
template <class Old, class New>
inline constexpr bool kEvolves = false;
template <class Old, class New>
inline constexpr bool kClassEvolves =
    HasMembers<Old> && HasMembers<New> && std::is_same_v<typename FormerOf<Old>::now, New>;
template <class T>
using ValueOf = typename Described<std::remove_cv_t<T>>::type;
/// A container in an object takes its blocks with it.
template <class Old, class New>
inline constexpr bool kMovesByBytes =
    HasOwnParts<Old> && std::is_same_v<typename FormerOf<Old>::now, New>;
template <class Old, class New>
  requires((std::is_arithmetic_v<Old> && std::is_arithmetic_v<New>) ||
           (std::is_same_v<Old, New> && std::is_trivially_copyable_v<New>) ||
           (std::is_pointer_v<Old> && std::is_pointer_v<New> &&
            std::is_same_v<typename FormerOf<std::remove_cv_t<std::remove_pointer_t<Old>>>::now,
                           std::remove_cv_t<std::remove_pointer_t<New>>>) ||
           kClassEvolves<Old, New> || kMovesByBytes<Old, New>)
inline constexpr bool kEvolves<Old, New> = true;
template <class Old, std::size_t kOld, class New, std::size_t kNew>
  requires(kOld <= kNew && !std::is_same_v<Old[kOld], New[kNew]>)
inline constexpr bool kEvolves<Old[kOld], New[kNew]> = kEvolves<ValueOf<Old>, ValueOf<New>>;

/// The place of the member among Old's; their number where it is new.
template <class Old, class New, std::size_t kNew>
consteval std::size_t find_former_member() {
  std::size_t at = 0;
  while (at < member_names<Old>.size() && member_names<Old>[at] != member_names<New>[kNew]) ++at;
  return at;
}

template <class Old, class New>
void evolve_members(const Old& was, New& object) {
  const auto old_members = visit_members<count_braces<Old>()>(
      const_cast<Old&>(was), [](auto&... member) { return std::tie(member...); });
  const auto members = visit_members<count_braces<New>()>(
      object, [](auto&... member) { return std::tie(member...); });
  [&]<std::size_t... kNew>(std::index_sequence<kNew...>) {
    const auto one = [&]<std::size_t kThis>(std::integral_constant<std::size_t, kThis>) {
      constexpr std::size_t from = find_former_member<Old, New, kThis>();
      if constexpr (from < member_names<Old>.size())
        evolve_value(std::get<from>(old_members), std::get<kThis>(members),
                     member_names<New>[kThis]);
    };
    (one(std::integral_constant<std::size_t, kNew>{}), ...);
  }(std::make_index_sequence<count_braces<New>()>{});
}

/// Whether a To can be this number. One that is no integer may be rounded, as from double to float.
template <class To, class From>
bool has_value(From was) {
  if constexpr (std::is_same_v<To, bool>) {
    return was == From{0} || was == From{1};
  } else if constexpr (std::is_floating_point_v<To>) {
    if constexpr (std::is_floating_point_v<From>) {
      return std::isfinite(static_cast<To>(was)) || !std::isfinite(was);
    } else {
      // An integer is exact where it has no more digits than that, but for zeros at its end.
      constexpr std::size_t kDigits = std::numeric_limits<To>::digits;
      if constexpr (kDigits < 8 * sizeof(From)) {
        From odd = was;
        while (odd != From{0} && odd % 2 == 0) odd = static_cast<From>(odd / 2);
        const auto beyond = odd >> kDigits;
        return beyond == 0 || (was < From{0} && beyond == static_cast<decltype(beyond)>(-1));
      }
      return true;
    }
  } else if constexpr (std::is_floating_point_v<From>) {
    // Not by std::numeric_limits, which need not know integers of 128 bits.
    constexpr bool kSigned = static_cast<To>(-1) < To{0};
    const long double end = std::ldexp(1.0L, static_cast<int>(8 * sizeof(To)) - kSigned);
    return std::trunc(was) == was && was < end && was >= (kSigned ? -end : 0.0L);
  } else {
    const auto is = static_cast<To>(was);
    return static_cast<From>(is) == was && (is < To{0}) == (was < From{0});
  }
}

/// In decimal.
template <class T>
std::string text_of_number(T number) {
  if constexpr (std::is_floating_point_v<T>) {
    char text[64];
    return {text, std::to_chars(text, text + sizeof text, number).ptr};
  } else if constexpr (sizeof(T) <= sizeof(long long)) {
    return std::to_string(+number);
  } else {  // 128 bits, for which the standard's functions are there in some dialects alone
    std::string text;
    const bool is_negative = number < T{0};
    do {
      const int digit = static_cast<int>(number % 10);
      text.insert(text.begin(), static_cast<char>('0' + (digit < 0 ? -digit : digit)));
      number /= 10;
    } while (number != T{0});
    return is_negative ? "-" + text : text;
  }
}

/// Instead of a number that is cut off in silence.
template <class To, class From>
To number_as(From was, std::string_view member) {
  if (!has_value<To>(was))
    throw Error(Code::kInvalidArgument,
                "a member '" + std::string(member) + "' has the value " + text_of_number(was) +
                    ", which its new type does not have: convert with Store::migrate and a "
                    "function");
  return static_cast<To>(was);
}

/// The member is for messages.
template <class Old, class New>
void evolve_value(const Old& was, New& object, std::string_view member) {
  using From = ValueOf<Old>;
  using To = ValueOf<New>;
  static_assert(kEvolves<From, To>,
                "a member of this name has another type now, which it cannot be made of by itself: "
                "convert with Store::migrate and a function");
  if constexpr (!kEvolves<From, To>) {
  } else if constexpr (std::is_array_v<To>) {
    for (std::size_t i = 0; i < std::extent_v<From>; ++i) evolve_value(was[i], object[i], member);
  } else if constexpr (std::is_pointer_v<To> && !std::is_same_v<From, To>) {
    // It leads to what was, until the heap has mended it.
    object =
        reinterpret_cast<To>(const_cast<void*>(static_cast<const void*>(static_cast<From>(was))));
  } else if constexpr (kMovesByBytes<From, To>) {
    static_assert(sizeof(From) == sizeof(To));
    std::memcpy(static_cast<void*>(&object), static_cast<const void*>(&was), sizeof object);
  } else if constexpr (!std::is_same_v<From, To> && std::is_class_v<To>) {
    evolve_members(was, object);
  } else if constexpr (std::is_arithmetic_v<To>) {
    object = number_as<To>(static_cast<const From&>(was), member);
  } else {
    object = static_cast<To>(static_cast<const From&>(was));
  }
}

/// In zeroed memory; members that are new are as their type makes them.
template <class Old, class New, class Function>
void convert_object(void* function, const void* was, void* place) {
  static_assert(std::is_default_constructible_v<New>,
                "an object that is converted is made of nothing first");
  New* const object = ::new (place) New{};
  (*static_cast<Function*>(function))(*static_cast<const Old*>(was), *object);
}

/// Of a container nothing.
template <class Old, class New, class Function>
void convert_either(void* function, const void* was, void* place) {
  if constexpr (!HasOwnParts<New>) convert_object<Old, New, Function>(function, was, place);
}

/// What the blocks of a container are converted by, whose elements were others before. To be
/// specialized, with
///   template <class Function, class Add>
///   static void for_each_block(Function& function, Add&& add);   add(conversion)
///   using OldElement, NewElement
template <class Old, class New>
struct ElementConversions;
template <class Old, class New>
concept HasElementConversions = requires { typename ElementConversions<Old, New>::OldElement; };

/// Of elements in elements, those that are no containers.
template <class Old, class New>
struct InnermostElements {
  using OldElement = Old;
  using NewElement = New;
};
template <class Old, class New>
  requires HasElementConversions<Old, New>
struct InnermostElements<Old, New>
    : InnermostElements<typename ElementConversions<Old, New>::OldElement,
                        typename ElementConversions<Old, New>::NewElement> {};

template <class Old, class New, class Function>
void for_each_block(void* function, void* to, void (*add)(void* to, const Conversion& block)) {
  ElementConversions<Old, New>::for_each_block(*static_cast<Function*>(function),
                                               [&](const Conversion& block) { add(to, block); });
}

template <class Old, class New, class Function>
Conversion conversion_of(Function& function) {
  static_assert(HasElementConversions<Old, New> || !HasOwnParts<New>,
                "keys, and elements of ordered maps, have places that their values decide: take "
                "them out, convert what else there is, and insert them again (docs/evolution.md)");
  static_assert(std::is_same_v<typename FormerOf<Old>::now, New>,
                "say of the former type which one it is now: template <> struct "
                "perdura::FormerOf<Old> { using now = New; };");
  static_assert(Recorded<Old> && Recorded<New>,
                "of both types it must be known where their pointers are: by their members, which "
                "aggregates have, or by PERDURA_TYPE");
  Conversion made{&record_of<Old>(),
                  &record_of<New>(),
                  nullptr,
                  nullptr,
                  root_fingerprint<New>(),
                  &convert_either<Old, New, Function>,
                  &function,
                  nullptr};
  if constexpr (HasElementConversions<Old, New>) {
    made.former = made.now;
    made.convert = nullptr;
    made.for_each_block = &for_each_block<Old, New, Function>;
    return made;
  }
  if constexpr (HasMembers<Old> && HasMembers<New>) {
    made.former_members = &describe<Old>();
    made.now_members = &describe<New>();
  }
  return made;
}

/// Of a container whose blocks are arrays of its elements. Also of places that have no element:
/// what is there is zero, or was an element once.
template <class Old, class New>
struct ArrayElementConversions {
  using OldElement = Old;
  using NewElement = New;
  template <class Function, class Add>
  static void for_each_block(Function& function, Add&& add) {
    add(conversion_of<Old, New>(function));
  }
};

}  // namespace perdura::detail

namespace perdura {

/// For Store::migrate of several types: how objects of New are made of what they were. The function
/// must outlive the call.
using detail::Conversion;
template <class Old, class New, class Function>
Conversion conversion(Function& function) {
  return detail::conversion_of<Old, New>(function);
}
/// As Store::evolve does.
template <class Old, class New>
Conversion conversion() {
  using Elements = detail::InnermostElements<Old, New>;
  static auto function =
      &detail::evolve_members<typename Elements::OldElement, typename Elements::NewElement>;
  return detail::conversion_of<Old, New>(function);
}

}  // namespace perdura
