// A C surface: failures are a negative code, and the sentence that perdura_last_error gives.
#pragma once

#include <exception>
#include <new>

#include <perdura/perdura.h>
#include <perdura/error.hpp>
#include <perdura/options.hpp>

namespace perdura::detail {

/// Keeps what perdura_last_error and perdura_last_code say; returns the negative code.
int keep_error(Code code, const char* message) noexcept;

/// Runs a call that throws: 0 or the negative code.
template <class Call>
int c_call(Call&& call) noexcept {
  try {
    call();
    return 0;
  } catch (const Error& error) {
    return keep_error(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return keep_error(Code::kNoMemory, "out of memory");
  } catch (const std::exception& error) {
    return keep_error(Code::kIo, error.what());
  }
}

/// What `call` returns; NULL when it fails.
template <class Call>
void* pointer_of(Call&& call) {
  void* pointer = nullptr;
  return c_call([&] { pointer = call(); }) == 0 ? pointer : nullptr;
}

/// Throws for NULL.
const perdura_type& required(const perdura_type* type);

Options options_of(const perdura_options* options);

}  // namespace perdura::detail
