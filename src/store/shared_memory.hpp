// The memory that the processes have in common which share a store: who they are, and the objects
// that any of them has open.
//
//   /dev/shm/perdura-...   header: whose it is, lock, processes, table of blocks
//                          block, block, ...: an object each (object::ObjectMemory)
//
// It is named by the store's identity and the file that the store is: a copy of the store is
// another one. A file in /dev/shm, and no memfd: that has a path only as long as who made it lives.
// It goes with the last process that leaves. One that was left behind, of processes that all died,
// counts for nobody: who comes and finds the store shared by nobody makes it anew, and who finds it
// shared believes a file only if it is of this boot and this store, and of the sessions that the
// store has counted.
//
// Invariants:
//  - The table of blocks, the volume's superblock and directory, and tables of objects change under
//    the lock. Where its owner died the next one reads them from the medium again.
//  - A block counts when it is live; what is neither live nor free is nobody's.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "media/lock.hpp"
#include "object/object_memory.hpp"
#include "object/object_table.hpp"
#include "object/peers.hpp"
#include "region/volume.hpp"

namespace perdura::store {

/// Thread-safe, but for what says under the lock.
class SharedMemory final : public object::Peers {
 public:
  /// Of the process that has found the store shared by nobody, while it comes. `volume` outlives
  /// its use.
  static Result<std::shared_ptr<SharedMemory>> create(region::Volume& volume);
  /// Of another one. kLocked: it cannot be found, or there are too many.
  static Result<std::shared_ptr<SharedMemory>> join(region::Volume& volume);
  /// Of a process that has the store for itself: what was left behind goes.
  static void remove_left(const region::Volume& volume);
  ~SharedMemory() override;
  SharedMemory(const SharedMemory&) = delete;

  /// While it lives this thread has the lock.
  class Turn {
   public:
    explicit Turn(std::shared_ptr<SharedMemory> memory);
    Turn(Turn&& other) noexcept = default;
    Turn& operator=(Turn&&) = delete;
    ~Turn();

   private:
    std::shared_ptr<SharedMemory> memory_;
  };

  // --- under the lock

  /// What others have changed counts for the volume. Returns a number that is another one when
  /// anything has changed.
  Result<u64> catch_up();
  /// A session that no earlier one had the number of.
  Result<u64> count_session();
  /// This process has changed the volume, a table of objects or of blocks. Returns the number.
  u64 note_change();
  /// The object of a region with its head at a place that somebody has open, or had when he died.
  std::optional<u32> find(u32 region, u64 head_place) const;
  /// Memory for such an object, of zeros. It is given up, or published.
  struct Made {
    u32 block;
    Mapping memory;
  };
  Result<Made> make(u32 region, u64 head_place, const object::ObjectMemory::Sizes& sizes);
  /// It is live, and this process has it open.
  void publish(u32 block);
  /// Of one that is live.
  Result<object::ObjectMemory> memory_of(u32 block) const;
  /// This process has it open as well.
  void use(u32 block);
  /// It is nobody's, and its memory free.
  void free(u32 block);
  /// This process has it open no more; the last one frees it.
  void let_go(u32 block);
  /// Another process that has it open, in words; "": none.
  std::string other_user(u32 block);
  /// The others that have it open are asked to have it open no more, and rung for. Each lets go of
  /// it, or keeps it.
  void ask_for(u32 block);
  /// This process needs it, and has been asked.
  void keep_open(u32 block);
  /// Nobody is asked any more who is there.
  bool is_answered(u32 block);
  /// Space that the object has besides what its head says; of no bytes: none.
  void keep(u32 block, const object::ObjectTable::Range& range);
  object::ObjectTable::Range kept(u32 block) const;

  /// The last use in this process. The last process ends the session, and the memory.
  void leave();

  /// This process is asked to have it open no more. Without the lock: of one that it has open.
  bool is_asked_for(u32 block) const;

  /// Changes when somebody is to look after what waits (call_all).
  std::atomic<u32>& bell() const;

  // --- object::Peers
  u32 self() const override { return self_; }
  u64 life() const override { return life_; }
  bool lives(u64 life) const override;
  void call_all() override;
  void fail(const Failure& why) override;
  Status require_sound() const override;

 private:
  struct Process;
  struct Block;
  struct Header;

  SharedMemory(region::Volume& volume, std::string path, UniqueFd file, Mapping mapping)
      : volume_(volume),
        sharing_(*volume.medium().sharing()),
        path_(std::move(path)),
        file_(std::move(file)),
        mapping_(std::move(mapping)) {}
  Header& header() const { return *mapping_.as<Header>(); }
  Block& block(u32 number) const;
  bool is_there(u32 process) const { return process == self_ || sharing_.others_has(process); }
  void begin_turn();
  void end_turn();
  Status enter();
  void forget_dead();
  Failure unlike(const char* what) const;

  region::Volume& volume_;
  media::FileLock& sharing_;
  const std::string path_;
  const UniqueFd file_;
  const Mapping mapping_;
  u32 self_ = object::kProcessesMax;
  u64 life_ = 0;
  u64 seen_ = 0;  ///< under the lock: of the volume
};

}  // namespace perdura::store
