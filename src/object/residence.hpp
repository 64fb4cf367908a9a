// Who says where an object's copies and log lie (perdura::detail::ObjectsRuntime), as the object
// sees it.
#pragma once

#include "base/result.hpp"

namespace perdura::object {

class ObjectCore;

/// Thread-safe.
class Residence {
 public:
  virtual ~Residence() = default;
  /// An object that is called must be elsewhere than it is (ObjectCore::is_away): it is when this
  /// returns. Not by a thread that executes, and one that others wait for at what this waits for
  /// must not come here: whoever gives places executes objects to move them.
  virtual Status settle(ObjectCore& core) = 0;
};

}  // namespace perdura::object
