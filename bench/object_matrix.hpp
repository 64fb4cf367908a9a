// The object of SIMPO's microbenchmark (§4.1), TwoDimIntArray of 500 elements, and the same without
// persistence: integers behind a pthread mutex.
#pragma once

#include <pthread.h>

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include <perdura/objects.hpp>

#include "harness.hpp"
#include "threads.hpp"

namespace perdura::bench {

struct Matrix {
  static constexpr std::uint32_t kRows = 2, kColumns = 250;
  std::int32_t cells[kRows][kColumns];

  void row_inc(std::uint32_t row, std::int32_t by) noexcept {
    for (std::int32_t& cell : cells[row]) cell += by;
  }
  void all_inc(std::int32_t by) noexcept {
    for (std::uint32_t row = 0; row < kRows; ++row) row_inc(row, by);
  }
  std::int32_t all_inc_told(std::int32_t by) noexcept {
    all_inc(by);
    return cells[0][0];
  }
  /// What an instant costs that does next to nothing.
  std::int32_t tick(std::int32_t by) noexcept { return cells[0][0] += by; }
  Matrix all() const noexcept { return *this; }

  static Domain domain(std::uint32_t row) noexcept { return Domain(row); }
  static bool join(std::tuple<std::int32_t>& first, const std::tuple<std::int32_t>& next) noexcept {
    std::get<0>(first) += std::get<0>(next);
    return true;
  }
};

/// Each call is done by itself.
struct Unmerged : Matrix {};
/// Calls that wait are merged.
struct Merged : Matrix {};
/// Rows are domains.
struct RowMatrix : Matrix {};

/// A method does nothing: what remains is that it is logged.
struct Idle {
  std::int32_t value;
  void pass(std::int32_t) noexcept {}
  std::int32_t pass_told(std::int32_t) noexcept { return value; }
};

}  // namespace perdura::bench

template <>
struct perdura::Methods<perdura::bench::Unmerged>
    : perdura::MethodList<perdura::Deferrable<&perdura::bench::Matrix::all_inc>,
                          perdura::Instant<&perdura::bench::Matrix::all_inc_told>,
                          perdura::Instant<&perdura::bench::Matrix::tick>> {};
template <>
struct perdura::Methods<perdura::bench::Merged>
    : perdura::MethodList<perdura::Deferrable<&perdura::bench::Matrix::all_inc,
                                              &perdura::bench::Matrix::join, perdura::kCommutes>,
                          perdura::Instant<&perdura::bench::Matrix::all_inc_told>> {};
template <>
struct perdura::Methods<perdura::bench::RowMatrix>
    : perdura::MethodList<
          perdura::Deferrable<&perdura::bench::Matrix::row_inc, &perdura::bench::Matrix::domain>> {
};
template <>
struct perdura::Methods<perdura::bench::Idle>
    : perdura::MethodList<perdura::Deferrable<&perdura::bench::Idle::pass>,
                          perdura::Instant<&perdura::bench::Idle::pass_told>> {};

namespace perdura::bench {

class Mutex {
 public:
  void lock() { pthread_mutex_lock(&mutex_); }
  void unlock() { pthread_mutex_unlock(&mutex_); }

 private:
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

/// A state in memory behind a mutex, called as an Object is.
template <class State>
class NativeObject {
 public:
  NativeObject() : state_(std::make_unique<State>()) {}
  template <auto Method, class... A>
  void defer(A&&... arguments) {
    const std::lock_guard lock(mutex_);
    (state_.get()->*Method)(std::forward<A>(arguments)...);
  }
  template <auto Method, class... A>
  auto call(A&&... arguments) {
    const std::lock_guard lock(mutex_);
    return (state_.get()->*Method)(std::forward<A>(arguments)...);
  }
  template <auto Method, class... A>
  auto read(A&&... arguments) const {
    const std::lock_guard lock(mutex_);
    return (std::as_const(*state_).*Method)(std::forward<A>(arguments)...);
  }
  void sync() {}

 private:
  std::unique_ptr<State> state_;
  mutable Mutex mutex_;
};

/// An object in a store of its own.
template <class State>
class StoredObject {
 public:
  /// `parameters`: of its URI, "?…".
  StoredObject(Context& context, Place place, const ObjectOptions& options,
               const std::string& parameters = "")
      : context_(context), uri_(context.uri(place, "object") + parameters), options_(options) {
    open();
  }
  ~StoredObject() {
    object_.reset();
    objects_.reset();
    context_.remove(uri_);
  }
  StoredObject(const StoredObject&) = delete;
  StoredObject& operator=(const StoredObject&) = delete;

  Object<State>& get() { return *object_; }
  void reopen() {
    object_.reset();
    objects_->close();
    objects_.reset();
    open();
  }

 private:
  void open() {
    objects_.emplace(Objects::open(uri_));
    object_.emplace(objects_->object<State>("object", options_));
  }

  Context& context_;
  const std::string uri_;
  const ObjectOptions options_;
  std::optional<Objects> objects_;
  std::optional<Object<State>> object_;
};

/// Throws unless each cell of the rows has been increased so often.
inline void check_cells(const char* side, const Matrix& matrix,
                        const std::array<std::uint64_t, Matrix::kRows>& calls) {
  for (std::uint32_t row = 0; row < Matrix::kRows; ++row)
    for (const std::int32_t cell : matrix.cells[row])
      if (static_cast<std::uint32_t>(cell) != static_cast<std::uint32_t>(calls[row]))
        throw std::runtime_error(
            fmt::format("{}: a cell of row {} is {} after {} calls", side, row, cell, calls[row]));
}

/// all_inc and all_inc_told of the microbenchmark's object, counted.
template <class Target>
class CountedMatrix {
 public:
  explicit CountedMatrix(Target& target) : target_(target) {}

  /// Seconds a call, until all are done, and durable. One of so many is an instant; 0: none.
  double run(int threads, std::uint64_t calls, std::uint64_t calls_an_instant = 0,
             Pinned pinned = Pinned::kYes) {
    const auto body = [&](int, std::uint64_t count) {
      for (std::uint64_t i = 1; i <= count; ++i) {
        if (calls_an_instant != 0 && i % calls_an_instant == 0)
          target_.template call<&Matrix::all_inc_told>(1);
        else target_.template defer<&Matrix::all_inc>(1);
      }
      target_.sync();
    };
    calls_ += calls / static_cast<std::uint64_t>(threads) * static_cast<std::uint64_t>(threads);
    return seconds_a_call(threads, calls, body, pinned);
  }
  void check(const char* side) const {
    check_cells(side, target_.template read<&Matrix::all>(), {calls_, calls_});
  }

 private:
  Target& target_;
  std::uint64_t calls_ = 0;
};

}  // namespace perdura::bench
