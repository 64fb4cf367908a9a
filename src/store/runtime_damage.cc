// What a program is told of damage that was found in its store.
#include "store/runtime.hpp"

namespace perdura::detail {

// What there was to do is done; whoever closes is told all the same.
Status Runtime::close_beside_damage() {
  PERDURA_TRY(tell_damage());
  const std::string damage = findings().in_version;
  if (damage.empty() || options_.on_damage == OnDamage::kThrow) return {};
  return Failure{Code::kCorrupt, "'" + name() +
                                     "' is closed and all that was stored is durable, but some of "
                                     "it in damaged pages, which stay condemned: " +
                                     damage};
}

Status Runtime::untold_damage() const {
  if (options_.on_damage != OnDamage::kThrow) return {};
  const commit::Findings found = findings();
  const u64 told = told_pages_.load(std::memory_order_relaxed);
  if (found.damaged_pages <= told) return {};
  const std::string last = found.first.empty() ? "" : found.first.back();
  return Failure{Code::kCorrupt,
                 "'" + name() + "' has damage (" + std::to_string(found.damaged_pages - told) +
                     " pages or chunks) that was found since the last checkpoint; of those that "
                     "were to be verified before use, the program sees zeros, and what it stores "
                     "there is in no version; this is said once, and Store::damaged_pages names "
                     "all: " +
                     last};
}

Status Runtime::tell_damage() {
  if (options_.on_damage != OnDamage::kThrow) return {};
  // What is found meanwhile may be told twice.
  const u64 found = findings().damaged_pages;
  Status damage = untold_damage();
  if (!damage) told_pages_.store(found, std::memory_order_relaxed);
  return damage;
}

}  // namespace perdura::detail
