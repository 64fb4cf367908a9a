// What is chosen for a store is possible, whatever the store.
#pragma once

#include <perdura/options.hpp>

#include "base/result.hpp"

namespace perdura::store {

/// kInvalidArgument names what is not, and what would be.
Status check_options(const Options& options);

}  // namespace perdura::store
