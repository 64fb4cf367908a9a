#include "heap/record_members.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include <perdura/detail/conversion.hpp>

#include "base/assert.hpp"
#include "heap/known_types.hpp"

namespace perdura::heap {
namespace {

constexpr u32 kRecordPointerBytes = 8;
constexpr int kRecordDepthMax = 32;  // of values in values

/// A member of a structure, as its slot says it.
struct Member {
  const perdura_slot* slot;
  u32 element_bytes;
  u32 alignment;
  u32 rows;     ///< 0: it is no array
  u32 columns;  ///< of each row that is an array; else 1
};

Failure failure(const perdura_type& type, const std::string& what) {
  return Failure{Code::kInvalidArgument,
                 fmt::format("the record of type '{}' {}",
                             type.name != nullptr ? type.name : "(nameless)", what)};
}

// Slots of what is in a union, or in a member, are for their pointers alone.
bool is_member(const perdura_slot& slot) {
  return slot.kind != PERDURA_SLOT_ALL_MEMBERS && slot.tag_bytes == 0 && slot.bytes != 0 &&
         std::string_view(slot.member).find_first_of(".[") == std::string_view::npos;
}

Result<Member> member_of(const perdura_type& type, const perdura_slot& slot) {
  Member member{&slot, kRecordPointerBytes, kRecordPointerBytes, 0, 1};
  if (const NumberType* const number = number_of_kind(slot.kind)) {
    member.element_bytes = member.alignment = number->bytes;
  } else if (slot.kind == PERDURA_SLOT_VALUE || slot.kind == PERDURA_SLOT_OPAQUE) {
    if (slot.value == nullptr || slot.value->size == 0)
      return failure(type, fmt::format("says nothing of the type of member '{}'", slot.member));
    member.element_bytes = slot.value->size;
    member.alignment = slot.value->alignment;
  } else if (slot.kind != PERDURA_SLOT_POINTER && slot.kind != PERDURA_SLOT_MAYBE) {
    return failure(type, fmt::format("says of member '{}' that it is of no known kind, {}",
                                     slot.member, slot.kind));
  }
  if (slot.tag_offset == PERDURA_ROWS_OF_ROWS)
    return failure(type,
                   fmt::format("has an array of more than two dimensions, '{}': make its rows "
                               "structures of their own",
                               slot.member));
  const u32 row = slot.tag_offset != 0 ? slot.tag_offset : slot.bytes;
  if (slot.bytes % row != 0 || row % member.element_bytes != 0 ||
      u64{slot.offset} + slot.bytes > type.size)
    return failure(type, fmt::format("says of member '{}' what cannot be: {} bytes at {}, of {} "
                                     "bytes each",
                                     slot.member, slot.bytes, slot.offset, member.element_bytes));
  if (slot.tag_offset != 0) member.rows = slot.bytes / row;
  member.columns = row / member.element_bytes;
  return member;
}

// What is between two members, or behind the last one, is there to align what follows, and less
// than that. Where a program aligns a member by itself the structure is aligned to more than any.
bool is_padding(u64 from, u64 to, u64 alignment, u64 most_aligned, u64 aligned) {
  if (to - from < alignment) return true;
  const u64 of_place = to & (~to + 1);
  return aligned > most_aligned && to - from < std::min(of_place, aligned);
}

/// In the order of their places.
Result<std::vector<Member>> members_of_record(const perdura_type& type) {
  std::vector<Member> members;
  for (u32 i = 1; i < type.slot_count; ++i) {
    const perdura_slot& slot = type.slots[i];
    if (slot.member == nullptr) return failure(type, "has a slot without the name of its member");
    if (!is_member(slot)) continue;
    PERDURA_ASSIGN(const Member member, member_of(type, slot));
    members.push_back(member);
  }
  std::ranges::sort(members, {}, [](const Member& member) { return member.slot->offset; });
  u64 most_aligned = 1;
  for (const Member& member : members) most_aligned = std::max<u64>(most_aligned, member.alignment);
  u64 end = 0;
  std::string_view before = "its beginning";
  const auto check = [&](u64 to, u64 alignment, std::string_view name) -> Status {
    if (to < end)
      return failure(type, fmt::format("has '{}' and '{}' at one place: each member has one slot; "
                                       "of a union say PERDURA_OPAQUE",
                                       before, name));
    if (!is_padding(end, to, alignment, most_aligned, type.alignment))
      return failure(type, fmt::format("says nothing of bytes {} to {}, between {} and {}: each "
                                       "member needs a slot",
                                       end, to, before, name));
    return {};
  };
  for (const Member& member : members) {
    PERDURA_TRY(check(member.slot->offset, member.alignment, member.slot->member));
    before = member.slot->member;
    end = u64{member.slot->offset} + member.slot->bytes;
  }
  const bool is_flexible = type.slots[type.slot_count - 1].bytes == 0;
  if (!is_flexible) PERDURA_TRY(check(type.size, type.alignment, "its end"));
  return members;
}

Result<std::string> mangled(const perdura_type& type) {
  if (type.name == nullptr) return failure(type, "has no name of 1 to 255 bytes");
  std::string_view name = type.name;
  for (const std::string_view keyword : {"struct ", "union ", "enum "})
    if (name.starts_with(keyword)) name.remove_prefix(keyword.size());
  const bool is_nested = name.find("::") != name.npos;
  std::string result;
  for (std::string_view rest = name; result.empty() || !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find("::"));
    const auto in_name = [](char c) {
      return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
             (c >= 'A' && c <= 'Z') || static_cast<unsigned char>(c) >= 0x80;
    };
    if (part.empty() || (part.front() >= '0' && part.front() <= '9') ||
        !std::ranges::all_of(part, in_name))
      return failure(type,
                     "says all members, and its name is none of a structure: give it one with "
                     "PERDURA_STRUCT_AS");
    result += std::to_string(part.size());
    result += part;
    rest.remove_prefix(std::min(rest.size(), part.size() + 2));
  }
  return is_nested ? "N" + result + "E" : result;
}

class Classes {
 public:
  Status add(const perdura_type& type) {
    if (++depth_ > kRecordDepthMax) return failure(type, "contains itself");
    PERDURA_ASSIGN(const std::string name, mangled(type));
    Class made;
    made.name = name;
    MembersText text(type.size, type.alignment);
    if (has_all_members(type)) {
      PERDURA_ASSIGN(const std::vector<Member> members, members_of_record(type));
      for (const Member& member : members) {
        const perdura_slot& slot = *member.slot;
        Class::Member& its =
            made.members.emplace_back(Class::Member{slot.member, slot.offset, slot.bytes, {}, {}});
        if (member.rows != 0) its.counts.push_back(member.rows);
        if (member.rows != 0 && member.columns > 1) its.counts.push_back(member.columns);
        PERDURA_ASSIGN(its.type, name_of_element(slot));
        text.add(its);
      }
    }
    --depth_;
    made.entry = members_entry(name, type.size, type.alignment, text.text());
    if (std::ranges::find(all_, name, &Class::name) == all_.end()) all_.push_back(std::move(made));
    return {};
  }
  std::vector<Class>& all() { return all_; }

 private:
  Result<std::string> name_of_element(const perdura_slot& slot) {
    if (const NumberType* const number = number_of_kind(slot.kind))
      return std::string(number->name);
    if (slot.kind == PERDURA_SLOT_POINTER) return std::string(kPointer);
    if (slot.kind == PERDURA_SLOT_MAYBE) return std::string("uint64");
    PERDURA_TRY(add(*slot.value));
    return mangled(*slot.value);
  }

  std::vector<Class> all_;
  int depth_ = 0;
};

// --- members that have the same names ------------------------------------------------------------

template <u32 kKind, class T>
struct NumberOf {
  static constexpr u32 kind = kKind;
  using type = T;
};

/// visit(NumberOf<…>) of the number of this kind.
template <class Visit>
void with_number(u32 kind, Visit&& visit) {
  const auto try_all = [&]<class... Numbers>(Numbers... numbers) {
    const auto try_one = [&](auto number) {
      if (kind == number.kind) visit(number);
    };
    (try_one(numbers), ...);
  };
  try_all(
      NumberOf<PERDURA_SLOT_BOOL, bool>{}, NumberOf<PERDURA_SLOT_CHAR, char>{},
      NumberOf<PERDURA_SLOT_INT8, std::int8_t>{}, NumberOf<PERDURA_SLOT_INT16, std::int16_t>{},
      NumberOf<PERDURA_SLOT_INT32, std::int32_t>{}, NumberOf<PERDURA_SLOT_INT64, std::int64_t>{},
      NumberOf<PERDURA_SLOT_INT128, __int128>{}, NumberOf<PERDURA_SLOT_UINT8, std::uint8_t>{},
      NumberOf<PERDURA_SLOT_UINT16, std::uint16_t>{},
      NumberOf<PERDURA_SLOT_UINT32, std::uint32_t>{},
      NumberOf<PERDURA_SLOT_UINT64, std::uint64_t>{},
      NumberOf<PERDURA_SLOT_UINT128, unsigned __int128>{}, NumberOf<PERDURA_SLOT_FLOAT32, float>{},
      NumberOf<PERDURA_SLOT_FLOAT64, double>{}, NumberOf<PERDURA_SLOT_LONG_DOUBLE, long double>{});
}

/// The member is for messages.
Status convert_number(const char* member, u32 from_kind, const std::byte* from, u32 to_kind,
                      std::byte* to) {
  Status status;
  with_number(from_kind, [&](auto from_number) {
    with_number(to_kind, [&](auto to_number) {
      using To = typename decltype(to_number)::type;
      typename decltype(from_number)::type value;
      std::memcpy(&value, from, sizeof value);
      if (!detail::has_value<To>(value)) {
        status = Failure{Code::kInvalidArgument,
                         fmt::format("a member '{}' has the value {}, which its new type does not "
                                     "have: convert with perdura_migrate and a function",
                                     member, detail::text_of_number(value))};
        return;
      }
      const auto made = static_cast<To>(value);
      std::memcpy(to, &made, sizeof made);
    });
  });
  return status;
}

const Member* find_member(const std::vector<Member>& members, const char* name) {
  const auto found = std::ranges::find_if(
      members, [&](const Member& member) { return std::strcmp(member.slot->member, name) == 0; });
  return found != members.end() ? &*found : nullptr;
}

bool is_word(const perdura_slot& slot) {
  return slot.kind == PERDURA_SLOT_POINTER || slot.kind == PERDURA_SLOT_MAYBE;
}

// Whether an element of the one can be made of one of the other.
Result<bool> elements_evolve(const perdura_slot& was, const perdura_slot& is) {
  if (is_number_slot(was) || is_word(was))
    return is_number_slot(was) ? is_number_slot(is) : was.kind == is.kind;
  if (was.kind != is.kind) return false;
  PERDURA_ASSIGN(const std::string former, mangled(*was.value));
  PERDURA_ASSIGN(const std::string now, mangled(*is.value));
  if (former != now) return false;
  if (has_all_members(*was.value) && has_all_members(*is.value)) {
    PERDURA_TRY(can_evolve(*was.value, *is.value));
    return true;
  }
  return was.value->size == is.value->size;
}

Status evolve_element(const perdura_slot& was, const perdura_slot& is, const std::byte* from,
                      std::byte* to) {
  if (is_number_slot(was)) return convert_number(is.member, was.kind, from, is.kind, to);
  // A pointer leads to what was, until the heap has mended it.
  if (is_word(was)) std::memcpy(to, from, kRecordPointerBytes);
  else if (has_all_members(*was.value) && has_all_members(*is.value))
    return evolve_record(*was.value, *is.value, from, to);
  else std::memcpy(to, from, is.value->size);
  return {};
}

}  // namespace

bool has_all_members(const perdura_type& type) {
  return type.slot_count != 0 && type.slots != nullptr &&
         type.slots[0].kind == PERDURA_SLOT_ALL_MEMBERS;
}

bool is_number_slot(const perdura_slot& slot) { return number_of_kind(slot.kind) != nullptr; }

Result<std::string> name_of_record(const perdura_type& type) {
  if (!has_all_members(type)) return std::string(type.name);
  PERDURA_ASSIGN(const std::string name, mangled(type));
  return type_name_of(name);
}

Result<std::vector<Class>> classes_of(const perdura_type& type) {
  Classes classes;
  PERDURA_TRY(classes.add(type));
  return std::move(classes.all());
}

Result<std::vector<Class>> classes_of_program(const perdura_type& type) {
  if (const detail::Describe members = members_of(type); members != nullptr)
    return classes_of(members());
  if (has_all_members(type)) return classes_of(type);
  return std::vector<Class>{};
}

Status can_evolve(const perdura_type& former, const perdura_type& now) {
  PERDURA_ASSIGN(const std::vector<Member> was, members_of_record(former));
  PERDURA_ASSIGN(const std::vector<Member> is, members_of_record(now));
  for (const Member& member : is) {
    const Member* const before = find_member(was, member.slot->member);
    if (before == nullptr) continue;
    PERDURA_ASSIGN(const bool evolves, elements_evolve(*before->slot, *member.slot));
    const bool same_dimensions = (before->rows == 0) == (member.rows == 0) &&
                                 (before->columns == 1) == (member.columns == 1);
    if (!evolves || !same_dimensions || before->rows > member.rows ||
        before->columns > member.columns)
      return Failure{Code::kInvalidArgument,
                     fmt::format("member '{}' of '{}' cannot be made of what it was by itself: "
                                 "convert with perdura_migrate and a function",
                                 member.slot->member, now.name)};
  }
  return {};
}

Status evolve_record(const perdura_type& former, const perdura_type& now, const void* was,
                     void* object) {
  const Result<std::vector<Member>> members = members_of_record(now);
  const Result<std::vector<Member>> former_members = members_of_record(former);
  PERDURA_ASSERT(members && former_members);  // can_evolve has seen them
  for (const Member& member : *members) {
    const Member* const before = find_member(*former_members, member.slot->member);
    if (before == nullptr) continue;
    const auto* const from = static_cast<const std::byte*>(was) + before->slot->offset;
    auto* const to = static_cast<std::byte*>(object) + member.slot->offset;
    const u32 rows = std::max(before->rows, 1U);
    for (u32 row = 0; row < rows; ++row)
      for (u32 column = 0; column < before->columns; ++column)
        PERDURA_TRY(
            evolve_element(*before->slot, *member.slot,
                           from + (u64{row} * before->columns + column) * before->element_bytes,
                           to + (u64{row} * member.columns + column) * member.element_bytes));
  }
  return {};
}

}  // namespace perdura::heap
