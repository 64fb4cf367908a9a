// Which tags the types of one heap's blocks have in another heap.
#pragma once

#include <vector>

#include "heap/heap.hpp"

namespace perdura::heap {

/// While `from` gets no more types. One thread's.
class TagMap {
 public:
  TagMap(const Heap& from, Heap& to, detail::Mutator& mutator)
      : from_(from.types().layouts()), to_(to.types()), mutator_(mutator), numbers_(from_.size()) {}

  /// Of a tag of `from` that has a type; `to` gets to know that. kTypeMismatch when it knows
  /// another layout of it.
  Result<u16> of(u16 tag) {
    u32& number = numbers_[tag / 2 - 1];
    if (number == 0) {
      PERDURA_ASSIGN(number, to_.number_of(mutator_, from_[tag / 2 - 1]));
    }
    return static_cast<u16>(2 * number + (tag & 1));
  }

 private:
  const std::deque<Layout>& from_;
  TypeList& to_;
  detail::Mutator& mutator_;
  std::vector<u32> numbers_;  ///< in `to`, by types of `from`; 0: not known yet
};

}  // namespace perdura::heap
