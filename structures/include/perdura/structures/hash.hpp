// Hashes that are the same in every run and in every build of a program: what a table in a store
// was filled by is what it is searched by years later. (std::hash promises a process.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace perdura::structures {

namespace detail {

__extension__ using Wide = unsigned __int128;  // which is no type of the standard's

/// Both halves of the product, folded: the mixer of wyhash (Wang Yi), one multiplication.
inline std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}
constexpr std::uint64_t kHashA = 0x9e3779b97f4a7c15;  // odd, with as many ones as zeros or so
constexpr std::uint64_t kHashB = 0xd6e8feb86659fd93;

inline std::uint64_t word_at(const char* bytes) {
  std::uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

inline std::uint64_t hash_bytes(const char* bytes, std::size_t length) {
  std::uint64_t hash = kHashA ^ length;
  std::size_t left = length;
  for (; left > 16; left -= 16, bytes += 16)
    hash = mixed(word_at(bytes) ^ hash, word_at(bytes + 8) ^ kHashB);
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  if (left >= 8) {
    a = word_at(bytes);
    b = word_at(bytes + left - 8);
  } else {
    std::memcpy(&a, bytes, left);
  }
  return mixed(mixed(a ^ hash, b ^ kHashB), kHashA);
}

}  // namespace detail

/// Of integers, enumerations, pointers, and whatever converts to a string_view. Others specialize
/// it, or name another one.
template <class Key>
struct hash;

template <class Key>
  requires std::is_integral_v<Key> || std::is_enum_v<Key> || std::is_pointer_v<Key>
struct hash<Key> {
  std::uint64_t operator()(Key key) const {
    std::uint64_t word = 0;
    if constexpr (std::is_pointer_v<Key>) word = reinterpret_cast<std::uintptr_t>(key);
    else word = static_cast<std::uint64_t>(key);
    return detail::mixed(word ^ detail::kHashA, detail::kHashB);
  }
};

template <class Key>
  requires std::is_convertible_v<const Key&, std::string_view>
struct hash<Key> {
  using is_transparent = void;
  std::uint64_t operator()(std::string_view text) const {
    return detail::hash_bytes(text.data(), text.size());
  }
};

}  // namespace perdura::structures
