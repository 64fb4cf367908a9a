// Where code that reports by itself comes to when it cannot append.
#pragma once

#include "track/compiled_reports.hpp"

namespace perdura::store {

/// A report of such code, which looks at `reports`. False where the address is in no open store.
bool report_in(const void* address, size_t length, track::ThreadReports& reports);

}  // namespace perdura::store
