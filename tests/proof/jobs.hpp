// Jobs in child processes, several at once, so that a crash or an endless loop of one is a finding
// like others.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>

namespace perdura::proof {

using Json = nlohmann::ordered_json;

/// Runs job(number) for each number below `count`, at most `at_once` together; done(number, result)
/// gets each result, in any order, and says whether to begin further ones. A job that ended in
/// another way has a result with "problem", and "crashed" or "hung".
void run_jobs(size_t count, unsigned at_once, const std::function<Json(size_t)>& job,
              const std::function<bool(size_t, const Json&)>& done);

}  // namespace perdura::proof
