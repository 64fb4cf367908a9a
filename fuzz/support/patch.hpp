// What an input changes in an image, and how the fuzzer makes such inputs.
#pragma once

#include "support/target.hpp"

namespace perdura::fuzz {

struct Patch {
  u8 area;   ///< which structure
  u8 item;   ///< which of them
  u8 width;  ///< 1, 2, 4 or 8 bytes: its two lowest bits
  u8 how;    ///< set, add, xor, or a value of kValues
  u32 offset;
  u64 value;
};
static_assert(sizeof(Patch) == 16);

#ifdef PERDURA_LIBFUZZER
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

struct Mutated {
  std::uint8_t* data;
  size_t size;
  size_t max_size;
};
/// Of an input that is a head and patches. Half of the mutations are of one patch, made of values
/// that mean something.
template <class Head>
size_t mutate(const Mutated& input, unsigned areas, size_t patches_max, unsigned seed) {
  auto [data, size, max_size] = input;
  const auto draw = [&seed](u64 below) {
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % below;
  };
  if (draw(2) == 0 || max_size < sizeof(Head) + sizeof(Patch))
    return LLVMFuzzerMutate(data, size, max_size);
  while (size < sizeof(Head)) data[size++] = static_cast<u8>(draw(256));
  const size_t count = (size - sizeof(Head)) / sizeof(Patch);
  const size_t room = std::min((max_size - sizeof(Head)) / sizeof(Patch), patches_max);
  const size_t index = count < room && draw(2) == 0 ? count : draw(std::max<size_t>(count, 1));
  Patch patch{};
  patch.area = static_cast<u8>(draw(areas));
  patch.item = static_cast<u8>(draw(64));
  patch.width = static_cast<u8>(draw(4));
  patch.how = static_cast<u8>(draw(4));
  patch.offset = static_cast<u32>(round_down(draw(1200), u64{1} << patch.width));
  patch.value = draw(4) == 0 ? u64{draw(1 << 24)} << draw(40) : draw(64);
  if (draw(8) == 0) data[draw(sizeof(Head))] = static_cast<u8>(draw(256));
  std::memcpy(data + sizeof(Head) + index * sizeof(Patch), &patch, sizeof patch);
  return std::max(size, sizeof(Head) + (index + 1) * sizeof(Patch));
}
#endif

}  // namespace perdura::fuzz
