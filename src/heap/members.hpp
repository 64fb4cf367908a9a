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
  void add(std::string_view name, std::string_view type, u32 offset);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  bool is_first_ = true;
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
/// The name that the class of an entry has in the list, if it has a record.
std::string class_of_entry(const Layout& entry);
/// Whether a class has members of the other one, or arrays of these.
bool has_member_of(const Layout& entry, const Layout& other);
/// The text of an entry, and a name in the list, as people read it.
std::string readable(const std::string& text);
std::string readable_name(const std::string& name);

}  // namespace perdura::heap
