// Goal: a checkpoint of an object writes what its methods have reported and what the older copy
// lacks besides, and nothing else; what was not reported is in it all the same, or is found; and
// after any crash, also one in which attempts at checkpoints had failed, the object is what a
// prefix of its calls made it.
// Method: calls that change drawn parts of a state of several pages, with a sum of the state after
// each call; writes that are counted; a medium whose calls fail, and one that is rebuilt as a crash
// may have left it at each of its calls.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "base/checksum.hpp"
#include "media/fault.hpp"
#include "media/record.hpp"
#include "object/object_core.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/object_medium.hpp"
#include "support/scheme_names.hpp"

namespace perdura::test {
namespace {

using object::Function;
using object::ObjectChanges;
using object::ObjectCore;

/// Eight pages and a part of one, which ends in a part of a line.
struct State {
  static constexpr u64 kWords = 8 * kPageBytes / sizeof(u64) + 85;
  u64 count;
  u64 words[kWords - 1];
};

struct Fill {
  u64 first;  ///< word, from 1
  u64 count;
  u64 value;
};

void fill(void* state, const Fill& what) {
  auto* const words = static_cast<u64*>(state);
  ++words[0];
  for (u64 i = 0; i < what.count; ++i) words[what.first + i] = what.value + i;
}

const Function kFunctions[] = {
    {.name = "fill",
     .context_bytes = sizeof(Fill),
     .run =
         [](void* state, const void* context, void*) {
           const Fill& what = *static_cast<const Fill*>(context);
           fill(state, what);
           ObjectChanges::report(state, sizeof(u64));
           ObjectChanges::report(static_cast<u64*>(state) + what.first, what.count * sizeof(u64));
         },
     .reports = true},
    {.name = "fill_silently",
     .context_bytes = sizeof(Fill),
     .run = [](void* state, const void* context,
               void*) { fill(state, *static_cast<const Fill*>(context)); }},
    {.name = "lie",
     .context_bytes = sizeof(Fill),
     .run =
         [](void* state, const void* context, void*) {
           fill(state, *static_cast<const Fill*>(context));
           ObjectChanges::report(state, sizeof(u64));
         },
     .reports = true},
};
enum : u16 { kFill, kFillSilently, kLie };

constexpr u64 kImagePages = 10;
constexpr u64 kLogLines = 1024;
constexpr u64 kCopyAt[2] = {2 * kPageBytes, (2 + kImagePages) * kPageBytes};
constexpr u64 kLogAt = (2 + 2 * kImagePages) * kPageBytes;
constexpr u64 kMediumBytes = kLogAt + kLogLines * kLineBytes;
/// Checkpoints are the test's alone.
constexpr object::CoreOptions kOptions{.checkpoint_calls = ~u64{0}, .pending_lines = 256};

class ObjectChangesTest : public testing::TestWithParam<const char*> {
 protected:
  bool is_nvm() const { return GetParam() == std::string("emu:"); }
  std::unique_ptr<media::Medium> open(const std::string& name) const {
    auto opened = value_or_throw(media::open_medium(GetParam() + folder_.path(name), {}));
    value_or_throw(opened.medium->grow(kMediumBytes, true));
    return std::move(opened.medium);
  }
  static ObjectCore::Parts parts(media::Medium& medium, u64 session, bool verifies = false) {
    ObjectCore::Parts parts;
    parts.medium = medium.linear();
    parts.session = session;
    parts.functions.assign(std::begin(kFunctions), std::end(kFunctions));
    parts.options = kOptions;
    parts.options.verifies = verifies;
    return parts;
  }
  static std::unique_ptr<ObjectCore> create(media::Medium& medium, bool verifies = false) {
    ObjectCore::Parts made = parts(medium, 1, verifies);
    made.head = new_object_head(kCopyAt, kLogAt, kLogLines);
    const auto state = std::make_unique<State>();
    return value_or_throw(
        ObjectCore::create(std::move(made), std::as_bytes(std::span(state.get(), 1))));
  }
  static std::unique_ptr<ObjectCore> recover(media::Medium& medium, u64 session) {
    return value_or_throw(ObjectCore::recover(with_heads(parts(medium, session))));
  }
  static Status call(ObjectCore& core, u16 function, Fill what) {
    return core.call({.function = function, .context = std::as_bytes(std::span(&what, 1))},
                     nullptr);
  }
  /// Bytes of copies that a checkpoint of what `calls` made wrote.
  template <class Calls>
  static u64 copied(ObjectCore& core, Calls&& calls) {
    calls();
    const u64 before = core.counts().copied_bytes;
    value_or_throw(core.checkpoint());
    return core.counts().copied_bytes - before;
  }
  static u64 line(u64 number) { return number * kLineBytes / sizeof(u64); }
  Fill draw() {
    const u64 first = 1 + random_() % (State::kWords - 1);
    const u64 most = random_() % 4 == 0 ? 1500 : 12;
    return {first, std::min<u64>(1 + random_() % most, State::kWords - first), random_()};
  }
  static u64 sum_of(ObjectCore& core, u64* count) {
    u64 sum = 0;
    value_or_throw(core.read([&](const void* at) {
      sum = checksum(at, sizeof(State));
      *count = static_cast<const State*>(at)->count;
    }));
    return sum;
  }

  const TempDir folder_{TempDir::kMemory};
  std::mt19937_64 random_{5};
  u64 sums_after_ = 0;
};

TEST_P(ObjectChangesTest, OnlyTheLinesOfTheLastTwoChangeSetsAreWritten) {
  const auto medium = open("object");
  const auto core = create(*medium);
  const u64 unit = is_nvm() ? kLineBytes : kPageBytes;
  const auto change = [&](u64 first_line, u64 lines) {
    return copied(*core,
                  [&] { value_or_throw(call(*core, kFill, {line(first_line), line(lines), 7})); });
  };
  // The count is in the first line of each set.
  EXPECT_EQ(change(100, 1), 2 * unit) << "nothing is lacking";
  EXPECT_EQ(change(300, 2), (is_nvm() ? 4 : 3) * unit);
  EXPECT_EQ(change(300, 2), (is_nvm() ? 3 : 2) * unit) << "the same again";
  EXPECT_EQ(change(300, 1), (is_nvm() ? 3 : 2) * unit) << "less of it";
  EXPECT_EQ(copied(*core, [] {}), (is_nvm() ? 2 : 2) * unit) << "what had changed, and no more";
  EXPECT_EQ(copied(*core, [] {}), 0u);
  // The last line of the state, a part of one.
  const u64 last = State::kWords - 1;
  EXPECT_EQ(copied(*core, [&] { value_or_throw(call(*core, kFill, {last, 1, 3})); }), 2 * unit);
  // A call that does not report.
  EXPECT_GE(copied(*core, [&] { value_or_throw(call(*core, kFillSilently, {line(64), 1, 3})); }),
            2 * unit);
  u64 count = 0;
  const u64 sum = sum_of(*core, &count);
  EXPECT_EQ(count, 6u);
  value_or_throw(core->close());
  u64 found = 0;
  EXPECT_EQ(sum_of(*recover(*medium, 2), &found), sum);
}

// On NVM what is as it shall be is left as it is; after an orderly end that is all.
TEST_P(ObjectChangesTest, WhatIsNotKnownIsCompared) {
  const auto medium = open("object");
  u64 sum = 0;
  {
    const auto core = create(*medium);
    value_or_throw(call(*core, kFillSilently, {line(1), 3000, 9}));
    value_or_throw(core->checkpoint());
    value_or_throw(core->checkpoint());
    const u64 silent =
        copied(*core, [&] { value_or_throw(call(*core, kFillSilently, {line(65), 1, 3})); });
    const u64 pages = is_nvm() ? 2 : kImagePages - 1;
    EXPECT_EQ(silent, pages * kPageBytes) << "that of the count, and the one of the word";
    value_or_throw(core->checkpoint());
    u64 count = 0;
    sum = sum_of(*core, &count);
  }
  const auto core = recover(*medium, 2);
  EXPECT_EQ(core->counts().copied_bytes, is_nvm() ? 0 : 2 * (kImagePages - 1) * kPageBytes);
  u64 count = 0;
  EXPECT_EQ(sum_of(*core, &count), sum);
}

TEST_P(ObjectChangesTest, VerificationFindsWhatIsNotReported) {
  const auto medium = open("object");
  const auto core = create(*medium, true);
  value_or_throw(call(*core, kFill, {line(3), 20, 1}));
  value_or_throw(core->checkpoint());
  value_or_throw(call(*core, kFill, {line(3), 20, 2}));
  expect_failure(call(*core, kLie, {line(70), 1, 1}), Code::kMisuse,
                 "method lie of object 'a' changed the state at offset 4480 and did not report it");
}

// Attempts that fail have written to the older copy, and what they wrote may be in flight still.
TEST_P(ObjectChangesTest, AreWhatAPrefixOfTheirCallsMadeAfterAnyCrash) {
  u64 states = 0, failed = 0;
  for (u64 round = 0; round < 6 && !HasFatalFailure(); ++round) {
    media::Recording recording;
    media::FaultPlan plan;
    std::vector<u64> sums;                       // after so many calls
    std::vector<std::pair<size_t, u64>> called;  // at so many calls of the medium
    {
      const auto medium = plan.wrap(recording.wrap(open("object" + std::to_string(round))));
      auto core = create(*medium);
      const auto note = [&] {
        u64 count = 0;
        const u64 sum = sum_of(*core, &count);
        sums.resize(count + 1, 0);
        sums[count] = sum;
        called.emplace_back(recording.size(), count);
      };
      note();
      for (u64 i = 0; i < 40; ++i) {
        const u16 function = random_() % 8 == 0 ? kFillSilently : kFill;
        value_or_throw(call(*core, function, draw()));
        note();
        if (random_() % 2 == 0) continue;
        if (random_() % 3 == 0)
          plan.arm(
              {.calls = media::kFaultWrite | media::kFaultSubmit | media::kFaultDrain,
               .nth = 1 + random_() % 4,
               .kind = random_() % 2 == 0 ? media::FaultKind::kShort : media::FaultKind::kLate});
        failed += core->checkpoint() ? 0 : 1;
        plan.disarm();
        if (i % 16 != 15) continue;
        core.reset();  // and with it what it has in flight
        core = recover(*medium, 2 + i / 16);
      }
    }
    const auto check = [&](size_t end, const FileBytes& image) {
      write_file(folder_.path("crashed"), image);
      const auto medium = open("crashed");
      u64 count = 0, again = 0;
      {
        const auto core = recover(*medium, 100);
        const u64 sum = sum_of(*core, &count);
        ASSERT_GE(count, noted_by(called, end)) << "a call is lost, at call " << end;
        ASSERT_LT(count, sums.size());
        ASSERT_EQ(sum, sums[count]) << "at call " << end;
        // Both copies are good from here on: one more call, and the one before it alone.
        value_or_throw(call(*core, kFill, draw()));
        value_or_throw(core->checkpoint());
        sums_after_ = sum_of(*core, &again);
      }
      ASSERT_EQ(sum_of(*recover(*medium, 101), &again), sums_after_);
      ASSERT_EQ(again, count + 1);
      ++states;
    };
    for_each_crash(recording.history(), called.front().first, is_nvm() ? 4 : 2, check,
                   [] { return !HasFatalFailure(); });
  }
  EXPECT_GT(states, 200u);
  EXPECT_GT(failed, 5u);
}

INSTANTIATE_TEST_SUITE_P(Media, ObjectChangesTest, testing::Values("emu:", "file:"),
                         name_of_scheme);

}  // namespace
}  // namespace perdura::test
