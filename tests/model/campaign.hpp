// Many programs, each in processes of its own; what fails is made small.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "features.hpp"
#include "program.hpp"

namespace perdura::model {

/// What a program came to.
struct Ended {
  std::string problem;  ///< "" when all was as the model says
  size_t session = 0;   ///< in which it was found
  u64 actions = 0;
  u64 sessions = 0;
  u64 crashes = 0;
  u64 failed_calls = 0;
  Pairs pairs;
};

/// Runs it, session by session.
Ended run_program(const Program& program);

/// A program with fewer actions that fails as well; tries for so many seconds.
Program shrink(const Program& program, const std::string& problem, double seconds);

}  // namespace perdura::model
