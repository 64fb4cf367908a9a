// What pointers in objects are declared to lead to, as far as a store knows what their types are
// made of: one to the first byte of an object may be meant for the object or for what that begins
// with.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "heap/layout.hpp"

namespace perdura::heap {

class Pointees {
 public:
  /// By the list of a store, where the entries of members in `instead` count for those of the same
  /// names. Both must outlive it.
  Pointees(const std::deque<Layout>& types, std::span<const Layout> instead);

  /// The name, as descriptions have it, of what the pointer at this offset in objects of a type
  /// leads to; "" where that is not known.
  std::string_view at(const std::string& type_name, u64 offset) const;

 private:
  const Layout* find(const std::string& type_name) const;

  std::unordered_map<std::string, const Layout*> entries_;
};

}  // namespace perdura::heap
