#include "track/dirty_map.hpp"

namespace perdura::track {

Result<DirtyMap> DirtyMap::create(u64 region_bytes) {
  const u64 pages = round_up(region_bytes, kPageBytes) / kPageBytes;
  PERDURA_ASSIGN(Mapping words, Mapping::anonymous(pages * sizeof(u64)));
  PERDURA_ASSIGN(Mapping summary, Mapping::anonymous(round_up(pages, 64) / 64 * sizeof(u64)));
  return DirtyMap(std::move(words), std::move(summary));
}

bool DirtyMap::add_first(u64 line) {
  const u64 mask = u64{1} << line % kLinesPerPage;
  Word& word = words()[line / kLinesPerPage];
  if ((word.load(std::memory_order_relaxed) & mask) != 0) return false;
  const u64 old = word.fetch_or(mask, std::memory_order_acq_rel);
  if (old == 0) summarise<true>(line / kLinesPerPage);
  return (old & mask) == 0;
}

bool DirtyMap::take(u64 line) {
  const u64 mask = u64{1} << line % kLinesPerPage;
  return (words()[line / kLinesPerPage].fetch_and(~mask, std::memory_order_relaxed) & mask) != 0;
}

// The summary keeps the pages of lines that were taken out, so that clear() finds every word.
void DirtyMap::clear() {
  const u64 end = summary_end_.load(std::memory_order_relaxed);
  for (u64 group = 0; group < end; ++group) {
    for (u64 bits = summary()[group].load(std::memory_order_relaxed); bits != 0; bits &= bits - 1)
      words()[group * 64 + static_cast<u64>(std::countr_zero(bits))].store(
          0, std::memory_order_relaxed);
    summary()[group].store(0, std::memory_order_relaxed);
  }
  summary_end_.store(0, std::memory_order_relaxed);
}

u64 DirtyMap::pages() const {
  u64 pages = 0;
  const u64 end = groups();
  for (u64 group = 0; group < end; ++group)
    pages += static_cast<u64>(std::popcount(summary()[group].load(std::memory_order_relaxed)));
  return pages;
}

bool DirtyMap::empty() const {
  bool any = false;
  const u64 end = groups();
  for (u64 group = 0; group < end && !any; ++group)
    visit_group(group, [&any](u64, u64) { any = true; });
  return !any;
}

}  // namespace perdura::track
