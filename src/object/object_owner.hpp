// Who has an object: the process that wrote its newest head. An object whose process is dead stays
// as it was left, and is found by its name by whoever opens it next.
#pragma once

#include "format/object_format.hpp"

namespace perdura::object {

/// This process, to be written behind a head: of an object that has been removed nobody.
format::ObjectOwner owner_of(const format::ObjectHead& head);
/// What was found behind a whole head; nobody (zeros) where it is torn, or is not of this head.
format::ObjectOwner owner_found(const format::ObjectHead& head, const format::ObjectOwner& behind);
/// Whether the process still runs. One of an earlier start of the system does not.
bool is_running(const format::ObjectOwner& owner);

}  // namespace perdura::object
