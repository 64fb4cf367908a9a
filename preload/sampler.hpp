// What a program changes in its heap: sampled every ten milliseconds by a page tracker and by
// comparing with a copy of the memory, and summed up as checkpoints at several intervals would find
// it, for each way of tracking (perdura advise).
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
#include "store/runtime.hpp"
#include "track/dirty_map.hpp"

namespace perdura::preload {

class Sampler {
 public:
  static constexpr u64 kSampleNs = 10'000'000;
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
  /// What checkpoints would have found.
  struct Found {
    u64 faults = 0;  ///< first stores to a page of an alias
    u64 lines = 0;   ///< that would be copied
  };
  struct Sums {
    u64 checkpoints = 0;
    u64 pages = 0;           ///< stored to
    u64 lines = 0;           ///< changed
    u64 blocks = 0;          ///< allocated, with a changed line
    u64 metadata_lines = 0;  ///< changed, of the heap's own structures
    std::array<Found, kParts.size()> parts;
  };
  struct Interval {
    u64 ns;
    u64 due_ns;
    track::DirtyMap lines;
    track::DirtyMap pages;
    Sums sums;
  };
  /// A piece of time in the plots.
  struct Column {
    u64 pages = 0;
    u64 lines = 0;
    u64 blocks = 0;
    std::map<u64, u64> lines_of_chunk;
  };
  static constexpr size_t kColumnsMax = 400;
  static constexpr size_t kColumnInterval = 1;  ///< of kIntervalsMs
  static constexpr u64 kChunkBytes = kMiB;

  void sample_and_publish();
  void sample();
  /// Write everything as a JSON object, in the place of what was written before.
  void publish();
  u64 compare(u64 page);
  void end_interval(Interval& interval);
  void add_page(Sums& sums, u64 page, u64 changed);
  void add_column(const Interval& interval, const Sums& before);

  /// Samples, and their publication, take at most this part of the time.
  static constexpr u64 kSamplingShare = 2;
  static constexpr u64 kPublishingShare = 20;
  static constexpr u64 kPublishNs = 100'000'000;  ///< at the earliest after the last time

  detail::Runtime& runtime_;
  const std::string path_;
  const u64 begin_ns_;
  u64 next_publication_ns_ = 0;
  bool failed_ = false;  ///< to write, which was said
  Mapping shadow_;
  std::vector<Interval> intervals_;
  std::vector<heap::BlockMap::BlockLines> blocks_;  ///< of the page that is looked at
  std::vector<Column> columns_;
  u64 columns_merged_ = 1;  ///< intervals in a column
  u64 in_column_ = 0;
  u64 samples_ = 0;
  track::DirtyMap ever_;  ///< pages that were ever stored to
  u64 new_pages_ = 0;     ///< how many
  u64 sampling_ns_ = 0;
  std::atomic<u64> next_ns_{0};
  std::mutex mutex_;  ///< all of the above: the end comes while the thread may run
  std::thread thread_;
  std::atomic<bool> polled_{false};
};

}  // namespace perdura::preload
