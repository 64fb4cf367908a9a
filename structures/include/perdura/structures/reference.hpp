// What containers give out of the values in them, so that each store to one is reported, or part of
// the transaction that the thread is in.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include <perdura/detail/step.hpp>
#include <perdura/durable.hpp>

namespace perdura {

/// A type all of whose own code reports its stores, and takes part in transactions: containers may
/// give references to such objects. Others' values are changed through Reference. Such types can
/// also be moved by copying their bytes. To be specialized for structures of such types.
template <class T>
inline constexpr bool kReportsItself = false;

/// A type that is copied as bytes.
template <class T>
concept Plain = std::is_trivially_copyable_v<T>;

/// What a container of a store may hold.
template <class T>
concept Storable = Plain<T> || kReportsItself<T>;
#define PERDURA_STORABLE_SENTENCE                                                                 \
  "what a container of a store holds is copied as bytes (integers, structures of them, pointers " \
  "into the store), or reports its own stores, as the containers of perdura::structures do: "     \
  "std::string is structures::string there. A structure of such members specializes "             \
  "perdura::kReportsItself"

}  // namespace perdura

namespace perdura::structures::detail {

/// True, unless it does not compile, with a sentence that says why.
template <class T>
inline constexpr bool kMayHold = (perdura::detail::require_durable<T>(), true);

}  // namespace perdura::structures::detail

namespace perdura::structures {

/// A value in a container, as vector<bool>'s references are: reads as the value, and reports what
/// is assigned to it. Valid as the standard container's reference would be.
template <class T>
class ConstReference {
 public:
  explicit ConstReference(const T& value) noexcept : value_(&value) {}
  ConstReference(const ConstReference&) = default;

  operator T() const { return get(); }  // NOLINT: reads as the value
  T get() const { return perdura::detail::Look(value_).load(*value_); }
  /// Members, or what a pointer points to. Members in a transaction are kMisuse: get() says what
  /// they are.
  auto operator->() const {
    if constexpr (std::is_pointer_v<T>) return get();
    else return members();
  }
  template <class Other>
    requires(!std::is_base_of_v<ConstReference, Other>)
  friend bool operator==(const ConstReference& a, const Other& b) {
    return a.get() == b;
  }
  friend bool operator==(const ConstReference& a, const ConstReference& b) {
    return a.get() == b.get();
  }

 protected:
  const T* value_;

 private:
  const T* members() const {
    if (perdura::detail::Look(value_).in_transaction())
      perdura::detail::throw_in_transaction("operator->");
    return value_;
  }
};

template <class T, bool kStays = true>
class Reference : public ConstReference<T> {
 public:
  explicit Reference(T& value) noexcept : ConstReference<T>(value) {}
  Reference(const Reference&) = default;

  const Reference& operator=(const T& value) const {
    perdura::detail::Step(this->value_).store(place(), value);
    return *this;
  }
  const Reference& operator=(const Reference& other) const  // NOLINT: assigns the value
    requires kStays
  {
    return *this = other.get();
  }
  /// Of a container that moves its elements when it grows: in `map[a] = map[b]` what is assigned
  /// may have moved when it is read. `map[a] = map[b].get()`.
  const Reference& operator=(const Reference& other) const
    requires(!kStays)
  = delete;
  /// Several members at once: what `change` makes of a copy is assigned.
  template <class Change>
  void modify(Change&& change) const {
    T value = this->get();
    change(value);
    *this = value;
  }
  const Reference& operator+=(const T& by) const {
    return *this = static_cast<T>(this->get() + by);
  }
  const Reference& operator-=(const T& by) const {
    return *this = static_cast<T>(this->get() - by);
  }
  friend void swap(const Reference& a, const Reference& b) {
    const T of_a = a.get();
    a = b.get();
    b = of_a;
  }
  const Reference& operator++() const { return *this = static_cast<T>(this->get() + T{1}); }
  const Reference& operator--() const { return *this = static_cast<T>(this->get() - T{1}); }

 private:
  T& place() const { return const_cast<T&>(*this->value_); }
};

}  // namespace perdura::structures
