// What a store keeps of the members of its types, as `perdura dump` prints values by it. It was
// read from a medium: what cannot be of it is left out.
#pragma once

#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "heap/members.hpp"

namespace perdura::tools {

struct StoredClass;

struct StoredMember {
  std::string name;
  std::string type;  ///< of an element, as people read it
  u64 offset = 0;
  std::vector<u64> counts;  ///< of an array, the outermost first
  u64 element_bytes = 0;
  // What an element is; of all else only its bytes are known.
  const heap::NumberType* number = nullptr;
  bool is_pointer = false;
  const StoredClass* of_class = nullptr;
};

struct StoredClass {
  u64 size = 0;
  u64 alignment = 0;
  std::vector<StoredMember> members;  ///< by their places, one behind the other; may be none
};

class StoredClasses {
 public:
  explicit StoredClasses(const std::deque<heap::Layout>& types);
  StoredClasses(const StoredClasses&) = delete;

  /// Of the type with this name in the store's list; nullptr: its members are not known.
  const StoredClass* of_type(const std::string& name) const;

 private:
  StoredClass& made(const std::string& name, int depth);
  StoredMember resolved(const heap::MembersRead::Member& member, int depth);

  std::unordered_map<std::string, const heap::Layout*> entries_;  ///< by the names of classes
  std::unordered_map<std::string, StoredClass> classes_;
  /// By what people call them: PERDURA_TYPE gives a type this name.
  std::unordered_map<std::string, const StoredClass*> by_text_;
};

}  // namespace perdura::tools
