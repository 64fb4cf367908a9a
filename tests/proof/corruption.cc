#include "corruption.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <random>
#include <set>

#include "base/checksum.hpp"
#include "format/format.hpp"
#include "log/reader.hpp"
#include "object/object_log.hpp"
#include "object/object_table.hpp"
#include "support/version_parts.hpp"
#include "support/window_medium.hpp"

namespace perdura::proof {
namespace {

using testing::CrashState;
using testing::Execution;

constexpr u64 kSectorBytes = 512;
constexpr size_t kProblemsMax = 20;
constexpr u64 kSeed = 1;

enum SectorDamage : u64 { kZeroed, kExchanged, kStale, kTruncated, kForged };
constexpr std::array kSectorDamages = {" zeroed, not ", " exchanged with ", " as at ",
                                       " and all behind it lost, not ", " alone, a record forged "};

bool names_a_place(const std::string& text) {
  for (const char* word :
       {"offset", "superblock", "directory", "truncated", "ends before", "not a Perdura store",
        "format version", "architecture", "features", "overflow store"})
    if (text.find(word) != text.npos) return true;
  return false;
}

/// Three objects, of which two have calls that their copies lack, and one of these keeps all calls,
/// in its archive and its log; and the places of a fourth one.
RunRecord make_objects(const Victim& victim) {
  Run run(victim.medium, kSeed);
  const ObjectOptions options{.log_bytes = 2 * kPageBytes, .checkpoint_calls = 20};
  ObjectOptions with_callers = options;
  with_callers.history = ObjectHistory::kLast;
  with_callers.callers = 4;
  ObjectOptions with_all = with_callers;
  with_all.history = ObjectHistory::kAll;
  with_all.archive_bytes = kPageBytes;
  run.open_objects();
  LoggedObjects::Handle& gone = run.objects().object("gone", options);
  gone.tell(0, 1);
  run.objects().remove("gone");
  LoggedObjects::Handle& hot = run.objects().object("hot", options);
  LoggedObjects::Handle& known = run.objects().object("known", with_callers);
  LoggedObjects::Handle& all = run.objects().object("all", with_all);
  for (u64 i = 0; i < 30; ++i) {
    const u32 lane = static_cast<u32>(run.random(kLanes));
    known.put(lane, i);
    hot.put(lane, i);
    if (i % 5 == 4) hot.put_long(lane, i);
    if (i % 3 == 2) known.tell(lane, i);
    if (i % 2 == 1) hot.tell(lane, i);
    if (i % 2 == 1) all.tell(lane, i);
    if (i == 20) all.checkpoint();
  }
  known.checkpoint();
  hot.tell(0, 1);
  run.kill();
  return std::move(run).record();
}

/// Four objects of which two have space: a second session has moved some out that it had not
/// opened, with their logs, and brought others home, whose copies there stand in for second ones.
RunRecord make_moved_objects(const Victim& victim) {
  constexpr u64 kObjects = 4;
  const ObjectOptions options{.log_bytes = 2 * kPageBytes, .checkpoint_calls = 7};
  Run run(victim.medium, kSeed);
  run.limit_objects(2 * (2 * kPageBytes + options.log_bytes) + (kObjects + 1) * kPageBytes);
  for (const u64 first : {u64{0}, u64{2}}) {
    run.open_objects();
    for (u64 i = first; i < kObjects; ++i) {
      LoggedObjects::Handle& object =
          run.objects().object("number " + std::to_string((first + i) % kObjects), options);
      for (u64 k = 0; k < 4; ++k) object.put(static_cast<u32>(run.random(kLanes)), i + k);
      object.tell(static_cast<u32>(run.random(kLanes)), i);
    }
    run.kill();
  }
  return std::move(run).record();
}

/// A small store: its log, a page of heap tables and a slab.
RunRecord make(const Victim& victim) {
  if (victim.overflow) return make_moved_objects(victim);
  if (victim.objects) return make_objects(victim);
  Run run(victim.medium, kSeed);
  run.options.region_limit_bytes = victim.transactions ? 2 * kMiB : kMiB;
  run.options.log_limit_bytes = 64 * kKiB;
  constexpr u64 kBlockBytes = 2000;
  if (victim.chunks) {
    run.use_chunks(4096, 3);
    run.options.region_limit_bytes = 2 * kMiB;
  }
  if (victim.copies) run.use_copies();
  run.open();
  std::vector<std::byte*> blocks;
  // So that the map needs a node.
  if (victim.chunks) run.store().operation().allocate(kMiB);
  for (int version = 0; version < 6; ++version) {
    if (victim.reopened && version == 4) {
      run.close();
      run.open();
    }
    {
      const auto op = run.store().operation();
      if (version < 4)
        for (int i = 0; i < 6; ++i)
          blocks.push_back(static_cast<std::byte*>(op.allocate(kBlockBytes)));
      std::byte* const block = blocks[run.random(blocks.size())];
      op.touch(block, kBlockBytes);
      for (u64 i = 0; i < kBlockBytes; ++i) block[i] = static_cast<std::byte>(run.random(256));
    }
    run.checkpoint();
  }
  if (victim.transactions) {
    run.node_words_max = 2;  // few size classes, a small image
    run.others = 1;
    run.ledger();
    run.checkpoint();
    run.transact(12);
  }
  if (victim.closed) run.close();
  else run.kill();
  return std::move(run).record();
}

/// The image, and what may be in it.
class Patient {
 public:
  Patient(const Victim& victim, const testing::Mutation* mutation, const std::string& findings)
      : findings_(findings),
        run_(make(victim)),
        state_(state_of(run_, victim.closed || victim.objects)),
        oracle_(run_, run_.sessions.back()),
        execution_(state_, run_.geometry, choices_, mutation, {}, &passed_) {
    if (const std::string problem = oracle_.learn(); !problem.empty())
      throw std::runtime_error(victim.name + ": " + problem);
    execution_.reset();
    const testing::Outcome sound =
        oracle_.judge(execution_, victim.objects ? run_.sessions.back().history.calls().size() : 0);
    if (!sound.problem.empty()) throw std::runtime_error(victim.name + ": " + sound.problem);
    newest_ = sound.version;
    execution_.reset();
    find_versions();
  }

  u64 size() const { return state_.size(); }
  /// Whether recovery comes by what the mutation leaves out.
  bool passes(const testing::Mutation& mutation) const {
    return passed_.sites.contains({mutation.kind, mutation.site});
  }
  /// In a place for chunks that no version uses, or in a home image like others.
  bool is_free(u64 byte) const { return !free_.empty() && free_[byte / kPageBytes]; }

  /// Damage the image by `hurt(execution)`, recover, and count what came of it.
  template <class Hurt>
  void examine(Damage& damage, const std::string& what, Hurt&& hurt, bool forged = false) {
    execution_.reset();
    const size_t mark = execution_.stores();
    hurt(execution_);
    const std::string how = count(damage, mark, oldest_of_last_hit(mark), forged);
    if (how.empty() || damage.problems.size() == kProblemsMax) return;
    damage.problems.push_back(what + ": " + how);
    if (findings_.empty()) return;
    std::string path = findings_ + "/" + what + ".pd";
    std::replace(path.begin(), path.end(), ' ', '-');
    execution_.reset();
    hurt(execution_);
    std::vector<std::byte> image(size());
    execution_.copy(0, image);
    testing::write_file(path, image);
    damage.problems.back() += "\n  again: perdura check " + path;
  }

 private:
  void find_versions() {
    const auto volume = value_or_throw(region::Volume::open(execution_.medium()));
    if (run_.objects_alone) return find_objects(*volume);
    if (run_.options.engine == Engine::kRemap) return find_chunks(*volume);
    const auto record = store::find_region(*volume, run_.options.region);
    if (!record) return;
    const u32 region = record->region;
    log::Space log(*volume, region, run_.options.log_limit_bytes);
    auto found = value_or_throw(log::read(*volume, region, volume->replayed_version(region), log));
    for (log::LoggedVersion& version : found.versions)
      logged_.emplace(version.number, std::move(version.blocks));
    // The home image is damaged in the other stores.
    if (!oracle_.transactions().empty()) mark(*volume, format::ExtentKind::kHome);
  }

  // `begin`: where the volume lies in the image.
  void mark(const region::Volume& volume, format::ExtentKind kind, u64 begin = 0) {
    free_.resize(size() / kPageBytes + 1, false);
    for (const format::Extent& extent : volume.extents(kind))
      for (u64 at = 0; at < extent.length; at += kPageBytes)
        free_[(begin + extent.medium_offset + at) / kPageBytes] = true;
  }

  // Also the last group of calls in the log of each object that is at home: nothing shows that it
  // was there.
  void find_objects(region::Volume& volume) {
    mark(volume, format::ExtentKind::kObjects);
    const auto overflow = run_.objects_bytes_max != 0 ? open_overflow() : nullptr;
    if (overflow) mark_overflow(volume, *overflow);
    object::ObjectTable table(volume, volume.regions().front().region);
    value_or_throw(table.read());
    for (const object::ObjectTable::Entry& each : table.all()) {
      const format::ObjectHead& head = each.head;
      mark_used(head.functions_place, head.functions_bytes);
      if (is_in_overflow(head)) {
        mark_used(kOverflowAt + head.copy_place[0], kPageBytes);
        if (head.log_place != 0)
          mark_used(kOverflowAt + head.log_place, head.log_lines * kLineBytes);
        continue;
      }
      for (const u64 place : head.copy_place) mark_used(place, kPageBytes);
      mark_used(head.archive_place, head.archive_lines * kLineBytes);
      if (const u64 place = stand_in_place(head); place != 0)
        mark_used(kOverflowAt + place, kPageBytes);
      mark_used(head.log_place, head.log_lines * kLineBytes);
      find_last_group(volume.linear(), head);
    }
  }

  void mark_used(u64 place, u64 bytes) {
    for (u64 at = 0; at < bytes; at += kPageBytes) free_[(place + at) / kPageBytes] = false;
  }

  std::unique_ptr<region::Volume> open_overflow() {
    return value_or_throw(region::Volume::open(
        std::make_unique<test::WindowMedium>(std::shared_ptr<media::Medium>(execution_.medium()),
                                             kOverflowAt, ~u64{0}, "the overflow store")));
  }

  // Between the two stores there is nothing.
  void mark_overflow(const region::Volume& volume, const region::Volume& overflow) {
    u64 end = 0;
    for (const format::RegionRecord& region : volume.regions())
      for (const auto kind : {format::ExtentKind::kObjects, format::ExtentKind::kObjectHeads})
        for (const format::Extent& extent : volume.extents(kind, region.region))
          end = std::max(end, extent.medium_offset + extent.length);
    for (u64 at = end; at < kOverflowAt; at += kPageBytes) free_[at / kPageBytes] = true;
    mark(overflow, format::ExtentKind::kObjects, kOverflowAt);
  }

  // A log whose calls the copy has needs none of them.
  void find_last_group(media::LinearMedium& medium, const format::ObjectHead& head) {
    const object::LogPlace place{head.log_place, head.log_lines, head.identity, head.session};
    const auto log = value_or_throw(object::ObjectLog::create(medium, place, head.checkpoint));
    value_or_throw(log->recover(head.session));
    u64 last = head.checkpoint;
    for (u64 next = last; next != log->tail(); next += log->entry(next).lines) last = next;
    if (last == log->tail()) return;
    const auto place_of = [&](u64 index) {
      return head.log_place + index % head.log_lines * kLineBytes;
    };
    format::ObjectEntry mark;
    execution_.copy(place_of(last), std::as_writable_bytes(std::span(&mark, 1)));
    for (u64 line = last + 1 - mark.group; line != log->tail(); ++line)
      last_groups_.push_back(place_of(line));
  }

  void find_chunks(region::Volume& volume) {
    mark(volume, format::ExtentKind::kChunks);
    for (const auto& [version, parts] : test::find_parts(volume, run_.options.region)) {
      records_[version] = parts.records;
      for (const u64 node : parts.nodes) free_[node / kPageBytes] = false;
      for (const auto& [chunk, offset] : parts.chunks)
        free_[chunk / kPageBytes] = false;  // a chunk is a page
    }
  }

  // Of the last versions in the log, of which each was damaged, the oldest: from there on they
  // cannot be told from checkpoints that were cut short.
  u64 oldest_of_last_hit(size_t mark) const {
    u64 oldest = newest_ + 1;
    for (auto each = logged_.rbegin(); each != logged_.rend(); ++each, --oldest)
      if (std::ranges::none_of(each->second, [&](const log::BlockRef& block) {
            return execution_.stored_since(mark, block.offset, block.block_bytes);
          }))
        break;
    while (records_hit(mark, oldest - 1)) --oldest;
    return oldest;
  }

  // Both copies of a version's record.
  bool records_hit(size_t mark, u64 version) const {
    const auto found = records_.find(version);
    return found != records_.end() && std::ranges::all_of(found->second, [&](u64 place) {
             return execution_.stored_since(mark, place, format::kVersionRecordBytes);
           });
  }

  // Their offsets. Where the beginning of their segment is hit, nothing in it counts.
  std::set<u64> transactions_hit(size_t mark) const {
    std::set<u64> offsets;
    for (const auto& [name, each] : oracle_.transactions())
      if (execution_.stored_since(mark, each.offset, each.bytes) ||
          execution_.stored_since(mark, each.segment, sizeof(format::LogBlockHeader)))
        offsets.insert(each.offset);
    return offsets;
  }

  // Counts a silent case, and says what is wrong with it, when nothing else is true.
  std::string count(Damage& damage, size_t mark, u64 oldest_of_last_hit, bool forged) {
    ++damage.cases;
    // What opening an object writes is not the damage.
    const bool group_hit = std::ranges::any_of(
        last_groups_, [&](u64 line) { return execution_.stored_since(mark, line, kLineBytes); });
    std::vector<u64> hit;  // older versions whose records are, before recovery writes anything
    for (const auto& [version, places] : records_)
      if (version != newest_ && records_hit(mark, version)) hit.push_back(version);
    const std::set<u64> records = transactions_hit(mark);
    Oracle::Diagnosis diagnosis = oracle_.diagnose(execution_);
    const bool first_missing_hit =
        !diagnosis.missing.empty() && records.contains(diagnosis.missing.front().offset);
    std::erase_if(diagnosis.gone, [&](u64 version) { return std::ranges::count(hit, version); });
    u64* counter = &damage.silent;
    std::string silent;
    if (!diagnosis.problem.empty()) {
      if (names_a_place(diagnosis.problem)) counter = &damage.refused;
      else silent = "the error names no place: " + diagnosis.problem;
    } else if (forged && (diagnosis.wrong_pages != 0 || diagnosis.version != newest_ ||
                          !diagnosis.missing.empty())) {
      counter = &damage.forged;  // a checksum vouches for it; it must only do the program no harm
    } else if (diagnosis.wrong_pages != 0) {
      silent = "wrong data in pages whose sums fit";
    } else if (!diagnosis.missing.empty()) {
      if (first_missing_hit) counter = &damage.taken_for_torn;
      else
        silent = "the transaction at offset " + std::to_string(diagnosis.missing.front().offset) +
                 " is not there any more";
    } else if (diagnosis.lost_calls) {
      if (group_hit) counter = &damage.taken_for_torn;
      else silent = "calls that were answered are lost";
    } else if (!diagnosis.gone.empty()) {
      silent = "version " + std::to_string(diagnosis.gone.front()) + " is not kept any more";
    } else if (diagnosis.version != newest_) {
      if (diagnosis.version + 1 >= oldest_of_last_hit) counter = &damage.taken_for_torn;
      else silent = "version " + std::to_string(diagnosis.version) + " is recovered";
    } else if (diagnosis.half_replayed_pages != 0) {
      counter = &damage.half_replayed;
    } else if (diagnosis.found_pages != 0) {
      counter = &damage.found;
    } else {
      counter = &damage.unharmed;
    }
    ++*counter;
    return silent;
  }

  // Of an open store: the last version is in the log, and not home.
  static CrashState state_of(const RunRecord& run, bool closed) {
    const Session& session = run.sessions.back();
    const size_t end = closed ? session.history.calls().size() : session.last_acknowledged();
    return CrashState(session.history, end, run.medium.tearing).decided([](size_t, u32) {
      return 0u;
    });
  }

  const std::string findings_;
  const RunRecord run_;
  CrashState state_;
  Oracle oracle_;
  testing::Choices choices_;
  testing::Passed passed_;
  Execution execution_;
  u64 newest_ = 0;
  std::map<u64, std::vector<log::BlockRef>> logged_;  ///< by version
  std::map<u64, std::array<u64, 2>> records_;         ///< of versions in chunks
  std::vector<bool> free_;                            ///< by medium page
  std::vector<u64> last_groups_;  ///< in each object's log: the places of their lines
};

void forge(Execution& execution, u64 seed) {
  std::mt19937_64 random(seed);
  // A record whose checksum fits, and one field does not mean anything.
  if (random() % 2 == 0) {
    format::Superblock superblock;
    const u64 place = format::kSuperblockOffset[random() % 2];
    execution.copy(place, std::as_writable_bytes(std::span(&superblock, 1)));
    auto* const bytes = reinterpret_cast<std::byte*>(&superblock);
    const u64 at = 16 + random() % (144 + 16 - 16);
    bytes[at] ^= static_cast<std::byte>(1 + random() % 255);
    superblock.checksum = checksum(bytes + 16, sizeof superblock - 16);
    execution.damage(place, std::as_bytes(std::span(&superblock, 1)));
    return;
  }
  // A superblock of another store, of an earlier time, in the other's place.
  std::vector<std::byte> page(format::kSuperblockBytes);
  const u64 from = random() % 2;
  execution.copy(format::kSuperblockOffset[from], page);
  execution.damage(format::kSuperblockOffset[from ^ 1], page);
}

}  // namespace

std::vector<Victim> victims() {
  // The first: two versions that are not home, in one segment that was used before.
  std::vector<Victim> all{{"file, reopened", kMedia[3], false, true}};
  for (const MediumKind& medium : {kMedia[0], kMedia[3]})
    for (const bool closed : {true, false})
      all.push_back(
          {std::string(medium.scheme) + (closed ? ", closed" : ", open"), medium, closed});
  all.push_back({"emu, chunks, open", kMedia[0], false, false, true});
  all.push_back({"file, chunks, closed", kMedia[3], true, true, true});
  for (const MediumKind& medium : {kMedia[0], kMedia[3]})
    all.push_back({.name = std::string(medium.scheme) + ", copies, open",
                   .medium = medium,
                   .closed = false,
                   .reopened = true,
                   .copies = true});
  for (const MediumKind& medium : {kMedia[0], kMedia[3]})
    all.push_back({.name = std::string(medium.scheme) + ", objects, open",
                   .medium = medium,
                   .closed = false,
                   .objects = true});
  for (const MediumKind& medium : {kMedia[0], kMedia[3]})
    all.push_back({.name = std::string(medium.scheme) + ", objects in two stores, open",
                   .medium = medium,
                   .closed = false,
                   .objects = true,
                   .overflow = true});
  for (const MediumKind& medium : {kMedia[0], kMedia[3]})
    all.push_back(
        {std::string(medium.scheme) + ", transactions, open", medium, false, false, false, true});
  return all;
}

void Damage::add(const Damage& other) {
  cases += other.cases;
  refused += other.refused;
  unharmed += other.unharmed;
  found += other.found;
  taken_for_torn += other.taken_for_torn;
  half_replayed += other.half_replayed;
  forged += other.forged;
  silent += other.silent;
  problems.insert(problems.end(), other.problems.begin(), other.problems.end());
}

Json Damage::json() const {
  return {{"cases", cases},
          {"refused", refused},
          {"unharmed", unharmed},
          {"found", found},
          {"taken_for_torn", taken_for_torn},
          {"half_replayed", half_replayed},
          {"forged", forged},
          {"silent", silent},
          {"problems", problems}};
}

Damage Damage::of(const Json& json) {
  return {.cases = json.at("cases"),
          .refused = json.at("refused"),
          .unharmed = json.at("unharmed"),
          .found = json.at("found"),
          .taken_for_torn = json.at("taken_for_torn"),
          .half_replayed = json.at("half_replayed"),
          .forged = json.at("forged"),
          .silent = json.at("silent"),
          .problems = json.at("problems")};
}

Damage flip_bits(const Victim& victim, const Flips& flips) {
  Patient patient(victim, flips.mutation, flips.findings);
  Damage damage;
  if (flips.mutation != nullptr && !patient.passes(*flips.mutation)) return damage;
  const u64 bits = patient.size() * 8;
  const u64 end = bits * (flips.part + 1) / flips.parts;
  const u64 begin = bits * flips.part / flips.parts + flips.first % flips.every;
  for (u64 bit = begin; bit < end && damage.silent < flips.enough; bit += flips.every) {
    constexpr u64 kFreeStep = 64;  // what nobody reads is all the same
    if (patient.is_free(bit / 8) && bit / flips.every % kFreeStep != 0) continue;
    patient.examine(
        damage,
        victim.name + ", bit " + std::to_string(bit % 8) + " of byte " + std::to_string(bit / 8),
        [bit](Execution& execution) {
          std::byte byte[1];
          execution.copy(bit / 8, byte);
          byte[0] ^= static_cast<std::byte>(1u << bit % 8);
          execution.damage(bit / 8, byte);
        });
  }
  return damage;
}

Damage damage_sectors(const Victim& victim, u64 cases, u64 seed, const std::string& findings,
                      const testing::Mutation* mutation) {
  Patient patient(victim, mutation, findings);
  Damage damage;
  if (mutation != nullptr && !patient.passes(*mutation)) return damage;
  std::mt19937_64 random(seed);
  const u64 sectors = patient.size() / kSectorBytes;
  for (u64 i = 0; i < cases; ++i) {
    const u64 at = random() % sectors * kSectorBytes;
    const u64 other = random() % sectors * kSectorBytes;
    const u64 kind = random() % kSectorDamages.size();
    const u64 forging = random();
    patient.examine(
        damage,
        victim.name + ", case " + std::to_string(i) + ", sector at " + std::to_string(at) +
            kSectorDamages[kind] + std::to_string(other),
        [=](Execution& execution) {
          std::byte here[kSectorBytes] = {};
          std::byte there[kSectorBytes] = {};
          if (kind != kZeroed) {
            execution.copy(at, here);
            execution.copy(other, there);
          }
          switch (kind) {
            case kExchanged:
              execution.damage(other, here);
              [[fallthrough]];
            case kZeroed:
            case kStale:
              execution.damage(at, there);
              break;
            case kTruncated:
              // Of a file without a byte nobody can tell that it was a store.
              execution.truncate(std::max(at, kSectorBytes));
              break;
            default:
              forge(execution, forging);
          }
        },
        kind == kForged);
  }
  return damage;
}

}  // namespace perdura::proof
