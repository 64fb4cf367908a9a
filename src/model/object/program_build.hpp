// Which build this program is, as far as an object's methods are concerned.
#pragma once

#include <mutex>

#include <perdura/objects.hpp>

#include "format/object_format.hpp"
#include "model/container/modules.hpp"

namespace perdura::detail {

/// Thread-safe.
class ProgramBuild {
 public:
  /// Of the program and the libraries that the type's methods are in, by their build ids; not known
  /// where one of these has none.
  format::ObjectBuild of(const ObjectType& type);

 private:
  std::mutex mutex_;
  Modules modules_;
};

}  // namespace perdura::detail
