// What an object is on the medium, for those who look at a store and open nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "object/object_table.hpp"

namespace perdura::object {

/// What its entries may call, by their numbers. kCorrupt where the names do not fit their checksum.
Result<std::vector<std::string>> function_names(media::LinearMedium& medium,
                                                const format::ObjectHead& head);

struct ObjectLook {
  std::vector<std::string> functions;
  std::vector<format::ObjectCaller> callers;  ///< of those that have called; as the copy has them
  u64 kept_from = 0;          ///< the index of the first line of the log that a copy may lack
  u64 tail = 0;               ///< and behind the last one of a whole group
  u64 pending_entries = 0;    ///< that the resilient copy lacks: the next opening runs them
  u64 resilient_entries = 0;  ///< in the log as well as in that copy
  u64 archived_calls = 0;
};
/// Verifies all that opening it would, beside what a program's functions accept; of a copy in an
/// overflow store that as well, where there is `overflow`. Nobody writes to it.
Result<ObjectLook> look_at(media::LinearMedium& medium, const ObjectTable::Entry& entry,
                           OverflowStore* overflow = nullptr);

}  // namespace perdura::object
