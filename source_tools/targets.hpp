// Sets of what pointers may lead to.
#pragma once

#include <compare>
#include <cstdint>
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

}  // namespace perdura::source
