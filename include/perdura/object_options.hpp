// How objects whose calls are logged (perdura/objects.hpp) and their stores are opened, and what is
// said of them.
#pragma once

#include <cstdint>
#include <string>

namespace perdura {

/// Opening throws kInvalidArgument where one is outside its range; numbers without one may be any.
struct ObjectsOptions {
  bool create = true;  ///< where there is nothing yet
  /// Of the store that has them: up to 31 bytes, none of them zero. "": its first one.
  std::string region = "objects";
  /// Other processes may have the same objects open, that open the store so as well: up to 64, of
  /// one user and one machine (docs/objects.md, "Several processes"). Else this one is alone.
  bool shared = false;
  /// Space that objects may have in the store, in bytes, of which whole pages (4096) are used; 0:
  /// what its medium has. Who needs more gets kNoSpace.
  std::uint64_t bytes_max = 0;
  /// The URI of another store, usually on an SSD, that has nothing else: objects that were called
  /// longest ago move there where space is short, and come back when they are called
  /// (docs/objects.md, "Larger than the NVM"). From then on the store is opened with that one.
  std::string overflow = "";
  /// An object moves to free space that was written so many times less often than its most worn
  /// place, if there is some: checkpoints of a copy, or times its log was filled. 0: none moves.
  /// Nothing is refused where processes share them, but none moves (docs/objects.md, "Wear").
  std::uint64_t wear_moves = 0;
};

/// When calls of an object are durable.
enum class ObjectDurability : std::uint8_t {
  kInstants,  ///< instants when they return, with all that was called before, behind one barrier
  kEach,      ///< the same, with a barrier for each call
  kTwoSteps,  ///< the same, with a second barrier before the last call of those that wait
  kRelaxed,   ///< all with the next sync or checkpoint
};

/// What an object keeps of its calls, for a program that was ended anywhere.
enum class ObjectHistory : std::uint8_t {
  kNone,
  kLast,  ///< of each caller how many calls, and the last answer: it goes on with the next one
  kAll,   ///< all calls with their answers: a deterministic program is run again from its
          ///< beginning, and gets the answers of its recorded calls without running them again
};

/// Opening an object throws kInvalidArgument, which names it, where one is outside its range, also
/// one that counts when the object is made alone; numbers without a range may be any.
struct ObjectOptions {
  /// A power of two from 4096 to 1 GiB; when the object is made.
  std::uint64_t log_bytes = 1 << 20;
  /// After so many calls the state is written, and log is free. 0 is as 1: after each one.
  std::uint64_t checkpoint_calls = 1000;
  ObjectDurability durability = ObjectDurability::kInstants;
  /// Deferred calls are durable and run when so many lines (64 bytes) of the log wait, at least 1,
  /// or a quarter of it, if that is less. A call takes a line, or as many as its arguments need;
  /// calls that are merged into one take its lines, and are 4,096 at most. More of them cost the
  /// caches, fewer let fewer be lost.
  std::uint32_t pending_lines = 512;
  /// Deferred calls are durable and run after so many milliseconds, or little more, also where
  /// nobody calls meanwhile. 0: no thread of the library looks after them.
  std::uint32_t pending_ms = 0;
  /// Threads that run calls at once, of those that wait for answers, and at most as many as there
  /// are processors. 1: one runs all. 0: none runs another one's; each runs its own at once.
  std::uint32_t servers = 64;
  /// When the object is made. With one, answers have 48 bytes at most, and calls run one after the
  /// other.
  ObjectHistory history = ObjectHistory::kNone;
  /// That a history has room for, a power of two from 1 to 2^20 (1048576); as well. Without a
  /// history it is not looked at.
  std::uint32_t callers = 64;
  /// Of the state; as well. Of a flexible one from its size to 2^40 (1 TiB), of another one its
  /// size. 0: its size. What follows the State is zeros. Of an object that is there it is not
  /// looked at.
  std::uint64_t bytes = 0;
  /// Of a history of all calls, in which they are compressed, from 1 to 2^38 (256 GiB), rounded up
  /// to pages; as well. When it is full calls throw kNoSpace, and are not logged. Without such a
  /// history it is not looked at.
  std::uint64_t archive_bytes = 1 << 24;
  /// Each call runs a second time on a copy of the state: Error kMisuse where that does not do the
  /// same, which it would have to after a crash. Answers are compared where equal ones have equal
  /// bytes: not those that have bytes between their members, or may hold nothing.
  bool verify_replay = false;
  /// What waits in the object's log was called by a program of the same build, or opening throws
  /// kIncompatible and names both. For methods that were changed. The build is that of the program
  /// and the libraries that the methods are in, by their build ids (docs/objects.md, "Names and
  /// builds"). Throws kUnsupported where one of these has none.
  bool same_build = false;
};

struct ObjectDescription {
  std::string name;
  std::string type;          ///< of the state, as C++ writes it
  std::uint64_t bytes = 0;   ///< of the state
  bool in_overflow = false;  ///< its copy is in the overflow store, until it is called
  /// The process that has the object or had it last: of those that share it the one that wrote its
  /// last checkpoint. 0: nobody knows, as of one that an earlier library has written.
  std::uint64_t owner_pid = 0;
  /// That process still runs. The object of one that is dead stays, and is anybody's who opens it.
  bool owner_lives = false;
};

/// Since the objects were opened.
struct ObjectMoves {
  std::uint64_t out = 0;    ///< to the overflow store
  std::uint64_t home = 0;   ///< from there
  std::uint64_t worn = 0;   ///< within the store, from places that were written more often
  std::uint64_t heads = 0;  ///< of an object's head in the store's table, for the same reason
};

}  // namespace perdura
