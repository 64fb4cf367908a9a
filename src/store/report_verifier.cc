#include "store/report_verifier.hpp"

#include <cstdio>
#include <cstring>

namespace perdura::store {

void ReportVerifier::start() {
  std::lock_guard lock(mutex_);
  const auto home = region_.home();
  for (const format::Extent& extent : home->extents()) {
    const std::byte* now = region_.base() + extent.region_offset;
    copies_[extent.region_offset].assign(now, now + extent.length);
  }
}

void ReportVerifier::inspect(const track::DirtyMap& reported) {
  std::lock_guard lock(mutex_);
  const auto home = region_.home();
  for (const format::Extent& extent : home->extents()) inspect_extent(extent, reported);
  watch_->forget();
}

void ReportVerifier::inspect_extent(const format::Extent& extent, const track::DirtyMap& reported) {
  const std::byte* now = region_.base() + extent.region_offset;
  std::vector<std::byte>& before = copies_[extent.region_offset];
  if (before.empty()) before.resize(extent.length);  // new space is zero
  for (u64 at = 0; at < extent.length; at += kLineBytes) {
    if (std::memcmp(now + at, before.data() + at, kLineBytes) == 0) continue;
    std::memcpy(before.data() + at, now + at, kLineBytes);
    const u64 offset = extent.region_offset + at;
    if (reported.contains(offset / kLineBytes)) continue;
    ++lines_;
    if (findings_.size() >= kFindingsMax) continue;
    char text[96];
    std::snprintf(text, sizeof text, "a store to the line at %p was not reported",
                  static_cast<const void*>(now + at));
    findings_.push_back({text + heap_.blocks().describe(now + at), watch_->stores_to(now + at)});
    watch_->watch(now + at);
  }
}

std::vector<std::string> ReportVerifier::findings() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> told;
  for (const Finding& each : findings_) {
    told.push_back(each.text);
    for (const Place& place : each.places) told.back() += "; stored to by " + describe(place);
  }
  return told;
}

u64 ReportVerifier::lines() const {
  std::lock_guard lock(mutex_);
  return lines_;
}

}  // namespace perdura::store
