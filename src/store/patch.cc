#include "store/patch.hpp"

#include <sched.h>

#include <algorithm>
#include <cstring>

namespace perdura::store {
namespace {
// Patching fewer pages at once is quicker than faults.
constexpr u64 kEagerPages = 64;
}  // namespace

Result<std::unique_ptr<Patch>> Patch::create(log::Recovered recovered, u64 region_bytes,
                                             std::vector<log::LoggedVersion>& versions) {
  PERDURA_ASSIGN(commit::LineIndex index, commit::LineIndex::create(region_bytes));
  PERDURA_TRY(index.add(recovered));
  versions = std::move(recovered.versions);
  return std::unique_ptr<Patch>(new Patch(std::move(recovered.image), std::move(index)));
}

Status Patch::check_places() const {
  Status status;
  index_->lines().for_each_page([&](u64 page, u64) {
    if (status && home_->find(page * kPageBytes) == nullptr)
      status = Failure{Code::kCorrupt, "the log changes region offset " +
                                           std::to_string(page * kPageBytes) +
                                           ", which has no place on the medium; restore the store "
                                           "from a copy"};
  });
  return status;
}

Status Patch::apply_all(region::Region& region) {
  home_ = region.home();
  PERDURA_TRY(check_places());
  index_->lines().for_each_page([&](u64 page, u64) {
    std::byte* const bytes = region.base() + page * kPageBytes;
    index_->for_each_line(page, [bytes](u64 line, const std::byte* from) {
      std::memcpy(bytes + line * kLineBytes, from, kLineBytes);
    });
  });
  return {};
}

Status Patch::apply_lazily(region::Region& region, track::Tracker& tracker) {
  u64 pages = 0;
  u64 end = 0;
  index_->lines().for_each_page([&](u64 page, u64) {
    ++pages;
    end = (page + 1) * kPageBytes;
  });
  if (pages <= kEagerPages) return apply_all(region);
  home_ = region.home();
  PERDURA_TRY(check_places());
  base_ = region.base();
  PERDURA_ASSIGN(buffers_, Mapping::anonymous(kBuffers * kPageBytes));
  const u64 part_bytes = LazyParts::part_bytes_for(end, kPageBytes);
  std::vector<bool> wanted((end + part_bytes - 1) / part_bytes);
  index_->lines().for_each_page(
      [&](u64 page, u64) { wanted[page * kPageBytes / part_bytes] = true; });
  auto parts = LazyParts::create(region, tracker, *this, part_bytes, wanted);
  if (!parts && parts.failure().code == Code::kUnsupported) return apply_all(region);
  PERDURA_ASSIGN(parts_, std::move(parts));
  return {};
}

bool Patch::patch_page(u64 page, const media::SelfMemory& memory,
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
size_t Patch::claim_buffer() noexcept {
  for (size_t i = 0;; i = (i + 1) % kBuffers) {
    if (!buffer_taken_[i].exchange(true, std::memory_order_acquire)) return i;
    if (i + 1 == kBuffers) ::sched_yield();
  }
}

bool Patch::fill(u64 begin, u64 end, const media::SelfMemory& memory) noexcept {
  const size_t buffer = claim_buffer();
  std::byte* const bytes = buffers_.as() + buffer * kPageBytes;
  bool good = true;
  for (u64 page = begin / kPageBytes; good && page < end / kPageBytes; ++page)
    good = !index_->lines().has_page(page) || patch_page(page, memory, bytes);
  buffer_taken_[buffer].store(false, std::memory_order_release);
  return good;
}

void Patch::all_filled() noexcept {
  index_->keep_only_lines();
  image_.reset();
}

}  // namespace perdura::store
