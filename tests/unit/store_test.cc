// Goal: what include/perdura/store.hpp promises holds at its surface: locking, forking, exceptions,
// types of roots, containers, reports, order of calls, several stores at once.
// Method: real stores in files; other processes where another process is meant.
#include <gtest/gtest.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cerrno>
#include <functional>
#include <span>
#include <thread>

#include <perdura/perdura.hpp>
#include <perdura/transaction.hpp>

#include "base/bits.hpp"
#include "store/runtime.hpp"
#include "support/files.hpp"
#include "support/process.hpp"

namespace perdura::test {
namespace {

class StoreTest : public testing::Test {
 protected:
  std::string path(const std::string& name = "state.pd") const { return folder_.path(name); }
  static Options options(Tracking tracking = Tracking::kAutomatic) {
    Options options;
    options.region_limit_bytes = 64 * kMiB;
    options.tracking = tracking;
    return options;
  }

  const TempDir folder_;
};

/// The error that a call throws: "<code> <sentence>", or "none".
std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::to_string(static_cast<int>(error.code())) + " " + error.what();
  }
  return "none";
}

void expect_error(const std::function<void()>& call, Code code, const std::string& sentence) {
  const std::string error = error_of(call);
  EXPECT_TRUE(error.starts_with(std::to_string(static_cast<int>(code)) + " ")) << error;
  EXPECT_NE(error.find(sentence), error.npos) << error;
}

struct Counter {
  u64 value = 0;
};

TEST_F(StoreTest, KeepsWhatWasCheckpointed) {
  for (const std::string scheme : {"file:", "emu:"}) {
    std::filesystem::remove(path());
    for (u64 i = 0; i < 5; ++i) {
      Store store = Store::open(scheme + path(), options());
      auto& counter = store.root<Counter>("counter");
      EXPECT_EQ(counter.value, i);
      const u64 before = store.durable_version();
      {
        auto op = store.operation();
        ++counter.value;
      }
      const u64 version = store.checkpoint();
      EXPECT_EQ(version, store.durable_version());
      EXPECT_GT(store.durable_version(), before);
      store.close();
    }
  }
}

TEST_F(StoreTest, ACheckpointWithoutChangesIsTheLastVersion) {
  Store store = Store::open(path(), options());
  const u64 version = store.checkpoint();
  EXPECT_EQ(store.checkpoint(), version);
  EXPECT_EQ(store.statistics().durable_version, version);
  const u64 promised = store.checkpoint_async();
  store.wait(promised);
  EXPECT_GE(store.durable_version(), promised);
}

TEST_F(StoreTest, ASecondOpenerIsToldWhoHasIt) {
  Store store = Store::open(path(), options());
  const std::string pid = std::to_string(::getpid());
  expect_error([&] { Store::open(path(), options()); }, Code::kLocked, "process " + pid + " (");
  expect_error([&] { Store::open(path(), options()); }, Code::kLocked, "which is this process");
  EXPECT_EQ(in_child([&]() -> std::string {
              const std::string error = error_of([&] { Store::open(path(), options()); });
              return error.find("process " + pid + " (") != error.npos ? "" : error;
            }),
            "");
  store.close();
  Store again = Store::open(path(), options());
}

TEST_F(StoreTest, TheLockDiesWithItsProcess) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  Child child([&]() -> std::string {
    Store store = Store::open(path(), options());
    const char byte = 1;
    if (::write(ready[1], &byte, 1) != 1) return "cannot write";
    for (;;) ::pause();
  });
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  expect_error([&] { Store::open(path(), options()); }, Code::kLocked,
               "process " + std::to_string(child.pid()));
  child.kill();
  EXPECT_EQ(child.wait(), "");
  Store store = Store::open(path(), options());
  EXPECT_EQ(store.durable_version(), 1u);
  ::close(ready[0]);
  ::close(ready[1]);
}

// Registered before the library's own handler, so it runs before that in a child.
int child_waits_for = -1;
int waiting_child = -1;
__attribute__((constructor(101))) void register_waiting_child() {
  waiting_child = ::pthread_atfork(nullptr, nullptr, [] {
    char byte = 0;
    if (child_waits_for >= 0) (void)!::read(child_waits_for, &byte, 1);
  });
}

TEST_F(StoreTest, AForkedChildDoesNotKeepTheLock) {
  ASSERT_EQ(waiting_child, 0);
  for (const bool child_is_slow : {false, true}) {
    int hold[2];
    ASSERT_EQ(::pipe(hold), 0);
    auto store = std::make_unique<Store>(Store::open(path(), options()));
    child_waits_for = child_is_slow ? hold[0] : -1;
    Child child([&]() -> std::string {
      char byte = 0;
      return child_is_slow || ::read(hold[0], &byte, 1) == 1 ? "" : "the pipe was closed";
    });
    child_waits_for = -1;
    store->close();
    store.reset();
    Store again = Store::open(path(), options());
    EXPECT_EQ(::write(hold[1], "x", 1), 1);
    EXPECT_EQ(child.wait(), "");
    ::close(hold[0]);
    ::close(hold[1]);
  }
}

TEST_F(StoreTest, AForkedChildGetsAnErrorFromEveryCall) {
  Store store = Store::open(path(), options());
  auto& counter = store.root<Counter>("counter");
  void* block = store.allocate(100);
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"operation", [&] { auto op = store.operation(); }},
      {"touch", [&] { store.touch(&counter, 8); }},
      {"allocate", [&] { store.allocate(10); }},
      {"deallocate", [&] { store.deallocate(block); }},
      {"reallocate", [&] { store.reallocate(block, 1000); }},
      {"usable_size", [&] { store.usable_size(block); }},
      {"find_root", [&] { store.find_root<Counter>("counter"); }},
      {"get_root", [&] { store.get_root("counter"); }},
      {"set_root", [&] { store.set_root("counter", nullptr); }},
      {"checkpoint", [&] { store.checkpoint(); }},
      {"checkpoint_async", [&] { store.checkpoint_async(); }},
      {"wait", [&] { store.wait(1); }},
      {"checkpoint_every", [&] { store.checkpoint_every(std::chrono::milliseconds(1)); }},
      {"audit", [&] { store.audit(); }},
      {"statistics", [&] { store.statistics(); }},
      {"reset_statistics", [&] { store.reset_statistics(); }},
      {"damaged_pages", [&] { store.damaged_pages(); }},
      {"unreported_stores", [&] { store.unreported_stores(); }},
      {"set_durability", [&] { set_durability(store, Durability::kRelaxed); }},
      {"set_logging", [&] { set_logging(store, Logging::kUndo); }},
      {"last_commit", [&] { last_commit(store); }},
      {"durable_commit", [&] { durable_commit(store); }},
      {"wait_for_commit", [&] { wait_for_commit(store, 0); }},
      {"allocator", [&] { Allocator<int>(store).allocate(1); }},
      {"close", [&] { store.close(); }},
  };
  for (const auto& [name, call] : calls)
    EXPECT_EQ(in_child([&]() -> std::string {
                const std::string error = error_of(call);
                return error.find("belongs to the parent process") != error.npos ? "" : error;
              }),
              "")
        << name;
  // The parent goes on.
  counter.value = 7;
  store.checkpoint();
  EXPECT_TRUE(store.audit().clean);
}

// ThreadSanitizer cannot follow threads started in the child of a process with threads.
#if !defined(__SANITIZE_THREAD__)
TEST_F(StoreTest, AChildCanOpenItsOwnStore) {
  Store store = Store::open(path("parent.pd"), options());
  EXPECT_EQ(in_child([&]() -> std::string {
              Store mine = Store::open(path("child.pd"), options());
              mine.root<Counter>("counter").value = 3;
              mine.close();
              return "";
            }),
            "");
  Store child = Store::open(path("child.pd"), options());
  EXPECT_EQ(child.root<Counter>("counter").value, 3u);
}

// When a process forks, another of its threads may hold what the end of a thread locks.
TEST_F(StoreTest, AChildCanOpenItsOwnStoreWhileAThreadEnds) {
  static thread_local bool ends = false;
  std::atomic<bool> ending{false};
  std::atomic<bool> forked{false};
  auto runtime = value_or_throw(detail::Runtime::open(path("parent.pd"), options()));
  runtime->mutators().before_operations([&] {
    if (!ends) return;
    ending = true;
    ending.notify_all();
    forked.wait(false);
  });
  Store store = detail::StoreAccess::store(std::move(runtime));
  std::thread thread([&] {
    store.allocate(64);
    ends = true;  // the last operation of a thread gives back its slabs
  });
  ending.wait(false);
  EXPECT_EQ(in_child([&]() -> std::string {
              ::alarm(20);
              Store mine = Store::open(path("child.pd"), options());
              mine.close();
              return "";
            }),
            "");
  forked = true;
  forked.notify_all();
  thread.join();
}

// Whatever the others are doing: opening, closing, answering faults, registering, ending.
TEST_F(StoreTest, AChildCanOpenItsOwnStoreAtAnyMoment) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "a child finds the sanitizer's own allocator as another thread held it";
#endif
  constexpr int kChildren = 200;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (const Tracking tracking : {Tracking::kReported, Tracking::kProtect})
    threads.emplace_back([&, tracking] {
      const auto number = static_cast<u64>(tracking);
      const std::string uri = "emu:" + path(std::to_string(number) + ".pd");
      Options mine = options(tracking);
      mine.region_address = (u64{0x5540} + number) << 32;  // it cannot move
      while (!stop) {
        Store store = Store::open(uri, mine);
        auto& counter = store.root<Counter>("counter");
        std::thread([&] {
          auto op = store.operation();
          op.touch(&counter, sizeof counter);
          ++counter.value;
        }).join();
      }
    });
  std::string problem;
  for (int i = 0; i < kChildren && problem.empty(); ++i)
    problem = in_child([&]() -> std::string {
      ::alarm(20);
      Store mine = Store::open("emu:" + path("child.pd"), options());
      mine.root<Counter>("counter").value = 3;
      mine.checkpoint();
      mine.close();
      return "";
    });
  stop = true;
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(problem, "");
}
#endif

TEST_F(StoreTest, AChildGetsACopyWhereThatIsWanted) {
  for (const Tracking tracking : {Tracking::kUserfault, Tracking::kSigbus, Tracking::kProtect}) {
    SCOPED_TRACE(static_cast<int>(tracking));
    std::filesystem::remove(path());
    auto runtime =
        detail::Runtime::open("emu:" + path(), options(tracking), {.children_inherit = true});
    if (!runtime) {
      EXPECT_EQ(runtime.failure().code, Code::kUnsupported) << runtime.failure().message;
      continue;
    }
    Store store = detail::StoreAccess::store(std::move(*runtime));
    auto& counter = store.root<Counter>("counter");
    auto* untouched = static_cast<Counter*>(store.allocate(kMiB)) + kMiB / sizeof(Counter) / 2;
    counter.value = 1;
    store.checkpoint();
    EXPECT_EQ(in_child([&]() -> std::string {
                if (counter.value != 1) return "an old value: " + std::to_string(counter.value);
                counter.value = untouched->value = 2;
                return counter.value == 2 ? "" : "its own store is lost";
              }),
              "");
    EXPECT_EQ(counter.value, 1u);
    untouched->value = 3;  // the first store to a page after a checkpoint that did not find it
    store.checkpoint();
    store.close();
    Store again = Store::open("emu:" + path(), options());
    EXPECT_EQ(again.root<Counter>("counter").value, 1u);
    EXPECT_EQ(untouched->value, 3u);
  }
}

TEST_F(StoreTest, AnOperationThatWaitsLeavesErrnoAlone) {
  auto runtime = value_or_throw(detail::Runtime::open(path(), options()));
  runtime->mutators().before_operations([] { errno = EAGAIN; });
  Store store = detail::StoreAccess::store(std::move(runtime));
  errno = ENOENT;
  {
    auto op = store.operation();
  }
  EXPECT_EQ(errno, ENOENT);
}

TEST_F(StoreTest, ARootThatThereIsNoRoomForLeavesNothing) {
  struct Huge {
    u64 words[16 * kMiB];
  };
  Options small = options();
  small.region_limit_bytes = 16 * kMiB;
  Store store = Store::open(path(), small);
  store.root<Counter>("counter");
  const HeapAudit before = store.audit();
  expect_error([&] { store.root<Huge>("huge"); }, Code::kNoSpace, "larger than the region");
  EXPECT_EQ(store.find_root<Huge>("huge"), nullptr);
  EXPECT_EQ(store.runtime().heap().roots().all().size(), 1u);
  EXPECT_EQ(store.audit().live_blocks, before.live_blocks);
  store.root<u64>("huge") = 5;  // the name is free
}

TEST_F(StoreTest, ARootHasOneType) {
  Store store = Store::open(path(), options());
  store.root<Counter>("counter");
  expect_error([&] { store.root<u64>("counter"); }, Code::kTypeMismatch, "the root 'counter' of");
  expect_error([&] { store.find_root<int>("counter"); }, Code::kTypeMismatch, "another type");
  EXPECT_NE(store.get_root("counter"), nullptr);
  EXPECT_EQ(store.find_root<Counter>("other"), nullptr);
  expect_error([&] { store.set_root("", nullptr); }, Code::kInvalidArgument, "1 to 255 bytes");
  expect_error([&] { store.set_root(std::string(256, 'x'), nullptr); }, Code::kInvalidArgument,
               "not 256");
  int outside = 0;
  expect_error([&] { store.set_root("outside", &outside); }, Code::kInvalidArgument,
               "must point into the store");
  const std::string longest(255, 'x');
  store.set_root(longest, store.allocate(8));
  EXPECT_NE(store.get_root(longest), nullptr);
  store.set_root(longest, nullptr);
  EXPECT_EQ(store.get_root(longest), nullptr);
  EXPECT_EQ(store.audit().roots, 1u);
}

struct Thrower {
  Thrower() { throw std::runtime_error("no"); }
};

// Both threads find no root and are in the constructor at the same time.
TEST_F(StoreTest, ARootThatTwoThreadsMakeIsOneObject) {
  static std::atomic<int> alive{0};
  struct Met {
    explicit Met(std::barrier<>& other) {
      ++alive;
      other.arrive_and_wait();
    }
    ~Met() { --alive; }
    u64 value = 0;
  };
  {
    Store store = Store::open(path(), options());
    std::barrier other(2);
    Met* made[2];
    std::vector<std::thread> threads;
    for (Met*& each : made) threads.emplace_back([&] { each = &store.root<Met>("met", other); });
    for (std::thread& each : threads) each.join();
    EXPECT_EQ(made[0], made[1]);
    EXPECT_EQ(alive, 1);
    EXPECT_EQ(store.audit().live_blocks, 3) << "the object, its root, and its members";
    made[0]->value = 7;
    store.checkpoint();
    EXPECT_EQ(store.get_or_set_root("met", made[0]), made[0]);
  }
  Store store = Store::open(path(), options());
  ASSERT_NE(store.find_root<Met>("met"), nullptr);
  EXPECT_EQ(store.find_root<Met>("met")->value, 7);
}

TEST_F(StoreTest, ARootThatCannotBeMadeLeavesNothing) {
  Store store = Store::open(path(), options());
  expect_error([&] { store.root<Counter>(std::string(256, 'x')); }, Code::kInvalidArgument,
               "1 to 255 bytes");
  EXPECT_EQ(store.audit().live_blocks, 2) << "the type, and its members";
}

TEST_F(StoreTest, AThrowingConstructorLeavesNothing) {
  Store store = Store::open(path(), options());
  EXPECT_THROW(store.make<Thrower>(), std::runtime_error);
  EXPECT_THROW(store.root<Thrower>("thrower"), std::runtime_error);
  EXPECT_EQ(store.get_root("thrower"), nullptr);
  EXPECT_EQ(store.audit().live_blocks, 0u);
  store.checkpoint();  // the operations have ended
}

TEST_F(StoreTest, UnwindingTakesNoCheckpoint) {
  try {
    Store store = Store::open(path(), options());
    store.root<Counter>("counter").value = 1;
    store.checkpoint();
    store.root<Counter>("counter").value = 2;
    throw std::runtime_error("unwind");
  } catch (const std::runtime_error&) {
  }
  Store store = Store::open(path(), options());
  EXPECT_EQ(store.root<Counter>("counter").value, 1u);
}

TEST_F(StoreTest, DestructionAndMoveAssignmentClose) {
  {
    Store store = Store::open(path("a.pd"), options());
    store.root<Counter>("counter").value = 5;
  }
  {
    Store store = Store::open(path("a.pd"), options());
    EXPECT_EQ(store.root<Counter>("counter").value, 5u);
    store.root<Counter>("counter").value = 6;
    store = Store::open(path("b.pd"), options());
  }
  Store store = Store::open(path("a.pd"), options());
  EXPECT_EQ(store.root<Counter>("counter").value, 6u);
}

TEST_F(StoreTest, CallsInsideAnOperationThatWouldWaitForItAreRefused) {
  Store store = Store::open(path(), options());
  {
    auto op = store.operation();
    expect_error([&] { store.checkpoint(); }, Code::kMisuse, "end the operation first");
    expect_error([&] { store.checkpoint_async(); }, Code::kMisuse, "end the operation first");
    expect_error([&] { store.close(); }, Code::kMisuse, "end the operation first");
  }
  expect_error([&] { store.wait(1000); }, Code::kNotFound, "was never begun");
  expect_error([&] { store.checkpoint_every(std::chrono::milliseconds(-1)); },
               Code::kInvalidArgument, "not negative");
  store.checkpoint();
}

TEST_F(StoreTest, OptionsOutOfRangeAreRefused) {
  const auto open_with = [&](auto change) {
    Options changed = options();
    change(changed);
    return [this, changed] { Store::open(path(), changed); };
  };
  expect_error(open_with([](Options& o) { o.granule_bytes = 96; }), Code::kInvalidArgument,
               "granule_bytes");
  expect_error(open_with([](Options& o) { o.granule_bytes = 32; }), Code::kInvalidArgument,
               "granule_bytes");
  expect_error(open_with([](Options& o) { o.granule_bytes = 8192; }), Code::kInvalidArgument,
               "granule_bytes");
  expect_error(open_with([](Options& o) { o.region_limit_bytes = kMiB + 4096; }),
               Code::kInvalidArgument, "region_limit_bytes");
  expect_error(open_with([](Options& o) { o.region_limit_bytes = u64{1} << 45; }),
               Code::kInvalidArgument, "region_limit_bytes");
  expect_error(open_with([](Options& o) { o.region_limit_bytes = 1000; }), Code::kInvalidArgument,
               "region_limit_bytes");
  expect_error(open_with([](Options& o) { o.region_address = 100; }), Code::kInvalidArgument,
               "region_address");
  for (const u64 address : {u64{1} << 63, u64{1} << 47, (u64{1} << 47) - kPageBytes, kPageBytes,
                            ~u64{0} - kPageBytes + 1})
    expect_error(open_with([=](Options& o) { o.region_address = address; }), Code::kInvalidArgument,
                 "addresses are 0x10000 to 0x7ffffffff000; choose one");
  // The beginning has room, all of the region has not.
  expect_error(open_with([](Options& o) { o.region_address = (u64{1} << 47) - 2 * kMiB; }),
               Code::kInvalidArgument, "bytes from region_address 0x7fffffe00000 on");
  expect_error(open_with([](Options& o) { o.log_limit_bytes = 1; }), Code::kInvalidArgument,
               "log_limit_bytes");
  expect_error(open_with([](Options& o) { o.log_segment_bytes = 48 << 10; }),
               Code::kInvalidArgument, "log_segment_bytes");
  expect_error(open_with([](Options& o) {
                 o.aliases = 2;
                 o.capture = Capture::kBackground;
               }),
               Code::kInvalidArgument, "background capture");
  expect_error(open_with([](Options& o) { o.verify_reports = true; }), Code::kInvalidArgument,
               "verify_reports");
  expect_error(open_with([](Options& o) { o.tracking = static_cast<Tracking>(99); }),
               Code::kInvalidArgument, "none of the trackers");
  expect_error(open_with([](Options& o) { o.engine = static_cast<Engine>(99); }),
               Code::kInvalidArgument, "none of the engines");
  expect_error(open_with([](Options& o) { o.create = false; }), Code::kNotFound, path());
  expect_error([&] { Store::open("file:", options()); }, Code::kInvalidArgument, "");
  expect_error([&] { Store::open(path("none/state.pd"), options()); }, Code::kNotFound,
               "create its directory first");
  expect_error([&] { Store::open(folder_.path("."), options()); }, Code::kInvalidArgument,
               "a directory");
  expect_error([&] { Store::open("emu:" + path() + "?speed=1", options()); },
               Code::kInvalidArgument, "unknown URI parameter 'speed'");
  expect_error([&] { Store::open("emu:" + path() + "?write_ns=x", options()); },
               Code::kInvalidArgument, "needs a number");
  expect_error([&] { Store::open("emu:" + path() + "?flush=no", options()); },
               Code::kInvalidArgument, "flush is nt");
  expect_error([&] { Store::open("emu:" + path() + "?flush", options()); }, Code::kInvalidArgument,
               "key=value");
}

TEST_F(StoreTest, SeveralStoresFromSeveralThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (u64 i = 0; i < 8; ++i) {
        Store store = Store::open(path(std::to_string(t)), options());
        auto& list = store.root<vector<u64>>("list");
        ASSERT_EQ(list.size(), i);
        {
          auto op = store.operation();
          list.push_back(i);
        }
        store.close();
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(StoreTest, ContainersLiveInTheStore) {
  using Index = map<string, vector<u64>>;
  for (u64 round = 0; round < 3; ++round) {
    Store store = Store::open(path(), options());
    auto& index = store.root<Index>("index");
    EXPECT_EQ(index.size(), round * 100);
    {
      auto op = store.operation();
      for (u64 i = 0; i < 100; ++i) {
        string key(("key " + std::to_string(round * 100 + i)).c_str(), Allocator<char>(store));
        index.try_emplace(key, Allocator<u64>(store)).first->second.assign(i, i);
      }
    }
    for (const auto& [key, values] : index) {
      EXPECT_TRUE(store.contains(&key));
      if (!values.empty()) {
        EXPECT_EQ(values.front(), values.size());
      }
    }
    EXPECT_TRUE(store.audit().clean);
    store.close();
  }
}

TEST_F(StoreTest, ContainersAreRefusedWhereOnlyReportedStoresCount) {
  {
    Store::open(path(), options()).root<string>("made with pages") = "text";
  }
  for (const Tracking tracking : {Tracking::kReported, Tracking::kBitmap}) {
    Store store = Store::open(path(), options(tracking));
    const char* const sentence = "do not report what they store";
    expect_error([&] { store.root<string>("text"); }, Code::kUnsupported, sentence);
    expect_error([&] { store.root<string>("made with pages"); }, Code::kUnsupported, sentence);
    expect_error([&] { store.make<map<u64, u64>>(); }, Code::kUnsupported, sentence);
    struct Around {
      vector<u64> numbers;
    };
    expect_error([&] { store.make<Around>(); }, Code::kUnsupported, sentence);
    expect_error([&] { store.make<list<u64>>(); }, Code::kUnsupported, "perdura::structures");
    expect_error([&] { const multimap<u64, u64> all{Allocator<u64>(store)}; }, Code::kUnsupported,
                 sentence);
    expect_error([&] { const deque<u64> all; }, Code::kUnsupported, sentence);
    EXPECT_EQ(store.audit().live_blocks, 3) << "the text, its root, and its members";
  }
}

struct Entry {
  u32 number;
};

/// The fingerprint of a root of vector<map<u64, Entry>> in a build where an Entry has that size.
u64 fingerprint_with(size_t entry_bytes) {
  using Elements = map<u64, Entry>;
  using detail::joined_fingerprint;
  using Pair = std::pair<const u64, Entry>;
  const u64 entry = detail::type_fingerprint(typeid(Entry).name(), entry_bytes, alignof(Entry));
  u64 pair = joined_fingerprint(detail::own_fingerprint<Pair>(), detail::own_fingerprint<u64>());
  pair = joined_fingerprint(pair, entry);
  const u64 elements = joined_fingerprint(detail::own_fingerprint<Elements>(), pair);
  return joined_fingerprint(detail::own_fingerprint<vector<Elements>>(), elements);
}

// A pair's padding may take up what its second part grows by: parts count, not pairs alone.
TEST_F(StoreTest, ARootKnowsWhatItsContainersContain) {
  using Root = vector<map<u64, Entry>>;
  Store store = Store::open(path(), options());
  auto& root = store.root<Root>("root");
  EXPECT_EQ(store.get_root("root", fingerprint_with(sizeof(Entry))), &root);
  store.set_root("root", &root, fingerprint_with(2 * sizeof(Entry)));
  expect_error([&] { store.root<Root>("root"); }, Code::kTypeMismatch, "another layout");
  // One that was made when the name and size of the root's own type were all that counted.
  store.set_root("root", &root, detail::own_fingerprint<Root>());
  EXPECT_EQ(&store.root<Root>("root"), &root);
  EXPECT_EQ(store.get_root("root", fingerprint_with(sizeof(Entry))), &root);
  // Others are known as they were.
  EXPECT_EQ(Store::fingerprint<Counter>(), detail::own_fingerprint<Counter>());
  using Plain = std::pair<u64, Counter>;
  EXPECT_EQ(Store::fingerprint<Plain>(), detail::own_fingerprint<Plain>());
}

void forbid_by(std::span<sock_filter> filter) {
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    std::abort();
}

/// Let it have one that can watch nothing from now on.
void forbid_watching() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 2),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<u32>(UFFDIO_REGISTER), 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
  };
  forbid_by(filter);
}

/// Forbid this process userfaultfd, as a container's sandbox does.
void forbid_userfault() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 4, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 2),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, _IO(0xAA, 0x00), 1, 0),  // of /dev/userfaultfd
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
  };
  forbid_by(filter);
}

TEST_F(StoreTest, ATrackerThatTheSystemRefusesIsNamedWithTheStoreAndARemedy) {
  for (const Tracking tracking : {Tracking::kUserfault, Tracking::kSigbus}) {
    const std::string refused = in_child([&]() -> std::string {
      forbid_userfault();
      return error_of([&] { Store::open(path(), options(tracking)); });
    });
    for (const std::string& part :
         {"stores to '" + path() + "' cannot be found by '" + name_of(tracking) + "'",
          std::string("a sandbox may forbid the system call"),
          std::string("open it with another Options::tracking")})
      EXPECT_NE(refused.find(part), refused.npos) << refused;
    EXPECT_EQ(refused.find("permissions of the file"), refused.npos) << refused;
  }
}

TEST_F(StoreTest, MemoryThatATrackerCannotWatchIsNamedWithTheStoreAndARemedy) {
  const auto open = [&] { return Store::open(path(), options(Tracking::kUserfault)); };
  const std::string usual = error_of([&] { open().close(); });
  if (usual != "none") GTEST_SKIP() << usual;
  const std::string opening = in_child([&] {
    forbid_watching();
    return error_of([&] { open(); });
  });
  const std::string growing = in_child([&] {
    Store store = open();
    forbid_watching();
    const std::string refused = error_of([&] { (void)store.allocate(8 * kMiB); });
    store.close();
    return refused;
  });
  for (const std::string& refused : {opening, growing})
    for (const std::string& part :
         {std::string("userfaultfd cannot watch this memory"), "'" + path() + "'",
          std::string("open it with another Options::tracking")})
      EXPECT_NE(refused.find(part), refused.npos) << refused;
}

// Its system calls behave differently from then on.
TEST_F(StoreTest, ATrackerThatIsTakenInsteadIsSaidOnce) {
  Child child([&]() -> std::string {
    forbid_userfault();
    testing::internal::CaptureStderr();
    Store::open(path("chosen.pd"), options(Tracking::kProtect)).close();
    Store store = Store::open(path(), options());
    if (store.statistics().tracking != Tracking::kProtect) return "has another tracker";
    store.close();
    Store::open(path(), options()).close();
    int told = 0;
    Options listening = options();
    listening.on_event = [&told](const Event& event) {
      told += event.kind == EventKind::kOtherTracker &&
              event.message.find("'protect'") != event.message.npos;
    };
    // Each store's listener is.
    Store::open(path(), listening).close();
    Store::open(path(), listening).close();
    if (told != 2) return "told " + std::to_string(told) + " times";
    const std::string said = testing::internal::GetCapturedStderr();
    // Who chose a tracker knows it.
    if (std::count(said.begin(), said.end(), '\n') != 1) return "said: " + said;
    for (const char* part : {"state.pd", "'protect'", "userfaultfd is refused", "EFAULT"})
      if (said.find(part) == said.npos) return "lacks " + std::string(part) + ": " + said;
    return "";
  });
  EXPECT_EQ(child.wait(), "");
}

// It closes pages itself, as that tracker does.
TEST_F(StoreTest, AStrictStoreTakesNoTrackerThatClosesPages) {
  Child child([&]() -> std::string {
    forbid_userfault();
    Options strict = options();
    strict.strict = true;
    try {
      Store::open(path(), strict);
      return "was opened";
    } catch (const Error& error) {
      const std::string said = error.what();
      if (error.code() != Code::kUnsupported) return "another code: " + said;
      for (const char* part : {"userfaultfd is refused", "open it without strict", "kReported"})
        if (said.find(part) == said.npos) return "lacks " + std::string(part) + ": " + said;
    }
    strict.tracking = Tracking::kReported;
    Store::open(path(), strict).close();
    return "";
  });
  EXPECT_EQ(child.wait(), "");
}

TEST_F(StoreTest, RootsOfTheLibraryAreRefused) {
  Store store = Store::open(path(), options());
  void* const block = store.allocate(16);
  for (const char* name : {"perdura.transactions", "perdura.container"}) {
    expect_error([&] { store.set_root(name, block); }, Code::kInvalidArgument, "library's own");
    expect_error([&] { store.root<Counter>(name); }, Code::kInvalidArgument, "library's own");
  }
  EXPECT_EQ(store.audit().live_blocks, 1);
}

struct Account {
  Field<u64> money;
  Field<u64> number;
  u64 unreported = 0;
};

TEST_F(StoreTest, FieldsReportTheirStores) {
  for (Tracking tracking : {Tracking::kReported, Tracking::kBitmap}) {
    std::filesystem::remove(path());
    {
      Store store = Store::open(path(), options(tracking));
      auto& account = store.root<Account>("account");
      store.checkpoint();
      {
        auto op = store.operation();
        account.money = 5;
        account.money += 4;
        ++account.number;
      }
      store.checkpoint();
      account.money = 1;  // not durable
      auto dropped = [&] { throw std::runtime_error("crash"); };
      try {
        const Store inner = std::move(store);
        dropped();
      } catch (const std::runtime_error&) {
      }
    }
    Store store = Store::open(path(), options(tracking));
    auto& account = store.root<Account>("account");
    EXPECT_EQ(account.money.get(), 9u);
    EXPECT_EQ(account.number.get(), 1u);
  }
}

/// Not part of its callers, whose name a finding would have.
[[gnu::noinline]] void store_unreported(u64* to, u64 value) {
  *to = value;
  asm volatile("" ::: "memory");  // nor called in their place
}

TEST_F(StoreTest, VerifyReportsNamesTheStoreThatNobodyReported) {
  Options verify = options(Tracking::kReported);
  verify.verify_reports = true;
  Store store = Store::open(path(), verify);
  auto& account = store.root<Account>("account");
  store.checkpoint();
  EXPECT_EQ(store.unreported_stores(), std::vector<std::string>());
  {
    auto op = store.operation();
    account.money = 1;
  }
  store.checkpoint();
  EXPECT_EQ(store.statistics().unreported, 0u);
  auto* block = static_cast<u64*>(store.allocate(200));
  store.checkpoint();
  {
    auto op = store.operation();
    block[20] = 1;
  }
  store.checkpoint();
  const std::vector<std::string> found = store.unreported_stores();
  ASSERT_EQ(found.size(), 1u);
  char address[32];
  std::snprintf(address, sizeof address, "%p", static_cast<void*>(block));
  EXPECT_NE(found[0].find("was not reported (in the block of"), std::string::npos) << found[0];
  EXPECT_NE(found[0].find(address), std::string::npos) << found[0] << " lacks " << address;
  EXPECT_EQ(store.statistics().unreported, 1u);
}

// A line that was found is watched: whoever stores to it without a report is named the next time.
// Others that store to its page are not.
TEST_F(StoreTest, VerifyReportsNamesWhoStoredToALineThatIsFoundAgain) {
  Options verify = options(Tracking::kReported);
  verify.verify_reports = true;
  Store store = Store::open(path(), verify);
  auto* block = static_cast<u64*>(store.allocate(2 * kPageBytes, kPageBytes));
  store.checkpoint();
  for (u64 value = 1; value <= 3; ++value) {
    {
      auto op = store.operation();
      store_unreported(&block[20], value);
      for (u64 i = 64; i < 2 * kPageBytes / sizeof(u64); ++i) {
        op.touch(&block[i], sizeof(u64));
        block[i] = value;
      }
    }
    store.checkpoint();
  }
  EXPECT_EQ(block[20], 3u);
  const std::vector<std::string> found = store.unreported_stores();
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].find("stored to by"), std::string::npos) << found[0];
  for (const std::string& each : {found[1], found[2]}) {
    const size_t at = each.find("; stored to by ");
    ASSERT_NE(at, std::string::npos) << each;
    EXPECT_NE(each.find("store_unreported(", at), std::string::npos) << each;
    EXPECT_EQ(each.find("; stored to by ", at + 1), std::string::npos) << each;
  }
}

// Threads store to a page that is watched, beside each other and in vectors that lie across its
// end: all that they store is there.
TEST_F(StoreTest, VerifyReportsChangesNothingOfWhatIsStored) {
  Options verify = options(Tracking::kReported);
  verify.verify_reports = true;
  Store store = Store::open(path(), verify);
  constexpr u64 kCount = 4 * kPageBytes / sizeof(u64);
  auto* block = static_cast<u64*>(store.allocate(kCount * sizeof(u64), kPageBytes));
  store.checkpoint();
  for (u64 round = 1; round <= 3; ++round) {
    std::vector<std::thread> threads;
    for (u64 own = 0; own < 4; ++own)
      threads.emplace_back([&, own] {
        auto op = store.operation();
        for (u64 i = own; i < kCount; i += 4) block[i] = round * kCount + i;
      });
    for (std::thread& each : threads) each.join();
    for (u64 i = 0; i < kCount; ++i) ASSERT_EQ(block[i], round * kCount + i);
    {
      auto op = store.operation();
      std::memset(reinterpret_cast<std::byte*>(block) + 3, static_cast<int>(round), 2 * kPageBytes);
    }
    for (u64 i = 1; i < 2 * kPageBytes / sizeof(u64); ++i)
      ASSERT_EQ(block[i], round * 0x0101010101010101u);
    store.checkpoint();
  }
  EXPECT_GT(store.statistics().unreported, kCount * sizeof(u64) / kLineBytes);
}

TEST_F(StoreTest, ATakenRangeIsNamed) {
  Options placed = options();
  placed.region_address = 0x5510'0000'0000;
  {
    Store store = Store::open(path(), placed);
    store.set_root("block", store.allocate(8));  // of no known type, so it stays where it is
  }
  void* taken = ::mmap(reinterpret_cast<void*>(placed.region_address + kMiB), 4096, PROT_READ,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  ASSERT_NE(taken, MAP_FAILED);
  expect_error([&] { Store::open(path(), options()); }, Code::kAddressTaken, "is taken by '");
  expect_error([&] { Store::open(path(), options()); }, Code::kAddressTaken, "551000100000-");
  ::munmap(taken, 4096);
  Store store = Store::open(path(), options());
  EXPECT_TRUE(store.contains(reinterpret_cast<void*>(placed.region_address)));
}

}  // namespace
}  // namespace perdura::test
