// container_worker URI
//
// Adds to the chain of a container and takes from it, a few steps a persistence point, until it is
// killed. Which links there are follows from the number of steps. A second container, at
// URI.second, leads to the root of the first, and so has copies of all. Prints what it finds in the
// second and in the first, then the steps that have become durable in both.
#include <cstdio>
#include <exception>

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

std::string check(const Worked& worked) {
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
  return found == expected ? "" : "the chain has other links than it had";
}

struct Second {
  Worked* worked;
};

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

}  // namespace

PERDURA_TYPE(Worked, chain)
PERDURA_TYPE(Second, worked)

namespace {

std::string found_in(const Container& container, const Worked& worked) {
  const std::string problem = check(worked);
  const HeapAudit audit = container.audit();
  return !problem.empty() ? problem : !audit.clean ? audit.problem : std::to_string(worked.steps);
}

// What the second container had of the first is its own now.
void say_and_destroy(const Container& container, Second& second) {
  if (second.worked == nullptr) return say("0");
  say(found_in(container, *second.worked));
  while (second.worked->chain.first != nullptr) test::pop(second.worked->chain);
  destroy(second.worked);
}

}  // namespace

int main(int, char** arguments) {
  try {
    Options options;
    options.region_limit_bytes = 64 * kMiB;
    options.log_limit_bytes = 2 * kMiB;
    Container second = Container::open(std::string(arguments[1]) + ".second", options);
    auto& leads = second.root<Second>();
    say_and_destroy(second, leads);
    Container container = Container::open(arguments[1], options);
    auto& worked = container.root<Worked>();
    leads.worked = &worked;
    second.point();
    say(found_in(container, worked));
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
