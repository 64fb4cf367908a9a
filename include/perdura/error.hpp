// Errors that reach a program: what happened, where, and what to do about it.
#pragma once

#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace perdura {

/// The kinds of failure a caller can react to. The C API returns them negated.
enum class Code : int {
  kOk = 0,
  kInvalidArgument = 1,  ///< a parameter is outside its documented range
  kNotFound = 2,         ///< no such store, root or version
  kTypeMismatch = 3,     ///< a root has another type, or a type another layout
  kLocked = 4,           ///< another opener holds the store
  kIo = 5,             ///< the medium failed; nothing since the last durable version is safe on it
  kNoSpace = 6,        ///< the medium or the region's limit is full; retry after freeing space
  kNoMemory = 7,       ///< the system refused memory or address space
  kForeign = 8,        ///< not a Perdura store
  kIncompatible = 9,   ///< a store of a newer format or another architecture
  kCorrupt = 10,       ///< a checksum or an invariant of the store does not hold
  kAddressTaken = 11,  ///< the region's address range is used by something else
  kForked = 12,        ///< the store was opened by the parent process
  kUnsupported = 13,   ///< this system lacks what the request needs
  kMisuse = 14,        ///< a call in the wrong state, as a double free
};

/// Thrown at the C++ surface. `what()` names the store or the object, the place in it where there
/// is one, and the remedy; of what was moved from nobody knows any more which it was. To be thrown
/// it needs no memory of the heap: where that is short what happened is told all the same.
class Error : public std::runtime_error {
 public:
  Error(Code code, std::string message)
      : std::runtime_error(""), code_(code), message_(std::move(message)) {}
  Error(Error&&) noexcept = default;
  /// Without the message where there is no memory for it.
  Error(const Error& other) noexcept : std::runtime_error(other), code_(other.code_) {
    try {
      message_ = other.message_;
    } catch (const std::bad_alloc&) {
    }
  }
  Error& operator=(const Error&) = delete;

  Code code() const noexcept { return code_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  const Code code_;
  std::string message_;
};

}  // namespace perdura
