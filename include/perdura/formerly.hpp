// Names that a method of logged objects had before it was renamed, or was another class's
// (docs/objects.md, "Names and builds").
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>

namespace perdura {

/// What formerly() says.
template <std::size_t N>
struct Formerly {
  char name[N];
};
/// The method had another name, or was another class's, when some of its calls were logged: those
/// are calls of it. The name is as the Error prints it that lacks a function, the method with the
/// types of its arguments: formerly("Seats::sell(int, int)").
/// Once an object was closed by a program that says so no entry of its log needs it any more.
template <std::size_t N>
consteval Formerly<N> formerly(const char (&name)[N]) {
  Formerly<N> said{};
  for (std::size_t i = 0; i < N; ++i) said.name[i] = name[i];
  return said;
}

namespace detail {

template <class Hint>
inline constexpr bool kIsFormerly = false;
template <std::size_t N>
inline constexpr bool kIsFormerly<Formerly<N>> = true;

/// Of what is said of a function, the names that it had.
template <auto... Hints>
constexpr auto former_names() {
  std::array<const char*,
             (std::size_t{0} + ... + kIsFormerly<std::remove_const_t<decltype(Hints)>>)>
      names{};
  [[maybe_unused]] std::size_t count = 0;
  (
      [&] {
        if constexpr (kIsFormerly<std::remove_const_t<decltype(Hints)>>)
          names[count++] = Hints.name;
      }(),
      ...);
  return names;
}

}  // namespace detail
}  // namespace perdura
