// The objects that a process has open of a region of objects.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <perdura/objects.hpp>

#include "base/process.hpp"
#include "model/object/program_build.hpp"
#include "object/object_core.hpp"
#include "object/object_table.hpp"
#include "store/shared_volume.hpp"

namespace perdura::detail {

/// By whose number this thread calls (perdura::Caller, pthread_create_simpo); 0: nobody's.
extern constinit thread_local std::uint32_t current_caller;

class ObjectsRuntime;
class OpenObject;

/// How an open object, which may outlive them, finds the objects that it is one of.
class RuntimeLink {
 public:
  explicit RuntimeLink(ObjectsRuntime& runtime) : runtime_(&runtime) {}
  /// They are not closed meanwhile. kMisuse where they are.
  Status resize(OpenObject& object, u64 bytes);
  /// The object moves, if it is worn and nobody else is about to move any.
  void level(OpenObject& object);
  /// They are about to be closed; whoever uses them is waited for.
  void cut();

 private:
  std::mutex mutex_;
  ObjectsRuntime* runtime_;
  const u64 generation_ = process_generation();
};

/// An object that is open, and which of its durable functions the program's methods are.
class OpenObject {
 public:
  /// `runtime`: whose object it is.
  OpenObject(std::vector<u16> functions, std::chrono::milliseconds pending,
             std::shared_ptr<RuntimeLink> runtime)
      : functions_(std::move(functions)), pending_(pending), runtime_(std::move(runtime)) {}
  /// Once, before anything else. `block`: of the memory that processes share, if they do.
  void begin(std::unique_ptr<object::ObjectCore> core, u32 block) noexcept {
    core_ = std::move(core);
    block_ = block;
  }

  object::ObjectCore& core() { return *core_; }
  /// How long deferred calls may wait; 0: until somebody needs them.
  std::chrono::milliseconds pending() const { return pending_; }
  u32 block() const { return block_; }
  Status resize(u64 bytes) { return runtime_->resize(*this, bytes); }
  /// After each call, by who has called.
  void level() {
    if (core_->is_worn()) [[unlikely]]
      runtime_->level(*this);
  }

  // --- under the runtime's lock: how long ago it was called, as who looks now and then can tell
  /// It was called since this was asked last.
  bool was_called() { return std::exchange(called_, core_->called()) != core_->called(); }
  u64 last_look() const { return last_look_; }
  void set_last_look(u64 look) { last_look_ = look; }
  /// It has come home, and as far as is known here a copy in the overflow store stands in for one.
  bool has_stand_in() const { return has_stand_in_; }
  void set_has_stand_in(bool has) { has_stand_in_ = has; }

  bool has(size_t method) const { return method < functions_.size(); }
  object::Call call_of(size_t method, std::uint32_t potid, Domain domain,
                       std::span<const std::byte> context) const {
    return {.function = functions_[method],
            .potid = potid,
            .domain = static_cast<std::int32_t>(domain),
            .context = context};
  }

 private:
  std::unique_ptr<object::ObjectCore> core_;
  const std::vector<u16> functions_;
  const std::chrono::milliseconds pending_;
  u32 block_ = 0;
  const std::shared_ptr<RuntimeLink> runtime_;
  u64 called_ = 0;
  u64 last_look_ = 0;  ///< that found that it had been called
  bool has_stand_in_ = false;
};

/// Thread-safe.
class ObjectsRuntime : private object::Residence {
 public:
  using OpenMedium = std::function<Result<std::unique_ptr<media::Medium>>()>;
  /// `open_medium`, `open_overflow`: what to open instead of what the URIs name, where this process
  /// has not opened that.
  static Result<std::unique_ptr<ObjectsRuntime>> open(std::string_view uri,
                                                      const ObjectsOptions& options,
                                                      const OpenMedium& open_medium = {},
                                                      const OpenMedium& open_overflow = {});
  ~ObjectsRuntime() override;
  ObjectsRuntime(const ObjectsRuntime&) = delete;

  Result<std::shared_ptr<OpenObject>> object(std::string_view name, const ObjectType& type,
                                             const ObjectOptions& options);
  /// Of its state; nothing where there is none of this name.
  Result<std::optional<u64>> state_bytes(std::string_view name) const;
  /// One that is open: its state is the same, or as much of it, and zeros.
  /// Where it fails, and calls of it do not, nothing has changed.
  Status resize(std::string_view name, u64 bytes);
  /// Of one that is open and worn: it moves to where less was written, if it can. Where that fails
  /// in writing its calls fail.
  void level(OpenObject& object);
  Status remove(std::string_view name);
  Result<std::vector<ObjectDescription>> list();
  Result<ObjectMoves> moves() const;
  /// Of the store, or of the overflow store: what objects have had of it at any time, and so much
  /// of that nobody has now. Zeros where there is no overflow store. For tests.
  struct Space {
    u64 bytes;
    u64 free_bytes;
  };
  Space space() const;
  Space overflow_space() const;
  Result<std::uint64_t> recorded(std::uint32_t potid) const;
  Status close();
  /// Of the store.
  const std::string& name() const { return name_; }
  /// The end that the death of the process is: nothing more becomes durable. Nobody calls any more.
  void abandon();

 private:
  /// Where processes share the objects, one that opens, makes or removes some is alone with that.
  /// Taken before the mutex: whoever has this may wait for other processes, who need theirs.
  using Turn = store::SharedMemory::Turn;

  ObjectsRuntime() = default;
  static Result<std::unique_ptr<store::SharedVolume>> open_store(std::string_view uri,
                                                                 const ObjectsOptions& options,
                                                                 const OpenMedium& open_medium);
  Status open_region(const ObjectsOptions& options, const OpenMedium& open_overflow);
  Status require_not_forked() const;
  Failure are_closed() const;
  Status require_open() const;
  Status catch_up();
  void note_change();
  Result<format::ObjectOwner> owner_of(const object::ObjectTable::Entry& entry) const;
  template <class Done>
  Done noting_heads(Done&& done);
  Result<std::shared_ptr<OpenObject>> open_found(const object::ObjectTable::Entry& entry,
                                                 const ObjectType& type,
                                                 const ObjectOptions& options);
  Result<std::shared_ptr<OpenObject>> join(u32 block, const object::ObjectTable::Entry& entry,
                                           const ObjectType& type, const ObjectOptions& options);
  Result<std::shared_ptr<OpenObject>> join_named(u32 block, const object::ObjectTable::Entry& entry,
                                                 const std::vector<std::string>& names,
                                                 const ObjectType& type,
                                                 const ObjectOptions& options);
  Status write_more_names(const std::vector<std::string>& names,
                          const object::ObjectTable::Entry& entry, object::ObjectTable::Entry& now);
  Status name_more(u32 block, const format::ObjectHead& head,
                   const object::ObjectTable::Entry& entry, object::ObjectCore& core);
  Status have_others_let_go(std::string_view name);
  void answer_who_removes();
  Status close_for_removal(object::ObjectTable::Entry& entry);
  Status check_new(const ObjectType& type, const ObjectOptions& options) const;
  Result<std::shared_ptr<OpenObject>> create(std::string_view name, const ObjectType& type,
                                             const ObjectOptions& options);
  Result<std::shared_ptr<OpenObject>> recover(const object::ObjectTable::Entry& entry,
                                              const ObjectType& type, const ObjectOptions& options);
  Status allocate(object::ObjectTable::Entry& entry, u64 bytes, u64 log_bytes, u64 names_bytes);
  Status resize_open(OpenObject& object, u64 bytes);
  // --- how often places were written (objects_wear.cc)
  Result<bool> move_to_least_worn(OpenObject& object);
  Result<bool> move_head_to_least_worn(OpenObject& object);
  std::optional<object::ObjectCore::Places> least_worn_places(const format::ObjectHead& head);
  void note_left(const format::ObjectSlot& before);
  std::vector<format::ObjectFreePlace> worn_free_places(
      const format::ObjectHead* leaving = nullptr);
  // --- the stores (objects_stores.cc)
  Status find_overflow(const ObjectsOptions& options, const OpenMedium& open_medium, bool have_one);
  Status check_overflow(const ObjectsOptions& options, const format::Superblock* superblock,
                        u32 number);
  Status check_away() const;
  Status check_mark(const format::RegionRecord& record) const;
  Status have_overflow(const format::RegionRecord& record, const ObjectsOptions& options,
                       const OpenMedium& open_medium);
  // --- where objects lie (objects_residence.cc)
  Status settle(object::ObjectCore& core) override;
  Status bring_home(OpenObject& object);
  /// A place that an object needs.
  struct Part {
    u64* place;
    u64 bytes;
    bool moves = true;  ///< to the overflow store, with its object
  };
  Result<u64> allocate(u64 bytes, bool moves);
  Status allocate(std::span<const Part> parts);
  Result<object::ObjectCore::Places> allocate_places(const format::ObjectHead& head);
  void give_back(const object::ObjectCore::Places& places, const format::ObjectHead& head);
  std::vector<OpenObject*> by_last_call();
  Result<bool> move_somebody_out();
  std::string why_nobody_moves() const;
  Result<bool> move_unopened_out(Status& full);
  bool has_no_room_there(const Result<bool>& moved, Status& full) const;
  template <class Move>
  Result<bool> move_out(object::ObjectTable::Entry& entry, u64 log_bytes, const Move& move);
  Result<u64> allocate_there(u64 bytes);
  void release_stand_ins();
  void empty_logs_there();

  Status write_names(const std::vector<std::string>& names, format::ObjectHead& head);
  media::LinearMedium& medium() const { return shared_->volume().linear(); }
  Result<u64> session_of_opening();
  void look_after(const OpenObject& object);
  std::atomic<u32>& bell() { return memory_ ? memory_->bell() : bell_; }
  void ring();
  void sync_what_waits();

  std::unique_ptr<store::SharedVolume> shared_;
  std::string name_;                             ///< of the store, also when they are closed
  std::shared_ptr<store::SharedMemory> memory_;  ///< nullptr: no other process shares them
  u32 region_ = 0;
  u64 session_ = 0;
  u64 bytes_max_ = 0;
  u64 wear_moves_ = 0;                                    ///< 0: wear is not levelled
  std::unique_ptr<store::SharedVolume> overflow_volume_;  ///< nullptr: there is no overflow store
  store::SharedVolume::Claim overflow_claim_{};
  std::unique_ptr<object::OverflowStore> overflow_;
  mutable std::mutex mutex_;
  std::unique_ptr<object::ObjectTable> table_;
  u64 table_is_of_ = 0;  ///< which changes of the memory it has
  std::map<std::string, std::shared_ptr<OpenObject>, std::less<>> open_;
  const OpenObject* stays_ = nullptr;  ///< does not move out now
  const std::shared_ptr<RuntimeLink> link_ = std::make_shared<RuntimeLink>(*this);
  ObjectMoves moves_;
  ProgramBuild program_;
  u64 looks_ = 0;             ///< at which objects were called (by_last_call)
  std::atomic<u32> bell_{0};  ///< changes when `looker_` is to look
  /// Looks after deferred calls, where some object says how long they may wait.
  std::unique_ptr<std::thread> looker_;
  std::atomic<bool> closed_{false};
  std::atomic<bool> heads_unknown_{false};  ///< no object can be made, opened or removed any more
  const u64 generation_ = process_generation();
};

// A head that could not be written may be there all the same, and the table does not know of it:
// with another one beside it there would be two of a name, or of a sequence.
template <class Done>
Done ObjectsRuntime::noting_heads(Done&& done) {
  if (!done && done.failure().code != Code::kIncompatible && done.failure().code != Code::kCorrupt)
    heads_unknown_ = true;
  if (heads_unknown_ && memory_ && !done) memory_->fail(done.failure());
  return std::move(done);
}

}  // namespace perdura::detail
