// How the store of objects comes to be open, and the overflow store that belongs to it.
//
// Whoever is refused leaves behind what was there: all that can refuse is looked at before a store,
// a region, or the record that binds the two stores is made.
//
//   the store, if it is there ── which of its objects are away
//     └ the overflow store, if it is there ── may they belong together?
//         └ what of all this is not there is made ── bound
#include <algorithm>

#include "model/object/objects_runtime.hpp"
#include "region/engine_rules.hpp"
#include "region/region.hpp"
#include "store/check_options.hpp"
#include "store/recovery.hpp"
#include "store/storage.hpp"

namespace perdura::detail {

using object::ObjectTable;

namespace {

constexpr u64 kAddressSpace = kGiB;  // that the region has; its objects lie anywhere

Status add_region(region::Volume& volume, format::RegionRecord record) {
  record.limit_bytes = kAddressSpace;
  PERDURA_ASSIGN(record.address, region::Region::choose_address(kAddressSpace, volume.regions()));
  return volume.add_region(record);
}

Status check_holds_objects(const region::Volume& volume, const format::RegionRecord& record) {
  const std::string region =
      "region '" + std::string(record.name) + "' of '" + volume.name() + "' holds ";
  if (!region::engine_rules(record).has_objects)
    return Failure{Code::kInvalidArgument, region + "a heap, not objects; choose another one"};
  if (region::engine_rules(record).is_overflow)
    return Failure{Code::kInvalidArgument,
                   region +
                       "what another store has no space for; open that one, with this as "
                       "ObjectsOptions::overflow"};
  return {};
}

// One that becomes an overflow store has nothing else; what comes to be there later is let be, for
// there are objects already.
Status check_may_overflow(const region::Volume& volume, const store::SharedVolume::Claim& claimed) {
  const auto is_overflow = [](const format::RegionRecord& each) {
    return region::engine_rules(each).is_overflow;
  };
  const std::vector<format::RegionRecord> all = volume.regions();
  const auto other = claimed.is_new ? std::ranges::find_if_not(all, is_overflow) : all.end();
  if (other == all.end() && (claimed.is_new || is_overflow(claimed.record))) return {};
  const format::RegionRecord& holds = other == all.end() ? claimed.record : *other;
  return Failure{Code::kInvalidArgument,
                 "'" + volume.name() + "' is no overflow store: its region '" +
                     std::string(holds.name) + "' holds " +
                     (region::engine_rules(holds).has_objects ? "objects of its own" : "a heap") +
                     "; choose a new store as ObjectsOptions::overflow"};
}

}  // namespace

Result<std::unique_ptr<store::SharedVolume>> ObjectsRuntime::open_store(
    std::string_view uri, const ObjectsOptions& options, const OpenMedium& open_medium) {
  const auto open_named = [&]() -> Result<std::unique_ptr<media::Medium>> {
    PERDURA_ASSIGN(media::OpenedMedium opened,
                   media::open_medium(uri, {.create = options.create, .shares = options.shared}));
    return std::move(opened.medium);
  };
  const auto open_linear = [&]() -> Result<std::unique_ptr<media::Medium>> {
    PERDURA_ASSIGN(std::unique_ptr<media::Medium> medium,
                   open_medium ? open_medium() : open_named());
    if (medium->linear() == nullptr)
      return Failure{Code::kUnsupported,
                     "'" + medium->name() +
                         "' holds objects of its own, which are put and read as a whole; use "
                         "file:, emu: or dax:"};
    return medium;
  };
  const auto open_volume = [&]() -> Result<std::unique_ptr<region::Volume>> {
    PERDURA_ASSIGN(std::unique_ptr<media::Medium> medium, open_linear());
    return store::open_volume(std::move(medium), options.create, format::kSegmentBytesMax);
  };
  return options.shared ? store::SharedVolume::among_processes(uri, options.create, open_linear)
                        : store::SharedVolume::of(uri, open_volume);
}

Result<std::unique_ptr<ObjectsRuntime>> ObjectsRuntime::open(std::string_view uri,
                                                             const ObjectsOptions& options,
                                                             const OpenMedium& open_medium,
                                                             const OpenMedium& open_overflow) {
  PERDURA_TRY(store::check_region_name(options.region));
  const bool overflows = !options.overflow.empty();
  if (options.shared && overflows)
    return Failure{Code::kUnsupported,
                   "objects that processes share stay in their store: open them in one process to "
                   "use the overflow store '" +
                       options.overflow + "', or leave that out"};
  if (overflows && media::place_of(uri) == media::place_of(options.overflow))
    return Failure{Code::kInvalidArgument, "the overflow store '" + options.overflow +
                                               "' is the store itself; choose another one"};
  std::unique_ptr<ObjectsRuntime> runtime(new ObjectsRuntime);
  runtime->bytes_max_ = options.bytes_max;
  runtime->wear_moves_ = options.wear_moves;
  ObjectsOptions known = options;
  known.create = options.create && !overflows;
  Result<std::unique_ptr<store::SharedVolume>> opened = open_store(uri, known, open_medium);
  if (!opened && opened.failure().code == Code::kNotFound && known.create != options.create) {
    PERDURA_TRY(runtime->find_overflow(options, open_overflow, false));
    PERDURA_TRY(runtime->check_overflow(options, nullptr, 0));
    opened = open_store(uri, options, open_medium);
  }
  PERDURA_ASSIGN(runtime->shared_, std::move(opened));
  runtime->memory_ = runtime->shared_->memory();
  runtime->name_ = runtime->shared_->volume().name();
  PERDURA_TRY(runtime->open_region(options, open_overflow));
  return runtime;
}

Status ObjectsRuntime::open_region(const ObjectsOptions& options, const OpenMedium& open_overflow) {
  region::Volume& volume = shared_->volume();
  const Turn turn(memory_);
  if (memory_) PERDURA_TRY(memory_->catch_up());
  PERDURA_ASSIGN(store::SharedVolume::Claim claim, shared_->claim(options.region, options.create));
  if (!claim.is_new) PERDURA_TRY(check_holds_objects(volume, claim.record));
  region_ = claim.record.region;
  session_ = volume.superblock().session;
  if (!memory_) {
    table_ = std::make_unique<ObjectTable>(volume, region_, bytes_max_);
    PERDURA_TRY(table_->read());
    PERDURA_TRY(table_->remove_stale());
  }
  if (!options.overflow.empty()) {
    PERDURA_TRY(find_overflow(options, open_overflow,
                              !claim.is_new && region::has_overflow_mark(claim.record)));
    const format::Superblock superblock = volume.superblock();
    PERDURA_TRY(check_overflow(options, claim.is_new ? nullptr : &superblock, region_));
  }
  if (claim.is_new) {
    store::object_kind().fill_record({}, claim.record);
    PERDURA_TRY(add_region(volume, claim.record));
    if (memory_) memory_->note_change();
  }
  if (memory_) return catch_up();
  if (options.overflow.empty()) return check_away();
  return have_overflow(claim.record, options, open_overflow);
}

// If it is there. Where it is not one is made later, unless the objects have one: another one would
// be there from then on.
Status ObjectsRuntime::find_overflow(const ObjectsOptions& options, const OpenMedium& open_medium,
                                     bool have_one) {
  if (overflow_volume_) return {};
  ObjectsOptions known = options;
  known.create = false;
  Result<std::unique_ptr<store::SharedVolume>> opened =
      open_store(options.overflow, known, open_medium);
  if (opened) {
    overflow_volume_ = std::move(*opened);
    return {};
  }
  if (opened.failure().code != Code::kNotFound || !options.create) return opened.failure();
  const auto is_away = [](const ObjectTable::Entry& each) { return is_in_overflow(each.head); };
  if (!have_one && (!table_ || std::ranges::none_of(table_->all(), is_away))) return {};
  return Failure{Code::kMisuse, "the objects of '" + shared_->volume().name() +
                                    "' have another overflow store than '" + options.overflow +
                                    "', which is not there or empty; open them with that one"};
}

// What find_overflow() has found may be the overflow store of region `number` of the store with
// this superblock; nullptr: of one that is not there yet.
Status ObjectsRuntime::check_overflow(const ObjectsOptions& options,
                                      const format::Superblock* superblock, u32 number) {
  if (!overflow_volume_ || overflow_) return {};
  PERDURA_TRY(check_away());
  region::Volume& volume = overflow_volume_->volume();
  PERDURA_ASSIGN(overflow_claim_, overflow_volume_->claim(options.region, options.create));
  PERDURA_TRY(check_may_overflow(volume, overflow_claim_));
  overflow_ = std::make_unique<object::OverflowStore>(volume, overflow_claim_.record.region);
  return overflow_->check_whose(superblock, number);
}

// None of the objects is half a store.
Status ObjectsRuntime::check_away() const {
  if (!table_) return {};
  const auto elsewhere = std::ranges::count_if(table_->all(), [&](const ObjectTable::Entry& each) {
    return is_in_overflow(each.head) &&
           !(overflow_volume_ && each.head.copy_place[1] == overflow_volume_->volume().store_id());
  });
  if (elsewhere == 0) return {};
  const std::string are = std::to_string(elsewhere) +
                          (elsewhere == 1 ? " object of '" : " objects of '") +
                          shared_->volume().name() + "' ";
  return Failure{Code::kMisuse, overflow_volume_ ? are + "lie in another overflow store than '" +
                                                       overflow_volume_->volume().name() +
                                                       "'; open the objects with that one"
                                : memory_
                                    ? are +
                                          "lie in an overflow store, which processes cannot share; "
                                          "open the objects in one process, with "
                                          "ObjectsOptions::overflow"
                                    : are +
                                          "lie in an overflow store; open the objects with its URI "
                                          "as ObjectsOptions::overflow"};
}

// Those that have come home may have a copy there still.
Status ObjectsRuntime::check_mark(const format::RegionRecord& record) const {
  const region::Volume& volume = overflow_volume_->volume();
  if (region::may_overflow_to(record, volume.store_id())) return {};
  return Failure{Code::kMisuse, "the objects of '" + shared_->volume().name() +
                                    "' have another overflow store than '" + volume.name() +
                                    "'; open them with that one"};
}

// `record`: of the region whose objects go there. All that was not there is made.
Status ObjectsRuntime::have_overflow(const format::RegionRecord& record,
                                     const ObjectsOptions& options, const OpenMedium& open_medium) {
  region::Volume& own = shared_->volume();
  const format::Superblock superblock = own.superblock();
  if (!overflow_volume_) {
    PERDURA_ASSIGN(overflow_volume_, open_store(options.overflow, options, open_medium));
  }
  PERDURA_TRY(check_overflow(options, &superblock, record.region));
  PERDURA_TRY(check_mark(record));
  if (overflow_claim_.is_new) {
    overflow_claim_.record.engine = format::EngineId::kOverflow;
    PERDURA_TRY(add_region(overflow_volume_->volume(), overflow_claim_.record));
  }
  PERDURA_TRY(overflow_->bind(superblock, record.region));
  const u64 id = overflow_volume_->volume().store_id();
  if (!region::has_overflow_mark(record)) PERDURA_TRY(own.set_region_overflow(record.region, id));
  return table_->have_overflow(*overflow_);
}

}  // namespace perdura::detail
