// Where in an object of a new layout that lies which was at a place of the former one: in the
// member of the same name, and in its members and elements.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "heap/members.hpp"

namespace perdura::heap {

/// Of two layouts of a class, as classes_of() has them: the class itself is the last. Both lists
/// must outlive it.
class MemberPlaces {
 public:
  MemberPlaces(const std::vector<Class>& former, const std::vector<Class>& now)
      : former_(former), now_(now) {}

  /// Of what was at an offset; nothing where that is in no member that both have. Where several
  /// begin there it is what `pointee` names, or the largest.
  std::optional<u64> of(u64 offset, std::string_view pointee) const;
  /// Whether something that objects begin with lies elsewhere in those of the new layout.
  bool begin_elsewhere() const;

 private:
  const std::vector<Class>& former_;
  const std::vector<Class>& now_;
};

}  // namespace perdura::heap
