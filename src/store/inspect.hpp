// Looking into a store without opening it for use: what it holds, and whether every checksum and
// the heap's metadata hold.
//
// Nothing is written. The log is applied to a private copy of the region, which may lie at any
// address: the heap's metadata consists of offsets. Others may look at it meanwhile, and one may
// write to it: each region is looked at as it was at one moment.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <perdura/store.hpp>

#include "format/format.hpp"
#include "format/object_format.hpp"
#include "format/remap_format.hpp"
#include "media/medium.hpp"

namespace perdura::store {

struct RootDescription {
  std::string name;
  u64 offset = 0;  ///< in the region
  u64 fingerprint = 0;
  std::string type;  ///< that its block has in the store's type records; "": none
};

struct TypeDescription {
  std::string name;
  std::string layout;  ///< for people
};

/// What takes the bytes of a heap that its region has on the medium.
struct HeapUsage {
  struct Blocks {
    std::string type;     ///< "": they have none
    u64 block_bytes = 0;  ///< without a type: the size of each; 0: large blocks
    u64 blocks = 0;
    u64 bytes = 0;
  };
  std::vector<Blocks> kinds;  ///< of live blocks, most bytes first

  /// Of what typed pointers lead to. A block counts for the first root that reaches it.
  struct Root {
    std::string name;
    u64 blocks = 0;
    u64 bytes = 0;
    u64 untyped_blocks = 0;  ///< of these: what they lead to is not known
  };
  std::vector<Root> roots;
  u64 unreached_blocks = 0;  ///< by typed pointers from any root
  u64 unreached_bytes = 0;

  u64 table_bytes = 0;       ///< header and unit table
  u64 slab_rest_bytes = 0;   ///< headers of slabs, and what no block fits in
  u64 free_block_bytes = 0;  ///< in slabs
  u64 free_runs = 0;         ///< of units
  u64 free_run_bytes = 0;
  u64 unused_bytes = 0;  ///< never given out
  u64 total_bytes() const;
};

/// A part of a medium that serves one purpose.
struct SpaceUsage {
  const char* purpose = "";
  std::string region;  ///< whose it is; "": nobody's
  u64 bytes = 0;
};

/// What a container keeps beside the program's objects.
struct ContainerDescription {
  struct Module {
    std::string name;
    std::string build_id;  ///< hexadecimal
    u64 symbols = 0;
  };
  std::vector<Module> modules;  ///< that its pointers lead to
  u64 marked_pages = 0;         ///< in which pointers lead out of it
  u64 shadows = 0;              ///< copies of other containers' objects
  u64 shadow_bytes = 0;
};

/// A version that a region in chunks keeps.
struct VersionDescription {
  u64 number = 0;
  u64 time_ns = 0;  ///< when it was made, since 1970
  u64 origin = 0;   ///< the version that it repeats: a rollback; 0: none
  u64 changed_chunks = 0;
  u64 written_bytes = 0;  ///< with map nodes
  u64 backed_bytes = 0;
  format::VersionSource source{};  ///< of a backup: which version it is of which store
};

/// Of a region with a home image.
struct LogDescription {
  u64 segments = 0;
  u64 capacity_bytes = 0;
  u64 live_generation = 0;
  u64 live_segments = 0;  ///< that hold versions which are not in the home image
  u64 live_versions = 0;
  u64 live_bytes = 0;
  u64 transactions = 0;  ///< records; those that the newest version does not have are repeated
};

/// Of a region that holds objects.
struct ObjectDescription {
  std::string name;
  std::string type;  ///< of its state, as its program names it
  u64 bytes = 0;     ///< of its state
  u64 log_bytes = 0;
  u64 head_place = 0;  ///< medium offset of both slots
  u64 copy = 0;        ///< the resilient one, 0 or 1
  u64 copy_place = 0;  ///< its medium offset; 0: it is not here
  u64 copy_bytes = 0;  ///< of each: the state, and records of callers
  u64 checkpoint = 0;  ///< a line of its log: the first one that the resilient copy lacks
  format::ObjectHistory history = format::ObjectHistory::kNone;
  u64 callers_max = 0;
  u64 archive_bytes = 0;
  u64 archive_used_bytes = 0;
  u64 overflow_store = 0;  ///< the id of the one that has its copy; 0: it is here
  u64 overflow_place = 0;  ///< medium offset there
  u64 stand_in_place = 0;  ///< there, of what stands in for the other copy here; 0: nothing does
  u64 owner_pid = 0;       ///< the process that wrote its head; 0: nobody knows
  bool owner_lives = false;
  /// How often its places were written, by it and by those that had them before.
  u64 copy_writes[2] = {};  ///< checkpoints
  u64 log_writes = 0;       ///< so often the log was filled
  u64 head_writes = 0;

  struct Caller {
    u32 potid = 0;
    u64 calls = 0;  ///< that the resilient copy has
  };
  /// What is read of the object; nothing beside a writer, or where it is damaged.
  struct Content {
    u64 tail = 0;         ///< of the log: behind the last line that is durable
    u64 new_entries = 0;  ///< that were done or not when it was left: the next opening runs them
    u64 resilient_entries = 0;  ///< that the log has as well as the resilient copy
    u64 archived_calls = 0;
    std::vector<std::string> functions;  ///< that entries may call, by their numbers
    std::vector<Caller> callers;
  };
  std::optional<Content> content;
};

/// Of the region of an overflow store: whose objects it has copies of.
struct OverflowDescription {
  bool is_known = false;  ///< else nobody's yet, or it does not say any more
  u8 uuid[16] = {};       ///< of the store that has their heads
  u64 region = 0;         ///< its number there
};

struct RegionDescription {
  format::RegionRecord record{};
  bool is_unfinished = false;  ///< a copy to it was not completed: nothing else is known
  u64 durable_version = 0;
  u64 replayed_version = 0;
  std::vector<format::Extent> extents;  ///< of its home image by region offset, or of its chunks
  u64 backed_bytes = 0;
  u64 home_bytes = 0;  ///< on the medium: backed_bytes and the checksum tables, or all chunks
  u64 free_bytes = 0;  ///< of that, in chunks that no kept version uses
  std::vector<VersionDescription> versions;  ///< of a region in chunks, in rising order
  std::optional<LogDescription> log;         ///< of a region with one
  std::optional<u64> copy;        ///< of a region in two: the one that has the newest version
  std::optional<HeapAudit> heap;  ///< none before the first version
  std::vector<RootDescription> roots;
  std::vector<TypeDescription> types;
  std::optional<ContainerDescription> container;          ///< of a region that is one
  std::optional<std::vector<ObjectDescription>> objects;  ///< of a region that holds these
  std::optional<OverflowDescription> overflow;            ///< of a region of an overflow store
  std::optional<HeapUsage> usage;                         ///< by describe_usage(), of a sound heap

  std::string name() const { return record.name; }
};

struct Description {
  std::string name;
  format::Superblock superblock{};
  u64 medium_bytes = 0;
  bool is_being_written = false;  ///< some process has it open to write
  std::vector<RegionDescription> regions;
  std::vector<SpaceUsage> space;  ///< by describe_usage(): its bytes add up to medium_bytes
};

struct Finding {
  enum class Severity {
    kNote,    ///< what a crash leaves behind, damage there cannot be told from it; or what is
              ///< elsewhere
    kDamage,  ///< no crash explains it
  };
  Severity severity = Severity::kDamage;
  std::string part;  ///< superblock, directory, owner, log, home, versions, map, chunks,
                     ///< objects, heap, or copy: one that was not completed
  std::string message;
  std::string region{};  ///< its name; "": the finding is not about one
  std::optional<u64> medium_offset;
  std::optional<u64> region_offset;
};

struct CheckReport {
  std::string name;
  std::optional<Description> description;  ///< none where damage prevents opening
  std::vector<Finding> findings;
  u64 log_blocks = 0;     ///< of live versions, whole
  u64 home_pages = 0;     ///< that fit their checksums
  u64 pending_pages = 0;  ///< that do not, and that the log brings up to date
  u64 chunks = 0;         ///< of all kept versions, that fit their checksums
  bool damaged() const;
  /// A region of it is a copy that was not completed.
  bool incomplete() const;
};

/// `what` names the step, `done` of `total` bytes are behind it.
using Progress = std::function<void(const char* what, u64 done, u64 total)>;
inline void no_progress(const char*, u64, u64) {}

/// Fails where the store cannot be opened, with what Store::open would say.
Result<Description> describe(std::string_view uri, const media::MediumOptions& options);

/// The same, and what takes the space: all typed blocks that roots lead to are read.
Result<Description> describe_usage(std::string_view uri, const media::MediumOptions& options,
                                   const Progress& progress = no_progress);

/// The same without the heap: the region is not read.
Result<Description> outline(std::string_view uri, const media::MediumOptions& options);

/// Verifies everything. What is damaged is a finding, even when it prevents opening; a failure
/// means that there is nothing to check: no store, a foreign or newer one, one open elsewhere.
/// `overflow`: the URI of the overflow store, where the copies of objects are that are away; "": a
/// note says of each that it is not verified.
Result<CheckReport> check(std::string_view uri, const media::MediumOptions& options,
                          const Progress& progress = no_progress, std::string_view overflow = {});

}  // namespace perdura::store
