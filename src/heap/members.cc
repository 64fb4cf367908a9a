#include "heap/members.hpp"

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
constexpr std::string_view kAt = " at ";

/// At most `most` bytes: what is longer ends with its checksum.
std::string shortened(std::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  const std::string sum = fmt::format("~{:016x}", checksum(text.data(), text.size()));
  return std::string(text.substr(0, most - sum.size())) + sum;
}

/// Of a name that shortened() has made, what it begins with; "": it is whole.
std::string_view begin_of_shortened(std::string_view name, size_t most) {
  constexpr size_t kSum = 17;
  if (name.size() != most || name[most - kSum] != '~') return {};
  return name.substr(0, most - kSum);
}

std::string text_of(const TypeDescription& type) {
  if (type.count != 0)
    return fmt::format("{} of {}", type.count, text_of(type.contained.front()()));
  return std::string(type.name);
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

void for_each_class(const TypeDescription& type,
                    const std::function<void(const TypeDescription&)>& visit) {
  Walk(visit).walk(type);
}

Layout members_entry(const TypeDescription& type) {
  Layout entry;
  entry.name = std::string(kPrefix) + shortened(type.name, kClassNameMax);
  entry.size = type.size;
  entry.alignment = type.alignment;
  std::string text = fmt::format("{} bytes, aligned to {}", type.size, type.alignment);
  for (const MemberDescription& member : type.members)
    text += fmt::format("{} {} {}{}{}", &member == type.members.data() ? ":" : ",", member.name,
                        text_of(member.type()), kAt, member.offset);
  entry.text = shortened(text, kTextMax);
  entry.fingerprint = entry.compute_fingerprint();
  return entry;
}

bool is_members_entry(const Layout& layout) { return layout.name.starts_with(kPrefix); }

std::string class_of_entry(const Layout& entry) { return entry.name.substr(kPrefix.size()); }

bool is_entry_of(const Layout& entry, std::string_view record_name) {
  const std::string name = class_of_entry(entry);
  if (name == record_name) return true;
  const std::string_view begin = begin_of_shortened(name, kClassNameMax);
  if (begin.empty()) return false;
  // Of the same name, which either has the checksum of, or the record has all of it.
  if (begin_of_shortened(record_name, kNameMax).starts_with(begin))
    return record_name.ends_with(std::string_view(name).substr(begin.size()));
  return shortened(record_name, kClassNameMax) == name;
}

// Of a shortened name what there is of it decides: rather too much is taken for a member.
bool has_member_of(const Layout& entry, const Layout& other) {
  const std::string name = class_of_entry(other);
  const std::string_view begin = begin_of_shortened(name, kClassNameMax);
  const std::string wanted =
      begin.empty() ? " " + name + std::string(kAt) : " " + std::string(begin);
  return entry.text.find(wanted) != std::string::npos;
}

// Of the names that programs write none begins as the compiler's do.
std::string readable_name(const std::string& name) {
  if (name.starts_with(kPrefix))
    return std::string(kPrefix) + object::type_text(name.substr(kPrefix.size()));
  // "16 slots of 4Node"
  if (const size_t of = name.find(" slots of "); of != name.npos && of < 24)
    return name.substr(0, of + 10) + object::type_text(name.substr(of + 10));
  const bool mangled = !name.empty() && std::strchr("0123456789NSZ", name.front()) != nullptr;
  return mangled ? object::type_text(name) : name;
}

std::string readable(const std::string& text) {
  // The word before " at " is a type.
  std::string result;
  size_t done = 0;
  for (size_t at = text.find(kAt); at != text.npos; at = text.find(kAt, at + 1)) {
    const size_t word = text.rfind(' ', at - 1) + 1;
    result += text.substr(done, word - done) + object::type_text(text.substr(word, at - word));
    done = at;
  }
  return result + text.substr(done);
}

}  // namespace heap
}  // namespace perdura
