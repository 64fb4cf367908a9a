#include "stored_classes.hpp"

#include <algorithm>

#include "object/function_name.hpp"

namespace perdura::tools {
namespace {

constexpr int kDepthMax = 32;  // of classes in classes: a forged one could be in itself
constexpr u64 kPointerBytes = 8;

// Bytes of a member, if it lies in the class; 0: it does not.
u64 bytes_in(const StoredMember& member, u64 size) {
  u64 bytes = member.element_bytes;
  for (const u64 count : member.counts)
    if (count == 0 || __builtin_mul_overflow(bytes, count, &bytes)) return 0;
  return member.offset <= size && bytes <= size - member.offset ? bytes : 0;
}

}  // namespace

StoredClasses::StoredClasses(const std::deque<heap::Layout>& types) {
  for (const heap::Layout& type : types)
    if (heap::is_members_entry(type)) entries_.emplace(heap::class_of_entry(type), &type);
  for (const auto& [name, entry] : entries_)
    by_text_.emplace(object::type_text(name), &made(name, 0));
}

const StoredClass* StoredClasses::of_type(const std::string& name) const {
  const StoredClass* found = nullptr;
  if (const auto its_own = classes_.find(name); its_own != classes_.end()) found = &its_own->second;
  else if (const auto text = by_text_.find(name); text != by_text_.end()) found = text->second;
  return found != nullptr && !found->members.empty() ? found : nullptr;
}

// Of a class that has an entry. A node of the map stays where it is.
StoredClass& StoredClasses::made(const std::string& name, int depth) {
  const auto [place, is_new] = classes_.try_emplace(name);
  StoredClass& result = place->second;
  if (!is_new) return result;
  const heap::Layout& entry = *entries_.at(name);
  result.size = entry.size;
  result.alignment = entry.alignment;
  const heap::MembersRead read = heap::read_members(entry.text);
  if (!read.is_whole || depth > kDepthMax) return result;
  std::vector<StoredMember> members;
  for (const heap::MembersRead::Member& each : read.members)
    members.push_back(resolved(each, depth));
  std::ranges::sort(members, {}, &StoredMember::offset);
  u64 end = 0;
  for (StoredMember& member : members) {
    const u64 bytes = bytes_in(member, entry.size);
    if (bytes == 0 || member.offset < end) continue;
    end = member.offset + bytes;
    result.members.push_back(std::move(member));
  }
  return result;
}

StoredMember StoredClasses::resolved(const heap::MembersRead::Member& member, int depth) {
  StoredMember result;
  result.name = member.name;
  result.offset = member.offset;
  result.counts = member.counts;
  result.number = heap::number_named(member.type);
  const bool is_mangled = result.number == nullptr && member.type != heap::kPointer;
  result.type = is_mangled ? object::type_text(member.type) : member.type;
  if (result.number != nullptr) {
    result.element_bytes = result.number->bytes;
  } else if (member.type == heap::kPointer || member.type.front() == 'P') {
    result.is_pointer = true;
    result.element_bytes = kPointerBytes;
  } else if (entries_.contains(member.type)) {
    result.of_class = &made(member.type, depth + 1);
    result.element_bytes = entries_.at(member.type)->size;
  }
  return result;
}

}  // namespace perdura::tools
