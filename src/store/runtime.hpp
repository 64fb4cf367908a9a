// An open store: the parts put together, opened in order and closed in reverse.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <perdura/store.hpp>

#include "commit/checkpointer.hpp"
#include "commit/engine.hpp"
#include "heap/heap.hpp"
#include "log/reader.hpp"
#include "log/space.hpp"
#include "region/region.hpp"
#include "region/volume.hpp"
#include "store/drain.hpp"
#include "store/extensions.hpp"
#include "store/operation_watch.hpp"
#include "store/own_version.hpp"
#include "store/published.hpp"
#include "store/recovery.hpp"
#include "store/report_verifier.hpp"
#include "store/shared_volume.hpp"
#include "store/storage.hpp"
#include "track/kinds.hpp"
#include "track/mutators.hpp"
#include "track/scatter.hpp"
#include "track/tracker.hpp"

namespace perdura::detail {

/// For tests and tools: a decorator around the medium.
using WrapMedium =
    std::function<std::unique_ptr<media::Medium>(std::unique_ptr<media::Medium> medium)>;

/// Beyond Options: for our own programs.
struct InternalOptions {
  WrapMedium wrap = {};
  /// What is opened instead of what the URI names, where it gives one; it is wrapped already.
  std::function<std::unique_ptr<media::Medium>()> opened = {};
  /// Where the search for the address of a region that is made now begins, in regions; 0: anywhere.
  u64 first_place = 0;
  /// For a store that is made now, with a page tracker: a forked child gets a copy of the region
  /// and may go on using it as memory; the store stays the parent's.
  bool children_inherit = false;
  bool use_io_uring = true;
  commit::CutGuest* guest = nullptr;
  /// Called in an operation when a store with versions is opened, before its pointers are moved.
  std::function<Status(class Runtime&, Mutator&)> restore = {};
  /// Called afterwards, when pointers in the region hold where it is.
  std::function<void()> moved = {};
  /// For tests: in the thread that takes timed checkpoints, before each.
  std::function<void()> before_timed = {};
  WrapMedium wrap_drain = {};  ///< for tests: a decorator around the second medium
  /// The store is one of several processes', who make its versions together.
  commit::Agreement* agreement = nullptr;
};

class Runtime {
 public:
  static Result<std::unique_ptr<Runtime>> open(std::string_view uri, const Options& options,
                                               const InternalOptions& internal = {});
  /// Without a last checkpoint; see close().
  ~Runtime();
  Runtime(const Runtime&) = delete;

  /// It is open to be read.
  bool read_only() const { return options_.read_only; }
  /// Refuses what a forked child asks of its parent's store.
  Status usable() const;

  /// Whose cuts a container takes part in.
  bool is_container() const { return internal_.guest != nullptr; }
  /// Whose versions are made by all ranks of a group (perdura/mpi.hpp).
  bool is_in_group() const { return internal_.agreement != nullptr; }
  /// kMisuse where it is: `call` would make versions without the others.
  Status require_no_group(const char* call) const;

  /// kMisuse inside one of this thread, which `call` would wait for.
  Status require_outside_operation(const char* call);
  /// For destructors, which cannot report: they would leave the thread in what is gone, and what it
  /// did undone without a word. Unless `outside` is good it says so and ends the program.
  void require_outside_at_end(const Status& outside) const noexcept;
  Status close();
  Result<u64> checkpoint();
  Result<u64> checkpoint_async();
  Result<u64> checkpoint_root(std::string_view name);
  /// Before the first change that becomes durable by itself, a root's or a transaction's, since the
  /// region was opened. Pointers in it hold where the region is now; a crash takes it to the last
  /// version, whose pointers must hold there too. Not inside an operation.
  Status make_move_durable();
  Status wait(u64 version);
  /// The version that is there from then on.
  Result<u64> back_up(std::string_view uri, const BackupOptions& options);
  /// 0: none, or there is no drain.
  u64 drained_version() const noexcept { return drain_ ? drain_->drained() : 0; }

  Statistics statistics() const;
  void reset_statistics();

  heap::Heap& heap() { return *heap_; }
  region::Region& region() { return *region_; }
  const format::RegionRecord& record() const { return record_; }
  /// Of which version its content was when it was opened (Storage::content_version).
  u64 content_version() const { return content_version_; }
  /// The UUID of the store whose version that is: this one's, or a backup's original's.
  std::array<u8, 16> content_store() const;
  region::Volume& volume() { return *volume_; }
  track::Mutators& mutators() { return *mutators_; }
  track::Tracker& tracker() { return *tracker_; }
  commit::Checkpointer& checkpointer() { return *checkpointer_; }
  commit::Engine& engine() { return *engine_; }
  const std::string& name() const { return name_; }
  /// Where transactions have their records; nullptr: the region can have none.
  log::Space* log() const { return storage_->log(); }
  store::Extensions& extensions() { return extensions_; }
  Events& events() { return events_; }
  /// Only stores that the program reports by hand become durable.
  bool needs_reports() const {
    const track::Kind& kind = track::kind_of(tracker_->kind());
    return kind.is_reported && !kind.by_compiler;
  }
  std::vector<std::string> unreported() const;
  std::vector<std::string> damaged_pages() const;
  /// With OnDamage::kThrow: kCorrupt, once, for what was found damaged since this was asked last.
  Status tell_damage();
  u64 log_segments() const { return log()->capacity_bytes() / volume_->segment_bytes(); }

 private:
  Runtime(const Options& options, const InternalOptions& internal)
      : events_(options.on_event), options_(options), internal_(internal) {}

  static Result<std::unique_ptr<Runtime>> try_open(std::string_view uri, const Options& options,
                                                   const InternalOptions& internal);
  Status try_close();
  Status close_beside_damage();
  Status open_volume(std::string_view uri);
  Result<std::unique_ptr<media::Medium>> open_medium(std::string_view uri) const;
  Status check_creation(const media::Medium& medium) const;
  Status open_region();
  Status create_region();
  Status map_region();
  Failure explain_taken(const Failure& failure) const;
  Status start();
  commit::Findings findings() const;
  Status untold_damage() const;
  std::optional<commit::Aside> aside() const;
  Status make_snapshot();
  Result<std::unique_ptr<commit::Engine>> make_engine();
  bool may_take_reports() const;
  Status choose_tracker();
  Status make_tracker(const track::Kind& kind);
  Status check_aliases() const;
  Status scatter();
  Status open_heap();
  template <class Body>
  Status in_operation(Body&& body);
  Status repeat_transactions();
  Status leave_out_held();
  Status repeat(size_t begin, size_t end);
  Result<size_t> repeat_in_groups();
  Status free_transactions();
  Status note_opened_alone();
  Status relocate();
  Status watch_operations();
  store::OwnVersion::Of own_version() const;
  Status start_drain();
  void tell_outside_stores();
  void tick();
  void publish_statistics(std::string_view uri);

  Events events_;  ///< first: the others tell it until they are gone
  std::atomic<bool> is_open_{false};
  std::unique_ptr<store::Published> published_;  ///< nullptr: nobody can see them
  const Options options_;
  const InternalOptions internal_;
  u64 process_generation_ = 0;
  u64 recovery_ns_ = 0;
  u64 durable_version_ = 0;
  u64 content_version_ = 0;
  std::optional<Failure> address_taken_;  ///< the region is not where it was
  std::atomic<u64> told_pages_{0};        ///< of the damaged ones, by tell_damage()
  std::optional<u64> moved_version_;      ///< the last one whose pointers hold where it was
  std::string name_;                      ///< for messages
  std::string uri_;
  std::unique_ptr<store::SharedVolume> shared_;
  region::Volume* volume_ = nullptr;  ///< of it
  format::RegionRecord record_{};
  std::unique_ptr<store::Storage> storage_;
  std::vector<log::FoundRecord> transactions_;  ///< of the log, until they are repeated
  u64 repeated_ = 0;                            ///< of them
  std::unique_ptr<region::Region> region_;
  std::unique_ptr<track::Mutators> mutators_;
  std::unique_ptr<track::Tracker> tracker_;
  track::Scatter* scatter_ = nullptr;
  std::unique_ptr<store::ReportVerifier> verifier_;
  std::unique_ptr<store::OperationWatch> operation_watch_;
  std::unique_ptr<heap::Heap> heap_;
  std::unique_ptr<commit::Engine> engine_;
  std::unique_ptr<commit::Snapshot> snapshot_;  ///< nullptr: it captures with mutators stopped
  std::unique_ptr<commit::Checkpointer> checkpointer_;
  store::Extensions extensions_;
  std::unique_ptr<store::KeptVersions> kept_;  ///< nullptr: nothing is written
  std::unique_ptr<store::Drain> drain_;        ///< last: its thread uses the others
};

struct StoreAccess {
  static Store store(std::unique_ptr<Runtime> runtime) {
    return Store(std::unique_ptr<Runtime, RuntimeDeleter>(runtime.release()));
  }
};

/// The open store whose region starts at `base` or holds `address`; nullptr when none does.
Runtime* runtime_at(const void* base) noexcept;
Runtime* runtime_holding(const void* address) noexcept;
/// The one whose mutators have this id (ThreadKey), of which no other opening has; or nullptr.
Runtime* runtime_of_mutators(u64 id) noexcept;
/// The store this thread has an operation on, else the only open one; nullptr when that is not one.
/// Containers are none: nothing of a standard container can be in them.
Runtime* only_or_current_runtime() noexcept;
/// Whether there is one that it could be.
bool has_open_stores() noexcept;

}  // namespace perdura::detail
