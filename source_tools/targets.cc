#include "targets.hpp"

#include <algorithm>
#include <iterator>

namespace perdura::source {

bool Targets::add(Target target) {
  const std::uint32_t code = target.code();
  const auto at = std::ranges::lower_bound(codes_, code);
  if (at != codes_.end() && *at == code) return false;
  codes_.insert(at, code);
  return true;
}

bool Targets::add(const Targets& others) {
  if (std::ranges::includes(codes_, others.codes_)) return false;
  std::vector<std::uint32_t> both;
  both.reserve(codes_.size() + others.codes_.size());
  std::ranges::set_union(codes_, others.codes_, std::back_inserter(both));
  codes_ = std::move(both);
  return true;
}

bool Targets::contains(Target target) const {
  return std::ranges::binary_search(codes_, target.code());
}

}  // namespace perdura::source
