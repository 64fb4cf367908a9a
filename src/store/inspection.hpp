// A region that is looked at, of a store whose superblock and directory could be read.
#pragma once

#include <functional>
#include <memory>

#include "heap/heap.hpp"
#include "region/region.hpp"
#include "region/volume.hpp"
#include "store/inspect.hpp"

namespace perdura::store {

/// In the order of its functions, by one thread.
class Inspection {
 public:
  Inspection(region::Volume& volume, const format::RegionRecord& record)
      : volume_(volume), record_(record) {}
  virtual ~Inspection() = default;
  Inspection(const Inspection&) = delete;

  /// Where it is, without reading it.
  virtual RegionDescription outline() const = 0;
  /// What is durable, but for the region's content.
  virtual Status read_versions() = 0;
  /// After read_versions() went well: what it found.
  virtual void describe_versions(RegionDescription& region) const = 0;
  /// Before read_versions(): the volume of an overflow store, which outlives this. What of that is
  /// the region's is verified as well. False: nothing there is.
  virtual bool have_overflow(region::Volume&) { return false; }
  /// Verifies all of it, beside the heap; `read` is what read_versions() returned.
  virtual void check(const Status& read, CheckReport& report, const Progress& progress) = 0;
  /// After read_versions() went well: maps the region where there is room, as its newest version
  /// has it, and walks the heap. Does nothing before the first version. Where the heap is sound
  /// `visit` gets it, while it is mapped.
  using HeapVisit = std::function<Status(heap::Heap& heap, const region::Region& region)>;
  Status read_heap(RegionDescription& description, const HeapVisit& visit = {});
  /// What read_heap() found damaged: the heap, or what is to be done with it by opening.
  const char* damaged_part() const { return damaged_part_; }

 protected:
  /// Whether opening can do with the newest version what is durable beside it.
  virtual Status check_content(heap::Heap&, region::Region&) { return {}; }
  virtual const char* content_part() const { return "heap"; }
  virtual u64 durable_version() const = 0;  ///< 0: none
  virtual Result<std::unique_ptr<region::Region>> map_newest(
      const format::RegionRecord& record) = 0;
  /// In check(), where nobody wrote when read_versions() began, of what changes beside a writer:
  /// whoever has opened the store to write since may have changed it. Then the findings from number
  /// `before` on are of that, and go. False also where the superblock is damaged, which is added.
  bool is_as_it_was_read(CheckReport& report, size_t before);

  region::Volume& volume_;
  const format::RegionRecord record_;
  bool was_written_ = false;     ///< when read_versions() began
  region::Volume::State state_;  ///< that it has read

 private:
  const char* damaged_part_ = "heap";
};

std::unique_ptr<Inspection> inspection_of_log(region::Volume& volume,
                                              const format::RegionRecord& record);
std::unique_ptr<Inspection> inspection_of_copies(region::Volume& volume,
                                                 const format::RegionRecord& record);
std::unique_ptr<Inspection> inspection_of_chunks(region::Volume& volume,
                                                 const format::RegionRecord& record);

/// Superblock slots, directories, owner record.
Status check_head(media::Medium& medium, CheckReport& report);

/// Adds what no crash explains.
void add_damage(CheckReport& report, const char* part, const std::string& message,
                const std::string& region = {});

}  // namespace perdura::store
