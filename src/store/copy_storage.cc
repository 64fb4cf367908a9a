// A region in two copies.
#include "commit/dual_copy_engine.hpp"
#include "store/home_kind.hpp"
#include "store/home_loader.hpp"
#include "store/pinned.hpp"
#include "store/storage.hpp"
#include "track/kinds.hpp"

namespace perdura::store {
namespace {

class CopyStorage final : public Storage {
 public:
  CopyStorage(region::Volume& volume, const format::RegionRecord& record, const Options& options)
      : volume_(volume),
        record_(record),
        options_(options),
        loader_(volume, {.before_use = options.verify == Verify::kBeforeUse,
                         .bytes_per_second = options.verify_bytes_per_second,
                         .zeroes = options.verify == Verify::kBeforeUse &&
                                   options.on_damage == OnDamage::kThrow}) {}

  // What the superblock says is durable: counting the session has written it once more.
  Status recover() override {
    if (options_.version != 0)
      return Failure{Code::kUnsupported,
                     "'" + volume_.name() +
                         "' is in two copies and keeps its newest version alone; create it with "
                         "Engine::kRemap to open older ones"};
    if (volume_.is_read_only()) {
      PERDURA_ASSIGN(durable_version_, pin_copy(volume_, record_));
    } else {
      durable_version_ = volume_.replayed_version(record_.region);
    }
    return {};
  }

  u64 durable_version() const override { return durable_version_; }

  Result<std::unique_ptr<region::Region>> map(const format::RegionRecord& record) override {
    return region::Region::map_copy(volume_, record, format::copy_of(durable_version_));
  }

  Status load_rest(region::Region& region, track::Tracker& tracker) override {
    PERDURA_ASSIGN(guard_, commit::HomeGuard::create(volume_, region, nullptr,
                                                     commit::HomeGuard::Condemns::kWithVersion));
    loader_.set_guard(guard_.get());
    return options_.lazy_recovery ? loader_.load_lazily(region, tracker) : loader_.load_all(region);
  }

  // Lines of NVM are captured as for a log. By page more is copied aside, and to block media more
  // is written than what changed: mutators wait for less when they stand still.
  bool usually_in_background(const track::Tracker& tracker) const override {
    return volume_.medium().geometry().byte_addressable &&
           track::kind_of(tracker.kind()).lists_lines;
  }

  Result<std::unique_ptr<commit::Engine>> make_engine(const Parts& parts) override {
    PERDURA_ASSIGN(
        copies_, commit::Copies::create(volume_, *parts.region, format::copy_of(durable_version_)));
    commit::DualCopyEngine::Config config;
    config.volume = &volume_;
    config.region = parts.region;
    config.mutators = parts.mutators;
    config.copies = copies_.get();
    config.guard = guard_.get();
    config.compare = options_.compare && parts.tracker->is_coarse();
    if (options_.verify == Verify::kBackground)
      config.verify_bytes_per_second = options_.verify_bytes_per_second;
    PERDURA_ASSIGN(auto engine, commit::DualCopyEngine::create(config, durable_version_));
    return std::unique_ptr<commit::Engine>(std::move(engine));
  }

  track::ClosedParts* closed() override { return loader_.closed(); }
  commit::Findings findings() const override { return loader_.findings(); }

 private:
  region::Volume& volume_;
  const format::RegionRecord record_;
  const Options& options_;
  u64 durable_version_ = 0;
  std::unique_ptr<commit::HomeGuard> guard_;
  std::unique_ptr<commit::Copies> copies_;
  HomeLoader loader_;
};

class CopyKind final : public HomeKind {
 public:
  CopyKind()
      : HomeKind(format::EngineId::kCopies, "no copies of a home image", "is in two copies") {}

  // The version after the next waits for whoever reads one, and fails.
  Status check_drain() const override {
    return Failure{Code::kUnsupported,
                   "a region in two copies keeps no version while others are made, so that none "
                   "can be drained behind them; use another engine, or backups"};
  }

  std::unique_ptr<Storage> storage(region::Volume& volume, const format::RegionRecord& record,
                                   const Options& options) const override {
    return std::make_unique<CopyStorage>(volume, record, options);
  }

  Result<std::unique_ptr<VersionSource>> source(region::Volume& volume,
                                                const format::RegionRecord& record,
                                                const WantedVersion& wanted) const override {
    return source_of_copies(volume, record, wanted);
  }

  Result<std::unique_ptr<VersionTarget>> target(region::Volume& volume,
                                                const format::RegionRecord& record) const override {
    return target_of_home(volume, record, format::ExtentKind::kCopies);
  }

  std::unique_ptr<Inspection> inspection(region::Volume& volume,
                                         const format::RegionRecord& record) const override {
    return inspection_of_copies(volume, record);
  }

  // Whoever opens it to write makes the copies level.
  bool can_take_back(const region::Volume& volume, const format::RegionRecord& record, u64 version,
                     bool is_untouched) const override {
    return is_untouched && volume.replayed_version(record.region) == version;
  }

  Status take_back(region::Volume& volume, const format::RegionRecord& record,
                   u64 version) const override {
    if (volume.replayed_version(record.region) != version)
      return Failure{Code::kMisuse, "version " + std::to_string(version) + " of '" + volume.name() +
                                        "' is not its newest one, and cannot be taken back"};
    return volume.set_newest(record.region, version - 1);
  }
};

}  // namespace

const EngineKind& copy_kind() {
  static const CopyKind kind;
  return kind;
}

}  // namespace perdura::store
