// Goal: whatever a program does with its objects, with whichever options, they are what a model in
// ordinary memory says, call by call; opened again in order they are as they were, and after the
// death of the process a prefix of their calls, which has each that was answered. Those that keep
// all calls answer what is called again. So it is where they move to an overflow store and come
// home, move away from places that are worn, get other sizes, are shared by processes, and say
// which build wrote their logs, in one history; what the library does not let meet it refuses, and
// all is as it was. No space is lost.
// Method: 10,000 histories drawn from a seed (PERDURA_OBJECT_HISTORIES changes how many, a slice
// draws fewer; PERDURA_SEED repeats a run), of several objects and sessions each, one after the
// other in stores of either medium, some of which have little space and an overflow store. What the
// process has in memory is dropped where it dies. Copies of objects are damaged between sessions,
// and builds that heads say are forged. A second process shares objects in some of the histories,
// and is killed, or goes on when this one has ended.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <thread>

#include "campaign/object_fellow.hpp"
#include "format/object_format.hpp"
#include "logged_objects.hpp"
#include "object/object_build.hpp"
#include "object/object_space.hpp"
#include "store/inspect.hpp"
#include "support/files.hpp"
#include "support/slice.hpp"

namespace perdura::proof {
namespace {

constexpr u64 kStoresOf = 25;  // histories
constexpr u32 kFellowLane = kLanes - 1;
constexpr size_t kMethods = 7;
constexpr size_t kFirstMethods = 3;  // of a program that has fewer of them
constexpr const char* kNames[] = {"a", "b", "c", "d", "e"};

/// That histories have one after the other.
struct Stores {
  std::string path;
  bool is_file;
  bool is_limited;  ///< few objects have space; the others need an overflow store

  std::string uri() const { return (is_file ? "file:" : "emu:") + path; }
  std::string overflow_path() const { return path + ".overflow"; }
  std::string overflow() const { return "file:" + overflow_path(); }
  u64 bytes_max() const { return is_limited ? (is_file ? 48 : 32) * kPageBytes : 0; }
  void remove() const {
    std::filesystem::remove(path);
    std::filesystem::remove(overflow_path());
  }
};

/// What a history knows of an object that is there.
struct Known {
  ObjectState state;
  ObjectHistory history;
  size_t methods;  ///< that programs had which opened it
  bool is_damaged = false;
  /// Entries of another build wait in its log, as far as its heads say.
  bool waits_for_another = false;
};

/// How often what has been drawn in all histories.
struct Counts {
  u64 moved_out = 0;
  u64 moved_home = 0;
  u64 moved_for_wear = 0;
  u64 resized = 0;
  u64 had_no_room = 0;
  u64 shared = 0;         ///< sessions
  u64 fellow_calls = 0;   ///< that the second process made
  u64 fellow_stayed = 0;  ///< and had the objects when this one ended
  u64 damaged = 0;
  u64 refused_for_build = 0;
};

std::runtime_error wrong(const std::string& what) { return std::runtime_error(what); }

class History {
 public:
  History(Stores stores, u64 seed, Counts& counts)
      : stores_(std::move(stores)),
        random_(seed),
        counts_(counts),
        objects_([this] { return now_; }, false) {}

  /// Throws where something is not as it has to be.
  void run() {
    in_order_ = draw(4) != 0;
    shares_ = draw(3) == 0;
    levels_ = draw(2) == 0;
    has_builds_ = draw(3) == 0;
    does_what_waits_ = draw(12) == 0;
    for (u64 sessions = 1 + draw(5); sessions != 0; --sessions) {
      refuse_openings();
      const ObjectsOptions options = draw_session();
      if (options.shared && !in_order_ && !fellow_)
        fellow_ = std::make_unique<ObjectFellow>(stores_.uri());
      open(options);
      for (u64 actions = draw(12); actions != 0; --actions) act();
      end_session(draw(2) == 0);
    }
    leave_nothing();
  }

 private:
  using Handle = LoggedObjects::Handle;
  using Made = LoggedObject::Made;

  u64 draw(u64 below) { return random_() % below; }
  u32 lane() { return static_cast<u32>(draw(kLanes)); }

  // --- sessions

  ObjectsOptions session(bool with_overflow) const {
    ObjectsOptions options;
    options.bytes_max = stores_.bytes_max();
    if (with_overflow) options.overflow = stores_.overflow();
    return options;
  }

  ObjectsOptions draw_session() {
    const bool shared = fellow_ || (shares_ && !needs_overflow_ && draw(3) != 0);
    ObjectsOptions options =
        session(!shared && stores_.is_limited && (needs_overflow_ || draw(8) != 0));
    options.shared = shared;
    if (levels_) options.wear_moves = 1 + draw(4);
    return options;
  }

  void open(const ObjectsOptions& options) {
    objects_.open(stores_.uri(), options, {}, {});
    session_ = options;
    counts_.shared += options.shared ? 1 : 0;
  }

  template <class Body>
  void expect_refused(Code code, const char* what, const Body& body) const {
    try {
      body();
    } catch (const Error& error) {
      if (error.code() == code) return;
      throw wrong(std::string(what) + " is refused otherwise: " + error.what());
    }
    throw wrong(std::string(what) + " is not refused");
  }

  // Who is refused has changed nothing, and made nothing.
  void refuse_openings() {
    if (draw(5) != 0) return;
    const auto refuse = [&](Code code, const char* what, const ObjectsOptions& options) {
      expect_refused(code, what,
                     [&] { value_or_throw(detail::ObjectsRuntime::open(stores_.uri(), options)); });
    };
    if (fellow_has_store_) return refuse(Code::kLocked, "what others share", session(false));
    ObjectsOptions options = session(true);
    options.shared = true;
    refuse(Code::kUnsupported, "an overflow store of processes", options);
    options = session(false);
    options.overflow = stores_.uri();
    refuse(Code::kInvalidArgument, "an overflow store that is the store", options);
    if (!is_away_) return;
    options = session(false);
    options.shared = draw(2) == 0;
    refuse(Code::kMisuse, "a store alone, objects of which are away", options);
    options.shared = false;
    options.overflow = stores_.overflow() + ".another";
    refuse(Code::kMisuse, "another overflow store", options);
    if (std::filesystem::exists(stores_.overflow_path() + ".another"))
      throw wrong("who is refused has made an overflow store");
  }

  // The second process ends before, with or after this one, or not at all.
  void end_session(bool in_order) {
    const u64 fate = draw(6);
    if (fellow_ && fate == 0) kill_fellow();
    if (fellow_ && fate == 1) close_fellow();
    end_own_session(in_order);
    if (fellow_ && fate == 2) kill_fellow();
    if (fellow_has_store_) ++counts_.fellow_stayed;
    const std::vector<std::string> open = may_be_damaged();
    opened_.clear();
    if (fellow_has_store_) return;
    if (!open.empty() && draw(4) == 0) damage(open[draw(open.size())]);
    if (draw(6) == 0) look_at_stores();
    if (has_builds_ && draw(2) == 0) forge_builds();
    const auto is_damaged = [](const auto& each) { return each.second.is_damaged; };
    needs_overflow_ = stores_.is_limited && (is_away_ || std::ranges::any_of(there_, is_damaged));
  }

  void end_own_session(bool in_order) {
    is_away_ = false;
    for (const ObjectDescription& each : value_or_throw(objects_.runtime().list())) {
      if (!each.in_overflow) continue;
      is_away_ = true;
      there_.at(each.name).is_damaged = false;  // from what stood in for its copy
    }
    // What waits for one that stays away does so until it is closed.
    for (const auto& [name, handle] : opened_)
      there_.at(name).waits_for_another &= !in_order && handle->open().core().is_away() &&
                                           handle->open().core().head().log_place != 0;
    space_ = objects_.runtime().space();
    const ObjectMoves moves = value_or_throw(objects_.runtime().moves());
    counts_.moved_out += moves.out;
    counts_.moved_home += moves.home;
    counts_.moved_for_wear += moves.worn;
    if (in_order) objects_.close();
    else objects_.abandon();
  }

  // The other copy, and the log, have all; but for calls that are done before they are durable.
  std::vector<std::string> may_be_damaged() {
    std::vector<std::string> open;
    for (const LoggedObject& each : objects_.end_session())
      if (each.gone_by == LoggedObject::kNever && opened_.contains(each.name) &&
          each.options.durability != ObjectDurability::kRelaxed && each.options.servers != 0)
        open.push_back(each.name);
    return open;
  }

  template <class Body>
  void each_described(const Body& body) const {
    const store::Description found = value_or_throw(store::describe(stores_.uri(), {}));
    for (const store::RegionDescription& region : found.regions)
      for (const store::ObjectDescription& each : *region.objects) body(each);
  }

  void damage(const std::string& name) {
    each_described([&](const store::ObjectDescription& each) {
      if (each.name != name || each.overflow_store != 0) return;
      test::flip_bit(stores_.path, each.copy_place + draw(32), static_cast<unsigned>(draw(8)));
      there_.at(name).is_damaged = true;
      ++counts_.damaged;
    });
  }

  // As `perdura check` does. The heads must lead to the space that the session knew.
  void look_at_stores() {
    const bool has_overflow = std::filesystem::exists(stores_.overflow_path());
    const store::CheckReport report = value_or_throw(store::check(
        stores_.uri(), {}, store::no_progress, has_overflow ? stores_.overflow() : ""));
    const auto damaged =
        std::ranges::count_if(there_, [](const auto& each) { return each.second.is_damaged; });
    const auto found = std::ranges::count(report.findings, store::Finding::Severity::kDamage,
                                          &store::Finding::severity);
    if (found != damaged)
      throw wrong(std::to_string(damaged) + " objects are damaged, check finds " +
                  std::to_string(found) +
                  (report.findings.empty() ? "" : ": " + report.findings.front().message));
    u64 taken = 0;
    for (const store::RegionDescription& region : report.description->regions)
      for (const store::ObjectDescription& each : *region.objects) taken += taken_by(each);
    if (space_.bytes - taken != space_.free_bytes)
      throw wrong("a session knows of " + std::to_string(space_.free_bytes) +
                  " bytes that are free, and " + std::to_string(space_.bytes - taken) + " are");
  }

  // Of its store.
  static u64 taken_by(const store::ObjectDescription& object) {
    const u64 names = kPageBytes;
    if (object.overflow_store != 0) return names;
    return names + 2 * object::pages_bytes(object.copy_bytes) + object.log_bytes +
           object.archive_bytes;
  }

  // Heads say that the entries behind them are another build's.
  void forge_builds() {
    std::fstream file(stores_.path, std::ios::binary | std::ios::in | std::ios::out);
    each_described([&](const store::ObjectDescription& each) {
      Known& known = there_.at(each.name);
      if (!each.content || known.is_damaged) return;
      for (u64 slot = 0; slot < 2; ++slot)
        forge_build(file, each.head_place + slot * format::kObjectHeadBytes);
      known.waits_for_another = each.content->new_entries != 0;
    });
  }
  static void forge_build(std::fstream& file, u64 slot) {
    format::ObjectHead head{};
    file.seekg(static_cast<std::streamoff>(slot));
    file.read(reinterpret_cast<char*>(&head), sizeof head);
    if (head.magic != format::kObjectMagic) return;
    const format::ObjectBuild build =
        object::build_behind(head, object::build_named(4711, "that is another one"));
    file.seekp(static_cast<std::streamoff>(slot + format::kObjectBuildOffset));
    file.write(reinterpret_cast<const char*>(&build), sizeof build);
  }

  // For the next history. Some are removed by who has not opened them.
  void leave_nothing() {
    if (fellow_has_store_ && draw(2) == 0) close_fellow();
    if (fellow_) kill_fellow();
    open(session(stores_.is_limited));
    const auto there = there_;
    for (const auto& [name, known] : there) {
      if (draw(2) == 0) (void)object(name);
      remove(name);
    }
    if (!value_or_throw(objects_.runtime().list()).empty())
      throw wrong("removed objects are there");
    for (const auto& space : {objects_.runtime().space(), objects_.runtime().overflow_space()})
      if (space.free_bytes != space.bytes)
        throw wrong(std::to_string(space.bytes - space.free_bytes) +
                    " bytes are nobody's when all objects are removed, and not free");
    end_session(true);
  }

  // --- the second process

  bool fellow_has(const std::string& name) const {
    return fellow_ && fellow_->chosen(name) != nullptr;
  }

  void kill_fellow() {
    if (const std::string problem = fellow_->kill(); !problem.empty()) throw wrong(problem);
    fellow_.reset();
    fellow_has_store_ = false;
  }

  void close_fellow() {
    if (fellow_has_store_) fellow_->close();
    fellow_has_store_ = false;
  }

  // It opens what this one has open.
  void let_fellow_have(const Handle& handle) {
    const LoggedObject& object = handle.object();
    if (!fellow_has_store_) fellow_->open_store();
    fellow_has_store_ = true;
    if (fellow_has(object.name)) return;
    ObjectOptions with = object.options;
    if (draw(4) == 0) {
      with.durability = static_cast<ObjectDurability>((static_cast<u64>(with.durability) + 1) % 4);
      expect_refused(Code::kInvalidArgument, "another durability of what is shared",
                     [&] { fellow_->object(object.name, object.state, with); });
    }
    with = object.options;
    with.checkpoint_calls = 1 + draw(20);
    fellow_->object(object.name, object.state, with);
  }

  void let_fellow_call(const std::vector<Handle*>& handles, std::mt19937_64& values) {
    for (u64 calls = values() % 20; calls != 0; --calls) {
      Handle& handle = *handles[values() % handles.size()];
      const Made made = made_of(handle, kFellowLane, values());
      handle.log(made, [&] { return fellow_->call(handle.object().name, made); });
      ++counts_.fellow_calls;
    }
  }

  // --- objects

  ObjectOptions options(const Known& known) {
    constexpr u64 kCheckpointCalls[] = {1, 3, 10, 1000, ~u64{0}};
    constexpr u32 kServers[] = {0, 1, 2, 64};
    constexpr u32 kPendingLines[] = {1, 7, 512, ~u32{0}};
    constexpr u32 kCallers[] = {4, 16};
    ObjectOptions options;
    // On a disk a page more than the longest entry.
    options.log_bytes = (stores_.is_file ? u64{8192} : u64{4096}) << draw(3);
    options.checkpoint_calls = kCheckpointCalls[draw(std::size(kCheckpointCalls))];
    options.durability = static_cast<ObjectDurability>(draw(4));
    options.pending_lines = kPendingLines[draw(std::size(kPendingLines))];
    options.servers = kServers[draw(std::size(kServers))];
    options.callers = kCallers[draw(std::size(kCallers))];
    options.history = known.history;
    options.archive_bytes = stores_.is_limited || draw(4) == 0 ? 16 << 10 : 1 << 20;
    options.verify_replay = draw(4) == 0;
    options.same_build = has_builds_ && draw(2) == 0;
    if (does_what_waits_) options.pending_ms = static_cast<u32>(draw(2));
    if (known.state == ObjectState::kFlexible && draw(2) == 0)
      options.bytes = type_of(known.state).bytes + draw(600) * sizeof(u64);
    return options;
  }

  Known draw_object() {
    constexpr ObjectState kStates[] = {
        ObjectState::kSmall,    ObjectState::kSmall,    ObjectState::kSmall,
        ObjectState::kLarge,    ObjectState::kLarge,    ObjectState::kReporting,
        ObjectState::kFlexible, ObjectState::kFlexible, ObjectState::kFlexible};
    constexpr ObjectHistory kHistories[] = {ObjectHistory::kNone, ObjectHistory::kNone,
                                            ObjectHistory::kLast, ObjectHistory::kAll};
    return {.state = kStates[draw(std::size(kStates))],
            .history = kHistories[draw(std::size(kHistories))],
            .methods = draw(8) == 0 ? kFirstMethods : kMethods};
  }

  // nullptr: it is refused.
  Handle* object(const std::string& name) {
    if (const auto open = opened_.find(name); open != opened_.end()) return open->second;
    const bool is_new = !there_.contains(name);
    Known known = is_new ? draw_object() : there_.at(name);
    if (!is_new && draw(2) == 0) known.methods = kMethods;
    ObjectOptions with = options(known);
    if (fellow_has(name)) {
      if (!is_new) objects_.note_all_told(name);  // it has all, and has had since
      const ObjectOptions& chosen = *fellow_->chosen(name);
      with.durability = chosen.durability;
      with.same_build = chosen.same_build;
      if ((with.servers == 0) != (chosen.servers == 0)) with.servers = chosen.servers;
    }
    const std::optional<Code> refused =
        session_.shared && known.history == ObjectHistory::kAll ? std::optional(Code::kUnsupported)
        : with.same_build && known.waits_for_another            ? std::optional(Code::kIncompatible)
                                                                : std::nullopt;
    Handle* handle = nullptr;
    try {
      handle = &objects_.object(name, with, known.state, known.methods);
    } catch (const Error& error) {
      if (error.code() != refused && !is_for_want_of_room(error, name)) throw;
      counts_.refused_for_build += error.code() == Code::kIncompatible ? 1 : 0;
      return nullptr;
    }
    if (refused) throw wrong("object '" + name + "' is opened, and must not be");
    known.is_damaged = false;
    known.waits_for_another = known.waits_for_another && handle->open().core().is_away();
    there_.insert_or_assign(name, known);
    opened_.emplace(name, handle);
    if (is_new && !in_order_) {
      objects_.let_threads_call(name);
      handle->object().merges = true;
    }
    return handle;
  }

  // Where one thread calls, all that could have moved out has.
  bool is_for_want_of_room(const Error& error, const std::string& name) const {
    if (error.code() != Code::kNoSpace) return false;
    const auto known = there_.find(name);
    if (known != there_.end() && known->second.history == ObjectHistory::kAll &&
        std::string_view(error.what()).starts_with("the archive of object"))
      return true;
    if (!stores_.is_limited) return false;
    if (!in_order_ || session_.overflow.empty()) return true;
    for (const ObjectDescription& each : value_or_throw(objects_.runtime().list()))
      if (!each.in_overflow && each.name != name && !there_.at(each.name).is_damaged &&
          there_.at(each.name).history != ObjectHistory::kAll)
        throw wrong("object '" + each.name + "' could move out, and '" + name +
                    "' has no space: " + error.what());
    return true;
  }

  void remove(const std::string& name) {
    if (!there_.contains(name))
      return expect_refused(Code::kNotFound, "removing what is not there",
                            [&] { value_or_throw(objects_.runtime().remove(name)); });
    if (opened_.contains(name) || fellow_has(name))
      expect_refused(Code::kMisuse, "removing what somebody has open",
                     [&] { value_or_throw(objects_.runtime().remove(name)); });
    if (fellow_has(name)) return;
    objects_.remove(name);
    opened_.erase(name);
    there_.erase(name);
  }

  // --- what is done to them

  void act() {
    ++now_;
    const std::string name = kNames[draw(stores_.is_limited ? std::size(kNames) : 3)];
    if (draw(16) == 0) return remove(name);
    if (draw(16) == 0) return refuse_object(name);
    if (fellow_ && draw(16) == 0) return kill_fellow();
    Handle* const handle = object(name);
    if (handle == nullptr) return;
    switch (draw(8)) {
      case 0:
        return handle->sync();
      case 1:
        return void(handle->checkpoint());
      case 2:
      case 3:
        if (handle->object().state == ObjectState::kFlexible) return resize(*handle);
        break;
      default:
        break;
    }
    if (draw(4) == 0) handle->look();
    if (!in_order_) return call_in_threads(*handle);
    for (u64 calls = draw(40); calls != 0; --calls)
      if (!call(*handle, lane(), random_())) break;
    counts_.had_no_room += calls_without_room_.exchange(0);
  }

  // Options that are none, and another type.
  void refuse_object(const std::string& name) {
    ObjectOptions with;
    const auto refuse = [&](Code code, const char* what, ObjectState state) {
      expect_refused(code, what, [&] {
        value_or_throw(objects_.runtime().object(name, type_of(state), with));
      });
    };
    if (there_.contains(name))
      return refuse(
          Code::kTypeMismatch, "another type",
          there_.at(name).state == ObjectState::kSmall ? ObjectState::kLarge : ObjectState::kSmall);
    with.bytes = 4096;
    refuse(Code::kInvalidArgument, "another size of a state that has one", ObjectState::kSmall);
    with.bytes = 8;
    refuse(Code::kInvalidArgument, "less than a state", ObjectState::kFlexible);
    with = {.log_bytes = 5000};
    refuse(Code::kInvalidArgument, "a log of any size", ObjectState::kSmall);
    with = {.history = ObjectHistory::kLast, .callers = 3};
    refuse(Code::kInvalidArgument, "a history of any size", ObjectState::kSmall);
  }

  void resize(Handle& handle) {
    const u64 state = type_of(handle.object().state).bytes;
    const u64 words = draw(3) == 0 ? 0 : draw(1500);
    const auto refuse = [&](Code code, const char* what, u64 bytes) {
      expect_refused(code, what, [&] { detail::object_resize(handle.open(), bytes, state); });
    };
    if (draw(8) == 0) {
      refuse(Code::kInvalidArgument, "less than the state", state - 1);
      refuse(Code::kInvalidArgument, "more than an object has", format::kObjectBytesMax + 1);
    }
    if (session_.shared)
      return refuse(Code::kUnsupported, "resizing what is shared", state + words * sizeof(u64));
    const std::string& name = handle.object().name;
    if (handle.resize_unless(words,
                             [&](const Error& error) { return is_for_want_of_room(error, name); }))
      ++counts_.resized;
    else ++counts_.had_no_room;
  }

  static Method draw_method(u64 value, bool in_order) {
    switch (value % 16) {
      case 0:
        return Method::kPutLong;
      case 1:
        return Method::kPutLonger;
      case 2:
      case 3:
        return Method::kTell;
      case 4:
        return in_order ? Method::kChurn : Method::kPut;
      case 5:
        return in_order ? Method::kStir : Method::kTell;
      case 6:
      case 7:
      case 8:
      case 9:
        return Method::kAdd;
      default:
        return Method::kPut;
    }
  }

  Made made_of(const Handle& handle, u32 lane, u64 value) const {
    Method method = draw_method(value, in_order_);
    if (static_cast<size_t>(method) >= there_.at(handle.object().name).methods)
      method = Method::kPut;
    if (method == Method::kStir || method == Method::kChurn) lane = 0;
    return {method, lane, value, 0};
  }

  // False where it has no room: then most others have none.
  bool call(Handle& handle, u32 lane, u64 value) {
    const std::string& name = handle.object().name;
    const Made made = made_of(handle, lane, value);
    if (!stores_.is_limited && handle.object().options.history != ObjectHistory::kAll) {
      handle.log(made);
      return true;
    }
    const bool is_made = handle.log_unless(
        made, [&](const Error& error) { return is_for_want_of_room(error, name); });
    if (!is_made) ++calls_without_room_;
    return is_made;
  }

  // Of that one and others: where they have too little space they change places meanwhile.
  void call_in_threads(Handle& first) {
    std::vector<Handle*> handles = {&first};
    for (u64 more = draw(3); more != 0; --more)
      if (Handle* const other = object(kNames[draw(3)]); other != nullptr) handles.push_back(other);
    if (fellow_)
      for (const Handle* const each : handles) let_fellow_have(*each);
    std::vector<std::thread> threads;
    std::array<std::exception_ptr, kLanes> failures;
    for (u32 lane = 0; lane < (fellow_ ? kLanes : kFellowLane); ++lane)
      threads.emplace_back([this, &handles, &failures, lane, seed = random_()] {
        std::mt19937_64 values(seed);
        try {
          if (lane == kFellowLane) return let_fellow_call(handles, values);
          for (u64 calls = values() % 30; calls != 0; --calls)
            if (!call(*handles[values() % handles.size()], lane, values())) break;
        } catch (...) {
          failures[lane] = std::current_exception();
        }
      });
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& each : failures)
      if (each) std::rethrow_exception(each);
    if (draw(4) == 0)
      for (Handle* const each : handles) each->look();
    counts_.had_no_room += calls_without_room_.exchange(0);
  }

  const Stores stores_;
  std::mt19937_64 random_;
  Counts& counts_;
  std::atomic<u64> calls_without_room_{0};
  u64 now_ = 0;
  // What is drawn for all of the history.
  bool in_order_ = true;          ///< one thread calls
  bool shares_ = false;           ///< in some sessions
  bool levels_ = false;           ///< wear
  bool has_builds_ = false;       ///< of programs, that are not to be mixed or are
  bool does_what_waits_ = false;  ///< in some objects, by a thread of the library
  LoggedObjects objects_;
  std::map<std::string, Known> there_;
  std::map<std::string, Handle*> opened_;  ///< in this session
  ObjectsOptions session_;
  std::unique_ptr<ObjectFellow> fellow_;
  bool fellow_has_store_ = false;
  detail::ObjectsRuntime::Space space_{};  ///< when the last session ended
  bool is_away_ = false;                   ///< some object, when the last session ended
  bool needs_overflow_ = false;            ///< the next session
};

TEST(ObjectHistories, AreThoseOfTheModel) {
  const auto number = [](const char* name, u64 otherwise) {
    const char* text = std::getenv(name);
    return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
  };
  const u64 histories =
      number("PERDURA_OBJECT_HISTORIES", test::slice_or_whole(400, 10'000) / test::kSlower);
  const u64 first = number("PERDURA_SEED", std::random_device{}());
  std::printf("PERDURA_SEED=%lu\n", first);
  const test::TempDir folder(test::TempDir::kMemory);
  Counts counts;
  for (u64 i = 0; i < histories; ++i) {
    const u64 seed = first + i;
    const u64 store = first + i / kStoresOf;
    const Stores stores{
        .path = folder.path("objects.pd"), .is_file = store % 4 == 0, .is_limited = store % 3 != 0};
    // A run from any seed on begins with a store that is new.
    if (i % kStoresOf == 0) stores.remove();
    try {
      History(stores, seed, counts).run();
    } catch (const std::exception& error) {
      FAIL() << "history " << seed << ", the " << i % kStoresOf + 1
             << "th of its store: " << error.what();
    }
  }
  const std::pair<const char*, u64> met[] = {{"moved out", counts.moved_out},
                                             {"came home", counts.moved_home},
                                             {"moved for wear", counts.moved_for_wear},
                                             {"resized", counts.resized},
                                             {"had no room", counts.had_no_room},
                                             {"shared sessions", counts.shared},
                                             {"calls of a second process", counts.fellow_calls},
                                             {"sessions that it outlived", counts.fellow_stayed},
                                             {"damaged", counts.damaged},
                                             {"refused for their build", counts.refused_for_build}};
  for (const auto& [what, count] : met) {
    std::printf("%s: %lu\n", what, count);
    EXPECT_TRUE(count != 0 || histories < 400) << what;
  }
}

}  // namespace
}  // namespace perdura::proof
