#include "store/home_loader.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/spin.hpp"
#include "format/heap_format.hpp"

namespace perdura::store {
namespace {
// Patching fewer pages at once is quicker than faults.
constexpr u64 kEagerPages = 64;
}  // namespace

Status HomeLoader::add_log(log::Recovered recovered, u64 region_bytes,
                           std::vector<log::LoggedVersion>& versions) {
  PERDURA_ASSIGN(commit::LineIndex index, commit::LineIndex::create(region_bytes));
  PERDURA_TRY(index.add(recovered));
  versions = std::move(recovered.versions);
  image_ = std::move(recovered.image);
  index_ = std::make_unique<commit::LineIndex>(std::move(index));
  return {};
}

Status HomeLoader::check_places() const {
  Status status;
  if (!index_) return status;
  index_->lines().for_each_page([&](u64 page, u64) {
    if (status && home_->find(page * kPageBytes) == nullptr)
      status = Failure{Code::kCorrupt, "the log changes region offset " +
                                           std::to_string(page * kPageBytes) +
                                           ", which has no place on the medium; restore the store "
                                           "from a copy"};
  });
  return status;
}

Status HomeLoader::load_all(region::Region& region) {
  home_ = region.home();
  PERDURA_TRY(check_places());
  if (verification_.before_use) {
    PERDURA_TRY(begin_verification(region));
    if (!verify(0, region.limit(), nullptr)) return commit::page_damaged(volume_, first_damaged());
    view_.reset();
  }
  if (!index_) return {};
  index_->lines().for_each_page([&](u64 page, u64) {
    std::byte* const bytes = region.base() + page * kPageBytes;
    index_->for_each_line(page, [bytes](u64 line, const std::byte* from) {
      std::memcpy(bytes + line * kLineBytes, from, kLineBytes);
    });
  });
  return {};
}

Status HomeLoader::load_lazily(region::Region& region, track::Tracker& tracker) {
  u64 pages = 0;
  u64 end = 0;
  if (index_)
    index_->lines().for_each_page([&](u64 page, u64) {
      ++pages;
      end = (page + 1) * kPageBytes;
    });
  if (pages <= kEagerPages && !verification_.before_use) return load_all(region);
  home_ = region.home();
  PERDURA_TRY(check_places());
  base_ = region.base();
  PERDURA_ASSIGN(buffers_, Mapping::anonymous(kBuffers * kPageBytes));
  const std::vector<format::Extent>& extents = home_->extents();
  if (verification_.before_use) {
    PERDURA_TRY(begin_verification(region));
    // As zeros the tables would give out blocks that are in use.
    if (verification_.zeroes && !verify(0, format::data_begin_for(region.limit()), nullptr))
      return commit::page_damaged(volume_, first_damaged());
    if (!extents.empty()) end = std::max(end, extents.back().region_offset + extents.back().length);
  }
  LazyParts::Plan plan;
  plan.part_bytes = LazyParts::part_bytes_for(end, kPageBytes);
  plan.parts.resize((end + plan.part_bytes - 1) / plan.part_bytes);
  plan.bytes_per_second = verification_.bytes_per_second;
  if (verification_.before_use)
    for (const format::Extent& extent : extents)
      for (u64 at = round_down(extent.region_offset, plan.part_bytes);
           at < extent.region_offset + extent.length; at += plan.part_bytes)
        plan.parts[at / plan.part_bytes] = Wanted::kPaced;
  if (index_)
    index_->lines().for_each_page(
        [&](u64 page, u64) { plan.parts[page * kPageBytes / plan.part_bytes] = Wanted::kSoon; });
  auto parts = LazyParts::create(region, tracker, *this, std::move(plan));
  if (!parts && parts.failure().code == Code::kUnsupported) return load_all(region);
  PERDURA_ASSIGN(parts_, std::move(parts));
  return {};
}

// --- verifying ----------------------------------------------------------------------------------

// Once, whatever comes to be verified by it.
Status HomeLoader::begin_verification(const region::Region& region) {
  if (view_) return {};
  events_ = &region.events();
  PERDURA_ASSIGN(noted_, commit::PageSet::create(region.limit()));
  PERDURA_ASSIGN(view_, commit::HomeView::create(volume_, *home_));
  return {};
}

// All that is there of [begin, end). A crash may have left a page that the log changes half
// replayed: nothing can be said of the rest of such a page, unless it was found damaged before.
// `memory`: through which damaged pages become zeros, if they may.
bool HomeLoader::verify(u64 begin, u64 end, const media::SelfMemory* memory) noexcept {
  using Page = commit::HomeView::Page;
  bool good = true;
  u64 pages = 0;
  view_->look_at(begin, end, [&](u64 page, Page found) {
    ++pages;
    const bool in_log = index_ && index_->lines().has_page(page);
    if (found == Page::kGood || (found == Page::kDamaged && in_log)) return;
    note(page);
    const bool zeroed = memory != nullptr && found != Page::kUnreadable && zero(page, *memory);
    good = good && zeroed;
  });
  verified_bytes_.fetch_add(pages * kPageBytes, std::memory_order_relaxed);
  return good;
}

bool HomeLoader::zero(u64 page, const media::SelfMemory& memory) noexcept {
  alignas(kPageBytes) static const std::byte kZeros[kPageBytes] = {};
  // Zeroed before, if the part could not be filled then.
  if (!is_withheld(page)) zeroed_count_.fetch_add(1, std::memory_order_relaxed);
  guard_->withhold(page);
  return memory.write(base_ + page * kPageBytes, kZeros);
}

// In a signal handler, perhaps: of a page that is touched again and again it is said once.
void HomeLoader::note(u64 page) noexcept {
  region::refusal_is_told();
  if (!noted_->add(page)) return;
  const u64 at = damaged_count_.fetch_add(1, std::memory_order_acq_rel);
  if (at < kDamagedMax) damaged_[at].store(page + 1, std::memory_order_relaxed);
  char text[512];
  const int length = std::snprintf(
      text, sizeof text,
      "the home page at region offset %llu of '%.200s' does not fit its checksum, and "
      "nobody is shown it; run `perdura check` and restore the store from a copy",
      static_cast<unsigned long long>(page * kPageBytes), volume_.name().c_str());
  events_->post(EventKind::kDamage, Code::kCorrupt, {text, static_cast<size_t>(length)});
}

u64 HomeLoader::first_damaged() const {
  return (damaged_[0].load(std::memory_order_relaxed) - 1) * kPageBytes;
}

commit::Findings HomeLoader::findings() const {
  commit::Findings findings;
  findings.verified_bytes = verified_bytes_.load(std::memory_order_relaxed);
  const u64 count = damaged_count_.load(std::memory_order_acquire);
  for (u64 i = 0; i < std::min<u64>(count, kDamagedMax); ++i) {
    const u64 page = damaged_[i].load(std::memory_order_relaxed);
    if (page == 0) continue;  // it is being noted
    const u64 offset = (page - 1) * kPageBytes;
    commit::note_damage(findings, offset, commit::page_damaged(volume_, offset).message);
  }
  findings.damaged_pages = count;
  findings.zeroed_pages = zeroed_count_.load(std::memory_order_relaxed);
  return findings;
}

// --- the log over it ----------------------------------------------------------------------------

bool HomeLoader::patch_page(u64 page, const media::SelfMemory& memory,
                            std::byte* buffer) const noexcept {
  const media::MutableBytes bytes(buffer, kPageBytes);
  std::byte* const address = base_ + page * kPageBytes;
  if (index_->lines().page_mask(page) != ~u64{0} && !memory.read(address, bytes)) return false;
  index_->for_each_line(page, [buffer](u64 line, const std::byte* from) {
    std::memcpy(buffer + line * kLineBytes, from, kLineBytes);
  });
  return memory.write(address, bytes);
}

// A page would be too much for the stacks on which signal handlers run. There are as many as
// threads are likely to fault at once; another one waits for microseconds.
size_t HomeLoader::claim_buffer() noexcept {
  for (size_t i = 0;; i = (i + 1) % kBuffers) {
    if (!buffer_taken_[i].exchange(true, std::memory_order_acquire)) return i;
    if (i + 1 == kBuffers) give_way();
  }
}

bool HomeLoader::stores(u64 begin, u64 end) const {
  if (verification_.zeroes) return true;
  if (!index_) return false;
  for (u64 page = begin / kPageBytes; page < end / kPageBytes; ++page)
    if (index_->lines().has_page(page)) return true;
  return false;
}

// Damage is told without the allocator, of each page once: nothing depends on `last`.
bool HomeLoader::fill(u64 begin, u64 end, const media::SelfMemory& memory, bool) noexcept {
  const media::SelfMemory* const zeroed_through = verification_.zeroes ? &memory : nullptr;
  if (verification_.before_use && !verify(begin, end, zeroed_through)) return false;
  if (!index_) return true;
  const size_t buffer = claim_buffer();
  std::byte* const bytes = buffers_.as() + buffer * kPageBytes;
  bool good = true;
  for (u64 page = begin / kPageBytes; good && page < end / kPageBytes; ++page)
    good = !index_->lines().has_page(page) || is_withheld(page) || patch_page(page, memory, bytes);
  buffer_taken_[buffer].store(false, std::memory_order_release);
  return good;
}

void HomeLoader::soon_filled() noexcept {
  if (index_) index_->keep_only_lines();
  image_.reset();
}

}  // namespace perdura::store
