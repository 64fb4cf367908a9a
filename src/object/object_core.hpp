// An object: its state in memory, its log, its copies, and who executes what is logged.
//
//   defer   claim ── publish ──────────────────────────────────────────────► later, in a round
//   call    claim ── publish ── wait and help, or execute a round ── the answer
//   round   all that is published: durable with one barrier, then done, then answered
//
// Invariants:
//  - Whoever executes is the only one who stores to the state, with those who help it, and the only
//    one who writes to the medium.
//  - A checkpoint that fails fails nobody's call: it is tried again, until there is no log left.
//  - Where several processes have an object they see one memory of it (ObjectMemory). Whoever meets
//    a lock whose owner died while it executed makes the state anew, from the resilient copy and
//    the log, which both are as they were; what was published stays.
//  - While the object is away, in the overflow store, its log is closed, and all that was claimed
//    is done: so whoever calls brings it home first, and who cannot do that has claimed nothing.
//  - A call is answered when it is durable (unless the object is relaxed), and done once in a
//    process's life; what the resilient copy lacks is done again by the next opening, in the same
//    order.
#pragma once

#include <pthread.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/company.hpp"
#include "base/process.hpp"
#include "base/threads.hpp"
#include "object/call_record.hpp"
#include "object/execution.hpp"
#include "object/merging.hpp"
#include "object/object_changes.hpp"
#include "object/object_copies.hpp"
#include "object/object_executor.hpp"
#include "object/object_log.hpp"
#include "object/object_memory.hpp"
#include "object/peers.hpp"
#include "object/residence.hpp"

namespace perdura::object {

/// When calls are durable.
enum class Durability : u8 {
  kInstants,  ///< instants when they return, with all before them
  kEach,      ///< as before, with a barrier for each entry (the paper's simpo-all)
  kTwoSteps,  ///< as before, the mark behind a barrier of its own (the paper's two steps)
  kRelaxed,   ///< with a sync or a checkpoint
};

struct CoreOptions {
  u64 checkpoint_calls = 1000;  ///< group-based persistence: so many calls, then a checkpoint
  u64 pending_lines = 4096;     ///< of deferred calls that are not done: more begin a round
  u64 pending_calls = 4096;     ///< merged into one entry, at most
  u32 servers = 1;              ///< 0: each thread does its own calls, at once
  Durability durability = Durability::kInstants;
  bool verifies = false;    ///< each call is done twice, to find methods that do not do the same
  bool same_build = false;  ///< what another build of the program has logged is not done
};

/// Counts since it was opened, for tests and statistics.
struct CoreCounts {
  u64 rounds = 0;
  u64 server_changes = 0;  ///< rounds of another thread than the round before
  u64 executed = 0;        ///< calls
  u64 runs = 0;            ///< of methods: less, where calls were merged
  u64 checkpoints = 0;
  u64 copied_bytes = 0;  ///< written to copies
};

class ObjectCore {
 public:
  struct Parts {
    media::LinearMedium* medium = nullptr;  ///< outlives it
    u64 head_place = 0;
    u64 skipped = 0;  ///< sequences there
    format::ObjectHead head{};
    format::ObjectHead older{};   ///< the other slot's; zeros where that is not whole
    format::ObjectOwner owner{};  ///< who wrote `head`; zeros: nobody knows
    format::ObjectWear wear{};    ///< of its places, so far
    std::span<const format::ObjectFreePlace> free_places{};  ///< that its heads are to say
    u8 unclear = 0;                     ///< slots that may hold something else, a bit for each
    u64 session = 0;                    ///< no earlier one of this object has the same
    format::ObjectBuild build_found{};  ///< whose the entries of the head's session are
    format::ObjectBuild build{};        ///< and of this program
    /// What entries call by their numbers; one of which the program has nothing does not run.
    std::vector<Function> functions;
    bool functions_are_new = false;  ///< the head names other functions than that on the medium
    CoreOptions options;
    /// Where several processes have the object: its memory, of zeros where it is new; and they.
    std::function<Result<ObjectMemory>(const ObjectMemory::Sizes&)> memory{};
    Peers* peers = nullptr;
    bool is_left = false;  ///< none of them has it open any more (join)
    /// Where objects may be moved: who does that, and whereto if there is an overflow store. Both
    /// outlive it.
    Residence* residence = nullptr;
    OverflowStore* overflow = nullptr;
    bool* is_written = nullptr;  ///< set when a head may be on the medium that says so
  };

  /// A new one, durable as `state` says. `parts.head` says where everything is.
  static Result<std::unique_ptr<ObjectCore>> create(Parts parts, std::span<const std::byte> state);
  /// One that was created before, as it was after the last group that was durable. One that is in
  /// the overflow store stays there.
  static Result<std::unique_ptr<ObjectCore>> recover(Parts parts);
  /// One that other processes have open: `parts.memory` is theirs, with the head that counts.
  /// kInvalidArgument where they have chosen what cannot be beside `parts.options`.
  static Result<std::unique_ptr<ObjectCore>> join(Parts parts);
  ObjectCore(const ObjectCore&) = delete;

  // --- any thread

  /// Whether it is the next one of its caller's recorded calls, which this thread holds: then
  /// `result` has its answer, and nothing else is to be done. Where false, defer() or call() knows:
  /// this is for most calls of a program that is run again, and takes no longer than to look.
  bool answers(const Call& call, void* result) {
    return recording_ != nullptr && answers_held(call, result);
  }
  /// It is done at some time, after what was called before it. Durable with the next instant.
  Status defer(const Call& call) { return recording_ ? defer_recorded(call) : defer_new(call); }
  /// Done, once, and durable with all that was called before it; `result` has its answer.
  Status call(const Call& call, void* result) {
    return recording_ ? call_recorded(call, result) : call_new(call, result);
  }
  /// `look` sees the state after all that was called before is durable and done, and nobody stores
  /// to it meanwhile.
  Status read(const std::function<void(const void* state)>& look);
  /// All that was called is durable and done.
  Status sync();
  /// The same, unless another thread executes just now.
  Status sync_soon();
  /// As sync(), and in the resilient copy: the number of that, the sequence of its head.
  Result<u64> checkpoint();
  /// After all that was called by now the state has another size: the same, or as much of it, and
  /// zeros. In both new copies, at places which nobody has; those that it had are free when this
  /// returns. Where it fails in writing that may have happened or not, and calls fail (has_failed);
  /// where it fails before that nothing has changed.
  /// Of an object that keeps all calls it is recorded as a call of `potid`.
  /// `writes`: of these places, so far.
  Status resize(u64 bytes, const u64 (&copy_place)[2], u32 potid = 0,
                const u64 (&writes)[2] = {0, 0});
  // --- where it lies, by its residence

  struct Places {
    u64 copy[2];
    u64 log;
    format::ObjectWear wear;  ///< of these, so far
  };
  /// It is in the overflow store, and is brought home by its residence when it is called.
  bool is_away() const { return stage_.load(std::memory_order_acquire) == Stage::kAway; }
  /// To such a place in the overflow store, if nobody is calling it; else false. Where it fails it
  /// is as it was, or calls fail.
  Result<bool> move_out(u64 place);
  /// It is away, and has a log there, which is done: its copy is written anew at such a place
  /// there, and the log is needed no more. Where it fails it is as it was, or calls fail.
  Status write_again_there(u64 place);
  /// From there to places which nobody has. Where it fails it is as it was, or calls fail.
  Status move_home(const Places& to);
  /// What stands in for its second copy since it came home is needed no more: there is a checkpoint
  /// now, if nobody is executing.
  void give_up_stand_in();
  /// From places that it has to others; those are free when this returns. Where it fails calls
  /// fail.
  Status move(const Places& to);
  /// Its head comes to another place in the table; returns what is where it was. Where it fails
  /// calls fail, or nothing has changed.
  Result<ObjectTable::Entry> move_head(const ObjectTable::Entry& to);
  /// What has been called of it by now, as a number that only grows.
  u64 called() const { return log_->tail(); }
  /// It keeps what was called in an archive, which does not move.
  bool keeps_all_calls() const { return recording_ != nullptr; }

  /// Its functions are named at another place, where they are written already; when this returns no
  /// head says otherwise.
  Status rename_functions(u64 place, u64 bytes, u64 checksum);
  /// Of so many bytes as the head says, until it is resized.
  const std::byte* state() const { return image_.data(); }
  /// What this one has called so far, of what is durable and done. kMisuse where no history is
  /// kept.
  Result<format::ObjectCaller> caller(u32 potid);

  // --- of an object that keeps all calls: answers to a program that is run again
  /// What the caller does next was recorded as a resize to so many bytes: it has been done. kMisuse
  /// where it was recorded as something else.
  Result<bool> is_resize_recorded(u32 potid, u64 bytes);
  /// kNoSpace where the archive has no room to record a resize; what calls log later takes it not.
  Status have_room_to_resize();
  /// Some caller has calls left that are recorded.
  bool is_answering() const { return recording_ && recording_->record.is_pending(); }

  /// Calls fail, until the objects are opened again; why, or "".
  bool has_failed() const { return control_.failure.has_failed.load(std::memory_order_acquire); }
  std::string why_failed() const { return has_failed() ? control_.failure.message : ""; }

  CoreCounts counts();
  /// checkpoint(), where that is possible; from then on calls fail, and touch the medium no more.
  Status close();
  /// At any time.
  const std::string& name() const { return name_; }
  /// Where nobody calls any more; what never changes of it at any time.
  const format::ObjectHead& head() const { return control_.head.get(); }
  /// As whoever called last has left it.
  format::ObjectHead settled_head();
  u8 unclear_heads() const { return copies_.unclear(); }
  /// The same, with where its head is.
  ObjectTable::Entry settled_entry();
  /// The newest one by now, by anybody at any time, with who wrote it (of one that is away perhaps
  /// not this process) and how often its places were written.
  format::ObjectSlot newest() const { return control_.head.copy(); }
  /// The most that a place of it was written, by whoever moves objects.
  u64 most_writes() const { return most_writes_of(newest()); }
  /// Of its head's place.
  u64 head_writes() const { return newest().head.sequence - copies_.skipped(); }
  /// Some place of it has been written so often (say_when_worn) that it may be moved for that.
  bool is_worn() const { return is_worn_.load(std::memory_order_relaxed); }
  /// ~0: never.
  void say_when_worn(u64 writes);
  /// Its heads say so of free space from the next one on.
  void set_free_places(std::span<const format::ObjectFreePlace> places);
  /// The same, unless another thread executes just now.
  void try_set_free_places(std::span<const format::ObjectFreePlace> places);
  /// Nobody executes just now.
  bool is_idle();
  /// Of the state, by anybody at any time.
  Result<u64> bytes() const;
  /// The copy that should have been the newest was damaged: it was made anew from the other one.
  bool was_repaired() const { return repaired_; }

 private:
  class Executing;

  ObjectCore(Parts&& parts, ObjectMemory&& memory, std::unique_ptr<ObjectLog> log);
  static Result<std::unique_ptr<ObjectCore>> make(Parts&& parts, u64 from);
  static Result<std::unique_ptr<ObjectCore>> load(Parts& parts);
  Failure damaged_history() const;
  void record(RecordedCall call, u64 times);
  Status read_archive();
  Status archive(u64 done, const RecordedCall* resized = nullptr);
  void note_archived();
  Status defer_new(const Call& call);
  Status call_new(const Call& call, void* result);
  Status defer_recorded(const Call& call);
  Status call_recorded(const Call& call, void* result);
  bool answers_held(const Call& call, void* result);
  Result<bool> is_recorded(const Call& call, void* result);
  Failure another_call(const Call& call) const;
  std::string text_of(u16 function, u64 sum) const;
  Failure full_archive() const;
  Status claim_checked(const Call& call, u64& index);
  Status claim_recorded(u64 context_bytes, u64& index);
  Status have_archive_room_alone(u64 context_bytes);
  Status have_resize_room_alone();
  Status load_away(OverflowStore& overflow);
  Status repeat();
  Status begin(bool functions_are_new);
  Status begin_session();
  Status check_build() const;
  Status join_build();
  bool has_function_of(const format::ObjectEntry& entry) const;
  Status check_known(const format::ObjectEntry& entry, const std::byte* context) const;
  std::string name_of(u16 function) const;
  Failure lacks_functions() const;
  std::string formerly_of(u16 function) const;
  std::optional<u64> bytes_here(u16 function) const;
  static std::string remedy_by(const std::string& formerly);
  const Function& function_of(const Call& call) const;
  bool is_usable() const {
    return stage_.load(std::memory_order_acquire) != Stage::kClosed && !forked_since(generation_) &&
           !has_failed();
  }
  bool is_callable() const {
    return stage_.load(std::memory_order_acquire) == Stage::kHome && !forked_since(generation_) &&
           !has_failed();
  }
  bool is_plain(const Call& call) const;
  Status check_call(const Call& call);
  Status log_call(const Call& call, Waiter* waiter, u64& index);
  void note_logged(const Call& call, u64 index, const Turns::Turn& turn, bool mergeable);
  Status call_alone(const Call& call, void* result, bool durable);
  Status call_executing(const Call& call, void* result, bool durable);
  bool is_due(u64 end) const;
  /// A group is recovered from its beginning: none is done in part where a checkpoint is written.
  bool is_between_groups() const { return log_->done() >= log_->durable(); }
  bool merge_into_own(const Call& call);
  Status require_not_forked() const;
  Status require_usable() const;
  Status be_home();
  bool is_done(u64 end, bool durable) const {
    return log_->done() >= end && (!durable || log_->durable() >= end);
  }
  Status move_alone(u64 bytes, const Places& to, const RecordedCall* resized);
  Status write_elsewhere(format::ObjectHead next, const format::ObjectWear& wear,
                         std::span<const std::byte> image, const RecordedCall* resized);
  void note_elsewhere(const format::ObjectHead& next, u64 done);
  Failure stays_where_it_is(Status moved);
  void note_wear();
  u64 most_writes_of(const format::ObjectSlot& slot) const;
  Status have_room(const Call& call, u64& index);
  Status make_room(u64 index, u64 context_bytes);
  Status free_log();
  Status relieve(u64 index);
  Status until_done(u64 end, bool durable);
  Status rounds_until(u64 end, bool durable);
  template <class Body>
  Status execute_alone(bool durable, Body&& body);
  Status round();
  void await_company();
  Status run(u64 end);
  std::optional<NotCancelled> in_system_calls() const;
  Status make_durable(u64 last, u64 end);
  Status flush();
  Status write_checkpoint();
  template <class Body>
  Status or_fail(Body&& body);
  Status fail(Status why);

  // --- where several processes have it (shared_core.cc)
  Status choose_anew();
  Status check_choices() const;
  void tell_functions(u64 life);
  Status log_among_processes(const Call& call, Waiter* waiter, u64& index);
  Status call_among_processes(const Call& call, void* result);
  WaiterSlot& take_slot();
  void take_back_slots();
  Failure lacks(u64 index);
  bool somebody_has(u32 function) const;
  Status or_left(Status done, bool& left);
  Status or_logged(Status done);
  u64 end_of_broken() const;
  Status mend();
  Status do_again();

  const std::string name_;  ///< as in each of its heads, which are exchanged
  const u64 id_;            ///< no other one of the process has or had it
  const CoreOptions options_;
  const u64 session_;
  const format::ObjectBuild build_;  ///< of this program
  const bool is_nvm_;
  ObjectMemory memory_;
  ObjectControl& control_;
  Peers* const peers_;  ///< nullptr: there is one process
  ObjectCopies copies_;
  std::unique_ptr<ObjectLog> log_;
  std::span<std::byte> image_;  ///< what a copy holds
  ObjectChanges changes_;       ///< since the newest checkpoint
  std::optional<CallHistory> history_;
  /// Where all calls are kept.
  struct Recording {
    Recording(media::LinearMedium& medium, const format::ObjectHead& head)
        : archive(medium, head) {}
    ObjectArchive archive;
    CallRecord record;               ///< of earlier runs
    std::vector<std::byte> answers;  ///< to the calls that are done and not archived
    bool opening = true;             ///< what is archived is of earlier runs
    std::atomic<u64> claim_end{0};   ///< what is logged before it has room in the archive
  };
  const std::unique_ptr<Recording> recording_;
  Execution& execution_;
  Company company_;            ///< threads that call at the same time, on a disk
  std::atomic<u64> asked_{0};  ///< calls there that somebody waits for
  u64 taken_ = 0;              ///< of these, when a group was taken last; of whoever executes
  ObjectExecutor executor_;
  /// Of functions: what each call looks at.
  struct Traits {
    u64 context_bytes;
    bool is_plain;  ///< nothing of a call need be looked at but that
    bool commutes;
    u32 result_bytes;
  };
  std::vector<Traits> traits_;
  Turns& turns_;
  bool merges_ = false;
  bool repaired_ = false;
  enum class Stage : u8 { kHome, kAway, kClosed };
  std::atomic<Stage> stage_{Stage::kHome};
  Residence* const residence_;  ///< nullptr: it stays where it is
  std::atomic<u64> worn_from_{~u64{0}};
  std::atomic<bool> is_worn_{false};
  /// What the last round of this process could not do, and 1.
  std::atomic<u32> lacked_{0};
  const u64 generation_ = process_generation();
  u64& calls_since_checkpoint_;
  CoreCounts counts_;
  pthread_t server_{};  ///< of the last round
};

inline void ObjectCore::note_logged(const Call& call, u64 index, const Turns::Turn& turn,
                                    bool mergeable) {
  if (mergeable)
    own_entry = {.core = id_,
                 .index = index,
                 .turn = turn,
                 .calls = 1,
                 .potid = call.potid,
                 .domain = call.domain,
                 .function = call.function};
  else if (merges_) own_entry.core = 0;  // it is not the last one any more
}

}  // namespace perdura::object
