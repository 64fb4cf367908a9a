#pragma once

#include <string>

#include "harness.hpp"

namespace perdura::bench {

/// Draw each chart of which there are figures, as FOLDER/NAME.svg.
void plot_tracker(const Json& figures, const std::string& folder);

}  // namespace perdura::bench
