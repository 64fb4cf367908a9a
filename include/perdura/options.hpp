// What can be chosen when a store is opened. Every default serves the embedded case.
#pragma once

#include <cstdint>
#include <string>

#include <perdura/event.hpp>

namespace perdura {

/// How stores to the region are found (docs/architecture.md, "Trackers").
enum class Tracking {
  kAutomatic,  ///< kCompiled where all of the program reports (docs/compiler.md), without aliases;
               ///< else the first of userfault, sigbus, protect that this system has; not userfault
               ///< for chunks captured in the background
  kReported,   ///< the program reports stores: `touch`, `Field<T>`; append-only buffers
  kBitmap,     ///< reported, with CpNvm's shared bitmap and first-touch lists (paper §2)
  kUserfault,  ///< userfaultfd asynchronous write protection (Linux 6.7)
  kSigbus,     ///< userfaultfd write protection answered by SIGBUS (Linux 5.7)
  kProtect,    ///< mprotect and SIGSEGV, by chunk
  kCompiled,   ///< as kReported, by the compiler: of a program all of which perdura-clang compiles
};
/// "userfault", …: as PERDURA_TRACKING and JSON write it.
const char* name_of(Tracking tracking);

/// How a checkpoint copies the change set.
enum class Capture {
  kAutomatic,   ///< background of what tracker and engine both see alike: reported lines in a log,
                ///< or in two copies on NVM, faulted chunks; and of pages on slower media, staged.
                ///< Else stopped
  kStopped,     ///< mutators wait and help to write the change set (CpNvm §2)
  kBackground,  ///< mutators go on; a store to what is not captured yet copies it aside first: a
                ///< line that is reported, or the page or chunk of a fault (SoftPM §3.4). With
                ///< kUserfault it is staged: mutators wait and help until all that changed is
                ///< copied aside in memory, and go on while that is written. Without aliases
};

/// How a store makes its versions durable (docs/architecture.md, "Engines"). Chosen when it is
/// created.
enum class Engine {
  kRedoLog,   ///< changed lines go to a log, and from there to the home image
  kRemap,     ///< changed chunks go to new places; older versions stay (SoftPM §4)
  kDualCopy,  ///< changed lines go to the older of two home images, which then is the newer one
              ///< (SIMPO §3.2); without transactions
};

/// When the home image of a store with a log is compared with its checksums. (Chunks are verified
/// before use in any case.)
enum class Verify {
  kBackground,  ///< beside the program, which may see a damaged page before it is found
  kBeforeUse,   ///< each part before the program sees a byte of it; the rest in the background.
                ///< Pages of which the log has lines are not (docs/guarantees.md).
                ///< Access to a damaged part ends the program, with a sentence that names the page.
                ///< A system call that is handed an address in a part that nobody has touched yet
                ///< fails with EFAULT.
  kNever,       ///< but for pages that become part of a version, in each of the three ways
};

/// What is done where a part of a store is found damaged.
enum class OnDamage {
  kEnd,  ///< who accesses a part that was verified before use, or a chunk, and is damaged, is ended
         ///< with a sentence on stderr that names the place; inside Store::open too
  kThrow,  ///< the next checkpoint throws kCorrupt, once for all that was found by then, and names
           ///< the first place; nothing is ended. Damaged pages that were verified before use, and
           ///< damaged chunks, read as zeros, and what is stored to them is in no version.
};

struct Options {
  bool create = true;  ///< make the store, and the region in it, where they do not exist

  /// Which region of the store: each has a heap, versions and checkpoints of its own, is open at
  /// most once, and in the same process as the others. Up to 31 bytes; "": the first one, which is
  /// made with the name "main". A store has up to 16; how its medium is used says who opens it
  /// first.
  std::string region = {};

  Tracking tracking = Tracking::kAutomatic;
  Capture capture = Capture::kAutomatic;

  /// Granularity of reported stores, bytes: a power of two from 64 to 4096.
  std::uint32_t granule_bytes = 64;

  /// FGCK's aliases (docs/tracking.md), with a page tracker: 0 for none, else a power of two up to
  /// 256. The region's memory is mapped so many times more, and `allocate` returns a block's
  /// address in the alias of the part of the page it starts in; so a store makes the blocks of one
  /// part change, not a whole page. 1 tells allocated bytes from others, 256 gives each block pages
  /// of its own. Chosen when the store is created and kept with it; the region takes up aliases + 1
  /// times its limit of address space, and opening loads all of it.
  std::uint32_t aliases = 0;

  /// Engine::kRemap, and then kept with the store: the unit in which the region is written.
  /// Trackers sigbus and protect: what the first store to a place since the last checkpoint opens,
  /// and makes part of the change set. Bytes; a power of two from 4 KiB to 4 MiB. Large chunks take
  /// fewer faults and more bytes. Does not concern aliases.
  std::uint32_t chunk_bytes = 64 << 10;

  Engine engine = Engine::kRedoLog;

  /// Engine::kRemap: how many versions a store made now keeps, the newest one among them; from 1 to
  /// 1024. `perdura versions` lists them, `perdura rollback` goes back to one.
  std::uint32_t versions_kept = 2;

  /// Engine::kRemap: space taken beyond what the region needs, percent, up to 1000. A version that
  /// finds no free chunk takes more, which takes time.
  std::uint32_t over_provisioning = 25;

  /// Engine::kRemap, on flash: write whole chunks only, so that with chunk_bytes the size of an
  /// erase unit none is erased for a part of it. Maps take up a chunk at each version then.
  bool whole_chunks = false;

  /// Open the newest version, and only to read: what is stored to the region is lost, and
  /// checkpoints fail. It stays as it is while another process writes to the store, which takes
  /// space for it meanwhile (Statistics::pinned_version).
  bool read_only = false;

  /// Engine::kRemap: open this version, and only to read. 0: the newest one.
  std::uint64_t version = 0;

  /// Page trackers: leave out lines that are as the last version has them. On NVM what changed is
  /// compared with the home image; on a disk, with a redo log, with copies of the pages that change
  /// again and again, which take up to a sixteenth of the memory that the process may use.
  bool compare = true;

  /// Address space reserved for the region when the store is created, bytes; the region cannot
  /// grow beyond it. A multiple of 1 MiB, at least 1 MiB.
  std::uint64_t region_limit_bytes = std::uint64_t{64} << 30;

  /// Where the region is placed. 0: where it was, or a window that Perdura finds free if the store
  /// is new or somebody else has its place. A store moves to another address only if each of its
  /// blocks is of a type with a record (perdura/type.hpp).
  std::uint64_t region_address = 0;

  /// Bytes of redo log after which checkpoints wait for replay; 0 takes the medium's default
  /// (128 MiB). At least 64 KiB; never less than two segments. One version larger than this is
  /// still taken; the excess is given back afterwards.
  std::uint64_t log_limit_bytes = 0;

  /// Unit in which a store made now takes log space, bytes: a power of two from 32 KiB to 1 MiB. A
  /// small one suits a store of a few hundred KiB.
  std::uint64_t log_segment_bytes = 1 << 20;

  /// Compare the region with its last version at every checkpoint and report each allocation
  /// that holds a store nobody reported (`Statistics::unreported`); who stores to its line after
  /// that is found out by closing its page, whence read(2) into it fails. Slow: for tests.
  bool verify_reports = false;

  /// Tell (EventKind::kOutsideOperation) where the program stores to the region outside of
  /// operations, one event for each place in it, also where no checkpoint could fall there: each
  /// step that must be whole belongs into one. With a page tracker other than kProtect, or a
  /// reported one; not with aliases, verify_reports, or of a container; compiled stores begin an
  /// operation themselves. What it cannot see is in docs/api.md, "Threads". Opening loads all of
  /// the region, and each page that an operation stores to faults once: for tests.
  bool strict = false;

  /// Apply a log left by a crash page by page on first touch instead of before `open` returns.
  bool lazy_recovery = true;

  Verify verify = Verify::kBackground;
  OnDamage on_damage = OnDamage::kEnd;

  /// The pace at which the home image is read once in the background, after opening, and compared
  /// with its checksums (Statistics::damaged_pages, Store::damaged_pages); bytes a second, 0: not.
  std::uint64_t verify_bytes_per_second = std::uint64_t{64} << 20;

  /// Let the superblock know of each version soon after it is durable: then damage to the last one
  /// is told from a checkpoint that a crash cut short. Otherwise it learns of a version before that
  /// comes home, which on block media may be much later. Costs two more flushes of the medium for
  /// each version, in the background.
  bool confirm_versions = false;

  /// Trackers of reported stores: take memory in huge pages of 2 MiB, where the system has them.
  /// Page walks cost a program with much memory a tenth of its time and more; a store that is
  /// small or sparse takes up more memory.
  bool huge_pages = true;

  /// Permit a store on a network file system, whose locks and flushes cannot be trusted.
  bool allow_network_filesystem = false;

  /// A second place, any URI, to which versions go behind this one (docs/backup.md): the newest one
  /// each time, in the background, leaving out others where that takes longer than they come. It
  /// has a version whole or not at all, is a store that opens as any other, and keeps as many
  /// versions as it was made with, or 8. What fails there is an event (EventKind::kDrainFailed), is
  /// tried again, and fails nothing here. Not with Engine::kDualCopy; "": none.
  std::string drain = {};

  /// What the drain reads of this store at most, bytes a second; 0: as fast as it goes.
  std::uint64_t drain_bytes_per_second = 0;

  /// How long closing waits at most until the last version is there, milliseconds; an event says
  /// what is not.
  std::uint32_t drain_wait_ms = 10'000;

  /// Called for what no call returns: perdura/event.hpp. Where there is none each is a line on
  /// stderr, of a kind and store at most one a second. A store that is open to be read tells of
  /// damage.
  EventListener on_event = {};
};

/// A snapshot of a store's counters. Times are nanoseconds.
struct Statistics {
  std::uint64_t durable_version = 0;    ///< newest version that survives a crash
  std::uint64_t replayed_version = 0;   ///< newest version whole in the home image
  std::uint64_t confirmed_version = 0;  ///< newest one that the superblock knows of
  std::uint64_t pinned_version = 0;     ///< oldest one that a reader has open now; 0: none
  std::uint64_t checkpoints = 0;
  std::uint64_t failed_checkpoints = 0;
  std::uint64_t checkpoint_ns = 0;       ///< from the beginning of each, until it was durable
  std::uint64_t changed_bytes = 0;       ///< bytes in change sets
  std::uint64_t log_bytes = 0;           ///< bytes written to the log with headers and padding, or
                                         ///< in chunks and map nodes
  std::uint64_t log_live_bytes = 0;      ///< log space not yet replayed
  std::uint64_t log_capacity_bytes = 0;  ///< log space allocated on the medium
  std::uint64_t log_limit_bytes = 0;
  std::uint64_t log_waits = 0;            ///< checkpoints that waited for replay
  std::uint64_t home_bytes = 0;           ///< bytes written to home images by replay
  std::uint64_t side_copies = 0;          ///< lines copied aside during background captures
  std::uint64_t region_backed_bytes = 0;  ///< bytes of the region with space on the medium
  std::uint64_t pause_count = 0;
  std::uint64_t pause_p99_ns = 0;  ///< 99th percentile of the stops of all mutators
  std::uint64_t pause_max_ns = 0;
  std::uint64_t verified_bytes = 0;  ///< of the home image, compared with checksums since `open`
  std::uint64_t damaged_pages = 0;   ///< found by that; Store::damaged_pages names them
  std::uint64_t recovery_ns = 0;     ///< time `open` spent on recovery
  std::uint64_t unreported = 0;      ///< with verify_reports: lines found changed but not reported
  Tracking tracking = Tracking::kAutomatic;  ///< the tracker in use
  std::uint32_t aliases = 0;                 ///< of the region
  std::uint64_t late_checkpoints = 0;        ///< of checkpoint_every (EventKind::kCheckpointLate)
  std::uint64_t stop_waits = 0;              ///< operations that waited for a stop of all mutators
  std::uint64_t stop_wait_ns = 0;            ///< of all of these together, as in the next ones
  std::uint64_t log_wait_ns = 0;             ///< of log_waits
  std::uint64_t checkpoint_waits = 0;        ///< calls that waited for a version that was under way
  std::uint64_t checkpoint_wait_ns = 0;
  std::uint64_t group_waits = 0;  ///< calls that waited for others' to share a barrier, and
                                  ///< transactions for their own to be durable
  std::uint64_t group_wait_ns = 0;
  std::uint64_t events = 0;               ///< told since the store was opened (Options::on_event)
  std::uint64_t untyped_allocations = 0;  ///< of the process, of code that is compiled with
                                          ///< --perdura-types: what they gave is in no container
  std::uint64_t drained_version = 0;   ///< newest one that the drain has (Options::drain); 0: none
  std::uint64_t drained_versions = 0;  ///< that it has been sent
  std::uint64_t drain_skipped = 0;     ///< versions that it was not, as newer ones were there
  std::uint64_t drain_read_bytes = 0;  ///< read of this store for it
  std::uint64_t drain_bytes = 0;       ///< written there, with all that describes versions
  std::uint64_t drain_failures = 0;    ///< attempts that failed
};

}  // namespace perdura
