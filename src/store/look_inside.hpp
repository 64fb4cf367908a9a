// Looking at the objects of a store, as its newest versions have them, without opening it for use.
#pragma once

#include <functional>
#include <string_view>
#include <unordered_set>

#include "store/heap_view.hpp"
#include "store/inspect.hpp"

namespace perdura::store {

/// A heap that can be looked into, for as long as the call that gets it runs.
struct HeapSight {
  const RegionDescription& region;
  const HeapView& view;
  /// Region offsets of pages that do not fit their checksums: what they hold is anything.
  const std::unordered_set<u64>& damaged_pages;

  bool is_damaged(const HeapView::Object& object) const;
};

/// Calls `visit` for the region of this name, or for all; not for one that has no heap or no
/// version, or whose heap is damaged, which the description says. Every page of a home image is
/// compared with its checksum first.
Result<Description> look_inside(std::string_view uri, const media::MediumOptions& options,
                                std::string_view region, const Progress& progress,
                                const std::function<Status(const HeapSight&)>& visit);

}  // namespace perdura::store
