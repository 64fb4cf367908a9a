#include "heap/members.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>
#include <span>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "base/checksum.hpp"
#include "object/function_name.hpp"

namespace perdura {
namespace {

using detail::MemberDescription;
using detail::TypeDescription;

constexpr size_t kNameMax = 255;
constexpr size_t kTextMax = 64 * kKiB;
constexpr std::string_view kPrefix = "members of ";
constexpr size_t kClassNameMax = kNameMax - kPrefix.size();
constexpr size_t kSumLength = 17;  // with its mark
constexpr std::string_view kAt = " at ";
constexpr std::string_view kParts = ", of ";

/// At most `most` bytes: what is longer ends with its checksum.
std::string shortened(std::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  const std::string sum = fmt::format("~{:016x}", checksum(text.data(), text.size()));
  return std::string(text.substr(0, most - sum.size())) + sum;
}

std::string text_of(std::span<const u64> counts, std::string_view type) {
  std::string text;
  for (const u64 count : counts) text += fmt::format("{} of ", count);
  return text.append(type);
}

/// Of a member without its name and place.
heap::Class::Member element_of(const TypeDescription& type) {
  heap::Class::Member made{};
  made.bytes = type.size;
  const TypeDescription* element = &type;
  for (; element->count != 0; element = &element->contained.front()())
    made.counts.push_back(element->count);
  made.type = element->name;
  return made;
}

/// visit(begin, end) of each type that an entry's text names: the words before " at ", and those of
/// what has parts instead of members.
template <class Visit>
void for_each_type_in(const std::string& text, const Visit& visit) {
  for (size_t at = text.find(kAt); at != text.npos; at = text.find(kAt, at + 1))
    visit(text.rfind(' ', at - 1) + 1, at);
  size_t at = text.find(':') == text.npos ? text.find(kParts) : text.npos;
  while (at != text.npos) {
    const size_t end = std::min(text.find(',', at + 1), text.size());
    visit(text.rfind(' ', end - 1) + 1, end);
    at = end < text.size() ? end : text.npos;
  }
}

class Walk {
 public:
  explicit Walk(std::function<void(const TypeDescription&)> visit) : visit_(std::move(visit)) {}
  void walk(const TypeDescription& type) {
    if (!seen_.insert(&type).second) return;
    for (const MemberDescription& member : type.members) walk(member.type());
    for (const detail::Describe each : type.contained) walk(each());
    if (type.is_class && type.alignment <= kPageBytes) visit_(type);
  }

 private:
  const std::function<void(const TypeDescription&)> visit_;
  std::unordered_set<const TypeDescription*> seen_;
};

}  // namespace

namespace detail {

// Without memory: records are made where a program names its types, and nobody there says that
// there is none.
std::array<char, 256> type_record_name(const char* mangled_name) {
  std::array<char, 256> name{};
  const std::string_view text = mangled_name;
  text.copy(name.data(), kNameMax);
  if (text.size() > kNameMax)
    fmt::format_to(name.data() + kNameMax - kSumLength, "~{:016x}",
                   checksum(text.data(), text.size()));
  return name;
}

PartsRecord::PartsRecord(const char* mangled_name, std::size_t size, std::size_t alignment,
                         const std::vector<Part>& parts, Describe describe, bool is_former)
    : name_(type_record_name(mangled_name)) {
  for (const Part& part : parts)
    if (part.slot.kind != 0) slots_.push_back(part.slot);
  type_ = {name_.data(), static_cast<u32>(size), static_cast<u32>(alignment),
           static_cast<u32>(slots_.size()), slots_.data()};
  if (describe != nullptr) known_ = std::make_unique<KnownType>(type_, describe, is_former);
}
PartsRecord::~PartsRecord() = default;

}  // namespace detail

namespace heap {

std::vector<Class> classes_of(const TypeDescription& type) {
  std::vector<Class> classes;
  Walk([&](const TypeDescription& each) {
    Class& made = classes.emplace_back();
    made.name = each.name;
    MembersText text(each.size, each.alignment);
    for (const MemberDescription& member : each.members) {
      Class::Member& its = made.members.emplace_back(element_of(member.type()));
      its.name = member.name;
      its.offset = member.offset;
      text.add(its);
    }
    if (!each.is_container)
      for (const detail::Describe part : each.contained) {
        const Class::Member its = element_of(part());
        text.add_part(text_of(its.counts, its.type));
      }
    made.entry = members_entry(each.name, each.size, each.alignment, text.text());
  }).walk(type);
  return classes;
}

MembersText::MembersText(u32 size, u32 alignment)
    : text_(fmt::format("{} bytes, aligned to {}", size, alignment)) {}

void MembersText::add(const Class::Member& member) {
  text_ += fmt::format("{} {} {}{}{}", is_first_ ? ":" : ",", member.name,
                       text_of(member.counts, member.type), kAt, member.offset);
  is_first_ = false;
}

void MembersText::add_part(std::string_view type) {
  text_ += fmt::format("{}{}", is_first_ ? kParts : ", ", type);
  is_first_ = false;
}

Layout members_entry(std::string_view class_name, u32 size, u32 alignment, std::string_view text) {
  Layout entry;
  entry.name = std::string(kPrefix) + name_in_entries(class_name);
  entry.size = size;
  entry.alignment = alignment;
  entry.text = shortened(text, kTextMax);
  entry.fingerprint = entry.compute_fingerprint();
  return entry;
}

std::string type_name_of(std::string_view class_name) { return shortened(class_name, kNameMax); }

namespace {

constexpr NumberType kNumbers[] = {{"bool", PERDURA_SLOT_BOOL, 1},
                                   {"char", PERDURA_SLOT_CHAR, 1},
                                   {"int8", PERDURA_SLOT_INT8, 1},
                                   {"int16", PERDURA_SLOT_INT16, 2},
                                   {"int32", PERDURA_SLOT_INT32, 4},
                                   {"int64", PERDURA_SLOT_INT64, 8},
                                   {"int128", PERDURA_SLOT_INT128, 16},
                                   {"uint8", PERDURA_SLOT_UINT8, 1},
                                   {"uint16", PERDURA_SLOT_UINT16, 2},
                                   {"uint32", PERDURA_SLOT_UINT32, 4},
                                   {"uint64", PERDURA_SLOT_UINT64, 8},
                                   {"uint128", PERDURA_SLOT_UINT128, 16},
                                   {"float32", PERDURA_SLOT_FLOAT32, 4},
                                   {"float64", PERDURA_SLOT_FLOAT64, 8},
                                   {"long double", PERDURA_SLOT_LONG_DOUBLE, 16}};

// "12 of …": the number, and what is behind it.
bool read_number(std::string_view& text, u64& number) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc{}) return false;
  text.remove_prefix(static_cast<size_t>(parsed.ptr - text.data()));
  return true;
}
bool skip(std::string_view& text, std::string_view what) {
  if (!text.starts_with(what)) return false;
  text.remove_prefix(what.size());
  return true;
}

// "x 3 of float64 at 8". Neither names nor what the compiler calls types have spaces in them.
bool read_member(std::string_view text, MembersRead::Member& member) {
  const size_t name_end = text.find(' ');
  const size_t at = text.rfind(kAt);
  if (name_end == text.npos || at == text.npos || at <= name_end) return false;
  member.name = text.substr(0, name_end);
  std::string_view place = text.substr(at + kAt.size());
  if (!read_number(place, member.offset) || !place.empty()) return false;
  std::string_view type = text.substr(name_end + 1, at - name_end - 1);
  for (;;) {
    std::string_view rest = type;
    u64 count = 0;
    if (!read_number(rest, count) || !skip(rest, " of ")) break;
    member.counts.push_back(count);
    type = rest;
  }
  member.type = type;
  return !type.empty();
}

}  // namespace

const NumberType* number_named(std::string_view name) {
  const auto* const found = std::ranges::find(kNumbers, name, &NumberType::name);
  return found != std::end(kNumbers) ? found : nullptr;
}
const NumberType* number_of_kind(u32 kind) {
  const auto* const found = std::ranges::find(kNumbers, kind, &NumberType::kind);
  return found != std::end(kNumbers) ? found : nullptr;
}

MembersRead read_members(const std::string& text) {
  MembersRead read;
  std::string_view rest = text;
  u64 alignment = 0;
  if (!read_number(rest, read.size) || !skip(rest, " bytes, aligned to ") ||
      !read_number(rest, alignment))
    return read;
  read.is_whole = rest.empty() || skip(rest, ": ");
  while (read.is_whole && !rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(", "));
    rest.remove_prefix(std::min(rest.size(), one.size() + 2));
    MembersRead::Member member;
    if (read_member(one, member)) read.members.push_back(std::move(member));
    else read.is_whole = false;
  }
  return read;
}

// Of all that the compiler names, only what it calls pointers begins with a P.
bool same_members(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const MembersRead one = read_members(a);
  const MembersRead other = read_members(b);
  // What is before the members, with the alignment.
  if (!one.is_whole || !other.is_whole || a.substr(0, a.find(':')) != b.substr(0, b.find(':')))
    return false;
  const auto is_pointer = [](const std::string& type) {
    return type == kPointer || type.front() == 'P';
  };
  return std::ranges::equal(one.members, other.members, [&](const auto& x, const auto& y) {
    const bool same_type = x.type == y.type || ((x.type == kPointer || y.type == kPointer) &&
                                                is_pointer(x.type) && is_pointer(y.type));
    return x.name == y.name && x.offset == y.offset && x.counts == y.counts && same_type;
  });
}

bool is_members_entry(const Layout& layout) { return layout.name.starts_with(kPrefix); }

std::string class_of_entry(const Layout& entry) { return entry.name.substr(kPrefix.size()); }

// A record's name may have been shortened already, with the same checksum.
std::string name_in_entries(std::string_view name) {
  const size_t kept = kNameMax - kSumLength;
  if (name.size() == kNameMax && name[kept] == '~')
    return std::string(name.substr(0, kClassNameMax - kSumLength)) + std::string(name.substr(kept));
  return shortened(name, kClassNameMax);
}

EntryMember member_at(const Layout& entry, u64 offset) {
  EntryMember last;
  for_each_type_in(entry.text, [&](size_t begin, size_t end) {
    const std::string_view text = entry.text;
    if (!text.substr(end).starts_with(kAt)) return;  // a part, whose place is not known
    const std::string_view digits = text.substr(end + kAt.size());
    u64 at = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), at);
    if (at <= offset) last = {text.substr(begin, end - begin), at};
  });
  return last;
}

bool has_member_of(const Layout& entry, std::string_view class_name) {
  bool found = false;
  for_each_type_in(entry.text, [&](size_t begin, size_t end) {
    const std::string_view type = std::string_view(entry.text).substr(begin, end - begin);
    found = found || name_in_entries(type) == class_name;
  });
  return found;
}

// Of the names that programs write none begins as the compiler's do.
std::string readable_name(const std::string& name) {
  if (name.starts_with(kPrefix))
    return std::string(kPrefix) + object::type_text(name.substr(kPrefix.size()));
  // "16 slots of 4Node"
  constexpr std::string_view kSlots = " slots of ";
  if (const size_t of = name.find(kSlots); of != name.npos && of < 24)
    return name.substr(0, of + kSlots.size()) + object::type_text(name.substr(of + kSlots.size()));
  const bool mangled = !name.empty() && std::strchr("0123456789NSZ", name.front()) != nullptr;
  return mangled ? object::type_text(name) : name;
}

std::string written_name(const std::string& class_name) {
  constexpr std::string_view kNameless = "(anonymous namespace)::";
  std::string name = readable_name(class_name);
  for (size_t at = name.find(kNameless); at != name.npos; at = name.find(kNameless, at))
    name.erase(at, kNameless.size());
  return name;
}

std::string readable(const std::string& text) {
  std::string result;
  size_t done = 0;
  for_each_type_in(text, [&](size_t begin, size_t end) {
    result += text.substr(done, begin - done) + object::type_text(text.substr(begin, end - begin));
    done = end;
  });
  return result + text.substr(done);
}

}  // namespace heap
}  // namespace perdura
