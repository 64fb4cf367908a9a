// A session of a program on a real store, in a process of its own.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include <perdura/container.hpp>
#include <perdura/perdura.hpp>
#include <perdura/transaction.hpp>

#include "durable.hpp"
#include "journal.hpp"
#include "media/fault.hpp"
#include "media/record.hpp"
#include "model.hpp"
#include "program.hpp"
#include "support/call_faults.hpp"

namespace perdura::model {

/// What a program should not have seen. Ends the process.
class Problem : public std::runtime_error {
 public:
  using runtime_error::runtime_error;
};

struct Live;
struct GuestRun;
struct SharedRun;

/// A lane in a session.
struct LaneRun {
  Live& live;
  u64 number;
  LaneModel model;
  Lane* lane;           ///< in the store
  u64 last_commit = 0;  ///< its number, and the action that it was
  u64 last_commit_of = 0;
};

/// Who had come how far when a checkpoint began.
struct Done {
  std::array<Reached, kLanes> lanes{};
  u64 alone = 0;
};

/// What was acknowledged when so many calls of the medium were recorded.
struct Acknowledged {
  size_t calls;
  Done done;
  std::array<u64, kParts> parts;
  bool world;
};

struct Live {
  const Program& program;
  const Session& session;
  Journal& journal;
  Store* store = nullptr;
  World* world = nullptr;
  std::vector<LaneRun> lanes{};
  media::FaultPlan* faults = nullptr;
  std::atomic<bool> has_room{true};  ///< the medium can grow
  /// A call of the medium failed, what it stopped was done again, and nothing fails any more.
  std::atomic<bool> is_mended{false};
  bool is_starved = false;   ///< the library gets no memory; of sessions with one thread
  bool was_starved = false;  ///< since the last version

  Durability durability = Durability::kNonTemporal;
  struct Pending {
    u64 version;
    Done done;
    bool was_starved = false;  ///< there was no memory for it, at some time
  };
  std::list<Pending> pending{};  ///< asynchronous versions
  std::mutex pending_mutex{};

  std::string uri{};
  std::shared_ptr<GuestRun> guest{};      ///< open until the session ends
  std::shared_ptr<SharedRun> shared{};    ///< the same
  media::Recording* recording = nullptr;  ///< of a session that the power ends
  std::vector<Acknowledged> acknowledged{};
  std::mutex acknowledged_mutex{};

  u64 number() const { return static_cast<u64>(&session - program.sessions.data()); }
  Done done() const;
  void acknowledge(const Done& done);
  /// That one transaction, or a part, is durable.
  void acknowledge_transaction(u64 lane, u64 id);
  void acknowledge(Part part, u64 steps);
  void note_acknowledged();
  /// Those that were logged: what follows a change of the durability.
  u64 transactions_done(u64 lane) const { return journal.done[lane].transaction; }
  /// A call of the medium failed: what throws kIo or kNoSpace is expected.
  bool expected(const Error& error) const;
  /// Nothing of it can fail any more but what fails for good.
  void note_mended();
  /// A call of the library, to which alone memory is refused; not to the model.
  template <class Body>
  decltype(auto) library(Body&& body) const {
    if (!is_starved) return body();
    const test::InLibrary here;
    return body();
  }
  /// What a call threw because it got no memory.
  bool is_starvation(const std::exception& thrown) const;
};

/// `what` holds, or the program ends.
void require(bool holds, const std::string& what);
/// The same without memory for it.
inline void require(bool holds, const char* what) {
  if (!holds) require(false, std::string(what));
}

/// A kind of step: what it means to the model, and how it is done.
struct StepKind {
  const char* name;
  double weight;
  bool by_operations = false;
  bool by_transactions = false;
  bool heap = false;  ///< blocks come and go
  /// nullptr: always.
  bool (*possible)(const Program& program, const Options& options) = nullptr;
  /// What it changes; nothing when what it needs is not there.
  void (*plan)(const Program& program, const LaneModel& model, const Step& step, Domain domain,
               u64 id, std::vector<Change>& changes);
  void (*operate)(LaneRun& run, const Operation& operation, const Planned& planned) = nullptr;
  void (*transact)(LaneRun& run, Transaction& transaction, const Planned& planned) = nullptr;
};
const StepKind& step_kind(const std::string& name);
const std::vector<const StepKind*>& step_kinds();
struct StepRegistration {
  explicit StepRegistration(const StepKind& kind);
};

/// A kind of action.
struct ActionKind {
  const char* name;
  double weight;
  bool has_steps = false;
  Domain domain = Domain::kOperation;
  bool by_one_thread = false;  ///< where lanes are threads: by the first one alone
  /// nullptr: always.
  bool (*possible)(const Program& program, const Session& session) = nullptr;
  void (*run)(Live& live, LaneRun& run, const Action& action);
  /// When it is done, an acknowledged version has all that its lane did before.
  bool covers = false;
};
const ActionKind& action_kind(const std::string& name);
const std::vector<const ActionKind*>& action_kinds();
struct ActionRegistration {
  explicit ActionRegistration(const ActionKind& kind);
};

/// In a thread that lives for it alone; throws what it throws.
void in_new_thread(const std::function<void()>& body);

/// Of a store's memory and the model: what differs, or "".
std::string compare(const Live& live, const LaneModel& model, u64 lane);
/// All of a store that nobody uses at this time, its heap as well.
std::string compare_all(Live& live);

/// Of the parts that are in the store itself: what is wrong, or "", and how many blocks they have.
std::string check_parts(Live& live, u64& blocks);
/// A part was found at a step that is possible, and goes on from there.
void require_reached(Journal& journal, Part part, u64 found, const char* what);
/// The store has other regions beside its own.
bool has_regions(const Program& program, const Session& session);
/// Parts go on from where the store has come.
void find_parts(Live& live);

/// What containers in regions of the store are opened with.
Options container_options(const Live& live, const char* region);
/// Close those that were opened. What is expected to fail may.
void close_guest(Live& live);
void close_shared(Live& live);

/// The program's own stores are as they should be.
void open_own(Journal& journal);
void open_heapo(Journal& journal);
/// From now on memory is refused: SoftPM's points so far may have failed.
void starve_softpm(const Journal& journal);
/// SoftPM's container has this number, and its medium the name of the own store with this suffix.
constexpr int kSoftpmContainer = 7;
constexpr const char* kSoftpmSuffix = ".00000007";
/// What a session does before it opens the store.
void prepare(const Program& program, size_t session, const std::string& uri, Journal& journal);

/// Makes of the store what a power failure may leave, with what was acknowledged by then.
void cut_power(Live& live);

/// Runs a session; returns when it ended in order. Throws Problem, and what it did not expect.
void run_session(const Program& program, size_t session, const std::string& uri, Journal& journal);

}  // namespace perdura::model
