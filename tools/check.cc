// perdura check: whether everything in a store is whole.
#include <functional>

#include <fmt/format.h>

#include "commands.hpp"
#include "json.hpp"
#include "progress.hpp"
#include "store/inspect.hpp"
#include "text.hpp"

namespace perdura::tools {
namespace {

using store::CheckReport;
using store::Finding;

void print_summary(const CheckReport& report) {
  if (report.chunks != 0)
    fmt::print("verified: {} of {}\n", count_text(report.chunks, "chunk"),
               count_text(report.description->regions.front().versions.size(), "version"));
  else
    fmt::print("verified: {} of the home image, {} of the log\n",
               count_text(report.home_pages, "page"), count_text(report.log_blocks, "block"));
  if (report.pending_pages != 0)
    fmt::print("{} half replayed: the next opening finishes that from the log\n",
               count_text(report.pending_pages, "page"));
  if (const auto& description = report.description; description && description->heap)
    if (const HeapAudit& heap = *description->heap; heap.clean)
      fmt::print("the heap is sound: {} with {}, {}\n", count_text(heap.live_blocks, "live block"),
                 bytes_text(heap.live_bytes), count_text(heap.roots, "root"));
}

void print_report(const CheckReport& report) {
  u64 damaged = 0;
  for (const Finding& finding : report.findings) {
    const bool damage = finding.severity == Finding::Severity::kDamage;
    damaged += damage ? 1 : 0;
    fmt::print("{}: {}: {}\n", damage ? "damage" : "note", finding.part,
               printable(finding.message));
  }
  if (report.description) print_summary(report);
  if (damaged != 0) {
    fmt::print("'{}' is damaged: {}\n", report.name, count_text(damaged, "finding"));
  } else {
    fmt::print("'{}' is good: version {} is whole\n", report.name,
               report.description->durable_version);
  }
}

}  // namespace

int check(const Arguments& arguments) {
  const Result<CheckReport> report = [&] {
    ProgressLine line;
    return store::check(arguments.store, arguments.medium, std::ref(line));
  }();
  if (!report) {
    complain(report.failure());
    return kFailed;
  }
  if (arguments.json) fmt::print("{}\n", dump(to_json(*report)));
  else print_report(*report);
  return report->damaged() ? kDamaged : kGood;
}

}  // namespace perdura::tools
