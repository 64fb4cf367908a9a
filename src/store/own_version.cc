#include "store/own_version.hpp"

#include "store/recovery.hpp"
#include "store/storage.hpp"

namespace perdura::store {

u64 OwnVersion::keep_newest() {
  if (kept_ != 0) of_.kept->release(kept_);
  kept_ = of_.durable();
  if (kept_ != 0) of_.kept->keep(kept_);
  return kept_;
}

Result<std::unique_ptr<OwnVersion>> OwnVersion::open(const Of& of, bool transactions) {
  std::unique_ptr<OwnVersion> own(new OwnVersion(of));
  const EngineKind& kind = engine_kind(*of.record);
  PERDURA_ASSIGN(own->source_,
                 kind.own_source(*of.volume, *of.record, [&own] { return own->keep_newest(); }));
  if (own->source_) return own;
  media::MediumOptions medium = of.medium;
  medium.read_only = true;
  PERDURA_ASSIGN(auto opened, open_existing(of.uri, medium));
  PERDURA_ASSIGN(own->reader_, open_volume_to_read(std::move(opened)));
  PERDURA_ASSIGN(own->source_, open_version(*own->reader_, *of.record,
                                            {.number = 0, .transactions = transactions}));
  return own;
}

OwnVersion::~OwnVersion() {
  source_.reset();
  if (kept_ != 0) of_.kept->release(kept_);
}

}  // namespace perdura::store
