// What the benchmark `server` reports besides the server.
#pragma once

#include "harness.hpp"

namespace perdura::bench {

/// Containers that report their stores ÷ the best of ordinary memory's.
void report_containers(Context& context);

}  // namespace perdura::bench
