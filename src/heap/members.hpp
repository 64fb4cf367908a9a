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
#include <vector>

#include <perdura/detail/description.hpp>

#include "heap/layout.hpp"

namespace perdura::heap {

/// A class, as its program states it: in C++ by the type itself, in C by a record that says all
/// members (record_members.hpp).
struct Class {
  struct Member {
    std::string name;
    u32 offset;
    u32 bytes;
    std::vector<u64> counts;  ///< of an array, the outermost first
    std::string type;         ///< of an element, as entries have it
  };
  std::string name;  ///< of the class, as the compiler of C++ mangles it
  Layout entry;
  std::vector<Member> members;  ///< empty: they are not known
};
/// Each class in it, itself as the last, once of each: those that its members, elements and parts
/// are of. Not what its pointers lead to.
std::vector<Class> classes_of(const detail::TypeDescription& type);

/// A text of an entry, made member by member.
class MembersText {
 public:
  MembersText(u32 size, u32 alignment);
  void add(const Class::Member& member);
  /// What it has instead of members.
  void add_part(std::string_view type);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  bool is_first_ = true;  ///< what is added next
};
/// Of a class with this name, of a text that says its size and alignment.
Layout members_entry(std::string_view class_name, u32 size, u32 alignment, std::string_view text);
/// Of numbers that texts name: "int32". None: it is no number's name.
struct NumberType {
  std::string_view name;
  u32 kind;  ///< of enum perdura_slot_kind
  u32 bytes;
};
const NumberType* number_named(std::string_view name);
const NumberType* number_of_kind(u32 kind);
/// What a pointer of which nobody says where it leads to is called.
constexpr std::string_view kPointer = "pointer";
/// Of a class, a name for the list of types: one that is too long is shortened.
std::string type_name_of(std::string_view class_name);

/// What an entry's text says; what it does not say as it should is left out.
struct MembersRead {
  struct Member {
    std::string name;
    u64 offset = 0;
    std::vector<u64> counts;  ///< of an array, the outermost first
    std::string type;         ///< of an element
  };
  u64 size = 0;
  std::vector<Member> members;
  bool is_whole = false;  ///< nothing was left out
};
MembersRead read_members(const std::string& text);
/// Whether two entries say the same: texts are the same, but for pointers of which one does not
/// say where they lead to.
bool same_members(const std::string& a, const std::string& b);

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
