// Goal: calls that are their caller's alone are done in its thread, in the order of the log with
// all others, and lost by no crash once they are answered, wherever checkpoints come. Method:
// threads that defer and call; a medium whose barriers take so long that groups have calls of
// several threads, rebuilt as a crash may have left it.
#include <gtest/gtest.h>

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "media/decorator.hpp"
#include "media/record.hpp"
#include "object/object_core.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/object_medium.hpp"

namespace perdura::test {
namespace {

using object::Call;
using object::CoreOptions;
using object::Durability;
using object::ObjectCore;

struct Mixed {
  u64 count;
  u64 mixed;
};
struct Given {
  u64 value;
  pthread_t thread;
};
constexpr u64 mix(u64 mixed, u64 value) {
  return (mixed ^ (value + 0xd1342543de82ef95)) * 0x9e3779b97f4a7c15 + 1;
}

/// While calls are made: what the state was after each, and in whose thread they were done.
struct Journal {
  std::vector<u64> mixed{0};
  std::atomic<u64> in_others{0};
  std::atomic<u64> deferred_in_others{0};
};
Journal* journal = nullptr;  // by whoever executes

void apply(void* state, const Given& given, std::atomic<u64> Journal::* in_others) {
  auto& at = *static_cast<Mixed*>(state);
  ++at.count;
  at.mixed = mix(at.mixed, given.value);
  if (journal == nullptr) return;
  journal->mixed.push_back(at.mixed);
  if (given.thread != ::pthread_self()) ++(journal->*in_others);
}

enum : u16 { kAdd, kTell };

std::vector<object::Function> functions() {
  return {{.name = "add",
           .context_bytes = sizeof(Given),
           .run =
               [](void* state, const void* context, void*) {
                 apply(state, *static_cast<const Given*>(context), &Journal::deferred_in_others);
               }},
          {.name = "tell",
           .context_bytes = sizeof(Given),
           .result_bytes = sizeof(u64),
           .run =
               [](void* state, const void* context, void* result) {
                 apply(state, *static_cast<const Given*>(context), &Journal::in_others);
                 if (result != nullptr)
                   *static_cast<u64*>(result) = static_cast<Mixed*>(state)->count;
               },
           .own_thread = true}};
}

/// Barriers during which others call.
class Slow final : public media::Decorator {
 public:
  using Decorator::Decorator;
  Status barrier(const media::Site& site) override {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    return inner().barrier(site);
  }
};

constexpr u64 kLogLines = 64;
constexpr u64 kMediumBytes = 16384 + kLogLines * kLineBytes;

struct Turns {
  const char* name;
  CoreOptions options;
  u64 callers;
};

class ObjectTurns : public testing::TestWithParam<Turns> {
 protected:
  static ObjectCore::Parts parts(media::Medium& medium, u64 session) {
    ObjectCore::Parts parts;
    parts.medium = medium.linear();
    parts.session = session;
    parts.functions = functions();
    parts.options = GetParam().options;
    return parts;
  }
  std::unique_ptr<media::Medium> open(const std::string& name) const {
    auto opened = value_or_throw(media::open_medium("emu:" + folder_.path(name), {}));
    value_or_throw(opened.medium->grow(kMediumBytes, true));
    return std::move(opened.medium);
  }
  static std::unique_ptr<ObjectCore> create(media::Medium& medium) {
    ObjectCore::Parts made = parts(medium, 1);
    made.head = new_object_head({8192, 12288}, 16384, kLogLines, GetParam().callers);
    const Mixed state{};
    return value_or_throw(ObjectCore::create(std::move(made), std::as_bytes(std::span(&state, 1))));
  }
  static std::unique_ptr<ObjectCore> recover(media::Medium& medium, u64 session) {
    return value_or_throw(ObjectCore::recover(with_heads(parts(medium, session))));
  }
  static Mixed state_of(ObjectCore& core) {
    Mixed state{};
    value_or_throw(core.read([&](const void* at) { state = *static_cast<const Mixed*>(at); }));
    return state;
  }
  /// Each thread's calls, of which every third is its own.
  template <class Told>
  static void call_in_threads(ObjectCore& core, u64 calls, const Told& told) {
    std::vector<std::thread> threads;
    for (u32 thread = 0; thread < kThreads; ++thread)
      threads.emplace_back([&, thread] {
        for (u64 i = 0; i < calls; ++i) {
          const Given given{thread * calls + i, ::pthread_self()};
          const Call call{.function = i % 3 == 0 ? kTell : kAdd,
                          .potid = thread,
                          .domain = i % 8 == 7 ? format::kDomainAll : static_cast<int>(thread),
                          .context = std::as_bytes(std::span(&given, 1))};
          if (i % 50 == 49) value_or_throw(core.checkpoint());
          if (i % 3 != 0) {
            value_or_throw(core.defer(call));
            continue;
          }
          u64 count = 0;
          value_or_throw(core.call(call, &count));
          told(count);
        }
      });
    for (std::thread& each : threads) each.join();
  }
  static constexpr u32 kThreads = 4;

  const TempDir folder_{TempDir::kMemory};
};

TEST_P(ObjectTurns, AreTheCallersOwn) {
  Slow medium(open("object"));
  const auto core = create(medium);
  Journal kept;
  journal = &kept;
  std::mutex mutex;
  std::vector<u64> all;
  call_in_threads(*core, 300, [&](u64 count) {
    const std::lock_guard lock(mutex);
    all.push_back(count);
  });
  const Mixed state = state_of(*core);
  journal = nullptr;
  EXPECT_EQ(state.count, kThreads * 300);
  EXPECT_EQ(kept.in_others, 0u);
  EXPECT_EQ(kept.deferred_in_others == 0, GetParam().options.servers == 0) << "batches";
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end()) << "two calls were told the same";
  EXPECT_EQ(all.size(), kThreads * 100);
}

TEST_P(ObjectTurns, LoseNothingThatWasAnswered) {
  media::Recording recording;
  Journal kept;
  std::mutex mutex;
  std::vector<std::pair<size_t, u64>> answered;  // at so many calls of the medium
  {
    Slow medium(recording.wrap(open("object")));
    const auto core = create(medium);
    journal = &kept;
    answered.emplace_back(recording.size(), 0);
    call_in_threads(*core, 60, [&](u64 count) {
      const size_t at = recording.size();
      const std::lock_guard lock(mutex);
      answered.emplace_back(at, count);
    });
    journal = nullptr;
  }
  const media::History history = recording.history();
  std::mt19937_64 random(2);
  u64 states = 0;
  for (const size_t end : history.crash_points()) {
    if (end < answered.front().first) continue;
    u64 least = 0;
    if (GetParam().options.durability != Durability::kRelaxed)
      for (const auto& [at, count] : answered)
        if (at <= end) least = std::max(least, count);
    for (int variant = 0; variant < 3; ++variant) {
      const u64 salt = random();
      write_file(folder_.path("crashed"), history.after_crash(end, [&](size_t at, u64 atom) {
        if (variant < 2) return variant == 1;
        std::mt19937_64 draw(salt ^ (at << 20) ^ atom);
        return draw() % 2 == 0;
      }));
      const auto medium = open("crashed");
      const Mixed state = state_of(*recover(*medium, 100 + states));
      ++states;
      ASSERT_GE(state.count, least) << "a call that was answered is lost, at call " << end;
      ASSERT_LT(state.count, kept.mixed.size());
      ASSERT_EQ(state.mixed, kept.mixed[state.count]) << "at call " << end;
    }
  }
  EXPECT_GT(states, 50u);
}

INSTANTIATE_TEST_SUITE_P(
    Ways, ObjectTurns,
    testing::Values(
        Turns{"Instants", {.checkpoint_calls = 7, .pending_lines = 16, .servers = 2}, 4},
        Turns{"WithoutHistory", {.checkpoint_calls = 7, .pending_lines = 1024, .servers = 4}, 0},
        Turns{"WhenFull", {.checkpoint_calls = ~u64{0}, .pending_lines = ~u64{0}}, 4},
        Turns{"TwoSteps",
              {.checkpoint_calls = 7, .pending_lines = 16, .durability = Durability::kTwoSteps},
              4},
        Turns{"Relaxed",
              {.checkpoint_calls = 50, .pending_lines = 16, .durability = Durability::kRelaxed},
              4},
        Turns{"Alone", {.checkpoint_calls = 7, .servers = 0}, 4}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace perdura::test
