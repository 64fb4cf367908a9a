// A drawn program as data: what a store is opened with, and what is done to it, session by session.
// It can be run again, made smaller, kept in a file, and printed as a page.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include <perdura/options.hpp>
#include <perdura/transaction.hpp>

#include "base/bits.hpp"

namespace perdura::model {

using Json = nlohmann::json;

/// Who does a step: which counter of the lane says whether it was done.
enum class Domain : u8 { kOperation, kTransaction };

/// A change of a lane, in an operation or a transaction.
struct Step {
  std::string kind;
  u64 target = 0;
  u64 number = 0;
};

/// What a thread does at once. Whatever its precondition misses, it does nothing.
struct Action {
  u64 id = 0;  ///< grows in a program; content follows from it, so it stays when others go
  std::string kind;
  u64 lane = 0;
  u64 number = 0;
  std::vector<Step> steps{};
};

/// Parts of a store beside the lanes, each with a count of steps from which its content follows.
enum class Part : u8 {
  kAlone,   ///< an object that becomes durable alone
  kGuest,   ///< a container in another region
  kPlain,   ///< another region, through the C API
  kOwn,     ///< a store of its own, through FGCK's interface
  kHeapo,   ///< a heap by HEAPO's calls, in F-STM's transactions
  kSoftpm,  ///< a container of its own, by SoftPM's calls
  kLeft,    ///< two containers that share objects, in regions of their own
  kRight,
  kCount,
};

/// The region of a part that is in one.
const char* region_of(Part part);

/// Of regions that programs fill.
constexpr u64 kSmallRegion = 2 * kMiB;

/// How a session ends.
enum class End : u8 {
  kClose,       ///< in order
  kUnwind,      ///< in order, by the destructor
  kExit,        ///< the process ends without a word
  kMediumCall,  ///< the process is killed at a call of its medium
  kTime,        ///< the process is killed after a time
  kThrow,       ///< the store is destroyed by an exception on its way
  kDeleted,     ///< its file is deleted, and what it held put back when the process has ended
  kPower,       ///< what a power failure may leave, at some call of the medium
};
const char* name_of(End end);

struct Session {
  Options options;
  bool parallel = false;  ///< each lane is a thread
  End end = End::kClose;
  u64 end_at = 0;  ///< kMediumCall: which; kTime: nanoseconds; kPower: what chance leaves
  /// 0: no call fails; else the so manieth of the medium does, by `fault_calls` of media::Fault.
  u64 fault_at = 0;
  unsigned fault_calls = 0;
  bool full_disk = false;  ///< its medium cannot grow until an action makes room
  Durability durability = Durability::kNonTemporal;  ///< it begins with these
  Logging logging = Logging::kRedo;
  bool at_once = false;    ///< actions begin before anything else has looked at what opening found
  bool inspect = false;    ///< as `perdura check` does, before it is opened
  bool read_only = false;  ///< by those who may not write, before that
  bool look_back = false;  ///< its last known version is opened, to be read, before that
  bool guest_below_libraries = false;  ///< the container's region lies where libraries come next
  u64 taken_bytes = 0;                 ///< of address space, so that libraries come elsewhere
  bool other_build = false;            ///< the program has another layout of a type
  bool roll_back = false;       ///< before that the store goes back to its last known version
  Part removed = Part::kCount;  ///< before that this region is removed
  std::vector<Action> actions;
};

/// In a store with transactions: whose blocks come and go.
enum class HeapUse : u8 { kBoth, kOperations, kTransactions };

struct Program {
  u64 seed = 0;
  HeapUse heap_use = HeapUse::kBoth;
  std::string medium;       ///< emu, file or memcached
  bool on_disk = false;     ///< not in a folder in memory
  bool typed = false;       ///< blocks have type records, so that the store moves
  bool standard = false;    ///< it has containers of the standard library
  bool own = false;         ///< it has stores of its own: by FGCK's, HEAPO's and SoftPM's calls
  bool typed_root = false;  ///< of SoftPM's container it says where the root's pointers are
  Options options;          ///< what the store is made with
  std::vector<Session> sessions;

  bool transactions() const;  ///< the store can have some
  u64 actions() const;
};

/// What is drawn of.
struct Drawing {
  u64 actions = 120;  ///< about so many
  std::string kind = "kill";
  bool known = false;  ///< also what known faults spoil (known.hpp)
};
Program draw(u64 seed, const Drawing& drawing);

Json to_json(const Program& program);
Program from_json(const Json& json);
/// For people: like the program that somebody would write.
std::string text_of(const Program& program);

bool reports_stores(const Options& options);

}  // namespace perdura::model
