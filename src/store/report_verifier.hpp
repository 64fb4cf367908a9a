// Debugging of reported stores (Options::verify_reports): at every checkpoint the region is
// compared with a copy of it at the checkpoint before, and a changed line that nobody reported is
// named with the block it lies in.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "heap/heap.hpp"
#include "region/region.hpp"
#include "track/dirty_map.hpp"

namespace perdura::store {

class ReportVerifier {
 public:
  ReportVerifier(region::Region& region, heap::Heap& heap) : region_(region), heap_(heap) {}

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
  mutable std::mutex mutex_;
  std::map<u64, std::vector<std::byte>> copies_;  ///< by region offset of the extent
  std::vector<std::string> findings_;
  u64 lines_ = 0;
};

}  // namespace perdura::store
