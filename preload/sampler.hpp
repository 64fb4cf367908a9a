// What a program changes in its heap: found by a page tracker and by comparing with a copy of the
// memory, and summed up as checkpoints at several intervals would find it, for each way of tracking
// (perdura advise).
//
// A cut finds what was stored to since the last one, and protects that again, so that the program
// pays a fault for each page that it stores to next. Cuts that came every ten milliseconds would
// make some programs do little else. So the run is a sequence of stretches, of which a few are as
// long as the short intervals, and the last of each cycle is a pause: no page is protected again in
// it, and nothing but the program's own work is measured.
//
//   |10|10|10|      64      |              pause              |10|10|10| ...
//
// The long intervals are sums of all stretches. What the program ran in each is told with the time
// that it waited for a processor meanwhile, and with the faults that it met because of the cuts:
// what it would have taken alone is what is left (tools/advice.cc).
//
// What was found is written to a file again and again, so that whatever ends the program, a signal
// or _exit() as well, leaves all but the last moments.
#pragma once

#include <array>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "heap/heap.hpp"
#include "preload/meter.hpp"
#include "store/runtime.hpp"
#include "track/dirty_map.hpp"

namespace perdura::preload {

class Sampler {
 public:
  struct StretchKind {
    u64 ms;
    size_t interval;  ///< of kIntervalsMs, which it is one of
  };
  static constexpr size_t kPause = ~size_t{0};
  static constexpr size_t kShortIntervals = 2;  ///< of kIntervalsMs, each as long as some stretch
  static constexpr std::array<StretchKind, 5> kCycle{
      {{10, 0}, {10, 0}, {10, 0}, {64, 1}, {162, kPause}}};
  static constexpr std::array<u64, 4> kIntervalsMs{10, 64, 1000, 5000};
  /// Parts of a page that aliases would tell apart; with 256 each block is alone.
  static constexpr std::array<u32, 5> kParts{1, 2, 4, 8, 256};
  static constexpr u32 kPartsMax = 8;  ///< but for the last, which is each block alone

  /// `path` is for what was found; `begin_ns` is when the program began.
  Sampler(detail::Runtime& runtime, std::string path, u64 begin_ns);

  /// Sample in a thread until the process ends.
  void start();
  /// Sample here and now, if it is time; the thread stops. For programs that say when their data
  /// are consistent.
  void poll(u64 now_ns);
  /// The program ends in an orderly way, outside of calls to the heap.
  void end();

 private:
  /// By the program.
  struct Taken {
    Spent spent;
    u64 faults = 0;   ///< that it met since pages had been protected
    u64 reports = 0;  ///< that were counted, where it is compiled to make them
    Taken& operator+=(const Taken& other);
  };
  /// What checkpoints would have found.
  struct Found {
    u64 faults = 0;      ///< first stores to a page of an alias
    u64 new_faults = 0;  ///< of these, to pages that had never been stored to
    u64 lines = 0;       ///< that would be copied
  };
  struct Sums {
    u64 checkpoints = 0;
    u64 pages = 0;             ///< stored to
    u64 new_pages = 0;         ///< of these, for the first time
    double pages_squared = 0;  ///< sum over the checkpoints
    Taken taken;               ///< in the intervals that are summed up
    u64 lines = 0;             ///< changed
    u64 blocks = 0;            ///< allocated, with a changed line
    u64 metadata_lines = 0;    ///< changed, of the heap's own structures
    std::array<Found, kParts.size()> parts;
  };
  struct Interval {
    Interval(u64 interval_ns, u64 region_bytes);
    u64 ns;
    track::DirtyMap lines;
    track::DirtyMap pages;
    track::DirtyMap new_pages;
    Sums sums;
    Taken taken;  ///< since it began
  };
  /// A piece of time in the plots.
  struct Column {
    u64 pages = 0;
    u64 lines = 0;
    u64 blocks = 0;
    std::map<u64, u64> lines_of_chunk;
  };
  static constexpr size_t kColumnsMax = 400;
  static constexpr u64 kColumnMs = 256;  ///< a cycle
  static constexpr u64 kChunkBytes = kMiB;

  /// Of the stretch, until it is as long as it should be, without what the program waited for a
  /// processor.
  u64 remaining_ns() const;
  /// The stretch ends. `in_program`: in a thread of the program's, which does nothing else.
  void sample_and_publish(bool in_program);
  Taken cut();
  /// What the cut found, in the intervals that the stretch is part of.
  void add_changes(Taken taken);
  /// Those of which the stretch is one, or a part.
  std::vector<Interval*> intervals_of_stretch(const Spent& spent);
  /// Write everything as a JSON object, in the place of what was written before.
  void publish();
  u64 compare(u64 page);
  void end_interval(Interval& interval);
  void add_page(Sums& sums, u64 page, u64 changed, bool is_new);
  void add_column(const Sums& before);

  /// Samples, and their publication, take at most this part of the time.
  static constexpr u64 kSamplingShare = 2;
  static constexpr u64 kPublishingShare = 20;
  static constexpr u64 kPublishNs = 100'000'000;  ///< at the earliest after the last time

  /// A stretch that is longer, since a sample took long or nobody polled, is not what it should be.
  static constexpr u64 kStretchMax = 2;

  detail::Runtime& runtime_;
  const std::string path_;
  const Faults fault_ns_;
  const double counting_ns_;  ///< of a report
  const u64 begin_ns_;
  u64 next_publication_ns_ = 0;
  bool failed_ = false;  ///< to write, which was said
  Mapping shadow_;
  std::vector<Interval> intervals_;
  Interval column_;
  std::vector<heap::BlockMap::BlockLines> blocks_;  ///< of the page that is looked at
  std::vector<Column> columns_;
  u64 columns_merged_ = 1;  ///< of kColumnMs in a column
  u64 in_column_ = 0;
  u64 samples_ = 0;
  track::DirtyMap ever_;  ///< pages that were ever stored to
  u64 new_pages_ = 0;     ///< how many
  Meter meter_;           ///< of the stretch
  Taken taken_;           ///< in all stretches that ended
  u64 reports_ = 0;       ///< at the end of the last
  pid_t thread_id_ = 0;   ///< of the thread that samples
  size_t in_cycle_ = 0;
  std::atomic<u64> next_ns_{0};
  std::mutex mutex_;  ///< all of the above: the end comes while the thread may run
  std::thread thread_;
  std::atomic<bool> polled_{false};
};

}  // namespace perdura::preload
