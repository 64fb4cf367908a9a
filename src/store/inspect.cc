#include "store/inspect.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <set>

#include <fmt/format.h>

#include "base/aligned_buffer.hpp"
#include "base/checksum.hpp"
#include "commit/log_reader.hpp"
#include "commit/remap.hpp"
#include "commit/replay.hpp"
#include "commit/transaction_log.hpp"
#include "heap/container_view.hpp"
#include "heap/heap.hpp"
#include "region/region.hpp"
#include "region/volume.hpp"
#include "store/chunk_loader.hpp"
#include "store/transaction_replay.hpp"
#include "store/versions.hpp"

namespace perdura::store {
namespace {

using format::Superblock;
using Severity = Finding::Severity;

constexpr u64 kRootNameMax = 255;

Result<std::unique_ptr<media::Medium>> open_for_reading(std::string_view uri,
                                                        media::MediumOptions options) {
  options.create = false;
  options.read_only = true;
  PERDURA_ASSIGN(media::OpenedMedium opened, media::open_medium(uri, options));
  PERDURA_ASSIGN(const bool blank, region::Volume::is_blank(*opened.medium));
  if (blank)
    return Failure{Code::kNotFound, "'" + opened.medium->name() + "' holds no store: it is empty"};
  return std::move(opened.medium);
}

/// Without its regions.
Description describe_volume(region::Volume& volume) {
  Description description;
  description.name = volume.name();
  description.superblock = volume.superblock();
  description.medium_bytes = volume.medium().geometry().size;
  return description;
}

/// A region of a store whose superblock and directory could be read, and what follows from them.
class Inspector {
 public:
  Inspector(region::Volume& volume, const format::RegionRecord& record)
      : volume_(volume), record_(record) {}

  region::Volume& volume() { return volume_; }
  const format::RegionRecord& record() const { return record_; }
  const std::vector<commit::LoggedVersion>& live() const { return live_; }
  u64 durable_version() const {
    if (!in_chunks()) return replayed() + live_.size();
    return versions_.empty() ? 0 : versions_.back().record.version;
  }
  bool in_chunks() const { return record_.chunk_bytes != 0; }
  /// After read_heap(): opening can repeat those that the newest version does not have.
  bool transactions_fit() const { return transactions_fit_; }
  const std::vector<commit::FoundVersion>& versions() const { return versions_; }
  const region::ChunkSpace& space() const { return *space_; }
  /// A page some of whose lines are in the log: a crash may have left it half replayed.
  bool in_log(u64 region_offset) const {
    return index_ && index_->lines().has_page(region_offset / kPageBytes);
  }

  /// Where it is, without reading it.
  RegionDescription outline() const {
    RegionDescription region;
    region.record = record_;
    region.replayed_version = replayed();
    if (in_chunks()) {
      region.extents = volume_.extents(format::ExtentKind::kChunks, record_.region);
      for (const format::Extent& extent : region.extents) region.home_bytes += extent.length;
      return region;
    }
    region.extents = home().extents();
    for (const format::Extent& extent : region.extents) {
      region.backed_bytes += extent.length;
      region.home_bytes += extent.length + format::table_bytes(extent.length);
    }
    for (const format::Extent& extent : volume_.extents(format::ExtentKind::kLog, record_.region))
      region.log.capacity_bytes += extent.length;
    region.log.segments = region.log.capacity_bytes / volume_.segment_bytes();
    region.log.live_generation = volume_.state(record_.region).live_generation;
    return region;
  }

  region::HomeMap home() const {
    return region::HomeMap(volume_.extents(format::ExtentKind::kHome, record_.region));
  }

  /// What is durable beside the home image.
  Status read_versions() { return in_chunks() ? read_chunk_versions() : read_log(); }

  void describe_versions(RegionDescription& region) const {
    region.durable_version = durable_version();
    if (!in_chunks()) return describe_log(region.log);
    for (const commit::FoundVersion& each : versions_)
      region.versions.push_back(describe_version(each.record));
    if (!versions_.empty()) region.backed_bytes = versions_.back().record.backed_bytes;
    region.free_bytes = free_bytes_;
  }

  /// Map the region where there is room, with the log applied to it, and walk the heap. Does
  /// nothing before the first version.
  Status read_heap(RegionDescription& description) {
    if (durable_version() == 0) return {};
    format::RegionRecord record = record_;
    record.address = 0;
    record.aliases = 0;  // nobody stores to it
    PERDURA_ASSIGN(auto region, map_region(record));
    try {
      heap::Heap heap(*region, volume_.name());
      PERDURA_TRY(heap.attach());
      description.heap = heap.audit();
      if (!description.heap->clean) return {};
      const Status repeatable =
          check_transactions(volume_.name(), heap, *region, std::move(transactions_));
      transactions_fit_ = static_cast<bool>(repeatable);
      PERDURA_TRY(repeatable);
      PERDURA_TRY(read_roots(heap, *region, description));
      PERDURA_ASSIGN(const auto types, heap.types());
      for (const heap::Layout& type : types) description.types.push_back({type.name, type.text});
      PERDURA_ASSIGN(const auto container, heap::ContainerView::find(heap, *region));
      if (container) describe_container(*container, description.container.emplace());
    } catch (const Error& error) {
      return Failure{error.code(), error.what()};
    }
    return {};
  }

 private:
  u64 replayed() const { return volume_.replayed_version(record_.region); }

  Status read_chunk_versions() {
    space_ = std::make_unique<region::ChunkSpace>(volume_, record_, 0, true);
    PERDURA_ASSIGN(versions_, commit::read_versions(volume_, record_));
    if (commit::recover_versions(volume_, record_, versions_, *space_))
      free_bytes_ = space_->free_bytes();
    return {};
  }

  Status read_log() {
    // The log of an inspection gives no space out, so its limit does not matter.
    commit::Log log(volume_, record_.region, 0);
    PERDURA_ASSIGN(commit::RecoveredLog recovered,
                   commit::read_log(volume_, record_.region, replayed(), log));
    PERDURA_ASSIGN(commit::LineIndex index, commit::LineIndex::create(record_.limit_bytes));
    PERDURA_TRY(index.add(recovered));
    PERDURA_ASSIGN(
        auto transactions,
        commit::read_transactions(volume_, recovered, replayed() + recovered.versions.size()));
    transactions_ = std::move(transactions);
    live_ = std::move(recovered.versions);
    image_ = std::move(recovered.image);
    index_.emplace(std::move(index));
    return {};
  }

  void describe_log(LogDescription& log) const {
    log.live_versions = live_.size();
    log.transactions = transactions_.size();
    std::set<u64> segments;
    for (const commit::LoggedVersion& version : live_) {
      log.live_bytes += version.log_bytes;
      for (const commit::BlockRef& block : version.blocks)
        segments.insert(volume_.segment_of(block.offset));
    }
    log.live_segments = segments.size();
  }

  Result<std::unique_ptr<region::Region>> map_region(const format::RegionRecord& record) {
    if (!in_chunks()) {
      PERDURA_ASSIGN(auto region, region::Region::map(volume_, record));
      PERDURA_TRY(apply_log(*region));
      return region;
    }
    const format::VersionRecord& newest = versions_.back().record;
    PERDURA_ASSIGN(auto region,
                   region::Region::map_chunks(volume_, record, *space_, newest.backed_bytes));
    PERDURA_ASSIGN(const commit::VersionMap map, commit::MapReader(volume_, *space_).read(newest));
    PERDURA_TRY(ChunkLoader(volume_, *space_, *region, map.level(0)).load_all());
    return region;
  }

  Status apply_log(region::Region& region) const {
    const auto home = region.home();
    Status status;
    index_->lines().for_each_page([&](u64 page, u64) {
      if (!status) return;
      if (home->find(page * kPageBytes) == nullptr) {
        status = Failure{Code::kCorrupt, "the log changes region offset " +
                                             std::to_string(page * kPageBytes) +
                                             ", which has no place on the medium"};
        return;
      }
      std::byte* const bytes = region.base() + page * kPageBytes;
      index_->for_each_line(page, [bytes](u64 line, const std::byte* from) {
        std::memcpy(bytes + line * kLineBytes, from, kLineBytes);
      });
    });
    return status;
  }

  static void describe_container(const heap::ContainerView& view,
                                 ContainerDescription& description) {
    for (u32 i = 0; i < view.state().module_count; ++i) {
      const format::ContainerModule& module = view.modules()[i];
      auto& described = description.modules.emplace_back();
      described.name = heap::name_of_file(view.file_of(module));
      for (u32 byte = 0; byte < module.build_id_bytes; ++byte)
        described.build_id += fmt::format("{:02x}", module.build_id[byte]);
    }
    for (u32 i = 0; i < view.state().symbol_count; ++i)
      ++description.modules[view.symbols()[i].module].symbols;
    view.for_each_marked([&](u64) { ++description.marked_pages; });
    description.shadows = view.state().shadow_count;
    for (u32 i = 0; i < view.state().shadow_count; ++i)
      description.shadow_bytes += view.shadows()[i].bytes;
  }

  static Status read_roots(const heap::Heap& heap, const region::Region& region,
                           RegionDescription& description) {
    const auto& header = *reinterpret_cast<const format::HeapHeader*>(region.base());
    for (u64 at = header.roots; at != 0;) {
      const auto* node = reinterpret_cast<const format::RootNode*>(region.base() + at);
      PERDURA_ASSIGN(const heap::Heap::Usable usable, heap.usable(node));
      if (usable.bytes < sizeof *node ||
          node->name_length > std::min(kRootNameMax, usable.bytes - sizeof *node))
        return Failure{Code::kCorrupt, "the root at region offset " + std::to_string(at) +
                                           " has an impossible name"};
      description.roots.push_back(
          {.name = std::string(reinterpret_cast<const char*>(node + 1), node->name_length),
           .offset = node->object,
           .fingerprint = node->fingerprint});
      at = node->next;
    }
    return {};
  }

  region::Volume& volume_;
  const format::RegionRecord record_;
  std::vector<commit::LoggedVersion> live_;
  std::unique_ptr<commit::LogImage> image_;
  std::optional<commit::LineIndex> index_;
  std::vector<commit::FoundTransaction> transactions_;
  bool transactions_fit_ = true;
  std::vector<commit::FoundVersion> versions_;  ///< of a region in chunks
  std::unique_ptr<region::ChunkSpace> space_;
  u64 free_bytes_ = 0;  ///< that no kept version uses
};

// --- checking ------------------------------------------------------------------------------------

/// Whether an update may have torn a slot of which the other one, `whole`, is what counts: each
/// word is as before the update or as after it. What no update changes is in both.
bool is_mix(const Superblock& torn, const Superblock& whole) {
  constexpr size_t kWords = sizeof(Superblock) / sizeof(u64);
  using Words = std::array<u64, kWords>;
  // Of a store that was closed in order the update was the end of that session, the beginning of
  // the next one, or the creation.
  Superblock before = whole;
  before.sequence = whole.sequence - 1;
  Superblock after = whole;
  after.sequence = whole.sequence + 1;
  std::vector<Superblock> contents{before, after};
  before.clean = 0;
  contents.push_back(before);
  after.clean = 0;
  ++after.session;
  contents.push_back(after);
  std::vector<Words> words;
  for (Superblock& content : contents) {
    content.checksum = region::superblock_checksum(content);
    words.push_back(std::bit_cast<Words>(content));
  }
  if (whole.sequence == 1) words.push_back({});

  // While a store is in use its updates change more than can be foreseen.
  const auto may_change = [&](size_t word) {
    const size_t at = word * sizeof(u64);
    return whole.clean == 0 &&
           (at == offsetof(Superblock, checksum) ||
            at == offsetof(Superblock, incompatible_features) ||
            (at >= offsetof(Superblock, sequence) && at < offsetof(Superblock, reserved1)));
  };
  const auto found = std::bit_cast<Words>(torn);
  for (size_t i = 0; i < kWords; ++i)
    if (!may_change(i) && std::none_of(words.begin(), words.end(), [&](const Words& content) {
          return content[i] == found[i];
        }))
      return false;
  return true;
}

/// The fixed places at the beginning of a store: superblock slots, directories, owner record.
class HeadCheck {
 public:
  HeadCheck(media::Medium& medium, CheckReport& report) : medium_(medium), report_(report) {}

  Status run() {
    if (medium_.geometry().size < format::kDataBegin) return {};  // opening says what that means
    for (u32 i = 0; i < 2; ++i) {
      AlignedBuffer page(format::kSuperblockBytes);
      PERDURA_TRY(medium_.read(format::kSuperblockOffset[i], page.span()));
      std::memcpy(&slots_[i], page.data(), sizeof slots_[i]);
      whole_[i] = std::memcmp(slots_[i].magic, format::kMagic, sizeof format::kMagic) == 0 &&
                  slots_[i].checksum == region::superblock_checksum(slots_[i]);
    }
    if (!whole_[0] && !whole_[1]) return {};
    newest_ = whole_[1] && (!whole_[0] || slots_[1].sequence > slots_[0].sequence) ? 1 : 0;
    check_superblocks();
    PERDURA_TRY(check_directories());
    return check_owner();
  }

 private:
  Severity severity(bool torn) const { return torn ? Severity::kNote : Severity::kDamage; }

  // A power failure may tear the last write, unless the medium writes all that changes of it at
  // once.
  bool may_tear(u64 changing_bytes) const {
    return changing_bytes > medium_.geometry().atomic_bytes;
  }

  void add(const char* part, u64 offset, std::string message, Severity severity) {
    message += " (medium offset " + std::to_string(offset) + ")";
    if (severity == Severity::kNote)
      message += "; a power failure while it was written explains it";
    report_.findings.push_back({severity, part, std::move(message), {}, offset, std::nullopt});
  }

  void check_superblocks() {
    const Superblock& newest = slots_[newest_];
    const Superblock& other = slots_[newest_ ^ 1];
    const u64 place = format::kSuperblockOffset[newest_ ^ 1];
    if (!whole_[newest_ ^ 1]) {
      // A store is created with its first superblock; the second follows.
      if (newest.sequence == 1 && is_zero(&other, sizeof other)) return;
      add("superblock", place,
          "superblock slot " + std::to_string(newest_ ^ 1) + " does not fit its checksum",
          severity(may_tear(offsetof(Superblock, reserved1)) && is_mix(other, newest)));
    } else if (newest.sequence - other.sequence != 1 || (newest.sequence & 1) != newest_) {
      add("superblock", place,
          "the superblocks have the sequences " + std::to_string(newest.sequence) + " and " +
              std::to_string(other.sequence) +
              ", which do not follow each other: the medium lost a write that it had confirmed",
          Severity::kDamage);
    }
  }

  Status check_directories() {
    std::set<u64> seen;
    for (const u32 i : {newest_, newest_ ^ 1}) {
      const Superblock& superblock = slots_[i];
      if (!whole_[i] || superblock.directory_slot > 1 ||
          superblock.directory_bytes > format::kDirectoryBytes ||
          !seen.insert(superblock.directory_sequence).second)
        continue;
      const u64 place = format::kDirectoryOffset[superblock.directory_slot];
      AlignedBuffer bytes(superblock.directory_bytes);
      PERDURA_ASSIGN(const bool whole,
                     medium_.verified_read(place, bytes.first(superblock.directory_bytes),
                                           superblock.directory_checksum,
                                           PERDURA_SITE("inspected directory")));
      if (!whole)
        add("directory", place,
            "directory slot " + std::to_string(superblock.directory_slot) +
                " does not fit the checksum in the superblock with sequence " +
                std::to_string(superblock.sequence),
            severity(slots_[newest_].clean == 0 &&
                     may_tear(superblock.directory_bytes + sizeof(Superblock))));
    }
    return {};
  }

  // Used for messages only, so it can never be more than a note.
  Status check_owner() {
    format::OwnerRecord owner{};
    AlignedBuffer page(sizeof owner);
    PERDURA_TRY(medium_.read(format::kOwnerOffset, page.span()));
    std::memcpy(&owner, page.data(), sizeof owner);
    if (is_zero(&owner, sizeof owner)) return {};
    if (owner.checksum != checksum(page.data() + sizeof(u64), page.size() - sizeof(u64)))
      add("owner", format::kOwnerOffset, "the owner record does not fit its checksum",
          Severity::kNote);
    return {};
  }

  media::Medium& medium_;
  CheckReport& report_;
  Superblock slots_[2]{};
  bool whole_[2] = {false, false};
  u32 newest_ = 0;
};

/// What is in the log beyond the last whole version: torn by a crash, or damaged since.
class LogTailCheck {
 public:
  LogTailCheck(Inspector& inspector, CheckReport& report, const Progress& progress)
      : volume_(inspector.volume()),
        region_(inspector.record()),
        durable_(inspector.durable_version()),
        live_generation_(volume_.state(region_.region).live_generation),
        report_(report),
        progress_(progress) {}

  Status run() {
    const u64 segment_bytes = volume_.segment_bytes();
    AlignedBuffer segment(segment_bytes);
    u64 total = 0;
    const auto extents = volume_.extents(format::ExtentKind::kLog, region_.region);
    for (const format::Extent& extent : extents) total += extent.length;
    u64 done = 0;
    for (const format::Extent& extent : extents) {
      for (u64 at = 0; at + segment_bytes <= extent.length; at += segment_bytes) {
        progress_("reading the log", done, total);
        done += segment_bytes;
        PERDURA_TRY(volume_.medium().read(extent.medium_offset + at, segment.span()));
        scan(extent.medium_offset + at, segment.span());
      }
    }
    progress_("reading the log", total, total);
    return {};
  }

 private:
  void scan(u64 offset, media::Bytes segment) {
    const u64 step = volume_.medium().geometry().write_bytes;
    for (u64 used = 0; used + sizeof(format::LogBlockHeader) <= segment.size();) {
      const auto* header = reinterpret_cast<const format::LogBlockHeader*>(segment.data() + used);
      if (header->magic != format::kLogBlockMagic || header->store_id != volume_.store_id()) {
        used += step;
        continue;
      }
      const bool readable = commit::header_at(volume_.medium(), offset, segment.data(),
                                              segment.size(), used, volume_.store_id()) != nullptr;
      if (header->version > durable_ && header->generation >= live_generation_)
        note(
            offset + used, *header,
            readable && commit::block_fits(volume_.medium(), offset + used, segment.data() + used));
      used += readable ? header->block_bytes : step;
    }
  }

  void note(u64 place, const format::LogBlockHeader& header, bool whole) {
    const std::string version = std::to_string(header.version);
    if (whole) {
      // One sentence for all the blocks of an attempt.
      if (!incomplete_.insert({header.session, header.ticket}).second) return;
      add(place, "version " + version + " in the log is incomplete");
    } else {
      add(place, "a block of version " + version + " in the log does not fit its checksum");
    }
  }

  void add(u64 place, std::string message) {
    message += " (medium offset " + std::to_string(place) +
               "); a checkpoint that a crash cut short explains it";
    report_.findings.push_back(
        {Severity::kNote, "log", std::move(message), region_.name, place, std::nullopt});
  }

  region::Volume& volume_;
  const format::RegionRecord& region_;
  const u64 durable_;
  const u64 live_generation_;
  CheckReport& report_;
  const Progress& progress_;
  std::set<std::pair<u64, u64>> incomplete_;  ///< attempts: session, ticket
};

/// Every page of the home image against the tables of checksums.
class HomeCheck {
 public:
  HomeCheck(Inspector& inspector, bool log_readable, CheckReport& report, const Progress& progress)
      : inspector_(inspector),
        medium_(inspector.volume().medium()),
        log_readable_(log_readable),
        report_(report),
        progress_(progress) {}

  void run() {
    const region::HomeMap home = inspector_.home();
    for (const format::Extent& extent : home.extents()) total_ += extent.length;
    for (const format::Extent& extent : home.extents()) check_extent(extent);
    progress_("verifying the home image", total_, total_);
  }

 private:
  void check_extent(const format::Extent& extent) {
    AlignedBuffer table(format::table_bytes(extent.length));
    const u64 table_place = extent.medium_offset + extent.length;
    if (Status read = medium_.read(table_place, table.span()); !read) {
      done_ += extent.length;
      return add(read.failure().message, table_place, extent.region_offset);
    }
    AlignedBuffer pages(std::min<u64>(kMiB, extent.length));
    for (u64 at = 0; at < extent.length; at += pages.size()) {
      progress_("verifying the home image", done_, total_);
      const u64 length = std::min<u64>(pages.size(), extent.length - at);
      done_ += length;
      if (Status read = medium_.read(extent.medium_offset + at, pages.first(length)); !read) {
        add(read.failure().message, extent.medium_offset + at, extent.region_offset + at);
        continue;
      }
      for (u64 page = 0; page < length; page += kPageBytes)
        check_page(extent, at + page, pages.data() + page, table.data());
    }
  }

  void check_page(const format::Extent& extent, u64 at, const std::byte* page,
                  const std::byte* table) {
    const u64 offset = extent.region_offset + at;
    u64 expected = 0;
    std::memcpy(&expected, table + at / kPageBytes * sizeof expected, sizeof expected);
    if (page_checksum(page, offset / kLineBytes) == expected) {
      ++report_.home_pages;
      return;
    }
    if (inspector_.in_log(offset)) {
      ++report_.pending_pages;
      return;
    }
    const u64 place = region::HomeMap::page_place(extent, offset);
    std::string message = "the page at region offset " + std::to_string(offset) +
                          " (medium offset " + std::to_string(place) +
                          ") does not fit its checksum (medium offset " +
                          std::to_string(region::HomeMap::checksum_place(extent, offset)) + ")";
    if (!log_readable_) message += ", or was half replayed: the log that would tell is damaged";
    add(std::move(message), place, offset);
  }

  void add(std::string message, u64 medium_offset, u64 region_offset) {
    report_.findings.push_back({Severity::kDamage, "home", std::move(message),
                                inspector_.record().name, medium_offset, region_offset});
  }

  Inspector& inspector_;
  media::Medium& medium_;
  const bool log_readable_;
  CheckReport& report_;
  const Progress& progress_;
  u64 done_ = 0;
  u64 total_ = 0;
};

void add_damage(CheckReport& report, const char* part, const std::string& message,
                const std::string& region = {}) {
  report.findings.push_back({Severity::kDamage, part, message, region, std::nullopt, std::nullopt});
}

void check_chunks(Inspector& inspector, CheckReport& report, const Progress& progress) {
  VersionsCheck check;
  check.run(
      inspector.volume(), inspector.record(), inspector.versions(), inspector.space(),
      [&](Finding finding) { report.findings.push_back(std::move(finding)); }, progress);
  report.chunks += check.chunks;
}

void check_log(Inspector& inspector, CheckReport& report, const Progress& progress) {
  for (const commit::LoggedVersion& version : inspector.live())
    report.log_blocks += version.blocks.size();
  if (Status tail = LogTailCheck(inspector, report, progress).run(); !tail)
    add_damage(report, "log", tail.failure().message, inspector.record().name);
}

RegionDescription check_region(Inspector& inspector, CheckReport& report,
                               const Progress& progress) {
  RegionDescription description = inspector.outline();
  const std::string name = description.name();
  const Status read = inspector.read_versions();
  if (read) inspector.describe_versions(description);
  else add_damage(report, inspector.in_chunks() ? "versions" : "log", read.failure().message, name);
  if (inspector.in_chunks()) {
    if (read) check_chunks(inspector, report, progress);
  } else {
    if (read) check_log(inspector, report, progress);
    HomeCheck(inspector, static_cast<bool>(read), report, progress).run();
  }
  // Without its log a region is in no state that the heap could be audited in.
  if (!read) return description;
  if (Status heap = inspector.read_heap(description); !heap)
    add_damage(report, inspector.transactions_fit() ? "heap" : "log", heap.failure().message, name);
  else if (description.heap && !description.heap->clean)
    add_damage(report, "heap", "the heap's metadata is damaged: " + description.heap->problem,
               name);
  return description;
}

}  // namespace

bool CheckReport::damaged() const {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.severity == Severity::kDamage; });
}

namespace {

Result<Description> try_describe(std::string_view uri, const media::MediumOptions& options,
                                 bool with_heap) {
  PERDURA_ASSIGN(auto medium, open_for_reading(uri, options));
  PERDURA_ASSIGN(const auto volume, region::Volume::open(std::move(medium)));
  Description description = describe_volume(*volume);
  for (const format::RegionRecord& record : volume->regions()) {
    Inspector inspector(*volume, record);
    RegionDescription region = inspector.outline();
    PERDURA_TRY(inspector.read_versions());
    inspector.describe_versions(region);
    if (with_heap) PERDURA_TRY(inspector.read_heap(region));
    description.regions.push_back(std::move(region));
  }
  return description;
}

Result<CheckReport> try_check(std::string_view uri, const media::MediumOptions& options,
                              const Progress& progress) {
  CheckReport report;
  auto opened = open_for_reading(uri, options);
  if (!opened) {
    if (opened.failure().code != Code::kCorrupt) return opened.failure();
    report.name = uri;
    add_damage(report, "superblock", opened.failure().message);
    return report;
  }
  std::unique_ptr<media::Medium> medium = std::move(*opened);
  report.name = medium->name();
  if (Status head = HeadCheck(*medium, report).run(); !head)
    add_damage(report, "superblock", head.failure().message);
  const auto volume = region::Volume::open(std::move(medium));
  if (!volume) {
    const Failure& failure = volume.failure();
    if (failure.code != Code::kCorrupt && failure.code != Code::kIo) return failure;
    add_damage(report, "superblock", failure.message);
    return report;
  }
  report.description = describe_volume(**volume);
  for (const format::RegionRecord& record : (*volume)->regions()) {
    Inspector inspector(**volume, record);
    report.description->regions.push_back(check_region(inspector, report, progress));
  }
  return report;
}

}  // namespace

Result<Description> describe(std::string_view uri, const media::MediumOptions& options) {
  return guarded([&] { return try_describe(uri, options, true); });
}

Result<Description> outline(std::string_view uri, const media::MediumOptions& options) {
  return guarded([&] { return try_describe(uri, options, false); });
}

Result<CheckReport> check(std::string_view uri, const media::MediumOptions& options,
                          const Progress& progress) {
  return guarded([&] { return try_check(uri, options, progress); });
}

}  // namespace perdura::store
