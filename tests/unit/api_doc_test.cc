// Goal: what docs/api.md says and no test of a part shows: what an operation is made of, whose an
// allocator is, that a store keeps its engine, what may happen inside an operation, which failures
// of timed checkpoints are said, and the codes of errors.
// Method: small programs that do what the sentence is about.
#include <gtest/gtest.h>

#include <pthread.h>

#include <atomic>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include <perdura/perdura.h>
#include <perdura/perdura.hpp>

#include "media/fault.hpp"
#include "store/inspect.hpp"
#include "support/expect_failure.hpp"
#include "support/files.hpp"
#include "support/process.hpp"
#include "support/threads.hpp"
#include "support/wrapped_store.hpp"

namespace perdura::test {
namespace {

using std::chrono::milliseconds;

class ApiDoc : public testing::Test {
 protected:
  static Options options(Tracking tracking = Tracking::kAutomatic) {
    Options options;
    options.region_limit_bytes = 64 * kMiB;
    options.tracking = tracking;
    return options;
  }
  Store open(const std::string& name = "state.pd") const {
    return Store::open(folder_.path(name), options());
  }
  const TempDir folder_{TempDir::kMemory};
};

/// Longer than what a string keeps in itself.
constexpr char kText[] = "a text that no string keeps without a block of its own";

// --- headers -------------------------------------------------------------------------------------

/// Of the public headers that one includes, itself among them.
std::set<std::string> headers_of(const std::string& name) {
  std::set<std::string> found;
  std::vector<std::string> waiting{name};
  while (!waiting.empty()) {
    const std::string each = waiting.back();
    waiting.pop_back();
    if (!found.insert(each).second) continue;
    std::ifstream file(std::string(PERDURA_SOURCE_DIR "/include/perdura/") + each);
    const std::string before = "#include <perdura/";
    for (std::string line; std::getline(file, line);)
      if (line.starts_with(before))
        waiting.push_back(line.substr(before.size(), line.find('>') - before.size()));
  }
  return found;
}

TEST(Headers, OneHasAllOfCpp) {
  const std::set<std::string> found = headers_of("perdura.hpp");
  for (const auto& each :
       std::filesystem::directory_iterator(PERDURA_SOURCE_DIR "/include/perdura"))
    EXPECT_TRUE(each.path().extension() != ".hpp" || found.contains(each.path().filename()))
        << each.path();
}

TEST(Headers, CodesAreTheSameInC) {
  const std::pair<int, Code> codes[] = {{PERDURA_INVALID_ARGUMENT, Code::kInvalidArgument},
                                        {PERDURA_NOT_FOUND, Code::kNotFound},
                                        {PERDURA_TYPE_MISMATCH, Code::kTypeMismatch},
                                        {PERDURA_LOCKED, Code::kLocked},
                                        {PERDURA_IO, Code::kIo},
                                        {PERDURA_NO_SPACE, Code::kNoSpace},
                                        {PERDURA_NO_MEMORY, Code::kNoMemory},
                                        {PERDURA_FOREIGN, Code::kForeign},
                                        {PERDURA_INCOMPATIBLE, Code::kIncompatible},
                                        {PERDURA_CORRUPT, Code::kCorrupt},
                                        {PERDURA_ADDRESS_TAKEN, Code::kAddressTaken},
                                        {PERDURA_FORKED, Code::kForked},
                                        {PERDURA_UNSUPPORTED, Code::kUnsupported},
                                        {PERDURA_MISUSE, Code::kMisuse}};
  int number = 0;
  for (const auto& [in_c, code] : codes) {
    EXPECT_EQ(in_c, ++number);
    EXPECT_EQ(in_c, static_cast<int>(code));
  }
}

// --- operations ----------------------------------------------------------------------------------

TEST_F(ApiDoc, WhatAnOperationConsistsOfDoesNotEndIt) {
  Store store = open();
  const auto expect_inside = [&](const char* after) {
    SCOPED_TRACE(after);
    expect_error([&] { store.checkpoint(); }, Code::kMisuse, "inside an operation");
  };
  {
    const auto operation = store.operation();
    void* const block = store.allocate(100);
    expect_inside("allocate");
    store.deallocate(block);
    expect_inside("deallocate");
    u64* const number = store.make<u64>(7);
    expect_inside("make");
    store.root<u64>("root");
    expect_inside("root");
    store.set_root("number", number);
    expect_inside("set_root");
    store.destroy(store.make<u64>(8));
    expect_inside("destroy");
    {
      const auto inner = store.operation();
    }
    expect_inside("an operation");
  }
  store.checkpoint();
}

// A block of each is durable with the next checkpoint, or not at all: they are operations.
TEST_F(ApiDoc, ACheckpointWaitsForOperationsAndOperationsForIt) {
  Store store = open();
  u64& number = store.root<u64>("number");
  std::atomic<bool> is_inside{false};
  std::atomic<bool> may_end{false};
  std::atomic<bool> is_taken{false};
  std::thread inside([&] {
    const auto operation = store.operation();
    is_inside = true;
    may_end.wait(false);
    number = 1;
  });
  while (!is_inside) std::this_thread::yield();
  std::atomic<pid_t> id{0};
  std::thread takes([&] {
    id = ::gettid();
    store.checkpoint();
    is_taken = true;
    may_end.wait(false);
  });
  while (id == 0) std::this_thread::yield();
  await_asleep(id);
  EXPECT_FALSE(is_taken);
  std::atomic<pid_t> late_id{0};
  std::atomic<bool> is_late{false};
  std::thread late([&] {
    late_id = ::gettid();
    const auto operation = store.operation();
    is_late = true;
    may_end.wait(false);
  });
  while (late_id == 0) std::this_thread::yield();
  await_asleep(late_id);
  EXPECT_FALSE(is_late);
  may_end = true;
  may_end.notify_all();
  for (std::thread* thread : {&inside, &takes, &late}) thread->join();
  EXPECT_TRUE(is_taken && is_late);
}

TEST_F(ApiDoc, OtherStoresMayBeOpenedAndClosedInsideAnOperation) {
  Store store = open();
  {
    const auto operation = store.operation();
    Store other = open("other.pd");
    other.root<u64>("number") = 3;
    other.close();
    Store again = open("other.pd");
    EXPECT_EQ(again.root<u64>("number"), 3u);
    expect_error([&] { store.close(); }, Code::kMisuse, "inside an operation");
  }
  store.checkpoint();
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_F(ApiDoc, ACancelledThreadLeavesItsOperation) {
  EXPECT_EQ(in_child([&]() -> std::string {
              Store store = open();
              u64& number = store.root<u64>("number");
              struct Work {
                Store& store;
                u64& number;
                std::atomic<bool> is_inside{false};
              } work{store, number};
              pthread_t thread{};
              ::pthread_create(
                  &thread, nullptr,
                  [](void* given) -> void* {
                    auto& mine = *static_cast<Work*>(given);
                    const auto operation = mine.store.operation();
                    mine.number = 5;
                    mine.is_inside = true;
                    for (;;) ::pthread_testcancel();
                  },
                  &work);
              while (!work.is_inside) std::this_thread::yield();
              ::pthread_cancel(thread);
              ::pthread_join(thread, nullptr);
              ::alarm(60);
              store.checkpoint();
              return "";
            }),
            "");
}
#endif

// --- standard containers -------------------------------------------------------------------------

TEST_F(ApiDoc, AnAllocatorIsOfTheStoreThatIsMeant) {
  Store only = open("only.pd");
  {
    const string text(kText);
    EXPECT_TRUE(only.contains(text.data())) << "of the only store";
  }
  Store other = open("other.pd");
  for (Store* store : {&only, &other}) {
    const auto operation = store->operation();
    const string text(kText);
    EXPECT_TRUE(store->contains(text.data())) << "of the operation's store";
  }
  expect_error([] { const string text(kText); }, Code::kMisuse, "pass a Store");
  const string passed(kText, Allocator<char>(other));
  EXPECT_TRUE(other.contains(passed.data()));
}

TEST_F(ApiDoc, EachStandardContainerIsThereAgain) {
  for (u64 round = 0; round < 3; ++round) {
    Store store = open();
    auto& numbers = store.root<vector<u64>>("vector");
    auto& text = store.root<string>("string");
    auto& names = store.root<map<u64, string>>("map");
    auto& sorted = store.root<set<u64>>("set");
    auto& hashed = store.root<unordered_map<u64, string>>("unordered_map");
    auto& known = store.root<unordered_set<u64>>("unordered_set");
    EXPECT_EQ(numbers.size(), round);
    EXPECT_EQ(text, string(std::string(round * 60, 'x').c_str(), Allocator<char>(store)));
    EXPECT_TRUE(names.size() == round && sorted.size() == round && hashed.size() == round &&
                known.size() == round);
    for (u64 i = 0; i < round; ++i) {
      EXPECT_EQ(names.at(i), kText);
      EXPECT_EQ(hashed.at(i), kText);
      EXPECT_TRUE(sorted.contains(i) && known.contains(i));
    }
    const auto operation = store.operation();
    numbers.push_back(round);
    text.append(60, 'x');
    names[round] = kText;
    hashed[round] = kText;
    sorted.insert(round);
    known.insert(round);
    EXPECT_TRUE(store.contains(names[round].data()));
  }
}

// --- engines -------------------------------------------------------------------------------------

TEST_F(ApiDoc, AStoreKeepsItsEngine) {
  for (const Engine made : {Engine::kRedoLog, Engine::kRemap}) {
    const std::string path = folder_.path(made == Engine::kRemap ? "chunks.pd" : "log.pd");
    for (u64 round = 0; round < 4; ++round) {
      Options chosen = options();
      chosen.engine =
          (round % 2 == 0) == (made == Engine::kRemap) ? Engine::kRemap : Engine::kRedoLog;
      Store store = Store::open(path, chosen);
      EXPECT_EQ(store.root<u64>("number"), round);
      store.root<u64>("number") = round + 1;
      store.close();
      const auto outline = value_or_throw(store::outline(path, {}));
      EXPECT_EQ(outline.regions.at(0).record.chunk_bytes != 0, made == Engine::kRemap) << round;
    }
  }
}

// --- timed checkpoints ---------------------------------------------------------------------------

// A line a second of each code: whoever sees the first knows of all, also of the second code.
TEST_F(ApiDoc, EachKindOfFailureOfTheTimerIsSaidAndNoMoreThanOnceASecond) {
  media::FaultPlan plan;
  WrappedStore store(
      folder_.path("state.pd"), options(),
      [&](std::unique_ptr<media::Medium> inner) { return plan.wrap(std::move(inner)); });
  auto* const number = static_cast<u64*>(store.operation().allocate(sizeof(u64)));
  store.checkpoint();
  {
    const auto operation = store.operation();
    ++*number;
  }
  const auto begin = std::chrono::steady_clock::now();
  testing::internal::CaptureStderr();
  store.runtime().checkpointer().every(milliseconds(1));
  for (const media::FaultKind kind : {media::FaultKind::kNoSpace, media::FaultKind::kIo}) {
    plan.arm({.calls = media::kFaultWrite | media::kFaultSubmit, .kind = kind, .for_ever = true});
    const u64 until = store.statistics().failed_checkpoints + 20;
    while (store.statistics().failed_checkpoints < until) std::this_thread::yield();
  }
  store.runtime().checkpointer().every(milliseconds(0));
  plan.disarm();
  const std::string said = testing::internal::GetCapturedStderr();
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - begin)
          .count();
  EXPECT_NE(said.find("No space left"), said.npos) << said;
  EXPECT_NE(said.find("Input/output error"), said.npos) << said;
  EXPECT_LE(std::count(said.begin(), said.end(), '\n'), 2 * (seconds + 1)) << said;
}

}  // namespace
}  // namespace perdura::test
