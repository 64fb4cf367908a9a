#include "commit/home_guard.hpp"

#include <algorithm>
#include <cstring>

#include "base/aligned_buffer.hpp"
#include "base/mutant.hpp"
#include "commit/home_view.hpp"

namespace perdura::commit {

using region::HomeMap;

namespace {
constexpr size_t kFirstMax = 1000;

Failure page_unreadable(const region::Volume& volume, u64 page) {
  return {Code::kIo, "the home page at region offset " + std::to_string(page * kPageBytes) +
                         " of '" + volume.name() +
                         "', of which a version would have lines, cannot be read; restore the "
                         "store from a copy"};
}
}  // namespace

Failure page_damaged(const region::Volume& volume, u64 region_offset) {
  return {Code::kCorrupt, "the home page at region offset " + std::to_string(region_offset) +
                              " of '" + volume.name() +
                              "' does not fit its checksum; run `perdura check` and restore the "
                              "store from a copy"};
}

void note_damage(Findings& findings, u64 region_offset, std::string what) {
  ++findings.damaged_pages;
  if (findings.first.size() < kFirstMax)
    findings.first.push_back("region offset " + std::to_string(region_offset) + ": " +
                             std::move(what));
}

Result<std::unique_ptr<HomeGuard>> HomeGuard::create(region::Volume& volume,
                                                     const region::Region& region,
                                                     const track::DirtyMap* recovered,
                                                     Condemns condemns) {
  PERDURA_ASSIGN(PageSet known, PageSet::create(region.limit()));
  PERDURA_ASSIGN(PageSet withheld, PageSet::create(region.limit()));
  PERDURA_ASSIGN(PageSet condemned, PageSet::create(region.limit()));
  return std::unique_ptr<HomeGuard>(new HomeGuard(volume, region, recovered, condemns,
                                                  std::move(known), std::move(withheld),
                                                  std::move(condemned)));
}

void HomeGuard::note(u64 page, std::string what) {
  if (add(page, what)) events_.defer(EventKind::kDamage, Code::kCorrupt, what);
}

bool HomeGuard::add(u64 page, std::string what) {
  std::lock_guard lock(mutex_);
  if (!noted_.insert(page).second) return false;
  note_damage(findings_, page * kPageBytes, std::move(what));
  return true;
}

// Nobody else may be told: a checkpoint in the background, or at the end.
void HomeGuard::tell_condemned(const std::vector<u64>& pages) {
  events_.defer(
      EventKind::kDamage, Code::kCorrupt,
      "a version of '" + volume_.name() + "' has changes in damaged pages (" +
          std::to_string(pages.size()) + "), the first at region offset " +
          std::to_string(pages.front() * kPageBytes) +
          ", which do not fit their checksums and stay condemned; run `perdura check` and "
          "restore the store from a copy");
}

void HomeGuard::note_in_version(u64 page) {
  const Failure damaged = page_damaged(volume_, page * kPageBytes);
  add(page, damaged.message);
  learn(page);
  std::lock_guard lock(mutex_);
  if (findings_.in_version.empty()) findings_.in_version = damaged.message;
}

void HomeGuard::scrubbed(u64 bytes) {
  std::lock_guard lock(mutex_);
  findings_.verified_bytes += bytes;
}

Findings HomeGuard::findings() const {
  std::lock_guard lock(mutex_);
  return findings_;
}

// What has come to the region since it was opened had no page that could be damaged.
bool HomeGuard::is_unknown(u64 page) noexcept {
  if (known_.contains(page) || is_mutant("unguarded_versions")) return false;
  if (home_->find(page * kPageBytes) != nullptr && !may_be_half_replayed(page)) return true;
  known_.add(page);
  return false;
}

Status HomeGuard::before_version(const track::DirtyMap& changes) {
  std::vector<u64> unknown;
  changes.for_each_page([&](u64 page, u64) {
    if (is_unknown(page)) unknown.push_back(page);
  });
  return unknown.empty() ? Status{} : verify(unknown);
}

Status HomeGuard::before_version(std::span<const u64> lines) {
  std::vector<u64> unknown;
  for (const u64 line : lines)
    if (is_unknown(line / kLinesPerPage)) unknown.push_back(line / kLinesPerPage);
  std::sort(unknown.begin(), unknown.end());
  unknown.erase(std::unique(unknown.begin(), unknown.end()), unknown.end());
  return unknown.empty() ? Status{} : verify(unknown);
}

// Pages in rising order, none of which a replay is writing: no version has lines of them yet.
Status HomeGuard::verify(const std::vector<u64>& pages) {
  PERDURA_ASSIGN(const HomeView view, HomeView::create(volume_, *home_));
  std::vector<u64> damaged;
  std::vector<u64> condemned;
  std::vector<u64> unreadable;
  for (size_t i = 0; i < pages.size();) {
    const u64 first = pages[i];
    u64 end = first;
    for (; i < pages.size() && pages[i] == end; ++i) ++end;
    view.look_at(first * kPageBytes, end * kPageBytes, [&](u64 page, HomeView::Page found) {
      if (found == HomeView::Page::kGood) learn(page);
      else if (found == HomeView::Page::kDamaged) damaged.push_back(page);
      else if (found == HomeView::Page::kCondemned) condemned.push_back(page);
      else unreadable.push_back(page);
    });
  }
  // What cannot be read now may be whole: a verdict would be for ever.
  if (!unreadable.empty()) return page_unreadable(volume_, unreadable.front());
  if (!damaged.empty() && condemns_ == Condemns::kAtHome) PERDURA_TRY(condemn(damaged));
  damaged.insert(damaged.end(), condemned.begin(), condemned.end());
  if (damaged.empty()) return {};
  for (const u64 page : damaged) {
    condemned_.add(page);
    note_in_version(page);
  }
  tell_condemned(damaged);
  return {};
}

// Checksums of other pages in a unit of the medium are written again as they are.
Status HomeGuard::condemn(const std::vector<u64>& pages) {
  const auto lock = writing();
  media::Medium& medium = volume_.medium();
  const u64 unit = medium.geometry().write_bytes;
  AlignedBuffer buffer(kPageBytes);
  const auto place_of = [&](u64 page) {
    return HomeMap::checksum_place(*home_->find(page * kPageBytes), page * kPageBytes);
  };
  for (size_t i = 0; i < pages.size();) {
    const u64 begin = round_down(place_of(pages[i]), unit);
    PERDURA_TRY(medium.read(begin, buffer.first(unit)));
    for (; i < pages.size() && round_down(place_of(pages[i]), unit) == begin; ++i)
      std::memcpy(buffer.data() + (place_of(pages[i]) - begin), &format::kCondemnedPage,
                  sizeof format::kCondemnedPage);
    PERDURA_TRY(medium.write(begin, buffer.first(unit), PERDURA_SITE("condemned pages")));
  }
  // Barrier: that they are condemned is durable before there is a version with lines of these
  // pages. Else a crash would have them taken for half replayed, and they get checksums that fit.
  return medium.barrier(PERDURA_SITE("condemned pages"));
}

}  // namespace perdura::commit
