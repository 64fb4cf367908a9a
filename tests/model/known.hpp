// What is not drawn, and why: faults that are known and not mended yet, in this one place.
// `--known` draws it all the same, to see whether they are found.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "program.hpp"

namespace perdura::model {

struct KnownFault {
  const char* what;
  /// An action or a step of this name, in such a session, may show it.
  bool (*meets)(const Program& program, const Session& session, std::string_view kind);
};
const std::vector<KnownFault>& known_faults();

bool is_left_out(const Program& program, const Session& session, std::string_view kind);

/// What this machine's kernel has; looked up once.
bool is_supported(Tracking tracking);

}  // namespace perdura::model
