// The store of a program that names none.
#pragma once

#include <string>

namespace perdura::detail {

/// An environment variable that is set and not empty, or nullptr.
const char* environment(const char* name);

/// What PERDURA_STORE names, else a file in the user's state folder: one for each executable and
/// user. Throws.
std::string own_store_uri();

}  // namespace perdura::detail
