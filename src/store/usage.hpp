// What takes the space of a store.
#pragma once

#include "heap/heap.hpp"
#include "region/volume.hpp"
#include "store/inspect.hpp"

namespace perdura::store {

/// Of a sound heap; `description` is its region's.
Result<HeapUsage> usage_of(heap::Heap& heap, const region::Region& region,
                           const RegionDescription& description, const Progress& progress);

/// Sets what the bytes of the medium serve. The regions are described.
void describe_space(region::Volume& volume, Description& description);

}  // namespace perdura::store
