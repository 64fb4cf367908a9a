#include "store/group_look.hpp"

#include <algorithm>
#include <cstring>

#include "base/mutant.hpp"
#include "store/group_state.hpp"
#include "store/recovery.hpp"
#include "store/shared_volume.hpp"
#include "store/storage.hpp"

namespace perdura::store {

using detail::Runtime;
using format::GroupState;
using Kind = GroupLook::Kind;

std::optional<u64> GroupLook::find(const GroupVersion& version) const {
  for (u32 i = 0; i < count; ++i)
    if (versions[i].is_same(version)) return region_version - i;
  return std::nullopt;
}

void GroupLook::fail(const Failure& failure) {
  kind = Kind::kFailed;
  code = static_cast<u32>(failure.code);
  const size_t length = std::min(failure.message.size(), sizeof message - 1);
  std::memcpy(message, failure.message.data(), length);
  message[length] = '\0';
}

Failure GroupLook::failure() const { return {static_cast<Code>(code), message}; }

std::string of_rank(std::string_view pattern, u32 rank, u32 ranks) {
  std::string text;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (next == 'r') text += std::to_string(rank);
    else if (next == 'n') text += std::to_string(ranks);
    else if (next == '%') text += '%';
    else text += pattern[i];
    i += next == 'r' || next == 'n' || next == '%' ? 1 : 0;
  }
  return text;
}

namespace {

// To be read: by whatever finds changes, since there are none.
Options to_look(Options options) {
  options.read_only = true;
  options.create = false;
  options.version = 0;
  options.tracking = Tracking::kAutomatic;
  options.capture = Capture::kAutomatic;
  options.lazy_recovery = true;
  options.verify_bytes_per_second = 0;
  options.verify_reports = options.strict = false;
  options.region_address = 0;
  options.drain.clear();
  return options;
}

// Version 1 is made with the store, which then has nothing in it.
bool is_new(Runtime& runtime, u64 version) {
  return version == 1 && runtime.heap().roots().all().empty();
}

Status look_into(Runtime& runtime, GroupLook& look) {
  const u64 version = look.region_version = runtime.checkpointer().durable_version();
  PERDURA_ASSIGN(const GroupState* const state, group_state(runtime.name(), runtime.heap()));
  if (state == nullptr) {
    look.kind = is_new(runtime, version) ? Kind::kNew : Kind::kOther;
    look.count = look.kind == Kind::kNew ? 1 : 0;
    return {};
  }
  const bool says_whose = !std::ranges::all_of(state->store, [](u8 byte) { return byte == 0; });
  if (says_whose && !std::ranges::equal(state->store, runtime.content_store()))
    return Failure{Code::kForeign,
                   "it is a copy of the store of rank " + std::to_string(state->rank) +
                       " of a group, or of a backup of it, with versions of its own; give the "
                       "group what `perdura restore` makes of a backup"};
  look.kind = Kind::kMember;
  look.rank = state->rank;
  std::copy_n(state->group, sizeof look.group, look.group);
  const u64 number = group_number(*state, runtime.content_version());
  look.versions[0] = {.era = state->era, .number = number, .ranks = state->ranks};
  look.count = 1;
  region::Volume& volume = runtime.volume();
  const format::RegionRecord& record = runtime.record();
  const bool is_untouched = volume.state().session == state->session;
  if (state->alone != 0 || runtime.content_version() != version ||
      !engine_kind(record).can_take_back(volume, record, version, is_untouched))
    return {};
  const bool is_first = version == state->base_version + 1;
  look.versions[1] = {
      .era = is_first && !is_mutant("group_one_era") ? state->era_before : state->era,
      .number = number - 1,
      .ranks = is_first ? state->ranks_before : state->ranks};
  look.count = 2;
  return {};
}

}  // namespace

GroupLook look_at_group(const std::string& uri, const Options& options,
                        const detail::InternalOptions& internal) {
  GroupLook look;
  const Status looked = guarded([&]() -> Status {
    auto runtime = Runtime::open(uri, to_look(options), internal);
    if (runtime) return look_into(**runtime, look);
    if (runtime.failure().code != Code::kNotFound) return std::move(runtime).failure();
    look.count = 1;  // blank
    return {};
  });
  if (!looked) look.fail(looked.failure());
  return look;
}

Status take_back(std::unique_ptr<media::Medium> medium, const std::string& region, u64 version) {
  return guarded([&]() -> Status {
    PERDURA_ASSIGN(const auto volume, region::Volume::open(std::move(medium)));
    PERDURA_ASSIGN(const format::RegionRecord record, find_region(*volume, region));
    return engine_kind(record).take_back(*volume, record, version);
  });
}

Status take_back_beside(const std::string& uri, const std::string& region, u64 version) {
  return guarded([&]() -> Status {
    PERDURA_ASSIGN(const auto shared,
                   SharedVolume::of(uri, [&]() -> Result<std::unique_ptr<region::Volume>> {
                     return Failure{Code::kLocked, "'" + uri +
                                                       "' was closed while the group was opened; "
                                                       "try again"};
                   }));
    PERDURA_ASSIGN(const SharedVolume::Claim claim, shared->claim(region, false));
    PERDURA_TRY(engine_kind(claim.record).take_back(shared->volume(), claim.record, version));
    return shared->end_session();
  });
}

u32 stores_to_look_at(const GroupLook& first, u32 ranks) {
  for (u32 i = 0; i < first.count; ++i) ranks = std::max(ranks, first.versions[i].ranks);
  return ranks;
}

namespace {

/// Of the looks at all stores.
class Deciding {
 public:
  Deciding(std::span<const GroupLook> looks, u32 ranks, std::span<const std::string> names)
      : looks_(looks), names_(names), ranks_(ranks) {}

  Result<GroupDecision> run() const {
    for (u32 rank = 0; rank < looks_.size(); ++rank) PERDURA_TRY(check(rank));
    const GroupLook& first = looks_.front();
    if (first.count == 0 || first.kind == Kind::kOther) return of_none(0);
    const GroupVersion* newest = nullptr;
    for (u32 i = 0; i < first.count; ++i) {
      const GroupVersion& version = first.versions[i];
      if (who_lacks(version)) continue;
      newest = &version;
      break;
    }
    if (newest == nullptr) return nothing_in_common();
    PERDURA_TRY(check_others(*newest));
    GroupDecision decision;
    decision.version = *newest;
    std::copy_n(first.group, sizeof decision.group, decision.group);
    return decision;
  }

 private:
  u32 ranks_of(const GroupVersion& version) const {
    return version.number == 0 ? ranks_ : version.ranks;
  }
  bool is_of(const GroupLook& look, const GroupLook& other) const {
    return std::equal(std::begin(look.group), std::end(look.group), std::begin(other.group));
  }
  std::string name(u32 rank) const {
    return "rank " + std::to_string(rank) + "'s store '" + names_[rank] + "'";
  }
  Failure of_none(u32 rank) const {
    return {Code::kForeign, name(rank) +
                                " has contents and is of no group; give the group stores of its "
                                "own, or move that one away"};
  }

  Status check(u32 rank) const {
    const GroupLook& look = looks_[rank];
    if (look.kind == Kind::kFailed) {
      Failure failure = look.failure();
      failure.message = name(rank) + " cannot be opened: " + failure.message;
      return failure;
    }
    if (look.kind == Kind::kOther) return of_none(rank);
    if (look.kind == Kind::kMember && look.rank != rank)
      return Failure{Code::kForeign, name(rank) + " is rank " + std::to_string(look.rank) +
                                         "'s of its group; give each rank the store that it had"};
    return {};
  }

  // Where nothing was stored yet: all had made their stores before one of them had a version. One
  // that is not there is lost, and not made yet.
  std::optional<u32> who_lacks(const GroupVersion& version) const {
    const bool all_were_made = std::ranges::any_of(
        looks_, [](const GroupLook& each) { return each.kind == Kind::kMember; });
    for (u32 rank = 0; rank < ranks_of(version); ++rank) {
      const GroupLook& look = looks_[rank];
      if (!look.find(version) || (version.number != 0 && !is_of(look, looks_.front()))) return rank;
      if (look.kind == Kind::kBlank && all_were_made) return rank;
    }
    return std::nullopt;
  }

  // Those that the version is not of: its ranks are fewer than they are now, and what they may have
  // is of the same group, from when it had more.
  Status check_others(const GroupVersion& version) const {
    for (u32 rank = ranks_of(version); rank < ranks_; ++rank)
      if (looks_[rank].kind == Kind::kMember && !is_of(looks_[rank], looks_.front()))
        return Failure{Code::kForeign, name(rank) + " is of another group; move it away"};
    return {};
  }

  // Where rank 0 lacks what the others have, that is what is said.
  Failure nothing_in_common() const {
    const auto has_versions = [](const GroupLook& look) { return look.kind == Kind::kMember; };
    u32 with = 0;
    while (with < looks_.size() && !has_versions(looks_[with])) ++with;
    const GroupVersion version = looks_[with].versions[0];
    for (u32 rank = 0; rank < std::min<size_t>(looks_.size(), version.ranks); ++rank) {
      if (looks_[rank].find(version) && is_of(looks_[rank], looks_[with])) continue;
      return lacks(rank, with, version);
    }
    return lacks(with, 0, version);
  }

  Failure lacks(u32 rank, u32 with, const GroupVersion& version) const {
    const GroupLook& look = looks_[rank];
    std::string has = "holds none";
    if (look.kind == Kind::kMember)
      has = is_of(look, looks_[with])
                ? "has another, number " + std::to_string(look.versions[0].number) +
                      (look.count == 2 ? ", and the one before" : "")
                : "is of another group";
    return {look.kind == Kind::kBlank ? Code::kNotFound : Code::kCorrupt,
            "the ranks have no version in common: " + name(with) + " has version " +
                std::to_string(version.number) + " of " + std::to_string(version.ranks) +
                " ranks, and " + name(rank) + " " + has +
                "; give that rank its own store again, take those that are ahead back to a version "
                "that all keep (`perdura rollback`), restore all stores from one copy, or remove "
                "all of them to begin anew"};
  }

  const std::span<const GroupLook> looks_;
  const std::span<const std::string> names_;
  const u32 ranks_;
};

}  // namespace

Result<GroupDecision> decide(std::span<const GroupLook> looks, u32 ranks,
                             std::span<const std::string> names) {
  return Deciding(looks, ranks, names).run();
}

}  // namespace perdura::store
