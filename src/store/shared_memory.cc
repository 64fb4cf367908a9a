#include "store/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

#include "base/checksum.hpp"

namespace perdura::store {

using object::ObjectMemory;
using object::ObjectTable;

// What the file is of: no two stores that are there at once have the same.
struct MemoryIdentity {
  u64 version;
  u64 device;
  u64 inode;
  u8 uuid[16];
  char boot_id[40];
};

namespace {

constexpr u64 kMagic = 0x6d654d7368536450;  // "PdShsMem"
constexpr u64 kVersion = 3;                 // of what is in it, beside the sizes
constexpr u32 kBlocksMax = 4096;            // objects that are open at once
constexpr u64 kLeavePatienceMs = 2000;

Result<MemoryIdentity> identity_of(const region::Volume& volume) {
  struct stat info{};
  if (::stat(volume.name().c_str(), &info) != 0)
    return system_failure(errno, "cannot inspect '" + volume.name() + "'");
  MemoryIdentity identity{};
  identity.version = kVersion + (sizeof(object::ObjectControl) << 16) + (u64{kBlocksMax} << 40);
  identity.device = info.st_dev;
  identity.inode = info.st_ino;
  const format::Superblock superblock = volume.superblock();
  static_assert(sizeof identity.uuid == sizeof superblock.uuid);
  std::memcpy(identity.uuid, superblock.uuid, sizeof identity.uuid);
  format::OwnerRecord owner;
  std::memcpy(&owner, media::describe_owner().bytes, sizeof owner);
  static_assert(sizeof owner.boot_id <= sizeof identity.boot_id);
  std::memcpy(identity.boot_id, owner.boot_id, sizeof owner.boot_id);
  return identity;
}

std::string path_of(const MemoryIdentity& identity) {
  const u64 place[2] = {identity.device, identity.inode};
  u64 sums[2] = {checksum(identity.uuid, sizeof identity.uuid), checksum(place, sizeof place)};
  char name[64];
  std::snprintf(name, sizeof name, "/dev/shm/perdura-%016lx%016lx", sums[0], sums[1]);
  return name;
}

// Bytes that are there from now on: nobody finds that there are none when he touches them.
Status allocate(int fd, const std::string& path, u64 offset, u64 length) {
  int error = 0;
  do error = ::posix_fallocate(fd, static_cast<off_t>(offset), static_cast<off_t>(length));
  while (error == EINTR);
  if (error == 0) return {};
  return system_failure(error, "cannot make '" + path + "', which processes share, larger");
}

Result<Mapping> map_shared(int fd, const std::string& path, u64 offset, u64 length) {
  void* const at =
      ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (at == MAP_FAILED) return system_failure(errno, "cannot map '" + path + "'");
  return Mapping(at, length);
}

}  // namespace

struct SharedMemory::Process {
  std::atomic<u64> life;  ///< 0: the place is free
  u64 pid;
  char program[16];
};

struct SharedMemory::Block {
  enum class State : u32 { kFree, kMaking, kLive };
  std::atomic<State> state;
  u32 region;
  u64 head_place;
  u64 offset;
  u64 length;
  u64 users;               ///< a bit for each process
  std::atomic<u64> asked;  ///< those of them that are to have it open no more, if they can
  ObjectMemory::Sizes sizes;
  ObjectTable::Range kept;

  void give_up(u32 process) {
    users &= ~(u64{1} << process);
    asked &= ~(u64{1} << process);
  }
};

struct SharedMemory::Header {
  u64 magic;  ///< written last
  MemoryIdentity identity;
  RobustMutex next;  ///< who is the next to have the other one; it guards nothing
  RobustMutex mutex;
  std::atomic<u32> bell;
  object::FailureNote failure;
  u64 session;  ///< that the store has counted last
  u64 changes;
  u64 lives;  ///< of processes that came
  u64 end;    ///< of the file: what is behind it never was a block
  std::array<Process, object::kProcessesMax> processes;
  std::array<Block, kBlocksMax> blocks;
};
static_assert(object::kProcessesMax == 64, "a bit of a word each");

SharedMemory::Block& SharedMemory::block(u32 number) const {
  PERDURA_ASSERT(number < kBlocksMax);
  return header().blocks[number];
}

Failure SharedMemory::unlike(const char* what) const {
  return {Code::kLocked, "'" + volume_.name() +
                             "' is shared by processes whose memory this one cannot find: '" +
                             path_ + "' " + what +
                             "; run it with the same /dev/shm, user and build of Perdura as they"};
}

// --- coming and going ---------------------------------------------------------------------------

// What is there was left behind: nobody shares the store. Only who has the name makes the file.
Result<std::shared_ptr<SharedMemory>> SharedMemory::create(region::Volume& volume) {
  PERDURA_ASSIGN(const MemoryIdentity identity, identity_of(volume));
  const std::string path = path_of(identity);
  (void)::unlink(path.c_str());
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return system_failure(errno, "cannot make '" + path + "', which processes share");
  const u64 length = round_up(sizeof(Header), kPageBytes);
  if (Status allocated = allocate(file.get(), path, 0, length); !allocated) {
    (void)::unlink(path.c_str());
    return copy_of(allocated.failure());
  }
  PERDURA_ASSIGN(Mapping mapping, map_shared(file.get(), path, 0, length));
  auto* const header = new (mapping.as()) Header{};
  header->identity = identity;
  header->next.make();
  header->mutex.make();
  header->end = length;
  header->session = volume.superblock().session;
  header->magic = kMagic;
  std::shared_ptr<SharedMemory> memory(
      new SharedMemory(volume, path, std::move(file), std::move(mapping)));
  PERDURA_TRY(memory->enter());
  return memory;
}

Result<std::shared_ptr<SharedMemory>> SharedMemory::join(region::Volume& volume) {
  PERDURA_ASSIGN(const MemoryIdentity identity, identity_of(volume));
  const std::string path = path_of(identity);
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  struct stat info{};
  if (file ? ::fstat(file.get(), &info) != 0 : errno != ENOENT && errno != EACCES && errno != ELOOP)
    return system_failure(errno, "cannot open '" + path + "', which processes share");
  const u64 length = round_up(sizeof(Header), kPageBytes);
  const bool found = file && info.st_uid == ::geteuid() && static_cast<u64>(info.st_size) >= length;
  Mapping mapping;
  if (found) {
    PERDURA_ASSIGN(mapping, map_shared(file.get(), path, 0, length));
  }
  std::shared_ptr<SharedMemory> memory(
      new SharedMemory(volume, path, std::move(file), std::move(mapping)));
  if (!found) return memory->unlike("is not there, or another user's");
  if (memory->header().magic != kMagic ||
      std::memcmp(&memory->header().identity, &identity, sizeof identity) != 0)
    return memory->unlike("is of another store, another start of the system or another build");
  const Turn turn(memory);
  PERDURA_TRY(memory->catch_up());
  // Who counts one says so first, and may die before the store knows.
  const u64 behind = memory->header().session - volume.superblock().session;
  if (behind > 1) return memory->unlike("is of an earlier session");
  PERDURA_TRY(memory->require_sound());
  PERDURA_TRY(memory->enter());
  volume.join_session();
  return memory;
}

// While this process comes. Where another one had the place, what it had open is nobody's.
Status SharedMemory::enter() {
  forget_dead();
  Header& shared = header();
  PERDURA_ASSIGN(const std::optional<u32> number,
                 sharing_.take_number(volume_.name(), object::kProcessesMax, [&](u32 each) {
                   return shared.processes[each].life.load() == 0;
                 }));
  if (!number)
    return Failure{Code::kLocked, "'" + volume_.name() + "' is shared by " +
                                      std::to_string(object::kProcessesMax) +
                                      " processes, as many as can; close it in one of them"};
  Process& place = shared.processes[*number];
  format::OwnerRecord owner;
  std::memcpy(&owner, media::describe_owner().bytes, sizeof owner);
  place.pid = owner.pid;
  std::memcpy(place.program, owner.program, sizeof place.program - 1);
  self_ = *number;
  life_ = ++shared.lives;
  place.life.store(life_);
  return {};
}

// Of those that have died only what others have as well is still anybody's. An object that nobody
// has open any more stays as it is for who opens it next.
void SharedMemory::forget_dead() {
  for (u32 number = 0; number < object::kProcessesMax; ++number) {
    Process& process = header().processes[number];
    if (process.life.load() == 0 || is_there(number)) continue;
    for (Block& each : header().blocks) each.give_up(number);
    process.life.store(0);
  }
}

void SharedMemory::remove_left(const region::Volume& volume) {
  if (const Result<MemoryIdentity> identity = identity_of(volume); identity)
    (void)::unlink(path_of(*identity).c_str());
}

SharedMemory::~SharedMemory() = default;

// What is open of an object that has lost its users is not written: its log has what was durable.
void SharedMemory::leave() {
  const bool alone =
      sharing_.come_or_go(volume_.name(), kLeavePatienceMs) && !sharing_.has_others();
  {
    begin_turn();
    forget_dead();
    for (Block& each : header().blocks) each.give_up(self_);
    header().processes[self_].life.store(0);
    const bool is_whole = !header().failure.has_failed &&
                          std::ranges::none_of(header().blocks, [](const Block& each) {
                            return each.state != Block::State::kFree;
                          });
    if (alone && is_whole && catch_up()) (void)volume_.end_session();
    if (alone) (void)::unlink(path_.c_str());
    end_turn();
  }
  if (!alone) sharing_.stay();
}

// --- the lock -----------------------------------------------------------------------------------

// A thread that gives the lock back and wants it again at once would have it before one that waits
// has woken, again and again: another process that makes objects all the time kept one that comes
// waiting for seconds. It has to wait to be the next, behind who is that.
void SharedMemory::begin_turn() {
  Header& shared = header();
  (void)shared.next.lock();
  if (shared.mutex.lock() == Locked::kOwnerDied) ++shared.changes;  // whatever it has changed
  shared.next.unlock();
}

void SharedMemory::end_turn() { header().mutex.unlock(); }

SharedMemory::Turn::Turn(std::shared_ptr<SharedMemory> memory) : memory_(std::move(memory)) {
  if (memory_) memory_->begin_turn();
}

SharedMemory::Turn::~Turn() {
  if (memory_) memory_->end_turn();
}

// The number of the session is that of the superblock also where who counted it died.
Result<u64> SharedMemory::catch_up() {
  Header& shared = header();
  if (seen_ != shared.changes || self_ == object::kProcessesMax) {
    for (u32 number = 0; number < kBlocksMax; ++number)
      if (block(number).state == Block::State::kMaking) free(number);
    PERDURA_TRY(volume_.refresh());
    if (seen_ != 0) shared.session = volume_.superblock().session;
    seen_ = shared.changes;
  }
  return shared.changes;
}

Result<u64> SharedMemory::count_session() {
  header().session = volume_.superblock().session + 1;
  PERDURA_ASSIGN(const u64 session, volume_.count_session());
  (void)note_change();
  return session;
}

// Who has not seen what others changed before has not with this one either: its superblock is an
// old one, which must neither be said to be the newest nor be written when it leaves.
u64 SharedMemory::note_change() {
  Header& shared = header();
  const bool has_seen_all = seen_ == shared.changes;
  ++shared.changes;
  if (!has_seen_all) return seen_;
  shared.session = volume_.superblock().session;
  seen_ = shared.changes;
  return seen_;
}

// --- blocks -------------------------------------------------------------------------------------

std::optional<u32> SharedMemory::find(u32 region, u64 head_place) const {
  for (u32 number = 0; number < kBlocksMax; ++number) {
    const Block& each = block(number);
    if (each.state == Block::State::kLive && each.region == region && each.head_place == head_place)
      return number;
  }
  return std::nullopt;
}

// At the end of the file: what was freed before takes no memory.
Result<SharedMemory::Made> SharedMemory::make(u32 region, u64 head_place,
                                              const ObjectMemory::Sizes& sizes) {
  Header& shared = header();
  const auto found = std::ranges::find_if(
      shared.blocks, [](const Block& each) { return each.state == Block::State::kFree; });
  if (found == shared.blocks.end())
    return Failure{Code::kNoSpace,
                   "processes that share '" + volume_.name() + "' have " +
                       std::to_string(kBlocksMax) +
                       " objects open, as many as they can; close the store in one that "
                       "needs its own no more"};
  const u64 offset = shared.end;
  const u64 length = round_up(ObjectMemory::bytes(sizes), kPageBytes);
  PERDURA_TRY(allocate(file_.get(), path_, offset, length));
  PERDURA_ASSIGN(Mapping mapping, map_shared(file_.get(), path_, offset, length));
  shared.end = offset + length;
  found->region = region;
  found->head_place = head_place;
  found->offset = offset;
  found->length = length;
  found->users = 0;
  found->sizes = sizes;
  found->kept = {};
  found->state = Block::State::kMaking;
  return Made{static_cast<u32>(found - shared.blocks.begin()), std::move(mapping)};
}

void SharedMemory::publish(u32 number) {
  block(number).users = u64{1} << self_;
  block(number).state = Block::State::kLive;
}

Result<ObjectMemory> SharedMemory::memory_of(u32 number) const {
  const Block& found = block(number);
  PERDURA_ASSIGN(Mapping mapping, map_shared(file_.get(), path_, found.offset, found.length));
  return ObjectMemory::among_processes(std::move(mapping), found.sizes, false);
}

void SharedMemory::use(u32 number) { block(number).users |= u64{1} << self_; }

// It is nobody's before it has no bytes any more, and somebody else's after that.
void SharedMemory::free(u32 number) {
  Block& found = block(number);
  found.state = Block::State::kMaking;
  (void)::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    static_cast<off_t>(found.offset), static_cast<off_t>(found.length));
  found.users = 0;
  found.asked = 0;
  found.state = Block::State::kFree;
}

// What is durable of it is on the medium, whoever has it open next.
void SharedMemory::let_go(u32 number) {
  forget_dead();
  Block& found = block(number);
  found.give_up(self_);
  if (found.users == 0) free(number);
}

std::string SharedMemory::other_user(u32 number) {
  forget_dead();
  const u64 others = block(number).users & ~(u64{1} << self_);
  if (others == 0) return {};
  const Process& process = header().processes[static_cast<size_t>(std::countr_zero(others))];
  return "process " + std::to_string(process.pid) + " (" + process.program + ")";
}

void SharedMemory::ask_for(u32 number) {
  block(number).asked = block(number).users & ~(u64{1} << self_);
  call_all();
}

void SharedMemory::keep_open(u32 number) { block(number).asked &= ~(u64{1} << self_); }

bool SharedMemory::is_answered(u32 number) {
  forget_dead();
  return block(number).asked == 0;
}

bool SharedMemory::is_asked_for(u32 number) const {
  return (block(number).asked.load(std::memory_order_relaxed) >> self_ & 1) != 0;
}

void SharedMemory::keep(u32 number, const ObjectTable::Range& range) { block(number).kept = range; }
ObjectTable::Range SharedMemory::kept(u32 number) const { return block(number).kept; }

// --- object::Peers ------------------------------------------------------------------------------

std::atomic<u32>& SharedMemory::bell() const { return header().bell; }

bool SharedMemory::lives(u64 life) const {
  for (u32 number = 0; number < object::kProcessesMax; ++number)
    if (header().processes[number].life.load() == life) return is_there(number);
  return false;
}

void SharedMemory::call_all() { futex_wake_all(bell(), Waiters::kOfAll); }

void SharedMemory::fail(const Failure& why) { header().failure.set(why); }

Status SharedMemory::require_sound() const {
  const object::FailureNote& failure = header().failure;
  if (!failure.has_failed.load(std::memory_order_acquire)) return {};
  return Failure{failure.code, "an object of '" + volume_.name() +
                                   "' has failed in one of the processes that share it, so what "
                                   "any of them writes is not to be relied on; close it in all of "
                                   "them, and open it again. Why: " +
                                   failure.message};
}

}  // namespace perdura::store
