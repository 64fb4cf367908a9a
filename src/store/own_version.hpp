// The newest version of a region that this process writes to, to be copied elsewhere meanwhile.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "commit/engine.hpp"
#include "region/volume.hpp"
#include "store/version_source.hpp"

namespace perdura::store {

/// Which versions an engine keeps for those who copy them. Thread-safe.
class KeptVersions {
 public:
  explicit KeptVersions(commit::Engine& engine) : engine_(engine) {}

  /// From now on, if the engine has not given it up before.
  void keep(u64 version) {
    const std::lock_guard lock(mutex_);
    kept_.insert(version);
    engine_.keep_from(*kept_.begin());
  }
  void release(u64 version) {
    const std::lock_guard lock(mutex_);
    kept_.erase(kept_.find(version));
    engine_.keep_from(kept_.empty() ? commit::Engine::kNoVersion : *kept_.begin());
  }

 private:
  std::mutex mutex_;
  std::multiset<u64> kept_;
  commit::Engine& engine_;
};

/// A version, kept as long as this is there.
class OwnVersion {
 public:
  struct Of {
    region::Volume* volume = nullptr;
    const format::RegionRecord* record = nullptr;
    std::string uri;  ///< where it can be read as by another process, if it has to be
    media::MediumOptions medium{};
    KeptVersions* kept = nullptr;
    std::function<u64()> durable;
  };
  /// With the transactions that have committed since, if `transactions` says so.
  static Result<std::unique_ptr<OwnVersion>> open(const Of& of, bool transactions);
  ~OwnVersion();
  OwnVersion(const OwnVersion&) = delete;

  VersionSource& source() { return *source_; }

 private:
  explicit OwnVersion(const Of& of) : of_(of) {}
  u64 keep_newest();

  const Of of_;
  u64 kept_ = 0;  ///< 0: none
  std::unique_ptr<region::Volume> reader_;
  std::unique_ptr<VersionSource> source_;
};

}  // namespace perdura::store
