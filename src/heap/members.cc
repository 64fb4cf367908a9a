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
constexpr std::string_view kAt = " at ";

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
  entry.name = std::string(kPrefix) + shortened(type.name, kNameMax - kPrefix.size());
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

bool has_member_of(const Layout& entry, const Layout& other) {
  return entry.text.find(" " + class_of_entry(other) + std::string(kAt)) != std::string::npos;
}

// Of the names that programs write none begins as the compiler's do.
std::string readable_name(const std::string& name) {
  if (name.starts_with(kPrefix))
    return std::string(kPrefix) + object::type_text(name.substr(kPrefix.size()));
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
