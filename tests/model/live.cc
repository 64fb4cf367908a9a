#include "live.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <thread>

#include "store/runtime.hpp"
#include "support/killing_medium.hpp"

namespace perdura::model {
namespace {

template <class Kind>
std::vector<const Kind*>& registry() {
  static std::vector<const Kind*> kinds;
  return kinds;
}

/// By name: the order of construction is the linker's.
template <class Kind>
void add(const Kind& named) {
  static std::deque<Kind> all;  // they stay where they are
  const Kind& kind = all.emplace_back(named);
  auto& kinds = registry<Kind>();
  const auto before = [](const Kind* one, const Kind* other) {
    return std::string_view(one->name) < other->name;
  };
  kinds.insert(std::upper_bound(kinds.begin(), kinds.end(), &kind, before), &kind);
}

template <class Kind>
const Kind& find(const std::string& name) {
  for (const Kind* kind : registry<Kind>())
    if (name == kind->name) return *kind;
  throw std::runtime_error("this build knows no " + name);
}

}  // namespace

StepRegistration::StepRegistration(const StepKind& kind) { add(kind); }
const StepKind& step_kind(const std::string& name) { return find<StepKind>(name); }
const std::vector<const StepKind*>& step_kinds() { return registry<StepKind>(); }
ActionRegistration::ActionRegistration(const ActionKind& kind) { add(kind); }
const ActionKind& action_kind(const std::string& name) { return find<ActionKind>(name); }
const std::vector<const ActionKind*>& action_kinds() { return registry<ActionKind>(); }

void require(bool holds, const std::string& what) {
  if (!holds) throw Problem(what);
}

void in_new_thread(const std::function<void()>& body) {
  std::exception_ptr thrown;
  std::thread([&] {
    try {
      body();
    } catch (...) {
      thrown = std::current_exception();
    }
  }).join();
  if (thrown) std::rethrow_exception(thrown);
}

Done Live::done() const {
  Done done;
  for (u64 lane = 0; lane < kLanes; ++lane)
    done.lanes[lane] = {journal.done[lane].operation, journal.done[lane].transaction};
  done.alone = journal.done_of(Part::kAlone);
  return done;
}

void Live::acknowledge(const Done& done) {
  for (u64 lane = 0; lane < kLanes; ++lane) {
    raise(journal.acknowledged[lane].operation, done.lanes[lane].operation);
    raise(journal.acknowledged[lane].transaction, done.lanes[lane].transaction);
  }
  acknowledge(Part::kAlone, done.alone);
}

void Live::acknowledge_transaction(u64 lane, u64 id) {
  raise(journal.acknowledged[lane].transaction, id);
  note_acknowledged();
}

void Live::acknowledge(Part part, u64 steps) {
  raise(journal.acknowledged_of(part), steps);
  note_acknowledged();
}

bool Live::is_starvation(const std::exception& thrown) const {
  if (!is_starved) return false;
  const auto* const error = dynamic_cast<const Error*>(&thrown);
  return error != nullptr ? error->code() == Code::kNoMemory
                          : dynamic_cast<const std::bad_alloc*>(&thrown) != nullptr;
}

bool Live::expected(const Error& error) const {
  if (is_starvation(error)) return true;
  // What went on behind may say so later.
  if (session.full_disk && error.code() == Code::kNoSpace) return true;
  return session.fault_at != 0 && faults->fired() != 0 &&
         (error.code() == Code::kIo || error.code() == Code::kNoSpace);
}

void Live::note_mended() {
  if (session.fault_at != 0 && faults->fired() != 0 && !faults->barrier_failed() &&
      !session.parallel)
    is_mended = true;
}

namespace {

Lane* make_lane(const Program& program, Store& store, const Operation& operation) {
  auto* const lane =
      static_cast<Lane*>(program.typed ? operation.allocate(TypeRecord<Lane>::value)
                                       : operation.allocate(sizeof(Lane), alignof(Lane)));
  std::memset(static_cast<void*>(lane), 0, sizeof *lane);
  if (program.standard) lane->standard = store.make<Standard>();
  return lane;
}

/// The first session that finds no world makes one, in one operation.
void make_world(Live& live) {
  const Program& program = live.program;
  Store& store = *live.store;
  {
    const auto operation = store.operation();
    auto* const world =
        static_cast<World*>(program.typed ? operation.allocate(TypeRecord<World>::value)
                                          : operation.allocate(sizeof(World)));
    std::memset(static_cast<void*>(world), 0, sizeof *world);
    for (Lane*& lane : world->lanes) lane = make_lane(program, store, operation);
    store.set_root("world", world);
    live.world = world;
  }
  store.checkpoint();
  live.journal.world_acknowledged = true;
}

/// What was acknowledged is there, and nothing that never was.
void check_reached(const Live& live, u64 lane) {
  const Journal& journal = live.journal;
  const Lane& found = *live.world->lanes[lane];
  const auto check = [&](const char* what, u64 reached, u64 acknowledged) {
    require(reached >= acknowledged,
            "lane " + std::to_string(lane) + ": " + what + " " + std::to_string(acknowledged) +
                " was acknowledged, and the store has come to " + std::to_string(reached));
    require(reached == 0 || (reached < kActionsMax && journal.progress[reached] != Progress::kNone),
            "lane " + std::to_string(lane) + ": " + what + " " + std::to_string(reached) +
                " never was");
  };
  check("operation", found.operation, journal.acknowledged[lane].operation);
  require(!journal.is_rolled_back || found.operation == journal.acknowledged[lane].operation,
          "lane " + std::to_string(lane) + ": after a rollback it has come to operation " +
              std::to_string(found.operation));
  check("transaction", found.transaction, journal.acknowledged[lane].transaction);
}

/// Opening the session found what it should; the model goes on from there.
void take_up(Live& live, size_t session) {
  Journal& journal = live.journal;
  live.world = static_cast<World*>(live.store->get_root("world"));
  if (live.world == nullptr) {
    require(!journal.world_acknowledged, "the world was acknowledged, and is lost");
    try {
      make_world(live);
    } catch (const Error& error) {
      if (!live.expected(error)) throw;
      ::_exit(0);
    }
  } else {
    journal.world_acknowledged = true;  // what opening found stays
  }
  auto& record = journal.sessions[session];
  for (u64 lane = 0; lane < kLanes; ++lane) {
    check_reached(live, lane);
    record.found[lane].operation = live.world->lanes[lane]->operation;
    record.found[lane].transaction = live.world->lanes[lane]->transaction;
  }
  record.opened = true;
  journal.is_rolled_back = false;
  const Replayed replayed = replay(live.program, journal, session);
  require(replayed.problem.empty(), replayed.problem);
  for (u64 lane = 0; lane < kLanes; ++lane) {
    live.lanes.push_back({live, lane, replayed.lanes[lane], live.world->lanes[lane]});
    const LaneModel& model = replayed.lanes[lane];
    journal.done[lane].operation = model.operation;
    journal.done[lane].transaction = model.transaction;
  }
  find_parts(live);
  if (!live.session.at_once) {
    const std::string problem = compare_all(live);
    require(problem.empty(), "after opening: " + problem);
  }
  live.note_acknowledged();
}

void run_action(Live& live, const Action& action) {
  Journal& journal = live.journal;
  if (action_kind(action.kind).by_one_thread && live.session.parallel && action.lane != 0) return;
  journal.begin(action);
  try {
    action_kind(action.kind).run(live, live.lanes[action.lane], action);
  } catch (const Error& error) {
    // The first call that transactions are concerned with makes a block of theirs.
    if (error.code() == Code::kNoSpace && !action_kind(action.kind).has_steps &&
        live.program.options.region_limit_bytes == kSmallRegion) {
      journal.use(Feature::kFull);
      journal.progress[action.id] = Progress::kFailed;
      return;
    }
    if (!live.expected(error))
      throw Problem("action " + std::to_string(action.id) + ", " + action.kind +
                    ", threw: " + error.what());
    ++journal.failed_calls;
    // Whether it happened is open; what follows would build on it.
    if (action_kind(action.kind).has_steps) ::_exit(0);
    journal.progress[action.id] = Progress::kFailed;
    return;
  }
  if (journal.progress[action.id] == Progress::kFailed) return;
  journal.progress[action.id] = Progress::kDone;
  LaneModel& model = live.lanes[action.lane].model;
  if (action_kind(action.kind).covers) model.covered = model.operation;
}

void run_actions(Live& live) {
  const auto& actions = live.session.actions;
  if (!live.session.parallel) {
    for (const Action& action : actions) run_action(live, action);
    return;
  }
  live.journal.use(Feature::kParallel);
  std::vector<std::thread> threads;
  for (u64 lane = 0; lane < kLanes; ++lane)
    threads.emplace_back([&, lane] {
      try {
        for (const Action& action : actions)
          if (action.lane == lane) run_action(live, action);
      } catch (const std::exception& error) {
        live.journal.say(error.what());
        ::_exit(3);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

void note_configuration(const Live& live, size_t number) {
  Journal& journal = live.journal;
  const Statistics statistics = live.store->statistics();
  const Options& options = live.session.options;
  constexpr Feature kTrackers[] = {Feature::kOperation, Feature::kReported, Feature::kBitmap,
                                   Feature::kUserfault, Feature::kSigbus,   Feature::kProtect};
  journal.use(kTrackers[static_cast<u64>(statistics.tracking)]);
  constexpr Feature kEngines[] = {Feature::kRedoLog, Feature::kChunks, Feature::kCopies};
  journal.use(kEngines[static_cast<u64>(options.engine)]);
  journal.use(live.program.medium == "emu"         ? Feature::kEmulated
              : live.program.medium == "memcached" ? Feature::kMemcached
                                                   : Feature::kFile);
  if (options.aliases != 0) journal.use(Feature::kAliases);
  const bool is_staged =
      !reports_stores(options) && options.aliases == 0 && live.program.medium != "emu";
  if (options.capture == Capture::kBackground ||
      (options.capture == Capture::kAutomatic &&
       (is_staged ||
        (options.tracking == Tracking::kReported && options.engine == Engine::kRedoLog))))
    journal.use(Feature::kBackground);
  if (live.program.typed) journal.use(Feature::kTyped);
  if (options.region_address != 0 && number != 0) journal.use(Feature::kMoved);
  if (live.session.fault_at != 0) journal.use(Feature::kFault);
  if (number != 0)
    journal.use(journal.sessions[number - 1].closed ? Feature::kReopened : Feature::kRecovered);
}

/// They cannot be chosen while other threads run transactions.
void set_ways(Live& live) {
  const Session& session = live.session;
  if (!live.program.transactions() || session.full_disk ||
      live.program.options.region_limit_bytes == kSmallRegion)
    return;
  set_durability(*live.store, session.durability);
  live.durability = session.durability;
  set_logging(*live.store, session.logging);
  if (session.logging == Logging::kUndo) live.journal.use(Feature::kUndoLogging);
}

class Thrown {};

/// Returns whether it ended as it should.
bool close(Live& live, Store& store) {
  if (live.session.end == End::kUnwind) {
    const Store dropped = std::move(store);
  } else if (live.session.end == End::kThrow) {
    try {
      const Store dropped = std::move(store);
      throw Thrown{};
    } catch (const Thrown&) {
    }
  } else {
    try {
      store.close();
    } catch (const Error& error) {
      if (!live.expected(error)) throw Problem(std::string("close threw: ") + error.what());
      ++live.journal.failed_calls;
      return false;
    }
  }
  return (live.session.fault_at == 0 && live.has_room) || live.faults->fired() == 0;
}

/// What is stored behind it must not be acknowledged: it would go with the process.
[[noreturn]] void delete_file(Live& live) {
  if (!live.journal.is_kept) ::_exit(0);
  live.journal.use(Feature::kDeletedFile);
  require(::unlink(live.uri.substr(live.uri.find(':') + 1).c_str()) == 0, "cannot delete the file");
  {
    const auto operation = live.store->operation();
    u64& scratch = live.world->lanes[0]->awaited.scratch;
    operation.touch(&scratch, sizeof scratch);
    ++scratch;
  }
  try {
    live.store->checkpoint();
  } catch (const Error& error) {
    require(error.code() == Code::kIo,
            std::string("a checkpoint into a deleted file threw: ") + error.what());
    ::_exit(0);
  }
  throw Problem("a checkpoint into a deleted file was acknowledged");
}

/// Nothing grows until an action makes room.
void fill_disk(Live& live) {
  live.has_room = false;
  live.faults->arm(
      {.calls = media::kFaultGrow, .kind = media::FaultKind::kNoSpace, .for_ever = true});
}

void end(Live& live, Store& store) {
  Journal& journal = live.journal;
  const Session& session = live.session;
  if (session.end == End::kExit || session.end == End::kMediumCall) ::_exit(0);
  if (session.end == End::kTime) ::pause();
  if (session.end == End::kDeleted) delete_file(live);
  const Done done = live.done();
  close_guest(live);
  close_shared(live);
  const bool closed = close(live, store);
  if (closed && session.end != End::kThrow) {
    live.acknowledge(done);
    journal.sessions[live.number()].closed = true;
  } else if (closed && live.durability != Durability::kNone) {
    // Without a last version; transactions that returned are as durable as they ever get.
    for (u64 lane = 0; lane < kLanes; ++lane)
      live.acknowledge_transaction(lane, live.transactions_done(lane));
  }
  if (session.end == End::kPower) cut_power(live);
}

}  // namespace

void run_session(const Program& program, size_t number, const std::string& uri, Journal& journal) {
  const Session& session = program.sessions[number];
  prepare(program, number, uri, journal);
  media::FaultPlan faults;
  media::Recording recording;
  Live live{program, session, journal};
  live.faults = &faults;
  live.uri = uri;
  if (session.end == End::kPower) live.recording = &recording;
  test::KillingMedium::Count calls_left{session.end == End::kMediumCall
                                            ? static_cast<std::int64_t>(session.end_at)
                                            : std::int64_t{0}};
  detail::InternalOptions internal;
  internal.wrap = [&](std::unique_ptr<media::Medium> inner) -> std::unique_ptr<media::Medium> {
    if (session.end == End::kMediumCall)
      inner = std::make_unique<test::KillingMedium>(std::move(inner), calls_left);
    if (session.end == End::kPower) inner = recording.wrap(std::move(inner));
    return faults.wrap(std::move(inner));
  };
  if (session.full_disk) fill_disk(live);
  auto runtime = detail::Runtime::open(uri, session.options, internal);
  if (!runtime && !live.has_room && !journal.world_acknowledged &&
      runtime.failure().code == Code::kNoSpace)
    ::_exit(0);  // there was nothing yet
  // Some kernels have a tracker for some memory only.
  if (!runtime && runtime.failure().code == Code::kUnsupported) ::_exit(0);
  if (!runtime) throw Problem("opening: " + runtime.failure().message);
  Store store = detail::StoreAccess::store(std::move(*runtime));
  live.store = &store;
  take_up(live, number);
  note_configuration(live, number);
  if (session.full_disk) journal.use(Feature::kFullDisk);
  set_ways(live);
  if (session.fault_at != 0) faults.arm({.calls = session.fault_calls, .nth = session.fault_at});
  run_actions(live);
  // What throws has no time for it: behind the last action nothing is flushed in the background.
  if (session.fault_at == 0 && session.end != End::kThrow) {
    const std::string problem = compare_all(live);
    require(problem.empty(), "at the end: " + problem);
  }
  end(live, store);
}

}  // namespace perdura::model
