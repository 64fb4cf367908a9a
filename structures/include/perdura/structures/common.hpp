// What the reporting containers have in common: what they may be looked for by, how elements come
// to be, move and go, and what is done to all fields of a container at once, which it has in a
// structure: its head.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include <perdura/detail/step.hpp>
#include <perdura/structures/reference.hpp>

namespace perdura::structures::detail {

using perdura::detail::Look;
using perdura::detail::Step;

/// Set: no value.
struct Nothing {};

/// Whether a hash, or what compares, takes other types than the key's.
template <class Function>
concept Transparent = requires { typename Function::is_transparent; };

/// What a key may be looked for by. Where the function takes its type alone this is that type,
/// whatever converts to it; else it is deduced.
template <bool kTransparent>
struct KeyArgument {
  template <class K, class Key>
  using type = K;
};
template <>
struct KeyArgument<false> {
  template <class K, class Key>
  using type = Key;
};

/// What `->` of an iterator gives that makes what it refers to.
template <class Reference>
class Arrow {
 public:
  explicit Arrow(Reference to) : to_(to) {}
  const Reference* operator->() const { return &to_; }

 private:
  Reference to_;
};

/// What maps give of their elements.
template <class Key, class Value>
struct MapReferences {
  template <bool kConst>
  using Mapped =
      std::conditional_t<Plain<Value>,
                         std::conditional_t<kConst, ConstReference<Value>, Reference<Value, false>>,
                         std::conditional_t<kConst, const Value&, Value&>>;
  /// A plain key is copied: in a transaction as it is for that.
  template <bool kConst>
  using Element = std::pair<std::conditional_t<Plain<Key>, const Key, const Key&>, Mapped<kConst>>;
};

/// Of two in the same memory.
template <class Head>
void exchange_heads(const Step& step, Head& a, Head& b) {
  const Head mine = step.load(a);
  step.store(a, step.load(b));
  step.store(b, mine);
}

/// What `fill()` puts into a container, which is empty then. Where that throws it is as it was.
/// `release()` gives back what the head leads to.
template <class Head, class Release, class Fill>
void replace_contents(const Step& step, Head& head, Release&& release, Fill&& fill) {
  const Head before = step.load(head);
  step.store(head, Head{});
  perdura::detail::undone_by(fill, [&] {
    release();
    step.store(head, before);
  });
  const Head after = step.load(head);
  step.store(head, before);
  release();
  step.store(head, after);
}

/// Where there is none yet, in memory that has been reported. What reports itself does so in its
/// constructor.
template <class T, class... Args>
void construct_member(const Step& step, T& place, Args&&... args) {
  if constexpr (Plain<T>)
    if (step.in_transaction()) return step.store(place, T(std::forward<Args>(args)...));
  ::new (static_cast<void*>(std::addressof(place))) T(std::forward<Args>(args)...);
}
template <class T>
void destroy_member(T& place) {
  if constexpr (!Plain<T>) std::destroy_at(std::addressof(place));
}
/// An element comes to another place, where there is none yet. Both may be the same.
template <class T>
void relocate(const Step& step, T& to, const T& from) {
  auto* const into = reinterpret_cast<std::byte*>(std::addressof(to));
  const auto* const bytes = reinterpret_cast<const std::byte*>(std::addressof(from));
  if (!step.in_transaction()) return step.move_bytes(into, bytes, sizeof(T));
  std::byte piece[256];
  for (std::size_t done = 0; done < sizeof(T); done += sizeof piece) {
    const std::size_t length = std::min(sizeof piece, sizeof(T) - done);
    step.load_bytes(bytes + done, piece, length);
    step.store_bytes(into + done, piece, length);
  }
}

/// What a container gives out: of bytes a Reference.
template <class T>
using ReferenceTo = std::conditional_t<Plain<T>, Reference<T>, T&>;
template <class T>
using ConstReferenceTo = std::conditional_t<Plain<T>, ConstReference<T>, const T&>;

/// What `->` of an iterator of a sequence gives.
template <class T, bool kConst>
class ElementPointer {
 public:
  explicit ElementPointer(T& value) : value_(value) {}
  auto operator->() const {
    using To = std::conditional_t<kConst, ConstReferenceTo<T>, ReferenceTo<T>>;
    if constexpr (Plain<T>) return To(value_).operator->();
    else return static_cast<std::conditional_t<kConst, const T*, T*>>(&value_);
  }

 private:
  T& value_;
};

/// A value as it is compared and handed to functions: of bytes a copy, in a transaction as it is
/// for that.
template <class T>
decltype(auto) load_value(const Look& look, const T& place) {
  if constexpr (Plain<T>) return T(look.load(place));
  else return static_cast<const T&>(place);
}

/// By `<` alone, of ranges of references or values; `less(a, b)` of what iterators give.
template <class Range, class Less>
std::weak_ordering compare_ranges(const Range& a, const Range& b, Less&& less) {
  auto of_a = a.begin();
  auto of_b = b.begin();
  for (; of_a != a.end() && of_b != b.end(); ++of_a, ++of_b) {
    if (less(*of_a, *of_b)) return std::weak_ordering::less;
    if (less(*of_b, *of_a)) return std::weak_ordering::greater;
  }
  if (of_a != a.end()) return std::weak_ordering::greater;
  return of_b != b.end() ? std::weak_ordering::less : std::weak_ordering::equivalent;
}

/// The same of the elements of two sequences.
template <class Sequence>
std::weak_ordering compare_elements(const Sequence& a, const Sequence& b) {
  return compare_ranges(a, b, [](const auto& of_a, const auto& of_b) {
    if constexpr (requires { of_a.get(); }) return bool(of_a.get() < of_b.get());
    else return bool(of_a < of_b);
  });
}

}  // namespace perdura::structures::detail
