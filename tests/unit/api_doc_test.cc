// Goal: what docs/api.md says and no test of a part shows: what an operation is made of, whose an
// allocator is, that a store keeps its engine, what may happen inside an operation, which failures
// of timed checkpoints are said, and the codes of errors.
// Method: small programs that do what the sentence is about.
#include <gtest/gtest.h>

#include <pthread.h>

#include <atomic>
#include <fstream>
#include <mutex>
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

// --- waiting for ever ----------------------------------------------------------------------------

/// Whether threads that have begun all come to sleep, and none of them to its end: in a moment that
/// is long for what they do. A child ends with them.
bool stand_still(const std::vector<std::atomic<pid_t>>& threads, const std::atomic<int>& ended) {
  for (const std::atomic<pid_t>& each : threads) {
    while (each == 0) std::this_thread::yield();
    await_asleep(each);
  }
  std::this_thread::sleep_for(milliseconds(300));
  return ended == 0;
}

// A checkpoint waits for the thread that is inside, which waits for the lock of whoever waits for
// the checkpoint: by an operation of its own, or since it takes the checkpoint.
TEST_F(ApiDoc, ALockTakenInsideAnOperationIsNotHeldByWhoWaitsForACheckpoint) {
  for (const bool takes_it : {true, false}) {
    EXPECT_EQ(in_child([&]() -> std::string {
                Store store = open(takes_it ? "taken.pd" : "begun.pd");
                std::mutex lock;
                std::atomic<bool> is_inside{false};
                std::atomic<bool> is_held{false};
                std::atomic<int> ended{0};
                std::vector<std::atomic<pid_t>> threads(takes_it ? 2 : 3);
                std::thread inside([&] {
                  const auto operation = store.operation();
                  is_inside = true;
                  while (!is_held) std::this_thread::yield();
                  threads[0] = ::gettid();
                  lock.lock();
                  ++ended;
                });
                std::thread holds([&] {
                  while (!is_inside) std::this_thread::yield();
                  lock.lock();
                  is_held = true;
                  threads[1] = ::gettid();
                  if (takes_it) {
                    store.checkpoint();
                  } else {
                    while (threads[2] == 0) std::this_thread::yield();
                    await_asleep(threads[2]);
                    const auto operation = store.operation();
                  }
                  ++ended;
                });
                std::thread takes;
                if (!takes_it)
                  takes = std::thread([&] {
                    while (!is_held) std::this_thread::yield();
                    threads[2] = ::gettid();
                    store.checkpoint();
                    ++ended;
                  });
                ::_exit(stand_still(threads, ended) ? 0 : 1);
              }),
              "");
  }
}

// The same of two stores: each checkpoint waits for a thread that waits for the other one.
TEST_F(ApiDoc, OperationsOnTwoStoresInBothOrdersWaitForEachOther) {
  EXPECT_EQ(in_child([&]() -> std::string {
              Store stores[] = {open("a.pd"), open("b.pd")};
              std::atomic<int> are_inside{0};
              std::atomic<int> ended{0};
              std::vector<std::atomic<pid_t>> threads(4);
              std::vector<std::thread> all;
              for (const size_t first : {0, 1}) {
                all.emplace_back([&, first] {
                  const auto outer = stores[first].operation();
                  ++are_inside;
                  while (threads[2] == 0 || threads[3] == 0) std::this_thread::yield();
                  await_asleep(threads[2]);
                  await_asleep(threads[3]);
                  threads[first] = ::gettid();
                  const auto inner = stores[1 - first].operation();
                  ++ended;
                });
                all.emplace_back([&, first] {
                  while (are_inside != 2) std::this_thread::yield();
                  threads[2 + first] = ::gettid();
                  stores[first].checkpoint();
                  ++ended;
                });
              }
              ::_exit(stand_still(threads, ended) ? 0 : 1);
            }),
            "");
}

// Locks taken before operations, in one order on both stores, and checkpoints in between.
TEST_F(ApiDoc, WhoTakesLocksBeforeOperationsAndStoresInOneOrderComesToAnEnd) {
  Store stores[] = {open("a.pd"), open("b.pd")};
  u64* const numbers[] = {&stores[0].root<u64>("number"), &stores[1].root<u64>("number")};
  std::mutex lock;
  constexpr u64 kSteps = 2'000;
  const auto work = [&] {
    for (u64 i = 0; i < kSteps; ++i) {
      const std::scoped_lock held(lock);
      const auto a = stores[0].operation();
      const auto b = stores[1].operation();
      ++*numbers[0];
      ++*numbers[1];
    }
  };
  std::atomic<bool> are_done{false};
  const auto checkpoints = [&](Store& store) {
    while (!are_done) store.checkpoint();
  };
  std::thread first([&] { checkpoints(stores[0]); });
  std::thread second([&] { checkpoints(stores[1]); });
  std::thread third(work);
  work();
  third.join();
  are_done = true;
  first.join();
  second.join();
  for (const u64* number : numbers) EXPECT_EQ(*number, 2 * kSteps);
}

// --- roots and type records ----------------------------------------------------------------------

// A name that C set, or set_root without a fingerprint, says nothing of a type.
TEST_F(ApiDoc, ARootThatWasSetWithoutATypeHasAny) {
  Store store = open();
  store.set_root("number", store.make<u64>(7));
  EXPECT_EQ(store.root<u64>("number"), 7u);
  EXPECT_EQ(store.root<std::int64_t>("number"), 7);
  EXPECT_EQ(store.get_root("number"), &store.root<u64>("number"));
  store.root<u64>("typed");
  expect_error([&] { store.root<std::int64_t>("typed"); }, Code::kTypeMismatch, "typed");
  EXPECT_NE(store.get_root("typed"), nullptr);
}

TEST_F(ApiDoc, ARootThatIsRemovedLeavesItsObject) {
  Store store = open();
  u64& number = store.root<u64>("number", u64{7});
  const u64 blocks = store.audit().live_blocks;
  store.set_root("number", nullptr);
  EXPECT_EQ(store.get_root("number"), nullptr);
  EXPECT_EQ(number, 7u);
  EXPECT_LE(store.audit().live_blocks, blocks);  // its name may have gone
  store.destroy(&number);
  for (const std::string& name : {std::string(), std::string(256, 'n')})
    expect_error([&] { store.set_root(name, &store); }, Code::kInvalidArgument, "255");
}

TEST_F(ApiDoc, ARootOfANumberStaysWhereItIs) {
  Store store = open();
  store.root<u64>("number") = 7;
  Options elsewhere = options();
  elsewhere.region_address =
      reinterpret_cast<u64>(store.runtime().region().base()) + 4 * elsewhere.region_limit_bytes;
  store.close();
  expect_error([&] { Store::open(folder_.path("state.pd"), elsewhere); }, Code::kAddressTaken,
               "no type record");
  EXPECT_EQ(open().root<u64>("number"), 7u);
}

// Records of one name, as builds of a program before and after a change have them.
TEST_F(ApiDoc, ARecordTellsWherePointersAreAndNothingElse) {
  struct Node {
    Node* next;
    u64 number;
  };
  const perdura_slot next{"next", PERDURA_SLOT_POINTER, 0, 8, nullptr, 0, 0, 0};
  const perdura_slot moved{"next", PERDURA_SLOT_POINTER, 8, 8, nullptr, 0, 0, 0};
  static perdura_slot slots[2];
  slots[0] = next;
  slots[1] = moved;
  static const perdura_type made{"Node", 16, 8, 1, &slots[0]};
  static const perdura_type the_number_is_two{"Node", 16, 8, 1, &slots[0]};
  static const perdura_type the_pointer_moved{"Node", 16, 8, 1, &slots[1]};
  Store store = open();
  auto* const node = static_cast<Node*>(store.allocate(made));
  store.set_root("node", node);
  store.expect_type(the_number_is_two);
  expect_error([&] { store.expect_type(the_pointer_moved); }, Code::kTypeMismatch, "Node");
}

// --- standard containers -------------------------------------------------------------------------

/// What does not compile unless its program vouches for it.
struct Lost {
  std::string text;
};
static_assert(!Durable<map<u64, std::string>> && Durable<map<u64, string>>);

}  // namespace
}  // namespace perdura::test
template <>
inline constexpr bool perdura::kDurable<perdura::test::Lost> = true;
namespace perdura::test {
namespace {

static_assert(Durable<map<u64, Lost>>);

// What an element keeps elsewhere is where its own allocator puts it.
TEST_F(ApiDoc, AnElementOfTheStandardLibraryIsNotInTheStore) {
  Store store = open();
  auto& lost = store.root<map<u64, Lost>>("std");
  auto& kept = store.root<map<u64, string>>("perdura");
  lost[1].text = kText;
  kept[1] = kText;
  EXPECT_TRUE(store.contains(&lost[1]) && !store.contains(lost[1].text.data()));
  EXPECT_TRUE(store.contains(&kept[1]) && store.contains(kept[1].data()));
  lost.clear();
}

/// Made amid a container's call.
struct TakesACheckpoint {
  explicit TakesACheckpoint(Store& store) { version = store.checkpoint(); }
  u64 version;
};

TEST_F(ApiDoc, AContainersCallIsNoOperation) {
  Store store = open();
  auto& all = store.root<vector<TakesACheckpoint>>("vector");
  all.emplace_back(store);  // it is allocated, and not counted yet
  EXPECT_EQ(all.size(), 1u);
  expect_error(
      [&] {
        const auto operation = store.operation();
        all.emplace_back(store);
      },
      Code::kMisuse, "inside an operation");
}

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
    auto& waiting = store.root<deque<u64>>("deque");
    auto& linked = store.root<list<string>>("list");
    auto& several = store.root<multimap<u64, string>>("multimap");
    auto& counted = store.root<multiset<u64>>("multiset");
    EXPECT_EQ(numbers.size(), round);
    EXPECT_EQ(text, string(std::string(round * 60, 'x').c_str(), Allocator<char>(store)));
    EXPECT_TRUE(names.size() == round && sorted.size() == round && hashed.size() == round &&
                known.size() == round);
    EXPECT_TRUE(waiting.size() == round && linked.size() == round && several.size() == round &&
                counted.size() == round);
    EXPECT_EQ(counted.count(7), round);
    for (u64 i = 0; i < round; ++i) {
      EXPECT_EQ(names.at(i), kText);
      EXPECT_EQ(hashed.at(i), kText);
      EXPECT_TRUE(sorted.contains(i) && known.contains(i));
      EXPECT_EQ(waiting[i], round - 1 - i);
      EXPECT_EQ(*std::next(linked.begin(), static_cast<long>(i)), kText);
      EXPECT_EQ(several.find(i / 2)->second, kText);
    }
    const auto operation = store.operation();
    numbers.push_back(round);
    text.append(60, 'x');
    names[round] = kText;
    hashed[round] = kText;
    sorted.insert(round);
    known.insert(round);
    waiting.push_front(round);
    linked.emplace_back(kText);
    several.emplace(round / 2, kText);
    counted.insert(7);
    EXPECT_TRUE(store.contains(names[round].data()));
  }
}

TEST_F(ApiDoc, KeysThatAreStringsAreFoundByAnyText) {
  Store store = open();
  auto& words = store.root<unordered_map<string, u64>>("words");
  auto& names = store.root<unordered_set<string>>("names");
  auto& sorted = store.root<map<string, u64>>("sorted");
  words.emplace(kText, 7);
  names.emplace(kText);
  sorted.emplace(kText, 8);
  const u64 before = store.audit().live_blocks;
  const std::string_view text = kText;
  EXPECT_EQ(words.find(text)->second, 7u);
  EXPECT_TRUE(names.contains(text));
  EXPECT_EQ(sorted.find(text)->second, 8u);
  EXPECT_FALSE(words.contains(text.substr(1)) || names.contains(text.substr(0, 9)));
  EXPECT_EQ(store.audit().live_blocks, before);
  // A key of the store's own type would have to be allocated; with two stores open that throws.
  const Store other = open("other.pd");
  EXPECT_EQ(words.count(text), 1u);
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
