#include "store/version_target.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/aligned_buffer.hpp"
#include "base/assert.hpp"
#include "base/checksum.hpp"
#include "commit/remap_engine.hpp"
#include "region/home_map.hpp"
#include "store/recovery.hpp"

namespace perdura::store {
namespace {

// --- chunks -------------------------------------------------------------------------------------

class ChunkTarget final : public VersionTarget {
 public:
  ChunkTarget(region::Volume& volume, const format::RegionRecord& region)
      : volume_(volume), region_(region) {}

  Status open() {
    PERDURA_ASSIGN(ChunkRecovery recovered, recover_chunks(volume_, region_, 0));
    space_ = std::move(recovered.space);
    if (!recovered.versions.kept.empty()) newest_ = recovered.versions.kept.back();
    commit::RemapEngine::Config config;
    config.volume = &volume_;
    config.space = space_.get();
    config.record = region_;
    engine_.emplace(config, std::move(recovered.versions));
    return {};
  }

  u64 newest() const override { return newest_.version; }
  format::VersionSource newest_source() const override { return newest_.source; }
  u64 part_bytes() const override { return region_.chunk_bytes; }

  Status begin(u64 version, u64 backed_bytes, const format::VersionSource& source) override {
    engine_->begin_copy(version, round_up(backed_bytes, part_bytes()), source);
    counted_ = 0;
    version_ = version;
    source_ = source;
    return go_on(version, source);
  }

  u64 backed_bytes() const override { return engine_->map().chunks() * part_bytes(); }

  Result<Put> put(u64 offset, media::Bytes bytes) override {
    const u64 chunk = part_bytes();
    const u64 first = offset / chunk;
    const u64 count = bytes.size() / chunk;
    PERDURA_ASSIGN(const std::vector<bool> same, compare(first, bytes));
    Put done;
    for (u64 i = 0; i < count; ++i) {
      if (same[i]) continue;
      const std::byte* const at = bytes.data() + i * chunk;
      PERDURA_TRY(engine_->copy_chunk(first + i, at));
      done.changed_bytes += chunk;
      if (engine_->map().chunk(first + i).place != 0) done.sent_bytes += chunk;
    }
    counted_ += done.sent_bytes;
    return done;
  }

  Status save_progress() override { return engine_->save_progress(); }
  void abandon() override { engine_->discard(); }

  Result<u64> commit() override {
    PERDURA_TRY(engine_->prepare());
    engine_->publish();
    newest_.version = version_;
    newest_.source = source_;
    PERDURA_TRY(engine_->confirm());
    return engine_->written().bytes - counted_ + 2 * format::kVersionRecordBytes;
  }

 private:
  /// Of chunks from `first` on which are as they are there. The checksum alone is not believed:
  /// where it fits, the chunk is read and compared.
  Result<std::vector<bool>> compare(u64 first, media::Bytes bytes) {
    const u64 chunk = part_bytes();
    const u64 count = bytes.size() / chunk;
    std::vector<bool> same(count);
    std::vector<media::ReadRequest> requests;
    std::vector<u64> asked;
    if (there_.size() < bytes.size()) there_ = AlignedBuffer(bytes.size());
    for (u64 i = 0; i < count; ++i) {
      const format::ChunkEntry& entry = engine_->map().chunk(first + i);
      const std::byte* const at = bytes.data() + i * chunk;
      if (entry.place == 0) {
        same[i] = is_zero(at, chunk);
      } else if (entry.checksum == checksum(at, chunk)) {
        requests.push_back({entry.place, there_.span().subspan(i * chunk, chunk)});
        asked.push_back(i);
      }
    }
    if (asked.empty()) return same;
    // What is damaged, or has gone, is written anew.
    const Status loaded = volume_.medium().load(requests);
    if (!loaded && loaded.failure().code == Code::kCorrupt) return same;
    PERDURA_TRY(loaded);
    for (size_t i = 0; i < asked.size(); ++i) {
      const std::byte* const wanted = bytes.data() + asked[i] * chunk;
      same[asked[i]] = volume_.medium().whole(
          requests[i].offset, requests[i].into.data(), chunk, PERDURA_SITE("chunk of a copy"),
          [&](const std::byte* at) { return std::memcmp(at, wanted, chunk) == 0; });
    }
    return same;
  }

  // Whatever it says is compared with what is put: other programs may have written to its places.
  Status go_on(u64 version, const format::VersionSource& source) {
    PERDURA_ASSIGN(const auto progress, commit::read_progress(volume_, region_, version));
    if (!progress || std::memcmp(progress->source.uuid, source.uuid, sizeof source.uuid) != 0)
      return {};
    std::vector<std::pair<u64, format::ChunkEntry>> written;
    const Status walked =
        commit::MapReader(volume_, *space_)
            .walk(*progress,
                  [&](u32 level, u64 index, const format::ChunkEntry& entry) -> Result<bool> {
                    if (level == 0) written.emplace_back(index, entry);
                    return true;
                  });
    if (!walked) return walked.failure().code == Code::kCorrupt ? Status{} : walked;
    for (const auto& [index, entry] : written)
      if (index < engine_->map().chunks() && engine_->map().chunk(index) != entry &&
          space_->adopt(entry.place, part_bytes()))
        PERDURA_TRY(engine_->adopt_chunk(index, entry));
    return {};
  }

  region::Volume& volume_;
  const format::RegionRecord region_;
  std::unique_ptr<region::ChunkSpace> space_;
  format::VersionRecord newest_{};
  std::optional<commit::RemapEngine> engine_;
  AlignedBuffer there_;
  u64 version_ = 0;  ///< that is copied
  format::VersionSource source_{};
  u64 counted_ = 0;  ///< of the version that is copied: bytes that put() has said
};

// --- home images --------------------------------------------------------------------------------

/// Each page at its place. Until the superblock says that there is a version nobody looks at it, so
/// that what a crash has left is only compared.
class HomeTarget final : public VersionTarget {
 public:
  HomeTarget(region::Volume& volume, const format::RegionRecord& region, format::ExtentKind kind)
      : volume_(volume), region_(region), kind_(kind) {}

  u64 newest() const override { return 0; }
  u64 part_bytes() const override { return kPageBytes; }

  Status begin(u64 version, u64 backed_bytes, const format::VersionSource&) override {
    version_ = version;
    for (u64 at = 0; at < backed_bytes;) {
      const u64 rest = round_up(backed_bytes, format::kExtentUnit) - at;
      PERDURA_ASSIGN(const format::Extent extent,
                     volume_.allocate_home(region_.region, at, rest, kind_));
      at = extent.region_offset + extent.length;
      const bool is_copy = kind_ == format::ExtentKind::kCopies;
      homes_.push_back(is_copy ? format::home_in_copy(extent, format::copy_of(version)) : extent);
      sums_.emplace_back(extent.length / kPageBytes);
    }
    return {};
  }

  u64 backed_bytes() const override {
    return homes_.empty() ? 0 : homes_.back().region_offset + homes_.back().length;
  }

  Result<Put> put(u64 offset, media::Bytes bytes) override {
    u64 sent = 0;
    for (size_t i = 0; i < homes_.size(); ++i) {
      const format::Extent& home = homes_[i];
      const u64 begin = std::max(offset, home.region_offset);
      const u64 end = std::min(offset + bytes.size(), home.region_offset + home.length);
      if (begin >= end) continue;
      PERDURA_ASSIGN(const u64 part,
                     put_part(i, begin, bytes.subspan(begin - offset, end - begin)));
      sent += part;
    }
    return Put{sent, sent};
  }

  void abandon() override {}

  /// Each page is where it will be.
  Status save_progress() override { return {}; }

  Result<u64> commit() override {
    u64 bytes = 0;
    for (size_t i = 0; i < homes_.size(); ++i) {
      AlignedBuffer table(format::table_bytes(homes_[i].length));
      std::memset(table.data(), 0, table.size());
      std::memcpy(table.data(), sums_[i].data(), sums_[i].size() * sizeof(u64));
      PERDURA_TRY(volume_.medium().write(homes_[i].medium_offset + homes_[i].length, table.span(),
                                         PERDURA_SITE("checksums of a copy")));
      bytes += table.size();
    }
    // Its barriers come before the region is finished: until then nobody asks which version it has.
    PERDURA_TRY(volume_.set_newest(region_.region, version_));
    return bytes;
  }

 private:
  Result<u64> put_part(size_t number, u64 begin, media::Bytes bytes) {
    const format::Extent& home = homes_[number];
    if (there_.size() < bytes.size()) there_ = AlignedBuffer(bytes.size());
    const u64 place = region::HomeMap::page_place(home, begin);
    const media::ReadRequest request{place, there_.first(bytes.size())};
    PERDURA_TRY(volume_.medium().load({&request, 1}));
    u64 sent = 0;
    u64 run = 0;  // pages before `at` that are to be written together
    for (u64 at = 0; at <= bytes.size(); at += kPageBytes) {
      const bool differs = at != bytes.size() && is_other(home, begin + at, bytes.data() + at,
                                                          there_.data() + at, sums_[number]);
      if (differs) {
        run += kPageBytes;
        continue;
      }
      if (run == 0) continue;
      PERDURA_TRY(volume_.medium().write(place + at - run, bytes.subspan(at - run, run),
                                         PERDURA_SITE("pages of a copy")));
      sent += std::exchange(run, 0);
    }
    return sent;
  }

  /// Of a page that is at `there`; notes its checksum.
  bool is_other(const format::Extent& home, u64 offset, const std::byte* page,
                const std::byte* there, std::vector<u64>& sums) const {
    sums[(offset - home.region_offset) / kPageBytes] = page_checksum(page, offset / kLineBytes);
    return !volume_.medium().whole(region::HomeMap::page_place(home, offset), there, kPageBytes,
                                   PERDURA_SITE("page of a copy"), [page](const std::byte* at) {
                                     return std::memcmp(at, page, kPageBytes) == 0;
                                   });
  }

  region::Volume& volume_;
  const format::RegionRecord region_;
  const format::ExtentKind kind_;
  u64 version_ = 0;
  std::vector<format::Extent> homes_;
  std::vector<std::vector<u64>> sums_;  ///< of each: of its pages
  AlignedBuffer there_;
};

}  // namespace

Result<std::unique_ptr<VersionTarget>> target_of_chunks(region::Volume& volume,
                                                        const format::RegionRecord& region) {
  auto target = std::make_unique<ChunkTarget>(volume, region);
  PERDURA_TRY(target->open());
  return std::unique_ptr<VersionTarget>(std::move(target));
}

Result<std::unique_ptr<VersionTarget>> target_of_home(region::Volume& volume,
                                                      const format::RegionRecord& region,
                                                      format::ExtentKind kind) {
  PERDURA_ASSERT(volume.is_unfinished(region.region));  // it is written in place
  return std::unique_ptr<VersionTarget>(std::make_unique<HomeTarget>(volume, region, kind));
}

}  // namespace perdura::store
