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
#include "preload/reports.hpp"

namespace perdura::preload {

using track::DirtyMap;

namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Spent& spent) {
  return {{"wall_ns", spent.wall_ns},
          {"cpu_ns", spent.cpu_ns},
          {"waited_ns", spent.waited_wall_ns()},
          {"stopped_ns", spent.stopped_ns}};
}

}  // namespace

Sampler::Taken& Sampler::Taken::operator+=(const Taken& other) {
  spent += other.spent;
  faults += other.faults;
  reports += other.reports;
  return *this;
}

Sampler::Interval::Interval(u64 interval_ns, u64 region_bytes)
    : ns(interval_ns),
      lines(value_or_throw(DirtyMap::create(region_bytes))),
      pages(value_or_throw(DirtyMap::create(region_bytes))),
      new_pages(value_or_throw(DirtyMap::create(region_bytes))) {}

Sampler::Sampler(detail::Runtime& runtime, std::string path, u64 begin_ns)
    : runtime_(runtime),
      path_(std::move(path)),
      fault_ns_(value_or_throw(measure_faults())),
      counting_ns_(measure_counting()),
      begin_ns_(begin_ns),
      shadow_(value_or_throw(Mapping::anonymous(runtime.region().limit()))),
      column_(kColumnMs * 1'000'000, runtime.region().limit()),
      ever_(value_or_throw(DirtyMap::create(runtime.region().limit()))) {
  for (const u64 ms : kIntervalsMs)
    intervals_.emplace_back(ms * 1'000'000, runtime.region().limit());
  // A program that became this one left its own.
  ::unlink(path_.c_str());
  meter_.begin(0);
  next_ns_ = now_ns() + kCycle[0].ms * 1'000'000;
}

void Sampler::start() {
  const NoSignals no_signals;
  thread_ = std::thread([this] {
    {
      std::lock_guard lock(mutex_);
      thread_id_ = ::gettid();
      meter_.begin(thread_id_);
    }
    while (!polled_) {
      const u64 now = now_ns();
      if (now < next_ns_) std::this_thread::sleep_for(std::chrono::nanoseconds(next_ns_ - now));
      std::lock_guard lock(mutex_);
      if (polled_) return;
      if (const u64 more = remaining_ns(); more != 0) next_ns_ = now_ns() + more;
      else sample_and_publish(false);
    }
  });
  thread_.detach();
}

void Sampler::poll(u64 now) {
  if (!polled_.load(std::memory_order_relaxed)) polled_ = true;
  if (now < next_ns_.load(std::memory_order_relaxed)) return;
  const InLibrary in_library;
  std::lock_guard lock(mutex_);
  if (const u64 more = remaining_ns(); more != 0) next_ns_ = now_ns() + more;
  else sample_and_publish(true);
}

u64 Sampler::remaining_ns() const {
  constexpr u64 kPatience = 8;  // where everything else is busy
  const u64 wanted = kCycle[in_cycle_].ms * 1'000'000;
  const Spent spent = meter_.spent();
  return spent.own_ns() >= wanted || spent.wall_ns >= kPatience * wanted ? 0
                                                                         : wanted - spent.own_ns();
}

void Sampler::sample_and_publish(bool in_program) {
  ++samples_;
  const u64 begin = now_ns();
  add_changes(cut());
  const u64 sampled = now_ns();
  in_cycle_ = (in_cycle_ + 1) % kCycle.size();
  if (sampled >= next_publication_ns_) {
    publish();
    const u64 published = now_ns();
    next_publication_ns_ =
        std::max(sampled + kPublishNs, published + (published - sampled) * kPublishingShare);
  }
  // In the program's own thread nothing of it went by meanwhile.
  const u64 now = now_ns();
  if (in_program) meter_.begin(thread_id_);
  next_ns_ = std::max((in_program ? now : begin) + kCycle[in_cycle_].ms * 1'000'000,
                      now + (sampled - begin) * (kSamplingShare - 1));
}

// Ends the stretch, of which it says what it took, and begins another.
Sampler::Taken Sampler::cut() {
  const u64 reports = reports_counted();
  const Taken taken{.spent = meter_.spent(), .reports = reports - std::exchange(reports_, reports)};
  runtime_.mutators().stop();
  const Status done = runtime_.tracker().cut();
  runtime_.mutators().resume();
  meter_.begin(thread_id_);
  if (!done) say(done.failure().message);
  return taken;
}

std::vector<Sampler::Interval*> Sampler::intervals_of_stretch(const Spent& spent) {
  std::vector<Interval*> found{&column_};
  const size_t alone = kCycle[in_cycle_].interval;
  for (size_t i = 0; i < intervals_.size(); ++i) {
    const bool is_long = i >= kShortIntervals;
    if (is_long || (i == alone && spent.own_ns() <= kStretchMax * intervals_[i].ns))
      found.push_back(&intervals_[i]);
  }
  return found;
}

void Sampler::add_changes(Taken taken) {
  const std::vector<Interval*> intervals = intervals_of_stretch(taken.spent);
  runtime_.tracker().collect().for_each_page([&](u64 page, u64) {
    const u64 changed = compare(page);
    const bool is_new = ever_.add_first(page * kLinesPerPage);
    (is_new ? new_pages_ : taken.faults) += 1;
    for (Interval* interval : intervals) {
      interval->pages.add(page * kLinesPerPage, 1);
      interval->lines.add_mask(page, changed);
      if (is_new) interval->new_pages.add(page * kLinesPerPage, 1);
    }
  });
  runtime_.tracker().settle(true);
  taken_ += taken;
  for (Interval* interval : intervals) {
    interval->taken += taken;
    // A short one is over, even where the program had no processor for so long.
    if (interval->ns <= kCycle[in_cycle_].ms * 1'000'000 ||
        interval->taken.spent.own_ns() >= interval->ns)
      end_interval(*interval);
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
  Sums& sums = interval.sums;
  const Sums before = sums;
  ++sums.checkpoints;
  interval.pages.for_each_page([&](u64 page, u64) {
    add_page(sums, page, interval.lines.page_mask(page), interval.new_pages.has_page(page));
  });
  const auto pages = static_cast<double>(sums.pages - before.pages);
  sums.pages_squared += pages * pages;
  sums.taken += interval.taken;
  if (&interval == &column_) add_column(before);
  interval.pages.clear();
  interval.lines.clear();
  interval.new_pages.clear();
  interval.taken = {};
}

void Sampler::add_page(Sums& sums, u64 page, u64 changed, bool is_new) {
  ++sums.pages;
  sums.new_pages += is_new ? 1 : 0;
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
    found.new_faults += is_new ? faults : 0;
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

void Sampler::add_column(const Sums& before) {
  if (in_column_ == 0) columns_.emplace_back();
  Column& column = columns_.back();
  column.pages += column_.sums.pages - before.pages;
  column.lines += column_.sums.lines - before.lines;
  column.blocks += column_.sums.blocks - before.blocks;
  column_.lines.for_each_page([&](u64 page, u64 mask) {
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
  const u64 stopped = now_ns();
  runtime_.mutators().stop();
  const HeapAudit audit = runtime_.heap().audit();
  runtime_.mutators().resume();
  meter_.add_stopped(now_ns() - stopped);
  Spent spent = taken_.spent;
  spent += meter_.spent();
  std::error_code unknown;
  Json json = {{"program", std::filesystem::read_symlink("/proc/self/exe", unknown).string()},
               {"run_ns", now_ns() - begin_ns_},
               {"spent", to_json(spent)},
               {"faults", taken_.faults},
               {"reports", reports_counted()},
               {"fault_ns", {{"least", fault_ns_.least}, {"median", fault_ns_.median}}},
               {"counting_ns", counting_ns_},
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
      parts.push_back({{"parts", kParts[i]},
                       {"faults", sums.parts[i].faults},
                       {"new_faults", sums.parts[i].new_faults},
                       {"lines", sums.parts[i].lines}});
    json["intervals"].push_back({{"ms", interval.ns / 1'000'000},
                                 {"checkpoints", sums.checkpoints},
                                 {"spent", to_json(sums.taken.spent)},
                                 {"faults", sums.taken.faults},
                                 {"reports", sums.taken.reports},
                                 {"pages", sums.pages},
                                 {"new_pages", sums.new_pages},
                                 {"pages_squared", sums.pages_squared},
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
  json["column_interval_ms"] = kColumnMs;
  json["column_ms"] = kColumnMs * columns_merged_;
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
