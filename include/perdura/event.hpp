// What a store tells its program beside the results of calls (Options::on_event).
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include <perdura/error.hpp>

namespace perdura {

enum class EventKind : int {
  kCheckpointFailed = 0,  ///< of any trigger; nothing since durable_version is durable
  kCheckpointLate = 1,   ///< changes were older than the interval of checkpoint_every, by a quarter
                         ///< of it and 50 ms, before they were durable, or still are not
  kMediumSlow = 2,       ///< a write or barrier of a disk or server took a second or longer
  kDamage = 3,           ///< a page or chunk is not what was written there
  kOtherTracker = 4,     ///< kAutomatic had to take another tracker than its first
  kUnreportedParts = 5,  ///< parts of a program whose compiler reports stores report none
  kOperationsWaitedFor = 6,  ///< a checkpoint has waited for operations to end for two seconds
  kShared = 7,            ///< points of a container find objects of another one (warn_of_sharing)
  kOutsideOperation = 8,  ///< the program stores outside of operations (Options::strict)
  kDrainFailed = 9,  ///< a version could not be sent to the second place (Options::drain), or was
                     ///< not when the store was closed
};
constexpr int kEventKinds = 10;

/// "checkpoint failed", …
const char* name_of(EventKind kind);

/// The texts are valid during the call.
struct Event {
  EventKind kind = EventKind::kCheckpointFailed;
  Code code = Code::kOk;     ///< of what failed, where something did
  std::string_view store;    ///< its name, with its region
  std::string_view message;  ///< a sentence that names the place, and the remedy where there is one
  std::uint64_t durable_version = 0;  ///< of the store, when this was told
};

/// Called in the thread that finds it, one of the library's or one of the program's in a call of
/// this store, or, of slow media and of damage, up to a second later in the store's checkpoint
/// thread; several at once. Never in a signal handler, not after the store was closed, and not with
/// a lock of the library's that the calls below need.
///
/// It is as inside an operation on the store, which may be waited for: it takes no lock that is
/// held where an operation is begun, and waits for no thread that uses the store. Of the store it
/// may call durable_version() and statistics(), nothing else, and not before Store::open has
/// returned. What it throws is caught, and said on stderr.
using EventListener = std::function<void(const Event&)>;

}  // namespace perdura
