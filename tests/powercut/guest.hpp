// What the programs' lives in the virtual machine have in common: settings, the port to the host,
// and what shows that the medium is used as in production.
#pragma once

#include <functional>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "base/bits.hpp"

namespace perdura::test {

using Random = std::mt19937_64;

inline constexpr const char* kFolder = "/mnt";
inline constexpr const char* kStore = "/mnt/state.pd";

/// What the host has said (guest.cc); "" and 0 where it said nothing.
std::string setting(const char* name);
u64 number_of(const char* name);

/// The serial port to the host. Thread-safe.
class Port {
 public:
  Port();
  /// As a line; those within `words` become spaces.
  void say(std::string words);
  void drain();

 private:
  const int fd_;
  std::mutex mutex_;
  u64 lines_ = 0;
};

/// Says each fact once, when it is seen: a ring lives no longer than what it is used for.
class Prover {
 public:
  explicit Prover(Port& port);
  void look();

 private:
  struct Fact {
    const char* name;
    std::function<bool()> holds;
  };

  Port& port_;
  std::vector<Fact> open_;
};

/// A life with logged objects (OBJECTS) instead of a ledger, once the disk is mounted. What is
/// wrong, or nothing.
std::string live_with_objects(const std::string& uri, Random& random, Port& port);

}  // namespace perdura::test
