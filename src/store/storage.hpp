// How a region is kept on its medium, for the whole of its life: one kind for each engine. What
// differs between engines is behind these interfaces, and whoever opens, inspects or lists stores
// asks none which it has.
//
//   EngineKind   before there is a region, and without opening one: options, record, looks,
//                rollback
//   Storage      of a region that is opened:
//                create or recover ─ map ─ load ─ (tracker) ─ load_rest ─ make_engine
//
// A new engine is a commit::Engine, a Storage and an Inspection, and an EngineKind in the table of
// engine_kinds.cc; region/engine_rules.hpp says what the directory may hold of it.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <perdura/options.hpp>

#include "commit/engine.hpp"
#include "log/reader.hpp"
#include "log/space.hpp"
#include "region/region.hpp"
#include "region/volume.hpp"
#include "store/inspection.hpp"
#include "store/version_source.hpp"
#include "store/version_target.hpp"
#include "track/mutators.hpp"
#include "track/tracker.hpp"

namespace perdura::store {

/// Called by the thread that opens the store, in the order of the picture above; what is const, by
/// any thread afterwards.
class Storage {
 public:
  /// What an engine works with. All of it outlives the engine.
  struct Parts {
    region::Region* region = nullptr;
    track::Mutators* mutators = nullptr;
    track::Tracker* tracker = nullptr;
  };

  virtual ~Storage() = default;

  /// Of a region that is made now, before it is mapped and in the directory.
  virtual void create() {}
  /// Of one that is in the directory: finds the newest version, or the one that the options want to
  /// be read.
  virtual Status recover() = 0;
  /// Found by recover(); 0: there is none yet.
  virtual u64 durable_version() const = 0;
  /// Of which version its content is: of another one than itself if that was rolled back to.
  virtual u64 content_version() const { return durable_version(); }
  /// The UUID of the store whose version that is, where it is not this one's.
  virtual std::optional<std::array<u8, 16>> content_store() const { return std::nullopt; }
  /// At the record's address. kAddressTaken: it can be called again with another one.
  virtual Result<std::unique_ptr<region::Region>> map(const format::RegionRecord& record) = 0;
  /// What must be in memory before a tracker watches it.
  virtual Status load(region::Region&) { return {}; }
  /// The rest, all of it or each part when it is touched.
  virtual Status load_rest(region::Region& region, track::Tracker& tracker) = 0;
  /// Whether captures with a tracker that sees stores first run in the background, unless the
  /// options say otherwise.
  virtual bool usually_in_background(const track::Tracker& tracker) const = 0;
  /// Once.
  virtual Result<std::unique_ptr<commit::Engine>> make_engine(const Parts& parts) = 0;

  /// Where transactions have their records; nullptr: there are none of such a region.
  virtual log::Space* log() { return nullptr; }
  /// Those that recover() has found. Once.
  virtual std::vector<log::FoundRecord> take_transactions() { return {}; }
  /// And those that never were, though there is something of them in the log. Once.
  virtual std::vector<log::FoundRecord> take_dead_transactions() { return {}; }
  /// Parts of the region that are loaded when they are touched; nullptr: there are none.
  virtual track::ClosedParts* closed() { return nullptr; }
  /// What loading has verified.
  virtual commit::Findings findings() const { return {}; }
};

class EngineKind {
 public:
  virtual ~EngineKind() = default;

  /// Of a store that may be made with them.
  virtual Status check_options(const Options& options) const = 0;
  /// Whether a region can be made on this medium.
  virtual Status check_creation(const Options& options, const media::Medium& medium) const = 0;
  /// What the record of a new region says for the engine.
  virtual void fill_record(const Options& options, format::RegionRecord& record) const = 0;

  /// `volume` and `options` outlive it.
  virtual std::unique_ptr<Storage> storage(region::Volume& volume,
                                           const format::RegionRecord& record,
                                           const Options& options) const = 0;
  /// `volume` outlives it.
  virtual std::unique_ptr<Inspection> inspection(region::Volume& volume,
                                                 const format::RegionRecord& record) const = 0;
  /// Makes a kept version the newest one, verified; returns its number.
  virtual Result<u64> roll_back(region::Volume& volume, const format::RegionRecord& record,
                                u64 version, const Progress& progress) const = 0;
  /// A version of the region, to be copied to another store, from a volume that is open to be read.
  virtual Result<std::unique_ptr<VersionSource>> source(region::Volume& volume,
                                                        const format::RegionRecord& record,
                                                        const WantedVersion& wanted) const = 0;
  /// The newest version of a region that this process has open to write, from its own volume.
  /// `keep_newest` keeps one, which it returns, until it is called again. nullptr: such a region is
  /// read as by another process.
  virtual Result<std::unique_ptr<VersionSource>> own_source(
      region::Volume& volume, const format::RegionRecord& record,
      const std::function<u64()>& keep_newest) const {
    (void)volume, (void)record, (void)keep_newest;
    return std::unique_ptr<VersionSource>();
  }
  /// Whether versions can be drained while others are made.
  virtual Status check_drain() const { return {}; }
  /// Where versions of another store's region are copied to, in a session of the volume.
  virtual Result<std::unique_ptr<VersionTarget>> target(
      region::Volume& volume, const format::RegionRecord& record) const = 0;
  /// Whether the newest version, `version`, can be taken back: the one before it is on the medium,
  /// whole. `is_untouched`: nobody has opened the store to write since the newest one was made.
  virtual bool can_take_back(const region::Volume& volume, const format::RegionRecord& record,
                             u64 version, bool is_untouched) const {
    (void)volume, (void)record, (void)version, (void)is_untouched;
    return false;
  }
  /// That version never was, durably: the newest one is that before it, under its own number. Only
  /// where can_take_back() says so; outside of sessions of the volume. A crash meanwhile leaves the
  /// one or the other.
  virtual Status take_back(region::Volume& volume, const format::RegionRecord& record,
                           u64 version) const {
    (void)version;
    return Failure{Code::kUnsupported, "no version of region '" + std::string(record.name) +
                                           "' of '" + volume.name() + "' can be taken back"};
  }
  /// Writes all that is needed of the region and has the store's id in it, but for the superblock
  /// and the log, once more with the id `store_id`: one of its two copies. With a barrier. Here
  /// nothing is.
  virtual Status sign(region::Volume& volume, const format::RegionRecord& record, u64 store_id,
                      u64 copy) const {
    (void)volume, (void)record, (void)store_id, (void)copy;
    return {};
  }
};

/// nullptr: `engine` is none, as C may say.
const EngineKind* find_engine_kind(Engine engine);
/// The kind that options ask for, whose engine is one, and that of a region.
const EngineKind& engine_kind(Engine engine);
const EngineKind& engine_kind(const format::RegionRecord& record);

/// All of them, for the table. The last is of regions that no Store has.
const EngineKind& redo_log_kind();
const EngineKind& chunk_kind();
const EngineKind& copy_kind();
const EngineKind& object_kind();

}  // namespace perdura::store
