#include "runs.hpp"

#include <stdexcept>
#include <thread>
#include <utility>

#include <fmt/format.h>

namespace demo {

namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

double seconds(std::uint64_t ns) { return static_cast<double>(ns) * 1e-9; }

double fraction(const Progress& progress, std::uint64_t text_bytes) {
  return static_cast<double>(progress.bytes) / static_cast<double>(text_bytes);
}

/// How often a worker is looked at while it works: a kill strikes so close to its moment.
constexpr Milliseconds kGlance{0.2};
/// How often when only the bar has to be drawn, so as not to take time from what is measured.
constexpr Milliseconds kLook{10};

/// What a worker that has ended by itself left behind.
Finished finish(const Process& worker, double build_s) {
  const Progress& progress = worker.progress();
  return {build_s,
          seconds(progress.build_cpu_ns),
          progress.statistics,
          progress.heap_blocks,
          progress.heap_bytes,
          worker.answers()};
}

}  // namespace

Finished run_undisturbed(const Launcher& launcher, Side side, const std::string& uri,
                         std::uint64_t text_bytes) {
  ProgressBar bar("indexing");
  Process worker = launcher.start(side, uri);
  const Progress& progress = worker.progress();
  while (worker.running()) {
    bar.update(fraction(progress, text_bytes), progress.document);
    std::this_thread::sleep_for(kLook);
  }
  return finish(worker, seconds(progress.build_ns));
}

KilledRun::KilledRun(const Launcher& launcher, Side side, std::string uri, std::uint64_t text_bytes,
                     int count, std::uint64_t seed, OnKill on_kill)
    : launcher_(launcher),
      side_(side),
      uri_(std::move(uri)),
      text_bytes_(text_bytes),
      random_(seed),
      moments_(choose_moments(count)),
      on_kill_(std::move(on_kill)),
      bar_("indexing") {}

Finished KilledRun::run() {
  const Clock::time_point start = Clock::now();
  for (;;) {
    Process worker = launcher_.start(side_, uri_);
    if (resuming_ && kills_.size() % 2 == 0 && kills_.back().while_opening == 0) {
      kill_while_opening(worker);
      continue;
    }
    await_work(worker);
    if (await_moment(worker)) {
      kill_at_work(worker);
      continue;
    }
    const double build_s = std::chrono::duration<double>(Clock::now() - start).count();
    while (worker.running()) std::this_thread::sleep_for(kLook);
    return finish(worker, build_s);
  }
}

std::vector<std::uint64_t> KilledRun::choose_moments(int count) {
  std::vector<std::uint64_t> moments;
  for (int i = 0; i < count; ++i) {
    std::uniform_real_distribution<double> within(i, i + 1);
    moments.push_back(
        static_cast<std::uint64_t>(within(random_) / count * static_cast<double>(text_bytes_)));
  }
  return moments;
}

void KilledRun::kill_while_opening(Process& worker) {
  while (worker.running() && !worker.reached(Phase::kOpening)) std::this_thread::yield();
  std::uniform_real_distribution<double> delay_ms(0, open_ms_);
  std::this_thread::sleep_for(Milliseconds(delay_ms(random_)));
  worker.kill();
  ++kills_.back().while_opening;
}

void KilledRun::await_work(Process& worker) {
  while (worker.running() && !worker.reached(Phase::kIndexing))
    std::this_thread::sleep_for(kGlance);
  const Progress& progress = worker.progress();
  if (progress.resumed_version < promised_version_)
    throw std::runtime_error(
        fmt::format("version {} was durable, but the store came back with version {}",
                    promised_version_, progress.resumed_version));
  if (!resuming_) {
    if (progress.resumed_bytes != 0)
      throw std::runtime_error(uri_ + " holds an index already; the demo starts from nothing");
    return;
  }
  Kill& kill = kills_.back();
  kill.resumed_document = progress.resumed_document;
  kill.resumed_bytes = progress.resumed_bytes;
  kill.lost_ms = ms_since(kill.resumed_bytes);
  kill.open_ms = open_ms_ = static_cast<double>(progress.open_ns) * 1e-6;
  resuming_ = false;
  bar_.clear();
  on_kill_(kill);
}

bool KilledRun::await_moment(Process& worker) {
  const Progress& progress = worker.progress();
  const std::uint64_t moment =
      kills_.size() < moments_.size() ? moments_[kills_.size()] : UINT64_MAX;
  trail_.clear();
  while (worker.running() && !worker.reached(Phase::kAnswering)) {
    trail_.push_back({Clock::now(), progress.bytes});
    if (trail_.back().bytes >= moment) return true;
    bar_.update(fraction(progress, text_bytes_), progress.document);
    std::this_thread::sleep_for(kGlance);
  }
  bar_.clear();
  return false;
}

double KilledRun::ms_since(std::uint64_t bytes) const {
  const auto passed = std::partition_point(
      trail_.begin(), trail_.end(), [&](const Footprint& print) { return print.bytes < bytes; });
  if (passed == trail_.end()) return 0;
  return Milliseconds(trail_.back().time - passed->time).count();
}

void KilledRun::kill_at_work(Process& worker) {
  worker.kill();
  const Progress& progress = worker.progress();
  Kill kill;
  kill.document = progress.document;
  kill.bytes = progress.bytes;
  kills_.push_back(kill);
  resuming_ = true;
  promised_version_ = std::max<std::uint64_t>(promised_version_, progress.durable_version);
}

}  // namespace demo
