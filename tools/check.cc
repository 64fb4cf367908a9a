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

// Where there is one alone it needs no name.
std::string of_region(const CheckReport& report, const std::string& name) {
  const bool one = !report.description || report.description->regions.size() == 1;
  return one || name.empty() ? "" : fmt::format(" of region '{}'", printable(name));
}

void print_summary(const CheckReport& report) {
  std::string verified;
  const auto add = [&](u64 count, const char* what, const char* of) {
    if (count == 0) return;
    if (!verified.empty()) verified += ", ";
    verified += count_text(count, what) + of;
  };
  add(report.home_pages, "page", " of the home image");
  add(report.log_blocks, "block", " of the log");
  add(report.chunks, "chunk", " of all versions");
  if (!verified.empty()) fmt::print("verified: {}\n", verified);
  if (report.pending_pages != 0)
    fmt::print("{} half replayed: the next opening finishes that from the log\n",
               count_text(report.pending_pages, "page"));
  for (const store::RegionDescription& region : report.description->regions) {
    if (!region.heap || !region.heap->clean) continue;
    const HeapAudit& heap = *region.heap;
    fmt::print("the heap{} is sound: {} with {}, {}\n", of_region(report, region.name()),
               count_text(heap.live_blocks, "live block"), bytes_text(heap.live_bytes),
               count_text(heap.roots, "root"));
  }
}

std::string whole_text(const CheckReport& report) {
  std::string text;
  for (const store::RegionDescription& region : report.description->regions)
    text += (text.empty() ? "" : ", ") +
            (region.is_unfinished ? fmt::format("the copy to it{} was not completed",
                                                of_region(report, region.name()))
                                  : fmt::format("version {}{} is whole", region.durable_version,
                                                of_region(report, region.name())));
  return text.empty() ? "it has no region yet" : text;
}

void print_report(const CheckReport& report) {
  u64 damaged = 0;
  for (const Finding& finding : report.findings) {
    const bool damage = finding.severity == Finding::Severity::kDamage;
    damaged += damage ? 1 : 0;
    fmt::print("{}: {}{}: {}\n", damage ? "damage" : "note", finding.part,
               of_region(report, finding.region), printable(finding.message));
  }
  if (report.description) print_summary(report);
  if (damaged != 0)
    fmt::print("'{}' is damaged: {}\n", report.name, count_text(damaged, "finding"));
  else
    fmt::print("'{}' is {}: {}\n", report.name, report.incomplete() ? "incomplete" : "good",
               whole_text(report));
}

}  // namespace

int check(const Arguments& arguments) {
  const Result<CheckReport> report = [&] {
    ProgressLine line;
    return store::check(arguments.store, arguments.medium, std::ref(line), arguments.overflow);
  }();
  if (!report) {
    complain(report.failure());
    return kFailed;
  }
  if (arguments.json) fmt::print("{}\n", dump(to_json(*report)));
  else print_report(*report);
  return report->damaged() || report->incomplete() ? kDamaged : kGood;
}

}  // namespace perdura::tools
