// What cannot live in a store does not compile: types that keep what they are made of in malloc's
// memory, or that mean something to one run of a program alone. Store::make and Store::root, the
// containers on a store's heap and those that report refuse them with a sentence that says what to
// use instead; the compiler names the type that was found beside it.
//
// Looked through: members of aggregates (detail/members.hpp), arrays, pairs, tuples, optionals,
// variants and atomics, and elements of containers. Not seen: private members, members of base
// classes and of unions, and what pointers lead to.
//
// The standard's types are told by their names: including all of their headers would cost every
// program that includes this one.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include <perdura/detail/members.hpp>

namespace perdura {

/// To be made true of a type that may live in a store although it looks otherwise, of which its
/// program knows better, as of a cache that it makes anew in each run. Neither the type nor its
/// members are looked at.
///   template <>
///   inline constexpr bool perdura::kDurable<Cache> = true;
template <class T>
inline constexpr bool kDurable = false;

template <class T>
class Field;

namespace detail {

/// Why a type cannot live in a store.
enum class Unfit {
  kNone,
  kString,
  kVector,
  kDeque,
  kList,
  kMap,
  kMultimap,
  kSet,
  kMultiset,
  kUnorderedMap,
  kUnorderedSet,
  kStandardAllocator,
  kMemoryResource,
  kVirtual,
  kReference,
  kFunction,
  kUniquePointer,
  kSharedPointer,
  kLock,
  kThread,
  kStream,
  kPath,
  kAny,
  kOfThisRun,
};

/// The name of a class of the standard library without its namespaces and parameters; "" of others.
template <class T>
consteval std::string_view standard_name() {
  std::string_view text = text_of_type<T>();
  text.remove_prefix(text.find("T = ") + 4);
  text = text.substr(0, text.find_first_of("<;]"));
  if (!text.starts_with("std::")) return {};
  return text.substr(text.rfind(':') + 1);
}

consteval bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  for (const std::string_view each : names)
    if (name == each) return true;
  return false;
}

template <class Allocator>
inline constexpr bool kStandardAllocator = false;
template <class T>
inline constexpr bool kStandardAllocator<std::allocator<T>> = true;

template <class Container>
concept OnHeapOfMalloc = kStandardAllocator<typename Container::allocator_type>;
template <class Container>
concept OnMemoryResource =
    standard_name<typename Container::allocator_type>() == "polymorphic_allocator";

/// The deleter is the second parameter.
template <class Pointer>
inline constexpr bool kHasDefaultDeleter = false;
template <template <class...> class Pointer, class T>
inline constexpr bool kHasDefaultDeleter<Pointer<T, std::default_delete<T>>> = true;

// --- references in aggregates --------------------------------------------------------------------

/// Converts to any object that is there, but for a T.
template <class T>
struct AnyObject {
  template <class Member>
    requires(!std::is_same_v<std::remove_cv_t<Member>, T>)
  constexpr operator Member&() const;  // NOLINT
};
/// Only references to constant objects take it: what is copied is deduced without const.
template <class T>
struct AnyConstantObject {
  template <class Member>
    requires(std::is_const_v<Member> && !std::is_same_v<std::remove_cv_t<Member>, T>)
  constexpr operator Member&() const;  // NOLINT
};

template <class T>
consteval bool has_reference();
/// Converts to a new object of a class that has a reference among its members.
template <class T>
struct AnythingWithReference {
  template <class Member>
    requires(!std::is_same_v<std::remove_cvref_t<Member>, T> && has_reference<Member>())
  constexpr operator Member() const;  // NOLINT
};

template <class T, std::size_t>
using AnyObjectAt = AnyObject<T>;

/// Whether a T is made of so many objects, and then, whether it is with another thing in their
/// midst.
template <class T, std::size_t... kIndex>
consteval bool takes_objects(std::index_sequence<kIndex...>) {
  return requires { T{AnyObjectAt<T, kIndex>{}...}; };
}
template <class T, class Other, std::size_t... kBefore, std::size_t... kAfter>
consteval bool takes(std::index_sequence<kBefore...>, std::index_sequence<kAfter...>) {
  return requires { T{AnyObjectAt<T, kBefore>{}..., Other{}, AnyObjectAt<T, kAfter>{}...}; };
}

template <class T, std::size_t kCount, std::size_t kAt>
consteval bool is_reference() {
  using Before = std::make_index_sequence<kAt>;
  using After = std::make_index_sequence<kCount - kAt - 1>;
  return takes<T, AnyConstantObject<T>>(Before{}, After{}) ||
         takes<T, AnythingWithReference<T>>(Before{}, After{}) ||
         !takes<T, AnythingBut<T>>(Before{}, After{});
}

template <class T, std::size_t kCount = 1>
consteval bool has_reference_among() {
  if constexpr (kCount > kMembersMax) return false;
  else if constexpr (!takes_objects<T>(std::make_index_sequence<kCount>{}))
    return has_reference_among<T, kCount + 1>();
  else
    return []<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
      return (is_reference<T, kCount, kIndex>() || ...);
    }(std::make_index_sequence<kCount>{});
}

/// An aggregate that is not made of nothing may have one, or a member that may.
template <class T>
consteval bool has_reference() {
  if constexpr (std::is_class_v<T> && std::is_aggregate_v<T> && !kOpaque<T>)
    if constexpr (!requires { T{}; }) return has_reference_among<T>();
  return false;
}

// --- templates -----------------------------------------------------------------------------------

template <class T>
struct Parameters {
  using Types = TypeSequence<>;
};
template <template <class...> class Template, class... Types_>
struct Parameters<Template<Types_...>> {
  using Types = TypeSequence<Types_...>;
};
/// Of std::array, and of nodes of hash tables.
template <template <class, auto> class Template, class T, auto kValue>
struct Parameters<Template<T, kValue>> {
  using Types = TypeSequence<T>;
};
template <class T>
struct Parameters<Field<T>> {
  using Types = TypeSequence<T>;
};

/// Classes that are made of their parameters.
template <class T>
inline constexpr bool kMadeOfParameters = is_one_of(
    standard_name<T>(), {"pair", "tuple", "array", "optional", "variant", "atomic", "expected",
                         "_Rb_tree_node", "_List_node", "_Fwd_list_node", "_Hash_node"});
template <class T>
inline constexpr bool kMadeOfParameters<Field<T>> = true;

template <class Types>
inline constexpr bool kHasReference = false;
template <class... Types>
inline constexpr bool kHasReference<TypeSequence<Types...>> = (std::is_reference_v<Types> || ...);

// --- one type ------------------------------------------------------------------------------------

consteval Unfit standard_container(std::string_view name) {
  if (name == "basic_string") return Unfit::kString;
  if (name == "vector") return Unfit::kVector;
  if (name == "deque") return Unfit::kDeque;
  if (name == "list") return Unfit::kList;
  if (name == "map") return Unfit::kMap;
  if (name == "multimap") return Unfit::kMultimap;
  if (name == "set") return Unfit::kSet;
  if (name == "multiset") return Unfit::kMultiset;
  if (name == "unordered_map") return Unfit::kUnorderedMap;
  if (name == "unordered_set") return Unfit::kUnorderedSet;
  return Unfit::kStandardAllocator;
}

/// Of classes of the standard library that are no containers.
consteval Unfit standard_class(std::string_view name) {
  if (name.starts_with("basic_") &&
      (name.find("stream") != name.npos || name.ends_with("buf") || name == "basic_ios"))
    return Unfit::kStream;
  if (is_one_of(name, {"shared_ptr", "weak_ptr", "enable_shared_from_this", "__shared_ptr"}))
    return Unfit::kSharedPointer;
  if (is_one_of(name, {"function", "move_only_function", "copyable_function", "packaged_task"}))
    return Unfit::kFunction;
  if (is_one_of(name, {"mutex", "recursive_mutex", "timed_mutex", "recursive_timed_mutex",
                       "shared_mutex", "shared_timed_mutex", "condition_variable",
                       "condition_variable_any", "lock_guard", "unique_lock", "scoped_lock",
                       "shared_lock", "once_flag", "counting_semaphore", "latch", "barrier"}))
    return Unfit::kLock;
  if (is_one_of(name, {"thread", "jthread", "future", "shared_future", "promise", "stop_token",
                       "stop_source", "stop_callback"}))
    return Unfit::kThread;
  if (is_one_of(name,
                {"path", "directory_entry", "directory_iterator", "recursive_directory_iterator"}))
    return Unfit::kPath;
  if (name == "any") return Unfit::kAny;
  if (is_one_of(name, {"locale", "basic_regex", "match_results", "exception_ptr", "type_index",
                       "random_device"}))
    return Unfit::kOfThisRun;
  return Unfit::kNone;
}

/// Of a class by itself, whatever it is made of.
template <class T>
consteval Unfit unfit() {
  if constexpr (kDurable<T> || !std::is_class_v<T>) {
    return Unfit::kNone;
  } else {
    constexpr std::string_view name = standard_name<T>();
    constexpr Unfit of_standard = standard_class(name);
    if constexpr (of_standard != Unfit::kNone) return of_standard;
    else if constexpr (OnHeapOfMalloc<T>) return standard_container(name);
    else if constexpr (OnMemoryResource<T>) return Unfit::kMemoryResource;
    else if constexpr (name == "unique_ptr")
      return kHasDefaultDeleter<T> ? Unfit::kUniquePointer : Unfit::kNone;
    else if constexpr (std::is_polymorphic_v<T>) return Unfit::kVirtual;
    else if constexpr (kMadeOfParameters<T>)
      return kHasReference<typename Parameters<T>::Types> ? Unfit::kReference : Unfit::kNone;
    else if constexpr (has_reference<T>()) return Unfit::kReference;
    else return Unfit::kNone;
  }
}

// --- what a type is made of ----------------------------------------------------------------------

/// What of T may be unfit, as a TypeSequence.
template <class T>
consteval auto parts_of() {
  if constexpr (kDurable<T> || !std::is_class_v<T>) return TypeSequence<>{};
  else if constexpr (kMadeOfParameters<T>) return typename Parameters<T>::Types{};
  else if constexpr (requires {
                       typename T::allocator_type;
                       typename T::value_type;
                     })
    return TypeSequence<typename T::value_type>{};
  else if constexpr (!standard_name<T>().empty() && requires { typename T::container_type; })
    return TypeSequence<typename T::container_type>{};
  else if constexpr (HasMembers<T>) return MemberTypes<T>{};
  else return TypeSequence<>{};
}

// --- the search ----------------------------------------------------------------------------------

/// Breadth first through what a type is made of: each class once, since classes contain each other
/// through containers.
template <class Seen, class More>
struct Append;
template <class... Seen>
struct Append<TypeSequence<Seen...>, TypeSequence<>> {
  using type = TypeSequence<Seen...>;
};
template <class... Seen, class First, class... Rest>
struct Append<TypeSequence<Seen...>, TypeSequence<First, Rest...>> {
  using Class = std::remove_cv_t<std::remove_all_extents_t<First>>;
  using type = typename Append<
      std::conditional_t<!std::is_class_v<Class> || (std::is_same_v<Class, Seen> || ...),
                         TypeSequence<Seen...>, TypeSequence<Seen..., Class>>,
      TypeSequence<Rest...>>::type;
};

template <std::size_t kIndex, class First, class... Rest>
constexpr auto nth_type(TypeSequence<First, Rest...>) {
  if constexpr (kIndex == 0) return std::type_identity<First>{};
  else return nth_type<kIndex - 1>(TypeSequence<Rest...>{});
}

template <class T, Unfit kReason>
struct Finding {
  using Type = T;
  static constexpr Unfit kWhy = kReason;
};

template <class Seen, std::size_t kIndex>
consteval auto find_unfit() {
  if constexpr (kIndex == Seen::kCount) {
    return Finding<void, Unfit::kNone>{};
  } else {
    using T = typename decltype(nth_type<kIndex>(Seen{}))::type;
    if constexpr (constexpr Unfit why = unfit<T>(); why != Unfit::kNone) return Finding<T, why>{};
    else return find_unfit<typename Append<Seen, decltype(parts_of<T>())>::type, kIndex + 1>();
  }
}

/// The first type in T that is unfit.
template <class T>
using FirstUnfit =
    decltype(find_unfit<typename Append<TypeSequence<>, TypeSequence<T>>::type, 0>());

/// The compiler says of which type it is when it tells the sentence.
template <class T, Unfit kWhy>
struct CannotLiveInAStore {
  static_assert(kWhy != Unfit::kString,
                "a std::string's text is in malloc's memory, which does not survive the program: "
                "use perdura::string, or structures::string, which reports its stores");
  static_assert(kWhy != Unfit::kVector,
                "a std::vector's elements are in malloc's memory, which does not survive the "
                "program: use perdura::vector, or structures::vector, which reports its stores");
  static_assert(kWhy != Unfit::kDeque,
                "a std::deque's elements are in malloc's memory, which does not survive the "
                "program: use perdura::deque");
  static_assert(kWhy != Unfit::kList,
                "a std::list's elements are in malloc's memory, which does not survive the "
                "program: use perdura::list, or structures::list, which reports its stores");
  static_assert(kWhy != Unfit::kMap,
                "a std::map's elements are in malloc's memory, which does not survive the program: "
                "use perdura::map, or structures::ordered_map, which reports its stores");
  static_assert(kWhy != Unfit::kMultimap,
                "a std::multimap's elements are in malloc's memory, which does not survive the "
                "program: use perdura::multimap");
  static_assert(kWhy != Unfit::kSet,
                "a std::set's elements are in malloc's memory, which does not survive the program: "
                "use perdura::set, or structures::ordered_set, which reports its stores");
  static_assert(kWhy != Unfit::kMultiset,
                "a std::multiset's elements are in malloc's memory, which does not survive the "
                "program: use perdura::multiset");
  static_assert(kWhy != Unfit::kUnorderedMap,
                "a std::unordered_map's elements are in malloc's memory, which does not survive "
                "the program: use perdura::unordered_map, or structures::hash_map, which reports "
                "its stores");
  static_assert(kWhy != Unfit::kUnorderedSet,
                "a std::unordered_set's elements are in malloc's memory, which does not survive "
                "the program: use perdura::unordered_set, or structures::hash_set, which reports "
                "its stores");
  static_assert(kWhy != Unfit::kStandardAllocator,
                "what this container holds is in malloc's memory, which does not survive the "
                "program: give it perdura::Allocator instead of std::allocator");
  static_assert(kWhy != Unfit::kMemoryResource,
                "a container of std::pmr points to a memory resource of this run of the program: "
                "give it perdura::Allocator");
  static_assert(kWhy != Unfit::kVirtual,
                "a class with virtual functions points to code that is elsewhere in the next run: "
                "say what an object is with an enumeration, or use std::variant");
  static_assert(kWhy != Unfit::kReference,
                "a reference among the members cannot be checked or mended by a store: make it a "
                "pointer to an object in the store");
  static_assert(kWhy != Unfit::kFunction,
                "a std::function points to code that is elsewhere in the next run, and to malloc's "
                "memory: keep an enumeration that says which function it is");
  static_assert(kWhy != Unfit::kUniquePointer,
                "a std::unique_ptr gives its object back to malloc: keep a plain pointer to what "
                "Store::make made and Store::destroy gives back, or give it a deleter that does");
  static_assert(kWhy != Unfit::kSharedPointer,
                "a std::shared_ptr or weak_ptr counts in malloc's memory, by code that is "
                "elsewhere in the next run: keep plain pointers to what Store::make made");
  static_assert(kWhy != Unfit::kLock,
                "locks and condition variables are of this run's threads: a crash would leave them "
                "locked for ever. Keep them outside of the store, beside what they protect");
  static_assert(kWhy != Unfit::kThread,
                "threads and what they hand over do not survive the program: keep them outside of "
                "the store");
  static_assert(kWhy != Unfit::kStream,
                "a stream has a file and a buffer of this run of the program: keep it outside of "
                "the store");
  static_assert(kWhy != Unfit::kPath,
                "a std::filesystem::path's text is in malloc's memory, which does not survive the "
                "program: keep it in a perdura::string");
  static_assert(kWhy != Unfit::kAny,
                "a std::any points to code that is elsewhere in the next run, and to malloc's "
                "memory: use std::variant");
  static_assert(kWhy != Unfit::kOfThisRun,
                "a locale, a regular expression, an exception_ptr, a type_index or a random_device "
                "points to what only this run of the program has: keep what it is made of, and "
                "make it anew");
  static constexpr bool kTold = kWhy != Unfit::kNone;
};

/// Tells why a T cannot live in a store, where it cannot.
template <class T>
consteval void require_durable() {
  using Found = FirstUnfit<T>;
  static_assert(!CannotLiveInAStore<typename Found::Type, Found::kWhy>::kTold,
                "the type above cannot live in a store: see the sentence about it. Who knows "
                "better specializes perdura::kDurable for it");
}

}  // namespace detail

/// What may live in a store, as far as the compiler sees.
template <class T>
concept Durable = detail::FirstUnfit<T>::kWhy == detail::Unfit::kNone;

}  // namespace perdura
