// The effects of each function of a program, in terms of its parameters, and the reasons why a
// method is not deferrable.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "facts.hpp"

namespace perdura::source {

/// Codes of targets, in order.
class Targets {
 public:
  bool add(Target target);
  /// Whether it has any that it had not.
  bool add(const Targets& others);
  bool empty() const { return codes_.empty(); }
  std::size_t size() const { return codes_.size(); }
  bool contains(Target target) const;
  auto begin() const { return codes_.begin(); }
  auto end() const { return codes_.end(); }
  auto operator<=>(const Targets&) const = default;

 private:
  std::vector<std::uint32_t> codes_;
};

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
