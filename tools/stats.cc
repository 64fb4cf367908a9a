// perdura stats: what a store's process is doing, as that process publishes it.
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/clock.hpp"
#include "commands.hpp"
#include "json.hpp"
#include "store/published.hpp"
#include "text.hpp"

namespace perdura::tools {
namespace {

using store::PublishedCounter;
using store::PublishedCounters;
using store::PublishedView;
using store::StoreOwner;
using Json = nlohmann::ordered_json;

constexpr double kSecondNs = 1e9;

/// What was read of all regions at once, and before.
struct Sample {
  u64 at_ns = 0;
  std::vector<PublishedCounters> regions;
};

std::string time_text(double ns) {
  if (ns < 1e6) return fmt::format("{:.3g} us", ns / 1e3);
  if (ns < 1e9) return fmt::format("{:.3g} ms", ns / 1e6);
  return fmt::format("{:.4g} s", ns / kSecondNs);
}

/// A region's values as texts, with what they grow by in a second where there is a sample before.
class Texts {
 public:
  Texts(const PublishedCounters& now, const PublishedCounters* before)
      : now_(now), before_(before) {}

  u64 value(std::string_view name) const { return now_.value(name); }
  std::string count(std::string_view name) const {
    return std::to_string(value(name)) +
           rate(name, [](double per_second) { return fmt::format("{:.3g}/s", per_second); });
  }
  std::string bytes(std::string_view name) const {
    return bytes_text(value(name)) + rate(name, [](double per_second) {
             return bytes_text(static_cast<u64>(per_second)) + "/s";
           });
  }
  /// Of a time: the part of it that passed meanwhile, of all threads together.
  std::string time(std::string_view name) const {
    return time_text(static_cast<double>(value(name))) +
           rate(name, [](double per_second) { return time_text(per_second) + "/s"; });
  }
  std::string mean(std::string_view time, std::string_view count) const {
    const u64 all = value(count);
    return all == 0 ? "0 us"
                    : time_text(static_cast<double>(value(time)) / static_cast<double>(all));
  }

 private:
  template <class Text>
  std::string rate(std::string_view name, Text&& text) const {
    if (before_ == nullptr || now_.written_ns <= before_->written_ns) return {};
    const u64 was = before_->value(name);
    // Somebody has reset them.
    const u64 grown = value(name) >= was ? value(name) - was : 0;
    const double seconds = static_cast<double>(now_.written_ns - before_->written_ns) / kSecondNs;
    return " (" + text(static_cast<double>(grown) / seconds) + ")";
  }

  const PublishedCounters& now_;
  const PublishedCounters* const before_;
};

void print_region(const PublishedCounters& region, const PublishedCounters* before, u64 at_ns) {
  const Texts all(region, before);
  line("region",
       fmt::format("{} '{}', changes found by {}, {} backed; open for {}, as of {} ago",
                   region.region, printable(region.name), name_of(region.tracking),
                   bytes_text(all.value("region_backed_bytes")),
                   time_text(static_cast<double>(at_ns - region.opened_ns)),
                   time_text(static_cast<double>(at_ns - std::min(at_ns, region.written_ns)))));
  line("versions",
       fmt::format("{} durable, {} in the home image, {} confirmed{}", all.value("durable_version"),
                   all.value("replayed_version"), all.value("confirmed_version"),
                   all.value("pinned_version") == 0
                       ? ""
                       : fmt::format(", {} pinned", all.value("pinned_version"))));
  line("checkpoints", fmt::format("{}, {} failed, {} late; {} each", all.count("checkpoints"),
                                  all.value("failed_checkpoints"), all.value("late_checkpoints"),
                                  all.mean("checkpoint_ns", "checkpoints")));
  line("written",
       fmt::format("{} changed, {} to the log or chunks, {} home", all.bytes("changed_bytes"),
                   all.bytes("log_bytes"), all.bytes("home_bytes")));
  if (all.value("log_capacity_bytes") != 0)
    line("log", fmt::format("{} of {} live, limit {}", bytes_text(all.value("log_live_bytes")),
                            bytes_text(all.value("log_capacity_bytes")),
                            bytes_text(all.value("log_limit_bytes"))));
  line("stops", fmt::format("{}, 99 of 100 within {}, longest {}", all.count("pauses"),
                            time_text(static_cast<double>(all.value("pause_p99_ns"))),
                            time_text(static_cast<double>(all.value("pause_max_ns")))));
  const auto waits = [&](const char* label, const char* count, const char* time) {
    line(label, fmt::format("{}, {}", all.count(count), all.time(time)));
  };
  waits("wait: stops", "stop_waits", "stop_wait_ns");
  waits("  versions", "checkpoint_waits", "checkpoint_wait_ns");
  waits("  log", "log_waits", "log_wait_ns");
  waits("  groups", "group_waits", "group_wait_ns");
  line("found", fmt::format("{} verified, {} damaged; {}", all.bytes("verified_bytes"),
                            count_text(all.value("damaged_pages"), "page"),
                            count_text(all.value("events"), "event")));
  if (all.value("untyped_allocations") != 0)
    line("untyped", fmt::format("{} without a type", all.count("untyped_allocations")));
}

void print_text(const StoreOwner& owner, const Sample& now, const Sample* before) {
  line("store", owner.name);
  line("process", fmt::format("{} ({})", owner.pid, printable(owner.program)));
  for (const PublishedCounters& region : now.regions) {
    const PublishedCounters* was = nullptr;
    if (before != nullptr)
      for (const PublishedCounters& each : before->regions)
        if (each.region == region.region && each.opened_ns == region.opened_ns) was = &each;
    print_region(region, was, now.at_ns);
  }
}

Json stats_json(const StoreOwner& owner, const Sample& now) {
  Json json = {{"store", owner.name},
               {"pid", owner.pid},
               {"program", owner.program},
               {"regions", Json::array()}};
  for (const PublishedCounters& region : now.regions) {
    Json one = {{"id", region.region},
                {"name", region.name},
                {"tracking", name_of(region.tracking)},
                {"open_ns", now.at_ns - region.opened_ns},
                {"age_ns", now.at_ns - std::min(now.at_ns, region.written_ns)}};
    const auto counters = store::counters();
    for (size_t i = 0; i < counters.size(); ++i) one[counters[i].name] = region.values[i];
    json["regions"].push_back(std::move(one));
  }
  return json;
}

/// A value of a label, without what would end it.
std::string label_text(std::string_view text) {
  std::string escaped;
  for (const char each : text) {
    if (each == '\\' || each == '"') escaped += '\\';
    if (each == '\n') escaped += "\\n";
    else escaped += each;
  }
  return escaped;
}

// In the text exposition format: base units, so seconds; what grows ends in _total.
void print_prometheus(const StoreOwner& owner, const Sample& now) {
  const auto labels = [&](const PublishedCounters& region) {
    return fmt::format("store=\"{}\",region=\"{}\"", label_text(owner.name),
                       label_text(region.name));
  };
  fmt::print(
      "# HELP perdura_open The region is open to write in a process\n"
      "# TYPE perdura_open gauge\n");
  for (const PublishedCounters& region : now.regions)
    fmt::print("perdura_open{{{},pid=\"{}\",tracking=\"{}\"}} 1\n", labels(region), owner.pid,
               name_of(region.tracking));
  fmt::print(
      "# HELP perdura_age_seconds How old these figures are\n"
      "# TYPE perdura_age_seconds gauge\n");
  for (const PublishedCounters& region : now.regions)
    fmt::print("perdura_age_seconds{{{}}} {:.6f}\n", labels(region),
               static_cast<double>(now.at_ns - std::min(now.at_ns, region.written_ns)) / kSecondNs);
  const auto counters = store::counters();
  for (size_t i = 0; i < counters.size(); ++i) {
    const PublishedCounter& counter = counters[i];
    std::string name = std::string("perdura_") + counter.name;
    const bool is_time = name.ends_with("_ns");
    if (is_time) name.replace(name.size() - 3, 3, "_seconds");
    if (counter.grows) name += "_total";
    fmt::print("# HELP {} {}\n# TYPE {} {}\n", name, counter.help, name,
               counter.grows ? "counter" : "gauge");
    for (const PublishedCounters& region : now.regions) {
      fmt::print("{}{{{}}} ", name, labels(region));
      if (is_time) fmt::print("{:.9f}\n", static_cast<double>(region.values[i]) / kSecondNs);
      else fmt::print("{}\n", region.values[i]);
    }
  }
}

volatile sig_atomic_t interrupted = 0;

/// Until the time has passed, or somebody wants this to end.
bool pause_for(u64 ms) {
  timespec until{};
  ::clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += static_cast<time_t>(ms / 1000);
  until.tv_nsec += static_cast<long>(ms % 1000 * 1'000'000);
  if (until.tv_nsec >= 1'000'000'000) {
    until.tv_nsec -= 1'000'000'000;
    ++until.tv_sec;
  }
  while (interrupted == 0 &&
         ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
  return interrupted == 0;
}

/// The regions that are open, or the one of this name.
Result<Sample> take_sample(const std::vector<PublishedView>& views, const std::string& region) {
  Sample sample;
  std::string known;
  for (const PublishedView& view : views) {
    PERDURA_ASSIGN(PublishedCounters counters, view.read());
    known += (known.empty() ? "'" : ", '") + counters.name + "'";
    if (!region.empty() && counters.name != region) continue;
    if (counters.is_open) sample.regions.push_back(std::move(counters));
  }
  sample.at_ns = now_ns();
  if (sample.regions.empty() && !region.empty() && known.find("'" + region + "'") == known.npos)
    return Failure{Code::kNotFound,
                   fmt::format("no region '{}' is open there; there are {}", region, known)};
  return sample;
}

void print(const StatsArguments& arguments, const StoreOwner& owner, const Sample& now,
           const Sample* before) {
  if (arguments.prometheus) return print_prometheus(owner, now);
  if (!arguments.json) return print_text(owner, now, before);
  // One a line while it is watched, for programs that read them as they come.
  const Json json = stats_json(owner, now);
  fmt::print("{}\n", arguments.watch ? json.dump(-1, ' ', false, Json::error_handler_t::replace)
                                     : dump(json));
}

/// Regions may be opened and closed meanwhile.
Result<std::vector<PublishedView>> find_views(const StoreOwner& owner) {
  PERDURA_ASSIGN(auto views, PublishedView::find(owner.pid, owner.uuid, owner.occupant));
  if (!views.empty()) return views;
  return Failure{
      Code::kUnsupported,
      fmt::format("process {} ({}) has '{}' open and publishes no statistics of it: only "
                  "stores do, not regions of logged objects, and not those of an "
                  "earlier Perdura",
                  owner.pid, owner.program, owner.name)};
}

int watch(const StatsArguments& arguments, const StoreOwner& owner, Sample before) {
  struct sigaction ends{};
  ends.sa_handler = [](int) { interrupted = 1; };
  ::sigaction(SIGINT, &ends, nullptr);
  ::sigaction(SIGTERM, &ends, nullptr);
  const bool is_screen = !arguments.json && ::isatty(STDOUT_FILENO) == 1;
  while (std::fflush(stdout) == 0 && pause_for(arguments.interval_ms)) {
    Result<Sample> now = Sample{};
    if (owner.is_running())
      if (const auto views = find_views(owner)) now = take_sample(*views, arguments.region);
    if (!now || now->regions.empty()) {
      if (!arguments.json)
        fmt::print("{}\n", owner.is_running() ? "it was closed there" : "the process has ended");
      return kGood;
    }
    if (is_screen) fmt::print("\033[H\033[J");
    else if (!arguments.json) fmt::print("\n");
    print(arguments, owner, *now, &before);
    before = std::move(*now);
  }
  return kGood;
}

}  // namespace

int stats(const StatsArguments& arguments) {
  const Result<StoreOwner> owner = store::find_owner(arguments.store, arguments.medium);
  if (!owner) return complain(owner.failure());
  const auto views = find_views(*owner);
  if (!views) return complain(views.failure());
  const auto sample = take_sample(*views, arguments.region);
  if (!sample) return complain(sample.failure());
  if (sample->regions.empty())
    return complain({Code::kNotFound, fmt::format("'{}' was closed just now", owner->name)});
  print(arguments, *owner, *sample, nullptr);
  return arguments.watch ? watch(arguments, *owner, *sample) : kGood;
}

}  // namespace perdura::tools
