#include "preload/meter.hpp"

#include <time.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <filesystem>

#include "base/clock.hpp"
#include "base/mapping.hpp"
#include "track/userfault.hpp"

namespace perdura::preload {
namespace {

namespace fs = std::filesystem;

/// Of the kernel's figures of a thread: what it ran, what it waited for a processor. Zeros where
/// the kernel keeps none, or the thread has just ended.
void add_thread(const fs::path& thread, Spent& sum) {
  std::FILE* const file = std::fopen((thread / "schedstat").c_str(), "re");
  if (file == nullptr) return;
  unsigned long long cpu_ns = 0;
  unsigned long long waited_ns = 0;
  if (std::fscanf(file, "%llu %llu", &cpu_ns, &waited_ns) == 2) {
    sum.cpu_ns += cpu_ns;
    sum.waited_ns += waited_ns;
  }
  std::fclose(file);
}

Spent read_all(pid_t without) {
  Spent sum{.wall_ns = now_ns()};
  const std::string skipped = std::to_string(without);
  std::error_code ended;
  for (fs::directory_iterator each("/proc/self/task", ended), end; each != end && !ended;
       each.increment(ended))
    if (each->path().filename() != skipped) add_thread(each->path(), sum);
  return sum;
}

// Threads that have ended meanwhile took their figures along.
u64 gone_by(u64 now, u64 before) { return now > before ? now - before : 0; }

}  // namespace

double thread_cpu_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

void Meter::begin(pid_t without) {
  without_ = without;
  stopped_ns_ = 0;
  begin_ = read_all(without_);
}

Spent Meter::spent() const {
  const Spent now = read_all(without_);
  return {.wall_ns = gone_by(now.wall_ns, begin_.wall_ns),
          .cpu_ns = gone_by(now.cpu_ns, begin_.cpu_ns),
          .waited_ns = gone_by(now.waited_ns, begin_.waited_ns),
          .stopped_ns = stopped_ns_};
}

// A range of its own, watched in the same way, of which each page is stored to twice: what the
// second time takes is not the faults' doing.
Result<Faults> measure_faults() {
  constexpr u64 kPages = 512;
  constexpr size_t kRounds = 11;
  PERDURA_ASSIGN(const Mapping memory, Mapping::anonymous(kPages * kPageBytes));
  PERDURA_ASSIGN(const auto tracker, track::Userfault::create(memory.as(), kPages * kPageBytes));
  const track::Part part{memory.as(), kPages * kPageBytes, true};
  PERDURA_TRY(tracker->backed({&part, 1}));
  const auto touch_ns = [&] {
    const double begin = thread_cpu_ns();
    for (u64 page = 0; page < kPages; ++page)
      memory.as<volatile char>()[page * kPageBytes] = static_cast<char>(page);
    return thread_cpu_ns() - begin;
  };
  touch_ns();  // the pages are new
  std::array<double, kRounds> each{};
  for (double& fault_ns : each) {
    PERDURA_TRY(tracker->cut());
    tracker->settle(true);
    const double first = touch_ns();
    fault_ns = std::max(0.0, first - touch_ns()) / kPages;
  }
  std::sort(each.begin(), each.end());
  return Faults{.least = each.front(), .median = each[kRounds / 2]};
}

}  // namespace perdura::preload
