// Recorded runs of a store: what was done to its medium, and what was acknowledged when.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "explorer.hpp"
#include "folder.hpp"
#include "logged_objects.hpp"
#include "media/fault.hpp"
#include "model/container/container_runtime.hpp"
#include "model/transaction/transactions.hpp"
#include "support/chain.hpp"
#include "support/ledger.hpp"
#include "support/memcached_server.hpp"
#include "support/wrapped_store.hpp"

namespace perdura::proof {

/// A kind of medium and what a failure tears on it.
struct MediumKind {
  const char* name;
  const char* scheme;
  const char* parameters;
  testing::Tearing tearing;
  bool on_server = false;  ///< runs are on a memcached server; what they leave is judged in files
};
constexpr MediumKind kMedia[] = {
    {"nvm", "emu", "", testing::Tearing::kWords},
    {"nvm-cached", "emu", "?flush=clwb", testing::Tearing::kLinePrefixes},
    {"disk-512", "file", "", testing::Tearing::kSectors512},
    {"disk-4096", "file", "", testing::Tearing::kSectors4096},
    // An item has a block of 4,096 bytes, and is as before a set or as after it.
    {"memcached", "file", "", testing::Tearing::kSectors4096, true},
};

std::string uri(const MediumKind& medium, const std::string& path);

/// Values of named objects; from its value follows what fills one.
using Objects = std::map<std::string, u64>;
u64 object_word(u64 value, u64 index);

/// How a named object of a workload with types begins.
struct TypedObject {
  u64 words;
  TypedObject* self;
  u64* middle;  ///< in the same object
};

/// Steps of a shard of the ledger that were acknowledged when so many calls were recorded.
struct Steps {
  u64 shard;
  u64 count;
  size_t calls;
};

/// From opening a store to its end.
struct Session {
  media::History history;
  std::vector<testing::Acknowledgement> acknowledgements;  ///< those of earlier sessions at call 0
  /// Attempts at versions that failed by then; their records may be on the medium.
  std::vector<testing::Acknowledgement> failures;
  /// Of versions of earlier sessions as well. Steps of the ledger that an acknowledged version
  /// holds at least.
  std::map<u64, u64> steps_at;
  /// The named objects that an acknowledged version holds, and no others.
  std::map<u64, Objects> objects_at;
  /// Of a container: the numbers of the chain's links that an acknowledged version holds.
  std::map<u64, std::vector<u64>> chain_at;
  /// By transactions, those of earlier sessions at call 0.
  std::vector<Steps> steps;
  /// Whose calls are logged, in a region of theirs.
  std::vector<LoggedObject> logged;
  u64 ledger_offset = 0;        ///< in the region; 0: there are none
  u64 transactions_offset = 0;  ///< of their state

  /// So many calls were recorded by the last acknowledgement, of a version or a step.
  size_t last_acknowledged() const;
};

/// What is known of a run afterwards: all that judging its crash states takes.
struct RunRecord {
  MediumKind medium;
  u64 seed;
  Options options;
  u64 others;  ///< blocks beside the ledger and its nodes
  media::Geometry geometry;
  std::vector<Session> sessions;
  bool objects_alone = false;  ///< there is no other region
  /// Not 0: objects have so many bytes, and an overflow store, which states have at kOverflowAt.
  u64 objects_bytes_max = 0;
};

/// What a workload does things with. Calls of the medium are recorded, a session for each opening.
class Run {
 public:
  Run(const MediumKind& medium, u64 seed);

  Options options;          ///< before the first open
  u64 node_words_max = 24;  ///< of the ledger's nodes; before it is made
  u64 others = 0;           ///< blocks that are allocated beside the ledger, for the check

  /// With a page tracker over them; before the first open.
  void use_aliases(u32 count) {
    options.tracking = Tracking::kAutomatic;
    options.aliases = count;
  }

  /// Objects are typed, with pointers to themselves and into themselves.
  void use_types() { typed_ = true; }
  /// The store is a container with a chain, and checkpoints are its points; before the first open.
  void use_container() {
    options.tracking = Tracking::kAutomatic;
    contained_ = true;
  }
  /// The region is in chunks; before the first open.
  void use_chunks(u32 chunk_bytes = 4096, u32 versions_kept = 2) {
    options.engine = Engine::kRemap;
    options.chunk_bytes = chunk_bytes;
    options.versions_kept = versions_kept;
    options.over_provisioning = 0;
  }
  /// The region is in two copies; before the first open.
  void use_copies() { options.engine = Engine::kDualCopy; }
  /// What is recorded, in chunks, is a backup of another store, which has this engine and is not
  /// recorded: open_original() opens it, or goes on with it as after the death of its process.
  void use_original(Engine engine);
  /// What is recorded is kept in this way, and begins as a copy of another store, by copy(). The
  /// original is not open any more then.
  void use_copied_original(Engine engine);
  void copy();
  void open_original();
  /// A session of its own: its newest version is sent.
  void back_up();
  /// The same, which ends where a call of the medium fails, or the power does after that.
  void failing_back_up(const media::Fault& fault);
  /// A session in which its versions are drained; drained() waits for the newest one, and
  /// acknowledges it.
  void open_drained();
  void drained();
  void push_link(u64 number);
  void pop_link();

  /// Another region of the store, a container with points of its own, open until the session ends.
  /// What becomes of it is not judged.
  void open_neighbour(Engine engine);
  /// A point of it, with some links more or less.
  void neighbour_point();
  /// A session of its own, between others.
  void remove_neighbour();
  /// Objects whose calls are logged: of a session of their own, or beside the store, if it is open.
  void open_objects();
  /// They have so much space in their store, and an overflow store; before the first open.
  void limit_objects(u64 bytes_max) { objects_bytes_max_ = bytes_max; }
  /// They move where their places are worn so much more than others.
  void level_wear(u64 wear_moves) { wear_moves_ = wear_moves; }
  LoggedObjects& objects() { return logged_; }
  /// From the next opening of a medium on.
  void refuse(const Refusal& refusal) { refusal_ = refusal; }
  /// Of an object that nobody has open: the resilient copy does not fit its checksum any more.
  void damage_copy(const std::string& name);

  /// The next session has the region at another address.
  void move();
  /// The store, which nobody has open, is as a library of format version 2 wrote it.
  void make_earlier_version(u32 version);

  /// Below `below`, from the seed.
  u64 random(u64 below);

  void open();
  /// Close in order.
  void close();
  /// End as the death of the process does.
  void kill();
  /// End as a power failure may: any content that it may leave. An acknowledged version stays.
  void cut_power();
  /// A session of its own, between others: go back to a kept version.
  u64 roll_back(u64 version);
  /// A session of its own, between others: space that nothing needs is given back. States have what
  /// was cut off or deallocated as it was, as zeros, or in part.
  void compact();
  test::WrappedStore& store() { return *store_; }

  /// The ledger, made when there is none.
  test::Ledger& ledger();
  /// Steps of the ledger, by this thread.
  void steps(u64 count, u64 shard = 0);
  /// Steps as transactions by this thread. Each is acknowledged when it returns, and when it was
  /// acknowledged as durable where they are relaxed; where they are not logged, with a version.
  void transact(u64 count, u64 shard = 0);
  /// Steps that are undone.
  void transact_in_vain(u64 count, u64 shard = 0);
  void concurrent_transactions(u64 threads, u64 count, const std::function<void()>& meanwhile);
  /// For the transactions of this session, and of those that follow.
  void set_durability(Durability durability);
  void set_logging(Logging logging);
  /// Until all that was committed so far is durable.
  void wait_for_commits();
  /// Steps by several threads at once, `count` each, while `meanwhile` runs in this one.
  void concurrent_steps(u64 threads, u64 count, const std::function<void()>& meanwhile);
  /// A named object with a value; made, of `words` words, when there is none.
  void set_object(const std::string& name, u64 value, u64 words = 24);
  void remove_object(const std::string& name);
  /// A version of this object alone.
  u64 checkpoint_object(const std::string& name);
  /// The same, unless the last version has another object of this name or in its place.
  void try_checkpoint_object(const std::string& name);

  u64 checkpoint();
  /// One in which a call of the medium fails. Whether it failed as well.
  bool failing_checkpoint(const media::Fault& fault);
  u64 checkpoint_async();
  void wait(u64 version);

  RunRecord record() && {
    return {
        medium_,           seed_, options, others, geometry_, std::move(sessions_), objects_alone_,
        objects_bytes_max_};
  }

 private:
  std::string uri() const;
  std::string original_uri() const;
  Options options_of_original() const;
  Result<u64> send();
  std::unique_ptr<media::Medium> wrap(std::unique_ptr<media::Medium> inner);
  void begin_session();
  void end_session();
  void tear();
  detail::Transactions& transactions();
  void acknowledge_commits(u64 durable);
  void acknowledge(u64 version);
  u64 steps_so_far() const;

  const MediumKind medium_;
  const u64 seed_;
  u64 draws_ = 0;
  testing::Folder folder_;
  std::unique_ptr<test::MemcachedProcess> server_;
  media::Recording recording_;
  media::FaultPlan faults_;
  media::Geometry geometry_;
  std::unique_ptr<test::WrappedStore> store_;
  test::Ledger* ledger_ = nullptr;
  u64 acknowledged_ = 0;
  std::map<u64, u64> steps_begun_;  ///< by version: steps when its checkpoint began
  Durability durability_ = Durability::kNonTemporal;
  Logging logging_ = Logging::kRedo;
  bool transactions_begun_ = false;  ///< in this session
  /// Steps that transactions have committed; beyond those that were there first.
  std::atomic<u64> committed_{0};
  std::mutex commits_mutex_;
  std::map<u64, Steps> relaxed_;  ///< by commit, those that are not acknowledged yet
  bool typed_ = false;
  bool contained_ = false;
  std::unique_ptr<detail::ContainerRuntime> container_;
  std::unique_ptr<detail::ContainerRuntime> neighbour_;
  std::vector<u64> chain_;  ///< the newest link last
  std::vector<u64> durable_chain_;
  std::map<u64, std::vector<u64>> chain_begun_;  ///< by version, when its point began
  Objects objects_;
  Objects durable_objects_;
  Refusal refusal_;
  LoggedObjects logged_{[this] { return recording_.size(); }};
  bool objects_alone_ = false;
  std::optional<Engine> original_;
  u64 copies_before_ = 0;  ///< versions of the backup when a drain began
  u64 objects_bytes_max_ = 0;
  u64 wear_moves_ = 0;
  std::vector<Session> sessions_;
};

/// A workload: a name and a function. One small file each in workloads/.
struct Workload {
  const char* name;
  const char* what;
  void (*run)(Run& run);
  bool on_servers = false;  ///< can be run there
};
constexpr bool kOnServers = true;
const std::vector<Workload>& workloads();

struct Registration {
  explicit Registration(const Workload& workload);
};

}  // namespace perdura::proof

PERDURA_TYPE(perdura::proof::TypedObject, self, middle)
