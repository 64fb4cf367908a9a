// What a rank's store has of an array, under the array's name. docs/format/group.md describes it.
#pragma once

#include <cstddef>
#include <cstdint>

#include <perdura/type.hpp>

namespace perdura::mpi::detail {

constexpr std::uint32_t kArrayVersion = 1;

struct ArrayState {
  std::uint32_t version;  ///< of this layout
  std::uint32_t element_bytes;
  std::uint64_t fingerprint;  ///< of elements
  std::uint64_t rows;
  std::uint64_t columns;
  std::uint32_t grid_rows;
  std::uint32_t grid_columns;
  std::uint32_t ranks;  ///< over which it is distributed; 0: not yet
  std::uint32_t reserved;
  void* elements;  ///< this rank's, row by row
  std::uint64_t reserved1;
};
static_assert(sizeof(ArrayState) == 64 && offsetof(ArrayState, elements) == 48);

/// Throws what MPI says has failed.
void check(int error);

}  // namespace perdura::mpi::detail

PERDURA_TYPE(perdura::mpi::detail::ArrayState, elements)
