// A region in chunks, which versions share.
#include <algorithm>
#include <array>
#include <optional>

#include "commit/remap_engine.hpp"
#include "store/chunk_loader.hpp"
#include "store/recovery.hpp"
#include "store/storage.hpp"
#include "store/versions.hpp"
#include "track/kinds.hpp"

namespace perdura::store {
namespace {

constexpr u32 kOverProvisioningMax = 1000;

class ChunkStorage final : public Storage {
 public:
  ChunkStorage(region::Volume& volume, const format::RegionRecord& record, const Options& options)
      : volume_(volume), record_(record), options_(options) {}

  void create() override {
    chunks_.space =
        std::make_unique<region::ChunkSpace>(volume_, record_, options_.over_provisioning);
  }

  Status recover() override {
    if (chunks_.space != nullptr) return {};  // made just now
    if (volume_.is_read_only()) {
      PERDURA_ASSIGN(chunks_, recover_chunks_at(volume_, record_, options_.version));
    } else {
      PERDURA_ASSIGN(chunks_, recover_chunks(volume_, record_, options_.over_provisioning));
    }
    durable_version_ = content_version_ = chunks_.durable_version();
    // What was rolled back to may have come about so itself.
    const std::vector<format::VersionRecord>& kept = chunks_.versions.kept;
    for (auto each = kept.rbegin(); each != kept.rend(); ++each)
      if (each->version == content_version_ && each->origin != 0) content_version_ = each->origin;
    // A backup has the numbers of its original with its own.
    for (const format::VersionRecord& each : kept)
      if (each.version == content_version_ && each.source.version != 0) {
        content_version_ = each.source.version;
        content_store_ = std::to_array(each.source.uuid);
        break;
      }
    return {};
  }

  u64 durable_version() const override { return durable_version_; }
  u64 content_version() const override { return content_version_; }
  std::optional<std::array<u8, 16>> content_store() const override { return content_store_; }

  Result<std::unique_ptr<region::Region>> map(const format::RegionRecord& record) override {
    return region::Region::map_chunks(volume_, record, *chunks_.space, chunks_.backed_bytes());
  }

  // Elsewhere than its pointers hold all of it is needed: each is rewritten.
  Status load(region::Region& region) override {
    PERDURA_ASSIGN(zeroed_, commit::PageSet::create(region.limit()));
    loader_ = std::make_unique<ChunkLoader>(
        volume_, *chunks_.space, region, chunks_.versions.map.level(0),
        options_.on_damage == OnDamage::kThrow ? &*zeroed_ : nullptr);
    PERDURA_ASSIGN(const u64 address, loader_->read_address());
    const bool moves = address != reinterpret_cast<std::uintptr_t>(region.base());
    loads_lazily_ = options_.lazy_recovery && region.aliases() == 0 && !moves;
    return loads_lazily_ ? Status{} : loader_->load_all();
  }

  Status load_rest(region::Region&, track::Tracker& tracker) override {
    return loads_lazily_ ? loader_->load_lazily(tracker) : Status{};
  }

  bool usually_in_background(const track::Tracker& tracker) const override {
    return !track::kind_of(tracker.kind()).is_reported;
  }

  Result<std::unique_ptr<commit::Engine>> make_engine(const Parts& parts) override {
    commit::RemapEngine::Config config;
    config.volume = &volume_;
    config.region = parts.region;
    config.space = chunks_.space.get();
    config.record = record_;
    config.whole_chunks = options_.whole_chunks;
    config.withheld = &*zeroed_;
    return std::unique_ptr<commit::Engine>(
        std::make_unique<commit::RemapEngine>(config, std::move(chunks_.versions)));
  }

  commit::Findings findings() const override { return loader_->findings(); }

 private:
  region::Volume& volume_;
  const format::RegionRecord record_;
  const Options& options_;
  ChunkRecovery chunks_;
  u64 durable_version_ = 0;
  u64 content_version_ = 0;
  std::optional<std::array<u8, 16>> content_store_;
  std::optional<commit::PageSet> zeroed_;  ///< damaged, and so in no version
  std::unique_ptr<ChunkLoader> loader_;
  bool loads_lazily_ = false;
};

class ChunkKind final : public EngineKind {
 public:
  Status check_options(const Options& options) const override {
    const auto invalid = [](const std::string& what) {
      return Failure{Code::kInvalidArgument, what};
    };
    if (options.region_limit_bytes % options.chunk_bytes != 0)
      return invalid("region_limit_bytes is a multiple of chunk_bytes, not " +
                     std::to_string(options.region_limit_bytes));
    if (options.versions_kept == 0 || options.versions_kept > format::kVersionsKeptMax)
      return invalid("versions_kept is from 1 to 1024, not " +
                     std::to_string(options.versions_kept));
    if (options.over_provisioning > kOverProvisioningMax)
      return invalid("over_provisioning is up to 1000 percent, not " +
                     std::to_string(options.over_provisioning));
    return {};
  }

  Status check_creation(const Options&, const media::Medium&) const override { return {}; }

  void fill_record(const Options& options, format::RegionRecord& record) const override {
    record.engine = format::EngineId::kRemap;
    record.chunk_bytes = options.chunk_bytes;
    record.versions_kept = static_cast<u16>(options.versions_kept);
  }

  std::unique_ptr<Storage> storage(region::Volume& volume, const format::RegionRecord& record,
                                   const Options& options) const override {
    return std::make_unique<ChunkStorage>(volume, record, options);
  }

  Result<std::unique_ptr<VersionSource>> source(region::Volume& volume,
                                                const format::RegionRecord& record,
                                                const WantedVersion& wanted) const override {
    return source_of_chunks(volume, record, wanted);
  }

  Result<std::unique_ptr<VersionSource>> own_source(
      region::Volume& volume, const format::RegionRecord& record,
      const std::function<u64()>& keep_newest) const override {
    for (;;) {
      const u64 version = keep_newest();
      if (version == 0)
        return Failure{Code::kNotFound, "'" + volume.name() + "' holds no version yet"};
      // The superblock may learn of a newer one between the two looks.
      PERDURA_ASSIGN(std::vector<commit::FoundVersion> kept,
                     commit::read_versions(volume, record, commit::Newest::kMayBeLost));
      const auto found = std::ranges::find_if(
          kept, [&](const commit::FoundVersion& each) { return each.record.version == version; });
      // It was given up before it was kept: then as many newer ones are there.
      if (found == kept.end()) continue;
      const format::VersionRecord newest = found->record;
      return source_of_kept_chunks(volume, record, {*found}, newest);
    }
  }

  Result<std::unique_ptr<VersionTarget>> target(region::Volume& volume,
                                                const format::RegionRecord& record) const override {
    return target_of_chunks(volume, record);
  }

  std::unique_ptr<Inspection> inspection(region::Volume& volume,
                                         const format::RegionRecord& record) const override {
    return inspection_of_chunks(volume, record);
  }

  Result<u64> roll_back(region::Volume& volume, const format::RegionRecord& record, u64 version,
                        const Progress& progress) const override {
    return roll_chunks_back(volume, record, version, progress);
  }

  // A ring of one version has no place for the one before.
  bool can_take_back(const region::Volume& volume, const format::RegionRecord& record, u64 version,
                     bool) const override {
    return volume.confirmed_version(record.region) < version && record.versions_kept > 1;
  }

  Status take_back(region::Volume& volume, const format::RegionRecord& record,
                   u64 version) const override {
    return take_chunks_back(volume, record, version);
  }

  Status sign(region::Volume& volume, const format::RegionRecord& record, u64 store_id,
              u64 copy) const override {
    return commit::sign_versions(volume, record, store_id, copy);
  }
};

}  // namespace

const EngineKind& chunk_kind() {
  static const ChunkKind kind;
  return kind;
}

}  // namespace perdura::store
