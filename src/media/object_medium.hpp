// A medium of objects over a service that keeps them.
#pragma once

#include <memory>
#include <string>

#include "media/object_service.hpp"

namespace perdura::media {

struct ObjectMediumParts {
  std::unique_ptr<std::string> name;  ///< for messages; where parts have references to it, this one
  std::unique_ptr<Usable> usable;
  std::unique_ptr<ObjectService> service;
  u64 size = 0;
};

/// The medium ends with its service, which gives the lock back.
std::unique_ptr<Medium> make_object_medium(ObjectMediumParts parts);

}  // namespace perdura::media
