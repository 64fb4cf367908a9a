// Type records in C++: where the pointers of a type are (perdura/type.h).
//
//   struct Node { Node* next; std::uint64_t number; Payload payload; Node* others[4]; };
//   PERDURA_TYPE(Node, next, payload, others)
//
// Most aggregates need none: where their pointers are is found in their members. Of others it is
// said outside of every namespace, before a store makes such an object. Each member that is named
// is a pointer (also a Field of one), a value of a type that has a record itself, or an array of
// these; members that are not named hold no pointers. What is more than that, unions and flexible
// arrays, is said with the slots of type.h:
//
//   PERDURA_TYPE_OF(Variant, PERDURA_POINTER_WHEN(Variant, text, kind, Kind::kText))
//
// Objects of a type with a record that a store makes are typed: the store can be opened at another
// address than before (docs/api.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <perdura/type.h>

namespace perdura {

/// `static constexpr perdura_type value`, for types that have a record.
template <class T>
struct TypeRecord;

template <class T>
concept HasTypeRecord = requires { TypeRecord<T>::value.name; };

/// Of a type that a program keeps to say how objects of `now` were laid out before: a store that is
/// converted knows it by the name of that one (docs/evolution.md).
///   template <>
///   struct perdura::FormerOf<v1::Account> { using now = Account; };
template <class T>
struct FormerOf {
  using now = T;
};

namespace detail {

/// What the compiler knows of a type (detail/description.hpp).
struct TypeDescription;
using Describe = const TypeDescription& (*)();

/// A record that the program has, from the time when its module is loaded until it is unloaded: a
/// container that has objects of another layout of the type is refused when it is opened.
class KnownType {
 public:
  /// One of a former type says what its members are, and is not what the program has objects of.
  explicit KnownType(const perdura_type& type, Describe members = nullptr,
                     bool is_former = false) noexcept;
  ~KnownType();
  KnownType(const KnownType&) = delete;

  const perdura_type& type() const { return type_; }
  /// What is known of it beside the record; nullptr: nothing.
  Describe members() const { return members_; }
  bool is_former() const { return is_former_; }
  const KnownType* next() const { return next_; }

 private:
  const perdura_type& type_;
  const Describe members_;
  const bool is_former_;
  KnownType* next_ = nullptr;
  KnownType* before_ = nullptr;
};

/// Of a type that is one pointer and nothing else.
template <class T>
inline constexpr bool kIsPointer = std::is_pointer_v<T>;

template <class Member>
constexpr perdura_slot slot(const char* name, std::size_t offset) {
  using Element = std::remove_cv_t<std::remove_all_extents_t<Member>>;
  static_assert(sizeof(Member) <= UINT32_MAX,  // NOLINT(bugprone-sizeof-expression): of a pointer
                "a record says where pointers are in 32 bits");
  perdura_slot slot{};
  slot.member = name;
  slot.offset = static_cast<std::uint32_t>(offset);
  slot.bytes = sizeof(Member);  // NOLINT(bugprone-sizeof-expression): also of a pointer
  if constexpr (kIsPointer<Element>) {
    slot.kind = PERDURA_SLOT_POINTER;
  } else {
    static_assert(HasTypeRecord<Element>,
                  "a member named in PERDURA_TYPE is a pointer, a value of a type that has a "
                  "PERDURA_TYPE itself, or an array of these");
    slot.kind = PERDURA_SLOT_VALUE;
    slot.value = &TypeRecord<Element>::value;
  }
  return slot;
}

/// Arrays of no elements do not exist: one more, which is not counted.
template <class T, std::size_t N>
constexpr perdura_type type_record(const char* name, const perdura_slot (&slots)[N]) {
  static_assert(std::is_standard_layout_v<T>,
                "only members of standard-layout types have a known place");
  static_assert(sizeof(T) <= UINT32_MAX, "a record says where pointers are in 32 bits");
  return {name, sizeof(T), alignof(T), static_cast<std::uint32_t>(N - 1), slots};
}

}  // namespace detail
}  // namespace perdura

#define PERDURA_TYPE(type, ...) PERDURA_TYPE_OF(type __VA_OPT__(, PERDURA_SLOTS(type, __VA_ARGS__)))

#define PERDURA_TYPE_OF(type, ...)                                                            \
  template <>                                                                                 \
  struct perdura::TypeRecord<type> {                                                          \
    static constexpr perdura_slot slots[] = {__VA_ARGS__ __VA_OPT__(, ) perdura_slot{}};      \
    static constexpr perdura_type value = ::perdura::detail::type_record<type>(#type, slots); \
    inline static const ::perdura::detail::KnownType known{value};                            \
  };

// One slot for each of up to 256 members: each round of expansion leaves the next one to do.
#define PERDURA_SLOTS(type, ...) PERDURA_ROUNDS(PERDURA_SLOT_THEN(type, __VA_ARGS__))
#define PERDURA_SLOT_THEN(type, member, ...)                                       \
  ::perdura::detail::slot<decltype(type::member)>(#member, offsetof(type, member)) \
      __VA_OPT__(, PERDURA_SLOT_AGAIN PERDURA_NOTHING()(type, __VA_ARGS__))
#define PERDURA_SLOT_AGAIN PERDURA_SLOT_THEN_INDIRECT PERDURA_NOTHING()()
#define PERDURA_SLOT_THEN_INDIRECT() PERDURA_SLOT_THEN
#define PERDURA_NOTHING()
#define PERDURA_ROUNDS(...) \
  PERDURA_ROUNDS_4(PERDURA_ROUNDS_4(PERDURA_ROUNDS_4(PERDURA_ROUNDS_4(__VA_ARGS__))))
#define PERDURA_ROUNDS_4(...) \
  PERDURA_ROUNDS_3(PERDURA_ROUNDS_3(PERDURA_ROUNDS_3(PERDURA_ROUNDS_3(__VA_ARGS__))))
#define PERDURA_ROUNDS_3(...) \
  PERDURA_ROUNDS_2(PERDURA_ROUNDS_2(PERDURA_ROUNDS_2(PERDURA_ROUNDS_2(__VA_ARGS__))))
#define PERDURA_ROUNDS_2(...) \
  PERDURA_ROUNDS_1(PERDURA_ROUNDS_1(PERDURA_ROUNDS_1(PERDURA_ROUNDS_1(__VA_ARGS__))))
#define PERDURA_ROUNDS_1(...) __VA_ARGS__
