// Arrays that a container's state leads to. They have as many places as the next power of two, or
// more.
#pragma once

#include <cstring>

#include "heap/heap.hpp"

namespace perdura::detail {

template <class T>
Status append(heap::Heap& heap, Mutator& mutator, T*& all, u32& count, const T& one) {
  if (count == 0 || std::has_single_bit(count)) {
    PERDURA_ASSIGN(void* const made,
                   heap.allocate_typed(mutator, TypeRecord<T>::value, std::max(1u, 2 * count)));
    if (count != 0) std::memcpy(made, all, count * sizeof(T));
    T* const old = all;
    all = static_cast<T*>(made);
    if (old != nullptr) PERDURA_TRY(heap.deallocate(mutator, old));
  }
  all[count++] = one;
  return {};
}

}  // namespace perdura::detail
