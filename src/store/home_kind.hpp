// What kinds of engines have in common whose regions have home images, and keep their newest
// version alone.
#pragma once

#include <string>

#include "store/storage.hpp"

namespace perdura::store {

class HomeKind : public EngineKind {
 public:
  Status check_options(const Options&) const override { return {}; }

  Status check_creation(const Options&, const media::Medium& medium) const override {
    if (medium.geometry().objects)
      return Failure{Code::kUnsupported, "'" + medium.name() + "' can hold chunks, but " + lacks_ +
                                             "; create the store with Engine::kRemap"};
    return {};
  }

  void fill_record(const Options&, format::RegionRecord& record) const override {
    record.engine = engine_;
  }

  Result<u64> roll_back(region::Volume& volume, const format::RegionRecord& record, u64,
                        const Progress&) const override {
    return Failure{Code::kUnsupported, "region '" + std::string(record.name) + "' of '" +
                                           volume.name() + "' " + is_ +
                                           " and keeps its newest version alone"};
  }

 protected:
  /// `lacks`: what a medium of objects cannot hold; `is`: what a region of this kind is, for
  /// errors.
  HomeKind(format::EngineId engine, const char* lacks, const char* is)
      : engine_(engine), lacks_(lacks), is_(is) {}

 private:
  const format::EngineId engine_;
  const char* const lacks_;
  const char* const is_;
};

}  // namespace perdura::store
