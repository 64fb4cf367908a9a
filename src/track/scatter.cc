#include "track/scatter.hpp"

#include <cstring>
#include <new>
#include <vector>

namespace perdura::track {

Result<std::unique_ptr<Scatter>> Scatter::create(Mutators& mutators, const Aliases& aliases,
                                                 std::unique_ptr<Tracker> pages) {
  PERDURA_ASSIGN(DirtyMap a, DirtyMap::create(aliases.bytes));
  PERDURA_ASSIGN(DirtyMap b, DirtyMap::create(aliases.bytes));
  PERDURA_ASSIGN(DirtyMap changes, DirtyMap::create(aliases.bytes));
  return std::unique_ptr<Scatter>(new Scatter(mutators, aliases, std::move(pages), std::move(a),
                                              std::move(b), std::move(changes)));
}

Scatter::Scatter(Mutators& mutators, const Aliases& aliases, std::unique_ptr<Tracker> pages,
                 DirtyMap a, DirtyMap b, DirtyMap changes)
    : mutators_(mutators),
      aliases_(aliases),
      pages_(std::move(pages)),
      reported_{std::move(a), std::move(b)},
      changes_(std::move(changes)) {
  mutators_.set_sink(this);
}

Scatter::~Scatter() { mutators_.set_sink(nullptr); }

Status Scatter::backed(std::span<const Part> parts) {
  std::vector<Part> seen;
  seen.reserve(parts.size() * aliases_.count);
  for (const Part& part : parts)
    for (u64 i = 1; i <= aliases_.count; ++i)
      seen.push_back({part.address + i * aliases_.stride, part.length});
  return pages_->backed(seen);
}

Status Scatter::cut() {
  PERDURA_TRY(pages_->cut());
  // From here on nothing may fail.
  filling_.fetch_xor(1);
  cut_images_.swap(images_);
  std::swap(cut_images_lost_, images_lost_);
  return {};
}

const DirtyMap& Scatter::collect() {
  changes_.merge(reported_[filling_ ^ 1]);
  const u64 pages_per_alias = aliases_.stride / kPageBytes;
  pages_->collect().for_each_page([&](u64 number, u64) {
    const u64 page = number % pages_per_alias;
    changes_.add_mask(page, visible_(page, number / pages_per_alias));
  });
  return changes_;
}

void Scatter::settle(bool durable) {
  const int running = filling_;
  if (!durable) {
    reported_[running].merge(reported_[running ^ 1]);
    images_lost_ |= cut_images_lost_;
    images_.swap(cut_images_);  // what the failed epoch found is older
    try {
      images_.merge(cut_images_);
    } catch (const std::bad_alloc&) {
      images_lost_ = true;
    }
  }
  cut_images_.clear();
  cut_images_lost_ = false;
  reported_[running ^ 1].clear();
  changes_.clear();
  pages_->settle(durable);
}

Scatter::Line Scatter::image(u64 line) const noexcept {
  std::lock_guard lock(images_mutex_);
  const auto found = images_.find(line);
  if (found != images_.end()) return found->second;
  Line now;
  std::memcpy(now.data(), aliases_.base + line * kLineBytes, kLineBytes);
  return now;
}

void Scatter::keep_images(const Images& durable) noexcept {
  DirtyMap& map = reported_[filling_];
  std::lock_guard lock(images_mutex_);
  for (const auto& [line, bytes] : durable) {
    try {
      images_[line] = bytes;
    } catch (const std::bad_alloc&) {
      images_lost_ = true;
    }
    map.add_first(line);
  }
}

// A line is in the map only once its image is kept.
void Scatter::report(MutatorSlot&, const void* address, u64 length) noexcept {
  const u64 offset = static_cast<u64>(static_cast<const std::byte*>(address) - aliases_.base);
  if (length == 0 || offset >= aliases_.bytes) return;  // the page tracker sees aliases
  DirtyMap& map = reported_[filling_.load(std::memory_order_relaxed)];
  for (u64 line = offset / kLineBytes; line * kLineBytes < offset + length; ++line) {
    if (map.contains(line)) continue;
    std::lock_guard lock(images_mutex_);
    if (map.contains(line)) continue;
    try {
      std::memcpy(images_[line].data(), aliases_.base + line * kLineBytes, kLineBytes);
    } catch (const std::bad_alloc&) {
      images_lost_ = true;
    }
    map.add_first(line);
  }
}

}  // namespace perdura::track
