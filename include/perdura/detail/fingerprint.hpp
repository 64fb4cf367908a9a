// Identifies C++ types across builds, for roots: name, size and alignment, and the same of what a
// standard container on a store's heap contains. A struct that grows inside of one leaves the
// container's own size as it is, and its old elements would be read as new ones.
//
// What a container contains is found in its type, through pairs, tuples and arrays. The members of
// a struct are not known.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <tuple>
#include <typeinfo>
#include <utility>

#include <perdura/allocator.hpp>

namespace perdura::detail {

std::uint64_t type_fingerprint(const char* mangled_name, std::size_t size, std::size_t alignment);
std::uint64_t joined_fingerprint(std::uint64_t own, std::uint64_t contained);

/// Of the type alone.
template <class T>
std::uint64_t own_fingerprint() {
  return type_fingerprint(typeid(T).name(), sizeof(T), alignof(T));
}

template <class... Parts>
struct Contained;

/// What T contains, as Contained<…>; nothing is known of most types.
template <class T>
struct ContentsOf {
  using type = Contained<>;
};
template <class T>
using Contents = typename ContentsOf<T>::type;

/// With the parts of everything that it contains.
template <class T>
std::uint64_t deep_fingerprint() {
  return Contents<T>::join(own_fingerprint<T>());
}

struct TypeDescription;
template <class T>
const TypeDescription& describe();

template <class... Parts>
struct Contained {
  /// What describes each of them.
  static std::span<const TypeDescription& (*const)()> parts() {
    if constexpr (sizeof...(Parts) == 0) {
      return {};
    } else {
      static constexpr std::array<const TypeDescription& (*)(), sizeof...(Parts)> all{
          &describe<Parts>...};
      return all;
    }
  }
  static constexpr bool kElsewhere = (Contents<Parts>::kElsewhere || ...);
  static std::uint64_t join(std::uint64_t own) {
    ((own = joined_fingerprint(own, deep_fingerprint<Parts>())), ...);
    return own;
  }
};

/// Of a container, whose elements lie elsewhere.
template <class Element>
struct ContainedElsewhere : private Contained<Element> {
  using Contained<Element>::parts;
  static constexpr bool kElsewhere = true;
  static std::uint64_t join(std::uint64_t own) {
    return joined_fingerprint(own, deep_fingerprint<Element>());
  }
};

/// Of a root: an object without a container in it is all there is.
template <class T>
std::uint64_t root_fingerprint() {
  if constexpr (Contents<T>::kElsewhere) return deep_fingerprint<T>();
  else return own_fingerprint<T>();
}

template <class T>
concept StandardContainer =
    std::uses_allocator_v<T, Allocator<std::byte>> && requires { typename T::value_type; };

template <template <class...> class Container, class... Parts>
  requires StandardContainer<Container<Parts...>>
struct ContentsOf<Container<Parts...>> {
  using type = ContainedElsewhere<typename Container<Parts...>::value_type>;
};
template <class A, class B>
struct ContentsOf<std::pair<A, B>> {
  using type = Contained<A, B>;
};
template <class... Parts>
struct ContentsOf<std::tuple<Parts...>> {
  using type = Contained<Parts...>;
};
template <class T, std::size_t N>
struct ContentsOf<std::array<T, N>> {
  using type = Contained<T>;
};
template <class T, std::size_t N>
struct ContentsOf<T[N]> {
  using type = Contained<T>;
};
template <class T>
struct ContentsOf<const T> : ContentsOf<T> {};

}  // namespace perdura::detail
