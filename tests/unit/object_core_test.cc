// Goal: an object is what its calls made it, done once each and in one order, and after a crash it
// is what the calls up to some point made it, which is not before the last one that was answered.
// Method: calls that mix their arguments into a state whose every value tells what was done before
// it; threads; a medium that is rebuilt as a crash may have left it at each of its calls.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <new>
#include <random>
#include <thread>
#include <vector>

#include "media/decorator.hpp"
#include "media/record.hpp"
#include "object/object_core.hpp"
#include "support/files.hpp"
#include "support/filtered_queue.hpp"
#include "support/object_medium.hpp"
#include "support/scheme_names.hpp"

namespace perdura::test {
namespace {

using object::Call;
using object::Function;
using object::ObjectCore;

/// After n calls `mixed` follows from the calls in their order, and tells others from these.
struct State {
  u64 count;
  u64 mixed;
  u64 filler[60];
};
constexpr u64 mix(u64 mixed, u64 value) {
  return (mixed ^ (value + 0xd1342543de82ef95)) * 0x9e3779b97f4a7c15 + 1;
}

/// With a context that takes several lines.
struct Long {
  u64 value;
  u64 rest[40];
};

void apply(void* state, u64 value) {
  auto& at = *static_cast<State*>(state);
  ++at.count;
  at.mixed = mix(at.mixed, value);
}

const Function kFunctions[] = {
    {"add", sizeof(u64), 0,
     [](void* state, const void* context, void*) {
       apply(state, *static_cast<const u64*>(context));
     }},
    {"add_long", sizeof(Long), 0,
     [](void* state, const void* context, void*) {
       const auto& given = *static_cast<const Long*>(context);
       u64 sum = given.value;
       for (const u64 each : given.rest) sum += each - given.value;
       apply(state, sum);
     }},
    {"add_and_tell", sizeof(u64), sizeof(u64),
     [](void* state, const void* context, void* result) {
       apply(state, *static_cast<const u64*>(context));
       if (result != nullptr) *static_cast<u64*>(result) = static_cast<State*>(state)->mixed;
     }},
};
enum : u16 { kAdd, kAddLong, kAddAndTell };

constexpr u64 kLogLines = 256;
constexpr u64 kHeadAt = 0;
constexpr u64 kCopyAt[2] = {8192, 12288};
constexpr u64 kLogAt = 16384;
constexpr u64 kMediumBytes = kLogAt + kLogLines * kLineBytes;
constexpr object::CoreOptions kOptions{.checkpoint_calls = 40, .pending_lines = 64};
/// Nothing but a log that is full makes it write anything.
constexpr object::CoreOptions kOnlyWhenFull{.checkpoint_calls = ~u64{0}, .pending_lines = ~u64{0}};

/// Refuses writes that a test chooses by where they are.
class Refusing final : public media::Decorator {
 public:
  using Refuses = std::function<bool(u64 offset)>;
  Refusing(std::unique_ptr<media::Medium> inner, const Refuses& refuses)
      : Decorator(std::move(inner)), refuses_(refuses) {}
  Status write(u64 offset, media::Bytes data, const media::Site& site) override {
    if (refuses_(offset)) return Failure{Code::kIo, "refused"};
    return inner().write(offset, data, site);
  }
  std::unique_ptr<media::WriteQueue> queue() override {
    return std::make_unique<FilteredQueue>(
        inner().queue(), [this](u64 offset, const media::Site&, const auto& submit) -> Status {
          if (refuses_(offset)) return Failure{Code::kIo, "refused"};
          return submit();
        });
  }

 private:
  const Refuses& refuses_;
};

class ObjectCores : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<media::Medium> open(const std::string& name) const {
    auto opened = value_or_throw(media::open_medium(GetParam() + folder_.path(name), {}));
    value_or_throw(opened.medium->grow(kMediumBytes, true));
    return std::move(opened.medium);
  }
  static ObjectCore::Parts parts(media::Medium& medium, u64 session) {
    ObjectCore::Parts parts;
    parts.medium = medium.linear();
    parts.head_place = kHeadAt;
    parts.session = session;
    parts.functions.assign(std::begin(kFunctions), std::end(kFunctions));
    parts.options = kOptions;
    return parts;
  }
  static std::unique_ptr<ObjectCore> create(media::Medium& medium,
                                            const object::CoreOptions& options = kOptions) {
    const State state{};
    ObjectCore::Parts made = parts(medium, 1);
    made.options = options;
    made.head = new_object_head(kCopyAt, kLogAt, kLogLines);
    return value_or_throw(ObjectCore::create(std::move(made), std::as_bytes(std::span(&state, 1))));
  }
  static std::unique_ptr<ObjectCore> recover(media::Medium& medium, u64 session) {
    return value_or_throw(ObjectCore::recover(with_heads(parts(medium, session))));
  }
  static void defer(ObjectCore& core, u64 value) {
    value_or_throw(core.defer({.function = kAdd, .context = std::as_bytes(std::span(&value, 1))}));
  }
  static void defer_long(ObjectCore& core, u64 value) {
    Long context{};
    context.value = value;
    std::fill(std::begin(context.rest), std::end(context.rest), value);
    value_or_throw(
        core.defer({.function = kAddLong, .context = std::as_bytes(std::span(&context, 1))}));
  }
  static u64 call(ObjectCore& core, u64 value) {
    u64 result = 0;
    value_or_throw(core.call(
        {.function = kAddAndTell, .context = std::as_bytes(std::span(&value, 1))}, &result));
    return result;
  }
  static State state_of(ObjectCore& core) {
    State state{};
    value_or_throw(core.read([&](const void* at) { state = *static_cast<const State*>(at); }));
    return state;
  }

  const TempDir folder_{TempDir::kMemory};
};

TEST_P(ObjectCores, AreWhatTheirCallsMade) {
  const auto medium = open("object");
  u64 mixed = 0;
  u64 count = 0;
  {
    const auto core = create(*medium);
    for (u64 i = 0; i < 1000; ++i) {
      if (i % 3 == 0) defer_long(*core, i);
      else defer(*core, i);
      mixed = mix(mixed, i);
      if (i % 7 == 0) {
        mixed = mix(mixed, 5000 + i);
        EXPECT_EQ(call(*core, 5000 + i), mixed);
        ++count;
      }
      ++count;
    }
    value_or_throw(core->sync());
    EXPECT_GT(core->counts().checkpoints, 10u);
    EXPECT_EQ(core->counts().executed, count);
  }
  for (u64 session = 2; session < 5; ++session) {
    const auto core = recover(*medium, session);
    EXPECT_EQ(state_of(*core).count, count);
    EXPECT_EQ(state_of(*core).mixed, mixed);
    mixed = mix(mixed, session);
    EXPECT_EQ(call(*core, session), mixed);
    ++count;
  }
}

// Each answer is the state after the call: threads' calls are done in one order, in which each
// thread's own follow each other.
TEST_P(ObjectCores, AnswerThreadsInOneOrder) {
  constexpr u64 kThreads = 4;
  const u64 kCalls = GetParam() == std::string("file:") ? 200 : 2000;
  const auto medium = open("object");
  const auto core = create(*medium);
  std::vector<std::vector<u64>> told(kThreads);
  std::vector<std::thread> threads;
  for (u64 thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      for (u64 i = 0; i < kCalls; ++i) {
        if (i % 4 != 0) defer(*core, thread);
        else told[thread].push_back(call(*core, thread));
      }
    });
  for (std::thread& each : threads) each.join();
  const State state = state_of(*core);
  EXPECT_EQ(state.count, kThreads * kCalls);
  EXPECT_EQ(core->counts().executed, kThreads * kCalls);
  std::vector<u64> all;
  for (const auto& each : told) all.insert(all.end(), each.begin(), each.end());
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end()) << "two calls were told the same";
  EXPECT_EQ(all.size(), kThreads * kCalls / 4);
}

// Those who have claimed a place in a log that is full wait for room, and others for them.
TEST_P(ObjectCores, ThreadsThatFillTheLogGoOn) {
  constexpr u64 kThreads = 4;
  constexpr u64 kCalls = 400;
  const Refusing::Refuses slowly = [](u64) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    return false;
  };
  Refusing medium(open("object"), slowly);
  const auto core = create(medium, kOnlyWhenFull);
  std::vector<std::thread> threads;
  for (u64 thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      for (u64 i = 0; i < kCalls; ++i) {
        if (i % 16 == thread) call(*core, i);
        else defer_long(*core, i);
      }
    });
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(state_of(*core).count, kThreads * kCalls);
}

// What was called has happened all the same, until there is no log left.
TEST_P(ObjectCores, ACheckpointThatFailsFailsNoCall) {
  Refusing::Refuses refuses = [](u64) { return false; };
  Refusing medium(open("object"), refuses);
  u64 mixed = 0;
  u64 count = 0;
  {
    const auto core = create(medium);
    refuses = [](u64 offset) { return offset < kLogAt; };
    for (; count < 100; ++count) {
      mixed = mix(mixed, count);
      EXPECT_EQ(call(*core, count), mixed);
    }
    EXPECT_EQ(core->counts().checkpoints, 2u) << "those of its creation";
    refuses = [](u64) { return false; };
    for (; count < 300; ++count) {
      mixed = mix(mixed, count);
      EXPECT_EQ(call(*core, count), mixed);
    }
    EXPECT_GT(core->counts().checkpoints, 5u);
    refuses = [](u64 offset) { return offset < kLogAt; };
    try {
      for (;; ++count) {
        call(*core, count);
        mixed = mix(mixed, count);
        ASSERT_LT(count, 300 + kLogLines);
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kIo);
    }
    EXPECT_THROW(defer(*core, 1), Error);
    EXPECT_THROW(state_of(*core), Error);
  }
  refuses = [](u64) { return false; };
  const State state = state_of(*recover(medium, 2));
  EXPECT_EQ(state.count, count);
  EXPECT_EQ(state.mixed, mixed);
}

/// Writes of heads fail from the nth on: of that one nothing is there, or all.
class FailingHead final : public media::Decorator {
 public:
  FailingHead(std::unique_ptr<media::Medium> inner, bool is_there)
      : Decorator(std::move(inner)), is_there_(is_there) {}
  void fail_from(u64 nth) { nth_ = writes_ + nth; }
  void heal() { nth_ = ~u64{0}; }
  Status write(u64 offset, media::Bytes data, const media::Site& site) override {
    if (offset < kCopyAt[0]) ++writes_;
    const bool fails = offset < kCopyAt[0] && writes_ >= nth_;
    if (!fails || (is_there_ && writes_ == nth_)) PERDURA_TRY(inner().write(offset, data, site));
    return fails ? Status(Failure{Code::kIo, "failed"}) : Status{};
  }

 private:
  const bool is_there_;
  u64 writes_ = 0;
  u64 nth_ = ~u64{0};
};

// Calls that were in no log when the checkpoint was tried: recovery goes on from the head that is
// found, so no group may begin before that and end behind it.
TEST_P(ObjectCores, WhatIsSyncedBehindACheckpointThatFailedIsThere) {
  object::CoreOptions relaxed = kOptions;
  relaxed.durability = object::Durability::kRelaxed;
  for (const bool is_there : {false, true})
    for (u64 nth = 1; nth <= 8; ++nth) {
      const bool heals = nth > 4;
      SCOPED_TRACE(testing::Message() << "write " << nth << (is_there ? " is there" : " is not"));
      FailingHead medium(open((is_there ? "there-" : "not-") + std::to_string(nth)), is_there);
      u64 mixed = 0, count = 0;
      {
        const auto core = create(medium, relaxed);
        const auto call_some = [&](u64 end) {
          for (; count < end; ++count) {
            mixed = mix(mixed, count);
            EXPECT_EQ(call(*core, count), mixed);
          }
        };
        call_some(kOptions.checkpoint_calls - 1);
        medium.fail_from((nth - 1) % 4 + 1);
        call_some(2 * kOptions.checkpoint_calls + 5);
        value_or_throw(core->sync());
        if (heals) {
          medium.heal();
          call_some(3 * kOptions.checkpoint_calls);
          value_or_throw(core->sync());
        }
      }
      medium.heal();
      const State state = state_of(*recover(medium, 2));
      EXPECT_EQ(state.count, count);
      EXPECT_EQ(state.mixed, mixed);
    }
}

// Who waits while it is closed does not find the medium again, which may have gone.
TEST_P(ObjectCores, WhatIsClosedTouchesNoMedium) {
  std::atomic<bool> closing{false};
  std::atomic<bool> closed{false};
  std::atomic<int> later{0};
  const Refusing::Refuses slowly = [&](u64) {
    if (closed) ++later;
    if (closing.exchange(true)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return false;
  };
  for (int round = 0; round < 20; ++round) {
    closed = false;
    Refusing medium(open("object"), slowly);
    const auto core = create(medium);
    closing = false;
    std::thread other([&] {
      while (!closing) std::this_thread::yield();
      (void)core->checkpoint();
    });
    value_or_throw(core->close());
    closed = true;
    other.join();
  }
  EXPECT_EQ(later, 0);
}

// Also those end that wait for room, or for others who do.
TEST_P(ObjectCores, AFullLogThatIsNotFreedEndsAllCalls) {
  for (u64 round = 0; round < 50; ++round) {
    std::atomic<u64> checkpoints{0};
    const Refusing::Refuses seldom = [&](u64 offset) {
      if (offset >= kLogAt) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      return ++checkpoints % 8 == 7;
    };
    Refusing medium(open("object"), seldom);
    const auto core = create(medium, kOnlyWhenFull);
    std::vector<std::thread> threads;
    for (u64 thread = 0; thread < 4; ++thread)
      threads.emplace_back([&, thread] {
        u64 result = 0;
        const Call call{.function = kAddAndTell, .context = std::as_bytes(std::span(&thread, 1))};
        while (core->call(call, &result)) EXPECT_NE(result, 0u);
      });
    for (std::thread& each : threads) each.join();
    EXPECT_FALSE(core->sync());
  }
}

// A group that could not be written may be durable or not, so nothing is executed behind it.
TEST_P(ObjectCores, AGroupThatFailsIsTheLastOne) {
  Refusing::Refuses refuses = [](u64) { return false; };
  Refusing medium(open("object"), refuses);
  u64 mixed = 0;
  {
    const auto core = create(medium);
    for (u64 i = 0; i < 10; ++i) mixed = mix(mixed, i), call(*core, i);
    refuses = [](u64 offset) { return offset >= kLogAt; };
    EXPECT_THROW(call(*core, 10), Error);
    refuses = [](u64) { return false; };
    EXPECT_THROW(call(*core, 11), Error);
    EXPECT_THROW(value_or_throw(core->checkpoint()), Error);
  }
  const State state = state_of(*recover(medium, 2));
  EXPECT_EQ(state.count, 10u);
  EXPECT_EQ(state.mixed, mixed);
}

// A write that finds no memory is one that failed: nobody who waited is answered later, and nobody
// waits for who has gone.
TEST_P(ObjectCores, WantOfMemoryIsTheLastThing) {
  for (const u64 servers : {0, 1}) {
    for (const bool of_log : {true, false}) {
      Refusing::Refuses refuses = [](u64) { return false; };
      Refusing medium(open("object" + std::to_string(servers) + (of_log ? "l" : "c")), refuses);
      object::CoreOptions options = kOptions;
      options.servers = static_cast<u32>(servers);
      const auto core = create(medium, options);
      call(*core, 1);
      refuses = [of_log](u64 offset) -> bool {
        if ((offset >= kLogAt) == of_log) throw std::bad_alloc();
        return false;
      };
      const auto fails = [&](u64 calls) {
        u64 result = 0;
        for (u64 i = 0; i < calls; ++i)
          if (!core->call({.function = kAddAndTell, .context = std::as_bytes(std::span(&i, 1))},
                          &result))
            return true;
        return false;
      };
      EXPECT_EQ(fails(100), of_log) << "a checkpoint that fails fails no call";
      EXPECT_TRUE(fails(kLogLines)) << "until there is no log left";
      refuses = [](u64) { return false; };
      std::thread other([&] { EXPECT_FALSE(core->sync()); });
      other.join();
      EXPECT_FALSE(core->close());
    }
  }
}

// The other slot leads to all of them, or it is said that some are gone.
TEST_P(ObjectCores, ADamagedHeadLosesNoCallInSilence) {
  for (const u64 calls : {0, 10, 50, 90, 400}) {
    for (u64 byte = 0; byte < sizeof(format::ObjectHead); byte += 24) {
      const std::string name = "object" + std::to_string(calls) + "-" + std::to_string(byte);
      u64 newest = 0;
      for (u64 session = 1; session < 3; ++session) {
        const auto medium = open(name);
        const auto core = session == 1 ? create(*medium) : recover(*medium, session);
        for (u64 i = 0; i < calls; ++i) call(*core, i);
        newest = core->head().sequence % 2;
      }
      flip_bit(folder_.path(name), kHeadAt + newest * format::kObjectHeadBytes + byte, byte % 8);
      const auto medium = open(name);
      try {
        EXPECT_EQ(state_of(*recover(*medium, 3)).count, 2 * calls) << calls << ", " << byte;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::kCorrupt) << error.what();
      }
      std::filesystem::remove(folder_.path(name));
    }
  }
}

// Of the last group nothing tells damage from a crash before it was durable; before it something is
// missing.
TEST_P(ObjectCores, DamageToTheLastGroupAloneIsTakenForACrash) {
  constexpr u64 kCalls = 12;
  const std::string name = "object";
  {
    const auto medium = open(name);
    const auto core = create(*medium, kOnlyWhenFull);
    for (u64 i = 0; i < kCalls; ++i) call(*core, i);
  }
  const FileBytes whole = read_file(folder_.path(name));
  for (u64 group = 0; group < kCalls; ++group) {
    const u64 line = (object::ObjectLog::kFirstIndex + group) % kLogLines;
    for (u64 byte = 0; byte < kLineBytes; byte += 5) {
      FileBytes damaged = whole;
      damaged[kLogAt + line * kLineBytes + byte] ^= std::byte{1} << (byte % 8);
      write_file(folder_.path(name), damaged);
      const auto medium = open(name);
      const auto core = ObjectCore::recover(with_heads(parts(*medium, 2)));
      ASSERT_EQ(static_cast<bool>(core), group + 1 == kCalls) << group << ", " << byte;
      if (core) {
        EXPECT_EQ(state_of(**core).count, kCalls - 1);
      } else {
        EXPECT_EQ(core.failure().code, Code::kCorrupt) << core.failure().message;
      }
    }
  }
}

// What is lost from some group on to the end of the log leaves nothing whole behind it that could
// tell; what leaves the last one whole does.
TEST_P(ObjectCores, DamageThatReachesToTheLastGroupTakesAllThatItReaches) {
  constexpr u64 kCalls = 12;
  const std::string name = "object";
  {
    const auto medium = open(name);
    const auto core = create(*medium, kOnlyWhenFull);
    for (u64 i = 0; i < kCalls; ++i) call(*core, i);
  }
  const FileBytes whole = read_file(folder_.path(name));
  const auto line_at = [&](FileBytes& bytes, u64 group) {
    return bytes.data() + kLogAt + (object::ObjectLog::kFirstIndex + group) * kLineBytes;
  };
  for (u64 first = 0; first + 1 < kCalls; ++first) {
    for (const u64 kept : {0, 1}) {
      FileBytes damaged = whole;
      std::memset(line_at(damaged, first), 0, (kCalls - kept - first) * kLineBytes);
      write_file(folder_.path(name), damaged);
      const auto medium = open(name);
      const auto core = ObjectCore::recover(with_heads(parts(*medium, 2)));
      ASSERT_EQ(static_cast<bool>(core), kept == 0) << first;
      if (core) {
        EXPECT_EQ(state_of(**core).count, first);
      } else {
        EXPECT_EQ(core.failure().code, Code::kCorrupt) << core.failure().message;
      }
    }
  }
}

TEST_P(ObjectCores, AreAPrefixOfTheirCallsAfterAnyCrash) {
  media::Recording recording;
  std::vector<u64> mixed{0};  // after so many calls
  struct Session {
    size_t until;  // calls of the medium
    std::vector<u64> mixed;
  };
  std::vector<Session> sessions;
  std::vector<std::pair<size_t, u64>> answered;  // at so many calls of the medium
  {
    const auto medium = recording.wrap(open("object"));
    auto core = create(*medium);
    std::mt19937_64 random(1);
    answered.emplace_back(recording.size(), 0);
    const auto note = [&](u64 value) { mixed.push_back(mix(mixed.back(), value)); };
    for (u64 i = 0; i < 300; ++i) {
      const u64 value = random();
      switch (random() % 4) {
        case 0:
          note(value);
          call(*core, value);
          answered.emplace_back(recording.size(), mixed.size() - 1);
          break;
        case 1:
          note(value);
          defer_long(*core, value);
          break;
        default:
          note(value);
          defer(*core, value);
      }
      if (i % 60 == 59) {
        // As after the death of the process: what was deferred last is lost.
        sessions.push_back({recording.size(), mixed});
        core = recover(*medium, 2 + i / 60);
        const State state = state_of(*core);
        ASSERT_LT(state.count, mixed.size());
        mixed.resize(state.count + 1);
      }
    }
  }
  sessions.push_back({~size_t{0}, mixed});
  const media::History history = recording.history();
  u64 states = 0;
  const auto check = [&](size_t end, const FileBytes& image) {
    write_file(folder_.path("crashed"), image);
    const auto medium = open("crashed");
    const State state = state_of(*recover(*medium, 100 + states));
    ++states;
    ASSERT_GE(state.count, noted_by(answered, end))
        << "a call that was answered is lost, at call " << end;
    const auto& made = std::ranges::find_if(sessions, [end](const Session& each) {
                         return end <= each.until;
                       })->mixed;
    ASSERT_LT(state.count, made.size());
    ASSERT_EQ(state.mixed, made[state.count]) << "at call " << end;
  };
  for_each_crash(history, answered.front().first, 8, check, [] { return !HasFatalFailure(); });
  EXPECT_GT(states, 500u);
}

INSTANTIATE_TEST_SUITE_P(Media, ObjectCores, testing::Values("emu:", "file:"), name_of_scheme);

}  // namespace
}  // namespace perdura::test
