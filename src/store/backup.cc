#include "store/backup.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include "base/aligned_buffer.hpp"
#include "base/clock.hpp"
#include "region/engine_rules.hpp"
#include "store/identity.hpp"
#include "store/recovery.hpp"
#include "store/shared_volume.hpp"
#include "store/storage.hpp"

namespace perdura::store {
namespace {

constexpr u64 kPieceBytes = kMiB;
constexpr u32 kVersionsKept = 8;
constexpr u32 kChunkBytesOfOthers = 64 * kKiB;  // limits are multiples of 1 MiB

bool is_same_store(const format::VersionSource& a, const format::VersionSource& b) {
  return std::memcmp(a.uuid, b.uuid, sizeof a.uuid) == 0;
}

bool is_copied(const format::VersionSource& source) {
  return !is_same_store(source, format::VersionSource{});
}

bool is_same_version(const format::VersionSource& a, const format::VersionSource& b) {
  return is_same_store(a, b) && a.version == b.version && a.record_checksum == b.record_checksum;
}

}  // namespace

bool is_same_place(std::string_view one, std::string_view other) {
  const std::string occupant = media::occupant_of(one);
  return media::place_of(one) == media::place_of(other) ||
         (!occupant.empty() && occupant == media::occupant_of(other));
}

// --- sending one version ------------------------------------------------------------------------

Pace pace_of(u64 bytes_per_second) {
  if (bytes_per_second == 0) return [](u64) { return Status{}; };
  return [bytes_per_second, due_ns = now_ns()](u64 bytes) mutable -> Status {
    const u64 now = now_ns();
    // What was not used before is not made up for.
    due_ns =
        std::max(due_ns, now - std::min<u64>(now, 100'000'000)) +
        static_cast<u64>(static_cast<double>(bytes) * 1e9 / static_cast<double>(bytes_per_second));
    if (due_ns > now) std::this_thread::sleep_for(std::chrono::nanoseconds(due_ns - now));
    return {};
  };
}

namespace {

/// One region on its way.
class Transfer {
 public:
  Transfer(VersionSource& from, VersionTarget& to, const Sending& sending)
      : from_(from),
        to_(to),
        sending_(sending),
        part_(to.part_bytes()),
        piece_(std::max({kPieceBytes, part_, from.part_bytes()})),
        buffer_(piece_) {}

  Result<CopiedRegion> run() {
    PERDURA_TRY(to_.begin(sending_.version, from_.backed_bytes(), sending_.source));
    done_.source_version = from_.version();
    done_.region_bytes = from_.backed_bytes();
    end_ = to_.backed_bytes();
    for (u64 at = 0; at < end_; at += piece_) {
      sending_.progress("copying", at, end_);
      PERDURA_TRY(send_piece(at, std::min(at + piece_, end_)));
    }
    sending_.progress("copying", end_, end_);
    const bool is_new = done_.changed_bytes != 0 ||
                        !is_same_version(to_.newest_source(), sending_.source) || to_.newest() == 0;
    done_.version = is_new ? sending_.version : to_.newest();
    done_.is_new = is_new;
    if (!is_new) {
      to_.abandon();
      return done_;
    }
    PERDURA_ASSIGN(const u64 described, to_.commit());
    done_.sent_bytes += described;
    return done_;
  }

 private:
  bool may_differ(u64 at) const { return !sending_.may_differ || sending_.may_differ(at / part_); }

  /// Runs of parts that may differ.
  Status send_piece(u64 begin, u64 end) {
    while (begin < end) {
      if (!may_differ(begin)) {
        begin += part_;
        continue;
      }
      u64 run_end = begin + part_;
      while (run_end < end && may_differ(run_end)) run_end += part_;
      PERDURA_TRY(send_run(begin, std::min(run_end, end) - begin));
      begin = run_end;
    }
    return {};
  }

  Status send_run(u64 at, u64 length) {
    PERDURA_TRY(from_.read(at, buffer_.first(round_up(length, from_.part_bytes()))));
    done_.read_bytes += length;
    if (sending_.pace) PERDURA_TRY(sending_.pace(length));
    PERDURA_ASSIGN(const VersionTarget::Put put, to_.put(at, buffer_.first(length)));
    done_.changed_bytes += put.changed_bytes;
    done_.sent_bytes += put.sent_bytes;
    unsaved_ += put.sent_bytes;
    if (unsaved_ < sending_.progress_bytes) return {};
    unsaved_ = 0;
    return to_.save_progress();
  }

  VersionSource& from_;
  VersionTarget& to_;
  const Sending& sending_;
  const u64 part_;
  const u64 piece_;
  AlignedBuffer buffer_;
  CopiedRegion done_;
  u64 end_ = 0;
  u64 unsaved_ = 0;
};

}  // namespace

Result<CopiedRegion> send(VersionSource& from, VersionTarget& to, const Sending& sending) {
  return Transfer(from, to, sending).run();
}

// --- which region goes where --------------------------------------------------------------------

format::VersionSource source_mark(const region::Volume& volume, const format::RegionRecord& record,
                                  u64 version, u64 record_checksum) {
  format::VersionSource source{};
  const format::Superblock superblock = volume.superblock();
  std::memcpy(source.uuid, superblock.uuid, sizeof source.uuid);
  source.version = version;
  source.record_checksum = record_checksum;
  source.engine = static_cast<u32>(record.engine);
  source.chunk_bytes = record.chunk_bytes;
  source.versions_kept = record.versions_kept;
  return source;
}

namespace {

/// What the region is to be: the same, but for its number, and for how it is kept.
format::RegionRecord record_of(const format::RegionRecord& original, Engine engine, u32 chunk_bytes,
                               u32 versions_kept) {
  format::RegionRecord made = original;
  made.chunk_bytes = 0;
  made.versions_kept = 0;
  Options options;
  options.chunk_bytes = chunk_bytes != 0 ? chunk_bytes : kChunkBytesOfOthers;  // of its source
  options.versions_kept = versions_kept;
  engine_kind(engine).fill_record(options, made);
  return made;
}

/// As another version of the store had it, which is to be again what it was.
Result<format::RegionRecord> record_of(const format::RegionRecord& backup,
                                       const format::VersionSource& source) {
  format::RegionRecord made = backup;
  made.engine = static_cast<format::EngineId>(source.engine);
  made.chunk_bytes = source.chunk_bytes;
  made.versions_kept = static_cast<u16>(source.versions_kept);
  if (region::engine_rules(made).record_fits(made)) return made;
  return Failure{Code::kCorrupt, "region '" + std::string(region::region_name(backup)) +
                                     "' does not say how its original was kept; restore it with "
                                     "--engine"};
}

bool have_one_form(format::RegionRecord a, const format::RegionRecord& b) {
  a.region = b.region;
  a.address = b.address;
  return std::memcmp(&a, &b, sizeof a) == 0;
}

Result<u32> free_number(const region::Volume& volume) {
  const std::vector<format::RegionRecord> regions = volume.regions();
  for (u32 number = 1; number <= format::kRegionsMax; ++number)
    if (std::ranges::count(regions, number, &format::RegionRecord::region) == 0) return number;
  return Failure{Code::kNoSpace, "'" + volume.name() +
                                     "' has as many regions as a store can have; remove one, or "
                                     "use another store"};
}

Status check_no_restore(const region::Volume& to) {
  if (!to.is_unfinished_restore()) return {};
  return Failure{Code::kMisuse,
                 "a restore to '" + to.name() +
                     "' was begun and not completed: it is going to be the store that its backup "
                     "was made of, and no copy of another one; begin the same restore again, "
                     "remove what there is with `perdura remove`, or choose another place"};
}

/// The one that the volume has of this name, which must be as wanted, or a new one that is
/// unfinished.
Result<format::RegionRecord> find_or_make(region::Volume& volume,
                                          const format::RegionRecord& wanted, u32 number,
                                          bool restores) {
  if (const auto there = find_region(volume, region::region_name(wanted))) {
    if (have_one_form(wanted, *there)) return *there;
    return Failure{Code::kMisuse,
                   "region '" + std::string(region::region_name(wanted)) + "' of '" +
                       volume.name() +
                       "' is of another size, or kept in another way, than what is to be copied "
                       "to it; choose another place, or remove it (`perdura remove`)"};
  }
  format::RegionRecord made = wanted;
  made.region = number;
  if (number == 0) {
    PERDURA_ASSIGN(made.region, free_number(volume));
  }
  if (region::engine_rules(made).needs_bytes && volume.medium().linear() == nullptr)
    return Failure{Code::kUnsupported,
                   "'" + volume.name() + "' can hold chunks alone; choose --engine chunks"};
  PERDURA_TRY(volume.add_unfinished_region(made, restores));
  return made;
}

}  // namespace

Status follow_address(region::Volume& volume, const format::RegionRecord& there,
                      const format::RegionRecord& original) {
  if (there.address == original.address) return {};
  return volume.set_region_address(there.region, original.address);
}

u32 backup_chunk_bytes(const format::RegionRecord& record) {
  const u32 own = record.chunk_bytes;
  return own != 0 ? own : kChunkBytesOfOthers;
}

Result<format::RegionRecord> backup_region(region::Volume& volume,
                                           const format::RegionRecord& record, u32 versions_kept,
                                           u32 number) {
  u32 kept = versions_kept != 0 ? versions_kept : kVersionsKept;
  if (const auto there = find_region(volume, region::region_name(record));
      there && versions_kept == 0 && there->versions_kept > 0)
    kept = there->versions_kept;
  PERDURA_TRY(check_no_restore(volume));
  if (kept > format::kVersionsKeptMax)
    return Failure{Code::kInvalidArgument,
                   "a backup keeps 1 to 1024 versions, not " + std::to_string(kept)};
  return find_or_make(volume, record_of(record, Engine::kRemap, backup_chunk_bytes(record), kept),
                      number, false);
}

Status check_lineage(const region::Volume& volume, const VersionTarget& to,
                     const std::string& source_name, const format::VersionSource& source) {
  if (to.newest() == 0) return {};
  const format::VersionSource has = to.newest_source();
  const std::string there = "'" + volume.name() + "'";
  if (!is_copied(has))
    return Failure{Code::kMisuse, there + " has a version of its own (" +
                                      std::to_string(to.newest()) +
                                      "), which is of no backup: it is a store that programs "
                                      "write to; choose another place for backups of '" +
                                      source_name + "', or go on over it with --adopt"};
  if (!is_same_store(has, source))
    return Failure{Code::kMisuse, there + " holds backups of the store " + uuid_text(has.uuid) +
                                      ", and '" + source_name + "' is " + uuid_text(source.uuid) +
                                      "; choose another place, or go on over them with --adopt"};
  if (has.version > source.version)
    return Failure{Code::kMisuse, there + " has version " + std::to_string(has.version) + " of '" +
                                      source_name + "' already, which is later than version " +
                                      std::to_string(source.version) +
                                      "; choose another place, or go on over it with --adopt"};
  return {};
}

// --- whole stores -------------------------------------------------------------------------------

namespace {

using Medium = std::unique_ptr<media::Medium>;

Result<std::unique_ptr<region::Volume>> open_source(std::string_view uri,
                                                    const CopyOptions& options) {
  media::MediumOptions medium = options.from;
  medium.read_only = true;
  PERDURA_ASSIGN(Medium opened, open_existing(uri, medium));
  if (options.wrap_from) opened = options.wrap_from(std::move(opened));
  return open_volume_to_read(std::move(opened));
}

Result<std::unique_ptr<region::Volume>> open_target(std::string_view uri,
                                                    const CopyOptions& options) {
  PERDURA_ASSIGN(media::OpenedMedium opened, media::open_medium(uri, options.to));
  if (options.wrap_to) opened.medium = options.wrap_to(std::move(opened.medium));
  return open_volume(std::move(opened.medium), true, format::kSegmentBytesMax);
}

Status check_places(std::string_view from, std::string_view to) {
  if (!is_same_place(from, to)) return {};
  return Failure{Code::kInvalidArgument,
                 "'" + std::string(from) + "' cannot be copied to itself; name another place"};
}

Result<std::vector<format::RegionRecord>> regions_of(const region::Volume& from,
                                                     const CopyOptions& options) {
  std::vector<format::RegionRecord> regions = from.regions();
  if (!options.region.empty()) {
    PERDURA_ASSIGN(const format::RegionRecord one, find_region(from, options.region));
    regions.assign(1, one);
  }
  if (regions.empty())
    return Failure{Code::kNotFound, "'" + from.name() + "' has no regions that could be copied"};
  if (options.version != 0 && regions.size() > 1)
    return Failure{Code::kInvalidArgument,
                   "'" + from.name() + "' has " + std::to_string(regions.size()) +
                       " regions, each with versions of its own; say of which --region the "
                       "version is"};
  return regions;
}

/// A copy, a backup or a restore under way.
class Copying {
 public:
  Copying(region::Volume& from, region::Volume& to, const CopyOptions& options)
      : from_(from), to_(to), options_(options), pace_(pace_of(options.bytes_per_second)) {}

  Result<CopiedRegion> back_up(const format::RegionRecord& record) {
    // Before anything is made there.
    PERDURA_ASSIGN(const auto source, open(record));
    return back_up(*source, record);
  }

  Result<CopiedRegion> back_up(VersionSource& source, const format::RegionRecord& record) {
    PERDURA_ASSIGN(const format::RegionRecord there,
                   backup_region(to_, record, options_.versions_kept));
    PERDURA_ASSIGN(const auto target, engine_kind(there).target(to_, there));
    Sending sending =
        sending_of(source_mark(from_, record, source.version(), source.record_checksum()));
    if (!options_.adopts) PERDURA_TRY(check_lineage(to_, *target, from_.name(), sending.source));
    sending.version = target->newest() + 1;
    source.compare_to(target->newest_source());
    sending.may_differ = [&source](u64 part) { return !source.is_unchanged(part); };
    PERDURA_ASSIGN(CopiedRegion done, send(source, *target, sending));
    PERDURA_TRY(follow_address(to_, there, record));
    return note(std::move(done), record, there);
  }

  Result<CopiedRegion> copy(const format::RegionRecord& record) {
    PERDURA_TRY(check_no_restore(to_));
    PERDURA_ASSIGN(const auto source, open(record));
    format::RegionRecord wanted = record;
    if (options_.engine)
      wanted = record_of(record, *options_.engine, record.chunk_bytes, kept_of(record));
    return fill(*source, record, wanted,
                source_mark(from_, record, source->version(), source->record_checksum()),
                source->version(), false);
  }

  Result<CopiedRegion> restore(const format::RegionRecord& record) {
    PERDURA_ASSIGN(const auto source, open(record));
    const format::VersionSource origin = source->origin();
    if (!is_copied(origin))
      return Failure{Code::kMisuse, "version " + std::to_string(source->version()) + " of '" +
                                        from_.name() +
                                        "' is of no backup; use `perdura copy` to copy a store"};
    PERDURA_TRY(become(origin));
    format::RegionRecord wanted = record;
    if (options_.engine) {
      wanted = record_of(record, *options_.engine, origin.chunk_bytes,
                         origin.versions_kept != 0 ? origin.versions_kept : record.versions_kept);
    } else {
      PERDURA_ASSIGN(wanted, record_of(record, origin));
    }
    // What it is from then on is a version of its own.
    return fill(*source, record, wanted, {}, origin.version, true);
  }

  /// All of them are complete.
  Status finish() { return to_.finish_regions(finished_); }

 private:
  static u32 kept_of(const format::RegionRecord& record) {
    const u32 kept = record.versions_kept;
    return kept != 0 ? kept : Options().versions_kept;
  }

  Result<std::unique_ptr<VersionSource>> open(const format::RegionRecord& record) {
    return open_version(from_, record, {.number = options_.version, .transactions = true});
  }

  Sending sending_of(const format::VersionSource& source) const {
    Sending sending;
    sending.source = source;
    sending.progress_bytes = options_.progress_bytes;
    sending.pace = pace_;
    sending.progress = options_.progress;
    return sending;
  }

  Result<CopiedRegion> fill(VersionSource& source, const format::RegionRecord& record,
                            const format::RegionRecord& wanted, const format::VersionSource& mark,
                            u64 version, bool restores) {
    if (const auto there = find_region(to_, region::region_name(wanted));
        there && !to_.is_unfinished(there->region))
      return Failure{Code::kMisuse,
                     "'" + to_.name() + "' has a region '" +
                         std::string(region::region_name(wanted)) +
                         "' already, and is not overwritten; choose another place, or remove it "
                         "(`perdura remove`)"};
    PERDURA_ASSIGN(const format::RegionRecord there, find_or_make(to_, wanted, 0, restores));
    PERDURA_ASSIGN(const auto target, engine_kind(there).target(to_, there));
    Sending sending = sending_of(mark);
    sending.version = version;
    PERDURA_ASSIGN(CopiedRegion done, send(source, *target, sending));
    return note(std::move(done), record, there);
  }

  CopiedRegion note(CopiedRegion done, const format::RegionRecord& record,
                    const format::RegionRecord& there) {
    done.name = region::region_name(record);
    finished_.push_back(there.region);
    return done;
  }

  /// The store that a backup was made of. Nothing there may be another one's.
  Status become(const format::VersionSource& origin) {
    const format::Superblock superblock = to_.superblock();
    if (std::memcmp(superblock.uuid, origin.uuid, sizeof origin.uuid) == 0) return {};
    if (!to_.regions().empty())
      return Failure{Code::kMisuse, "'" + to_.name() + "' holds another store, and '" +
                                        from_.name() + "' is a backup of " +
                                        uuid_text(origin.uuid) +
                                        "; restore it to a place of its own"};
    return to_.set_identity(origin.uuid);
  }

  region::Volume& from_;
  region::Volume& to_;
  const CopyOptions& options_;
  const Pace pace_;
  std::vector<u32> finished_;
};

using Step = Result<CopiedRegion> (Copying::*)(const format::RegionRecord&);

Result<Copied> try_all(std::string_view from_uri, std::string_view to_uri,
                       const CopyOptions& options, Step step) {
  PERDURA_TRY(check_places(from_uri, to_uri));
  PERDURA_ASSIGN(const auto from, open_source(from_uri, options));
  PERDURA_ASSIGN(const std::vector<format::RegionRecord> regions, regions_of(*from, options));
  PERDURA_ASSIGN(const auto to, open_target(to_uri, options));
  Copied copied{from->name(), to->name(), {}};
  Copying copying(*from, *to, options);
  Status status;
  for (const format::RegionRecord& record : regions) {
    auto done = (copying.*step)(record);
    if (!done) {
      status = std::move(done).failure();
      break;
    }
    copied.regions.push_back(std::move(*done));
  }
  if (status) status = copying.finish();
  // Also where it failed, or was refused: then it is closed in order as it was before.
  Status ended = to->end_session();
  PERDURA_TRY(status);
  PERDURA_TRY(ended);
  return copied;
}

}  // namespace

Result<Copied> copy(std::string_view from, std::string_view to, const CopyOptions& options) {
  return guarded([&] { return try_all(from, to, options, &Copying::copy); });
}

Result<Copied> back_up(std::string_view from, std::string_view to, const CopyOptions& options) {
  const Step step = &Copying::back_up;
  return guarded([&] { return try_all(from, to, options, step); });
}

Result<CopiedRegion> back_up_version(VersionSource& source, region::Volume& from,
                                     const format::RegionRecord& record, std::string_view from_uri,
                                     std::string_view to, const CopyOptions& options) {
  PERDURA_TRY(check_places(from_uri, to));
  PERDURA_ASSIGN(const auto volume, open_target(to, options));
  Copying copying(from, *volume, options);
  Result<CopiedRegion> done = copying.back_up(source, record);
  const Status finished = done ? copying.finish() : Status{};
  Status ended = volume->end_session();
  if (!done) return done;
  PERDURA_TRY(finished);
  PERDURA_TRY(ended);
  return done;
}

Result<Copied> restore(std::string_view from, std::string_view to, const CopyOptions& options) {
  return guarded([&] { return try_all(from, to, options, &Copying::restore); });
}

}  // namespace perdura::store
