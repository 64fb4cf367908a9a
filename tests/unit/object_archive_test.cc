// Goal: a program that is run again from its beginning on objects that keep all calls gets what it
// got before, each call done once, whatever ended it; another program is told so; an archive that
// is full, damaged or forged refuses calls, or to open. Method: programs drawn from a seed, whose
// state tells what was done in which order, run again on media that are rebuilt as a crash may have
// left them at each of their calls; archives of which each byte is changed, and blocks that are
// changed and summed again.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "base/checksum.hpp"
#include "media/decorator.hpp"
#include "media/record.hpp"
#include "object/object_core.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/object_medium.hpp"
#include "support/scheme_names.hpp"

namespace perdura::test {
namespace {

using format::ObjectArchiveBlock;
using format::ObjectHead;
using object::Call;
using object::Function;
using object::ObjectCore;

struct State {
  u64 count;
  u64 mixed;
};
struct Long {
  u64 value;
  u64 rest[30];
};

void apply(void* state, u64 value) {
  auto& at = *static_cast<State*>(state);
  ++at.count;
  at.mixed = (at.mixed ^ (value + 0xd1342543de82ef95)) * 0x9e3779b97f4a7c15 + 1;
}

const Function kFunctions[] = {
    {"add", sizeof(u64), 0,
     [](void* state, const void* context, void*) {
       apply(state, *static_cast<const u64*>(context));
     }},
    {"add_long", sizeof(Long), 0,
     [](void* state, const void* context, void*) {
       const auto& given = *static_cast<const Long*>(context);
       apply(state, given.value + given.rest[29]);
     }},
    {"tell", sizeof(u64), sizeof(u64),
     [](void* state, const void* context, void* result) {
       apply(state, *static_cast<const u64*>(context));
       std::memcpy(result, &static_cast<State*>(state)->mixed, sizeof(u64));
     }},
    {"stir", 0, sizeof(State),
     [](void* state, const void*, void* result) {
       apply(state, 77);
       std::memcpy(result, state, sizeof(State));
     }},
};
enum : u16 { kAdd, kAddLong, kTell, kStir, kResize };

constexpr u64 kLogLines = 256;
constexpr u64 kCopyAt = 8192;
constexpr u64 kCopyBytes = 8192;
constexpr u64 kLogAt = kCopyAt + 4 * kCopyBytes;
constexpr u64 kArchiveAt = kLogAt + kLogLines * kLineBytes;
constexpr u64 kArchiveLines = 4096;
constexpr u64 kMediumBytes = kArchiveAt + kArchiveLines * kLineBytes;
constexpr u64 kStateBytesMin = sizeof(State);

/// One of a program's calls; all of it follows from its number.
struct Step {
  u16 function;
  u32 potid;
  u64 value;

  explicit Step(u64 number, bool resizes = false) {
    std::mt19937_64 random(number * 31 + 7);
    const u64 what = random() % 16;
    function = what < 9 ? kAdd : what < 11 ? kAddLong : what < 14 ? kTell : kStir;
    if (resizes && what == 15) function = kResize;
    potid = static_cast<u32>(random() % 3);
    value = random() % 1000;
  }
};

/// What a program has seen of it: an answer, or nothing.
using Answer = std::vector<std::byte>;

class ObjectArchives : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<media::Medium> open(const std::string& name) const {
    auto opened = value_or_throw(media::open_medium(GetParam() + folder_.path(name), {}));
    value_or_throw(opened.medium->grow(kMediumBytes, true));
    return std::move(opened.medium);
  }
  static ObjectCore::Parts parts(media::Medium& medium, u64 session,
                                 const object::CoreOptions& options) {
    ObjectCore::Parts parts;
    parts.medium = medium.linear();
    parts.session = session;
    parts.functions.assign(std::begin(kFunctions), std::end(kFunctions));
    parts.options = options;
    return parts;
  }
  static std::unique_ptr<ObjectCore> create(media::Medium& medium,
                                            const object::CoreOptions& options = kOften,
                                            u64 archive_lines = kArchiveLines) {
    const State state{};
    ObjectCore::Parts made = parts(medium, 1, options);
    made.head = new_object_head({kCopyAt, kCopyAt + kCopyBytes}, kLogAt, kLogLines, 4);
    made.head.history = format::ObjectHistory::kAll;
    made.head.archive_place = kArchiveAt;
    made.head.archive_lines = archive_lines;
    return value_or_throw(ObjectCore::create(std::move(made), std::as_bytes(std::span(&state, 1))));
  }
  static std::unique_ptr<ObjectCore> recover(media::Medium& medium, u64 session,
                                             const object::CoreOptions& options = kOften) {
    return value_or_throw(ObjectCore::recover(with_heads(parts(medium, session, options))));
  }

  static Result<Answer> make(ObjectCore& core, const Step& step) {
    Long context{};
    context.value = step.value;
    context.rest[29] = 3 * step.value;
    if (step.function == kResize) return resize(core, step);
    const Function& function = kFunctions[step.function];
    const Call call{.function = step.function,
                    .potid = step.potid,
                    .context = std::as_bytes(std::span(&context, 1)).first(function.context_bytes)};
    Answer answer(function.result_bytes);
    PERDURA_TRY(answer.empty() ? core.defer(call) : core.call(call, answer.data()));
    return answer;
  }
  /// As a store does it: to places that nobody has.
  static Result<Answer> resize(ObjectCore& core, const Step& step) {
    const u64 bytes = kStateBytesMin + 8 * step.value;
    PERDURA_ASSIGN(const bool recorded, core.is_resize_recorded(step.potid, bytes));
    if (recorded) return Answer{};
    const u64 first = core.settled_head().copy_place[0] == kCopyAt ? 2 : 0;
    const u64 place = kCopyAt + first * kCopyBytes;
    PERDURA_TRY(core.have_room_to_resize());
    PERDURA_TRY(core.resize(bytes, {place, place + kCopyBytes}, step.potid));
    return Answer{};
  }
  static std::vector<Answer> run(ObjectCore& core, u64 steps, bool resizes = false) {
    std::vector<Answer> answers;
    for (u64 i = 0; i < steps; ++i) answers.push_back(value_or_throw(make(core, Step(i, resizes))));
    return answers;
  }
  static State state_of(ObjectCore& core) {
    State state{};
    value_or_throw(core.read([&](const void* at) { state = *static_cast<const State*>(at); }));
    return state;
  }
  static ObjectHead newest_head(media::Medium& medium) {
    return with_heads(parts(medium, 1, {})).head;
  }

  static constexpr object::CoreOptions kOften{.checkpoint_calls = 40, .pending_lines = 64};
  static constexpr object::CoreOptions kEachCall{.checkpoint_calls = 1, .pending_lines = 64};
  static constexpr object::CoreOptions kWhenFull{.checkpoint_calls = ~u64{0}, .pending_lines = 64};
  static constexpr object::CoreOptions kAlone{
      .checkpoint_calls = 40, .pending_lines = 64, .servers = 0};
  static constexpr object::CoreOptions kRelaxed{.checkpoint_calls = 40,
                                                .pending_lines = 64,
                                                .servers = 0,
                                                .durability = object::Durability::kRelaxed};

  const TempDir folder_{TempDir::kMemory};
};

TEST_P(ObjectArchives, AnswerAProgramThatIsRunAgain) {
  int number = 0;
  for (const auto& options : {kOften, kEachCall, kWhenFull, kAlone, kRelaxed}) {
    const auto medium = open("object" + std::to_string(++number));
    std::vector<Answer> answers;
    State state{};
    {
      const auto core = create(*medium, options);
      EXPECT_FALSE(core->is_answering());
      answers = run(*core, 500);
      state = state_of(*core);
      value_or_throw(core->sync());
    }
    for (u64 session = 2; session < 5; ++session) {
      const auto core = recover(*medium, session, options);
      EXPECT_TRUE(core->is_answering());
      const u64 repeated = core->counts().executed;
      EXPECT_EQ(run(*core, answers.size()), answers);
      EXPECT_FALSE(core->is_answering());
      EXPECT_EQ(core->counts().executed, repeated) << "recorded calls were done again";
      EXPECT_EQ(state_of(*core).mixed, state.mixed);
      for (u64 i = answers.size(), end = i + 100; i < end; ++i)
        answers.push_back(value_or_throw(make(*core, Step(i))));
      state = state_of(*core);
      EXPECT_EQ(core->counts().executed, repeated + 100);
      EXPECT_EQ(state.count, answers.size());
      value_or_throw(core->sync());
    }
  }
}

// From wherever a crash has left it the program comes to the same end, with the same answers.
TEST_P(ObjectArchives, LetAProgramGoOnAfterAnyCrash) {
  for (const bool resizes : {false, true}) {
    constexpr u64 kSteps = 220;
    media::Recording recording;
    std::vector<std::pair<size_t, u64>> durable;
    std::vector<Answer> answers;
    u64 mixed = 0;
    size_t first = 0;
    {
      const auto medium = recording.wrap(open("object"));
      const auto core = create(*medium);
      first = recording.size();
      for (u64 i = 0; i < kSteps; ++i) {
        const Step step(i, resizes);
        answers.push_back(value_or_throw(make(*core, step)));
        if (step.function >= kTell) durable.emplace_back(recording.size(), i + 1);
      }
      mixed = state_of(*core).mixed;
    }
    u64 states = 0;
    const auto check = [&](size_t end, const FileBytes& image) {
      write_file(folder_.path("crashed"), image);
      const auto medium = open("crashed");
      const auto core = recover(*medium, 100 + ++states);
      const u64 done = state_of(*core).count;
      u64 least = 0;
      for (u64 i = 0; i < noted_by(durable, end); ++i)
        least += Step(i, resizes).function != kResize ? 1 : 0;
      ASSERT_GE(done, least) << "at call " << end;
      ASSERT_EQ(run(*core, kSteps, resizes), answers) << "at call " << end;
      ASSERT_EQ(state_of(*core).mixed, mixed) << "at call " << end;
    };
    for_each_crash(recording.history(), first, 4, check, [] { return !HasFatalFailure(); });
    EXPECT_GT(states, 300u);
    std::filesystem::remove(folder_.path("object"));
  }
}

TEST_P(ObjectArchives, TellAnotherProgramSo) {
  const auto medium = open("object");
  {
    const auto core = create(*medium);
    run(*core, 100);
    value_or_throw(core->sync());
  }
  const auto core = recover(*medium, 2);
  const State before = state_of(*core);
  Step step(0);
  const u64 value = step.value;
  step.value = value + 1;
  expect_failure(make(*core, step), Code::kMisuse, "call 1 of caller ");
  step.value = value;
  const u16 function = step.function;
  step.function = function == kAdd ? kTell : kAdd;
  expect_failure(make(*core, step), Code::kMisuse,
                 "is recorded as " + kFunctions[function].name + " with");
  expect_failure(make(*core, step), Code::kMisuse,
                 "now is " + kFunctions[step.function].name + " with");
  EXPECT_EQ(state_of(*core).mixed, before.mixed) << "what was refused was done";
  step.function = kResize;
  expect_failure(make(*core, step), Code::kMisuse, "now is a resize to");
  run(*core, 100);
  EXPECT_EQ(state_of(*core).mixed, before.mixed);
  EXPECT_FALSE(core->is_answering());
}

// Threads answer each other's callers no calls: each goes on by itself.
TEST_P(ObjectArchives, AnswerThreadsEachItsOwn) {
  constexpr u32 kThreads = 3;
  constexpr u64 kCalls = 200;
  const auto program = [&](ObjectCore& core) {
    std::vector<std::vector<Answer>> answers(kThreads);
    std::vector<std::thread> threads;
    for (u32 potid = 0; potid < kThreads; ++potid)
      threads.emplace_back([&, potid] {
        for (u64 i = 0; i < kCalls; ++i) {
          Step step(potid * 1000 + i);
          step.potid = potid;
          answers[potid].push_back(value_or_throw(make(core, step)));
        }
      });
    for (std::thread& each : threads) each.join();
    return answers;
  };
  const auto medium = open("object");
  std::vector<std::vector<Answer>> answers;
  State state{};
  {
    const auto core = create(*medium);
    answers = program(*core);
    state = state_of(*core);
  }
  const auto core = recover(*medium, 2);
  EXPECT_EQ(program(*core), answers);
  EXPECT_EQ(state_of(*core).mixed, state.mixed);
  EXPECT_EQ(state.count, kThreads * kCalls);
}

// Blocks have so many calls, and columns of so many bytes; what is behind the page that the one
// before ends in is written with it again.
TEST_P(ObjectArchives, HaveBlocksThatEndWhereTheyAreFull) {
  constexpr u64 kCheckpoints = 3;
  constexpr u64 kShort = 40'000;
  constexpr u64 kWide = 9;  // of 1 MiB that cannot be compressed
  const auto opened = value_or_throw(media::open_medium(GetParam() + folder_.path("blocks"), {}));
  media::LinearMedium& medium = *opened.medium->linear();
  ObjectHead head = new_object_head({0, 0}, 0, kLogLines, 4);
  head.archive_place = kPageBytes;
  head.archive_lines = 64 * kMiB / kLineBytes;
  head.archive_sum = head.identity;
  head.checkpoint = kLinesPerPage;
  value_or_throw(medium.grow(kPageBytes + head.archive_lines * kLineBytes, true));
  std::mt19937_64 random(1);
  AlignedBuffer wide(format::kObjectContextMax);
  for (u64 at = 0; at < wide.size(); at += sizeof(u64))
    *reinterpret_cast<u64*>(wide.data() + at) = random();
  u64 sum = 0;
  object::ObjectArchive archive(medium, head);
  const auto add = [&](u64 number, std::span<const std::byte> context) {
    const auto answer = std::as_bytes(std::span(&number, 1)).first(number % 9);
    archive.add({.potid = static_cast<u32>(number),
                 .domain = static_cast<std::int32_t>(number % 5),
                 .function = static_cast<u16>(number % 7),
                 .context = context,
                 .answer = answer});
    head.checkpoint += format::object_entry_lines(context.size());
    sum = 31 * sum + number + checksum(context.data(), context.size()) +
          checksum(answer.data(), answer.size());
  };
  for (u64 checkpoint = 0; checkpoint < kCheckpoints; ++checkpoint) {
    const u64 log_lines = head.checkpoint;
    archive.begin(head.checkpoint);
    add(1, {});
    for (u64 i = 0; i < kShort; ++i) add(i, std::as_bytes(std::span(&i, 1)));
    for (u64 i = 0; i < kWide; ++i) add(i, wide.first(wide.size() - i));
    const u64 free = archive.free_lines();
    const auto end = value_or_throw(archive.write());
    value_or_throw(medium.barrier(PERDURA_SITE("test")));
    archive.note_durable();
    EXPECT_LE(free - archive.free_lines(),
              object::ObjectArchive::lines_for(head.checkpoint - log_lines));
    head.archive_used = end.used;
    head.archive_sum = end.sum;
  }
  u64 blocks = 0;
  const FileBytes bytes = read_file(folder_.path("blocks"));
  for (u64 at = 0; at < head.archive_used; ++blocks)
    at += reinterpret_cast<const ObjectArchiveBlock*>(bytes.data() + head.archive_place +
                                                      at * kLineBytes)
              ->lines;
  EXPECT_GE(blocks, kCheckpoints * (2 + kWide / 3));
  u64 found = 0;
  u64 calls = 0;
  const auto look = [&](const object::RecordedCall& call, u64 times) {
    ++calls;
    EXPECT_EQ(times, 1);
    const u64 number = call.potid;
    EXPECT_EQ(call.domain, static_cast<std::int32_t>(number % 5));
    EXPECT_EQ(call.function, number % 7);
    found = 31 * found + number + checksum(call.context.data(), call.context.size()) +
            checksum(call.answer.data(), call.answer.size());
  };
  value_or_throw(
      object::ObjectArchive(medium, head).read(7, [&](const object::ArchivedCalls& each) {
        each.each_run(look);
      }));
  EXPECT_EQ(calls, kCheckpoints * (1 + kShort + kWide));
  EXPECT_EQ(found, sum);
}

// Whoever calls as a caller goes on with its calls, each of which is answered once: one thread
// behind another, and several at once.
TEST_P(ObjectArchives, AnswerEachCallOnceWhoeverAsks) {
  constexpr u64 kRecorded = 20'000;
  constexpr u64 kMore = 50;
  constexpr u64 kThreads = 4;
  Step step(0);
  step.function = kAdd;
  const auto medium = open("object");
  {
    const auto core = create(*medium);
    for (u64 i = 0; i < kRecorded; ++i) value_or_throw(make(*core, step));
    value_or_throw(core->sync());
  }
  for (const bool at_once : {false, true}) {
    const auto core = recover(*medium, at_once ? 3 : 2);
    const u64 before = state_of(*core).count;
    const u64 recorded = before - (at_once ? kMore : 0);
    EXPECT_EQ(recorded, kRecorded);
    std::atomic<u64> left{before + kMore};
    const auto call_some = [&](u64 share) {
      for (u64 i = 0; i < share && left.fetch_sub(1) - 1 < before + kMore; ++i)
        value_or_throw(make(*core, step));
    };
    for (u64 thread = 0; !at_once && thread < 3; ++thread)
      std::thread(call_some, (before + kMore) / 4).join();
    std::vector<std::thread> threads;
    for (u64 thread = 0; at_once && thread < kThreads; ++thread)
      threads.emplace_back(call_some, ~u64{0});
    for (std::thread& each : threads) each.join();
    call_some(~u64{0});
    EXPECT_FALSE(core->is_answering());
    EXPECT_EQ(state_of(*core).count, before + kMore);
  }
}

// --- full ---------------------------------------------------------------------------------------

TEST_P(ObjectArchives, ThatAreFullRefuseCallsBeforeTheyAreLogged) {
  int number = 0;
  for (const auto& options : {kOften, kEachCall, kAlone}) {
    const auto medium = open("object" + std::to_string(++number));
    std::vector<Answer> answers;
    {
      const auto core = create(*medium, options, kLinesPerPage);
      for (u64 i = 0;; ++i) {
        Result<Answer> answer = make(*core, Step(i));
        if (!answer) {
          EXPECT_EQ(answer.failure().code, Code::kNoSpace);
          EXPECT_NE(answer.failure().message.find("archive_bytes"), std::string::npos);
          break;
        }
        answers.push_back(*answer);
        ASSERT_LT(i, 5000u);
      }
      EXPECT_GT(answers.size(), 10u);
      EXPECT_EQ(state_of(*core).count, answers.size());
      value_or_throw(core->checkpoint());
    }
    const auto core = recover(*medium, 2, options);
    EXPECT_EQ(run(*core, answers.size()), answers);
    EXPECT_EQ(state_of(*core).count, answers.size());
    EXPECT_LE(newest_head(*medium).archive_used, kLinesPerPage);
    Step long_one(0);
    long_one.function = kAddLong;
    expect_failure(make(*core, long_one), Code::kNoSpace, "is full, all 4096 bytes of it");
  }
}

// Incompressible arguments take the most that is counted on; resizes come in between.
TEST_P(ObjectArchives, HaveRoomForWhatIsLogged) {
  std::mt19937_64 random(5);
  const auto medium = open("object");
  const auto core = create(*medium, kWhenFull, 2 * kLinesPerPage);
  u64 logged = 0;
  bool is_full = false;
  for (u64 i = 0; i < 2000; ++i) {
    Step step(i, true);
    if (step.function != kResize) step.value = random();
    const Result<Answer> answer = make(*core, step);
    if (!answer) {
      ASSERT_EQ(answer.failure().code, Code::kNoSpace) << answer.failure().message;
      is_full = true;
      continue;
    }
    logged += step.function != kResize ? 1 : 0;
  }
  EXPECT_TRUE(is_full);
  EXPECT_EQ(state_of(*core).count, logged);
  value_or_throw(core->checkpoint());
  EXPECT_EQ(state_of(*recover(*medium, 2)).count, logged);
}

// --- damaged ------------------------------------------------------------------------------------

TEST_P(ObjectArchives, OfWhichABitIsWrongAreFoundOut) {
  std::vector<Answer> answers;
  ObjectHead head{};
  {
    const auto medium = open("object");
    const auto core = create(*medium);
    answers = run(*core, 300);
    value_or_throw(core->checkpoint());
    head = core->settled_head();
  }
  const FileBytes whole = read_file(folder_.path("object"));
  u64 refused = 0;
  u64 repaired = 0;
  for (u64 byte = 0; byte < head.archive_used * kLineBytes; byte += 7) {
    FileBytes bytes = whole;
    bytes[kArchiveAt + byte] ^= std::byte{1} << (byte % 8);
    write_file(folder_.path("damaged"), bytes);
    const auto medium = open("damaged");
    const auto core = ObjectCore::recover(with_heads(parts(*medium, 2, kOften)));
    if (!core) {
      EXPECT_EQ(core.failure().code, Code::kCorrupt) << core.failure().message;
      ++refused;
      continue;
    }
    EXPECT_TRUE((*core)->was_repaired()) << byte;
    EXPECT_EQ(run(**core, answers.size()), answers) << byte;
    EXPECT_EQ(state_of(**core).count, answers.size()) << byte;
    ++repaired;
  }
  EXPECT_GT(refused, 10u);
  EXPECT_GT(repaired, 1u) << "the older head and the log lead to the last block's calls";
}

/// The archive of one whose newest block is the only one, which `change` changes; all is summed
/// again.
class ForgedArchives : public ObjectArchives {
 protected:
  void SetUp() override {
    const auto medium = open("object");
    const auto core = create(*medium, kWhenFull);
    for (u64 i = 0; i < 50; ++i) value_or_throw(make(*core, Step(i)));
    value_or_throw(core->checkpoint());
    value_or_throw(core->checkpoint());
  }
  Failure forge(const std::function<void(ObjectArchiveBlock&, std::byte* at)>& change) const {
    FileBytes bytes = read_file(folder_.path("object"));
    auto& block = *reinterpret_cast<ObjectArchiveBlock*>(bytes.data() + kArchiveAt);
    change(block, bytes.data() + kArchiveAt);
    const u64 lines = std::min<u64>(block.lines, kArchiveLines);
    if (lines != 0)
      block.checksum = checksum(&block.previous, lines * kLineBytes - sizeof block.checksum);
    for (u64 slot = 0; slot < 2; ++slot) {
      auto& head = *reinterpret_cast<ObjectHead*>(bytes.data() + slot * format::kObjectHeadBytes);
      head.archive_sum = block.checksum;
      head.checksum = object::head_checksum(head);
    }
    write_file(folder_.path("forged"), bytes);
    const auto medium = open("forged");
    auto core = ObjectCore::recover(with_heads(parts(*medium, 2, kOften)));
    return core ? Failure{Code::kMisuse, "it was opened"} : core.failure();
  }
};

TEST_P(ForgedArchives, AreRefused) {
  EXPECT_EQ(forge([](auto&, auto*) {}).message, "it was opened") << "unchanged";
  const std::function<void(ObjectArchiveBlock&, std::byte*)> changes[] = {
      [](auto& block, auto*) { block.previous ^= 1; },
      [](auto& block, auto*) { ++block.begin; },
      [](auto& block, auto*) { ++block.end; },
      [](auto& block, auto*) { block.end = block.begin - 1; },
      [](auto& block, auto*) { --block.calls; },
      [](auto& block, auto*) { block.calls = 0; },
      [](auto& block, auto*) { block.calls = ~u32{0}; },
      [](auto& block, auto*) { ++block.raw_bytes; },
      [](auto& block, auto*) { block.raw_bytes = ~u32{0}; },
      [](auto& block, auto*) { block.raw_bytes = block.stored_bytes; },
      [](auto& block, auto*) { --block.stored_bytes; },
      [](auto& block, auto*) { block.stored_bytes = ~u32{0}; },
      [](auto& block, auto*) { block.lines = 0; },
      [](auto& block, auto*) { --block.lines; },
      [](auto& block, auto*) { block.lines = ~u32{0}; },
      [](auto&, auto* at) { at[sizeof(ObjectArchiveBlock)] ^= std::byte{1}; },
  };
  for (size_t i = 0; i < std::size(changes); ++i) {
    const Failure failure = forge(changes[i]);
    EXPECT_EQ(failure.code, Code::kCorrupt) << i << ": " << failure.message;
    EXPECT_NE(failure.message.find("archive"), std::string::npos) << i << ": " << failure.message;
  }
}

// Columns that are not compressed: each of them out of its bounds.
TEST_P(ForgedArchives, WithColumnsThatCannotBeAreRefused) {
  const auto as_columns = [](const std::function<void(std::byte * raw, u64 calls)>& change) {
    return [change](ObjectArchiveBlock& block, std::byte* at) {
      constexpr u64 kCalls = 2;
      const u64 raw_bytes = kCalls * (format::kObjectArchiveCallBytes + sizeof(u64));
      std::byte* const raw = at + sizeof block;
      std::memset(raw, 0, raw_bytes);
      const u32 sizes[] = {8, 8};
      std::memcpy(raw + 8 * kCalls, sizes, sizeof sizes);
      block.calls = kCalls;
      block.raw_bytes = block.stored_bytes = static_cast<u32>(raw_bytes);
      block.lines = static_cast<u32>((sizeof block + raw_bytes + kLineBytes - 1) / kLineBytes);
      change(raw, kCalls);
    };
  };
  const auto changed = [&](const std::function<void(std::byte*, u64)>& change) {
    const auto changes = as_columns(change);
    // As long as the head says, and no log, so that nothing else is wrong.
    const Failure failure = forge([&](ObjectArchiveBlock& block, std::byte* at) {
      changes(block, at);
      std::memset(at - kArchiveAt + kLogAt, 0, kLogLines * kLineBytes);
      for (u64 slot = 0; slot < 2; ++slot) {
        auto& head =
            *reinterpret_cast<ObjectHead*>(at - kArchiveAt + slot * format::kObjectHeadBytes);
        head.archive_used = block.lines;
        head.checkpoint = block.end = block.begin + 2;
      }
    });
    return failure;
  };
  const std::string other = "has a block of other calls than it says";
  const auto set_size = [](u32 size) {
    return [size](std::byte* raw, u64 calls) { std::memcpy(raw + 8 * calls, &size, 4); };
  };
  const auto set_function = [](u16 function) {
    return [function](std::byte* raw, u64 calls) { std::memcpy(raw + 12 * calls, &function, 2); };
  };
  const auto set_answer = [](u16 bytes) {
    return [bytes](std::byte* raw, u64 calls) { std::memcpy(raw + 14 * calls, &bytes, 2); };
  };
  EXPECT_EQ(changed([](auto*, u64) {}).message, "it was opened");
  for (const Failure& failure :
       {changed(set_size(9)), changed(set_size(~u32{0})), changed(set_size(100)),
        changed(set_function(format::kObjectResized)), changed(set_answer(1)),
        changed(set_answer(49)), changed(set_answer(0xffff)), changed(set_function(4))}) {
    EXPECT_EQ(failure.code, Code::kCorrupt) << failure.message;
    EXPECT_NE(failure.message.find(other), std::string::npos) << failure.message;
  }
}

INSTANTIATE_TEST_SUITE_P(Media, ObjectArchives, testing::Values("emu:", "file:"), name_of_scheme);
INSTANTIATE_TEST_SUITE_P(Media, ForgedArchives, testing::Values("emu:", "file:"), name_of_scheme);

}  // namespace
}  // namespace perdura::test
