#include "store/version_source.hpp"

#include <algorithm>
#include <cstring>

#include "base/aligned_buffer.hpp"
#include "base/checksum.hpp"
#include "commit/replay.hpp"
#include "heap/heap.hpp"
#include "region/region.hpp"
#include "store/pinned.hpp"
#include "store/storage.hpp"
#include "store/transaction_replay.hpp"

namespace perdura::store {
namespace {

std::string name_of_source(const region::Volume& volume, const format::RegionRecord& region) {
  return "region '" + std::string(region.name) + "' of '" + volume.name() + "'";
}

Failure has_no_version(const region::Volume& volume, const format::RegionRecord& region) {
  return {Code::kNotFound,
          name_of_source(volume, region) + " holds no version yet that could be copied"};
}

Failure keeps_newest_alone(const region::Volume& volume, const format::RegionRecord& region) {
  return {Code::kUnsupported, name_of_source(volume, region) +
                                  " keeps its newest version alone; copy that, or make backups of "
                                  "it, which keep several"};
}

// --- home images --------------------------------------------------------------------------------

/// Pages of a home image and its table, read and verified; `index`: lines that are put over them.
class HomeReader {
 public:
  HomeReader(region::Volume& volume, const format::RegionRecord& region,
             std::shared_ptr<const region::HomeMap> home)
      : volume_(volume), region_(region), home_(std::move(home)) {}

  u64 backed_bytes() const {
    u64 end = 0;
    for (const format::Extent& each : home_->extents())
      end = std::max(end, each.region_offset + each.length);
    return end;
  }

  Status read(u64 offset, media::MutableBytes into, const commit::LineIndex* index) {
    std::memset(into.data(), 0, into.size());
    for (const format::Extent& extent : home_->extents()) {
      const u64 begin = std::max(offset, extent.region_offset);
      const u64 end = std::min(offset + into.size(), extent.region_offset + extent.length);
      if (begin < end)
        PERDURA_TRY(read_part(extent, begin, into.subspan(begin - offset, end - begin), index));
    }
    return {};
  }

 private:
  Status read_part(const format::Extent& extent, u64 begin, media::MutableBytes into,
                   const commit::LineIndex* index) {
    PERDURA_TRY(volume_.medium().read(region::HomeMap::page_place(extent, begin), into));
    for (u64 at = 0; at < into.size(); at += kPageBytes) {
      const u64 page = (begin + at) / kPageBytes;
      std::byte* const bytes = into.data() + at;
      if (index != nullptr && index->lines().has_page(page)) {
        PERDURA_TRY(put_lines(extent, page, bytes, *index));
      } else {
        PERDURA_ASSIGN(const u64 sum, sum_of(extent, page));
        if (page_checksum(bytes, page * kLinesPerPage) != sum) return damaged(extent, page, sum);
      }
    }
    return {};
  }

  // Where it is half replayed the log has all lines that are not what they were; a page that was
  // found damaged before stays that.
  Status put_lines(const format::Extent& extent, u64 page, std::byte* bytes,
                   const commit::LineIndex& index) {
    PERDURA_ASSIGN(const u64 sum, sum_of(extent, page));
    if (sum == format::kCondemnedPage) return damaged(extent, page, sum);
    index.for_each_line(page, [bytes](u64 line, const std::byte* from) {
      std::memcpy(bytes + line * kLineBytes, from, kLineBytes);
    });
    return {};
  }

  // What is brought home meanwhile, by a process that writes, is in the log: no other checksum
  // changes.
  Result<u64> sum_of(const format::Extent& extent, u64 page) {
    const u64 place = region::HomeMap::checksum_place(extent, page * kPageBytes);
    const u64 begin = round_down(place, kPageBytes);
    if (table_place_ != begin) {
      PERDURA_TRY(volume_.medium().read(begin, table_.first(kPageBytes)));
      table_place_ = begin;
    }
    u64 sum = 0;
    std::memcpy(&sum, table_.data() + (place - begin), sizeof sum);
    return sum;
  }

  Failure damaged(const format::Extent& extent, u64 page, u64 sum) const {
    const u64 offset = page * kPageBytes;
    return {Code::kCorrupt,
            "the page at region offset " + std::to_string(offset) + " of " +
                name_of_source(volume_, region_) + " (medium offset " +
                std::to_string(region::HomeMap::page_place(extent, offset)) +
                (sum == format::kCondemnedPage ? ") was found damaged, and is condemned"
                                               : ") does not fit its checksum") +
                "; nothing is copied: restore the store from a backup, or copy an older version"};
  }

  region::Volume& volume_;
  const format::RegionRecord& region_;
  const std::shared_ptr<const region::HomeMap> home_;
  AlignedBuffer table_{kPageBytes};
  u64 table_place_ = ~u64{0};
};

// --- redo log -----------------------------------------------------------------------------------

class LogSource final : public VersionSource {
 public:
  LogSource(region::Volume& volume, const format::RegionRecord& region)
      : volume_(volume), region_(region) {}

  Status open(bool transactions) {
    PERDURA_ASSIGN(PinnedLog pinned, pin_log(volume_, region_));
    PERDURA_ASSIGN(commit::LineIndex index, commit::LineIndex::create(region_.limit_bytes));
    PERDURA_TRY(index.add(pinned.log));
    version_ = pinned.log.durable_version;
    if (version_ == 0) return has_no_version(volume_, region_);
    image_ = std::move(pinned.log.image);
    index_.emplace(std::move(index));
    PERDURA_ASSIGN(auto home, region::HomeMap::of(volume_, region_));
    reader_.emplace(volume_, region_, std::move(home));
    if (transactions && !pinned.log.records.empty()) return repeat(pinned.log.records);
    return {};
  }

  u64 version() const override { return version_; }
  u64 backed_bytes() const override { return reader_->backed_bytes(); }

  Status read(u64 offset, media::MutableBytes into) override {
    if (!memory_) return reader_->read(offset, into, &*index_);
    std::memset(into.data(), 0, into.size());
    const u64 end = std::min(offset + into.size(), backed_bytes());
    for (u64 at = offset; at < end; at += kPageBytes)
      if (memory_->home()->find(at) != nullptr)
        std::memcpy(into.data() + (at - offset), memory_->base() + at, kPageBytes);
    return {};
  }

 private:
  /// In private memory, which is the region from then on: transactions store to the heap's tables
  /// as well.
  Status repeat(std::vector<log::FoundRecord>& records) {
    format::RegionRecord record = region_;
    record.address = 0;
    record.aliases = 0;  // nobody stores to it
    PERDURA_ASSIGN(memory_, region::Region::map(volume_, record));
    for (const format::Extent& extent : memory_->home()->extents())
      for (u64 at = 0; at < extent.length; at += kPartBytes) {
        const u64 length = std::min(kPartBytes, extent.length - at);
        AlignedBuffer part(length);
        const u64 offset = extent.region_offset + at;
        PERDURA_TRY(reader_->read(offset, part.first(length), &*index_));
        // What differs is what the log changes: other pages stay views of the home image.
        for (u64 page = 0; page < length; page += kPageBytes)
          if (index_->lines().has_page((offset + page) / kPageBytes))
            std::memcpy(memory_->base() + offset + page, part.data() + page, kPageBytes);
      }
    heap::Heap heap(*memory_, volume_.name());
    PERDURA_TRY(heap.attach());
    PERDURA_ASSIGN(const auto* const state, transaction_state(volume_.name(), heap));
    if (state != nullptr) erase_held(*state, records);
    return check_transactions(volume_.name(), heap, *memory_, records);
  }

  static constexpr u64 kPartBytes = kMiB;

  region::Volume& volume_;
  const format::RegionRecord region_;
  u64 version_ = 0;
  std::unique_ptr<log::Image> image_;
  std::optional<commit::LineIndex> index_;
  std::optional<HomeReader> reader_;
  std::unique_ptr<region::Region> memory_;  ///< with transactions; nullptr: there are none
};

// --- two copies ---------------------------------------------------------------------------------

class CopySource final : public VersionSource {
 public:
  CopySource(region::Volume& volume, const format::RegionRecord& region)
      : volume_(volume), region_(region) {}

  Status open() {
    PERDURA_ASSIGN(version_, pin_copy(volume_, region_));
    if (version_ == 0) return has_no_version(volume_, region_);
    PERDURA_ASSIGN(auto home,
                   region::HomeMap::of_copy(volume_, region_, format::copy_of(version_)));
    reader_.emplace(volume_, region_, std::move(home));
    return {};
  }

  u64 version() const override { return version_; }
  u64 backed_bytes() const override { return reader_->backed_bytes(); }
  Status read(u64 offset, media::MutableBytes into) override {
    return reader_->read(offset, into, nullptr);
  }

 private:
  region::Volume& volume_;
  const format::RegionRecord region_;
  u64 version_ = 0;
  std::optional<HomeReader> reader_;
};

// --- chunks -------------------------------------------------------------------------------------

class ChunkSource final : public VersionSource {
 public:
  ChunkSource(region::Volume& volume, const format::RegionRecord& region,
              std::vector<commit::FoundVersion> kept, const format::VersionRecord& record)
      : volume_(volume),
        uuid_(volume.superblock()),
        space_(volume, region, 0, true),
        reader_(volume, space_),
        kept_(std::move(kept)),
        record_(record) {}

  Status open() {
    PERDURA_ASSIGN(map_, reader_.read(record_));
    return {};
  }

  u64 version() const override { return record_.version; }
  u64 backed_bytes() const override { return record_.backed_bytes; }
  u64 part_bytes() const override { return record_.chunk_bytes; }
  u64 record_checksum() const override { return record_.checksum; }
  format::VersionSource origin() const override { return record_.source; }

  Status read(u64 offset, media::MutableBytes into) override {
    const u64 chunk = record_.chunk_bytes;
    std::vector<media::ReadRequest> requests;
    std::vector<u64> indexes;
    for (u64 at = 0; at < into.size(); at += chunk) {
      const u64 index = (offset + at) / chunk;
      const media::MutableBytes to = into.subspan(at, chunk);
      if (index >= map_.chunks() || map_.chunk(index).place == 0) {
        std::memset(to.data(), 0, to.size());
        continue;
      }
      requests.push_back({map_.chunk(index).place, to});
      indexes.push_back(index);
    }
    PERDURA_TRY(volume_.medium().load(requests));
    for (size_t i = 0; i < indexes.size(); ++i)
      PERDURA_TRY(reader_.check_chunk(indexes[i], map_.chunk(indexes[i]), requests[i].into.data()));
    return {};
  }

  // Both versions are kept while this one is read: a place that both have has not been written in
  // between.
  void compare_to(const format::VersionSource& version) override {
    base_.reset();
    if (std::memcmp(version.uuid, uuid_.uuid, sizeof version.uuid) != 0) return;
    const auto same = std::ranges::find_if(kept_, [&](const commit::FoundVersion& each) {
      return each.record.version == version.version &&
             each.record.checksum == version.record_checksum;
    });
    if (same == kept_.end()) return;
    if (auto map = reader_.read(same->record)) base_.emplace(std::move(*map));
  }

  bool is_unchanged(u64 index) const override {
    const format::ChunkEntry none{};
    if (!base_) return false;
    const auto& before = index < base_->chunks() ? base_->chunk(index) : none;
    const auto& now = index < map_.chunks() ? map_.chunk(index) : none;
    return before == now;
  }

 private:
  region::Volume& volume_;
  const format::Superblock uuid_;
  const region::ChunkSpace space_;
  commit::MapReader reader_;
  const std::vector<commit::FoundVersion> kept_;
  const format::VersionRecord record_;
  commit::VersionMap map_;
  std::optional<commit::VersionMap> base_;
};

}  // namespace

Result<std::unique_ptr<VersionSource>> source_of_log(region::Volume& volume,
                                                     const format::RegionRecord& region,
                                                     const WantedVersion& wanted) {
  if (wanted.number != 0) return keeps_newest_alone(volume, region);
  auto source = std::make_unique<LogSource>(volume, region);
  PERDURA_TRY(source->open(wanted.transactions));
  return std::unique_ptr<VersionSource>(std::move(source));
}

Result<std::unique_ptr<VersionSource>> source_of_copies(region::Volume& volume,
                                                        const format::RegionRecord& region,
                                                        const WantedVersion& wanted) {
  if (wanted.number != 0) return keeps_newest_alone(volume, region);
  auto source = std::make_unique<CopySource>(volume, region);
  PERDURA_TRY(source->open());
  return std::unique_ptr<VersionSource>(std::move(source));
}

Result<std::unique_ptr<VersionSource>> source_of_chunks(region::Volume& volume,
                                                        const format::RegionRecord& region,
                                                        const WantedVersion& wanted) {
  PERDURA_ASSIGN(std::vector<commit::FoundVersion> kept, pin_versions(volume, region, 0));
  if (kept.empty()) return has_no_version(volume, region);
  format::VersionRecord record = kept.back().record;
  if (wanted.number != 0) {
    PERDURA_ASSIGN(record, commit::find_version(volume, kept, wanted.number));
  }
  return source_of_kept_chunks(volume, region, std::move(kept), record);
}

Result<std::unique_ptr<VersionSource>> source_of_kept_chunks(region::Volume& volume,
                                                             const format::RegionRecord& region,
                                                             std::vector<commit::FoundVersion> kept,
                                                             const format::VersionRecord& record) {
  auto source = std::make_unique<ChunkSource>(volume, region, std::move(kept), record);
  PERDURA_TRY(source->open());
  return std::unique_ptr<VersionSource>(std::move(source));
}

Result<std::unique_ptr<VersionSource>> open_version(region::Volume& volume,
                                                    const format::RegionRecord& region,
                                                    const WantedVersion& wanted) {
  PERDURA_TRY(volume.check_finished(region));
  return engine_kind(region).source(volume, region, wanted);
}

Failure holds_no_versions(const region::Volume& volume, const format::RegionRecord& region) {
  return {Code::kUnsupported,
          name_of_source(volume, region) +
              " holds objects, which have logs and no versions, and they are not copied; copy the "
              "file of the store while it is closed, or say which region to copy (--region)"};
}

}  // namespace perdura::store
