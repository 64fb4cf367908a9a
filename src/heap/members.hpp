// What types are made of, as a store keeps it: an entry of the list of types beside the type's own,
// that no block has, with the members as its text.
//
//   members of 5Point
//   16 bytes, aligned to 8: x float64 at 0, next P5Point at 8
//
// Names of types are those that the compiler gives them, which are the same in each build; people
// see what they mean.
#pragma once

#include <functional>
#include <string>

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
/// The name that the class of an entry has in the list, if it has a record.
std::string class_of_entry(const Layout& entry);
/// Whether an entry is that of the class whose record has this name.
bool is_entry_of(const Layout& entry, std::string_view record_name);
/// Whether a class has members of the other one, or arrays of these.
bool has_member_of(const Layout& entry, const Layout& other);
/// The text of an entry, and a name in the list, as people read it.
std::string readable(const std::string& text);
std::string readable_name(const std::string& name);

}  // namespace perdura::heap
