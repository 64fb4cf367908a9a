// A region with a home image and a redo log.
#include <algorithm>
#include <cstring>
#include <list>

#include "base/aligned_buffer.hpp"
#include "commit/redo_log_engine.hpp"
#include "store/home_kind.hpp"
#include "store/home_loader.hpp"
#include "store/pinned.hpp"
#include "store/recovery.hpp"
#include "store/storage.hpp"
#include "track/kinds.hpp"

namespace perdura::store {
namespace {

class RedoLogStorage final : public Storage {
 public:
  RedoLogStorage(region::Volume& volume, const format::RegionRecord& record, const Options& options)
      : volume_(volume),
        record_(record),
        options_(options),
        loader_(volume, {.before_use = options.verify == Verify::kBeforeUse,
                         .bytes_per_second = options.verify_bytes_per_second,
                         .zeroes = options.verify == Verify::kBeforeUse &&
                                   options.on_damage == OnDamage::kThrow}) {}

  Status recover() override {
    if (options_.version != 0)
      return Failure{Code::kUnsupported,
                     "'" + volume_.name() +
                         "' has a redo log and keeps its newest version alone; create it with "
                         "Engine::kRemap to open older ones"};
    Recovery recovery;
    if (volume_.is_read_only()) {
      PERDURA_ASSIGN(PinnedLog pinned, pin_log(volume_, record_));
      recovery.log = std::move(pinned.log);
    } else {
      PERDURA_ASSIGN(recovery, store::recover(volume_, record_, options_.log_limit_bytes));
    }
    space_ = std::move(recovery.space);
    durable_version_ = recovery.log.durable_version;
    transactions_ = std::move(recovery.log.records);
    dead_transactions_ = std::move(recovery.log.dead_records);
    if (recovery.log.versions.empty()) return {};
    std::vector<log::LoggedVersion> versions;
    PERDURA_TRY(loader_.add_log(std::move(recovery.log), record_.limit_bytes, versions));
    recovered_.assign(versions.begin(), versions.end());
    return {};
  }

  u64 durable_version() const override { return durable_version_; }

  Result<std::unique_ptr<region::Region>> map(const format::RegionRecord& record) override {
    return region::Region::map(volume_, record);
  }

  Status load_rest(region::Region& region, track::Tracker& tracker) override {
    PERDURA_ASSIGN(guard_, commit::HomeGuard::create(volume_, region, loader_.lines()));
    loader_.set_guard(guard_.get());
    return options_.lazy_recovery ? loader_.load_lazily(region, tracker) : loader_.load_all(region);
  }

  // Where pages would be copied aside in handlers of faults it is for the program to choose.
  bool usually_in_background(const track::Tracker& tracker) const override {
    return track::kind_of(tracker.kind()).lists_lines;
  }

  Result<std::unique_ptr<commit::Engine>> make_engine(const Parts& parts) override {
    const bool coarse = parts.tracker->is_coarse();
    commit::RedoLogEngine::Config config;
    config.volume = &volume_;
    config.region = parts.region;
    config.mutators = parts.mutators;
    config.tracker = parts.tracker;
    config.space = space_.get();
    config.compare = options_.compare && coarse;
    config.coarse = coarse || options_.granule_bytes > kLineBytes;
    config.guard = guard_.get();
    if (options_.verify == Verify::kBackground)
      config.verify_bytes_per_second = options_.verify_bytes_per_second;
    return std::unique_ptr<commit::Engine>(
        std::make_unique<commit::RedoLogEngine>(config, durable_version_, std::move(recovered_)));
  }

  log::Space* log() override { return space_.get(); }
  track::ClosedParts* closed() override { return loader_.closed(); }
  commit::Findings findings() const override { return loader_.findings(); }
  std::vector<log::FoundRecord> take_transactions() override { return std::move(transactions_); }
  std::vector<log::FoundRecord> take_dead_transactions() override {
    return std::move(dead_transactions_);
  }

 private:
  region::Volume& volume_;
  const format::RegionRecord record_;
  const Options& options_;
  std::unique_ptr<log::Space> space_;  ///< of one that is written to
  u64 durable_version_ = 0;
  std::list<log::LoggedVersion> recovered_;
  std::vector<log::FoundRecord> transactions_;
  std::vector<log::FoundRecord> dead_transactions_;
  std::unique_ptr<commit::HomeGuard> guard_;
  HomeLoader loader_;
};

// A block is none without its header. Where several attempts at the version were whole, as one that
// failed at last may be, the youngest counts: they go one after the other.
Status take_back_log(region::Volume& volume, const format::RegionRecord& record, u64 version) {
  const u64 replayed = volume.replayed_version(record.region);
  const u64 unit = std::max(volume.medium().geometry().write_bytes,
                            round_up(sizeof(format::LogBlockHeader), kLineBytes));
  AlignedBuffer zeros(round_up(unit, kPageBytes));
  std::memset(zeros.data(), 0, zeros.size());
  for (u64 taken = 0;;) {
    log::Space space(volume, record.region, 0);  // gives nothing out
    PERDURA_ASSIGN(const log::Recovered log,
                   log::read(volume, record.region, replayed, space, log::Image::Where::kInMemory));
    if (log.durable_version < version) return {};
    if (log.durable_version > version || !log.records.empty() || log.versions.empty())
      return Failure{Code::kMisuse, "version " + std::to_string(version) + " of '" + volume.name() +
                                        "' cannot be taken back: there are later ones, or "
                                        "transactions in its log"};
    const u64 place = log.versions.back().blocks.front().offset;
    if (place == taken)
      return Failure{Code::kIo, "'" + volume.name() + "' still has at offset " +
                                    std::to_string(place) + " what was overwritten there"};
    taken = place;
    for (const log::BlockRef& block : log.versions.back().blocks)
      PERDURA_TRY(volume.medium().write(block.offset, zeros.first(unit),
                                        PERDURA_SITE("version taken back")));
    // Barrier: nothing is left of the version before another one gets its number.
    PERDURA_TRY(volume.medium().barrier(PERDURA_SITE("version taken back")));
  }
}

class RedoLogKind final : public HomeKind {
 public:
  RedoLogKind() : HomeKind(format::EngineId::kRedoLog, "no home image", "has a redo log") {}

  std::unique_ptr<Storage> storage(region::Volume& volume, const format::RegionRecord& record,
                                   const Options& options) const override {
    return std::make_unique<RedoLogStorage>(volume, record, options);
  }

  Result<std::unique_ptr<VersionSource>> source(region::Volume& volume,
                                                const format::RegionRecord& record,
                                                const WantedVersion& wanted) const override {
    return source_of_log(volume, record, wanted);
  }

  Result<std::unique_ptr<VersionTarget>> target(region::Volume& volume,
                                                const format::RegionRecord& record) const override {
    return target_of_home(volume, record, format::ExtentKind::kHome);
  }

  std::unique_ptr<Inspection> inspection(region::Volume& volume,
                                         const format::RegionRecord& record) const override {
    return inspection_of_log(volume, record);
  }

  // Before a version comes home, the superblock knows of it.
  bool can_take_back(const region::Volume& volume, const format::RegionRecord& record, u64 version,
                     bool) const override {
    return volume.confirmed_version(record.region) < version;
  }

  Status take_back(region::Volume& volume, const format::RegionRecord& record,
                   u64 version) const override {
    return take_back_log(volume, record, version);
  }
};

}  // namespace

const EngineKind& redo_log_kind() {
  static const RedoLogKind kind;
  return kind;
}

}  // namespace perdura::store
