#include "store/runtime.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include <perdura/typed.h>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/mutant.hpp"
#include "base/process.hpp"
#include "base/threads.hpp"
#include "commit/read_only.hpp"
#include "heap/root_selection.hpp"
#include "media/slow.hpp"
#include "store/check_options.hpp"
#include "store/group_state.hpp"
#include "store/open_stores.hpp"
#include "store/transaction_blocks.hpp"
#include "store/transaction_replay.hpp"
#include "track/compiled_parts.hpp"
#include "track/kinds.hpp"

namespace perdura::detail {
namespace {

// Programs run differently with these trackers: their system calls get errors that they would not
// have got.
void tell_other_tracker(Events& events, const std::string& store, Tracking kind,
                        const std::string& refused) {
  events.tell(EventKind::kOtherTracker, Code::kUnsupported,
              "changes in '" + store + "' are found by '" + name_of(kind) + "', since " + refused +
                  "; with it system calls that store into durable memory, such as read(2), fail "
                  "with EFAULT",
              Events::Line::kOnceAProcess);
}

// Stores of theirs would be in no version.
void tell_other_parts(Events& events, const std::string& store) {
  if (!events.has_listener() && Events::was_said(EventKind::kUnreportedParts))
    return;  // before the program's file is read
  const std::vector<std::string> others = track::parts_without_reports().names;
  if (others.empty()) return;
  events.tell(EventKind::kUnreportedParts, Code::kUnsupported,
              "'" + store +
                  "' is open for stores that the compiler reports, and parts of the program report "
                  "none: " +
                  track::listed(others) +
                  "; what they store to it is in no version. Compile them with perdura-clang, or "
                  "say of those that store to no store perdura_trusted_part(\"" +
                  others.front() + "\")",
              Events::Line::kOnceAProcess);
}

// What a tracker says knows of no store. Of those that report, the program is what lacks something.
Failure of_tracker(const std::string& store, const track::Kind& kind, Failure failure) {
  failure.message =
      "stores to '" + store + "' cannot be found by '" + kind.name + "': " + failure.message;
  if (failure.code == Code::kUnsupported && !kind.is_reported)
    failure.message +=
        "; open it with another Options::tracking: kAutomatic takes what this system has";
  return failure;
}

// Whoever wants a version reads, and who reads makes nothing.
Options as_meant(Options options) {
  options.read_only = options.read_only || options.version != 0;
  options.create = options.create && !options.read_only;
  options.lazy_recovery = options.lazy_recovery && !options.strict;  // watch_operations()
  return options;
}

// What a thread leaves that ends inside a transaction is undone.
void leave_heap(Mutator& mutator) noexcept {
  if (mutator.in_transaction) store::blocks_of(mutator).abandon();
  const track::InOperation operation(mutator);
  static_cast<Runtime*>(mutator.runtime)->heap().release_cache(mutator);
}

}  // namespace

// --- opening -----------------------------------------------------------------------------------

Result<std::unique_ptr<Runtime>> Runtime::open(std::string_view uri, const Options& options,
                                               const InternalOptions& internal) {
  const NotCancelled not_cancelled;
  return guarded([&] { return try_open(uri, options, internal); });
}

Result<std::unique_ptr<Runtime>> Runtime::try_open(std::string_view uri, const Options& options,
                                                   const InternalOptions& internal) {
  PERDURA_TRY(store::check_options(options));
  if (options.strict && internal.guest != nullptr)
    return Failure{Code::kInvalidArgument,
                   "strict is of stores: a container's points stop whoever works on its objects; "
                   "open it without"};
  std::unique_ptr<Runtime> runtime(new Runtime(as_meant(options), internal));
  runtime->process_generation_ = process_generation();
  runtime->uri_ = uri;
  PERDURA_TRY(runtime->open_volume(uri));
  const u64 begin = now_ns();
  PERDURA_TRY(runtime->open_region());
  PERDURA_TRY(runtime->start());
  runtime->recovery_ns_ = now_ns() - begin;
  PERDURA_TRY(runtime->open_heap());
  PERDURA_TRY(runtime->watch_operations());
  PERDURA_TRY(runtime->start_drain());
  store::add_open_store(*runtime);
  runtime->publish_statistics(uri);
  runtime->is_open_.store(true, std::memory_order_release);
  return runtime;
}

// Regions of one medium share its volume. Who opened it chose how.
Status Runtime::open_volume(std::string_view uri) {
  if (read_only()) {
    PERDURA_ASSIGN(auto medium, open_medium(uri));
    PERDURA_ASSIGN(auto volume, store::open_volume_to_read(std::move(medium)));
    shared_ = store::SharedVolume::of_reader(std::move(volume));
  } else {
    const auto open = [&]() -> Result<std::unique_ptr<region::Volume>> {
      const auto told = std::make_shared<EventHub>();
      PERDURA_ASSIGN(auto medium, open_medium(uri));
      PERDURA_ASSIGN(auto volume, store::open_volume(media::tell_when_slow(std::move(medium), told),
                                                     options_.create, options_.log_segment_bytes));
      volume->set_events(told);
      return volume;
    };
    PERDURA_ASSIGN(shared_, store::SharedVolume::of(uri, open));
  }
  volume_ = &shared_->volume();
  name_ = volume_->name();
  if (!options_.region.empty()) name_ += " (region " + options_.region + ")";
  events_.set_store(name_);
  volume_->events().add(events_);
  return {};
}

Result<std::unique_ptr<media::Medium>> Runtime::open_medium(std::string_view uri) const {
  if (internal_.opened)
    if (std::unique_ptr<media::Medium> medium = internal_.opened()) return medium;
  media::MediumOptions medium_options;
  medium_options.create = options_.create;
  medium_options.read_only = options_.read_only;
  medium_options.allow_network_filesystem = options_.allow_network_filesystem;
  medium_options.use_io_uring = internal_.use_io_uring;
  PERDURA_ASSIGN(media::OpenedMedium opened, media::open_medium(uri, medium_options));
  if (opened.created) PERDURA_TRY(check_creation(*opened.medium));
  return internal_.wrap ? internal_.wrap(std::move(opened.medium)) : std::move(opened.medium);
}

// What an existing store answers for itself (aside).
Status Runtime::check_creation(const media::Medium& medium) const {
  return store::engine_kind(options_.engine).check_creation(options_, medium);
}

Status Runtime::open_region() {
  PERDURA_ASSIGN(const store::SharedVolume::Claim claim,
                 shared_->claim(options_.region, options_.create));
  record_ = claim.record;
  if (!claim.is_new) PERDURA_TRY(volume_->check_finished(record_));
  if (claim.is_new) PERDURA_TRY(create_region());
  else storage_ = store::engine_kind(record_).storage(*volume_, record_, options_);
  PERDURA_TRY(storage_->recover());
  durable_version_ = storage_->durable_version();
  content_version_ = storage_->content_version();
  if (read_only() && durable_version_ == 0)
    return Failure{Code::kNotFound, "'" + name() + "' holds no version yet that could be read"};
  transactions_ = storage_->take_transactions();
  if (!region_) {
    PERDURA_TRY(check_aliases());
    PERDURA_TRY(map_region());
  }
  return {};
}

std::array<u8, 16> Runtime::content_store() const {
  if (const auto other = storage_->content_store()) return *other;
  return std::to_array(volume_->superblock().uuid);
}

// Where the program wants it, else where it was, else where there is room, also for the store's
// other regions: they may be opened later. Two stores opened at once may choose the same range; the
// one that maps it first has it.
Status Runtime::map_region() {
  std::vector<format::RegionRecord> others = volume_->regions();
  std::erase_if(others, [&](const auto& each) { return each.region == record_.region; });
  store::add_open_ranges(others);
  if (options_.region_address != 0) {
    record_.address = options_.region_address;
    PERDURA_TRY(store::check_region_address(record_.address, format::reserved_bytes(record_)));
  }
  for (;;) {
    if (record_.address == 0) {
      // The store's id is random, and its regions follow each other.
      const u64 first =
          internal_.first_place != 0 ? internal_.first_place : volume_->store_id() + record_.region;
      PERDURA_ASSIGN(record_.address, region::Region::choose_address(
                                          format::reserved_bytes(record_), others, first));
    }
    auto mapped = storage_->map(record_);
    if (mapped) {
      region_ = std::move(*mapped);
      region_->set_events(events_);
      if (!internal_.children_inherit) region_->hide_from_children();
      return {};
    }
    if (mapped.failure().code != Code::kAddressTaken || options_.region_address != 0)
      return mapped.failure();
    if (!address_taken_) address_taken_ = explain_taken(mapped.failure());
    record_.address = 0;
  }
}

// The usual reason for which two stores have one address.
Failure Runtime::explain_taken(const Failure& failure) const {
  Failure explained = copy_of(failure);
  const std::string original = store::find_open_store(volume_->store_id(), name());
  if (!original.empty())
    explained.message += "; '" + name() + "' and '" + original +
                         "', which is open here, are copies of one store, and have its address: "
                         "a store with untyped blocks is open there alone. Open one of the two at "
                         "a time, or each in a process of its own; `perdura identity --new` gives "
                         "a copy an identity of its own, and leaves its address";
  return explained;
}

// Pointers in the region are addresses in its aliases, so their number stays.
Status Runtime::check_aliases() const {
  const auto made_with = [&] {
    return "'" + name() + "' was created with " + std::to_string(record_.aliases) + " aliases";
  };
  if (options_.aliases != 0 && options_.aliases != record_.aliases)
    return Failure{Code::kInvalidArgument, made_with() + ", not " +
                                               std::to_string(options_.aliases) +
                                               "; open it with that number, or with 0"};
  if (record_.aliases != 0 && track::kind_of(options_.tracking).is_reported)
    return Failure{Code::kInvalidArgument, made_with() + "; open it with a page tracker"};
  return {};
}

Status Runtime::create_region() {
  PERDURA_TRY(check_creation(volume_->medium()));
  record_.limit_bytes = options_.region_limit_bytes;
  record_.aliases = options_.aliases;
  const store::EngineKind& kind = store::engine_kind(options_.engine);
  kind.fill_record(options_, record_);
  storage_ = kind.storage(*volume_, record_, options_);
  storage_->create();
  PERDURA_TRY(map_region());
  return volume_->add_region(record_);
}

Status Runtime::start() {
  PERDURA_ASSIGN(mutators_, track::Mutators::create(this, &leave_heap));
  mutators_->set_name(name());
  mutators_->set_events(events_);
  heap_ = std::make_unique<heap::Heap>(*region_, name());
  PERDURA_TRY(storage_->load(*region_));
  PERDURA_TRY(choose_tracker());
  PERDURA_TRY(storage_->load_rest(*region_, *tracker_));
  // What recovery stored is not a change of the program's.
  PERDURA_TRY(tracker_->cut());
  tracker_->collect();
  tracker_->settle(true);
  PERDURA_ASSIGN(engine_, make_engine());
  if (options_.capture == Capture::kBackground && region_->aliases() != 0)
    return Failure{Code::kInvalidArgument,
                   "'" + name() +
                       "' has aliases, and with them there is no background capture; open it "
                       "without Capture::kBackground"};
  PERDURA_TRY(make_snapshot());
  commit::Checkpointer::Config config;
  config.engine = engine_.get();
  config.region = region_.get();
  config.mutators = mutators_.get();
  config.tracker = tracker_.get();
  config.guest = internal_.guest;
  config.epochs = heap_.get();
  config.agreement = internal_.agreement;
  config.store = name();
  config.snapshot = snapshot_.get();
  config.closed = storage_->closed();
  config.confirms = options_.confirm_versions;
  config.events = &events_;
  config.tick = [this] { tick(); };
  config.before_timed = [this] {
    if (internal_.before_timed) internal_.before_timed();
    return untold_damage();
  };
  if (options_.verify_reports) {
    PERDURA_ASSIGN(auto watch, store::StoreWatch::create(region_->base(), region_->limit()));
    verifier_ = std::make_unique<store::ReportVerifier>(*region_, *heap_, std::move(watch));
    config.inspect = [this](const track::DirtyMap& reported) { verifier_->inspect(reported); };
  }
  if (!options_.drain.empty()) {
    config.changes = [this](u64 version, const track::DirtyMap& changes) {
      if (drain_) drain_->note(version, changes);
    };
    config.selected = [this](u64 version, std::span<const u64> lines) {
      if (drain_) drain_->note(version, lines);
    };
  }
  checkpointer_ = std::make_unique<commit::Checkpointer>(config, durable_version_);
  events_.set_version(&checkpointer_->durable());
  return {};
}

// Where the process has no address space for copies and nobody asked for them, there are none.
Status Runtime::make_snapshot() {
  const std::optional<commit::Aside> how = aside();
  if (!how) return {};
  auto made = commit::make_snapshot(*how, *tracker_, *mutators_, *region_, engine_->unit_bytes(),
                                    engine_->wants_compared_pages());
  if (made) {
    snapshot_ = std::move(*made);
    return {};
  }
  const bool is_asked = options_.capture == Capture::kBackground;
  if (!is_asked && *how == commit::Aside::kAtOpening && made.failure().code == Code::kNoMemory)
    return {};
  return made.failure();
}

// How a capture in the background copies aside, if there is one. By itself a tracker of pages has
// one where the medium is slow: to copy them costs as much as to write them to NVM.
std::optional<commit::Aside> Runtime::aside() const {
  if (read_only() || options_.verify_reports || options_.capture == Capture::kStopped ||
      region_->aliases() != 0)
    return std::nullopt;
  const track::Kind& kind = track::kind_of(tracker_->kind());
  const bool is_wanted = options_.capture == Capture::kBackground;
  if (kind.sees_first && (is_wanted || storage_->usually_in_background(*tracker_)))
    return commit::Aside::kBeforeStores;
  const bool is_slow = !volume_->medium().geometry().byte_addressable;
  if (!kind.is_reported && (is_wanted || is_slow)) return commit::Aside::kAtOpening;
  return std::nullopt;
}

Result<std::unique_ptr<commit::Engine>> Runtime::make_engine() {
  if (read_only())
    return std::unique_ptr<commit::Engine>(std::make_unique<commit::ReadOnly>(
        "'" + name() + "' is open at version " + std::to_string(durable_version_) +
        " to be read; open it to write, without read_only and without a version"));
  return storage_->make_engine(
      {.region = region_.get(), .mutators = mutators_.get(), .tracker = tracker_.get()});
}

// Not where changes are found by page in any case: aliases, containers, whose library moves
// objects, and memory that forked children go on to use, which they would report to their parent's
// store.
bool Runtime::may_take_reports() const {
  if (!track::program_reports() || read_only() || region_->aliases() != 0 || is_container() ||
      internal_.children_inherit)
    return false;
  const track::OtherParts others = track::parts_without_reports();
  return others.are_known && others.names.empty();
}

// kAutomatic takes the reports of a program all of which the compiler has made report, else the
// first page tracker that this system has for this kind of mapping. What captures in the background
// must see stores first. A reader has no versions to make, so it takes any: the writer's may watch
// memory that was new, and not a view. But what system calls store to its memory fails alike.
Status Runtime::choose_tracker() {
  const track::Kind& wanted = track::kind_of(options_.tracking);
  const bool any_page_tracker = read_only() && !wanted.is_reported;
  if (wanted.make != nullptr && !any_page_tracker) {
    const Status made = make_tracker(wanted);
    if (!made) return of_tracker(name(), wanted, made.failure());
    // A store that children inherit is libperdura_malloc.so's, whose copy of the library is not the
    // one that parts of the program tell.
    if (wanted.by_compiler && !read_only() && !internal_.children_inherit)
      tell_other_parts(events_, name());
    return {};
  }
  if (may_take_reports()) {
    const Status made = make_tracker(track::kind_of(Tracking::kCompiled));
    if (made || made.failure().code != Code::kUnsupported) return made;
  }
  Status status;
  std::string refused;
  for (const track::Kind& each : track::page_trackers()) {
    if (options_.capture == Capture::kBackground && !each.sees_first) continue;
    if (options_.strict && each.by_access) continue;
    status = make_tracker(each);
    if (status) break;
    if (status.failure().code != Code::kUnsupported)
      return of_tracker(name(), each, status.failure());
    if (refused.empty()) refused = status.failure().message;
  }
  if (!status && options_.strict)
    return Failure{status.failure().code,
                   "a strict '" + name() + "' needs a tracker other than 'protect', and " +
                       status.failure().message +
                       "; open it without strict, or report stores (Tracking::kReported)"};
  if (status && !refused.empty()) tell_other_tracker(events_, name(), tracker_->kind(), refused);
  return status;
}

Status Runtime::make_tracker(const track::Kind& kind) {
  const bool aliased = region_->aliases() != 0;
  std::byte* const base = aliased ? region_->alias(0) : region_->base();
  const u64 bytes = aliased ? region_->aliases() * region_->alias_stride() : region_->limit();
  // Aliases are shared memory, of which a child cannot get a copy.
  if (internal_.children_inherit && !aliased) region_->let_children_inherit();
  const track::Memory memory = aliased                ? track::Memory::kShared
                               : region_->has_views() ? track::Memory::kPrivate
                                                      : track::Memory::kAnonymous;
  heap_->set_scatter(scatter_ = nullptr);
  tracker_.reset();
  PERDURA_ASSIGN(tracker_, kind.make({*mutators_, base, bytes, memory, options_.granule_bytes,
                                      options_.chunk_bytes}));
  if (kind.is_reported && options_.huge_pages && !options_.strict) region_->use_huge_pages();
  if (aliased) PERDURA_TRY(scatter());
  return region_->on_backed([this](std::byte* address, u64 length, bool anonymous) -> Status {
    const track::Part part{address, length, anonymous};
    PERDURA_TRY(tracker_->backed({&part, 1}));
    if (operation_watch_) operation_watch_->watch(address, length);
    return {};
  });
}

// The page tracker that was made sees the aliases.
Status Runtime::scatter() {
  const track::Scatter::Aliases aliases{region_->base(), region_->limit(), region_->alias_stride(),
                                        region_->aliases()};
  PERDURA_ASSIGN(auto scatter, track::Scatter::create(*mutators_, aliases, std::move(tracker_)));
  scatter->set_visible(
      [this](u64 page, u64 alias) { return heap_->blocks().visible_lines(page, alias); });
  scatter_ = scatter.get();
  heap_->set_scatter(scatter_);
  tracker_ = std::move(scatter);
  return {};
}

Status Runtime::open_heap() {
  if (durable_version_ != 0) {
    PERDURA_TRY(heap_->attach());
    PERDURA_TRY(repeat_transactions());
    PERDURA_TRY(note_opened_alone());
    if (internal_.restore)
      PERDURA_TRY(in_operation([this](Mutator& each) { return internal_.restore(*this, each); }));
    if (!heap_->is_at_home()) PERDURA_TRY(relocate());
    if (internal_.moved)
      PERDURA_TRY(in_operation([this](Mutator&) -> Status {
        internal_.moved();
        return {};
      }));
    if (log() != nullptr) PERDURA_TRY(free_transactions());
  } else {
    PERDURA_TRY(in_operation([this](Mutator& mutator) { return heap_->format(mutator); }));
    PERDURA_TRY(checkpoint());
  }
  if (verifier_) verifier_->start();
  return {};
}

template <class Body>
Status Runtime::in_operation(Body&& body) {
  Mutator& mutator = mutators_->this_thread();
  const track::InOperation operation(mutator);
  return body(mutator);
}

// Before pointers are moved: transactions stored them as they were.
Status Runtime::repeat_transactions() {
  PERDURA_TRY(leave_out_held());
  if (transactions_.empty()) return {};
  if (is_in_group())
    return Failure{Code::kUnsupported,
                   "the log of '" + name() +
                       "' has transactions that no version has, and a group of processes has none; "
                       "open the store once alone, and close it"};
  u64 lines = 0;
  for (const auto& each : transactions_) lines += store::version_lines(each.entries);
  size_t done = 0;
  const Status room = read_only() ? Status{} : log()->make_room(lines);
  if (!room && !is_mutant("recovery_at_once")) {
    if (room.failure().code != Code::kNoSpace) return room.failure();
    PERDURA_ASSIGN(done, repeat_in_groups());
  }
  return repeat(done, transactions_.size());
}

// A segment of which the version has every record is free when that is home. A stream that was idle
// may have kept the superblock from saying so, and its session has counted on it. Whatever is left
// of such a segment while it is used again the version has as well. Not so of records that never
// were: behind another hole they might seem to count, so their segment stays.
Status Runtime::leave_out_held() {
  std::vector<log::FoundRecord> dead = storage_->take_dead_transactions();
  if (!transactions_.empty() || !dead.empty()) {
    PERDURA_ASSIGN(const auto* const state, store::transaction_state(name(), *heap_));
    if (state != nullptr) {
      store::erase_held(*state, transactions_);
      store::erase_held(*state, dead);
    }
  }
  if (log() == nullptr) return {};
  std::vector<u64> needed;
  for (const auto* const records : {&transactions_, &dead})
    for (const log::FoundRecord& each : *records) needed.push_back(each.segment);
  std::ranges::sort(needed);
  log()->free_held(durable_version_, needed);
  return {};
}

// What it makes of the store from now on is in no version of the group's.
Status Runtime::note_opened_alone() {
  if (read_only() || is_in_group()) return {};
  PERDURA_ASSIGN(format::GroupState* const state, store::group_state(name(), *heap_));
  if (state == nullptr) return {};
  return in_operation([&](Mutator& mutator) -> Status {
    store::note_opened_alone(*state, mutator, content_version_);
    return {};
  });
}

Status Runtime::repeat(size_t begin, size_t end) {
  return in_operation([&](Mutator& mutator) -> Status {
    const std::span<const log::FoundRecord> all(transactions_);
    PERDURA_ASSIGN(const u64 repeated, store::repeat_transactions(name(), *heap_, *region_, mutator,
                                                                  all.subspan(begin, end - begin)));
    repeated_ += repeated;
    return {};
  });
}

// On a full medium there may be no room for a version that has all of them. A version of the first
// ones says itself which it has; when it is home its log is free for the next. For one of them
// there is always room (log::Space::reserve), unless an earlier Perdura wrote it. Returns how many
// are in versions; the rest fits one more.
Result<size_t> Runtime::repeat_in_groups() {
  for (size_t done = 0;;) {
    PERDURA_TRY(engine_->bring_home());
    size_t end = done;
    for (u64 lines = 0; end < transactions_.size(); ++end) {
      lines += store::version_lines(transactions_[end].entries);
      if (end != done && !log()->fits(lines)) break;
    }
    if (end == transactions_.size()) return done;
    PERDURA_TRY(repeat(done, end));
    done = end;
    const Result<u64> made = checkpoint();
    if (!made && made.failure().code == Code::kNoSpace) return done;
    if (!made) return made.failure();
    durable_version_ = *made;
  }
}

// A version that has them frees their records. What is still held where there are none are records
// that never were: the superblock says before they are overwritten that they are not needed.
Status Runtime::free_transactions() {
  u64 version = durable_version_ + 1;
  if (repeated_ != 0) {
    // With the version that has the last of them they go home as well.
    log()->free_held(durable_version_ + 1);
    const Result<u64> made = checkpoint();
    // On a full medium the store can be read, and written to where it has room; the next version
    // has them, and their records stay until then.
    if (!made && (made.failure().code != Code::kNoSpace || is_mutant("recovery_needs_space")))
      return made.failure();
    if (made) version = *made;
  }
  log()->free_held(version);
  transactions_ = {};
  return {};
}

// Which address the pointers hold at is part of each version. Where the directory says another
// one, the region is only mapped there and moved again.
Status Runtime::relocate() {
  const auto before_stores = [this](std::byte* address, u64 length) {
    tracker_->before_stores(address, length);
    ::madvise(address, length, MADV_POPULATE_WRITE);
  };
  Status moved =
      in_operation([&](Mutator& mutator) { return heap_->relocate(mutator, before_stores); });
  if (!moved) {
    if (!address_taken_) return moved;
    return Failure{moved.failure().code,
                   address_taken_->message + "; elsewhere: " + moved.failure().message};
  }
  if (read_only()) return {};
  moved_version_ = durable_version_;
  return volume_->set_region_address(region_->id(),
                                     reinterpret_cast<std::uintptr_t>(region_->base()));
}

// What is closed until it was loaded would be opened too early: all is loaded before. What is
// verified before it is used (Verify::kBeforeUse) is touched for that.
Status Runtime::watch_operations() {
  if (!options_.strict || read_only()) return {};
  const auto home = region_->home();
  if (const track::ClosedParts* const closed = storage_->closed()) {
    for (const format::Extent& extent : home->extents())
      for (u64 at = 0; at < extent.length; at += kPageBytes)
        (void)*static_cast<volatile std::byte*>(region_->base() + extent.region_offset + at);
    while (!closed->done()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  PERDURA_ASSIGN(operation_watch_,
                 store::OperationWatch::create(*mutators_, region_->base(), region_->limit()));
  for (const format::Extent& extent : home->extents())
    operation_watch_->watch(region_->base() + extent.region_offset, extent.length);
  return {};
}

// Finding out where it was takes a program of its own for each, so no handler does it.
void Runtime::tell_outside_stores() {
  if (!operation_watch_) return;
  for (const store::OperationWatch::Store& each : operation_watch_->take())
    events_.tell(
        EventKind::kOutsideOperation, Code::kMisuse,
        fmt::format("a store to '{}' at {} outside of operations, by {}: a checkpoint may "
                    "fall before or behind it; make it part of an operation "
                    "(docs/api.md, \"Threads\")",
                    name(), static_cast<const void*>(each.address), store::describe(each.place)),
        Events::Line::kAlways);
}

// --- use ---------------------------------------------------------------------------------------

Runtime::~Runtime() {
  store::remove_open_store(*this);
  if (mutators_) mutators_->detach();
  extensions_.end_threads();  // they take checkpoints
  // Its thread ends before it is out of reach: what that publishes and tells is read from it.
  if (checkpointer_) (void)checkpointer_->finish(false);
  drain_.reset();  // it reads versions that the engine keeps, and is published by that thread
  events_.set_version(nullptr);
  checkpointer_.reset();  // it tells the extensions of versions
  published_.reset();
  extensions_.clear();
  engine_.reset();
  storage_.reset();  // its threads use the tracker
  if (volume_ != nullptr) volume_->events().remove(events_);
}

// By the checkpoint thread, perhaps before all of the store is open.
void Runtime::tick() {
  if (!is_open_.load(std::memory_order_acquire)) return;
  events_.deliver();
  tell_outside_stores();
  if (published_) published_->write(statistics());
}

// A store can be used without. A program that knows nothing of the library has descriptors of its
// own alone.
void Runtime::publish_statistics(std::string_view uri) {
  if (read_only() || internal_.children_inherit) return;
  store::Published::Of of{};
  const format::Superblock superblock = volume_->superblock();
  std::copy_n(superblock.uuid, sizeof of.uuid, of.uuid);
  of.region = record_.region;
  of.name = region::region_name(record_);
  of.occupant = media::occupant_of(uri);
  auto published = store::Published::create(of);
  if (!published) return;
  published_ = std::move(*published);
  published_->write(statistics());
}

Status Runtime::usable() const {
  if (!forked_since(process_generation_)) return {};
  return Failure{Code::kForked, "the store '" + name() +
                                    "' belongs to the parent process; a forked child cannot use "
                                    "it: open stores after fork"};
}

Status Runtime::require_no_group(const char* call) const {
  if (!is_in_group()) return {};
  return Failure{Code::kMisuse, std::string(call) + " of '" + name() +
                                    "' would make a version without the other processes of its "
                                    "group; call the group's point()"};
}

Status Runtime::require_outside_operation(const char* call) {
  PERDURA_TRY(usable());
  if (mutators_->leave_polled()) return {};
  return Failure{Code::kMisuse, std::string(call) +
                                    " inside an operation of the same thread would wait for it "
                                    "for ever; end the operation first"};
}

void Runtime::require_outside_at_end(const Status& outside) const noexcept {
  if (outside) return;
  std::fprintf(stderr, "perdura: '%s' cannot be destroyed: %s\n", name().c_str(),
               outside.failure().message.c_str());
  std::abort();
}

Result<u64> Runtime::checkpoint() {
  const NotCancelled not_cancelled;
  return guarded([this]() -> Result<u64> {
    PERDURA_TRY(require_outside_operation("checkpoint"));
    PERDURA_TRY(tell_damage());
    return checkpointer_->checkpoint();
  });
}

Result<u64> Runtime::checkpoint_async() {
  const NotCancelled not_cancelled;
  return guarded([this]() -> Result<u64> {
    PERDURA_TRY(require_outside_operation("checkpoint_async"));
    PERDURA_TRY(tell_damage());
    return checkpointer_->checkpoint_async();
  });
}

Result<u64> Runtime::checkpoint_root(std::string_view name) {
  const NotCancelled not_cancelled;
  return guarded([&]() -> Result<u64> {
    PERDURA_TRY(require_outside_operation("checkpoint_root"));
    PERDURA_TRY(tell_damage());
    if (scatter_ == nullptr)
      return Failure{Code::kUnsupported, "'" + this->name() +
                                             "' has no aliases, so no object of it can become "
                                             "durable by itself; create it with Options::aliases"};
    PERDURA_TRY(make_move_durable());
    heap::RootSelection selection(*heap_, *scatter_, name);
    return checkpointer_->checkpoint(selection);
  });
}

Status Runtime::make_move_durable() {
  const bool is_durable = !moved_version_ || checkpointer_->durable_version() > *moved_version_;
  if (is_durable || is_mutant("move_not_durable")) return {};
  PERDURA_TRY(checkpoint());
  return {};
}

Status Runtime::wait(u64 version) {
  const NotCancelled not_cancelled;
  return guarded([&]() -> Status {
    PERDURA_TRY(usable());
    return checkpointer_->wait(version);
  });
}

store::OwnVersion::Of Runtime::own_version() const {
  media::MediumOptions medium;
  medium.allow_network_filesystem = options_.allow_network_filesystem;
  medium.use_io_uring = internal_.use_io_uring;
  return {.volume = volume_,
          .record = &record_,
          .uri = uri_,
          .medium = medium,
          .kept = kept_.get(),
          .durable = [this] { return checkpointer_->durable_version(); }};
}

// What is not noted before it is there is compared.
Status Runtime::start_drain() {
  if (read_only()) return {};
  kept_ = std::make_unique<store::KeptVersions>(*engine_);
  if (options_.drain.empty()) return {};
  PERDURA_TRY(store::engine_kind(record_).check_drain());
  if (store::is_same_place(options_.drain, uri_))
    return Failure{Code::kInvalidArgument,
                   "'" + uri_ + "' cannot be drained to itself; name another place"};
  store::Drain::Config config;
  config.uri = options_.drain;
  config.bytes_per_second = options_.drain_bytes_per_second;
  config.source = own_version();
  config.medium = config.source.medium;
  config.events = &events_;
  config.wrap = internal_.wrap_drain;
  drain_ = std::make_unique<store::Drain>(std::move(config));
  return {};
}

// Of who reads, `perdura backup` makes one beside him.
Result<u64> Runtime::back_up(std::string_view uri, const BackupOptions& options) {
  const NotCancelled not_cancelled;
  return guarded([&]() -> Result<u64> {
    PERDURA_TRY(require_outside_operation("backup"));
    if (read_only())
      return Failure{Code::kUnsupported,
                     "'" + name() + "' is open to be read; back it up with `perdura backup`"};
    PERDURA_ASSIGN(const auto own, store::OwnVersion::open(own_version(), true));
    store::CopyOptions copy;
    copy.to = own_version().medium;
    copy.bytes_per_second = options.bytes_per_second;
    copy.versions_kept = options.versions_kept;
    copy.adopts = options.adopts;
    PERDURA_ASSIGN(const store::CopiedRegion done,
                   store::back_up_version(own->source(), *volume_, record_, uri_, uri, copy));
    return done.source_version;
  });
}

Status Runtime::close() {
  const NotCancelled not_cancelled;
  return guarded([this] { return try_close(); });
}

Status Runtime::try_close() {
  PERDURA_TRY(require_outside_operation("close"));
  tell_outside_stores();
  checkpointer_->every(std::chrono::milliseconds{0});
  if (read_only()) {
    const Status ended = checkpointer_->finish(false);
    const Status told = tell_damage();
    return ended ? told : ended;
  }
  // A program that has not heard of zeros where its data were may have stored what it made of them.
  const bool unheard_zeros = findings().zeroed_pages != 0 && !untold_damage();
  Status status;
  if (unheard_zeros) status = tell_damage();
  else if (is_in_group()) status = {};  // the last version is the group's
  else if (const Result<u64> last = checkpointer_->checkpoint(); !last) status = last.failure();
  if (drain_) drain_->finish(options_.drain_wait_ms);
  const Status home = checkpointer_->finish(static_cast<bool>(status));
  if (status) status = home;
  if (status) status = volume_->end_session();
  return status ? close_beside_damage() : status;
}

Statistics Runtime::statistics() const {
  Statistics statistics;
  checkpointer_->add_to(statistics);
  const commit::Findings verified = findings();
  statistics.verified_bytes = verified.verified_bytes;
  statistics.damaged_pages = verified.damaged_pages;
  // It may learn of a version before this is told.
  statistics.confirmed_version =
      std::min(volume_->confirmed_version(region_->id()), statistics.durable_version);
  const u64 pinned = volume_->medium().lowest_pin(region_->id(), 0);
  statistics.pinned_version = pinned == media::Medium::kNoPin ? 0 : pinned;
  statistics.region_backed_bytes = region_->home()->backed_bytes();
  statistics.recovery_ns = recovery_ns_;
  statistics.unreported = verifier_ ? verifier_->lines() : 0;
  statistics.tracking = tracker_->kind();
  statistics.aliases = region_->aliases();
  const track::Mutators::StopWaits stops = mutators_->waits();
  statistics.stop_waits = stops.count;
  statistics.stop_wait_ns = stops.ns;
  if (log::Space* const space = storage_->log()) {
    statistics.group_waits += space->waits().count.load(std::memory_order_relaxed);
    statistics.group_wait_ns += space->waits().ns.load(std::memory_order_relaxed);
  }
  statistics.events = events_.told();
  statistics.untyped_allocations = perdura_untyped_allocations();
  if (drain_) drain_->add_to(statistics);
  return statistics;
}

void Runtime::reset_statistics() {
  checkpointer_->reset_statistics();
  mutators_->reset_waits();
  if (log::Space* const space = storage_->log()) space->waits().count = space->waits().ns = 0;
}

commit::Findings Runtime::findings() const {
  commit::Findings all = storage_->findings();
  all.add(engine_->findings());
  return all;
}

std::vector<std::string> Runtime::damaged_pages() const { return findings().first; }

std::vector<std::string> Runtime::unreported() const {
  return verifier_ ? verifier_->findings() : std::vector<std::string>{};
}

}  // namespace perdura::detail
