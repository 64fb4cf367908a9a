// A medium of objects over a service that keeps them.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "media/object_service.hpp"

namespace perdura::media {

/// A service and what it refers to, which ends after it.
template <class Service>
struct ObjectMediumParts {
  std::unique_ptr<std::string> name;  ///< for messages
  std::unique_ptr<Usable> usable;
  std::unique_ptr<Service> service;

  /// The service is made of its name, its Usable, and the arguments.
  template <class... Arguments>
  static ObjectMediumParts make(std::string name, Arguments&&... arguments) {
    ObjectMediumParts parts;
    parts.name = std::make_unique<std::string>(std::move(name));
    parts.usable = std::make_unique<Usable>(*parts.name);
    parts.service = std::make_unique<Service>(*parts.name, *parts.usable,
                                              std::forward<Arguments>(arguments)...);
    return parts;
  }
};

/// Of so many bytes. The medium ends with its service, which gives the lock back.
OpenedMedium make_object_medium(ObjectMediumParts<ObjectService> parts, u64 size);

/// The same of any service.
template <class Service>
OpenedMedium make_object_medium(ObjectMediumParts<Service> parts, u64 size) {
  return make_object_medium(
      ObjectMediumParts<ObjectService>{std::move(parts.name), std::move(parts.usable),
                                       std::move(parts.service)},
      size);
}

/// Remove what a service has, whose find_head() says what that is; a head that cannot be read is
/// removed with the rest.
template <class Service>
Status remove_objects(Service& service) {
  const auto found = service.find_head(false);
  if (!found && (found.failure().code == Code::kIo || found.failure().code == Code::kNotFound))
    return copy_of(found.failure());
  return service.remove();
}

}  // namespace perdura::media
