// What is found in a store, as JSON. Sizes and offsets are bytes; addresses, fingerprints and
// feature masks are hexadecimal texts, since many readers of JSON keep only 53 bits of a number.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "store/inspect.hpp"

namespace perdura::tools {

nlohmann::ordered_json to_json(const store::Description& description);
nlohmann::ordered_json to_json(const store::CheckReport& report);
nlohmann::ordered_json versions_json(const store::Description& description);
/// Names of roots are any bytes: those that are not UTF-8 are replaced.
std::string dump(const nlohmann::ordered_json& json);

}  // namespace perdura::tools
