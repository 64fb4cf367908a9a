// A medium that its owner has open to write, lent for a while: a store on it can be read, or
// changed and left, with the writer's lock held before and after.
#pragma once

#include <memory>

#include "media/decorator.hpp"

namespace perdura::media {

/// `medium` is used by nobody else meanwhile, and outlives it.
class Lent final : public Decorator {
 public:
  explicit Lent(Medium& medium) : Decorator(medium) {}

  // There is no writer that who reads would have to keep from anything.
  Status pin(u32, u64) override { return {}; }
  bool has_writer() const noexcept override { return false; }
  FileLock* sharing() noexcept override { return nullptr; }
};

}  // namespace perdura::media
