// Goal: what a program does in the wrong state, or with the system short of memory, is an error or
// does nothing, and the store and its data stay as they are.
// Method: calls on closed stores, ends of operations too many, threads that are cancelled in
// checkpoints, reports that get no memory; then the store is used.
#include <gtest/gtest.h>

#include <pthread.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <new>
#include <optional>
#include <thread>

#include <perdura/container.h>
#include <perdura/perdura.h>
#include <perdura/container.hpp>
#include <perdura/field.hpp>
#include <perdura/perdura.hpp>
#include <perdura/transaction.hpp>

#include "support/files.hpp"
#include "support/process.hpp"
#include "support/slice.hpp"

namespace perdura::test {
namespace {

class MisuseTest : public testing::Test {
 protected:
  Store open() const {
    Options options;
    options.region_limit_bytes = 64 * 1024 * 1024;
    options.tracking = Tracking::kReported;
    return Store::open(path_, options);
  }

  const TempDir folder_{TempDir::kMemory};
  const std::string path_ = "emu:" + folder_.path("state.pd");
};

template <class Call>
void expect_closed(Call&& call) {
  try {
    call();
    ADD_FAILURE() << "it succeeded";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kMisuse);
    EXPECT_NE(std::string(error.what()).find("closed"), std::string::npos) << error.what();
  }
}

void expect_all_closed(Store& store, void* block) {
  expect_closed([&] { store.checkpoint(); });
  expect_closed([&] { store.checkpoint_async(); });
  expect_closed([&] { store.checkpoint_every(std::chrono::milliseconds(1)); });
  expect_closed([&] { store.wait(1); });
  expect_closed([&] { store.allocate(8); });
  expect_closed([&] { store.deallocate(block); });
  expect_closed([&] { store.reallocate(block, 100); });
  expect_closed([&] { store.usable_size(block); });
  expect_closed([&] { const auto operation = store.operation(); });
  expect_closed([&] { store.touch(block, 8); });
  expect_closed([&] { store.get_root("block"); });
  expect_closed([&] { store.set_root("block", block); });
  expect_closed([&] { store.root<int>("number"); });
  expect_closed([&] { store.statistics(); });
  expect_closed([&] { store.audit(); });
  expect_closed([&] { store.damaged_pages(); });
  expect_closed([&] { store.unreported_stores(); });
  expect_closed([&] { store.reset_statistics(); });
  expect_closed([&] { Allocator<int> allocator(store); });
  EXPECT_FALSE(store.contains(block));
  EXPECT_EQ(store.durable_version(), 0u);
  store.close();
}

// A destructor cannot report: going on would lose what was done, and leave the thread in freed
// memory.
TEST_F(MisuseTest, AStoreThatIsDestroyedInsideAnOperationEndsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  constexpr const char* kSaid = "cannot be destroyed: .*end the operation first";
  const auto make = [&] { return std::make_optional(open()); };
  EXPECT_DEATH(
      {
        auto store = make();
        const auto operation = store->operation();
        store.reset();
      },
      kSaid);
  EXPECT_DEATH(
      {
        auto store = make();
        const auto operation = store->operation();
        *store = Store::open(path_ + "2", {});
      },
      kSaid);
  EXPECT_DEATH(
      {
        auto store = make();
        atomically(*store, [&](Transaction&) { store.reset(); });
      },
      kSaid);
  EXPECT_DEATH(
      {
        auto container = std::make_optional(Container::open(path_ + "3", {}));
        const auto operation = container->operation();
        container.reset();
      },
      kSaid);
}

TEST_F(MisuseTest, AClosedStoreSaysSo) {
  Store store = open();
  void* const block = store.allocate(64);
  store.set_root("block", block);
  store.close();
  expect_all_closed(store, block);
  std::thread([&] { expect_all_closed(store, block); }).join();
  EXPECT_EQ(open().get_root("block"), block);
}

TEST_F(MisuseTest, AStoreThatWasMovedSaysSo) {
  Store first = open();
  void* const block = first.allocate(64);
  Store second = std::move(first);
  expect_all_closed(first, block);  // NOLINT(bugprone-use-after-move)
  first = std::move(second);
  expect_all_closed(second, block);  // NOLINT(bugprone-use-after-move)
  first.deallocate(block);
}

// An enumeration in C holds any number.
TEST_F(MisuseTest, OptionsFromCThatAreNoneAreRefused) {
  for (const int number : {-1, 7, 1'000'000'000}) {
    perdura_options options{};
    for (void* const option :
         {static_cast<void*>(&options.tracking), static_cast<void*>(&options.engine),
          static_cast<void*>(&options.capture), static_cast<void*>(&options.verify),
          static_cast<void*>(&options.on_damage)}) {
      options = {};
      std::memcpy(option, &number, sizeof number);
      perdura_store* store = nullptr;
      EXPECT_EQ(perdura_open(path_.c_str(), &options, &store), -PERDURA_INVALID_ARGUMENT)
          << number << ": " << perdura_last_error();
    }
  }
}

TEST_F(MisuseTest, AnEndOfAnOperationTooMany) {
  perdura_store* store = nullptr;
  ASSERT_EQ(perdura_open(path_.c_str(), nullptr, &store), 0) << perdura_last_error();
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(perdura_operation_begin(store), 0);
    auto* const number = static_cast<long*>(perdura_alloc(store, sizeof(long)));
    *number = 7;
    ASSERT_EQ(perdura_root_set(store, "number", number), 0);
    perdura_operation_end(store);
    perdura_operation_end(store);
    EXPECT_EQ(perdura_last_code(), PERDURA_MISUSE);
    ASSERT_EQ(perdura_checkpoint(store, nullptr), 0) << perdura_last_error();
  }
  ASSERT_EQ(perdura_close(store), 0) << perdura_last_error();
  EXPECT_EQ(*static_cast<long*>(open().get_root("number")), 7);
}

// Of a container in whose operation the thread is not, though it is in another one's.
TEST_F(MisuseTest, AnEndOfAContainersOperationTooMany) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer leaves no address space for containers after other stores";
#endif
  perdura_container* containers[2] = {};
  perdura_options options{};
  options.region_limit_bytes = 64 * 1024 * 1024;
  for (int i = 0; i < 2; ++i) {
    const std::string uri = "emu:" + folder_.path("container " + std::to_string(i));
    ASSERT_EQ(perdura_container_open(uri.c_str(), &options, &containers[i]), 0)
        << perdura_last_error();
  }
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(perdura_container_begin(containers[0]), 0);
    perdura_container_end(containers[1]);
    EXPECT_EQ(perdura_last_code(), PERDURA_MISUSE);
    perdura_container_end(containers[0]);
    perdura_container* none = nullptr;
    EXPECT_NE(perdura_container_open("emu:/no folder/of this name", nullptr, &none), 0);
    EXPECT_NE(perdura_last_code(), PERDURA_MISUSE);
    perdura_container_end(containers[0]);
    EXPECT_EQ(perdura_last_code(), PERDURA_MISUSE);
    for (perdura_container* each : containers)
      ASSERT_EQ(perdura_container_point(each, nullptr), 0) << perdura_last_error();
  }
  for (perdura_container* each : containers) EXPECT_EQ(perdura_container_close(each), 0);
}

struct Counter {
  Field<long> value{0};
};

TEST_F(MisuseTest, AReportThatGetsNoMemoryThrowsBeforeTheStore) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need address space of their own";
  EXPECT_EQ(in_child([&]() -> std::string {
              Store store = open();
              auto& counter = store.root<Counter>("counter");
              std::string problem;
              std::atomic<bool> limited{false};
              std::thread thread([&] {
                limited.wait(false);
                try {
                  counter.value = 5;
                  problem = "stored";
                } catch (const Error& error) {
                  if (error.code() != Code::kNoMemory) problem = error.what();
                } catch (const std::bad_alloc&) {
                }
                if (counter.value != 0) problem += ", another value";
              });
              rlimit before{}, little{};
              ::getrlimit(RLIMIT_AS, &before);
              little = {1 << 20, before.rlim_max};
              ::setrlimit(RLIMIT_AS, &little);
              limited = true;
              limited.notify_all();
              thread.join();
              ::setrlimit(RLIMIT_AS, &before);
              std::thread([&] { counter.value = 6; }).join();
              store.checkpoint();
              return problem;
            }),
            "");
  EXPECT_EQ(open().root<Counter>("counter").value, 6);
}

TEST_F(MisuseTest, AThreadThatIsCancelledInACheckpointCompletesIt) {
  if (kSanitized) GTEST_SKIP() << "sanitizers take the stack of a cancelled thread for damaged";
  EXPECT_EQ(in_child([&]() -> std::string {
              // On a disk, where a barrier is a place to be cancelled at.
              const TempDir disk;
              Store store = Store::open("file:" + disk.path("state.pd"));
              auto* const number = static_cast<long*>(store.allocate(sizeof(long)));
              store.set_root("number", number);
              struct Work {
                Store& store;
                long* number;
                std::atomic<long> done{0};
              } work{store, number};
              for (long i = 1; i <= 50; ++i) {
                pthread_t thread{};
                ::pthread_create(
                    &thread, nullptr,
                    [](void* given) -> void* {
                      auto& mine = *static_cast<Work*>(given);
                      for (;; ++mine.done) {
                        mine.store.touch(mine.number, sizeof *mine.number);
                        ++*mine.number;
                        if (mine.done % 2 == 0) mine.store.checkpoint();
                        else mine.store.wait(mine.store.checkpoint_async());
                        ::pthread_testcancel();
                      }
                    },
                    &work);
                const long before = work.done;
                while (work.done < before + 1) std::this_thread::yield();
                ::pthread_cancel(thread);
                ::pthread_join(thread, nullptr);
                store.checkpoint();
              }
              return "";
            }),
            "");
}

}  // namespace
}  // namespace perdura::test
