#include "heap/members.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>
#include <unordered_set>

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

std::string text_of(const TypeDescription& type) {
  if (type.count != 0)
    return fmt::format("{} of {}", type.count, text_of(type.contained.front()()));
  return std::string(type.name);
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
  explicit Walk(const std::function<void(const TypeDescription&)>& visit) : visit_(visit) {}
  void walk(const TypeDescription& type) {
    if (!seen_.insert(&type).second) return;
    for (const MemberDescription& member : type.members) walk(member.type());
    for (const detail::Describe each : type.contained) walk(each());
    if (type.is_class && type.alignment <= kPageBytes) visit_(type);
  }

 private:
  const std::function<void(const TypeDescription&)>& visit_;
  std::unordered_set<const TypeDescription*> seen_;
};

}  // namespace

namespace detail {

std::array<char, 256> type_record_name(const char* mangled_name) {
  std::array<char, 256> name{};
  shortened(mangled_name, kNameMax).copy(name.data(), kNameMax);
  return name;
}

}  // namespace detail

namespace heap {

void for_each_class(const TypeDescription& type,
                    const std::function<void(const TypeDescription&)>& visit) {
  Walk(visit).walk(type);
}

Layout members_entry(const TypeDescription& type) {
  Layout entry;
  entry.name = std::string(kPrefix) + name_in_entries(type.name);
  entry.size = type.size;
  entry.alignment = type.alignment;
  std::string text = fmt::format("{} bytes, aligned to {}", type.size, type.alignment);
  for (const MemberDescription& member : type.members)
    text += fmt::format("{} {} {}{}{}", &member == type.members.data() ? ":" : ",", member.name,
                        text_of(member.type()), kAt, member.offset);
  if (!type.is_container)
    for (const detail::Describe& part : type.contained)
      text += fmt::format("{}{}", &part == type.contained.data() ? kParts : ", ", text_of(part()));
  entry.text = shortened(text, kTextMax);
  entry.fingerprint = entry.compute_fingerprint();
  return entry;
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
