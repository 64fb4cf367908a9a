#include "heap/pointees.hpp"

#include <utility>

#include "heap/members.hpp"

namespace perdura::heap {
namespace {

/// What was read from a medium may say that a class contains itself.
constexpr int kPointeeDepthMax = 64;

/// Of what a pointer's mangled type leads to: numbers have names of their own in descriptions.
std::string_view described(std::string_view mangled) {
  constexpr std::pair<std::string_view, std::string_view> kNumbers[] = {
      {"b", "bool"},       {"c", "char"},   {"a", "int8"},   {"h", "uint8"},   {"s", "int16"},
      {"t", "uint16"},     {"i", "int32"},  {"j", "uint32"}, {"l", "int64"},   {"x", "int64"},
      {"m", "uint64"},     {"y", "uint64"}, {"n", "int128"}, {"o", "uint128"}, {"f", "float32"},
      {"d", "float64"},    {"w", "int32"},  {"Du", "uint8"}, {"Ds", "uint16"}, {"Di", "uint32"},
      {"e", "long double"}};
  for (const auto& [code, name] : kNumbers)
    if (mangled == code) return name;
  return mangled;
}

}  // namespace

Pointees::Pointees(const std::deque<Layout>& types, std::span<const Layout> instead) {
  const auto add = [this](const Layout& entry) {
    const std::string name = class_of_entry(entry);
    entries_.emplace(written_name(name), &entry);
    entries_.emplace(name, &entry);
  };
  for (const Layout& entry : instead) add(entry);
  for (const Layout& entry : types)
    if (is_members_entry(entry)) add(entry);
}

const Layout* Pointees::find(const std::string& type_name) const {
  const auto found = entries_.find(name_in_entries(type_name));
  return found != entries_.end() ? found->second : nullptr;
}

std::string_view Pointees::at(const std::string& type_name, u64 offset) const {
  const Layout* entry = find(type_name);
  for (int depth = 0; entry != nullptr && depth < kPointeeDepthMax; ++depth) {
    const EntryMember member = member_at(*entry, offset);
    if (member.type.starts_with('P')) {
      std::string_view type = member.type.substr(1);
      while (type.starts_with('K') || type.starts_with('V')) type.remove_prefix(1);
      return described(type);
    }
    entry = find(std::string(member.type));
    // An array has members of it one behind the other.
    if (entry != nullptr) offset = (offset - member.offset) % entry->size;
  }
  return {};
}

}  // namespace perdura::heap
