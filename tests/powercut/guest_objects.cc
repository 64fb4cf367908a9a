// A life of the machine with logged objects: each step of a thread is a call that is deferred and
// one that answers, and the host is told of a step when the second one is durable.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <thread>

#include <perdura/objects.hpp>

#include "guest.hpp"
#include "store/inspect.hpp"
#include "support/ledger.hpp"

namespace perdura::test {

/// What a shard is follows from how many steps it has done. On several pages, so that a cut may
/// leave any part of a checkpoint.
struct Steps {
  static constexpr u64 kShards = Ledger::kShards;
  static constexpr u64 kSlots = 1021;
  struct Shard {
    u64 begun;
    u64 done;
    u64 stamps[kSlots];
  };
  Shard shards[kShards];

  static u64 stamp(u64 shard, u64 number) { return mix(shard * 0x1000003 + number); }
  static Domain of(std::uint32_t shard) noexcept { return Domain(shard); }
  void begin(std::uint32_t shard) noexcept { ++shards[shard].begun; }
  u64 finish(std::uint32_t shard) noexcept {
    const u64 number = ++shards[shard].done;
    shards[shard].stamps[number % kSlots] = stamp(shard, number);
    return number;
  }
  Steps all() const noexcept { return *this; }
};

/// An object that comes and goes.
struct Visit {
  u64 calls;
  u64 sum;
  char more[9000];
  u64 come(std::uint64_t number) noexcept {
    sum += number;
    return ++calls;
  }
  Visit all() const noexcept { return *this; }
};

}  // namespace perdura::test

template <>
struct perdura::Methods<perdura::test::Steps>
    : perdura::MethodList<
          perdura::Deferrable<&perdura::test::Steps::begin, &perdura::test::Steps::of>,
          perdura::Instant<&perdura::test::Steps::finish, &perdura::test::Steps::of>> {};
template <>
struct perdura::Methods<perdura::test::Visit>
    : perdura::MethodList<perdura::Instant<&perdura::test::Visit::come>> {};

namespace perdura::test {
namespace {

constexpr u64 kVisitCalls = 20;  ///< of each visit, numbered from 1

std::string check_file(const std::string& uri, Port& port) {
  struct stat info{};
  if (::stat(kStore, &info) != 0 && errno == ENOENT) return {};
  const Result<store::CheckReport> report = store::check(uri, {});
  // What a cut during creation left has no superblock; the host knows what was acknowledged.
  if (!report) {
    port.say("unchecked " + report.failure().message);
    return {};
  }
  for (const store::Finding& finding : report->findings)
    if (finding.severity == store::Finding::Severity::kDamage)
      return finding.part + ": " + finding.message;
  port.say("checked 0 0");
  return {};
}

/// Log and history belong to the object; the rest changes with each boot.
ObjectOptions choose(Random& random) {
  static constexpr ObjectDurability kDurabilities[] = {
      ObjectDurability::kInstants, ObjectDurability::kInstants, ObjectDurability::kEach,
      ObjectDurability::kTwoSteps, ObjectDurability::kRelaxed};
  ObjectOptions options;
  options.log_bytes = 1 << 15;
  if (setting("OBJECTS") == "last") options.history = ObjectHistory::kLast;
  options.durability = kDurabilities[random() % std::size(kDurabilities)];
  options.checkpoint_calls = 1 + random() % 200;
  options.servers = static_cast<std::uint32_t>(random() % 3);
  options.pending_ms = static_cast<std::uint32_t>(random() % 2 * 5);
  return options;
}

std::string check_shard(const Steps::Shard& shard, u64 number) {
  const std::string name = "shard " + std::to_string(number);
  // The call that a thread deferred last may be there without the one that it made next.
  if (shard.begun != shard.done && shard.begun != shard.done + 1)
    return name + " has begun " + std::to_string(shard.begun) + " steps and done " +
           std::to_string(shard.done);
  const u64 first = shard.done - std::min(shard.done, Steps::kSlots - 1);
  for (u64 step = std::max<u64>(first, 1); step <= shard.done; ++step)
    if (shard.stamps[step % Steps::kSlots] != Steps::stamp(number, step))
      return name + " has no stamp of step " + std::to_string(step) + " of " +
             std::to_string(shard.done);
  return {};
}

/// What a history says of a thread's calls is what they did.
std::string check_caller(Objects& objects, const Object<Steps>& steps, const Steps::Shard& shard,
                         std::uint32_t number) {
  const Caller caller(objects, number + 1);
  const u64 calls = caller.recorded(steps);
  if (calls != shard.begun + shard.done)
    return "of caller " + std::to_string(number + 1) + ' ' + std::to_string(calls) +
           " calls are recorded, and its shard has begun " + std::to_string(shard.begun) +
           " steps and done " + std::to_string(shard.done);
  if (calls != 0 && shard.begun == shard.done && caller.last_answer<u64>(steps) != shard.done)
    return "caller " + std::to_string(number + 1) + " was answered otherwise";
  return {};
}

/// One that was being made or removed is there as its calls made it, or not.
std::string end_visit(Objects& objects) {
  for (const ObjectDescription& each : objects.list()) {
    if (each.name == "steps") continue;
    if (each.name != "visit") return "there is an object '" + each.name + "'";
    {
      const Object<Visit> visit = objects.object<Visit>("visit");
      const Visit found = visit.read<&Visit::all>();
      if (found.calls > kVisitCalls || found.sum != found.calls * (found.calls + 1) / 2)
        return "the visit has " + std::to_string(found.calls) + " calls whose sum is " +
               std::to_string(found.sum);
    }
    objects.remove("visit");
  }
  return {};
}

void pay_visit(Objects& objects, const ObjectOptions& options) {
  {
    Object<Visit> visit = objects.object<Visit>("visit", options);
    for (u64 i = 1; i <= kVisitCalls; ++i) visit.call<&Visit::come>(i);
  }
  objects.remove("visit");
}

/// The port is slow: the host is told of every fourth step.
void work(Objects& objects, Object<Steps> steps, std::uint32_t shard, u64 begun, u64 count,
          const ObjectOptions& options, Port& port, Prover* prover) {
  constexpr u64 kToldStep = 4;
  constexpr u64 kVisitStep = 64;
  const Caller caller(objects, shard + 1);
  for (u64 i = 0; i < count; ++i) {
    if (i != 0 || begun == 0) steps.defer<&Steps::begin>(shard);
    const u64 done = steps.call<&Steps::finish>(shard);
    if (done % kToldStep != 0) continue;
    if (options.durability == ObjectDurability::kRelaxed) steps.sync();
    port.say("step " + std::to_string(shard) + " " + std::to_string(done));
    if (prover == nullptr) continue;
    prover->look();
    if (done % kVisitStep == 0) pay_visit(objects, options);
  }
}

}  // namespace

std::string live_with_objects(const std::string& uri, Random& random, Port& port) {
  const ObjectOptions options = choose(random);
  port.say("checking");
  if (std::string problem = check_file(uri, port); !problem.empty())
    return "the store is damaged: " + problem;

  port.say("opening");
  Objects objects = Objects::open(uri);
  Object<Steps> steps = objects.object<Steps>("steps", options);
  const Steps found = steps.read<&Steps::all>();
  std::string text = "recovered 0";
  for (const Steps::Shard& each : found.shards) (text += ' ') += std::to_string(each.done);
  port.say(text);
  std::string problem = end_visit(objects);
  for (std::uint32_t i = 0; i < Steps::kShards && problem.empty(); ++i) {
    problem = check_shard(found.shards[i], i);
    if (problem.empty() && options.history != ObjectHistory::kNone)
      problem = check_caller(objects, steps, found.shards[i], i);
  }
  if (!problem.empty()) return "the recovered state is no state there was: " + problem;

  Prover prover(port);
  const u64 count = setting("STOP") == "1" ? 200 : ~u64{0};
  const u64 thread_count = 1 + random() % Steps::kShards;
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < thread_count; ++i)
    threads.emplace_back([&, i] {
      const Steps::Shard& shard = found.shards[i];
      work(objects, steps, i, shard.begun - shard.done, count, options, port,
           i == 0 ? &prover : nullptr);
    });
  for (std::thread& each : threads) each.join();
  objects.close();
  if (problem = check_file(uri, port); !problem.empty())
    return "the closed store is damaged: " + problem;
  port.say("closed");
  return {};
}

}  // namespace perdura::test
