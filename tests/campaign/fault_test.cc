// Goal: any call of the medium, of the system or of the allocator that fails, once or for ever,
// costs the program no more than an error: no crash, no hang, nothing acknowledged lost, nothing
// half done, no failure passed over. When the fault is over, checkpoints succeed again, unless a
// flush failed or a connection to a server was lost: then nothing is acknowledged until the store
// was opened again. A server that is killed, whether it stays away or comes back with nothing, has
// lost the store: each call says so and what can be done, nothing is acknowledged any more, and who
// opens the store is refused, and never gets other data or a new one that was not asked for.
// Method: each scenario (fault_scenarios.cc) runs once to count its calls. Then it runs with the
// N-th of each kind failing, for every N up to 200 (in a slice, for half a dozen) or a sample of
// them, in a way drawn for each (for every N in every way with PERDURA_FAULTS=all), in a child
// process that is ended by SIGALRM if it hangs; on memcached also with the server killed before the
// N-th exchange with it. After each run the same process opens the store without faults; its
// ledger, its blocks, its heap and its home image are checked. PERDURA_SUMMARIES names a folder for
// faults.json.
#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <deque>
#include <fstream>
#include <iostream>
#include <random>
#include <thread>

#include "campaign/fault_session.hpp"
#include "support/files.hpp"
#include "support/process.hpp"
#include "support/slice.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>

// A program that the library ends dies of a signal here as well.
extern "C" const char* __asan_default_options() { return "handle_segv=0"; }
#endif

namespace perdura::test {
namespace {

constexpr unsigned kSecondsMax = 30;  // of one run
constexpr u64 kPointsMin = 20'000;    // of all scenarios, in a whole campaign

u64 number_from_environment(const char* name, u64 otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

const std::string& wanted_point() {
  static const std::string wanted = [] {
    const char* text = std::getenv("PERDURA_POINT");
    return std::string(text != nullptr ? text : "");
  }();
  return wanted;
}

/// What happened at all points of a scenario, or of all.
struct Totals {
  u64 scenarios = 0;
  u64 points = 0;  ///< runs
  u64 fired = 0;   ///< runs in which the fault happened
  u64 lost = 0;
  u64 crashed = 0;
  u64 hung = 0;
  u64 silent = 0;
  u64 wrong = 0;  ///< anything else

  u64 failures() const { return lost + crashed + hung + silent + wrong; }
  void add(const Totals& other) {
    scenarios += other.scenarios;
    points += other.points;
    fired += other.fired;
    lost += other.lost;
    crashed += other.crashed;
    hung += other.hung;
    silent += other.silent;
    wrong += other.wrong;
  }
};

class Summary final : public testing::Environment {
 public:
  void TearDown() override {
    if (totals.scenarios == 0) return;
    std::cout << totals.scenarios << " scenarios, " << totals.points << " runs, " << totals.fired
              << " fault points, " << totals.failures() << " failures\n";
    if (totals.scenarios == scenarios().size() && wanted_point().empty() && whole_campaigns()) {
      EXPECT_GE(totals.fired, kPointsMin);
    }
    const char* folder = std::getenv("PERDURA_SUMMARIES");
    if (folder == nullptr) return;
    std::ofstream(folder + std::string("/faults.json"))
        << "{\"scenarios\":" << totals.scenarios << ",\"points\":" << totals.points
        << ",\"fired\":" << totals.fired << ",\"lost\":" << totals.lost
        << ",\"crashed\":" << totals.crashed << ",\"hung\":" << totals.hung
        << ",\"silent\":" << totals.silent << ",\"wrong\":" << totals.wrong << "}\n";
  }
  Totals totals;
};
Summary* const summary = static_cast<Summary*>(testing::AddGlobalTestEnvironment(new Summary));

constexpr size_t kSlots = 64;

/// Where a run says what came of it; `slot` of those that run side by side.
Outcome& outcome_of(size_t slot) {
  static auto* outcomes = [] {
    void* shared = ::mmap(nullptr, kSlots * sizeof(Outcome), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) std::abort();
    return static_cast<Outcome*>(shared);
  }();
  return outcomes[slot];
}

void forget(Outcome& outcome) {
  for (auto& each : outcome.acknowledged) each = 0;
  outcome.acknowledged_changes = 0;
  outcome.acknowledged_object = 0;
  outcome.errors = 0;
  outcome.fired = 0;
}

using Counts = std::array<u64, kCalls + 1>;  // of each call of the system, and of the medium's

/// One run: what is done, and where it says what came of it.
struct Job {
  const Scenario& scenario;
  const Point* point;
  Outcome& outcome;
  Counts* counts = nullptr;
};

std::string run_session(const Job& job, const std::string& path, const ServerDesk* desk) {
  Session session(job.scenario, path, job.point, job.outcome, desk);
  job.scenario.run(session);
  if (job.counts != nullptr) {
    for (unsigned i = 0; i < kCalls; ++i) (*job.counts)[i] = calls_counted(static_cast<Call>(i));
    (*job.counts)[kCalls] = session.plan().count();
  }
  return session.finish();
}

std::string run_point(const Job& job, const std::string& path, const ServerDesk* desk = nullptr) {
  const TestThread here;
  ::alarm(kSecondsMax);
  std::string problem = run_session(job, path, desk);
#if defined(__SANITIZE_ADDRESS__)
  if (problem.empty() && __lsan_do_recoverable_leak_check() != 0) problem = "memory leaked";
#endif
  return problem;
}

// A fault handler cannot give an error to anybody. That of chunks reads the medium.
bool may_end_program(const Scenario& scenario, const Point& point) {
  const bool loads = scenario.options.engine == Engine::kRemap;
  if (point.of_medium) return loads;
  switch (point.call.call) {
    case Call::kAllocate:  // by the thread that reads a server for those that wait in handlers
      return scenario.on_server() && point.call.for_ever;
    case Call::kMap:
      return loads && point.call.for_ever;
    case Call::kSocket:
    case Call::kConnect:
    case Call::kSend:
    case Call::kReceive:
    case Call::kPoll:
      return loads;
    case Call::kProtect:
    case Call::kControl:
    case Call::kRead:
    case Call::kWrite:
    case Call::kShortWrite:
      return true;
    default:
      return false;
  }
}

/// Of a run that ended so: what is wrong, or "". One that the library may end is as if it had been
/// killed: what it leaves is looked at.
std::string judge_end(const Job& job, const std::string& path, const std::string& end,
                      ServerDesk* desk = nullptr) {
  const bool died = end.ends_with("died of signal " + std::to_string(SIGSEGV)) ||
                    end.ends_with("died of signal " + std::to_string(SIGBUS));
  if (!died || job.point == nullptr || !job.scenario.may_end ||
      !may_end_program(job.scenario, *job.point))
    return end;
  ++job.outcome.fired;
  const auto look = [&] {
    const TestThread here;
    ::alarm(kSecondsMax);
    return Session::check_what_is_left(std::string(job.scenario.scheme) + ":" + path,
                                       job.scenario.options, job.outcome, job.point, desk);
  };
  return desk != nullptr ? desk->run(look) : in_child(look);
}

/// The same on a server of its own, which outlives the run.
std::string run_beside_server(const Job& job) {
  ServerDesk desk;
  const std::string path = "//" + desk.server().address() + "/state";
  if (job.scenario.before != Before::kNothing) {
    std::string problem = in_child([&] { return Session::prepare(job.scenario, path); });
    if (!problem.empty()) return "cannot be prepared: " + problem;
  }
  const std::string end = desk.run([&] { return run_point(job, path, &desk); });
  return judge_end(job, path, end, &desk);
}

std::string run_job(const Job& job, const std::string& path) {
  return job.scenario.on_server() ? run_beside_server(job) : run_point(job, path);
}

struct Way {
  bool of_medium;
  media::FaultKind kind;
  int error;
  bool for_ever;
  Loss loss = Loss::kNone;
};

std::vector<Way> ways_of(Call call) {
  std::vector<int> errors;
  switch (call) {
    case Call::kAllocate:
    case Call::kMap:
    case Call::kRemap:
    case Call::kProtect:
    case Call::kAdvise:
    case Call::kControl:
    case Call::kMembarrier:
      errors = {ENOMEM};
      break;
    case Call::kExtend:
    case Call::kWrite:
      errors = {ENOSPC, EIO};
      break;
    case Call::kFlush:
    case Call::kRead:
    case Call::kInspect:
      errors = {EIO};
      break;
    case Call::kShortWrite:
      errors = {0};
      break;
    case Call::kOpen:
      errors = {EMFILE, EACCES};
      break;
    case Call::kRingSetup:
      errors = {EPERM, ENOMEM};
      break;
    case Call::kRingSubmit:
      errors = {EBUSY, ENOMEM};
      break;
    case Call::kRingLate:
      errors = {EBADF};
      break;
    case Call::kThread:
      errors = {EAGAIN};
      break;
    case Call::kUserfault:
      errors = {EPERM};
      break;
    case Call::kSocket:
      errors = {EMFILE};
      break;
    case Call::kConnect:
      errors = {ECONNREFUSED, ETIMEDOUT};
      break;
    case Call::kSend:
      errors = {EIO, ECONNRESET, ETIMEDOUT};
      break;
    case Call::kReceive:
      errors = {EIO, ECONNRESET, ETIMEDOUT, 0};
      break;
    case Call::kPoll:
      errors = {ENOMEM, 0};
      break;
    case Call::kRingDead:  // a store on such a ring must be opened again: ring_test.cc
    case Call::kCount:
      break;
  }
  std::vector<Way> ways;
  for (const int error : errors)
    for (const bool for_ever : {false, true})
      ways.push_back({false, media::FaultKind::kIo, error, for_ever});
  return ways;
}

std::vector<Way> ways_of_medium() {
  std::vector<Way> ways;
  for (const auto kind : {media::FaultKind::kIo, media::FaultKind::kNoSpace,
                          media::FaultKind::kShort, media::FaultKind::kLate})
    for (const bool for_ever : {false, true}) ways.push_back({true, kind, 0, for_ever});
  return ways;
}

// Before each exchange with the server.
std::vector<Way> ways_to_lose(Call call) {
  if (call != Call::kConnect && call != Call::kSend && call != Call::kReceive) return {};
  std::vector<Way> ways;
  for (const Loss loss : {Loss::kStaysAway, Loss::kComesBackEmpty})
    ways.push_back({false, media::FaultKind::kIo, 0, false, loss});
  return ways;
}

/// The points of a scenario with so many calls.
std::vector<Point> points_of(const Scenario& scenario, const Counts& counts, u64 seed, bool all) {
  std::vector<Point> points;
  const auto sample = [&](u64 kind, u64 count, Call call, const std::vector<Way>& ways) {
    // Of a long run only some calls, drawn anew in each.
    if (ways.empty()) return;
    const u64 calls_max =
        slice_or_whole((scenario.calls_max + 63) / 64, (3 * scenario.calls_max + 3) / 4);
    const u64 step = all ? 1 : (count + calls_max - 1) / calls_max;
    const u64 first = step != 0 ? 1 + mix(seed + kind) % step : 1;
    for (u64 nth = first; nth <= count; nth += step) {
      const u64 drawn = mix(seed + kind * 1'000'003 + nth) % ways.size();
      for (u64 at = all ? 0 : drawn; at < (all ? ways.size() : drawn + 1); ++at) {
        const Way& way = ways[at];
        Point point;
        point.of_medium = way.of_medium;
        point.medium = {.nth = nth, .kind = way.kind, .for_ever = way.for_ever};
        point.call = {.call = call, .nth = nth, .error = way.error, .for_ever = way.for_ever};
        point.loss = way.loss;
        if (wanted_point().empty() || wanted_point() == point.describe()) points.push_back(point);
      }
    }
  };
  for (unsigned i = 0; i < kCalls; ++i)
    sample(i, counts[i], static_cast<Call>(i), ways_of(static_cast<Call>(i)));
  sample(kCalls, counts[kCalls], Call::kCount, ways_of_medium());
  for (unsigned i = 0; i < kCalls && scenario.on_server(); ++i)
    sample(kCalls + 1 + i, counts[i], static_cast<Call>(i), ways_to_lose(static_cast<Call>(i)));
  return points;
}

class Faults : public testing::TestWithParam<Scenario> {
 protected:
  struct Run {
    Point point;
    size_t slot;
    std::unique_ptr<Child> child;
  };

  std::string path(size_t slot) const { return folder_.path("state." + std::to_string(slot)); }

  void restore(size_t slot) const {
    forget(outcome_of(slot));
    if (GetParam().on_server()) return;
    std::filesystem::remove(path(slot));
    if (GetParam().before != Before::kNothing)
      std::filesystem::copy_file(folder_.path("before"), path(slot));
  }

  void start(const Point& point, size_t slot) {
    restore(slot);
    const std::string place = path(slot);
    runs_.push_back({point, slot, std::make_unique<Child>([&] {
                       return run_job({GetParam(), &point, outcome_of(slot)}, place);
                     })});
  }

  /// Of the oldest run; returns its slot.
  size_t finish_oldest() {
    Run run = std::move(runs_.front());
    runs_.pop_front();
    const Outcome& outcome = outcome_of(run.slot);
    const std::string problem = judge_end({GetParam(), &run.point, outcome_of(run.slot)},
                                          path(run.slot), run.child->wait());
    totals_.fired += outcome.fired != 0;
    ++totals_.points;
    if (problem.empty()) return run.slot;
    if (problem.find("signal " + std::to_string(SIGALRM)) != problem.npos) ++totals_.hung;
    else if (problem.find("died of") != problem.npos) ++totals_.crashed;
    else if (outcome.errors == 0 && outcome.fired != 0) ++totals_.silent;
    else if (problem.find("lost") != problem.npos) ++totals_.lost;
    else ++totals_.wrong;
    ADD_FAILURE() << GetParam().name << ", " << run.point.describe() << ": " << problem
                  << "\nagain: PERDURA_SEED=" << seed_ << " PERDURA_FAULTS=all PERDURA_POINT='"
                  << run.point.describe() << "' fault_test --gtest_filter='*/" << GetParam().name
                  << "'";
    return run.slot;
  }

  const TempDir folder_{TempDir::kMemory};
  u64 seed_ = number_from_environment("PERDURA_SEED", std::random_device()());
  std::deque<Run> runs_;
  Totals totals_;
};

TEST_P(Faults, AtEveryCall) {
  const Scenario& scenario = GetParam();
  if (scenario.before != Before::kNothing && !scenario.on_server()) {
    const std::string before = folder_.path("before");
    ASSERT_EQ(in_child([&] { return Session::prepare(scenario, before); }), "");
  }
  auto* counts = static_cast<Counts*>(
      ::mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(counts, MAP_FAILED);
  restore(0);
  const Job counting{scenario, nullptr, outcome_of(0), counts};
  ASSERT_EQ(in_child([&] { return run_job(counting, path(0)); }), "");
  const char* wanted = std::getenv("PERDURA_FAULTS");
  const bool all = wanted != nullptr && std::string(wanted) == "all";
  const std::vector<Point> points = points_of(scenario, *counts, seed_, all);
  ::munmap(counts, sizeof *counts);

  // They wait for threads of their own, and their ends, half of the time.
  const size_t side_by_side =
      std::clamp<size_t>(2 * std::thread::hardware_concurrency(), 2, kSlots);
  size_t started = 0;
  for (const Point& point : points) {
    size_t slot = started++;
    if (slot >= side_by_side) slot = finish_oldest();
    if (totals_.failures() >= 20) break;
    start(point, slot);
  }
  while (!runs_.empty()) finish_oldest();
  totals_.scenarios = 1;
  summary->totals.add(totals_);
  RecordProperty("seed", std::to_string(seed_));
  RecordProperty("points", std::to_string(totals_.fired));
}

INSTANTIATE_TEST_SUITE_P(Scenarios, Faults, testing::ValuesIn(scenarios()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace perdura::test
