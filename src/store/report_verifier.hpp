// Debugging of reported stores (Options::verify_reports): at every checkpoint the region is
// compared with a copy of it at the checkpoint before, and a changed line that nobody reported is
// named with the block it lies in. From then on its page is watched, and a line of it that is found
// again is named with the place in the program that has stored to it.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "heap/heap.hpp"
#include "region/region.hpp"
#include "store/store_watch.hpp"
#include "track/dirty_map.hpp"

namespace perdura::store {

class ReportVerifier {
 public:
  ReportVerifier(region::Region& region, heap::Heap& heap, std::unique_ptr<StoreWatch> watch)
      : region_(region), heap_(heap), watch_(std::move(watch)) {}

  /// Take the first copy.
  void start();
  /// Mutators stopped.
  void inspect(const track::DirtyMap& reported);
  std::vector<std::string> findings() const;
  u64 lines() const;

 private:
  static constexpr size_t kFindingsMax = 1000;

  void inspect_extent(const format::Extent& extent, const track::DirtyMap& reported);

  region::Region& region_;
  heap::Heap& heap_;
  const std::unique_ptr<StoreWatch> watch_;
  mutable std::mutex mutex_;
  std::map<u64, std::vector<std::byte>> copies_;  ///< by region offset of the extent
  struct Finding {
    std::string text;
    std::vector<Place> places;
  };
  std::vector<Finding> findings_;
  u64 lines_ = 0;
};

}  // namespace perdura::store
