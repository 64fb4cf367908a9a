// What a forked child has of the heap.
#pragma once

#include "base/result.hpp"
#include "region/region.hpp"

namespace perdura::preload {

/// Called once, before the program runs. `region` stays for as long as the process.
Status let_children_inherit(const region::Region& region);

}  // namespace perdura::preload
