// The parts of the benchmark `object`: object.cc says what each figure is.
#pragma once

#include <string>

#include "harness.hpp"

namespace perdura::bench {

/// Parameters of an emulated medium that is as slow as the NVM of SIMPO's emulator.
inline constexpr const char* kSlowNvm = "?write_ns=60&flush=clflushopt";

void measure_recovery(Context& context);     ///< figure 16
void measure_pools(Context& context);        ///< 17, and objects that do not all fit
void measure_structures(Context& context);   ///< 18, 19
void measure_shared(Context& context);       ///< several processes
void measure_floors(Context& context);       ///< against what a call or a checkpoint must cost
void measure_dual_stores(Context& context);  ///< two copies as the engine of a store
void measure_peers(Context& context);        ///< against transactions, ours and libpmemobj's

/// Draw each chart of which there are figures, as FOLDER/object-NAME.svg.
void plot_object(const Json& figures, const std::string& folder);

}  // namespace perdura::bench
