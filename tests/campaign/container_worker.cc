// container_worker URI ENGINE
//
// ENGINE is log, chunks, or aside: chunks that are copied aside while the program goes on.
//
// Adds to the chain of a container and takes from it, a few steps a persistence point, until it is
// killed. Which links there are follows from the number of steps. A second container, beside the
// first, leads to the root of that, and so has copies of all. Prints what it finds in the second
// and in the first, then the steps that have become durable in both. Older versions of a container
// in chunks are looked at first.
#include <cstdio>
#include <exception>

#include "store/inspect.hpp"
#include "support/chain.hpp"
#include "support/ledger.hpp"

namespace {

using namespace perdura;

constexpr u64 kStepsPerPoint = 7;

struct Worked {
  test::ChainRoot chain;
  u64 steps;
};

template <class Push, class Pop>
void do_step(u64 step, Push&& push, Pop&& pop) {
  push(step);
  for (u64 i = 0; i < test::mix(step) % 3; ++i) pop();
}

/// What is wrong, or "".
std::string check(const Container& container, const Worked& worked) {
  std::vector<u64> expected, found;
  for (u64 step = 1; step <= worked.steps; ++step)
    do_step(
        step, [&](u64 number) { expected.push_back(number); },
        [&] {
          if (!expected.empty()) expected.pop_back();
        });
  if (std::string problem = test::check_chain(worked.chain, &found); !problem.empty())
    return problem;
  std::reverse(found.begin(), found.end());
  if (found != expected) return "the chain has other links than it had";
  const HeapAudit audit = container.audit();
  return audit.clean ? "" : audit.problem;
}

struct Second {
  Worked* worked;
};

}  // namespace

PERDURA_TYPE(Worked, chain)
PERDURA_TYPE(Second, worked)

namespace {

std::string check_older(const std::string& uri, Options options) {
  options.create = false;
  // A killed one may not have come to be a store.
  const auto outline = store::outline(uri, {});
  if (!outline || outline->regions.empty()) return {};
  const auto& versions = outline->regions.front().versions;
  for (size_t i = 0; i + 1 < versions.size(); ++i) {
    options.version = versions[i].number;
    Container container = Container::open(uri, options);
    const auto& worked = container.root<Worked>();
    std::string problem = check(container, worked);
    if (problem.empty() && worked.steps % kStepsPerPoint != 0) problem = "a part of a point";
    container.discard();
    if (!problem.empty()) return "version " + std::to_string(options.version) + ": " + problem;
  }
  return {};
}

Options options_for(const std::string& engine) {
  Options options;
  options.region_limit_bytes = 64 * kMiB;
  options.log_limit_bytes = 2 * kMiB;
  if (engine == "log") return options;
  options.engine = Engine::kRemap;
  options.chunk_bytes = 8 << 10;
  options.versions_kept = 3;
  options.over_provisioning = 0;
  if (engine == "aside") options.tracking = Tracking::kProtect;
  return options;
}

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

void say_steps(const Container& container, const Worked& worked) {
  const std::string problem = check(container, worked);
  say(problem.empty() ? std::to_string(worked.steps) : problem);
}

// What the second container had of the first is its own now.
void say_and_destroy(const Container& container, Second& second) {
  if (second.worked == nullptr) return say("0");
  say_steps(container, *second.worked);
  while (second.worked->chain.first != nullptr) test::pop(second.worked->chain);
  destroy(second.worked);
}

}  // namespace

int main(int, char** arguments) {
  try {
    const Options options = options_for(arguments[2]);
    if (const std::string problem = check_older(arguments[1], options); !problem.empty())
      say(problem);
    Container second = Container::open(std::string(arguments[1]) + ".second", options);
    auto& leads = second.root<Second>();
    say_and_destroy(second, leads);
    Container container = Container::open(arguments[1], options);
    auto& worked = container.root<Worked>();
    leads.worked = &worked;
    second.point();
    say_steps(container, worked);
    for (bool waits = false;; waits = !waits) {
      for (u64 i = 0; i < kStepsPerPoint; ++i) {
        ++worked.steps;
        do_step(
            worked.steps, [&](u64 number) { test::push(worked.chain, number); },
            [&] { test::pop(worked.chain); });
      }
      container.point_async();
      if (!waits) continue;
      container.sync();
      second.point();
      say(std::to_string(worked.steps));
    }
  } catch (const std::exception& error) {
    say(error.what());
    return 1;
  }
}
