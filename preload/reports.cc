#include "preload/reports.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "preload/instrument.hpp"
#include "preload/meter.hpp"
#include "store/compiled_reports.hpp"
#include "track/compiled_parts.hpp"

namespace perdura::preload {
namespace {

/// Compiled code appends to it as to the buffer of a mutator, always as if in an operation, and
/// comes here each time it is full.
struct Counter {
  static constexpr size_t kEntries = 2048;  // stays in the first cache

  detail::Mutator mutator;
  std::array<u64, kEntries> entries;
  std::atomic<u64> counted{0};  ///< before those

  Counter() {
    mutator.depth = 1;
    mutator.cursor = entries.data();
    mutator.limit = entries.data() + entries.size();
  }
  void empty() {
    counted.store(counted.load(std::memory_order_relaxed) + filled(), std::memory_order_relaxed);
    std::atomic_ref(mutator.cursor).store(entries.data(), std::memory_order_relaxed);
  }
  u64 filled() {
    const u64* const cursor = std::atomic_ref(mutator.cursor).load(std::memory_order_relaxed);
    return static_cast<u64>(cursor - entries.data());
  }
};

constinit std::mutex counters_mutex;
/// Never destroyed, nor are those of threads that have ended.
std::vector<Counter*>& counters() {
  static auto* const all = new std::vector<Counter*>;
  return *all;
}
constinit thread_local Counter* counter = nullptr;
/// The program's, of the threads that have reported.
constinit thread_local track::ThreadReports* program_reports = nullptr;

Counter* make_counter() {
  const InLibrary in_library;
  auto* const made = new (std::nothrow) Counter;
  if (made == nullptr) return nullptr;
  std::lock_guard lock(counters_mutex);
  counters().push_back(made);
  return made;
}

bool is_ours(const void* address) { return opened->heap != nullptr && memory.holds(address); }

void count(const void* address, size_t length, track::ThreadReports* reports) {
  if (!is_ours(address)) return;
  if (counter == nullptr) counter = make_counter();
  if (counter == nullptr) return;
  program_reports = reports;
  counter->empty();
  detail::append_report(counter->mutator, address, std::min(length, detail::kReportLengthMax));
  reports->begin = reinterpret_cast<std::uintptr_t>(memory.base);
  reports->bytes = memory.bytes;
  reports->mutator = &counter->mutator;
}

void track(const void* address, size_t length, track::ThreadReports* reports) {
  if (!is_ours(address)) return;
  const InLibrary in_library;
  program_reports = reports;
  store::report_in(address, length, *reports);
}

// Its reports are of a copy of the heap.
void forget_in_child() {
  if (program_reports != nullptr) program_reports->forget_all();
}

}  // namespace

Status take_reports(Reports what) {
  const auto send = reinterpret_cast<decltype(&perdura_send_reports)>(
      ::dlsym(RTLD_DEFAULT, "perdura_send_reports"));
  if (send == nullptr)
    return Failure{Code::kUnsupported,
                   "no part of this program reports its stores by itself; compile all of it with "
                   "perdura-clang or perdura-clang++"};
  if (!send(track::kReportsLayout, what == Reports::kCounted ? count : track))
    return Failure{Code::kUnsupported,
                   "this program was compiled by the perdura-clang of another version; compile it "
                   "with the one that belongs to this library"};
  // Here nobody else would say so.
  perdura_compiled_part("the program", track::kCompiledWindow);
  ::pthread_atfork(nullptr, nullptr, forget_in_child);
  return {};
}

// One after the other, each of which waits for the one before, as in a loop that does little else;
// a buffer that is full is emptied at once.
double measure_counting() {
  constexpr u64 kReports = 1 << 16;
  constexpr size_t kRounds = 11;
  const auto made = std::make_unique<Counter>();
  detail::Mutator& mutator = made->mutator;
  std::array<double, kRounds> each{};
  for (double& report_ns : each) {
    const double begin = thread_cpu_ns();
    for (u64 i = 0; i < kReports; ++i) {
      if (std::atomic_ref(mutator.cursor).load(std::memory_order_relaxed) >= mutator.limit)
        made->empty();
      detail::append_report(mutator, &made->entries[i % Counter::kEntries], sizeof(u64));
    }
    report_ns = (thread_cpu_ns() - begin) / kReports;
  }
  std::sort(each.begin(), each.end());
  return each[kRounds / 2];
}

u64 reports_counted() {
  std::lock_guard lock(counters_mutex);
  u64 sum = 0;
  for (Counter* each : counters())
    sum += each->counted.load(std::memory_order_relaxed) + each->filled();
  return sum;
}

}  // namespace perdura::preload
