// States of objects (perdura/objects.hpp) that are larger in some objects than in others.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

namespace perdura {

/// A state of which objects may be larger than sizeof(State): what it keeps behind itself is as
/// long as each object needs it, and Object::resize changes that. It says so by a member:
///
///   struct Row {
///     static constexpr bool kIsFlexible = true;
///     std::uint64_t used;
///     void push(int value) noexcept {
///       const std::span<int> cells = perdura::object_rest<int>(this);
///       if (used < cells.size()) cells[used++] = value;
///     }
///   };
///
/// Such a state is known by its type's name; an object of it has at least its size.
template <class State>
concept FlexibleState = requires { requires State::kIsFlexible; };

/// In a method of an object, also in a const one: of how many bytes its state is now, what follows
/// the State among them. Anywhere else 0.
std::size_t object_bytes() noexcept;

/// In a method of an object: what follows its State, as many T as there is room for. New bytes are
/// zeros. `state`: `this` of the object's State, not of a base of it.
template <class T, class State>
auto object_rest(State* state) noexcept {
  static_assert(FlexibleState<State>,
                "what follows a state is that of a flexible one (perdura::FlexibleState)");
  static_assert(std::is_trivially_copyable_v<T>, "an object's state is copied as it lies");
  using Element = std::conditional_t<std::is_const_v<State>, const T, T>;
  using Byte = std::conditional_t<std::is_const_v<State>, const std::byte, std::byte>;
  constexpr std::size_t kBegin = (sizeof(State) + alignof(T) - 1) / alignof(T) * alignof(T);
  const std::size_t bytes = object_bytes();
  return std::span<Element>(reinterpret_cast<Element*>(reinterpret_cast<Byte*>(state) + kBegin),
                            bytes < kBegin ? 0 : (bytes - kBegin) / sizeof(T));
}

}  // namespace perdura
