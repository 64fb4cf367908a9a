// The reasons why a method is not deferrable.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "facts.hpp"

namespace perdura::source {

/// A line that makes a method instant.
struct Reason {
  Kind kind;
  std::string name;                  ///< what is touched or called there
  Place at;                          ///< in the program's own sources
  Place innermost;                   ///< the same, or in a header of the system that is used there
  std::vector<Place> calls;          ///< from the method to there
  std::vector<std::string> callees;  ///< of each of them
};

struct Judgement {
  Verdict verdict = Verdict::kInstant;
  bool changes_object = false;
  std::vector<Reason> reasons;  ///< by file and line
};

class Solver {
 public:
  explicit Solver(Program& program);
  ~Solver();
  /// With so many reasons, those of the shortest chains of calls; 0: all.
  Judgement judge(const Method& method, std::size_t most);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace perdura::source
