// A field that reports its own stores, for programs that use a reported tracker.
#pragma once

#include <type_traits>
#include <utility>

#include <perdura/type.hpp>

namespace perdura {

namespace detail {
/// Report a store to the open store whose region holds `address`; other addresses are ignored,
/// so that the same type works on the stack. The first report of a thread needs memory; throws
/// kNoMemory, and kForked in a child.
void report_address(const void* address, std::size_t length);
}  // namespace detail

/// Holds a T and reports every assignment. The same size and alignment as T. Where the report
/// throws, nothing was stored.
template <class T>
class Field {
  static_assert(std::is_trivially_copyable_v<T>, "Field holds values that are copied as bytes");

 public:
  Field() = default;
  Field(T value) noexcept : value_(value) {}  // NOLINT: a Field reads as its value
  Field(const Field& other) noexcept : value_(other.value_) {}

  Field& operator=(T value) {
    detail::report_address(this, sizeof(T));
    value_ = value;
    return *this;
  }
  Field& operator=(const Field& other) { return *this = other.value_; }

  operator const T&() const noexcept { return value_; }  // NOLINT
  const T& get() const noexcept { return value_; }
  const T& operator->() const noexcept { return value_; }

  Field& operator+=(const T& by) { return *this = static_cast<T>(value_ + by); }
  Field& operator-=(const T& by) { return *this = static_cast<T>(value_ - by); }
  Field& operator++() { return *this = static_cast<T>(value_ + T{1}); }
  Field& operator--() { return *this = static_cast<T>(value_ - T{1}); }

 private:
  T value_{};
};

namespace detail {
template <class T>
inline constexpr bool kIsPointer<Field<T*>> = true;
}  // namespace detail

}  // namespace perdura
