// A region with a home image and a redo log, looked at.
#include <cstring>
#include <optional>
#include <set>

#include "base/aligned_buffer.hpp"
#include "commit/replay.hpp"
#include "log/reader.hpp"
#include "store/home_check.hpp"
#include "store/inspection.hpp"
#include "store/pinned.hpp"
#include "store/transaction_replay.hpp"

namespace perdura::store {
namespace {

using Severity = Finding::Severity;

/// What is in the log beyond the last whole version: torn by a crash, or damaged since.
class LogTailCheck {
 public:
  LogTailCheck(region::Volume& volume, const format::RegionRecord& region, u64 durable_version,
               CheckReport& report, const Progress& progress)
      : volume_(volume),
        region_(region),
        durable_(durable_version),
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
    media::Medium& medium = volume_.medium();
    const auto visit = [&](u64 used, const format::LogBlockHeader* readable) {
      format::LogBlockHeader header;
      std::memcpy(&header, segment.data() + used, sizeof header);
      if (header.magic != format::kLogBlockMagic || header.store_id != volume_.store_id())
        return false;
      if (header.generation < live_generation_) return true;
      if ((header.flags & format::kLogTransactions) != 0) {
        if (readable == nullptr)
          add(offset + used,
              "the block that a segment of transactions begins with does not fit its "
              "checksum, and none of them is read");
      } else if (header.version > durable_) {
        note(offset + used, header,
             readable != nullptr && log::block_fits(medium, offset + used, segment.data() + used));
      }
      return true;
    };
    log::for_each_block(medium, offset, segment, volume_.store_id(), visit);
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
    message += " (medium offset " + std::to_string(place) + "); a crash meanwhile explains it";
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

class LogInspection final : public Inspection {
 public:
  using Inspection::Inspection;

  RegionDescription outline() const override {
    RegionDescription region;
    region.record = record_;
    region.replayed_version = volume_.replayed_version(record_.region);
    region.extents =
        region::HomeMap(volume_.extents(format::ExtentKind::kHome, record_.region)).extents();
    for (const format::Extent& extent : region.extents) {
      region.backed_bytes += extent.length;
      region.home_bytes += extent.length + format::table_bytes(extent.length);
    }
    LogDescription& log = region.log.emplace();
    for (const format::Extent& extent : volume_.extents(format::ExtentKind::kLog, record_.region))
      log.capacity_bytes += extent.length;
    log.segments = log.capacity_bytes / volume_.segment_bytes();
    log.live_generation = volume_.state(record_.region).live_generation;
    return region;
  }

  Status read_versions() override {
    was_written_ = volume_.medium().has_writer();
    PERDURA_ASSIGN(PinnedLog pinned, pin_log(volume_, record_));
    state_ = volume_.state();
    replayed_ = pinned.replayed;
    log::Recovered& recovered = pinned.log;
    PERDURA_ASSIGN(commit::LineIndex index, commit::LineIndex::create(record_.limit_bytes));
    PERDURA_TRY(index.add(recovered));
    transactions_ = std::move(recovered.records);
    live_ = std::move(recovered.versions);
    image_ = std::move(recovered.image);
    index_.emplace(std::move(index));
    return {};
  }

  void describe_versions(RegionDescription& region) const override {
    region.durable_version = durable_version();
    region.replayed_version = replayed_;
    LogDescription& log = *region.log;
    log.live_versions = live_.size();
    log.transactions = transactions_.size();
    std::set<u64> segments;
    for (const log::LoggedVersion& version : live_) {
      log.live_bytes += version.log_bytes;
      for (const log::BlockRef& block : version.blocks)
        segments.insert(volume_.segment_of(block.offset));
    }
    log.live_segments = segments.size();
  }

  void check(const Status& read, CheckReport& report, const Progress& progress) override {
    if (read) check_log(report, progress);
    else add_damage(report, "log", read.failure().message, record_.name);
    const region::HomeMap home(volume_.extents(format::ExtentKind::kHome, record_.region));
    check_home(volume_, record_, home,
               {.in_log = read ? &index_->lines() : nullptr, .log_is_damaged = !read}, report,
               progress);
  }

 private:
  u64 durable_version() const override { return replayed_ + live_.size(); }

  void check_log(CheckReport& report, const Progress& progress) {
    for (const log::LoggedVersion& version : live_) report.log_blocks += version.blocks.size();
    // What follows the last version is being written where somebody writes, or was since.
    if (was_written_) return;
    const size_t before = report.findings.size();
    const Status tail = LogTailCheck(volume_, record_, durable_version(), report, progress).run();
    if (is_as_it_was_read(report, before) && !tail)
      add_damage(report, "log", tail.failure().message, record_.name);
  }

  const char* content_part() const override { return "log"; }
  Status check_content(heap::Heap& heap, region::Region& region) override {
    return check_transactions(volume_.name(), heap, region, transactions_);
  }

  Result<std::unique_ptr<region::Region>> map_newest(const format::RegionRecord& record) override {
    PERDURA_ASSIGN(auto region, region::Region::map(volume_, record));
    PERDURA_TRY(apply_log(*region));
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

  u64 replayed_ = 0;
  std::vector<log::LoggedVersion> live_;
  std::unique_ptr<log::Image> image_;
  std::optional<commit::LineIndex> index_;
  std::vector<log::FoundRecord> transactions_;
};

}  // namespace

std::unique_ptr<Inspection> inspection_of_log(region::Volume& volume,
                                              const format::RegionRecord& record) {
  return std::make_unique<LogInspection>(volume, record);
}

}  // namespace perdura::store
