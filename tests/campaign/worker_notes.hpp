// What object_worker.cc and shared_worker.cc have in common: an object in which their callers note
// their tickets, and how they say what is durable.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <tuple>

#include <perdura/objects.hpp>

namespace perdura::test {

using std::uint32_t;
using std::uint64_t;

constexpr uint32_t kCallers = 8;

struct Notes {
  struct alignas(64) {
    uint64_t notes;
    uint64_t sum;
  } callers[kCallers];
  void note(uint32_t caller, uint64_t ticket) noexcept {
    ++callers[caller].notes;
    callers[caller].sum += ticket;
  }
  void count(uint32_t caller, uint64_t notes) noexcept { callers[caller].notes += notes; }
  uint64_t ask(uint32_t caller) noexcept { return callers[caller].notes; }
  Notes all() const noexcept { return *this; }

  static Domain of(uint32_t caller) noexcept { return Domain(caller); }
  static bool join(std::tuple<uint32_t, uint64_t>& first,
                   const std::tuple<uint32_t, uint64_t>& next) noexcept {
    if (std::get<0>(first) != std::get<0>(next)) return false;
    std::get<1>(first) += std::get<1>(next);
    return true;
  }
};

}  // namespace perdura::test

template <>
struct perdura::Methods<perdura::test::Notes>
    : perdura::MethodList<
          perdura::Deferrable<&perdura::test::Notes::note, &perdura::test::Notes::of>,
          perdura::Deferrable<&perdura::test::Notes::count, &perdura::test::Notes::of,
                              &perdura::test::Notes::join, perdura::kCommutes>,
          perdura::Instant<&perdura::test::Notes::ask, &perdura::test::Notes::of>> {};

namespace perdura::test {

/// A line at once: whoever kills the process finds it whole.
inline void say(const std::string& line) {
  if (::write(1, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::_Exit(1);
}
template <class First, class... Numbers>
void say(const char* format, First first, Numbers... numbers) {
  char line[96];
  std::snprintf(line, sizeof line, format, first, numbers...);
  say(std::string(line));
}

inline ObjectDurability durability_of(const std::string& name) {
  if (name == "each") return ObjectDurability::kEach;
  return name == "two_steps" ? ObjectDurability::kTwoSteps : ObjectDurability::kInstants;
}

}  // namespace perdura::test
