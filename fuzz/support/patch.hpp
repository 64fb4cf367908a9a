// An input that makes the medium of a store: a head, and patches of an image; and how the fuzzer
// makes such inputs.
#pragma once

#include "support/target.hpp"

namespace perdura::fuzz {

struct Head {
  u8 store;       ///< which of the target's stores
  u8 how;         ///< what is done with it, as the target says
  u8 unsummed;    ///< which sums are left as they are, as the target says
  u8 truncation;  ///< pages that the end of the medium lacks
};

struct Patch {
  u8 area;   ///< which structure
  u8 item;   ///< which of them
  u8 width;  ///< 1, 2, 4 or 8 bytes: its two lowest bits
  u8 how;    ///< set, add, xor, or a value that means something
  u32 offset;
  u64 value;
};
static_assert(sizeof(Patch) == 16);
constexpr size_t kPatchesMax = 64;

/// Structures of one kind, of which a patch changes one.
struct Area {
  std::vector<u64> places;
  u64 bytes;               ///< of each place, where a patch may begin
  u64 step = 1;            ///< a patch begins at multiples
  bool in_region = false;  ///< the places are region offsets, not medium offsets

  u64 place_of(const Patch& patch) const {
    return places[patch.item % places.size()] + patch.offset % (bytes / step) * step;
  }
};

inline void change(Bytes& image, u64 place, const Patch& patch, std::span<const u64> values) {
  const size_t width = size_t{1} << (patch.width & 3);
  if (place + width <= image.size())
    change(image.data() + place, width, patch.how, patch.value, values);
}

/// The medium that the rest of the input makes of an image.
template <class Image>
Bytes patched(Image image, const Head& head, Input& input) {
  for (size_t i = 0; i < kPatchesMax && !input.empty(); ++i) image.apply(input.take<Patch>());
  image.sum(head.unsummed);
  Bytes bytes = std::move(image.bytes);
  const u64 cut = std::min<u64>(head.truncation * kPageBytes, bytes.size());
  bytes.erase(bytes.end() - static_cast<std::ptrdiff_t>(cut), bytes.end());
  return bytes;
}

#ifdef PERDURA_LIBFUZZER
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

struct Mutated {
  std::uint8_t* data;
  size_t size;
  size_t max_size;
};
/// Half of the mutations are of one patch, made of values that mean something.
inline size_t mutate(const Mutated& input, size_t areas, unsigned seed) {
  auto [data, size, max_size] = input;
  if (size > offsetof(Head, truncation)) data[offsetof(Head, truncation)] &= 1;
  const auto draw = [&seed](u64 below) {
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % below;
  };
  if (draw(2) == 0 || max_size < sizeof(Head) + sizeof(Patch))
    return LLVMFuzzerMutate(data, size, max_size);
  while (size < sizeof(Head)) data[size++] = static_cast<u8>(draw(256));
  const size_t count = (size - sizeof(Head)) / sizeof(Patch);
  const size_t room = std::min((max_size - sizeof(Head)) / sizeof(Patch), kPatchesMax);
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
