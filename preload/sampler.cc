#include "preload/sampler.hpp"

#include <unistd.h>

#include <bit>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/clock.hpp"
#include "base/threads.hpp"
#include "preload/instrument.hpp"

namespace perdura::preload {

using track::DirtyMap;

Sampler::Sampler(detail::Runtime& runtime, std::string path, u64 begin_ns)
    : runtime_(runtime),
      path_(std::move(path)),
      begin_ns_(begin_ns),
      shadow_(value_or_throw(Mapping::anonymous(runtime.region().limit()))),
      ever_(value_or_throw(DirtyMap::create(runtime.region().limit()))) {
  const u64 now = now_ns();
  next_ns_ = now + kSampleNs;
  const u64 bytes = runtime.region().limit();
  for (const u64 ms : kIntervalsMs)
    intervals_.push_back({.ns = ms * 1'000'000,
                          .due_ns = now + ms * 1'000'000,
                          .lines = value_or_throw(DirtyMap::create(bytes)),
                          .pages = value_or_throw(DirtyMap::create(bytes)),
                          .sums = {}});
  // A program that became this one left its own.
  ::unlink(path_.c_str());
}

void Sampler::start() {
  const NoSignals no_signals;
  thread_ = std::thread([this] {
    while (!polled_) {
      const u64 now = now_ns();
      if (now < next_ns_) std::this_thread::sleep_for(std::chrono::nanoseconds(next_ns_ - now));
      std::lock_guard lock(mutex_);
      if (!polled_) sample_and_publish();
    }
  });
  thread_.detach();
}

void Sampler::poll(u64 now) {
  if (!polled_.load(std::memory_order_relaxed)) polled_ = true;
  if (now < next_ns_.load(std::memory_order_relaxed)) return;
  const InLibrary in_library;
  std::lock_guard lock(mutex_);
  const u64 begin = now_ns();
  sample_and_publish();
  const u64 took = now_ns() - begin;
  sampling_ns_ += took;
  // Time goes on as if this had taken none.
  next_ns_ += took;
  for (Interval& interval : intervals_) interval.due_ns += took;
}

void Sampler::sample_and_publish() {
  const u64 begin = now_ns();
  sample();
  const u64 sampled = now_ns();
  next_ns_ = std::max(next_ns_ + kSampleNs, sampled + (sampled - begin) * (kSamplingShare - 1));
  if (sampled < next_publication_ns_) return;
  publish();
  const u64 published = now_ns();
  next_publication_ns_ =
      std::max(sampled + kPublishNs, published + (published - sampled) * kPublishingShare);
}

void Sampler::sample() {
  ++samples_;
  runtime_.mutators().stop();
  const Status cut = runtime_.tracker().cut();
  runtime_.mutators().resume();
  if (!cut) say(cut.failure().message);
  runtime_.tracker().collect().for_each_page([&](u64 page, u64) {
    const u64 changed = compare(page);
    new_pages_ += ever_.add_first(page * kLinesPerPage) ? 1 : 0;
    for (Interval& interval : intervals_) {
      interval.pages.add(page * kLinesPerPage, 1);
      interval.lines.add_mask(page, changed);
    }
  });
  runtime_.tracker().settle(true);
  const u64 now = now_ns();
  for (Interval& interval : intervals_)
    if (interval.due_ns <= now) {
      end_interval(interval);
      interval.due_ns = std::max(interval.due_ns + interval.ns, now);
    }
}

// The lines of a page that are not as they were; the copy is brought up to date.
u64 Sampler::compare(u64 page) {
  const std::byte* const now = runtime_.region().base() + page * kPageBytes;
  std::byte* const before = shadow_.as() + page * kPageBytes;
  u64 changed = 0;
  for (u64 line = 0; line < kLinesPerPage; ++line) {
    if (std::memcmp(now + line * kLineBytes, before + line * kLineBytes, kLineBytes) == 0) continue;
    std::memcpy(before + line * kLineBytes, now + line * kLineBytes, kLineBytes);
    changed |= u64{1} << line;
  }
  return changed;
}

void Sampler::end_interval(Interval& interval) {
  const Sums before = interval.sums;
  ++interval.sums.checkpoints;
  interval.pages.for_each_page(
      [&](u64 page, u64) { add_page(interval.sums, page, interval.lines.page_mask(page)); });
  if (&interval == &intervals_[kColumnInterval]) add_column(interval, before);
  interval.pages.clear();
  interval.lines.clear();
}

void Sampler::add_page(Sums& sums, u64 page, u64 changed) {
  ++sums.pages;
  sums.lines += static_cast<u64>(std::popcount(changed));
  runtime_.heap().blocks().blocks_of_page(page, blocks_);
  u64 in_blocks = 0;
  u64 in_changed_blocks = 0;
  u64 blocks = 0;
  u64 touched = 0;
  // The finest parts; coarser ones are unions of them.
  std::array<u64, kPartsMax> visible{};
  std::array<bool, kPartsMax> touched_part{};
  for (const auto& block : blocks_) {
    in_blocks |= block.lines;
    const bool hit = (block.lines & changed) != 0;
    const u64 part = block.start * kPartsMax / kPageBytes;
    if (block.allocated) visible[part] |= block.lines;
    touched_part[part] |= hit;
    touched += hit ? 1 : 0;
    if (!hit || !block.allocated) continue;
    ++blocks;
    in_changed_blocks |= block.lines;
  }
  const u64 metadata = changed & ~in_blocks;
  sums.blocks += blocks;
  sums.metadata_lines += static_cast<u64>(std::popcount(metadata));
  const auto add = [&](Found& found, u64 faults, u64 lines) {
    found.faults += faults;
    found.lines += static_cast<u64>(std::popcount(lines | metadata));
  };
  add(sums.parts.back(), touched, in_changed_blocks);
  for (size_t i = sums.parts.size() - 1; i-- > 0;) {
    u64 faults = 0;
    u64 copied = 0;
    const u32 parts = kParts[i];
    for (u32 part = 0; part < parts; ++part) {
      if (parts != kPartsMax) {
        visible[part] = visible[2 * part] | visible[2 * part + 1];
        touched_part[part] = touched_part[2 * part] || touched_part[2 * part + 1];
      }
      if (!touched_part[part]) continue;
      ++faults;
      copied |= visible[part];
    }
    add(sums.parts[i], faults, copied);
  }
}

void Sampler::add_column(const Interval& interval, const Sums& before) {
  if (in_column_ == 0) columns_.emplace_back();
  Column& column = columns_.back();
  column.pages += interval.sums.pages - before.pages;
  column.lines += interval.sums.lines - before.lines;
  column.blocks += interval.sums.blocks - before.blocks;
  interval.lines.for_each_page([&](u64 page, u64 mask) {
    column.lines_of_chunk[page * kPageBytes / kChunkBytes] += static_cast<u64>(std::popcount(mask));
  });
  in_column_ = (in_column_ + 1) % columns_merged_;
  if (columns_.size() < kColumnsMax || in_column_ != 0) return;
  for (size_t i = 0; i < columns_.size() / 2; ++i) {
    Column merged = std::move(columns_[2 * i]);
    const Column& other = columns_[2 * i + 1];
    merged.pages += other.pages;
    merged.lines += other.lines;
    merged.blocks += other.blocks;
    for (const auto& [chunk, lines] : other.lines_of_chunk) merged.lines_of_chunk[chunk] += lines;
    columns_[i] = std::move(merged);
  }
  columns_.resize(columns_.size() / 2);
  columns_merged_ *= 2;
}

void Sampler::end() {
  polled_ = true;  // the thread takes no more
  std::lock_guard lock(mutex_);
  publish();
}

void Sampler::publish() {
  using Json = nlohmann::ordered_json;
  runtime_.mutators().stop();
  const HeapAudit audit = runtime_.heap().audit();
  runtime_.mutators().resume();
  std::error_code unknown;
  Json json = {{"program", std::filesystem::read_symlink("/proc/self/exe", unknown).string()},
               {"run_ns", now_ns() - begin_ns_},
               {"sampling_ns", sampling_ns_},
               {"samples", samples_},
               {"new_pages", new_pages_},
               {"live_bytes", audit.live_bytes},
               {"live_blocks", audit.live_blocks},
               {"backed_bytes", runtime_.region().home()->backed_bytes()},
               {"refused_blocks", refused_blocks.load()}};
  for (const Interval& interval : intervals_) {
    const Sums& sums = interval.sums;
    Json parts = Json::array();
    for (size_t i = 0; i < kParts.size(); ++i)
      parts.push_back(
          {{"parts", kParts[i]}, {"faults", sums.parts[i].faults}, {"lines", sums.parts[i].lines}});
    json["intervals"].push_back({{"ms", interval.ns / 1'000'000},
                                 {"checkpoints", sums.checkpoints},
                                 {"pages", sums.pages},
                                 {"lines", sums.lines},
                                 {"blocks", sums.blocks},
                                 {"metadata_lines", sums.metadata_lines},
                                 {"parts", parts}});
  }
  Json columns = Json::array();
  for (const Column& column : columns_) {
    Json chunks = Json::array();
    for (const auto& [chunk, lines] : column.lines_of_chunk) chunks.push_back({chunk, lines});
    columns.push_back({{"pages", column.pages},
                       {"lines", column.lines},
                       {"blocks", column.blocks},
                       {"chunks", chunks}});
  }
  json["column_ms"] = intervals_[kColumnInterval].ns / 1'000'000 * columns_merged_;
  json["chunk_bytes"] = kChunkBytes;
  json["columns"] = columns;
  // Who reads it finds all of it, or what was there before.
  const std::string unfinished = path_ + ".new";
  std::ofstream file(unfinished);
  file << json.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
  file.close();
  if (file && ::rename(unfinished.c_str(), path_.c_str()) == 0) return;
  if (!std::exchange(failed_, true)) say("cannot write what was sampled to '" + path_ + "'");
}

}  // namespace perdura::preload
