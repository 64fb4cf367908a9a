// What types are made of, as a store keeps it: an entry of the list of types beside the type's own,
// that no block has, with the members as its text.
//
//   members of 5Point
//   16 bytes, aligned to 8: x float64 at 0, next P5Point at 8
//
//   members of St4pairIi5PointE
//   24 bytes, aligned to 8, of int32, 5Point
//
// Names of types are those that the compiler gives them, which are the same in each build; people
// see what they mean.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <perdura/detail/description.hpp>

#include "heap/layout.hpp"

namespace perdura::heap {

/// visit(type) of each class in it, itself as the last, once of each: those that its members,
/// elements and parts are of. Not what its pointers lead to.
void for_each_class(const detail::TypeDescription& type,
                    const std::function<void(const detail::TypeDescription&)>& visit);

/// The entry of a class.
Layout members_entry(const detail::TypeDescription& type);
/// Whether a type of the list is such an entry.
bool is_members_entry(const Layout& layout);
/// The name of an entry's class, which has the same record's name unless PERDURA_TYPE gives that.
std::string class_of_entry(const Layout& entry);
/// What class_of_entry says of a class with this mangled name.
std::string name_in_entries(std::string_view name);
/// A member as an entry says it.
struct EntryMember {
  std::string_view type;  ///< of an array its elements'; "": there is none
  u64 offset = 0;
};
/// The last one that begins at this offset or before it.
EntryMember member_at(const Layout& entry, u64 offset);
/// Whether a class has members of the other one, parts, or arrays of these.
bool has_member_of(const Layout& entry, std::string_view class_name);
/// The name that PERDURA_TYPE gives a class with this mangled one.
std::string written_name(const std::string& class_name);
/// The text of an entry, and a name in the list, as people read it.
std::string readable(const std::string& text);
std::string readable_name(const std::string& name);

}  // namespace perdura::heap
