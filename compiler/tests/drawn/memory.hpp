// What drawn programs in C++ are made of besides.
#pragma once

#include <algorithm>
#include <atomic>
#include <coroutine>
#include <exception>
#include <new>
#include <thread>
#include <utility>

#include "memory.h"

namespace {

struct Thrown {
  u64 value;
};

/// Where frames of coroutines are made, as long as it is set: in the memory of a program.
thread_local u8* frames = nullptr;

/// A coroutine that yields numbers.
struct Numbers {
  struct promise_type {
    u64 value = 0;
    static void* operator new(std::size_t bytes) {
      return frames != nullptr ? frames : ::operator new(bytes);
    }
    static void operator delete(void* frame) {
      if (frame != frames) ::operator delete(frame);
    }
    Numbers get_return_object() {
      return {std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    std::suspend_always yield_value(u64 given) noexcept {
      value = given;
      return {};
    }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  std::coroutine_handle<promise_type> handle;
};

/// Stores when it is left, also by an exception.
struct AtEnd {
  u64* word;
  u64 value;
  ~AtEnd() { *word ^= value; }
};

/// Objects of these are in programs' memory, and on the stack.
struct Shape {
  u64 count = 3;
  explicit Shape(u64 given) : count(given) {}
  virtual ~Shape() = default;
  virtual void change(u64* word, u64 value) { *word = value + ++count; }
};
struct Round : Shape {
  u64 radius[9] = {1, 2, 3};
  using Shape::Shape;
  void change(u64* word, u64 value) override { *word ^= radius[value % 9]++ + value; }
  ~Round() override { radius[4] = 0; }
};
struct Named : virtual Shape {
  char name[40] = "named";
  explicit Named(u64 given) : Shape(given) { name[given % 40] = 'x'; }
  void change(u64* word, u64 value) override { *word += static_cast<u64>(name[value % 40]++); }
};

}  // namespace
