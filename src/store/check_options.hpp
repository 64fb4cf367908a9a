// What is chosen for a store is possible, whatever the store.
#pragma once

#include <perdura/options.hpp>

#include <string_view>

#include "base/bits.hpp"
#include "base/result.hpp"

namespace perdura::store {

/// kInvalidArgument names what is not, and what would be.
Status check_options(const Options& options);
/// Of a region that takes so many bytes from there on.
Status check_region_address(u64 address, u64 bytes);
/// A region's, or "" for the first one.
Status check_region_name(std::string_view name);

}  // namespace perdura::store
