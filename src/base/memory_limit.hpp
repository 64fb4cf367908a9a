// How much memory this process may use.
#pragma once

#include <string>

#include "base/bits.hpp"

namespace perdura {

/// Bytes: the machine's, or those that the control groups allow which the process is in, if that is
/// less. Of a container it is what that was given. `root`: of the files that say it, for tests.
u64 memory_limit(const std::string& root = "");

}  // namespace perdura
