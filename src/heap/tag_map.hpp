// Which tags the types of one heap's blocks have in another heap.
#pragma once

#include <vector>

#include "heap/heap.hpp"

namespace perdura::heap {

/// While `from` gets no more types. One thread's.
class TagMap {
 public:
  TagMap(const Heap& from, Heap& to, detail::Mutator& mutator)
      : from_(from.types().layouts()), to_(to.types()), mutator_(mutator), known_(from_.size()) {}

  /// Of a tag of `from` that has a type; `to` gets to know that. kTypeMismatch when it knows
  /// another layout of it, which is none of the program's.
  Result<u16> of(u16 tag) {
    Known& known = known_[tag / 2 - 1];
    if (known.number == 0) {
      PERDURA_ASSIGN(known.number,
                     to_.number_of_moved(mutator_, from_[tag / 2 - 1], known.as_words));
    }
    return static_cast<u16>(2 * known.number + (known.as_words ? 0 : tag & 1));
  }

 private:
  struct Known {
    u32 number = 0;  ///< in `to`; 0: not known yet
    bool as_words = false;
  };

  const std::deque<Layout>& from_;
  TypeList& to_;
  detail::Mutator& mutator_;
  std::vector<Known> known_;  ///< by types of `from`
};

}  // namespace perdura::heap
