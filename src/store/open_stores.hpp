// The open stores of the process, found by addresses in them (runtime_at() and its like).
#pragma once

#include <string>
#include <vector>

#include "format/format.hpp"

namespace perdura::detail {
class Runtime;
}

namespace perdura::store {

/// From now on it is found. There is room for as many as a process can have open.
void add_open_store(detail::Runtime& runtime);
void remove_open_store(detail::Runtime& runtime);
/// Adds the addresses of all of them; in a forked child also those of its parent's stores, which
/// are not mapped there: the parent may open a child's store beside its own.
void add_open_ranges(std::vector<format::RegionRecord>& ranges);
/// The name of an open store with this id, but for those of the name `but`; "": none.
std::string find_open_store(u64 store_id, const std::string& but);

}  // namespace perdura::store
