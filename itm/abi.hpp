// What GCC 12 and libitm agree on, as far as it is not a function: numbers of the transactional
// memory ABI (Intel, "Transactional Memory Compiler and Runtime ABI", 1.1).
#pragma once

#include "model/transaction/itm.hpp"

namespace perdura {

using detail::itm::Action;

// Properties of a transaction's code.
constexpr u32 kInstrumentedCode = 0x1;
constexpr u32 kHasNoAbort = 0x8;

// Reasons of an abort.
constexpr u32 kOuterAbort = 0x10;

/// _ITM_howExecuting.
enum class Executing : u32 { kOutside = 0, kRetryable = 1 };

/// _ITM_srcLocation.
struct SourceLocation {
  u32 reserved_1;
  u32 flags;
  u32 reserved_2;
  u32 reserved_3;
  const char* source;
};

constexpr int kAbiVersion = 90;
constexpr u64 kNoTransaction = 1;  ///< instead of a transaction's number

}  // namespace perdura
