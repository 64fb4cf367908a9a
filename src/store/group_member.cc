// A rank of a group: its store, and its part in the group's versions.
//
//   point()        cut ─ write ─ prepare ─ agree ─ publish            in the calling thread
//   point_async()  cut ─┐                  ┌ agree ┐                  the calling thread
//                       └ write ─ prepare ─┘       └ publish          the checkpoint thread
//
// Only the calling thread talks with the others: at the next call the checkpoint thread's version
// is agreed on, which waits for that with all of the version before still on the medium.
#include <perdura/detail/group.hpp>
#include <perdura/detail/step.hpp>

#include <sys/random.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/checksum.hpp"
#include "base/mutant.hpp"
#include "base/process.hpp"
#include "commit/agreement.hpp"
#include "media/medium.hpp"
#include "store/group_claims.hpp"
#include "store/group_look.hpp"
#include "store/group_state.hpp"
#include "store/runtime.hpp"
#include "store/versions.hpp"

namespace perdura::detail {

using commit::Agreement;
using format::GroupState;
using store::GroupDecision;
using store::GroupLook;
using store::GroupVersion;

namespace {

/// What a rank says of a failure, or of none.
struct Told {
  u32 code = 0;
  u32 reserved = 0;
  u64 drawn = 0;  ///< by chance; rank 0's is the next era
  u64 drawn_group[2] = {};
  char message[480] = {};

  void tell(const Failure& failure) {
    code = static_cast<u32>(failure.code);
    const size_t length = std::min(failure.message.size(), sizeof message - 1);
    std::memcpy(message, failure.message.data(), length);
    message[length] = '\0';
  }
};

Status draw(Told& told) {
  if (::getrandom(&told.drawn, sizeof told.drawn, 0) != sizeof told.drawn ||
      ::getrandom(told.drawn_group, sizeof told.drawn_group, 0) != sizeof told.drawn_group)
    return system_failure(errno, "cannot draw a number for a group");
  return {};
}

}  // namespace

class GroupMember::Member final : public Agreement {
 public:
  Member(std::unique_ptr<GroupPeers> peers, std::string_view store, const Options& options,
         const InternalOptions* internal)
      : peers_(std::move(peers)), pattern_(store), options_(options) {
    if (internal != nullptr) internal_ = *internal;
    internal_.agreement = this;
  }
  ~Member() override { end(); }

  void open();

  bool is_inherited() const { return forked_since(generation_); }
  Store& store() {
    if (!store_) throw_closed();
    return *store_;
  }
  GroupPeers& peers() { return *peers_; }
  u64 version() const { return number_; }
  u64 point();
  void point_async();
  u64 sync();
  void close();
  u32 ranks_before() const { return decided_.version.number == 0 ? 0 : decided_.version.ranks; }
  Store* store_of(u32 rank);

  // --- Agreement
  Status may_begin() override;
  Result<All> agree(const Result<Mine>& mine) override;

 private:
  // --- opening
  Status check_options() const {
    if (size() > 1 && uri_of(0) == uri_of(1) && options_of(0).region == options_of(1).region)
      return Failure{Code::kInvalidArgument,
                     "all ranks would have one store, '" + pattern_ +
                         "'; write %r in its name for the rank, as in file:state-%r.pd"};
    if (!options_.read_only && options_.version == 0) return {};
    return Failure{Code::kInvalidArgument,
                   "a group is opened to write; to read a rank's store open that one alone"};
  }
  std::vector<GroupLook> look();
  GroupLook look_at(u32 rank);
  void take_back(const std::vector<GroupLook>& looks);
  Status take_back(u32 rank, const GroupLook& look);
  Status remove_stale(const GroupLook& look);
  Status open_own();
  Status open_inherited(u32 rank);
  Status check_opened(Runtime& runtime, const std::string& name) const;
  static Failure has_changed(const std::string& name);
  std::string uri_of(u32 rank) const { return store::of_rank(pattern_, rank, size()); }
  Options options_of(u32 rank) const {
    Options options = options_;
    options.region = store::of_rank(options_.region, rank, size());
    options.drain = store::of_rank(options_.drain, rank, size());
    return options;
  }
  /// Ranks that were, of whose stores this one takes care.
  std::vector<u32> inherited_ranks(u32 stores) const {
    std::vector<u32> ranks;
    for (u32 rank = size() + peers_->rank(); rank < stores; rank += size()) ranks.push_back(rank);
    return ranks;
  }
  u32 size() const { return peers_->size(); }
  /// Memory of former ranks is to be distributed anew: all of it is read, which takes less in one
  /// go than where it is touched.
  bool goes_to_others() const { return ranks_before() != 0 && ranks_before() != size(); }

  // --- agreeing
  /// All have got here: throws, on all, where one has failed. Returns what rank 0 has drawn.
  Told all_or_none(const Status& mine, const char* doing);
  Result<All> exchange(const Result<Mine>& mine);
  Failure first_failure(const Result<Mine>& mine);
  void begin_era(u64 era, const u64 (&group)[2]);
  void note_made();
  Status finish_async();
  void end() noexcept;

  const u64 generation_ = process_generation();
  const std::unique_ptr<GroupPeers> peers_;
  const std::string pattern_;
  Options options_;
  InternalOptions internal_;
  std::optional<Store> store_;
  struct Inherited {
    u32 rank;
    Store store;
  };
  std::vector<Inherited> inherited_;
  store::GroupClaims claims_;  ///< while it opens
  GroupDecision decided_;

  // --- of versions
  u64 number_ = 0;         ///< the newest that all have
  u64 era_of_newest_ = 0;  ///< of that
  u32 ranks_of_newest_ = 0;
  u64 era_ = 0;  ///< of the next one
  u64 group_[2] = {};
  std::optional<u64> next_era_;  ///< after an attempt that failed, until the state says so
  bool opening_ = true;
  std::atomic<std::thread::id> caller_{};  ///< that may make a version; none: nobody may
  bool has_asked_ = false;                 ///< this attempt has come as far as agree()

  // --- of an asynchronous one
  struct Pending {
    u64 version;                     ///< of the region, or
    std::optional<Failure> failure;  ///< it has not begun
  };
  std::optional<Pending> pending_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Result<Mine>> asked_;    ///< by the checkpoint thread
  std::optional<Result<All>> answered_;  ///< by the calling thread
  bool ended_ = false;
};

// --- opening -------------------------------------------------------------------------------------

Told GroupMember::Member::all_or_none(const Status& mine, const char* doing) {
  Told told;
  if (const Status drawn = draw(told); !drawn) told.tell(drawn.failure());
  if (!mine) told.tell(mine.failure());
  std::vector<Told> all(size());
  peers_->gather(&told, sizeof told, all.data());
  for (u32 rank = 0; rank < size(); ++rank)
    if (all[rank].code != 0)
      throw Error(static_cast<Code>(all[rank].code),
                  "rank " + std::to_string(rank) + " cannot " + doing + ": " + all[rank].message);
  return all[0];
}

GroupLook GroupMember::Member::look_at(u32 rank) {
  const std::string uri = uri_of(rank);
  const Options options = options_of(rank);
  const Status claimed = guarded([&] { return claims_.claim(rank, uri, options, internal_); });
  if (!claimed) {
    GroupLook look;
    look.fail(claimed.failure());
    return look;
  }
  return store::look_at_group(
      uri, options, {.wrap = internal_.wrap, .opened = [&] { return claims_.lend(rank); }});
}

// Each its own, and then those of ranks that are no more, as far as rank 0's says that there were.
std::vector<GroupLook> GroupMember::Member::look() {
  const u32 me = peers_->rank();
  GroupLook own = look_at(me);
  std::vector<GroupLook> looks(size());
  peers_->gather(&own, sizeof own, looks.data());
  const u32 stores = store::stores_to_look_at(looks.front(), size());
  while (looks.size() < stores) {
    const u32 rank = static_cast<u32>(looks.size()) + me;
    GroupLook other;
    if (rank < stores) other = look_at(rank);
    std::vector<GroupLook> more(size());
    peers_->gather(&other, sizeof other, more.data());
    looks.insert(looks.end(), more.begin(), more.end());
  }
  looks.resize(stores);
  return looks;
}

void GroupMember::Member::open() {
  all_or_none(check_options(), "open its store");
  const std::vector<GroupLook> looks = look();
  std::vector<std::string> names;
  for (u32 rank = 0; rank < looks.size(); ++rank) {
    const std::string region = options_of(rank).region;
    names.push_back(uri_of(rank) + (region.empty() ? "" : " (region " + region + ")"));
  }
  decided_ = value_or_throw(store::decide(looks, size(), names));
  take_back(looks);
  all_or_none(guarded([this] { return open_own(); }), "open its store");
  Status inherited;
  for (u32 rank = size(); rank < ranks_before() && inherited; ++rank)
    if (rank % size() == peers_->rank()) inherited = guarded([&] { return open_inherited(rank); });
  const Told first = all_or_none(inherited, "open the store of a rank that is no more");
  number_ = decided_.version.number;
  era_of_newest_ = decided_.version.era;
  ranks_of_newest_ = decided_.version.ranks;
  if (number_ != 0) std::memcpy(group_, decided_.group, sizeof group_);
  all_or_none(guarded([&]() -> Status {
                begin_era(first.drawn, number_ != 0 ? group_ : first.drawn_group);
                return {};
              }),
              "note its group");
  opening_ = false;
}

// All that are ahead, and then all that are of no use any more: a crash in between leaves a version
// that all have.
void GroupMember::Member::take_back(const std::vector<GroupLook>& looks) {
  const u32 me = peers_->rank();
  Status done = guarded([&]() -> Status {
    PERDURA_TRY(take_back(me, looks[me]));
    for (const u32 rank : inherited_ranks(static_cast<u32>(looks.size())))
      PERDURA_TRY(take_back(rank, looks[rank]));
    return {};
  });
  all_or_none(done, "go back to the version that all have");
  all_or_none(guarded([&] { return remove_stale(looks[me]); }), "make room for its store");
  claims_.keep_only(me);  // the others are read
}

Status GroupMember::Member::take_back(u32 rank, const GroupLook& look) {
  const std::optional<u64> version = look.find(decided_.version);
  if (!version || *version == look.region_version) return {};
  if (is_mutant("group_stays_ahead")) return {};
  if (!claims_.has(rank))
    return store::take_back_beside(uri_of(rank), options_of(rank).region, look.region_version);
  return store::take_back(claims_.lend(rank), options_of(rank).region, look.region_version);
}

// From when the group had more ranks than the version has.
Status GroupMember::Member::remove_stale(const GroupLook& look) {
  if (look.kind != GroupLook::Kind::kMember || look.find(decided_.version)) return {};
  const u32 rank = peers_->rank();
  PERDURA_ASSERT(rank >= decided_.version.ranks);
  const std::string region = options_of(rank).region;
  if (region.empty()) {
    // The group's is the first one there. Without it another one would be.
    bool is_alone = claims_.has(rank);
    if (is_alone) {
      PERDURA_ASSIGN(const auto volume, region::Volume::open(claims_.lend(rank)));
      is_alone = volume->regions().size() == 1;
    }
    if (!is_alone)
      return Failure{Code::kMisuse,
                     "'" + uri_of(rank) +
                         "' has what the rank had when the group had more of them, and other "
                         "regions as well; open groups whose stores have other regions with a name "
                         "for theirs (Options::region), and remove this one with `perdura remove`"};
  }
  claims_.take(rank).reset();
  return region.empty() ? media::remove_medium(uri_of(rank))
                        : store::remove_region(uri_of(rank), region, {});
}

Failure GroupMember::Member::has_changed(const std::string& name) {
  return {Code::kLocked, "'" + name +
                             "' has changed while the group was opened: another process has it "
                             "too; end that one, and try again"};
}

Status GroupMember::Member::check_opened(Runtime& runtime, const std::string& name) const {
  PERDURA_ASSIGN(const GroupState* const state, store::group_state(name, runtime.heap()));
  GroupVersion opened;
  if (state != nullptr)
    opened = {.era = state->era,
              .number = store::group_number(*state, runtime.content_version()),
              .ranks = state->ranks};
  return opened.is_same(decided_.version) ? Status{} : has_changed(name);
}

Status GroupMember::Member::open_own() {
  const u32 me = peers_->rank();
  Options options = options_of(me);
  options.versions_kept = std::max(options.versions_kept, 2u);  // what is ahead can be taken back
  if (goes_to_others()) options.lazy_recovery = false;
  InternalOptions internal = internal_;
  // One behind the other: with fewer ranks several stores are open in one process.
  internal.first_place = checksum(pattern_.data(), pattern_.size()) % (1 << 20) + 1 + me;
  const bool was_there = claims_.has(me);
  internal.opened = [this, me] { return claims_.take(me); };
  PERDURA_ASSIGN(auto runtime, Runtime::open(uri_of(me), options, internal));
  store_.emplace(StoreAccess::store(std::move(runtime)));
  Runtime& opened = store_->runtime();
  if (opened.record().versions_kept == 1)
    return Failure{Code::kUnsupported, "'" + opened.name() +
                                           "' keeps one version, and a rank of a group keeps two "
                                           "at least; create it with Options::versions_kept"};
  if (decided_.version.number != 0 && me < decided_.version.ranks)
    return check_opened(opened, opened.name());
  if (was_there) return {};
  PERDURA_ASSIGN(const GroupState* const state, store::group_state(opened.name(), opened.heap()));
  return state == nullptr ? Status{} : has_changed(opened.name());
}

Status GroupMember::Member::open_inherited(u32 rank) {
  Options options = options_of(rank);
  options.read_only = true;
  options.create = false;
  options.region_address = 0;
  options.drain.clear();
  options.lazy_recovery = false;
  PERDURA_ASSIGN(auto runtime, Runtime::open(uri_of(rank), options, {.wrap = internal_.wrap}));
  inherited_.push_back({rank, StoreAccess::store(std::move(runtime))});
  Runtime& opened = inherited_.back().store.runtime();
  return check_opened(opened, opened.name());
}

Store* GroupMember::Member::store_of(u32 rank) {
  if (rank >= ranks_before()) return nullptr;
  if (rank == peers_->rank()) return &store();
  for (Inherited& each : inherited_)
    if (each.rank == rank) return &each.store;
  return nullptr;
}

// --- versions ------------------------------------------------------------------------------------

// What the versions from the next one on say.
void GroupMember::Member::begin_era(u64 era, const u64 (&group)[2]) {
  Runtime& runtime = store().runtime();
  GroupState state{};
  state.version = format::kGroupVersion;
  state.rank = peers_->rank();
  std::memcpy(state.group, group, sizeof state.group);
  state.era = is_mutant("group_one_era") ? 1 : era;
  state.era_before = era_of_newest_;
  state.base_version = runtime.checkpointer().durable_version();
  state.base_number = number_;
  state.ranks = size();
  state.ranks_before = ranks_of_newest_;
  state.session = runtime.volume().state().session;
  std::memcpy(state.store, runtime.volume().superblock().uuid, sizeof state.store);
  Mutator& mutator = runtime.mutators().this_thread();
  const track::InOperation operation(mutator);
  value_or_throw(store::set_group_state(runtime.name(), runtime.heap(), mutator, state));
  std::memcpy(group_, group, sizeof group_);
  era_ = state.era;
}

void GroupMember::Member::note_made() {
  ++number_;
  era_of_newest_ = era_;
  ranks_of_newest_ = size();
}

Status GroupMember::Member::may_begin() {
  if (opening_ || std::this_thread::get_id() == caller_) return {};
  return store().runtime().require_no_group("a checkpoint");
}

// By the thread that makes the version, which is not the calling one of an asynchronous version.
Result<Agreement::All> GroupMember::Member::agree(const Result<Mine>& mine) {
  if (opening_) {  // the version that a new store has is its own
    if (!mine) return copy_of(mine.failure());
    return *mine == Mine::kNothing ? All::kNothing : All::kPrepared;
  }
  if (std::this_thread::get_id() == caller_) {
    has_asked_ = true;
    return exchange(mine);
  }
  std::unique_lock lock(mutex_);
  asked_.emplace(mine ? Result<Mine>(*mine) : Result<Mine>(copy_of(mine.failure())));
  changed_.notify_all();
  changed_.wait(lock, [this] { return answered_ || ended_; });
  if (!answered_) return Failure{Code::kMisuse, "the group was closed before all had the version"};
  return *std::exchange(answered_, std::nullopt);
}

Result<Agreement::All> GroupMember::Member::exchange(const Result<Mine>& mine) {
  // What is least tells what the worst of them has: a failure, nothing, or a version.
  constexpr std::int64_t kFailed = 0, kNothing = 1, kPrepared = 2;
  const std::int64_t value = !mine ? kFailed : *mine == Mine::kNothing ? kNothing : kPrepared;
  std::int64_t values[] = {value, -value};
  peers_->minimum(values, 2);
  if (values[0] == kFailed) {
    Failure failure = first_failure(mine);
    if (!is_mutant("group_agrees_alone") || value != kPrepared) return failure;
    values[0] = kPrepared;
  }
  if (values[0] == kPrepared) {
    note_made();
    return All::kPrepared;
  }
  return -values[1] == kNothing ? All::kNothing : All::kPrepare;
}

// The changes of all belong to the next version, which begins an era: what this attempt has left on
// the media is no version of the group.
Failure GroupMember::Member::first_failure(const Result<Mine>& mine) {
  Told told;
  if (!mine) told.tell(mine.failure());
  const Status drawn = draw(told);
  (void)drawn;  // rank 0's, if it failed, is 0, which differs from all that were drawn
  std::vector<Told> all(size());
  peers_->gather(&told, sizeof told, all.data());
  next_era_ = all[0].drawn;
  for (u32 rank = 0; rank < size(); ++rank)
    if (all[rank].code != 0)
      return {static_cast<Code>(all[rank].code),
              "rank " + std::to_string(rank) + " of the group: " + all[rank].message};
  PERDURA_ASSERT(false);  // one of them said that it has failed
  return {};
}

// The version that was begun last, if it is not over. All ranks have one, or none.
Status GroupMember::Member::finish_async() {
  if (!pending_) return {};
  const Pending pending = *std::exchange(pending_, std::nullopt);
  Status status;
  if (pending.failure) {
    const Result<All> all = exchange(copy_of(*pending.failure));
    status = copy_of(all.failure());
  } else {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return asked_.has_value(); });
      const Result<Mine> mine = *std::exchange(asked_, std::nullopt);
      lock.unlock();
      Result<All> all = exchange(mine);
      const bool again = all && *all == All::kPrepare;
      if (!all) status = copy_of(all.failure());
      lock.lock();
      answered_.emplace(std::move(all));
      changed_.notify_all();
      if (!again) break;
    }
    const Status over = store().runtime().wait(pending.version);
    (void)over;  // as was agreed
    if (status) inherited_.clear();
  }
  if (next_era_) begin_era(*std::exchange(next_era_, std::nullopt), group_);
  return status;
}

u64 GroupMember::Member::sync() {
  Runtime& runtime = store().runtime();
  value_or_throw(runtime.require_outside_operation("sync"));
  value_or_throw(finish_async());
  return number_;
}

u64 GroupMember::Member::point() {
  Runtime& runtime = store().runtime();
  const Status before = finish_async();
  has_asked_ = false;
  caller_ = std::this_thread::get_id();
  Result<u64> made = before ? runtime.checkpoint() : Result<u64>(copy_of(before.failure()));
  caller_ = std::thread::id();
  // Where it has failed before that the others are told; where it failed for all, it is over.
  if (before && !has_asked_) made = exchange(copy_of(made.failure())).failure();
  if (next_era_) begin_era(*std::exchange(next_era_, std::nullopt), group_);
  value_or_throw(std::move(made));
  inherited_.clear();
  return number_;
}

void GroupMember::Member::point_async() {
  Runtime& runtime = store().runtime();
  value_or_throw(finish_async());
  caller_ = std::this_thread::get_id();
  Result<u64> begun = runtime.checkpoint_async();
  caller_ = std::thread::id();
  if (begun) pending_ = Pending{*begun, std::nullopt};
  else pending_ = Pending{0, copy_of(begun.failure())};
}

void GroupMember::Member::close() {
  if (!store_) return;
  Status made = guarded([this]() -> Status {
    point();
    return {};
  });
  Status closed = guarded([this]() -> Status {
    inherited_.clear();
    store_->close();
    return {};
  });
  store_.reset();
  all_or_none(closed, "close its store");
  value_or_throw(std::move(made));
}

void GroupMember::Member::end() noexcept {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  inherited_.clear();
  store_.reset();
}

// --- the surface ---------------------------------------------------------------------------------

GroupMember::GroupMember(std::unique_ptr<Member> member) : member_(std::move(member)) {}
GroupMember::~GroupMember() = default;

std::unique_ptr<GroupMember> GroupMember::open(std::unique_ptr<GroupPeers> peers,
                                               std::string_view store, const Options& options,
                                               const InternalOptions* internal) {
  auto member = std::make_unique<Member>(std::move(peers), store, options, internal);
  member->open();
  return std::unique_ptr<GroupMember>(new GroupMember(std::move(member)));
}

bool GroupMember::is_inherited() const noexcept { return member_->is_inherited(); }
Store& GroupMember::store() { return member_->store(); }
GroupPeers& GroupMember::peers() noexcept { return member_->peers(); }
std::uint64_t GroupMember::version() const noexcept { return member_->version(); }
std::uint64_t GroupMember::point() { return member_->point(); }
void GroupMember::point_async() { member_->point_async(); }
std::uint64_t GroupMember::sync() { return member_->sync(); }
void GroupMember::close() { member_->close(); }
unsigned GroupMember::ranks_before() const noexcept { return member_->ranks_before(); }
std::vector<std::string> GroupMember::roots_of(unsigned rank_before, std::uint64_t fingerprint) {
  std::vector<std::string> names;
  if (Store* const store = store_of(rank_before))
    for (const auto& root : store->runtime().heap().roots().all())
      if (root.fingerprint == fingerprint) names.push_back(root.name);
  return names;
}
void* GroupMember::allocate(const perdura_type& type, std::size_t bytes, bool zeroed) {
  return allocate_in(store().runtime().mutators().this_thread(), type, bytes, zeroed);
}
Store* GroupMember::store_of(unsigned rank_before) { return member_->store_of(rank_before); }

}  // namespace perdura::detail
