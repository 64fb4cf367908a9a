// Results of operations that can fail for reasons outside the program: a Failure is a value that
// carries a sentence naming the place and the remedy. Thrown as perdura::Error at the C++ surface.
#pragma once

#include <new>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include <perdura/error.hpp>

namespace perdura {

struct [[nodiscard]] Failure {
  Code code = Code::kIo;
  std::string message;
};

/// A Failure of a system call: "<what>: <strerror> (<remedy>)". ENOSPC, EDQUOT, ENOMEM and EACCES
/// map to their own codes and remedies.
Failure system_failure(int error_number, const std::string& what);

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}            // NOLINT: converts as std::expected
  Result(Failure failure) : state_(std::move(failure)) {}  // NOLINT
  explicit operator bool() const { return state_.index() == 0; }
  T& operator*() { return std::get<0>(state_); }
  const T& operator*() const { return std::get<0>(state_); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  const Failure& failure() const& { return std::get<1>(state_); }
  Failure&& failure() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Failure> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Failure failure) : failure_(std::move(failure)) {}  // NOLINT
  explicit operator bool() const { return !failure_; }
  const Failure& failure() const& { return *failure_; }
  Failure&& failure() && { return *std::move(failure_); }

 private:
  std::optional<Failure> failure_;
};

using Status = Result<void>;

[[noreturn]] inline void throw_failure(Failure failure) {
  throw Error(failure.code, std::move(failure.message));
}

template <class T>
T value_or_throw(Result<T>&& result) {
  if (!result) throw_failure(std::move(result).failure());
  return std::move(*result);
}
inline void value_or_throw(Status&& status) {
  if (!status) throw_failure(std::move(status).failure());
}

/// In a handler of an exception that says that the system refused memory or a thread, or of an
/// Error: the failure it stands for. Other exceptions go on.
Failure failure_of_exception();

/// Memory may be short when a failure is passed on: then it loses its message.
inline Failure copy_of(const Failure& failure) noexcept {
  try {
    return failure;
  } catch (const std::bad_alloc&) {
    return Failure{failure.code, {}};
  }
}

/// What `call` returns, a Result; an exception becomes its failure.
template <class Call>
auto guarded(Call&& call) -> decltype(call()) {
  try {
    return call();
  } catch (...) {
    return failure_of_exception();
  }
}

}  // namespace perdura

/// Return the failure of a Status expression from the calling function. A failure that is passed on
/// is moved, which needs no memory: it may be said once only.
#define PERDURA_TRY(expression)                                                  \
  do {                                                                           \
    if (auto&& perdura_status_ = (expression); !perdura_status_)                 \
      return std::forward<decltype(perdura_status_)>(perdura_status_).failure(); \
  } while (false)

#define PERDURA_CONCAT_INNER(a, b) a##b
#define PERDURA_CONCAT(a, b) PERDURA_CONCAT_INNER(a, b)

/// `PERDURA_ASSIGN(auto x, f())`: x = the value of f(), or return f()'s failure.
#define PERDURA_ASSIGN(target, expression) \
  PERDURA_ASSIGN_NAMED(PERDURA_CONCAT(perdura_result_, __LINE__), target, expression)
#define PERDURA_ASSIGN_NAMED(name, target, expression) \
  auto name = (expression);                            \
  if (!name) return std::move(name).failure();         \
  target = std::move(*name)
