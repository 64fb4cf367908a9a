// Loads, stores and notes of all types that GCC has calls for, and copies.
//
//   _ITM_R…, RaR…, RaW…, RfW…   a load: the first one, after a load, after a store, before a store
//   _ITM_W…, WaR…, WaW…         a store
//   _ITM_L…                     what code is about to store to without a call, as its only user
//
// Each access finds out by itself what the transaction has done with its place, so the hints make
// no difference: all loads of a type are one, and all stores.
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "abi.hpp"

using namespace perdura;
using namespace perdura::detail;

namespace {

using ComplexFloat = __complex__ float;
using ComplexDouble = __complex__ double;
using ComplexLongDouble = __complex__ long double;

}  // namespace

// All calls for a type. `how` is what a function needs to take and return it.
#define PERDURA_CALLS(name, Type, how, load, store)        \
  how Type _ITM_R##name(const Type* from) { load; }        \
  how Type _ITM_RaR##name(const Type* from) { load; }      \
  how Type _ITM_RaW##name(const Type* from) { load; }      \
  how Type _ITM_RfW##name(const Type* from) { load; }      \
  how void _ITM_W##name(Type* to, Type value) { store; }   \
  how void _ITM_WaR##name(Type* to, Type value) { store; } \
  how void _ITM_WaW##name(Type* to, Type value) { store; } \
  void _ITM_L##name(const Type* place) { itm::note(place, sizeof *place); }

#define PERDURA_WORD(name, Type) \
  PERDURA_CALLS(name, Type, , return itm::load(from), itm::store(to, value))

#define PERDURA_WORD_AS(name, Type, Word)                                                   \
  PERDURA_CALLS(name, Type, ,                                                               \
                return std::bit_cast<Type>(itm::load(reinterpret_cast<const Word*>(from))), \
                itm::store(reinterpret_cast<Word*>(to), std::bit_cast<Word>(value)))

#define PERDURA_BYTES(name, Type, how)                                                    \
  PERDURA_CALLS(name, Type, how, Type value; itm::load_bytes(&value, from, sizeof value); \
                return value, itm::store_bytes(to, &value, sizeof value))

extern "C" {

PERDURA_WORD(U1, std::uint8_t)
PERDURA_WORD(U2, std::uint16_t)
PERDURA_WORD(U4, std::uint32_t)
PERDURA_WORD(U8, std::uint64_t)
PERDURA_WORD_AS(F, float, std::uint32_t)
PERDURA_WORD_AS(D, double, std::uint64_t)
PERDURA_BYTES(E, long double, )
PERDURA_BYTES(CF, ComplexFloat, )
PERDURA_BYTES(CD, ComplexDouble, )
PERDURA_BYTES(CE, ComplexLongDouble, )
PERDURA_BYTES(M64, __m64, )
PERDURA_BYTES(M128, __m128, )
PERDURA_BYTES(M256, __m256, [[gnu::target("avx")]])

void _ITM_LB(const void* place, size_t length) { itm::note(place, length); }
}

// --- copies --------------------------------------------------------------------------------------

namespace {

/// Of one side of a copy: the transaction's, or its thread's alone.
enum class Side { kShared, kOwn };

constexpr size_t kPartBytes = 256;

void load_part(Side side, void* to, const void* from, size_t length) {
  if (side == Side::kShared) itm::load_bytes(to, from, length);
  else std::memcpy(to, from, length);
}

void store_part(Side side, void* to, const void* from, size_t length) {
  if (side == Side::kShared) itm::store_bytes(to, from, length);
  else std::memcpy(to, from, length);
}

/// Where both overlap, a part is read before it is stored over.
template <Side kFrom, Side kTo>
void* copy(void* to, const void* from, size_t length) {
  std::array<std::byte, kPartBytes> part;
  const auto* const source = static_cast<const std::byte*>(from);
  auto* const target = static_cast<std::byte*>(to);
  const bool backwards =
      reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from) < length;
  for (size_t done = 0; done < length;) {
    const size_t here = std::min(length - done, part.size());
    const size_t at = backwards ? length - done - here : done;
    load_part(kFrom, part.data(), source + at, here);
    store_part(kTo, target + at, part.data(), here);
    done += here;
  }
  return to;
}

void* set(void* to, int value, size_t length) {
  std::array<std::byte, kPartBytes> part;
  part.fill(static_cast<std::byte>(value));
  for (size_t done = 0; done < length; done += part.size())
    itm::store_bytes(static_cast<std::byte*>(to) + done, part.data(),
                     std::min(length - done, part.size()));
  return to;
}

}  // namespace

#define PERDURA_COPY(hints, from_side, to_side)                          \
  void* _ITM_memcpy##hints(void* to, const void* from, size_t length) {  \
    return copy<Side::from_side, Side::to_side>(to, from, length);       \
  }                                                                      \
  void* _ITM_memmove##hints(void* to, const void* from, size_t length) { \
    return copy<Side::from_side, Side::to_side>(to, from, length);       \
  }

extern "C" {

PERDURA_COPY(RnWt, kOwn, kShared)
PERDURA_COPY(RnWtaR, kOwn, kShared)
PERDURA_COPY(RnWtaW, kOwn, kShared)
PERDURA_COPY(RtWn, kShared, kOwn)
PERDURA_COPY(RtaRWn, kShared, kOwn)
PERDURA_COPY(RtaWWn, kShared, kOwn)
PERDURA_COPY(RtWt, kShared, kShared)
PERDURA_COPY(RtWtaR, kShared, kShared)
PERDURA_COPY(RtWtaW, kShared, kShared)
PERDURA_COPY(RtaRWt, kShared, kShared)
PERDURA_COPY(RtaRWtaR, kShared, kShared)
PERDURA_COPY(RtaRWtaW, kShared, kShared)
PERDURA_COPY(RtaWWt, kShared, kShared)
PERDURA_COPY(RtaWWtaR, kShared, kShared)
PERDURA_COPY(RtaWWtaW, kShared, kShared)

void* _ITM_memsetW(void* to, int value, size_t length) { return set(to, value, length); }
void* _ITM_memsetWaR(void* to, int value, size_t length) { return set(to, value, length); }
void* _ITM_memsetWaW(void* to, int value, size_t length) { return set(to, value, length); }
}
