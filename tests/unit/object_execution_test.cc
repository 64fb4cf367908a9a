// Goal: whatever the ways in which calls are executed and become durable, an object is what its
// calls made it one after the other, and after a crash what the calls up to some point made it.
// Method: calls whose order in a domain shows in the state, held against a model that does them at
// once; threads that share the work; a medium that is rebuilt as a crash may have left it.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

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
using object::Function;
using object::ObjectCore;

constexpr u64 kLanes = 4;

/// Of each lane its calls in their order, and the sum of what was added.
struct Lanes {
  u64 counts[kLanes];
  u64 mixed[kLanes];
  u64 sums[kLanes];
  bool operator==(const Lanes&) const = default;
};

constexpr u64 mix(u64 mixed, u64 value) {
  return (mixed ^ (value + 0xd1342543de82ef95)) * 0x9e3779b97f4a7c15 + 1;
}

/// What a call is given; its lane is its domain.
struct Step {
  u64 lane;
  u64 value;
};
void do_in_lane(Lanes& lanes, u64 lane, u64 value) {
  ++lanes.counts[lane];
  lanes.mixed[lane] = mix(lanes.mixed[lane], value);
}
const Step& step_at(const void* context) { return *static_cast<const Step*>(context); }

enum : u16 { kDo, kTell, kAdd, kDoAll, kFunctions };

std::vector<Function> functions() {
  std::vector<Function> all(kFunctions);
  all[kDo] = {.name = "do",
              .context_bytes = sizeof(Step),
              .run = [](void* state, const void* context, void*) {
                do_in_lane(*static_cast<Lanes*>(state), step_at(context).lane,
                           step_at(context).value);
              }};
  all[kTell] = {.name = "tell",
                .context_bytes = sizeof(Step),
                .result_bytes = sizeof(u64),
                .run = [](void* state, const void* context, void* result) {
                  auto& lanes = *static_cast<Lanes*>(state);
                  do_in_lane(lanes, step_at(context).lane, step_at(context).value);
                  if (result != nullptr)
                    std::memcpy(result, &lanes.mixed[step_at(context).lane], sizeof(u64));
                }};
  all[kAdd] = {.name = "add",
               .context_bytes = sizeof(Step),
               .run =
                   [](void* state, const void* context, void*) {
                     static_cast<Lanes*>(state)->sums[step_at(context).lane] +=
                         step_at(context).value;
                   },
               .join =
                   [](void* first, const void* next) {
                     static_cast<Step*>(first)->value += step_at(next).value;
                     return true;
                   },
               .commutes = true};
  all[kDoAll] = {.name = "do_all",
                 .context_bytes = sizeof(Step),
                 .run = [](void* state, const void* context, void*) {
                   for (u64 lane = 0; lane < kLanes; ++lane)
                     do_in_lane(*static_cast<Lanes*>(state), lane, step_at(context).value);
                 }};
  return all;
}

struct Way {
  const char* name;
  const char* medium;
  CoreOptions options;
  u64 callers = 0;
};

constexpr u64 kLogLines = 256;
constexpr u64 kCallers = 4;
constexpr u64 kCopyAt[2] = {8192, 12288};
constexpr u64 kLogAt = 16384;
constexpr u64 kMediumBytes = kLogAt + kLogLines * kLineBytes;

ObjectCore::Parts parts_of(media::Medium& medium, u64 session, const Way& way) {
  ObjectCore::Parts parts;
  parts.medium = medium.linear();
  parts.session = session;
  parts.functions = functions();
  parts.options = way.options;
  return parts;
}

std::unique_ptr<ObjectCore> create(media::Medium& medium, const Way& way) {
  ObjectCore::Parts made = parts_of(medium, 1, way);
  made.head = new_object_head(kCopyAt, kLogAt, kLogLines, way.callers);
  const Lanes state{};
  return value_or_throw(ObjectCore::create(std::move(made), std::as_bytes(std::span(&state, 1))));
}

Result<std::unique_ptr<ObjectCore>> try_recover(media::Medium& medium, u64 session,
                                                const Way& way) {
  return ObjectCore::recover(with_heads(parts_of(medium, session, way)));
}
std::unique_ptr<ObjectCore> recover(media::Medium& medium, u64 session, const Way& way) {
  return value_or_throw(try_recover(medium, session, way));
}

/// Calls the core, and does the same at once to a model.
class Caller {
 public:
  Caller(ObjectCore& core, u32 potid) : core_(core), potid_(potid) {}

  void defer(u16 function, u64 lane, u64 value) {
    const Step step{lane, value};
    value_or_throw(core_.defer(call_of(function, step)));
    note(function, step);
  }
  u64 tell(u64 lane, u64 value) {
    const Step step{lane, value};
    u64 told = 0;
    value_or_throw(core_.call(call_of(kTell, step), &told));
    note(kTell, step);
    return told;
  }
  const Lanes& model() const { return model_; }
  void set_model(const Lanes& model) { model_ = model; }

 private:
  Call call_of(u16 function, const Step& step) const {
    return {
        .function = function,
        .potid = potid_,
        .domain = function == kDoAll ? format::kDomainAll : static_cast<std::int32_t>(step.lane),
        .context = std::as_bytes(std::span(&step, 1))};
  }
  void note(u16 function, const Step& step) {
    static const std::vector<Function> all = functions();
    all[function].run(&model_, &step, nullptr);
  }

  ObjectCore& core_;
  const u32 potid_;
  Lanes model_{};
};

Lanes state_of(ObjectCore& core) {
  Lanes state{};
  value_or_throw(core.read([&](const void* at) { state = *static_cast<const Lanes*>(at); }));
  return state;
}

class ObjectExecution : public testing::TestWithParam<Way> {
 protected:
  std::unique_ptr<media::Medium> open(const std::string& name) const {
    auto opened = value_or_throw(media::open_medium(GetParam().medium + folder_.path(name), {}));
    value_or_throw(opened.medium->grow(kMediumBytes, true));
    return std::move(opened.medium);
  }

  const TempDir folder_{TempDir::kMemory};
};

void call_something(Caller& caller, std::mt19937_64& random, u64 lane) {
  const u64 value = random();
  switch (random() % 8) {
    case 0:
      EXPECT_EQ(caller.tell(lane, value), caller.model().mixed[lane]);
      break;
    case 1:
      caller.defer(kDoAll, 0, value);
      break;
    case 2:
    case 3:
    case 4:
      caller.defer(kAdd, lane, value % 1000);
      break;
    default:
      caller.defer(kDo, lane, value);
  }
}

TEST_P(ObjectExecution, IsThatOfTheCallsOneAfterTheOther) {
  const auto medium = open("object");
  std::mt19937_64 random(1);
  Lanes model{};
  for (u64 session = 1; session < 4; ++session) {
    const auto core =
        session == 1 ? create(*medium, GetParam()) : recover(*medium, session, GetParam());
    EXPECT_EQ(state_of(*core), model) << session;
    Caller caller(*core, 1);
    caller.set_model(model);
    for (u64 i = 0; i < 2000; ++i) call_something(caller, random, random() % kLanes);
    value_or_throw(core->sync());
    model = caller.model();
    EXPECT_EQ(state_of(*core), model);
    EXPECT_GT(core->counts().executed, 1900u);
  }
}

// Each thread has a lane to itself, whose calls follow each other; those on all lanes are
// anybody's.
TEST_P(ObjectExecution, OfThreadsKeepsTheOrderOfEachDomain) {
  const u64 calls = GetParam().medium == std::string("file:") ? 300 : 4000;
  const auto medium = open("object");
  const auto core = create(*medium, GetParam());
  std::vector<Lanes> models(kLanes);
  std::vector<std::thread> threads;
  for (u64 lane = 0; lane < kLanes; ++lane)
    threads.emplace_back([&, lane] {
      std::mt19937_64 random(lane);
      Caller caller(*core, static_cast<u32>(lane));
      for (u64 i = 0; i < calls; ++i) {
        if (i % 64 == 0) {
          EXPECT_EQ(caller.tell(lane, i), caller.model().mixed[lane]);
        } else if (i % 3 == 0) {
          caller.defer(kAdd, lane, i);
        } else {
          caller.defer(kDo, lane, random());
        }
      }
      models[lane] = caller.model();
    });
  for (std::thread& each : threads) each.join();
  const Lanes state = state_of(*core);
  for (u64 lane = 0; lane < kLanes; ++lane) {
    EXPECT_EQ(state.counts[lane], models[lane].counts[lane]);
    EXPECT_EQ(state.mixed[lane], models[lane].mixed[lane]);
    EXPECT_EQ(state.sums[lane], models[lane].sums[lane]);
  }
  EXPECT_EQ(core->counts().executed, kLanes * calls);
}

// Threads add to one sum and to all lanes: none is lost or done twice, whoever merges what.
TEST_P(ObjectExecution, OfThreadsLosesNoCallThatIsMerged) {
  const u64 calls = GetParam().medium == std::string("file:") ? 1000 : 10'000;
  const auto medium = open("object");
  const auto core = create(*medium, GetParam());
  std::vector<std::thread> threads;
  for (u64 thread = 0; thread < 3; ++thread)
    threads.emplace_back([&, thread] {
      Caller caller(*core, static_cast<u32>(thread));
      for (u64 i = 0; i < calls; ++i) {
        if (i % 500 == 499) caller.defer(kDoAll, 0, 1);
        else if (i % 300 == 299) value_or_throw(core->sync());
        else caller.defer(kAdd, i % 50 == 0 ? thread : 0, 1);
      }
    });
  for (std::thread& each : threads) each.join();
  const Lanes state = state_of(*core);
  u64 synced = 0;
  u64 all = 0;
  for (u64 i = 0; i < calls; ++i) {
    if (i % 500 == 499) ++all;
    else if (i % 300 == 299) ++synced;
  }
  EXPECT_EQ(state.counts[0], 3 * all);
  EXPECT_EQ(state.sums[0] + state.sums[1] + state.sums[2], 3 * (calls - all - synced));
}

TEST_P(ObjectExecution, IsUpToSomeCallAfterAnyCrash) {
  media::Recording recording;
  const bool relaxed = GetParam().options.durability == Durability::kRelaxed;
  std::vector<Lanes> made{{}};  // after so many calls
  struct Session {
    size_t until;  // calls of the medium
    std::vector<Lanes> made;
  };
  std::vector<Session> sessions;
  std::vector<std::pair<size_t, u64>> answered;  // at so many calls of the medium
  {
    const auto medium = recording.wrap(open("object"));
    auto core = create(*medium, GetParam());
    std::mt19937_64 random(1);
    answered.emplace_back(recording.size(), 0);
    for (u64 session = 2; session < 5; ++session) {
      Caller caller(*core, 1);
      caller.set_model(made.back());
      for (u64 i = 0; i < 120; ++i) {
        const u64 lane = random() % 2;
        const u64 what = random() % 16;
        if (what == 0) caller.defer(kDoAll, 0, random());
        else if (what < 4) caller.tell(lane, random());
        else if (what < 12) caller.defer(kAdd, lane, random() % 1000);
        else caller.defer(kDo, lane, random());
        made.push_back(caller.model());
        if (i % 40 == 39) value_or_throw(core->sync());
        if (i % 40 == 39 || (what != 0 && what < 4 && !relaxed))
          answered.emplace_back(recording.size(), made.size() - 1);
      }
      // As after the death of the process: what was deferred last is lost.
      for (u64 i = 0; i < 10; ++i) {
        caller.defer(kDo, 0, random());
        made.push_back(caller.model());
      }
      sessions.push_back({recording.size(), made});
      core = recover(*medium, session, GetParam());
      const auto found = std::ranges::find(made, state_of(*core));
      ASSERT_NE(found, made.end());
      made.erase(found + 1, made.end());
    }
  }
  sessions.push_back({~size_t{0}, made});
  const media::History history = recording.history();
  u64 states = 0;
  const auto check = [&](size_t end, const FileBytes& image) {
    write_file(folder_.path("crashed"), image);
    const auto medium = open("crashed");
    const Lanes state = state_of(*recover(*medium, 100 + states, GetParam()));
    ++states;
    const auto& all = std::ranges::find_if(sessions, [end](const Session& each) {
                        return end <= each.until;
                      })->made;
    const auto least = all.begin() + static_cast<std::ptrdiff_t>(noted_by(answered, end));
    ASSERT_NE(std::find(least, all.end(), state), all.end())
        << "at call " << end << ", state " << states;
  };
  for_each_crash(history, answered.front().first, 6, check, [] { return !HasFatalFailure(); });
  EXPECT_GT(states, 200u);
}

// Either copy, and the log since, are the object.
TEST_P(ObjectExecution, GoesOnWhereACopyIsDamaged) {
  const bool relaxed = GetParam().options.durability == Durability::kRelaxed;
  for (const u64 calls : {1, 30, 95, 300}) {
    for (const bool newest : {true, false}) {
      const std::string name = "object" + std::to_string(calls) + (newest ? "n" : "o");
      Lanes model{};
      u64 copy = 0;
      {
        const auto medium = open(name);
        const auto core = create(*medium, GetParam());
        Caller caller(*core, 1);
        for (u64 i = 0; i < calls; ++i) caller.tell(i % kLanes, i);
        value_or_throw(core->sync());
        model = caller.model();
        copy = core->head().copy;
      }
      flip_bit(folder_.path(name), kCopyAt[newest ? copy : 1 - copy] + 40, 3);
      const auto medium = open(name);
      if (relaxed && newest && calls != 1 && calls != 30) {
        const auto opened = try_recover(*medium, 2, GetParam());
        ASSERT_FALSE(opened) << "the log has not all that the other copy lacks";
        EXPECT_EQ(opened.failure().code, Code::kCorrupt);
        continue;
      }
      const auto core = recover(*medium, 2, GetParam());
      EXPECT_EQ(core->was_repaired(), newest) << name;
      EXPECT_EQ(state_of(*core), model) << name;
      EXPECT_EQ(state_of(*recover(*medium, 3, GetParam())), model) << "repaired for good";
    }
  }
}

constexpr CoreOptions options_with(u32 servers, Durability durability) {
  return {.checkpoint_calls = 40,
          .pending_lines = 64,
          .pending_calls = 50,
          .servers = servers,
          .durability = durability};
}

const Way kWays[] = {
    {"emu_one", "emu:", options_with(1, Durability::kInstants)},
    {"file_one", "file:", options_with(1, Durability::kInstants)},
    {"emu_domains", "emu:", options_with(4, Durability::kInstants)},
    {"file_domains", "file:", options_with(4, Durability::kInstants)},
    {"emu_own", "emu:", options_with(0, Durability::kInstants)},
    {"file_own", "file:", options_with(0, Durability::kInstants)},
    {"emu_each", "emu:", options_with(2, Durability::kEach)},
    {"emu_own_each", "emu:", options_with(0, Durability::kEach)},
    {"emu_two_steps", "emu:", options_with(2, Durability::kTwoSteps)},
    {"file_two_steps", "file:", options_with(2, Durability::kTwoSteps)},
    {"emu_relaxed", "emu:", options_with(2, Durability::kRelaxed)},
    {"file_relaxed", "file:", options_with(2, Durability::kRelaxed)},
    {"emu_own_relaxed", "emu:", options_with(0, Durability::kRelaxed)},
    {"file_own_relaxed", "file:", options_with(0, Durability::kRelaxed)},
    {"emu_history", "emu:", options_with(2, Durability::kInstants), kCallers},
    {"file_history", "file:", options_with(0, Durability::kInstants), kCallers},
};

INSTANTIATE_TEST_SUITE_P(Ways, ObjectExecution, testing::ValuesIn(kWays),
                         [](const auto& way) { return std::string(way.param.name); });

}  // namespace
}  // namespace perdura::test
