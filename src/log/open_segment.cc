#include "log/open_segment.hpp"

namespace perdura::log {

Status OpenSegment::take(Content content, u64 version) {
  leave();
  PERDURA_ASSIGN(place_, space_.take(content, version));
  taken_ = true;
  version_ = version;
  used_ = 0;
  return {};
}

// The space has one lock for all threads.
void OpenSegment::note(u64 version) {
  PERDURA_ASSERT(taken_);
  if (version != version_) space_.note_version(place_.index, version_ = version);
}

void OpenSegment::leave() {
  if (taken_) space_.release(place_.index);
  taken_ = false;
}

void OpenSegment::stamp(format::LogBlockHeader& header) const {
  header.store_id = store_id_;
  header.generation = place_.use.generation;
  header.magic = format::kLogBlockMagic;
  header.region = region_;
  header.place = place();
  header.session = place_.use.session;
}

}  // namespace perdura::log
