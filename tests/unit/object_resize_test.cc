// Goal: an object that gets another size has it, with what it held and zeros behind that, when that
// returns; after a crash it is that or what it was, and what was called later is done on it.
// Method: sizes drawn at random between calls that say in each word what was done; a medium that is
// rebuilt as a crash may have left it at each of its calls; objects of a store that get the places
// of each other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <vector>

#include "media/decorator.hpp"
#include "media/record.hpp"
#include "model/object/objects_runtime.hpp"
#include "object/object_core.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/filtered_queue.hpp"
#include "support/object_medium.hpp"
#include "support/scheme_names.hpp"

namespace perdura::test {
namespace {

using object::Call;
using object::ObjectCore;

struct Put {
  u64 word;
  u64 value;
};
using Words = std::vector<u64>;  ///< all of a state

const detail::ObjectMethod kPut{"put",
                                sizeof(Put),
                                0,
                                [](void* state, const void* context, void*) {
                                  const auto& put = *static_cast<const Put*>(context);
                                  static_cast<u64*>(state)[put.word] = put.value;
                                },
                                nullptr,
                                nullptr,
                                false};

constexpr u64 kLogLines = 64;
constexpr u64 kLogAt = 8192;
constexpr u64 kCopiesAt = kLogAt + kLogLines * kLineBytes;
constexpr u64 kCopyBytesMax = 16384;
constexpr u64 kPlaces = 4;
constexpr u64 kMediumBytes = kCopiesAt + kPlaces * kCopyBytesMax;
constexpr u64 kCallers = 4;

u64 place(u64 number) { return kCopiesAt + number * kCopyBytesMax; }

/// Fails the write of its number, counted from when that is set.
class FailingOnce final : public media::Decorator {
 public:
  FailingOnce(std::unique_ptr<media::Medium> inner, std::int64_t& left)
      : Decorator(std::move(inner)), left_(left) {}
  Status write(u64 offset, media::Bytes data, const media::Site& site) override {
    if (left_-- == 0) return Failure{Code::kIo, "refused"};
    return inner().write(offset, data, site);
  }
  std::unique_ptr<media::WriteQueue> queue() override {
    return std::make_unique<FilteredQueue>(
        inner().queue(), [this](u64, const media::Site&, const auto& submit) -> Status {
          if (left_-- == 0) return Failure{Code::kIo, "refused"};
          return submit();
        });
  }
  Status barrier(const media::Site& site) override {
    if (left_-- == 0) return Failure{Code::kIo, "refused"};
    return inner().barrier(site);
  }

 private:
  std::int64_t& left_;
};

class ObjectResize : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<media::Medium> open(const std::string& name) const {
    auto opened = value_or_throw(media::open_medium(GetParam() + folder_.path(name), {}));
    value_or_throw(opened.medium->grow(kMediumBytes, true));
    return std::move(opened.medium);
  }
  static ObjectCore::Parts parts(media::Medium& medium, u64 session) {
    ObjectCore::Parts parts;
    parts.medium = medium.linear();
    parts.session = session;
    parts.functions = {{.name = kPut.name, .context_bytes = sizeof(Put), .run = kPut.run}};
    parts.options = {.checkpoint_calls = 20, .pending_lines = 16};
    return parts;
  }
  static std::unique_ptr<ObjectCore> create(media::Medium& medium, u64 words) {
    ObjectCore::Parts made = parts(medium, 1);
    made.head = new_object_head({place(0), place(1)}, kLogAt, kLogLines, kCallers);
    const Words state(words);
    return value_or_throw(ObjectCore::create(std::move(made), std::as_bytes(std::span(state))));
  }
  static std::unique_ptr<ObjectCore> recover(media::Medium& medium, u64 session) {
    return value_or_throw(ObjectCore::recover(with_heads(parts(medium, session))));
  }
  static Status put(ObjectCore& core, u64 word, u64 value, bool instant) {
    const Put given{word, value};
    const Call call{.potid = 3, .context = std::as_bytes(std::span(&given, 1))};
    return instant ? core.call(call, nullptr) : core.defer(call);
  }
  /// To the two places that it does not have.
  static Status resize(ObjectCore& core, u64 words) {
    const u64 first = core.settled_head().copy_place[0] == place(0) ? 2 : 0;
    return core.resize(words * sizeof(u64), {place(first), place(first + 1)});
  }
  static Words state_of(ObjectCore& core) {
    Words state;
    value_or_throw(core.read([&](const void* at) {
      const auto* const words = static_cast<const u64*>(at);
      state.assign(words, words + core.head().bytes / sizeof(u64));
    }));
    return state;
  }

  const TempDir folder_{TempDir::kMemory};
};

TEST_P(ObjectResize, KeepsWhatWasThereAndEndsWithZeros) {
  const auto medium = open("object");
  const auto core = create(*medium, 10);
  for (u64 i = 0; i < 10; ++i) value_or_throw(put(*core, i, 100 + i, false));
  value_or_throw(resize(*core, 2000));
  Words expected(2000);
  for (u64 i = 0; i < 10; ++i) expected[i] = 100 + i;
  EXPECT_EQ(state_of(*core), expected);
  value_or_throw(put(*core, 1999, 7, true));
  value_or_throw(resize(*core, 5));
  expected.resize(5);
  EXPECT_EQ(state_of(*core), expected);
  value_or_throw(resize(*core, 2000));
  expected.resize(2000);
  EXPECT_EQ(state_of(*core), expected) << "what was cut off is back";
  EXPECT_EQ(value_or_throw(core->caller(3)).calls, 11u);
  value_or_throw(put(*core, 1000, 8, true));
  expected[1000] = 8;
  const auto again = recover(*medium, 2);
  EXPECT_EQ(state_of(*again), expected);
  EXPECT_EQ(value_or_throw(again->caller(3)).calls, 12u);
}

TEST_P(ObjectResize, IsWholeOrHasNotBeenAfterAnyCrash) {
  media::Recording recording;
  std::vector<Words> made;                      // after so many steps
  std::vector<std::pair<size_t, u64>> durable;  // at so many calls of the medium
  {
    const auto medium = recording.wrap(open("object"));
    const auto core = create(*medium, 600);
    made.emplace_back(600);
    durable.emplace_back(recording.size(), 0);
    std::mt19937_64 random(1);
    for (u64 i = 0; i < 200; ++i) {
      Words next = made.back();
      const u64 what = random() % 8;
      if (what == 0) {
        next.resize(1 + random() % 1800);
        value_or_throw(resize(*core, next.size()));
      } else {
        const u64 word = random() % next.size();
        next[word] = random();
        value_or_throw(put(*core, word, next[word], what < 4));
      }
      made.push_back(std::move(next));
      if (what < 4) durable.emplace_back(recording.size(), made.size() - 1);
    }
  }
  const media::History history = recording.history();
  u64 states = 0;
  const auto check = [&](size_t end, const FileBytes& image) {
    write_file(folder_.path("crashed"), image);
    const auto medium = open("crashed");
    const Words state = state_of(*recover(*medium, 100 + states));
    ++states;
    const auto least = made.begin() + static_cast<std::ptrdiff_t>(noted_by(durable, end));
    ASSERT_NE(std::find(least, made.end(), state), made.end())
        << "at call " << end << ", state " << states;
  };
  for_each_crash(history, durable.front().first, 4, check, [] { return !HasFatalFailure(); });
  EXPECT_GT(states, 500u);
}

// What was called before is there in either size, and nothing is called any more on the wrong one.
TEST_P(ObjectResize, ThatFailsIsTheLastThing) {
  u64 old = 0;
  u64 resized = 0;
  for (std::int64_t failing = 0; failing < 12; ++failing) {
    const std::string name = "object" + std::to_string(failing);
    std::int64_t left = -1;
    bool failed = false;
    {
      FailingOnce medium(open(name), left);
      const auto core = create(medium, 10);
      value_or_throw(put(*core, 3, 5, true));
      left = failing;
      failed = !resize(*core, 1000);
      left = -1;
      EXPECT_EQ(!put(*core, 3, 6, true), failed) << failing;
    }
    const auto medium = open(name);
    const Words state = state_of(*recover(*medium, 2));
    ASSERT_TRUE(state.size() == 10 || state.size() == 1000) << state.size();
    EXPECT_EQ(state[3], failed ? 5u : 6u);
    (state.size() == 10 ? old : resized) += failed;
  }
  EXPECT_GT(old, 2u);
  EXPECT_GT(resized, 1u);
}

// The object as it was has no copy any more that nobody else may have got.
TEST_P(ObjectResize, ADamagedCopyIsNotMadeAnewFromTheOldOne) {
  media::Recording recording;
  size_t resized = 0;
  {
    const auto medium = recording.wrap(open("object"));
    const auto core = create(*medium, 10);
    value_or_throw(put(*core, 3, 5, true));
    const size_t before = recording.size();
    value_or_throw(resize(*core, 1000));
    const media::History history = recording.history();
    u64 barriers = 0;
    for (resized = before; barriers < 2; ++resized)
      barriers += history.calls()[resized].kind == media::RecordedCall::Kind::kBarrier;
  }
  write_file(folder_.path("crashed"),
             recording.history().after_crash(resized, [](size_t, u64) { return false; }));
  EXPECT_EQ(state_of(*recover(*open("crashed"), 2)).size(), 1000u);
  write_file(folder_.path("crashed"),
             recording.history().after_crash(resized, [](size_t, u64) { return false; }));
  flip_bit(folder_.path("crashed"), place(2) + 24, 1);
  const auto medium = open("crashed");
  expect_error([&] { recover(*medium, 2); }, Code::kCorrupt, "does not fit its checksum");
}

// The other slot leads to the object as it is, or it is said that something is gone; the object as
// it was does not come back.
TEST_P(ObjectResize, ADamagedHeadBringsNothingBack) {
  for (const u64 calls : {0, 1, 30}) {
    for (u64 byte = 0; byte < sizeof(format::ObjectHead); byte += 24) {
      const std::string name = "object" + std::to_string(calls) + "-" + std::to_string(byte);
      Words expected;
      u64 newest = 0;
      {
        const auto medium = open(name);
        const auto core = create(*medium, 10);
        value_or_throw(put(*core, 3, 5, true));
        value_or_throw(resize(*core, 1000));
        for (u64 i = 0; i < calls; ++i) value_or_throw(put(*core, 900 + i, i, true));
        expected = state_of(*core);
        newest = core->head().sequence % 2;
      }
      flip_bit(folder_.path(name), newest * format::kObjectHeadBytes + byte, byte % 8);
      const auto medium = open(name);
      try {
        EXPECT_EQ(state_of(*recover(*medium, 3)), expected) << calls << ", " << byte;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::kCorrupt) << error.what();
      }
      std::filesystem::remove(folder_.path(name));
    }
  }
}

// --- of a store ----------------------------------------------------------------------------------

TEST_P(ObjectResize, GivesItsPlacesToOthers) {
  const std::string uri = GetParam() + folder_.path("objects.pd");
  const std::vector<std::byte> zeros(1 << 20);
  const detail::ObjectMethod methods[] = {kPut};
  const auto open_object = [&](detail::ObjectsRuntime& runtime, const std::string& name,
                               u64 words) {
    return value_or_throw(runtime.object(name,
                                         {.name = "words",
                                          .bytes = words * sizeof(u64),
                                          .methods = methods,
                                          .initial = zeros.data()},
                                         {.log_bytes = 4096}));
  };
  const auto put_in = [](detail::OpenObject& object, u64 word, u64 value) {
    const Put given{word, value};
    value_or_throw(object.core().call(
        object.call_of(0, 0, Domain::kAll, std::as_bytes(std::span(&given, 1))), nullptr));
  };
  constexpr u64 kObjects = 3;
  std::vector<Words> model(kObjects, Words(100));
  std::mt19937_64 random(3);
  u64 largest = 0;
  for (u64 session = 0; session < 4; ++session) {
    const auto runtime = value_or_throw(detail::ObjectsRuntime::open(uri, {}));
    std::vector<std::shared_ptr<detail::OpenObject>> objects;
    for (u64 i = 0; i < kObjects; ++i)
      objects.push_back(open_object(*runtime, std::to_string(i), model[i].size()));
    for (u64 i = 0; i < kObjects; ++i) EXPECT_EQ(state_of(objects[i]->core()), model[i]);
    for (u64 step = 0; step < 120; ++step) {
      const u64 i = random() % kObjects;
      if (step % 2 == 0) {
        model[i].resize(1 + random() % 60000);
        value_or_throw(runtime->resize(std::to_string(i), model[i].size() * sizeof(u64)));
        EXPECT_EQ(value_or_throw(runtime->state_bytes(std::to_string(i))),
                  model[i].size() * sizeof(u64));
      }
      const u64 word = random() % model[i].size();
      model[i][word] = random();
      put_in(*objects[i], word, model[i][word]);
      for (u64 each = 0; each < kObjects; ++each)
        ASSERT_EQ(state_of(objects[each]->core()), model[each]) << each << " at " << step;
    }
    objects.clear();
    value_or_throw(runtime->close());
    largest = std::max<u64>(largest, std::filesystem::file_size(folder_.path("objects.pd")));
  }
  EXPECT_LT(largest, 20u << 20) << "space is not used again";
}

TEST_P(ObjectResize, OfWhatIsNotThereIsRefused) {
  const auto runtime =
      value_or_throw(detail::ObjectsRuntime::open(GetParam() + folder_.path("objects.pd"), {}));
  expect_failure(Result<int>(runtime->resize("none", 8).failure()), Code::kNotFound, "none");
  EXPECT_EQ(value_or_throw(runtime->state_bytes("none")), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(Media, ObjectResize, testing::Values("emu:", "file:"), name_of_scheme);

}  // namespace
}  // namespace perdura::test
