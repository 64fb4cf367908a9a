// What is done to an object that nobody has open, without the program's methods.
#pragma once

#include "object/object_table.hpp"

namespace perdura::object {

/// To places in the overflow store, of its size and of its log's: the second one is used where its
/// log has calls that its copy lacks. `entry` is as it is then. False: it stays, since it is
/// damaged or keeps all its calls. Where it fails and no slot of the entry is unclear it is as it
/// was.
Result<bool> move_out(media::LinearMedium& medium, ObjectTable::Entry& entry,
                      OverflowStore& overflow, u64 place, u64 log_place);

}  // namespace perdura::object
