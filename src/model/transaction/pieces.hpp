// Any bytes as what can be loaded and stored at once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace perdura::detail {

/// The pieces of 1, 2, 4 or 8 bytes, each aligned, that make up `length` bytes at a place:
/// visit(a piece of the type, its address, done so far).
template <class Visit>
void for_each_piece(std::uintptr_t place, std::size_t length, Visit&& visit) {
  for (std::size_t done = 0; done < length;) {
    const std::uintptr_t at = place + done;
    const std::size_t left = length - done;
    const auto piece = [&]<class Piece>(Piece each) {
      visit(each, at, done);
      return sizeof each;
    };
    if (at % 8 == 0 && left >= 8) done += piece(std::uint64_t{});
    else if (at % 4 == 0 && left >= 4) done += piece(std::uint32_t{});
    else if (at % 2 == 0 && left >= 2) done += piece(std::uint16_t{});
    else done += piece(std::uint8_t{});
  }
}

}  // namespace perdura::detail
