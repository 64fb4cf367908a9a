// What the compiler knows of a type, as a store keeps it to tell when a later build of the program
// has another layout; and type records that are made of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <vector>

#include <perdura/detail/fingerprint.hpp>
#include <perdura/detail/members.hpp>
#include <perdura/field.hpp>
#include <perdura/type.hpp>

namespace perdura::detail {

struct MemberDescription {
  std::string_view name;
  std::uint32_t offset;  ///< in bytes
  Describe type;
};

struct TypeDescription {
  /// The mangled name of a class or an enumeration; of a number what it is, "int32".
  std::string_view name;
  std::uint32_t size;
  std::uint32_t alignment;
  std::uint32_t count;  ///< elements of an array; 0: it is none
  bool is_class;        ///< or an enumeration: a store keeps what it is made of
  bool is_container;    ///< a standard one, whose elements lie elsewhere
  std::span<const MemberDescription> members;  ///< empty: they are not known
  std::span<const Describe> contained;         ///< elements, and parts of pairs and tuples
};

/// Of a number: the same for all types that are the same in memory.
template <class T>
constexpr std::string_view number_name() {
  if constexpr (std::is_same_v<T, bool>) return "bool";
  else if constexpr (std::is_same_v<T, char>) return "char";
  else if constexpr (std::is_floating_point_v<T>)
    return sizeof(T) == 4 ? "float32" : sizeof(T) == 8 ? "float64" : "long double";
  else if constexpr (sizeof(T) == 1) return std::is_signed_v<T> ? "int8" : "uint8";
  else if constexpr (sizeof(T) == 2) return std::is_signed_v<T> ? "int16" : "uint16";
  else if constexpr (sizeof(T) == 4) return std::is_signed_v<T> ? "int32" : "uint32";
  else if constexpr (sizeof(T) == 8) return std::is_signed_v<T> ? "int64" : "uint64";
  else return std::is_signed_v<T> ? "int128" : "uint128";
}

/// The same with an end.
template <class T>
inline constexpr auto element_name = [] {
  std::array<char, 16> name{};
  number_name<T>().copy(name.data(), name.size() - 1);
  return name;
}();

template <class T>
const TypeDescription& describe();

/// What is described instead of a type: of a Field its value, which is the same in memory.
template <class T>
struct Described {
  using type = T;
};
template <class T>
struct Described<const T> : Described<T> {};
template <class T>
struct Described<volatile T> : Described<T> {};
template <class T>
struct Described<Field<T>> : Described<T> {};

/// The type whose name is that of T in a store, which for a former type is that of now.
template <class T>
struct Nominal {
  using type = typename FormerOf<T>::now;
};
template <class T>
struct Nominal<const T> {
  using type = const typename Nominal<T>::type;
};
template <class T>
struct Nominal<T*> {
  using type = typename Nominal<T>::type*;
};

/// A member of a class that says itself what it is made of.
struct Part {
  MemberDescription member;
  perdura_slot slot;  ///< kind 0: it holds no pointers
};

/// What such a class is made of, which is no aggregate: a container, or what one allocates. To be
/// specialized, with
///   static constexpr bool kKnown;             where all of its pointers are is known
///   static std::vector<Part> parts();         where they are
///   static constexpr bool kHasMembers;        a store also keeps what it is made of
/// Its objects can be moved by copying their bytes.
template <class T>
struct OwnParts;
template <class T>
concept HasOwnParts = requires { OwnParts<T>::kKnown; };

template <class Members>
struct MemberList;
template <class... Members>
struct MemberList<TypeSequence<Members...>> {
  template <class T>
  static std::span<const MemberDescription> of() {
    static const auto all = [] {
      const std::array<Describe, sizeof...(Members)> types{&describe<Members>...};
      std::array<MemberDescription, sizeof...(Members)> made{};
      for (std::size_t i = 0; i < made.size(); ++i)
        made[i] = {member_names<T>[i], member_offsets<T>()[i], types[i]};
      return made;
    }();
    return all;
  }
};

template <class T>
std::span<const MemberDescription> own_members() {
  static const std::vector<MemberDescription> all = [] {
    std::vector<MemberDescription> made;
    for (const Part& part : OwnParts<T>::parts()) made.push_back(part.member);
    return made;
  }();
  return all;
}

template <class T>
TypeDescription make_description() {
  TypeDescription made{};
  made.size = sizeof(T);  // NOLINT(bugprone-sizeof-expression): also of a pointer
  made.alignment = alignof(T);
  if constexpr (std::is_array_v<T>) {
    static constexpr std::array<Describe, 1> element{&describe<std::remove_extent_t<T>>};
    made.count = std::extent_v<T>;
    made.contained = element;
  } else if constexpr (std::is_arithmetic_v<T>) {
    made.name = number_name<T>();
  } else {
    made.name = typeid(typename Nominal<T>::type).name();
    made.is_class = !std::is_pointer_v<T> && !std::is_member_pointer_v<T>;
    if constexpr (HasOwnParts<T>) {
      if constexpr (OwnParts<T>::kHasMembers) made.members = own_members<T>();
      else made.contained = Contents<T>::parts();
    } else if constexpr (HasMembers<T>) made.members = MemberList<MemberTypes<T>>::template of<T>();
    else made.contained = Contents<T>::parts();
    made.is_container = StandardContainer<T> || (HasOwnParts<T> && made.members.empty());
  }
  return made;
}

template <class T>
const TypeDescription& describe() {
  using Type = typename Described<T>::type;
  if constexpr (!std::is_same_v<Type, T>) {
    return describe<Type>();
  } else {
    static const TypeDescription made = make_description<T>();
    return made;
  }
}

// --- type records --------------------------------------------------------------------------------

template <class T>
consteval bool find_pointers();

template <class Members>
inline constexpr bool kAllKnown = false;
template <class... Members>
inline constexpr bool kAllKnown<TypeSequence<Members...>> =
    (find_pointers<std::remove_cv_t<std::remove_all_extents_t<Members>>>() && ...);

template <class T>
inline constexpr bool kIsFunctionPointer = false;
template <class Result, class... Arguments>
inline constexpr bool kIsFunctionPointer<Result (*)(Arguments...)> = true;

/// Whether it is known of each word of a T whether it is a pointer. An integer is taken for none.
template <class T>
consteval bool find_pointers() {
  using Type = std::remove_cv_t<typename Described<std::remove_cv_t<T>>::type>;
  if constexpr (std::is_arithmetic_v<Type> || std::is_enum_v<Type> || HasTypeRecord<Type>)
    return true;
  else if constexpr (std::is_pointer_v<Type>)
    return !std::is_function_v<std::remove_pointer_t<Type>>;
  else if constexpr (HasOwnParts<Type>) return OwnParts<Type>::kKnown;
  else if constexpr (HasMembers<Type>) return kAllKnown<MemberTypes<Type>>;
  else return std::is_class_v<Type> && std::is_empty_v<Type>;
}

/// A class of whose objects a store knows where the pointers are: by PERDURA_TYPE, by its members,
/// or by what it says of itself.
template <class T>
concept Recorded = HasTypeRecord<T> || ((HasOwnParts<T> || HasMembers<T>) && find_pointers<T>());

/// The name that a store knows a type by: the mangled one, of more than 255 characters the first
/// ones and their checksum.
std::array<char, 256> type_record_name(const char* mangled_name);

template <class T>
const perdura_type& record_of();

/// Of a class that has none by PERDURA_TYPE.
template <class T>
class AutomaticRecord {
 public:
  AutomaticRecord() : name_(type_record_name(typeid(typename Nominal<T>::type).name())) {
    add(MemberTypes<T>{});
  }
  const perdura_type& type() const { return type_; }

 private:
  template <class... Members>
  void add(TypeSequence<Members...>) {
    std::size_t index = 0;
    (add<Members>(index++), ...);
    type_.slot_count = count_;
  }
  template <class Member>
  void add(std::size_t index) {
    using Element = std::remove_cv_t<
        typename Described<std::remove_cv_t<std::remove_all_extents_t<Member>>>::type>;
    perdura_slot& slot = slots_[count_];
    if constexpr (std::is_pointer_v<Element>) slot.kind = PERDURA_SLOT_POINTER;
    else if constexpr (Recorded<Element>) slot.value = &record_of<Element>();
    if (slot.value != nullptr) slot.kind = PERDURA_SLOT_VALUE;
    if (slot.kind == 0 || (slot.value != nullptr && slot.value->slot_count == 0)) {
      slot = {};
      return;
    }
    slot.member = names_.at(index, member_names<T>[index]);
    slot.offset = member_offsets<T>()[index];
    slot.bytes = sizeof(Member);  // NOLINT(bugprone-sizeof-expression): also of a pointer
    ++count_;
  }

  /// Names of members, each with its end.
  struct Names {
    std::array<std::array<char, 64>, MemberTypes<T>::kCount> all{};
    const char* at(std::size_t index, std::string_view name) {
      name.substr(0, 63).copy(all[index].data(), 63);
      return all[index].data();
    }
  };

  std::array<char, 256> name_;
  Names names_;
  std::array<perdura_slot, MemberTypes<T>::kCount> slots_{};
  std::uint32_t count_ = 0;
  perdura_type type_{name_.data(), sizeof(T), alignof(T), 0, slots_.data()};
  /// A former type is nobody's to find in a store.
  struct Unknown {
    Unknown(const perdura_type&, Describe) {}
  };
  std::conditional_t<std::is_same_v<typename FormerOf<T>::now, T>, KnownType, Unknown> known_{
      type_, &describe<T>};
};

/// The slot of a member. Without a kind where it holds no pointers.
template <class Member>
perdura_slot slot_of(const char* name, std::size_t offset) {
  using Element = std::remove_cv_t<
      typename Described<std::remove_cv_t<std::remove_all_extents_t<Member>>>::type>;
  perdura_slot slot{};
  if constexpr (std::is_pointer_v<Element>) slot.kind = PERDURA_SLOT_POINTER;
  else if constexpr (Recorded<Element>) slot.value = &record_of<Element>();
  if (slot.value != nullptr && slot.value->slot_count != 0) slot.kind = PERDURA_SLOT_VALUE;
  if (slot.kind == 0) return {};
  slot.member = name;
  slot.offset = static_cast<std::uint32_t>(offset);
  slot.bytes = sizeof(Member);  // NOLINT(bugprone-sizeof-expression): also of a pointer
  return slot;
}

template <class Member>
Part part_of(const char* name, std::size_t offset) {
  return {{name, static_cast<std::uint32_t>(offset), &describe<Member>},
          slot_of<Member>(name, offset)};
}

/// Of a class that has own parts, or of what is no class.
class PartsRecord {
 public:
  /// `describe` nullptr: what it is made of is its name.
  PartsRecord(const char* mangled_name, std::size_t size, std::size_t alignment,
              const std::vector<Part>& parts, Describe describe, bool is_former);
  ~PartsRecord();
  PartsRecord(const PartsRecord&) = delete;
  const perdura_type& type() const { return type_; }

 private:
  std::array<char, 256> name_;
  std::vector<perdura_slot> slots_;
  perdura_type type_;
  std::unique_ptr<KnownType> known_;
};

/// The record of a T; one that PERDURA_TYPE says is known with the members from then on as well.
template <class T>
const perdura_type& record_of() {
  if constexpr (HasTypeRecord<T>) {
    if constexpr (HasMembers<T>) static const KnownType known(TypeRecord<T>::value, &describe<T>);
    return TypeRecord<T>::value;
  } else if constexpr (HasOwnParts<T>) {
    static const PartsRecord made(typeid(typename Nominal<T>::type).name(), sizeof(T), alignof(T),
                                  OwnParts<T>::parts(), &describe<T>,
                                  !std::is_same_v<typename FormerOf<T>::now, T>);
    return made.type();
  } else {
    static const AutomaticRecord<T> made;
    return made.type();
  }
}

// --- elements of blocks --------------------------------------------------------------------------

/// What a block can be a typed array of: classes with a record, pointers and numbers.
template <class T>
concept RecordedElement = Recorded<T> || std::is_arithmetic_v<T> || std::is_enum_v<T> ||
                          (std::is_pointer_v<T> && !std::is_function_v<std::remove_pointer_t<T>>);

template <class T>
const perdura_type& element_record() {
  if constexpr (Recorded<T>) {
    return record_of<T>();
  } else {
    static const PartsRecord made(
        std::is_arithmetic_v<T> ? element_name<T>.data() : typeid(typename Nominal<T>::type).name(),
        sizeof(T),  // NOLINT(bugprone-sizeof-expression): also of a pointer
        alignof(T),
        std::is_pointer_v<T> ? std::vector<Part>{part_of<T>("element", 0)} : std::vector<Part>{},
        nullptr, false);
    return made.type();
  }
}

/// Whether a place that holds no T any more must not look as if it did: its pointers would be
/// taken for some.
template <class T>
bool holds_pointers() {
  if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) return false;
  else if constexpr (RecordedElement<T>) return element_record<T>().slot_count != 0;
  else return false;
}

}  // namespace perdura::detail
